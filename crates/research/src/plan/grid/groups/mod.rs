//! Plans about who polls on a server of many CPUs: `groups`.

mod table;

use std::fmt;

use napier_core::group::{DELAY_TARGET_MAX, DELAY_TARGET_MIN, Policy, Settings};
use napier_core::time::Span;
use napier_scenario::ParseError;
use napier_scenario::read::{Node, Table};
use napier_sim::machine::Shape;
use napier_sim::machine::figures::Length;
use napier_sim::machine::smp::{Many, ManyFigures, Polling};

use super::{Grid, GridKind, GridSubject, Offer, modes};
use crate::plan::files::measured;
use napier_lab::machines::core_of;
use napier_lab::machines::machine;
use napier_lab::modes::Mode;

pub(super) use table::table;

/// Those of a server that waits in an event context, and a group by each of its policies.
pub(super) const MODES: &[&str] =
    &["base", "threaded-busy-poll", "fullbusy", "suspend20", "group", "group-compact", "group-static"];
/// Most CPUs that are simulated.
const CPUS_MAX: i128 = 1024;
const LOADS: &str = "an array of loads such as { pct = 20 }, { low = 5, high = 80, steps = \"5ms\" }, { low = 5, high = 70, \
                     day = \"240ms\" }, { low = 2, high = 60, burst = \"500us\", pause = \"2ms\" } or { closed = true }, each with \
                     measured = \"20ms\"";

/// Reads a plan.
pub(super) fn read(whole: Table<'_>) -> Result<Grid, ParseError> {
    let whole = whole.only(&[
        "title",
        "kind",
        "machine",
        "modes",
        "sizes",
        "connections",
        "full",
        "group",
        "loads",
        "seeds",
    ])?;
    let node = whole.need("machine")?;
    let machine = machine(&node)?;
    if machine.wire.is_some() {
        return Err(node.error("two hosts on a wire are no server with clients; expected a machine with [client]"));
    }
    let sizes = whole.need("sizes")?;
    let sizes = sizes.list("an array of sizes such as { cpus = 56, nodes = 2 }")?;
    let sizes = sizes.iter().map(size).collect::<Result<Vec<_>, _>>()?;
    let loads = whole.need("loads")?.list(LOADS)?;
    let loads = loads.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    if sizes.is_empty() || loads.is_empty() {
        return Err(whole.error("a plan has a size and a load at least"));
    }
    let offer = |(cpus, nodes), (shape, length)| Offer::Requests { cpus, nodes, shape, length };
    Ok(Grid {
        kind: GridKind::Groups,
        title: whole.need("title")?.text("what it compares")?.to_owned(),
        modes: modes(&whole, GridKind::Groups)?,
        loads: sizes.iter().flat_map(|size| loads.iter().map(move |load| offer(*size, *load))).collect(),
        subject: GridSubject::Server {
            machine: Box::new(machine),
            connections: whole.need("connections")?.number(1..=64)?,
            full_rps: whole.need("full")?.number(1..=10_000_000)?,
            group: whole.map("group", settings)?.unwrap_or_default(),
            seeds: whole.number("seeds", 1..=1000, 1)?,
        },
        published: super::published::Rows::default(),
    })
}

fn size(node: &Node<'_>) -> Result<(u16, u16), ParseError> {
    let table = node.table("a size such as { cpus = 56, nodes = 2 }")?.only(&["cpus", "nodes"])?;
    let (cpus, nodes) = (table.need("cpus")?.number(1..=CPUS_MAX)?, table.number("nodes", 1..=CPUS_MAX, 1)?);
    if !Many::fits(cpus, nodes) {
        return Err(
            node.error("each node has an even number of cores of two CPUs: cpus is a multiple of 4 times nodes")
        );
    }
    Ok((cpus, nodes))
}

fn settings(node: &Node<'_>) -> Result<Settings, ParseError> {
    let keys = &["delay-target", "min-active", "shrink-after"];
    let table = node.table("settings such as { delay-target = \"10us\", min-active = 1 }")?.only(keys)?;
    let default = Settings::default();
    let settings = Settings {
        delay_target: table.short_span("delay-target", default.delay_target)?,
        min_active: table.number("min-active", 0..=CPUS_MAX, default.min_active)?,
        shrink_after: table.short_span("shrink-after", default.shrink_after)?,
        ..default
    };
    if settings.delay_target < DELAY_TARGET_MIN || settings.delay_target > DELAY_TARGET_MAX {
        return Err(node.error("delay-target is from 1us to 1s"));
    }
    if settings.shrink_after.is_zero() {
        return Err(node.error("shrink-after is more than no time"));
    }
    Ok(settings)
}

fn load(node: &Node<'_>) -> Result<(Option<Shape>, Length), ParseError> {
    let table = node.table(LOADS)?;
    let kind = ["steps", "day", "burst", "closed"].into_iter().find(|key| table.has(key)).unwrap_or("pct");
    let table = table.only(match kind {
        "steps" => &["low", "high", "steps", "warm-up", "measured"],
        "day" => &["low", "high", "day", "warm-up", "measured"],
        "burst" => &["low", "high", "burst", "pause", "warm-up", "measured"],
        "closed" => &["closed", "warm-up", "measured"],
        _ => &["pct", "warm-up", "measured"],
    })?;
    let length = Length { warm_up: table.short_span("warm-up", Span::from_ms(5))?, measured: measured(&table)? };
    let pct = |key, least| table.need(key)?.number(least..=1000);
    let span = |key| {
        let node = table.need(key)?;
        let span = node.short_span()?;
        if span < Span::from_us(24) { Err(node.error("at least \"24us\"")) } else { Ok(span) }
    };
    let range = || Ok((pct("low", 0)?, pct("high", 1)?));
    let shape = match kind {
        "closed" => None,
        "pct" => Some(Shape::Steady { pct: pct("pct", 1)? }),
        "steps" => range()
            .and_then(|(low_pct, high_pct)| Ok(Some(Shape::Steps { low_pct, high_pct, each: span("steps")? })))?,
        "day" => {
            range().and_then(|(low_pct, high_pct)| Ok(Some(Shape::Day { low_pct, high_pct, length: span("day")? })))?
        }
        _ => range().and_then(|(low_pct, high_pct)| {
            Ok(Some(Shape::Bursts { low_pct, high_pct, high_for: span("burst")?, low_for: span("pause")? }))
        })?,
    };
    Ok((shape, length))
}

/// A shape in a word.
pub(super) struct ShownShape(pub(super) Option<Shape>);

impl fmt::Display for ShownShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("closed"),
            Some(Shape::Steady { pct }) => write!(f, "{pct}%"),
            Some(Shape::Steps { low_pct, high_pct, .. }) => write!(f, "steps-{low_pct}-{high_pct}%"),
            Some(Shape::Day { low_pct, high_pct, .. }) => write!(f, "day-{low_pct}-{high_pct}%"),
            Some(Shape::Bursts { low_pct, high_pct, .. }) => write!(f, "bursts-{low_pct}-{high_pct}%"),
        }
    }
}

/// The server in a mode at a load, and how long the run is.
pub(super) fn server_in(subject: &GridSubject, mode: &str, load: Offer) -> (Many, Length) {
    let (
        GridSubject::Server { machine, connections, full_rps, group, .. },
        Offer::Requests { cpus, nodes, shape, length },
    ) = (subject, load)
    else {
        unreachable!("{load} is no load of a server of many CPUs")
    };
    let (of_server, polling) = match mode {
        "group" => (Mode::Group, Polling::Groups(Settings { policy: Policy::Delay, ..*group })),
        "group-compact" => (Mode::Group, Polling::Groups(Settings { policy: Policy::Compact, ..*group })),
        "group-static" => (Mode::Group, Polling::Groups(Settings { policy: Policy::Static, ..*group })),
        "threaded-busy-poll" => (Mode::ThreadedBusyPoll, Polling::Threads),
        other => (Mode::parse(other).expect("one of MODES"), Polling::NoCpus),
    };
    let many = Many {
        core: core_of(machine, of_server, [].into()),
        cpus,
        nodes,
        sibling_pct: machine.sibling_pct,
        deep_after: machine.deep_after,
        polling,
        connections: *connections,
        full_rps: *full_rps,
        shape,
        way: (Span::from_ns(machine.client.to_server_ns), Span::from_ns(machine.client.to_client_ns)),
    };
    (many, length)
}

/// What a cell's runs say together.
pub(super) fn together(runs: &[&ManyFigures]) -> Result<Vec<(&'static str, f64)>, String> {
    if let Some(broken) = runs.iter().find_map(|run| run.broken.clone()) {
        return Err(broken);
    }
    let mut latency: Vec<u64> = runs.iter().flat_map(|run| run.latency_ns.iter().copied()).collect();
    latency.sort_unstable();
    if latency.is_empty() {
        return Err("no answer came in the measured time".to_owned());
    }
    let ns = runs.iter().map(|run| run.measured.ns).sum::<u64>() as f64;
    let sum = |of: &dyn Fn(&ManyFigures) -> u64| runs.iter().map(|run| of(run)).sum::<u64>() as f64;
    let per_s = |of: &dyn Fn(&ManyFigures) -> u64| sum(of) * 1e9 / ns;
    let at = |per_mille: usize| latency[latency.len() * per_mille / 1000] as f64 / 1000.0;
    let polling = sum(&|run| run.polling.busy().ns) / ns;
    Ok(vec![
        ("qps", per_s(&|run| run.answered)),
        ("p50_us", at(500)),
        ("p90_us", at(900)),
        ("p99_us", at(990)),
        ("p999_us", at(999)),
        ("cpus_polling", polling),
        ("cpus_busy", polling + sum(&|run| run.programs.busy().ns) / ns),
        ("interrupts_per_s", per_s(&|run| run.interrupts)),
        ("parks_per_s", per_s(&|run| run.parks)),
        ("parks_in_vain_per_s", per_s(&|run| run.parks_in_vain)),
        ("wakes_per_s", per_s(&|run| run.wakes)),
        ("moves_back_per_s", per_s(&|run| run.moves[0])),
        ("moves_sibling_per_s", per_s(&|run| run.moves[1])),
        ("moves_node_per_s", per_s(&|run| run.moves[2])),
        ("moves_far_per_s", per_s(&|run| run.moves[3])),
    ])
}

#[cfg(test)]
mod tests;
