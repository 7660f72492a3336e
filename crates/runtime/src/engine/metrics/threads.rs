//! What works for the engine and what waits on it: softirq CPUs, threads, groups of CPUs, event contexts.

use std::sync::Arc;

use napier_core::group::Doing;
use napier_core::metric::{Kind, Metric, Sink, Unit};
use napier_stack::event::EventStats;
use napier_stack::host::ContextShown;

use super::{figures, metric};
use crate::deliver::softirq::SoftirqCpu;
use crate::engine::ticks::TickRate;
use crate::engine::{GroupInfo, GroupMemberInfo, PollerInfo, SoftirqStats};
use crate::threads::{Threads, Used};

/// Event contexts of one walk; how many there are is said all the same.
const CONTEXTS_MAX: usize = 1024;

figures! {
    SOFTIRQ, fn softirq(SoftirqStats), &["cpu"];
    fifo: Gauge Truth "napier_softirq_fifo" "Whether the CPU's softirq thread runs as SCHED_FIFO";
    runs: Counter Count "napier_softirq_runs" "Runs of the receive handler (net_rx_action)";
    time_squeeze: Counter Count "napier_softirq_time_squeeze" "Runs that ended by budget or time (third column of /proc/net/softnet_stat)";
    ksoftirqd: Counter Count "napier_softirq_ksoftirqd" "Times that the rest was left to normal priority, as to ksoftirqd";
    wakeups: Counter Count "napier_softirq_wakeups" "Times that the CPU's softirq thread woke up";
    timer_programs: Counter Count "napier_softirq_timer_programs" "Kernel timers that were programmed";
    task_runs: Counter Count "napier_softirq_task_runs" "Instances polled by a thread of a program that raised the softirq, once each";
    stood_in: Counter Count "napier_softirq_stood_in" "Sleeps of programs' threads that took the CPU's interrupts and timers meanwhile";
    taken_over: Counter Count "napier_softirq_taken_over" "Times that work which had waited 10 ms for the thread was done by another";
    fifo_left: Counter Count "napier_softirq_fifo_left" "Times that the thread left SCHED_FIFO because it took most of its processor";
    let_go: Counter Count "napier_softirq_let_go" "Times that the pinned thread stood still with work for 10 ms and was let run on other processors for 10 s";
    run_delay_ns: Counter Nanoseconds "napier_softirq_run_delay" "Time that the thread could have run and had no processor; 0 where the system does not tell";
    .. cpu;
}

figures! {
    THREADS, fn threads(Used), &["role", "name", "cpu"];
    alive: Gauge Count "napier_threads" "Threads of this role that are alive";
    cpu: Counter Nanoseconds "napier_thread_cpu" "CPU time of the threads of this role, those that are gone included";
    spun_ticks: Counter Nanoseconds "napier_thread_spinning" "Time that the threads of this role spent in polls that found nothing, being preempted meanwhile included";
    lived: Counter Nanoseconds "napier_thread_lifetime" "Time from the beginning of each thread of this role to its end, or to now; what is not CPU time they slept or waited for a processor";
}

figures! {
    EVENT, fn event(EventStats), &["event_context"];
    waits: Counter Count "napier_event_waits" "Calls of wait";
    events: Counter Count "napier_event_events" "Events returned by wait";
    busy_loops: Counter Count "napier_event_busy_loops" "Busy loops run before a sleep";
    sleeps: Counter Count "napier_event_sleeps" "Times that a wait went to sleep, or found work at the last look before it";
    wakes: Counter Count "napier_event_wakes" "Futex calls that deliveries made to wake a sleeping wait";
}

pub(super) static CONTEXTS: [Metric; 2] = [
    metric(
        "napier_event_contexts",
        Kind::Gauge,
        Unit::Count,
        &[],
        "Event contexts that are there; the first 1024 have figures of their own",
    ),
    metric(
        "napier_event_busy_poll_napi_id",
        Kind::Gauge,
        Unit::Count,
        &["event_context"],
        "Id of the instance that a wait would busy poll now; 0 for none",
    ),
];

figures! {
    GROUP_CPU, fn group_cpu(PollerInfo), &["group", "cpu"];
    parks: Counter Count "napier_group_cpu_parks" "Times that a CPU of a group went to sleep";
    vain_parks: Counter Count "napier_group_cpu_vain_parks" "Times that a CPU of a group wanted to sleep and found something to do";
    doing: Gauge Truth "napier_group_cpu_asleep" "Whether the CPU of a group is asleep now";
    fifo: Gauge Truth "napier_group_cpu_fifo" "Whether the thread of a group's CPU runs as SCHED_FIFO";
    isolated: Gauge Truth "napier_group_cpu_isolated" "Whether the system keeps other threads from the CPU of a group";
    .. cpu, pid;
}

figures! {
    GROUP_MEMBER, fn group_member(GroupMemberInfo), &["group", "device", "queue", "napi_id"];
    armed: Gauge Truth "napier_group_member_armed" "Whether the interrupt of a queue of a group is armed: no thread polls it";
    moves: Counter Count "napier_group_member_moves" "Times that a queue of a group went to another of its CPUs";
    cpu: Gauge Count "napier_group_member_cpu" "The CPU of the group that has the queue now";
    .. napi_id, device, queue;
}

impl super::Figure for Doing {
    fn figure(&self) -> Option<u64> {
        Some((*self == Self::Asleep).into())
    }
}

impl super::Figure for u16 {
    fn figure(&self) -> Option<u64> {
        Some((*self).into())
    }
}

pub(super) fn softirq_metrics(cpus: &[Arc<SoftirqCpu>], sink: &mut dyn Sink) {
    for cpu in cpus {
        let stats = cpu.stats();
        softirq(&stats, &[&stats.cpu.to_string()], sink);
    }
}

pub(super) fn thread_metrics(of: &Threads, ticks: &TickRate, sink: &mut dyn Sink) {
    for (role, used) in of.by_role() {
        let (word, name, cpu) = role.words();
        let cpu = cpu.map_or_else(String::new, |cpu| cpu.to_string());
        let used = Used { spun_ticks: ticks.to_ns(used.spun_ticks), ..used };
        threads(&used, &[word, &name, &cpu], sink);
    }
}

pub(super) fn event_metrics(contexts: &[ContextShown], sink: &mut dyn Sink) {
    sink.sample(&CONTEXTS[0], &[], contexts.len() as u64);
    for context in contexts.iter().take(CONTEXTS_MAX) {
        let number = context.number.to_string();
        sink.sample(&CONTEXTS[1], &[&number], context.napi_id.into());
        event(&context.stats, &[&number], sink);
    }
}

pub(super) fn group_metrics(groups: &[GroupInfo], sink: &mut dyn Sink) {
    for group in groups {
        for cpu in &group.cpus {
            group_cpu(cpu, &[&group.name, &cpu.cpu.to_string()], sink);
        }
        for member in &group.members {
            let labels = [&*group.name, &*member.device, &member.queue.to_string(), &member.napi_id.to_string()];
            group_member(member, &labels, sink);
        }
    }
}
