//! What `napier bench wakeup` says of a machine: how much later a packet is where a thread has to be woken for it.
//!
//! ```text
//! event-context - threaded-busy-poll = idle-exit (each time an idle CPU is left), hard-irq, softirq-entry, wake, switch, epoll-return,
//!                                      epoll-event
//! event-context - softirq            = wake, switch, epoll-return, epoll-event
//! ```
//!
//! What is measured are the two differences. `wake` and `idle-exit` are what the other figures leave of them, so that a program that
//! sleeps on an idle CPU has a packet as much later as was measured.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use napier_core::time::Span;
use napier_sim::machine::Work;
use serde::Deserialize;

use napier_lab::advise::{Extent, Workload, percentile_us, simulate};
use napier_lab::bench::{WakeContext, Wakeup};
use napier_lab::loads::Load;
use napier_lab::machines::MachineFile;
use napier_lab::modes::Mode;
use napier_lab::report::Host;

/// What else is on the way until the softirq polls.
const BEFORE_POLL: [Work; 2] = [Work::HardIrq, Work::SoftirqEntry];
/// What else is on the way from there to the program.
const AFTER_POLL: [Work; 3] = [Work::Switch, Work::EpollReturn, Work::EpollEvent];

/// What was measured, at the median.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wakeups {
    /// On what it ran, as a comparison says it.
    pub(super) host: String,
    /// How long the CPU was idle before, in ns.
    pub(super) gap_ns: u64,
    /// How much later a program that waits in an event context has a packet than a thread that polls all the time.
    pub(super) until_program_ns: u64,
    /// How much of it comes after the softirq has polled.
    pub(super) after_poll_ns: u64,
}

/// A file is no such report.
#[derive(Debug, thiserror::Error)]
pub enum WakeupsError {
    /// It cannot be read.
    #[error("{file} cannot be read: {error}")]
    Unreadable {
        /// As given.
        file: Arc<str>,
        /// What the system says.
        error: std::io::Error,
    },
    /// It is none.
    #[error("{file} is no report of `napier bench wakeup --json`: {why}")]
    NoReport {
        /// As given.
        file: Arc<str>,
        /// What is wrong.
        why: String,
    },
    /// It is of another machine.
    #[error("{file} was measured on another machine ({of}) than the comparison ({than}): run both on one")]
    OfAnother {
        /// As given.
        file: Arc<str>,
        /// What it was measured on.
        of: String,
        /// What the comparison ran on.
        than: String,
    },
}

#[derive(Deserialize)]
struct WakeupReport {
    bench: String,
    host: Host,
    /// Of another experiment they are something else.
    rows: Vec<serde_json::Value>,
}

/// What a machine is called in a comparison.
pub(super) fn name_of(host: &Host) -> String {
    format!("{}, Linux {}", host.cpu_model, host.kernel)
}

impl Wakeups {
    /// Reads the report of the experiment; it has to be of the machine that a comparison ran on.
    ///
    /// # Errors
    /// [`WakeupsError`] says what was expected.
    pub fn read(file: &Path, compared: &str) -> Result<Self, WakeupsError> {
        let name: Arc<str> = file.display().to_string().into();
        let text = napier_linux::given::read_text(file, napier_lab::report::read::BYTES_MAX)
            .map_err(|error| WakeupsError::Unreadable { file: name.clone(), error })?;
        Self::parse(&text, &name, compared)
    }

    /// The same of a text; `file` is its name in errors.
    ///
    /// # Errors
    /// Likewise.
    pub fn parse(text: &str, file: &str, compared: &str) -> Result<Self, WakeupsError> {
        let file: Arc<str> = file.into();
        let no_report = |why: String| WakeupsError::NoReport { file: file.clone(), why };
        let report: WakeupReport = serde_json::from_str(text).map_err(|error| no_report(error.to_string()))?;
        if report.bench != "wakeup" {
            return Err(no_report(format!("it is of `napier bench {}`", report.bench)));
        }
        let rows = report.rows.into_iter().map(serde_json::from_value).collect::<Result<Vec<Wakeup>, _>>();
        let rows = rows.map_err(|error| no_report(error.to_string()))?;
        let of = |context: WakeContext| {
            let rows: Vec<&Wakeup> = rows.iter().filter(|row| row.context == context).collect();
            match rows[..] {
                [row] if row.latency.count > 0 => Ok(row),
                _ => Err(no_report(format!("one row with samples is expected until the {}", context.name()))),
            }
        };
        let (polling, softirq) = (of(WakeContext::ThreadedBusyPoll)?, of(WakeContext::Softirq)?);
        let program = of(WakeContext::EventContext)?;
        let [none, poll, all] = [polling, softirq, program].map(|row| row.latency.p50_ns);
        let Some(until_program_ns) = all.checked_sub(none).filter(|ns| *ns > 0) else {
            return Err(no_report(format!(
                "a thread that sleeps ({all} ns) cannot be sooner than one that polls all the time ({none} ns): measure again, on a \
                 quieter machine"
            )));
        };
        // A program that sleeps may be the softirq itself, so that nothing is left.
        let after_poll_ns = all.saturating_sub(poll).min(until_program_ns);
        let host = name_of(&report.host);
        if host != compared {
            return Err(WakeupsError::OfAnother { file, of: host, than: compared.to_owned() });
        }
        Ok(Self { host, gap_ns: program.gap_ns, until_program_ns, after_poll_ns })
    }
}

/// The same with how often leaving idleness counts on the way, by the rules.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Settled {
    wakeups: Wakeups,
    /// If waking takes time, and if it takes none, so that the CPU is not idle again meanwhile.
    idle_exits: (f64, f64),
}

impl Settled {
    pub(super) fn new(wakeups: Wakeups, machine: &MachineFile) -> Self {
        let with = |wake_ns: u64| {
            let mut machine = machine.clone();
            machine.costs.set(Work::Wake, Span::from_ns(wake_ns));
            idle_exits(&machine)
        };
        Self { wakeups, idle_exits: (with(1000), with(0)) }
    }

    /// What it sets.
    pub(super) const WORKS: [Work; 2] = [Work::IdleExit, Work::Wake];

    fn idle_exits(&self, wake_ns: u64) -> f64 {
        if wake_ns > 0 { self.idle_exits.0 } else { self.idle_exits.1 }
    }

    /// By how much what else is on that way takes more than was measured of all of it. Then nothing is left for what is set, and the
    /// machine contradicts the measurement.
    pub(super) fn over_ns(&self, machine: &MachineFile) -> u64 {
        (sum_ns(&BEFORE_POLL, machine) + sum_ns(&AFTER_POLL, machine)).saturating_sub(self.wakeups.until_program_ns)
    }

    /// Sets what was measured, whatever the other figures are by now: the sums stay as they are, unless those take more.
    pub(super) fn put_into(&self, machine: &mut MachineFile) {
        let (before_ns, after_ns) = (sum_ns(&BEFORE_POLL, machine), sum_ns(&AFTER_POLL, machine));
        let wake_ns = self.wakeups.after_poll_ns.saturating_sub(after_ns);
        let left_ns = self.wakeups.until_program_ns.saturating_sub(before_ns + after_ns + wake_ns);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not below zero, and below a minute"
        )]
        let idle_ns = (left_ns as f64 / self.idle_exits(wake_ns)).round() as u64;
        machine.costs.set(Work::Wake, Span::from_ns(wake_ns));
        machine.costs.set(Work::IdleExit, Span::from_ns(idle_ns));
    }

    /// Where each figure that it sets comes from, on a machine that it was put into.
    pub(super) fn figures(&self, machine: &MachineFile) -> [(Work, String); 2] {
        let Wakeups { gap_ns, until_program_ns, after_poll_ns, .. } = self.wakeups;
        let us = |ns: u64| ns as f64 / 1000.0;
        let names = |all: &[Work]| all.iter().map(|work| work.name()).collect::<Vec<_>>().join(", ");
        let gap_us = us(gap_ns);
        [
            (
                Work::IdleExit,
                format!(
                    "napier bench wakeup, p50 after {gap_us} us: event-context less threaded-busy-poll, {:.2} us, less wake, {}, {}; idle-exit \
                     counts {:.1} times on that way",
                    us(until_program_ns),
                    names(&BEFORE_POLL),
                    names(&AFTER_POLL),
                    self.idle_exits(machine.costs.get(Work::Wake).ns)
                ),
            ),
            (
                Work::Wake,
                format!(
                    "napier bench wakeup, p50 after {gap_us} us: event-context less softirq, {:.2} us, less {}",
                    us(after_poll_ns),
                    names(&AFTER_POLL)
                ),
            ),
        ]
    }
}

fn sum_ns(works: &[Work], machine: &MachineFile) -> u64 {
    works.iter().map(|work| machine.costs.get(*work).ns).sum()
}

/// How often leaving idleness counts from an interrupt to the program that waits for it: a CPU is idle again until a woken thread can
/// run, and work after an interrupt is slower. Found by running it, so that it is what the rules do.
fn idle_exits(machine: &MachineFile) -> f64 {
    const MORE: Span = Span::from_us(10);
    let mut dearer = machine.clone();
    dearer.costs.set(Work::IdleExit, machine.costs.get(Work::IdleExit) + MORE);
    let times = (alone_us(&dearer) - alone_us(machine)) * 1000.0 / MORE.ns as f64;
    times.max(1.0)
}

/// The median latency of a request that finds the server asleep.
fn alone_us(machine: &MachineFile) -> f64 {
    let workload =
        Workload { rate_rps: 1, peak_rps: None, queues: 1, connections: 1, cpus: 1, service: None, recorded: None };
    let never = AtomicBool::new(false);
    let alone = simulate(machine, &workload, Load::Rps(200), Mode::Base, 1, Extent::Requests(60), &never);
    let mut latency = alone.expect("nothing stops it").queues()[0].from_due_ns.clone();
    latency.sort_unstable();
    percentile_us(&latency, 50)
}

#[cfg(test)]
mod tests;
