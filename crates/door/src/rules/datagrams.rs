//! Options of sockets for datagrams: who has which. Source of numbers and values: `include/uapi/linux/in.h`, `in6.h`, `udp.h`; `net/ipv4/ip_sockglue.c`,
//! `net/ipv6/ipv6_sockglue.c`, `net/ipv4/udp.c`.

use napier_ring::record::{HAS_OWN, HAS_TOS, HAS_TTL};

use super::options::KeptOptions;

/// `net.core.rmem_default` and `wmem_default`, as they are told.
const BUFFER_BYTES: i32 = 212_992;
/// `include/uapi/linux/udp.h`.
pub(super) const UDP_SEGMENT: i32 = 103;
pub(super) const UDP_GRO: i32 = 104;
/// By which programs ask for errors, of either family.
const ERRORS: [(i32, i32); 2] = [(libc::IPPROTO_IP, libc::IP_RECVERR), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)];

/// Whose an option is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum DatagramRule {
    /// The pair's, which has it.
    OfPair,
    /// The engine's socket has it, or what it gives is told in heads.
    Engine,
    /// It is remembered, told when it is asked for, and does nothing.
    Kept,
    /// It can only be asked for, and the answer is known.
    Told,
    /// Programs have another way when they are told this.
    Refuse(i32),
    /// A program that wants it gets a socket of the kernel, if there can be one in its place.
    Kernel,
}

/// Who has an option.
pub(crate) const fn rule(level: i32, name: i32) -> DatagramRule {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO) => DatagramRule::OfPair,
        (
            libc::SOL_SOCKET,
            libc::SO_TYPE | libc::SO_ERROR | libc::SO_DOMAIN | libc::SO_PROTOCOL | libc::SO_ACCEPTCONN,
        ) => DatagramRule::Told,
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_SNDBUF | libc::SO_REUSEPORT)
        | (
            libc::IPPROTO_IP,
            libc::IP_TOS
            | libc::IP_TTL
            | libc::IP_MTU_DISCOVER
            | libc::IP_RECVERR
            | libc::IP_PKTINFO
            | libc::IP_RECVTOS
            | libc::IP_RECVTTL,
        )
        | (
            libc::IPPROTO_IPV6,
            libc::IPV6_V6ONLY
            | libc::IPV6_TCLASS
            | libc::IPV6_UNICAST_HOPS
            | libc::IPV6_MTU_DISCOVER
            | libc::IPV6_RECVERR
            | libc::IPV6_RECVPKTINFO
            | libc::IPV6_RECVTCLASS
            | libc::IPV6_RECVHOPLIMIT,
        ) => DatagramRule::Engine,
        (
            libc::SOL_SOCKET,
            libc::SO_REUSEADDR
            | libc::SO_BROADCAST
            | libc::SO_DONTROUTE
            | libc::SO_PRIORITY
            | libc::SO_BUSY_POLL
            | libc::SO_INCOMING_CPU
            | libc::SO_RCVLOWAT
            | libc::SO_KEEPALIVE
            | libc::SO_LINGER,
        )
        | (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL | libc::IP_MULTICAST_LOOP)
        | (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS | libc::IPV6_MULTICAST_LOOP) => DatagramRule::Kept,
        // As kernels before 4.18 and 5.0 answer; programs send and take one by one then.
        (libc::IPPROTO_UDP, UDP_SEGMENT | UDP_GRO) => DatagramRule::Refuse(libc::ENOPROTOOPT),
        (libc::SOL_SOCKET, libc::SO_ZEROCOPY) => DatagramRule::Refuse(libc::EOPNOTSUPP),
        _ => DatagramRule::Kernel,
    }
}

/// An option that is an int, as it is asked for.
pub(crate) fn told(level: i32, name: i32, is_v6: bool, options: &KeptOptions) -> i32 {
    let buffer = |asked: Option<usize>| match asked {
        None => BUFFER_BYTES,
        Some(bytes) => i32::try_from(bytes.saturating_mul(2)).unwrap_or(i32::MAX),
    };
    match (level, name) {
        // What becomes of datagrams is told by the calls that receive.
        (libc::SOL_SOCKET, libc::SO_ERROR | libc::SO_ACCEPTCONN) => 0,
        (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_DGRAM,
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_UDP,
        (libc::SOL_SOCKET, libc::SO_DOMAIN) if is_v6 => libc::AF_INET6,
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => libc::AF_INET,
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_SNDBUF) => buffer(options.buffer(name)),
        _ => options.int(level, name),
    }
}

/// Whether an option makes a socket keep errors until they are read from a queue, which none reads of a twin: it would be full of them.
pub(crate) fn is_of_errors(level: i32, name: i32) -> bool {
    ERRORS.contains(&(level, name))
}

impl KeptOptions {
    /// Whether the program wants to be told of errors without a peer.
    pub(crate) fn hears(&self) -> bool {
        ERRORS.iter().any(|(level, name)| self.int(*level, *name) != 0)
    }

    /// What the program wants to be told of each datagram: flags of heads.
    pub(crate) fn tells(&self) -> u16 {
        let is_on = |four, six| self.int(libc::IPPROTO_IP, four) != 0 || self.int(libc::IPPROTO_IPV6, six) != 0;
        let flags = [
            (is_on(libc::IP_PKTINFO, libc::IPV6_RECVPKTINFO), HAS_OWN),
            (is_on(libc::IP_RECVTOS, libc::IPV6_RECVTCLASS), HAS_TOS),
            (is_on(libc::IP_RECVTTL, libc::IPV6_RECVHOPLIMIT), HAS_TTL),
        ];
        flags.iter().filter(|(is_asked, _)| *is_asked).map(|(_, flag)| flag).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_engine_lacks_is_the_kernels_or_refused_as_old_kernels_refuse_it() {
        assert_eq!(rule(libc::IPPROTO_UDP, UDP_SEGMENT), DatagramRule::Refuse(libc::ENOPROTOOPT));
        assert_eq!(rule(libc::IPPROTO_UDP, UDP_GRO), DatagramRule::Refuse(libc::ENOPROTOOPT));
        for (level, name) in [
            (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP),
            (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP),
            (libc::SOL_SOCKET, libc::SO_BINDTODEVICE),
            (libc::SOL_SOCKET, libc::SO_MARK),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
            (99, 1),
        ] {
            assert_eq!(rule(level, name), DatagramRule::Kernel, "{level} {name}");
        }
    }

    #[test]
    fn heads_tell_what_was_asked_for_by_either_family() {
        let mut options = KeptOptions::default();
        assert_eq!(options.tells(), 0);
        let mut set = |level, name, value: i32| options.note(level, name, &value.to_ne_bytes()).expect("an int");
        set(libc::IPPROTO_IP, libc::IP_PKTINFO, 1);
        set(libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1);
        set(libc::IPPROTO_IP, libc::IP_RECVTOS, 0);
        assert_eq!(options.tells(), HAS_OWN | HAS_TTL);
        assert_eq!(told(libc::SOL_SOCKET, libc::SO_TYPE, false, &options), libc::SOCK_DGRAM);
        assert_eq!(told(libc::SOL_SOCKET, libc::SO_RCVBUF, false, &options), BUFFER_BYTES);
    }
}
