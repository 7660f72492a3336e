//! The table of a plan about groups: nothing was published, so that modes stand beside each other.

use std::fmt::{self, Write};

use super::super::{Grid, GridCell, GridSubject, Offer};
use super::ShownShape;

/// What others are compared with: a thread for each queue, for ever.
const BESIDE: &str = "threaded-busy-poll";

/// Writes a plan's cells.
pub(in super::super) fn table(grid: &Grid, cells: &[GridCell]) -> String {
    let mut text = format!("{}\n{}\n", grid.title, grid.machine_title());
    text += "Predicted only. Latency from when a request is due at the ring until its answer\n\
             is written; CPUs that are busy in the mean, those for polling and all; x: times\n\
             those of threaded-busy-poll.\n";
    let mut size = None;
    let mut load = None;
    for cell in cells {
        let Offer::Requests { cpus, nodes, shape, .. } = cell.load else { continue };
        if size.replace((cpus, nodes)) != Some((cpus, nodes)) {
            head(&mut text, cpus, nodes).expect("a string takes everything");
        }
        let first = load.replace(cell.load) != Some(cell.load);
        let shown = if first { ShownShape(shape).to_string() } else { String::new() };
        let beside = cells.iter().find(|other| other.load == cell.load && other.mode == BESIDE);
        line(&mut text, &shown, cell, beside).expect("a string takes everything");
    }
    what_groups_did(&mut text, cells).expect("a string takes everything");
    closing(&mut text, grid).expect("a string takes everything");
    text
}

fn head(text: &mut String, cpus: u16, nodes: u16) -> fmt::Result {
    let nodes = if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") };
    writeln!(text, "\n{cpus} CPUs, {nodes}, {} queues", cpus / 2)?;
    writeln!(
        text,
        "{:<14} {:<18} {:>7} {:>7} {:>5} {:>7} {:>7} {:>5}",
        "load", "mode", "p50 us", "p99 us", "x", "polling", "all", "x"
    )
}

fn line(text: &mut String, load: &str, cell: &GridCell, beside: Option<&GridCell>) -> fmt::Result {
    write!(text, "{load:<14} {:<18}", cell.mode)?;
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
fn what_groups_did(text: &mut String, cells: &[GridCell]) -> fmt::Result {
    let names = [
        "wakes_per_s",
        "parks_in_vain_per_s",
        "moves_back_per_s",
        "moves_sibling_per_s",
        "moves_node_per_s",
        "moves_far_per_s",
    ];
    let moves = |cell: &&GridCell| names.iter().any(|name| figure(cell, name) > 0.0);
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
        write!(text, "{:<19} {:<13}", cell.load.to_string(), cell.mode)?;
        for (name, width) in names.iter().zip([8, 7, 7, 7, 7, 5]) {
            write!(text, " {:>width$.0}", figure(cell, name))?;
        }
        text.push('\n');
    }
    Ok(())
}

fn figure(cell: &GridCell, name: &str) -> f64 {
    let found = cell.predicted.iter().flatten().find(|(of, _)| *of == name);
    found.map_or(0.0, |(_, value)| *value)
}

fn closing(text: &mut String, grid: &Grid) -> fmt::Result {
    let GridSubject::Server { machine, connections, full_rps, group, seeds } = &grid.subject else { return Ok(()) };
    let fitted = machine.parameters.iter().filter(|parameter| !parameter.rows.is_empty()).count();
    writeln!(
        text,
        "\n100 % is {full_rps} requests a second of each queue, on {connections} connections;\n\
         delay-target {} us, min-active {}, shrink-after {} us; seeds 1 to {seeds};\n\
         {} figures of the machine, {fitted} of them fitted.",
        group.delay_target.ns as f64 / 1000.0,
        group.min_active,
        group.shrink_after.ns as f64 / 1000.0,
        machine.parameters.len()
    )
}
