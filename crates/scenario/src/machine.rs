//! What exists in a scenario.

use napier_core::completion::Tunables;
use napier_core::control::ThreadedSetting;
use napier_core::event::EpollParams;
use napier_core::sockopt::SocketBusy;
use napier_core::time::Span;

use super::{CpuIx, DeviceIx, Group, NapiIx, Policy, QdiscIx, SocketIx, Thread, Transmit, TxqIx};

/// `[machine]` and everything in it.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Number of CPUs, at least 1.
    pub cpus: u16,
    /// How they share cores and memory nodes.
    pub topology: Topology,
    /// Jiffies per second.
    pub hz: u32,
    /// Seed of everything that is random.
    pub seed: u64,
    /// Each cost varies between a quarter and twice, by the seed. Default false.
    pub jitter: bool,
    /// Some interrupts come late, or once more without a reason, by the seed. Default false.
    pub late_interrupts: bool,
    /// System-wide knobs at the start.
    pub sysctl: Sysctl,
    /// How long things take.
    pub costs: Costs,
    /// Devices in the order of the file.
    pub devices: Vec<Device>,
    /// Application threads. The thread `ctl` (all capabilities, last CPU) is always there, at the end of the list
    /// unless the file declares it.
    pub threads: Vec<Thread>,
    /// Sockets.
    pub sockets: Vec<Socket>,
    /// Event contexts.
    pub epolls: Vec<Epoll>,
    /// Groups of CPUs that poll.
    pub groups: Vec<Group>,
}

/// How CPUs share cores and memory nodes, equally many each. They are numbered as Linux mostly does: the first threads of all
/// cores, node after node, then the second threads of all cores.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    /// CPUs of a core, at least 1. Default 1.
    pub threads_per_core: u16,
    /// Memory nodes, at least 1. Default 1.
    pub nodes: u16,
}

impl Topology {
    /// Each CPU is a core, all on one node.
    pub const FLAT: Self = Self { threads_per_core: 1, nodes: 1 };

    /// Whether so many CPUs can be like that.
    #[must_use]
    pub const fn fits(self, cpus: u16) -> bool {
        self.threads_per_core > 0
            && self.nodes > 0
            && cpus.is_multiple_of(self.threads_per_core)
            && (cpus / self.threads_per_core).is_multiple_of(self.nodes)
    }

    /// The core of a CPU, of so many that [fit](Self::fits).
    #[must_use]
    pub const fn core(self, cpu: CpuIx, cpus: u16) -> u16 {
        cpu.0 % (cpus / self.threads_per_core)
    }

    /// The memory node of a CPU, likewise.
    #[must_use]
    pub const fn node(self, cpu: CpuIx, cpus: u16) -> u16 {
        self.core(cpu, cpus) / (cpus / self.threads_per_core / self.nodes)
    }
}

/// Knobs under `/proc/sys/net/core`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Sysctl {
    /// Packets of one receive softirq run; default 300.
    pub netdev_budget: i32,
    /// Time of one receive softirq run, us; default 2 s / HZ.
    pub netdev_budget_usecs: u32,
    /// Default of `SO_BUSY_POLL` of a new socket, units of 1024 ns; default 0.
    pub busy_read: u32,
    /// Busy polling of poll, select and epoll, units of 1024 ns; default 0.
    pub busy_poll: u32,
    /// Segments of one list that goes up the stack; default 8.
    pub gro_normal_batch: u32,
    /// Packets of one run of a discipline; default 64.
    pub dev_weight: u32,
    /// Packets that may wait for a flusher behind the first; negative: any number. Default 1000.
    pub qdisc_max_burst: i32,
}

impl Sysctl {
    /// The kernel's defaults.
    #[must_use]
    pub fn defaults(hz: u32) -> Self {
        let budget = napier_core::softirq::netdev_budget_span(hz);
        Self {
            netdev_budget: napier_core::softirq::NETDEV_BUDGET_PKTS,
            netdev_budget_usecs: u32::try_from(budget.ns / 1000).unwrap_or(u32::MAX),
            busy_read: 0,
            busy_poll: 0,
            gro_normal_batch: 8,
            dev_weight: napier_core::tx::run::DEV_TX_WEIGHT,
            qdisc_max_burst: napier_core::tx::push::QDISC_MAX_BURST,
        }
    }
}

/// How long each thing occupies a virtual CPU. Round numbers, not measurements.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Costs {
    /// One atomic step of a rule: a change of the state word, arming a timer, masking. Default 10 ns.
    pub op: Span,
    /// One call of the driver's poll, at least 1 ns. Default 200 ns.
    pub poll: Span,
    /// Each packet in a poll, and each that a driver is given. Default 50 ns.
    pub packet: Span,
    /// Entering an interrupt handler. Default 100 ns.
    pub irq: Span,
    /// Entering a system call. Default 100 ns.
    pub syscall: Span,
    /// From waking a thread until it can run. Default 500 ns.
    pub wake: Span,
    /// Switching between threads. Default 200 ns.
    pub switch: Span,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            op: Span::from_ns(10),
            poll: Span::from_ns(200),
            packet: Span::from_ns(50),
            irq: Span::from_ns(100),
            syscall: Span::from_ns(100),
            wake: Span::from_ns(500),
            switch: Span::from_ns(200),
        }
    }
}

/// `[[device]]`: a NIC with one NAPI instance per receive queue.
#[derive(Clone, PartialEq, Debug)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Receive queues, at least 1.
    pub queues: u16,
    /// Packets that a queue's ring holds. Default 256.
    pub ring: u32,
    /// CPU that takes each queue's interrupt; queue `q` has entry `q % len`. Default: queue number modulo CPUs.
    pub irq_cpu: Vec<CpuIx>,
    /// CPU of each queue's NAPI thread, likewise. Default: as `irq_cpu`.
    pub thread_cpu: Vec<CpuIx>,
    /// Scheduling class of the NAPI threads. Default fair.
    pub thread_policy: Policy,
    /// The driver keeps settings and ids over down and up. Default true.
    pub persistent: bool,
    /// Instances never get an id (transmit only). Default false.
    pub no_busy_poll: bool,
    /// The device can be up at the start. Default true.
    pub up: bool,
    /// Settings at the start: deferral and flush as the device's default, suspension on every instance.
    pub tunables: Tunables,
    /// Threaded setting of the device at the start. Default disabled.
    pub threaded: ThreadedSetting,
    /// Interrupt coalescing: time, 0 = none.
    pub rx_usecs: u32,
    /// Interrupt coalescing: packets, 0 = none.
    pub rx_frames: u32,
    /// Packets of mergeable flows are held for merging. Default false.
    pub gro: bool,
    /// Budget of a poll outside busy polling. Default 64.
    pub weight: u32,
    /// How it transmits; `None`: that is no part of the scenario.
    pub transmit: Option<Transmit>,
}

impl Device {
    /// A device of so many queues, with the interrupt and the thread of each on a CPU, and what a file says that says nothing else, but
    /// for a ring of 1024 packets.
    #[must_use]
    pub fn new(name: &str, queues: u16, cpu: impl Fn(u16) -> CpuIx) -> Self {
        let cpus: Vec<CpuIx> = (0..queues).map(cpu).collect();
        Self {
            name: name.to_owned(),
            queues,
            ring: 1024,
            irq_cpu: cpus.clone(),
            thread_cpu: cpus,
            thread_policy: Policy::Fair,
            persistent: true,
            no_busy_poll: false,
            up: true,
            tunables: Tunables::default(),
            threaded: ThreadedSetting::Disabled,
            rx_usecs: 0,
            rx_frames: 0,
            gro: false,
            weight: 64,
            transmit: None,
        }
    }
}

/// What kind of socket.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum SocketKind {
    /// Datagrams.
    Udp,
    /// A listener; a packet of kind `syn` makes the socket named in it.
    TcpListener,
    /// An established stream.
    Tcp,
}

/// `[[socket]]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Socket {
    /// Its name.
    pub name: String,
    /// Kind. Default UDP.
    pub kind: SocketKind,
    /// Connected; a TCP stream always is. Default false.
    pub connected: bool,
    /// Queue that its packets arrive on. Default: the first queue of the first device.
    pub napi: NapiIx,
    /// Packets that its receive queue holds. Default 1024.
    pub queue: u32,
    /// Exists at the start; otherwise the call `socket` or `accept` makes it. Default true.
    pub open: bool,
    /// Options at the start. The recorded id is that of the instance if the file says `primed = true` (default), as
    /// if a packet had come in before; else 0.
    pub busy: SocketBusy,
    /// The recorded id is that of [`Self::napi`] at the start.
    pub primed: bool,
    /// `IP_RECVERR`: a send reports what was dropped on its way to the device. Default false.
    pub recverr: bool,
}

impl Socket {
    /// A TCP connection that is open, whose packets arrive on this queue.
    #[must_use]
    pub fn tcp(name: String, napi: NapiIx) -> Self {
        Self {
            name,
            kind: SocketKind::Tcp,
            connected: true,
            napi,
            queue: 1024,
            open: true,
            busy: SocketBusy::new(0),
            primed: true,
            recverr: false,
        }
    }
}

/// `[[epoll]]`: an event context.
#[derive(Clone, PartialEq, Debug)]
pub struct Epoll {
    /// Its name.
    pub name: String,
    /// Parameters at the start, set before members are added.
    pub params: EpollParams,
    /// Members at the start; each attaches its id as an add does.
    pub members: Vec<SocketIx>,
}

impl Machine {
    /// So many CPUs and nothing else, of which all happens when it does.
    #[must_use]
    pub fn bare(cpus: u16, hz: u32, seed: u64) -> Self {
        Self {
            cpus,
            topology: Topology::FLAT,
            hz,
            seed,
            jitter: false,
            late_interrupts: false,
            sysctl: Sysctl::defaults(hz),
            costs: Costs::default(),
            devices: Vec::new(),
            threads: Vec::new(),
            sockets: Vec::new(),
            epolls: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// The number of NAPI instances.
    #[must_use]
    pub fn napis(&self) -> u16 {
        self.devices.iter().map(|device| device.queues).sum()
    }

    /// The instance of one queue.
    #[must_use]
    pub fn napi(&self, device: DeviceIx, queue: u16) -> NapiIx {
        NapiIx(self.devices[..device.at()].iter().map(|device| device.queues).sum::<u16>() + queue)
    }

    /// Device and queue of an instance.
    ///
    /// # Panics
    /// If there is no such instance.
    #[must_use]
    pub fn queue_of(&self, napi: NapiIx) -> (DeviceIx, u16) {
        let mut queue = napi.0;
        for (position, device) in (0..).zip(&self.devices) {
            if queue < device.queues {
                return (DeviceIx(position), queue);
            }
            queue -= device.queues;
        }
        panic!("no instance {napi:?}")
    }

    /// The name of an instance, `device/queue`.
    #[must_use]
    pub fn napi_name(&self, napi: NapiIx) -> String {
        let (device, queue) = self.queue_of(napi);
        format!("{}/{queue}", self.devices[device.at()].name)
    }

    /// Every transmit queue: its device, its number there, and how the device transmits.
    pub fn tx_queues(&self) -> impl Iterator<Item = (DeviceIx, u16, &Transmit)> {
        let devices = (0..).map(DeviceIx).zip(&self.devices);
        let with = devices.filter_map(|(at, device)| device.transmit.as_ref().map(|transmit| (at, transmit)));
        with.flat_map(|(at, transmit)| (0..transmit.queues).map(move |queue| (at, queue, transmit)))
    }

    /// Every discipline: its device, and the transmit queue that it serves; `None`: all of the device.
    pub fn qdiscs(&self) -> impl Iterator<Item = (DeviceIx, Option<u16>)> {
        let firsts = self.tx_queues().filter(|(_, queue, transmit)| transmit.one_each || *queue == 0);
        firsts.map(|(device, queue, transmit)| (device, transmit.one_each.then_some(queue)))
    }

    /// The name of a transmit queue, `device/tx-queue`.
    ///
    /// # Panics
    /// If there is no such queue.
    #[must_use]
    pub fn txq_name(&self, txq: TxqIx) -> String {
        let (device, queue, _) = self.tx_queues().nth(txq.at()).expect("a transmit queue of this machine");
        format!("{}/tx-{queue}", self.devices[device.at()].name)
    }

    /// The name of a discipline: that of its transmit queue, or `device/tx` if it serves all.
    ///
    /// # Panics
    /// If there is no such discipline.
    #[must_use]
    pub fn qdisc_name(&self, qdisc: QdiscIx) -> String {
        let (device, queue) = self.qdiscs().nth(qdisc.at()).expect("a discipline of this machine");
        let device = &self.devices[device.at()].name;
        queue.map_or_else(|| format!("{device}/tx"), |queue| format!("{device}/tx-{queue}"))
    }
}
