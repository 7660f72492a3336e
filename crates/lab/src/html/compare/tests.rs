use super::*;
use crate::report::read::Saved;
use crate::report::samples::{beside_the_kernel, cover_letter, predicted, prediction, refused, row, sustained};
use crate::report::{Outcome, samples};

fn one(report: &Report) -> String {
    page_of_one(report, &[])
}

fn saved(name: &str, report: Report) -> Saved {
    Saved { name: name.to_owned(), report, notes: Vec::new() }
}

/// Everything that opens is closed, in order: a page is well-formed where browsers would guess.
fn assert_nested(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag.trim_start_matches('/').split_whitespace().next().unwrap_or_default();
        if tag.starts_with('!') || ["meta"].contains(&name) {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed in the wrong order");
        } else {
            open.push(name);
        }
        let classes = tag.matches(" class=").count();
        assert!(classes <= 1, "the second of two classes is not seen: <{tag}>");
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_page_needs_nothing_from_elsewhere_and_has_no_script() {
    let (first, others) = (saved("a", cover_letter()), [saved("b", cover_letter())]);
    let several = page_of_several(&SideBySide::of(&first, &others));
    for page in [one(&Report { sustained: sustained(), ..cover_letter() }), one(&beside_the_kernel()), several] {
        for never in ["<script", "http:", "https:", "src=", "@import", "url(\"", "javascript", "onload", "NaN", "inf"] {
            let places = page.match_indices(never).filter(|(at, _)| never != "inf" || !page[at + 3..].starts_with('o'));
            assert_eq!(places.count(), 0, "{never}");
        }
        assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">"));
        assert_nested(&page);
    }
}

#[test]
fn the_answer_comes_first_and_the_figures_of_the_table_are_there() {
    let page = one(&cover_letter());
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is not there"));
    let order = [
        "Take defer20 at 200K/s",
        "<svg viewBox",
        "<h2>Figures that decide",
        "<h2>CPU time and 99th percentile",
        "<h2>Percentiles",
        "<h2>Latency over load",
        "<h2>Where the CPU time goes",
        "<h2>All figures",
        "<h2>How it was measured",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{page}");
    for figure in [
        "415",
        "199954",
        "1248006",
        "0123456789ab",
        "SCHED_FIFO 50",
        "needs 5 CPUs for 2 queues",
        "an empty loop paused",
    ] {
        at(figure);
    }
    assert!(page.contains("<td class=\"text\">lowest p99 0.32x, CPU 3.85x</td>"), "the verdict is there: {page}");
}

#[test]
fn every_figure_has_a_name_and_says_in_words_what_it_shows() {
    let page = one(&cover_letter());
    let figures = page.matches("<svg viewBox=").count();
    let named = page.matches(" role=\"img\" aria-label=").count();
    let samples = page.matches("aria-hidden=\"true\"><path class=\"k").count();
    assert!(figures > 10 && named + samples == figures, "{named} of {figures}");
    assert_eq!(page.matches("<desc>").count(), named);
    assert!(page.contains("fullbusy: p99 132 µs (132 µs to 132 µs) at 100 % CPU, on the frontier"), "{page}");
}

#[test]
fn engine_kernel_and_simulation_stand_in_one_panel_for_each_mode() {
    let load = Load::Rps(200_000);
    let mut report = beside_the_kernel();
    report.rows.push(predicted("base", load, 2e5, 25.0, 50.0));
    report.prediction = Some(prediction());
    let page = one(&report);
    assert!(page.contains("Latency by percentile of base at 200K requests/s"), "{page}");
    for backend in ["engine", "kernel", "sim"] {
        assert!(page.contains(&format!("{backend}: 50 % ")), "{backend}");
    }
    assert!(page.contains("PREDICTED on mine.toml") && page.contains("not split"), "{page}");
    assert_nested(&page);
}

#[test]
fn a_comparison_of_refused_rows_only_has_a_page_that_says_so() {
    let mut report = cover_letter();
    report.rows = vec![refused("base", Load::Max, "needs <root> & more"), refused("threaded", Load::Max, "no")];
    report.machine.clear();
    let page = one(&report);
    assert!(page.contains("No answer: every mode was refused here, and the table says why."), "{page}");
    assert!(page.contains("refused: needs &lt;root&gt; &amp; more") && !page.contains("<h2>Percentiles"), "{page}");
    assert_nested(&page);
    report.rows.clear();
    assert!(one(&report).contains("Nothing is measured so far."));
}

#[test]
fn a_machine_that_was_taken_away_is_said_in_the_answer_and_leaves_no_mark() {
    let low = Load::Rps(200_000);
    let page = one(&samples::taken(cover_letter(), low));
    assert!(page.contains("No answer at 200K/s: the machine was taken away in 110 of 200 slices"), "{page}");
    let mut report = [low, Load::Rps(1_000_000), Load::Max].into_iter().fold(cover_letter(), samples::taken);
    let page = one(&report);
    assert!(page.contains("<p class=\"answer\">No answer at all loads"), "{page}");
    assert!(!page.contains(", on the frontier") && !page.contains("class=\"best\""), "no mark either");
    report.ended = Some("interrupted".to_owned());
    assert!(one(&report).contains("<p class=\"answer\">INCOMPLETE: interrupted"));
}

#[test]
fn huge_figures_and_zeros_stay_within_the_figure() {
    let load = Load::Rps(1000);
    let report = Report {
        rows: vec![row("base", load, 1e3, 9e12, 1e4, 0.5), row("fullbusy", load, 1e3, 0.0, 0.0, 0.0)],
        machine: Vec::new(),
        ..cover_letter()
    };
    let page = one(&report);
    assert!(!page.contains("NaN") && !page.contains("inf "), "{page}");
    assert_nested(&page);
}

#[test]
fn several_comparisons_say_first_what_differs() {
    let load = Load::Rps(1000);
    let of = |p99: f64, commit: &str| Report {
        rows: vec![row("base", load, 1e3, p99, 20.0, 0.01), row("fullbusy", load, 1e3, 50.0, 100.0, 0.05)],
        commit: commit.to_owned(),
        machine: Vec::new(),
        ..cover_letter()
    };
    let page = page_of_several(&SideBySide::of(&saved("old", of(100.0, "aaa")), &[saved("new", of(80.0, "bbb"))]));
    assert!(page.contains("<p class=\"answer\">ONLY RANGES can be compared"), "neither has slices: {page}");
    assert!(page.contains("new beside old: p99 is lower in 1 of 2 (base at 1K 0.80x)"), "{page}");
    assert!(page.contains("What ran differently") && page.contains("Percentiles side by side"), "{page}");
    assert!(page.contains("runs overlap") && page.contains("<h2>new</h2>"), "{page}");
    assert_nested(&page);
}

#[test]
fn an_older_comparison_has_coarse_curves_and_says_so() {
    let mut report = cover_letter();
    for row in &mut report.rows {
        if let Outcome::Measured(measured) = &mut row.outcome {
            measured.median.latency_cdf = None;
        }
    }
    let page = page_of_one(&report, &["An older version wrote this.".to_owned()]);
    assert!(page.contains("<p class=\"warn\">An older version wrote this.</p>"), "{page}");
    assert!(page.contains("Latency by percentile at 200K requests/s"), "{page}");
}

#[test]
fn spans_and_rates_have_the_unit_that_they_deserve() {
    let spans: Vec<String> = [0.42, 9.96, 415.0, 1000.0, 6239.0, 2.5e6].map(span).into();
    assert_eq!(spans, ["0.4 µs", "10 µs", "415 µs", "1 ms", "6.2 ms", "2.5 s"]);
    assert_eq!([rate(800.0), rate(37_500.0), rate(1_248_006.0)], ["800", "37.5K", "1.25M"]);
}
