//! Who runs a discipline: chains go from it to the device. Source: `net/sched/sch_generic.c __qdisc_run`,
//! `sch_direct_xmit`, `net/core/dev.c net_tx_action`.

use napier_core::time::Instant;
use napier_core::tx::run::{RunEnd, TxRun, TxStep};

use super::machine::Machine;
use super::packet::SentPacket;
use super::queue::InFlight;
use super::spin::WorkerId;
use super::worker::{Lock, WorkerStep};

impl Machine {
    /// Goes on with a run; the root lock is held.
    pub(super) fn run_on(&mut self, id: WorkerId) {
        let now_ns = self.now_ns;
        let Some(mut run) = self.worker(id).run.take() else { panic!("a runner has a run") };
        match run.next() {
            TxStep::Dequeue => {
                let dequeued_ns = self.dequeue(id, &mut run, now_ns);
                self.worker(id).run = Some(run);
                self.at(dequeued_ns, id, WorkerStep::Dequeued);
            }
            TxStep::TxLock { .. } => {
                self.unlock(id, Lock::Root);
                let transmitted_ns = self.transmit(id, &mut run, now_ns);
                self.worker(id).run = Some(run);
                self.at(transmitted_ns, id, WorkerStep::Transmitted);
            }
            TxStep::Finish(end) => {
                self.finish(id, run, end);
                self.unlock(id, Lock::Root);
                self.end_of_xmit(id);
            }
            TxStep::Offer { .. } | TxStep::Relock => panic!("the transmit lock is taken and given up within a step"),
        }
    }

    pub(super) fn dequeued(&mut self, id: WorkerId) {
        self.run_on(id);
    }

    /// The root lock is held again after a chain.
    pub(super) fn relocked(&mut self, id: WorkerId) {
        let Some(mut run) = self.worker(id).run.take() else { panic!("a runner has a run") };
        run.on_relocked(&mut self.queue_of(id).0.root);
        self.worker(id).run = Some(run);
        self.run_on(id);
    }

    /// The root lock is held by a transmit softirq.
    pub(super) fn softirq_locked(&mut self, id: WorkerId) {
        let quota_pkts = self.settings.quota_pkts;
        let (queue, _, _) = self.queue_of(id);
        queue.state = queue.state.unschedule();
        match TxRun::begin(&mut queue.root, quota_pkts) {
            Some(run) => {
                self.worker(id).run = Some(run);
                self.run_on(id);
            }
            None => {
                self.unlock(id, Lock::Root);
                self.end_of_xmit(id);
            }
        }
    }

    /// Dequeues a chain; when that is done.
    fn dequeue(&mut self, id: WorkerId, run: &mut TxRun<SentPacket>, now_ns: u64) -> u64 {
        let (queue, _, cpu) = self.queue_of(id);
        let view = queue.view();
        run.on_dequeue(&mut queue.root, Instant::from_ns(now_ns), |_| view);
        if !matches!(run.next(), TxStep::TxLock { validate: true }) {
            return self.spend(id, now_ns, 0, self.costs.dequeue_ns);
        }
        let mut stall_ns = 0;
        let chain = run.chain_mut();
        let pkts = chain.len() as u64;
        for packet in chain {
            stall_ns += self.fetch_ns(self.costs.skb_dequeue_lines, packet.links_at, cpu) + self.fetch_fq(packet, id);
            stall_ns += self.fetch_ns(self.costs.skb_count_lines, packet.data_at, cpu);
            self.queue_of(id).0.fq.on_dequeue(packet.fast);
            packet.links_at = cpu;
        }
        self.spend(id, now_ns, stall_ns, pkts * self.costs.dequeue_ns)
    }

    /// Gives a chain to the driver, which rings the doorbell at its end; when that is done. The transmit lock is the
    /// runner's own: no other CPU takes it.
    fn transmit(&mut self, id: WorkerId, run: &mut TxRun<SentPacket>, now_ns: u64) -> u64 {
        let cpu = self.workers[usize::from(id)].cpu;
        let mut done_ns = now_ns + self.fetch_driver(id);
        let mut given: Vec<SentPacket> = Vec::new();
        run.on_tx_locked(self.queue_of(id).0.bits);
        while let TxStep::Offer { .. } = run.next() {
            let packet = run.take();
            let stall_ns = self.fetch_ns(self.costs.skb_transmit_lines, packet.data_at, cpu);
            done_ns = self.spend(id, done_ns, stall_ns, self.costs.transmit_ns);
            let (queue, _, _) = self.queue_of(id);
            queue.on_given(packet.bytes, given.len() + 1);
            run.on_taken(queue.bits);
            given.push(SentPacket { links_at: cpu, data_at: cpu, ..packet });
        }
        if given.is_empty() {
            return done_ns;
        }
        self.counts.chains += 1;
        self.counts.chain_pkts += given.len() as u64;
        done_ns = self.spend(id, done_ns, 0, self.costs.doorbell_ns);
        for packet in given {
            self.send_to_wire(id, packet, done_ns);
        }
        self.plan_interrupt(self.workers[usize::from(id)].queue);
        done_ns
    }

    /// The lines of the driver that a runner writes to.
    fn fetch_driver(&mut self, id: WorkerId) -> u64 {
        let completer = self.workers[self.senders + self.workers[usize::from(id)].queue].cpu;
        let (queue, _, cpu) = self.queue_of(id);
        let from = std::mem::replace(&mut queue.driver_at, cpu);
        let news = std::mem::take(&mut queue.driver_news);
        if from == cpu {
            return if news { self.fetch_ns(1, completer, cpu) } else { 0 };
        }
        self.fetch_ns(self.costs.driver_lines, from, cpu)
    }

    /// The device sends one packet of all its queues at a time.
    fn send_to_wire(&mut self, id: WorkerId, packet: SentPacket, rung_ns: u64) {
        let wire_ns = self.settings.wire_bytes * 8 / self.settings.device_gbit;
        self.device_free_ns = self.device_free_ns.max(rung_ns) + wire_ns;
        let done_ns = self.device_free_ns + self.costs.device_ns;
        self.queue_of(id).0.ring.push_back(InFlight { packet, done_ns });
    }

    fn finish(&mut self, id: WorkerId, run: TxRun<SentPacket>, end: RunEnd) {
        if end.again {
            self.counts.unfinished_runs += 1;
            self.schedule(id);
        }
        run.finish(&mut self.queue_of(id).0.root);
    }

    /// Asks for a run in softirq context on the worker's CPU.
    pub(super) fn schedule(&mut self, id: WorkerId) {
        let (queue, _, _) = self.queue_of(id);
        let (state, raise) = queue.state.schedule(queue.list.packets.is_empty());
        queue.state = state;
        if raise {
            self.worker(id).softirq_raised = true;
        }
    }
}
