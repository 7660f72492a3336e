use super::*;
use crate::report::samples::{cover_letter, refused, row};

const LOAD: Load = Load::Rps(1000);

fn of(rows: &[Row]) -> String {
    sentence(rows[0].load, &rows.iter().collect::<Vec<_>>())
}

#[test]
fn the_cover_letters_loads() {
    let report = cover_letter();
    let said: Vec<String> = report.by_load().iter().map(|(load, rows)| sentence(*load, rows)).collect();
    assert_eq!(
        said,
        [
            "defer20 has 1.16x fullbusy's p99 at 26 % of its CPU; base 3.14x at 26 %; defer200 2.30x at 18 %.",
            "suspend20 has 1.06x fullbusy's p99 (runs overlap) at 89 % of its CPU; base does not sustain this load.",
            "fullbusy answers most, 1.18x base's rate; next is suspend20 with 0.98x fullbusy's rate (runs overlap).",
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
fn when_the_fastest_is_also_cheap_it_says_so() {
    let rows = [row("base", LOAD, 1e3, 50.0, 20.0, 0.01), row("defer200", LOAD, 1e3, 300.0, 25.0, 0.01)];
    assert_eq!(of(&rows), "base has the lowest p99 (50.0 us at 20 % CPU), and no mode near it takes less CPU.");
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
        "fullbusy has the lowest p99 (200 us at 100 % CPU), and no mode near it takes less CPU; base and defer20 do not \
         sustain this load."
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
    assert!(of(&rows).ends_with("; base 2.50x at 20 %; one run each, so the spread is unknown."), "{}", of(&rows));
}
