//! The document's table, with what is predicted beside it.

use std::fmt::Write;

use super::event_loop::EventLoopPlan;
use super::run::{PlanCell, Predicted};
use super::score::{Errors, Score, error, figures, is_fitted};

/// Writes a plan's cells and its score.
#[must_use]
pub fn table(plan: &EventLoopPlan, cells: &[PlanCell], score: &Score) -> String {
    let mut text = format!("{}\n{}\n", plan.title, plan.machine.title);
    text += "published, predicted, error in percent; + fitted to, = published and not fitted to, ? predicted only\n";
    let mut load = None;
    for cell in cells {
        if load.replace(cell.load) != Some(cell.load) {
            text += "\n  testcase    load              qps            avglat             95%lat             99%lat          cpu              cpq\n";
        }
        line(&mut text, plan, cell).expect("a string takes everything");
    }
    text.push('\n');
    closing(&mut text, plan, score).expect("a string takes everything");
    text
}

fn line(text: &mut String, plan: &EventLoopPlan, cell: &PlanCell) -> std::fmt::Result {
    let mode = cell.mode.to_string();
    let row = plan.published.row(&mode, cell.load);
    let mark = match row {
        None => '?',
        Some(_) if is_fitted(plan, cell) => '+',
        Some(_) => '=',
    };
    write!(text, "{mark} {mode:>8} {:>6}", cell.load.to_string())?;
    match (&cell.predicted, row) {
        (Err(broken), _) => writeln!(text, "  failed: {broken}"),
        (Ok(predicted), Some(row)) => {
            for ((_, was, is), width) in figures(&row, predicted).into_iter().zip([7, 5, 5, 5, 3, 6]) {
                write!(text, "  {was:>width$.0} {is:>width$.0} {:>4.0}", error(was, is) * 100.0)?;
            }
            writeln!(text)
        }
        (Ok(predicted), None) => {
            for (is, width) in alone(predicted).into_iter().zip([7, 5, 5, 5, 3, 6]) {
                write!(text, "  {:>width$} {is:>width$.0}     ", "")?;
            }
            writeln!(text)
        }
    }
}

fn alone(predicted: &Predicted) -> [f64; 6] {
    let Predicted { qps, avg_us, p95_us, p99_us, cpu_pct, cycles_per_query_corrected, .. } = *predicted;
    [qps, avg_us, p95_us, p99_us, cpu_pct, cycles_per_query_corrected]
}

fn closing(text: &mut String, plan: &EventLoopPlan, score: &Score) -> std::fmt::Result {
    let mut errors = |what: &str, errors: Option<Errors>| match errors {
        None => Ok(()),
        Some(Errors { figures, median_pct, p90_pct }) => {
            writeln!(
                text,
                "{what}: median error {median_pct:.1} %, 90 of 100 within {p90_pct:.0} %, of {figures} figures below MAX"
            )
        }
    };
    errors("rows that parameters were fitted to", score.fitted)?;
    errors("rows that nothing was fitted to", score.checked)?;
    if let Some(Errors { figures, median_pct, p90_pct }) = score.instructions {
        writeln!(
            text,
            "instructions per query: median error {median_pct:.1} %, 90 of 100 within {p90_pct:.0} %, of {figures} rows below MAX that nothing was fitted to"
        )?;
    }
    if let Some(pct) = score.max_qps_pct {
        writeln!(text, "MAX: queries per second within {pct:.0} %")?;
    }
    for (load, p99, cpu) in &score.order {
        writeln!(text, "order of the modes at {load}: by p99 {p99:.2}, by CPU {cpu:.2} (Kendall's tau)")?;
    }
    let lines = score.known.lines();
    if !lines.is_empty() {
        writeln!(
            text,
            "where the server keeps up: root mean square errors of avglat, 99%lat (half) and cpu, and what was published in percent of\n\
             what is predicted, from the least to the most, by kinds of modes and, `-full`, above 80 % of a CPU; as in the machine's [error]"
        )?;
    }
    for line in lines {
        writeln!(text, "  {line}")?;
    }
    let fitted = plan.machine.parameters.iter().filter(|parameter| !parameter.rows.is_empty()).count();
    writeln!(
        text,
        "{} queues of {} connections, one of them simulated; {} runs of {} ms; {} figures of the machine, {fitted} of them fitted",
        plan.queues,
        plan.connections / plan.queues,
        plan.seeds,
        plan.measured.ns / 1_000_000,
        plan.machine.parameters.len()
    )
}
