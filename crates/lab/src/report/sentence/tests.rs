use super::*;
use crate::report::MachineUse;
use crate::report::samples::{cover_letter, quiet, refused, row};

const LOAD: Load = Load::Rps(1000);

fn report(rows: &[Row]) -> Report {
    Report { rows: rows.to_vec(), machine: Vec::new(), ..cover_letter() }
}

/// What is said of the engine's rows of a load.
fn of(rows: &[Row]) -> String {
    said(&report(rows), rows[0].load)
}

fn said(report: &Report, load: Load) -> String {
    Block::of(report, load, Backend::Engine).map_or_else(String::new, |block| sentence(&block))
}

#[test]
fn the_cover_letters_loads() {
    let report = cover_letter();
    let said: Vec<String> = report.by_load().iter().map(|(load, _)| said(&report, *load)).collect();
    assert_eq!(
        said,
        [
            "Frontier of p99 and CPU: defer200 304 us at 18 %, defer20 153 us at 26 %, suspend20 151 us at 30 %, fullbusy 132 \
             us at 100 %; beside it base 415 us at 26 %; fullbusy has the lowest p99, and next is suspend20 with 1.14x of it.",
            "Frontier of p99 and CPU: suspend20 226 us at 89 %, fullbusy 213 us at 100 %; the lowest p99 is not decided between \
             fullbusy and suspend20 (runs overlap); base does not sustain this load.",
            "In closed loop the highest rate is not decided between fullbusy and suspend20 (runs overlap).",
        ]
    );
}

#[test]
fn nothing_is_claimed_without_a_comparison() {
    assert_eq!(of(&[refused("base", LOAD, "no")]), "");
    assert_eq!(
        of(&[row("base", LOAD, 1e3, 9.0, 9.0, 0.1), refused("fullbusy", LOAD, "no")]),
        "Only base was measured: nothing to compare it with."
    );
}

#[test]
fn a_mode_that_another_beats_in_both_is_not_on_the_frontier() {
    let rows = [row("base", LOAD, 1e3, 50.0, 20.0, 0.01), row("defer200", LOAD, 1e3, 300.0, 25.0, 0.01)];
    assert_eq!(
        of(&rows),
        "Frontier of p99 and CPU: base 50.0 us at 20 %; base has the lowest p99, and next is defer200 with 6.00x of it."
    );
    let alike = [row("base", LOAD, 1e3, 50.0, 20.0, 0.0), row("defer20", LOAD, 1e3, 50.0, 20.0, 0.0)];
    assert!(of(&alike).starts_with("Frontier of p99 and CPU: base 50.0 us at 20 %, defer20 50.0 us at 20 %; "));
}

#[test]
fn where_runs_overlap_none_has_the_lowest_p99() {
    let rows = [
        row("base", LOAD, 1e3, 50.0, 20.0, 0.2),
        row("fullbusy", LOAD, 1e3, 40.0, 100.0, 0.01),
        row("suspend20", LOAD, 1e3, 41.0, 30.0, 0.1),
    ];
    assert!(
        of(&rows).ends_with("; the lowest p99 is not decided between fullbusy, base and suspend20 (runs overlap)."),
        "{}",
        of(&rows)
    );
}

/// The same rows on a machine that others had.
fn crowded(rows: &[Row]) -> String {
    let load = rows[0].load;
    let machine = vec![MachineUse { others_pct: 40.0, ..quiet(load) }];
    said(&Report { machine, ..report(rows) }, load)
}

#[test]
fn a_machine_that_was_taken_away_has_no_winner() {
    let rows = [row("base", LOAD, 1e3, 50.0, 20.0, 0.0), row("fullbusy", LOAD, 1e3, 20.0, 100.0, 0.0)];
    assert_eq!(
        crowded(&rows),
        "p99 and CPU by their medians: base 50.0 us at 20 %, fullbusy 20.0 us at 100 %; none is called the best, for the machine \
         was taken away (others took 40 % of the CPUs)."
    );
    let rows = [row("base", Load::Max, 1e3, 50.0, 20.0, 0.0), row("fullbusy", Load::Max, 2e3, 20.0, 100.0, 0.0)];
    assert_eq!(
        crowded(&rows),
        "In closed loop none is called the best, for the machine was taken away (others took 40 % of the CPUs)."
    );
}

#[test]
fn what_falls_behind_on_a_machine_that_was_taken_away_may_well_sustain_the_load() {
    let rows = [row("base", LOAD, 1e3, 50.0, 20.0, 0.0), row("fullbusy", LOAD, 800.0, 20.0, 100.0, 0.0)];
    assert!(of(&rows).starts_with("Only base sustains this load"));
    assert_eq!(
        crowded(&rows),
        "p99 and CPU by their medians: base 50.0 us at 20 %; none is called the best, for the machine was taken away (others \
         took 40 % of the CPUs); fullbusy fell behind meanwhile."
    );
    let rows = [row("base", LOAD, 900.0, 50.0, 20.0, 0.0), row("fullbusy", LOAD, 800.0, 20.0, 100.0, 0.0)];
    assert!(of(&rows).starts_with("No mode sustains this load"));
    assert!(
        !crowded(&rows).contains("sustain") && crowded(&rows).ends_with("base and fullbusy fell behind meanwhile.")
    );
}

#[test]
fn one_that_keeps_up_in_some_runs_only_decides_nothing() {
    let mut rows = [row("base", LOAD, 1e3, 50.0, 20.0, 0.0), row("fullbusy", LOAD, 900.0, 20.0, 100.0, 0.0)];
    if let crate::report::Outcome::Measured(measured) = &mut rows[1].outcome {
        measured.spread.max.in_time_pct = Some(100.0);
    }
    assert_eq!(
        of(&rows),
        "p99 and CPU by their medians: base 50.0 us at 20 %; what sustains this load is not decided: fullbusy kept up in some runs \
         only; fullbusy fell behind meanwhile."
    );
}

#[test]
fn modes_that_fall_behind_are_named_and_not_compared() {
    let rows = [
        row("base", LOAD, 900.0, 10.0, 50.0, 0.01),
        row("defer20", LOAD, 800.0, 10.0, 50.0, 0.01),
        row("fullbusy", LOAD, 1e3, 200.0, 100.0, 0.01),
    ];
    assert_eq!(
        of(&rows),
        "Only fullbusy sustains this load: p99 and CPU fullbusy 200 us at 100 %; base and defer20 do not sustain this load."
    );
    assert!(of(&rows[..2]).starts_with("No mode sustains this load"));
}

#[test]
fn one_run_is_said_to_be_one() {
    let mut rows = [row("base", LOAD, 1e3, 50.0, 20.0, 0.0), row("fullbusy", LOAD, 1e3, 20.0, 100.0, 0.0)];
    for row in &mut rows {
        if let crate::report::Outcome::Measured(measured) = &mut row.outcome {
            measured.runs = 1;
        }
    }
    assert!(of(&rows).ends_with("; none is called the best: of one run the spread is unknown."), "{}", of(&rows));
    rows[1] = row("fullbusy", LOAD, 500.0, 20.0, 100.0, 0.0);
    assert!(!of(&rows).contains("Only"), "{}", of(&rows));
}
