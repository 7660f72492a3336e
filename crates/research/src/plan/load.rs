//! The loads of a plan: an open or a closed loop, and what is asked in it.

use std::fmt;

use napier_core::time::Span;
use napier_lab::loads::Load;
use napier_scenario::ParseError;
use napier_scenario::read::{Node, Table};
use napier_sim::machine::Shape;
use napier_sim::machine::figures::Length;

use super::PlanKind;

/// The largest message of a plan: what a simulated socket takes of one.
const BYTES_MAX: i128 = 16 << 20;
const GROUPS: &str = "an array of loads such as { pct = 20 }, { low = 5, high = 80, steps = \"5ms\" }, { low = 5, high = 70, \
                      day = \"240ms\" }, { low = 2, high = 60, burst = \"500us\", pause = \"2ms\" } or { closed = true }, each with \
                      measured = \"20ms\"";

/// What a cell is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanLoad {
    /// At a rate or as fast as it is answered.
    pub load: Load,
    /// What is asked.
    pub asked: Asked,
    /// How long a run is.
    pub length: Length,
}

/// What is asked in a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Requests of the machine's clients.
    Requests,
    /// Packets; the client computes for so long after each answer.
    Packets(Span),
    /// A byte, back and forth.
    Byte,
    /// As much as can be sent.
    Flood,
    /// Messages: bytes of a request and of an answer.
    Messages(u32, u32),
    /// Reads and writes of so many bytes of a storage device, as many of each.
    Operations(u32),
    /// Requests to a server of so many CPUs and memory nodes, at rates that go so; `None`: in a closed loop.
    OfServer(u16, u16, Option<Shape>),
}

impl fmt::Display for PlanLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.asked, self.load) {
            (Asked::Requests, load) => load.fmt(f),
            (Asked::Packets(delay), Load::Rps(pps)) if pps.is_multiple_of(1000) => {
                write!(f, "{}K+{}us", pps / 1000, delay.ns / 1000)
            }
            (Asked::Packets(delay), Load::Rps(pps)) => write!(f, "{pps}+{}us", delay.ns / 1000),
            (Asked::Byte | Asked::Packets(_), _) => f.write_str("closed"),
            (Asked::Flood, _) => f.write_str("flood"),
            (Asked::Messages(request, response), _) => write!(f, "{}B/{}B", Bytes(request), Bytes(response)),
            (Asked::Operations(bytes), _) => Bytes(bytes).fmt(f),
            (Asked::OfServer(cpus, _, shape), _) => write!(f, "{cpus}cpus/{}", ShownShape(shape)),
        }
    }
}

/// Bytes with a prefix, of which each is 1024 of the next.
struct Bytes(u32);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u32 = 1 << 20;
        match self.0 {
            bytes if bytes > 0 && bytes.is_multiple_of(MIB) => write!(f, "{}M", bytes / MIB),
            bytes if bytes > 0 && bytes.is_multiple_of(1024) => write!(f, "{}K", bytes / 1024),
            bytes => bytes.fmt(f),
        }
    }
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

fn measured(whole: &Table<'_>) -> Result<Span, ParseError> {
    let span = whole.short_span("measured", Span::from_secs(1))?;
    if span.is_zero() { Err(whole.need("measured")?.error("something has to be measured")) } else { Ok(span) }
}

fn length(table: &Table<'_>, warm_up: Span) -> Result<Length, ParseError> {
    Ok(Length { warm_up: table.short_span("warm-up", warm_up)?, measured: measured(table)? })
}

/// The rate of a log.
pub(super) fn as_recorded(whole: &Table<'_>, rate_rps: u64) -> Result<PlanLoad, ParseError> {
    let length = length(whole, Span::from_ms(100))?;
    Ok(PlanLoad { load: Load::Rps(rate_rps), asked: Asked::Requests, length })
}

/// The loads of a plan.
pub(super) fn loads(whole: &Table<'_>, kind: PlanKind) -> Result<Vec<PlanLoad>, ParseError> {
    let none = Length { warm_up: Span::ZERO, measured: Span::ZERO };
    let of_whole = match kind {
        PlanKind::EventLoop => length(whole, Span::from_ms(100))?,
        PlanKind::XskRr | PlanKind::BusyRead => length(whole, Span::from_ms(10))?,
        _ => none,
    };
    match kind {
        PlanKind::BusyRead => return Ok(vec![PlanLoad { load: Load::Max, asked: Asked::Byte, length: of_whole }]),
        PlanKind::UdpStream => return Ok(vec![PlanLoad { load: Load::Max, asked: Asked::Flood, length: none }]),
        _ => {}
    }
    let node = whole.need("loads")?;
    let loads = node.list(expected(kind))?;
    let loads = match kind {
        PlanKind::Groups => of_servers(whole, &loads)?,
        _ => loads.iter().map(|node| one(kind, node, of_whole)).collect::<Result<_, _>>()?,
    };
    if loads.is_empty() { Err(node.error("a plan has a load at least")) } else { Ok(loads) }
}

const fn expected(kind: PlanKind) -> &'static str {
    match kind {
        PlanKind::XskRr => "an array of loads such as { rate = 12000, delay = \"0us\" }",
        PlanKind::TcpRr => {
            "an array of loads such as { request = 1, response = 1, measured = \"100ms\" }, sizes in bytes"
        }
        PlanKind::RemoteSsd => "an array of loads such as { bytes = 4096, rate = 500000, measured = \"100ms\" }",
        PlanKind::Groups => GROUPS,
        _ => "an array of loads",
    }
}

fn one(kind: PlanKind, node: &Node<'_>, of_whole: Length) -> Result<PlanLoad, ParseError> {
    if kind == PlanKind::EventLoop {
        let load = match node.text("") {
            Ok("max") => Load::Max,
            _ => {
                let rate = node.number(1..=1_000_000_000);
                Load::Rps(rate.map_err(|_| node.error("expected requests per second, or \"max\""))?)
            }
        };
        return Ok(PlanLoad { load, asked: Asked::Requests, length: of_whole });
    }
    let table = node.table(expected(kind))?.only(match kind {
        PlanKind::XskRr => &["rate", "delay"],
        PlanKind::TcpRr => &["request", "response", "warm-up", "measured"],
        _ => &["bytes", "rate", "warm-up", "measured"],
    })?;
    let bytes = |key| table.need(key)?.number(1..=BYTES_MAX);
    let warm_up = Span::from_ms(20);
    Ok(match kind {
        PlanKind::XskRr => PlanLoad {
            load: Load::Rps(table.need("rate")?.number(1..=10_000_000)?),
            asked: Asked::Packets(table.short_span("delay", Span::ZERO)?),
            length: of_whole,
        },
        PlanKind::TcpRr => PlanLoad {
            length: length(&table, warm_up)?,
            load: Load::Max,
            asked: Asked::Messages(bytes("request")?, bytes("response")?),
        },
        _ => PlanLoad {
            length: length(&table, warm_up)?,
            asked: Asked::Operations(bytes("bytes")?),
            load: Load::Rps(table.need("rate")?.number(1..=100_000_000)?),
        },
    })
}

/// Each load on each size of server.
fn of_servers(whole: &Table<'_>, loads: &[Node<'_>]) -> Result<Vec<PlanLoad>, ParseError> {
    let sizes = whole.need("sizes")?;
    let sizes = sizes.list("an array of sizes such as { cpus = 56, nodes = 2 }")?;
    let sizes = sizes.iter().map(super::read::server_size).collect::<Result<Vec<_>, _>>()?;
    let loads = loads.iter().map(shape).collect::<Result<Vec<_>, _>>()?;
    if sizes.is_empty() || loads.is_empty() {
        return Err(whole.error("a plan has a size and a load at least"));
    }
    let full = whole.need("full")?.number(1..=10_000_000)?;
    let of = |(cpus, nodes): (u16, u16), (shape, length): (Option<Shape>, Length)| {
        let load = if shape.is_some() { Load::Rps(full) } else { Load::Max };
        PlanLoad { load, asked: Asked::OfServer(cpus, nodes, shape), length }
    };
    Ok(sizes.iter().flat_map(|size| loads.iter().map(move |load| of(*size, *load))).collect())
}

fn shape(node: &Node<'_>) -> Result<(Option<Shape>, Length), ParseError> {
    let table = node.table(GROUPS)?;
    let kind = ["steps", "day", "burst", "closed"].into_iter().find(|key| table.has(key)).unwrap_or("pct");
    let table = table.only(match kind {
        "steps" => &["low", "high", "steps", "warm-up", "measured"],
        "day" => &["low", "high", "day", "warm-up", "measured"],
        "burst" => &["low", "high", "burst", "pause", "warm-up", "measured"],
        "closed" => &["closed", "warm-up", "measured"],
        _ => &["pct", "warm-up", "measured"],
    })?;
    let length = length(&table, Span::from_ms(5))?;
    let pct = |key, least| table.need(key)?.number(least..=1000);
    let span = |key| {
        let node = table.need(key)?;
        let span = node.short_span()?;
        if span < Span::from_us(24) { Err(node.error("at least \"24us\"")) } else { Ok(span) }
    };
    let range = || Ok::<(u32, u32), ParseError>((pct("low", 0)?, pct("high", 1)?));
    let shape = match kind {
        "closed" => return Ok((None, length)),
        "pct" => Shape::Steady { pct: pct("pct", 1)? },
        "steps" => {
            let (low_pct, high_pct) = range()?;
            Shape::Steps { low_pct, high_pct, each: span("steps")? }
        }
        "day" => {
            let (low_pct, high_pct) = range()?;
            Shape::Day { low_pct, high_pct, length: span("day")? }
        }
        _ => {
            let (low_pct, high_pct) = range()?;
            Shape::Bursts { low_pct, high_pct, high_for: span("burst")?, low_for: span("pause")? }
        }
    };
    Ok((Some(shape), length))
}
