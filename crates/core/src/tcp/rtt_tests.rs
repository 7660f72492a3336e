use super::*;

fn ms(ms: u64) -> Span {
    Span::from_ms(ms)
}

/// Samples one after the other, each a round trip of its own.
fn sampled(samples: &[u64]) -> RoundTrips {
    let mut trips = RoundTrips::default();
    let mut now = Instant::ZERO;
    for (at, sample) in samples.iter().enumerate() {
        let seq = Seq(u32::MAX - 3) + at as u32 * 2;
        now += ms(*sample);
        trips.sample(now, ms(*sample), seq, seq + 1);
    }
    trips
}

#[test]
fn before_a_round_trip_it_is_a_second_and_doubles() {
    let mut trips = RoundTrips::default();
    let mut seen = alloc::vec::Vec::new();
    for _ in 0..9 {
        seen.push(trips.timeout().ns / 1_000_000_000);
        trips.back_off();
    }
    assert_eq!(seen, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
    trips.answered();
    assert_eq!(trips.timeout(), RTO_FIRST);
    for _ in 0..300 {
        trips.back_off();
    }
    assert_eq!(trips.timeout(), RTO_MAX);
}

#[test]
fn the_first_round_trip_counts_three_times() {
    // RFC 6298 section 2.2: R + 4 * R/2.
    assert_eq!(sampled(&[500]).timeout(), ms(1500));
    // The kernel's least.
    assert_eq!(sampled(&[1]).timeout(), ms(201));
    assert_eq!(sampled(&[0]).timeout().ns / 1_000_000, 200);
}

#[test]
fn a_steady_path_comes_to_the_round_trip_and_the_least() {
    let trips = sampled(&[80; 100]);
    assert_eq!(trips.smoothed(), ms(80));
    assert!(trips.timeout() >= ms(280) && trips.timeout() < ms(290), "{:?}", trips.timeout());
}

#[test]
fn a_path_that_gets_slower_gets_time_at_once() {
    let mut samples = [20; 50];
    samples[49] = 600;
    let trips = sampled(&samples);
    assert!(trips.timeout() > ms(600), "{:?}", trips.timeout());
    // And one that gets faster does not get more of it.
    let mut samples = [600; 50];
    let before = sampled(&samples).timeout();
    samples[49] = 20;
    assert!(sampled(&samples).timeout() <= before + ms(40));
}

#[test]
fn the_least_is_of_the_last_minutes() {
    let mut trips = RoundTrips::default();
    let at = |secs| Instant::ZERO + Span::from_secs(secs);
    trips.sample(at(1), ms(10), Seq(1), Seq(2));
    trips.sample(at(2), ms(90), Seq(2), Seq(3));
    assert_eq!(trips.least(), ms(10));
    trips.sample(at(400), ms(90), Seq(3), Seq(4));
    assert_eq!(trips.least(), ms(90));
}

/// No sequence of samples overflows or underflows, and a time-out stays between its bounds.
#[test]
fn any_samples() {
    let values = [0, 1, 50, 200, 3000, u64::MAX / 2_000_000];
    let mut story = [0; 5];
    for code in 0..values.len().pow(5) {
        let mut rest = code;
        for place in &mut story {
            *place = values[rest % values.len()];
            rest /= values.len();
        }
        let trips = sampled(&story);
        let timeout = trips.timeout();
        assert!(timeout >= RTO_MIN && timeout <= RTO_MAX, "{story:?}: {timeout:?}");
    }
}

#[test]
fn what_is_known_and_how_often_it_ran_out_is_said() {
    let mut trips = RoundTrips::default();
    assert!(!trips.is_known());
    trips.back_off();
    trips.back_off();
    trips.back_off();
    assert_eq!((trips.backoffs(), trips.timeout_once()), (3, RTO_FIRST));
    let mut trips = sampled(&[500]);
    assert!(trips.is_known());
    trips.back_off();
    assert_eq!((trips.timeout(), trips.timeout_once(), trips.backoffs()), (ms(3000), ms(1500), 1));
}

#[test]
fn the_deviation_follows_what_gets_longer_sooner_than_what_gets_shorter() {
    assert_eq!(sampled(&[500]).deviation(), ms(250));
    // Of a mean of 80 ms and a deviation of 40: a quarter of the new one, and an eighth of that for much shorter ones.
    let rows = [(100, 82_500, 35_000), (60, 77_500, 35_000), (20, 72_500, 40_625)];
    for (second, mean_us, deviation_us) in rows {
        let trips = sampled(&[80, second]);
        assert_eq!((trips.smoothed(), trips.deviation()), (Span::from_us(mean_us), Span::from_us(deviation_us)));
    }
}

#[test]
fn the_time_out_comes_down_by_a_quarter_each_round_trip() {
    // 1000 ms at first; after two round trips without a larger deviation than 562.5 ms, a quarter of the way to it.
    assert_eq!(sampled(&[500, 500]).timeout(), ms(1500));
    assert_eq!(sampled(&[500; 3]).timeout(), Span::from_us(1_390_625));
}
