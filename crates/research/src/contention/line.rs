//! Cache lines that many CPUs want at once, and how long it takes until a CPU has one.

use super::costs::Costs;
use super::topology::{Cpu, Distance, Topology};

/// Distances in time.
#[derive(Copy, Clone, Debug)]
pub(super) struct Wires {
    topology: Topology,
    same_core_ns: u64,
    same_die_ns: u64,
    same_socket_ns: u64,
    other_socket_ns: u64,
    atomic_ns: u64,
    pause_ns: u64,
}

impl Wires {
    pub(super) const fn new(topology: Topology, costs: &Costs) -> Self {
        Self {
            topology,
            same_core_ns: costs.transfer_same_core_ns,
            same_die_ns: costs.transfer_same_die_ns,
            same_socket_ns: costs.transfer_same_socket_ns,
            other_socket_ns: costs.transfer_other_socket_ns,
            atomic_ns: costs.atomic_ns,
            pause_ns: costs.pause_ns,
        }
    }

    /// How long a spinning CPU takes on average to see what its cache has.
    pub(super) const fn notice_ns(&self) -> u64 {
        self.pause_ns / 2
    }

    /// How long a modified line takes from one CPU to another; nothing if it is there.
    pub(super) const fn transfer_ns(&self, from: Cpu, to: Cpu) -> u64 {
        match self.topology.distance(from, to) {
            Distance::Here => 0,
            Distance::SameCore => self.same_core_ns,
            Distance::SameDie => self.same_die_ns,
            Distance::SameSocket => self.same_socket_ns,
            Distance::OtherSocket => self.other_socket_ns,
        }
    }
}

/// A line that is wanted by atomic instructions. Requests are served in the order in which they reach the home of the
/// line, one at a time; each moves the line to who asked.
#[derive(Clone, Debug)]
pub(super) struct CacheLine {
    /// Who has it once all requests so far are served.
    owner: Cpu,
    /// Another CPU has a copy: the owner must have it invalidated before it writes.
    shared_with: Option<Cpu>,
    free_at_ns: u64,
}

impl CacheLine {
    pub(super) const fn new(owner: Cpu) -> Self {
        Self { owner, shared_with: None, free_at_ns: 0 }
    }

    /// `cpu` wants to write at `now_ns`; when it has done so.
    pub(super) fn write(&mut self, wires: &Wires, cpu: Cpu, now_ns: u64) -> u64 {
        let way_ns = match self.shared_with {
            Some(other) if self.owner == cpu => wires.transfer_ns(other, cpu),
            Some(_) | None => wires.transfer_ns(self.owner, cpu),
        };
        let done_ns = now_ns.max(self.free_at_ns) + way_ns + wires.atomic_ns;
        *self = Self { owner: cpu, shared_with: None, free_at_ns: done_ns };
        done_ns
    }

    /// `cpu` has a copy, on which it spins.
    pub(super) const fn share(&mut self, cpu: Cpu) {
        self.shared_with = Some(cpu);
    }

    /// The line goes to `cpu`, which saw what it was waiting for and writes to it without being waited for; when it saw
    /// it.
    pub(super) fn hand_to(&mut self, wires: &Wires, cpu: Cpu, now_ns: u64) -> u64 {
        let here_ns = now_ns.max(self.free_at_ns) + wires.transfer_ns(self.owner, cpu);
        *self = Self { owner: cpu, shared_with: None, free_at_ns: here_ns };
        here_ns + wires.notice_ns()
    }

    /// `cpu` wants to read at `now_ns`; when it has the value.
    pub(super) fn read(&mut self, wires: &Wires, cpu: Cpu, now_ns: u64) -> u64 {
        if self.owner == cpu {
            return now_ns.max(self.free_at_ns);
        }
        let done_ns = now_ns.max(self.free_at_ns) + wires.transfer_ns(self.owner, cpu);
        (self.shared_with, self.free_at_ns) = (Some(cpu), done_ns);
        done_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: u64 = 80;
    const FAR: u64 = 160;
    const OP: u64 = 6;

    fn wires() -> Wires {
        let topology = Topology { sockets: 2, dies_per_socket: 1, cores_per_socket: 2, threads_per_core: 1 };
        Wires {
            topology,
            same_core_ns: 8,
            same_die_ns: NEAR,
            same_socket_ns: NEAR,
            other_socket_ns: FAR,
            atomic_ns: OP,
            pause_ns: 0,
        }
    }

    #[test]
    fn a_line_in_the_own_cache_costs_the_instruction_only() {
        let mut line = CacheLine::new(Cpu(0));
        assert_eq!(line.write(&wires(), Cpu(0), 100), 100 + OP);
        assert_eq!(line.read(&wires(), Cpu(0), 300), 300);
    }

    #[test]
    fn requests_are_served_one_after_the_other() {
        let mut line = CacheLine::new(Cpu(0));
        assert_eq!(line.write(&wires(), Cpu(1), 0), NEAR + OP);
        assert_eq!(line.write(&wires(), Cpu(2), 0), NEAR + OP + FAR + OP);
        assert_eq!(line.write(&wires(), Cpu(3), 1000), 1000 + NEAR + OP);
    }

    #[test]
    fn a_copy_elsewhere_costs_the_owner_an_invalidation() {
        let mut line = CacheLine::new(Cpu(0));
        assert_eq!(line.read(&wires(), Cpu(2), 0), FAR);
        assert_eq!(line.write(&wires(), Cpu(0), 1000), 1000 + FAR + OP);
        assert_eq!(line.write(&wires(), Cpu(0), 2000), 2000 + OP);
    }
}
