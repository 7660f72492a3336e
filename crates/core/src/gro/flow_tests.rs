use super::*;

const ACK: u32 = 0x0010_0000;
const ECE: u32 = 0x0040_0000;
const WORD: u32 = 5 << 28 | ACK | 500;

fn tcp(seq: u32, payload_bytes: u16) -> Segment {
    let tcp = Tcp { seq, ack: 7, word: WORD, options: [0; TCP_OPTIONS_MAX] };
    Segment { ip: ip(0, true), tcp: Some(tcp), header_bytes: 40, payload_bytes }
}

fn udp(payload_bytes: u16) -> Segment {
    Segment { ip: ip(0, true), tcp: None, header_bytes: 28, payload_bytes }
}

fn ip(id: u16, df: bool) -> Ip {
    Ip { hops: 64, class: 0, id: Some((id, df)) }
}

fn with(segment: Segment, change: impl FnOnce(&mut Tcp)) -> Segment {
    let mut tcp = segment.tcp.unwrap();
    change(&mut tcp);
    Segment { tcp: Some(tcp), ..segment }
}

fn flagged(segment: Segment, flags: u32) -> Segment {
    with(segment, |tcp| tcp.word |= flags)
}

/// A second packet after one of 100 bytes that began at 1000 -> what comes of it, and whether it is held if it is alone.
#[test]
fn tcp_conditions() {
    use Join::{Complete, Held, Separate};
    let next = tcp(1100, 100);
    let rows = [
        ("next in order", next, Held, true),
        ("one byte", tcp(1100, 1), Complete, true),
        ("shorter", tcp(1100, 99), Complete, true),
        ("longer", tcp(1100, 101), Separate, true),
        ("empty", tcp(1100, 0), Separate, false),
        ("one byte too late", tcp(1101, 100), Separate, true),
        ("one byte too early", tcp(1099, 100), Separate, true),
        ("again", tcp(1000, 100), Separate, true),
        ("PSH", flagged(next, PSH), Complete, false),
        ("FIN", flagged(next, FIN), Complete, false),
        ("FIN and PSH, shorter", flagged(tcp(1100, 3), FIN | PSH), Complete, false),
        ("SYN", flagged(next, SYN), Separate, false),
        ("RST", flagged(next, RST), Separate, false),
        ("URG", flagged(next, URG), Separate, false),
        ("CWR", flagged(next, CWR), Separate, true),
        ("ECE", flagged(next, ECE), Separate, true),
        ("no ACK", with(next, |tcp| tcp.word ^= ACK), Separate, true),
        ("another window", with(next, |tcp| tcp.word ^= 1), Separate, true),
        ("another data offset", with(next, |tcp| tcp.word ^= 1 << 28), Separate, true),
        ("another ACK number", with(next, |tcp| tcp.ack += 1), Separate, true),
        ("another option", with(next, |tcp| tcp.options[39] = 1), Separate, true),
        ("another TTL", Segment { ip: Ip { hops: 63, ..next.ip }, ..next }, Separate, true),
        ("another TOS", Segment { ip: Ip { class: 3, ..next.ip }, ..next }, Separate, true),
        ("without DF", Segment { ip: ip(0, false), ..next }, Separate, true),
        ("the next identification", Segment { ip: ip(1, true), ..next }, Held, true),
        ("the one after", Segment { ip: ip(2, true), ..next }, Separate, true),
        ("the one before", Segment { ip: ip(65535, true), ..next }, Separate, true),
    ];
    for (name, next, join, held) in rows {
        let before = Train::new(tcp(1000, 100));
        let mut train = before;
        assert_eq!(train.join(&next), join, "{name}");
        assert_eq!(next.may_be_held(), held, "{name}");
        if join == Separate {
            assert_eq!(train, before, "{name}");
        } else {
            assert_eq!((train.segments(), train.payload_bytes()), (2, 100 + u32::from(next.payload_bytes)), "{name}");
            assert_eq!(train.later_flags(), next.tcp.unwrap().word & (FIN | PSH), "{name}");
        }
    }
    assert!(tcp(1000, 1).may_be_held() && !tcp(1000, 0).may_be_held());
}

/// The first packet may have CWR, and no other.
#[test]
fn only_the_first_packet_has_cwr() {
    for (flags, join) in [(0, Join::Held), (CWR, Join::Separate)] {
        let mut train = Train::new(flagged(tcp(1000, 100), CWR));
        assert_eq!(train.join(&flagged(tcp(1100, 100), flags)), join);
    }
}

/// A second datagram after one of 100 bytes.
#[test]
fn udp_conditions() {
    use Join::{Complete, Held, Separate};
    let rows = [
        (udp(100), Held),
        (udp(99), Complete),
        (udp(1), Complete),
        (udp(101), Separate),
        (udp(0), Separate),
        (Segment { ip: Ip { hops: 63, ..ip(0, true) }, ..udp(100) }, Separate),
        (Segment { ip: Ip { class: 1, ..ip(0, true) }, ..udp(100) }, Separate),
        (Segment { ip: ip(1, true), ..udp(100) }, Held),
        (Segment { ip: ip(2, true), ..udp(100) }, Separate),
    ];
    for (next, join) in rows {
        assert_eq!(Train::new(udp(100)).join(&next), join, "{next:?}");
    }
    assert!(udp(1).may_be_held() && !udp(0).may_be_held());
}

/// Identifications count on, over the wrap, or with DF stay; which of the two the second packet decides.
#[test]
fn identifications() {
    let joins = |df: bool, ids: &[u16]| {
        let mut train = Train::new(Segment { ip: ip(ids[0], df), ..udp(10) });
        let mut joins = ids[1..].iter().map(|id| train.join(&Segment { ip: ip(*id, df), ..udp(10) }));
        joins.all(|join| join == Join::Held)
    };
    for df in [false, true] {
        assert!(joins(df, &[65534, 65535, 0, 1]), "DF {df}");
        assert_eq!(joins(df, &[5, 5]), df);
        assert_eq!(joins(df, &[5, 5, 5, 5]), df);
        assert!(!joins(df, &[5, 5, 6]));
        assert!(!joins(df, &[5, 6, 6]));
        assert!(!joins(df, &[5, 6, 8]));
        assert!(!joins(df, &[5, 4]));
    }
    let v6 = Segment { ip: Ip { id: None, ..ip(0, true) }, ..udp(10) };
    let mut train = Train::new(v6);
    assert_eq!(train.join(&v6), Join::Held);
    assert_eq!(train.join(&udp(10)), Join::Separate);
}

/// Datagrams are merged up to 64, or up to the length of an IP packet; segments up to the latter.
#[test]
fn limits() {
    for (segment, most) in [(udp(100), 64), (udp(1400), 46), (udp(65507), 1), (tcp(0, 1400), 46), (tcp(0, 1), 65495)] {
        let mut train = Train::new(segment);
        let mut packets = 1;
        loop {
            let next = match segment.tcp {
                Some(_) => with(segment, |tcp| tcp.seq = train.payload_bytes()),
                None => segment,
            };
            match train.join(&next) {
                Join::Held => packets += 1,
                Join::Complete => {
                    packets += 1;
                    break;
                }
                Join::Separate => break,
            }
        }
        assert_eq!((packets, train.segments()), (most, most), "{segment:?}");
        assert!(u32::from(segment.header_bytes) + train.payload_bytes() < GRO_MAX_BYTES);
    }
}

/// Sequence numbers wrap.
#[test]
fn a_train_goes_over_the_end_of_the_sequence_numbers() {
    let mut train = Train::new(tcp(u32::MAX - 49, 100));
    assert_eq!(train.join(&tcp(50, 100)), Join::Held);
    assert_eq!(train.join(&tcp(150, 100)), Join::Held);
}
