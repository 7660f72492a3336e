//! CPU time of a program's threads.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use super::given::Service;
use super::{Better, JudgedFigure, Judge, JudgeError, Look, Reading, Unit};

/// Time on a CPU by thread, in ns.
type Times = BTreeMap<String, u64>;

/// What the threads of a program have of the CPUs.
#[derive(Debug)]
pub struct CpuTime {
    service: Service,
    figures: [JudgedFigure; 1],
    begun: (Instant, Times),
    last: (Instant, Times),
}

impl CpuTime {
    /// Of this program.
    #[must_use]
    pub fn new(service: &Service) -> Self {
        let figures = [JudgedFigure { name: "cpu".to_owned(), unit: Unit::Share, better: Better::Less }];
        let now = (Instant::now(), times(service));
        Self { service: service.clone(), figures, begun: now.clone(), last: now }
    }
}

impl Judge for CpuTime {
    fn figures(&self) -> &[JudgedFigure] {
        &self.figures
    }

    fn begin(&mut self) -> Result<(), JudgeError> {
        self.begun = (Instant::now(), times(&self.service));
        self.last = self.begun.clone();
        Ok(())
    }

    fn look(&mut self) -> Result<Look, JudgeError> {
        let now = (Instant::now(), times(&self.service));
        if now.1.is_empty() {
            return Ok(Look::Nothing);
        }
        let reading = Reading { values: vec![share(&self.begun, &now)], newest: vec![share(&self.last, &now)] };
        self.last = now;
        Ok(Look::Seen(reading))
    }
}

/// Of threads that came since all is counted; what those that ended had is lost.
fn share((since, before): &(Instant, Times), (now, times): &(Instant, Times)) -> Option<f64> {
    let seconds = (*now - *since).as_secs_f64();
    let grown = |(thread, ns): (&String, &u64)| ns.saturating_sub(before.get(thread).copied().unwrap_or(0));
    let ns: u64 = times.iter().map(grown).sum();
    (seconds > 0.0).then(|| ns as f64 / 1e9 / seconds)
}

/// The first number of `schedstat` is the time on a CPU (`Documentation/scheduler/sched-stats.rst`).
fn times(service: &Service) -> Times {
    let mut all = Times::new();
    for pid in service.roots.pids() {
        for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            if let Some(ns) = text.split(' ').next().and_then(|ns| ns.parse().ok()) {
                all.insert(thread.path().display().to_string(), ns);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use napier_linux::process::Roots;

    use super::*;

    #[test]
    fn a_program_that_computes_has_time() {
        let mut judge = CpuTime::new(&Service { roots: Roots::Process(std::process::id()) });
        judge.begin().expect("it begins");
        let mut sum = 0_u64;
        let values = loop {
            sum = (0..1_000_000).fold(sum, |sum, n| std::hint::black_box(sum ^ n));
            match judge.look() {
                Ok(Look::Seen(Reading { values, .. })) if values[0].is_some_and(|cpu| cpu > 0.0) => break values,
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        };
        assert!(values[0].is_some_and(|cpu| cpu < 1e6), "{values:?}");
    }
}
