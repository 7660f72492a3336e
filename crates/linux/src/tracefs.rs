//! Static tracepoints of the kernel, in an instance of our own (`tracefs`): what happened, in order.
//!
//! An instance has its own buffers and switches, so no other tracing is touched. It is removed when its owner goes; what
//! a killed owner left is removed by the next one. Source: `Documentation/trace/ftrace.rst`, section "Instances".

mod format;
mod instance;
mod page;
mod pipes;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, Mode, OFlags};

pub use format::{EventFormat, Field};
pub use instance::remove_left;
use instance::{made, remove_orphans, root};
pub use pipes::{RawEvent, RawPipes};

/// The former name, for one version.
#[deprecated(note = "it is `EventCounts`")]
pub type Seen = EventCounts;

/// Why nothing can be traced.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// No permission.
    #[error("tracing the kernel needs root (CAP_SYS_ADMIN): {0}")]
    Denied(io::Error),
    /// This kernel has no such file, tracepoint or trigger.
    #[error("this kernel has no {what}: {error}")]
    NotHere {
        /// What is missing.
        what: String,
        /// As the system says it.
        error: io::Error,
    },
    /// Something else.
    #[error("tracing the kernel: {0}")]
    Io(#[from] io::Error),
}

impl TraceError {
    /// Whether a capability or a kernel feature is missing, rather than something being wrong.
    #[must_use]
    pub fn is_privilege(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::NotHere { .. })
    }
}

/// A tracepoint: its system and its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Tracepoint(pub &'static str, pub &'static str);

/// `trace_napi_poll`: device, work, budget. Source: `include/trace/events/napi.h`.
pub const NAPI_POLL: Tracepoint = Tracepoint("napi", "napi_poll");

/// `trace_hrtimer_expire_entry`: timer, function, now. Source: `include/trace/events/timer.h`.
pub const HRTIMER_EXPIRE: Tracepoint = Tracepoint("timer", "hrtimer_expire_entry");

/// An instance of tracefs.
#[derive(Debug)]
pub struct Tracer {
    root: OwnedFd,
    name: String,
    enabled: Vec<Tracepoint>,
    /// Its folder, locked as long as its owner lives.
    _lock: OwnedFd,
}

impl Tracer {
    /// Makes an instance with the clock of `CLOCK_MONOTONIC`. Nothing is traced yet.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn new() -> Result<Self, TraceError> {
        let root = root()?;
        remove_orphans(&root);
        let (name, lock) = made(&root)?;
        let tracer = Self { root, name, enabled: Vec::new(), _lock: lock };
        tracer.write("trace_clock", "mono")?;
        Ok(tracer)
    }

    /// Bytes of the buffer of each processor.
    ///
    /// # Errors
    /// There is not so much memory.
    pub fn buffer(&self, kib: u32) -> Result<(), TraceError> {
        self.write("buffer_size_kb", &kib.to_string())
    }

    /// Records a tracepoint from here on; with a filter (`Documentation/trace/events.rst`, section 5) only what it lets through.
    ///
    /// # Errors
    /// [`TraceError::NotHere`] for a tracepoint that this kernel has not, or a filter on a field that it has not.
    pub fn record(&mut self, event: Tracepoint, filter: Option<&str>) -> Result<(), TraceError> {
        if filter.is_some() {
            self.filter(event, filter)?;
        }
        self.write(&event.file("enable"), "1")?;
        self.enabled.push(event);
        Ok(())
    }

    /// Lets only some events of a tracepoint through from here on, or all.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn filter(&self, event: Tracepoint, filter: Option<&str>) -> Result<(), TraceError> {
        self.write(&event.file("filter"), filter.unwrap_or("0"))
    }

    /// Lets what is recorded into the buffer, or not: tracepoints stay on, so this takes one system call and no time.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn keep(&self, on: bool) -> Result<(), TraceError> {
        self.write("tracing_on", if on { "1" } else { "0" })
    }

    /// Records nothing from here on.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn stop(&mut self) -> Result<(), TraceError> {
        self.enabled
            .drain(..)
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|event| self.write(&event.file("enable"), "0"))
    }

    /// Empties the buffer, and forgets what was counted.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn clear(&self) -> Result<(), TraceError> {
        self.open("trace", OFlags::WRONLY | OFlags::TRUNC).map(drop)
    }

    /// How many events there were since the last [`clear`](Self::clear), whether or not the buffer held all of them; none taken
    /// meanwhile. Source: `kernel/trace/trace.c tracing_stats_read`.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn seen(&self) -> Result<EventCounts, TraceError> {
        let mut all = EventCounts::default();
        for seen in self.seen_by_cpu()?.values() {
            all.kept += seen.kept;
            all.overrun += seen.overrun;
            all.taken += seen.taken;
        }
        Ok(all)
    }

    /// The same of each processor.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn seen_by_cpu(&self) -> Result<BTreeMap<u32, EventCounts>, TraceError> {
        let opened = self.open("per_cpu", OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut all = BTreeMap::new();
        for entry in Dir::new(OwnedFd::from(opened)).map_err(io::Error::from)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(cpu) = name.strip_prefix("cpu").and_then(|cpu| cpu.parse().ok()) else { continue };
            let mut seen = EventCounts::default();
            seen.add(&self.read(&format!("per_cpu/{name}/stats"))?);
            all.insert(cpu, seen);
        }
        Ok(all)
    }

    /// Writes to a file of the instance.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn write(&self, file: &str, value: &str) -> Result<(), TraceError> {
        let mut opened = self.open(file, OFlags::WRONLY)?;
        opened.write_all(value.as_bytes()).map_err(|error| of(error, &format!("{file} = {value}")))
    }

    /// Reads a file of the instance.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn read(&self, file: &str) -> Result<String, TraceError> {
        let mut text = String::new();
        self.open(file, OFlags::RDONLY)?.read_to_string(&mut text)?;
        Ok(text)
    }

    fn open(&self, file: &str, flags: OFlags) -> Result<File, TraceError> {
        let path = format!("{}/{file}", self.name);
        let opened = rustix::fs::openat(&self.root, path.as_str(), flags | OFlags::CLOEXEC, Mode::empty());
        opened.map(File::from).map_err(|error| of(error.into(), file))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // An instance with an open pipe or a trigger cannot be removed.
        for event in std::mem::take(&mut self.enabled) {
            let _ = self.write(&event.file("enable"), "0");
        }
        let _ = rustix::fs::unlinkat(&self.root, self.name.as_str(), AtFlags::REMOVEDIR);
    }
}

impl Tracepoint {
    fn file(self, file: &str) -> String {
        format!("events/{}/{}/{file}", self.0, self.1)
    }
}

/// How many events there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventCounts {
    /// Those that the buffer still has.
    pub kept: u64,
    /// Those that others have taken the place of, or that found no place.
    pub overrun: u64,
    /// Those that were taken.
    pub taken: u64,
}

impl EventCounts {
    /// All of them, if none was taken.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.kept + self.overrun
    }

    /// All that there ever were since they are counted.
    #[must_use]
    pub fn ever(&self) -> u64 {
        self.total() + self.taken
    }

    /// Adds what a processor's `stats` say.
    fn add(&mut self, stats: &str) {
        for line in stats.lines() {
            let Some((name, count)) = line.split_once(": ") else { continue };
            let count = count.trim().parse().unwrap_or(0);
            match name {
                "entries" => self.kept += count,
                "overrun" | "commit overrun" | "dropped events" => self.overrun += count,
                "read events" => self.taken += count,
                _ => {}
            }
        }
    }
}

/// One event that was recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceEvent {
    /// Processor.
    pub cpu: u32,
    /// Thread that was interrupted, or that did it.
    pub tid: u32,
    /// Its name.
    pub thread: String,
    /// `CLOCK_MONOTONIC`, in us, as exact as the kernel prints it.
    pub at_us: u64,
    /// It happened in a softirq, or in an interrupt of one.
    pub in_softirq: bool,
    /// Name of the tracepoint.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// What was taken out of an instance.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recorded {
    /// In order of time on each processor.
    pub events: Vec<TraceEvent>,
    /// Events that found the buffer full.
    pub lost: u64,
}

impl Recorded {
    /// What a kernel's text says, for tests.
    #[cfg(test)]
    pub(crate) fn of(text: &str) -> Self {
        Self::parse(text)
    }

    fn parse(text: &str) -> Self {
        let mut recorded = Self::default();
        for line in text.lines() {
            // `CPU:1 [LOST 12 EVENTS]`
            if let Some((_, lost)) = line.split_once("[LOST ") {
                recorded.lost += lost.split_whitespace().next().and_then(|count| count.parse().ok()).unwrap_or(1);
            } else {
                recorded.events.extend(TraceEvent::parse(line));
            }
        }
        recorded
    }
}

impl TraceEvent {
    /// `  <idle>-0       [001] ..s1.   123.456789: napi_poll: napi poll on ...`; a thread's name may hold anything.
    fn parse(line: &str) -> Option<Self> {
        let at = line.match_indices(" [").map(|(at, _)| at).find(|at| {
            let cpu = line[at + 2..].split(']').next().unwrap_or_default();
            !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit())
        })?;
        let (thread, rest) = line.split_at(at);
        let (thread, tid) = thread.trim().rsplit_once('-')?;
        let (cpu, rest) = rest[2..].split_once(']')?;
        let (flags, rest) = rest.trim_start().split_once(' ')?;
        let (time, rest) = rest.trim_start().split_once(": ")?;
        let (seconds, micros) = time.split_once('.')?;
        let (name, text) = rest.split_once(": ").unwrap_or((rest.trim_end_matches(':'), ""));
        Some(Self {
            cpu: cpu.parse().ok()?,
            tid: tid.parse().ok()?,
            thread: thread.to_owned(),
            at_us: seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?,
            // The third of them. Source: `kernel/trace/trace_output.c trace_print_lat_fmt`.
            in_softirq: matches!(flags.as_bytes().get(2), Some(b's' | b'H')),
            name: name.to_owned(),
            text: text.to_owned(),
        })
    }

    /// The word behind `name` in its text: `work` of `... work 3 budget 64`, `timer` of `timer=0x12`.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut words = self.text.split_whitespace();
        while let Some(word) = words.next() {
            if let Some(value) = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
                return Some(value);
            }
            if word == name {
                return words.next();
            }
        }
        None
    }
}

fn of(error: io::Error, what: &str) -> TraceError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => TraceError::Denied(error),
        io::ErrorKind::NotFound | io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => {
            TraceError::NotHere { what: what.to_owned(), error }
        }
        _ => match error.raw_os_error().and_then(napier_core::control::Errno::from_number) {
            Some(napier_core::control::Errno::ENODEV) => TraceError::NotHere { what: what.to_owned(), error },
            _ => TraceError::Io(error),
        },
    }
}

#[cfg(test)]
#[path = "tracefs_tests.rs"]
mod tests;
