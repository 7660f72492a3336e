//! Segments that would begin or end a connection that is there already: what RFC 5961 makes of them before the machine sees
//! them. A sender that does not know the peer's numbers gets nothing by guessing; a peer that has lost the connection learns
//! that we have it, resets it with the number that we tell, and may connect again.
//!
//! | segment, in a synchronised state | answer | source |
//! |---|---|---|
//! | RST at RCV.NXT | the connection is reset | RFC 5961 section 3.2 |
//! | RST elsewhere in the window | challenge ACK | the same |
//! | RST outside of the window | none | RFC 9293 section 3.10.7.4 |
//! | the SYN again that made an embryo | none; its SYN\|ACK is sent again by the timer | `tcp_check_req` |
//! | SYN\|ACK with that number, where both ends have opened | taken | RFC 9293 section 3.5 figure 8 |
//! | any other SYN | challenge ACK | RFC 5961 section 4.2 |
//!
//! TIME-WAIT is not among them but for resets: a SYN may begin a new connection there.

use std::sync::atomic::{AtomicU64, Ordering};

use napier_core::time::{Instant, Span};

use crate::counters::Counter;
use crate::tcp::Tcp;
use crate::tcp::conn::Core;
use crate::tcp::machine::{Inbound, TcpState};
use crate::wire::flag;

/// Between two challenges on one connection. Source: `net.ipv4.tcp_invalid_ratelimit`.
pub(in crate::tcp) const CHALLENGE_GAP: Span = Span { ns: 500_000_000 };
/// Challenges of a name space per second, on average. Source: RFC 5961 section 7; `net.ipv4.tcp_challenge_ack_limit`.
const CHALLENGES_PER_SECOND: u32 = 1000;

/// What is done with a segment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in crate::tcp) enum Reaction {
    /// The machine has it.
    Pass,
    /// It is dropped.
    Ignore,
    /// It is dropped, and its sender is told where the connection stands.
    Challenge,
}

/// What is expected of the peer.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp) struct Expected {
    /// RCV.NXT.
    pub(in crate::tcp) next: u32,
    /// Bytes that there is room for from there on; at least the window that the peer was told.
    pub(in crate::tcp) room: u32,
}

/// The table above. `seq` is the segment's number.
pub(in crate::tcp) fn judge(state: TcpState, flags: u8, seq: u32, expected: Expected) -> Reaction {
    let beyond = seq.wrapping_sub(expected.next);
    let (syn, rst) = (flags & flag::SYN != 0, flags & flag::RST != 0);
    match state {
        TcpState::Closed | TcpState::SynSent => Reaction::Pass,
        _ if rst && beyond == 0 => Reaction::Pass,
        // An answer would begin the wait anew.
        TcpState::TimeWait if rst => Reaction::Ignore,
        _ if rst => {
            if beyond < expected.room {
                Reaction::Challenge
            } else {
                Reaction::Ignore
            }
        }
        _ if !syn => Reaction::Pass,
        TcpState::SynReceived if beyond == u32::MAX => Reaction::Pass,
        TcpState::TimeWait => Reaction::Pass,
        TcpState::SynReceived
        | TcpState::Established
        | TcpState::FinWait1
        | TcpState::FinWait2
        | TcpState::CloseWait
        | TcpState::Closing
        | TcpState::LastAck => Reaction::Challenge,
    }
}

impl Core {
    /// Whether a segment with SYN or RST is dealt with here, so that the machine must not get it.
    #[cold]
    pub(in crate::tcp) fn parries(&mut self, tcp: &Tcp, now: Instant, seg: &Inbound<'_>) -> bool {
        match judge(self.state(), seg.flags, seg.seq.0, self.expected()) {
            Reaction::Pass => return false,
            Reaction::Ignore => {}
            Reaction::Challenge => self.challenge(tcp, now, seg.flags & flag::SYN != 0),
        }
        true
    }

    /// RCV.NXT and the room behind it.
    pub(in crate::tcp) fn expected(&self) -> Expected {
        let receiver = &self.machine.receiver;
        Expected { next: receiver.next().0, room: receiver.window() }
    }

    /// Source: `net/ipv4/tcp_input.c tcp_send_challenge_ack`, `__tcp_oow_rate_limited`.
    fn challenge(&mut self, tcp: &Tcp, now: Instant, of_syn: bool) {
        if of_syn {
            tcp.tables.counters.count(Counter::TcpSynChallenges);
        }
        let soon = self.challenged.is_some_and(|at| now < at + CHALLENGE_GAP);
        if soon || !tcp.challenges.take(now, |second| tcp.draw(second)) {
            return tcp.tables.counters.count(Counter::TcpChallengesSkipped);
        }
        self.challenged = Some(now);
        tcp.tables.counters.count(Counter::TcpChallengeAcks);
        self.machine.acknowledge();
        self.drive(&tcp.tables, now);
    }
}

/// How many challenges the running second has left: second in the upper half, number in the lower.
pub(in crate::tcp) struct Challenges(AtomicU64);

impl Challenges {
    pub(in crate::tcp) const fn new() -> Self {
        Self(AtomicU64::new(u64::MAX << 32))
    }

    /// Takes one, if there is one. A second begins with half of the limit and a random part of the whole, so that no station
    /// can count the challenges of others by what is left for it. Source: `tcp_send_challenge_ack`, CVE-2016-5696.
    fn take(&self, now: Instant, draw: impl Fn(u64) -> u64) -> bool {
        let second = (now.ns / 1_000_000_000) & u64::from(u32::MAX);
        let take = |word: u64| {
            let left = if word >> 32 == second {
                word & u64::from(u32::MAX)
            } else {
                u64::from(CHALLENGES_PER_SECOND / 2) + draw(second) % u64::from(CHALLENGES_PER_SECOND)
            };
            left.checked_sub(1).map(|left| second << 32 | left)
        };
        // Relaxed: a number that orders nothing.
        self.0.try_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::tests::STATES;

    #[test]
    fn the_table() {
        // Near the end of the numbers, so that the window lies across it.
        let expected = Expected { next: u32::MAX - 5, room: 100 };
        for state in STATES {
            let of = |flags, offset: u32| judge(state, flags, expected.next.wrapping_add(offset), expected);
            let unknown = matches!(state, TcpState::Closed | TcpState::SynSent);
            let waits = state == TcpState::TimeWait;
            for rst in [flag::RST, flag::RST | flag::ACK, flag::RST | flag::SYN] {
                assert_eq!(of(rst, 0), Reaction::Pass, "{state:?}");
                for within in [1, 50, 99] {
                    let expected = match () {
                        () if unknown => Reaction::Pass,
                        () if waits => Reaction::Ignore,
                        () => Reaction::Challenge,
                    };
                    assert_eq!(of(rst, within), expected, "{state:?} {within}");
                }
                for outside in [100, 1 << 31, u32::MAX] {
                    let expected = if unknown { Reaction::Pass } else { Reaction::Ignore };
                    assert_eq!(of(rst, outside), expected, "{state:?} {outside}");
                }
            }
            for offset in [0, 7, 1 << 30, u32::MAX] {
                let again = state == TcpState::SynReceived && offset == u32::MAX;
                let free = unknown || waits;
                let answer = |passes| if passes { Reaction::Pass } else { Reaction::Challenge };
                assert_eq!(of(flag::SYN, offset), answer(free || again), "{state:?} {offset}");
                assert_eq!(of(flag::SYN | flag::ACK, offset), answer(free || again), "{state:?} {offset}");
                assert_eq!(of(flag::ACK, offset), Reaction::Pass);
                assert_eq!(of(flag::FIN | flag::ACK, offset), Reaction::Pass);
            }
        }
    }

    #[test]
    fn a_full_buffer_still_takes_the_exact_reset() {
        let expected = Expected { next: 7, room: 0 };
        assert_eq!(judge(TcpState::Established, flag::RST, 7, expected), Reaction::Pass);
        assert_eq!(judge(TcpState::Established, flag::RST, 8, expected), Reaction::Ignore);
    }

    #[test]
    fn a_second_has_a_limit_that_nobody_knows() {
        let challenges = Challenges::new();
        let at = |secs: u64| Instant::from_ns(secs * 1_000_000_000 + 7);
        let count = |secs, draw| (0..5000).filter(|_| challenges.take(at(secs), |_| draw)).count();
        assert_eq!(count(5, 0), 500);
        assert_eq!(count(5, 99), 0, "the same second draws once");
        assert_eq!(count(6, 999), 1499);
        assert_eq!(count(7, 1000), 500);
    }
}
