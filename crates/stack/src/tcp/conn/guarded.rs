//! What the owner of a connection does.

use std::sync::Arc;

use napier_core::tcp::seq::Seq;
use napier_core::tcp::time_wait::Reuse;
use napier_core::time::{Deadline, Instant};

use crate::counters::Counter;
use crate::tables::Tables;
use crate::tcp::by_age::LimitKind;
use crate::tcp::conn::settle::SocketFacts;
use crate::tcp::conn::{Conn, Core, News};
use crate::tcp::listener::ListenerInner;
use crate::tcp::machine::TcpState;
use crate::tcp::rules::{self, Cause, Patience, View};

/// Most packets that one call sends for a connection; more wait for the next acknowledgement, or for the timer.
const BURST_MAX: usize = 8192;

impl Core {
    /// The connection that `listener` has got a SYN for.
    pub(in crate::tcp) fn adopt(&mut self, listener: Arc<ListenerInner<Conn>>, patience: Patience, now: Instant) {
        self.embryo = Some(listener);
        self.set_patience(patience, now);
    }

    /// How long to bear with a silent peer, and when to probe it.
    pub(in crate::tcp) fn set_patience(&mut self, patience: Patience, now: Instant) {
        let keeps = self.patience.keep != patience.keep;
        self.patience = patience;
        if keeps {
            self.machine.set_keep(now, patience.keep.map(|keep| (keep.idle, keep.interval)));
        }
    }

    /// As [`set_patience`](Self::set_patience), later. Where keep-alive is switched on its idle time begins (as in
    /// `net/ipv4/tcp_timer.c` `tcp_set_keepalive`).
    pub(in crate::tcp) fn change_patience(&mut self, patience: Patience, now: Instant) {
        // Where an answer is owed, the silence has begun with that.
        if self.patience.keep.is_none() && patience.keep.is_some() && self.asked.is_none() {
            self.heard = now;
        }
        self.set_patience(patience, now);
    }

    /// The state, also after it was ended from outside.
    #[inline]
    pub(in crate::tcp) fn live_state(&self) -> TcpState {
        self.live(self.machine.state())
    }

    /// The same where the machine's is known.
    #[inline]
    pub(super) fn live(&self, state: TcpState) -> TcpState {
        if self.dead { TcpState::Closed } else { state }
    }

    /// See [`TcpMachine::gives_way`](crate::tcp::machine::TcpMachine::gives_way).
    pub(in crate::tcp) fn gives_way_to(&self, now: Instant, reuse: Reuse, in_process: bool) -> Option<Seq> {
        if self.dead { None } else { self.machine.gives_way(now, reuse, in_process) }
    }

    /// State at the end of the last settling.
    pub(in crate::tcp) fn state(&self) -> TcpState {
        self.state
    }

    #[inline]
    pub(super) fn look(&self) -> SocketFacts {
        let machine = &self.machine;
        let (unsent, capacity) = (machine.unacknowledged(), machine.sender.limit() as usize);
        let room = capacity.saturating_sub(unsent) * 3 >= capacity;
        let (state, queued) = (machine.state(), machine.unread());
        SocketFacts { state, queued, unsent, room, speaks: machine.owes_reset() }
    }

    #[inline]
    pub(super) fn view(&self, look: &SocketFacts) -> View {
        let Self { fin, read_shut, write_shut, error, .. } = *self;
        let SocketFacts { state, queued, room, .. } = *look;
        View { state: self.live(state), queued: queued > 0, room, fin, read_shut, write_shut, error }
    }

    pub(super) fn changed(&mut self, tables: &Tables, next: TcpState, cause: Cause, news: &mut News) {
        let before = std::mem::replace(&mut self.state, next);
        let counters = &tables.counters;
        match (before, next) {
            (TcpState::Closed, TcpState::SynSent) => counters.count(Counter::TcpActiveOpens),
            (TcpState::Closed, TcpState::SynReceived) => counters.count(Counter::TcpPassiveOpens),
            (TcpState::SynSent | TcpState::SynReceived, TcpState::Closed) => counters.count(Counter::TcpAttemptFails),
            (TcpState::Established | TcpState::CloseWait, TcpState::Closed) => counters.count(Counter::TcpEstabResets),
            _ => {}
        }
        match (rules::is_established(before), rules::is_established(next)) {
            (false, true) => counters.count(Counter::TcpCurrEstab),
            (true, false) => counters.uncount(Counter::TcpCurrEstab),
            _ => {}
        }
        self.fin |= matches!(next, TcpState::CloseWait | TcpState::LastAck | TcpState::Closing | TcpState::TimeWait);
        if next == TcpState::Closed && self.error == 0 {
            self.error = self.why_silent(cause).unwrap_or_else(|| rules::error_of(before, cause));
        }
        if rules::is_established(next)
            && let Some(listener) = self.embryo.take()
        {
            listener.embryo_gone();
            news.established = Some(listener);
        }
        if next == TcpState::TimeWait {
            counters.count(Counter::TcpTimeWaits);
        }
    }

    /// Sends what there is to send.
    #[inline]
    pub(in crate::tcp) fn drive(&mut self, tables: &Tables, now: Instant) {
        let Self { machine, outlet, .. } = self;
        outlet.route.refresh_at(tables, now);
        outlet.flush(tables);
        machine.set_path(now, outlet.route.segment());
        for _ in 0..BURST_MAX {
            let Some(departure) = machine.departs(now, outlet.is_stuck()) else { return };
            let data = machine.sender.bytes(departure.at, departure.len);
            outlet.send(tables, &departure, data);
        }
    }

    /// Ends the connection with a reset, unless the peer would not understand one.
    pub(in crate::tcp) fn abort(&mut self, tables: &Tables, now: Instant) {
        self.machine.abort();
        if self.machine.owes_reset() {
            self.drive(tables, now);
        } else {
            self.dead = true;
        }
    }

    /// No program will look at it again, but it may stand in the wheel for a while.
    pub(super) fn free_buffers(&mut self) {
        self.machine.free();
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
        !matches!(self.state, TcpState::Closed | TcpState::TimeWait)
    }

    /// The peer has something to acknowledge, so a timer must run.
    #[inline]
    pub(super) fn is_owed(&self, unsent: usize) -> bool {
        let flag = matches!(
            self.state,
            TcpState::SynSent | TcpState::SynReceived | TcpState::FinWait1 | TcpState::Closing | TcpState::LastAck
        );
        flag || unsent > 0
    }

    /// When the peer has been silent for too long, with `unsent` bytes that it has not acknowledged.
    #[inline]
    pub(in crate::tcp) fn silence_ends(&self, unsent: usize) -> Deadline {
        let limit = rules::silence_max(self.state, self.orphan, &self.patience);
        if self.orphan {
            // What the peer says counts only as far as the connection gets on.
            return rules::silence_ends(self.got_on, None, limit);
        }
        let unanswered = rules::unanswered_max(self.state, unsent > 0, &self.patience);
        let answer = rules::silence_ends(self.got_on, self.asked, unanswered);
        rules::silence_ends(self.heard, self.asked, limit).earliest(answer)
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
}
