//! What a service takes of the CPUs, what the whole machine takes, and how long the service waits for a CPU.

use std::time::{Duration, Instant};

use napier_linux::cost::{CpuMeter, CpuSpent};
use napier_linux::process::Roots;

use super::beside::{Beside, Going, Looker};
use super::{Better, Judge, JudgeError, JudgedFigure, Reading, Unit};

const PAUSE: Duration = Duration::from_millis(250);
/// The kernel is never silent: who waits so long had no CPU.
const PATIENCE: Duration = Duration::from_secs(3);

/// The judge.
///
/// # Errors
/// No thread can be started.
pub(super) fn cpu_time(roots: &Roots) -> Result<Box<dyn Judge>, JudgeError> {
    let figure = |name: &str| JudgedFigure { name: name.to_owned(), unit: Unit::Share, better: Better::Less };
    let figures = vec![figure("cpu"), figure("machine-cpu"), figure("run-wait")];
    let source = CpuTime { meter: CpuMeter::of(roots.clone()), begun: None, last: None };
    Ok(Box::new(Beside::start("cpu", figures, source)?))
}

struct CpuTime {
    meter: CpuMeter,
    /// When the block began, and what was taken until then.
    begun: Option<(Instant, CpuSpent)>,
    last: Option<(Instant, CpuSpent)>,
}

impl Looker for CpuTime {
    fn begin(&mut self, _: &Going) -> Result<(), String> {
        let now = self.meter.look().map(|spent| (Instant::now(), spent));
        (self.begun, self.last) = (now, now);
        Ok(())
    }

    fn look(&mut self, going: &Going) -> Result<Option<Reading>, String> {
        let (Some(begun), Some(last)) = (self.begun, self.last) else {
            self.begin(going)?;
            return Ok(None);
        };
        // A service without a process is silent.
        let Some(now) = self.meter.look().map(|spent| (Instant::now(), spent)) else { return Ok(None) };
        self.last = Some(now);
        Ok(Some(Reading { values: shares(begun, now), newest: shares(last, now) }))
    }

    fn pause(&self) -> Duration {
        PAUSE
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

/// Of one CPU.
fn shares((since, before): (Instant, CpuSpent), (at, now): (Instant, CpuSpent)) -> Vec<Option<f64>> {
    let ns = (at - since).as_nanos() as f64;
    let share = |before: Option<u64>, now: Option<u64>| {
        let grown = now?.saturating_sub(before?);
        (ns > 0.0).then(|| grown as f64 / ns)
    };
    vec![
        share(before.own_ns, now.own_ns),
        share(before.machine_ns, now.machine_ns),
        share(before.waited_ns, now.waited_ns),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::Look;
    use super::*;

    #[test]
    fn a_program_that_computes_has_time() {
        let mut judge = cpu_time(&Roots::Process(std::process::id())).expect("a thread");
        judge.begin().expect("it begins");
        let mut sum = 0_u64;
        napier_testkit::eventually("it has taken some", || {
            sum = (0..1_000_000).fold(sum, |sum, n| std::hint::black_box(sum ^ n));
            match judge.look() {
                Ok(Look::Seen(reading)) => {
                    assert_eq!(reading.values.len(), judge.figures().len());
                    reading.values[0].is_some_and(|cpu| cpu > 0.0 && cpu < 1e6)
                }
                Ok(Look::Nothing) => false,
                Err(error) => panic!("{error}"),
            }
        });
    }

    #[test]
    fn shares_are_of_the_time_between() {
        let begun = Instant::now();
        let spent = |ns| CpuSpent { own_ns: Some(ns), user_ns: None, waited_ns: None, machine_ns: Some(2 * ns) };
        let found = shares((begun, spent(1_000)), (begun + Duration::from_micros(10), spent(6_000)));
        assert_eq!(found, [Some(0.5), Some(1.0), None]);
        assert_eq!(shares((begun, spent(0)), (begun, spent(0)))[0], None);
    }
}
