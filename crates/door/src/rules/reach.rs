//! Which addresses are the engine's.

use std::net::{IpAddr, Ipv4Addr};

/// Whose stack an address belongs to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    Engine,
    Kernel,
}

/// What the engine's device reaches.
#[derive(Clone, Debug)]
pub struct Reach {
    /// Addresses of the device, with the lengths of their prefixes in bits.
    pub addresses: Vec<(IpAddr, u8)>,
    /// It knows a way to all IPv4 addresses, and to all IPv6 addresses.
    pub gateways: [bool; 2],
}

impl Reach {
    /// Where a socket is bound: the engine's addresses and the wildcards are the engine's. A wildcard does not take what comes over the kernel's
    /// interfaces.
    pub(crate) fn of_own(&self, address: IpAddr) -> Whose {
        let address = plain(address);
        let is_own = address.is_unspecified() || self.addresses.iter().any(|(own, _)| *own == address);
        if is_own { Whose::Engine } else { Whose::Kernel }
    }

    /// Where a connection leads: what is on the engine's link, and with a gateway what is beyond it. Loopback is the kernel's, and so is the
    /// wildcard, which means loopback (`net/ipv4/route.c` `ip_route_output_key_hash_rcu`).
    pub(crate) fn of_peer(&self, address: IpAddr) -> Whose {
        let address = plain(address);
        if address.is_loopback() || address.is_unspecified() {
            return Whose::Kernel;
        }
        let on_link = self.addresses.iter().any(|(own, prefix)| is_within(*own, *prefix, address));
        let beyond = self.gateways[usize::from(address.is_ipv6())] && !is_link_local(address);
        if on_link || beyond { Whose::Engine } else { Whose::Kernel }
    }
}

/// Why a socket of an address is the kernel's, for those who are shown it.
pub(crate) fn why_left(address: IpAddr, is_bound: bool) -> &'static str {
    let address = plain(address);
    match (address.is_loopback() || address.is_unspecified(), is_bound) {
        (true, true) => "bound to loopback",
        (true, false) => "connected to loopback",
        (false, true) => "bound to an address that is not the engine's",
        (false, false) => "connected to an address that the engine does not reach",
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
        Reach { addresses: vec![(address("192.0.2.10"), 24), (address("2001:db8::1"), 64)], gateways: [gateway, false] }
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
    fn the_kernels_sockets_have_a_reason() {
        let why = |address: &str, is_bound| why_left(address.parse().expect("an address"), is_bound);
        assert_eq!(why("::ffff:127.0.0.1", false), "connected to loopback");
        assert_eq!(why("0.0.0.0", false), "connected to loopback");
        assert_eq!(why("127.0.0.2", true), "bound to loopback");
        assert!(why("10.1.1.1", true).starts_with("bound to an address"));
        assert!(why("10.1.1.1", false).contains("does not reach"));
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
            assert_eq!(reach(true).of_own(address.parse().expect("an address")), side, "{address}");
        }
    }
}
