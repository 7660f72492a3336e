//! Differences as Markdown: the tables of the text.

use super::{CellDifference, Differences, Pair, SideBySide};
use crate::sheet::escaped;

/// The comparisons behind the first, each beside it: what is said, what ran differently, and the tables.
#[must_use]
pub fn markdown(all: &SideBySide<'_>) -> String {
    let mut page = String::new();
    for file in &all.files {
        for note in &file.notes {
            page += &format!("{}: {}\n\n", escaped(&file.name), escaped(note));
        }
    }
    for differences in &all.each() {
        two(&mut page, differences);
    }
    page + "In brackets the 95 % interval of each, and without slices the lowest and highest run. " + super::READ + "\n"
}

fn two(page: &mut String, differences: &Differences<'_>) {
    let [a, b] = differences.names().map(escaped);
    *page += &format!("### {b} beside {a}\n\n{}\n\n", escaped(&differences.summary()));
    if let Some(words) = differences.about_ranges() {
        *page += &format!("{}\n\n", escaped(&words));
    }
    if let Some(words) = differences.about_backends() {
        *page += &format!("{words}\n\n");
    }
    if !differences.setups.is_empty() {
        let mut rows = vec![vec!["ran differently".to_owned(), a.clone(), b.clone()]];
        rows.extend(differences.setups.iter().map(|(name, [a, b])| [name, a, b].map(|text| escaped(text)).to_vec()));
        *page += &table(":::", &rows);
    }
    let backends = differences.among_backends();
    let (open, closed) = differences.by_loop();
    for (cells, what, unit) in [(open, "99%lat", "µs"), (closed, "qps", "requests/s")] {
        if cells.is_empty() {
            continue;
        }
        let figures = |what: &str, unit: &str| {
            [format!("{what} ({unit}), {a}"), format!("{what} ({unit}), {b}"), format!("{what}, ratio")]
        };
        let mut rows = vec![vec!["mode".to_owned(), "load".to_owned()]];
        rows[0].extend(figures(what, unit).into_iter().chain(figures("cpu", "%")));
        rows.extend(cells.iter().map(|cell| row(cell, &cell.name(backends))));
        *page += &table(":>>>>>>>", &rows);
    }
    if let Some(words) = differences.about_alone() {
        *page += &format!("{}\n\n", escaped(&words));
    }
}

fn row(cell: &CellDifference, name: &str) -> Vec<String> {
    let asked = cell.asked();
    let figures = |pair: &Pair, show: &dyn Fn(f64) -> String| {
        [0, 1].map(|i| {
            let (low, high) = pair.ranges()[i];
            format!("{} [{}–{}]", show(pair.medians()[i]), show(low), show(high))
        })
    };
    let sustained = |i: usize| if cell.sustains[i] { "" } else { ", not sustained" };
    let [a, b] = figures(&asked, &|figure| cell.shown(figure));
    let [cpu_a, cpu_b] = figures(&cell.cpu_pct, &|pct| format!("{pct:.0}"));
    let asked_of_both = [a + sustained(0), b + sustained(1), judged(&asked)];
    let cpu = [cpu_a, cpu_b, judged(&cell.cpu_pct)];
    [escaped(name), cell.load.column()].into_iter().chain(asked_of_both).chain(cpu).collect()
}

/// The ratio, in bold if it is one to speak of.
fn judged(pair: &Pair) -> String {
    let words = pair.judged();
    if pair.verdict().differs() == Some(true) { format!("**{words}**") } else { words }
}

/// Rows below the first as a table, also in line where nothing draws it. `sides` has `:` for a column that begins left, `>` right.
fn table(sides: &str, rows: &[Vec<String>]) -> String {
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0).max(4);
    let columns: Vec<(bool, usize)> = sides.chars().enumerate().map(|(i, side)| (side == ':', width(i))).collect();
    let mut text = String::new();
    for (n, row) in rows.iter().enumerate() {
        for ((is_left, width), cell) in columns.iter().zip(row) {
            text += &if *is_left { format!("| {cell:<width$} ") } else { format!("| {cell:>width$} ") };
        }
        text += "|\n";
        if n == 0 {
            for (is_left, width) in &columns {
                let dashes = "-".repeat(width - 1);
                text += &if *is_left { format!("| :{dashes} ") } else { format!("| {dashes}: ") };
            }
            text += "|\n";
        }
    }
    text + "\n"
}
