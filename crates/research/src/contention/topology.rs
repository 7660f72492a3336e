//! CPUs and how far apart they are.

/// One hardware thread. Numbered as Linux does: first one thread of each core, socket by socket, then the others.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cpu(pub u16);

/// How far a cache line travels from one CPU to another.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Distance {
    /// It is there.
    Here,
    /// The other thread of the core.
    SameCore,
    /// Another core of the die.
    SameDie,
    /// A core of another die of the socket.
    SameSocket,
    /// The other socket.
    OtherSocket,
}

/// A machine of equal sockets.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    /// Sockets.
    pub sockets: u16,
    /// Dies of a socket, with as many of its cores each.
    pub dies_per_socket: u16,
    /// Cores of a socket.
    pub cores_per_socket: u16,
    /// Hardware threads of a core.
    pub threads_per_core: u16,
}

impl Topology {
    /// Cores of the machine.
    #[must_use]
    pub const fn cores(self) -> u16 {
        self.sockets * self.cores_per_socket
    }

    /// Hardware threads of the machine.
    #[must_use]
    pub const fn cpus(self) -> u16 {
        self.cores() * self.threads_per_core
    }

    /// The thread `thread` of core `core`.
    #[must_use]
    pub const fn cpu(self, core: u16, thread: u16) -> Cpu {
        assert!(core < self.cores() && thread < self.threads_per_core, "no such hardware thread");
        Cpu(thread * self.cores() + core)
    }

    /// The core of a CPU, counted over the machine.
    #[must_use]
    pub const fn core(self, cpu: Cpu) -> u16 {
        cpu.0 % self.cores()
    }

    /// The socket of a CPU.
    #[must_use]
    pub const fn socket(self, cpu: Cpu) -> u16 {
        self.core(cpu) / self.cores_per_socket
    }

    /// The die of a CPU, counted over the machine.
    #[must_use]
    pub const fn die(self, cpu: Cpu) -> u16 {
        self.core(cpu) / (self.cores_per_socket / self.dies_per_socket)
    }

    /// How far it is from one to the other.
    #[must_use]
    pub const fn distance(self, a: Cpu, b: Cpu) -> Distance {
        if a.0 == b.0 {
            Distance::Here
        } else if self.core(a) == self.core(b) {
            Distance::SameCore
        } else if self.die(a) == self.die(b) {
            Distance::SameDie
        } else if self.socket(a) == self.socket(b) {
            Distance::SameSocket
        } else {
            Distance::OtherSocket
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_core_are_a_machine_of_cores_apart() {
        let machine = Topology { sockets: 2, dies_per_socket: 3, cores_per_socket: 120, threads_per_core: 2 };
        assert_eq!(machine.cpus(), 480);
        assert_eq!(machine.cpu(119, 1), Cpu(359));
        assert_eq!(machine.distance(Cpu(5), Cpu(5)), Distance::Here);
        assert_eq!(machine.distance(Cpu(5), Cpu(245)), Distance::SameCore);
        assert_eq!(machine.distance(Cpu(5), Cpu(279)), Distance::SameDie, "the other thread of core 39");
        assert_eq!(machine.distance(Cpu(39), Cpu(40)), Distance::SameSocket);
        assert_eq!(machine.distance(Cpu(5), Cpu(359)), Distance::SameSocket);
        assert_eq!(machine.distance(Cpu(5), Cpu(360)), Distance::OtherSocket);
    }
}
