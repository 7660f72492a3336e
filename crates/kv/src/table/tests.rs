use std::collections::HashMap;

use super::*;
use crate::value::{fill_value, is_genuine};
use proptest::prelude::*;

fn get(table: &Table, key: &[u8]) -> Option<(u32, Vec<u8>)> {
    table.get(key, |flags, value| (flags, value.to_vec()))
}

#[test]
fn keeps_and_overwrites() {
    let table = Table::new(10);
    assert!(table.is_empty());
    assert_eq!(get(&table, b"a"), None);
    table.set(b"a", 1, b"one").unwrap();
    table.set(b"b", 2, b"").unwrap();
    assert_eq!(get(&table, b"a"), Some((1, b"one".to_vec())));
    assert_eq!(get(&table, b"b"), Some((2, vec![])));
    table.set(b"a", 3, b"longer than before").unwrap();
    table.set(b"a", 4, b"x").unwrap();
    assert_eq!(get(&table, b"a"), Some((4, b"x".to_vec())));
    assert_eq!(table.len(), 2);
}

#[test]
fn holds_the_records_it_was_made_for() {
    for records in [1, 100, 5_000] {
        let table = Table::new(records);
        for n in 0..records {
            table.set(format!("key-{n:026}").as_bytes(), n as u32, b"value").unwrap();
        }
        assert_eq!(table.len(), records);
        assert!((0..records).all(|n| get(&table, format!("key-{n:026}").as_bytes()).unwrap().0 == n as u32));
    }
}

#[test]
fn full_is_said_and_what_is_there_stays() {
    let table = Table::new(0);
    let mut kept = 0;
    let refused = (0..1_000_000).find(|n: &u32| match table.set(&n.to_be_bytes(), *n, b"v") {
        Ok(()) => {
            kept += 1;
            false
        }
        Err(error) => {
            assert_eq!(error, StoreError::Full);
            true
        }
    });
    let refused = refused.expect("a table of fixed memory gets full");
    assert_eq!(table.len(), kept);
    assert_eq!(get(&table, &refused.to_be_bytes()), None);
    assert!((0..refused).all(|n| get(&table, &n.to_be_bytes()).is_some()));
    table.set(&0_u32.to_be_bytes(), 9, b"again").unwrap();
}

#[test]
fn what_cannot_be_answered_is_not_kept() {
    let table = Table::new(1);
    let max = value_bytes_max(1);
    assert_eq!(table.set(b"k", 0, &vec![0; max]), Ok(()));
    let too_large = StoreError::TooLarge { value_bytes: max + 1, value_bytes_max: max };
    assert_eq!(table.set(b"k", 0, &vec![0; max + 1]), Err(too_large));
    assert_eq!(table.set(b"", 0, b""), Err(StoreError::BadKey { key_bytes: 0 }));
    assert_eq!(table.set(&[b'k'; 251], 0, b""), Err(StoreError::BadKey { key_bytes: 251 }));
    assert_eq!(table.set(&[b'k'; 250], 0, &vec![0; value_bytes_max(250)]), Ok(()));
}

#[test]
fn workers_never_see_a_value_half_written() {
    let table = Table::new(8);
    let keys: Vec<Vec<u8>> = (0..4).map(|n| format!("shared-key-{n}").into_bytes()).collect();
    let set = |key: &[u8], value_bytes: usize| {
        let mut value = vec![0; value_bytes];
        let flags = fill_value(key, &mut value);
        table.set(key, flags, &value).unwrap();
    };
    keys.iter().for_each(|key| set(key, 10));
    std::thread::scope(|scope| {
        for worker in 0..3_usize {
            let (keys, table, set) = (&keys, &table, &set);
            scope.spawn(move || {
                for n in 0..5_000_usize {
                    let key = &keys[(n + worker) % keys.len()];
                    if n % 4 == 0 {
                        set(key, (n * 7 + worker) % 1000);
                    }
                    assert_eq!(table.get(key, |flags, value| is_genuine(key, flags, value)), Some(true));
                }
            });
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn agrees_with_a_map(ops in proptest::collection::vec(
        ("[a-e]{1,3}", proptest::option::of((any::<u32>(), proptest::collection::vec(any::<u8>(), 0..64)))), 0..200,
    )) {
        let table = Table::new(200);
        let mut map = HashMap::new();
        for (key, set) in ops {
            match set {
                Some((flags, value)) => {
                    table.set(key.as_bytes(), flags, &value).unwrap();
                    map.insert(key, (flags, value));
                }
                None => prop_assert_eq!(get(&table, key.as_bytes()), map.get(&key).cloned()),
            }
        }
        prop_assert_eq!(table.len(), map.len());
    }
}
