//! The figures of an engine with their names: one walk over everything that counts.
//!
//! Each table here takes a struct of counters apart without leaving anything out, so that a counter which is new does not
//! compile before it has a name. The walk reads what owners write for others, and takes no lock that a poller, a sender or
//! a delivery takes; what the kernel counts of AF_XDP sockets is asked of the kernel. The caller's sink is called with no
//! lock held.

mod device;
mod napi;
mod threads;
mod tx;

use std::sync::atomic::{AtomicU64, Ordering};

use napier_core::metric::{Kind, Metric, Sink, Unit};
use napier_core::time::Span;
use napier_stack::STACK_METRICS;
use napier_sys::clock::Clock;

use super::Engine;
use device::SeenDevice;

/// A figure, if there is one.
trait Figure {
    fn figure(&self) -> Option<u64>;
}

impl Figure for u64 {
    fn figure(&self) -> Option<u64> {
        Some(*self)
    }
}

impl Figure for u32 {
    fn figure(&self) -> Option<u64> {
        Some((*self).into())
    }
}

impl Figure for AtomicU64 {
    fn figure(&self) -> Option<u64> {
        Some(self.load(Ordering::Relaxed))
    }
}

impl Figure for bool {
    fn figure(&self) -> Option<u64> {
        Some((*self).into())
    }
}

impl Figure for Span {
    fn figure(&self) -> Option<u64> {
        Some(self.ns)
    }
}

impl Figure for std::time::Duration {
    fn figure(&self) -> Option<u64> {
        Some(u64::try_from(self.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Figure for f64 {
    fn figure(&self) -> Option<u64> {
        Some(*self as u64) // a duration, not negative
    }
}

impl<T: Figure> Figure for Option<T> {
    fn figure(&self) -> Option<u64> {
        self.as_ref().and_then(T::figure)
    }
}

/// A table of figures: a static with what stands behind them, and a function that hands them to a sink. `..` names the
/// fields that are said in another way.
macro_rules! figures {
    (
        $table:ident, fn $walk:ident($type:path), $labels:expr;
        $($field:ident: $kind:ident $unit:ident $name:literal $help:literal;)+
        $(.. $($other:ident),+;)?
    ) => {
        pub(super) static $table: [Metric; [$($name),+].len()] = [$(Metric {
            name: $name,
            kind: Kind::$kind,
            unit: Unit::$unit,
            help: $help,
            labels: $labels,
        }),+];

        pub(super) fn $walk(of: &$type, labels: &[&str], sink: &mut dyn Sink) {
            let $type { $($field,)+ $($($other: _,)+)? } = of;
            let values = [$($crate::engine::metrics::Figure::figure($field)),+];
            for (metric, value) in $table.iter().zip(values) {
                if let Some(value) = value {
                    sink.sample(metric, labels, value);
                }
            }
        }
    };
}
use figures;

/// A single metric.
const fn metric(
    name: &'static str,
    kind: Kind,
    unit: Unit,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind, unit, help, labels }
}

static ENGINE: [Metric; 2] = [
    metric(
        "napier_engine_info",
        Kind::Gauge,
        Unit::Truth,
        &["version"],
        "Always 1; which version of Napier the engine is of",
    ),
    metric("napier_engine_uptime", Kind::Gauge, Unit::Nanoseconds, &[], "Time since the engine started"),
];

/// Every metric that [`Engine::metrics`] can have samples of, in the order of the walk.
#[must_use]
pub fn metrics() -> Vec<&'static Metric> {
    let tables: [&'static [Metric]; 6] =
        [&ENGINE, &threads::SOFTIRQ, &threads::THREADS, &threads::CONTEXTS, &threads::EVENT, &threads::GROUP_CPU];
    let threads = tables.into_iter().flatten().chain(&threads::GROUP_MEMBER);
    threads.chain(device::metrics()).chain(napi::metrics()).chain(tx::metrics()).chain(&STACK_METRICS).collect()
}

impl Engine {
    /// Hands every figure of the engine to `sink`: what its devices, instances, queues, softirq CPUs, threads, groups, event
    /// contexts and name spaces have counted, and how they are set. [`crate::metric::metrics`] lists what there is, and
    /// `docs/metrics.md` explains it.
    ///
    /// Each figure is read for itself, so that sums over a running engine may be off by what is under way. Polls, sends and
    /// deliveries wait for nothing meanwhile. The order is the same in each walk; within it objects come and go.
    pub fn metrics(&self, sink: &mut dyn Sink) {
        let inner = &*self.inner;
        sink.sample(&ENGINE[0], &[env!("CARGO_PKG_VERSION")], 1);
        sink.sample(&ENGINE[1], &[], (Clock.now() - inner.deliver.started()).ns);
        threads::softirq_metrics(&inner.deliver.softirq, sink);
        threads::thread_metrics(&inner.deliver.threads, &inner.ticks, sink);
        threads::event_metrics(&inner.dependants.event_contexts(), sink);
        let groups = inner.deliver.groups.infos();
        threads::group_metrics(&groups, sink);
        let seen = inner.devices.seen();
        seen.iter().for_each(|device| device.device_metrics(sink));
        seen.iter().for_each(|device| device.napi_metrics(inner, &groups, sink));
        seen.iter().for_each(|device| device.tx_metrics(inner.ticks.fixed_per_us(), sink));
        stack_metrics(&seen, sink);
    }
}

/// Counters of the name spaces that have devices.
fn stack_metrics(seen: &[SeenDevice], sink: &mut dyn Sink) {
    let mut done = Vec::new();
    for netns in seen.iter().map(|seen| &seen.device.netns) {
        if done.contains(&netns.number()) {
            continue;
        }
        done.push(netns.number());
        let number = netns.number().to_string();
        for (metric, (_, value)) in STACK_METRICS.iter().zip(netns.counters().iter()) {
            sink.sample(metric, &[&number], value);
        }
    }
}
