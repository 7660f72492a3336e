//! Transmit queues.

use napier_core::metric::{Kind, Metric, Sink, Unit};

use super::device::SeenDevice;
use super::{figures, metric};
use crate::tx::TxQueueStats;

const LABELS: &[&str] = &["device", "ifindex", "queue"];

figures! {
    TX, fn tx(TxQueueStats), LABELS;
    packets: Counter Count "napier_tx_packets" "Packets that left the queueing discipline";
    bytes: Counter Bytes "napier_tx" "Bytes that left the queueing discipline";
    qlen: Gauge Count "napier_tx_qlen" "Packets that wait in the discipline now";
    backlog_bytes: Gauge Bytes "napier_tx_backlog" "Bytes that wait in the discipline now";
    requeues: Counter Count "napier_tx_requeues" "Packets that came back because the ring was full";
    burst_drops: Counter Count "napier_tx_burst_drops" "Packets that the defer list refused because more than net.core.qdisc_max_burst waited for the flusher";
    flushes: Counter Count "napier_tx_flushes" "Flushes: batches that the discipline was given";
    runs: Counter Count "napier_tx_runs" "Runs of the queue, by any thread";
    run_pkts: Counter Count "napier_tx_run_packets" "Packets that runs gave to the ring";
    softirq_runs: Counter Count "napier_tx_softirq_runs" "Runs in softirq context";
    schedules: Counter Count "napier_tx_schedules" "Times that a run was asked for in softirq context";
    lock_waits: Counter Count "napier_tx_lock_waits" "Times that a thread waited for a lock of the queue";
    lock_wait_ns: Counter Nanoseconds "napier_tx_lock_wait" "How long threads waited for locks of the queue together";
    stops: Counter Count "napier_tx_stops" "Times that the ring was full and the queue stopped";
    left: Counter Count "napier_tx_left" "Frames that a thread which works for others left to the holder of the transmit lock";
    left_refused: Counter Count "napier_tx_left_refused" "Frames that such a thread could not leave because too many were left";
    limit_bytes: Gauge Bytes "napier_tx_limit" "The byte limit of the ring in force; no sample without limits";
    .. qdisc, variant, drops, batches;
}

static INFO: Metric = metric(
    "napier_tx_info",
    Kind::Gauge,
    Unit::Truth,
    &["device", "ifindex", "queue", "qdisc", "variant"],
    "Always 1; the queueing discipline, and how senders hand their packets over to it",
);

static DROPS: Metric = metric(
    "napier_tx_drops",
    Kind::Counter,
    Unit::Count,
    &["device", "ifindex", "queue", "reason"],
    "Packets that the discipline dropped, by reason",
);

pub(super) fn metrics() -> impl Iterator<Item = &'static Metric> {
    [&INFO, &DROPS].into_iter().chain(&TX)
}

impl SeenDevice {
    /// Counters begin at 0 when a queue gets another discipline.
    pub(super) fn tx_metrics(&self, ticks_per_us: f64, sink: &mut dyn Sink) {
        let [device, ifindex] = [&*self.device.name, &*self.ifindex];
        for (queue, path) in self.device.tx.iter().enumerate() {
            let (queue, stats) = (queue.to_string(), path.stats(ticks_per_us));
            sink.sample(&INFO, &[device, ifindex, &queue, stats.qdisc, stats.variant.name()], 1);
            for (reason, packets) in &stats.drops {
                sink.sample(&DROPS, &[device, ifindex, &queue, reason.name()], *packets);
            }
            tx(&stats, &[device, ifindex, &queue], sink);
        }
    }
}
