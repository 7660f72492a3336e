//! One socket, two families: whom an IPv6 socket hears and reaches over IPv4, and which sockets stand in each other's way.
//!
//! An IPv4 address is the same whether it is written as such or mapped into IPv6 (`::ffff:10.0.0.1`, RFC 4291 section
//! 2.5.5.2). A socket that was made for IPv6 is shown the mapped form.
//!
//! # Who hears
//! Of the sockets that have a port, the first that fits (`net/ipv4/udp.c compute_score`, `net/ipv4/inet_hashtables.c
//! inet_lookup_listener`):
//!
//! | a packet to | 1 | 2 | 3 |
//! |---|---|---|---|
//! | an IPv4 address | bound to the address | bound to `0.0.0.0` | bound to `::` without `IPV6_V6ONLY` |
//! | an IPv6 address | bound to the address | bound to `::` without it | bound to `::` with it |
//!
//! [`meet`] says who is in whose way, [`over`] who is reached.

/// What a socket was made for.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum SocketFamily {
    /// `AF_INET`.
    #[default]
    V4,
    /// `AF_INET6`: IPv4 too, by mapped addresses (`net.ipv6.bindv6only` = 0).
    V6,
    /// `AF_INET6` with `IPV6_V6ONLY`.
    V6Only,
}

/// What a socket is bound to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// `0.0.0.0`.
    AnyV4,
    /// `::`, and IPv4 too.
    AnyBoth,
    /// `::` with `IPV6_V6ONLY`.
    AnyV6,
    /// One IPv4 address.
    OneV4,
    /// One IPv6 address.
    OneV6,
}

/// Whether two sockets with one port would hear the same, so that one is refused (`EADDRINUSE`) unless both share the port.
/// `same`: both are bound to the same address.
///
/// | | `0.0.0.0` | one IPv4 | `::` | `::`, IPv6 only | one IPv6 |
/// |---|---|---|---|---|---|
/// | `0.0.0.0` | yes | yes | yes | - | - |
/// | one IPv4 | | the same | yes | - | - |
/// | `::` | | | yes | yes | yes |
/// | `::`, IPv6 only | | | | yes | yes |
/// | one IPv6 | | | | | the same |
///
/// Source: `net/ipv4/inet_connection_sock.c inet_rcv_saddr_equal`, `ipv6_rcv_saddr_equal`, with wildcards matched.
#[must_use]
pub const fn meet(a: Bound, b: Bound, same: bool) -> bool {
    use Bound as B;
    match (a, b) {
        (B::AnyBoth, _) | (_, B::AnyBoth) => true,
        (B::AnyV4, B::AnyV4 | B::OneV4) | (B::OneV4, B::AnyV4) => true,
        (B::AnyV6, B::AnyV6 | B::OneV6) | (B::OneV6, B::AnyV6) => true,
        (B::OneV4, B::OneV4) | (B::OneV6, B::OneV6) => same,
        (B::AnyV4 | B::OneV4, B::AnyV6 | B::OneV6) | (B::AnyV6 | B::OneV6, B::AnyV4 | B::OneV4) => false,
    }
}

/// An address that a program names.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// `sockaddr_in`.
    V4,
    /// `sockaddr_in6` with a mapped address.
    Mapped,
    /// `sockaddr_in6`.
    V6,
}

/// Why a socket does not reach an address.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum NotReached {
    /// `EAFNOSUPPORT`: an address of another family than the socket's.
    Family,
    /// `ENETUNREACH`: the socket has no address that packets of this family could carry.
    NoWay,
}

/// Whether a socket reaches an address, to send or to connect.
///
/// | socket | IPv4 | mapped | IPv6 |
/// |---|---|---|---|
/// | IPv4 | yes | `EAFNOSUPPORT` | `EAFNOSUPPORT` |
/// | IPv6, bound to `::` | yes | yes | yes |
/// | IPv6, bound to a mapped address | yes | yes | `EAFNOSUPPORT` |
/// | IPv6, bound to an IPv6 address | `ENETUNREACH` | `ENETUNREACH` | yes |
/// | IPv6 only | `ENETUNREACH` | `ENETUNREACH` | yes |
///
/// # Errors
/// See the table. Source: `net/ipv4/udp.c udp_sendmsg`, `net/ipv6/udp.c udpv6_sendmsg`, `net/ipv6/datagram.c
/// __ip6_datagram_connect`, `net/ipv6/ip6_output.c ip6_dst_lookup_tail`. One that is bound to an IPv6 address has 127.0.0.6
/// for IPv4 in the kernel, from which no route leads out.
pub const fn over(family: SocketFamily, bound: Bound, to: To) -> Result<(), NotReached> {
    match (family, bound, to) {
        (SocketFamily::V4, _, To::V4) => Ok(()),
        (SocketFamily::V4, _, To::Mapped | To::V6) => Err(NotReached::Family),
        (SocketFamily::V6, Bound::AnyV4 | Bound::OneV4, To::V6) => Err(NotReached::Family),
        (SocketFamily::V6, Bound::OneV6 | Bound::AnyV6, To::V4 | To::Mapped) => Err(NotReached::NoWay),
        (SocketFamily::V6, _, _) | (SocketFamily::V6Only, _, To::V6) => Ok(()),
        (SocketFamily::V6Only, _, To::V4 | To::Mapped) => Err(NotReached::NoWay),
    }
}

#[cfg(test)]
#[path = "family_tests.rs"]
mod tests;
