//! Softirq context: a poll list, a timer and a pinned thread per CPU.
//!
//! The poll list is run by the CPU's thread. A program's thread that raises a softirq does of it what it owns
//! (`inline`), and one that sleeps is the softirq of its CPU meanwhile (`hand_over`). What keeps the thread from its work is
//! found and mended by `watchdog`, `placement` and `class`.

pub(in crate::deliver) mod class;
mod cpus;
mod hand_over;
mod holds;
mod inline;
mod placement;
#[cfg(test)]
pub(crate) mod scarce;
mod service;
mod serving;
mod thread;
mod timer;
mod transmit;
mod watchdog;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use napier_core::context::PollContext;
use napier_core::counters::ShownNumber as _;
use napier_core::softirq::{NetRxRun, NetRxStep, PollLists, SoftirqLoop, SoftirqNext};
use napier_core::time::Instant;
use napier_ring::{CombiningFlag, Exclusive, List};
use rustix::event::epoll;
use rustix::fd::{BorrowedFd, OwnedFd};

use super::Deliver;
use super::owner::Owner;
use crate::journal::{Event, Target};
use crate::napi::{Context, Napi};
use crate::port::IrqCpu;
pub(crate) use cpus::SoftirqCpus;
use hand_over::HandOver;
use holds::Holds;
use placement::Placement;
pub(crate) use placement::without;
pub(crate) use thread::{start, tokens};
use timer::CpuTimer;
#[cfg(test)]
pub(crate) use timer::hold as timer_hold;
pub(crate) use watchdog::{Watchdog, WatchdogThread};

/// One CPU that runs softirqs.
pub(crate) struct SoftirqCpu {
    /// Position among the engine's softirq CPUs.
    pub(crate) index: u32,
    /// The processor that it stands for; the thread is pinned there if it was named.
    pub(crate) cpu: usize,
    placement: Placement,
    /// Instances scheduled here and not yet on the poll list; any thread pushes.
    raised: List,
    /// The output queue: transmit queues that were scheduled here, by the number of their instance.
    raised_tx: List,
    /// Of the thread that serves the CPU.
    serving: CombiningFlag,
    lists: Exclusive<PollLists<u32>>,
    /// Work was left over by the limits of the softirq loop: the thread goes on as ksoftirqd.
    left_over: AtomicBool,
    timer: CpuTimer,
    /// Interrupts that are held back.
    pub(super) holds: Holds,
    epoll: OwnedFd,
    kick: OwnedFd,
    hand_over: Arc<HandOver>,
    fifo: AtomicBool,
    counters: SoftirqCounters,
    /// The thread is to stand still before its next wait; it does.
    #[cfg(test)]
    stand_still: [AtomicBool; 2],
}

#[derive(Default)]
struct SoftirqCounters {
    runs: AtomicU64,
    time_squeeze: AtomicU64,
    ksoftirqd: AtomicU64,
    wakeups: AtomicU64,
    timer_programs: AtomicU64,
    task_runs: AtomicU64,
    stood_in: AtomicU64,
    taken_over: AtomicU64,
    fifo_left: AtomicU64,
    let_go: AtomicU64,
}

/// Counters of one softirq CPU since the engine started.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub struct SoftirqStats {
    /// The processor.
    pub cpu: usize,
    /// Whether the thread runs as `SCHED_FIFO`.
    pub fifo: bool,
    /// Runs of the receive handler (`net_rx_action`).
    pub runs: u64,
    /// Runs that ended by budget or time (`/proc/net/softnet_stat`, third column).
    pub time_squeeze: u64,
    /// Times that the rest was left to normal priority, as to ksoftirqd.
    pub ksoftirqd: u64,
    /// Times that the thread woke up.
    pub wakeups: u64,
    /// Kernel timers that were programmed.
    pub timer_programs: u64,
    /// Instances polled by a thread of a program that raised the softirq, once each.
    pub task_runs: u64,
    /// Sleeps of programs' threads that took this CPU's interrupts and timers meanwhile, instead of its own thread.
    pub stood_in: u64,
    /// Times that work which had waited 10 ms for the thread was done by another.
    pub taken_over: u64,
    /// Times that the thread left `SCHED_FIFO` because it took most of its processor, to come back when it took less.
    pub fifo_left: u64,
    /// Times that the pinned thread stood still with work for 10 ms and was let run on other processors for 10 s.
    pub let_go: u64,
    /// Time that the thread could have run and had no processor, in ns; 0 where the system does not tell. Source:
    /// `/proc/PID/task/TID/schedstat`, second field.
    pub run_delay_ns: u64,
}

/// The CPU and its class, then one line per counter that is not 0, with its name and its unit.
impl fmt::Display for SoftirqStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, fifo, runs, time_squeeze, ksoftirqd, wakeups, timer_programs, .. } = self;
        let Self { task_runs, stood_in, taken_over, fifo_left, let_go, run_delay_ns, .. } = self;
        writeln!(f, "{:<32}{cpu}{}", "cpu", if *fifo { " (SCHED_FIFO)" } else { "" })?;
        runs.show("runs", f)?;
        time_squeeze.show("time_squeeze", f)?;
        ksoftirqd.show("ksoftirqd", f)?;
        wakeups.show("wakeups", f)?;
        timer_programs.show("timer_programs", f)?;
        task_runs.show("task_runs", f)?;
        stood_in.show("stood_in", f)?;
        taken_over.show("taken_over", f)?;
        fifo_left.show("fifo_left", f)?;
        let_go.show("let_go", f)?;
        run_delay_ns.show("run_delay_ns", f)
    }
}

impl SoftirqCpu {
    /// Wakes the CPU's thread.
    pub(crate) fn kick(&self) {
        // A full counter means that the thread has not even looked yet: just as good.
        let _ = rustix::io::write(&self.kick, &1_u64.to_ne_bytes());
    }

    /// A thread that polls on this CPU for ever comes round: it runs what is raised, the timers that are due and the holds that
    /// are over. False: there was nothing.
    pub(super) fn serve(&self, cx: Context, deliver: &Deliver, now: Instant) -> bool {
        let due = self.has_timers() && self.timer_is_due(now) || self.holds.due(now, true).is_some();
        if due {
            // What becomes of them is looked at below: no thread has to be woken for it.
            self.run_due_timers(*cx.serve(self.index), deliver);
        }
        self.run(cx, deliver) || due
    }

    /// Runs softirqs until nothing is pending, or leaves them to the thread that runs them already. False: nothing was.
    pub(super) fn run(&self, cx: Context, deliver: &Deliver) -> bool {
        if !self.is_raised() && !self.left_over.load(Ordering::Relaxed) {
            return false;
        }
        let mut held = self.serving.try_take();
        while let Some(combiner) = held {
            self.handle(*cx.handle(self.index), deliver);
            held = combiner.pass(|| self.is_raised());
        }
        true
    }

    /// `handle_softirqs`: repeats the receive handler within the limits of time and passes.
    fn handle(&self, cx: Context, deliver: &Deliver) {
        let mut lists = self.lists.enter();
        let mut now = deliver.clock.now();
        let mut passes = SoftirqLoop::begin(now);
        loop {
            self.net_tx_action(deliver);
            let pending = if self.raised.is_empty() && lists.is_empty() {
                false
            } else {
                self.net_rx_action(cx, deliver, &mut lists, now)
            };
            let pending = pending || !self.raised_tx.is_empty();
            if !pending {
                self.left_over.store(false, Ordering::Relaxed);
                return;
            }
            now = deliver.clock.now();
            match passes.again(now, false, pending) {
                SoftirqNext::Run => {}
                SoftirqNext::Done => return,
                SoftirqNext::WakeKsoftirqd => {
                    self.counters.ksoftirqd.fetch_add(1, Ordering::Relaxed);
                    self.left_over.store(true, Ordering::Relaxed);
                    if cx.thread_of() != Some(self.index) {
                        self.kick();
                    }
                    return;
                }
            }
        }
    }

    #[inline]
    fn is_raised(&self) -> bool {
        !self.raised.is_empty() || !self.raised_tx.is_empty()
    }

    /// `net_tx_action`: runs each transmit queue that was scheduled before it began.
    fn net_tx_action(&self, deliver: &Deliver) {
        let mut scheduled = self.raised_tx.take(&deliver.tx_links);
        while let Some(index) = scheduled.pop(&deliver.tx_links) {
            deliver.napi_at(index).tx_path().softirq_run();
        }
    }

    /// `net_rx_action`: one run with its budget and time limit; true if work is left.
    fn net_rx_action(&self, cx: Context, deliver: &Deliver, lists: &mut PollLists<u32>, now: Instant) -> bool {
        self.counters.runs.fetch_add(1, Ordering::Relaxed);
        self.collect(deliver, lists);
        let (budget_pkts, time_limit) = deliver.sysctl.netdev_budget();
        let mut run = NetRxRun::begin(lists, now, budget_pkts, time_limit);
        let reraise = loop {
            self.collect(deliver, lists);
            match run.next(lists) {
                NetRxStep::Poll(index) => {
                    let napi = deliver.napi_at(index);
                    let polled = deliver.poll_once(cx, napi, PollContext::Softirq);
                    run.polled(lists, deliver.clock.now(), index, polled.work, polled.repoll);
                }
                NetRxStep::Finish { reraise } => break reraise,
            }
        };
        if run.squeezed() {
            self.counters.time_squeeze.fetch_add(1, Ordering::Relaxed);
        }
        reraise
    }

    fn collect(&self, deliver: &Deliver, lists: &mut PollLists<u32>) {
        if self.raised.is_empty() {
            return;
        }
        let mut raised = self.raised.take(&deliver.napi_links);
        while let Some(index) = raised.pop(&deliver.napi_links) {
            // Whoever raised sees to it that the list is run.
            let _ = lists.push_back(index);
        }
    }

    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }

    pub(crate) fn stats(&self) -> SoftirqStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SoftirqStats {
            cpu: self.cpu,
            fifo: self.fifo.load(Ordering::Relaxed),
            runs: read(&self.counters.runs),
            time_squeeze: read(&self.counters.time_squeeze),
            ksoftirqd: read(&self.counters.ksoftirqd),
            wakeups: read(&self.counters.wakeups),
            timer_programs: read(&self.counters.timer_programs),
            task_runs: read(&self.counters.task_runs),
            stood_in: read(&self.counters.stood_in),
            taken_over: read(&self.counters.taken_over),
            fifo_left: read(&self.counters.fifo_left),
            let_go: read(&self.counters.let_go),
            run_delay_ns: napier_sys::sched::run_delay_ns(self.placement.tid()).unwrap_or(0),
        }
    }
}

impl IrqCpu for SoftirqCpu {
    fn watch_for(&self, fd: BorrowedFd<'_>, token: u64, events: epoll::EventFlags) -> rustix::io::Result<()> {
        #[cfg(test)]
        scarce::take()?;
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), events)
    }

    fn rewatch(&self, fd: BorrowedFd<'_>, token: u64, events: epoll::EventFlags) -> rustix::io::Result<()> {
        epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(token), events)
    }

    fn unwatch(&self, fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
        epoll::delete(&self.epoll, fd)
    }
}

/// Softirq as an owner: the CPU that the caller counts as being on.
pub(super) struct OnCpu;

impl Owner for OnCpu {
    fn take(&self, cx: Context, deliver: &Deliver, napi: &Napi) {
        let cpu = deliver.softirq.of(cx, napi);
        napi.journaled(|| (), |()| Event::Scheduled { target: Target::Softirq { cpu: cpu.cpu } });
        cpu.raise(cx, deliver, napi);
    }
}

#[cfg(test)]
mod tests {
    use super::SoftirqStats;

    #[test]
    fn counters_print_their_names_and_units() {
        let stats = SoftirqStats { cpu: 2, fifo: true, runs: 3, run_delay_ns: 50, ..SoftirqStats::default() };
        let shown = stats.to_string();
        let words = ["cpu", "2", "(SCHED_FIFO)", "runs", "3", "run_delay_ns", "50", "ns"];
        assert!(shown.split_whitespace().eq(words), "{shown}");
    }
}
