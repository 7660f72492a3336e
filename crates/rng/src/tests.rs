use super::*;

#[test]
fn same_seed_and_name_repeat() {
    let (mut a, mut b) = (stream(7, "arrivals"), stream(7, "arrivals"));
    for _ in 0..100 {
        assert_eq!(a.next_u64(), b.next_u64());
    }
}

#[test]
fn seed_and_name_both_matter() {
    let first = |seed, name| stream(seed, name).next_u64();
    let all = [first(1, "keys"), first(1, "sizes"), first(2, "keys"), first(1, ""), first(1, "key"), first(1, "skey")];
    for (i, a) in all.iter().enumerate() {
        assert!(all[i + 1..].iter().all(|b| a != b));
    }
}

#[test]
fn open_unit_stays_inside_and_is_even() {
    let mut rng = stream(1, "unit");
    let n = 100_000;
    let mut sum = 0.0;
    for _ in 0..n {
        let u = open_unit(&mut rng);
        assert!(u > 0.0 && u < 1.0);
        sum += u;
    }
    assert!((sum / f64::from(n) - 0.5).abs() < 0.005);
}

#[test]
fn below_reaches_every_value() {
    let mut rng = stream(1, "below");
    let mut seen = [0_u32; 7];
    for _ in 0..7_000 {
        seen[below(&mut rng, 7) as usize] += 1;
    }
    assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
}
