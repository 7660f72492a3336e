//! Why a stage takes its time, as far as events show it. Pure.

use super::explained::Explained;
use super::{Cause, PolledBy, Stage};

/// The part of all above which something is called the reason.
const MOST_PCT: u64 = 50;
/// Names of threads that are told.
const NAMES: usize = 2;

impl Explained {
    /// Why a stage takes its time, as far as events show it.
    #[must_use]
    pub fn because(&self, stage: Stage, program: &str) -> String {
        match stage {
            Stage::Poll => poll(self, program),
            Stage::Socket => {
                "the kernel takes it, and what lay before it in the same poll, through its protocols".to_owned()
            }
            Stage::Wake => "the kernel goes from the socket to the thread that waits".to_owned(),
            Stage::Run => run(self),
            Stage::Read => format!("{program} comes back from its wait, and then reads, perhaps others first"),
            Stage::Awake => awake(self, program),
            Stage::Answer => answer(self, program),
        }
    }
}

fn poll(seen: &Explained, program: &str) -> String {
    let by = |who: PolledBy| share(seen.polled_by.get(&who).copied(), seen.requests);
    let timers = share(seen.causes.get(&Cause::Timer).copied(), seen.requests);
    if by(PolledBy::Ksoftirqd) >= MOST_PCT {
        return format!(
            "{} % of the polls were left to ksoftirqd, which takes its turn among all threads",
            by(PolledBy::Ksoftirqd)
        );
    }
    if by(PolledBy::NapiThread) >= MOST_PCT {
        return "the thread of the instance has to be woken, and to get a CPU".to_owned();
    }
    if timers >= MOST_PCT {
        return format!("timers of deferral ask for {timers} % of the polls, and their softirqs wait for their turn");
    }
    let own = by(PolledBy::Program);
    if own >= MOST_PCT {
        return format!("{program} polls by itself {own} % of the time, and of the others the softirq waits");
    }
    "the softirq does not run at once: interrupts or softirqs of its CPU were off, or it ran others".to_owned()
}

fn run(seen: &Explained) -> String {
    let others: u64 = seen.ran_before.values().sum();
    let idle = share(Some(seen.idle_before), seen.idle_before + others);
    if others == 0 || idle >= MOST_PCT {
        return format!(
            "{idle} % of the time its CPU is idle, and has to leave its idle state and switch to the thread"
        );
    }
    let mut names: Vec<(&String, &u64)> = seen.ran_before.iter().collect();
    names.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
    let told: Vec<String> = names
        .iter()
        .take(NAMES)
        .map(|(name, times)| format!("{name} {} %", share(Some(**times), seen.idle_before + others)))
        .collect();
    format!("its CPU has another thread, which it has to wait for ({})", told.join(", "))
}

fn awake(seen: &Explained, program: &str) -> String {
    let own = share(seen.polled_by.get(&PolledBy::Program).copied(), seen.requests);
    match own >= MOST_PCT {
        true => format!("{program} polls by itself ({own} % of the polls), and goes from there to its read"),
        false => format!("{program} is awake and does something else before it reads: other requests wait in front"),
    }
}

fn answer(seen: &Explained, program: &str) -> String {
    let mean = seen.of(Stage::Answer).mean_us;
    let off = if mean > 0.0 { seen.off_cpu_mean_us * 100.0 / mean } else { 0.0 };
    match off >= 20.0 {
        true => format!(
            "{program} has no CPU for {off:.0} % of it ({:.1} us): it sleeps, or others run in its place",
            seen.off_cpu_mean_us
        ),
        false => format!("{program} itself works, and sends"),
    }
}

/// In percent.
fn share(part: Option<u64>, all: u64) -> u64 {
    part.unwrap_or(0) * 100 / all.max(1)
}
