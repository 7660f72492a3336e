//! What is done with a connection's lock held.

use std::sync::Arc;

use napier_core::time::{Deadline, Instant};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};

use super::super::super::counters::Counter;
use super::super::super::netns::Inner;
use super::super::listener::ListenerInner;
use super::super::rules::{self, Cause, View};
use super::super::workspace::{Fault, Poll, smol_span};
use super::{Core, FORGOTTEN_RETRY, News};

impl Core {
    #[inline]
    pub(in crate::stack::tcp) fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// The connection that `listener` has got a SYN for.
    pub(in crate::stack::tcp) fn adopt(&mut self, listener: Arc<ListenerInner>) {
        self.embryo = Some(listener);
    }

    /// smoltcp's state; a socket that listens again has been reset before it was established.
    pub(in crate::stack::tcp) fn live_state(&mut self) -> State {
        if self.dead {
            return State::Closed;
        }
        match self.socket().state() {
            State::Listen => State::Closed,
            state => state,
        }
    }

    /// Closed, with nothing left to say.
    pub(super) fn is_finished(&mut self) -> bool {
        let stuck = self.outlet.is_stuck();
        let socket = self.socket();
        matches!(socket.state(), State::Closed | State::Listen) && socket.local_endpoint().is_none() && !stuck
    }

    pub(super) fn view(&mut self) -> View {
        let state = self.live_state();
        let Self { fin, read_shut, write_shut, error, .. } = *self;
        let socket = self.socket();
        let room = (socket.send_capacity() - socket.send_queue()) * 3 >= socket.send_capacity();
        View { state, queued: socket.recv_queue() > 0, room, fin, read_shut, write_shut, error }
    }

    pub(super) fn changed(&mut self, ns: &Inner, next: State, cause: Cause, news: &mut News) {
        let before = std::mem::replace(&mut self.state, next);
        let counters = &ns.counters;
        match (before, next) {
            (State::Closed, State::SynSent) => counters.count(Counter::TcpActiveOpens),
            (State::Closed, State::SynReceived) => counters.count(Counter::TcpPassiveOpens),
            (State::SynSent | State::SynReceived, State::Closed) => counters.count(Counter::TcpAttemptFails),
            (State::Established | State::CloseWait, State::Closed) => counters.count(Counter::TcpEstabResets),
            _ => {}
        }
        match (rules::is_established(before), rules::is_established(next)) {
            (false, true) => counters.count(Counter::TcpCurrEstab),
            (true, false) => counters.uncount(Counter::TcpCurrEstab),
            _ => {}
        }
        self.fin |= matches!(next, State::CloseWait | State::LastAck | State::Closing | State::TimeWait);
        if next == State::Closed && self.error == 0 {
            self.error = rules::error_of(before, cause);
        }
        if rules::is_established(next)
            && let Some(listener) = self.embryo.take()
        {
            listener.embryo_gone();
            news.established = Some(listener);
        }
        if next == State::TimeWait {
            counters.count(Counter::TcpTimeWaits);
            news.time_wait = true;
        }
    }

    /// Lets smoltcp take a packet, if there is one, and send what there is to send.
    pub(in crate::stack::tcp) fn drive(&mut self, ns: &Inner, now: Instant, packet: Option<&[u8]>) {
        self.with_poll(ns, now, |poll| match packet {
            Some(packet) => poll.receive(packet),
            None => poll.send(),
        });
        // Data that wraps round the end of the buffer leaves in two segments, and Nagle would hold the second back.
        if self.nagle && self.outlet.cut_short() && !self.dead {
            self.socket().set_nagle_enabled(false);
            self.with_poll(ns, now, |poll| poll.send());
            self.socket().set_nagle_enabled(true);
        }
    }

    /// The SYN of a new connection.
    pub(in crate::stack::tcp) fn open(&mut self, ns: &Inner, now: Instant, packet: &[u8], seed: u64) {
        self.with_poll(ns, now, |poll| poll.open(packet, seed));
    }

    pub(super) fn with_poll(
        &mut self,
        ns: &Inner,
        now: Instant,
        work: impl FnOnce(&mut Poll<'_>) -> Result<(), Fault>,
    ) {
        self.outlet.route.refresh(ns);
        self.outlet.flush(ns);
        let mtu = self.outlet.route.mtu();
        let mut sink = self.outlet.sink(ns);
        let done = work(&mut Poll { now, mtu, sockets: &mut self.sockets, sink: &mut sink });
        if std::mem::take(&mut self.outlet.sent) {
            self.read_since_sent = 0;
        }
        if done.is_err() {
            ns.counters.count(Counter::TcpFaults);
            (self.dead, self.error) = (true, libc::ECONNABORTED);
        }
    }

    pub(super) fn next_poll(&mut self, ns: &Inner, now: Instant) -> Deadline {
        let mtu = self.outlet.route.mtu();
        let mut sink = self.outlet.sink(ns);
        Poll { now, mtu, sockets: &mut self.sockets, sink: &mut sink }.next()
    }

    /// Ends the connection with a reset, unless nobody would understand one.
    pub(in crate::stack::tcp) fn abort(&mut self, ns: &Inner, now: Instant) {
        let quiet = matches!(self.state, State::SynSent | State::Closed | State::TimeWait);
        self.socket().abort();
        if quiet {
            self.dead = true;
        } else {
            self.drive(ns, now, None);
        }
    }

    /// Nobody will look at it again, but it may stand in the wheel for a while.
    pub(super) fn free_buffers(&mut self) {
        if self.socket().recv_capacity() > 0 {
            *self.socket() = Socket::new(SocketBuffer::new(Vec::new()), SocketBuffer::new(Vec::new()));
        }
    }

    /// A program closes the last handle: the clock of the silence starts.
    pub(in crate::stack::tcp) fn orphaned(&mut self, now: Instant) {
        self.orphan = true;
        self.asked = Some(now);
    }

    /// The peer has something to acknowledge, so a timer must run.
    pub(super) fn is_owed(&mut self) -> bool {
        let flag = matches!(
            self.state,
            State::SynSent | State::SynReceived | State::FinWait1 | State::Closing | State::LastAck
        );
        flag || self.socket().send_queue() > 0
    }

    pub(super) fn wants_answer(&mut self) -> bool {
        self.orphan || self.is_owed()
    }

    /// Gets a FIN sent again that smoltcp has forgotten: three duplicate acknowledgements when all but the FIN is
    /// acknowledged stop its retransmission timer, and nothing starts it again. A keep-alive makes it look, and what it
    /// sends then is the FIN.
    #[cold]
    pub(super) fn remind(&mut self, ns: &Inner, now: Instant) {
        self.socket().set_keep_alive(Some(smol_span(FORGOTTEN_RETRY)));
        self.drive(ns, now, None);
        let keep = self.keep.map(|keep| smol_span(keep.idle));
        self.socket().set_keep_alive(keep);
    }

    pub(super) fn silence_ends(&mut self) -> Deadline {
        let unacknowledged = self.socket().send_queue() > 0;
        let limit = rules::silence_max(self.state, self.orphan, unacknowledged, self.keep.as_ref());
        rules::silence_ends(self.heard, self.asked, limit)
    }

    /// The pending error, which is pending no more; 0: none.
    pub(in crate::stack::tcp) fn take_error(&mut self) -> i32 {
        std::mem::take(&mut self.error)
    }

    /// The peer will send nothing more, or nothing more is wanted.
    pub(in crate::stack::tcp) fn is_at_end(&self) -> bool {
        self.fin
    }
}
