use super::*;
use proptest::prelude::*;

fn value(key: &[u8], value_bytes: usize) -> (u32, Vec<u8>) {
    let mut bytes = vec![0; value_bytes];
    let flags = fill_value(key, &mut bytes);
    (flags, bytes)
}

proptest! {
    #[test]
    fn a_value_is_genuine_for_its_key_only(
        key in proptest::collection::vec(any::<u8>(), 1..40),
        other in proptest::collection::vec(any::<u8>(), 1..40),
        value_bytes in 0_usize..300,
    ) {
        let (flags, bytes) = value(&key, value_bytes);
        prop_assert!(is_genuine(&key, flags, &bytes));
        prop_assert_eq!(flags, value_flags(&key, value_bytes));
        let mut written = Vec::new();
        write_value(&key, value_bytes, &mut written).unwrap();
        prop_assert_eq!(&written, &bytes);
        if key != other {
            prop_assert!(!is_genuine(&other, flags, &bytes));
        }
    }

    #[test]
    fn one_changed_bit_or_a_cut_is_seen(value_bytes in 1_usize..300, at in 0_usize..300, bit in 0_u32..8) {
        let (flags, mut bytes) = value(b"key", value_bytes);
        prop_assert!(!is_genuine(b"key", flags, &bytes[..value_bytes - 1]));
        prop_assert!(!is_genuine(b"key", flags ^ 1, &bytes));
        bytes[at % value_bytes] ^= 1 << bit;
        prop_assert!(!is_genuine(b"key", flags, &bytes));
    }
}

#[test]
fn hash_spreads_keys_that_differ_in_little() {
    let mut low = [0_u32; 64];
    let mut high = [0_u32; 64];
    for n in 0..64_000 {
        let hash = hash_key(format!("key-{n:026}").as_bytes());
        low[(hash & 63) as usize] += 1;
        high[(hash >> 58) as usize] += 1;
    }
    for counts in [low, high] {
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}

#[test]
fn trailing_zero_bytes_change_the_hash() {
    assert_ne!(hash_key(b"a"), hash_key(b"a\0"));
    assert_ne!(hash_key(b""), hash_key(b"\0\0\0\0\0\0\0\0"));
}
