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

use crate::tcp::seq::Seq;
use crate::time::Span;

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

    #[test]
    fn numbers_go_on_where_the_others_ended() {
        assert_eq!(first_behind(Seq(u32::MAX)), Seq(u32::MAX) + 65_537);
    }
}
