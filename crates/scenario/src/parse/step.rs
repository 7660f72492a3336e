//! `[timeline]`.

use napier_core::state::State;
use napier_core::time::{Instant, Span};

use super::common::{U32_MAX, at, policy};
use super::lookup::Names;
use super::node::{Node, Table};
use super::words::unknown;
use super::{ParseError, call, group, transmit};
use crate::{Action, Callable, Check, Machine, Packets, Quirk, SocketKind, Step, Target};

type Result<T> = std::result::Result<T, ParseError>;

const STEPS_MAX: usize = 100_000;
const PACKETS_MAX: i128 = 1_000_000;
const THREADS_FAIL_MAX: i128 = 1 << 20;

/// The key that says what a step is.
const ACTIONS: &[&str] = &[
    "packets",
    "interrupt",
    "schedule",
    "arm",
    "stall",
    "stop-cpu",
    "hog",
    "fail-thread",
    "driver",
    "tx-stop",
    "tx-wake",
    "tx-freeze",
    "tx-thaw",
    "tx-stall",
    "tx-busy",
    "check",
    "call",
];

const BITS: [(&str, State); 13] = [
    ("SCHED", State::SCHED),
    ("MISSED", State::MISSED),
    ("DISABLE", State::DISABLE),
    ("NPSVC", State::NPSVC),
    ("LISTED", State::LISTED),
    ("NO_BUSY_POLL", State::NO_BUSY_POLL),
    ("IN_BUSY_POLL", State::IN_BUSY_POLL),
    ("PREFER_BUSY_POLL", State::PREFER_BUSY_POLL),
    ("THREADED", State::THREADED),
    ("SCHED_THREADED", State::SCHED_THREADED),
    ("HAS_NOTIFIER", State::HAS_NOTIFIER),
    ("THREADED_BUSY_POLL", State::THREADED_BUSY_POLL),
    ("GROUP", State::GROUP),
];

/// The names of the bits in a word.
pub(super) fn bit_names(state: State) -> Vec<String> {
    BITS.iter().filter(|(_, bit)| state.contains(*bit)).map(|(name, _)| (*name).to_owned()).collect()
}

pub(super) fn read(whole: &Table<'_>, machine: &Machine) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let Some(timeline) = whole.get("timeline") else { return Ok(steps) };
    let timeline = timeline.table("the table [timeline]")?.only(&["steps"])?.nameless();
    for node in timeline.list("steps", STEPS_MAX, "an array of steps { at = ..., ... }")? {
        let step = step(&node, Names(machine))?;
        let last = steps.last().map_or(Instant::ZERO, |step| step.at);
        if step.at < last {
            return Err(node.error(format!(
                "at {} comes after {}; put the steps in the order of time",
                super::duration::format(step.at.ns),
                super::duration::format(last.ns)
            )));
        }
        steps.push(step);
    }
    Ok(steps)
}

fn step(node: &Node<'_>, names: Names<'_>) -> Result<Step> {
    let table = node.table("a table { at = ..., ... }")?;
    // How many packets, elsewhere.
    let counts = table.has("call") || table.has("tx-busy");
    let mut kinds = ACTIONS.iter().filter(|action| table.has(action) && !(counts && **action == "packets"));
    let action = match (kinds.next(), kinds.next()) {
        (Some(kind), None) => *kind,
        (Some(one), Some(other)) => {
            return Err(node.error(format!("both {one} and {other}: a step is one action; make two steps of it")));
        }
        (None, _) => return Err(no_action(node, &table)),
    };
    let line = table.line();
    let (at, action) = match action {
        "packets" => packets(table, names)?,
        "interrupt" => {
            let table = table.only(&["at", "interrupt"])?;
            (at(&table)?, Action::Interrupt { napi: names.napi(&table.need("interrupt")?)? })
        }
        "schedule" => {
            let table = table.only(&["at", "schedule", "cpu"])?;
            let (napi, cpu) = (names.napi(&table.need("schedule")?)?, names.cpu(&table.need("cpu")?)?);
            (at(&table)?, Action::Schedule { napi, cpu })
        }
        "arm" => {
            let table = table.only(&["at", "arm", "after", "cpu"])?;
            let (napi, cpu) = (names.napi(&table.need("arm")?)?, names.cpu(&table.need("cpu")?)?);
            (at(&table)?, Action::Arm { napi, after: table.need("after")?.span()?, cpu })
        }
        "stall" => {
            let table = table.only(&["at", "stall", "for"])?;
            let thread = names.thread(&table.need("stall")?)?;
            (at(&table)?, Action::Stall { thread, span: table.need("for")?.short_span()? })
        }
        "stop-cpu" => {
            let table = table.only(&["at", "stop-cpu", "for"])?;
            let cpu = names.cpu(&table.need("stop-cpu")?)?;
            (at(&table)?, Action::StopCpu { cpu, span: table.need("for")?.short_span()? })
        }
        "hog" => {
            let table = table.only(&["at", "hog", "for", "policy"])?;
            let (cpu, span) = (names.cpu(&table.need("hog")?)?, table.need("for")?.short_span()?);
            let policy = table.map("policy", policy)?.unwrap_or(crate::Policy::Fair);
            (at(&table)?, Action::Hog { cpu, span, policy })
        }
        "fail-thread" => {
            let table = table.only(&["at", "fail-thread"])?;
            (at(&table)?, Action::FailThread { nth: table.need("fail-thread")?.number(0..=THREADS_FAIL_MAX)? })
        }
        "driver" => {
            let table = table.only(&["at", "driver", "quirk"])?;
            let quirk = |node: &Node<'_>| node.word(Quirk::from_name, &["none", "never-completes", "always-full"]);
            let napi = names.napi(&table.need("driver")?)?;
            (at(&table)?, Action::Driver { napi, quirk: quirk(&table.need("quirk")?)? })
        }
        "check" => check(table, names)?,
        _ if transmit::ACTIONS.contains(&action) => transmit::action(action, table, names)?,
        _ => call::read(table, names)?,
    };
    Ok(Step { at, line, action })
}

/// The error for a step that says nothing that can happen: the first key that is not `at` was meant, perhaps.
fn no_action(node: &Node<'_>, table: &Table<'_>) -> ParseError {
    match table.in_order().iter().find(|(key, _)| *key != "at") {
        Some((key, _)) => node.error(unknown("key", key, ACTIONS)),
        None => node.error(format!("nothing happens; expected one of {}", ACTIONS.join(", "))),
    }
}

fn packets(table: Table<'_>, names: Names<'_>) -> Result<(Instant, Action)> {
    let table = table.only(&[
        "at",
        "packets",
        "to",
        "every",
        "flow",
        "own-flow",
        "hash",
        "mergeable",
        "rss",
        "loopback",
        "syn",
    ])?;
    let to = target(&table.need("to")?, names)?;
    let sockets = &names.0.sockets;
    let mut syn = None;
    if let Some(node) = table.get("syn") {
        let child = names.socket(&node)?;
        if sockets[child.at()].kind != SocketKind::Tcp || sockets[child.at()].open {
            return Err(
                node.error("the socket that a connection makes must be declared with kind = \"tcp\", open = false")
            );
        }
        match to {
            Target::Socket(listener) if sockets[listener.at()].kind == SocketKind::TcpListener => syn = Some(child),
            _ => return Err(node.error("a connection request goes to a socket of kind tcp-listener")),
        }
    }
    let packets = Packets {
        to,
        count: table.number("packets", 1..=PACKETS_MAX, 1)?,
        every: table.short_span("every", Span::ZERO)?,
        flow: table.number("flow", 0..=U32_MAX, 0)?,
        own_flow: table.flag("own-flow", false)?,
        hash: table.map("hash", |node| node.number(0..=U32_MAX))?,
        mergeable: table.flag("mergeable", true)?,
        rss: table.flag("rss", false)?,
        loopback: table.flag("loopback", false)?,
        syn,
    };
    Ok((at(&table)?, Action::Packets(packets)))
}

/// An instance has a slash in its name, a socket has none.
fn target(node: &Node<'_>, names: Names<'_>) -> Result<Target> {
    if node.text("a socket, or an instance DEVICE/QUEUE")?.contains('/') {
        names.napi(node).map(Target::Napi)
    } else {
        names.socket(node).map(Target::Socket)
    }
}

fn check(table: Table<'_>, names: Names<'_>) -> Result<(Instant, Action)> {
    const NAPI: &[&str] =
        &["at", "check", "set", "clear", "defers-left", "masked", "armed", "listed", "thread", "pending", "held"];
    let keys = table.in_order();
    let (_, node) = keys.iter().find(|(key, _)| *key == "check").expect("the step was told by this key");
    if transmit::is_name(node.text("an instance DEVICE/QUEUE, a socket or an epoll")?) {
        return transmit::check(table, names);
    }
    if let Some(found) = names.group_named(node.text("an instance DEVICE/QUEUE, a socket or an epoll")?) {
        return group::check(table, names, found);
    }
    let mut check = Check::default();
    let table = if node.text("an instance DEVICE/QUEUE, a socket or an epoll")?.contains('/') {
        check.napi = Some(names.napi(node)?);
        table.only(NAPI)?
    } else {
        match names.callable(node)? {
            Callable::Socket(socket) => {
                check.socket = Some(socket);
                table.only(&["at", "check", "queued", "recorded"])?
            }
            Callable::Epoll(epoll) => {
                check.epoll = Some(epoll);
                table.only(&["at", "check", "slot"])?
            }
        }
    };
    if keys.iter().all(|(key, _)| matches!(*key, "at" | "check")) {
        return Err(node.error("nothing to look at; say what it must be"));
    }
    if check.napi.is_some() {
        check.set = table.map("set", bits)?.unwrap_or_default();
        check.clear = table.map("clear", bits)?.unwrap_or_default();
        if check.set.intersects(check.clear) {
            return Err(node.error("a bit cannot be both set and clear"));
        }
        check.defers_left = table.map("defers-left", |node| node.number(0..=U32_MAX))?;
        check.masked = table.map("masked", Node::flag)?;
        check.armed = table.map("armed", Node::flag)?;
        check.listed = table.map("listed", Node::flag)?;
        check.thread = table.map("thread", Node::flag)?;
        check.pending = table.map("pending", |node| node.number(0..=U32_MAX))?;
        check.held = table.map("held", |node| node.number(0..=U32_MAX))?;
    } else if check.socket.is_some() {
        check.queued = table.map("queued", |node| node.number(0..=U32_MAX))?;
        check.recorded = table.map("recorded", |node| names.napi_or_none(node))?;
    } else {
        check.slot = table.map("slot", |node| names.napi_or_none(node))?;
    }
    Ok((at(&table)?, Action::Check(check)))
}

fn bits(node: &Node<'_>) -> Result<State> {
    let words = BITS.map(|(name, _)| name);
    let find = |word: &str| BITS.iter().find(|(name, _)| *name == word).map(|(_, bit)| *bit);
    let bits = node.list("an array of bits of the state word such as [\"SCHED\"]")?;
    if bits.is_empty() {
        return Err(node.wrong("at least one bit"));
    }
    bits.iter().try_fold(State::EMPTY, |state, node| Ok(state.with(node.word(find, &words)?)))
}
