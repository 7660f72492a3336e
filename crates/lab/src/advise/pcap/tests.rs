use super::*;

/// A TCP segment over IPv4 in an Ethernet frame.
fn frame(from: (u8, u16), to: (u8, u16), data: usize) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([8, 0]);
    let length = (40 + data) as u16;
    frame.extend([0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, from.0, 10, 0, 0, to.0]);
    frame.extend(from.1.to_be_bytes());
    frame.extend(to.1.to_be_bytes());
    frame.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x18, 0, 0, 0, 0, 0, 0]);
    // What follows is often not captured.
    frame
}

const SERVER: (u8, u16) = (1, 11211);

/// Two connections: one asks twice, the second time in two segments, and is answered; the other asks once.
fn frames() -> Vec<(u64, Vec<u8>)> {
    let (one, other) = ((2, 40_000), (3, 50_000));
    vec![
        (1_000_000, frame(one, SERVER, 0)),
        (1_000_100, frame(one, SERVER, 30)),
        (1_000_150, frame(SERVER, one, 10)),
        (1_000_200, frame(other, SERVER, 30)),
        (1_000_300, frame(one, SERVER, 1400)),
        (1_000_310, frame(one, SERVER, 200)),
        (1_000_400, frame(SERVER, one, 10)),
    ]
}

/// A file with times in us.
fn pcap_file(frames: &[(u64, Vec<u8>)], is_big: bool) -> Vec<u8> {
    let word = |value: u32| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut file = Vec::new();
    file.extend(word(0xa1b2_c3d4));
    file.extend(if is_big { [0, 2, 0, 4] } else { [2, 0, 4, 0] });
    for value in [0, 0, 262_144, 1] {
        file.extend(word(value));
    }
    for (us, frame) in frames {
        for value in [us / 1_000_000, us % 1_000_000, frame.len() as u64, 1600] {
            file.extend(word(value as u32));
        }
        file.extend(frame);
    }
    file
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut padded = body.to_vec();
    padded.resize(body.len().next_multiple_of(4), 0);
    let length = (12 + padded.len()) as u32;
    [&kind.to_le_bytes()[..], &length.to_le_bytes(), &padded, &length.to_le_bytes()].concat()
}

/// The same in the other format, with times in ns.
fn pcapng_file(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let interface = [1, 0, 0, 0, 0, 0, 4, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    // A block of a kind that is not known here.
    let mut file = [block(SECTION, &section), block(INTERFACE, &interface), block(0x77, &[1, 2, 3])].concat();
    for (us, frame) in frames {
        let ns = us * 1000;
        let words = [0, (ns >> 32) as u32, ns as u32, frame.len() as u32, 1600];
        let head: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        file.extend(block(PACKET, &[&head[..], frame].concat()));
    }
    file
}

fn read(file: &[u8], port: Option<u16>) -> Result<CapturedRequests, PcapError> {
    requests(&mut &file[..], port)
}

#[test]
fn requests_are_found_in_all_formats() {
    let us = |us: u64| Span::from_us(us);
    let wanted = CapturedRequests {
        requests: vec![(us(100), 0), (us(200), 1), (us(300), 0)],
        length: us(400),
        port: 11211,
        has_answers: true,
        packets: 7,
        others: 0,
        is_cut: false,
    };
    let frames = frames();
    for file in [pcap_file(&frames, false), pcap_file(&frames, true), pcapng_file(&frames)] {
        assert_eq!(read(&file, None).expect("requests"), wanted);
        assert_eq!(read(&file, Some(11211)).expect("requests"), wanted);
    }
    let one_way: Vec<_> = frames.into_iter().filter(|(at, _)| ![1_000_150, 1_000_400].contains(at)).collect();
    let found = read(&pcap_file(&one_way, false), None).expect("requests");
    assert_eq!((found.requests.len(), found.has_answers), (4, false), "each packet is one");
}

#[test]
fn what_is_no_file_of_packets_is_refused() {
    let frames = frames();
    for bytes in [&b""[..], b"abc", b"#!/bin/sh\necho no packets here\n"] {
        assert!(matches!(read(bytes, None), Err(PcapError::NotOne)));
    }
    let mut other_link = pcap_file(&frames, false);
    other_link[20] = 105;
    assert!(matches!(read(&other_link, None), Err(PcapError::Link(105))));
    assert!(matches!(read(&pcap_file(&frames, false), Some(80)), Err(PcapError::NoRequests { packets: 7, .. })));
    assert!(matches!(read(&pcap_file(&[], false), None), Err(PcapError::NoRequests { packets: 0, .. })));
    let mut huge = pcap_file(&frames, false);
    huge[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(read(&huge, None), Err(PcapError::NotOne)));
}

/// Wherever a file is cut, and whatever byte of it is another, it is read or refused.
#[test]
fn a_file_that_is_cut_or_wrong_does_no_harm() {
    let frames = frames();
    for file in [pcap_file(&frames, false), pcapng_file(&frames)] {
        let whole = read(&file, None).expect("requests").requests.len();
        for end in 0..file.len() {
            match read(&file[..end], None) {
                Ok(found) => assert!(found.requests.len() <= whole),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        assert!(read(&file[..file.len() - 1], None).expect("most of them").is_cut);
        for at in 0..file.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut wrong = file.clone();
                wrong[at] = value;
                let _ = read(&wrong, None);
            }
        }
    }
}

#[test]
fn frames_of_all_links_are_parsed() {
    let ethernet = frame((2, 40_000), SERVER, 30);
    let wanted = Segment::parse(Link::Ethernet, &ethernet, 1600).expect("a segment");
    assert_eq!((wanted.to.port, wanted.data), (11211, 30));
    let packet = &ethernet[14..];
    let with = |head: &[u8]| [head, packet].concat();
    let vlan = [&ethernet[..12], &[0x81, 0, 0, 5], &ethernet[12..]].concat();
    let mut cooked = vec![0; 16];
    cooked[14] = 8;
    let mut cooked2 = vec![0; 20];
    cooked2[0] = 8;
    for (link, bytes) in [
        (Link::Ethernet, vlan),
        (Link::Raw, with(&[])),
        (Link::Null, with(&[2, 0, 0, 0])),
        (Link::Cooked, with(&cooked)),
        (Link::Cooked2, with(&cooked2)),
    ] {
        assert_eq!(Segment::parse(link, &bytes, 1600), Some(wanted), "{link:?}");
        for end in 0..bytes.len() {
            let _ = Segment::parse(link, &bytes[..end], end);
        }
    }
    // UDP over IPv6 with options before it.
    let mut six = vec![0x60, 0, 0, 0, 0, 21, 0, 64];
    six.extend([0; 31]);
    six.extend([1, 17, 0, 0, 0, 0, 0, 0, 0]);
    six.extend([0x30, 0x39, 0, 53, 0, 13, 0, 0]);
    let found = Segment::parse(Link::Raw, &six, six.len()).expect("a datagram");
    assert_eq!((found.from.port, found.to.port, found.data, found.to.is_tcp), (12_345, 53, 5, false));
    let mut later = ethernet.clone();
    later[21] = 7;
    assert_eq!(Segment::parse(Link::Ethernet, &later, 1600), None, "a part of a packet");
}
