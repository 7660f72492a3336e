//! `[expect]` and `[engine]`.

use napier_core::time::{Instant, Span};

use super::call;
use super::common::value;
use super::lookup::Names;
use super::node::{Node, Table};
use super::words::unknown;
use super::{ParseError, duration, transmit};
use crate::{DropReason, Expect, Expected, Kind, Machine, Pattern, PollContext, Range, Tolerance};

type Result<T> = std::result::Result<T, ParseError>;

const EVENTS_MAX: usize = 100_000;

/// What a kind of event is about.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    Napi,
    Socket,
    Thread,
    Cpu,
    Qdisc,
    Txq,
}

impl Subject {
    /// The field that holds it.
    pub(crate) const fn field(self) -> &'static str {
        match self {
            Self::Napi => "napi",
            Self::Socket => "socket",
            Self::Thread => "thread",
            Self::Cpu => "cpu",
            Self::Qdisc => "qdisc",
            Self::Txq => "txq",
        }
    }
}

pub(super) fn read(whole: &Table<'_>, machine: &Machine) -> Result<Expect> {
    let mut expect = Expect {
        watch: Vec::new(),
        events: Vec::new(),
        counters: Vec::new(),
        tolerance: Tolerance { sim: Span::from_us(20), engine: Span::from_ms(2) },
        drains: true,
        settle: Span::from_ms(100),
    };
    let Some(node) = whole.get("expect") else { return Ok(expect) };
    let table = node.table("the table [expect]")?;
    let table = table.only(&["watch", "tolerance", "drains", "settle", "events", "counters"])?;
    expect.drains = table.flag("drains", expect.drains)?;
    expect.settle = table.short_span("settle", expect.settle)?;
    if let Some(node) = table.get("tolerance") {
        let table = node.table("a table { sim = \"20us\", engine = \"2ms\" }")?.only(&["sim", "engine"])?;
        expect.tolerance.sim = table.short_span("sim", expect.tolerance.sim)?;
        expect.tolerance.engine = table.short_span("engine", expect.tolerance.engine)?;
    }
    // With neither key there is nothing to compare; with events the usual kinds are.
    let default = if table.has("events") { Kind::WATCHED_BY_DEFAULT.to_vec() } else { Vec::new() };
    expect.watch = table.map("watch", watch)?.unwrap_or(default);
    let mut last = Instant::ZERO;
    for node in table.list("events", EVENTS_MAX, "an array of events such as { poll = \"eth0/0\" }")? {
        let expected = event(&node, Names(machine))?;
        if !expected.kind.is_in(&expect.watch) {
            let name = expected.kind.name();
            return Err(node.error(format!("{name} is not watched; add it to watch, or leave the event out")));
        }
        if expected.at.is_some_and(|at| at < last) {
            return Err(node.error(format!("its time is before {}; put events in order", duration::format(last.ns))));
        }
        last = expected.at.unwrap_or(last);
        expect.events.push(expected);
    }
    if let Some(node) = table.get("counters") {
        for (name, node) in node.table("the table [expect.counters]")?.in_order() {
            if !is_counter(name, machine) {
                return Err(node.error(unknown("counter", name, &COUNTERS)));
            }
            expect.counters.push((name.to_owned(), node.range(0)?));
        }
    }
    Ok(expect)
}

impl Kind {
    pub(super) fn is_in(self, kinds: &[Self]) -> bool {
        kinds.contains(&self)
    }
}

pub(super) fn watch(node: &Node<'_>) -> Result<Vec<Kind>> {
    let mut words: Vec<&str> = Kind::ALL.iter().filter(|kind| **kind != Kind::CheckFailed).map(|k| k.name()).collect();
    words.push("timer");
    let mut kinds = Vec::new();
    for node in node.list("an array of kinds of events such as [\"poll\", \"timer\"]")? {
        for kind in node.word(Kind::watch_word, &words)? {
            if kinds.contains(&kind) {
                return Err(node.error(format!("{} is there already", kind.name())));
            }
            kinds.push(kind);
        }
    }
    Ok(kinds)
}

fn event(node: &Node<'_>, names: Names<'_>) -> Result<Expected> {
    let table = node.table("a table such as { poll = \"eth0/0\" }")?;
    let known: Vec<_> = Kind::ALL.iter().copied().filter(|kind| shape(*kind).is_some()).collect();
    // `unmask` is an event, and what a completion returns.
    let both = table.has("complete").then_some(Kind::Complete);
    let mut kinds = known.iter().copied().filter(|kind| table.has(kind.name()));
    let kind = match (both, kinds.next(), kinds.next()) {
        (Some(kind), ..) | (None, Some(kind), None) => kind,
        (None, Some(one), Some(other)) => {
            let message = format!("both {} and {}: make two events of it", one.name(), other.name());
            return Err(node.error(message));
        }
        (None, None, _) => {
            let words: Vec<_> = known.iter().map(|kind| kind.name()).collect();
            let keys = table.in_order();
            let key = keys.iter().find(|(key, _)| !matches!(*key, "at" | "within" | "repeat"));
            return Err(match key {
                Some((key, _)) => node.error(unknown("key", key, &words)),
                None => node.error(format!("no event; expected one of {}", words.join(", "))),
            });
        }
    };
    let line = table.line();
    let (subject, keys) = shape(kind).expect("only kinds with a subject are looked for");
    let table = table.only(keys)?;
    let mut fields = Vec::new();
    for (key, node) in table.in_order() {
        if key == kind.name() {
            fields.insert(0, (subject.field().to_owned(), subject_pattern(&node, subject, names)?));
        } else if !matches!(key, "at" | "within" | "repeat") {
            fields.push((key.to_owned(), field(kind, key, &node, names)?));
        }
    }
    let repeat = table.map("repeat", |node| node.range(0))?.unwrap_or(Range::exactly(1));
    if repeat.max == 0 {
        return Err(node.error("repeat = 0 is no event; leave it out"));
    }
    let at = table.map("at", Node::instant)?;
    let within = table.map("within", Node::short_span)?;
    if at.is_none() && within.is_some() {
        return Err(node.error("within is how far at may be off; give at too"));
    }
    Ok(Expected { line, kind, at, within, repeat, fields })
}

/// What each kind of event is about, and the keys that it may have; a failed check is about nothing that can be expected.
const fn shape(kind: Kind) -> Option<(Subject, &'static [&'static str])> {
    macro_rules! keys {
        ($($key:literal),+) => { &["at", "within", "repeat", $($key),+] };
    }
    Some(match kind {
        Kind::Poll => (Subject::Napi, keys!["poll", "in", "cpu", "work", "budget"]),
        Kind::TimerStart => (Subject::Napi, keys!["timer-start", "after", "cpu"]),
        Kind::TimerFire => (Subject::Napi, keys!["timer-fire", "cpu"]),
        Kind::TimerCancel => (Subject::Napi, keys!["timer-cancel"]),
        Kind::Mask => (Subject::Napi, keys!["mask"]),
        Kind::Unmask => (Subject::Napi, keys!["unmask"]),
        Kind::Complete => (Subject::Napi, keys!["complete", "unmask"]),
        Kind::Schedule => (Subject::Napi, keys!["schedule", "took"]),
        Kind::List => (Subject::Napi, keys!["list", "packets"]),
        Kind::Deliver => (Subject::Socket, keys!["deliver", "packets"]),
        Kind::Drop => (Subject::Napi, keys!["drop", "why", "packets"]),
        Kind::Return => (Subject::Thread, keys!["return", "call", "value", "ready"]),
        Kind::Sleep => (Subject::Thread, keys!["sleep"]),
        Kind::Raise => (Subject::Cpu, keys!["raise"]),
        Kind::Squeeze => (Subject::Cpu, keys!["squeeze"]),
        Kind::RunEnd => (Subject::Cpu, keys!["run-end", "left"]),
        Kind::Ksoftirqd => (Subject::Cpu, keys!["ksoftirqd"]),
        Kind::KthreadStart => (Subject::Napi, keys!["kthread-start"]),
        Kind::KthreadStop => (Subject::Napi, keys!["kthread-stop"]),
        Kind::Xmit => (Subject::Thread, keys!["xmit", "to", "code"]),
        Kind::Push => (Subject::Qdisc, keys!["push", "flusher"]),
        Kind::Flush => (Subject::Qdisc, keys!["flush", "packets", "plan"]),
        Kind::TxRun => (Subject::Qdisc, keys!["tx-run", "in", "cpu"]),
        Kind::TxRunEnd => (Subject::Qdisc, keys!["tx-run-end", "why", "packets"]),
        Kind::Transmit => (Subject::Txq, keys!["transmit", "flow", "more", "cpu"]),
        Kind::Requeue => (Subject::Qdisc, keys!["requeue", "packets"]),
        Kind::TxSchedule => (Subject::Qdisc, keys!["tx-schedule", "took", "cpu"]),
        Kind::TxDrop => (Subject::Qdisc, keys!["tx-drop", "why", "packets"]),
        Kind::TxStop => (Subject::Txq, keys!["tx-stop", "by"]),
        Kind::TxWake => (Subject::Txq, keys!["tx-wake", "by", "schedules"]),
        Kind::TxComplete => (Subject::Txq, keys!["tx-complete", "packets", "bytes"]),
        Kind::WatchdogStart => (Subject::Qdisc, keys!["watchdog-start", "after"]),
        Kind::WatchdogFire => (Subject::Qdisc, keys!["watchdog-fire", "cpu"]),
        Kind::GroupPark => (Subject::Cpu, keys!["group-park"]),
        Kind::GroupWake => (Subject::Cpu, keys!["group-wake"]),
        Kind::GroupMove => (Subject::Napi, keys!["group-move", "to"]),
        Kind::CheckFailed => return None,
    })
}

fn subject_pattern(node: &Node<'_>, subject: Subject, names: Names<'_>) -> Result<Pattern> {
    let text = |node: &Node<'_>| Ok(Pattern::Text(node.text("a name")?.to_owned()));
    match subject {
        Subject::Napi => names.napi(node).and_then(|_| text(node)),
        Subject::Socket => names.socket(node).and_then(|_| text(node)),
        Subject::Thread => names.thread(node).and_then(|_| text(node)),
        Subject::Qdisc => names.qdisc(node).and_then(|_| text(node)),
        Subject::Txq => names.txq(node).and_then(|_| text(node)),
        Subject::Cpu => names.cpu(node).map(|cpu| Pattern::Number(Range::exactly(i64::from(cpu.0)))),
    }
}

fn field(kind: Kind, key: &str, node: &Node<'_>, names: Names<'_>) -> Result<Pattern> {
    let word = |name: &str| Pattern::Text(name.to_owned());
    let words = |all: Vec<&'static str>| {
        let find = |word: &str| all.iter().copied().find(|known| *known == word);
        node.word(find, &all).map(word)
    };
    if let Some(pattern) = transmit::field(kind, key, node, names)? {
        return Ok(pattern);
    }
    match (kind, key) {
        (_, "in") => words(PollContext::ALL.iter().map(|poller| poller.name()).collect()),
        (_, "why") => words(DropReason::ALL.iter().map(|reason| reason.name()).collect()),
        (_, "call") => words(call::names()),
        (_, "cpu") => names.cpu(node).map(|cpu| Pattern::Number(Range::exactly(i64::from(cpu.0)))),
        (_, "after") => node.span().map(Pattern::Span),
        (_, "unmask" | "took") => node.flag().map(|flag| word(if flag { "true" } else { "false" })),
        (_, "left") => known(node, |node| names.napi(node).map(drop)),
        (_, "ready") => known(node, |node| names.socket(node).map(drop)),
        (_, "value") => value(node),
        _ => node.range(0).map(Pattern::Number),
    }
}

/// A list of names, each of which is there.
fn known(node: &Node<'_>, check: impl Fn(&Node<'_>) -> Result<()>) -> Result<Pattern> {
    for node in node.list("an array of names")? {
        check(&node)?;
    }
    node.texts("an array of names").map(Pattern::Names)
}

const CPU_COUNTERS: [&str; 4] = ["time_squeeze", "softirq_runs", "ksoftirqd", "tx_runs"];
const NAPI_COUNTERS: [&str; 5] = ["polls", "packets", "interrupts", "timer_fires", "unmasks"];
const BUSY_POLL_COUNTER: &str = "busy_poll_rx_packets";
/// Datagrams that a UDP socket lost on their way to the device, by its name in `nstat`.
const SNDBUF_ERRORS: &str = "UdpSndbufErrors";

/// The counters there are, for errors.
const COUNTERS: [&str; 21] = [
    "cpuN.time_squeeze",
    "cpuN.softirq_runs",
    "cpuN.ksoftirqd",
    "cpuN.tx_runs",
    "DEVICE/QUEUE.polls",
    "DEVICE/QUEUE.packets",
    "DEVICE/QUEUE.interrupts",
    "DEVICE/QUEUE.timer_fires",
    "DEVICE/QUEUE.unmasks",
    BUSY_POLL_COUNTER,
    "drops.REASON",
    "SOCKET.delivered",
    "QDISC.packets",
    "QDISC.bytes",
    "QDISC.requeues",
    "QDISC.dropped",
    "DEVICE.tx_packets",
    "DEVICE.tx_dropped",
    "tx_drops.REASON",
    SNDBUF_ERRORS,
    "GROUP.turns, .parks, .parks_in_vain, .wakes, .moves, .moves_back, .moves_sibling, .moves_node, .moves_far",
];

fn is_counter(name: &str, machine: &Machine) -> bool {
    let names = Names(machine);
    if name == BUSY_POLL_COUNTER || name == SNDBUF_ERRORS {
        return true;
    }
    let Some((of, what)) = name.split_once('.') else { return false };
    let cpu = |cpu: &str| cpu.parse::<u16>().is_ok_and(|at| at < machine.cpus && at.to_string() == cpu);
    (of.strip_prefix("cpu").is_some_and(cpu) && CPU_COUNTERS.contains(&what))
        || (names.napi_named(of).is_some() && NAPI_COUNTERS.contains(&what))
        || (of == "drops" && DropReason::from_name(what).is_some())
        || (names.sockets().contains(&of) && what == "delivered")
        || transmit::is_counter(of, what, names)
        || super::group::is_counter(of, what, names)
}
