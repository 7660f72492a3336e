//! Addresses as one 128-bit number: IPv4 as `::ffff:a.b.c.d` (RFC 4291 section 2.5.5.2), so that tables have one key type.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use napier_core::family::{Bound, SocketFamily, To};

/// An IPv4 or IPv6 address. IPv4-mapped IPv6 addresses never occur on the wire side: the parser refuses them.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Addr(u128);

const V4_PREFIX: u128 = 0xffff_0000_0000;

impl Addr {
    #[cfg(test)]
    pub(crate) fn test(text: &str) -> Self {
        Self::from_ip(text.parse().expect("an address"))
    }

    pub(crate) const ANY_V4: Self = Self(V4_PREFIX);
    /// `::`, of sockets that take IPv4 too.
    pub(crate) const ANY_V6: Self = Self(0);
    /// `::`, of sockets that do not. No device and no packet of ours has this address: groups of scope 0 are reserved (RFC
    /// 4291 section 2.7).
    pub(crate) const ANY_V6_ONLY: Self = Self(0xff00 << 112);

    #[inline]
    pub(crate) fn v4(bytes: [u8; 4]) -> Self {
        Self(V4_PREFIX | u128::from(u32::from_be_bytes(bytes)))
    }

    #[inline]
    pub(crate) fn v6(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    pub(crate) fn from_ip(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => Self::v4(ip.octets()),
            IpAddr::V6(ip) => Self::v6(ip.octets()),
        }
    }

    pub(crate) fn ip(self) -> IpAddr {
        match self.as_v4() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(Ipv6Addr::from_bits(self.0)),
        }
    }

    #[inline]
    pub(crate) fn is_v4(self) -> bool {
        self.0 >> 32 == V4_PREFIX >> 32
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low 32 bits are the IPv4 address")]
    pub(crate) fn as_v4(self) -> Option<Ipv4Addr> {
        self.is_v4().then(|| Ipv4Addr::from_bits(self.0 as u32))
    }

    /// `0.0.0.0` or `::`.
    pub(crate) fn is_any(self) -> bool {
        [Self::ANY_V4, Self::ANY_V6, Self::ANY_V6_ONLY].contains(&self)
    }

    /// The wildcard that hears first of packets to this address.
    #[inline]
    pub(crate) fn any(self) -> Self {
        if self.is_v4() { Self::ANY_V4 } else { Self::ANY_V6 }
    }

    /// The wildcard that hears of them if no socket has that.
    #[cold]
    pub(crate) fn other_any(self) -> Self {
        if self.is_v4() { Self::ANY_V6 } else { Self::ANY_V6_ONLY }
    }

    /// What a socket is bound to that is bound to this.
    pub(crate) fn bound(self) -> Bound {
        match self {
            Self::ANY_V4 => Bound::AnyV4,
            Self::ANY_V6 => Bound::AnyBoth,
            Self::ANY_V6_ONLY => Bound::AnyV6,
            _ if self.is_v4() => Bound::OneV4,
            _ => Bound::OneV6,
        }
    }

    /// Multicast, or the limited IPv4 broadcast address.
    pub(crate) fn is_group(self) -> bool {
        match self.ip() {
            IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
            IpAddr::V6(ip) => ip.is_multicast(),
        }
    }

    pub(crate) fn is_link_local_v6(self) -> bool {
        self.0 >> 118 == 0xfe80 >> 6
    }

    /// Whether both are of one family and share the first `prefix_len` bits (counted in that family's address).
    pub(crate) fn in_prefix(self, other: Self, prefix_len: u8) -> bool {
        let bits = if self.is_v4() { 96 + u32::from(prefix_len) } else { u32::from(prefix_len) };
        let differ = self.0 ^ other.0;
        self.is_v4() == other.is_v4() && (bits == 0 || differ.leading_zeros() >= bits)
    }

    /// The directed broadcast address of the prefix that holds `self`, if there is one (RFC 919 section 7).
    pub(crate) fn subnet_broadcast(self, prefix_len: u8) -> Option<Self> {
        let v4 = self.as_v4().filter(|_| prefix_len < 31)?;
        let host_mask = u32::MAX.checked_shr(u32::from(prefix_len)).unwrap_or(0);
        Some(Self::v4((v4.to_bits() | host_mask).to_be_bytes()))
    }

    /// Whether all bits behind the prefix are 0: the network's address (RFC 919 section 7), or the anycast address of its
    /// routers (RFC 4291 section 2.6.1).
    pub(crate) fn is_network(self, prefix_len: u8) -> bool {
        let bits = if self.is_v4() { 96 + u32::from(prefix_len) } else { u32::from(prefix_len) };
        self.0 & u128::MAX.checked_shr(bits).unwrap_or(0) == 0
    }

    /// The 128 bits as two words, for hashing.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "cut into two words on purpose")]
    pub(crate) fn words(self) -> (u64, u64) {
        ((self.0 >> 64) as u64, self.0 as u64)
    }
}

impl std::fmt::Debug for Addr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.ip().fmt(f)
    }
}

/// One end of a flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) addr: Addr,
    pub(crate) port: u16,
}

impl End {
    /// A mapped address is that of IPv4.
    pub(crate) fn from_socket_addr(addr: &SocketAddr) -> Self {
        Self { addr: Addr::from_ip(addr.ip()), port: addr.port() }
    }

    /// `ifindex` becomes the scope of a link-local IPv6 address, as `recvfrom` reports it.
    #[inline]
    pub(crate) fn socket_addr(self, ifindex: u32) -> SocketAddr {
        match self.addr.ip() {
            IpAddr::V4(ip) => SocketAddr::new(IpAddr::V4(ip), self.port),
            IpAddr::V6(ip) => {
                let scope = if self.addr.is_link_local_v6() { ifindex } else { 0 };
                SocketAddr::V6(SocketAddrV6::new(ip, self.port, 0, scope))
            }
        }
    }
}

impl End {
    /// As a socket of this family shows it.
    #[inline]
    pub(crate) fn shown(self, family: SocketFamily, ifindex: u32) -> SocketAddr {
        let shown = self.socket_addr(ifindex);
        match shown {
            SocketAddr::V4(v4) if family != SocketFamily::V4 => (v4.ip().to_ipv6_mapped(), self.port).into(),
            SocketAddr::V6(_) if self.addr == Addr::ANY_V6_ONLY => (Ipv6Addr::UNSPECIFIED, self.port).into(),
            _ => shown,
        }
    }
}

/// How a program names an address.
pub(crate) fn to(addr: &SocketAddr) -> To {
    match addr {
        SocketAddr::V4(_) => To::V4,
        SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some() => To::Mapped,
        SocketAddr::V6(_) => To::V6,
    }
}

/// Whether an Ethernet address is that of one station: neither a group address nor all zeros.
pub(crate) fn is_station(mac: [u8; 6]) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}
