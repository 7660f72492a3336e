//! Events of the kernel that a request goes through, as they were recorded.

use serde::{Deserialize, Serialize};

use crate::tracefs::{EventFormat, Field, Tracepoint};

/// What happened, on which CPU, and in whose time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathEvent {
    /// `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Where.
    pub cpu: u32,
    /// The thread that did it or was interrupted; 0 for an idle CPU.
    pub tid: u32,
    /// It happened in a softirq.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_softirq: bool,
    /// It happened in an interrupt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_irq: bool,
    /// What.
    #[serde(flatten)]
    pub what: Happened,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Happened {
    /// An interrupt of a device began (`irq_handler_entry`).
    Interrupt,
    /// The timer of an instance (`napi_watchdog`) began.
    Timer,
    /// A receive softirq was asked for.
    Raised,
    /// A receive softirq began.
    Softirq,
    /// An instance took a packet (`napi_gro_receive_entry`).
    Taken,
    /// A packet went to the protocols (`netif_receive_skb`): what an instance has kept of a busy poll goes after its end.
    Received,
    /// A poll that took packets ended.
    Polled,
    /// A socket was told of data.
    Ready {
        /// The socket's address.
        socket: u64,
    },
    /// A thread was woken.
    Waking {
        /// Which.
        woken: u32,
    },
    /// A CPU went from one thread to another.
    Switch {
        /// The one that had it.
        from: u32,
        /// Its name.
        name: String,
        /// The one that has it now.
        to: u32,
    },
    /// A receive ended.
    Read {
        /// The socket's address.
        socket: u64,
        /// What it gave; 0 at the end of a connection.
        bytes: i64,
    },
    /// A packet was given to an interface to be sent.
    Queued,
    /// A send ended.
    Sent {
        /// The socket's address.
        socket: u64,
    },
    /// A connection is over.
    Closed {
        /// The socket's address.
        socket: u64,
    },
}

/// Of what tracepoints an event is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TracedKind {
    Interrupt,
    Timer,
    Raised,
    Softirq,
    Taken,
    Received,
    Polled,
    Ready,
    Waking,
    Switch,
    Read,
    Queued,
    Sent,
    Closed,
}

/// A tracepoint, what it is recorded for, which of its events are let through, and whether nothing can be told without it.
pub(super) struct Wanted {
    pub(super) tracepoint: Tracepoint,
    kind: TracedKind,
    pub(super) filter: Filter,
    pub(super) is_needed: bool,
}

/// Which events of a tracepoint are let through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Filter {
    All,
    /// In the words of the kernel.
    Text(&'static str),
    /// Of interfaces with these names, where some are asked for.
    Devices,
    /// About these threads, in one of these fields.
    Threads(&'static [&'static str]),
}

const fn wanted(system: &'static str, name: &'static str, kind: TracedKind, filter: Filter) -> Wanted {
    Wanted { tracepoint: Tracepoint(system, name), kind, filter, is_needed: false }
}

const fn needed(system: &'static str, name: &'static str, kind: TracedKind, filter: Filter) -> Wanted {
    Wanted { is_needed: true, ..wanted(system, name, kind, filter) }
}

/// Softirqs that receive. Source: `include/linux/interrupt.h NET_RX_SOFTIRQ`.
const RECEIVES: Filter = Filter::Text("vec == 3");

/// What is recorded. Sources: `include/trace/events/{irq,timer,napi,net,sock,sched}.h`.
pub(super) const WANTED: [Wanted; 15] = [
    wanted("irq", "irq_handler_entry", TracedKind::Interrupt, Filter::All),
    // Without a filter by function, which Linux 6.4 brought, all timers of the machine would be recorded.
    wanted("timer", "hrtimer_expire_entry", TracedKind::Timer, Filter::Text("function.function == napi_watchdog")),
    wanted("irq", "softirq_raise", TracedKind::Raised, RECEIVES),
    wanted("irq", "softirq_entry", TracedKind::Softirq, RECEIVES),
    wanted("net", "napi_gro_receive_entry", TracedKind::Taken, Filter::Devices),
    wanted("net", "napi_gro_frags_entry", TracedKind::Taken, Filter::Devices),
    needed("net", "netif_receive_skb", TracedKind::Received, Filter::Devices),
    needed("napi", "napi_poll", TracedKind::Polled, Filter::Text("work > 0")),
    needed("sock", "sk_data_ready", TracedKind::Ready, Filter::All),
    needed("sched", "sched_waking", TracedKind::Waking, Filter::Threads(&["pid"])),
    needed("sched", "sched_switch", TracedKind::Switch, Filter::Threads(&["next_pid", "prev_pid"])),
    // Not those that look at data and leave it (`MSG_PEEK`).
    needed("sock", "sock_recv_length", TracedKind::Read, Filter::Text("ret >= 0 && !(flags & 2)")),
    wanted("net", "net_dev_queue", TracedKind::Queued, Filter::Devices),
    needed("sock", "sock_send_length", TracedKind::Sent, Filter::Text("ret > 0")),
    // `include/net/tcp_states.h TCP_CLOSE`.
    wanted("sock", "inet_sock_set_state", TracedKind::Closed, Filter::Text("newstate == 7")),
];

/// Of `common_flags`. Source: `include/linux/trace_events.h enum trace_flag_type`.
const IN_IRQ: i64 = 0x08;
const IN_SOFTIRQ: i64 = 0x10;

/// Reads events that a kernel wrote.
#[derive(Debug, Default)]
pub(super) struct Decoder(Vec<Layout>);

/// Where the fields that are needed lie.
#[derive(Debug)]
struct Layout {
    id: u16,
    kind: TracedKind,
    flags: Field,
    tid: Field,
    /// As many as [`TracedKind::fields`] names.
    fields: Vec<Field>,
}

impl TracedKind {
    /// Fields of its tracepoints that are needed.
    const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Interrupt | Self::Timer | Self::Raised | Self::Softirq => &[],
            Self::Taken | Self::Received | Self::Polled | Self::Queued => &[],
            Self::Ready | Self::Closed => &["skaddr"],
            Self::Waking => &["pid"],
            Self::Switch => &["prev_pid", "next_pid", "prev_comm"],
            Self::Read => &["sk", "ret"],
            Self::Sent => &["sk"],
        }
    }
}

impl Decoder {
    /// Whether its events have what is needed.
    pub(super) fn add(&mut self, format: &EventFormat, wanted: &Wanted) -> bool {
        let kind = wanted.kind;
        let fields = kind.fields().iter().map(|name| format.field(name)).collect::<Option<Vec<Field>>>();
        let (Some(fields), Some(flags), Some(tid)) = (fields, format.field("common_flags"), format.field("common_pid"))
        else {
            return false;
        };
        self.0.push(Layout { id: format.id, kind, flags, tid, fields });
        true
    }

    /// `None` for an event that is none of these, or is cut short.
    pub(super) fn read(&self, cpu: u32, at_ns: u64, payload: &[u8]) -> Option<PathEvent> {
        let id = u16::from_ne_bytes(payload.get(..2)?.try_into().ok()?);
        let layout = self.0.iter().find(|layout| layout.id == id)?;
        let number = |at: usize| layout.fields[at].number(payload);
        let thread = |at: usize| u32::try_from(number(at)?).ok();
        let address = |at: usize| number(at).map(i64::cast_unsigned);
        let what = match layout.kind {
            TracedKind::Interrupt => Happened::Interrupt,
            TracedKind::Timer => Happened::Timer,
            TracedKind::Raised => Happened::Raised,
            TracedKind::Softirq => Happened::Softirq,
            TracedKind::Taken => Happened::Taken,
            TracedKind::Received => Happened::Received,
            TracedKind::Polled => Happened::Polled,
            TracedKind::Ready => Happened::Ready { socket: address(0)? },
            TracedKind::Waking => Happened::Waking { woken: thread(0)? },
            TracedKind::Switch => {
                Happened::Switch { from: thread(0)?, to: thread(1)?, name: layout.fields[2].text(payload)? }
            }
            TracedKind::Read => Happened::Read { socket: address(0)?, bytes: number(1)? },
            TracedKind::Queued => Happened::Queued,
            TracedKind::Sent => Happened::Sent { socket: address(0)? },
            TracedKind::Closed => Happened::Closed { socket: address(0)? },
        };
        let flags = layout.flags.number(payload)?;
        let tid = u32::try_from(layout.tid.number(payload)?).ok()?;
        let (in_softirq, in_irq) = (flags & IN_SOFTIRQ != 0, flags & IN_IRQ != 0);
        Some(PathEvent { at_ns, cpu, tid, in_softirq, in_irq, what })
    }
}
