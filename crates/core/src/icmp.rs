//! What routers and hosts say of our packets (ICMP errors), and how long the packets of a path may be.
//!
//! # Errors
//!
//! Who is told what depends on the socket, as in `net/ipv4/tcp_ipv4.c tcp_v4_err` and `net/ipv4/udp.c __udp4_lib_err`:
//!
//! | socket | a hard error | a soft one |
//! |---|---|---|
//! | TCP that connects | it ends with the error, at once | the same |
//! | TCP that is connected | kept: the error if it ends by silence | the same |
//! | UDP that is connected | the error of its next call | nothing |
//! | UDP that is not | nothing | nothing |
//! | UDP with `IP_RECVERR` | the error of its next call | the same |
//!
//! # Path MTU
//!
//! "Too big" lowers what a path takes ([`lowered`]); a path that loses full packets without a word is seen by
//! retransmissions without an answer ([`BlackHole`]). Nothing here raises a path's MTU: what was learnt is forgotten after
//! [`EXPIRES_AFTER`], and longer packets are tried again (RFC 1191 section 6.3).
//!
//! What we say of the packets of others is in [`answers`].

pub mod answers;

use crate::time::Span;

/// An error of a socket, by its name in `errno(3)`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// `ENETUNREACH`.
    NetUnreachable,
    /// `EHOSTUNREACH`.
    HostUnreachable,
    /// `ENOPROTOOPT`: the host has no such protocol.
    NoProtocol,
    /// `ECONNREFUSED`.
    Refused,
    /// `EMSGSIZE`.
    TooBig,
    /// `EOPNOTSUPP`: a source route failed.
    NotSupported,
    /// `EHOSTDOWN`.
    HostDown,
    /// `ENONET`: the host is not on the network.
    NoNet,
    /// `EACCES`: a policy forbids it.
    Denied,
    /// `EPROTO`: a header was wrong.
    Protocol,
}

/// What a message says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What programs see of it.
    pub error: Error,
    /// It is no passing trouble.
    pub hard: bool,
}

/// What kind of message it is; "too big" is another matter ([`lowered`]).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// "Destination unreachable", with its code.
    Unreachable(u8),
    /// "Time exceeded".
    TimeExceeded,
    /// "Parameter problem".
    Parameter,
}

impl Message {
    /// What an ICMP message means; `None` for a code that is not known. Source: `net/ipv4/icmp.c icmp_err_convert`, and the
    /// callers' switches over types.
    #[must_use]
    pub const fn told_v4(self) -> Option<Told> {
        use Error as E;
        let (error, hard) = match self {
            Self::TimeExceeded => (E::HostUnreachable, false),
            Self::Parameter => (E::Protocol, true),
            Self::Unreachable(code) => match code {
                0 | 11 => (E::NetUnreachable, false),
                1 | 12 => (E::HostUnreachable, false),
                2 => (E::NoProtocol, true),
                3 => (E::Refused, true),
                4 => (E::TooBig, false),
                5 => (E::NotSupported, false),
                6 | 9 => (E::NetUnreachable, true),
                7 => (E::HostDown, true),
                8 => (E::NoNet, true),
                10 | 13..=15 => (E::HostUnreachable, true),
                _ => return None,
            },
        };
        Some(Told { error, hard })
    }

    /// As [`told_v4`](Self::told_v4) for ICMPv6. Source: `net/ipv6/icmp.c tab_unreach`, `icmpv6_err_convert`.
    #[must_use]
    pub const fn told_v6(self) -> Told {
        use Error as E;
        let (error, hard) = match self {
            Self::TimeExceeded => (E::HostUnreachable, false),
            Self::Unreachable(0) => (E::NetUnreachable, false),
            Self::Unreachable(2 | 3) => (E::HostUnreachable, false),
            Self::Unreachable(4) => (E::Refused, true),
            Self::Unreachable(1 | 5 | 6) => (E::Denied, true),
            Self::Unreachable(_) | Self::Parameter => (E::Protocol, true),
        };
        Told { error, hard }
    }
}

/// What a TCP connection does about an error.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum OnConnection {
    /// It ends with the error.
    Ends,
    /// It goes on; if it ends by silence, this was why.
    GoesOn,
}

impl OnConnection {
    /// The table above. `connecting`: no answer to its SYN has come. Even a hard error does not end a connection that
    /// stands (RFC 1122 section 4.2.3.9 would allow it; RFC 5927 section 5.2 says why not).
    #[must_use]
    pub const fn of(connecting: bool) -> Self {
        if connecting { Self::Ends } else { Self::GoesOn }
    }
}

/// Whether a UDP socket has this error from its next call on. `wants_all`: it has `IP_RECVERR`.
#[must_use]
pub const fn is_for_datagrams(told: Told, connected: bool, wants_all: bool) -> bool {
    wants_all || connected && told.hard
}

/// Least MTU that an IPv4 path is believed to have. Source: `net/ipv4/route.c DEFAULT_MIN_PMTU`. Forged messages could make a
/// connection send tiny packets otherwise (RFC 5927 section 7).
pub const MTU_MIN_V4: u32 = 552;
/// Least MTU of IPv6 (RFC 8200 section 5).
pub const MTU_MIN_V6: u32 = 1280;
/// How long a lowered MTU is believed. Source: `net/ipv4/route.c DEFAULT_MTU_EXPIRES`.
pub const EXPIRES_AFTER: Span = Span::from_secs(600);

/// MTUs that networks have or had: what is tried where a router does not say its own (RFC 1191 section 7). Source:
/// `net/ipv4/icmp.c`, `ip_rt_frag_needed` of old.
const PLATEAUS: [u32; 7] = [32_000, 17_914, 8166, 4352, 2002, 1492, 576];

/// What the MTU of a path is now that a router said `told` of a packet of `packet_bytes`; `None`: the message changes
/// nothing, because it is no news or cannot be true. `now`: what it was.
///
/// | the router says | IPv4 | IPv6 |
/// |---|---|---|
/// | nothing (0), as routers before RFC 1191 | the next lower plateau | nothing |
/// | less than the least | the least | nothing (RFC 8201 section 4) |
/// | at least what the path has, or the packet had | nothing | nothing |
#[must_use]
pub fn lowered(v4: bool, told: u32, packet_bytes: u32, now: u32) -> Option<u32> {
    let mtu = match (v4, told) {
        (true, 0) => PLATEAUS.into_iter().find(|plateau| *plateau < packet_bytes.min(now))?,
        (true, told) => told.max(MTU_MIN_V4),
        (false, told) if told < MTU_MIN_V6 => return None,
        (false, told) => told,
    };
    (mtu < now && told < packet_bytes).then_some(mtu)
}

/// Retransmissions by the timer after which full packets are taken for lost on their way. Source: RFC 1122 section 4.2.3.5
/// `R1`; `net.ipv4.tcp_retries1`, where `tcp_mtu_probing` begins.
const SILENT_MAX: u8 = 3;

/// What retransmissions by the timer say of a path that never says "too big" (RFC 4821 section 7.7, RFC 2923 section 2.1).
///
/// | the same byte was sent again by the timer | in a packet of more than | then the packets have at most |
/// |---|---|---|
/// | less than 3 times | - | as before |
/// | 3 times | 1280 bytes | 1280 |
/// | 3 times more, over IPv4 | 576 bytes | 576 |
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct BlackHole {
    at: u32,
    times: u8,
}

impl BlackHole {
    /// The segment at `seq` was sent again because nothing was heard, in a packet of `packet_bytes`. What packets may have
    /// from now on, if that changes.
    #[must_use]
    pub fn sent_again(&mut self, v4: bool, seq: u32, packet_bytes: u32) -> Option<u32> {
        if self.at != seq {
            *self = Self { at: seq, times: 0 };
        }
        self.times += 1;
        if self.times < SILENT_MAX {
            return None;
        }
        self.times = 0;
        let steps = [MTU_MIN_V6, 576];
        steps[..1 + usize::from(v4)].iter().copied().find(|step| *step < packet_bytes)
    }
}

#[cfg(test)]
#[path = "icmp_tests.rs"]
mod tests;
