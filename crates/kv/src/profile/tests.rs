use std::collections::HashSet;

use super::*;
use crate::load::codec::{Format, Request};
use crate::value::is_genuine;

fn profile(change: impl FnOnce(&mut ProfileConfig)) -> Profile {
    let mut config = ProfileConfig { records: 2000, ..ProfileConfig::default() };
    change(&mut config);
    Profile::new(config, 42).unwrap()
}

#[test]
fn keys_are_distinct_legal_and_of_the_published_size() {
    let profile = profile(|config| config.records = 16_384);
    let keys: HashSet<&[u8]> = (0..16_384).map(|record| profile.key(record)).collect();
    assert_eq!(keys.len(), 16_384);
    assert!(keys.iter().all(|key| (8..=250).contains(&key.len()) && key.iter().all(u8::is_ascii_alphanumeric)));
    let mean = keys.iter().map(|key| key.len()).sum::<usize>() as f64 / 16_384.0;
    // Mean 36.07 of the distribution, less half a byte for rounding down.
    assert!((mean - 35.6).abs() < 0.5, "{mean}");
}

#[test]
fn same_seed_and_name_repeat() {
    let draws = |seed, name| {
        let profile = Profile::new(ProfileConfig::default(), seed).unwrap();
        let mut requests = profile.requests(name);
        (0..500).map(|_| requests.draw()).collect::<Vec<_>>()
    };
    assert_eq!(draws(1, "client/0"), draws(1, "client/0"));
    assert_ne!(draws(1, "client/0"), draws(1, "client/1"));
    assert_ne!(draws(1, "client/0"), draws(2, "client/0"));
}

#[test]
fn share_of_sets_leaves_the_records_alone() {
    let records = |set_share| {
        let mut requests = profile(|config| config.set_share = set_share).requests("c");
        (0..500).map(|_| requests.draw().record).collect::<Vec<_>>()
    };
    assert_eq!(records(0.0), records(1.0));
}

#[test]
fn mix_is_as_asked() {
    for set_share in [0.0, 0.03, 0.5, 1.0] {
        let mut requests = profile(|config| config.set_share = set_share).requests("c");
        let sets = (0..100_000).filter(|_| requests.draw().operation != Operation::Get).count();
        assert!((sets as f64 / 100_000.0 - set_share).abs() < 0.005, "{sets} sets for {set_share}");
    }
}

#[test]
fn uniform_reaches_all_and_zipf_prefers_the_first() {
    let counts = |popularity| {
        let mut requests = profile(|config| (config.records, config.popularity) = (100, popularity)).requests("c");
        let mut counts = [0_u32; 100];
        (0..100_000).for_each(|_| counts[requests.draw().record as usize] += 1);
        counts
    };
    assert!(counts(Popularity::Uniform).iter().all(|count| (800..1200).contains(count)));
    let zipf = counts(Popularity::Zipf { exponent: 1.0 });
    // Harmonic number of 100 is 5.187: the first record gets 19.3 %, the second half of it, the tenth a tenth.
    assert!((18_500..20_100).contains(&zipf[0]), "{}", zipf[0]);
    assert!((9_000..10_300).contains(&zipf[1]) && (1_700..2_200).contains(&zipf[9]), "{:?}", &zipf[..10]);
    assert!(counts(Popularity::Zipf { exponent: 0.0 }).iter().all(|count| (800..1200).contains(count)));
}

#[test]
fn filled_store_answers_every_key_with_a_genuine_value() {
    let profile = profile(|_| {});
    let store = Store::new(0);
    profile.fill(&store, 1);
    assert_eq!(store.stats().records, 2000);
    let mut bytes = 0;
    for record in 0..2000 {
        let key = profile.key(record);
        assert_eq!(store.get(1, key, |item| is_genuine(key, item.flags, item.value)), Some(true));
        bytes += store.get(1, key, |item| item.value.len()).unwrap();
    }
    // Discrete part and bounded tail together: a little below 0.558 x 344 + 0.442 x 5.
    assert!((150..210).contains(&(bytes / 2000)), "{}", bytes / 2000);
}

#[test]
fn every_set_fits_its_datagram() {
    let profile = profile(|config| {
        (config.set_share, config.key_sizes, config.value_sizes) = (1.0, Sizes::Fixed(250), Sizes::Fixed(9000));
    });
    let mut requests = profile.requests("c");
    let Draw { record, operation: Operation::Set { value_bytes } } = requests.draw() else { panic!("all are sets") };
    let mut out = [0; crate::DATAGRAM_BYTES_MAX];
    let request = Request { key: profile.key(record), value_bytes: Some(usize::from(value_bytes)) };
    assert!(request.write_datagram(Format::Ascii, 1, &mut &mut out[..]).is_ok());
}

#[test]
fn shapes_that_cannot_be_used_are_refused() {
    let new = |change: fn(&mut ProfileConfig)| {
        let mut config = ProfileConfig::default();
        change(&mut config);
        Profile::new(config, 1).unwrap_err()
    };
    assert_eq!(new(|c| c.records = 0), ProfileError::Records { records: 0 });
    assert_eq!(new(|c| c.set_share = 1.5), ProfileError::SetShare { set_share: 1.5 });
    assert!(matches!(new(|c| c.set_share = f64::NAN), ProfileError::SetShare { .. }));
    assert_eq!(new(|c| c.popularity = Popularity::Zipf { exponent: -1.0 }), ProfileError::Exponent { exponent: -1.0 });
}
