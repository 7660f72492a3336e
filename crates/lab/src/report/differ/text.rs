//! Differences as text.

use super::{CellDifference, Differences, SideBySide};
use crate::sheet::{ColumnHead, Sheet, SheetAnswer, SheetTable, TableCell, text as of_sheet};

/// The comparisons behind the first, each beside it, in lines of at most `width` columns: the answer first.
#[must_use]
pub fn text(all: &SideBySide<'_>, width: usize) -> String {
    let each = all.each();
    let mut said: Vec<String> = each.iter().filter_map(Differences::about_ranges).collect();
    said.extend(each.iter().map(Differences::summary));
    for differences in &each {
        said.extend(differences.about_backends().map(str::to_owned));
    }
    let answer = SheetAnswer { said, ..SheetAnswer::default() };
    let tables = each.iter().flat_map(tables).collect();
    let mut notes: Vec<String> = Vec::new();
    for differences in &each {
        notes.extend(setups(differences));
        notes.extend(differences.about_alone());
    }
    let of_files = all.files.iter().flat_map(|file| file.notes.iter().map(|note| format!("{}: {note}", file.name)));
    notes.extend(of_files);
    notes.push(READ.to_owned());
    of_sheet(&Sheet { answer, tables, notes }, width)
}

/// How to read it.
pub(crate) const READ: &str = "x is of the first; ! does not sustain the load, so its latency is that of a queue. better, worse, within X % and undecided come of \
    slices: rounds drawn for each comparison by itself, and the ranks of all of them; lower, higher and runs overlap of ranges of runs. Slices of two comparisons were not measured next to each other: what differs \
    between the runs as a whole (where memory lies, the CPU's clock, another hour) is in no slice, and less than 5 % is never called a difference. Repeat both, in \
    turn, before relying on it.";

/// What ran differently, a line each.
fn setups(differences: &Differences<'_>) -> Vec<String> {
    let lines = differences.setups.iter().map(|(name, [a, b])| format!("{name}: {a} | {b}"));
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { lines } else { std::iter::once("What ran differently:".to_owned()).chain(lines).collect() }
}

fn tables(differences: &Differences<'_>) -> Vec<SheetTable> {
    let backends = differences.among_backends();
    let (open, closed) = differences.by_loop();
    let [a, b] = heads(differences.names(), 9);
    let table = |cells: &[&CellDifference], what: &str| {
        let says = "see below";
        let heads = vec![
            ColumnHead::text("mode", "the mode"),
            ColumnHead::figure("load", "requests per second that were offered"),
            ColumnHead::figure(&a, says),
            ColumnHead::figure(&b, says),
            ColumnHead::text(what, says),
            ColumnHead::figure("CPU", says).goes(1),
            ColumnHead::figure("CPU", says).goes(2),
            ColumnHead::text("CPU", says),
        ];
        let rows = cells.iter().map(|cell| row(cell, &cell.name(backends))).collect();
        let title = format!("{what}, and CPU in % of the server's CPUs: {a}, then {b}");
        SheetTable { title, heads, rows }
    };
    [(open, "p99 us"), (closed, "answered/s")]
        .into_iter()
        .filter(|(cells, _)| !cells.is_empty())
        .map(|(cells, what)| table(&cells, what))
        .collect()
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

fn row(cell: &CellDifference, name: &str) -> Vec<TableCell> {
    let asked = cell.asked();
    let figure = |i: usize| {
        let mark = if cell.sustains[i] { "" } else { "!" };
        TableCell::Figure(mark.to_owned() + &cell.shown(asked.medians()[i]))
    };
    let cpu = |i: usize| TableCell::Figure(format!("{:.0}", cell.cpu_pct.medians()[i]));
    vec![
        TableCell::Name(name.to_owned()),
        TableCell::Figure(cell.load.column()),
        figure(0),
        figure(1),
        TableCell::Name(asked.judged()),
        cpu(0),
        cpu(1),
        TableCell::Name(cell.cpu_pct.judged()),
    ]
}
