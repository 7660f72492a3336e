//! The instances of an interface while a program runs: after it went down and up they are others, without the mode.

use std::time::{Duration, Instant};

use napier_core::control::plan::Plan;
use napier_linux::change::{DeviceRef, Key, KeyError, Ledger, Line, Queues, lines_of, lines_of_queues};

/// Between two looks.
const LATER: Duration = Duration::from_millis(100);
/// A look takes at most this part of the time from one to the next: an interface may have very many instances.
const REST: u32 = 20;

/// A mode's lines for an interface, or for the instances of some of its queues.
pub(crate) fn lines_for(plan: &Plan, device: &DeviceRef, queues: Option<&Queues>) -> Result<Vec<Line>, KeyError> {
    match queues {
        Some(queues) => lines_of_queues(plan, device, queues),
        None => lines_of(plan, device),
    }
}

/// What a mode sets on an interface, for as long as it runs.
pub(crate) struct Instances {
    plan: Plan,
    device: DeviceRef,
    queues: Option<Queues>,
    /// What another program, or a driver that was reset, has set otherwise is written again.
    keeps: bool,
    /// Values that the mode is about, on the instances that had it last.
    keys: Vec<Key>,
    next: Instant,
    times: usize,
}

impl Instances {
    /// After these lines of the plan were applied.
    pub(crate) fn new(plan: Plan, device: DeviceRef, queues: Option<Queues>, lines: Vec<Line>) -> Self {
        Self { plan, device, queues, keeps: false, keys: keys(lines), next: Instant::now() + LATER, times: 0 }
    }

    /// The same for a mode that is kept: what a value was made since, by another program or by a driver that was reset, is undone again.
    pub(crate) fn kept(plan: Plan, device: DeviceRef, queues: Option<Queues>, lines: Vec<Line>) -> Self {
        Self { keeps: true, ..Self::new(plan, device, queues, lines) }
    }

    /// How often there were new ones.
    pub(crate) const fn times(&self) -> usize {
        self.times
    }

    /// Applies the mode to new instances, if it is time to look; the time until the next look, and what is to be said.
    ///
    /// A value that another program changed is left: only instances that were not there before are looked at.
    pub(crate) fn look(&mut self, ledger: &mut Ledger) -> (Duration, Option<String>) {
        let begun = Instant::now();
        if begun < self.next {
            return (self.next - begun, None);
        }
        let said = self.renew(ledger);
        let now = Instant::now();
        let pause = LATER.max((now - begun) * REST);
        self.next = now + pause;
        (pause, said)
    }

    fn renew(&mut self, ledger: &mut Ledger) -> Option<String> {
        // Down, or gone: there is nothing that could have the mode.
        let lines = lines_for(&self.plan, &self.device, self.queues.as_ref()).ok()?;
        let found = keys(lines.clone());
        let name = || self.device.name_now().unwrap_or_else(|_| self.device.name.clone());
        if found == self.keys {
            let again = if self.keeps { ledger.apply_again(&lines) } else { Ok(0) };
            return match again {
                Ok(0) => None,
                Ok(values) => {
                    Some(format!("{values} values of {} were made others: the mode is in force again", name()))
                }
                // As when it goes down just now: the next look sees that.
                Err(_) => None,
            };
        }
        let name = name();
        self.keys = found;
        Some(match ledger.apply(&lines) {
            Ok(()) => {
                self.times += 1;
                format!("{name} has new NAPI instances (it went down and up): the mode is in force on them too")
            }
            Err(error) => format!("{name} has new NAPI instances, and the mode is not in force on them: {error}"),
        })
    }
}

fn keys(lines: Vec<Line>) -> Vec<Key> {
    lines.into_iter().map(|line| line.key).filter(|key| matches!(key, Key::Napi(_) | Key::DeviceFile(_))).collect()
}
