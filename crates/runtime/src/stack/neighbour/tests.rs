use super::*;

fn key(ifindex: u32, addr: &str) -> Key {
    Key { ifindex, addr: Addr::test(addr) }
}

fn held(byte: u8) -> Held {
    Held { frame: vec![byte], flow_hash: 0 }
}

fn at_ms(ms: u64) -> Instant {
    Instant { ns: ms * 1_000_000 }
}

const HELD_AND_ASKED: Hold = Hold::Held { probe: true, dropped: false };

#[test]
fn table() {
    let here = Neighbour { mac: [2; 6], permanent: false };
    let there = Neighbour { mac: [4; 6], permanent: true };
    let table = Neighbours::default().with(key(2, "fe80::1"), here).with(key(1, "fe80::1"), there);
    assert_eq!(table.get(key(2, "fe80::1")), Some(here));
    assert_eq!(table.get(key(1, "fe80::1")), Some(there));
    assert_eq!(table.get(key(1, "fe80::2")), None);
    let table = table.with(key(2, "fe80::1"), there);
    assert_eq!((table.len(), table.get(key(2, "fe80::1"))), (2, Some(there)));
    let table = table.without(|k| k.ifindex == 2);
    assert_eq!((table.len(), table.get(key(2, "fe80::1"))), (1, None));
}

#[test]
fn the_newest_datagram_waits_and_the_older_is_dropped() {
    let mut pending = Pending::default();
    let peer = key(1, "10.0.0.2");
    assert_eq!(pending.hold(peer, at_ms(0), held(1)), HELD_AND_ASKED);
    assert_eq!(pending.hold(peer, at_ms(999), held(2)), Hold::Held { probe: false, dropped: true });
    assert!(pending.is_asked(peer) && !pending.is_asked(key(2, "10.0.0.2")));
    assert_eq!(pending.release(peer).map(|h| h.frame), Some(vec![2]));
    assert!(pending.release(peer).is_none() && !pending.is_asked(peer));
}

#[test]
fn three_questions_then_unreachable_then_anew() {
    let mut pending = Pending::default();
    let peer = key(1, "10.0.0.2");
    assert_eq!(pending.hold(peer, at_ms(0), held(1)), HELD_AND_ASKED);
    assert_eq!(pending.hold(peer, at_ms(1000), held(2)), Hold::Held { probe: true, dropped: true });
    assert_eq!(pending.hold(peer, at_ms(2000), held(3)), Hold::Held { probe: true, dropped: true });
    assert_eq!(pending.hold(peer, at_ms(2999), held(4)), Hold::Held { probe: false, dropped: true });
    assert_eq!(pending.hold(peer, at_ms(3000), held(5)), Hold::Unreachable { dropped: true });
    assert_eq!(pending.hold(peer, at_ms(3001), held(6)), HELD_AND_ASKED);
}

#[test]
fn a_scan_of_the_prefix_cannot_fill_the_memory() {
    let mut pending = Pending::default();
    for host in 0..PENDING_MAX {
        let peer = Key { ifindex: 1, addr: Addr::v4([10, 0, (host >> 8) as u8, host as u8]) };
        assert_eq!(pending.hold(peer, at_ms(0), held(1)), HELD_AND_ASKED);
    }
    assert_eq!(pending.hold(key(1, "10.9.9.9"), at_ms(1), held(1)), Hold::Unreachable { dropped: false });
    pending.forget(1);
    assert_eq!(pending.hold(key(1, "10.9.9.9"), at_ms(1), held(1)), HELD_AND_ASKED);
}
