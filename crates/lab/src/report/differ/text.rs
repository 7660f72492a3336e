//! Differences as text.

use super::{Cell, Differences, Pair, differ};
use crate::loads::Load;
use crate::report::columns::us;
use crate::report::read::Saved;
use crate::wrap::wrapped;

/// The comparisons behind the first, each beside it, in lines of at most `width` columns; a row is never broken.
#[must_use]
pub fn text(all: &[Saved], width: usize) -> String {
    let [first, others @ ..] = all else { return String::new() };
    let mut page = String::new();
    for saved in all {
        for note in &saved.notes {
            page += &wrapped("", &format!("{}: {note}", saved.name), width);
        }
    }
    for (i, other) in others.iter().enumerate() {
        if i > 0 {
            page.push('\n');
        }
        let names = [first.name.as_str(), other.name.as_str()];
        two(&mut page, names, &differ(&first.report, &other.report), width);
    }
    page.push('\n');
    page += &wrapped(
        "",
        "< lower and > higher than every run of the other; ~ the runs overlap, so there is no difference to claim; ? one run, so the spread \
         is not known. 99%lat in us, cpu in % of the server's CPUs; ! does not sustain the load, so its latency is that of a queue.",
        width,
    );
    page
}

fn two(page: &mut String, names: [&str; 2], differences: &Differences, width: usize) {
    *page += &wrapped("", &differences.summary(names), width);
    page.push('\n');
    if differences.across_backends && !differences.cells.is_empty() {
        *page += &wrapped(
            "",
            "They have no backend in common: a mode of the one stands beside the same mode of the other.",
            width,
        );
    }
    let setups = &differences.setups;
    if !setups.is_empty() {
        *page += "What ran differently:\n";
    }
    for (name, [a, b]) in setups {
        *page += &wrapped(&format!("  {name}: "), &format!("{a} | {b}"), width);
    }
    let backends =
        differences.cells.iter().any(|cell| cell.subjects[0].backend != differences.cells[0].subjects[0].backend);
    let name_width = differences.cells.iter().map(|cell| cell.name(backends).len()).max().unwrap_or(0).max(8);
    let (open, closed): (Vec<&Cell>, Vec<&Cell>) = differences.cells.iter().partition(|cell| cell.load != Load::Max);
    let short = names.map(|name| name.chars().take(7).collect::<String>());
    for (cells, what) in [(open, "99%lat"), (closed, "qps")] {
        if cells.is_empty() {
            continue;
        }
        *page += &format!(
            "\n{:>name_width$} {:>7} {:>21}        {:>15}\n{:>name_width$} {:>7} {:>10} {:>10} {:>7} {:>7} {:>7} {:>7}\n",
            "", "", what, "cpu", "testcase", "load", short[0], short[1], "ratio", short[0], short[1], "ratio"
        );
        cells.iter().for_each(|cell| row(page, cell, &cell.name(backends), name_width));
    }
    let [a, b] = differences.alone;
    if a + b > 0 {
        *page += &wrapped("", &format!("Rows without a partner: {a} of {}, {b} of {}.", names[0], names[1]), width);
    }
}

fn row(page: &mut String, cell: &Cell, name: &str, name_width: usize) {
    let asked = cell.asked();
    let lowest = asked.medians[0].min(asked.medians[1]);
    let figure = |i: usize| {
        let mark = if cell.sustains[i] { "" } else { "!" };
        let figure = asked.medians[i];
        mark.to_owned() + &if cell.load == Load::Max { format!("{figure:.0}") } else { us(figure, lowest) }
    };
    let cpu = |i: usize| format!("{:.0}", cell.cpu_pct.medians[i]);
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
    format!("{}{}", pair.verdict, pair.ratio())
}
