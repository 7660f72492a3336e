//! What is said about the packets of others, and how often (RFC 1122 section 3.2.2, RFC 1812 section 4.3.2.8, RFC 4443 section 2.4).
//!
//! A message costs its sender little and its receiver work, and tells those who forge packets which ports there are. So there are two
//! limits, as in `net/ipv4/icmp.c icmpv4_global_allow`, `icmpv4_xrlim_allow`, and one account for both families:
//!
//! | limit | messages | at once |
//! |---|---|---|
//! | all together: `net.ipv4.icmp_msgs_per_sec`, `icmp_msgs_burst` | 1000 a second | 50 |
//! | to one host: `net.ipv4.icmp_ratelimit`, `net.ipv6.icmp.ratelimit` | 1 a second | 6 |

use alloc::vec::Vec;

use crate::time::{Instant, Span};

/// What is wrong with a packet of another station.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A datagram for a port of ours that no socket has.
    NoPort,
    /// The first piece of a packet whose rest did not come in time.
    NotWhole,
}

impl Trouble {
    /// Type and code of the message (RFC 792, RFC 4443 section 3).
    #[must_use]
    pub const fn message(self, v4: bool) -> (u8, u8) {
        match (self, v4) {
            (Self::NoPort, true) => (3, 3),
            (Self::NoPort, false) => (1, 4),
            (Self::NotWhole, true) => (11, 1),
            (Self::NotWhole, false) => (3, 1),
        }
    }
}

/// What a packet of another station is, as far as an answer depends on it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    /// The Ethernet address that it went to is a station's.
    pub to_station: bool,
    /// So is the IP address, which is one of ours.
    pub to_us: bool,
    /// It is from one station, not one of ours: no group, broadcast address or `0.0.0.0`.
    pub from_station: bool,
    /// It is no piece, or the first.
    pub begins: bool,
    /// It is an ICMP error, or an ICMP message of a type that is not known.
    pub is_error: bool,
}

impl Offence {
    /// Whether its sender may be told. Source: `net/ipv4/icmp.c __icmp_send`, `net/ipv6/icmp.c icmp6_send`.
    #[must_use]
    pub const fn is_answered(self) -> bool {
        let Self { to_station, to_us, from_station, begins, is_error } = self;
        to_station && to_us && from_station && begins && !is_error
    }
}

/// Whether an ICMP message of this type is an error, or may be one. Source: `net/ipv4/icmp.c icmp_pointers`, `net/ipv6/icmp.c
/// is_ineligible`.
#[must_use]
pub const fn may_be_error(v4: bool, kind: u8) -> bool {
    if v4 { !matches!(kind, 0 | 8..=10 | 13..=18) } else { kind < 128 }
}

/// Bytes of a whole message at most. Source: RFC 1812 section 4.3.2.3; RFC 4443 section 2.4 (c).
#[must_use]
pub const fn bytes_max(v4: bool) -> usize {
    if v4 { 576 } else { 1280 }
}

/// Messages a second. Source: `net.ipv4.icmp_msgs_per_sec`.
const PER_SECOND: u64 = 1000;
/// Messages at once. Source: `net.ipv4.icmp_msgs_burst`.
const BURST: u64 = 50;
/// Time after which there are more. Source: `net/ipv4/icmp.c icmp_global_allow`, `HZ / 50`.
const REFILLED_AFTER: Span = Span::from_ms(20);
/// Between two messages to a host. Source: `net.ipv4.icmp_ratelimit`.
const GAP: Span = Span::from_secs(1);
/// Messages to a host at once. Source: `net/ipv4/route.c inet_peer_xrlim_allow`, `XRLIM_BURST_FACTOR`.
const HOST_BURST: u64 = 6;
/// Hosts that are known. Where another takes a place, the one before it is as one that was never told anything: the limit for all
/// together holds for those.
const HOSTS: usize = 256;

/// What is said to a message that is due.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Permit {
    /// It is sent.
    Send,
    /// There were too many.
    TooMany,
    /// There were too many to this host.
    TooManyToHost,
}

#[derive(Copy, Clone)]
struct ToldHost {
    host: u128,
    /// Time that messages may use up.
    saved: Span,
    since: Instant,
}

/// How many messages there were.
pub struct AnswerLimits {
    credit: u64,
    refilled: Instant,
    /// By place; none before the first message.
    hosts: Vec<Option<ToldHost>>,
}

impl Default for AnswerLimits {
    fn default() -> Self {
        Self::new()
    }
}

impl AnswerLimits {
    /// None so far.
    #[must_use]
    pub const fn new() -> Self {
        Self { credit: BURST, refilled: Instant::ZERO, hosts: Vec::new() }
    }

    /// Whether a message to `host` may be sent. `draw`: a number that no other station can guess, which is taken for the host's place
    /// too; the same host may come with any. What a message takes of the limit for all is 0 to 2, for a station that could count what is left
    /// would know which ports are open (`net/ipv4/icmp.c icmp_global_consume`).
    pub fn take(&mut self, host: u128, (place, draw): (u64, u64), now: Instant) -> Permit {
        self.refill(now);
        if self.credit == 0 {
            return Permit::TooMany;
        }
        if self.hosts.is_empty() {
            self.hosts.resize(HOSTS, None);
        }
        let at = (place % HOSTS as u64) as usize;
        let full = Span { ns: GAP.ns * HOST_BURST };
        let known = self.hosts[at].filter(|known| known.host == host);
        let saved = known.map_or(full.ns, |known| {
            (known.saved.ns + now.ns.saturating_sub(known.since.ns).min(full.ns)).min(full.ns)
        });
        let enough = saved >= GAP.ns;
        let saved = Span { ns: saved - if enough { GAP.ns } else { 0 } };
        // Of two threads the later may have read its clock first.
        let since = known.map_or(now, |known| known.since.max(now));
        self.hosts[at] = Some(ToldHost { host, saved, since });
        if !enough {
            return Permit::TooManyToHost;
        }
        self.credit = self.credit.saturating_sub(draw % 3);
        Permit::Send
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.ns.saturating_sub(self.refilled.ns).min(1_000_000_000);
        if passed >= REFILLED_AFTER.ns {
            self.credit = (self.credit + PER_SECOND * passed / 1_000_000_000).min(BURST);
            self.refilled = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant { ns: 1 << 50 };

    #[test]
    fn what_is_answered() {
        let plain = Offence { to_station: true, to_us: true, from_station: true, begins: true, is_error: false };
        // All 32 of them.
        for bits in 0..32_u8 {
            let is = |bit: u8| bits >> bit & 1 != 0;
            let offence =
                Offence { to_station: is(0), to_us: is(1), from_station: is(2), begins: is(3), is_error: is(4) };
            assert_eq!(offence.is_answered(), offence == plain, "{offence:?}");
        }
        let errors = |v4| (0..=255).filter(move |kind| may_be_error(v4, *kind));
        for kind in [3, 4, 5, 11, 12, 1, 2, 6, 7, 19, 255] {
            assert!(errors(true).any(|error| error == kind), "{kind}");
        }
        for kind in [0, 8, 9, 10, 13, 14, 15, 16, 17, 18] {
            assert!(!errors(true).any(|error| error == kind), "{kind}");
        }
        assert!(errors(false).eq(0..128));
    }

    #[test]
    fn a_host_hears_six_at_once_and_then_one_a_second() {
        let mut limits = AnswerLimits::new();
        let mut take = |host: u128, ms: u64| limits.take(host, (host as u64, 0), START + Span::from_ms(ms));
        assert!((0..6).all(|_| take(1, 0) == Permit::Send));
        assert_eq!(take(1, 0), Permit::TooManyToHost);
        assert_eq!(take(1, 999), Permit::TooManyToHost);
        assert_eq!(take(2, 999), Permit::Send, "another");
        // What was refused costs nothing.
        assert_eq!((take(1, 1000), take(1, 1001)), (Permit::Send, Permit::TooManyToHost));
        assert_eq!((0..10).filter(|_| take(1, 100_000) == Permit::Send).count(), 6);
        // A clock that went back gives nothing.
        assert_eq!(take(1, 99_000), Permit::TooManyToHost);
        assert_eq!((take(1, 100_999), take(1, 101_000)), (Permit::TooManyToHost, Permit::Send));
    }

    #[test]
    fn all_hosts_together_have_a_limit() {
        // Any place and any host: forged senders do not get round the limit for all.
        let mut limits = AnswerLimits::new();
        let mut sent_by = |ms: u64, draw: u64| {
            let mut to = |host: u64| limits.take(host.into(), (host, draw), START + Span::from_ms(ms));
            (0..400).filter(|host| to(ms * 1000 + host) == Permit::Send).count()
        };
        assert_eq!(sent_by(0, 1), 50);
        assert_eq!(sent_by(19, 1), 0);
        assert_eq!(sent_by(20, 1), 20);
        assert_eq!(sent_by(10_000, 1), 50, "no more at once, however long it was quiet");
        assert_eq!(sent_by(20_000, 2), 25);
        let a_second: usize = (0..100).map(|step| sent_by(30_000 + step * 10, 1)).sum();
        assert!((1000..=1050).contains(&a_second), "{a_second}");
    }
}
