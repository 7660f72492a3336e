use super::*;
use crate::report::samples::{cover_letter, decide, refused, row, taken};

fn at(rps: u64, modes: &[(&str, f64, f64)]) -> Vec<crate::report::Row> {
    modes.iter().map(|(mode, p99, cpu)| row(mode, Load::Rps(rps), rps as f64, *p99, *cpu, 0.01)).collect()
}

fn report(rows: Vec<Vec<crate::report::Row>>) -> Report {
    decide(Report { rows: rows.concat(), ..cover_letter() })
}

/// A report of one answer at the first three loads and another at the fourth.
fn four() -> Report {
    report(vec![
        at(20_000, &[("base", 120.0, 20.0), ("suspend20", 60.0, 21.0), ("fullbusy", 40.0, 100.0)]),
        at(40_000, &[("base", 150.0, 30.0), ("suspend20", 70.0, 30.0), ("fullbusy", 41.0, 100.0)]),
        at(60_000, &[("base", 200.0, 40.0), ("suspend20", 80.0, 40.0), ("fullbusy", 45.0, 100.0)]),
        at(80_000, &[("base", 900.0, 70.0), ("suspend20", 300.0, 70.0), ("fullbusy", 50.0, 100.0)]),
    ])
}

#[test]
fn loads_with_the_same_answer_are_told_together() {
    assert_eq!(
        said(&four())[..3],
        [
            "Take suspend20 up to 60K/s: p99 60.0-80.0 us (0.40-0.50x base's), CPU 21-40 % (1.00-1.05x base's).",
            "  faster: fullbusy, p99 40.0-45.0 us (0.22-0.33x), CPU 100 % (2.50-5.00x).",
            "Take fullbusy at 80K/s: p99 50.0 us (0.06x base's), CPU 100 % (1.43x base's).",
        ]
    );
    let (all, loads) = ([20, 40, 60, 80].map(|k| Load::Rps(k * 1000)), [40, 60].map(|k| Load::Rps(k * 1000)));
    assert_eq!(at_loads(&loads, &all), "from 40K/s to 60K/s");
    assert_eq!(at_loads(&all[2..], &all), "from 60K/s on");
    assert_eq!([at_loads(&all, &all), at_loads(&all[..1], &all[..1])], ["at all loads", "at 20K/s"]);
}

#[test]
fn what_is_left_out_is_said_and_what_was_taken_has_no_answer() {
    let mut report = four();
    report.decided[0].left_out.slices = 3;
    report.decided[0].left_out.causes = [("others had the CPUs".to_owned(), 1), ("stolen".to_owned(), 2)].into();
    let lines = said(&report);
    let last = lines.last().unwrap();
    assert_eq!(
        last,
        "Left out, because the machine was taken away: 3 of 480 slices (stolen 2, others had the CPUs 1)."
    );
    let all = [20, 40, 60, 80].into_iter().fold(report, |report, k| taken(report, Load::Rps(k * 1000)));
    assert!(said(&all)[0].starts_with("No answer at all loads: the machine was taken away in 280 of 480 slices"));
}

#[test]
fn undecided_modes_have_their_loads_and_the_time_that_would_decide() {
    let wide = |rps: u64| {
        vec![
            row("base", Load::Rps(rps), rps as f64, 140.0, 37.0, 0.2),
            row("suspend20", Load::Rps(rps), rps as f64, 110.0, 36.0, 0.2),
        ]
    };
    let report = report(vec![wide(20_000), wide(40_000)]);
    let lines = said(&report);
    assert!(
        lines[0].starts_with("Leave base at all loads: p99 140 us, CPU 37 %; no mode is shown to give more"),
        "{lines:?}"
    );
    let open = "Undecided, and might be the better choice: suspend20 at 20K/s and 40K/s; --minutes 7 would decide, as it looks.";
    assert_eq!(lines[1], open);
    let mut never = report;
    never.decided[1].more_minutes = None;
    assert!(said(&never)[1].ends_with("suspend20 at 20K/s and 40K/s."), "nobody can tell how long");
}

#[test]
fn what_ended_early_says_so_first_and_what_has_no_figures_says_why() {
    let mut report = Report { ended: Some("interrupted".to_owned()), ..four() };
    assert!(said(&report)[0].starts_with("INCOMPLETE: interrupted; this is from what there is."));
    report.ended = None;
    report.rows = vec![refused("base", Load::Max, "no")];
    report.decided.clear();
    assert_eq!(said(&report), ["No answer: every mode was refused here, and the table says why."]);
    let mut all = taken(four(), Load::Rps(20_000));
    all.rows.iter_mut().for_each(|row| row.outcome = Outcome::Nothing);
    all.at_start = Some("Others take 50 % of the CPUs now.".to_owned());
    assert!(said(&all)[0].starts_with("No answer: the machine was taken away in 70 of 480 slices"), "{:?}", said(&all));
    assert_eq!(said(&all)[1], "Others take 50 % of the CPUs now.");
}

#[test]
fn the_answer_of_all_modes_and_loads_is_in_twelve_lines() {
    let answer = of(&Report { sustained: crate::report::samples::sustained(), ..four() });
    let sheet = crate::sheet::Sheet { answer, ..crate::sheet::Sheet::default() };
    let text = crate::sheet::text(&sheet, 100);
    assert!(text.lines().count() <= 12, "{text}");
}

#[test]
fn in_closed_loop_one_answers_most_only_by_a_verdict() {
    let max = |rps: f64| {
        vec![row("base", Load::Max, 1e5, 9.0, 90.0, 0.01), row("fullbusy", Load::Max, rps, 9.0, 100.0, 0.01)]
    };
    assert_eq!(said(&report(vec![max(2e5)]))[0], "In closed loop fullbusy answers most: 200K/s, 2.00x base's.");
    assert_eq!(said(&report(vec![max(1.01e5)]))[0], "In closed loop no mode is shown to answer more than all others.");
}
