//! What the owner of a connection does.

use std::sync::Arc;

use napier_core::time::{Deadline, Instant, Span};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};

use crate::counters::Counter;
use crate::tables::Tables;
use crate::tcp::by_age::LimitKind;
use crate::tcp::congestion::CongestionControl;
use crate::tcp::conn::challenge::Expected;
use crate::tcp::conn::settle::SocketFacts;
use crate::tcp::conn::{Conn, Core, FORGOTTEN_RETRY, News};
use crate::tcp::listener::ListenerInner;
use crate::tcp::rules::{self, Cause, Patience, View};
use crate::tcp::workspace::{Fault, Poll, smol_span};
use smoltcp::socket::tcp::CongestionControl as Algorithm;

impl Core {
    #[inline]
    pub(in crate::tcp) fn socket(&self) -> &Socket<'static> {
        self.sockets.get(self.handle)
    }

    /// What is done to it may change when it wants to be polled.
    #[inline]
    pub(in crate::tcp) fn socket_mut(&mut self) -> &mut Socket<'static> {
        self.next = None;
        self.sockets.get_mut(self.handle)
    }

    /// The connection that `listener` has got a SYN for.
    pub(in crate::tcp) fn adopt(&mut self, listener: Arc<ListenerInner<Conn>>, patience: Patience) {
        self.embryo = Some(listener);
        self.set_patience(patience);
    }

    /// How long to bear with a silent peer, and when to probe it.
    pub(in crate::tcp) fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
        if self.is_unasked() {
            return;
        }
        let keep = patience.keep.map(|keep| smol_span(keep.idle.max(Span { ns: 1000 })));
        self.socket_mut().set_keep_alive(keep);
    }

    /// As [`set_patience`](Self::set_patience), later. Where keep-alive is switched on its idle time begins (as in
    /// `net/ipv4/tcp_timer.c` `tcp_set_keepalive`).
    pub(in crate::tcp) fn change_patience(&mut self, patience: Patience, now: Instant) {
        // Where an answer is owed, the silence has begun with that.
        if self.patience.keep.is_none() && patience.keep.is_some() && self.asked.is_none() {
            self.heard = now;
        }
        self.set_patience(patience);
    }

    /// Keep-alive was switched on while packets could flow, and the first idle time is not over. smoltcp does not know of
    /// it yet: it would begin with a probe.
    pub(super) fn is_unasked(&mut self) -> bool {
        let wanted = self.patience.keep.is_some();
        wanted
            && self.socket().keep_alive().is_none()
            && !matches!(self.socket().state(), State::Closed | State::Listen | State::SynSent | State::SynReceived)
    }

    /// When smoltcp is to begin with probes.
    #[inline]
    pub(super) fn asks_at(&mut self) -> Deadline {
        let Some(idle) = self.patience.keep.map(|keep| keep.idle) else { return Deadline::NEVER };
        if self.is_unasked() { Deadline::after(self.heard, idle) } else { Deadline::NEVER }
    }

    /// smoltcp's state; a socket that listens again has been reset before it was established.
    #[inline]
    pub(in crate::tcp) fn live_state(&self) -> State {
        let state = self.socket().state();
        self.live(state)
    }

    /// The same where smoltcp's state is known.
    #[inline]
    pub(super) fn live(&self, state: State) -> State {
        match state {
            _ if self.dead => State::Closed,
            State::Listen => State::Closed,
            state => state,
        }
    }

    /// State at the end of the last settling.
    pub(in crate::tcp) fn state(&self) -> State {
        self.state
    }

    /// RCV.NXT and the room behind it; `None` before anything was acknowledged.
    pub(in crate::tcp) fn expected(&self) -> Option<Expected> {
        let first = self.outlet.first_ack()?;
        let next = first.wrapping_add(self.taken).wrapping_add(self.fin.into());
        let socket = self.socket();
        let room = u32::try_from(socket.recv_capacity() - socket.recv_queue()).unwrap_or(u32::MAX);
        Some(Expected { next, room })
    }

    #[inline]
    pub(super) fn look(&self) -> SocketFacts {
        let socket = self.socket();
        let (unsent, capacity) = (socket.send_queue(), socket.send_capacity());
        let room = (capacity - unsent) * 3 >= capacity;
        let bound = socket.local_endpoint().is_some();
        SocketFacts { state: socket.state(), queued: socket.recv_queue(), unsent, room, bound }
    }

    #[inline]
    pub(super) fn view(&self, look: &SocketFacts) -> View {
        let Self { fin, read_shut, write_shut, error, .. } = *self;
        let SocketFacts { state, queued, room, .. } = *look;
        View { state: self.live(state), queued: queued > 0, room, fin, read_shut, write_shut, error }
    }

    pub(super) fn changed(&mut self, tables: &Tables, next: State, cause: Cause, news: &mut News) {
        let before = std::mem::replace(&mut self.state, next);
        let counters = &tables.counters;
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
            self.error = self.why_silent(cause).unwrap_or_else(|| rules::error_of(before, cause));
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
    pub(in crate::tcp) fn drive(&mut self, tables: &Tables, now: Instant, packet: Option<&[u8]>) {
        self.with_poll(tables, now, |poll| match packet {
            Some(packet) => poll.receive(packet),
            None => poll.send(),
        });
        // Data that wraps round the end of the buffer leaves in two segments, and Nagle would hold the second back.
        if self.nagle && self.outlet.cut_short() && !self.dead {
            self.socket_mut().set_nagle_enabled(false);
            self.with_poll(tables, now, |poll| poll.send());
            self.socket_mut().set_nagle_enabled(true);
        }
    }

    /// The SYN of a new connection.
    pub(in crate::tcp) fn open(&mut self, tables: &Tables, now: Instant, packet: &[u8], seed: u64) {
        self.with_poll(tables, now, |poll| poll.open(packet, seed));
        self.synack_begins(now);
    }

    pub(in crate::tcp) fn with_poll(
        &mut self,
        tables: &Tables,
        now: Instant,
        work: impl FnOnce(&mut Poll<'_>) -> Result<Deadline, Fault>,
    ) {
        self.outlet.route.refresh_at(tables, now);
        self.outlet.flush(tables);
        let mtu = self.outlet.route.mtu();
        let mut sink = self.outlet.sink(tables);
        let done = work(&mut Poll { now, mtu, sockets: &mut self.sockets, sink: &mut sink });
        if std::mem::take(&mut self.outlet.sent) {
            self.read_since_sent = 0;
        }
        if let Some(end) = self.outlet.sent_again.take()
            && self.controlled
        {
            self.losses.sent_again(end, self.outlet.sent_to().expect("it was sent before"));
        }
        self.next = done.ok();
        if self.next.is_none() {
            tables.counters.count(Counter::TcpFaults);
            (self.dead, self.error) = (true, libc::ECONNABORTED);
        }
    }

    /// When smoltcp wants to be polled again.
    #[inline]
    pub(super) fn next_poll(&mut self, tables: &Tables, now: Instant) -> Deadline {
        self.next.take().unwrap_or_else(|| self.ask_next_poll(tables, now))
    }

    fn ask_next_poll(&mut self, tables: &Tables, now: Instant) -> Deadline {
        let mtu = self.outlet.route.mtu();
        let mut sink = self.outlet.sink(tables);
        Poll { now, mtu, sockets: &mut self.sockets, sink: &mut sink }.next()
    }

    /// Ends the connection with a reset, unless the peer would not understand one.
    pub(in crate::tcp) fn abort(&mut self, tables: &Tables, now: Instant) {
        let quiet = matches!(self.state, State::SynSent | State::Closed | State::TimeWait);
        self.socket_mut().abort();
        if quiet {
            self.dead = true;
        } else {
            self.drive(tables, now, None);
        }
    }

    /// No program will look at it again, but it may stand in the wheel for a while.
    pub(super) fn free_buffers(&mut self) {
        if self.socket().recv_capacity() > 0 {
            *self.socket_mut() = Socket::new(SocketBuffer::new(Vec::new()), SocketBuffer::new(Vec::new()));
        }
    }

    /// A program closes the last handle: the clock of the silence starts.
    pub(in crate::tcp) fn orphaned(&mut self, now: Instant) {
        self.orphan = true;
        self.asked = Some(now);
        self.got_on = now;
    }

    /// An orphan that comes nearer to its end may take longer.
    #[inline]
    pub(super) fn note_progress(&mut self, now: Instant, unsent: usize) {
        if self.orphan {
            let left = (self.state, unsent);
            if std::mem::replace(&mut self.left, left) != left {
                self.got_on = now;
            }
        }
    }

    pub(in crate::tcp) fn is_embryo(&self) -> bool {
        self.embryo.is_some()
    }

    /// The connection is not over, as it is in TIME-WAIT.
    pub(in crate::tcp) fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed | State::Listen | State::TimeWait)
    }

    /// The peer has something to acknowledge, so a timer must run.
    #[inline]
    pub(super) fn is_owed(&self, unsent: usize) -> bool {
        let flag = matches!(
            self.state,
            State::SynSent | State::SynReceived | State::FinWait1 | State::Closing | State::LastAck
        );
        flag || unsent > 0
    }

    /// Gets a FIN sent again that smoltcp has forgotten: three duplicate acknowledgements when all but the FIN is
    /// acknowledged stop its retransmission timer, and nothing starts it again. A keep-alive makes it look, and what it
    /// sends then is the FIN.
    #[cold]
    pub(super) fn remind(&mut self, tables: &Tables, now: Instant) {
        self.socket_mut().set_keep_alive(Some(smol_span(FORGOTTEN_RETRY)));
        self.drive(tables, now, None);
        let keep = self.patience.keep.map(|keep| smol_span(keep.idle));
        self.socket_mut().set_keep_alive(keep);
    }

    /// When the peer has been silent for too long, with `unsent` bytes that it has not acknowledged.
    #[inline]
    pub(in crate::tcp) fn silence_ends(&self, unsent: usize) -> Deadline {
        let limit = rules::silence_max(self.state, self.orphan, unsent > 0, &self.patience);
        if self.orphan {
            // What the peer says counts only as far as the connection gets on.
            return rules::silence_ends(self.got_on, None, limit);
        }
        rules::silence_ends(self.heard, self.asked, limit)
    }

    /// The pending error, which is pending no more; 0: none. Only that the engine has stopped stays pending.
    pub(in crate::tcp) fn take_error(&mut self) -> i32 {
        if self.error == libc::ESHUTDOWN { self.error } else { std::mem::take(&mut self.error) }
    }

    /// The peer will send nothing more, or nothing more is wanted.
    pub(in crate::tcp) fn is_at_end(&self) -> bool {
        self.fin
    }

    /// What the connection counts as now.
    #[inline]
    pub(in crate::tcp) fn kind(&self) -> LimitKind {
        match () {
            () if self.dead => LimitKind::Plain,
            () if self.is_embryo() => LimitKind::Embryo,
            () if self.orphan && self.is_open() => LimitKind::Orphan,
            () => LimitKind::Plain,
        }
    }

    /// What the program wants, or what suits the device that leads to the peer.
    pub(in crate::tcp) fn set_congestion(&mut self, wanted: Option<CongestionControl>) {
        let by_device =
            if self.outlet.route.is_in_process() { CongestionControl::None } else { CongestionControl::Reno };
        let control = wanted.unwrap_or(by_device);
        self.controlled = control != CongestionControl::None;
        let algorithm = match control {
            CongestionControl::None => Algorithm::None,
            CongestionControl::Reno => Algorithm::Reno,
            CongestionControl::Cubic => Algorithm::Cubic,
        };
        self.socket_mut().set_congestion_control(algorithm);
    }
}
