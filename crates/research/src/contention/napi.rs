//! Completions: the device's interrupt, and the poll that gives back the memory of sent packets. Source:
//! `net/core/skbuff.c napi_consume_skb`, `lib/dynamic_queue_limits.c dql_completed`.

use super::machine::Machine;
use super::spin::WorkerId;
use super::worker::{Goal, Lock, WorkerStep};

/// Most packets of one poll. Source: the budget of a poll, and of the completions of common drivers.
const POLL_PKTS_MAX: u32 = 64;
/// Packets whose memory is given back in one event of the simulation.
const STRIDE_PKTS: usize = 8;

impl Machine {
    /// If the queue's interrupt is armed and packets are on their way, it will come.
    pub(super) fn plan_interrupt(&mut self, queue_index: usize) {
        let moderation_ns = self.costs.moderation_ns;
        let now_ns = self.now_ns;
        let queue = &mut self.queues[queue_index];
        let Some(first) = queue.ring.front().filter(|_| queue.armed) else { return };
        let at_ns = first.done_ns.max(queue.last_interrupt_ns + moderation_ns).max(now_ns);
        queue.armed = false;
        let id = (self.senders + queue_index) as WorkerId;
        self.at(at_ns, id, WorkerStep::Interrupt);
    }

    pub(super) fn interrupt(&mut self, id: WorkerId) {
        let now_ns = self.now_ns;
        self.begin_busy(id);
        self.counts.interrupts += 1;
        self.queue_of(id).0.last_interrupt_ns = now_ns;
        let polled_ns = self.spend(id, now_ns, 0, self.costs.interrupt_ns);
        self.poll_on(id, polled_ns);
    }

    /// Goes on with a poll, or ends it.
    pub(super) fn poll_on(&mut self, id: WorkerId, from_ns: u64) {
        self.at(from_ns, id, WorkerStep::Completed);
    }

    /// Packets that the device is done with are given back, a few at a time.
    pub(super) fn completed(&mut self, id: WorkerId) {
        let now_ns = self.now_ns;
        let mut done_ns = now_ns;
        let mut pkts = 0;
        while pkts < STRIDE_PKTS {
            let (queue, _, cpu) = self.queue_of(id);
            let Some(done) = queue.ring.pop_front_if(|first| first.done_ns <= now_ns) else { break };
            queue.polled_bytes += done.packet.bytes;
            queue.polled_pkts += 1;
            queue.driver_news = true;
            pkts += 1;
            self.counts.completed_pkts += 1;
            let stall_ns =
                self.fetch_ns(self.costs.skb_free_lines, done.packet.data_at, cpu) + self.give_back(&done.packet, id);
            done_ns = self.spend(id, done_ns, stall_ns, self.costs.complete_ns);
        }
        let (queue, _, _) = self.queue_of(id);
        let ready = queue.ring.front().is_some_and(|first| first.done_ns <= now_ns);
        if pkts > 0 && (ready && queue.polled_pkts < POLL_PKTS_MAX) {
            return self.poll_on(id, done_ns);
        }
        if queue.polled_pkts > 0 {
            if queue.on_polled(now_ns) {
                self.schedule(id);
            }
            if std::mem::take(&mut self.worker(id).softirq_raised) {
                return self.lock(id, Lock::Root, Goal::Softirq, done_ns);
            }
            return self.poll_on(id, done_ns);
        }
        self.end_busy(id, done_ns);
        let queue_index = self.workers[usize::from(id)].queue;
        self.queues[queue_index].armed = true;
        self.plan_interrupt(queue_index);
    }
}
