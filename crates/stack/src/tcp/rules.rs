//! What follows from what: conditions, errors, counters and deadlines, as functions of values.

use napier_core::time::{Deadline, Instant, Span};

use crate::event::Interest;
use crate::tcp::machine::TcpState;

/// Why a connection was closed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A segment did.
    Segment,
    /// We gave up.
    Silence,
    /// The program wanted it.
    Program,
}

/// What a socket looks like from outside.
#[derive(Copy, Clone, Debug)]
pub(super) struct View {
    pub(super) state: TcpState,
    /// There is something to read.
    pub(super) queued: bool,
    /// A third of the send buffer is free.
    pub(super) room: bool,
    /// The peer has sent its FIN.
    pub(super) fin: bool,
    /// `shutdown(SHUT_RD)`.
    pub(super) read_shut: bool,
    /// `shutdown(SHUT_WR)`.
    pub(super) write_shut: bool,
    /// Pending error number; 0: none.
    pub(super) error: i32,
}

/// The conditions that hold. Source: `net/ipv4/tcp.c tcp_poll`.
#[inline]
pub(super) fn ready(view: &View) -> Interest {
    let closed = view.state == TcpState::Closed;
    let connecting = matches!(view.state, TcpState::SynSent | TcpState::SynReceived);
    let receive_shut = view.fin || view.read_shut || closed;
    let send_shut = view.write_shut || closed;
    let mut ready = Interest::NONE;
    if receive_shut && send_shut {
        ready = ready | Interest::HUP;
    }
    if receive_shut {
        ready = ready | Interest::IN | Interest::RDHUP;
    }
    if view.error != 0 {
        ready = ready | Interest::ERR;
    }
    if connecting {
        return ready;
    }
    if view.queued {
        ready = ready | Interest::IN;
    }
    if send_shut || view.room {
        ready = ready | Interest::OUT;
    }
    ready
}

/// The error that a program sees. Source: `net/ipv4/tcp_input.c tcp_reset`, `net/ipv4/tcp_timer.c tcp_write_err`.
pub(super) fn error_of(before: TcpState, cause: Cause) -> i32 {
    match (cause, before) {
        (Cause::Program, _) => 0,
        (Cause::Silence, _) => libc::ETIMEDOUT,
        (Cause::Segment, TcpState::SynSent) => libc::ECONNREFUSED,
        (Cause::Segment, TcpState::CloseWait) => libc::EPIPE,
        // Nobody is told of the end of a connection that has ended.
        (Cause::Segment, TcpState::LastAck | TcpState::TimeWait | TcpState::Closed) => 0,
        (Cause::Segment, _) => libc::ECONNRESET,
    }
}

/// Whether a program that closes with a linger time waits: our end is not acknowledged. Source: `net/core/stream.c sk_stream_closing`.
pub(super) fn lingers(state: TcpState) -> bool {
    match state {
        TcpState::FinWait1 | TcpState::Closing | TcpState::LastAck => true,
        TcpState::Closed
        | TcpState::SynSent
        | TcpState::SynReceived
        | TcpState::Established
        | TcpState::FinWait2
        | TcpState::CloseWait
        | TcpState::TimeWait => false,
    }
}

/// Whether a state counts as established (RFC 4022 tcpCurrEstab).
pub(super) fn is_established(state: TcpState) -> bool {
    matches!(state, TcpState::Established | TcpState::CloseWait)
}

/// Keep-alive settings of a connection (`SO_KEEPALIVE`, `TCP_KEEPIDLE`, `TCP_KEEPINTVL`, `TCP_KEEPCNT`).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct KeepAlive {
    pub(super) idle: Span,
    pub(super) interval: Span,
    pub(super) probes: u32,
}

/// How long a program bears with a silent peer.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Patience {
    pub(super) keep: Option<KeepAlive>,
    /// `TCP_USER_TIMEOUT` (RFC 5482).
    pub(super) user: Option<Span>,
}

/// How long the peer may be silent before a connection is given up.
///
/// | state | limit | source |
/// |---|---|---|
/// | SYN-SENT | the user time-out, or 127 s | `tcp_syn_retries` = 6 |
/// | SYN-RECEIVED | 63 s | `tcp_synack_retries` = 5 |
/// | closed by the program | 60 s without getting on | `tcp_fin_timeout`; the kernel counts retries before FIN-WAIT-2 |
/// | else, with keep-alive | idle time + interval * probes; with a user time-out that, but not before the first probe had an interval | `tcp_keepalive_timer` |
/// | else | none | |
pub(super) fn silence_max(state: TcpState, orphan: bool, patience: &Patience) -> Option<Span> {
    match state {
        TcpState::Closed | TcpState::TimeWait => None,
        TcpState::SynSent => Some(patience.user.unwrap_or(Span::from_secs(127))),
        TcpState::SynReceived => Some(Span::from_secs(63)),
        TcpState::FinWait1
        | TcpState::FinWait2
        | TcpState::Closing
        | TcpState::LastAck
        | TcpState::CloseWait
        | TcpState::Established
            if orphan =>
        {
            Some(Span::from_secs(60))
        }
        TcpState::FinWait1 | TcpState::Closing | TcpState::LastAck => None,
        TcpState::Established | TcpState::CloseWait | TcpState::FinWait2 => {
            patience.keep.map(|keep| match patience.user {
                Some(user) => user.max(keep.idle + keep.interval),
                None => keep.idle + Span { ns: keep.interval.ns.saturating_mul(keep.probes.into()) },
            })
        }
    }
}

/// How long a peer that is heard may acknowledge nothing of what it owes: the user time-out, or 924 s. Source: `tcp_write_timeout`,
/// `tcp_retries2` = 15.
pub(super) fn unanswered_max(state: TcpState, unacknowledged: bool, patience: &Patience) -> Option<Span> {
    let owes = match state {
        TcpState::Closed | TcpState::TimeWait | TcpState::SynSent | TcpState::SynReceived => false,
        TcpState::FinWait1 | TcpState::Closing | TcpState::LastAck => true,
        TcpState::Established | TcpState::CloseWait | TcpState::FinWait2 => unacknowledged,
    };
    owes.then(|| patience.user.unwrap_or(Span::from_secs(924)))
}

/// When the silence is too long. It begins when the peer was heard last, or when we began to want an answer.
pub(super) fn silence_ends(heard: Instant, asked: Option<Instant>, limit: Option<Span>) -> Deadline {
    match limit {
        None => Deadline::NEVER,
        Some(limit) => Deadline::after(asked.map_or(heard, |asked| asked.max(heard)), limit),
    }
}
