//! What is counted at a moment, of an engine or of the kernel: numbers that grow, as they were read.

use napier_core::control::{NapiInfo, ThreadedSetting};
use napier_core::time::Span;
use napier_linux::metrics::mode;

/// A number that grows; `None` where it is not counted.
pub(super) type Count = Option<u64>;

/// Everything at one moment.
#[derive(Clone, Default, PartialEq, Debug)]
pub(super) struct Snapshot {
    /// When, in ns of a clock that only runs forward.
    pub(super) at_ns: u64,
    pub(super) instances: Vec<Instance>,
    pub(super) threads: Vec<Thread>,
    pub(super) cpus: Vec<Cpu>,
    pub(super) queues: Vec<Queue>,
    pub(super) contexts: Vec<Context>,
    pub(super) groups: Vec<GroupCpu>,
    pub(super) programs: Vec<ProgramRow>,
    /// What is not shown, and why.
    pub(super) notes: Vec<String>,
}

/// A NAPI instance.
#[derive(Clone, Default, PartialEq, Debug)]
pub(super) struct Instance {
    pub(super) device: String,
    pub(super) queue: String,
    pub(super) id: String,
    /// By its settings.
    pub(super) mode: String,
    /// Who has it now.
    pub(super) owner: String,
    /// Polls by who polled; packets and empty polls over all.
    pub(super) polls: Vec<(String, u64)>,
    pub(super) polls_all: Count,
    pub(super) empty_polls: Count,
    pub(super) packets: Count,
    /// Of these, packets that instances took, where they are counted apart (veth).
    pub(super) taken: Count,
    pub(super) interrupts: Count,
    pub(super) deferrals: Count,
    pub(super) suspensions: Count,
    pub(super) timers: Count,
    pub(super) spinning_ns: Count,
}

/// A thread, or all that do the same.
#[derive(Clone, Default, PartialEq, Debug)]
pub(super) struct Thread {
    pub(super) role: String,
    pub(super) name: String,
    pub(super) cpu: String,
    pub(super) alive: u64,
    pub(super) cpu_ns: Count,
    pub(super) spinning_ns: Count,
    /// Time that they have been there, together.
    pub(super) lived_ns: Count,
}

/// A CPU: the softirqs that run there, and where its time went as far as that is known.
#[derive(Clone, Default, PartialEq, Debug)]
pub(super) struct Cpu {
    pub(super) cpu: String,
    /// Runs of the receive handler.
    pub(super) runs: Count,
    pub(super) packets: Count,
    pub(super) squeezed: Count,
    pub(super) dropped: Count,
    pub(super) wakeups: Count,
    pub(super) timers: Count,
    /// Of all programs.
    pub(super) user_ns: Count,
    pub(super) system_ns: Count,
    pub(super) irq_ns: Count,
    pub(super) softirq_ns: Count,
    pub(super) idle_ns: Count,
    pub(super) run_delay_ns: Count,
}

/// A transmit queue.
#[derive(Clone, Default, PartialEq, Debug)]
pub(super) struct Queue {
    pub(super) device: String,
    pub(super) queue: String,
    pub(super) qdisc: String,
    pub(super) variant: String,
    pub(super) packets: Count,
    pub(super) bytes: Count,
    pub(super) drops: Count,
    pub(super) requeues: Count,
    pub(super) flushes: Count,
    pub(super) stops: Count,
    /// Packets that wait now.
    pub(super) waiting: Count,
}

/// An event context.
#[derive(Clone, Default, PartialEq, Debug)]
pub(super) struct Context {
    pub(super) number: String,
    /// The instance that a wait would busy poll now.
    pub(super) napi_id: String,
    pub(super) waits: Count,
    pub(super) events: Count,
    pub(super) busy_loops: Count,
    pub(super) sleeps: Count,
    pub(super) wakes: Count,
}

/// A CPU of a group.
#[derive(Clone, Default, PartialEq, Debug)]
pub(super) struct GroupCpu {
    pub(super) group: String,
    pub(super) cpu: String,
    pub(super) asleep: bool,
    /// Queues that it has now.
    pub(super) queues: u64,
    pub(super) parks: Count,
    pub(super) vain_parks: Count,
    pub(super) cpu_ns: Count,
    pub(super) spinning_ns: Count,
    pub(super) lived_ns: Count,
}

/// Programs of a name that an engine serves.
#[derive(Clone, Default, PartialEq, Debug)]
pub(super) struct ProgramRow {
    /// The last part of the name.
    pub(super) program: String,
    /// All of it.
    pub(super) whole: String,
    pub(super) programs: u64,
    /// Doors, modes and receive queues of their sockets.
    pub(super) door: String,
    pub(super) mode: String,
    pub(super) queues: String,
    /// Sockets now, and connections that wait to be accepted.
    pub(super) listening: u64,
    pub(super) connected: u64,
    pub(super) waiting: u64,
    /// Sockets for datagrams, and these both ways.
    pub(super) udp: u64,
    pub(super) datagrams: Count,
    pub(super) accepted: Count,
    pub(super) opened: Count,
    pub(super) held: Count,
    pub(super) left_to_kernel: Count,
    /// Options and calls, because of what the engine does not have or a limit.
    pub(super) refused: Count,
}

/// The name of the mode that an engine's instance is set to; as `napier compare` calls them.
pub(super) fn mode(threaded: &str, group: &str, defer: u64, flush_ns: u64, suspend_ns: u64) -> String {
    if !group.is_empty() {
        return format!("group {group}");
    }
    mode::name_of(&NapiInfo {
        ifindex: 0,
        id: 0,
        irq: None,
        pid: None,
        defer_hard_irqs: Some(u32::try_from(defer).unwrap_or(u32::MAX)),
        gro_flush_timeout: Some(Span::from_ns(flush_ns)),
        irq_suspend_timeout: Some(Span::from_ns(suspend_ns)),
        threaded: ThreadedSetting::from_name(threaded),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_the_names_of_compare() {
        let of = |threaded, group, defer, flush_ns, suspend_ns| mode(threaded, group, defer, flush_ns, suspend_ns);
        assert_eq!(of("disabled", "", 0, 0, 0), "base");
        assert_eq!(of("disabled", "", 0, 20_000, 0), "base", "nothing is deferred");
        assert_eq!(of("disabled", "", 100, 20_000, 0), "defer20");
        assert_eq!(of("disabled", "", 100, 20_000, 20_000_000), "suspend20");
        assert_eq!(of("enabled", "", 100, 20_000, 0), "threaded");
        assert_eq!(of("busy-poll", "", 0, 0, 0), "threaded-busy-poll");
        assert_eq!(of("busy-poll", "g", 0, 0, 0), "group g");
    }
}
