//! The document's table, with what is predicted beside it.

use std::fmt::{self, Write};

use napier_lab::machines::queue_connections;
use napier_lab::wrap::counted;

use super::questions::{Questions, questions};
use super::score::{Errors, ModeOrder, NEAR_PCT, Pair, Score, WorstFigure, error, shown_pairs};
use super::{Plan, PlanCell, PlanKind, Scale};

mod groups;

/// Widths of the figures of a server.
const SERVER: [usize; 6] = [7, 5, 5, 5, 3, 6];

/// Writes a plan's cells and its score.
#[must_use]
pub fn table(plan: &Plan, cells: &[PlanCell], score: &Score) -> String {
    let mut text = format!("{}\n{}\n", plan.title, plan.machine_title());
    if let Some(kernel) = plan.machine.as_ref().and_then(|machine| machine.kernel.as_deref()) {
        text += &format!("kernel: {kernel}\n");
    }
    let written = if plan.kind == PlanKind::Groups && plan.published.rows.is_empty() {
        groups::write(&mut text, plan, cells)
    } else {
        write_rows(&mut text, plan, cells, score)
    };
    written.expect("a string takes everything");
    text
}

fn write_rows(text: &mut String, plan: &Plan, cells: &[PlanCell], score: &Score) -> fmt::Result {
    text.write_str(
        "published, predicted, error in percent; + fitted to, = published and not fitted to, ? predicted only\n",
    )?;
    if plan.is_of_server() {
        text.write_str(
            "predicted alone: 99.9%lat, and half of the interval that has the predicted 99%lat in 95 of 100 cases as far as chance goes, in\n\
             percent of it, by ten parts of the time of all runs\n",
        )?;
    }
    if cells.iter().any(grows) {
        text.write_str(
            "! behind the mark: what is due and not answered grows over the run, in one of the queues at least\n",
        )?;
    }
    let mut load = None;
    for cell in cells {
        if load.replace(cell.load) != Some(cell.load) {
            if plan.is_of_server() {
                text.write_str("\n  testcase    load              qps            avglat             95%lat             99%lat          cpu              cpq  99.9%lat  +-99%")?;
            } else {
                write!(text, "\n  {:<18} {:>9}", "mode", "load")?;
                for name in plan.columns() {
                    write!(text, "  {name:>22}")?;
                }
            }
            text.push('\n');
        }
        line(text, plan, cell)?;
    }
    text.push('\n');
    closing(text, plan, cells, score)
}

fn line(text: &mut String, plan: &Plan, cell: &PlanCell) -> fmt::Result {
    let load = cell.load.to_string();
    let is_published = plan.published.row(&cell.mode.name, &load).is_some();
    let mark = match is_published {
        false => '?',
        true if plan.is_fitted(cell) => '+',
        true => '=',
    };
    let grows = if grows(cell) { '!' } else { ' ' };
    let is_server = plan.is_of_server();
    let (of_mode, of_load) = if is_server { (8, 6) } else { (18, 9) };
    if is_server {
        write!(text, "{mark}{grows}{:>of_mode$} {load:>of_load$}", cell.mode.name)?;
    } else {
        write!(text, "{mark}{grows}{:<of_mode$} {load:>of_load$}", cell.mode.name)?;
    }
    if let Err(broken) = &cell.predicted {
        return writeln!(text, "  failed: {broken}");
    }
    let alone = |name: &&'static str| (*name, f64::NAN, cell.figure(name).unwrap_or(0.0));
    let pairs: Vec<Pair> =
        if is_published { shown_pairs(plan, cell) } else { plan.columns().iter().map(alone).collect() };
    for (at, (name, was, is)) in pairs.into_iter().enumerate() {
        let (width, digits) = if is_server { (SERVER[at], 0) } else { (8, digits(name)) };
        if is_published {
            write!(text, "  {was:>width$.digits$} {is:>width$.digits$} {:>4.0}", error(was, is) * 100.0)?;
        } else {
            write!(text, "  {:>width$} {is:>width$.digits$} {:>4}", "", "")?;
        }
    }
    if is_server {
        // Predicted alone, and from how much of it is chance.
        let figure = |name| cell.figure(name).map_or_else(|| "-".to_owned(), |is| format!("{is:.0}"));
        write!(text, "  {:>8}  {:>5}", figure("p999_us"), figure("p99_within_pct"))?;
    }
    while !is_server && text.ends_with(' ') {
        text.pop();
    }
    writeln!(text)
}

/// Whether its row is of the length of the run as well, and not of the mode alone.
fn grows(cell: &PlanCell) -> bool {
    cell.figure("growing_pct").is_some_and(|pct| pct > 0.0)
}

/// Small figures have a digit behind the point.
fn digits(name: &str) -> usize {
    usize::from(name.ends_with("_pct") || ["mpps", "work_per_poll", "events_per_wait"].contains(&name))
}

fn closing(text: &mut String, plan: &Plan, cells: &[PlanCell], score: &Score) -> fmt::Result {
    for (what, errors) in
        [("rows that parameters were fitted to", score.fitted), ("rows that nothing was fitted to", score.checked)]
    {
        let Some(Errors { figures, median_pct, p90_pct, near }) = errors else { continue };
        write!(text, "{what}: median error {median_pct:.1} %, 90 of 100 within {p90_pct:.0} %")?;
        if plan.is_of_server() {
            writeln!(text, ", of {figures} figures below MAX")?;
        } else {
            writeln!(text, "; {near} of {figures} figures within {NEAR_PCT:.0} %")?;
        }
    }
    of_server(text, plan, cells, score)?;
    let (parameters, seeds) = (plan.parameters(), plan.seeds);
    let measured_ms = plan.loads.first().map_or(0, |load| load.length.measured.ns / 1_000_000);
    match plan.scale {
        Scale::Queues { queues, connections } => {
            let simulated = match queue_connections(connections, queues, seeds)[..] {
                _ if plan.arrivals.is_some() => "with requests as a log has them".to_owned(),
                [least, .., most] if least < most => {
                    format!("from the emptiest with {least} to the fullest with {most} of them")
                }
                _ => "one of them simulated".to_owned(),
            };
            writeln!(
                text,
                "{} of {}, {simulated}; {} of {measured_ms} ms; {parameters}",
                counted(queues, "queue"),
                counted(connections / queues, "connection"),
                counted(seeds, "run"),
            )
        }
        Scale::Pair => writeln!(
            text,
            "two hosts of 4 CPUs, both simulated; {} of {measured_ms} ms; {parameters}",
            counted(seeds, "run"),
        ),
        Scale::Hosts { cpus, queues, threads, flows } => {
            let spread = cells.iter().filter_map(|cell| cell.figure("qps_spread_pct")).fold(0.0, f64::max);
            let differ = if seeds > 1 { format!(", whose qps differ by {spread:.1} % at most") } else { String::new() };
            writeln!(
                text,
                "two hosts of {}, {}, {}, {}; {} of each{differ}; {parameters}",
                counted(cpus, "CPU"),
                counted(queues, "queue"),
                counted(threads, "thread"),
                counted(flows, "connection"),
                counted(seeds, "run"),
            )
        }
        Scale::Server { .. } => Ok(()),
        Scale::Senders { .. } => writeln!(
            text,
            "seed {}; one cost comes from another figure of the same document, 12 are assumed: `napier sim transmit` lists them",
            plan.seed
        ),
    }
}

fn of_server(text: &mut String, plan: &Plan, cells: &[PlanCell], score: &Score) -> fmt::Result {
    let Some(server) = &score.server else { return Ok(()) };
    if let Some(WorstFigure { cell, figure, error_pct }) = &server.worst {
        writeln!(text, "furthest off of these: {figure} of {cell}, {error_pct:+.0} %")?;
    }
    if let Some(Errors { figures, median_pct, p90_pct, .. }) = server.instructions {
        writeln!(
            text,
            "instructions per query: median error {median_pct:.1} %, 90 of 100 within {p90_pct:.0} %, of {figures} rows below MAX that nothing was fitted to"
        )?;
    }
    if let Some(pct) = server.max_qps_pct {
        writeln!(text, "MAX: queries per second within {pct:.0} %")?;
    }
    for ModeOrder { load, p99, cpu, cycles } in &server.order {
        writeln!(
            text,
            "order of the modes at {load}: by p99 {p99:.2}, by CPU {cpu:.2}, by cycles per query {cycles:.2} (Kendall's tau)"
        )?;
    }
    of_questions(text, plan, cells)?;
    let lines = server.known.lines();
    if !lines.is_empty() {
        writeln!(
            text,
            "where the server keeps up: root mean square errors of avglat, 99%lat (half) and cpu, and what may be published in\n\
             percent of what is predicted: what was, and what 9 of 10 further loads may have at either end; by kinds of modes and, `-full`, above 80 % of a CPU; as in the machine's [error]"
        )?;
    }
    for line in lines {
        writeln!(text, "  {line}")?;
    }
    Ok(())
}

fn of_questions(text: &mut String, plan: &Plan, cells: &[PlanCell]) -> fmt::Result {
    for (held_back, of) in [(false, "all loads"), (true, "the other loads alone")] {
        let Some(Questions { asked, kept, none, near, broken, missed }) = questions(plan, cells, held_back) else {
            return Ok(());
        };
        writeln!(
            text,
            "{asked} questions for a mode at these loads, by the rule of `napier advise` with errors of {of}: right {} (a mode that does\n\
             it {kept}, none does {none}), too near to call {near}, wrong {} (a mode that does not {broken}, none where one does {missed})",
            kept + none,
            broken + missed
        )?;
    }
    Ok(())
}
