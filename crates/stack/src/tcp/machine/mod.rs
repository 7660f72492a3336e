//! The protocol machine of one connection: segments in, segments out, a time to be asked again. It reads no clock, knows no device, and
//! nothing that a peer sends makes it panic or take more memory than the window that it offered. The rules are
//! [`napier_core::tcp`]'s.
//!
//! | state | event | state then | source |
//! |---|---|---|---|
//! | (none) | the program connects: SYN | SYN-SENT | RFC 9293 section 3.10.1 |
//! | (none) | SYN for a listener: SYN\|ACK | SYN-RECEIVED | 3.10.7.2 |
//! | SYN-SENT | SYN\|ACK of our SYN: ACK | ESTABLISHED | 3.10.7.3 |
//! | SYN-SENT | SYN: SYN\|ACK | SYN-RECEIVED | the same; both ends open |
//! | SYN-SENT | RST of our SYN | CLOSED | the same |
//! | SYN-RECEIVED | our SYN is acknowledged | ESTABLISHED, or FIN-WAIT-1 if the program has closed | 3.10.7.4 |
//! | ESTABLISHED | FIN | CLOSE-WAIT | the same |
//! | ESTABLISHED, CLOSE-WAIT | the program closes | FIN-WAIT-1, LAST-ACK; the FIN leaves behind the data | 3.10.4 |
//! | FIN-WAIT-1 | our FIN is acknowledged | FIN-WAIT-2 | 3.10.7.4 |
//! | FIN-WAIT-1 | FIN | CLOSING, or TIME-WAIT if it acknowledges ours | the same |
//! | FIN-WAIT-2 | FIN | TIME-WAIT | the same |
//! | CLOSING, LAST-ACK | our FIN is acknowledged | TIME-WAIT, CLOSED | the same |
//! | TIME-WAIT | FIN: ACK | TIME-WAIT, from the beginning | the same |
//! | TIME-WAIT | SYN that is newer than the connection | a new connection | 3.10.7.4, RFC 6191 |
//! | TIME-WAIT | [`LASTS`](napier_core::tcp::time_wait::LASTS) is over | CLOSED | 3.6.1 |
//! | all but SYN-SENT and TIME-WAIT | RST with the number that is expected | CLOSED | RFC 5961 section 3.2 |
//! | any | the program aborts: RST, unless the peer knows nothing of the connection | CLOSED | 3.10.5 |
//!
//! What is done with a segment that is not acceptable, with RST and SYN in a connection that stands, is in `conn/challenge`: such
//! segments do not come here but where the table there says so.
//!
//! # Files
//! `segment` is what comes and leaves, `ring` bytes in order. `receiver` and `sender` are the two directions and do not know each other.
//! Above them the machine: `handshake`, `input`, `output`, `calls` of a program, `timers`.

mod calls;
mod handshake;
mod input;
mod output;
mod receiver;
mod ring;
mod segment;
mod sender;
mod timers;

#[cfg(test)]
pub(in crate::tcp) mod tests;

use napier_core::tcp::congestion::Control;
use napier_core::tcp::options::{Stamps, SynOptions, Written};
use napier_core::tcp::seq::Seq;
use napier_core::tcp::space::{RECEIVE_FIRST, RECEIVE_MAX, SEND_FIRST, SEND_MAX};
use napier_core::tcp::time_wait::{LASTS, PastConnection};
use napier_core::time::{Deadline, Instant, Span};

pub(in crate::tcp) use receiver::Receiver;
pub(in crate::tcp) use segment::{Departure, Inbound};
pub(in crate::tcp) use sender::Sender;

use crate::wire::flag;

/// Segment size of a peer that names none (RFC 9293 section 3.7.1).
const SEGMENT_DEFAULT: u16 = 536;
/// Least that is believed of a peer. Source: `net/ipv4/tcp.c TCP_MIN_MSS`.
const SEGMENT_MIN: u16 = 88;
/// Least of a path: 68 bytes with both headers (RFC 791 section 3.2).
const PATH_MIN: u32 = 28;
/// Answers in [`ANSWERS_IN`] to segments that carry nothing and do not belong to the connection: two ends that disagree would answer each
/// other for ever. Probes of keep-alive are among them, as often as a program likes. Source: `net.ipv4.tcp_invalid_ratelimit`, with one.
const ANSWERS_MAX: u16 = 600;
const ANSWERS_IN: Span = Span::from_ms(500);

/// State of a connection (RFC 9293 section 3.3.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::tcp) enum TcpState {
    Closed,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

/// Least room of a buffer. Source: `SOCK_MIN_RCVBUF`.
const ROOM_MIN: usize = 2304;

/// What a program has said of a buffer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in crate::tcp) struct Room {
    pub(in crate::tcp) first: u32,
    /// It grows up to this.
    pub(in crate::tcp) max: u32,
}

impl Room {
    pub(in crate::tcp) const RECEIVE: Self = Self { first: RECEIVE_FIRST, max: RECEIVE_MAX };
    pub(in crate::tcp) const SEND: Self = Self { first: SEND_FIRST, max: SEND_MAX };

    /// It grows no further than this.
    pub(in crate::tcp) fn up_to(self, bytes: usize) -> Self {
        let max = bytes.clamp(ROOM_MIN, self.max as usize) as u32;
        Self { first: self.first.min(max), max }
    }

    pub(in crate::tcp) const fn fixed(bytes: u32) -> Self {
        Self { first: bytes, max: bytes }
    }
}

/// Where the numbers of a machine begin, which no other station can know.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in crate::tcp) struct TcpNumbers {
    pub(in crate::tcp) first: Seq,
    /// The clock of its timestamps.
    pub(in crate::tcp) clock: u32,
}

/// What a machine begins with.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp) struct Beginning {
    pub(in crate::tcp) numbers: TcpNumbers,
    /// Bytes that a packet of the path has behind its IP header and the 20 bytes of TCP's.
    pub(in crate::tcp) segment: u32,
    pub(in crate::tcp) receive: Room,
    pub(in crate::tcp) send: Room,
    pub(in crate::tcp) control: Control,
}

/// Timestamps of a connection that has them (RFC 7323).
#[derive(Copy, Clone, Debug)]
struct Clocks {
    /// Ours begins here.
    zero: u32,
    /// The peer's, as it is echoed.
    recent: u32,
    recent_at: Instant,
}

impl Clocks {
    /// Milliseconds.
    #[inline]
    fn at(&self, now: Instant) -> u32 {
        self.zero.wrapping_add((now.ns / 1_000_000) as u32)
    }

    #[inline]
    fn stamps(&self, now: Instant) -> Stamps {
        Stamps { value: self.at(now), echo: self.recent }
    }
}

/// The SYN of our side.
#[derive(Copy, Clone, Debug)]
struct Opening {
    /// It is to be sent.
    due: bool,
    again: bool,
    sent_at: Instant,
    /// What it says.
    offer: SynOptions,
    stamped: bool,
}

/// What came of a segment.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::tcp) struct Accepted {
    /// Bytes that came in order by it.
    pub(in crate::tcp) bytes: u32,
    /// It is of this connection, and not from before.
    pub(in crate::tcp) heard: bool,
    /// It has acknowledged something new, or has answered where nothing is under way or may be.
    pub(in crate::tcp) advances: bool,
}

/// What has to be known of a connection in TIME-WAIT, where its machine is not kept.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp) struct Rest {
    pub(in crate::tcp) ended: PastConnection,
    /// The window field of an answer.
    pub(in crate::tcp) window: u16,
    /// Where the clock of our timestamps begins.
    pub(in crate::tcp) clock: u32,
}

impl Rest {
    /// Tells the peer where the connection stands.
    pub(in crate::tcp) fn answer(&self, now: Instant) -> Departure {
        let mut options = Written::default();
        if let Some((recent, recent_at)) = self.ended.stamp {
            options.stamps(Clocks { zero: self.clock, recent, recent_at }.stamps(now));
        }
        let PastConnection { sent, expected, .. } = self.ended;
        Departure {
            seq: sent,
            ack: expected,
            flags: flag::ACK,
            window: self.window,
            options,
            at: 0,
            len: 0,
            again: false,
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(in crate::tcp) struct TcpMachine {
    state: TcpState,
    /// The latest time that it was given.
    latest: Instant,
    clocks: Clocks,
    /// Both ends have timestamps.
    stamped: bool,
    pub(in crate::tcp) sender: Sender,
    pub(in crate::tcp) receiver: Receiver,
    opening: Opening,
    /// Our first number.
    first: Seq,
    /// Probes of a silent peer: after how long, and then each.
    keep: Option<(Span, Span)>,
    keep_at: Deadline,
    /// A segment is to be sent that the peer has to answer.
    probe: bool,
    /// The end of TIME-WAIT.
    gone_at: Deadline,
    /// When memory that was not used since is given back.
    trim_at: Deadline,
    /// A reset with this number is to be sent.
    reset: Option<Seq>,
    /// Since when answers are counted, and how many there were.
    answers: (Instant, u16),
    begin: Beginning,
}

impl TcpMachine {
    fn new(state: TcpState, now: Instant, begin: &Beginning) -> Self {
        let segment = begin.segment.max(PATH_MIN);
        Self {
            state,
            latest: now,
            clocks: Clocks { zero: begin.numbers.clock, recent: 0, recent_at: now },
            stamped: false,
            sender: Sender::new(now, begin.numbers.first, segment, begin.send, begin.control),
            receiver: Receiver::new(now, begin.receive, segment),
            opening: Opening { due: true, again: false, sent_at: now, offer: SynOptions::default(), stamped: true },
            first: begin.numbers.first,
            keep: None,
            keep_at: Deadline::NEVER,
            probe: false,
            gone_at: Deadline::NEVER,
            trim_at: Deadline::NEVER,
            reset: None,
            answers: (now, 0),
            begin: *begin,
        }
    }

    /// The time, which never goes back: a poll reads the clock once for many segments, a program's call at its own time.
    #[inline]
    fn latest(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
    }

    pub(in crate::tcp) fn state(&self) -> TcpState {
        self.state
    }

    /// There is something to say after the end.
    pub(in crate::tcp) fn owes_reset(&self) -> bool {
        self.reset.is_some()
    }

    /// Both ends have timestamps.
    pub(in crate::tcp) fn is_stamped(&self) -> bool {
        self.stamped
    }

    /// The peer has said nothing since the clock began, for a test that does not wait.
    #[cfg(test)]
    pub(in crate::tcp) fn pretend_silent(&mut self) {
        self.clocks.recent_at = Instant::ZERO;
    }

    fn is_synchronised(&self) -> bool {
        !matches!(self.state, TcpState::Closed | TcpState::SynSent | TcpState::SynReceived)
    }

    /// Our side is over by a reset, ours or the peer's, or in peace.
    fn ends(&mut self) {
        self.state = TcpState::Closed;
        self.sender.ends();
        (self.keep_at, self.gone_at, self.probe) = (Deadline::NEVER, Deadline::NEVER, false);
        self.opening.due = false;
    }

    /// What is known of it in TIME-WAIT; `None`: it is not there.
    pub(super) fn ended(&self) -> Option<PastConnection> {
        let stamp = self.stamped.then_some((self.clocks.recent, self.clocks.recent_at));
        let ended = PastConnection { sent: self.sender.next, expected: self.receiver.next, stamp };
        (self.state == TcpState::TimeWait).then_some(ended)
    }

    /// All that is needed of it in TIME-WAIT, and when that is over; `None`: it is not there.
    pub(in crate::tcp) fn rest(&mut self) -> Option<(Rest, Instant)> {
        let (ended, until) = (self.ended()?, self.gone_at.instant()?);
        Some((Rest { ended, window: self.receiver.tell(), clock: self.clocks.zero }, until))
    }

    fn waits_out(&mut self, now: Instant) {
        self.state = TcpState::TimeWait;
        self.sender.ends();
        self.keep_at = Deadline::NEVER;
        self.gone_at = Deadline::after(now, LASTS);
    }
}
