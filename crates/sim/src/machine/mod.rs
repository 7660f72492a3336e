//! A machine in virtual time: CPUs with interrupt, softirq and thread level, NICs, timers, sockets, event contexts and
//! the programs of a scenario. It calls the rules of `napier_core` as the engine does, and is checked after each step.
//!
//! | file | holds |
//! |---|---|
//! | `exec`, `event` | the event loop: nothing happens but by an event or by a context that goes on |
//! | `work` | what a CPU does with its time, what that costs, and where it went |
//! | `vm` | how code on a CPU spends time, sleeps, keeps others out |
//! | `sched`, `place` | levels and threads of a CPU, and how threads get to one |
//! | `softirq`, `kthread`, `busy`, `poll` | who polls, and what follows |
//! | `lifecycle`, `control` | add, enable, disable, delete, settings |
//! | `device`, `socket`, `epoll`, `app` | the way of a packet to a program |
//! | `moderate`, `nic` | when a device interrupts |
//! | `figures`, `server`, `clients` | runs for figures: a server, and those who ask it |
//! | `hosts`, `trips` | runs for figures: two hosts on a wire, and packets that go to and fro |
//! | `flows`, `streams`, `link` | runs for figures: two hosts of many CPUs, programs of many threads, messages of any size |
//! | `story` | runs to look at: what each CPU did when |
//! | `group` | CPUs that poll for ever; runs for figures of a server of many CPUs |
//! | `tx` | the way of a packet from a program to a device |
//! | `invariants` | what must hold after every step |
//! | `laws` | what must hold of the figures of every run |
//!
//! The same scenario gives the same run: time is integer nanoseconds, events of one instant keep the order in which
//! they were made, randomness is seeded, and nothing depends on an address or a hash.

mod app;
mod busy;
mod clients;
mod control;
mod coverage;
mod device;
mod epoll;
mod event;
mod exec;
pub mod figures;
pub mod flows;
mod gro;
mod group;
pub mod hosts;
mod invariants;
mod kthread;
mod laws;
mod lifecycle;
mod link;
mod moderate;
mod napi;
mod nic;
mod place;
mod poll;
mod sched;
mod server;
mod setup;
mod socket;
mod softirq;
mod steps;
pub mod story;
mod streams;
mod trips;
mod tx;
mod vm;
mod work;
mod world;

use napier_core::time::Instant;

pub use clients::{Clients, Pace, RTO_MIN};
pub use coverage::{Coverage, Decision};
pub use group::{Shape, many};
pub use work::{Account, Class, Disturbance, Work, WorkCosts};

use napier_scenario::{DropReason, Scenario, Seen};

/// A deliberate mistake of the machine, to see that it is found.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub enum Plant {
    /// None.
    #[default]
    Nothing,
    /// The timer is armed while the instance is still owned (kernels before 2026).
    ArmBeforeRelease,
    /// A hand-over to a busy poller forgets to schedule when nothing else brings the instance back.
    HandOverAndForget,
    /// The driver unmasks without looking at its ring again.
    NoSecondLook,
    /// The timer takes an instance that somebody owns.
    TimerIgnoresOwner,
    /// Now and then a poll loses a packet and counts nothing.
    UncountedLoss,
    /// The wake of a transmit queue schedules nothing.
    SilentWake,
    /// A packet that a driver did not take goes to the end of its discipline.
    RequeueAtTheBack,
    /// A flusher reads the list, and empties it a moment later.
    TornTake,
    /// A flusher leaves the defer count as it is.
    DeferCountKept,
    /// A CPU of a group unmasks its members and sleeps without looking at their rings again.
    ParkWithoutSecondLook,
    /// A CPU of a group polls a member although another one is in the middle of a poll of it.
    TwoPollers,
}

impl Plant {
    /// In words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::ArmBeforeRelease => "the timer is armed while the instance is still owned",
            Self::HandOverAndForget => "a hand-over to a busy poller does not schedule again",
            Self::NoSecondLook => "a driver unmasks without looking at its ring again",
            Self::TimerIgnoresOwner => "the timer takes an instance that has an owner",
            Self::UncountedLoss => "a poll loses a packet and counts nothing",
            Self::SilentWake => "the wake of a transmit queue schedules nothing",
            Self::RequeueAtTheBack => "a packet that a driver did not take goes to the end",
            Self::TornTake => "a flusher reads the defer list and empties it a moment later",
            Self::DeferCountKept => "a flusher does not set the defer count to 0",
            Self::ParkWithoutSecondLook => "a CPU of a group parks without a second look",
            Self::TwoPollers => "a member of a group has two pollers",
        }
    }
}

/// How to run.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// Events are logged.
    pub log: bool,
    /// At the end no thread may still be in a call.
    pub calls_end: bool,
    /// A deliberate mistake.
    pub plant: Plant,
    /// The run is given up after so many steps, with nothing broken; `None`: it goes on to its end.
    pub steps_max: Option<u64>,
}

/// What came of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// What was seen, in order; empty without [`Options::log`].
    pub events: Vec<Seen>,
    /// Counters at the end.
    pub counters: Vec<(String, i64)>,
    /// An invariant that did not hold, and when.
    pub broken: Option<String>,
    /// Steps of contexts and events.
    pub steps: u64,
    /// What occurred at all.
    pub coverage: Coverage,
}

/// Runs a scenario in virtual time and logs what happens.
#[must_use]
pub fn run(scenario: &Scenario) -> Outcome {
    run_with(scenario, &Options { log: true, ..Options::default() })
}

/// Runs a scenario. An assertion of the rules that fails is reported as broken, like an invariant.
#[must_use]
pub fn run_with(scenario: &Scenario, options: &Options) -> Outcome {
    let run = || run_to_end(scenario, options);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Outcome {
            events: Vec::new(),
            counters: Vec::new(),
            broken: Some(format!("an assertion failed: {text}")),
            steps: 0,
            coverage: Coverage::default(),
        }
    })
}

fn run_to_end(scenario: &Scenario, options: &Options) -> Outcome {
    let mut exec = setup::build(scenario, options);
    let end = {
        let w = exec.vm.w();
        let last = scenario.timeline.last().map_or(Instant::ZERO, |step| step.at);
        Instant::from_ns(w.epoch.ns + last.ns) + scenario.expect.settle
    };
    exec.run_until(end);
    let mut w = exec.vm.w();
    if w.broken.is_none() && w.steps <= w.steps_max {
        w.check_conserved();
        if scenario.expect.drains {
            w.check_drained();
            w.check_tx_drained();
        }
        if options.calls_end {
            w.check_calls_ended(scenario);
        }
    }
    Outcome {
        counters: w.counters(),
        events: w.log.take().unwrap_or_default(),
        broken: w.broken.take(),
        steps: w.steps,
        coverage: w.cover.clone(),
    }
}

impl world::World {
    fn counters(&self) -> Vec<(String, i64)> {
        let mut counters = Vec::new();
        let mut add = |name: String, value: u64| counters.push((name, value as i64));
        for (cpu, c) in self.cpus.iter().enumerate() {
            add(format!("cpu{cpu}.time_squeeze"), c.time_squeeze);
            add(format!("cpu{cpu}.softirq_runs"), c.softirq_runs);
            add(format!("cpu{cpu}.ksoftirqd"), c.ksoftirqd_wakes);
        }
        for (napi, n) in self.napis.iter().enumerate() {
            let name = self.napi_name(napi);
            add(format!("{name}.polls"), n.polls);
            add(format!("{name}.packets"), n.packets);
            add(format!("{name}.interrupts"), n.interrupts);
            add(format!("{name}.timer_fires"), n.timer_fires);
            add(format!("{name}.unmasks"), n.unmasks);
        }
        add("busy_poll_rx_packets".to_owned(), self.busy_poll_rx_packets);
        for reason in DropReason::ALL {
            add(format!("drops.{}", reason.name()), self.drops[*reason as usize]);
        }
        for sock in &self.socks {
            add(format!("{}.delivered", sock.name), sock.delivered);
        }
        self.tx_counters(&mut add);
        self.group_counters(&mut add);
        counters
    }
}

#[cfg(test)]
mod tests;
