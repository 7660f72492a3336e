//! A trial carried out. What takes long beside it has threads of its own, for what is in force is looked after twenty times a second.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use napier_trial::{Course, CourseOutcome, Judge, Limit, Measured, Note, looks};

use super::{REFERENCE, TrialPlan, said};
use crate::progress::Doing;
use crate::run::Turns;
use crate::say::{SayBeside, later, say};

/// Where there is no terminal, so long nothing is said of how far it is.
const SILENCE: Duration = Duration::from_secs(30);

impl TrialPlan {
    /// Goes through the turns.
    pub(super) fn carry_out(
        &self,
        turns: &mut Turns,
        judges: Vec<Box<dyn Judge>>,
        limits: Vec<Limit>,
    ) -> CourseOutcome {
        // A terminal that is stopped keeps nothing from going back.
        let _beside = SayBeside::begin();
        let doing = std::io::stderr().is_terminal().then(|| Doing::new("the trial begins", Some(self.times.whole)));
        let doing = doing.map(Arc::new);
        let begun = Instant::now();
        let mut said = begun;
        let mut told = |note: Note<'_>| match note {
            Note::Turn(block) => {
                let round = format!("round {} of {}", block.round + 1, self.rounds);
                if let Some(doing) = doing.clone() {
                    let now = format!("{round}: {}", self.modes[block.candidate]);
                    later(move || doing.now(&now));
                } else if said.elapsed() >= SILENCE {
                    said = Instant::now();
                    say(&[format!(
                        "{round}, {:.0} s gone of {:.0}",
                        begun.elapsed().as_secs_f64(),
                        self.times.whole.as_secs_f64()
                    )]);
                }
            }
            Note::Back(trip) => say(&[said::trip(self, trip)]),
            Note::Well => say(&["all is well again: it goes on".to_owned()]),
        };
        let planned = looks(self.rounds, self.modes.len());
        // A busy machine takes long to change modes: the time that was asked for ends it then, not the number of rounds.
        std::thread::scope(|scope| {
            let mut deciding = Deciding { plan: self, scope, thread: None };
            let course = Course::new(turns, judges, limits, (self.modes.len(), REFERENCE), self.times, &mut told);
            course.run_beside(&self.blocks(), |round, measured, out| {
                if begun.elapsed() >= self.times.whole {
                    return Some(true);
                }
                if planned.contains(&round) { deciding.ends_early(measured, out) } else { Some(false) }
            })
        })
    }
}

/// What is decided in a thread of its own: it takes tenths of a second, and much longer on a machine that has much to do.
struct Deciding<'scope, 'env> {
    plan: &'env TrialPlan,
    scope: &'scope Scope<'scope, 'env>,
    thread: Option<ScopedJoinHandle<'scope, bool>>,
}

impl Deciding<'_, '_> {
    /// `None` until it is known.
    fn ends_early(&mut self, measured: &[Measured], out: &[usize]) -> Option<bool> {
        let begin = || {
            let (plan, measured, out) = (self.plan, measured.to_vec(), out.to_vec());
            let decide = move || plan.decide(&measured, [&out, &[]]).ends_early();
            std::thread::Builder::new().name("decide".to_owned()).spawn_scoped(self.scope, decide)
        };
        // Without a thread it goes on, and more blocks say more.
        let Ok(thread) = self.thread.take().map_or_else(begin, Ok) else { return Some(false) };
        if !thread.is_finished() {
            self.thread = Some(thread);
            return None;
        }
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}
