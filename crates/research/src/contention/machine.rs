//! The event loop, and the time that work takes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

use super::costs::Costs;
use super::line::Wires;
use super::outcome::{Counts, Outcome};
use super::plan::{Contended, Path, PlanError, Settings};
use super::queue::Queue;
use super::spin::WorkerId;
use super::topology::{Cpu, Topology};
use super::worker::{Goal, Lock, Worker, WorkerStep};
use napier_core::histogram::Histogram;
use napier_rng::stream;

/// Time between two timer ticks (`CONFIG_HZ=1000`).
const TICK_PERIOD_NS: u64 = 1_000_000;

#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct DueStep {
    at_ns: u64,
    /// Events of the same time happen in the order in which they were asked for.
    number: u64,
    worker: WorkerId,
}

/// Everything.
pub(super) struct Machine {
    pub(super) path: Path,
    pub(super) settings: Settings,
    pub(super) costs: Costs,
    pub(super) wires: Wires,
    pub(super) now_ns: u64,
    agenda: BinaryHeap<Reverse<DueStep>>,
    events: u64,
    /// What each worker does next.
    steps: Vec<WorkerStep>,
    /// Senders first, then one per queue for its completions.
    pub(super) workers: Vec<Worker>,
    pub(super) queues: Vec<Queue>,
    pub(super) senders: usize,
    pub(super) device_free_ns: u64,
    topology: Topology,
    /// CPUs that no worker has.
    free_cpus: Vec<Cpu>,
    pub(super) counts: Counts,
    pub(super) stays: Histogram,
}

/// Runs a plan.
///
/// # Errors
/// If it cannot be run.
pub fn run(plan: &Contended) -> Result<Outcome, PlanError> {
    plan.check()?;
    let mut sum: Option<Outcome> = None;
    for placement in 0..plan.placements {
        let outcome = Machine::new(plan, placement).run(plan);
        match &mut sum {
            Some(sum) => sum.add(&outcome),
            None => sum = Some(outcome),
        }
    }
    Ok(sum.expect("a plan has a placement"))
}

impl Machine {
    fn new(plan: &Contended, placement: u32) -> Self {
        let wires = Wires::new(plan.topology, &plan.costs);
        let mut random = stream(plan.seed, &format!("placement {placement}"));
        let (cpus, free_cpus) = seats(plan, &mut random);
        let senders = usize::from(plan.senders);
        let queues = usize::from(plan.queues);
        let mut workers: Vec<Worker> = (0..)
            .zip(&cpus)
            .map(|(id, cpu)| {
                let index = usize::from(id);
                // netdev_pick_tx asks once per socket, on whatever CPU that is then, and the socket keeps the answer.
                let queue = match index.checked_sub(senders) {
                    Some(queue) => queue,
                    None if plan.settings.pinned => index * queues / senders,
                    None => random.random_range(0..queues),
                };
                Worker::new(id, *cpu, queue, random.random_range(0..TICK_PERIOD_NS))
            })
            .collect();
        pair_siblings(plan.topology, &mut workers);
        let queues = workers[senders..].iter().map(|worker| Queue::new(worker.cpu, &plan.settings)).collect();
        let mut machine = Self {
            path: plan.path,
            settings: plan.settings.clone(),
            costs: plan.costs.clone(),
            wires,
            now_ns: 0,
            agenda: BinaryHeap::new(),
            events: 0,
            steps: vec![WorkerStep::Send; workers.len()],
            workers,
            queues,
            senders,
            device_free_ns: 0,
            topology: plan.topology,
            free_cpus,
            counts: Counts::default(),
            stays: Histogram::default(),
        };
        for sender in 0..plan.senders {
            machine.begin_busy(sender);
            let start_ns = random.random_range(0..plan.costs.send_ns.max(1));
            machine.at(start_ns, sender, WorkerStep::Send);
        }
        machine
    }

    fn run(mut self, plan: &Contended) -> Outcome {
        self.run_until(plan.warm_up_ns);
        let before_pkts = self.begin_counting();
        self.run_until(plan.warm_up_ns + plan.run_ns);
        self.outcome(plan, before_pkts)
    }

    fn run_until(&mut self, end_ns: u64) {
        while let Some(Reverse(event)) = self.agenda.peek().copied() {
            if event.at_ns >= end_ns {
                break;
            }
            self.agenda.pop();
            assert!(event.at_ns >= self.now_ns, "time goes forward");
            self.now_ns = event.at_ns;
            self.step(event.worker, self.steps[usize::from(event.worker)]);
        }
        self.now_ns = end_ns;
    }

    fn step(&mut self, id: WorkerId, step: WorkerStep) {
        match step {
            WorkerStep::Send => self.send(id),
            WorkerStep::Enter => self.enter(id),
            WorkerStep::Looked => self.looked(id),
            WorkerStep::Pushing => self.pushing(id),
            WorkerStep::Taken => self.taken(id),
            WorkerStep::RunningRead => self.running_read(id),
            WorkerStep::Arrived(lock, goal) => self.arrived(id, lock, goal),
            WorkerStep::Locked(Lock::Busy, goal) => self.lock(id, Lock::Root, goal, self.now_ns),
            WorkerStep::Locked(Lock::Root, Goal::Queue) => self.root_locked(id),
            WorkerStep::Locked(Lock::Root, Goal::Relock) => self.relocked(id),
            WorkerStep::Locked(Lock::Root, Goal::Softirq) => self.softirq_locked(id),
            WorkerStep::Queued => self.queued(id),
            WorkerStep::Dequeued => self.dequeued(id),
            WorkerStep::Transmitted => self.lock(id, Lock::Root, Goal::Relock, self.now_ns),
            WorkerStep::Leave => self.leave(id),
            WorkerStep::Interrupt => self.interrupt(id),
            WorkerStep::Completed => self.completed(id),
        }
    }

    /// At `at_ns`, the worker does `step`.
    pub(super) fn at(&mut self, at_ns: u64, worker: WorkerId, step: WorkerStep) {
        self.steps[usize::from(worker)] = step;
        self.events += 1;
        self.agenda.push(Reverse(DueStep { at_ns, number: self.events, worker }));
    }

    /// What a worker does next that waits for a lock, and is on the agenda once it has it.
    pub(super) fn wait_for(&mut self, worker: WorkerId, step: WorkerStep) {
        self.steps[usize::from(worker)] = step;
    }

    /// What the worker does next.
    pub(super) fn step_of(&self, worker: WorkerId) -> WorkerStep {
        self.steps[usize::from(worker)]
    }

    pub(super) fn worker(&mut self, id: WorkerId) -> &mut Worker {
        &mut self.workers[usize::from(id)]
    }

    /// The worker's queue, and what else its steps need at hand.
    pub(super) fn queue_of(&mut self, id: WorkerId) -> (&mut Queue, &Wires, Cpu) {
        let worker = &self.workers[usize::from(id)];
        (&mut self.queues[worker.queue], &self.wires, worker.cpu)
    }

    /// When the CPU is done that spends `stall_ns` waiting for lines and `work_ns` on instructions, beginning at
    /// `from_ns`: a busy sibling slows the instructions, ticks come in between.
    pub(super) fn spend(&mut self, id: WorkerId, from_ns: u64, stall_ns: u64, work_ns: u64) -> u64 {
        let worker = &self.workers[usize::from(id)];
        let slowed = worker.sibling.is_some_and(|sibling| self.workers[usize::from(sibling)].is_busy);
        let work_ns = if slowed { work_ns * self.costs.sibling_pct / 100 } else { work_ns };
        let mut done_ns = from_ns + stall_ns + work_ns;
        let tick_ns = self.costs.tick_ns;
        let worker = self.worker(id);
        while worker.next_tick_ns < done_ns {
            // A tick before, while it spun or slept, cost no worker anything.
            if worker.next_tick_ns >= from_ns {
                done_ns += tick_ns;
            }
            worker.next_tick_ns += TICK_PERIOD_NS;
        }
        done_ns
    }

    /// Lines that another CPU wrote, waited for one after the other.
    pub(super) fn fetch_ns(&self, lines: u64, from: Cpu, to: Cpu) -> u64 {
        lines * self.wires.transfer_ns(from, to)
    }

    pub(super) fn begin_busy(&mut self, id: WorkerId) {
        let now_ns = self.now_ns;
        let worker = self.worker(id);
        assert!(!worker.is_busy, "a CPU begins once");
        (worker.is_busy, worker.busy_since_ns) = (true, now_ns);
    }

    pub(super) fn end_busy(&mut self, id: WorkerId, at_ns: u64) {
        let worker = self.worker(id);
        assert!(worker.is_busy, "a CPU ends what it has begun");
        worker.is_busy = false;
        worker.busy_ns += at_ns.saturating_sub(worker.busy_since_ns);
    }

    /// A sender that is woken moves to the waker's socket, if a CPU is free there: one on an idle core first.
    pub(super) fn move_near(&mut self, sender: WorkerId, waker: Cpu) {
        let from = self.worker(sender).cpu;
        if self.settings.pinned
            || !self.settings.follow_waker
            || self.topology.socket(from) == self.topology.socket(waker)
        {
            return;
        }
        let topology = self.topology;
        let cores_taken: Vec<u16> = self.workers.iter().map(|worker| topology.core(worker.cpu)).collect();
        let near = |cpu: &Cpu| topology.socket(*cpu) == topology.socket(waker);
        let candidates = self.free_cpus.iter().copied().enumerate().filter(|(_, cpu)| near(cpu));
        let Some((index, to)) = candidates.min_by_key(|(_, cpu)| (cores_taken.contains(&topology.core(*cpu)), *cpu))
        else {
            return;
        };
        self.free_cpus[index] = from;
        self.worker(sender).cpu = to;
        pair_siblings(topology, &mut self.workers);
    }

    fn begin_counting(&mut self) -> u64 {
        let now_ns = self.now_ns;
        for worker in &mut self.workers {
            (worker.busy_ns, worker.busy_since_ns) = (0, worker.busy_since_ns.max(now_ns));
        }
        (self.counts, self.stays) = (Counts::default(), Histogram::default());
        self.charged_pkts()
    }

    /// Packets whose memory is charged to a sender.
    fn charged_pkts(&self) -> u64 {
        self.workers.iter().map(|worker| worker.memory_bytes).sum::<u64>() / self.settings.packet_memory_bytes
    }

    fn outcome(mut self, plan: &Contended, before_pkts: u64) -> Outcome {
        let end_ns = self.now_ns;
        for id in (0..).take(self.workers.len()) {
            if self.worker(id).is_busy {
                self.end_busy(id, end_ns);
            }
        }
        let after_pkts = self.charged_pkts();
        let counts = self.counts.clone();
        assert!(
            before_pkts + counts.made_pkts == counts.completed_pkts + counts.dropped_pkts + after_pkts,
            "every packet is sent, dropped or on its way"
        );
        Outcome {
            run_ns: plan.run_ns,
            cpus: plan.topology.cpus(),
            busy_ns: self.workers.iter().map(|worker| worker.busy_ns).sum(),
            counts,
            stays: self.stays,
            before_pkts,
            after_pkts,
            events: self.events,
        }
    }
}

/// A CPU for each sender and then for each queue's completions, and the CPUs that are left: senders on cores of their
/// own as long as there are some, completions spread over the machine. Pinned senders take the CPUs in turn, as Linux numbers them.
fn seats(plan: &Contended, random: &mut impl Rng) -> (Vec<Cpu>, Vec<Cpu>) {
    let topology = plan.topology;
    let mut cores: Vec<u16> = (0..topology.cores()).collect();
    if !plan.settings.pinned {
        cores.shuffle(random);
    }
    let mut free: Vec<Cpu> = (0..topology.threads_per_core)
        .flat_map(|thread| cores.iter().map(move |core| topology.cpu(*core, thread)))
        .collect();
    let mut rest = free.split_off(plan.senders.into());
    rest.sort_unstable_by_key(|cpu| (topology.core(*cpu), *cpu));
    let queues = usize::from(plan.queues);
    let taken: Vec<Cpu> = (0..queues).map(|queue| rest[queue * rest.len() / queues]).collect();
    rest.retain(|cpu| !taken.contains(cpu));
    free.extend(taken);
    (free, rest)
}

/// Who has which thread of a core.
fn pair_siblings(topology: Topology, workers: &mut [Worker]) {
    let mut of_core: Vec<Option<WorkerId>> = vec![None; topology.cores().into()];
    for index in 0..workers.len() {
        let core = usize::from(topology.core(workers[index].cpu));
        workers[index].sibling = None;
        if let Some(other) = of_core[core].replace(workers[index].id) {
            workers[index].sibling = Some(other);
            workers[usize::from(other)].sibling = Some(workers[index].id);
        }
    }
}
