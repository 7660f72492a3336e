//! The table of a plan about groups: nothing was published, so that modes stand beside each other.

use std::fmt::{self, Write};

use napier_lab::wrap::counted;

use super::super::load::ShownShape;
use super::super::{Asked, Plan, PlanCell, Scale};

/// What others are compared with: a thread for each queue, for ever.
const BESIDE: &str = "threaded-busy-poll";

/// Writes a plan's cells.
pub(super) fn write(text: &mut String, plan: &Plan, cells: &[PlanCell]) -> fmt::Result {
    *text += "Predicted only. Latency from when a request is due at the ring until its answer\n\
             is written; CPUs that are busy in the mean, those for polling and all; x: times\n\
             those of threaded-busy-poll.\n";
    let mut size = None;
    let mut load = None;
    for cell in cells {
        let Asked::OfServer(cpus, nodes, shape) = cell.load.asked else { continue };
        if size.replace((cpus, nodes)) != Some((cpus, nodes)) {
            head(text, cpus, nodes)?;
        }
        let first = load.replace(cell.load) != Some(cell.load);
        let shown = if first { ShownShape(shape).to_string() } else { String::new() };
        let beside = cells.iter().find(|other| other.load == cell.load && other.mode.name == BESIDE);
        line(text, &shown, cell, beside)?;
    }
    what_groups_did(text, cells)?;
    closing(text, plan)
}

fn head(text: &mut String, cpus: u16, nodes: u16) -> fmt::Result {
    writeln!(text, "\n{}, {}, {}", counted(cpus, "CPU"), counted(nodes, "node"), counted(cpus / 2, "queue"))?;
    writeln!(
        text,
        "{:<14} {:<18} {:>7} {:>7} {:>5} {:>7} {:>7} {:>5}",
        "load", "mode", "p50 us", "p99 us", "x", "polling", "all", "x"
    )
}

fn line(text: &mut String, load: &str, cell: &PlanCell, beside: Option<&PlanCell>) -> fmt::Result {
    write!(text, "{load:<14} {:<18}", cell.mode.name)?;
    if let Err(broken) = &cell.predicted {
        return writeln!(text, " failed: {broken}");
    }
    let times = |name| {
        let (is, of) = (figure(cell, name), figure(beside?, name));
        (of > 0.0 && is > 0.0).then(|| format!("{:.2}", is / of))
    };
    let polling = figure(cell, "cpus_polling");
    writeln!(
        text,
        " {:>7.1} {:>7.1} {:>5} {:>7} {:>7.2} {:>5}",
        figure(cell, "p50_us"),
        figure(cell, "p99_us"),
        times("p99_us").unwrap_or_default(),
        if polling > 0.0 { format!("{polling:.2}") } else { "-".to_owned() },
        figure(cell, "cpus_busy"),
        times("cpus_polling").unwrap_or_else(|| "-".to_owned()),
    )
}

/// Moves of members and wake-ups, of modes that have any.
fn what_groups_did(text: &mut String, cells: &[PlanCell]) -> fmt::Result {
    let names = [
        "wakes_per_s",
        "parks_in_vain_per_s",
        "moves_back_per_s",
        "moves_sibling_per_s",
        "moves_node_per_s",
        "moves_far_per_s",
    ];
    let moves = |cell: &&PlanCell| names.iter().any(|name| figure(cell, name) > 0.0);
    if !cells.iter().any(|cell| moves(&cell)) {
        return Ok(());
    }
    writeln!(
        text,
        "\nWhat groups did in a second: wake-ups, parks in vain; moves of members to the\n\
         CPU that had them last, to the core's other thread, on the node, to another."
    )?;
    writeln!(
        text,
        "{:<19} {:<13} {:>8} {:>7} {:>7} {:>7} {:>7} {:>5}",
        "load", "mode", "wakes", "in vain", "last", "sibling", "node", "far"
    )?;
    for cell in cells.iter().filter(moves) {
        write!(text, "{:<19} {:<13}", cell.load.to_string(), cell.mode.name)?;
        for (name, width) in names.iter().zip([8, 7, 7, 7, 7, 5]) {
            write!(text, " {:>width$.0}", figure(cell, name))?;
        }
        text.push('\n');
    }
    Ok(())
}

fn figure(cell: &PlanCell, name: &str) -> f64 {
    cell.figure(name).unwrap_or(0.0)
}

fn closing(text: &mut String, plan: &Plan) -> fmt::Result {
    let Scale::Server { connections, full_rps, group } = &plan.scale else { return Ok(()) };
    let (parameters, seeds) = (plan.parameters(), plan.seeds);
    writeln!(
        text,
        "\n100 % is {full_rps} requests a second of each queue, on {connections} connections;\n\
         delay-target {} us, min-active {}, shrink-after {} us; seeds 1 to {seeds};\n\
         {parameters}.",
        group.delay_target.ns as f64 / 1000.0,
        group.min_active,
        group.shrink_after.ns as f64 / 1000.0,
    )
}
