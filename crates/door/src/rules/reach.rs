//! Which addresses are the engine's.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

/// Whose stack an address belongs to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    Engine,
    Kernel,
}

/// What the engine's device reaches.
#[derive(Clone, Default, Debug)]
pub struct Reach {
    /// Addresses of the device, with the lengths of their prefixes in bits.
    pub addresses: Vec<(IpAddr, u8)>,
    /// It knows a way to all IPv4 addresses, and to all IPv6 addresses.
    pub gateways: [bool; 2],
    /// Of its addresses, the ports that are the engine's; none: all of them.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Of what it reaches, the networks that are the engine's, with the lengths of their prefixes; none: all of it.
    pub peers: Vec<(IpAddr, u8)>,
}

impl Reach {
    /// Where a socket is bound: the engine's addresses and the wildcards are the engine's. What comes to a wildcard over the kernel's
    /// interfaces is for its twin.
    pub(crate) fn of_own(&self, address: SocketAddr) -> Whose {
        let has_port = self.ports.is_empty() || self.ports.iter().any(|ports| ports.contains(&address.port()));
        if self.has_address(address.ip()) && has_port { Whose::Engine } else { Whose::Kernel }
    }

    fn has_address(&self, address: IpAddr) -> bool {
        plain(address).is_unspecified() || self.is_own(address)
    }

    /// Whether it is one of the engine's own addresses: what connects there is for a program on this engine.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        let address = plain(address);
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    /// Where a connection leads: the engine's own addresses, what is on its link, and with a gateway what is beyond it. Loopback is the kernel's, and so is the
    /// wildcard, which means loopback (`net/ipv4/route.c` `ip_route_output_key_hash_rcu`).
    pub(crate) fn of_peer(&self, address: IpAddr) -> Whose {
        let address = plain(address);
        if address.is_loopback() || address.is_unspecified() {
            return Whose::Kernel;
        }
        if self.is_own(address) {
            return Whose::Engine;
        }
        let on_link = self.addresses.iter().any(|(own, prefix)| is_within(*own, *prefix, address));
        let beyond = self.gateways[usize::from(address.is_ipv6())] && !is_link_local(address);
        if (on_link || beyond) && self.wants(address) { Whose::Engine } else { Whose::Kernel }
    }

    /// Where a datagram leads: as a connection, but that groups and broadcasts are the kernel's.
    pub(crate) fn of_datagram(&self, address: IpAddr) -> Whose {
        let is_for_many = match plain(address) {
            IpAddr::V4(four) => four.is_multicast() || four == Ipv4Addr::BROADCAST || self.is_broadcast(four),
            IpAddr::V6(six) => six.is_multicast(),
        };
        if is_for_many { Whose::Kernel } else { self.of_peer(address) }
    }

    /// Whether it means all of a network of the engine.
    fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        let is_of = |own: &IpAddr, prefix: u8| match own {
            IpAddr::V4(own) if prefix < 31 => own.to_bits() | u32::MAX >> prefix == address.to_bits(),
            IpAddr::V4(_) | IpAddr::V6(_) => false,
        };
        self.addresses.iter().any(|(own, prefix)| is_of(own, *prefix))
    }

    fn wants(&self, address: IpAddr) -> bool {
        self.peers.is_empty() || self.peers.iter().any(|(network, prefix)| is_within(*network, *prefix, address))
    }

    /// Why a socket that is bound there is the kernel's, for those who are shown it.
    pub(crate) fn why_left_own(&self, address: IpAddr) -> &'static str {
        if self.has_address(address) {
            "bound to a port that is not the engine's"
        } else if plain(address).is_loopback() {
            "bound to loopback"
        } else {
            "bound to an address that is not the engine's"
        }
    }

    /// Why one that is connected there is.
    pub(crate) fn why_left_peer(&self, address: IpAddr) -> &'static str {
        let address = plain(address);
        if address.is_loopback() || address.is_unspecified() {
            "connected to loopback"
        } else if !self.wants(address) {
            "connected to a network that is not the engine's"
        } else {
            "connected to an address that the engine does not reach"
        }
    }
}

/// An IPv4 address that is written as one of IPv6 (`::ffff:a.b.c.d`) is that IPv4 address.
fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_link_local() || four == Ipv4Addr::BROADCAST,
        IpAddr::V6(six) => six.is_unicast_link_local(),
    }
}

fn is_within(network: IpAddr, prefix: u8, address: IpAddr) -> bool {
    let differ = match (network, address) {
        (IpAddr::V4(one), IpAddr::V4(other)) => u128::from(one.to_bits() ^ other.to_bits()) << 96,
        (IpAddr::V6(one), IpAddr::V6(other)) => one.to_bits() ^ other.to_bits(),
        _ => return false,
    };
    differ.leading_zeros() >= u32::from(prefix)
}

#[cfg(test)]
mod tests {
    use super::Whose::{Engine, Kernel};
    use super::*;

    fn reach(gateway: bool) -> Reach {
        let address = |text: &str| text.parse().expect("an address");
        let addresses = vec![(address("192.0.2.10"), 24), (address("2001:db8::1"), 64)];
        Reach { addresses, gateways: [gateway, false], ..Reach::default() }
    }

    #[test]
    fn a_destination_is_whose_link_it_is_on() {
        let table = [
            ("192.0.2.77", Engine, Engine),
            ("::ffff:192.0.2.77", Engine, Engine),
            ("192.0.3.1", Kernel, Engine),
            ("127.0.0.1", Kernel, Kernel),
            ("127.8.9.1", Kernel, Kernel),
            ("::ffff:127.0.0.1", Kernel, Kernel),
            ("0.0.0.0", Kernel, Kernel),
            ("::", Kernel, Kernel),
            ("::1", Kernel, Kernel),
            ("169.254.0.1", Kernel, Kernel),
            ("2001:db8::2", Engine, Engine),
            ("2001:db9::2", Kernel, Kernel),
            ("fe80::1", Kernel, Kernel),
        ];
        for (address, without, with) in table {
            let of = |gateway| reach(gateway).of_peer(address.parse().expect("an address"));
            assert_eq!((of(false), of(true)), (without, with), "{address}");
        }
    }

    #[test]
    fn datagrams_for_many_are_the_kernels() {
        let table = [
            ("192.0.2.77", Engine),
            ("192.0.2.255", Kernel),
            ("192.0.3.255", Engine),
            ("255.255.255.255", Kernel),
            ("239.1.2.3", Kernel),
            ("::ffff:224.0.0.251", Kernel),
            ("ff02::fb", Kernel),
            ("2001:db8::ffff", Engine),
        ];
        for (address, whose) in table {
            assert_eq!(reach(true).of_datagram(address.parse().expect("an address")), whose, "{address}");
        }
    }

    #[test]
    fn the_kernels_sockets_have_a_reason() {
        let reach =
            Reach { ports: vec![80..=80], peers: vec![("192.0.2.0".parse().expect("one"), 24)], ..reach(false) };
        let why = |address: &str, is_bound: bool| {
            let address = address.parse().expect("an address");
            if is_bound { reach.why_left_own(address) } else { reach.why_left_peer(address) }
        };
        assert_eq!(why("::ffff:127.0.0.1", false), "connected to loopback");
        assert_eq!(why("0.0.0.0", false), "connected to loopback");
        assert_eq!(why("127.0.0.2", true), "bound to loopback");
        assert!(why("10.1.1.1", true).starts_with("bound to an address"));
        assert!(why("192.0.2.10", true).starts_with("bound to a port"));
        assert!(why("0.0.0.0", true).starts_with("bound to a port"));
        assert!(why("10.1.1.1", false).contains("network that is not"));
        assert!(why("192.0.2.99", false).contains("does not reach"));
    }

    #[test]
    fn ports_and_networks_leave_the_rest_to_the_kernel() {
        let ports = vec![80..=80, 8000..=8099];
        let reach = Reach { ports, peers: vec![("192.0.2.64".parse().expect("one"), 26)], ..reach(true) };
        let own = |port| reach.of_own(([192, 0, 2, 10], port).into());
        let any = |port| reach.of_own(([0, 0, 0, 0], port).into());
        assert_eq!(
            [0, 79, 80, 81, 8000, 8099, 8100].map(own),
            [Kernel, Kernel, Engine, Kernel, Engine, Engine, Kernel]
        );
        assert_eq!([0, 80, 443].map(any), [Kernel, Engine, Kernel]);
        let peer = |last| reach.of_peer([192, 0, 2, last].into());
        assert_eq!([1, 63, 64, 127, 128].map(peer), [Kernel, Kernel, Engine, Engine, Kernel]);
        assert!(peer(10) == Engine && reach.is_own([192, 0, 2, 10].into()) && !reach.is_own([0, 0, 0, 0].into()));
    }

    #[test]
    fn a_place_is_the_engines_if_it_has_the_address_or_is_a_wildcard() {
        let table = [
            ("192.0.2.10", Engine),
            ("::ffff:192.0.2.10", Engine),
            ("0.0.0.0", Engine),
            ("::", Engine),
            ("192.0.2.11", Kernel),
            ("127.0.0.1", Kernel),
            ("::1", Kernel),
            ("2001:db8::1", Engine),
        ];
        for (address, side) in table {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(reach(true).of_own((address, 80).into()), side, "{address}");
        }
    }
}
