//! Several comparisons on one page: what differs by more than the runs do.

use maud::{Markup, html};

use super::figures::{capital, curve, nines};
use super::{load_words, span};
use crate::html::plot::ranges::{RangeMark, RangeRow, ranges};
use crate::html::plot::series::key;
use crate::html::plot::{Axis, HALF, Look, PANEL, Said, Scale};
use crate::html::shell::{Cell, figure, printable, table};
use crate::loads::Load;
use crate::report::differ::{Cell as Differing, Differences, Pair, Verdict, differ};
use crate::report::read::Saved;

/// What differs, a paragraph for each comparison behind the first.
pub(super) fn answer(first: &Saved, others: &[Saved]) -> Vec<String> {
    let say = |other: &Saved| differ(&first.report, &other.report).summary([&first.name, &other.name]);
    others.iter().map(say).collect()
}

/// Figures, percentiles and tables of what differs.
pub(super) fn section(first: &Saved, others: &[Saved]) -> Markup {
    let entries: Vec<(Look, String)> =
        std::iter::once(first).chain(others).enumerate().map(|(i, saved)| (Look::nth(i), saved.name.clone())).collect();
    html! {
        (key(&entries))
        @for (i, other) in others.iter().enumerate() {
            @let differences = differ(&first.report, &other.report);
            @if others.len() > 1 { h3 { (other.name) " beside " (first.name) } }
            @if differences.across_backends && !differences.cells.is_empty() {
                p.note { "They have no backend in common: a mode of the one stands beside the same mode of the other." }
            }
            (setups(&differences, first, other))
            (medians(&differences, [(Look::nth(0), first), (Look::nth(i + 1), other)]))
            (tables(&differences, first, other))
        }
        (percentiles(first, others))
    }
}

fn setups(differences: &Differences, first: &Saved, other: &Saved) -> Markup {
    let heads = ["", &first.name, &other.name].map(|head| (head.to_owned(), String::new()));
    let row = |(name, [a, b]): &(String, [String; 2])| {
        vec![Cell::Name(name.clone()), Cell::Name(a.clone()), Cell::Name(b.clone())]
    };
    let rows: Vec<Vec<Cell>> = differences.setups.iter().map(row).collect();
    html! {
        @if rows.is_empty() { p.note { "Both ran the same: commit, machine, workload." } }
        @else { (table("What ran differently", &heads, &rows)) }
    }
}

/// A figure for each load: the 99th percentile of both, in the closed loop the rate.
fn medians(differences: &Differences, sides: [(Look, &Saved); 2]) -> Markup {
    let mut loads: Vec<Load> = Vec::new();
    for cell in &differences.cells {
        if !loads.contains(&cell.load) {
            loads.push(cell.load);
        }
    }
    html! {
        div.grid {
            @for load in loads {
                @let cells: Vec<&Differing> = differences.cells.iter().filter(|cell| cell.load == load).collect();
                (figure(html! { b { (capital(&load_words(load))) } }, HALF, |size| of_load(size.width, load, &cells, &sides)))
            }
        }
    }
}

fn of_load(width: f64, load: Load, cells: &[&Differing], sides: &[(Look, &Saved); 2]) -> Markup {
    let backends = cells.iter().any(|cell| cell.subjects[0].backend != cells[0].subjects[0].backend);
    let show: fn(f64) -> String = if load == Load::Max { super::rate } else { span };
    let mark = |pair: &Pair, i: usize, name: &str| RangeMark {
        look: sides[i].0,
        median: pair.medians[i],
        range: pair.ranges[i],
        title: format!(
            "{name}, {}: {} (runs {} to {})",
            sides[i].1.name,
            show(pair.medians[i]),
            show(pair.ranges[i].0),
            show(pair.ranges[i].1)
        ),
    };
    let row = |cell: &&Differing| {
        let (pair, name) = (cell.asked(), cell.name(backends));
        RangeRow { marks: [0, 1].map(|i| mark(&pair, i, &name)).into(), name }
    };
    let rows: Vec<RangeRow> = cells.iter().map(row).collect();
    let all: Vec<f64> = rows.iter().flat_map(|row| &row.marks).flat_map(|mark| [mark.range.0, mark.range.1]).collect();
    let name = if load == Load::Max {
        "requests answered per second, log scale"
    } else {
        "99th percentile latency, log scale"
    };
    let axis = Axis { scale: Scale::log(all.into_iter(), show), name: name.to_owned() };
    let text = rows.iter().flat_map(|row| &row.marks).map(|mark| mark.title.as_str()).collect::<Vec<_>>().join("; ");
    ranges(width, &Said { title: &format!("{name} at {}", load_words(load)), text: &text }, axis, &rows)
}

fn tables(differences: &Differences, first: &Saved, other: &Saved) -> Markup {
    let cells = &differences.cells;
    let backends = cells.iter().any(|cell| cell.subjects[0].backend != cells[0].subjects[0].backend);
    let (a, b) = (&first.name, &other.name);
    let heads = |what: &str| -> Vec<(String, String)> {
        let heads =
            ["mode".to_owned(), "load".to_owned(), format!("{what}, {a}"), format!("{what}, {b}"), "ratio".to_owned()];
        let cpu = [format!("cpu %, {a}"), format!("cpu %, {b}"), "ratio".to_owned()];
        heads.into_iter().chain(cpu).map(|head| (head, String::new())).collect()
    };
    let (open, closed): (Vec<&Differing>, Vec<&Differing>) = cells.iter().partition(|cell| cell.load != Load::Max);
    let rows = |cells: &[&Differing]| cells.iter().map(|cell| row(cell, backends)).collect::<Vec<_>>();
    let [alone_a, alone_b] = differences.alone;
    html! {
        @if !open.is_empty() { (table("99th percentile and CPU time, lowest to highest run", &heads("p99 µs"), &rows(&open))) }
        @if !closed.is_empty() { (table("Closed loop: rate and CPU time", &heads("requests/s"), &rows(&closed))) }
        @if alone_a + alone_b > 0 {
            p.note { "Rows without a partner: " (alone_a) " of " (printable(a)) ", " (alone_b) " of " (printable(b)) "." }
        }
    }
}

fn row(cell: &Differing, backends: bool) -> Vec<Cell> {
    let asked = cell.asked();
    let digits = usize::from(cell.load != Load::Max);
    let mut line = vec![Cell::Name(cell.name(backends)), Cell::Name(cell.load.column())];
    for i in [0, 1] {
        let ((low, high), median) = (asked.ranges[i], asked.medians[i]);
        let mark = if cell.sustains[i] { "" } else { ", not sustained" };
        line.push(Cell::Figure(format!("{median:.digits$} [{low:.digits$}\u{2013}{high:.digits$}]{mark}")));
    }
    line.push(judged(&asked));
    for i in [0, 1] {
        line.push(Cell::Figure(format!("{:.0}", cell.cpu_pct.medians[i])));
    }
    line.push(judged(&cell.cpu_pct));
    line
}

/// The ratio, and whether it is one to speak of.
fn judged(pair: &Pair) -> Cell {
    let ratio = pair.ratio();
    match pair.verdict {
        Verdict::Lower => Cell::Differs(format!("{ratio} lower")),
        Verdict::Higher => Cell::Differs(format!("{ratio} higher")),
        Verdict::Overlap => Cell::Figure(format!("{ratio} runs overlap")),
        Verdict::OneRun => Cell::Figure(format!("{ratio} one run")),
    }
}

/// The percentiles of all comparisons, where they have a mode at a load in common.
fn percentiles(first: &Saved, others: &[Saved]) -> Markup {
    let all: Vec<&Saved> = std::iter::once(first).chain(others).collect();
    let of_all: Vec<Differences> = others.iter().map(|other| differ(&first.report, &other.report)).collect();
    let mut panels: Vec<(Load, Markup)> = Vec::new();
    for row in first.report.rows.iter().filter(|row| row.figures().is_some()) {
        let mut found = vec![(0, row)];
        for (i, differences) in of_all.iter().enumerate() {
            let cell = differences.cells.iter().find(|cell| cell.subjects[0] == row.subject && cell.load == row.load);
            let same = |cell: &Differing| {
                all[i + 1].report.rows.iter().find(|r| r.subject == cell.subjects[1] && r.load == row.load)
            };
            found.extend(cell.and_then(same).map(|row| (i + 1, row)));
        }
        if found.len() < 2 {
            continue;
        }
        let curves: Vec<_> =
            found.iter().map(|(i, row)| curve(row, all[*i].name.clone(), Look::nth(*i), &all[*i].report)).collect();
        let name = row.subject.name(first.report.among_backends());
        let title = format!("Latency by percentile of {name} at {}", load_words(row.load));
        panels.push((row.load, html! { figure { figcaption { b { (name) } " at " (load_words(row.load)) } (nines(PANEL, &title, &curves)) } }));
    }
    html! {
        @if !panels.is_empty() {
            h3 { "Percentiles side by side" }
            div.panels { @for (_, panel) in &panels { (panel) } }
        }
    }
}
