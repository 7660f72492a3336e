//! What goes to a gateway, and which ones there can be.

use smoltcp::wire::{ArpPacket, ArpRepr, EthernetFrame, Ipv4Address};

use crate::testing::{IFINDEX, PEER_MAC, Rig, at, device};
use crate::{GatewayError, TcpStream, UdpSocket};

fn ip(text: &str) -> std::net::IpAddr {
    text.parse().unwrap()
}

#[test]
fn the_gateway_is_asked_for_and_not_the_destination() {
    let rig = Rig::new();
    rig.ns.gateway_set(IFINDEX, ip("10.0.0.9")).unwrap();
    let udp = UdpSocket::bind(&rig.ns, at("0.0.0.0:9")).unwrap();
    udp.send_to(b"far", at("192.0.2.7:7")).unwrap();
    let tcp = TcpStream::builder().nonblocking(true).connect(&rig.ns, at("192.0.2.8:7")).unwrap();
    let asked = rig.sent();
    assert_eq!(asked.len(), 1, "one question for both");
    let arp = ArpPacket::new_checked(EthernetFrame::new_unchecked(&asked[0][..]).payload()).unwrap();
    let ArpRepr::EthernetIpv4 { target_protocol_addr, source_protocol_addr, .. } = ArpRepr::parse(&arp).unwrap() else {
        panic!("Ethernet and IPv4");
    };
    assert_eq!(target_protocol_addr, Ipv4Address::new(10, 0, 0, 9));
    assert_eq!(source_protocol_addr, Ipv4Address::new(10, 0, 0, 1));
    // Found, it gets what waited and what comes.
    rig.ns.neighbour_add(IFINDEX, ip("10.0.0.9"), PEER_MAC).unwrap();
    udp.send_to(b"far", at("192.0.2.7:7")).unwrap();
    let sent = rig.sent();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|frame| frame[..6] == PEER_MAC && frame[30] == 192));
    drop(tcp);
}

#[test]
fn the_link_comes_first() {
    let rig = Rig::new();
    rig.know_peers();
    rig.ns.neighbour_add(IFINDEX, ip("10.0.0.9"), [2, 0, 0, 0, 0, 9]).unwrap();
    rig.ns.gateway_set(IFINDEX, ip("10.0.0.9")).unwrap();
    let udp = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    udp.send_to(b"near", at("10.0.0.2:7")).unwrap();
    udp.send_to(b"far", at("10.0.1.2:7")).unwrap();
    let macs: Vec<_> = rig.sent().iter().map(|frame| frame[5]).collect();
    assert_eq!(macs, [PEER_MAC[5], 9]);
    let refused = |to| udp.send_to(b"x", at(to)).unwrap_err().raw_os_error();
    assert_eq!(refused("10.0.0.255:7"), Some(libc::EACCES));
    assert_eq!(refused("224.0.0.1:7"), Some(libc::ENETUNREACH));
}

#[test]
fn what_cannot_be_a_gateway() {
    let rig = Rig::new();
    let set = |text: &str| rig.ns.gateway_set(IFINDEX, ip(text));
    for (text, error) in [
        ("10.0.1.1", GatewayError::NotOnLink { gateway: ip("10.0.1.1"), ifindex: IFINDEX }),
        ("fd01::1", GatewayError::NotOnLink { gateway: ip("fd01::1"), ifindex: IFINDEX }),
        ("10.0.0.1", GatewayError::NotAnother { gateway: ip("10.0.0.1") }),
        ("10.0.0.255", GatewayError::NotAnother { gateway: ip("10.0.0.255") }),
        ("0.0.0.0", GatewayError::NotAnother { gateway: ip("0.0.0.0") }),
        ("ff02::1", GatewayError::NotAnother { gateway: ip("ff02::1") }),
        ("127.0.0.1", GatewayError::NotAnother { gateway: ip("127.0.0.1") }),
    ] {
        assert_eq!(set(text), Err(error), "{text}");
    }
    assert_eq!(rig.ns.gateway_set(9, ip("10.0.0.9")), Err(GatewayError::NoDevice { ifindex: 9 }));
    // A link-local gateway is well, as long as there is a source that comes back.
    set("fe80::9").unwrap();
    let udp = UdpSocket::bind(&rig.ns, at("[::]:9")).unwrap();
    udp.connect(at("[2001:db8::7]:7")).unwrap();
    assert_eq!(udp.local_addr().unwrap().ip(), ip("fd00::1"));
    rig.ns.device_add(device(8, &[("fe80::8", 64)])).unwrap();
    assert_eq!(rig.ns.gateway_set(8, ip("fe80::9")), Err(GatewayError::NoSource { ifindex: 8 }));
}

#[test]
fn a_gateway_goes_with_its_device() {
    let rig = Rig::new();
    rig.ns.device_add(device(8, &[("10.8.0.1", 24)])).unwrap();
    rig.ns.gateway_set(IFINDEX, ip("10.0.0.9")).unwrap();
    // One for each family: this one takes the place of the other.
    rig.ns.gateway_set(8, ip("10.8.0.9")).unwrap();
    rig.ns.gateway_set(IFINDEX, ip("fd00::9")).unwrap();
    let udp = UdpSocket::bind(&rig.ns, at("0.0.0.0:9")).unwrap();
    udp.connect(at("192.0.2.7:7")).unwrap();
    assert_eq!(udp.local_addr().unwrap().ip(), ip("10.8.0.1"));
    rig.ns.device_del(8).unwrap();
    assert_eq!(udp.send(b"x").unwrap_err().raw_os_error(), Some(libc::ENETUNREACH));
    assert_eq!(rig.ns.gateway_del(ip("fd00::9")), Ok(()));
}
