//! Random comparisons: no form of a report names a winner where anything speaks against one, and all forms name the same.

use napier_testkit::Dice;

use super::*;
use crate::html::{page_of_one, page_of_several};
use crate::report::differ::{self, SideBySide};
use crate::report::most::{reconciled, sustains_most_words};
use crate::report::read::Saved;
use crate::report::samples::{cover_letter, predicted, quiet, refused, row};
use crate::report::sentence::sentences;
use crate::report::table::{RowTable, WIDTH_MAX, Which};
use crate::report::{MachineUse, Outcome, export};

const LOADS: [Load; 3] = [Load::Rps(20_000), Load::Rps(60_000), Load::Max];
const REPORTS: u64 = 400;
/// Pages take their time to be drawn.
const PAGES: u64 = 40;

/// Words that claim something of one mode or comparison over another.
const CLAIMS: &[&str] = &[
    "has the lowest p99",
    "The lowest p99 has",
    "sustains this load",
    "not sustain this load",
    "No mode sustains",
    "answers most",
    "sustains most:",
    "Frontier of",
    "On the frontier of",
    ", on the frontier",
    "BEHIND",
    "not behind in any",
    " lower in ",
    " higher in ",
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
    for mode in modes {
        if dice.roll(3) == 0 {
            continue;
        }
        report.sustained.push(Sustained {
            subject: Subject::engine(mode.parse().expect("a mode")),
            start_rps: 1000,
            rps: pick(dice, &[0, 10_000, 40_000, 41_000, 90_000]),
            interval_rps: None,
            kept_up_at_most: None,
            fell_behind_at_least: None,
            failed: Some((pick(dice, &[95_000, 120_000]), "90 % answered".to_owned())),
            at_most: Some((50.0, 20.0)),
            taken: crowded.unwrap_or(dice.roll(4) == 0).then(|| "others took 30 % of the CPUs".to_owned()),
        });
    }
    report.sustained = reconciled(&report);
    report
}

fn words(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Every form that a comparison has, each as its words.
fn forms(report: &Report, seed: u64) -> Vec<(&'static str, String)> {
    let page = if seed <= PAGES { Some(("page", words(&page_of_one(report, &[])))) } else { None };
    let table = words(&RowTable::new(true, WIDTH_MAX).end(report));
    let markdown = words(&export::markdown(report, &Which::All).replace('\\', ""));
    [("table", table), ("markdown", markdown)].into_iter().chain(page).collect()
}

/// Whether anything speaks against a verdict, told from the figures alone.
fn in_doubt(report: &Report, load: Load, backend: Backend) -> bool {
    let rows = || report.rows.iter().filter(|row| row.load == load);
    let machine = report.machine.iter().find(|machine| machine.load_rps == load).expect("it was watched");
    let figures = rows().filter(|row| row.subject.backend == backend).filter_map(Row::figures);
    (backend != Backend::Sim && machine.others_pct >= 5.0) || figures.into_iter().any(|figures| figures.runs < 2)
}

#[test]
fn where_others_had_the_machine_no_form_of_a_comparison_names_a_winner() {
    for seed in 1..=REPORTS {
        let report = random(&mut Dice(seed), Some(true));
        for (form, text) in forms(&report, seed) {
            for claim in CLAIMS {
                assert!(!text.contains(claim), "seed {seed}: the {form} says `{claim}`: {text}");
            }
            let text = text.replace("**bold**", "").replace("★ is the best", "");
            for mark in ["\x1b[1m", "**", "class=\"best\""] {
                assert!(!text.contains(mark), "seed {seed}: the {form} marks a best: {text}");
            }
        }
    }
}

#[test]
fn a_sentence_names_a_winner_only_if_nothing_speaks_against_it_and_the_table_marks_the_same() {
    let mut given = 0;
    for seed in 1..=REPORTS {
        let report = random(&mut Dice(seed), None);
        let forms = forms(&report, seed);
        for (load, rows) in report.by_load() {
            let blocks = Block::all_of(&report, load);
            for block in &blocks {
                let said = super::super::sentence::sentence(block);
                let doubt = in_doubt(&report, load, block.backend);
                assert!(!doubt || CLAIMS.iter().all(|claim| !said.contains(claim)), "seed {seed}: {said}");
                // Told again from the figures: every run of the winner lies below every run of all others that kept up.
                let kept_up: Vec<&Row> = rows
                    .iter()
                    .copied()
                    .filter(|row| row.subject.backend == block.backend && row.figures().is_some() && row.sustains())
                    .collect();
                let p99 = |row: &Row| row.figures().map(|m| (m.spread.min.latency_us.p99, m.spread.max.latency_us.p99));
                let wins = |row: &&&Row| {
                    let others = || kept_up.iter().filter(|other| other.subject != row.subject);
                    others().count() > 0
                        && others().all(|other| p99(row).zip(p99(other)).is_some_and(|(a, b)| a.1 < b.0))
                };
                let winner = kept_up.iter().find(wins).filter(|_| !doubt).map(|row| row.subject.name(false));
                let named =
                    said.split("; ").find_map(|part| part.split_once(" has the lowest p99")).map(|(name, _)| name);
                if load != Load::Max {
                    assert_eq!(named.map(str::to_owned), winner, "seed {seed}: {said}");
                }
                let column =
                    crate::report::columns::COLUMNS.iter().find(|column| column.head == "99%lat").expect("there");
                let range = crate::report::columns::Range::of(column, &rows, std::slice::from_ref(block));
                let marked = rows.iter().find(|row| range.is_best(row)).map(|row| row.subject.name(false));
                assert_eq!(marked, winner, "seed {seed}: the mark and the sentence: {said}");
                given += usize::from(winner.is_some());
            }
            for said in sentences(load, &rows, &report) {
                assert!(forms.iter().all(|(_, text)| text.contains(&words(&said))), "seed {seed}: {said}");
            }
        }
    }
    assert!(given > 50, "there are verdicts as well: {given}");
}

#[test]
fn what_is_said_to_sustain_most_is_no_race_of_one_and_no_row_says_otherwise() {
    let mut given = 0;
    for seed in 1..=REPORTS {
        let report = random(&mut Dice(seed), None);
        let said = sustains_most_words(&report, Backend::Engine);
        let searched: Vec<&Sustained> = report.sustained.iter().filter(|one| one.rps > 0).collect();
        if said.contains("sustains most:") {
            given += 1;
            assert!(searched.len() > 1 && searched.iter().all(|one| one.taken.is_none()), "seed {seed}: {said}");
            let mut rates: Vec<u64> = searched.iter().map(|one| one.rps).collect();
            rates.sort_unstable();
            assert!(rates[rates.len() - 2] * 100 < rates[rates.len() - 1] * 95, "seed {seed}: {said}");
        }
        for (_, text) in forms(&report, seed) {
            assert_eq!(text.contains("sustains most:"), said.contains("sustains most:") && text.contains(&said));
        }
        for one in &report.sustained {
            for row in report.rows.iter().filter(|row| row.subject == one.subject && row.load != Load::Max) {
                let (Load::Rps(rps), Some(sustains)) = (row.load, sustains_for_sure(row)) else { continue };
                if report.taken_at(row.load).is_some() {
                    continue;
                }
                let below_failed = one.failed.as_ref().is_none_or(|(failed_rps, _)| rps < *failed_rps);
                assert!(sustains || rps > one.rps, "seed {seed}: it fell behind at {rps}: {one:?}");
                assert!(!sustains || rps <= one.rps || !below_failed, "seed {seed}: it kept up at {rps}: {one:?}");
            }
        }
    }
    assert!(given > 5, "there are verdicts as well: {given}");
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
        let claimed = ["lower in", "higher in"].iter().any(|claim| summary.contains(claim));
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
