//! What is believed of a neighbour's Ethernet address, and for how long (neighbour unreachability detection, RFC 4861 section
//! 7.3, which Linux has for ARP as well: `net/core/neighbour.c`).
//!
//! ```text
//!             answer                30 s                 used               5 s
//!   unknown ---------> reachable ---------> stale ---------------> delay ---------> probe
//!      ^                   ^                  |                       |               |  asked up to 3 times,
//!      |                   +------------------+--------- answer ------+---------------+  a second apart
//!      |                   +------- something that was sent to it is acknowledged ----+
//!      +-------------------------------------------------- no answer -----------------+
//! ```
//!
//! Packets go to the address that is known in every state but *unknown*, so none waits for a probe. A neighbour that asks for us,
//! or tells all of a new address, is *stale*: it is asked when it is used. So nothing that was heard is believed for long
//! without an answer, and a neighbour that has moved without a word is found again after 5 + 3 seconds of use at most, once what is
//! known of it is older than 45.
//!
//! FORBIDDEN: permanent -> anything.

use crate::time::{Deadline, Instant, Span};

/// How long an answer is good for, on average: half of it to one and a half times. Source: `net/ipv4/arp.c arp_tbl`,
/// `BASE_REACHABLE_TIME`; RFC 4861 section 10 `MIN_RANDOM_FACTOR`, `MAX_RANDOM_FACTOR`.
const REACHABLE: Span = Span::from_secs(30);
/// How long a stale neighbour may be used before it is asked. Source: `arp_tbl` `DELAY_PROBE_TIME`.
const DELAY: Span = Span::from_secs(5);
/// Between two questions. Source: `arp_tbl` `RETRANS_TIME`.
const RETRANS: Span = Span::from_secs(1);
/// Questions to the address that is known. Source: `arp_tbl` `UCAST_PROBES`.
const PROBES_MAX: u8 = 3;
/// How long an address stays as it is against what does not override. Source: `arp_tbl` `LOCKTIME`, used in `arp_process`.
pub const LOCKTIME: Span = Span::from_secs(1);

/// What is believed of an address.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Nud {
    /// A user says so.
    Permanent,
    /// It has answered.
    Reachable {
        /// The answer is good until then.
        until: Instant,
    },
    /// It may be right.
    Stale,
    /// It is used, and asked unless an answer comes before this.
    Delay {
        /// When it is asked.
        until: Instant,
    },
    /// It was asked.
    Probe {
        /// How often.
        asked: u8,
        /// When again, or given up.
        next: Instant,
    },
}

/// What a neighbour has said.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// It asks for one of our addresses.
    AskedUs,
    /// It answers us.
    Answer,
    /// It tells all, or answers without a question.
    Announced,
}

/// How strong that is against another address.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Force {
    /// It replaces what is known.
    Overrides,
    /// What is known is to be asked (an advertisement without the override flag, RFC 4861 section 7.2.5).
    Doubts,
    /// None: other stations answer for the address as well, and the first is kept.
    Weak,
}

/// What is known of the neighbour that speaks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// What is believed.
    pub nud: Nud,
    /// It is the address that is known.
    pub same: bool,
}

/// What follows from what a neighbour has said.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum News {
    /// Nothing.
    None,
    /// Nothing, though it gave another address.
    Refused,
    /// It was not known, and is.
    Learnt(Nud),
    /// It was not known and not asked for; as many unsolicited ones as may are taken in.
    Stranger(Nud),
    /// It has another address.
    Moved(Nud),
    /// It has the address that it had, of which this is believed now.
    Kept(Nud),
}

impl Nud {
    /// An answer has come; `draw` is any number.
    #[must_use]
    pub fn reachable(now: Instant, draw: u64) -> Self {
        Self::Reachable { until: now + Span::from_ns(REACHABLE.ns / 2 + draw % REACHABLE.ns) }
    }

    /// What a word does. `asked`: a question of ours for an address that is not known is out.
    ///
    /// | | not known, not asked | not known, asked | the same address | another: overrides | doubts | weak |
    /// |---|---|---|---|---|---|---|
    /// | it asks for us | a stranger, stale | learnt, stale | - | moved, stale | (it overrides) | |
    /// | an answer | - | learnt, reachable | reachable | moved, reachable | stale, if it was reachable | refused |
    /// | it tells all | - | learnt, stale | - | moved, stale | the same | refused |
    ///
    /// Nothing changes what is permanent. Source: `net/ipv4/arp.c arp_process`, `net/ipv6/ndisc.c ndisc_recv_na`,
    /// `net/core/neighbour.c __neigh_update`, with `arp_accept` = 0.
    pub fn heard(word: Word, force: Force, known: Option<Known>, asked: bool, (now, draw): (Instant, u64)) -> News {
        let then = match word {
            Word::Answer => Self::reachable(now, draw),
            Word::AskedUs | Word::Announced => Self::Stale,
        };
        let Some(Known { nud, same }) = known else {
            return match (asked, word) {
                (true, _) => News::Learnt(then),
                (false, Word::AskedUs) => News::Stranger(then),
                (false, Word::Answer | Word::Announced) => News::None,
            };
        };
        match (nud, same, word, force) {
            (Self::Permanent, ..) => News::None,
            // An answer that repeats what is sure costs nothing, however often it comes.
            (Self::Reachable { .. }, true, ..) => News::None,
            (Self::Stale | Self::Delay { .. } | Self::Probe { .. }, true, Word::Answer, _) => News::Kept(then),
            (Self::Stale | Self::Delay { .. } | Self::Probe { .. }, true, Word::AskedUs | Word::Announced, _) => {
                News::None
            }
            (_, false, _, Force::Overrides) => News::Moved(then),
            (Self::Reachable { .. }, false, _, Force::Doubts) => News::Kept(Self::Stale),
            (_, false, _, Force::Doubts | Force::Weak) => News::Refused,
        }
    }

    /// A packet goes to it; what is believed from now on, if that changes.
    #[must_use]
    pub fn used(self, now: Instant) -> Option<Self> {
        (self == Self::Stale).then_some(Self::Delay { until: now + DELAY })
    }

    /// A peer has acknowledged what went to this address; what is believed from now on, if that changes. So a neighbour that is heard from in this
    /// way is not asked. Source: `net/ipv4/tcp_input.c tcp_ack` with `sk_dst_confirm`, `include/net/neighbour.h neigh_confirm`; RFC 4861 section 7.3.1. `draw` is
    /// any number.
    #[must_use]
    pub fn confirmed(self, now: Instant, draw: u64) -> Option<Self> {
        match self {
            // What is sure is not looked at again, however many acknowledgements come.
            Self::Permanent | Self::Reachable { .. } => None,
            Self::Stale | Self::Delay { .. } | Self::Probe { .. } => Some(Self::reachable(now, draw)),
        }
    }

    /// When [`ended`](Self::ended) is to be asked.
    #[must_use]
    pub fn ends(self) -> Deadline {
        match self {
            Self::Permanent | Self::Stale => Deadline::NEVER,
            Self::Reachable { until } | Self::Delay { until } => Deadline::at(until),
            Self::Probe { next, .. } => Deadline::at(next),
        }
    }

    /// Its time is over.
    pub fn ended(self, now: Instant) -> Ended {
        let asks = |asked| Ended::Asks(Self::Probe { asked, next: now + RETRANS });
        match self {
            Self::Permanent | Self::Stale => Ended::Becomes(self),
            Self::Reachable { .. } => Ended::Becomes(Self::Stale),
            Self::Delay { .. } => asks(1),
            Self::Probe { asked, .. } if asked < PROBES_MAX => asks(asked + 1),
            Self::Probe { .. } => Ended::Forgotten,
        }
    }
}

/// What comes when the time of a belief is over.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ended {
    /// This is believed.
    Becomes(Nud),
    /// The neighbour is asked at the address that is known.
    Asks(Nud),
    /// It does not answer: the next packet to it asks everybody.
    Forgotten,
}

#[cfg(test)]
#[path = "neighbour_tests.rs"]
mod tests;
