//! What happens to packets during a look: how many came to an interface, how many of them its NAPI instances took, who polled,
//! and what the threads of a program wait in. What was set is in [`crate::facts`]; this is whether it acts.
//!
//! | module | holds | source |
//! |---|---|---|
//! | `counters` | packets of an interface, and those that instances took | `rtnetlink(7)`; `ethtool -S` of a veth |
//! | `polls` | polls, by who made them | the tracepoint `napi:napi_poll`; needs root |
//! | `waits` | the calls that threads wait in | `/proc/PID/task/TID/syscall`; needs what `ptrace(2)` needs |
//! | `reach` | which waits of a program a mode can reach: pure | `fs/eventpoll.c`, `fs/select.c`, `io_uring/napi.c` |
//! | `judge` | what a window shows, in words: pure | |

mod counters;
mod instance_ids;
mod judge;
pub mod parts;
mod polls;
mod reach;
mod threads;
mod waits;

use std::time::{Duration, Instant};

use serde::Serialize;

pub(crate) use counters::polled_of_veth;
pub use counters::{Received, received};
pub use judge::{Acts, Evidence, Miss, Observation, Shares, WhoPolls, elsewhere, is_enough, judge};
#[expect(deprecated, reason = "the former name, for one version")]
pub use polls::InstancePolls;
pub use polls::{Polling, Polls, Who};
pub use reach::{Needs, Unreached, unreached};
pub use threads::{kernel_threads, threads_of};
pub use waits::{How, Waits};

use crate::change::DeviceRef;
use crate::tracefs::TraceError;

/// The former name, for one version.
#[deprecated(note = "it is `WindowCounts`")]
pub type Window = WindowCounts;

/// The former name, for one version.
#[deprecated(note = "it is `Evidence`")]
pub type Seen<'a> = Evidence<'a>;

/// The former name, for one version.
#[deprecated(note = "it is `Observation`")]
pub type Verdict = Observation;

/// The former name, for one version.
#[deprecated(note = "it is `WhoPolls`")]
pub type Poller = WhoPolls;

/// Between two looks at what threads wait in.
pub const LOOK: Duration = Duration::from_millis(20);

/// What a window has shown.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct WindowCounts {
    /// Its length.
    pub span: Duration,
    /// What came to the interface; `None` where that is not told.
    pub received: Option<Received>,
    /// Who polled; `None` where polls are not shown.
    pub polls: Option<Polls>,
    /// Why they are not.
    pub no_polls: Option<String>,
}

/// Why it is not told who polls.
fn not_shown(error: &TraceError) -> String {
    match error {
        TraceError::Denied(_) if rustix::process::geteuid().is_root() => {
            "who polls is not shown: this kernel lets nothing be traced here (lockdown, or a container without CAP_SYS_ADMIN)".to_owned()
        }
        TraceError::Denied(_) => "who polls is not shown without root (tracefs)".to_owned(),
        error => format!("who polls is not shown: {error}"),
    }
}

/// Looks at an interface, and at who polls it, for a window at a time.
#[derive(Debug)]
pub struct Observer {
    device: DeviceRef,
    polling: Result<Polling, String>,
    begun: Instant,
    before: Option<Received>,
}

impl Observer {
    /// Of an interface of the calling thread's namespace. No window is open yet.
    #[must_use]
    pub fn new(device: DeviceRef) -> Self {
        let polling = Polling::new(&device.name).map_err(|error| not_shown(&error));
        Self { device, polling, begun: Instant::now(), before: None }
    }

    /// One that counts packets alone.
    #[must_use]
    pub fn of_packets(device: DeviceRef) -> Self {
        let polling = Err("who polls was not asked for".to_owned());
        Self { device, polling, begun: Instant::now(), before: None }
    }

    /// Opens a window: from now on polls are traced.
    pub fn open(&mut self) {
        self.trace(Polling::begin);
        (self.begun, self.before) = (Instant::now(), received(&self.device));
    }

    /// Packets since the window was opened; `None` where they are not told.
    #[must_use]
    pub fn packets(&self) -> Option<u64> {
        Some(received(&self.device)?.since(self.before?).packets)
    }

    /// Takes what was recorded meanwhile: to be called some times in a window.
    pub fn look(&mut self) {
        self.trace(Polling::look);
    }

    /// Closes the window: nothing is traced from here on.
    pub fn close(&mut self) -> WindowCounts {
        // Packets first: on a slow machine a look takes long, and what comes meanwhile would be packets without their polls.
        let received = received(&self.device).zip(self.before).map(|(now, before)| now.since(before));
        let span = self.begun.elapsed();
        self.look();
        let mut polls = None;
        self.trace(|polling| polling.end().map(|found| polls = Some(found)));
        WindowCounts { span, received, polls, no_polls: self.polling.as_ref().err().cloned() }
    }

    fn trace(&mut self, act: impl FnOnce(&mut Polling) -> Result<(), TraceError>) {
        if let Ok(polling) = &mut self.polling
            && let Err(error) = act(polling)
        {
            self.polling = Err(error.to_string());
        }
    }
}

/// What threads of a process wait in, over a time.
pub(crate) fn watch_waits(pid: Option<u32>, span: Duration, each: &mut dyn FnMut()) -> Waits {
    let (begun, mut waits) = (Instant::now(), Waits::default());
    loop {
        if let Some(pid) = pid {
            waits.look(pid);
        }
        each();
        match span.checked_sub(begun.elapsed()) {
            Some(left) if !left.is_zero() => std::thread::sleep(left.min(LOOK)),
            _ => return pid.map_or_else(Waits::default, |pid| waits.still_of(pid)),
        }
    }
}
