//! Random comparisons: no form of a report names a winner without a verdict.

use napier_testkit::Dice;

use super::*;
use crate::html::{page_of_one, page_of_several};
use crate::report::differ::{self, SideBySide};
use crate::report::read::Saved;
use crate::report::samples::{cover_letter, decide, predicted, quiet, refused, row, taken};
use crate::report::table::{WIDTH_MAX, Which, of_load, table};
use crate::report::take::choose;
use crate::report::{MachineUse, Outcome, export};

const LOADS: [Load; 3] = [Load::Rps(20_000), Load::Rps(60_000), Load::Max];
const REPORTS: u64 = 400;
/// Pages take their time to be drawn.
const PAGES: u64 = 40;

/// Words that claim something of one mode or comparison over another.
const CLAIMS: &[&str] = &[
    "Take ",
    "Leave base",
    "cheaper:",
    "faster:",
    "lowest p99",
    "least CPU",
    "answers most",
    "p99 as base",
    "CPU as base",
    "(as base)",
    "no different from",
    "x base's",
    ", on the frontier",
    "BEHIND",
    "lower in",
    "higher in",
    "better in",
    "worse in",
    "no different within",
    "differs nowhere",
    "only a sustains",
    "only b sustains",
    "neither sustains",
];

fn pick<T: Copy>(dice: &mut Dice, of: &[T]) -> T {
    of[usize::try_from(dice.roll(of.len() as u64)).expect("few")]
}

fn random_row(dice: &mut Dice, mode: &str, backend: Backend, load: Load, runs_min: u32) -> Row {
    let (p99, cpu) = (pick(dice, &[20.0, 20.5, 40.0, 200.0]), pick(dice, &[10.0, 10.1, 50.0, 100.0]));
    let rps = match load {
        Load::Rps(rps) => rps as f64 * pick(dice, &[1.0, 1.0, 1.0, 0.999, 0.9]),
        Load::Max => pick(dice, &[1e5, 1.001e5, 2e5]),
    };
    if dice.roll(10) == 0 {
        return Row { subject: Subject { backend, ..refused(mode, load, "no").subject }, ..refused(mode, load, "no") };
    }
    if backend == Backend::Sim {
        return predicted(mode, load, rps, p99, cpu);
    }
    let mut row = row(mode, load, rps, p99, cpu, pick(dice, &[0.0, 0.01, 0.3]));
    row.subject.backend = backend;
    let Outcome::Measured(measured) = &mut row.outcome else { unreachable!("it was measured") };
    if runs_min < 2 && dice.roll(4) == 0 {
        measured.runs = 1;
        measured.spread = crate::stats::Spread { min: measured.median, max: measured.median };
    } else if load != Load::Max && dice.roll(6) == 0 {
        (measured.spread.min.in_time_pct, measured.spread.max.in_time_pct) = (Some(90.0), Some(100.0));
    }
    row
}

/// `crowded`: others have the machine at all loads (true), at none (false), or at some.
fn random(dice: &mut Dice, crowded: Option<bool>) -> Report {
    let backends: &[Backend] = match dice.roll(4) {
        0 => &[Backend::Engine, Backend::Kernel],
        1 if crowded.is_none() => &[Backend::Engine, Backend::Sim],
        _ => &[Backend::Engine],
    };
    let modes = ["base", "defer20", "fullbusy", "suspend20"];
    let modes = &modes[..usize::try_from(1 + dice.roll(4)).expect("few")];
    let mut report = Report { rows: Vec::new(), machine: Vec::new(), ..cover_letter() };
    for load in LOADS.into_iter().take(1 + usize::try_from(dice.roll(3)).expect("few")) {
        for mode in modes {
            for backend in backends {
                report.rows.push(random_row(dice, mode, *backend, load, 1));
            }
        }
        let others_pct = if crowded.unwrap_or(dice.roll(2) == 0) { 30.0 } else { 0.1 };
        report.machine.push(MachineUse { others_pct, ..quiet(load) });
    }
    let all = decide(report);
    let loads: Vec<Load> = all.decided.iter().map(|decided| decided.load_rps).collect();
    loads.into_iter().fold(all, |report, load| {
        let is_crowded = report.machine.iter().any(|machine| machine.load_rps == load && machine.others_pct > 5.0);
        if is_crowded { taken(report, load) } else { report }
    })
}

fn words(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Every form that a comparison has, each as its words.
fn forms(report: &Report, seed: u64) -> Vec<(&'static str, String)> {
    let page = if seed <= PAGES { Some(("page", words(&page_of_one(report, &[])))) } else { None };
    let table = words(&table(report, &Which::All, WIDTH_MAX));
    let markdown = words(&export::markdown(report, &Which::All).replace('\\', ""));
    [("table", table), ("markdown", markdown)].into_iter().chain(page).collect()
}

#[test]
fn without_rounds_or_where_the_machine_was_taken_no_form_of_a_comparison_names_a_winner() {
    for seed in 1..=REPORTS {
        let mut report = random(&mut Dice(seed), Some(seed % 2 == 0));
        if seed % 2 == 1 {
            report.decided.clear();
        }
        for (form, text) in forms(&report, seed) {
            for claim in CLAIMS {
                assert!(!text.contains(claim), "seed {seed}: the {form} says `{claim}`: {text}");
            }
        }
    }
}

/// Whether one is better than all others that keep up, told from the verdicts alone.
fn wins(report: &Report, row: &Row, metric: Metric) -> bool {
    let Some(decided) = report.decided_at(row.load).filter(|decided| !decided.taken) else { return false };
    let rivals = report.rows.iter().filter(|other| {
        other.load == row.load
            && other.subject.backend == row.subject.backend
            && other.subject != row.subject
            && sustains_for_sure(other) == Some(true)
    });
    let verdicts: Vec<_> = rivals.map(|other| decided.verdict(row.subject, other.subject, metric)).collect();
    let better = |verdict: &Option<&PairVerdict>| matches!(verdict, Some(PairVerdict::Better { better }) if *better == row.subject);
    sustains_for_sure(row) == Some(true) && !verdicts.is_empty() && verdicts.iter().all(better)
}

#[test]
fn a_table_calls_lowest_what_a_verdict_says_against_each_other_mode_and_nothing_else() {
    let mut given = 0;
    for seed in 1..=REPORTS {
        let report = random(&mut Dice(seed), None);
        for (load, rows) in report.by_load() {
            let table = of_load(&report, load, &rows, &Which::Fitting);
            for (row, cells) in rows.iter().zip(&table.rows) {
                if row.measured().is_none() {
                    continue;
                }
                let said = cells.last().unwrap().content();
                let claims =
                    [("lowest p99", Metric::P99), ("least CPU", Metric::Cpu), ("answers most", Metric::Throughput)];
                for (claim, metric) in
                    claims.into_iter().filter(|(claim, _)| (*claim == "answers most") == (load == Load::Max))
                {
                    assert_eq!(said.contains(claim), wins(&report, row, metric), "seed {seed}: {said}: {table:?}");
                    given += usize::from(said.contains(claim));
                }
            }
        }
    }
    assert!(given > 50, "there are verdicts as well: {given}");
}

#[test]
fn what_is_taken_keeps_up_and_is_better_than_base_in_something() {
    let mut given = 0;
    for seed in 1..=REPORTS {
        let report = random(&mut Dice(seed), None);
        for block in report.by_load().into_iter().flat_map(|(load, _)| Block::all_of(&report, load)) {
            let Some(choice) = choose(&block).filter(|_| block.load != Load::Max) else { continue };
            let stands = |one: &ModeEntry<'_>, other: &ModeEntry<'_>, metric| block.stands(one, other, metric);
            assert_eq!(choice.take.keeps_up, Some(true), "seed {seed}");
            if let Some(base) = choice.base.filter(|base| base.subject != choice.take.subject) {
                let both = [Metric::P99, Metric::Cpu].map(|metric| stands(&choice.take, &base, metric));
                assert!(both.contains(&Stands::Better), "seed {seed}: {choice:?}");
                given += 1;
            }
            for (other, metric) in [(choice.cheaper, Metric::Cpu), (choice.faster, Metric::P99)] {
                assert!(other.is_none_or(|one| stands(&one, &choice.take, metric) == Stands::Better), "seed {seed}");
            }
        }
    }
    assert!(given > 50, "something is taken as well: {given}");
}

#[test]
fn comparisons_side_by_side_claim_only_what_their_tables_mark() {
    let mut marked = 0;
    for seed in 1..=REPORTS {
        let mut dice = Dice(seed);
        let saved = |name: &str, report| Saved { name: name.to_owned(), report, notes: Vec::new() };
        let crowded = if seed.is_multiple_of(4) { Some(true) } else { None };
        let (a, b) = (saved("a", random(&mut dice, crowded)), [saved("b", random(&mut dice, None))]);
        let all = SideBySide::of(&a, &b);
        let differences = &all.each()[0];
        let summary = differences.summary();
        let verdicts = || {
            let cells = differences.cells.iter();
            cells.flat_map(|cell| [(cell, cell.asked().verdict()), (cell, cell.cpu_pct.verdict())])
        };
        let differ = verdicts().any(|(cell, verdict)| {
            // The CPU time of a closed loop is in the table beside the rate that it bought, and in no sentence.
            let said = cell.load != Load::Max || cell.asked().verdict() == verdict;
            said && verdict.differs() == Some(true)
        });
        let claimed = ["lower in", "higher in", "better in", "worse in"].iter().any(|claim| summary.contains(claim));
        assert!(!claimed || differ, "seed {seed}: {summary}");
        assert!(
            !summary.contains("CPU differs nowhere")
                || verdicts()
                    .all(|(cell, _)| { cell.load == Load::Max || cell.cpu_pct.verdict().differs() != Some(true) }),
            "seed {seed}: the table marks what the sentence denies: {summary}"
        );
        if crowded == Some(true) {
            let text = words(&differ::text(&all, 160)) + &words(&differ::markdown(&all).replace('\\', ""));
            // What each comparison says by itself is another matter, and on the page only.
            let page = if seed <= PAGES { page_of_several(&all) } else { String::new() };
            let first = page.split("class=\"answer\"").nth(1).map(words).unwrap_or_default();
            let first = first.split("</p>").next().unwrap_or_default();
            for claim in CLAIMS {
                assert!(!text.contains(claim) && !first.contains(claim), "seed {seed}: `{claim}`: {text} {first}");
            }
            assert!(verdicts().all(|(_, verdict)| verdict.differs().is_none()), "seed {seed}");
        }
        marked += usize::from(claimed);
    }
    assert!(marked > 20, "there are verdicts as well: {marked}");
}
