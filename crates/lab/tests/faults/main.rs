//! Fault injection: `kv` at half load while everything is disturbed that a user can disturb.
//!
//! Time is cut into rounds. In each, requests flow while disturbances follow each other by a few ms. Then it is
//! quiet, and what must hold is checked:
//!
//! * every request that was sent has been answered or is in a counter that names the place of its loss;
//! * a request on every flow is answered within four seconds, without any help from another packet; a few of an act may be
//!   asked again, if their loss was counted;
//! * the server's end has no frame outside of its pools and rings.
//!
//! A few rounds make an act, which has an engine, a link and a server of its own and ends with all of them stopped and
//! no frame missing at either end.

mod act;
mod controls;
mod disturb;
mod ledger;
mod probe;
mod server;

use std::fmt;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use act::Act;
use disturb::Done;
use ledger::Losses;
use napier_testkit::from_env;

/// Length of an act.
const ACT: Duration = Duration::from_millis(2_500);
/// A run that takes this much longer than asked for hangs.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// What was done and what came of it.
#[derive(Default)]
struct FaultReport {
    done: Done,
    acts: u64,
    rounds: u64,
    overflows: u64,
    sent: u64,
    replies: u64,
    /// Requests on a quiet link that were lost, counted and asked again.
    repeats: u64,
    lost: Losses,
}

impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Done { switches, downs, pauses, restarts, moves, wrong_calls, others, slowest } = self.done;
        write!(
            f,
            "{} acts, {} rounds: {switches} switches, {downs} downs, {} rounds with overflows, {pauses} pauses, \
             {restarts} restarts, {moves} interrupt moves, {others} other changes, {wrong_calls} wrong calls refused, \
             slowest disturbance {slowest:.0?}; stalls 0, frames missing 0, probes repeated {}; {} requests, {} answered, \
             {} lost: {}",
            self.acts,
            self.rounds,
            self.overflows,
            self.repeats,
            self.sent,
            self.replies,
            self.lost.total(),
            self.lost
        )
    }
}

/// Plays acts for the time asked for; `seed` decides on the shape of links and on every disturbance. The error is the first property that did not hold, with the disturbances before it.
fn run(seed: u64, wanted: Duration) -> anyhow::Result<FaultReport> {
    let begun = Instant::now();
    let mut report = FaultReport::default();
    while begun.elapsed() < wanted {
        let act = report.acts;
        let left = wanted.saturating_sub(begun.elapsed()).min(ACT);
        Act::play(seed, act, left, &mut report).with_context(|| format!("seed {}, act {act}", seed))?;
        report.acts += 1;
    }
    Ok(report)
}

#[test]
fn disturbances_cost_no_packet_without_a_counter() {
    let seed = from_env("NAPIER_FAULT_SEED", 1);
    let length = Duration::from_secs(from_env("NAPIER_FAULT_SECONDS", 10));
    println!("faults: seed {seed}, {} s (NAPIER_FAULT_SEED, NAPIER_FAULT_SECONDS)", length.as_secs());
    let (done, outcome) = mpsc::channel();
    std::thread::spawn(move || done.send(run(seed, length).map(|report| report.to_string())).is_ok());
    match outcome.recv_timeout(length + HANGS_AFTER) {
        Ok(Ok(report)) => println!("faults: {report}"),
        Ok(Err(error)) => panic!("seed {seed}: {error:#}"),
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("seed {seed}: the run hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("seed {seed}: the run panicked"),
    }
}
