//! What a plan is of: the keys of its file, its modes by the names that documents have for them, and the figures of a table.

use napier_core::group::Policy;
use napier_lab::modes::Mode;

use super::set::OwnSettings;
use crate::contention::plan::Path;

/// What a plan is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanKind {
    /// A server that waits in an event context, and its clients.
    EventLoop,
    /// `AF_XDP` programs on two hosts; a client sends at a fixed rate and computes after each answer.
    XskRr,
    /// One byte back and forth on one TCP connection.
    BusyRead,
    /// Many senders on few transmit queues.
    UdpStream,
    /// Many TCP connections between two hosts of many CPUs, a request to and an answer fro.
    TcpRr,
    /// The same with a storage device behind the server, asked at a fixed rate.
    RemoteSsd,
    /// Who polls on a server of many CPUs.
    Groups,
}

/// What is set beside a mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct With {
    /// Longest holding back of an interrupt, in microseconds.
    pub rx_usecs: u32,
    /// Most frames that are held back.
    pub rx_frames: u32,
    /// `SO_BUSY_POLL`, in microseconds.
    pub busy_usecs: u32,
    /// A thread of the program polls, and does nothing else.
    pub separate: bool,
    /// The driver has a busy poll of its own.
    pub own_busy_poll: bool,
    /// How a group decides.
    pub policy: Policy,
    /// How senders of a queue get along.
    pub path: Path,
    /// Each of them is kept on a CPU.
    pub pinned: bool,
    /// What a plan's author sets on a server.
    pub own: OwnSettings,
}

impl With {
    /// Nothing.
    pub const NOTHING: Self = Self {
        rx_usecs: 0,
        rx_frames: 0,
        busy_usecs: 0,
        separate: false,
        own_busy_poll: false,
        policy: Policy::Delay,
        path: Path::List,
        pinned: false,
        own: OwnSettings::NOTHING,
    };

    const fn polling(busy_usecs: u32) -> Self {
        Self { busy_usecs, ..Self::NOTHING }
    }

    const fn coalescing(self, rx_usecs: u32, rx_frames: u32) -> Self {
        Self { rx_usecs, rx_frames, ..self }
    }

    const fn policy(policy: Policy) -> Self {
        Self { policy, ..Self::NOTHING }
    }
}

/// A mode of a plan: what the document calls it, and what is in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanMode {
    /// The document's name.
    pub name: String,
    /// The mode.
    pub mode: Mode,
    /// What is set beside.
    pub with: With,
}

type Named = (&'static str, Mode, With);

/// `SO_BUSY_POLL` of xsk_rr, in us: `-B 400`.
const XSK: With = With::polling(400);
/// `SO_BUSY_POLL` of a stream, in us: within what slide 10 of the document suggests.
const STREAM: With = With::polling(50).coalescing(16, 44);

const XSK_RR: &[Named] = &[
    ("interrupts", Mode::Base, XSK),
    ("busy-read", Mode::BusyRead, XSK),
    ("busy-read-separate", Mode::BusyRead, With { separate: true, ..XSK }),
    ("threaded-busy-poll", Mode::ThreadedBusyPoll, XSK),
];
const BUSY_READ: &[Named] = &[
    ("interrupts-16-44", Mode::Base, With::NOTHING.coalescing(16, 44)),
    ("interrupts-1-1", Mode::Base, With::NOTHING.coalescing(1, 1)),
    ("busy-poll-3.11", Mode::BusyRead, With { own_busy_poll: true, ..STREAM }),
    ("busy-poll-4.11", Mode::BusyRead, STREAM),
];
const UDP_STREAM: &[Named] = &[
    ("locked", Mode::Base, With { path: Path::Locked, ..With::NOTHING }),
    ("llist", Mode::Base, With { path: Path::List, ..With::NOTHING }),
    ("locked-pinned", Mode::Base, With { path: Path::Locked, pinned: true, ..With::NOTHING }),
    ("llist-pinned", Mode::Base, With { path: Path::List, pinned: true, ..With::NOTHING }),
];
const MANY: &[Named] = &[
    ("base", Mode::Base, With::NOTHING),
    ("threaded", Mode::Threaded, With::NOTHING),
    ("workqueue", Mode::Workqueue, With::NOTHING),
];
const GROUPS: &[Named] = &[
    ("base", Mode::Base, With::NOTHING),
    ("threaded-busy-poll", Mode::ThreadedBusyPoll, With::NOTHING),
    ("fullbusy", Mode::FullBusy, With::NOTHING),
    ("suspend20", Mode::Suspend { us: 20 }, With::NOTHING),
    ("group", Mode::Group, With::policy(Policy::Delay)),
    ("group-compact", Mode::Group, With::policy(Policy::Compact)),
    ("group-static", Mode::Group, With::policy(Policy::Static)),
];

impl PlanKind {
    /// The words for them in plan files; the first is that of a plan that names none.
    pub const WORDS: [&str; 7] = ["event-loop", "xsk-rr", "busy-read", "udp-stream", "tcp-rr", "remote-ssd", "groups"];
    const ALL: [Self; 7] =
        [Self::EventLoop, Self::XskRr, Self::BusyRead, Self::UdpStream, Self::TcpRr, Self::RemoteSsd, Self::Groups];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    pub(super) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == word)
    }

    /// The keys of its file.
    pub(super) const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::EventLoop => &[
                "title",
                "kind",
                "place",
                "machine",
                "published",
                "queues",
                "connections",
                "datagrams",
                "arrivals",
                "port",
                "gaps",
                "service",
                "modes",
                "loads",
                "warm-up",
                "measured",
                "seeds",
            ],
            Self::XskRr => {
                &["title", "kind", "place", "machine", "published", "modes", "loads", "warm-up", "measured", "seeds"]
            }
            Self::BusyRead => {
                &["title", "kind", "place", "machine", "published", "modes", "warm-up", "measured", "seeds"]
            }
            Self::UdpStream => &["title", "kind", "place", "published", "modes", "senders", "queues", "seed"],
            Self::TcpRr | Self::RemoteSsd => &[
                "title",
                "kind",
                "place",
                "machine",
                "published",
                "modes",
                "loads",
                "cpus",
                "queues",
                "threads",
                "flows",
                "seeds",
            ],
            Self::Groups => &[
                "title",
                "kind",
                "place",
                "machine",
                "published",
                "modes",
                "sizes",
                "connections",
                "full",
                "group",
                "loads",
                "seeds",
            ],
        }
    }

    /// Modes by a document's names; of a server that waits in an event context they are those of `compare`.
    pub(super) const fn modes(self) -> &'static [Named] {
        match self {
            Self::EventLoop => &[],
            Self::XskRr => XSK_RR,
            Self::BusyRead => BUSY_READ,
            Self::UdpStream => UDP_STREAM,
            Self::TcpRr | Self::RemoteSsd => MANY,
            Self::Groups => GROUPS,
        }
    }

    /// The figures that are printed where nothing was published.
    pub(super) const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::EventLoop => &["qps", "avg_us", "p95_us", "p99_us", "cpu_pct", "cycles_per_query_corrected"],
            Self::XskRr => &["p5_ns", "p50_ns", "p95_ns", "p99_ns"],
            Self::BusyRead => &["transactions_per_s"],
            Self::UdpStream => &["mpps", "cpu_pct"],
            Self::TcpRr => &["qps", "p50_us", "p90_us", "p99_us", "p999_us"],
            Self::RemoteSsd => &["qps", "p50_us", "p95_us", "p99_us", "p999_us"],
            Self::Groups => &["qps", "p50_us", "p99_us", "p999_us", "cpus_polling", "cpus_busy"],
        }
    }

    /// The figures that a program gets, and those that were published.
    pub(super) const fn figures(self) -> &'static [&'static str] {
        match self {
            Self::EventLoop => &[
                "qps",
                "avg_us",
                "p50_us",
                "p95_us",
                "p99_us",
                "p99_within_pct",
                "p999_us",
                "cpu_pct",
                "cpu_user_pct",
                "cpu_system_pct",
                "cpu_irq_pct",
                "cpu_softirq_pct",
                "cpu_spin_pct",
                "cycles_per_query_corrected",
                "instructions_per_query_corrected",
                "interrupts_per_s_per_core",
                "polls_per_s_per_core",
                "empty_polls_pct",
                "work_per_poll",
                "events_per_wait",
                "lost_per_s_per_core",
                "growing_pct",
            ],
            Self::XskRr | Self::BusyRead => {
                &["transactions_per_s", "p5_ns", "p50_ns", "p95_ns", "p99_ns", "interrupts_per_s", "polls_per_s"]
            }
            Self::UdpStream => &["mpps", "cpu_pct"],
            Self::TcpRr | Self::RemoteSsd => &[
                "qps",
                "qps_spread_pct",
                "p50_us",
                "p90_us",
                "p95_us",
                "p99_us",
                "p999_us",
                "server_cpu_pct",
                "interrupts_per_s",
                "polls_per_s",
                "migrations_per_s",
            ],
            Self::Groups => &[
                "qps",
                "p50_us",
                "p90_us",
                "p99_us",
                "p999_us",
                "cpus_polling",
                "cpus_busy",
                "interrupts_per_s",
                "parks_per_s",
                "parks_in_vain_per_s",
                "wakes_per_s",
                "moves_back_per_s",
                "moves_sibling_per_s",
                "moves_node_per_s",
                "moves_far_per_s",
            ],
        }
    }
}
