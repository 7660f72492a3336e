//! The document's table, with what is predicted beside it.

use std::fmt::Write;

use super::published::columns;
use super::{Grid, GridCell, GridSubject};
use crate::plan::score::{Errors, error, errors};

/// A prediction this near is near, in percent.
const NEAR_PCT: f64 = 5.0;

/// Published and predicted, for each figure that the document prints.
pub(super) fn pairs(grid: &Grid, cell: &GridCell) -> Vec<(&'static str, f64, f64)> {
    let row = grid.published.row(cell.mode, cell.load).unwrap_or_default();
    let Ok(predicted) = &cell.predicted else { return Vec::new() };
    let find = |name: &str| predicted.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
    columns(grid.kind).iter().zip(row).filter_map(|(name, was)| Some((*name, *was, find(name)?))).collect()
}

/// Errors of the rows that figures were fitted to, or of the others.
pub(super) fn errors_of(grid: &Grid, cells: &[GridCell], fitted: bool) -> (Option<Errors>, usize) {
    let of = cells.iter().filter(|cell| grid.is_fitted(cell) == fitted);
    let all: Vec<f64> = of.flat_map(|cell| pairs(grid, cell)).map(|(_, was, is)| error(was, is).abs()).collect();
    let near = all.iter().filter(|part| **part * 100.0 <= NEAR_PCT).count();
    (errors(all), near)
}

/// Writes a plan's cells and how near they are.
#[must_use]
pub fn grid_table(grid: &Grid, cells: &[GridCell]) -> String {
    if let GridSubject::Server { .. } = grid.subject {
        return super::groups::table(grid, cells);
    }
    let mut text = format!("{}\n{}\n", grid.title, grid.machine_title());
    text += "published, predicted, error in percent; + fitted to, = published and not fitted to, ? predicted only\n";
    let mut load = None;
    for cell in cells {
        if load.replace(cell.load) != Some(cell.load) {
            write!(text, "\n  {:<18} {:>9}", "mode", "load").expect("a string takes everything");
            for name in columns(grid.kind) {
                write!(text, "  {name:>22}").expect("a string takes everything");
            }
            text.push('\n');
        }
        line(&mut text, grid, cell).expect("a string takes everything");
    }
    text.push('\n');
    closing(&mut text, grid, cells).expect("a string takes everything");
    text
}

fn line(text: &mut String, grid: &Grid, cell: &GridCell) -> std::fmt::Result {
    let row = grid.published.row(cell.mode, cell.load);
    let mark = match row {
        None => '?',
        Some(_) if grid.is_fitted(cell) => '+',
        Some(_) => '=',
    };
    write!(text, "{mark} {:<18} {:>9}", cell.mode, cell.load.to_string())?;
    let predicted = match &cell.predicted {
        Err(broken) => return writeln!(text, "  failed: {broken}"),
        Ok(predicted) => predicted,
    };
    let digits = if predicted.iter().any(|(name, _)| *name == "mpps") { 1 } else { 0 };
    if row.is_some() {
        for (_, was, is) in pairs(grid, cell) {
            write!(text, "  {was:>8.digits$} {is:>8.digits$} {:>4.0}", error(was, is) * 100.0)?;
        }
    } else {
        for name in columns(grid.kind) {
            let is = predicted.iter().find(|(other, _)| other == name).map_or(0.0, |(_, value)| *value);
            write!(text, "  {:>8} {is:>8.digits$} {:>4}", "", "")?;
        }
    }
    while text.ends_with(' ') {
        text.pop();
    }
    writeln!(text)
}

fn closing(text: &mut String, grid: &Grid, cells: &[GridCell]) -> std::fmt::Result {
    for (what, fitted) in [("rows that parameters were fitted to", true), ("rows that nothing was fitted to", false)] {
        let (errors, near) = errors_of(grid, cells, fitted);
        if let Some(Errors { figures, median_pct, p90_pct }) = errors {
            writeln!(
                text,
                "{what}: median error {median_pct:.1} %, 90 of 100 within {p90_pct:.0} %; {near} of {figures} figures within {NEAR_PCT:.0} %"
            )?;
        }
    }
    match &grid.subject {
        GridSubject::Pair { machine, measured, seeds, .. } => {
            let fitted = machine.parameters.iter().filter(|parameter| !parameter.rows.is_empty()).count();
            writeln!(
                text,
                "two hosts of 4 CPUs, both simulated; {seeds} runs of {} ms; {} figures of the machine, {fitted} of them fitted",
                measured.ns / 1_000_000,
                machine.parameters.len()
            )
        }
        GridSubject::Many { machine, size, seeds, .. } => {
            let fitted = machine.parameters.iter().filter(|parameter| !parameter.rows.is_empty()).count();
            writeln!(
                text,
                "two hosts of {} CPUs, {} queues, {} threads, {} connections; {seeds} runs of each; {} figures of the machine, {fitted} of them fitted",
                size.cpus,
                size.queues,
                size.threads,
                size.flows,
                machine.parameters.len()
            )
        }
        GridSubject::Server { .. } => Ok(()),
        GridSubject::Senders { seed, .. } => writeln!(
            text,
            "seed {seed}; one cost comes from another figure of the same document, 12 are assumed: `napier sim transmit` lists them"
        ),
    }
}
