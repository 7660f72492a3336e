//! The figures of one run, from what was counted in it.

use crate::loads::Load;
use std::time::Duration;

use napier_core::context::PollContext;
use napier_kv::load::plan::{Measured, nanos};

use super::kernel::counters::Counted;
use super::meter::CaseResult;
use crate::cpus::CpuLayout;
use crate::loads::in_time_pct_of;
use crate::stats::{Cdf, CoreUse, CpuSplit, Figures, Summary};

/// `None` if no request was answered.
#[expect(clippy::cast_precision_loss, reason = "figures for a report")]
pub(super) fn figures(result: &CaseResult, layout: &CpuLayout, pace: Load) -> Option<Figures> {
    let measured = &result.measured;
    let requests = measured.answered as f64;
    let per_s = |count: f64| count / result.seconds;
    let polls = Polls::of(result);
    let cpu_us = result.cpu_total.as_secs_f64() * 1e6;
    let waits = result.waits_with_events as f64;
    Some(Figures {
        achieved_rps: measured.answered_per_s(),
        in_time_pct: in_time_pct(pace, measured),
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
        cores: CoreUse::mean_of(&result.cores),
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

/// Of the requests that were due those that were answered in time, with what may be on its way at the end.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a count"
)]
pub(super) fn in_time(measured: &Measured) -> u64 {
    let share = in_time_pct(Load::Rps(0), measured).unwrap_or(100.0) / 100.0;
    (measured.due as f64 * share).round() as u64
}

/// `None` where what is due depends on what is answered, and from an agent that does not count it.
#[expect(clippy::cast_precision_loss, reason = "figures for a report")]
fn in_time_pct(pace: Load, measured: &Measured) -> Option<f64> {
    if pace == Load::Max || measured.due == 0 {
        return None;
    }
    // What the way holds however fast the server is.
    let on_way = measured.due as f64 * (measured.fastest_ns as f64 / measured.window_ns as f64).min(1.0);
    Some(in_time_pct_of(measured.due, measured.in_time, on_way))
}

/// What instances did in a run, by whichever counter.
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
                    came: None,
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

#[cfg(test)]
mod tests {
    use napier_kv::arrivals::Poisson;

    use super::*;
    use crate::loads::SustainSearch;

    /// A run of a server that answers each request after `way_ns`, but no more than `rps_max` of them per second.
    fn run(rate_rps: u64, seed: u64, seconds: f64, way_ns: u64, rps_max: f64) -> Measured {
        let (from_ns, until_ns) = (120_000_000, 120_000_000 + (seconds * 1e9) as u64);
        let mut measured = Measured { fastest_ns: way_ns, ..Measured::new(until_ns - from_ns) };
        let mut free_ns = 0.0_f64;
        for due_ns in Poisson::new(rate_rps, seed, "client").take_while(|due_ns| *due_ns < until_ns) {
            free_ns = free_ns.max(due_ns as f64) + 1e9 / rps_max;
            let answered_ns = free_ns as u64 + way_ns;
            let counts = |at_ns: u64| (from_ns..until_ns).contains(&at_ns);
            measured.answered += u64::from(counts(answered_ns));
            if counts(due_ns) {
                measured.due += 1;
                measured.in_time += u64::from(counts(answered_ns));
            }
        }
        measured
    }

    fn is_sustained(rate_rps: u64, measured: &Measured) -> bool {
        let pct = in_time_pct(Load::Rps(rate_rps), measured).expect("an open loop");
        SustainSearch::judge(pct, 100.0).is_ok()
    }

    #[test]
    fn a_server_with_time_to_spare_sustains_whatever_chance_makes_of_a_rate() {
        let mut short = 0;
        for seed in 1..=60 {
            for rate_rps in [300, 1_000, 2_600, 7_003, 38_400] {
                // Over a LAN, a fast link, and across a country.
                for way_ns in [30_000, 2_000_000, 20_000_000] {
                    let measured = run(rate_rps, seed, 0.3, way_ns, 1e6);
                    assert!(is_sustained(rate_rps, &measured), "{rate_rps} seed {seed} way {way_ns}: {measured:?}");
                    short += u64::from((measured.answered as f64) < 0.99 * 0.3 * rate_rps as f64);
                }
            }
        }
        assert!(short > 100, "by the rate that was asked for many of them would not: {short}");
    }

    #[test]
    fn what_waits_from_before_makes_up_for_nothing() {
        for seed in 1..=60 {
            for rate_rps in [7_003, 38_400] {
                for share in [0.5, 0.8, 0.95] {
                    let measured = run(rate_rps, seed, 2.0, 30_000, share * rate_rps as f64);
                    assert!(!is_sustained(rate_rps, &measured), "{rate_rps} seed {seed}: {measured:?}");
                }
            }
        }
        // All that is due is answered, and more: the queue of the warm-up. What was due meanwhile is not answered meanwhile.
        let measured = Measured {
            due: 37_936,
            in_time: 35_000,
            answered: 38_400,
            fastest_ns: 30_000,
            ..Measured::new(1_000_000_000)
        };
        assert!(!is_sustained(38_400, &measured));
    }

    #[test]
    fn a_closed_loop_and_an_old_agent_say_nothing_of_it() {
        let measured = Measured { due: 100, in_time: 1, ..Measured::new(1_000_000) };
        assert_eq!(in_time_pct(Load::Max, &measured), None);
        assert_eq!(in_time_pct(Load::Rps(5), &Measured::new(1_000_000)), None);
    }
}
