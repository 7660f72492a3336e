//! A comparison as a sheet: the answer, a table for each load, what each mode keeps up to, and how to read it.

mod notes;
mod verdicts;
mod work;

use napier_verdict::Metric;

use super::answer::{self, rate, us};
use super::columns::{COLUMNS, Chosen, Column, lowest};
use super::decided::{Decided, Estimated};
use super::verdict::{Block, Doubt, of};
use super::{Outcome, Report, Row, sustained};
use crate::loads::Load;
use crate::sheet::{ColumnHead, Sheet, SheetTable, TableCell, text};
use crate::wrap::counted;

pub(super) use verdicts::SAYS as VERDICT_SAYS;

/// Widest line, in columns, unless a wider one is asked for; what is longer is broken.
pub const WIDTH: usize = 100;

/// Widest line that can be asked for.
pub const WIDTH_MAX: usize = 160;

/// A page of less is written as if it had this many columns.
const WIDTH_MIN: usize = 80;

/// Which columns a table has.
#[derive(Clone, Debug)]
pub enum Which {
    /// Those that decide, as far as there is room.
    Fitting,
    /// All, whatever room there is, and how it was measured.
    All,
    /// These.
    Chosen(Chosen),
}

/// The comparison as text.
#[must_use]
pub fn table(report: &Report, which: &Which, width: usize) -> String {
    text(&sheet(report, which), width.clamp(WIDTH_MIN, WIDTH_MAX))
}

/// The comparison as a sheet.
pub(crate) fn sheet(report: &Report, which: &Which) -> Sheet {
    let begun = |rows: &[&Row]| !rows.iter().all(|row| row.was_not_run());
    let loads = report.by_load().into_iter().filter(|(_, rows)| begun(rows));
    let mut tables: Vec<SheetTable> = loads.map(|(load, rows)| of_load(report, load, &rows, which)).collect();
    tables.extend(sustained::table(report));
    let notes = if matches!(which, Which::All) { notes::all(report) } else { notes::short(report) };
    Sheet { answer: answer::of(report), tables, notes }
}

/// The columns that decide, for a load.
pub(crate) fn of_load(report: &Report, load: Load, rows: &[&Row], which: &Which) -> SheetTable {
    let blocks = Block::all_of(report, load);
    let shown = match which {
        Which::Fitting => Shown::deciding(),
        Which::All => Shown::of(COLUMNS.iter().filter(|column| !column.optional || column.is_in(&report.rows)), true),
        Which::Chosen(chosen) => Shown::of(chosen.0.iter().copied(), false),
    };
    let lowest: Vec<f64> = shown.figures.iter().map(|one| one.lowest(rows)).collect();
    let decided = report.decided_at(load);
    let cells = |row: &&Row| {
        let mut line = vec![TableCell::Name(row.subject.name(report.among_backends()))];
        match &row.outcome {
            Outcome::Refused(why) => line.push(shown.words(format!("refused: {why}"))),
            Outcome::Nothing => line.push(shown.words(nothing(row))),
            Outcome::Measured(_) | Outcome::Predicted { .. } => {
                let figures = shown.figures.iter().zip(&lowest);
                line.extend(figures.map(|(one, lowest)| TableCell::Figure(one.shown(row, *lowest, decided))));
                if shown.verdict {
                    let block = blocks.iter().find(|block| block.backend == row.subject.backend);
                    line.push(TableCell::Name(block.map_or_else(String::new, |block| verdicts::of(block, row))));
                }
            }
        }
        line
    };
    SheetTable { title: title(report, load, &blocks), heads: shown.heads(), rows: rows.iter().map(cells).collect() }
}

fn nothing(row: &Row) -> String {
    match &row.lost {
        Some(lost) => format!("no figures: of {} {}", counted(lost.of, "run"), lost.why),
        None if row.left_out > 0 => format!("no figures: all {} were left out", counted(row.left_out, "slice")),
        None => "no figures: nothing was measured".to_owned(),
    }
}

/// The load, how it was measured, and what speaks against its figures.
fn title(report: &Report, load: Load, blocks: &[Block<'_>]) -> String {
    let asked = match load {
        Load::Rps(_) => format!("{} offered", answer::per_s(&load)),
        Load::Max => format!("Closed loop, {} in flight", report.workload.flows),
    };
    let rounds = report.decided_at(load).map_or_else(String::new, |decided| {
        let Decided { rounds, slice_ms, left_out, .. } = decided;
        let without = if left_out.slices > 0 {
            format!(", {} of {} slices left out", left_out.slices, left_out.of)
        } else {
            String::new()
        };
        format!(": {} of {slice_ms:.0} ms{without}", counted(*rounds, "round"))
    });
    let why_not = blocks.iter().find_map(Block::doubt).map_or("", |doubt| match doubt {
        Doubt::Taken(_) => "; the machine was taken away, so no verdict",
        Doubt::NoRounds(_) => "; no rounds, so no verdict",
    });
    let closed: Vec<String> = blocks.iter().filter_map(answer::closed_loop).collect();
    let closed =
        if closed.is_empty() { String::new() } else { format!(". {}", closed.join(" ").trim_end_matches('.')) };
    format!("{asked}{rounds}{why_not}{closed}")
}

/// The figures of a table.
struct Shown {
    figures: Vec<Shape>,
    /// A verdict stands at the end.
    verdict: bool,
}

/// How a figure is shown.
enum Shape {
    /// One of all columns.
    Column(&'static Column),
    /// A figure that decides: head, what it is, when it goes, and what shows it.
    Short(ColumnHead, fn(&Row, Option<&Decided>) -> String),
}

impl Shown {
    /// Those that decide.
    fn deciding() -> Self {
        let short = |head: ColumnHead, shown| Shape::Short(head, shown);
        let says = |key: &str| COLUMNS.iter().find(|column| column.key == key).map_or("", |column| column.says);
        let figures = vec![
            short(ColumnHead::figure("answered", says("achieved_rps")), |row, _| {
                shown(row, |f| Some(rate(f.achieved_rps)))
            }),
            short(ColumnHead::figure("p50 us", says("latency_us.p50")).goes(1), |row, _| {
                shown(row, |f| Some(us(f.latency_us.p50)))
            }),
            short(ColumnHead::figure("p99 us", says("latency_us.p99")), |row, at| estimated(row, at, Metric::P99, us)),
            short(ColumnHead::figure("p99.9 us", says("latency_us.p999")).goes(3), |row, at| {
                estimated(row, at, Metric::P999, us)
            }),
            short(ColumnHead::figure("CPU %", says("cpu.total_pct")), |row, _| {
                shown(row, |f| Some(format!("{:.0}", f.cpu.total_pct)))
            }),
            short(ColumnHead::figure("spin %", says("cpu.spin_pct")).goes(2), |row, _| {
                shown(row, |f| f.cpu.spin_pct.map(|pct| format!("{pct:.0}")))
            }),
        ];
        Self { figures, verdict: true }
    }

    fn of(columns: impl Iterator<Item = &'static Column>, verdict: bool) -> Self {
        Self { figures: columns.map(Shape::Column).collect(), verdict }
    }

    fn heads(&self) -> Vec<ColumnHead> {
        let mode = ColumnHead::text("mode", "the mode");
        let figures = self.figures.iter().map(|one| match one {
            Shape::Column(column) => ColumnHead::figure(column.head, &format!("{} ({})", column.says, column.key)),
            Shape::Short(head, _) => head.clone(),
        });
        let verdict = self.verdict.then(|| ColumnHead::text("verdict (x: of base)", verdicts::SAYS));
        std::iter::once(mode).chain(figures).chain(verdict).collect()
    }

    /// Words over all that stands behind the name.
    fn words(&self, words: String) -> TableCell {
        TableCell::Words(words, self.figures.len() + usize::from(self.verdict))
    }
}

impl Shape {
    fn lowest(&self, rows: &[&Row]) -> f64 {
        match self {
            Self::Column(column) => lowest(column, rows),
            Self::Short(..) => 0.0,
        }
    }

    fn shown(&self, row: &Row, lowest: f64, decided: Option<&Decided>) -> String {
        match self {
            Self::Column(column) => {
                column.shown(row.figures().and_then(|figures| (column.figure)(&figures.median)), lowest)
            }
            Self::Short(_, shown) => shown(row, decided),
        }
    }
}

fn shown(row: &Row, figure: fn(&crate::stats::Figures) -> Option<String>) -> String {
    row.figures().and_then(|figures| figure(&figures.median)).unwrap_or_else(|| "-".to_owned())
}

/// A figure with half of its interval in percent.
fn estimated(row: &Row, decided: Option<&Decided>, metric: Metric, show: fn(f64) -> String) -> String {
    let Some(figures) = row.figures() else { return "-".to_owned() };
    let value = of(metric)(&figures.median);
    let estimate = decided.and_then(|decided| decided.mode(row.subject)?.estimate(metric));
    let half = estimate.and_then(|Estimated { value, low, high }| {
        let half = (high? - value).max(value - low?);
        (value > 0.0).then(|| 100.0 * half / value)
    });
    half.map_or_else(|| show(value), |half| format!("{} ±{half:.0}%", show(value)))
}

#[cfg(test)]
mod tests;
