//! The two ways to the discipline, up to packets that are queued. Source: `net/core/dev.c __dev_xmit_skb` (Linux 6.18
//! for the locks, 7.3 for the list).
//!
//! ```text
//! list:    read head --> [count] --> swap --list was not empty--> leave
//!                                     \--was empty--> root lock --> take all, queue all --> run, if no CPU does
//! locked:  read running --running--> busy lock --> root lock --> queue own --> run, if no CPU does
//!                        \--not-------------------/
//! ```

use napier_core::time::Instant;
use napier_core::tx::flush::flush;
use napier_core::tx::push::{PushStep, Pushed};

use super::machine::Machine;
use super::packet::SentPacket;
use super::plan::Path;
use super::queue::Queue;
use super::spin::WorkerId;
use super::worker::{Goal, Lock, WorkerStep};

impl Machine {
    /// Goes on with a push whose head was read: the line is asked for, to write to it.
    pub(super) fn push_on(&mut self, id: WorkerId) {
        let now_ns = self.now_ns;
        let (queue, wires, cpu) = self.queue_of(id);
        let here_ns = queue.list.line.write(wires, cpu, now_ns);
        self.at(here_ns, id, WorkerStep::Pushing);
    }

    /// The line is here, and stays for the few instructions up to the swap: the next request takes longer to reach it.
    /// So a swap that fails, because the head has moved between read and write, fails once.
    pub(super) fn pushing(&mut self, id: WorkerId) {
        let burst_max = self.settings.burst_max;
        let worker = &mut self.workers[usize::from(id)];
        let list = &mut self.queues[worker.queue].list;
        let mut done_ns = self.now_ns;
        let pushed = loop {
            match worker.push.next() {
                PushStep::Count => {
                    list.count += 1;
                    worker.push.on_counted(list.count, burst_max);
                    done_ns += self.costs.atomic_ns;
                }
                PushStep::Link if worker.seen_version == list.version => {
                    let Some(packet) = worker.packet.take() else { panic!("a push has its packet") };
                    list.packets.push(packet);
                    list.version += 1;
                    worker.push.on_linked();
                }
                PushStep::Link => {
                    worker.seen_version = list.version;
                    worker.push.on_moved(list.packets.is_empty());
                    self.counts.swaps_failed += 1;
                    done_ns += self.costs.atomic_ns;
                }
                PushStep::Done(pushed) => break pushed,
            }
        };
        match pushed {
            Pushed::Handed => self.at(done_ns, id, WorkerStep::Leave),
            Pushed::Flush => self.lock(id, Lock::Root, Goal::Queue, done_ns),
            Pushed::BurstDrop => {
                let Some(packet) = self.worker(id).packet.take() else {
                    panic!("a push that is refused has its packet")
                };
                let done_ns = self.drop_packet(&packet, id, done_ns);
                self.at(done_ns, id, WorkerStep::Leave);
            }
        }
    }

    /// Wants a lock.
    pub(super) fn lock(&mut self, id: WorkerId, lock: Lock, goal: Goal, from_ns: u64) {
        let (queue, wires, cpu) = self.queue_of(id);
        let arrived_ns = of(queue, lock).request(wires, cpu, from_ns);
        self.at(arrived_ns, id, WorkerStep::Arrived(lock, goal));
    }

    pub(super) fn arrived(&mut self, id: WorkerId, lock: Lock, goal: Goal) {
        let now_ns = self.now_ns;
        let (queue, _, cpu) = self.queue_of(id);
        if of(queue, lock).arrive(id, cpu) {
            self.at(now_ns, id, WorkerStep::Locked(lock, goal));
        } else {
            // Not on the agenda: the holder will put it there.
            self.wait_for(id, WorkerStep::Locked(lock, goal));
        }
    }

    pub(super) fn unlock(&mut self, id: WorkerId, lock: Lock) {
        let now_ns = self.now_ns;
        let (queue, wires, cpu) = self.queue_of(id);
        if let Some(next) = of(queue, lock).release(wires, id, cpu, now_ns) {
            let step = self.step_of(next.worker);
            assert!(
                matches!(step, WorkerStep::Locked(waited, _) if waited == lock),
                "who waits for a lock does nothing else"
            );
            self.at(next.at_ns, next.worker, step);
        }
    }

    /// The root lock is held, to queue packets: the flusher's batch, or the sender's own.
    pub(super) fn root_locked(&mut self, id: WorkerId) {
        let now_ns = self.now_ns;
        match self.path {
            Path::List => {
                let (queue, wires, cpu) = self.queue_of(id);
                let taken_ns = queue.list.line.write(wires, cpu, now_ns);
                self.at(taken_ns, id, WorkerStep::Taken);
            }
            Path::Locked => {
                let Some(packet) = self.worker(id).packet.take() else { panic!("a sender queues its own packet") };
                self.queue_batch(id, vec![packet]);
            }
        }
    }

    pub(super) fn taken(&mut self, id: WorkerId) {
        let (queue, _, _) = self.queue_of(id);
        queue.list.version += 1;
        queue.list.count = 0;
        let batch = std::mem::take(&mut queue.list.packets);
        self.counts.batches += 1;
        self.counts.batch_pkts += batch.len() as u64;
        self.queue_batch(id, batch);
    }

    fn queue_batch(&mut self, id: WorkerId, mut batch: Vec<SentPacket>) {
        let now_ns = self.now_ns;
        let cpu = self.workers[usize::from(id)].cpu;
        let mut stall_ns = 0;
        for packet in &mut batch {
            stall_ns += self.fetch_ns(self.costs.skb_enqueue_lines, packet.links_at, cpu);
            packet.links_at = cpu;
            packet.fast = self.queue_of(id).0.fq.on_enqueue();
            stall_ns += self.fetch_fq(packet, id);
        }
        let queued_ns = self.spend(id, now_ns, stall_ns, batch.len() as u64 * self.costs.enqueue_ns);
        let quota_pkts = self.settings.quota_pkts;
        let mut dropped = std::mem::take(&mut self.worker(id).dropped);
        let (queue, _, _) = self.queue_of(id);
        let flushed = flush(&mut queue.root, queue.state, batch, Instant::from_ns(now_ns), quota_pkts, &mut |drop| {
            dropped.push(drop)
        });
        for drop in &dropped {
            queue.fq.on_dequeue(drop.packet.fast);
        }
        let worker = self.worker(id);
        (worker.run, worker.dropped) = (flushed.run, dropped);
        self.at(queued_ns, id, WorkerStep::Queued);
    }

    /// The lines of fq that a worker writes to who queues or dequeues the packet.
    pub(super) fn fetch_fq(&mut self, packet: &SentPacket, by: WorkerId) -> u64 {
        let (queue, _, cpu) = self.queue_of(by);
        let qdisc_from = std::mem::replace(&mut queue.fq.qdisc_at, cpu);
        if packet.fast {
            let from = std::mem::replace(&mut queue.fq.fast_at, cpu);
            return self.fetch_ns(self.costs.qdisc_lines, qdisc_from, cpu)
                + self.fetch_ns(self.costs.fast_lines, from, cpu);
        }
        let lists_from = std::mem::replace(&mut queue.fq.lines_at, cpu);
        let flow_from = std::mem::replace(&mut self.worker(packet.sender).flow_at, cpu);
        self.fetch_ns(self.costs.qdisc_lines, qdisc_from, cpu)
            + self.fetch_ns(self.costs.fq_lines, lists_from, cpu)
            + self.fetch_ns(self.costs.flow_lines, flow_from, cpu)
    }

    /// Packets are queued, and the root lock is held. A runner lets the next sender past the busy lock.
    pub(super) fn queued(&mut self, id: WorkerId) {
        if self.worker(id).run.is_some() {
            self.unlock_busy(id);
            return self.run_on(id);
        }
        self.unlock(id, Lock::Root);
        self.unlock_busy(id);
        self.end_of_xmit(id);
    }

    fn unlock_busy(&mut self, id: WorkerId) {
        if std::mem::take(&mut self.worker(id).holds_busy) {
            self.unlock(id, Lock::Busy);
        }
    }

    /// Behind the locks: memory of packets that were dropped is given back.
    pub(super) fn end_of_xmit(&mut self, id: WorkerId) {
        let mut done_ns = self.now_ns;
        let mut dropped = std::mem::take(&mut self.worker(id).dropped);
        for drop in dropped.drain(..) {
            done_ns = self.drop_packet(&drop.packet, id, done_ns);
        }
        self.worker(id).dropped = dropped;
        self.at(done_ns, id, WorkerStep::Leave);
    }

    fn drop_packet(&mut self, packet: &SentPacket, by: WorkerId, from_ns: u64) -> u64 {
        self.counts.dropped_pkts += 1;
        let stall_ns = self.give_back(packet, by);
        self.spend(by, from_ns, stall_ns, self.costs.complete_ns)
    }
}

const fn of(queue: &mut Queue, lock: Lock) -> &mut super::spin::SpinLock {
    match lock {
        Lock::Busy => &mut queue.busy,
        Lock::Root => &mut queue.root_lock,
    }
}
