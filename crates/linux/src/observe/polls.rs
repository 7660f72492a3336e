//! Polls of an interface, by who made them.
//!
//! A busy polling program makes some hundred thousand polls a second, so not each is read: the kernel counts all of them, and of
//! each processor those that its small buffer still has stand for the others.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::instance_ids::InstanceIds;
use super::threads::name_of;
use crate::tracefs::{EventCounts, NAPI_POLL, TraceError, TraceEvent, Tracer};

/// Buffer of each processor: some thousand events.
const TRACE_KIB: u32 = 64;
/// A CPU that had nothing to do when a softirq came, as the kernel's text has it, and as it is told.
const IDLE: (&str, &str) = ("<idle>", "an idle CPU");
/// A thread whose name the kernel has not kept.
const UNNAMED: &str = "<...>";
/// With fewer packets among what was read nothing is said of all.
const PACKETS_SHOWN: u64 = 20;
/// Names of threads that are kept apart; polls of others have none.
const NAMES_MAX: usize = 256;

/// The former name, for one version.
#[deprecated(note = "they are `Polls`")]
pub type InstancePolls = Polls;

/// Polls of a window, or of one instance in it.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Polls {
    /// In softirq, whatever thread that interrupted.
    pub softirq: u64,
    /// Of these, by the threads that softirqs are left to.
    pub ksoftirqd: u64,
    /// Of these, the others, by the name of the thread that was interrupted.
    pub interrupted: BTreeMap<String, u64>,
    /// By threads themselves: of programs that busy poll, and of instances.
    pub threads: BTreeMap<u32, u64>,
    /// The names of these.
    #[serde(skip)]
    pub names: BTreeMap<u32, String>,
    /// Polls of each instance, by its id and by who made them, where that was asked for; of those whose id is not known yet by 0.
    #[serde(skip)]
    pub of_instances: BTreeMap<u32, BTreeMap<Who, u64>>,
    /// Packets that they took.
    pub work: u64,
    /// How many polls were read, which stand for all; 0: each of them was.
    #[serde(skip)]
    pub read: u64,
    /// Instances that were polled. More than the interface has: interfaces of other namespaces have its name.
    pub instances: usize,
    /// The counts of each of them.
    #[serde(skip)]
    pub each: Vec<Polls>,
}

/// Who made a poll.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Who {
    /// A softirq, in the time of whatever it interrupted.
    Softirq,
    /// A thread that softirqs were left to.
    Ksoftirqd,
    /// A thread of an instance.
    NapiThread,
    /// A thread of a program, by its name.
    Program(String),
}

impl Who {
    fn of(event: &TraceEvent, name: &str) -> Self {
        match event.in_softirq {
            true if name.starts_with("ksoftirqd/") => Self::Ksoftirqd,
            true => Self::Softirq,
            false if name.starts_with("napi/") => Self::NapiThread,
            false => Self::Program(name.to_owned()),
        }
    }

    /// Its kind, in a word.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Softirq => "softirq",
            Self::Ksoftirqd => "ksoftirqd",
            Self::NapiThread => "napi-thread",
            Self::Program(_) => "program",
        }
    }

    /// The program's name; empty for what is none.
    #[must_use]
    pub fn program(&self) -> &str {
        match self {
            Self::Program(name) => name,
            Self::Softirq | Self::Ksoftirqd | Self::NapiThread => "",
        }
    }
}

impl Polls {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.softirq + self.threads.values().sum::<u64>()
    }

    /// Whether so many packets would be among the polls that were read: of a thread that polls for ever a few stand for very many.
    #[must_use]
    pub fn would_show(&self, packets: u64) -> bool {
        self.read == 0
            || u128::from(packets) * u128::from(self.read) >= u128::from(PACKETS_SHOWN) * u128::from(self.total())
    }

    /// So many more.
    fn count(&mut self, who: &Who, tid: u32, name: &str, polls: u64) {
        match who {
            Who::Softirq => {
                self.softirq += polls;
                *self.interrupted.entry(name.to_owned()).or_default() += polls;
            }
            Who::Ksoftirqd => {
                self.softirq += polls;
                self.ksoftirqd += polls;
            }
            Who::NapiThread | Who::Program(_) => *self.threads.entry(tid).or_default() += polls,
        }
    }

    fn of(each: Vec<Self>) -> Self {
        let mut polls = Self { instances: each.len(), ..Self::default() };
        for one in &each {
            polls.softirq += one.softirq;
            polls.ksoftirqd += one.ksoftirqd;
            polls.work += one.work;
            one.interrupted
                .iter()
                .for_each(|(name, count)| *polls.interrupted.entry(name.clone()).or_default() += count);
            one.threads.iter().for_each(|(tid, count)| *polls.threads.entry(*tid).or_default() += count);
        }
        polls.each = each;
        polls
    }

    /// Of instances alone that one of these threads has polled: a busy polling thread polls the instance of its own sockets, whatever else has the
    /// name of its interface.
    #[must_use]
    pub fn of_instances_of(&self, tids: &BTreeSet<u32>) -> Self {
        let is_theirs = |one: &&Self| one.threads.keys().any(|tid| tids.contains(tid));
        let own = self.each.iter().filter(is_theirs).cloned().collect();
        let (names, of_instances) = (self.names.clone(), self.of_instances.clone());
        Self { names, of_instances, read: self.read, ..Self::of(own) }
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
    polls: Polls,
    /// Events of each processor that are told already, since the window was opened.
    told: BTreeMap<u32, u64>,
    /// By what the kernel calls an instance.
    each: BTreeMap<String, Polls>,
    /// Which instance is which, where polls are to be told apart by that.
    ids: Option<InstanceIds>,
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
        Ok(Self { tracer, filter, polls: Polls::default(), told: BTreeMap::new(), each: BTreeMap::new(), ids: None })
    }

    /// The same, and polls are told by instance too ([`Polls::of_instances`]).
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn by_instance(name: &str) -> Result<Self, TraceError> {
        Ok(Self { ids: Some(InstanceIds::new(name)?), ..Self::new(name)? })
    }

    /// Begins a window.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn begin(&mut self) -> Result<(), TraceError> {
        (self.polls, self.told, self.each) = Default::default();
        if let Some(ids) = &mut self.ids {
            ids.begin()?;
        }
        self.tracer.clear()?;
        self.tracer.record(NAPI_POLL, Some(&self.filter))
    }

    /// Takes what was recorded since the last look.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn look(&mut self) -> Result<(), TraceError> {
        let counted = self.tracer.seen_by_cpu()?;
        // What comes from here on is for the next look: a machine that is slow or busy would lose much of it if the buffer were emptied.
        let recorded = self.tracer.take_of(counted.values().map(|seen| seen.kept).sum())?;
        if let Some(ids) = &mut self.ids {
            ids.look(&recorded.events)?;
        }
        self.add(&counted, &recorded.events);
        Ok(())
    }

    /// What was found since the window was opened, as of the last look.
    #[must_use]
    pub const fn so_far(&self) -> &Polls {
        &self.polls
    }

    /// Ends the window.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn end(&mut self) -> Result<Polls, TraceError> {
        self.tracer.stop()?;
        self.polls.instances = self.each.len();
        self.polls.each = std::mem::take(&mut self.each).into_values().collect();
        Ok(std::mem::take(&mut self.polls))
    }

    /// Events that a processor still had stand for all that it counted.
    fn add(&mut self, counted: &BTreeMap<u32, EventCounts>, events: &[TraceEvent]) {
        for (cpu, seen) in counted {
            let own: Vec<&TraceEvent> = events.iter().filter(|event| event.cpu == *cpu).collect();
            let kept = own.len() as u64;
            if kept == 0 {
                continue;
            }
            self.polls.read += kept;
            // What came between the count and the look is in the look alone, and in the next count.
            let told = self.told.entry(*cpu).or_default();
            let all = seen.ever().saturating_sub(*told).max(kept);
            *told += all;
            let scaled = |part: u64| (u128::from(part) * u128::from(all) / u128::from(kept)) as u64;
            self.add_of_cpu(&own, &scaled);
        }
    }

    fn add_of_cpu(&mut self, events: &[&TraceEvent], scaled: &dyn Fn(u64) -> u64) {
        let mut seen: BTreeMap<(Who, u32, String, &str), u64> = BTreeMap::new();
        let mut work: BTreeMap<&str, u64> = BTreeMap::new();
        for event in events {
            let name = self.polls.name_of(event);
            let tid = if event.in_softirq { 0 } else { event.tid };
            let instance = event.field("struct").unwrap_or_default();
            *seen.entry((Who::of(event, &name), tid, name, instance)).or_default() += 1;
            *work.entry(instance).or_default() += event.field("work").and_then(|work| work.parse().ok()).unwrap_or(0);
        }
        for (instance, work) in work {
            self.polls.work += scaled(work);
            self.each.entry(instance.to_owned()).or_default().work += scaled(work);
        }
        for ((who, tid, name, instance), polls) in seen {
            let polls = scaled(polls);
            for counts in [&mut self.polls, self.each.entry(instance.to_owned()).or_default()] {
                counts.count(&who, tid, &name, polls);
            }
            if let Some(ids) = &self.ids {
                *self.polls.of_instances.entry(ids.of(instance)).or_default().entry(who).or_default() += polls;
            }
        }
    }
}

impl Polls {
    /// The name of an event's thread. Of very many threads the first ones have names.
    fn name_of(&mut self, event: &TraceEvent) -> String {
        if event.thread == IDLE.0 {
            return IDLE.1.to_owned();
        }
        if event.thread != UNNAMED && event.in_softirq {
            let is_kept = self.interrupted.contains_key(&event.thread) || self.interrupted.len() < NAMES_MAX;
            return if is_kept { event.thread.clone() } else { "others".to_owned() };
        }
        if let Some(known) = self.names.get(&event.tid) {
            return known.clone();
        }
        let told = (event.thread != UNNAMED).then(|| event.thread.clone());
        let name = told.or_else(|| name_of(event.tid)).unwrap_or_else(|| "a thread that has ended".to_owned());
        if !event.in_softirq && self.names.len() < NAMES_MAX {
            self.names.insert(event.tid, name.clone());
        }
        name
    }
}

#[cfg(test)]
#[path = "polls_tests.rs"]
mod tests;
