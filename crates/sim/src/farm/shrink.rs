//! Making a failing scenario small: fewer steps, smaller bursts, fewer disturbances, as long as it still fails.

use crate::machine::Options;
use napier_scenario::{Action, Call, Scenario};

/// Most runs that shrinking may cost.
const RUNS_MAX: usize = 3000;
/// Steps that a smaller scenario may take beyond twice those of the failing one.
const STEPS_MORE: u64 = 20_000;

/// A smaller scenario that fails in the same way, and how. `options` are those of the failing run.
#[must_use]
pub fn shrink(failing: &Scenario, options: &Options) -> (Scenario, String) {
    let first = crate::machine::run_with(failing, options);
    let mut why = first.broken.expect("what is shrunk fails");
    let mut best = failing.clone();
    // Without the step that stops it a thread may spin to the end of the run; that is not worth waiting for.
    let options = Options { steps_max: Some(2 * first.steps + STEPS_MORE), ..*options };
    let mut shrinker = Shrinker { options, runs: 0 };
    let mut changed = true;
    while changed && shrinker.runs < RUNS_MAX {
        changed = false;
        for simplify in [fewer_steps, smaller_bursts, calmer_machine] {
            changed |= simplify(&mut shrinker, &mut best, &mut why);
        }
    }
    best.title = format!("{}, made small: {}", failing.title, symptom(&why));
    (best, why)
}

struct Shrinker {
    options: Options,
    runs: usize,
}

impl Shrinker {
    fn fails(&mut self, scenario: &Scenario) -> Option<String> {
        self.runs += 1;
        crate::machine::run_with(scenario, &self.options).broken
    }

    /// Takes the candidate if it fails with the same symptom.
    fn accept(&mut self, candidate: Scenario, best: &mut Scenario, why: &mut String) -> bool {
        if self.runs >= RUNS_MAX {
            return false;
        }
        match self.fails(&candidate) {
            Some(new) if symptom(&new) == symptom(why) => {
                (*best, *why) = (candidate, new);
                true
            }
            _ => false,
        }
    }
}

/// What went wrong, without time, names and numbers.
fn symptom(why: &str) -> String {
    let text = why.split_once("us: ").map_or(why, |(_, text)| text);
    let text = text.split_once(": ").map_or(text, |(_, text)| text);
    let text = text.split(" (").next().unwrap_or(text);
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Removes ever smaller runs of steps.
fn fewer_steps(shrinker: &mut Shrinker, best: &mut Scenario, why: &mut String) -> bool {
    let mut changed = false;
    let mut chunk = best.timeline.len().div_ceil(2);
    while chunk > 0 {
        let mut from = 0;
        while from < best.timeline.len() {
            let mut candidate = best.clone();
            let to = (from + chunk).min(candidate.timeline.len());
            candidate.timeline.drain(from..to);
            if shrinker.accept(candidate, best, why) {
                changed = true;
            } else {
                from += chunk;
            }
        }
        chunk /= 2;
    }
    changed
}

fn smaller_bursts(shrinker: &mut Shrinker, best: &mut Scenario, why: &mut String) -> bool {
    let mut changed = false;
    for step in 0..best.timeline.len() {
        loop {
            let mut candidate = best.clone();
            let count = match &mut candidate.timeline[step].action {
                Action::Packets(packets) => &mut packets.count,
                Action::Call { call: Call::Send(sending), .. } => &mut sending.packets,
                _ => break,
            };
            if *count <= 1 {
                break;
            }
            *count /= 2;
            if !shrinker.accept(candidate, best, why) {
                break;
            }
            changed = true;
        }
    }
    changed
}

fn calmer_machine(shrinker: &mut Shrinker, best: &mut Scenario, why: &mut String) -> bool {
    let mut changed = false;
    let calmer: [fn(&mut Scenario); 6] = [
        |scenario| scenario.machine.jitter = false,
        |scenario| scenario.machine.late_interrupts = false,
        |scenario| scenario.machine.epolls.iter_mut().for_each(|epoll| epoll.members.clear()),
        |scenario| scenario.machine.devices.iter_mut().for_each(|device| (device.rx_usecs, device.rx_frames) = (0, 0)),
        |scenario| scenario.machine.devices.iter_mut().for_each(|device| device.gro = false),
        |scenario| {
            let transmits = scenario.machine.devices.iter_mut().filter_map(|device| device.transmit.as_mut());
            transmits.for_each(|transmit| transmit.bql = None);
        },
    ];
    for calm in calmer {
        let mut candidate = best.clone();
        calm(&mut candidate);
        changed |= candidate != *best && shrinker.accept(candidate, best, why);
    }
    changed
}
