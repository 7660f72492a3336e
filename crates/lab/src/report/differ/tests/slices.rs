//! Comparisons that have slices are decided by them, whatever their ranges are.

use napier_verdict::{Beside, Histogram, Settings, Slice, Slices};

use super::*;
use crate::report::SavedSlices;
use crate::report::differ;
use crate::report::json::render;
use crate::report::read::read;
use crate::subject::Subject;

/// Forty slices whose latencies are so many times those of others, and whose CPU time is so many percent.
fn slices(mode: &str, latency: f64, cpu_pct: u64, seed: u64) -> SavedSlices {
    let subject: Subject = mode.parse().unwrap();
    let mut all = Slices::new(1, Settings::DEFAULT);
    for round in 0..40_u32 {
        let wobble = 1.0 + 0.03 * ((f64::from(round) + seed as f64) * 1.7).sin();
        let latency: Histogram =
            (0..1000).map(|n| ((latency * wobble * (20_000.0 + f64::from(n * n) / 12.0)) as u64, 1)).collect();
        let (window_ns, cpu_ns) = (50_000_000, (cpu_pct as f64 * 500_000.0 * wobble) as u64);
        let beside = Beside::default();
        all.add(Slice {
            candidate: 0,
            round,
            window_ns,
            cpus: 1,
            latency,
            cpu_ns,
            due: 1000,
            in_time: 1000,
            answered: 1000,
            beside,
        });
    }
    SavedSlices::of(&all, 0, subject, LOAD).unwrap()
}

/// Rows of one mode each, whose ranges all overlap.
fn with_slices(name: &str, modes: &[(&str, f64, u64)], seed: u64) -> Saved {
    let rows = modes.iter().map(|(mode, _, _)| row(mode, LOAD, 1e3, 100.0, 50.0, 0.3)).collect();
    let mut saved = saved(name, rows);
    saved.report.decided.clear();
    saved.report.slices = modes.iter().map(|(mode, latency, cpu)| slices(mode, *latency, *cpu, seed)).collect();
    saved
}

const FIRST: [(&str, f64, u64); 3] = [("base", 1.0, 40), ("defer20", 1.0, 40), ("fullbusy", 1.0, 100)];

#[test]
fn slices_decide_what_is_better_and_what_is_no_different() {
    let a = with_slices("a", &FIRST, 1);
    let b = [with_slices("b", &[("base", 0.7, 40), ("defer20", 1.0, 60), ("fullbusy", 1.0, 100)], 5)];
    let all = SideBySide::of(&a, &b);
    let differences = &all.each()[0];
    assert_eq!((differences.about_ranges(), differences.minutes()), (None, None));
    let said: Vec<[String; 2]> =
        differences.cells.iter().map(|cell| [cell.p99_us.judged(), cell.cpu_pct.judged()]).collect();
    let expected = [
        ["0.70x better", "1.00x within 5 %"],
        ["1.00x within 5 %", "1.50x worse"],
        ["1.00x within 5 %", "1.00x within 5 %"],
    ];
    assert_eq!(said, expected.map(|pair| pair.map(str::to_owned)));
    assert_eq!(
        differences.summary(),
        "b beside a: p99 is better in 1 of 3 (base at 1K 0.70x) and no different within 5 % in 2 of 3; CPU is worse in 1 of 3 (defer20 at 1K 1.50x) \
         and no different within 5 % in 2 of 3."
    );
    let text = differ::text(&all, 100);
    assert!(text.starts_with("b beside a: p99 is better"), "the answer first: {text}");
    assert!(
        text.contains("not measured next to each other") && text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    let value: serde_json::Value = serde_json::from_str(&differ::json(&all)).unwrap();
    let p99 = &value["rows"][0]["metrics"]["latency_us.p99"][1];
    assert_eq!((&p99["verdict"], &p99["differs"]), (&"lower".into(), &true.into()));
    assert!(p99["ratio_low"].as_f64() < Some(0.7) && p99["ratio_high"].as_f64() > Some(0.7), "{p99}");
    assert_eq!(value["rows"][0]["metrics"]["cpu.total_pct"][1]["within_pct"], 5);
}

#[test]
fn what_slices_do_not_decide_has_no_verdict() {
    let (a, b) = (with_slices("a", &FIRST, 1), [with_slices("b", &FIRST, 5)]);
    let mut b = b;
    // Of a figure that has one value and no interval nothing is known.
    if let crate::report::Outcome::Measured(measured) = &mut b[0].report.rows[0].outcome {
        measured.median.interrupts_per_s = Some(1.0);
        (measured.spread.min, measured.spread.max) = (measured.median, measured.median);
    }
    let value: serde_json::Value = serde_json::from_str(&differ::json(&SideBySide::of(&a, &b))).unwrap();
    let interrupts = &value["rows"][0]["metrics"]["interrupts_per_s"][1];
    assert!(interrupts["verdict"].is_null() && interrupts["differs"].is_null(), "{interrupts}");
}

#[test]
fn a_file_of_an_older_version_is_compared_by_ranges_and_it_is_said() {
    let new = with_slices("new", &FIRST[..1], 1);
    let old = saved("old", vec![row("base", LOAD, 1e3, 300.0, 50.0, 0.01)]);
    for (a, b) in [(&new, &old), (&old, &new)] {
        let text = differ::text(&SideBySide::of(a, std::slice::from_ref(b)), 100);
        assert!(text.starts_with("ONLY RANGES can be compared: old has no slices"), "{text}");
        assert!(text.contains("x lower") || text.contains("x higher"), "{text}");
    }
}

#[test]
fn slices_are_saved_with_the_comparison_and_read_back() {
    let saved = with_slices("a", &FIRST, 1);
    let text = render(&saved.report);
    assert_eq!(text.lines().filter(|line| line.contains("\"window_ns\"")).count(), 3, "a line for each row");
    let path = std::env::temp_dir().join(format!("napier-slices-{}.json", std::process::id()));
    std::fs::write(&path, &text).unwrap();
    let again = read(&path);
    std::fs::remove_file(&path).unwrap();
    let again = again.unwrap();
    assert_eq!(again.report.slices, saved.report.slices);
    assert_eq!(render(&again.report), text);
}
