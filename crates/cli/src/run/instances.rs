//! The instances of an interface while a program runs: after it went down and up they are others, without the mode.

use std::time::{Duration, Instant};

use napier_core::control::plan::Plan;
use napier_linux::change::{DeviceRef, Key, KeyError, Ledger, Line, Queues, lines_of, lines_of_queues};

/// Between two looks.
const LATER: Duration = Duration::from_millis(100);
/// A look takes at most this part of the time from one to the next: an interface may have very many instances. But on a machine that is very
/// slow new instances do not wait longer than [`LATEST`].
const REST: u32 = 20;
const LATEST: Duration = Duration::from_secs(2);

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
    /// Why the last try failed.
    failed: Option<String>,
    next: Instant,
    times: usize,
}

impl Instances {
    /// After these lines of the plan were applied.
    pub(crate) fn new(plan: Plan, device: DeviceRef, queues: Option<Queues>, lines: Vec<Line>) -> Self {
        Self {
            plan,
            device,
            queues,
            keeps: false,
            keys: keys(lines),
            failed: None,
            next: Instant::now() + LATER,
            times: 0,
        }
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
        let pause = pause_after(now - begun);
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
        let applied = ledger.apply(&lines).map_err(|error| error.to_string());
        self.renewed(found, &name(), applied)
    }

    /// After a try to apply the mode to instances that were found; what is to be said.
    fn renewed(&mut self, found: Vec<Key>, name: &str, applied: Result<(), String>) -> Option<String> {
        match applied {
            Ok(()) => {
                (self.keys, self.failed) = (found, None);
                self.times += 1;
                Some(format!("{name} has new NAPI instances (it went down and up): the mode is in force on them too"))
            }
            Err(error) => {
                // A driver that is at work on its queues has instances that come and go: the next look tries again, whichever are there then.
                self.keys.clear();
                let is_said = self.failed.as_ref() == Some(&error);
                let said = format!("{name} has new NAPI instances, and the mode is not in force on them yet: {error}");
                self.failed = Some(error);
                (!is_said).then_some(said)
            }
        }
    }
}

/// How long it is not looked after a look that took so long.
fn pause_after(took: Duration) -> Duration {
    LATER.max((took * REST).min(LATEST))
}

fn keys(lines: Vec<Line>) -> Vec<Key> {
    lines.into_iter().map(|line| line.key).filter(|key| matches!(key, Key::Napi(_) | Key::DeviceFile(_))).collect()
}

#[cfg(test)]
mod tests {
    use napier_lab::modes::Mode;
    use napier_linux::change::{NapiAttribute, NapiKey};

    use super::*;

    fn instance(id: u32) -> Key {
        let device = DeviceRef { ifindex: 9, name: "eth9".to_owned() };
        Key::Napi(NapiKey { device, id, place: 0, queue: None, attribute: NapiAttribute::DeferHardIrqs })
    }

    /// A card whose driver was at work on its queues: the ids that a try failed for may be those that are there later.
    #[test]
    fn instances_that_a_try_failed_for_are_tried_again() {
        let device = DeviceRef { ifindex: 9, name: "eth9".to_owned() };
        let lines = vec![Line::new(instance(5), "100")];
        let mut instances = Instances::new(Mode::Defer { us: 20 }.plan(), device, None, lines);
        let said = instances.renewed(vec![instance(6)], "eth9", Err("no such instance now".to_owned()));
        assert!(said.expect("it failed").contains("not in force on them yet: no such instance now"));
        assert_ne!(instances.keys, [instance(6)], "the next look finds what differs");
        assert_eq!(instances.renewed(vec![instance(6)], "eth9", Err("no such instance now".to_owned())), None);
        assert!(instances.renewed(vec![instance(6)], "eth9", Err("refused".to_owned())).is_some(), "another reason");
        assert_eq!(instances.times(), 0);
        assert!(instances.renewed(vec![instance(6)], "eth9", Ok(())).is_some());
        assert_eq!((instances.keys.as_slice(), instances.times()), (&[instance(6)][..], 1));
    }

    #[test]
    fn a_slow_machine_looks_seldom_and_not_too_seldom() {
        let of = |ms| pause_after(Duration::from_millis(ms));
        assert_eq!((of(1), of(40), of(400)), (LATER, Duration::from_millis(800), LATEST));
    }
}
