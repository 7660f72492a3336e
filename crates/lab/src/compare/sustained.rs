//! What rows sustain, of all slices at whatever rate; and the loads that come of it.

use anyhow::Context as _;
use napier_verdict::Settings;
use napier_verdict::sustain;

use super::found::Found;
use super::machine::{Outside, Pauses};
use super::rounds::Rounds;
use super::workload::Workload;
use crate::loads::Load;
use crate::report::{MachineUse, Sustained};

/// A ladder is made again if base cannot keep up with three quarters of its top load.
const TOP_TOO_HIGH: f64 = 0.75;

/// Or if it sustains this much more than that, for sure.
const TOP_TOO_LOW: f64 = 1.5;

/// The least that a base sustains, by a search. A machine that is too busy for any load still has rows, which say so.
pub(super) fn search_bases(rounds: &mut Rounds<'_>, found: &mut Found) -> anyhow::Result<u64> {
    let mut least: Option<u64> = None;
    for at in bases(rounds) {
        let rps = rounds.search(at, found)?;
        least = Some(least.map_or(rps, |least| least.min(rps)));
    }
    least.context("base can run nowhere here, so it says nothing about loads: give --load")
}

/// The same by what is known already.
pub(super) fn of_bases(rounds: &Rounds<'_>, found: &Found) -> Option<u64> {
    let known = bases(rounds).into_iter().filter_map(|at| {
        let known = sustain::sustained(&found.attempts[at], &Settings::DEFAULT)?;
        known.keeps_up_to()
    });
    known.reduce(f64::min).map(whole)
}

fn bases(rounds: &Rounds<'_>) -> Vec<usize> {
    (0..rounds.subjects.len()).filter(|at| rounds.subjects[*at].is_base()).collect()
}

/// Why the loads are wrong that came of a search which said so much; `None` if they are not.
#[expect(clippy::cast_precision_loss, reason = "rates")]
pub(super) fn wrong_ladder(top_rps: u64, rounds: &Rounds<'_>, found: &Found) -> Option<String> {
    let top = top_rps as f64;
    bases(rounds).into_iter().find_map(|at| {
        let known = sustain::sustained(&found.attempts[at], &Settings::DEFAULT)?;
        let base = rounds.subjects[at];
        if known.interval.high < TOP_TOO_HIGH * top {
            return Some(format!(
                "{base} keeps up with at most {:.0} % of the load that was taken for 100 %",
                100.0 * known.interval.high / top
            ));
        }
        let more = known.interval.low > TOP_TOO_LOW * top;
        more.then(|| {
            format!("{base} keeps up with {:.1} times the load that was taken for 100 %", known.interval.low / top)
        })
    })
}

/// Where searches begin: what a row answered in the closed loop, or the highest rate so far.
pub(super) fn guess_rps(found: &Found) -> f64 {
    let tried = found.attempts.iter().flatten().filter(|one| one.kept_up() && !one.left_out).map(|one| one.rate);
    tried.reduce(f64::max).unwrap_or(10_000.0)
}

/// What each subject sustains; of the bases alone if the others were not looked at.
pub(super) fn all(searched: bool, rounds: &Rounds<'_>, found: &Found) -> Vec<Sustained> {
    let wanted = |at: usize| searched || (rounds.subjects[at].is_base() && rounds.comparison.config.loads.is_none());
    let measured = (0..rounds.subjects.len()).filter(|at| wanted(*at)).filter_map(|at| {
        let attempts = &found.attempts[at];
        let known = sustain::said(attempts, &Settings::DEFAULT)?;
        let high_rps = Some(known.interval.high).filter(|rate| rate.is_finite()).map(whole);
        let fell_behind_at_least = known.fell_behind_at_least.map(whole);
        Some(Sustained {
            subject: rounds.subjects[at],
            start_rps: attempts.first().map_or(0, |one| whole(one.rate)),
            rps: known.keeps_up_to().map_or(0, whole),
            low_rps: high_rps.map(|_| whole(known.interval.low)),
            high_rps,
            kept_up_at_most: known.kept_up_at_most.map(whole),
            fell_behind_at_least,
            failed_rps: fell_behind_at_least,
            why: None,
            p99_us: None,
            cpu_pct: None,
            taken: sustain::is_taken(attempts).then(|| "more than half of its slices were left out".to_owned()),
        })
    });
    measured.chain(found.predicted_sustained.iter().cloned()).collect()
}

/// A rate in three digits that count, and whole.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is neither")]
fn whole(rate: f64) -> u64 {
    let step = 10_f64.powf((rate.max(1.0).log10().floor() - 2.0).max(0.0));
    ((rate / step).round() * step) as u64
}

/// What else the machine did at a load.
pub(super) fn machine_use(
    load: Load,
    pauses: &Pauses,
    outside: &Outside,
    cpus: usize,
    workload: &Workload,
) -> MachineUse {
    let rounded = |number: f64| (number * 1e3).round() / 1e3;
    MachineUse {
        load_rps: load,
        pause_p99_us: rounded(pauses.wait_us(0.01)),
        pause_p999_us: rounded(pauses.wait_us(0.001)),
        pause_max_us: rounded(pauses.longest_us()),
        others_pct: rounded(outside.others_pct()),
        stolen_pct: rounded(outside.stolen_pct()),
        client_waited_ms_per_s: workload.has_client_here().then(|| rounded(outside.waited_ms_per_s(cpus))),
    }
}
