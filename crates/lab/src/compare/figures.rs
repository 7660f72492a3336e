//! The figures of one run, from what was counted in it.

use std::time::Duration;

use napier_kv::load::plan::nanos;
use napier_runtime::device::NapiStats;

use super::case::CaseResult;
use super::cpus::CpuLayout;
use crate::stats::{CpuSplit, Figures, Summary};

/// `None` if no request was answered.
#[expect(clippy::cast_precision_loss, reason = "figures for a report")]
pub(super) fn figures(result: &CaseResult, layout: &CpuLayout) -> Option<Figures> {
    let measured = &result.measured;
    let requests = measured.answered as f64;
    let polls = result.napi.map(|napi| napi.polls_total() as f64);
    let per_poll = |count: fn(&NapiStats) -> u64| {
        let napi = result.napi.filter(|napi| napi.polls_total() > 0)?;
        Some(count(&napi) as f64 / napi.polls_total() as f64)
    };
    let cpu_us = result.cpu_total.as_secs_f64() * 1e6;
    let waits = result.waits_with_events as f64;
    Some(Figures {
        achieved_rps: requests * 1e9 / measured.window_ns as f64,
        latency_us: Summary::of(measured.recorder.intended())?,
        service_latency_us: Summary::of(measured.recorder.actual())?,
        cpu: CpuSplit::of(
            nanos(result.cpu_total),
            result.cpu_spin.map(nanos),
            nanos(Duration::from_secs_f64(result.seconds)),
            layout.server_cpus(),
        ),
        // No cycle counter is needed: the time-stamp counter runs at a constant rate, so these are reference cycles.
        cycles_per_request: (requests > 0.0).then(|| cpu_us * result.ticks_per_us / requests),
        cores: result.cores,
        interrupts_per_s: result.napi.map(|napi| napi.interrupts as f64 / result.seconds),
        polls_per_s: polls.map(|polls| polls / result.seconds),
        empty_polls_pct: per_poll(NapiStats::empty_polls_total).map(|share| 100.0 * share),
        work_per_poll: per_poll(NapiStats::packets_total),
        events_per_wait: (waits > 0.0).then(|| result.events as f64 / waits),
        run_delay_ms_per_s: result.run_delay.map(|waited| waited.as_secs_f64() * 1e3 / result.seconds),
    })
}
