//! What is simulated: machine, load, settings, costs.

use napier_core::tx::push::QDISC_MAX_BURST;
use napier_core::tx::run::DEV_TX_WEIGHT;

use super::costs::Costs;
use super::topology::Topology;

/// How senders of one queue get along.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Path {
    /// Two spin locks, one after the other; each sender queues its own packet (Linux up to 6.18).
    Locked,
    /// A list without lock; who finds it empty queues the packets of all (Linux 6.19 and later).
    List,
}

impl Path {
    /// Both, the older first.
    pub const ALL: [Self; 2] = [Self::Locked, Self::List];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Locked => "locked",
            Self::List => "llist",
        }
    }
}

/// What an administrator or a program has set, and what packets look like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `SO_SNDBUF` of each sender, in bytes of memory.
    pub send_buffer_bytes: u64,
    /// Memory that a packet is charged with, in bytes (`skb->truesize`).
    pub packet_memory_bytes: u64,
    /// Length of a packet with its Ethernet header, in bytes.
    pub packet_bytes: u32,
    /// What it takes on the wire, in bytes: with checksum, preamble and gap.
    pub wire_bytes: u64,
    /// Rate of the device, in Gbit/s.
    pub device_gbit: u64,
    /// Packets that a transmit ring holds.
    pub ring_pkts: usize,
    /// `flow_limit` of fq.
    pub flow_limit_pkts: u32,
    /// `net.core.dev_weight`: packets of one run.
    pub quota_pkts: u32,
    /// `net.core.qdisc_max_burst`.
    pub burst_max: i32,
    /// A sender that is woken moves to the socket of who wakes it. A wake-up is a hint to run near the waker
    /// (`wake_up_interruptible_sync_poll`, `kernel/sched/fair.c wake_affine_idle`): now and then it moves the sleeper
    /// there, and nothing moves it back, for no other thread wakes it.
    pub follow_waker: bool,
    /// Each sender is kept on a CPU of its own, in turn from the first on (`netperf -T`), and never moves. `netdev_pick_tx` asks on that CPU, and
    /// XPS gives neighbouring CPUs the same queue (`net/core/dev.c get_xps_queue`; drivers share CPUs out to queues in turn).
    pub pinned: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // net.core.wmem_default.
            send_buffer_bytes: 212_992,
            // struct sk_buff rounded up to lines (256), and a small head (net/core/skbuff.c SKB_SMALL_HEAD_SIZE).
            packet_memory_bytes: 256 + 640,
            packet_bytes: 14 + 20 + 8 + 120,
            wire_bytes: 14 + 20 + 8 + 120 + 4 + 20,
            device_gbit: 100,
            ring_pkts: 1024,
            flow_limit_pkts: 1000,
            quota_pkts: DEV_TX_WEIGHT,
            burst_max: QDISC_MAX_BURST,
            follow_waker: true,
            pinned: false,
        }
    }
}

/// One run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contended {
    /// The machine.
    pub topology: Topology,
    /// Programs that send as fast as they can, each on a core of its own as long as there are cores.
    pub senders: u16,
    /// Transmit queues, each with an fq of its own.
    pub queues: u16,
    /// How senders of a queue get along.
    pub path: Path,
    /// From which all randomness comes: who sits where and sends on which queue.
    pub seed: u64,
    /// How often it is run with other seats and queues; what is counted is added up.
    pub placements: u32,
    /// Virtual time before counting begins, in ns, of each placement.
    pub warm_up_ns: u64,
    /// Virtual time that is counted, in ns, of each placement.
    pub run_ns: u64,
    /// What is set.
    pub settings: Settings,
    /// What things cost.
    pub costs: Costs,
}

impl Contended {
    /// 240 senders on 30 queues of a machine with 2 x 120 cores and 480 hardware threads.
    #[must_use]
    pub fn new(path: Path, seed: u64) -> Self {
        Self {
            topology: Topology { sockets: 2, dies_per_socket: 3, cores_per_socket: 120, threads_per_core: 2 },
            senders: 240,
            queues: 30,
            path,
            seed,
            placements: 4,
            warm_up_ns: 6_000_000,
            run_ns: 12_000_000,
            settings: Settings::default(),
            costs: Costs::default(),
        }
    }

    /// Why it cannot be run, if it cannot.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn check(&self) -> Result<(), PlanError> {
        if self.senders == 0 || self.queues == 0 || self.placements == 0 || self.run_ns == 0 {
            return Err(PlanError::Nothing);
        }
        if u32::from(self.senders) + u32::from(self.queues) > u32::from(self.topology.cpus()) {
            return Err(PlanError::TooFewCpus { cpus: self.topology.cpus() });
        }
        if self.settings.send_buffer_bytes < 2 * self.settings.packet_memory_bytes {
            return Err(PlanError::SendBuffer);
        }
        Ok(())
    }
}

/// Why a plan cannot be run.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// No sender, no queue, no placement or no time.
    #[error("give at least one sender, one queue, one placement and some time")]
    Nothing,
    /// Each sender and each queue's completions need a CPU of their own.
    #[error("senders and queues together must not exceed the {cpus} CPUs of the machine: give fewer of them")]
    TooFewCpus {
        /// CPUs of the machine.
        cpus: u16,
    },
    /// A sender would sleep for ever: it is woken when half of its buffer is free.
    #[error("the send buffer must hold at least two packets: make it larger")]
    SendBuffer,
}
