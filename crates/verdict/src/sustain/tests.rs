//! Searches of made servers: noise around the sustained rate, pauses far below it.

use napier_rng::{Xoshiro256PlusPlus, open_unit, stream};

use super::{Attempt, Search, Sustained, next_rate, sustained};
use crate::Settings;

/// Searches of each made server.
const RUNS: u32 = 25;

const SEARCH: Search = Search { first: 50_000.0, lowest: 500.0, highest: 5e6, within: 0.1 };

fn attempt(rate: f64, kept_up: bool) -> Attempt {
    Attempt { rate, due: 1000, in_time: if kept_up { 1000 } else { 900 }, left_out: false }
}

fn all(rows: &[(f64, u32, u32)]) -> Vec<Attempt> {
    let of = |(rate, kept, behind): &(f64, u32, u32)| {
        let kept = (0..*kept).map(|_| attempt(*rate, true)).collect::<Vec<_>>();
        [kept, (0..*behind).map(|_| attempt(*rate, false)).collect()].concat()
    };
    rows.iter().flat_map(of).collect()
}

fn said(rows: &[(f64, u32, u32)]) -> Sustained {
    sustained(&all(rows), &Settings::DEFAULT).expect("slices that count")
}

/// A server that sustains `truth`: its slices vary by 2 %, and the share `pauses` of them falls behind at any rate.
fn searched(truth: f64, pauses: f64, slices: usize, rng: &mut Xoshiro256PlusPlus) -> (Vec<Attempt>, bool) {
    let mut seen = Vec::new();
    for _ in 0..slices {
        let Some(rate) = next_rate(&seen, &SEARCH, &Settings::DEFAULT) else { return (seen, true) };
        let noise = (open_unit(rng) + open_unit(rng) + open_unit(rng) + open_unit(rng) - 2.0) * 0.02 * 3.0_f64.sqrt();
        let kept_up = rate * (1.0 + noise) < truth && open_unit(rng) > pauses;
        seen.push(attempt(rate, kept_up));
    }
    (seen, false)
}

#[test]
fn bounds_alone_where_nothing_fell_behind_or_kept_up() {
    assert_eq!(sustained(&[], &Settings::DEFAULT), None);
    let left_out = Attempt { left_out: true, ..attempt(1e5, false) };
    assert_eq!(sustained(&[left_out], &Settings::DEFAULT), None);
    let none_fell = said(&[(1e5, 1, 0), (2e5, 3, 0)]);
    assert_eq!((none_fell.rate, none_fell.kept_up_at_most, none_fell.fell_behind_at_least), (None, Some(2e5), None));
    assert!(none_fell.interval.high.is_infinite() && none_fell.interval.low > 1e5);
    let all_fell = said(&[(1e5, 0, 3), (2e5, 0, 1)]);
    assert_eq!((all_fell.rate, all_fell.kept_up_at_most, all_fell.fell_behind_at_least), (None, None, Some(1e5)));
    assert!(all_fell.interval.low == 0.0 && all_fell.interval.high < 2e5);
}

/// One slice that was kept says nothing of a row whose figures are those of all, which fell behind.
#[test]
fn where_the_machine_was_taken_away_all_slices_count() {
    let mut slices: Vec<Attempt> =
        all(&[(1e5, 0, 16), (2e5, 1, 15)]).into_iter().map(|one| Attempt { left_out: !one.kept_up(), ..one }).collect();
    let kept = sustained(&slices, &Settings::DEFAULT).expect("one counts");
    assert_eq!(kept.keeps_up_to(), Some(2e5));
    let shown = super::said(&slices, &Settings::DEFAULT).expect("slices");
    assert_eq!((shown.keeps_up_to(), shown.fell_behind_at_least), (None, Some(1e5)));
    // With as many that were kept, they are what counts.
    slices.extend(all(&[(2e5, 31, 0)]));
    assert_eq!(super::said(&slices, &Settings::DEFAULT), sustained(&slices, &Settings::DEFAULT));
}

/// One pause at a low rate says nothing against many slices above it.
#[test]
fn a_pause_does_not_end_a_search() {
    let one = said(&[(425e3, 0, 1), (600e3, 3, 0), (762e3, 4, 0), (900e3, 0, 3)]);
    let rate = one.rate.expect("both outcomes");
    assert!((762e3..900e3).contains(&rate), "{one:?}");
    assert_eq!((one.kept_up_at_most, one.fell_behind_at_least), (Some(762e3), Some(900e3)));
}

#[test]
fn rows_are_never_contradicted() {
    let mut rng = stream(3, "rows");
    for _ in 0..100 {
        let rows: Vec<(f64, u32, u32)> = (1..=1 + (open_unit(&mut rng) * 8.0) as u32)
            .map(|n| (1e4 * f64::from(n), (open_unit(&mut rng) * 5.0) as u32, (open_unit(&mut rng) * 5.0) as u32))
            .collect();
        let Some(said) = sustained(&all(&rows), &Settings::DEFAULT) else { continue };
        let kept = rows.iter().filter(|(_, kept, behind)| kept + behind > 0 && kept >= &(2 * behind));
        let kept = kept.map(|row| row.0).fold(0.0, f64::max);
        if let Some(rate) = said.rate {
            assert!(rate >= kept && said.interval.low <= rate && rate <= said.interval.high, "{rows:?} {said:?}");
            let behind = |row: &&(f64, u32, u32)| row.0 > kept && row.1 + row.2 > 0 && row.2 >= 2 * row.1;
            assert!(rows.iter().filter(behind).all(|row| rate <= row.0), "{rows:?} {said:?}");
        }
        let mut turned = all(&rows);
        turned.reverse();
        assert_eq!(sustained(&turned, &Settings::DEFAULT), Some(said), "the order of slices does not matter");
    }
}

/// A search from far below and far above finds the rate, with unseen pauses too.
#[test]
fn searches_find_the_rate() {
    for (truth, pauses) in [(7e3, 0.0), (431e3, 0.0), (431e3, 0.08), (2.2e6, 0.08)] {
        let mut rng = stream(5, "searches");
        let (mut covered, mut near, mut slices, mut log) = (0, 0, 0, 0.0);
        for _ in 0..RUNS {
            let (seen, ended) = searched(truth, pauses, 60, &mut rng);
            let said = sustained(&seen, &Settings::DEFAULT).expect("slices that count");
            let rate = said.rate.expect("both outcomes");
            covered += u32::from(said.interval.low <= truth && truth <= said.interval.high);
            near += u32::from((rate / truth).ln().abs() < 0.1);
            log += (rate / truth).ln() / f64::from(RUNS);
            slices += seen.len();
            assert!(ended, "{truth} {pauses}: {} slices", seen.len());
        }
        println!("{truth} {pauses}: covered {covered}, near {near}, off {log:.4}, {} slices", slices / RUNS as usize);
        assert!(
            100 * covered >= 88 * RUNS && 100 * near >= 95 * RUNS && log.abs() < 0.03,
            "{truth} {pauses}: {covered} {near} {log}"
        );
    }
}

#[test]
fn a_search_stays_within_its_bounds() {
    let mut rng = stream(6, "bounds");
    for truth in [1.0, 1e9] {
        let (seen, ended) = searched(truth, 0.0, 60, &mut rng);
        assert!(ended && seen.len() < 16, "{truth}: {seen:?}");
        assert!(seen.iter().all(|it| (SEARCH.lowest..=SEARCH.highest).contains(&it.rate)), "{seen:?}");
    }
}
