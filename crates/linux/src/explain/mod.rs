//! Where the time of a program's requests goes, from static tracepoints alone: no program is loaded into the kernel, and nothing but
//! tracing is switched.
//!
//! | module | holds |
//! |---|---|
//! | `event` | which tracepoints are recorded, and their events in words of a request |
//! | `story` | events put together to requests: pure |
//! | `request` | a request, and its stages |
//! | `explained` | how long stages took, of all requests |
//! | `arrivals` | when requests came, and on which connections: pure |
//! | `because` | what is said of the longest stage: pure |
//!
//! What tracepoints do not show: how long a packet lay in a NIC before its interrupt, and what a program does between two of its calls.

mod arrivals;
mod because;
mod event;
mod explained;
mod request;
mod story;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::observe::{kernel_threads, threads_of};
use crate::process::descendants;
use crate::tracefs::{RawEvent, RawPipes, TraceError, Tracer};

pub use arrivals::{Arrival, Arrivals};
pub use event::{Happened, PathEvent};
pub use explained::{Explained, StageFigures, Tally};
pub use request::{Before, Cause, PolledBy, Request, Stage};
pub use story::{KnownThreads, Story};

use event::{Decoder, Filter, WANTED};

/// Buffer of each processor.
const BUFFER_KIB: u32 = 8192;
/// With more threads the kernel lets all through, and they are sorted out here.
const THREADS_MAX: usize = 64;
/// Looks from one time that threads are looked for to the next.
const LOOKS: u32 = 25;

/// Records what happens to a program's requests.
#[derive(Debug)]
pub struct Explainer {
    // They go first: an instance with an open buffer stays.
    pipes: RawPipes,
    tracer: Tracer,
    decoder: Decoder,
    pid: u32,
    devices: Vec<String>,
    threads: KnownThreads,
    story: Story,
    tally: Tally,
    waiting: Vec<PathEvent>,
    /// Times before which events were lost.
    gaps: Vec<u64>,
    looks: u32,
}

impl Explainer {
    /// Of a process and those that it started; with interfaces only what comes and goes by them. Nothing is recorded yet.
    ///
    /// # Errors
    /// [`TraceError`]; [`TraceError::NotHere`] where this kernel lacks a tracepoint without which nothing can be told.
    pub fn new(pid: u32, devices: &[String]) -> Result<Self, TraceError> {
        let tracer = Tracer::new()?;
        tracer.buffer(BUFFER_KIB)?;
        let mut decoder = Decoder::default();
        for wanted in &WANTED {
            match tracer.format(wanted.tracepoint) {
                Ok(format) if decoder.add(&format, wanted) => {}
                Ok(_) if wanted.is_needed => {
                    let what = format!("field of {}:{} that is needed", wanted.tracepoint.0, wanted.tracepoint.1);
                    return Err(TraceError::NotHere { what, error: std::io::ErrorKind::NotFound.into() });
                }
                Err(error) if wanted.is_needed => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        let (pipes, devices) = (tracer.pipes()?, devices.to_vec());
        let (threads, story, tally) = Default::default();
        Ok(Self {
            pipes,
            tracer,
            decoder,
            pid,
            devices,
            threads,
            story,
            tally,
            waiting: Vec::new(),
            gaps: Vec::new(),
            looks: 0,
        })
    }

    /// Begins to record.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn begin(&mut self) -> Result<(), TraceError> {
        self.threads = self.now();
        self.story.know(self.threads.clone());
        self.tracer.keep(false)?;
        for wanted in &WANTED {
            let filter = self.filter(wanted.filter);
            match self.tracer.record(wanted.tracepoint, filter.as_deref()) {
                Err(TraceError::NotHere { .. }) if !wanted.is_needed => {}
                done => done?,
            }
        }
        self.tracer.clear()?;
        self.tracer.keep(true)
    }

    /// Who is who.
    #[must_use]
    pub const fn threads(&self) -> &KnownThreads {
        &self.threads
    }

    /// Takes what was recorded, and puts together what happened until `until_ns` of `CLOCK_MONOTONIC`, which was read before. `each` is
    /// shown those events.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn look(&mut self, until_ns: u64, each: &mut dyn FnMut(&PathEvent)) -> Result<(), TraceError> {
        self.looks += 1;
        if self.looks.is_multiple_of(LOOKS) {
            self.know_new_threads()?;
        }
        let Self { pipes, decoder, waiting, gaps, tally, story, .. } = self;
        pipes.take(|cpu, event| match event {
            RawEvent::One { at_ns, payload } => waiting.extend(decoder.read(cpu, at_ns, payload)),
            RawEvent::Lost { before_ns, events } => {
                gaps.push(before_ns);
                tally.lost(events);
            }
        })?;
        // What another processor recorded before may come with the next look, but for what is older than this one.
        waiting.sort_by_key(|event| event.at_ns);
        gaps.sort_unstable();
        let ripe = waiting.partition_point(|event| event.at_ns < until_ns);
        let mut gaps_passed = 0;
        for event in waiting.drain(..ripe) {
            while gaps.get(gaps_passed).is_some_and(|before| *before <= event.at_ns) {
                story.lost();
                gaps_passed += 1;
            }
            each(&event);
            if let Some(request) = story.add(&event) {
                tally.add(&request);
            }
        }
        gaps.drain(..gaps_passed);
        Ok(())
    }

    /// Ends: what was seen in so long.
    #[must_use]
    pub fn end(mut self, span: Duration) -> Explained {
        // The instance goes in any case.
        let _ = self.tracer.keep(false);
        let _ = self.look(u64::MAX, &mut |_| ());
        self.story.end();
        self.tally.explained(span, self.story.left())
    }

    fn now(&self) -> KnownThreads {
        let of = |prefix| kernel_threads(prefix).into_iter().map(|(_, tid)| tid).collect();
        let program = threads_of(std::iter::once(self.pid).chain(descendants(self.pid)));
        KnownThreads { program, napi: of("napi/"), ksoftirqd: of("ksoftirqd/") }
    }

    fn know_new_threads(&mut self) -> Result<(), TraceError> {
        let now = self.now();
        if now == self.threads {
            return Ok(());
        }
        self.threads = now;
        self.story.know(self.threads.clone());
        for wanted in &WANTED {
            if matches!(wanted.filter, Filter::Threads(_)) {
                self.tracer.filter(wanted.tracepoint, self.filter(wanted.filter).as_deref())?;
            }
        }
        Ok(())
    }

    /// What the kernel lets through.
    fn filter(&self, filter: Filter) -> Option<String> {
        match filter {
            Filter::All => None,
            Filter::Text(text) => Some(text.to_owned()),
            Filter::Devices => any_of(self.devices.iter().map(|name| format!("name == \"{name}\""))),
            Filter::Threads(fields) => {
                let all: BTreeSet<u32> = self.threads.program.union(&self.threads.napi).copied().collect();
                let of = |tid: &u32| fields.iter().map(move |field| format!("{field} == {tid}")).collect::<Vec<_>>();
                any_of(all.iter().filter(|_| all.len() <= THREADS_MAX).flat_map(of))
            }
        }
    }
}

fn any_of(parts: impl Iterator<Item = String>) -> Option<String> {
    let all = parts.collect::<Vec<_>>().join(" || ");
    if all.is_empty() { None } else { Some(all) }
}

/// Why a program's requests cannot be explained, for people.
#[must_use]
pub fn refused(error: &TraceError) -> String {
    match error {
        TraceError::Denied(error) => format!(
            "the kernel's tracepoints (tracefs) are open to root alone (CAP_SYS_ADMIN), and closed under lockdown: {error}"
        ),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod recorded_tests;
