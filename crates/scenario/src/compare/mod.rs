//! What was seen against what must be seen.

mod align;
mod columns;
mod facts;
mod path;

use napier_core::time::Span;

use super::{Event, Expected, Pattern, Range, Scenario, Seen};
use align::{Sides, UNLIKE, WRONG_TIME, WRONG_VALUES};
use facts::{Facts, expected_line, show_at};
use path::Expectations;

pub use columns::{Cell, Mark, Row};

/// Whose time the run was in.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Virtual time: all watched events are in one order.
    Virtual,
    /// Real time: only the order within each lane counts. There is one lane for each NAPI instance, socket, thread
    /// and CPU.
    Real,
    /// Real time on a live kernel: lanes as there, and only what a kernel shows. Without times if `times` is false, for
    /// machines whose time is not that of the timeline.
    Kernel {
        /// Whether times are compared, with the tolerance of the file.
        times: bool,
    },
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// Everything was as expected.
    Pass,
    /// Something was not.
    Fail(Difference),
}

/// The former name of [`Judgement`].
#[deprecated(since = "0.2.0", note = "it is `Judgement` now; this name goes with the next version")]
pub type Verdict = Judgement;

/// What was not as expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The first thing that is wrong, in one sentence.
    pub reason: String,
    /// The expectations, a line each.
    pub expected: Vec<String>,
    /// The events that were compared, a line each.
    pub seen: Vec<String>,
    /// Both sides, aligned.
    pub rows: Vec<Row>,
}

/// Compares a run with the expectations of its scenario. `counters` are those at its end.
#[must_use]
pub fn judge(scenario: &Scenario, clock: Clock, seen: &[Seen], counters: &[(String, i64)]) -> Judgement {
    let expect = &scenario.expect;
    let (watch, tolerance) = match clock {
        Clock::Virtual => (expect.watch.clone(), Some(expect.tolerance.sim)),
        Clock::Real => (scenario.engine.watch.as_ref().unwrap_or(&expect.watch).clone(), Some(expect.tolerance.engine)),
        Clock::Kernel { times } => (scenario.watched_on_kernels(), scenario.kernel.tolerance.filter(|_| times)),
    };
    let facts: Vec<Facts> = seen
        .iter()
        .filter(|seen| watch.contains(&seen.event.kind()))
        .map(|seen| Facts::new(seen, &scenario.machine))
        .collect();
    let expected: Vec<&Expected> = expect.events.iter().filter(|expected| watch.contains(&expected.kind)).collect();
    let mut rows = failed_checks(seen);
    for (name, lane) in lanes(clock, &expected, &facts, tolerance) {
        let path = path::find(&lane, lane.facts.len());
        if !path.complete {
            rows.extend(name.map(|name| Row::note(format!("-- {name} --"))));
            rows.extend(align::rows(&lane, &path));
        }
    }
    let shown = |name: &str| !matches!(clock, Clock::Kernel { .. }) || Scenario::is_counter_of_kernels(name);
    let wanted: Vec<_> = expect.counters.iter().filter(|(name, _)| shown(name)).cloned().collect();
    rows.extend(wrong_counters(&wanted, counters));
    if rows.is_empty() {
        return Judgement::Pass;
    }
    Judgement::Fail(Difference {
        reason: columns::reason(&rows),
        expected: expected.iter().map(|expected| expected_cell(expected).line()).collect(),
        seen: facts.iter().map(|facts| seen_cell(facts).line()).collect(),
        rows,
    })
}

/// Events as lines, spelled as in files, all kinds; for logs.
#[must_use]
pub fn lines(scenario: &Scenario, seen: &[Seen]) -> Vec<String> {
    seen.iter().map(|seen| seen_cell(&Facts::new(seen, &scenario.machine)).line()).collect()
}

fn failed_checks(seen: &[Seen]) -> Vec<Row> {
    let row = |seen: &Seen| match &seen.event {
        Event::CheckFailed { line, expected, seen: found } => Some(Row {
            mark: Mark::Differs,
            expected: Some(Cell { at: Some(show_at(seen.at)), text: format!("check {expected}") }),
            seen: Some(Cell { at: Some(show_at(seen.at)), text: format!("check {found}") }),
            line: *line,
            why: Some(format!("the check expected {expected} and found {found}")),
        }),
        _ => None,
    };
    seen.iter().filter_map(row).collect()
}

fn wrong_counters(wanted: &[(String, Range)], counters: &[(String, i64)]) -> Vec<Row> {
    let row = |(name, range): &(String, Range)| {
        let seen = counters.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        if seen.is_some_and(|seen| range.contains(seen)) {
            return None;
        }
        let cell = |value: &str| Some(Cell { at: None, text: format!("counter {name} = {value}") });
        let range = Pattern::Number(*range).show();
        let found = seen.map_or_else(|| "unknown".to_owned(), |seen| seen.to_string());
        let why = Some(format!("the counter {name} is {found}, expected {range}"));
        Some(Row { mark: Mark::Differs, expected: cell(&range), seen: cell(&found), line: 0, why })
    };
    wanted.iter().filter_map(row).collect()
}

/// What is compared in one order.
struct Lane<'a> {
    expected: Vec<&'a Expected>,
    facts: Vec<&'a Facts>,
    clock: Clock,
    /// `None`: times are not compared.
    tolerance: Option<Span>,
}

type NamedLane<'a> = (Option<String>, Lane<'a>);

fn lanes<'a>(
    clock: Clock,
    expected: &[&'a Expected],
    facts: &'a [Facts],
    tolerance: Option<Span>,
) -> Vec<NamedLane<'a>> {
    if clock == Clock::Virtual {
        return vec![(None, Lane { expected: expected.to_vec(), facts: facts.iter().collect(), clock, tolerance })];
    }
    let mut lanes: Vec<NamedLane<'a>> = Vec::new();
    let lane_of = |lanes: &mut Vec<NamedLane<'a>>, field: &str, subject: &str| {
        let name = format!("{field} {subject}");
        lanes.iter().position(|(known, _)| known.as_ref() == Some(&name)).unwrap_or_else(|| {
            lanes.push((Some(name), Lane { expected: Vec::new(), facts: Vec::new(), clock, tolerance }));
            lanes.len() - 1
        })
    };
    for expected in expected {
        let (field, pattern) = expected.fields.first().expect("every expectation is about something");
        let at = lane_of(&mut lanes, field, &pattern.show());
        lanes[at].1.expected.push(expected);
    }
    for facts in facts {
        let (field, value) = facts.fields.first().expect("every event is about something");
        let at = lane_of(&mut lanes, field, &value.show());
        lanes[at].1.facts.push(facts);
    }
    lanes
}

impl Lane<'_> {
    /// The first field that is not as expected, in words.
    fn why(&self, expected: &Expected, facts: &Facts, first: bool) -> Option<String> {
        for (name, pattern) in &expected.fields {
            let seen = facts.field(name);
            if !pattern.fits(seen) {
                let seen = seen.map_or_else(|| "missing".to_owned(), facts::Value::show);
                return Some(format!("{name} is {seen}, expected {}", pattern.show()));
            }
        }
        match (expected.at, self.within(expected)) {
            (Some(at), Some(within)) if first && !self.near(expected, facts) => {
                let format = super::parse::duration::format;
                let (at, seen) = (format(at.ns), format(facts.at.ns));
                Some(format!("{} comes at {seen}, expected {at} within {}", expected.kind.name(), format(within.ns)))
            }
            _ => None,
        }
    }

    /// How far off the time may be. An event's own tolerance is made for virtual time; in real time it can only widen.
    fn within(&self, expected: &Expected) -> Option<Span> {
        let tolerance = self.tolerance?;
        Some(match (self.clock, expected.within) {
            (Clock::Virtual, Some(within)) => within,
            (Clock::Real | Clock::Kernel { .. }, Some(within)) => within.max(tolerance),
            (_, None) => tolerance,
        })
    }

    fn near(&self, expected: &Expected, facts: &Facts) -> bool {
        let Some(within) = self.within(expected) else { return true };
        expected.at.is_none_or(|at| at.ns.abs_diff(facts.at.ns) <= within.ns)
    }
}

impl Expectations for Lane<'_> {
    fn count(&self) -> usize {
        self.expected.len()
    }

    fn repeat(&self, expected: usize) -> Range {
        self.expected[expected].repeat
    }

    fn fits(&self, expected: usize, seen: usize) -> bool {
        let (expected, facts) = (self.expected[expected], self.facts[seen]);
        let fits = |(name, pattern): &(String, Pattern)| pattern.fits(facts.field(name));
        expected.kind == facts.kind && expected.fields.iter().all(fits)
    }

    fn in_time(&self, expected: usize, seen: usize) -> bool {
        self.near(self.expected[expected], self.facts[seen])
    }
}

impl Sides for Lane<'_> {
    fn seen_count(&self) -> usize {
        self.facts.len()
    }

    fn unlike(&self, expected: usize, seen: usize, first: bool) -> u32 {
        if self.fits(expected, seen) {
            return if first && !self.in_time(expected, seen) { WRONG_TIME } else { 0 };
        }
        let (expected, facts) = (self.expected[expected], self.facts[seen]);
        let (name, pattern) = expected.fields.first().expect("every expectation is about something");
        if expected.kind == facts.kind && pattern.fits(facts.field(name)) { WRONG_VALUES } else { UNLIKE }
    }

    fn row(&self, expected: Option<(usize, usize)>, seen: Option<usize>, same: bool) -> Row {
        let facts = seen.map(|seen| self.facts[seen]);
        let which = expected.map(|(expected, nth)| (self.expected[expected], nth));
        let mark = match (which, facts) {
            (Some(_), Some(_)) if same => Mark::Same,
            (Some(_), Some(_)) => Mark::Differs,
            (Some(_), None) => Mark::OnlyExpected,
            (None, _) => Mark::OnlySeen,
        };
        let why = match (which, facts) {
            (Some((expected, nth)), Some(facts)) if !same => self.why(expected, facts, nth == 0),
            _ => None,
        };
        Row {
            mark,
            expected: which.map(|(expected, nth)| match nth {
                0 => expected_cell(expected),
                _ => Cell { at: None, text: format!("  and again ({})", nth + 1) },
            }),
            seen: facts.map(seen_cell),
            line: which.map_or(0, |(expected, _)| expected.line),
            why,
        }
    }
}

fn expected_cell(expected: &Expected) -> Cell {
    Cell { at: expected.at.map(show_at), text: expected_line(expected) }
}

fn seen_cell(facts: &Facts) -> Cell {
    Cell { at: Some(show_at(facts.at)), text: facts.line() }
}

#[cfg(test)]
mod tests;
