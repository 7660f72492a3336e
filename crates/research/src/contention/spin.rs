//! A queued spin lock. Source: `kernel/locking/qspinlock.c`, `include/asm-generic/qspinlock.h`.
//!
//! ```text
//! arrive: the lock's line comes to who wants it --free--> held
//!                                               \--held--> waits its turn, spinning on a line of its own
//! release: the line comes back to the holder, and goes to the next, who spins on it   (two transfers)
//!          the one behind is told that it is at the head now: a write and a read of its line, beside the lock's
//! ```

use std::collections::VecDeque;

use super::line::{CacheLine, Wires};
use super::topology::Cpu;

/// Number of who wants a lock.
pub(super) type WorkerId = u16;

#[derive(Copy, Clone, Debug)]
struct Waiter {
    worker: WorkerId,
    cpu: Cpu,
}

/// The lock.
#[derive(Clone, Debug)]
pub(super) struct SpinLock {
    line: CacheLine,
    holder: Option<WorkerId>,
    waiters: VecDeque<Waiter>,
    /// When the first waiter knows that it is the first.
    head_ready_ns: u64,
}

/// Who holds a lock next, and from when on.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Handover {
    pub(super) worker: WorkerId,
    pub(super) at_ns: u64,
}

impl SpinLock {
    pub(super) fn new(at: Cpu) -> Self {
        Self { line: CacheLine::new(at), holder: None, waiters: VecDeque::new(), head_ready_ns: 0 }
    }

    /// Reads what lies in the line of the lock; when that is done.
    pub(super) fn read(&mut self, wires: &Wires, cpu: Cpu, now_ns: u64) -> u64 {
        self.line.read(wires, cpu, now_ns)
    }

    /// The first instruction of locking: when the line has arrived. Call [`Self::arrive`] then.
    pub(super) fn request(&mut self, wires: &Wires, cpu: Cpu, now_ns: u64) -> u64 {
        self.line.write(wires, cpu, now_ns)
    }

    /// The line has arrived. `true`: the lock is held; `false`: a [`Handover`] will name the worker.
    pub(super) fn arrive(&mut self, worker: WorkerId, cpu: Cpu) -> bool {
        if self.holder.is_none() {
            self.holder = Some(worker);
            return true;
        }
        self.waiters.push_back(Waiter { worker, cpu });
        false
    }

    /// Gives the lock up, without waiting for the store to reach another CPU.
    pub(super) fn release(&mut self, wires: &Wires, worker: WorkerId, cpu: Cpu, now_ns: u64) -> Option<Handover> {
        assert!(self.holder == Some(worker), "only the holder of a lock gives it up");
        let Some(next) = self.waiters.pop_front() else {
            self.line.write(wires, cpu, now_ns);
            self.holder = None;
            return None;
        };
        self.line.share(next.cpu);
        let stored_ns = self.line.write(wires, cpu, now_ns);
        let seen_ns = self.line.hand_to(wires, next.cpu, stored_ns.max(self.head_ready_ns));
        self.holder = Some(next.worker);
        if let Some(behind) = self.waiters.front() {
            self.head_ready_ns = seen_ns + 2 * wires.transfer_ns(next.cpu, behind.cpu) + wires.notice_ns();
        }
        Some(Handover { worker: next.worker, at_ns: seen_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::super::costs::Costs;
    use super::super::topology::Topology;
    use super::*;

    fn wires() -> Wires {
        let topology = Topology { sockets: 1, dies_per_socket: 1, cores_per_socket: 4, threads_per_core: 1 };
        Wires::new(topology, &Costs { transfer_same_die_ns: 100, atomic_ns: 0, pause_ns: 0, ..Costs::default() })
    }

    #[test]
    fn a_free_lock_costs_one_transfer() {
        let mut lock = SpinLock::new(Cpu(0));
        assert_eq!(lock.request(&wires(), Cpu(1), 0), 100);
        assert!(lock.arrive(1, Cpu(1)));
        assert_eq!(lock.release(&wires(), 1, Cpu(1), 500), None);
        assert_eq!(lock.request(&wires(), Cpu(1), 600), 600);
    }

    #[test]
    fn a_hand_over_takes_two_transfers_and_keeps_the_order() {
        let mut lock = SpinLock::new(Cpu(0));
        for cpu in 0..3 {
            lock.request(&wires(), Cpu(cpu), 0);
            assert_eq!(lock.arrive(cpu, Cpu(cpu)), cpu == 0);
        }
        assert_eq!(lock.release(&wires(), 0, Cpu(0), 1000), Some(Handover { worker: 1, at_ns: 1200 }));
        // Worker 2 learns at 1400 that it is the first; the lock is given up before.
        assert_eq!(lock.release(&wires(), 1, Cpu(1), 1210), Some(Handover { worker: 2, at_ns: 1500 }));
        assert_eq!(lock.release(&wires(), 2, Cpu(2), 3000), None);
    }
}
