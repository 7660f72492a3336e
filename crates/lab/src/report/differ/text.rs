//! Differences as text.

use super::{CellDifference, Differences, Pair, SideBySide};
use crate::wrap::wrapped;

/// The comparisons behind the first, each beside it, in lines of at most `width` columns; a row is never broken.
#[must_use]
pub fn text(all: &SideBySide<'_>, width: usize) -> String {
    let mut page = String::new();
    for file in &all.files {
        for note in &file.notes {
            page += &wrapped("", &format!("{}: {note}", file.name), width);
        }
    }
    for (i, differences) in all.each().iter().enumerate() {
        if i > 0 {
            page.push('\n');
        }
        two(&mut page, differences, width);
    }
    page.push('\n');
    page += &wrapped(
        "",
        "< lower and > higher than every run of the other; ~ the runs overlap, so there is no difference to claim; ? not known: \
         one run, a machine that was taken away, or a load that one does not sustain. 99%lat in us, cpu in % of the server's CPUs; ! does not sustain the load, so its latency is that of a queue.",
        width,
    );
    page
}

fn two(page: &mut String, differences: &Differences<'_>, width: usize) {
    *page += &wrapped("", &differences.summary(), width);
    page.push('\n');
    if let Some(words) = differences.about_backends() {
        *page += &wrapped("", words, width);
    }
    let setups = &differences.setups;
    if !setups.is_empty() {
        *page += "What ran differently:\n";
    }
    for (name, [a, b]) in setups {
        *page += &wrapped(&format!("  {name}: "), &format!("{a} | {b}"), width);
    }
    let backends = differences.among_backends();
    let name_width = differences.cells.iter().map(|cell| cell.name(backends).len()).max().unwrap_or(0).max(8);
    let (open, closed) = differences.by_loop();
    let [[a, b], [cpu_a, cpu_b]] = [10, 7].map(|columns| heads(differences.names(), columns));
    for (cells, what) in [(open, "99%lat (us)"), (closed, "qps")] {
        if cells.is_empty() {
            continue;
        }
        *page += &format!(
            "\n{:>name_width$} {:>7} {:>21}        {:>15}\n{:>name_width$} {:>7} {a:>10} {b:>10} {:>7} {cpu_a:>7} {cpu_b:>7} {:>7}\n",
            "", "", what, "cpu (%)", "testcase", "load", "ratio", "ratio"
        );
        cells.iter().for_each(|cell| row(page, cell, &cell.name(backends), name_width));
    }
    if let Some(words) = differences.about_alone() {
        *page += &wrapped("", &words, width);
    }
}

/// Names as heads of so many columns: their beginnings, or their ends if only these tell them apart.
fn heads(names: [&str; 2], columns: usize) -> [String; 2] {
    let begins = names.map(|name| name.chars().take(columns).collect::<String>());
    if begins[0] != begins[1] {
        return begins;
    }
    let ends = names.map(|name| name.chars().skip(name.chars().count().saturating_sub(columns)).collect::<String>());
    if ends[0] != ends[1] { ends } else { ["first", "other"].map(str::to_owned) }
}

fn row(page: &mut String, cell: &CellDifference, name: &str, name_width: usize) {
    let asked = cell.asked();
    let figure = |i: usize| {
        let mark = if cell.sustains[i] { "" } else { "!" };
        mark.to_owned() + &cell.shown(asked.medians()[i])
    };
    let cpu = |i: usize| format!("{:.0}", cell.cpu_pct.medians()[i]);
    *page += &format!(
        "{name:>name_width$} {:>7} {:>10} {:>10} {:>7} {:>7} {:>7} {:>7}\n",
        cell.load.column(),
        figure(0),
        figure(1),
        judged(asked),
        cpu(0),
        cpu(1),
        judged(cell.cpu_pct)
    );
}

/// The ratio with its sign before.
fn judged(pair: Pair) -> String {
    format!("{}{}", pair.verdict(), pair.times())
}
