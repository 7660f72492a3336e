//! Events and expectations in the words of the file.

use std::fmt::Write;

use napier_core::time::{Instant, Span};

use crate::parse::transmit::{plan_name, stop_name};
use crate::{Answer, Event, Expected, GroupEvent, Kind, Machine, Pattern, Range, Seen, SocketIx, TxEvent};
use napier_core::tx::XmitCode;

/// What a field of an event holds.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Number(i64),
    Text(String),
    Span(Span),
    Names(Vec<String>),
    Attributes(Vec<(String, String)>),
}

/// An event as fields by name; the first is what it is about.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Facts {
    pub(super) at: Instant,
    pub(super) kind: Kind,
    pub(super) fields: Vec<(&'static str, Value)>,
}

impl Facts {
    pub(super) fn new(seen: &Seen, machine: &Machine) -> Self {
        Self { at: seen.at, kind: seen.event.kind(), fields: fields(&seen.event, machine) }
    }

    pub(super) fn field(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// As a line without its time.
    pub(super) fn line(&self) -> String {
        line(self.kind, self.fields.iter().map(|(name, value)| (*name, value.show())))
    }
}

/// An expectation as a line without its time.
pub(super) fn expected_line(expected: &Expected) -> String {
    let fields = expected.fields.iter().map(|(name, pattern)| (name.as_str(), pattern.show()));
    let mut text = line(expected.kind, fields);
    if expected.repeat != Range::exactly(1) {
        write!(text, " repeat={}", show_range(expected.repeat)).expect("a string takes everything");
    }
    text
}

fn line<'a>(kind: Kind, mut fields: impl Iterator<Item = (&'a str, String)>) -> String {
    let mut text = kind.name().to_owned();
    if let Some((_, subject)) = fields.next() {
        write!(text, " {subject}").expect("a string takes everything");
    }
    for (name, value) in fields {
        write!(text, " {name}={value}").expect("a string takes everything");
    }
    text
}

/// A time in ms to the microsecond, as the columns have it.
pub(super) fn show_at(at: Instant) -> String {
    format!("{}.{:03}ms", at.ns / 1_000_000, at.ns / 1_000 % 1_000)
}

fn fields(event: &Event, machine: &Machine) -> Vec<(&'static str, Value)> {
    let napi = |napi| ("napi", Value::Text(machine.napi_name(napi)));
    let cpu = |cpu: crate::CpuIx| ("cpu", Value::Number(i64::from(cpu.0)));
    let number = |name, number: u32| (name, Value::Number(i64::from(number)));
    let word = |name, word: &str| (name, Value::Text(word.to_owned()));
    let flag = |name, flag: bool| (name, Value::Text(flag.to_string()));
    let socket_name = |socket: &SocketIx| machine.sockets[socket.at()].name.clone();
    let thread = |thread: crate::ThreadIx| word("thread", &machine.threads[thread.at()].name);
    match event {
        Event::Poll { napi: of, context, cpu: on, work, budget } => {
            vec![napi(*of), word("in", context.name()), number("work", *work), number("budget", *budget), cpu(*on)]
        }
        Event::TimerStart { napi: of, after, cpu: on } => vec![napi(*of), ("after", Value::Span(*after)), cpu(*on)],
        Event::TimerFire { napi: of, cpu: on } => vec![napi(*of), cpu(*on)],
        Event::TimerCancel { napi: of }
        | Event::Mask { napi: of }
        | Event::Unmask { napi: of }
        | Event::KthreadStart { napi: of }
        | Event::KthreadStop { napi: of } => vec![napi(*of)],
        Event::Complete { napi: of, unmask } => vec![napi(*of), flag("unmask", *unmask)],
        Event::Schedule { napi: of, took } => vec![napi(*of), flag("took", *took)],
        Event::List { napi: of, packets } => vec![napi(*of), number("packets", *packets)],
        Event::Deliver { socket, packets } => {
            vec![word("socket", &socket_name(socket)), number("packets", *packets)]
        }
        Event::Drop { napi: of, why, packets } => {
            vec![napi(*of), word("why", why.name()), number("packets", *packets)]
        }
        Event::Return { thread: who, call, answer, ready } => {
            let mut fields = vec![thread(*who), word("call", call), ("value", Value::of(answer))];
            if !ready.is_empty() {
                fields.push(("ready", Value::Names(ready.iter().map(socket_name).collect())));
            }
            fields
        }
        Event::Sleep { thread: who } => vec![thread(*who)],
        Event::Raise { cpu: on } | Event::Squeeze { cpu: on } | Event::Ksoftirqd { cpu: on } => vec![cpu(*on)],
        Event::RunEnd { cpu: on, left } => {
            let left = left.iter().map(|napi| machine.napi_name(*napi)).collect();
            vec![cpu(*on), ("left", Value::Names(left))]
        }
        Event::CheckFailed { line, expected, seen } => {
            vec![number("line", *line), word("expected", expected), word("seen", seen)]
        }
        Event::Tx(event) => tx_fields(event, machine),
        Event::Group(GroupEvent::Park { cpu: on } | GroupEvent::Wake { cpu: on }) => vec![cpu(*on)],
        Event::Group(GroupEvent::Move { napi: of, to }) => vec![napi(*of), number("to", to.0.into())],
    }
}

fn tx_fields(event: &TxEvent, machine: &Machine) -> Vec<(&'static str, Value)> {
    let qdisc = |qdisc| ("qdisc", Value::Text(machine.qdisc_name(qdisc)));
    let txq = |txq| ("txq", Value::Text(machine.txq_name(txq)));
    let cpu = |cpu: crate::CpuIx| ("cpu", Value::Number(i64::from(cpu.0)));
    let number = |name, number: u32| (name, Value::Number(i64::from(number)));
    let word = |name, word: &str| (name, Value::Text(word.to_owned()));
    let flag = |name, flag: bool| (name, Value::Text(flag.to_string()));
    match event {
        TxEvent::Xmit { thread, to, code } => {
            let code = match code {
                XmitCode::Error(errno) => word("code", errno.name()),
                XmitCode::Success | XmitCode::Drop | XmitCode::Congested => {
                    ("code", Value::Number(code.number().into()))
                }
            };
            let thread = word("thread", &machine.threads[thread.at()].name);
            vec![thread, ("to", Value::Text(machine.txq_name(*to))), code]
        }
        TxEvent::Push { qdisc: of, flusher } => vec![qdisc(*of), flag("flusher", *flusher)],
        TxEvent::Flush { qdisc: of, packets, plan } => {
            vec![qdisc(*of), number("packets", *packets), word("plan", plan_name(*plan))]
        }
        TxEvent::Run { qdisc: of, context, cpu: on } => vec![qdisc(*of), word("in", context.name()), cpu(*on)],
        TxEvent::RunEnd { qdisc: of, why, packets } => {
            vec![qdisc(*of), word("why", stop_name(*why)), number("packets", *packets)]
        }
        TxEvent::Transmit { txq: of, flow, more, cpu: on } => {
            vec![txq(*of), number("flow", *flow), flag("more", *more), cpu(*on)]
        }
        TxEvent::Requeue { qdisc: of, packets } => vec![qdisc(*of), number("packets", *packets)],
        TxEvent::Schedule { qdisc: of, took, cpu: on } => vec![qdisc(*of), flag("took", *took), cpu(*on)],
        TxEvent::Drop { qdisc: of, why, packets } => {
            vec![qdisc(*of), word("why", why.name()), number("packets", *packets)]
        }
        TxEvent::Stop { txq: of, by } => vec![txq(*of), word("by", by.name())],
        TxEvent::Wake { txq: of, by, schedules } => {
            vec![txq(*of), word("by", by.name()), flag("schedules", *schedules)]
        }
        TxEvent::Complete { txq: of, packets, bytes } => {
            vec![txq(*of), number("packets", *packets), number("bytes", *bytes)]
        }
        TxEvent::WatchdogStart { qdisc: of, after } => vec![qdisc(*of), ("after", Value::Span(*after))],
        TxEvent::WatchdogFire { qdisc: of, cpu: on } => vec![qdisc(*of), cpu(*on)],
    }
}

impl Value {
    fn of(answer: &Answer) -> Self {
        match answer {
            Answer::Number(number) => Self::Number(*number),
            Answer::Error(errno) => Self::Text(errno.name().to_owned()),
            // A file ends with a newline that no expectation has.
            Answer::Text(text) => Self::Text(text.trim_end_matches('\n').to_owned()),
            Answer::Names(names) => Self::Names(names.clone()),
            Answer::Attributes(attributes) => Self::Attributes(attributes.clone()),
        }
    }

    pub(super) fn show(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => show_text(text),
            Self::Span(span) => crate::parse::duration::format(span.ns),
            Self::Names(names) => show_names(names),
            Self::Attributes(attributes) => show_attributes(attributes),
        }
    }
}

impl Pattern {
    pub(super) fn show(&self) -> String {
        match self {
            Self::Number(range) => show_range(*range),
            Self::Text(text) => show_text(text),
            Self::Span(span) => crate::parse::duration::format(span.ns),
            Self::Names(names) => show_names(names),
            Self::Attributes(attributes) => show_attributes(attributes),
        }
    }

    /// True if what was seen is what is asked for. A field that an event does not have is an empty list, if lists are
    /// what is asked for, and else nothing that fits.
    pub(super) fn fits(&self, value: Option<&Value>) -> bool {
        match (self, value) {
            (Self::Number(range), Some(Value::Number(number))) => range.contains(*number),
            (Self::Text(text), Some(Value::Text(seen))) => text.trim_end_matches('\n') == seen,
            (Self::Span(span), Some(Value::Span(seen))) => span == seen,
            (Self::Names(names), Some(Value::Names(seen))) => names == seen,
            (Self::Names(names), None) => names.is_empty(),
            (Self::Attributes(wanted), Some(Value::Attributes(seen))) => wanted.iter().all(|(name, value)| {
                let seen = seen.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
                match (value.as_str(), seen) {
                    // An attribute that is there and reads `none` is as good as one that is not there.
                    ("none", seen) => seen.is_none_or(|seen| seen == "none"),
                    ("some", seen) => seen.is_some_and(|seen| seen != "none"),
                    (value, seen) => seen == Some(value),
                }
            }),
            _ => false,
        }
    }
}

fn show_range(range: Range) -> String {
    if range.min == range.max { range.min.to_string() } else { format!("{}..{}", range.min, range.max) }
}

fn show_text(text: &str) -> String {
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"') {
        format!("{text:?}")
    } else {
        text.to_owned()
    }
}

fn show_names(names: &[String]) -> String {
    format!("[{}]", names.join(", "))
}

fn show_attributes(attributes: &[(String, String)]) -> String {
    let each = attributes.iter().map(|(name, value)| format!("{name}={}", show_text(value)));
    format!("{{ {} }}", each.collect::<Vec<_>>().join(", "))
}
