use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::value::{fill_value, is_genuine};

fn set(value: &[u8]) -> Put<'_> {
    Put { how: How::Set, cas: 0, flags: 7, expires_ms: NEVER_MS, value }
}

fn value(store: &Store, now_ms: u64, key: &[u8]) -> Option<Vec<u8>> {
    store.get(now_ms, key, |item| item.value.to_vec())
}

#[test]
fn conditions_of_each_way_to_store() {
    let old = [None, Some(&b"old"[..])];
    for old in old {
        for (how, expected) in [
            (How::Set, Ok(&b"new"[..])),
            (How::Add, if old.is_none() { Ok(&b"new"[..]) } else { Err(PutError::NotStored) }),
            (How::Replace, if old.is_some() { Ok(&b"new"[..]) } else { Err(PutError::NotStored) }),
            (How::Append, if old.is_some() { Ok(&b"oldnew"[..]) } else { Err(PutError::NotStored) }),
            (How::Prepend, if old.is_some() { Ok(&b"newold"[..]) } else { Err(PutError::NotStored) }),
        ] {
            let store = Store::new(0);
            if let Some(old) = old {
                store.put(1, b"k", &set(old)).unwrap();
            }
            let stored = store.put(1, b"k", &Put { how, ..set(b"new") });
            assert_eq!(stored.map(|_| ()), expected.map(|_| ()), "{how:?} over {old:?}");
            assert_eq!(value(&store, 1, b"k").as_deref(), expected.ok().or(old), "{how:?} over {old:?}");
        }
    }
}

#[test]
fn numbers_of_versions_are_compared() {
    let store = Store::new(0);
    assert_eq!(store.put(1, b"k", &Put { cas: 5, ..set(b"x") }), Err(PutError::NotFound));
    let first = store.put(1, b"k", &set(b"a")).unwrap();
    let second = store.put(1, b"k", &Put { cas: first, ..set(b"b") }).unwrap();
    assert_ne!(first, second);
    assert_eq!(store.put(1, b"k", &Put { cas: first, ..set(b"c") }), Err(PutError::Exists));
    assert_eq!(store.delete(1, b"k", first), Err(ChangeError::Exists));
    assert_eq!(store.delete(1, b"k", second), Ok(()));
    assert_eq!(store.delete(1, b"k", 0), Err(ChangeError::NotFound));
    assert_eq!(store.stats().bytes, 0);
}

#[test]
fn a_record_is_there_until_it_expires() {
    let store = Store::new(0);
    store.put(10, b"k", &Put { expires_ms: 20, ..set(b"v") }).unwrap();
    assert!(value(&store, 19, b"k").is_some());
    assert!(value(&store, 20, b"k").is_none());
    assert_eq!(store.put(20, b"k", &Put { how: How::Replace, ..set(b"w") }), Err(PutError::NotStored));
    store.put(20, b"k", &Put { how: How::Add, ..set(b"w") }).unwrap();
    assert_eq!(store.get_and_touch(21, b"k", 30, |item| item.expires_ms), Some(30));
    assert!(value(&store, 30, b"k").is_none());
}

#[test]
fn a_flush_waits_for_its_time() {
    let store = Store::new(0);
    store.put(1, b"k", &set(b"v")).unwrap();
    store.flush(1, 5);
    store.tick(4);
    assert!(value(&store, 4, b"k").is_some());
    store.tick(5);
    assert!(value(&store, 5, b"k").is_none());
    store.put(5, b"k", &set(b"v")).unwrap();
    store.tick(6);
    assert!(value(&store, 6, b"k").is_some(), "a flush happens once");
}

#[test]
fn numbers_count_up_and_down() {
    let store = Store::new(0);
    let delta = |by, down| Delta { by, down, cas: 0, initial: None, expires_ms: None };
    assert_eq!(store.arithmetic(1, b"n", &delta(1, false)), Err(ChangeError::NotFound));
    store.put(1, b"n", &set(b"10")).unwrap();
    assert_eq!(store.arithmetic(1, b"n", &delta(5, false)).unwrap().0, 15);
    assert_eq!(store.arithmetic(1, b"n", &delta(7, true)).unwrap().0, 8);
    assert_eq!(value(&store, 1, b"n").unwrap(), b"8 ", "memcached keeps the length of a decrement");
    assert_eq!(store.arithmetic(1, b"n", &delta(9, true)).unwrap().0, 0);
    store.put(1, b"n", &set(b"18446744073709551615")).unwrap();
    assert_eq!(store.arithmetic(1, b"n", &delta(2, false)).unwrap().0, 1);
    store.put(1, b"n", &set(b"x")).unwrap();
    assert_eq!(store.arithmetic(1, b"n", &delta(2, false)), Err(ChangeError::NonNumeric));
}

#[test]
fn memory_stays_below_its_bound() {
    let store = Store::new(8 << 20);
    let value = vec![1; 10_000];
    for key in 0..2000_u32 {
        store.put(1, &key.to_be_bytes(), &set(&value)).unwrap();
        // Asked for all the time, so it stays.
        store.get(1, &0_u32.to_be_bytes(), |_| ());
    }
    let stats = store.stats();
    assert!(stats.bytes <= stats.bytes_max, "{stats:?}");
    assert!(stats.evictions > 800 && stats.records + stats.evictions == 2000, "{stats:?}");
    assert!(store.get(1, &1999_u32.to_be_bytes(), |_| ()).is_some(), "the newest record is there");
}

#[test]
fn numbers_that_are_made_stay_below_the_bound_as_well() {
    let store = Store::new(8 << 20);
    let delta = Delta { by: 1, down: false, cas: 0, initial: Some((7, NEVER_MS)), expires_ms: None };
    for key in 0..100_000_u32 {
        assert_eq!(store.arithmetic(1, &key.to_be_bytes(), &delta).unwrap().0, 7);
    }
    let stats = store.stats();
    assert!(stats.bytes <= stats.bytes_max, "{stats:?}");
    assert!(stats.evictions > 30_000 && stats.records + stats.evictions == 100_000, "{stats:?}");
}

#[test]
fn places_of_records_that_went_are_given_back() {
    let mut records = shard::Records::new(0, 1);
    let fill = |records: &mut Records| {
        for key in 0..10_000_u32 {
            let at = Hashed { key: &key.to_be_bytes(), hash: u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) };
            records.put(1, at, &set(b"v")).unwrap();
        }
    };
    fill(&mut records);
    for key in 0..9_990_u32 {
        assert!(records.evict(), "{key}");
    }
    assert!(records.places() <= 128, "{} places for {} records", records.places(), records.len());
    fill(&mut records);
    records.clear();
    assert_eq!(records.places(), 0);
}

#[test]
fn records_make_room_for_what_connections_hold_down_to_their_share() {
    const WHOLE: usize = 16 << 20;
    let store = Store::new(WHOLE);
    let value = vec![1; 10_000];
    let fill = || {
        for key in 0..3000_u32 {
            store.put(1, &key.to_be_bytes(), &set(&value)).unwrap();
        }
    };
    fill();
    assert!(store.stats().bytes > (WHOLE - 20_000) as u64, "{:?}", store.stats());
    let (mut first, mut second) = (store.held(), store.held());
    first.set(WHOLE / 2).unwrap();
    second.set(WHOLE / 4).unwrap();
    let is_bounded = || {
        let stats = store.stats();
        assert!(stats.bytes + stats.held_bytes <= WHOLE as u64, "{stats:?}");
    };
    is_bounded();
    // The rest is the records' own, however much is asked for.
    assert_eq!(second.set(WHOLE / 4 + 1), Err(NoMemory));
    assert_eq!((second.bytes(), store.stats().held_bytes), (WHOLE / 4, (WHOLE / 4 * 3) as u64));
    fill();
    is_bounded();
    assert!(store.stats().bytes > (WHOLE / 4 - 20_000) as u64, "{:?}", store.stats());
    first.set(1000).unwrap();
    drop(second);
    assert_eq!(store.stats().held_bytes, 1000);
    assert!(store.has_slack() && store.take_slack());
    assert!(!store.has_slack() && !store.take_slack());
}

#[test]
fn workers_never_see_a_value_half_written() {
    let store = Store::new(0);
    let keys: Vec<Vec<u8>> = (0..4).map(|n| format!("shared-key-{n}").into_bytes()).collect();
    let fill = |key: &[u8], value_bytes: usize| {
        let mut value = vec![0; value_bytes];
        let flags = fill_value(key, &mut value);
        store.put(1, key, &Put { flags, ..set(&value) }).unwrap();
    };
    keys.iter().for_each(|key| fill(key, 10));
    std::thread::scope(|scope| {
        for worker in 0..3_usize {
            let (keys, store, fill) = (&keys, &store, &fill);
            scope.spawn(move || {
                for n in 0..5_000_usize {
                    let key = &keys[(n + worker) % keys.len()];
                    if n % 4 == 0 {
                        fill(key, (n * 7 + worker) % 1000);
                    }
                    let is_right = store.get(1, key, |item| is_genuine(key, item.flags, item.value));
                    assert_eq!(is_right, Some(true));
                }
            });
        }
    });
}

#[derive(Clone, Debug)]
enum Op {
    Put(u8, usize, How),
    Delete(u8),
    Get(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let how = prop_oneof![Just(How::Set), Just(How::Add), Just(How::Replace), Just(How::Append), Just(How::Prepend)];
    prop_oneof![
        (0..8_u8, 0..600_usize, how).prop_map(|(key, len, how)| Op::Put(key, len, how)),
        (0..8_u8).prop_map(Op::Delete),
        (0..8_u8).prop_map(Op::Get),
    ]
}

proptest! {
    #[test]
    fn behaves_as_a_map(ops in proptest::collection::vec(op(), 0..200)) {
        let (store, mut model) = (Store::new(0), HashMap::<u8, Vec<u8>>::new());
        for (at, op) in ops.into_iter().enumerate() {
            match op {
                Op::Put(key, len, how) => {
                    let new = vec![at as u8; len];
                    let old = model.get(&key).cloned();
                    let expected = match (how, old) {
                        (How::Set, _) | (How::Add, None) | (How::Replace, Some(_)) => Some(new.clone()),
                        (How::Append, Some(old)) => Some([old, new.clone()].concat()),
                        (How::Prepend, Some(old)) => Some([new.clone(), old].concat()),
                        _ => None,
                    };
                    let stored = store.put(1, &[key], &Put { how, ..set(&new) });
                    prop_assert_eq!(stored.is_ok(), expected.is_some());
                    if let Some(expected) = expected {
                        model.insert(key, expected);
                    }
                }
                Op::Delete(key) => {
                    prop_assert_eq!(store.delete(1, &[key], 0).is_ok(), model.remove(&key).is_some());
                }
                Op::Get(key) => prop_assert_eq!(value(&store, 1, &[key]), model.get(&key).cloned()),
            }
        }
        for key in 0..8 {
            let _ = store.delete(1, &[key], 0);
        }
        prop_assert_eq!(store.stats().bytes, 0);
    }
}
