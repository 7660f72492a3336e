//! TIME-WAIT: a connection that is over stays for as long as segments of it may be on their way, so that they are not taken for those of the
//! next one between the same ends.
//!
//! What may take its place before: a SYN of the peer that is newer (RFC 6191), and a connection that we open, by the rule below. Its first number is
//! behind all that the old one can have sent, and its timestamps are later, by which the peer knows it.
//!
//! | [`Reuse`] | the peer has timestamps, and said nothing for [`REUSE_AFTER`] | a connection that we open takes the place |
//! |---|---|---|
//! | any | no | no |
//! | `Never` | yes | no |
//! | `InProcess` | yes | if both ends are in this process |
//! | `Always` | yes | yes |
//!
//! What comes meanwhile ([`PastConnection::on_late`]; RFC 9293 section 3.10.7.4, first row: RFC 1337):
//!
//! | segment | [`OnLate`] |
//! |---|---|
//! | RST | `Ignore` |
//! | SYN that is newer: its number is behind all that came, or its timestamp is later, and it has none that is older | `Reopen` |
//! | FIN again, whose acknowledgement got lost | `Again` |
//! | nothing but that the peer has all: its answer would be answered in turn | `Ignore` |
//! | any other | `Answer` |

use crate::tcp::options::Stamps;
use crate::tcp::seq::Seq;
use crate::time::{Instant, Span};

/// How long it lasts. Source: `include/net/tcp.h TCP_TIMEWAIT_LEN`; RFC 9293 section 3.4.2 has two maximum segment lifetimes, which is four minutes.
pub const LASTS: Span = Span::from_secs(60);
/// Source: `net.ipv4.tcp_tw_reuse_delay`.
pub const REUSE_AFTER: Span = Span::from_secs(1);
/// Connections that may be in it. Source: `net.ipv4.tcp_max_tw_buckets` with 4 GiB of memory.
pub const BUCKETS_MAX: usize = 16_384;

/// Whether connections that we open may take the place of one in TIME-WAIT (`net.ipv4.tcp_tw_reuse`).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Reuse {
    /// No (0).
    Never = 0,
    /// Over a link within one process, where nothing is late (2; the kernel's is the loopback device).
    #[default]
    InProcess = 2,
    /// Yes (1).
    Always = 1,
}

/// What is known of a connection in TIME-WAIT, and of the way to its peer.
#[derive(Copy, Clone, Debug)]
pub struct Remains {
    /// Both ends of the way are in this process.
    pub in_process: bool,
    /// Since the peer's last timestamp; `None`: it has none.
    pub silent: Option<Span>,
}

/// Whether a connection that we open may take its place. Source: `net/ipv4/tcp_ipv4.c tcp_twsk_unique`.
#[must_use]
pub fn may_reuse(reuse: Reuse, place: &Remains) -> bool {
    let wanted = match reuse {
        Reuse::Never => false,
        Reuse::InProcess => place.in_process,
        Reuse::Always => true,
    };
    wanted && place.silent.is_some_and(|silent| silent > REUSE_AFTER)
}

/// The first number of a connection that takes the place of one whose next number was `next`: behind all that a window without scale would
/// have let it send. Source: `net/ipv4/tcp_minisocks.c tcp_timewait_state_process`.
#[must_use]
pub fn first_behind(next: Seq) -> Seq {
    next + (u32::from(u16::MAX) + 2)
}

/// What has to be known of a connection that is over.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PastConnection {
    /// Behind all that we have sent.
    pub sent: Seq,
    /// Behind all that the peer has sent.
    pub expected: Seq,
    /// The peer's last timestamp, and when it came; `None`: the connection has none.
    pub stamp: Option<(u32, Instant)>,
}

/// A segment that comes for it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LateSegment {
    /// Its number.
    pub seq: Seq,
    /// Behind its last one.
    pub end: Seq,
    /// It would begin a connection: SYN without ACK.
    pub opens: bool,
    /// FIN.
    pub ends: bool,
    /// RST.
    pub resets: bool,
    /// Timestamps.
    pub stamps: Option<Stamps>,
}

/// What is done with it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum OnLate {
    /// Nothing.
    Ignore,
    /// Its sender is told where the connection stands, unless that was told too often.
    Answer,
    /// The same in any case, and the time begins anew.
    Again,
    /// A new connection takes the place, with this first number, if a socket listens; else as [`Answer`](Self::Answer).
    Reopen(Seq),
}

impl PastConnection {
    /// By the table above.
    pub fn on_late(&self, now: Instant, seg: &LateSegment) -> OnLate {
        match () {
            () if seg.resets => OnLate::Ignore,
            () if seg.opens && self.is_older_than(now, seg) => OnLate::Reopen(first_behind(self.sent)),
            () if seg.ends && seg.end == self.expected => OnLate::Again,
            () if seg.seq == self.expected && seg.end == seg.seq => OnLate::Ignore,
            () => OnLate::Answer,
        }
    }

    /// Source: `net/ipv4/tcp_minisocks.c tcp_timewait_state_process`.
    fn is_older_than(&self, now: Instant, syn: &LateSegment) -> bool {
        let stamps = self.stamp.zip(syn.stamps);
        let outdated = stamps.is_some_and(|((recent, at), stamps)| stamps.is_outdated(recent, now - at));
        let later = stamps.is_some_and(|((recent, _), stamps)| Seq(stamps.value).is_after(Seq(recent)));
        !outdated && (syn.seq.is_after(self.expected) || later)
    }

    /// The first number of a connection of ours in its place, if that may be opened now.
    #[must_use]
    pub fn gives_way(&self, now: Instant, reuse: Reuse, in_process: bool) -> Option<Seq> {
        let silent = self.stamp.map(|(_, at)| now - at);
        may_reuse(reuse, &Remains { in_process, silent }).then(|| first_behind(self.sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_by_the_table() {
        let late = Span { ns: REUSE_AFTER.ns + 1 };
        for (reuse, elsewhere, here) in
            [(Reuse::Never, false, false), (Reuse::InProcess, false, true), (Reuse::Always, true, true)]
        {
            for (in_process, may) in [(false, elsewhere), (true, here)] {
                assert_eq!(
                    may_reuse(reuse, &Remains { in_process, silent: Some(late) }),
                    may,
                    "{reuse:?} {in_process}"
                );
                for silent in [None, Some(REUSE_AFTER), Some(Span::ZERO)] {
                    assert!(!may_reuse(reuse, &Remains { in_process, silent }), "{reuse:?} {silent:?}");
                }
            }
        }
        assert_eq!(Reuse::default(), Reuse::InProcess);
    }

    /// A connection that is over, with or without timestamps, and a segment that says nothing new.
    fn over(stamped: bool) -> (PastConnection, LateSegment, Instant) {
        let now = Instant::ZERO + Span::from_secs(9);
        let expected = Seq(u32::MAX - 1);
        let ended = PastConnection { sent: Seq(7), expected, stamp: stamped.then_some((u32::MAX, now)) };
        let stamps = stamped.then_some(Stamps { value: u32::MAX, echo: 0 });
        (ended, LateSegment { seq: expected, end: expected, opens: false, ends: false, resets: false, stamps }, now)
    }

    #[test]
    fn what_comes_late_is_judged_by_the_table() {
        for stamped in [false, true] {
            let (ended, bare, now) = over(stamped);
            let next = ended.expected;
            let fin = LateSegment { seq: next - 1, ends: true, ..bare };
            let rows = [
                (bare, OnLate::Ignore),
                (fin, OnLate::Again),
                (LateSegment { seq: next - 9, ..fin }, OnLate::Again),
                (LateSegment { end: next - 1, ..fin }, OnLate::Answer),
                (LateSegment { seq: next, end: next + 1, ..fin }, OnLate::Answer),
                (LateSegment { end: next + 1, ..bare }, OnLate::Answer),
                (LateSegment { seq: next - 1, end: next - 1, ..bare }, OnLate::Answer),
                (LateSegment { seq: next + 1, end: next + 1, ..bare }, OnLate::Answer),
                (LateSegment { seq: next - 2, end: next - 1, opens: true, ..bare }, OnLate::Answer),
            ];
            for (segment, expected) in rows {
                assert_eq!(ended.on_late(now, &segment), expected, "{segment:?}");
                let reset = LateSegment { resets: true, ..segment };
                assert_eq!(ended.on_late(now, &reset), OnLate::Ignore, "{reset:?}");
            }
        }
    }

    #[test]
    fn a_syn_that_is_newer_takes_the_place() {
        // Each number beside each timestamp: what is later in either begins, unless the timestamp is older.
        for (number, newer) in [(-(1 << 30), false), (-1, false), (0, false), (1, true), (1 << 30, true)] {
            let seq = Seq(over(true).0.expected.0.wrapping_add_signed(number));
            let syn = |bare| LateSegment { seq, end: seq + 1, opens: true, ..bare };
            for (stamp, older, later) in [(0, false, false), (1, false, true), (-1, false, false), (-2, true, false)] {
                let (ended, bare, now) = over(true);
                let value = u32::MAX.wrapping_add_signed(stamp);
                let syn = LateSegment { stamps: Some(Stamps { value, echo: 0 }), ..syn(bare) };
                let begins = !older && (newer || later);
                let expected = if begins { OnLate::Reopen(Seq(7 + 65_537)) } else { OnLate::Answer };
                assert_eq!(ended.on_late(now, &syn), expected, "{number} {stamp}");
                // After 24 days no timestamp is older.
                let (long, later) = (now + crate::tcp::options::STAMP_FOR, newer || later);
                assert_eq!(ended.on_late(long, &syn) != OnLate::Answer, later, "{number} {stamp}");
            }
            // Where one of the two has none, the number alone says it.
            let stamps = Some(Stamps { value: 0, echo: 0 });
            for (stamped, stamps) in [(true, None), (false, stamps), (false, None)] {
                let (ended, bare, now) = over(stamped);
                let syn = LateSegment { stamps, ..syn(bare) };
                assert_eq!(ended.on_late(now, &syn) != OnLate::Answer, newer, "{number} {stamped} {stamps:?}");
            }
        }
    }

    #[test]
    fn what_we_open_asks_when_the_peer_was_heard() {
        let (ended, _, now) = over(true);
        let late = now + Span { ns: REUSE_AFTER.ns + 1 };
        assert_eq!(ended.gives_way(late, Reuse::Always, false), Some(Seq(7 + 65_537)));
        assert_eq!(ended.gives_way(late, Reuse::InProcess, false), None);
        assert_eq!(ended.gives_way(now + REUSE_AFTER, Reuse::Always, true), None);
        assert_eq!(over(false).0.gives_way(late, Reuse::Always, true), None);
    }

    #[test]
    fn numbers_go_on_where_the_others_ended() {
        assert_eq!(first_behind(Seq(u32::MAX)), Seq(u32::MAX) + 65_537);
    }
}
