//! Modes drawn: the same few packets through a mode, in virtual time, as lanes on a page.
//!
//! The virtual machine carries out the rules; what its work costs are round numbers, so that a picture shows an order and no
//! figure of a machine. One program takes packets in an event loop, or in a blocking receive where that is the mode.

mod draw;
mod lanes;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use napier_core::event::EpollParams;
use napier_core::group::Settings;
use napier_core::sockopt::{BusyOption, SocketBusy};
use napier_core::time::{Instant, Span};
use napier_scenario::{
    Action, Costs, CpuIx, Device, Epoll, EpollIx, Event, Group, Machine, NapiIx, Packets, Policy, Socket, SocketIx,
    SocketKind, Step, Sysctl, Target, Thread,
};
use napier_sim::machine::trace::{self, Program, Trace};
use napier_sim::machine::{Work, WorkCosts};

use napier_lab::machines::instance_settings;
use napier_lab::modes::{Mode, ServerStyle};

pub use draw::{settings, svg};

/// What the pictures of the documentation show, in their order.
pub const DRAWN: &str = "base,defer20,suspend20,napibusy,fullbusy,busy-read,threaded,threaded-busy-poll,group";

/// When packets come, in us since the beginning of the picture: one alone, six close together, one alone.
const ARRIVALS_US: [u64; 8] = [10, 50, 55, 60, 65, 70, 75, 135];
/// How long a picture is.
const WINDOW: Span = Span::from_us(230);
/// A packet at time zero brings the mode into its steady state; the picture begins here.
const BEGIN: Instant = Instant::from_ns(60_000_000);
/// A program that busy polls for longer than the picture is doing so at its beginning: packets came so often before.
const KEPT_BUSY: Span = Span::from_us(150);
/// The run goes on after the picture, to see when a masked interrupt is unmasked.
const AFTER: Span = Span::from_ms(40);
/// What the program takes for a packet.
const SERVICE: Span = Span::from_us(4);

/// Round numbers, not of a machine.
const COSTS_NS: [(Work, u64); 13] = [
    (Work::Op, 10),
    (Work::HardIrq, 600),
    (Work::TimerIrq, 300),
    (Work::SoftirqEntry, 300),
    (Work::PollEmpty, 150),
    (Work::Poll, 300),
    (Work::PacketUp, 300),
    (Work::Syscall, 200),
    (Work::EpollReturn, 200),
    (Work::SpinPause, 50),
    (Work::Wake, 1000),
    (Work::Switch, 500),
    (Work::IdleExit, 500),
];

/// A run of a mode, and what of it is in the picture.
#[derive(Debug)]
pub struct Timeline {
    mode: Mode,
    story: Trace,
    /// The masked interrupt of a group has no event.
    masked_at_first: bool,
}

/// Why there is no picture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimelineError {
    /// The mode is none of the virtual machine's kernel.
    #[error("{mode} is not drawn: its workers look like the thread of `threaded`; draw that")]
    Workers {
        /// Which.
        mode: Mode,
    },
    /// A rule did not hold; a mistake of ours.
    #[error("the virtual machine stopped: {0}")]
    Broken(String),
}

impl Timeline {
    /// Runs a mode.
    ///
    /// # Errors
    /// [`TimelineError`], for a mode that cannot be drawn.
    pub fn of(mode: Mode) -> Result<Self, TimelineError> {
        if mode == Mode::Workqueue {
            return Err(TimelineError::Workers { mode });
        }
        let machine = machine(mode);
        let program = match ServerStyle::of(&mode.plan()) {
            ServerStyle::EventContext => Program::EventLoop { epoll: EpollIx(0), wait: mode.plan().wait() },
            ServerStyle::BlockingReceive => Program::Receive { socket: SocketIx(0) },
        };
        let costs = WorkCosts::of_ns(COSTS_NS);
        let masked_at_first = !machine.groups.is_empty();
        let story = trace::run(&machine, costs, &packets(mode), program, SERVICE, BEGIN + WINDOW + AFTER);
        match story.broken {
            Some(broken) => Err(TimelineError::Broken(broken)),
            None => Ok(Self { mode, story, masked_at_first }),
        }
    }

    /// What happened in the picture, in numbers.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        let (from, to) = (BEGIN, BEGIN + WINDOW);
        let inside = |at: Instant| from <= at && at < to;
        let events = || self.story.events.iter().filter(|seen| inside(seen.at)).map(|seen| &seen.event);
        let count = |of: &dyn Fn(&Event) -> bool| events().filter(|event| of(event)).count();
        let mut busy_ns = [0; 2];
        for ran in &self.story.ran {
            let (begun, ended) = (ran.from.max(from), ran.to.min(to));
            busy_ns[ran.cpu.at()] += ended.ns.saturating_sub(begun.ns);
        }
        let done = self.story.works.iter().filter(|(begun, _)| *begun >= from);
        let waits_ns = ARRIVALS_US.iter().zip(done).map(|(us, (_, ended))| ended.ns - (from.ns + us * 1000)).collect();
        Numbers {
            interrupts: count(&|event| matches!(event, Event::Mask { .. })),
            timers: count(&|event| matches!(event, Event::TimerFire { .. })),
            polls: count(&|event| matches!(event, Event::Poll { .. })),
            empty_polls: count(&|event| matches!(event, Event::Poll { work: 0, .. })),
            waits_ns,
            busy_pct: busy_ns.map(|ns: u64| (ns * 100 + WINDOW.ns / 2) / WINDOW.ns),
        }
    }
}

/// What happened in a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Interrupts of the device.
    pub interrupts: usize,
    /// Timers of the instance that expired.
    pub timers: usize,
    /// Polls of the driver.
    pub polls: usize,
    /// Those that found nothing.
    pub empty_polls: usize,
    /// From when a packet came to when the program was done with it, in ns, packet by packet.
    pub waits_ns: Vec<u64>,
    /// How much of CPU 0, which has the interrupt and the program, and of CPU 1, which has the thread that polls, if there is one.
    pub busy_pct: [u64; 2],
}

/// A table of what the pictures of these modes show, as markdown.
///
/// # Errors
/// [`TimelineError`], for the first mode that cannot be drawn.
pub fn table(modes: &[Mode]) -> Result<String, TimelineError> {
    let mut page = "| mode | interrupts | timers | polls, empty | a packet is done after, us: first, burst, last | CPU 0, CPU 1, % |\n\
                    |---|---|---|---|---|---|\n"
        .to_owned();
    for mode in modes {
        let n = Timeline::of(*mode)?.numbers();
        let us = |ns: &u64| format!("{:.1}", *ns as f64 / 1000.0);
        let waits = match &n.waits_ns[..] {
            [first, burst @ .., last] if n.waits_ns.len() == ARRIVALS_US.len() => {
                let (least, most) = (burst.iter().min().unwrap_or(first), burst.iter().max().unwrap_or(first));
                format!("{}; {} to {}; {}", us(first), us(least), us(most), us(last))
            }
            _ => "later than the run lasts".to_owned(),
        };
        writeln!(
            page,
            "| `{mode}` | {} | {} | {}, {} | {waits} | {}, {} |",
            n.interrupts, n.timers, n.polls, n.empty_polls, n.busy_pct[0], n.busy_pct[1],
        )
        .expect("a string takes everything");
    }
    Ok(page)
}

fn packets(mode: Mode) -> Vec<Step> {
    let plan = mode.plan();
    let socket_us = plan.option(BusyOption::BusyPoll).map_or(0, i32::unsigned_abs);
    let busy_us = plan.context().map_or(0, |params| params.busy_poll_usecs).max(socket_us);
    let is_busy = u64::from(busy_us) > WINDOW.ns / 1000;
    let every = if is_busy { KEPT_BUSY } else { Span::from_ns(BEGIN.ns) };
    let at_ns =
        (0..BEGIN.ns / every.ns).map(|nth| nth * every.ns).chain(ARRIVALS_US.iter().map(|us| BEGIN.ns + us * 1000));
    let packet = |ns: u64| Step {
        at: Instant::from_ns(ns),
        line: 0,
        action: Action::Packets(Packets {
            to: Target::Socket(SocketIx(0)),
            count: 1,
            every: Span::ZERO,
            flow: 0,
            own_flow: false,
            hash: None,
            mergeable: false,
            rss: false,
            loopback: false,
            syn: None,
        }),
    };
    at_ns.map(packet).collect()
}

/// One queue. CPU 0 has its interrupt and the program; CPU 1 the thread that polls, if there is one.
fn machine(mode: Mode) -> Machine {
    const HZ: u32 = 1000;
    let plan = mode.plan();
    let (tunables, threaded) = instance_settings(&plan);
    let apart = mode.is_threaded() || mode == Mode::Group;
    let option = |option| plan.option(option).and_then(|value| u32::try_from(value).ok());
    let mut busy = SocketBusy::new(option(BusyOption::BusyPoll).unwrap_or(0));
    busy.prefer = option(BusyOption::PreferBusyPoll) == Some(1);
    let device = Device {
        name: "eth0".to_owned(),
        queues: 1,
        ring: 256,
        irq_cpu: vec![CpuIx(0)],
        thread_cpu: vec![CpuIx(u16::from(apart))],
        thread_policy: Policy::Fair,
        persistent: true,
        no_busy_poll: false,
        up: true,
        tunables,
        threaded,
        rx_usecs: 0,
        rx_frames: 0,
        gro: false,
        weight: 64,
        transmit: None,
    };
    let socket = Socket {
        name: "rx".to_owned(),
        kind: SocketKind::Udp,
        connected: true,
        napi: NapiIx(0),
        queue: 1024,
        open: true,
        busy,
        primed: true,
        recverr: false,
    };
    let thread =
        |name: &str| Thread { name: name.to_owned(), cpu: CpuIx(0), policy: Policy::Fair, cap_net_admin: true };
    let params: EpollParams = plan.context().unwrap_or_default();
    let group = Group {
        name: "g0".to_owned(),
        cpus: vec![CpuIx(1)],
        members: vec![NapiIx(0)],
        settings: Settings::default(),
        policy: Policy::Fair,
    };
    Machine {
        cpus: 1 + u16::from(apart),
        topology: napier_scenario::Topology::FLAT,
        hz: HZ,
        seed: 1,
        jitter: false,
        late_interrupts: false,
        sysctl: Sysctl::defaults(HZ),
        costs: Costs::default(),
        devices: vec![device],
        threads: vec![thread("program"), thread("ctl")],
        sockets: vec![socket],
        epolls: vec![Epoll { name: "ep".to_owned(), params, members: vec![SocketIx(0)] }],
        groups: if mode == Mode::Group { vec![group] } else { Vec::new() },
    }
}
