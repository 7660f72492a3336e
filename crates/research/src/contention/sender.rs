//! A sender: `send()`, sleeping for memory, and the frame of `__dev_queue_xmit`.

use napier_core::tx::push::Push;

use super::machine::Machine;
use super::packet::SentPacket;
use super::plan::Path;
use super::spin::WorkerId;
use super::worker::{Goal, Lock, WorkerStep};

/// Times that a transmit softirq is taken up again at once. Source: `kernel/softirq.c MAX_SOFTIRQ_RESTART`.
const SOFTIRQ_RESTARTS: u32 = 10;

impl Machine {
    /// Memory for the packet, or sleep. Source: `net/core/sock.c sock_alloc_send_pskb`, `skb_set_owner_w`.
    pub(super) fn send(&mut self, id: WorkerId) {
        let now_ns = self.now_ns;
        let recycled_at = self.workers[self.senders + self.workers[usize::from(id)].queue].cpu;
        if self.workers[usize::from(id)].memory_bytes >= self.settings.send_buffer_bytes {
            let asleep_ns = self.spend(id, now_ns, 0, self.costs.sleep_ns);
            self.worker(id).asleep_since_ns = Some(asleep_ns);
            self.end_busy(id, asleep_ns);
            self.counts.sleeps += 1;
            return;
        }
        let packet_memory_bytes = self.settings.packet_memory_bytes;
        let worker = &self.workers[usize::from(id)];
        let stall_ns = self.fetch_ns(self.costs.alloc_lines, recycled_at, worker.cpu)
            + self.fetch_ns(1, worker.memory_at, worker.cpu);
        let bytes = self.settings.packet_bytes;
        self.counts.made_pkts += 1;
        let worker = self.worker(id);
        worker.memory_bytes += packet_memory_bytes;
        worker.memory_at = worker.cpu;
        worker.packet = Some(SentPacket { sender: id, bytes, fast: false, links_at: worker.cpu, data_at: worker.cpu });
        let done_ns = self.spend(id, now_ns, stall_ns, self.costs.send_ns);
        self.at(done_ns, id, WorkerStep::Enter);
    }

    /// Memory came back; who slept for it is woken when half of it is free. Source: `net/core/sock.c sock_wfree`,
    /// `sock_def_write_space`. Returns what that cost the caller.
    pub(super) fn give_back(&mut self, packet: &SentPacket, by: WorkerId) -> u64 {
        let by_cpu = self.workers[usize::from(by)].cpu;
        let sender = packet.sender;
        let cost_ns = self.fetch_ns(1, self.workers[usize::from(sender)].memory_at, by_cpu);
        let (packet_memory_bytes, buffer_bytes) = (self.settings.packet_memory_bytes, self.settings.send_buffer_bytes);
        let wake_ns = self.costs.wake_ns;
        let worker = self.worker(sender);
        assert!(worker.memory_bytes >= packet_memory_bytes, "memory comes back once");
        worker.memory_bytes -= packet_memory_bytes;
        worker.memory_at = by_cpu;
        if worker.memory_bytes * 2 > buffer_bytes {
            return cost_ns;
        }
        let Some(asleep_ns) = worker.asleep_since_ns.take() else { return cost_ns };
        self.move_near(sender, by_cpu);
        let awake_ns = (self.now_ns + cost_ns + wake_ns).max(asleep_ns) + self.costs.wake_latency_ns;
        let worker = self.worker(sender);
        (worker.is_busy, worker.busy_since_ns) = (true, awake_ns);
        self.at(awake_ns, sender, WorkerStep::Send);
        cost_ns + wake_ns
    }

    /// Source: `net/core/dev.c __dev_queue_xmit`, `__dev_xmit_skb`.
    pub(super) fn enter(&mut self, id: WorkerId) {
        let now_ns = self.now_ns;
        self.counts.entered_pkts += 1;
        self.worker(id).entered_ns = Some(now_ns);
        let ready_ns = self.spend(id, now_ns, 0, self.costs.entry_ns);
        match self.path {
            Path::List => {
                let (queue, wires, cpu) = self.queue_of(id);
                let seen_ns = queue.list.line.read(wires, cpu, ready_ns);
                self.at(seen_ns, id, WorkerStep::Looked);
            }
            Path::Locked => {
                let (queue, wires, cpu) = self.queue_of(id);
                let seen_ns = queue.root_lock.read(wires, cpu, ready_ns);
                self.at(seen_ns, id, WorkerStep::RunningRead);
            }
        }
    }

    /// The head of the list was read: link, count, or both.
    pub(super) fn looked(&mut self, id: WorkerId) {
        let (queue, _, _) = self.queue_of(id);
        let (empty, version) = (queue.list.packets.is_empty(), queue.list.version);
        let worker = self.worker(id);
        (worker.push, worker.seen_version) = (Push::new(empty), version);
        self.push_on(id);
    }

    /// The running flag was read: who finds the discipline running takes the other lock first.
    pub(super) fn running_read(&mut self, id: WorkerId) {
        let (queue, _, _) = self.queue_of(id);
        let contended = queue.root.is_running();
        self.counts.contended_pkts += u64::from(contended);
        self.worker(id).holds_busy = contended;
        let lock = if contended { Lock::Busy } else { Lock::Root };
        self.lock(id, lock, Goal::Queue, self.now_ns);
    }

    /// The end of `__dev_queue_xmit`, or of a softirq's run: softirqs are let in again, and a transmit softirq that was
    /// raised meanwhile runs here and now. Source: `include/linux/rcupdate.h rcu_read_unlock_bh`, `kernel/softirq.c
    /// __local_bh_enable_ip`.
    pub(super) fn leave(&mut self, id: WorkerId) {
        let now_ns = self.now_ns;
        let is_sender = usize::from(id) < self.senders;
        let worker = self.worker(id);
        if worker.softirq_raised && worker.softirqs_in_turn < SOFTIRQ_RESTARTS {
            worker.softirq_raised = false;
            worker.softirqs_in_turn += 1;
            return self.lock(id, Lock::Root, Goal::Softirq, now_ns);
        }
        worker.softirqs_in_turn = 0;
        if !is_sender {
            return self.poll_on(id, now_ns);
        }
        if let Some(entered_ns) = worker.entered_ns.take() {
            self.stays.add(now_ns - entered_ns + self.costs.probe_ns);
        }
        if self.worker(id).softirq_raised {
            // The kernel's softirq thread takes over, in the sender's place.
            self.worker(id).softirq_raised = false;
            return self.lock(id, Lock::Root, Goal::Softirq, now_ns);
        }
        self.at(now_ns, id, WorkerStep::Send);
    }
}
