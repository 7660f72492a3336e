//! Judges watched: which figure is beyond its limit, and which judge is silent.

use std::fmt;
use std::time::Duration;

use crate::guard::GuardEvent;
use crate::judge::{Judge, JudgeError, JudgedFigure, Look};
use crate::record::Values;

/// How long a figure has to be beyond its limit: judges tell the newest quarter of a second or so already.
const HOLD: Duration = Duration::from_millis(50);
/// Between two looks that come in time. A machine that does not let this one look in time does not let judges speak in time either.
const GAP_MAX: Duration = Duration::from_millis(200);

/// Where a figure has to stay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LimitSide {
    /// Below this.
    Below(f64),
    /// Above this.
    Above(f64),
}

/// A figure has to stay on a side, else what is in force is taken back at once.
#[derive(Clone, PartialEq, Debug)]
pub struct Limit {
    /// Which figure, of all judges in turn.
    pub figure: usize,
    /// Where it has to stay.
    pub side: LimitSide,
}

impl LimitSide {
    fn is_passed(self, value: f64) -> bool {
        match self {
            Self::Below(limit) => value >= limit,
            Self::Above(limit) => value <= limit,
        }
    }
}

/// The figures of all judges in turn.
#[must_use]
pub fn figures_of(judges: &[Box<dyn Judge>]) -> Vec<JudgedFigure> {
    judges.iter().flat_map(|judge| judge.figures().to_vec()).collect()
}

/// Judges, and what they said last.
pub(crate) struct Watch {
    judges: Vec<Watched>,
    figures: Vec<JudgedFigure>,
    limits: Vec<(Limit, Option<Duration>)>,
    /// The last look.
    looked: Duration,
}

struct Watched {
    judge: Box<dyn Judge>,
    /// Its figures among all: from here on.
    from: usize,
    values: Values,
    newest: Values,
    spoke: Duration,
    /// Whether it spoke since it was forgotten.
    has_spoken: bool,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("figures", &self.figures).finish_non_exhaustive()
    }
}

impl Watch {
    pub(crate) fn new(judges: Vec<Box<dyn Judge>>, limits: Vec<Limit>, now: Duration) -> Self {
        let figures = figures_of(&judges);
        let mut from = 0;
        let watched = |judge: Box<dyn Judge>| {
            let own = from;
            from += judge.figures().len();
            Watched { judge, from: own, values: Vec::new(), newest: Vec::new(), spoke: now, has_spoken: false }
        };
        let mut judges: Vec<Watched> = judges.into_iter().map(watched).collect();
        for Limit { figure, .. } in &limits {
            let own = judges.iter_mut().rev().find(|watched| watched.from <= *figure);
            own.into_iter().for_each(|watched| watched.judge.guard());
        }
        Self { judges, figures, limits: limits.into_iter().map(|limit| (limit, None)).collect(), looked: now }
    }

    /// What comes from now on is a new half of a block.
    pub(crate) fn begin(&mut self) -> Result<(), JudgeError> {
        self.judges.iter_mut().try_for_each(|watched| {
            watched.values.clear();
            watched.judge.begin()
        })
    }

    /// Whether each judge has said something since the last [`begin`](Self::begin).
    pub(crate) fn have_all_spoken(&self) -> bool {
        self.judges.iter().all(|watched| !watched.values.is_empty())
    }

    /// The longest that a judge may be silent.
    pub(crate) fn patience(&self) -> Duration {
        self.judges.iter().map(|watched| watched.judge.patience()).max().unwrap_or_default()
    }

    /// Time without a look beyond what is usual, as while a candidate is applied, is no silence. A figure that was beyond its limit before it and
    /// is so after it was that long enough.
    fn excuse_gap(&mut self, now: Duration) {
        let gap = now.saturating_sub(std::mem::replace(&mut self.looked, now));
        if gap > GAP_MAX {
            self.judges.iter_mut().for_each(|watched| watched.spoke += gap - GAP_MAX);
        }
    }

    /// Another candidate has its turn: limits are held against what comes from now on. Whether there are any.
    pub(crate) fn turn(&mut self) -> bool {
        self.judges.iter_mut().for_each(|watched| watched.newest.clear());
        self.limits.iter_mut().for_each(|(_, since)| *since = None);
        !self.limits.is_empty()
    }

    /// What was is over.
    pub(crate) fn forget(&mut self, now: Duration) {
        self.looked = now;
        for watched in &mut self.judges {
            watched.newest.clear();
            (watched.spoke, watched.has_spoken) = (now, false);
        }
        self.limits.iter_mut().for_each(|(_, since)| *since = None);
    }

    /// All figures since the last [`begin`](Self::begin).
    pub(crate) fn values(&self) -> Values {
        let mut all = vec![None; self.figures.len()];
        for watched in &self.judges {
            for (place, value) in all.iter_mut().skip(watched.from).zip(&watched.values) {
                *place = *value;
            }
        }
        all
    }

    /// Looks at each judge; what is wrong, with words for it.
    pub(crate) fn look(&mut self, now: Duration) -> Result<Option<(GuardEvent, String)>, JudgeError> {
        self.excuse_gap(now);
        self.look_at_judges(now)?;
        self.look_at_limits(now);
        let passed = self.limits.iter().find(|(_, since)| since.is_some_and(|since| now.saturating_sub(since) >= HOLD));
        if let Some((limit, _)) = passed {
            return Ok(Some((GuardEvent::Passed, self.words(limit))));
        }
        let silent = |watched: &&Watched| now.saturating_sub(watched.spoke) >= watched.judge.patience();
        Ok(self.judges.iter().find(silent).map(|watched| {
            let names: Vec<&str> = watched.judge.figures().iter().map(|figure| figure.name.as_str()).collect();
            let since = now.saturating_sub(watched.spoke).as_secs_f64();
            (GuardEvent::Silent, format!("nothing new of {} for {since:.1} s", names.join(", ")))
        }))
    }

    /// What is not well.
    pub(crate) fn why_unwell(&self) -> Option<String> {
        let beyond = self.limits.iter().find(|(_, since)| since.is_some()).map(|(limit, _)| self.words(limit));
        let names =
            |watched: &Watched| watched.judge.figures().iter().map(|figure| figure.name.clone()).collect::<Vec<_>>();
        let silent = || self.judges.iter().find(|watched| !watched.has_spoken);
        beyond.or_else(|| silent().map(|watched| format!("nothing came of {}", names(watched).join(", "))))
    }

    /// Whether each judge has spoken and is not silent, and no figure is beyond its limit.
    pub(crate) fn is_well(&mut self, now: Duration) -> Result<bool, JudgeError> {
        let is_bad = self.look(now)?.is_some();
        let is_beyond = self.limits.iter().any(|(_, since)| since.is_some());
        Ok(!is_bad && !is_beyond && self.judges.iter().all(|watched| watched.has_spoken))
    }

    fn look_at_judges(&mut self, now: Duration) -> Result<(), JudgeError> {
        for watched in &mut self.judges {
            match watched.judge.look()? {
                Look::Seen(reading) => {
                    (watched.values, watched.newest) = (reading.values, reading.newest);
                    (watched.spoke, watched.has_spoken) = (now, true);
                }
                Look::Nothing => {}
            }
        }
        Ok(())
    }

    fn newest(&self, figure: usize) -> Option<f64> {
        let watched = self.judges.iter().rev().find(|watched| watched.from <= figure)?;
        watched.newest.get(figure - watched.from).copied().flatten()
    }

    fn look_at_limits(&mut self, now: Duration) {
        let passed: Vec<bool> = self
            .limits
            .iter()
            .map(|(limit, _)| self.newest(limit.figure).is_some_and(|value| limit.side.is_passed(value)))
            .collect();
        for ((_, since), is_passed) in self.limits.iter_mut().zip(passed) {
            *since = if is_passed { since.or(Some(now)) } else { None };
        }
    }

    fn words(&self, limit: &Limit) -> String {
        let JudgedFigure { name, unit, .. } = &self.figures[limit.figure];
        let value = self.newest(limit.figure).map_or_else(|| "not known".to_owned(), |value| unit.show(value));
        match limit.side {
            LimitSide::Below(at) => format!("{name} is {value}, and has to stay below {}", unit.show(at)),
            LimitSide::Above(at) => format!("{name} is {value}, and has to stay above {}", unit.show(at)),
        }
    }
}
