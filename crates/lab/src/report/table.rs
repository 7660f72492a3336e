//! The table, in the manner of a kernel cover letter: one block per load, figures flush right, one line per mode.

mod legend;
mod page;
mod work;

use super::columns::{COLUMNS, Chosen, Column, DROPPED_FIRST, Range, us};
use super::sentence::sentences;
use super::verdict::Block;
use super::{Outcome, Report, Row};
use crate::loads::Load;
use page::Page;

/// Widest line, in columns; a reason or a sentence that is longer is broken.
pub const WIDTH_MAX: usize = 160;

/// A page of less is written as if it had this many columns.
const WIDTH_MIN: usize = 80;

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// Which columns a table has.
#[derive(Clone, Debug)]
pub enum Which {
    /// Those for which there is room.
    Fitting,
    /// All, whatever room there is.
    All,
    /// These.
    Chosen(Chosen),
}

/// A table that is written as its loads finish.
#[derive(Debug)]
pub struct RowTable {
    /// Set the best of each column within a load in bold, by terminal codes; without, the text has no codes at all.
    bold: bool,
    /// Widest line, in columns; columns of the table that do not fit are left out.
    width: usize,
    which: Which,
    printed: Vec<Load>,
    has_heading: bool,
    searched_again: bool,
}

/// Its name up to version 0.2.
#[deprecated(since = "0.3.0", note = "it is `RowTable`")]
pub type Table = RowTable;

impl RowTable {
    /// Nothing is written so far.
    pub fn new(bold: bool, width: usize) -> Self {
        let width = width.clamp(WIDTH_MIN, WIDTH_MAX);
        Self { bold, width, which: Which::Fitting, printed: Vec::new(), has_heading: false, searched_again: false }
    }

    /// With other columns than those for which there is room.
    #[must_use]
    pub fn with(self, which: Which) -> Self {
        Self { which, ..self }
    }

    /// What of a report, which has only loads of which all runs are done, was not written yet.
    pub fn more(&mut self, report: &Report) -> String {
        let mut page = Page::new(self.width);
        self.blocks(&mut page, report);
        page.into_text()
    }

    /// What of the whole report was not written yet, and how to read it.
    pub fn end(&mut self, report: &Report) -> String {
        let mut page = Page::new(self.width);
        self.blocks(&mut page, report);
        legend::sustained(&mut page, report);
        page.line("");
        let begun = |rows: &[&Row]| !rows.iter().all(|row| row.was_not_run());
        incomplete(&mut page, report, report.by_load().iter().filter(|(_, rows)| !begun(rows)).map(|(load, _)| *load));
        let hidden = TableShape::new(report, self).hidden;
        legend::legend(&mut page, report, &hidden, self.bold);
        page.into_text()
    }

    fn blocks(&mut self, page: &mut Page, report: &Report) {
        if !self.has_heading {
            self.has_heading = true;
            legend::heading(page, report);
        }
        if let Some(why) = report.searched_again.as_ref().filter(|_| !self.searched_again) {
            self.searched_again = true;
            self.printed.clear();
            page.line("");
            page.words(&format!(
                "The loads were wrong ({why}) and are searched again, once. What follows replaces what is above."
            ));
        }
        let shape = TableShape::new(report, self);
        for (load, rows) in report.by_load() {
            if self.printed.contains(&load) || rows.iter().all(|row| row.was_not_run()) {
                continue;
            }
            self.printed.push(load);
            page.line("");
            block(page, load, &rows, &shape, report);
        }
    }
}

/// What all blocks have in common.
struct TableShape {
    columns: Vec<&'static Column>,
    /// Columns for which there is no room.
    hidden: Vec<&'static Column>,
    name_width: usize,
    backends: bool,
    bold: bool,
}

impl TableShape {
    fn new(report: &Report, table: &RowTable) -> Self {
        let backends = report.among_backends();
        let name_width = report.rows.iter().map(|row| row.subject.name(backends).len()).max().unwrap_or(0).max(10);
        let has = |column: &&Column| !column.optional || column.is_in(&report.rows);
        let mut columns: Vec<&Column> = match &table.which {
            Which::Chosen(chosen) => chosen.0.clone(),
            Which::Fitting | Which::All => COLUMNS.iter().filter(has).collect(),
        };
        let mut hidden = Vec::new();
        let width = |columns: &[&Column]| name_width + 7 + columns.iter().map(|column| 1 + column.width).sum::<usize>();
        // What was asked for by name is there.
        let may_drop = matches!(table.which, Which::Fitting);
        for head in DROPPED_FIRST.iter().filter(|_| may_drop) {
            if width(&columns) <= table.width {
                break;
            }
            hidden.extend(columns.iter().copied().filter(|column| column.head == *head));
            columns.retain(|column| column.head != *head);
        }
        Self { columns, hidden, name_width, backends, bold: table.bold }
    }
}

fn block(page: &mut Page, load: Load, rows: &[&Row], shape: &TableShape, report: &Report) {
    let name_width = shape.name_width;
    let machine = report.machine_at(load);
    if load == Load::Max {
        let flows = report.workload.flows;
        page.words(&format!(
            "Closed loop, {flows} in flight (MAX): bound by latency, so not the most that a mode sustains."
        ));
    }
    let mut head = format!("{:>name_width$}{:>7}", "testcase", "load");
    for column in &shape.columns {
        head += &format!(" {:>1$}", column.head, column.width);
    }
    page.line(&head);
    let blocks = Block::all_of(report, load);
    let ranges: Vec<Range> = shape.columns.iter().map(|column| Range::of(column, rows, &blocks)).collect();
    for row in rows {
        let mut start = format!("{:>name_width$}{:>7}", row.subject.name(shape.backends), load.column());
        match &row.outcome {
            Outcome::Refused(reason) => page.words_after(&start, &format!("refused: {reason}")),
            Outcome::Nothing => {
                let why = row.lost.as_ref().map_or("", |lost| lost.why.as_str());
                page.words_after(
                    &start,
                    &format!("no figures: of {} runs {why}", row.lost.as_ref().map_or(0, |lost| lost.of)),
                );
            }
            Outcome::Measured(figures) | Outcome::Predicted { figures, .. } => {
                for (column, range) in shape.columns.iter().zip(&ranges) {
                    let shown = column.shown((column.figure)(&figures.median), range);
                    start += &cell(column, &shown, range.is_best(row), shape.bold);
                }
                page.line(&start);
            }
        }
    }
    sentences(load, rows, report).iter().for_each(|said| page.words(said));
    page.words(&spread(rows, shape.backends));
    page.words(&work::per_reply(rows, shape.backends));
    page.words(&work::sides(rows, shape.backends));
    if let Some(machine) = machine {
        page.words(&machine.text());
    }
    for row in rows.iter().filter(|row| row.figures().is_some()) {
        if let Some(lost) = &row.lost {
            let name = row.subject.name(shape.backends);
            page.words(&format!("{name}: not in its figures are {} of {} runs: {}.", lost.runs, lost.of, lost.why));
        }
    }
}

/// Says above the legend what the table lacks, and why.
fn incomplete(page: &mut Page, report: &Report, not_begun: impl Iterator<Item = Load>) {
    let Some(why) = &report.ended else { return };
    let loads: Vec<String> = not_begun.map(|load| load.to_string()).collect();
    let loads = if loads.is_empty() { String::new() } else { format!(" Not begun: {}.", loads.join(", ")) };
    page.words(&format!("INCOMPLETE: {why}.{loads}"));
}

/// A figure, marked if it is the best: by terminal codes, or by a star in what is otherwise a space.
fn cell(column: &Column, shown: &str, is_best: bool, bold: bool) -> String {
    // The codes take no room on the screen, so the padding is counted without them.
    let padding = " ".repeat(column.width.saturating_sub(shown.len()));
    match (is_best, bold) {
        (true, true) => format!("{padding} {BOLD}{shown}{PLAIN}"),
        (true, false) => format!("{padding}*{shown}"),
        (false, _) => format!("{padding} {shown}"),
    }
}

/// The lowest and the highest p99 of each mode's runs; nothing if there is only one run.
fn spread(rows: &[&Row], backends: bool) -> String {
    let several =
        rows.iter().filter_map(|row| Some((row.subject.name(backends), row.figures().filter(|m| m.runs > 1)?)));
    let each: Vec<String> = several
        .map(|(name, measured)| {
            let (min, max) = (measured.spread.min.latency_us.p99, measured.spread.max.latency_us.p99);
            format!("{name} {}-{}", us(min, min), us(max, min))
        })
        .collect();
    if each.is_empty() { String::new() } else { format!("99%lat, lowest and highest run: {}.", each.join(", ")) }
}

#[cfg(test)]
mod tests;
