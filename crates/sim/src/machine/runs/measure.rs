//! How a run is measured: what a setting is to it, and what an observer would read off.

use std::sync::atomic::{AtomicBool, Ordering};

use napier_core::time::{Instant, Span};

use crate::machine::cpu::work::{Account, WorkCosts, WorkTimes};
use crate::machine::exec::{Code, Exec};
use crate::machine::laws::LawsLook;
use crate::machine::setup;
use crate::machine::sim::plant::Options;
use crate::machine::vm::K;
use crate::machine::world::World;
use napier_scenario::Machine;

/// How long a run is, in virtual time.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Length {
    /// Nothing counts before.
    pub warm_up: Span,
    /// What counts.
    pub measured: Span,
}

/// A run is looked at so many times, in equal slices of the measured time.
const SLICES: u64 = 50;

/// What was counted from the begin of the measured time until the end of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunSlice {
    /// Since the begin.
    pub until: Span,
    /// As [`Figures::answered`].
    pub answered: u64,
    /// How many of [`Figures::latency_ns`]; none where that is not of a server and its clients.
    pub latencies: usize,
    /// Requests that are due and not answered, then.
    pub behind: u64,
    /// What the measured CPUs were busy for.
    pub busy_ns: u64,
}

/// What was read off, over the measured time. What a setting does not have is zero or empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// From send to answer, of requests that were sent in the measured time, in ns; of a server of many CPUs without the way, and from
    /// when they were due.
    pub latency_ns: Vec<u64>,
    /// The same requests from when they were due, in ns: a client that falls behind does not hide the wait.
    pub from_due_ns: Vec<u64>,
    /// What of it was the way there and back, with what the client's machine takes, of the same requests, in ns.
    pub way_ns: Vec<u64>,
    /// The measured time.
    pub measured: Span,
    /// Where the time of the CPUs went that are measured, together.
    pub account: Account,
    /// And that of those with programs.
    pub program: Account,
    /// And that of those that are for polling alone.
    pub polling: Account,
    /// What each kind of work took the CPUs that are measured.
    pub works: WorkTimes,
    /// CPUs.
    pub cores: u16,
    /// Interrupts of the queues.
    pub interrupts: u64,
    /// Polls of them, by whomever.
    pub polls: u64,
    /// Polls that found nothing.
    pub empty_polls: u64,
    /// Packets that they took.
    pub packets: u64,
    /// Requests that programs took; answers where programs ask.
    pub answered: u64,
    /// Requests that came due in the measured time, where that is known: they were recorded, or no one waits for them.
    pub due: Option<u64>,
    /// Requests that were due and not answered when the measured time began, and when it ended.
    pub behind: (u64, u64),
    /// Requests that found the server's ring full, and were sent again; of datagrams also the socket, and they were not.
    pub lost: u64,
    /// Waits of the program that returned, and their events.
    pub waits: u64,
    /// Likewise.
    pub events: u64,
    /// Turns of the groups' CPUs.
    pub turns: u64,
    /// CPUs of groups that went to sleep.
    pub parks: u64,
    /// Those that had to wake at once.
    pub parks_in_vain: u64,
    /// CPUs that woke.
    pub wakes: u64,
    /// Moves of members: back to the CPU that had it last, to the core's other thread, on the node, to another node.
    pub moves: [u64; 4],
    /// Threads that were put on another CPU, of the whole run.
    pub migrations: u64,
    /// The same run, slice by slice.
    pub slices: Vec<RunSlice>,
    /// Steps of the machine, of the whole run.
    pub steps: u64,
    /// A rule or an invariant that did not hold.
    pub broken: Option<String>,
}

/// What a CPU is for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum CpuUse {
    Program,
    Polling,
    /// Of a host that is not measured.
    Beside,
}

/// From send to answer, from when it was due, and the way; in ns.
pub(crate) type Latencies = (Vec<u64>, Vec<u64>, Vec<u64>);

/// What a setting is to the run of it.
pub(crate) trait Staged {
    fn costs(&self) -> WorkCosts;

    fn machine(&self, seed: u64) -> Machine;

    /// What runs in a thread of the machine.
    fn code(&self, k: K, thread: usize) -> Option<Code>;

    /// The machine is there: what it is like, and who sends.
    fn begin(&self, w: &mut World, seed: u64);

    /// Runs until what counts begins; how long that is.
    fn warm_up(&self, exec: &mut Exec, begun: Instant, length: Length, stop: &AtomicBool) -> Length {
        exec.run_until_or(begun + length.warm_up, stop);
        length
    }

    /// Requests count from here on.
    fn count_from(&self, w: &mut World, from: Instant);

    fn use_of(&self, _cpu: usize) -> CpuUse {
        CpuUse::Program
    }

    /// The first instance that is measured.
    fn first_napi(&self) -> usize {
        0
    }

    /// Holds what happened since `look` against laws.
    fn check(&self, w: &mut World, look: LawsLook);

    /// Requests that are due in a time, where that is known before.
    fn due(&self, _w: &World, _from: Instant, _to: Instant) -> Option<u64> {
        None
    }

    fn latencies(&self, w: &mut World) -> Latencies;
}

pub(crate) fn measure(of: &impl Staged, length: Length, seed: u64, stop: &AtomicBool) -> Option<Figures> {
    let machine = of.machine(seed);
    let code = |k: K, thread: usize| of.code(k, thread);
    let programs = setup::Programs { costs: of.costs(), code: &code };
    let mut exec = setup::build_for(&machine, &[], &Options::default(), Some(&programs));
    let begun = {
        let mut w = exec.vm.w();
        let now = w.now;
        of.begin(&mut w, seed);
        now
    };
    let length = of.warm_up(&mut exec, begun, length, stop);
    let (from, before, look) = {
        let mut w = exec.vm.w();
        let from = w.now;
        of.count_from(&mut w, from);
        (from, counted(&w, of), w.look())
    };
    let (taken, was_behind) = (look.taken, look.behind);
    let mut slices = Vec::with_capacity(SLICES as usize);
    for slice in 1..=SLICES {
        let until = Span::from_ns((u128::from(length.measured.ns) * u128::from(slice) / u128::from(SLICES)) as u64);
        exec.run_until_or(from + until, stop);
        let w = exec.vm.w();
        let (now, latencies) = (w.look(), w.asking.as_ref().map_or(0, |asking| asking.latency_ns.len()));
        // What is charged ahead may be given back: at the first slices there can be less than at the begin.
        let busy_ns = counted(&w, of).account.busy().ns.saturating_sub(before.account.busy().ns);
        let (answered, behind) = (now.taken - taken, now.behind.round() as u64);
        slices.push(RunSlice { until, answered, latencies, behind, busy_ns });
    }
    if stop.load(Ordering::Relaxed) {
        return None;
    }
    let mut w = exec.vm.w();
    let after = counted(&w, of);
    let end = w.look();
    let (answered, behind) = (end.taken - taken, (was_behind.round() as u64, end.behind.round() as u64));
    of.check(&mut w, look);
    let due = of.due(&w, from, w.now);
    let (latency_ns, from_due_ns, way_ns) = of.latencies(&mut w);
    Some(Figures {
        latency_ns,
        from_due_ns,
        way_ns,
        answered,
        due,
        behind,
        slices,
        cores: machine.cpus,
        measured: length.measured,
        migrations: w.migrations,
        steps: w.steps,
        broken: w.broken.take(),
        ..after.since(&before)
    })
}

/// What grows, until now.
fn counted(w: &World, of: &impl Staged) -> Figures {
    let mut counted = Figures::default();
    for cpu in 0..w.cpus.len() {
        let sum = match of.use_of(cpu) {
            CpuUse::Program => &mut counted.program,
            CpuUse::Polling => &mut counted.polling,
            CpuUse::Beside => continue,
        };
        *sum = sum.and(&w.spent(cpu));
        counted.works = counted.works.and(&w.cpus[cpu].speed.works);
    }
    for napi in w.napis.iter().skip(of.first_napi()) {
        counted.interrupts += napi.interrupts;
        counted.polls += napi.polls;
        counted.empty_polls += napi.empty_polls;
        counted.packets += napi.packets;
    }
    if let Some(datagrams) = &w.datagrams {
        counted.lost = datagrams.lost + w.lost_at_sockets();
        (counted.waits, counted.events) = (datagrams.waits, datagrams.events);
    }
    if let Some(asking) = &w.asking {
        (counted.lost, counted.waits, counted.events) = (asking.lost, asking.waits, asking.events);
    }
    for group in &w.groups.all {
        counted.turns += group.turns;
        counted.parks += group.parks;
        counted.parks_in_vain += group.decider.parks_in_vain();
        counted.wakes += group.wakes;
        counted.moves.iter_mut().zip(group.moves).for_each(|(sum, moves)| *sum += moves);
    }
    counted
}

/// A backlog grows if it does by more than chance lets requests come: so many standard deviations of what came.
const GROWTH_DEVIATIONS: f64 = 3.0;

impl Figures {
    /// Whether requests pile up: more were due and not answered at the end than at the begin, by more than what chance adds to those that
    /// came. A queue that keeps up is emptied again and again, so that its backlog hardly changes however long a run is.
    #[must_use]
    pub fn falls_behind(&self) -> bool {
        let (before, after) = self.behind;
        let more = after.saturating_sub(before);
        more as f64 > GROWTH_DEVIATIONS * ((self.answered + more) as f64).sqrt()
    }

    fn since(self, before: &Self) -> Self {
        let (program, polling) = (self.program.since(&before.program), self.polling.since(&before.polling));
        Self {
            account: program.and(&polling),
            program,
            polling,
            works: self.works.since(&before.works),
            interrupts: self.interrupts - before.interrupts,
            polls: self.polls - before.polls,
            empty_polls: self.empty_polls - before.empty_polls,
            packets: self.packets - before.packets,
            lost: self.lost - before.lost,
            waits: self.waits - before.waits,
            events: self.events - before.events,
            turns: self.turns - before.turns,
            parks: self.parks - before.parks,
            parks_in_vain: self.parks_in_vain - before.parks_in_vain,
            wakes: self.wakes - before.wakes,
            moves: std::array::from_fn(|kind| self.moves[kind] - before.moves[kind]),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_grows_by_more_than_chance_adds() {
        let of = |answered, behind| Figures { answered, behind, ..Figures::default() }.falls_behind();
        for (answered, behind, grows) in [
            (10_000, (0, 0), false),
            (10_000, (500, 20), false),
            // Three standard deviations of 10,000 and a little are 304.
            (10_000, (20, 320), false),
            (10_000, (20, 330), true),
            (0, (0, 9), false),
            (0, (0, 10), true),
            (0, (0, 0), false),
        ] {
            assert_eq!(of(answered, behind), grows, "{answered} {behind:?}");
        }
    }
}
