//! The table, in the manner of a kernel cover letter: one block per load, figures flush right, one line per mode.

mod legend;
mod page;
mod work;

use super::beside;
use super::sentence::sentence;
use super::{Outcome, Report, Row};
use crate::loads::Load;
use crate::stats::Figures;
use crate::subject::Backend;
use page::Page;

/// Widest line, in columns; a reason or a sentence that is longer is broken.
pub const WIDTH_MAX: usize = 160;

/// A page of less is written as if it had this many columns.
const WIDTH_MIN: usize = 80;

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// A table that is written as its loads finish.
#[derive(Debug)]
pub struct Table {
    /// Set the best of each column within a load in bold, by terminal codes; without, the text has no codes at all.
    bold: bool,
    /// Widest line, in columns; columns of the table that do not fit are left out.
    width: usize,
    printed: Vec<Load>,
    has_heading: bool,
    searched_again: bool,
}

impl Table {
    /// Nothing is written so far.
    pub fn new(bold: bool, width: usize) -> Self {
        let width = width.clamp(WIDTH_MIN, WIDTH_MAX);
        Self { bold, width, printed: Vec::new(), has_heading: false, searched_again: false }
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
        let hidden = Shape::new(report, self).hidden;
        legend::legend(&mut page, report, &hidden);
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
        let shape = Shape::new(report, self);
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

/// Which value of a column is best.
#[derive(Clone, Copy, PartialEq)]
enum Best {
    Lowest,
    Highest,
}

/// Shows a figure, given the lowest of its column.
type Show = fn(f64, f64) -> String;

/// What all blocks have in common.
struct Shape {
    columns: Vec<&'static Column>,
    /// Columns for which there is no room.
    hidden: Vec<&'static Column>,
    name_width: usize,
    backends: bool,
    bold: bool,
}

impl Shape {
    fn new(report: &Report, table: &Table) -> Self {
        let backends = report.among_backends();
        let name_width = report.rows.iter().map(|row| row.subject.name(backends).len()).max().unwrap_or(0).max(10);
        let has = |column: &&Column| {
            !column.optional
                || report.rows.iter().any(|row| row.figures().is_some_and(|m| (column.figure)(&m.median).is_some()))
        };
        let mut columns: Vec<&Column> = COLUMNS.iter().filter(has).collect();
        let mut hidden = Vec::new();
        let width = |columns: &[&Column]| name_width + 7 + columns.iter().map(|column| 1 + column.width).sum::<usize>();
        for head in DROPPED_FIRST {
            if width(&columns) <= table.width {
                break;
            }
            hidden.extend(columns.iter().copied().filter(|column| column.head == *head));
            columns.retain(|column| column.head != *head);
        }
        Self { columns, hidden, name_width, backends, bold: table.bold }
    }
}

/// Columns that are left out where there is no room, the least needed first.
const DROPPED_FIRST: &[&str] = &[
    "ev/wait",
    "work/poll",
    "empty",
    "polls/s",
    "cl-si",
    "useful",
    "95%lat",
    "proc",
    "irq/s",
    "avglat",
    "cpq",
    "spin",
    "99.9%lat",
    "cpu0+1",
    "50%lat",
];

struct Column {
    /// Left out where no row has the figure.
    optional: bool,
    head: &'static str,
    width: usize,
    best: Best,
    figure: fn(&Figures) -> Option<f64>,
    show: Show,
}

const COLUMNS: &[Column] = &[
    column("qps", 8, Best::Highest, |f| Some(f.achieved_rps), whole),
    column("avglat", 7, Best::Lowest, |f| Some(f.latency_us.mean), us),
    column("50%lat", 7, Best::Lowest, |f| Some(f.latency_us.p50), us),
    column("95%lat", 7, Best::Lowest, |f| Some(f.latency_us.p95), us),
    column("99%lat", 7, Best::Lowest, |f| Some(f.latency_us.p99), us),
    column("99.9%lat", 8, Best::Lowest, |f| Some(f.latency_us.p999), us),
    column("cpu", 5, Best::Lowest, |f| Some(f.cpu.total_pct), whole),
    column("useful", 6, Best::Lowest, |f| f.cpu.useful_pct, whole),
    column("spin", 5, Best::Lowest, |f| f.cpu.spin_pct, whole),
    optional(column("cpu0+1", 6, Best::Lowest, |f| Some(f.cores?.busy_pct), whole)),
    optional(column("proc", 4, Best::Lowest, |f| Some(f.cores?.process_pct), whole)),
    optional(column("cl-si", 5, Best::Lowest, |f| f.cores?.client_softirq_pct, whole)),
    column("cpq", 7, Best::Lowest, |f| f.cycles_per_request, whole),
    column("irq/s", 7, Best::Lowest, |f| f.interrupts_per_s, whole),
    column("polls/s", 8, Best::Lowest, |f| f.polls_per_s, whole),
    column("empty", 5, Best::Lowest, |f| f.empty_polls_pct, whole),
    column("work/poll", 9, Best::Highest, |f| f.work_per_poll, hundredths),
    column("ev/wait", 7, Best::Highest, |f| f.events_per_wait, hundredths),
];

const fn column(
    head: &'static str,
    width: usize,
    best: Best,
    figure: fn(&Figures) -> Option<f64>,
    show: Show,
) -> Column {
    Column { optional: false, head, width, best, figure, show }
}

const fn optional(column: Column) -> Column {
    Column { optional: true, ..column }
}

fn block(page: &mut Page, load: Load, rows: &[&Row], shape: &Shape, report: &Report) {
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
    let nothing_measured = rows.iter().all(|row| row.measured().is_none());
    let ranges: Vec<Range> = shape.columns.iter().map(|column| Range::of(column, rows, nothing_measured)).collect();
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
                // What is predicted is never the best of what was measured.
                let bold = shape.bold && (row.measured().is_some() || nothing_measured);
                for (column, range) in shape.columns.iter().zip(&ranges) {
                    start += &cell(column, range, (column.figure)(&figures.median), bold);
                }
                page.line(&start);
            }
        }
    }
    let taken = machine.and_then(|machine| machine.taken(rows));
    if shape.backends {
        for backend in Backend::ALL {
            let of_this: Vec<&Row> = rows.iter().copied().filter(|row| row.subject.backend == backend).collect();
            let (head, taken) = match backend {
                Backend::Engine | Backend::Kernel => (format!("In the {backend}"), taken.as_deref()),
                // In virtual time nothing takes the machine away.
                Backend::Sim => ("Predicted".to_owned(), None),
            };
            let said = sentence(load, &of_this, taken);
            if !said.is_empty() {
                page.words(&format!("{head}: {said}"));
            }
        }
        page.words(&beside::sentence(load, rows));
    } else {
        page.words(&sentence(load, rows, taken.as_deref()));
    }
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

fn cell(column: &Column, range: &Range, figure: Option<f64>, bold: bool) -> String {
    let shown = figure.map_or_else(|| "-".to_owned(), |figure| (column.show)(figure, range.lowest));
    // The codes take no room on the screen, so the padding is counted without them.
    let padding = " ".repeat(1 + column.width.saturating_sub(shown.len()));
    let is_best = figure.zip(range.best).is_some_and(|(figure, best)| range.alike(column, figure, best));
    if bold && is_best { format!("{padding}{BOLD}{shown}{PLAIN}") } else { padding + &shown }
}

/// What a column holds within a load.
struct Range {
    lowest: f64,
    /// `None` if there is nothing to choose: one row, or all alike.
    best: Option<f64>,
}

impl Range {
    /// The best is one of what was measured, or of what was predicted if that is all.
    fn of(column: &Column, rows: &[&Row], predicted: bool) -> Self {
        let shown = rows.iter().filter_map(|row| (column.figure)(&row.figures()?.median));
        let shown = shown.fold(f64::INFINITY, f64::min);
        let counted = rows.iter().filter_map(|row| if predicted { row.figures() } else { row.measured() });
        let figures: Vec<f64> = counted.filter_map(|row| (column.figure)(&row.median)).collect();
        let lowest = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let range = Self { lowest: shown, best: None };
        if figures.len() < 2 || range.alike(column, lowest, highest) {
            return range;
        }
        Self { best: Some(if column.best == Best::Lowest { lowest } else { highest }), ..range }
    }

    /// Whether two figures are equally good: rows that look alike are bold alike, and rates within 1 % of each other
    /// are the same rate with noise.
    fn alike(&self, column: &Column, a: f64, b: f64) -> bool {
        let noise = column.head == "qps" && (a - b).abs() <= 0.01 * a.max(b);
        noise || (column.show)(a, self.lowest) == (column.show)(b, self.lowest)
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

fn whole(number: f64, _lowest: f64) -> String {
    format!("{number:.0}")
}

fn hundredths(number: f64, _lowest: f64) -> String {
    format!("{number:.2}")
}

/// With a decimal if anything in the column is below 100 us, so that 8 us can be told from 9; the points stand in line.
fn us(us: f64, lowest: f64) -> String {
    if lowest < 99.95 { format!("{us:.1}") } else { format!("{us:.0}") }
}

#[cfg(test)]
mod tests;
