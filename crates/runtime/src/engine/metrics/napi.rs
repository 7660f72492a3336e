//! NAPI instances: what they counted, how they are set, who has them.

use napier_core::completion::Tunables;
use napier_core::context::PollContext;
use napier_core::metric::{Kind, Metric, Sink, Unit};
use napier_core::state::State;

use super::device::SeenDevice;
use super::{figures, metric};
use crate::engine::{EngineInner, GroupInfo};
use crate::napi::NapiStats;

const LABELS: &[&str] = &["device", "ifindex", "queue", "napi_id"];
const BY_CONTEXT: &[&str] = &["device", "ifindex", "queue", "napi_id", "context"];

figures! {
    NAPI, fn napi(NapiStats), LABELS;
    interrupts: Counter Count "napier_napi_interrupts" "Interrupts taken: doorbells and coalescing timers";
    schedules: Counter Count "napier_napi_schedules" "Times that the instance was taken to be polled by a softirq CPU or a thread";
    timer_fires: Counter Count "napier_napi_timer_fires" "Callbacks of the instance's timer that ran";
    timer_lateness_ns: Counter Nanoseconds "napier_napi_timer_lateness" "Sum over napier_napi_timer_fires of how late the callback ran";
    unmasks: Counter Count "napier_napi_unmasks" "Times that the interrupt was unmasked";
    irq_holds: Counter Count "napier_napi_irq_holds" "Unmasks after which coalescing held the next interrupt back";
    irq_needless: Counter Count "napier_napi_irq_needless" "Interrupts that arrived when no packet waited and no thread polled";
    deferrals: Counter Count "napier_napi_deferrals" "Times that the interrupt stayed masked and the timer was armed instead";
    suspensions: Counter Count "napier_napi_suspensions" "Times that an event context suspended the interrupt, or prolonged that";
    resumes: Counter Count "napier_napi_resumes" "Times that an event context ended a suspension and had the instance polled";
    busy_poll_rx_packets: Counter Count "napier_napi_busy_poll_rx_packets" "Packets that iterations of busy loops received (TcpExt BusyPollRxPackets)";
    spin_ticks: Counter Nanoseconds "napier_napi_spinning" "Time that pollers spent in polls that found nothing";
    gro_merged: Counter Count "napier_napi_gro_merged" "Packets that were merged into one before them of their flow";
    gro_held: Counter Count "napier_napi_gro_held" "Completions that found packets held for merging";
    .. polls, empty_polls, packets;
}

figures! {
    SETTINGS, fn settings(Tunables), LABELS;
    defer_hard_irqs: Gauge Count "napier_napi_defer_hard_irqs" "Setting defer-hard-irqs";
    gro_flush_timeout: Gauge Nanoseconds "napier_napi_gro_flush_timeout" "Setting gro-flush-timeout";
    irq_suspend_timeout: Gauge Nanoseconds "napier_napi_irq_suspend_timeout" "Setting irq-suspend-timeout";
}

static CONTEXT: [Metric; 3] = [
    metric("napier_napi_polls", Kind::Counter, Unit::Count, BY_CONTEXT, "Calls of the driver's poll, by who polled"),
    metric(
        "napier_napi_empty_polls",
        Kind::Counter,
        Unit::Count,
        BY_CONTEXT,
        "Polls that found nothing, by who polled",
    ),
    metric("napier_napi_packets", Kind::Counter, Unit::Count, BY_CONTEXT, "Packets received, by who polled"),
];

static INFO: Metric = metric(
    "napier_napi_info",
    Kind::Gauge,
    Unit::Truth,
    &["device", "ifindex", "queue", "napi_id", "threaded", "group", "irq_cpu"],
    "Always 1; who polls the instance by its settings, its group of CPUs or empty, and the CPU that takes its interrupt",
);

static OWNER: Metric = metric(
    "napier_napi_owner",
    Kind::Gauge,
    Unit::Truth,
    &["device", "ifindex", "queue", "napi_id", "owner"],
    "Whether this owner has the instance now; one of an instance is 1",
);

/// Who has an instance at a moment.
const OWNERS: [&str; 8] = ["none", "softirq", "kthread", "kthread-busy", "worker", "group", "user", "disabled"];

pub(super) fn metrics() -> impl Iterator<Item = &'static Metric> {
    [&INFO, &OWNER].into_iter().chain(&SETTINGS).chain(&NAPI).chain(&CONTEXT)
}

/// One of [`OWNERS`].
fn owner(state: State) -> &'static str {
    let has = |bits| state.contains(bits);
    match () {
        () if state.is_disabled() => "disabled",
        () if !has(State::SCHED) => "none",
        () if has(State::GROUP) => "group",
        () if has(State::SCHED_THREADED.with(State::POOL)) => "worker",
        () if has(State::SCHED_THREADED.with(State::IN_BUSY_POLL)) => "kthread-busy",
        () if has(State::SCHED_THREADED) => "kthread",
        () if has(State::IN_BUSY_POLL) => "user",
        () => "softirq",
    }
}

impl SeenDevice {
    /// Those that have been enabled once: others have no id, and have counted nothing.
    pub(super) fn napi_metrics(&self, engine: &EngineInner, groups: &[GroupInfo], sink: &mut dyn Sink) {
        for one in self.napis.iter().filter(|napi| napi.id() != 0) {
            let (queue, id) = (one.queue.to_string(), one.id().to_string());
            let [device, ifindex] = [&*self.device.name, &*self.ifindex];
            let labels = [device, ifindex, &*queue, &*id];
            let is_member = |group: &&GroupInfo| group.members.iter().any(|member| member.napi_id == one.id());
            let group = groups.iter().find(is_member).map_or("", |group| &*group.name);
            let cpu = engine.deliver.softirq[one.irq_cpu() as usize].cpu.to_string();
            let threaded = one.threaded_setting().name();
            sink.sample(&INFO, &[device, ifindex, &queue, &id, threaded, group, &cpu], 1);
            let now = owner(one.state());
            for owner in OWNERS {
                sink.sample(&OWNER, &[device, ifindex, &queue, &id, owner], (owner == now).into());
            }
            settings(&one.tunables(), &labels, sink);
            let stats = one.stats();
            napi(&NapiStats { spin_ticks: engine.ticks.to_ns(stats.spin_ticks), ..stats }, &labels, sink);
            for (metric, counted) in CONTEXT.iter().zip([stats.polls, stats.empty_polls, stats.packets]) {
                for context in PollContext::ALL {
                    let labels = [device, ifindex, &*queue, &*id, context.name()];
                    sink.sample(metric, &labels, counted[context]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_has_an_owner() {
        let owned = State::SCHED;
        for (state, want) in [
            (State::ADDED, "disabled"),
            (State::LISTED, "none"),
            (State::GROUP, "none"),
            (owned, "softirq"),
            (owned.with(State::SCHED_THREADED), "kthread"),
            (owned.with(State::SCHED_THREADED).with(State::IN_BUSY_POLL), "kthread-busy"),
            (owned.with(State::SCHED_THREADED).with(State::POOL), "worker"),
            (owned.with(State::GROUP), "group"),
            (owned.with(State::IN_BUSY_POLL), "user"),
        ] {
            assert_eq!(owner(state), want, "{state:?}");
            assert!(OWNERS.contains(&want));
        }
    }
}
