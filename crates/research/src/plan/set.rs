//! What a plan sets on a server that waits in an event context, beside what its mode does: most ideas are a parameter of a mode, and need
//! no mode of their own.

use napier_core::time::Span;
use napier_scenario::ParseError;
use napier_scenario::read::{Node, Table};
use napier_sim::machine::figures::Core;
use napier_sim::machine::{TUNERS, TunerKind};

/// Most packets of a busy poll that Linux lets a program ask for without a privilege. Source: `fs/eventpoll.c ep_eventpoll_bp_ioctl`.
const BUDGET_MAX: i128 = 64;
/// Most packets of a ring.
const RING_MAX: i128 = 65_536;
/// Longest time in microseconds that an event context takes. Source: likewise, `S32_MAX`.
const BUSY_US_MAX: i128 = i32::MAX as i128;
/// Largest count of deferrals. Source: `Documentation/netlink/specs/netdev.yaml`, `defer-hard-irqs`.
const DEFER_MAX: i128 = i32::MAX as i128;

/// Settings of a server; what is not there is as the mode has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OwnSettings {
    defer_hard_irqs: Option<u32>,
    gro_flush_timeout: Option<Span>,
    irq_suspend_timeout: Option<Span>,
    busy_usecs: Option<u32>,
    budget: Option<u16>,
    prefers: Option<bool>,
    wait: Option<Span>,
    events_max: Option<u16>,
    coalescing: Option<(u32, u32)>,
    ring: Option<u32>,
    tuner: Option<&'static TunerKind>,
    interrupt_apart: Option<bool>,
    thread_apart: Option<bool>,
}

impl OwnSettings {
    /// As the mode has it.
    pub(super) const NOTHING: Self = Self {
        defer_hard_irqs: None,
        gro_flush_timeout: None,
        irq_suspend_timeout: None,
        busy_usecs: None,
        budget: None,
        prefers: None,
        wait: None,
        events_max: None,
        coalescing: None,
        ring: None,
        tuner: None,
        interrupt_apart: None,
        thread_apart: None,
    };

    /// The keys of a mode with settings.
    pub(super) const KEYS: &'static [&'static str] = &[
        "name",
        "mode",
        "defer-hard-irqs",
        "gro-flush-timeout",
        "irq-suspend-timeout",
        "busy-poll",
        "busy-poll-budget",
        "prefer-busy-poll",
        "wait",
        "events",
        "rx-usecs",
        "rx-frames",
        "ring",
        "tuner",
        "interrupt-apart",
        "thread-apart",
    ];

    /// Reads them.
    pub(super) fn read(table: &Table<'_>) -> Result<Self, ParseError> {
        let span = |key| table.map(key, Node::short_span);
        let usecs: u32 = table.number("rx-usecs", 0..=1_000_000, 0)?;
        let frames: u32 = table.number("rx-frames", 0..=1_000_000, 0)?;
        Ok(Self {
            defer_hard_irqs: table.map("defer-hard-irqs", |node| node.number(0..=DEFER_MAX))?,
            gro_flush_timeout: span("gro-flush-timeout")?,
            irq_suspend_timeout: span("irq-suspend-timeout")?,
            busy_usecs: table.map("busy-poll", |node| node.number(0..=BUSY_US_MAX))?,
            budget: table.map("busy-poll-budget", |node| node.number(0..=BUDGET_MAX))?,
            prefers: table.map("prefer-busy-poll", Node::flag)?,
            wait: span("wait")?,
            events_max: table.map("events", |node| node.number(1..=4096))?,
            coalescing: (table.has("rx-usecs") || table.has("rx-frames")).then_some((usecs, frames)),
            ring: table.map("ring", |node| node.number(1..=RING_MAX))?,
            tuner: table.map("tuner", |node| node.word(TunerKind::named, &tuner_names()))?,
            interrupt_apart: table.map("interrupt-apart", Node::flag)?,
            thread_apart: table.map("thread-apart", Node::flag)?,
        })
    }

    /// Microseconds and frames for which interrupts are held back, if they are set.
    pub(super) const fn coalescing(&self) -> Option<(u32, u32)> {
        self.coalescing
    }

    /// The same core with these settings.
    pub(super) fn put_into(self, mut core: Core) -> Core {
        let Core { tunables, epoll, .. } = &mut core;
        tunables.defer_hard_irqs = self.defer_hard_irqs.unwrap_or(tunables.defer_hard_irqs);
        tunables.gro_flush_timeout = self.gro_flush_timeout.unwrap_or(tunables.gro_flush_timeout);
        tunables.irq_suspend_timeout = self.irq_suspend_timeout.unwrap_or(tunables.irq_suspend_timeout);
        epoll.busy_poll_usecs = self.busy_usecs.unwrap_or(epoll.busy_poll_usecs);
        epoll.busy_poll_budget = self.budget.unwrap_or(epoll.busy_poll_budget);
        epoll.prefer_busy_poll = self.prefers.unwrap_or(epoll.prefer_busy_poll);
        core.wait = self.wait.or(core.wait);
        core.events_max = self.events_max.map_or(core.events_max, usize::from);
        if let Some(coalescing) = self.coalescing {
            (core.coalescing, core.moderates) = (coalescing, false);
        }
        core.ring = self.ring.unwrap_or(core.ring);
        core.tuner = self.tuner.or(core.tuner);
        core.interrupt_apart = self.interrupt_apart.unwrap_or(core.interrupt_apart);
        core.apart = self.thread_apart.unwrap_or(core.apart);
        core
    }
}

/// Rules that change settings, for messages.
fn tuner_names() -> Vec<&'static str> {
    TUNERS.iter().map(|kind| kind.name).collect()
}
