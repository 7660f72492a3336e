use super::*;
use crate::report::MachineUse;
use crate::report::samples::{self, cover_letter, predicted, refused, row};

mod forms;
mod slices;

const LOAD: Load = Load::Rps(1000);

fn saved(name: &str, rows: Vec<Row>) -> Saved {
    Saved { name: name.to_owned(), report: Report { rows, ..cover_letter() }, notes: Vec::new() }
}

/// One beside the other, in a sentence.
fn summary(a: &Saved, b: &Saved) -> String {
    SideBySide::of(a, std::slice::from_ref(b)).each()[0].summary()
}

#[test]
fn only_runs_that_lie_apart_make_a_difference() {
    let old = saved(
        "old",
        vec![
            row("base", LOAD, 1e3, 100.0, 50.0, 0.05),
            row("defer20", LOAD, 1e3, 100.0, 50.0, 0.05),
            row("fullbusy", LOAD, 1e3, 100.0, 50.0, 0.05),
        ],
    );
    let mut new = saved(
        "new",
        vec![
            row("base", LOAD, 1e3, 80.0, 54.0, 0.05),
            row("defer20", LOAD, 1e3, 104.0, 70.0, 0.05),
            row("fullbusy", LOAD, 1e3, 120.0, 50.0, 0.05),
            row("suspend20", LOAD, 1e3, 120.0, 50.0, 0.05),
            refused("threaded", LOAD, "no"),
        ],
    );
    new.report.commit = "ffff".to_owned();
    let others = [new];
    let all = SideBySide::of(&old, &others);
    let found = &all.each()[0];
    let p99: Vec<DifferenceVerdict> = found.cells.iter().map(|cell| cell.p99_us.verdict()).collect();
    assert_eq!(p99, [DifferenceVerdict::Lower, DifferenceVerdict::Overlap, DifferenceVerdict::Higher]);
    assert_eq!(found.alone, [0, 1]);
    assert_eq!(found.setups, [("commit", ["0123456789ab", "ffff"])]);
    assert_eq!(
        found.summary(),
        "new beside old: p99 is lower in 1 of 3 (base at 1K 0.80x) and higher in 1 of 3 (fullbusy at 1K 1.20x); CPU is higher in 1 of 3 \
         (defer20 at 1K 1.40x)."
    );
    let said = found.about_ranges().expect("neither has slices");
    assert!(said.starts_with("ONLY RANGES can be compared: old and new have no slices"), "{said}");
}

#[test]
fn nothing_is_claimed_of_one_run_of_overload_or_without_common_loads() {
    let mut one = row("base", LOAD, 1e3, 100.0, 50.0, 0.0);
    if let crate::report::Outcome::Measured(measured) = &mut one.outcome {
        measured.runs = 1;
    }
    let (one, other) = (saved("a", vec![one]), saved("b", vec![row("base", LOAD, 1e3, 10.0, 5.0, 0.0)]));
    let others = std::slice::from_ref(&other);
    assert_eq!(SideBySide::of(&one, others).each()[0].cells[0].p99_us.verdict(), DifferenceVerdict::OneRun);
    assert!(summary(&one, &other).contains("p99 is not decided anywhere"));
    let overloaded = saved("a", vec![row("base", LOAD, 500.0, 9e5, 99.0, 0.0)]);
    assert_eq!(summary(&overloaded, &other), "b beside a: only b sustains base at 1K.");
    assert!(
        summary(&overloaded, &overloaded)
            .ends_with("neither sustains any of these loads, so every latency is that of a queue.")
    );
    let all = SideBySide::of(&overloaded, others);
    let cell = all.each()[0].cells[0].clone();
    assert_eq!(
        [cell.p99_us.verdict(), cell.cpu_pct.verdict()],
        [DifferenceVerdict::Queue; 2],
        "as the sentence leaves it out"
    );
    let elsewhere = saved("a", vec![row("base", Load::Rps(2000), 2e3, 10.0, 5.0, 0.0)]);
    assert!(summary(&elsewhere, &other).contains("give both the same --load"));
}

#[test]
fn a_machine_that_was_taken_away_decides_nothing_whichever_comparison_it_was() {
    let rows = |p99: f64, rps: f64| {
        vec![
            row("base", LOAD, 1e3, p99, p99, 0.0),
            row("defer20", LOAD, rps, p99, p99, 0.0),
            row("base", Load::Max, p99, 9.0, 9.0, 0.0),
        ]
    };
    let quiet = saved("quiet", rows(50.0, 1e3));
    let mut crowded = saved("crowded", rows(20.0, 500.0));
    crowded.report.machine =
        [LOAD, Load::Max].map(|load| MachineUse { others_pct: 87.0, ..samples::quiet(load) }).into();
    crowded.report.decided.clear();
    for (a, b) in [(&quiet, &crowded), (&crowded, &quiet)] {
        let said = summary(a, b);
        for never in ["lower", "higher", "only quiet", "only crowded", "neither"] {
            assert!(!said.contains(never), "{said}");
        }
        assert!(
            said.contains("p99 is not decided anywhere, for the machine was taken away (others took 87 % of the CPUs)"),
            "{said}"
        );
        assert!(said.contains("which sustains defer20 at 1K is not decided"), "{said}");
        let all = SideBySide::of(a, std::slice::from_ref(b));
        let text = text(&all, 160);
        assert!(
            text.contains("machine taken away") && !text.contains("x lower") && !text.contains("x higher"),
            "{text}"
        );
        assert_eq!(all.each()[0].cells[0].p99_us.verdict(), DifferenceVerdict::Taken);
    }
}

#[test]
fn other_backends_are_held_against_each_other_by_mode() {
    let engine = saved("engine", vec![row("base", LOAD, 1e3, 100.0, 50.0, 0.01)]);
    let sim = [saved("sim", vec![predicted("base", LOAD, 1e3, 50.0, 50.0)])];
    let all = SideBySide::of(&engine, &sim);
    let found = &all.each()[0];
    assert!(found.across_backends && found.cells.len() == 1, "{found:?}");
    assert_eq!(found.cells[0].name(true), "base");
}

#[test]
fn what_only_some_have_has_a_line_of_its_own() {
    let mine = |mode: &str| row(mode, LOAD, 1e3, 100.0, 50.0, 0.05);
    let a = saved("a", vec![mine("base"), mine("defer20")]);
    let others = [saved("b", vec![mine("fullbusy"), mine("base")]), saved("c", vec![mine("fullbusy")])];
    let all = SideBySide::of(&a, &others);
    let lines: Vec<_> = all
        .lines
        .iter()
        .map(|line| (line.subject().name(false), line.rows.iter().map(Option::is_some).collect::<Vec<_>>()))
        .collect();
    assert_eq!(
        lines,
        [
            ("base".to_owned(), vec![true, true, false]),
            ("defer20".to_owned(), vec![true, false, false]),
            ("fullbusy".to_owned(), vec![false, true, true])
        ]
    );
    assert_eq!(all.each().iter().map(|two| two.alone).collect::<Vec<_>>(), [[1, 1], [2, 1]]);
}

#[test]
fn the_text_fits_100_columns_and_has_every_cell() {
    let a = saved(
        "before-the-change",
        vec![row("threaded-busy-poll", LOAD, 1e3, 6239.0, 100.0, 0.05), row("base", Load::Max, 1.2e6, 9.0, 99.0, 0.01)],
    );
    let b = vec![row("threaded-busy-poll", LOAD, 1e3, 12.0, 200.0, 0.05), row("base", Load::Max, 9e5, 9.0, 99.0, 0.01)];
    let text = text(&SideBySide::of(&a, &[saved("after", b)]), 100);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.starts_with("ONLY RANGES"), "{text}");
    assert!(text.contains("after beside before-the-change: p99 is lower in 1 of 1"), "{text}");
    let lines: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for expected in [
        "threaded-busy-poll 1K 6239.0 12.0 0.00x lower 100 200 2.00x higher",
        "base closed 1200000 900000 0.75x lower 99 99 1.00x runs overlap",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}: {text}");
    }
}

#[test]
fn heads_that_are_cut_tell_the_files_apart() {
    let mine = || vec![row("base", LOAD, 1e3, 100.0, 50.0, 0.05)];
    let head = |a: &str, b: &str| {
        let text = text(&SideBySide::of(&saved(a, mine()), &[saved(b, mine())]), 100);
        let head = text.lines().find(|line| line.starts_with("mode ")).expect("a head");
        head.split_whitespace().skip(2).take(2).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(head("monday", "tuesday"), "monday tuesday");
    assert_eq!(head("before-the-change", "after"), "before-th after");
    assert_eq!(head("compared-monday", "compared-friday"), "ed-monday ed-friday");
    assert_eq!(head("comparison-mon-at-noontime", "comparison-tue-at-noontime"), "first other");
}
