//! What happens in a scenario.

use napier_core::control::DevAttribute;
use napier_core::event::EpollParamsRequest;
use napier_core::state::State;
use napier_core::time::{Instant, Span};

use super::{
    CpuIx, DeviceIx, EpollIx, GroupCall, GroupCheck, NapiIx, Policy, Sending, SocketIx, ThreadIx, TxCheck, TxDeed,
    TxqIx,
};

/// One step of the timeline.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// When, since the start.
    pub at: Instant,
    /// Line in the file, from 1; 0 if it did not come from one.
    pub line: u32,
    /// What.
    pub action: Action,
}

/// What can happen.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Packets arrive.
    Packets(Packets),
    /// The device's interrupt of a queue is taken although nothing new may have come; masked or not.
    Interrupt {
        /// Of which instance.
        napi: NapiIx,
    },
    /// `napi_schedule` from an interrupt on some CPU.
    Schedule {
        /// Which instance.
        napi: NapiIx,
        /// Where.
        cpu: CpuIx,
    },
    /// A timer is armed from an interrupt on some CPU, as a rule would.
    Arm {
        /// Of which instance.
        napi: NapiIx,
        /// Expiry from now.
        after: Span,
        /// Where.
        cpu: CpuIx,
    },
    /// An application thread gets no CPU for a while.
    Stall {
        /// Who.
        thread: ThreadIx,
        /// How long.
        span: Span,
    },
    /// Another program wants a CPU for a while.
    Hog {
        /// Where.
        cpu: CpuIx,
        /// How much CPU time.
        span: Span,
        /// Its class: a FIFO hog wants the CPU at once.
        policy: Policy,
    },
    /// The creation of a NAPI thread fails.
    FailThread {
        /// Which one from now on: 1 is the next.
        nth: u32,
    },
    /// The driver misbehaves, or behaves again.
    Driver {
        /// Of which instance.
        napi: NapiIx,
        /// How.
        quirk: Quirk,
    },
    /// Look at something; what is found must be what is said.
    Check(Check),
    /// The same on the transmit side.
    CheckTx(TxCheck),
    /// The same of a group.
    CheckGroup(GroupCheck),
    /// A CPU does nothing at all for a while, as when a host takes it away from its guest.
    StopCpu {
        /// Which.
        cpu: CpuIx,
        /// How long.
        span: Span,
    },
    /// Something is done to a transmit queue.
    Tx {
        /// Which.
        txq: TxqIx,
        /// What.
        deed: TxDeed,
    },
    /// An application thread makes a call, after those that it has not finished yet.
    Call {
        /// Who.
        thread: ThreadIx,
        /// What.
        call: Call,
    },
}

/// A burst of packets.
#[derive(Clone, PartialEq, Debug)]
pub struct Packets {
    /// Where to.
    pub to: Target,
    /// How many. Default 1.
    pub count: u32,
    /// Time between two of them. Default 0.
    pub every: Span,
    /// Flow of the first; each further packet has the same.
    pub flow: u32,
    /// Each packet is a flow of its own, counting up from `flow`.
    pub own_flow: bool,
    /// Hash of the flow; flows with one hash share a bucket. Default: the flow's number.
    pub hash: Option<u32>,
    /// They can be held for merging, if the device merges. Default true.
    pub mergeable: bool,
    /// The device spreads them over its queues in use by the flow's hash. Default false: they come on the socket's queue.
    pub rss: bool,
    /// They come over loopback, not over the device. Default false.
    pub loopback: bool,
    /// A connection request to a listener: makes this socket.
    pub syn: Option<SocketIx>,
}

/// Who gets a packet.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A socket, on its queue.
    Socket(SocketIx),
    /// No socket; the stack drops and counts it.
    Napi(NapiIx),
}

/// How a driver can misbehave.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Quirk {
    /// It does not.
    None,
    /// A poll that used less than its budget does not complete.
    NeverCompletes,
    /// Every poll reports its whole budget, packets or not.
    AlwaysFull,
}

/// What to look at; only what is given is compared.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Check {
    /// The instance that the next fields are about.
    pub napi: Option<NapiIx>,
    /// These bits are set.
    pub set: State,
    /// These bits are clear.
    pub clear: State,
    /// Deferrals left.
    pub defers_left: Option<u32>,
    /// The device's interrupt is masked.
    pub masked: Option<bool>,
    /// The timer is armed.
    pub armed: Option<bool>,
    /// The instance is on a poll list.
    pub listed: Option<bool>,
    /// The instance has a thread.
    pub thread: Option<bool>,
    /// Packets in the ring.
    pub pending: Option<u32>,
    /// Packets held for merging.
    pub held: Option<u32>,
    /// The socket that the next fields are about.
    pub socket: Option<SocketIx>,
    /// Packets in its queue.
    pub queued: Option<u32>,
    /// The recorded id is that of this instance; `Some(None)`: it reads 0.
    pub recorded: Option<Option<NapiIx>>,
    /// The event context that the next field is about.
    pub epoll: Option<EpollIx>,
    /// Its id slot holds this instance; `Some(None)`: it is empty.
    pub slot: Option<Option<NapiIx>>,
}

/// How a request names an instance.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum NapiRef {
    /// The id that the instance has, or had last.
    Napi(NapiIx),
    /// A number.
    Id(u64),
    /// Not at all.
    Missing,
}

/// Something with a descriptor.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Callable {
    /// A socket.
    Socket(SocketIx),
    /// An event context.
    Epoll(EpollIx),
}

/// A call of an application thread. Times: `None` is without end.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "the fields are named as the arguments of the calls are")]
pub enum Call {
    /// Opens a socket that was not open.
    Socket { socket: SocketIx },
    /// Receives one packet. Answers 1, or `EAGAIN` if there was none in time.
    Recv { socket: SocketIx, nonblock: bool, timeout: Option<Span> },
    /// `setsockopt(SOL_SOCKET)`, option by number.
    SetSockOpt { socket: SocketIx, option: i32, value: i32, optlen: u32 },
    /// `getsockopt(SOL_SOCKET)`.
    GetSockOpt { socket: SocketIx, option: i32 },
    /// `EPOLL_CTL_ADD`.
    EpollAdd { epoll: EpollIx, socket: SocketIx },
    /// `EPOLL_CTL_MOD`.
    EpollMod { epoll: EpollIx, socket: SocketIx },
    /// `EPOLL_CTL_DEL`.
    EpollDel { epoll: EpollIx, socket: SocketIx },
    /// `EPIOCSPARAMS`.
    EpollSetParams { epoll: EpollIx, params: EpollParamsRequest },
    /// `EPIOCGPARAMS`; answers the attributes.
    EpollGetParams { epoll: EpollIx },
    /// `epoll_wait`; answers the number of events, and which sockets are ready.
    EpollWait { epoll: EpollIx, timeout: Option<Span>, max_events: i64 },
    /// The last reference to an event context goes.
    EpollClose { epoll: EpollIx },
    /// An ioctl by number.
    Ioctl { on: Callable, number: u32 },
    /// `poll` or `select`; answers the number of sockets that are ready.
    Poll { sockets: Vec<SocketIx>, timeout: Option<Span> },
    /// A busy loop by itself, as in-kernel users make it. `usecs`: no value makes one iteration.
    BusyLoop { napi: NapiIx, usecs: Option<u32>, prefer: bool, budget: u16, rcu: bool },
    /// napi-set: attribute names and numbers (`threaded`: 0, 1, 2).
    NapiSet { napi: NapiRef, attributes: Vec<(String, u64)> },
    /// napi-get do; answers the attributes.
    NapiGet { napi: NapiRef },
    /// napi-get dump, all devices or one; answers the instances' names in order.
    NapiDump { device: Option<DeviceIx>, ifindex: Option<u64> },
    /// queue-get do.
    QueueGet { device: Option<DeviceIx>, ifindex: Option<u64>, queue: Option<u64>, kind: Option<u64> },
    /// Writes a device file under `/sys/class/net`.
    Write { device: DeviceIx, file: DevAttribute, value: String },
    /// Reads it.
    Read { device: DeviceIx, file: DevAttribute },
    /// Writes a knob under `/proc/sys/net/core`.
    Sysctl { name: String, value: i64 },
    /// Device up.
    Up { device: DeviceIx },
    /// Device down.
    Down { device: DeviceIx },
    /// Changes the number of queues in use; those above it are deleted, or added.
    SetQueues { device: DeviceIx, queues: u16 },
    /// Deletes one instance that is disabled (device down).
    Delete { napi: NapiIx },
    /// Sends packets; answers how many the path took, or with a socket what its protocol reports.
    Send(Sending),
    /// The disciplines of a device are taken away from it.
    Deactivate { device: DeviceIx },
    /// And given back.
    Activate { device: DeviceIx },
    /// Something about a group.
    Group(GroupCall),
}

impl Call {
    /// The name in files and logs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Socket { .. } => "socket",
            Self::Recv { .. } => "recv",
            Self::SetSockOpt { .. } => "setsockopt",
            Self::GetSockOpt { .. } => "getsockopt",
            Self::EpollAdd { .. } => "epoll-add",
            Self::EpollMod { .. } => "epoll-mod",
            Self::EpollDel { .. } => "epoll-del",
            Self::EpollSetParams { .. } => "epoll-set-params",
            Self::EpollGetParams { .. } => "epoll-get-params",
            Self::EpollWait { .. } => "epoll-wait",
            Self::EpollClose { .. } => "epoll-close",
            Self::Ioctl { .. } => "ioctl",
            Self::Poll { .. } => "poll",
            Self::BusyLoop { .. } => "busy-loop",
            Self::NapiSet { .. } => "napi-set",
            Self::NapiGet { .. } => "napi-get",
            Self::NapiDump { .. } => "napi-dump",
            Self::QueueGet { .. } => "queue-get",
            Self::Write { .. } => "write",
            Self::Read { .. } => "read",
            Self::Sysctl { .. } => "sysctl",
            Self::Up { .. } => "up",
            Self::Down { .. } => "down",
            Self::SetQueues { .. } => "set-queues",
            Self::Delete { .. } => "delete",
            Self::Send(_) => "send",
            Self::Deactivate { .. } => "deactivate",
            Self::Activate { .. } => "activate",
            Self::Group(call) => call.name(),
        }
    }
}
