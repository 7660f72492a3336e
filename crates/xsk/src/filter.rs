//! Which packets are the device's, and which go on to the kernel.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use crate::program::{Assembler, Label, R1, R2, R3, R4, R5, R6, Size, XdpVerdict};
use napier_sys::bpf::Instruction;

/// Most addresses, and most ranges of ports of a protocol.
pub(crate) const FILTER_ENTRIES_MAX: usize = 64;

/// Which packets of an interface a device takes; all others go on to the kernel's own stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum XdpFilter {
    /// Every packet of the queues: the kernel hears nothing on them.
    Everything,
    /// Packets to these addresses, ARP and neighbour solicitations for them included. The kernel must not have them. What
    /// neighbours and routers tell all stays the kernel's, and the device hears it beside.
    Addresses(Vec<IpAddr>),
    /// UDP and TCP packets to these ports of these addresses, whole and without IP options. All else, ARP and ICMP
    /// included, is the kernel's, which may have the addresses too; the device hears ARP, neighbour discovery and ICMP errors
    /// beside it, and answers none. Without addresses: to any.
    Ports {
        /// Addresses that are shared with the kernel.
        addresses: Vec<IpAddr>,
        /// UDP ports.
        udp: Vec<RangeInclusive<u16>>,
        /// TCP ports.
        tcp: Vec<RangeInclusive<u16>>,
    },
    /// [`Addresses`](Self::Addresses) with those of the device.
    #[default]
    OwnAddresses,
}

pub(crate) const ETHERNET_BYTES: i16 = 14;
pub(crate) const ARP: u16 = 0x0806;
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
const TCP: i32 = 6;
const UDP: i32 = 17;
pub(crate) const ICMPV6: i32 = 58;
const NEIGHBOUR_SOLICITATION: i32 = 135;

/// Offsets of `struct xdp_md`. Source: `include/uapi/linux/bpf.h`.
const MD_DATA: i16 = 0;
const MD_DATA_END: i16 = 4;

impl XdpFilter {
    /// Whether the lists are short enough to be compiled, and there is something to take.
    pub(crate) fn is_reasonable(&self) -> bool {
        let fits = |count: usize| count <= FILTER_ENTRIES_MAX;
        match self {
            Self::Everything | Self::OwnAddresses => true,
            Self::Addresses(addresses) => fits(addresses.len()),
            Self::Ports { addresses, udp, tcp } => {
                fits(addresses.len()) && fits(udp.len()) && fits(tcp.len()) && udp.len() + tcp.len() > 0
            }
        }
    }

    /// Whether there is something to take, for a device with these addresses.
    #[must_use]
    pub fn takes_something(&self, own: &[IpAddr]) -> bool {
        match self {
            Self::Everything | Self::Ports { .. } => true,
            Self::Addresses(addresses) => !addresses.is_empty(),
            Self::OwnAddresses => !own.is_empty(),
        }
    }

    /// The program: takes the device's packets as `verdict` says, and passes the others.
    pub(crate) fn compile(&self, own: &[IpAddr], verdict: XdpVerdict) -> Vec<Instruction> {
        let mut asm = Assembler::default();
        if !self.takes_something(own) {
            asm.pass();
            return asm.finish();
        }
        let (take, pass) = (asm.label(), asm.label());
        let mut code = Filter { asm, take, pass };
        match self {
            Self::Everything => code.asm.copy(R6, R1),
            Self::Addresses(addresses) => code.addresses(addresses),
            Self::OwnAddresses => code.addresses(own),
            Self::Ports { addresses, udp, tcp } => code.ports(addresses, udp, tcp),
        }
        let Filter { mut asm, take, pass } = code;
        asm.bind(take);
        asm.verdict(verdict);
        // The kernel refuses instructions that nothing leads to, here and below.
        if asm.bind(pass) {
            asm.pass();
        }
        asm.finish()
    }
}

/// The program on its way. r2 = start of the packet, r3 = its end, r6 = the context.
struct Filter {
    asm: Assembler,
    take: Label,
    pass: Label,
}

impl Filter {
    fn addresses(&mut self, addresses: &[IpAddr]) {
        self.begin();
        let (not_arp, not_v4) = (self.asm.label(), self.asm.label());
        self.asm.jump_unless_eq(R5, network(ARP), not_arp);
        // The address that is asked for, or whose owner answers: ours either way.
        self.need(ETHERNET_BYTES + 28);
        self.v4_in(addresses, ETHERNET_BYTES + 24);
        self.asm.jump(self.pass);

        self.asm.bind(not_arp);
        self.asm.jump_unless_eq(R5, network(IPV4), not_v4);
        self.need(ETHERNET_BYTES + 20);
        self.v4_in(addresses, ETHERNET_BYTES + 16);
        self.asm.jump(self.pass);

        self.asm.bind(not_v4);
        if !addresses.iter().any(IpAddr::is_ipv6) {
            return self.asm.jump(self.pass);
        }
        self.asm.jump_unless_eq(R5, network(IPV6), self.pass);
        self.need(ETHERNET_BYTES + 40);
        self.v6_in(addresses, ETHERNET_BYTES + 24, self.take);
        // A solicitation goes to a group of addresses and names the one that it is about.
        self.need(ETHERNET_BYTES + 40 + 24);
        self.asm.load(Size::Byte, R5, R2, ETHERNET_BYTES + 6);
        self.asm.jump_unless_eq(R5, ICMPV6, self.pass);
        self.asm.load(Size::Byte, R5, R2, ETHERNET_BYTES + 40);
        self.asm.jump_unless_eq(R5, NEIGHBOUR_SOLICITATION, self.pass);
        self.v6_in(addresses, ETHERNET_BYTES + 40 + 8, self.take);
        self.asm.jump(self.pass);
    }

    fn ports(&mut self, addresses: &[IpAddr], udp: &[RangeInclusive<u16>], tcp: &[RangeInclusive<u16>]) {
        self.begin();
        let of_kind = |v4: bool| addresses.is_empty() || addresses.iter().any(|address| address.is_ipv4() == v4);
        let not_v4 = self.asm.label();
        self.asm.jump_unless_eq(R5, network(IPV4), not_v4);
        if of_kind(true) {
            self.v4_ports(addresses, udp, tcp);
        } else {
            self.asm.jump(self.pass);
        }
        self.asm.bind(not_v4);
        self.asm.jump_unless_eq(R5, network(IPV6), self.pass);
        if of_kind(false) {
            self.v6_ports(addresses, udp, tcp);
        } else {
            self.asm.jump(self.pass);
        }
    }

    fn v4_ports(&mut self, addresses: &[IpAddr], udp: &[RangeInclusive<u16>], tcp: &[RangeInclusive<u16>]) {
        let ports = self.asm.label();
        self.need(ETHERNET_BYTES + 20 + 4);
        // Version 4, no options; no fragment.
        self.asm.load(Size::Byte, R5, R2, ETHERNET_BYTES);
        self.asm.jump_unless_eq(R5, 0x45, self.pass);
        self.asm.load(Size::Half, R5, R2, ETHERNET_BYTES + 6);
        self.asm.jump_if_set(R5, network(0x3fff), self.pass);
        if !addresses.is_empty() {
            self.v4_to(addresses, ETHERNET_BYTES + 16, ports);
            self.asm.jump(self.pass);
        }
        self.asm.bind(ports);
        self.asm.load(Size::Byte, R4, R2, ETHERNET_BYTES + 9);
        self.port_in(udp, tcp, ETHERNET_BYTES + 20 + 2);
    }

    fn v6_ports(&mut self, addresses: &[IpAddr], udp: &[RangeInclusive<u16>], tcp: &[RangeInclusive<u16>]) {
        let ports = self.asm.label();
        self.need(ETHERNET_BYTES + 40 + 4);
        if !addresses.is_empty() {
            self.v6_in(addresses, ETHERNET_BYTES + 24, ports);
            self.asm.jump(self.pass);
        }
        self.asm.bind(ports);
        self.asm.load(Size::Byte, R4, R2, ETHERNET_BYTES + 6);
        self.port_in(udp, tcp, ETHERNET_BYTES + 40 + 2);
    }

    /// Loads the context and the packet's bounds, and the type of what follows the Ethernet header into r5.
    fn begin(&mut self) {
        self.asm.copy(R6, R1);
        self.asm.load(Size::Word, R2, R6, MD_DATA);
        self.asm.load(Size::Word, R3, R6, MD_DATA_END);
        self.need(ETHERNET_BYTES);
        self.asm.load(Size::Half, R5, R2, 12);
    }

    /// Passes packets of fewer bytes.
    fn need(&mut self, bytes: i16) {
        self.asm.copy(R4, R2);
        self.asm.add(R4, i32::from(bytes));
        self.asm.jump_if_greater(R4, R3, self.pass);
    }

    fn v4_in(&mut self, addresses: &[IpAddr], at: i16) {
        self.v4_to(addresses, at, self.take);
    }

    /// Goes on at `to` if the bytes at `at` are one of the IPv4 addresses.
    fn v4_to(&mut self, addresses: &[IpAddr], at: i16, to: Label) {
        self.asm.load(Size::Word, R5, R2, at);
        for address in addresses {
            if let IpAddr::V4(address) = address {
                self.asm.jump_if_eq(R5, i32::from_ne_bytes(address.octets()), to);
            }
        }
    }

    /// Goes on at `to` if the bytes at `at` are one of the IPv6 addresses.
    fn v6_in(&mut self, addresses: &[IpAddr], at: i16, to: Label) {
        for address in addresses {
            let IpAddr::V6(address) = address else { continue };
            let other = self.asm.label();
            for (place, word) in (at..).step_by(4).zip(address.octets().chunks_exact(4)) {
                self.asm.load(Size::Word, R5, R2, place);
                self.asm.jump_unless_eq(R5, i32::from_ne_bytes([word[0], word[1], word[2], word[3]]), other);
            }
            self.asm.jump(to);
            self.asm.bind(other);
        }
    }

    /// Takes the packet if it is of the protocol in r4 and to one of the ports; passes it if not.
    fn port_in(&mut self, udp: &[RangeInclusive<u16>], tcp: &[RangeInclusive<u16>], at: i16) {
        self.asm.load(Size::Half, R5, R2, at);
        self.asm.decode_number(R5);
        for (protocol, ports) in [(UDP, udp), (TCP, tcp)] {
            let other = self.asm.label();
            self.asm.jump_unless_eq(R4, protocol, other);
            for range in ports {
                let next = self.asm.label();
                self.asm.jump_if_less(R5, i32::from(*range.start()), next);
                self.asm.jump_unless_above(R5, i32::from(*range.end()), self.take);
                self.asm.bind(next);
            }
            self.asm.bind(other);
        }
        self.asm.jump(self.pass);
    }
}

/// Two bytes as they are read from a packet.
fn network(value: u16) -> i32 {
    i32::from(u16::from_ne_bytes(value.to_be_bytes()))
}
