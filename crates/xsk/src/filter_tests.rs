//! What filters take, by running their programs in the kernel.

use std::net::IpAddr;

use crate::filter::{FILTER_ENTRIES_MAX, XdpFilter};
use crate::program::{XDP_PASS, XdpVerdict};
use napier_sys::bpf;

const TAKEN: i32 = 3;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn octets(address: &str) -> Vec<u8> {
    match self::address(address) {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &kind.to_be_bytes(), payload].concat()
}

fn v4(to: &str, protocol: u8, port: u16) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1];
    ip.extend(octets(to));
    ip.extend([0x30, 0x39]);
    ip.extend(port.to_be_bytes());
    ip.extend([0, 8, 0, 0]);
    ethernet(IPV4, &ip)
}

fn v6(to: &str, protocol: u8, rest: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x60, 0, 0, 0, 0, 8, protocol, 64];
    ip.extend(octets("2001:db8::1"));
    ip.extend(octets(to));
    ip.extend(rest);
    ethernet(IPV6, &ip)
}

fn v6_port(to: &str, protocol: u8, port: u16) -> Vec<u8> {
    v6(to, protocol, &[&[0x30, 0x39][..], &port.to_be_bytes(), &[0, 8, 0, 0]].concat())
}

fn arp(target: &str) -> Vec<u8> {
    let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0];
    arp.extend(octets(target));
    ethernet(ARP, &arp)
}

fn solicitation(target: &str) -> Vec<u8> {
    v6("ff02::1:ff00:9", 58, &[&[135, 0, 0, 0, 0, 0, 0, 0][..], &octets(target)].concat())
}

/// Checks a filter on packets; each with whether it should be taken.
fn check(test: &str, filter: &XdpFilter, packets: &[(&str, Vec<u8>, bool)]) {
    let own = [address("10.0.0.9"), address("fd00::9")];
    let program = match bpf::load_xdp(&filter.compile(&own, XdpVerdict::Answer(TAKEN))) {
        Ok(program) => program,
        Err(error) if error.raw_os_error() == Some(libc::EPERM) || error.raw_os_error() == Some(libc::ENOSYS) => {
            napier_testkit::skip!(test, "loading an XDP program: {error}");
            return;
        }
        Err(error) => panic!("the verifier refused the program: {error}"),
    };
    for (what, packet, taken) in packets {
        let answer = bpf::run_xdp(&program, packet).expect("a run").cast_signed();
        assert_eq!(answer, if *taken { TAKEN } else { XDP_PASS }, "{what}");
        // No prefix of it makes the program look beyond its end; the kernel runs none of less than an Ethernet header.
        for len in 14..packet.len() {
            let answer = bpf::run_xdp(&program, &packet[..len]).expect("a run").cast_signed();
            assert!(answer == TAKEN || answer == XDP_PASS);
        }
    }
}

#[test]
fn addresses_are_taken_with_all_that_is_about_them() {
    let packets = [
        ("UDP to ours", v4("10.0.0.9", 17, 53), true),
        ("ICMP to ours", v4("10.0.0.9", 1, 0), true),
        ("to another", v4("10.0.0.8", 17, 53), false),
        ("to all", v4("255.255.255.255", 17, 67), false),
        ("ARP for ours", arp("10.0.0.9"), true),
        ("ARP for another", arp("10.0.0.8"), false),
        ("IPv6 to ours", v6_port("fd00::9", 17, 53), true),
        ("IPv6 to another", v6_port("fd00::8", 17, 53), false),
        ("differs in the last word only", v6_port("fd00::a", 17, 53), false),
        ("differs in the first word only", v6_port("fd01::9", 17, 53), false),
        ("solicitation for ours", solicitation("fd00::9"), true),
        ("solicitation for another", solicitation("fd00::8"), false),
        ("another ICMPv6 to the group", v6("ff02::1", 58, &[[134; 8], [0; 8], [0; 8]].concat()), false),
        ("unknown type", ethernet(0x88cc, &[0; 60]), false),
        ("a VLAN", ethernet(0x8100, &v4("10.0.0.9", 17, 53)), false),
    ];
    check("addresses_are_taken_with_all_that_is_about_them", &XdpFilter::OwnAddresses, &packets);
    let named = XdpFilter::Addresses(vec![address("10.0.0.9"), address("fd00::9")]);
    check("addresses_are_taken_with_all_that_is_about_them", &named, &packets);
}

#[test]
fn ports_are_taken_and_the_rest_is_the_kernels() {
    let filter = XdpFilter::Ports {
        addresses: vec![address("10.0.0.9"), address("fd00::9")],
        udp: vec![53..=53, 4000..=4999],
        tcp: vec![11211..=11211],
    };
    let mut options = v4("10.0.0.9", 17, 53);
    options[14] = 0x46;
    let mut first_fragment = v4("10.0.0.9", 17, 53);
    first_fragment[20] = 0x20;
    let mut later_fragment = v4("10.0.0.9", 17, 53);
    later_fragment[21] = 1;
    check(
        "ports_are_taken_and_the_rest_is_the_kernels",
        &filter,
        &[
            ("a listed port", v4("10.0.0.9", 17, 53), true),
            ("of another protocol", v4("10.0.0.9", 6, 53), false),
            ("of another address", v4("10.0.0.8", 17, 53), false),
            ("first of a range", v4("10.0.0.9", 17, 4000), true),
            ("last of a range", v4("10.0.0.9", 17, 4999), true),
            ("below a range", v4("10.0.0.9", 17, 3999), false),
            ("above a range", v4("10.0.0.9", 17, 5000), false),
            ("a TCP port", v4("10.0.0.9", 6, 11211), true),
            ("ssh", v4("10.0.0.9", 6, 22), false),
            ("ICMP", v4("10.0.0.9", 1, 53), false),
            ("ARP", arp("10.0.0.9"), false),
            ("IPv6", v6_port("fd00::9", 17, 53), true),
            ("IPv6 TCP", v6_port("fd00::9", 6, 11211), true),
            ("IPv6 of another port", v6_port("fd00::9", 17, 54), false),
            ("IPv6 of another address", v6_port("fd00::8", 17, 53), false),
            ("solicitation", solicitation("fd00::9"), false),
            ("IP options", options, false),
            ("a first fragment", first_fragment, false),
            ("a later fragment", later_fragment, false),
        ],
    );
}

#[test]
fn ports_of_any_address_and_everything() {
    let filter = XdpFilter::Ports { addresses: Vec::new(), udp: vec![0..=u16::MAX], tcp: Vec::new() };
    let packets = [("UDP", v4("10.0.0.77", 17, 1), true), ("TCP", v4("10.0.0.77", 6, 1), false)];
    check("ports_of_any_address_and_everything", &filter, &packets);
    let packets = [("UDP", v4("10.0.0.77", 17, 1), true), ("nothing known", ethernet(0x88cc, &[1; 60]), true)];
    check("ports_of_any_address_and_everything", &XdpFilter::Everything, &packets);
}

#[test]
fn filters_of_one_kind_of_address_only() {
    let test = "filters_of_one_kind_of_address_only";
    let packets =
        |v4, v6| [("IPv4", v4_packet(), v4), ("IPv6", v6_port("fd00::9", 17, 53), v6), ("ARP", arp("10.0.0.9"), v4)];
    fn v4_packet() -> Vec<u8> {
        v4("10.0.0.9", 17, 53)
    }
    check(test, &XdpFilter::Addresses(vec![address("10.0.0.9")]), &packets(true, false));
    check(test, &XdpFilter::Addresses(vec![address("fd00::9")]), &packets(false, true));
    let ports = |of: &str| XdpFilter::Ports { addresses: vec![address(of)], udp: vec![53..=53], tcp: vec![] };
    check(test, &ports("10.0.0.9"), &packets(true, false)[..2]);
    check(test, &ports("fd00::9"), &packets(false, true)[..2]);
    assert!(!XdpFilter::OwnAddresses.takes_something(&[]));
}

#[test]
fn the_longest_lists_are_compiled_and_longer_ones_refused() {
    let addresses = |count: usize| -> Vec<IpAddr> {
        (0..count).map(|at| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::try_from(at).expect("few")])).collect()
    };
    let ports = |count: u16| (0..count).map(|at| at * 7..=at * 7 + 3).collect::<Vec<_>>();
    let longest = XdpFilter::Ports { addresses: addresses(FILTER_ENTRIES_MAX), udp: ports(64), tcp: ports(64) };
    assert!(longest.is_reasonable());
    let last = v6_port("fd00::3f", 6, 63 * 7 + 3);
    check("the_longest_lists_are_compiled_and_longer_ones_refused", &longest, &[("the last of all", last, true)]);
    assert!(!XdpFilter::Addresses(addresses(FILTER_ENTRIES_MAX + 1)).is_reasonable());
    assert!(!XdpFilter::Ports { addresses: Vec::new(), udp: ports(65), tcp: Vec::new() }.is_reasonable());
    assert!(!XdpFilter::Ports { addresses: addresses(1), udp: Vec::new(), tcp: Vec::new() }.is_reasonable());
}

#[test]
fn a_filter_that_names_nothing_takes_nothing() {
    let packets = [("UDP", v4("10.0.0.9", 17, 53), false), ("ARP", arp("10.0.0.9"), false)];
    check("a_filter_that_names_nothing_takes_nothing", &XdpFilter::Addresses(Vec::new()), &packets);
}
