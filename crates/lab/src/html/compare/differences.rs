//! Several comparisons on one page: what differs.

use maud::{Markup, html};

use super::figures::{capital, curve, nines};
use super::{load_words, span};
use crate::html::plot::ranges::{RangeMark, RangeRow, ranges};
use crate::html::plot::series::key;
use crate::html::plot::{Axis, HALF, PANEL, Said, Scale, SeriesStyle};
use crate::html::shell::{TableCell, figure, printable, table};
use crate::loads::Load;
use crate::report::Row;
use crate::report::differ::{CellDifference as Differing, Differences, Line, Pair, READ, SideBySide};

/// What differs, a paragraph for each comparison behind the first.
pub(super) fn answer(all: &SideBySide<'_>) -> Vec<String> {
    let each = all.each();
    each.iter().filter_map(Differences::about_ranges).chain(each.iter().map(Differences::summary)).collect()
}

/// Figures, percentiles and tables of what differs.
pub(super) fn section(all: &SideBySide<'_>) -> Markup {
    let entries: Vec<(SeriesStyle, String)> =
        all.files.iter().enumerate().map(|(i, saved)| (SeriesStyle::nth(i), saved.name.clone())).collect();
    html! {
        (key(&entries))
        @for (i, differences) in all.each().iter().enumerate() {
            @let [first, other] = differences.names();
            @if all.files.len() > 2 { h3 { (other) " beside " (first) } }
            @if let Some(words) = differences.about_backends() { p.note { (words) } }
            (setups(differences))
            (medians(differences, [SeriesStyle::nth(0), SeriesStyle::nth(i + 1)]))
            (tables(differences))
        }
        (percentiles(all))
        p.note { (READ) }
    }
}

fn setups(differences: &Differences<'_>) -> Markup {
    let [first, other] = differences.names();
    let heads = ["", first, other].map(|head| (head.to_owned(), String::new()));
    let rows: Vec<Vec<TableCell>> = differences
        .setups
        .iter()
        .map(|(name, [a, b])| [name, a, b].map(|text| TableCell::Name((*text).to_owned())).into())
        .collect();
    html! {
        @if rows.is_empty() { p.note { "Both ran the same: commit, machine, workload." } }
        @else { (table("What ran differently", &heads, &rows)) }
    }
}

/// A figure for each load: the 99th percentile of both, in the closed loop the rate.
fn medians(differences: &Differences<'_>, looks: [SeriesStyle; 2]) -> Markup {
    let backends = differences.among_backends();
    let sides = [0, 1].map(|i| (looks[i], differences.names()[i]));
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
                (figure(html! { b { (capital(&load_words(load))) } }, HALF, |size| of_load(size.width, load, &cells, backends, &sides)))
            }
        }
    }
}

fn of_load(width: f64, load: Load, cells: &[&Differing], backends: bool, sides: &[(SeriesStyle, &str); 2]) -> Markup {
    let show: fn(f64) -> String = if load == Load::Max { super::rate } else { span };
    let mark = |pair: &Pair, i: usize, name: &str| RangeMark {
        look: sides[i].0,
        median: pair.medians()[i],
        range: pair.ranges()[i],
        title: format!(
            "{name}, {}: {} ({} to {})",
            sides[i].1,
            show(pair.medians()[i]),
            show(pair.ranges()[i].0),
            show(pair.ranges()[i].1)
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

fn tables(differences: &Differences<'_>) -> Markup {
    let backends = differences.among_backends();
    let [a, b] = differences.names();
    let heads = |what: &str| -> Vec<(String, String)> {
        let heads =
            ["mode".to_owned(), "load".to_owned(), format!("{what}, {a}"), format!("{what}, {b}"), "ratio".to_owned()];
        let cpu = [format!("cpu %, {a}"), format!("cpu %, {b}"), "ratio".to_owned()];
        heads.into_iter().chain(cpu).map(|head| (head, String::new())).collect()
    };
    let (open, closed) = differences.by_loop();
    let rows = |cells: &[&Differing]| cells.iter().map(|cell| row(cell, backends)).collect::<Vec<_>>();
    html! {
        @if !open.is_empty() { (table("99th percentile with its interval, and CPU time", &heads("p99 µs"), &rows(&open))) }
        @if !closed.is_empty() { (table("Closed loop: rate and CPU time", &heads("requests/s"), &rows(&closed))) }
        @if let Some(words) = differences.about_alone() { p.note { (printable(&words)) } }
    }
}

fn row(cell: &Differing, backends: bool) -> Vec<TableCell> {
    let asked = cell.asked();
    let mut line = vec![TableCell::Name(cell.name(backends)), TableCell::Name(cell.load.column())];
    for i in [0, 1] {
        let [median, low, high] = [asked.medians()[i], asked.ranges()[i].0, asked.ranges()[i].1].map(|f| cell.shown(f));
        let mark = if cell.sustains[i] { "" } else { ", not sustained" };
        line.push(TableCell::Figure(format!("{median} [{low}\u{2013}{high}]{mark}")));
    }
    line.push(judged(&asked));
    for i in [0, 1] {
        line.push(TableCell::Figure(format!("{:.0}", cell.cpu_pct.medians()[i])));
    }
    line.push(judged(&cell.cpu_pct));
    line
}

/// The ratio, marked if it is one to speak of.
fn judged(pair: &Pair) -> TableCell {
    if pair.verdict().differs() == Some(true) {
        TableCell::Differs(pair.judged())
    } else {
        TableCell::Figure(pair.judged())
    }
}

/// The percentiles of all comparisons, where another has what the first has.
fn percentiles(all: &SideBySide<'_>) -> Markup {
    let of_line = |line: &Line<'_>| -> Option<Markup> {
        let found: Vec<(usize, &Row)> =
            line.rows.iter().enumerate().filter_map(|(i, row)| row.map(|row| (i, row))).collect();
        if line.rows[0].is_none() || found.len() < 2 {
            return None;
        }
        let curves: Vec<_> = found
            .iter()
            .map(|(i, row)| curve(row, all.files[*i].name.clone(), SeriesStyle::nth(*i), &all.files[*i].report))
            .collect();
        let name = line.subject().name(all.files[0].report.among_backends());
        let load = load_words(line.load);
        let title = format!("Latency by percentile of {name} at {load}");
        Some(html! { figure { figcaption { b { (name) } " at " (load) } (nines(PANEL, &title, &curves)) } })
    };
    let panels: Vec<Markup> = all.lines.iter().filter_map(of_line).collect();
    html! {
        @if !panels.is_empty() {
            h3 { "Percentiles side by side" }
            div.panels { @for panel in &panels { (panel) } }
        }
    }
}
