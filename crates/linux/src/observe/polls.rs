//! Polls of an interface, by who made them.
//!
//! A busy polling program makes some hundred thousand polls a second, so not each is read: the kernel counts all of them, and of
//! each processor those that its small buffer still has stand for the others.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::tracefs::{EventCounts, NAPI_POLL, TraceError, TraceEvent, Tracer};

/// Buffer of each processor: some thousand events.
const TRACE_KIB: u32 = 64;

/// Polls of a window.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Polls {
    /// In softirq, whatever thread that interrupted.
    pub softirq: u64,
    /// By threads themselves: of programs that busy poll, and of instances.
    pub threads: BTreeMap<u32, u64>,
    /// Packets that they took.
    pub work: u64,
    /// Instances that were polled. More than the interface has: interfaces of other namespaces have its name.
    pub instances: usize,
    /// The same of each of them.
    #[serde(skip)]
    pub each: Vec<InstancePolls>,
}

/// Polls of one instance.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct InstancePolls {
    /// In softirq.
    pub softirq: u64,
    /// By threads themselves.
    pub threads: BTreeMap<u32, u64>,
    /// Packets that they took.
    pub work: u64,
}

impl Polls {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.softirq + self.threads.values().sum::<u64>()
    }

    fn of(each: Vec<InstancePolls>) -> Self {
        let mut polls = Self { instances: each.len(), ..Self::default() };
        for one in &each {
            polls.softirq += one.softirq;
            polls.work += one.work;
            for (tid, count) in &one.threads {
                *polls.threads.entry(*tid).or_default() += count;
            }
        }
        polls.each = each;
        polls
    }

    /// Of instances alone that one of these threads has polled: a busy polling thread polls the instance of its own sockets, whatever else has the
    /// name of its interface.
    #[must_use]
    pub fn of_instances_of(&self, tids: &BTreeSet<u32>) -> Self {
        let is_theirs = |one: &&InstancePolls| one.threads.keys().any(|tid| tids.contains(tid));
        Self::of(self.each.iter().filter(is_theirs).cloned().collect())
    }

    /// Those that some threads made.
    #[must_use]
    pub fn by(&self, tids: &BTreeSet<u32>) -> u64 {
        self.threads.iter().filter(|(tid, _)| tids.contains(tid)).map(|(_, polls)| polls).sum()
    }
}

/// Traces polls, a window at a time.
#[derive(Debug)]
pub struct Polling {
    tracer: Tracer,
    filter: String,
    /// By what the kernel calls an instance.
    each: BTreeMap<String, InstancePolls>,
}

impl Polling {
    /// Of interfaces with this name. Nothing is traced yet.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn new(name: &str) -> Result<Self, TraceError> {
        let tracer = Tracer::new()?;
        tracer.buffer(TRACE_KIB)?;
        let filter = format!("dev_name == \"{name}\"");
        Ok(Self { tracer, filter, each: BTreeMap::new() })
    }

    /// Begins a window.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn begin(&mut self) -> Result<(), TraceError> {
        self.each.clear();
        self.tracer.clear()?;
        self.tracer.record(NAPI_POLL, Some(&self.filter))
    }

    /// Takes what was recorded since the last look.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn look(&mut self) -> Result<(), TraceError> {
        let counted = self.tracer.seen_by_cpu()?;
        let recorded = self.tracer.take()?;
        self.tracer.clear()?;
        self.add(&counted, &recorded.events);
        Ok(())
    }

    /// Ends the window.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn end(&mut self) -> Result<Polls, TraceError> {
        self.tracer.stop()?;
        Ok(Polls::of(std::mem::take(&mut self.each).into_values().collect()))
    }

    /// Events that a processor still had stand for all that it counted.
    fn add(&mut self, counted: &BTreeMap<u32, EventCounts>, events: &[TraceEvent]) {
        for (cpu, seen) in counted {
            let of_cpu = || events.iter().filter(|event| event.cpu == *cpu);
            let kept = of_cpu().count() as u64;
            if kept == 0 {
                continue;
            }
            // What came between the count and the look is in the look alone.
            let all = seen.total().max(kept);
            let scaled = |part: u64| (u128::from(part) * u128::from(all) / u128::from(kept)) as u64;
            let mut found: BTreeMap<&str, InstancePolls> = BTreeMap::new();
            for event in of_cpu() {
                let one = found.entry(event.field("struct").unwrap_or_default()).or_default();
                match event.in_softirq {
                    true => one.softirq += 1,
                    false => *one.threads.entry(event.tid).or_default() += 1,
                }
                one.work += event.field("work").and_then(|work| work.parse().ok()).unwrap_or(0);
            }
            for (name, one) in found {
                let all = self.each.entry(name.to_owned()).or_default();
                all.softirq += scaled(one.softirq);
                all.work += scaled(one.work);
                for (tid, polls) in one.threads {
                    *all.threads.entry(tid).or_default() += scaled(polls);
                }
            }
        }
    }
}
