use super::*;
use crate::device::PacketClass;
use crate::tables::neighbour::pending::{HELD_ALL_BYTES_MAX, HELD_BYTES_MAX, PENDING_MAX};

fn key(ifindex: u32, addr: &str) -> Key {
    Key { ifindex, addr: Addr::test(addr) }
}

fn host(number: usize) -> Key {
    Key { ifindex: 1, addr: Addr::v4([10, (number >> 16) as u8, (number >> 8) as u8, number as u8]) }
}

fn frame(byte: u8, len: usize) -> HeldPacket {
    HeldPacket { frame: vec![byte; len], class: PacketClass::of_flow(0) }
}

fn held(byte: u8) -> HeldPacket {
    frame(byte, 1)
}

fn at_ms(ms: u64) -> Instant {
    Instant { ns: ms * 1_000_000 }
}

fn neighbour(origin: Origin, ms: u64) -> Neighbour {
    let nud = if origin == Origin::Permanent { Nud::Permanent } else { Nud::Stale };
    Neighbour { mac: [2; 6], origin, since: at_ms(ms), nud }
}

fn bytes_of(pending: &mut Pending, key: Key) -> Vec<u8> {
    pending.take(key).into_iter().map(|held| held.frame[0]).collect()
}

const HELD_AND_ASKED: Hold = Hold::Held { probe: true, dropped: 0 };
const HELD: Hold = Hold::Held { probe: false, dropped: 0 };

#[test]
fn table() {
    let (here, there) = (neighbour(Origin::Unsolicited, 0), neighbour(Origin::Permanent, 0));
    let table = Neighbours::default().with(key(2, "fe80::1"), here).0.with(key(1, "fe80::1"), there).0;
    assert_eq!(table.get(key(2, "fe80::1")), Some(here));
    assert_eq!(table.get(key(1, "fe80::1")), Some(there));
    assert_eq!(table.get(key(1, "fe80::2")), None);
    let (table, _) = table.with(key(2, "fe80::1"), there);
    assert_eq!((table.len(), table.get(key(2, "fe80::1"))), (2, Some(there)));
    let table = table.without(|k| k.ifindex == 2);
    assert_eq!((table.len(), table.get(key(2, "fe80::1"))), (1, None));
}

#[test]
fn a_full_table_forgets_the_oldest_that_is_least_sure() {
    let mut table = Neighbours::default();
    let add = |table: &mut Neighbours, number, origin, ms| {
        let (next, evicted) = table.with(host(number), neighbour(origin, ms));
        *table = next;
        evicted
    };
    // Older than all others, and kept.
    assert!(!add(&mut table, 0, Origin::Permanent, 0));
    assert!(!add(&mut table, 1, Origin::Confirmed, 1));
    for number in 2..=LEARNT_MAX {
        assert!(!add(&mut table, number, Origin::Unsolicited, 10_000 - number as u64), "there is room");
    }
    // The last of them was the first.
    assert!(add(&mut table, 5000, Origin::Unsolicited, 20_000));
    assert_eq!((table.len(), table.get(host(LEARNT_MAX))), (LEARNT_MAX + 1, None));
    for number in 5001..5000 + 2 * LEARNT_MAX {
        assert!(add(&mut table, number, Origin::Unsolicited, 20_000 + number as u64));
    }
    assert!(table.get(host(0)).is_some() && table.get(host(1)).is_some());
    // Among confirmed ones the oldest goes.
    for number in 0..LEARNT_MAX {
        add(&mut table, 20_000 + number, Origin::Confirmed, 50_000);
    }
    assert!(table.get(host(0)).is_some() && table.get(host(1)).is_none());
    assert_eq!(table.len(), LEARNT_MAX + 1);
    // A change needs no room.
    assert!(!add(&mut table, 20_000, Origin::Confirmed, 60_000));
}

/// Of several stations that answer the first is kept for a second; a station that asks for us, or speaks of itself, is believed
/// at once.
#[test]
fn an_address_stays_for_a_second_against_answers_only() {
    let known = Some(neighbour(Origin::Confirmed, 5000));
    let hears = |word, force, ms| Neighbour::hear(known, [4; 6], (word, force), false, (at_ms(ms), 0));
    assert_eq!(hears(Word::Answer, Force::Weak, 5999), News::Refused);
    assert!(matches!(hears(Word::Answer, Force::Weak, 6000), News::Moved(Nud::Reachable { .. })));
    for word in [Word::AskedUs, Word::Announced] {
        assert_eq!(hears(word, Force::Overrides, 5000), News::Moved(Nud::Stale));
    }
    let permanent = Some(neighbour(Origin::Permanent, 0));
    assert_eq!(
        Neighbour::hear(permanent, [4; 6], (Word::AskedUs, Force::Overrides), false, (at_ms(9000), 0)),
        News::None
    );
}

#[test]
fn the_table_says_what_ends_next() {
    let delay = |ms| Neighbour { nud: Nud::Delay { until: at_ms(ms) }, ..neighbour(Origin::Confirmed, 0) };
    let table = Neighbours::default().with(host(1), delay(7)).0.with(host(2), delay(5)).0;
    assert_eq!(table.ends(), Deadline::at(at_ms(5)));
    let table = table.changed(|known| (known.nud != Nud::Delay { until: at_ms(5) }).then_some(*known));
    assert_eq!((table.len(), table.ends()), (1, Deadline::at(at_ms(7))));
    assert!(Neighbours::default().ends().is_never());
}

#[test]
fn strangers_are_taken_in_at_a_rate() {
    let mut strangers = Allowance::unsolicited();
    let mut admitted = |ms| (0..1000).filter(|_| strangers.admit(at_ms(ms))).count();
    assert_eq!(admitted(5), 256);
    assert_eq!(admitted(5), 0);
    assert_eq!(admitted(15), 1);
    assert_eq!(admitted(1015), 100);
    assert_eq!(admitted(100_000), 256);
}

#[test]
fn packets_wait_in_their_order() {
    let mut pending = Pending::default();
    let peer = key(1, "10.0.0.2");
    assert_eq!(pending.hold(peer, at_ms(0), held(1)), HELD_AND_ASKED);
    assert_eq!(pending.hold(peer, at_ms(999), held(2)), HELD);
    assert_eq!(pending.answered(key(2, "10.0.0.2")), Answered::NotAsked);
    assert_eq!(pending.answered(peer), Answered::First);
    assert_eq!(pending.answered(peer), Answered::Again);
    assert_eq!(bytes_of(&mut pending, peer), [1, 2]);
    // Comes while those leave; asks nobody, however late.
    assert_eq!(pending.hold(peer, at_ms(9000), held(3)), HELD);
    assert_eq!(bytes_of(&mut pending, peer), [3]);
    assert_eq!((bytes_of(&mut pending, peer), pending.end(peer), pending.bytes()), (vec![], 0, 0));
    assert_eq!(pending.hold(peer, at_ms(9001), held(4)), HELD_AND_ASKED);
    assert_eq!((pending.end(peer), pending.bytes()), (1, 0));
}

#[test]
fn the_oldest_packets_make_room() {
    let mut pending = Pending::default();
    let peer = key(1, "10.0.0.2");
    let full_frame = |byte| frame(byte, 1514);
    assert_eq!(pending.hold(peer, at_ms(0), full_frame(1)), HELD_AND_ASKED);
    for byte in 2..=101 {
        assert_eq!(pending.hold(peer, at_ms(1), full_frame(byte)), HELD);
    }
    assert_eq!(pending.hold(peer, at_ms(1), full_frame(102)), Hold::Held { probe: false, dropped: 1 });
    assert!(pending.bytes() <= HELD_BYTES_MAX);
    assert_eq!(bytes_of(&mut pending, peer), (2..=102).collect::<Vec<u8>>());
}

#[test]
fn three_questions_then_unreachable_then_anew() {
    let mut pending = Pending::default();
    let peer = key(1, "10.0.0.2");
    let asked_again = Hold::Held { probe: true, dropped: 0 };
    assert_eq!(pending.hold(peer, at_ms(0), held(1)), HELD_AND_ASKED);
    assert_eq!(pending.hold(peer, at_ms(1000), held(2)), asked_again);
    assert_eq!(pending.hold(peer, at_ms(2000), held(3)), asked_again);
    assert_eq!(pending.hold(peer, at_ms(2999), held(4)), HELD);
    assert_eq!(pending.hold(peer, at_ms(3000), held(5)), Hold::Unreachable { dropped: 4 });
    assert_eq!(pending.hold(peer, at_ms(3001), held(6)), HELD_AND_ASKED);
}

#[test]
fn a_scan_of_the_prefix_cannot_fill_the_memory_nor_keep_others_out() {
    let mut pending = Pending::default();
    for number in 0..PENDING_MAX {
        assert_eq!(pending.hold(host(number), at_ms(0), held(1)), HELD_AND_ASKED);
    }
    let late = key(1, "10.9.9.9");
    assert_eq!(pending.hold(late, at_ms(1), held(7)), Hold::Held { probe: true, dropped: 1 });
    assert_eq!(pending.answered(host(0)), Answered::NotAsked, "the oldest question was given up");
    assert_eq!(pending.answered(late), Answered::First);
    assert_eq!(pending.forget(2), 0);
    assert_eq!(pending.forget(1), PENDING_MAX as u64);
    assert_eq!(pending.bytes(), 0);
}

#[test]
fn what_is_held_for_all_is_bounded() {
    let mut pending = Pending::default();
    let (mut put, mut dropped) = (0, 0);
    for number in 0..100 {
        for _ in 0..101 {
            match pending.hold(host(number), at_ms(0), frame(9, 1514)) {
                Hold::Held { dropped: gone, .. } => dropped += gone,
                Hold::Unreachable { .. } => panic!("not yet"),
            }
            put += 1;
            assert!(pending.bytes() <= HELD_ALL_BYTES_MAX);
        }
    }
    assert_eq!(pending.take(host(99)).len(), 101, "the newest neighbour lost nothing");
    assert_eq!(put, dropped + 101 + pending.forget(1));
    assert_eq!(pending.bytes(), 0);
}

#[test]
fn questions_that_nobody_repeats_are_forgotten() {
    let mut pending = Pending::default();
    assert_eq!(pending.hold(host(1), at_ms(0), held(1)), HELD_AND_ASKED);
    assert_eq!(pending.hold(host(2), at_ms(9999), held(1)), HELD_AND_ASKED);
    assert_eq!(pending.hold(host(3), at_ms(10_000), held(1)), Hold::Held { probe: true, dropped: 1 });
    assert_eq!((pending.end(host(1)), pending.end(host(2)), pending.end(host(3))), (0, 1, 1));
}

#[test]
fn a_question_is_asked_again_by_time_alone_and_given_up_after_three() {
    let (mut pending, key) = (Pending::default(), host(1));
    assert!(pending.ends().is_never());
    assert_eq!(pending.hold(key, at_ms(0), held(1)), HELD_AND_ASKED);
    assert_eq!(pending.hold(key, at_ms(500), held(2)), HELD);
    assert_eq!(pending.ends(), Deadline::at(at_ms(1000)));
    assert_eq!(pending.age(at_ms(999)), (vec![], 0));
    assert_eq!(pending.age(at_ms(1000)), (vec![key], 0));
    assert_eq!(pending.hold(key, at_ms(1500), held(3)), HELD, "it has been asked");
    assert_eq!(pending.age(at_ms(2100)), (vec![key], 0));
    assert_eq!(pending.age(at_ms(3099)), (vec![], 0));
    assert_eq!(pending.age(at_ms(3100)), (vec![], 3));
    assert_eq!((pending.bytes(), pending.age(at_ms(9000))), (0, (vec![], 0)));
    assert!(pending.ends().is_never());
    assert_eq!(pending.hold(key, at_ms(9000), held(4)), Hold::Unreachable { dropped: 0 });
    assert_eq!(pending.hold(key, at_ms(9001), held(5)), HELD_AND_ASKED);
    // One that has answered is left alone.
    assert_eq!(pending.answered(key), Answered::First);
    assert_eq!(pending.age(at_ms(99_000)), (vec![], 0));
    assert_eq!(bytes_of(&mut pending, key), [5]);
}
