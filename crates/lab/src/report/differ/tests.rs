use super::*;
use crate::report::read::Saved;
use crate::report::samples::{cover_letter, predicted, refused, row};

const LOAD: Load = Load::Rps(1000);

fn report(rows: Vec<Row>) -> Report {
    Report { rows, ..cover_letter() }
}

fn saved(name: &str, rows: Vec<Row>) -> Saved {
    Saved { name: name.to_owned(), report: report(rows), notes: Vec::new() }
}

#[test]
fn only_runs_that_lie_apart_make_a_difference() {
    let a = report(vec![
        row("base", LOAD, 1e3, 100.0, 50.0, 0.05),
        row("defer20", LOAD, 1e3, 100.0, 50.0, 0.05),
        row("fullbusy", LOAD, 1e3, 100.0, 50.0, 0.05),
    ]);
    let mut b = report(vec![
        row("base", LOAD, 1e3, 80.0, 54.0, 0.05),
        row("defer20", LOAD, 1e3, 104.0, 70.0, 0.05),
        row("fullbusy", LOAD, 1e3, 120.0, 50.0, 0.05),
        row("suspend20", LOAD, 1e3, 120.0, 50.0, 0.05),
        refused("threaded", LOAD, "no"),
    ]);
    b.commit = "ffff".to_owned();
    let found = differ(&a, &b);
    let p99: Vec<Verdict> = found.cells.iter().map(|cell| cell.p99_us.verdict).collect();
    assert_eq!(p99, [Verdict::Lower, Verdict::Overlap, Verdict::Higher]);
    assert_eq!(found.alone, [0, 1]);
    assert_eq!(found.setups, [("commit".to_owned(), ["0123456789ab".to_owned(), "ffff".to_owned()])]);
    assert_eq!(
        found.summary(["old", "new"]),
        "new beside old: p99 is lower in 1 of 3 (base at 1K 0.80x) and higher in 1 of 3 (fullbusy at 1K 1.20x); CPU is higher in 1 of 3 \
         (defer20 at 1K 1.40x)."
    );
}

#[test]
fn nothing_is_claimed_of_one_run_of_overload_or_without_common_loads() {
    let mut one = row("base", LOAD, 1e3, 100.0, 50.0, 0.0);
    if let crate::report::Outcome::Measured(measured) = &mut one.outcome {
        measured.runs = 1;
    }
    let other = report(vec![row("base", LOAD, 1e3, 10.0, 5.0, 0.0)]);
    let found = differ(&report(vec![one]), &other);
    assert_eq!(found.cells[0].p99_us.verdict, Verdict::OneRun);
    assert!(found.summary(["a", "b"]).contains("p99 is not decided anywhere"));
    let overloaded = report(vec![row("base", LOAD, 500.0, 9e5, 99.0, 0.0)]);
    let said = differ(&overloaded, &other).summary(["a", "b"]);
    assert_eq!(said, "b beside a: only b sustains base at 1K.");
    let elsewhere = report(vec![row("base", Load::Rps(2000), 2e3, 10.0, 5.0, 0.0)]);
    assert!(differ(&elsewhere, &other).summary(["a", "b"]).contains("give both the same --load"));
}

#[test]
fn other_backends_are_held_against_each_other_by_mode() {
    let engine = report(vec![row("base", LOAD, 1e3, 100.0, 50.0, 0.01)]);
    let sim = report(vec![predicted("base", LOAD, 1e3, 50.0, 50.0)]);
    let found = differ(&engine, &sim);
    assert!(found.across_backends && found.cells.len() == 1, "{found:?}");
    assert_eq!(found.cells[0].name(true), "base");
}

#[test]
fn the_text_fits_80_columns_and_has_every_cell() {
    let a =
        vec![row("threaded-busy-poll", LOAD, 1e3, 6239.0, 100.0, 0.05), row("base", Load::Max, 1.2e6, 9.0, 99.0, 0.01)];
    let b = vec![row("threaded-busy-poll", LOAD, 1e3, 12.0, 200.0, 0.05), row("base", Load::Max, 9e5, 9.0, 99.0, 0.01)];
    let text = text(&[saved("before-the-change", a), saved("after", b)], 80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("after beside before-the-change: p99 is lower in 1 of 1"), "{text}");
    assert!(
        text.contains("threaded-busy-poll      1K     6239.0       12.0  <0.00x     100     200  >2.00x\n"),
        "{text}"
    );
    assert!(text.contains("closed    1200000     900000  <0.75x"), "{text}");
}
