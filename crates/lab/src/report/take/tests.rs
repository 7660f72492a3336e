use super::*;
use crate::loads::Load;
use crate::report::Report;
use crate::report::samples::{cover_letter, decide, row};
use crate::subject::Backend;

const LOAD: Load = Load::Rps(60_000);

/// Mode, p99, CPU, and how far its interval reaches.
fn report(modes: &[(&str, f64, f64, f64)]) -> Report {
    let row = |(mode, p99, cpu, spread): &(&str, f64, f64, f64)| row(mode, LOAD, 6e4, *p99, *cpu, *spread);
    decide(Report { rows: modes.iter().map(row).collect(), ..cover_letter() })
}

/// What is taken, cheaper, faster, and open.
fn chosen(report: &Report) -> (String, Option<String>, Option<String>, Vec<String>) {
    let block = Block::of(report, LOAD, Backend::Engine).unwrap();
    let choice = choose(&block).unwrap();
    let name = |entry: Option<ModeEntry<'_>>| entry.map(|entry| entry.name());
    let open = choice.open.iter().map(|subject| subject.name(false)).collect();
    (choice.take.name(), name(choice.cheaper), name(choice.faster), open)
}

fn some(name: &str) -> Option<String> {
    Some(name.to_owned())
}

#[test]
fn what_gives_more_than_it_costs_is_taken_and_the_ends_of_the_frontier_are_named() {
    let all = [
        ("base", 415.0, 26.0, 0.01),
        ("defer20", 153.0, 26.0, 0.01),
        ("defer200", 304.0, 18.0, 0.01),
        ("fullbusy", 132.0, 100.0, 0.01),
        ("suspend20", 151.0, 30.0, 0.01),
    ];
    assert_eq!(chosen(&report(&all)), ("defer20".to_owned(), some("defer200"), some("fullbusy"), vec![]));
    let costly = [("base", 61.0, 14.0, 0.01), ("suspend20", 64.0, 16.0, 0.01), ("fullbusy", 38.0, 100.0, 0.01)];
    assert_eq!(chosen(&report(&costly)), ("base".to_owned(), None, some("fullbusy"), vec![]));
}

#[test]
fn base_is_replaced_only_by_what_a_verdict_says_is_better() {
    let wide = [("base", 140.0, 37.0, 0.2), ("suspend20", 110.0, 36.0, 0.2)];
    assert_eq!(chosen(&report(&wide)), ("base".to_owned(), None, None, vec!["suspend20".to_owned()]), "undecided");
    let apart = [("base", 140.0, 37.0, 0.01), ("suspend20", 110.0, 36.0, 0.01)];
    assert_eq!(chosen(&report(&apart)).0, "suspend20");
    // Better in p99 for sure, but at its worst it costs more CPU than that is worth.
    let dear = [("base", 140.0, 37.0, 0.01), ("suspend20", 110.0, 42.0, 0.15)];
    assert_eq!(chosen(&report(&dear)), ("base".to_owned(), None, some("suspend20"), vec!["suspend20".to_owned()]));
}

#[test]
fn what_falls_behind_is_never_taken_and_what_may_is_open() {
    let mut all =
        report(&[("base", 2100.0, 61.0, 0.01), ("suspend20", 80.0, 50.0, 0.01), ("fullbusy", 103.0, 100.0, 0.01)]);
    for (row, in_time) in all.rows.iter_mut().zip([(90.0, 92.0), (98.0, 100.0), (99.9, 100.0)]) {
        let crate::report::Outcome::Measured(figures) = &mut row.outcome else { unreachable!("it was measured") };
        (figures.spread.min.in_time_pct, figures.spread.max.in_time_pct) = (Some(in_time.0), Some(in_time.1));
    }
    assert_eq!(chosen(&all), ("fullbusy".to_owned(), None, None, vec!["suspend20".to_owned()]));
}

#[test]
fn without_rounds_or_with_a_machine_that_was_taken_nothing_is_chosen() {
    let all = report(&[("base", 140.0, 37.0, 0.01), ("suspend20", 110.0, 36.0, 0.01)]);
    for report in [Report { decided: Vec::new(), ..all.clone() }, crate::report::samples::taken(all, LOAD)] {
        assert!(choose(&Block::of(&report, LOAD, Backend::Engine).unwrap()).is_none());
    }
}
