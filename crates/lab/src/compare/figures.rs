//! The figures of one run, from what was counted in it.

use std::time::Duration;

use napier_core::context::PollContext;
use napier_kv::load::plan::nanos;

use super::case::CaseResult;
use super::cpus::CpuLayout;
use super::kernel::counters::Counted;
use crate::stats::{Cdf, CpuSplit, Figures, Summary};

/// `None` if no request was answered.
#[expect(clippy::cast_precision_loss, reason = "figures for a report")]
pub(super) fn figures(result: &CaseResult, layout: &CpuLayout) -> Option<Figures> {
    let measured = &result.measured;
    let requests = measured.answered as f64;
    let per_s = |count: f64| count / result.seconds;
    let polls = Polls::of(result);
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
        interrupts_per_s: match (result.napi, result.arrived) {
            (Some(napi), _) => Some(per_s(napi.interrupts as f64)),
            (None, arrived) => arrived.and_then(|arrived| arrived.interrupts).map(|count| per_s(count as f64)),
        },
        polls_per_s: polls.map(|polls| polls.all_per_s),
        empty_polls_pct: polls.and_then(|polls| Some(100.0 * polls.empty_share?)),
        work_per_poll: polls.and_then(|polls| polls.work_per_poll),
        events_per_wait: (waits > 0.0).then(|| result.events as f64 / waits),
        run_delay_ms_per_s: result.run_delay.map(|waited| per_s(waited.as_secs_f64() * 1e3)),
        timers_per_s: polls.map(|polls| polls.timers_per_s),
        softirqs_per_s: result.softirqs.map(|count| per_s(count as f64)),
        softirq_polls_per_s: polls.map(|polls| polls.by_softirq_per_s),
        context_switches_per_s: Some(per_s(result.switches as f64)),
        latency_cdf: Cdf::of(measured.recorder.intended()),
    })
}

/// What instances did in a run, whoever counted it.
#[derive(Clone, Copy)]
struct Polls {
    all_per_s: f64,
    by_softirq_per_s: f64,
    /// `None` without polls.
    empty_share: Option<f64>,
    work_per_poll: Option<f64>,
    timers_per_s: f64,
}

impl Polls {
    #[expect(clippy::cast_precision_loss, reason = "figures for a report")]
    fn of(result: &CaseResult) -> Option<Self> {
        let counted = match (result.napi, result.counted) {
            (Some(napi), _) => {
                let polls = napi.polls_total();
                let share = |count: u64| count as f64 / polls.max(1) as f64;
                Counted {
                    polls,
                    softirq_polls: napi.polls[PollContext::Softirq] as f64,
                    empty_share: share(napi.empty_polls_total()),
                    work_per_poll: share(napi.packets_total()),
                    timers: napi.timer_fires,
                    seconds: result.seconds,
                }
            }
            (None, counted) => counted.filter(|counted| counted.seconds > 0.0)?,
        };
        let known = |share| (counted.polls > 0).then_some(share);
        let per_s = |count: f64| count / counted.seconds;
        Some(Self {
            all_per_s: per_s(counted.polls as f64),
            by_softirq_per_s: per_s(counted.softirq_polls),
            empty_share: known(counted.empty_share),
            work_per_poll: known(counted.work_per_poll),
            timers_per_s: per_s(counted.timers as f64),
        })
    }
}
