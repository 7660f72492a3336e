//! What is wrong with how a machine is set, from [`Facts`] alone: no function here reads or changes anything.
//!
//! A [`Finding`] says what is there, why it matters, and how to mend it: lines of [`crate::change`], which can be applied and
//! taken back, or words where no line can do it. Each has a page in `docs/doctor`.

mod alike;
mod classes;
mod deferral;
mod device;
mod kept;
mod looked;
mod lost;
mod machine;
mod pair;
mod placement;
mod polled;
mod program;
mod reached;
mod spread;
mod stacked;
#[cfg(test)]
mod tests;
mod timeouts;

use serde::Serialize;

use crate::change::{Key, Line, NapiAttribute, NapiKey};
use crate::facts::{DeviceFacts, Facts, Instance};
pub use looked::{looked_at, not_asked};

/// How much a finding weighs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Costs latency or processor time, or will.
    Warning,
    /// What is set is not in force, or does harm.
    Serious,
}

impl Severity {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Serious => "serious",
        }
    }
}

/// One thing that is wrong, or worth knowing.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Finding {
    /// One of [`IDS`].
    pub id: &'static str,
    /// Its weight.
    pub severity: Severity,
    /// The interface that it is about.
    pub device: Option<String>,
    /// Other interfaces of which the same is true.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// What is there.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// What mends it.
    pub mend: Vec<Line>,
    /// What to do where no line can do it, or what the lines leave to decide.
    pub advice: Option<String>,
}

/// All findings that there are. Each has a page `docs/doctor/ID.md`.
pub const IDS: &[&str] = &[
    "suspension-without-deferral",
    "prefer-without-deferral",
    "nothing-polls",
    "epoll-behind-another",
    "connections-without-instance",
    "lro-hides-instances",
    "suspension-not-used",
    "epoll-of-busy-sockets",
    "program-does-not-poll",
    "threads-do-not-poll",
    "epoll-mixes-instances",
    "no-instance",
    "driver-without-ids",
    "one-cpu",
    "busy-poll-with-suspension",
    "ring-not-polled",
    "prefer-on-loopback",
    "program-over-napi-threads",
    "program-in-idle-class",
    "small-budget",
    "ksoftirqd-polls",
    "queues-on-one-cpu",
    "timeout-too-long",
    "packets-lost",
    "flush-above-suspend",
    "flush-without-defer",
    "defer-without-timeout",
    "coalescing-hides-deferral",
    "threaded-lost",
    "settings-not-kept",
    "numa-apart",
    "queues-and-workers",
    "rps-in-the-way",
    "isolated-cpus",
    "softirq-budget",
    "irqbalance",
    "interface-down",
    "governor",
    "deep-idle",
    "kernel-too-old",
    "capabilities-missing",
    "instance-hides-sysfs",
    "queues-without-ids",
    "xsk-copies",
    "smt-active",
    "instances-below",
    "busy-poll-for-all",
];

/// What is wrong, the weightiest first.
#[must_use]
pub fn diagnose(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    deferral::check(facts, &mut found);
    kept::check(facts, &mut found);
    program::check(facts, &mut found);
    reached::check(facts, &mut found);
    polled::check(facts, &mut found);
    classes::check(facts, &mut found);
    device::check(facts, &mut found);
    placement::check(facts, &mut found);
    spread::check(facts, &mut found);
    timeouts::check(facts, &mut found);
    lost::check(facts, &mut found);
    machine::check(facts, &mut found);
    let mut found = alike::merge(found);
    let rank = |id| IDS.iter().position(|known| *known == id);
    found.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), rank(finding.id)));
    found
}

impl Finding {
    fn new(id: &'static str, severity: Severity, what: impl Into<String>, why: impl Into<String>) -> Self {
        assert!(IDS.contains(&id), "{id} is not in the list");
        let (what, why) = (what.into(), why.into());
        Self { id, severity, device: None, also: Vec::new(), what, why, mend: Vec::new(), advice: None }
    }

    fn of(mut self, device: &DeviceFacts) -> Self {
        self.device = Some(device.name().to_owned());
        self
    }

    fn mend(mut self, lines: impl IntoIterator<Item = Line>) -> Self {
        self.mend.extend(lines);
        self
    }

    fn advice(mut self, words: impl Into<String>) -> Self {
        self.advice = Some(words.into());
        self
    }

    /// All interfaces that it is about.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.device.iter().chain(&self.also).map(String::as_str)
    }

    /// Its page.
    #[must_use]
    pub fn page(&self) -> String {
        format!("docs/doctor/{}.md", self.id)
    }
}

/// An attribute of an instance.
fn napi(device: &DeviceFacts, instance: &Instance, attribute: NapiAttribute, value: impl ToString) -> Line {
    let key = Key::Napi(NapiKey {
        device: device.device.clone(),
        id: instance.id,
        place: instance.place,
        queue: None,
        attribute,
    });
    Line::new(key, value.to_string())
}

/// A file of an interface.
fn file(device: &DeviceFacts, file: impl Into<String>, value: impl ToString) -> Line {
    Line::new(Key::device_file(&device.device, file), value.to_string())
}

/// `NAPI instance 5 of eth0`, `NAPI instances 5, 6 and 62 more of eth0`.
fn instances_of(device: &DeviceFacts, instances: &[&Instance]) -> String {
    let ids: Vec<String> = instances.iter().map(|instance| instance.id.to_string()).collect();
    let word = if ids.len() == 1 { "NAPI instance" } else { "NAPI instances" };
    format!("{word} {} of {}", some(&ids), device.name())
}

/// The first few of many.
fn some(all: &[String]) -> String {
    const SHOWN: usize = 6;
    match all {
        [] => String::new(),
        [one] => one.clone(),
        _ if all.len() > SHOWN => format!("{} and {} more", all[..SHOWN].join(", "), all.len() - SHOWN),
        [front @ .., last] => format!("{} and {last}", front.join(", ")),
    }
}

/// A time as people write it.
fn time(ns: u64) -> String {
    match ns {
        0 => "0".to_owned(),
        ns if ns % 1_000_000_000 == 0 => format!("{} s", ns / 1_000_000_000),
        ns if ns % 1_000_000 == 0 => format!("{} ms", ns / 1_000_000),
        ns if ns % 1000 == 0 => format!("{} µs", ns / 1000),
        ns => format!("{ns} ns"),
    }
}

/// Deferral is in force: both its values are set.
fn defers(instance: &Instance) -> bool {
    instance.defer_hard_irqs > Some(0) && instance.gro_flush_timeout_ns > Some(0)
}

/// Deferral as the documents on interrupt suspension set it.
const DEFER_COUNT: u32 = 100;
const FLUSH_NS: u64 = 20_000;
const SUSPEND_NS: u64 = 20_000_000;

/// What deferral lacks, filled up.
fn deferral_lines(device: &DeviceFacts, instance: &Instance) -> Vec<Line> {
    let mut lines = Vec::new();
    // What a kernel does not show cannot be set either.
    if instance.defer_hard_irqs == Some(0) {
        lines.push(napi(device, instance, NapiAttribute::DeferHardIrqs, DEFER_COUNT));
    }
    if instance.gro_flush_timeout_ns == Some(0) {
        lines.push(napi(device, instance, NapiAttribute::GroFlushTimeout, FLUSH_NS));
    }
    lines
}
