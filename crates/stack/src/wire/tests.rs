use super::*;
use crate::testing::{OUR_MAC, PEER_MAC, at, udp, udp_frame};

fn parsed(frame: &[u8]) -> Datagram {
    match parse(frame, OUR_MAC) {
        Ok(Packet::Udp(datagram)) => datagram,
        other => panic!("{other:?}"),
    }
}

fn refused(frame: &[u8]) -> (Counter, Option<Counter>) {
    match parse(frame, OUR_MAC) {
        Err(Refused(first, second)) => (first, second),
        Ok(other) => panic!("{other:?}"),
    }
}

fn end(text: &str) -> End {
    End::from_socket_addr(&at(text))
}

const V4: (&str, &str) = ("10.0.0.2:4000", "10.0.0.1:53");
const V6: (&str, &str) = ("[fd00::2]:4000", "[fd00::1]:53");

/// Rewrites the IPv4 header checksum after a test has changed the header.
fn fix_ipv4(frame: &mut [u8]) {
    let header_len = usize::from(frame[14] & 15) * 4;
    frame[24..26].fill(0);
    let sum = Sum::ZERO.bytes(&frame[14..14 + header_len]).field();
    frame[24..26].copy_from_slice(&sum);
}

#[test]
fn datagrams_made_by_smoltcp_are_understood() {
    for (src, dst) in [V4, V6] {
        for len in [0, 1, 2, 3, 63, 64, 1000, 1452] {
            let payload: Vec<u8> = (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect();
            let frame = udp(src, dst, &payload);
            let d = parsed(&frame);
            assert_eq!((d.src, d.dst), (end(src), end(dst)));
            let meta = Meta::new(&d, 2112, 7);
            assert_eq!(frame[meta.payload()], payload);
            assert_eq!((meta.truesize(), meta.source(&frame)), (2112, (end(src), 7)));
        }
    }
}

#[test]
fn ethernet_padding_is_not_payload() {
    let mut frame = udp(V4.0, V4.1, b"abc");
    frame.resize(64, 0xee);
    assert_eq!(parsed(&frame).payload_len, 3);
}

#[test]
fn every_changed_byte_is_noticed() {
    for (src, dst) in [V4, V6] {
        let good = udp(src, dst, b"twelve bytes");
        for at in 6..good.len() {
            // Not covered by any checksum or check: source MAC, IPv6 traffic class and flow label, hop limit.
            let v6 = src.starts_with('[');
            if at < 12 || v6 && matches!(at, 14..=17 | 21) {
                continue;
            }
            let mut bad = good.clone();
            bad[at] ^= 0x04;
            assert!(!matches!(parse(&bad, OUR_MAC), Ok(Packet::Udp(_))), "byte {at}");
        }
    }
}

#[test]
fn checksums() {
    let mut frame = udp(V4.0, V4.1, b"x");
    frame[40..42].fill(0);
    assert_eq!(parsed(&frame).payload_len, 1);
    frame[40] = 1;
    assert_eq!(refused(&frame), (Counter::UdpInCsumErrors, Some(Counter::UdpInErrors)));
    let mut frame = udp(V6.0, V6.1, b"x");
    frame[60..62].fill(0);
    assert_eq!(refused(&frame), (Counter::Udp6InCsumErrors, Some(Counter::Udp6InErrors)));
    let mut frame = udp(V4.0, V4.1, b"x");
    frame[24] ^= 1;
    assert_eq!(refused(&frame), (Counter::IpInHdrErrors, Some(Counter::IpInCsumErrors)));
}

#[test]
fn stations() {
    let to = |mac| udp_frame(at(V4.0), at(V4.1), PEER_MAC, mac, b"");
    assert_eq!(refused(&to([2, 0, 0, 0, 0, 9])), (Counter::RxOtherhost, None));
    assert!(parse(&to([0xff; 6]), OUR_MAC).is_ok());
    assert_eq!(refused(&[0; 13]), (Counter::RxLength, None));
    let mut vlan = to(OUR_MAC);
    vlan[12..14].copy_from_slice(&[0x81, 0]);
    assert_eq!(refused(&vlan), (Counter::RxNohandler, None));
}

#[test]
fn ipv4_headers() {
    let good = udp(V4.0, V4.1, b"payload");
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = good.clone();
        change(&mut frame);
        fix_ipv4(&mut frame);
        frame
    };
    assert_eq!(refused(&with(&|f| f[14] = 0x55)), (Counter::IpInHdrErrors, None));
    assert_eq!(refused(&with(&|f| f[14] = 0x44)), (Counter::IpInHdrErrors, None));
    assert_eq!(refused(&with(&|f| f[17] = 19)), (Counter::IpInHdrErrors, None));
    assert_eq!(refused(&with(&|f| f[17] += 1)), (Counter::IpInTruncated, None));
    let piece = Ok(Packet::Fragment { at: 34, end: good.len() });
    assert_eq!(parse(&with(&|f| f[20] = 0x20), OUR_MAC), piece);
    assert_eq!(parse(&with(&|f| f[21] = 1), OUR_MAC), piece);
    assert!(parse(&with(&|f| f[20] = 0x40), OUR_MAC).is_ok(), "DF is no fragment");
    assert_eq!(refused(&with(&|f| f[23] = 132)), (Counter::IpInUnknownProtos, None));
    assert_eq!(refused(&with(&|f| f[26] = 0xe0)), (Counter::IpInAddrErrors, None), "a group as source");
    assert_eq!(refused(&good[..33]), (Counter::IpInHdrErrors, Some(Counter::IpInTruncated)));
    // UDP length beyond the packet, and below the header.
    assert_eq!(refused(&with(&|f| f[39] += 1)), (Counter::UdpInErrors, None));
    assert_eq!(refused(&with(&|f| f[39] = 7)), (Counter::UdpInErrors, None));
}

#[test]
fn ipv4_options_are_skipped() {
    let mut frame = udp(V4.0, V4.1, b"payload");
    frame.splice(34..34, [1, 1, 1, 0]);
    frame[14] = 0x46;
    frame[17] += 4;
    fix_ipv4(&mut frame);
    let d = parsed(&frame);
    assert_eq!((d.payload_at, d.src), (46, end(V4.0)));
    assert_eq!(Meta::new(&d, 2048, 1).source(&frame).0, end(V4.0));
}

#[test]
fn ipv6_headers() {
    let good = udp(V6.0, V6.1, b"payload");
    let mut hop = good.clone();
    hop.splice(54..54, [17, 0, 1, 4, 0, 0, 0, 0]);
    hop[20] = 0;
    hop[19] += 8;
    let d = parsed(&hop);
    assert_eq!((d.payload_at, d.payload_len), (70, 7));
    let with = |frame: &[u8], at: usize, value: u8| {
        let mut frame = frame.to_vec();
        frame[at] = value;
        frame
    };
    assert_eq!(refused(&with(&hop, 55, 9)), (Counter::Ip6InHdrErrors, None));
    assert_eq!(refused(&with(&hop, 54, 0)), (Counter::Ip6InUnknownProtos, None), "a second hop-by-hop");
    assert_eq!(parse(&with(&good, 20, 44), OUR_MAC), Ok(Packet::Fragment { at: 54, end: good.len() }));
    assert_eq!(refused(&with(&good, 20, 43)), (Counter::Ip6InUnknownProtos, None));
    assert_eq!(refused(&with(&good, 14, 0x50)), (Counter::Ip6InHdrErrors, None));
    assert_eq!(refused(&with(&good, 19, 200)), (Counter::Ip6InTruncated, None));
    assert_eq!(refused(&good[..53]), (Counter::Ip6InTruncated, None));
    assert_eq!(refused(&with(&good, 22, 0xff)), (Counter::Ip6InAddrErrors, None), "a group as source");
}

#[test]
fn no_prefix_of_a_good_frame_panics() {
    for (src, dst) in [V4, V6] {
        let frame = udp(src, dst, b"some payload");
        for len in 0..frame.len() {
            assert!(parse(&frame[..len], OUR_MAC).is_err());
        }
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut x = 1u64;
    for _ in 0..200_000 {
        let mut frame = [0u8; 96];
        for byte in &mut frame {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (x >> 56) as u8;
        }
        frame[..6].copy_from_slice(&OUR_MAC);
        frame[12..14].copy_from_slice(if x & 1 == 0 { &ETHERTYPE_IPV4 } else { &ETHERTYPE_IPV6 });
        frame[14] = if x & 1 == 0 { 0x45 | frame[14] & 3 } else { 0x60 };
        let len = usize::from(frame[95]) % 97;
        let _ = parse(&frame[..len], OUR_MAC);
    }
}

/// A TCP segment made of the ends and addresses of a UDP frame, with a header that `change` may spoil.
fn tcp(ends: (&str, &str), change: &dyn Fn(&mut [u8])) -> Vec<u8> {
    let mut frame = udp(ends.0, ends.1, &[0; 20]);
    let v4 = frame[14] >> 4 == 4;
    let (protocol_at, at, addresses) = if v4 { (23, 34, 26..34) } else { (20, 54, 22..54) };
    frame[protocol_at] = PROTO_TCP;
    let len = u16::try_from(frame.len() - at).unwrap();
    frame[at + 4..].fill(0);
    frame[at + 12] = 5 << 4;
    frame[at + 13] = flag::SYN;
    change(&mut frame[at..]);
    let sum = Sum::ZERO.bytes(&frame[addresses]).number(6).number(len).bytes(&frame[at..]).field();
    frame[at + 16..at + 18].copy_from_slice(&sum);
    if v4 {
        fix_ipv4(&mut frame);
    }
    frame
}

#[test]
fn segments_are_understood() {
    for ends in [V4, V6] {
        let frame = tcp(ends, &|_| {});
        let segment = match parse(&frame, OUR_MAC) {
            Ok(Packet::Tcp(segment)) => segment,
            other => panic!("{other:?}"),
        };
        assert_eq!((segment.src, segment.dst, segment.flags), (end(ends.0), end(ends.1), flag::SYN));
        assert_eq!(segment.end, frame.len());
        let mut padded = frame.clone();
        padded.extend([0xee; 10]);
        assert_eq!(parse(&padded, OUR_MAC), Ok(Packet::Tcp(segment)), "Ethernet padding is not TCP's");
        let mut bad = frame.clone();
        *bad.last_mut().unwrap() ^= 1;
        assert_eq!(refused(&bad), (Counter::TcpInCsumErrors, Some(Counter::TcpInErrs)));
        for (at, value) in [(12, 4 << 4), (12, 8 << 4)] {
            assert_eq!(refused(&tcp(ends, &|head| head[at] = value)), (Counter::TcpInErrs, None), "data offset");
        }
        for at in [0, 2] {
            let no_port = tcp(ends, &|head| head[at..at + 2].fill(0));
            assert_eq!(refused(&no_port), (Counter::TcpInErrs, None), "port 0");
        }
    }
    let short = {
        let mut frame = udp(V4.0, V4.1, b"short");
        frame[23] = PROTO_TCP;
        fix_ipv4(&mut frame);
        frame
    };
    assert_eq!(refused(&short), (Counter::TcpInErrs, None));
}
