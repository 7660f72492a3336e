//! The transmit side of a file: keys of a device, steps, calls, checks, fields of events.

use napier_core::time::{Instant, Span};
use napier_core::tx::DropReason;
use napier_core::tx::bql::LIMIT_BYTES_MAX;
use napier_core::tx::flush::FlushPlan;
use napier_core::tx::qdisc::FqConfig;
use napier_core::tx::queue::QueueBits;
use napier_core::tx::run::RunStop;
use napier_core::tx::state::QdiscState;

use super::ParseError;
use super::common::{U32_MAX, at, value};
use super::lookup::Names;
use super::node::{Node, Table};

use super::words::unknown;
use crate::{
    Action, ByteLimits, Kind, Pattern, QdiscSpec, Sending, SocketKind, StopBy, Transmit, TxCheck, TxDeed, TxqIx,
};

type Result<T> = std::result::Result<T, ParseError>;

const QUEUES_MAX: i128 = 64;
const RING_MAX: i128 = 65_536;
const LIMIT_MAX: i128 = 1 << 20;
const PACKETS_MAX: i128 = 1_000_000;
const BYTES_MAX: i128 = 65_535;
/// Length of a full Ethernet frame.
const BYTES_DEFAULT: u32 = 1514;
const RATE_MAX: i128 = i64::MAX as i128;

/// Keys of `[[device]]` that say how it transmits.
const DEVICE_KEYS: [&str; 7] = ["qdisc-options", "tx-queues", "mq", "tx-ring", "bql", "tx-time", "lower"];

const QDISC_BITS: [(&str, QdiscState); 4] = [
    ("SCHED", QdiscState::SCHED),
    ("DEACTIVATED", QdiscState::DEACTIVATED),
    ("MISSED", QdiscState::MISSED),
    ("DRAINING", QdiscState::DRAINING),
];

const QUEUE_BITS: [(&str, QueueBits); 3] =
    [("DRIVER_OFF", QueueBits::DRIVER_OFF), ("STACK_OFF", QueueBits::STACK_OFF), ("FROZEN", QueueBits::FROZEN)];

/// The names of bits, of either word.
pub(super) fn bit_names(qdisc: QdiscState, queue: QueueBits) -> Vec<&'static str> {
    let of_qdisc = QDISC_BITS.iter().filter(|(_, bit)| qdisc.intersects(*bit)).map(|(name, _)| *name);
    of_qdisc.chain(QUEUE_BITS.iter().filter(|(_, bit)| queue.intersects(*bit)).map(|(name, _)| *name)).collect()
}

/// How the device `name`, which comes next, transmits.
pub(super) fn device(table: &Table<'_>, name: &str, names: Names<'_>) -> Result<Option<Transmit>> {
    let words = [&["none"], QdiscSpec::NAMES].concat();
    let find = |word: &str| if word == "none" { Some(None) } else { QdiscSpec::from_name(word).map(Some) };
    let Some(mut qdisc) = table.map("qdisc", |node| node.word(find, &words))?.flatten() else {
        return match DEVICE_KEYS.into_iter().find_map(|key| table.get(key)) {
            Some(node) => Err(node.error("without a qdisc; say which, or leave this out")),
            None => Ok(None),
        };
    };
    table.map("qdisc-options", |node| options(node, &mut qdisc))?;
    let queues = table.number("tx-queues", 1..=QUEUES_MAX, 1)?;
    let one_each = table.flag("mq", true)?;
    if let Some(node) = table.get("mq")
        && !one_each
        && !matches!(qdisc, QdiscSpec::Pfifo { .. } | QdiscSpec::Prio { .. } | QdiscSpec::Fq(_))
    {
        return Err(node.error(format!("{} serves one transmit queue; leave mq out", qdisc.name())));
    }
    let lower = table.map("lower", |node| lower(node, name, queues, names))?;
    match table.get("lower") {
        Some(node) if qdisc != QdiscSpec::Noqueue => {
            return Err(node.error("a device on top of another has qdisc = \"noqueue\""));
        }
        _ => {}
    }
    Ok(Some(Transmit {
        qdisc,
        queues,
        one_each,
        ring: table.number("tx-ring", 1..=RING_MAX, 256)?,
        bql: table.map("bql", bql)?.flatten(),
        wire: table.short_span("tx-time", Span::from_us(1))?,
        lower,
    }))
}

/// A transmit queue of an earlier device or of this one.
fn lower(node: &Node<'_>, own: &str, queues: u16, names: Names<'_>) -> Result<TxqIx> {
    let expected = "a transmit queue DEVICE/tx-N of this device or of one above it in the file";
    let before = u16::try_from(names.0.tx_queues().count()).expect("the number of queues is bounded");
    let own_queue = node.text(expected)?.strip_prefix(own).and_then(|rest| rest.strip_prefix("/tx-"));
    match own_queue.and_then(|queue| (0..queues).find(|known| known.to_string() == queue)) {
        Some(queue) => Ok(TxqIx(before + queue)),
        None => names.txq(node),
    }
}

fn options(node: &Node<'_>, to: &mut QdiscSpec) -> Result<()> {
    let table = node.table("a table such as { limit = 100 }")?;
    match to {
        QdiscSpec::Noqueue => Err(node.error("noqueue has no options")),
        QdiscSpec::Pfifo { limit } | QdiscSpec::Prio { limit } | QdiscSpec::PfifoFast { limit } => {
            *limit = table.only(&["limit"])?.number("limit", 0..=LIMIT_MAX, *limit)?;
            Ok(())
        }
        QdiscSpec::Fq(config) => fq(table, config),
    }
}

fn fq(table: Table<'_>, to: &mut FqConfig) -> Result<()> {
    let table = table.only(&[
        "limit",
        "flow_limit",
        "quantum",
        "initial_quantum",
        "refill_delay",
        "maxrate",
        "low_rate_threshold",
        "pacing",
        "horizon",
        "horizon_drop",
    ])?;
    to.limit_pkts = table.number("limit", 0..=LIMIT_MAX, to.limit_pkts)?;
    to.flow_limit_pkts = table.number("flow_limit", 0..=LIMIT_MAX, to.flow_limit_pkts)?;
    to.quantum_bytes = table.number("quantum", 1..=LIMIT_MAX, to.quantum_bytes)?;
    to.initial_quantum_bytes = table.number("initial_quantum", 0..=LIMIT_MAX, to.initial_quantum_bytes)?;
    to.refill_delay = table.short_span("refill_delay", to.refill_delay)?;
    to.flow_max_rate = table.map("maxrate", |node| node.number(1..=RATE_MAX))?.unwrap_or(to.flow_max_rate);
    to.low_rate_threshold = table.number("low_rate_threshold", 0..=RATE_MAX, to.low_rate_threshold)?;
    to.pacing = table.flag("pacing", to.pacing)?;
    to.horizon = table.short_span("horizon", to.horizon)?;
    to.horizon_drop = table.flag("horizon_drop", to.horizon_drop)?;
    Ok(())
}

/// `true`, `false`, or the bounds.
fn bql(node: &Node<'_>) -> Result<Option<ByteLimits>> {
    if !node.is_table() {
        return Ok(node.flag()?.then(ByteLimits::default));
    }
    let table = node.table("a table")?.only(&["limit_min", "limit_max", "hold_time"])?;
    let default = ByteLimits::default();
    let bytes = 0..=i128::from(LIMIT_BYTES_MAX);
    let limits = ByteLimits {
        min_bytes: table.number("limit_min", bytes.clone(), default.min_bytes)?,
        max_bytes: table.number("limit_max", bytes, default.max_bytes)?,
        hold: table.short_span("hold_time", default.hold)?,
    };
    if limits.min_bytes > limits.max_bytes {
        return Err(node.error("limit_min is more than limit_max"));
    }
    Ok(Some(limits))
}

/// The keys of steps about a transmit queue.
pub(super) const ACTIONS: [&str; 6] = ["tx-stop", "tx-wake", "tx-freeze", "tx-thaw", "tx-stall", "tx-busy"];

pub(super) fn action(name: &str, table: Table<'_>, names: Names<'_>) -> Result<(Instant, Action)> {
    let (name, keys): (_, &[_]) = match name {
        "tx-stop" => ("tx-stop", &["at", "tx-stop"]),
        "tx-wake" => ("tx-wake", &["at", "tx-wake"]),
        "tx-freeze" => ("tx-freeze", &["at", "tx-freeze"]),
        "tx-thaw" => ("tx-thaw", &["at", "tx-thaw"]),
        "tx-stall" => ("tx-stall", &["at", "tx-stall", "for"]),
        _ => ("tx-busy", &["at", "tx-busy", "packets"]),
    };
    let table = table.only(keys)?;
    let txq = names.txq(&table.need(name)?)?;
    let deed = match name {
        "tx-stop" => TxDeed::Stop,
        "tx-wake" => TxDeed::Wake,
        "tx-freeze" => TxDeed::Freeze,
        "tx-thaw" => TxDeed::Thaw,
        "tx-stall" => TxDeed::Stall(table.need("for")?.short_span()?),
        _ => TxDeed::Busy(table.number("packets", 0..=PACKETS_MAX, 1)?),
    };
    assert_eq!(deed.name(), name, "the name of a step is the same in both places");
    Ok((at(&table)?, Action::Tx { txq, deed }))
}

/// Keys of the call `send`.
pub(super) const SEND_KEYS: &[&str] =
    &["at", "by", "call", "to", "socket", "packets", "bytes", "flow", "own-flow", "priority", "txtime", "rate"];

pub(super) fn sending(table: &Table<'_>, names: Names<'_>) -> Result<Sending> {
    let socket = table.map("socket", |node| match names.socket(node)? {
        socket if names.0.sockets[socket.at()].kind == SocketKind::Udp => Ok(socket),
        _ => Err(node.error("only a udp socket sends")),
    })?;
    Ok(Sending {
        to: names.txq(&table.need("to")?)?,
        socket,
        packets: table.number("packets", 1..=PACKETS_MAX, 1)?,
        bytes: table.number("bytes", 1..=BYTES_MAX, BYTES_DEFAULT)?,
        flow: table.number("flow", 0..=U32_MAX, 0)?,
        own_flow: table.flag("own-flow", false)?,
        priority: table.number("priority", 0..=U32_MAX, 0)?,
        txtime: table.map("txtime", Node::instant)?,
        rate: table.map("rate", |node| node.number(1..=RATE_MAX))?,
    })
}

/// True if the name is one of a transmit queue or discipline.
pub(super) fn is_name(name: &str) -> bool {
    name.split_once('/').is_some_and(|(_, queue)| queue.starts_with("tx"))
}

pub(super) fn check(table: Table<'_>, names: Names<'_>) -> Result<(Instant, Action)> {
    const QDISC: &[&str] = &["qlen", "backlog", "deferred", "defer-count", "requeued", "running"];
    const QUEUE: &[&str] = &["in-ring", "limit"];
    let table = table.only(&[
        "at",
        "check",
        "set",
        "clear",
        "qlen",
        "backlog",
        "deferred",
        "defer-count",
        "requeued",
        "running",
        "in-ring",
        "limit",
    ])?;
    let node = table.need("check")?;
    let (qdisc, txq) = (names.qdisc_named(&node)?, names.txq_named(&node)?);
    if qdisc.is_none() && txq.is_none() {
        return Err(node.error(unknown(
            "discipline or transmit queue",
            node.text("a name")?,
            &names.tx_names().iter().map(String::as_str).collect::<Vec<_>>(),
        )));
    }
    let mut check = TxCheck { qdisc, txq, ..TxCheck::default() };
    if qdisc.is_none() && QDISC.iter().any(|key| table.has(key)) {
        return Err(node.error("this queue shares its discipline with others; look at DEVICE/tx"));
    }
    if txq.is_none() && QUEUE.iter().any(|key| table.has(key)) {
        return Err(node.error("this discipline serves several transmit queues; look at one of them"));
    }
    let number = |key| table.map(key, |node| node.number(0..=U32_MAX));
    check.qlen = number("qlen")?;
    check.backlog_bytes = number("backlog")?;
    check.deferred = number("deferred")?;
    check.defer_count = number("defer-count")?;
    check.requeued = number("requeued")?;
    check.running = table.map("running", Node::flag)?;
    check.in_ring = number("in-ring")?;
    check.limit_bytes = number("limit")?;
    (check.set, check.queue_set) = table.map("set", |node| bits(node, &check))?.unwrap_or_default();
    (check.clear, check.queue_clear) = table.map("clear", |node| bits(node, &check))?.unwrap_or_default();
    let both = (check.set.bits() & check.clear.bits()) | (check.queue_set.bits() & check.queue_clear.bits());
    if both != 0 {
        return Err(node.error("a bit cannot be both set and clear"));
    }
    if table.in_order().len() == 2 {
        return Err(node.error("nothing to look at; say what it must be"));
    }
    Ok((at(&table)?, Action::CheckTx(check)))
}

fn bits(node: &Node<'_>, check: &TxCheck) -> Result<(QdiscState, QueueBits)> {
    let mut known: Vec<&str> = Vec::new();
    known.extend(QDISC_BITS.iter().filter(|_| check.qdisc.is_some()).map(|(name, _)| *name));
    known.extend(QUEUE_BITS.iter().filter(|_| check.txq.is_some()).map(|(name, _)| *name));
    let (mut qdisc, mut queue) = (0, 0);
    let list = node.list("an array of bits such as [\"SCHED\"]")?;
    if list.is_empty() {
        return Err(node.wrong("at least one bit"));
    }
    for node in list {
        let name = node.word(|word| known.iter().find(|name| **name == word), &known)?;
        qdisc |= QDISC_BITS.iter().find(|(bit, _)| bit == name).map_or(0, |(_, bit)| bit.bits());
        queue |= QUEUE_BITS.iter().find(|(bit, _)| bit == name).map_or(0, |(_, bit)| bit.bits());
    }
    Ok((QdiscState::from_bits(qdisc), QueueBits::from_bits(queue)))
}

/// The word for a flusher's plan.
pub(crate) const fn plan_name(plan: FlushPlan) -> &'static str {
    match plan {
        FlushPlan::DropAll => "drop",
        FlushPlan::Bypass => "bypass",
        FlushPlan::Enqueue => "enqueue",
    }
}

/// The word for why a run ended.
pub(crate) const fn stop_name(why: RunStop) -> &'static str {
    match why {
        RunStop::Empty => "empty",
        RunStop::Stopped => "stopped",
        RunStop::NotBefore(_) => "not-before",
        RunStop::Busy => "busy",
        RunStop::Quota => "quota",
    }
}

/// A field of an event of the transmit side that other events do not have, or not with these words.
pub(super) fn field(kind: Kind, key: &str, node: &Node<'_>, names: Names<'_>) -> Result<Option<Pattern>> {
    let words = |all: Vec<&'static str>| {
        let find = |word: &str| all.iter().copied().find(|known| *known == word);
        node.word(find, &all).map(|word| Some(Pattern::Text(word.to_owned())))
    };
    let flag = || node.flag().map(|flag| Some(Pattern::Text(flag.to_string())));
    match (kind, key) {
        (Kind::Xmit, "to") => names.txq(node).map(|txq| Some(Pattern::Text(names.0.txq_name(txq)))),
        (Kind::Xmit, "code") => value(node).map(Some),
        (Kind::Push, "flusher") | (Kind::Transmit, "more") | (Kind::TxWake, "schedules") => flag(),
        (Kind::Flush, "plan") => {
            words([FlushPlan::DropAll, FlushPlan::Bypass, FlushPlan::Enqueue].map(plan_name).to_vec())
        }
        (Kind::TxRunEnd, "why") => {
            let later = RunStop::NotBefore(Instant::ZERO);
            words([RunStop::Empty, RunStop::Stopped, later, RunStop::Busy, RunStop::Quota].map(stop_name).to_vec())
        }
        (Kind::TxDrop, "why") => words(DropReason::ALL.map(DropReason::name).to_vec()),
        (Kind::TxStop | Kind::TxWake, "by") => words(StopBy::ALL.iter().map(|by| by.name()).collect()),
        _ => Ok(None),
    }
}

const QDISC_COUNTERS: [&str; 4] = ["packets", "bytes", "requeues", "dropped"];
const DEVICE_COUNTERS: [&str; 2] = ["tx_packets", "tx_dropped"];

/// True if there is such a counter.
pub(super) fn is_counter(of: &str, what: &str, names: Names<'_>) -> bool {
    (names.qdisc_names().iter().any(|name| name == of) && QDISC_COUNTERS.contains(&what))
        || (names.0.tx_queues().any(|(device, ..)| names.0.devices[device.at()].name == of)
            && DEVICE_COUNTERS.contains(&what))
        || (of == "tx_drops" && DropReason::ALL.into_iter().any(|reason| reason.name() == what))
}
