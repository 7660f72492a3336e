//! The tables of a comparison.

use maud::{Markup, html};

use super::{load_words, loads};
use crate::html::shell::{TableCell, table};
use crate::report::columns::{COLUMNS, Column, Range};
use crate::report::most::{sustained_head, sustains_most_words};
use crate::report::verdict::{Block, Verdict, sustains_most};
use crate::report::{Outcome, Report, Row};
use crate::subject::Backend;

/// All rows, load by load.
pub(super) fn all(report: &Report) -> Markup {
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| column.is_in(&report.rows)).collect();
    let mut heads = vec![("mode".to_owned(), String::new())];
    heads.extend(columns.iter().map(|column| (column.head.to_owned(), format!("{} ({})", column.says, column.key))));
    heads.push(("p99 of the runs".to_owned(), "lowest and highest 99th percentile over the runs, in us".to_owned()));
    html! {
        p.note {
            "Medians over the runs, each figure on its own. ★ is the best of its column within the load, where that is decided. Latencies in µs from the intended send; cpu, useful, "
            "spin in % of the server's CPUs; a column's head says more, as does docs/compare.md."
        }
        @for (load, rows) in loads(report) {
            (table(&capital_load(&load_words(load)), &heads, &cells(&rows, &columns, &Block::all_of(report, load), report.among_backends())))
        }
    }
}

fn capital_load(words: &str) -> String {
    format!("At {words}").replace("At closed loop", "In closed loop")
}

fn cells(rows: &[&Row], columns: &[&Column], blocks: &[Block<'_>], backends: bool) -> Vec<Vec<TableCell>> {
    let ranges: Vec<Range> = columns.iter().map(|column| Range::of(column, rows, blocks)).collect();
    rows.iter()
        .map(|row| {
            let mut line = vec![TableCell::Name(row.subject.name(backends))];
            let lost = row.lost.as_ref();
            match &row.outcome {
                Outcome::Refused(why) => line.push(TableCell::Words(format!("refused: {why}"), columns.len() + 1)),
                Outcome::Nothing => {
                    let why = lost.map_or_else(
                        || "nothing was measured".to_owned(),
                        |lost| format!("of {} runs {}", lost.of, lost.why),
                    );
                    line.push(TableCell::Words(format!("no figures: {why}"), columns.len() + 1));
                }
                Outcome::Measured(figures) | Outcome::Predicted { figures, .. } => {
                    for (column, range) in columns.iter().zip(&ranges) {
                        let shown = column.shown((column.figure)(&figures.median), range);
                        line.push(if range.is_best(row) { TableCell::Best(shown) } else { TableCell::Figure(shown) });
                    }
                    let (min, max) = (figures.spread.min.latency_us.p99, figures.spread.max.latency_us.p99);
                    let missing = lost.map_or_else(String::new, |lost| format!(", {} lost", lost.runs));
                    line.push(TableCell::Figure(format!("{min:.1}\u{2013}{max:.1} ({}{missing})", figures.runs)));
                }
            }
            line
        })
        .collect()
}

/// What each mode sustains.
pub(super) fn sustained(report: &Report) -> Markup {
    let backends = report.among_backends();
    let most: Vec<_> = Backend::ALL
        .into_iter()
        .filter_map(|backend| match sustains_most(report, backend) {
            Verdict::Given(given) => Some(given.get().subject),
            Verdict::Withheld(_) => None,
        })
        .collect();
    let heads = ["mode", "sustains, requests/s", "99%lat there, µs", "cpu there, %", "fails at", "by"];
    let heads: Vec<(String, String)> = heads.iter().map(|head| ((*head).to_owned(), String::new())).collect();
    let rows: Vec<Vec<TableCell>> = report
        .sustained
        .iter()
        .map(|one| {
            let dash = || "-".to_owned();
            let rps = one.rps.to_string();
            let [p99, cpu] = match one.at_most {
                Some((p99, cpu)) => [format!("{p99:.1}"), format!("{cpu:.0}")],
                None => [dash(), dash()],
            };
            let (fails, why) =
                one.failed.clone().map_or_else(|| (dash(), String::new()), |(rps, why)| (rps.to_string(), why));
            vec![
                TableCell::Name(one.subject.name(backends)),
                if most.contains(&one.subject) { TableCell::Best(rps) } else { TableCell::Figure(rps) },
                TableCell::Figure(p99),
                TableCell::Figure(cpu),
                TableCell::Figure(fails),
                TableCell::Name(
                    [why]
                        .into_iter()
                        .chain(one.taken.clone())
                        .filter(|words| !words.is_empty())
                        .collect::<Vec<_>>()
                        .join("; "),
                ),
            ]
        })
        .collect();
    html! {
        p.note { (sustained_head(report)) }
        @for said in Backend::ALL.map(|backend| sustains_most_words(report, backend)) {
            @if !said.is_empty() { p.note { (said) } }
        }
        (table(heading(report), &heads, &rows))
    }
}

/// What the searches were for: one alone is no comparison.
pub(super) fn heading(report: &Report) -> &'static str {
    if report.sustained.len() == 1 { "How the loads were chosen" } else { "The most that each mode sustains" }
}
