//! What lets a candidate have its turn, and takes it away: a state machine without a clock and without hands. Who asks it carries out the
//! order that it gives, at once.
//!
//! | state, on | a turn | refused | a bound passed | silence | all well | too long unwell | a loss |
//! |---|---|---|---|---|---|---|---|
//! | home | apply | | | | | | end |
//! | away with a candidate | apply the next | back, never again | back, never again | back, never again | | | back, end |
//! | away with the reference | apply the next | back, end | back | back | | | back, end |
//! | waiting | skip | | | | home | end | end |
//! | over | skip | | | | | | |
//!
//! It begins with waiting. A candidate that was taken back is skipped from then on. If nothing is left to be held against another, it is over. The *reference* is
//! the candidate that is as safe as what was there before (`base`): a bound that is passed under it, and silence, are no candidate's fault,
//! so it is waited until all is well, and it is tried again.

use std::fmt;

/// Where it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GuardState {
    /// Nothing is in force.
    Home,
    /// A candidate has its turn.
    Away(usize),
    /// Nothing is in force, until all is well again.
    Waiting,
    /// Nothing is in force any more.
    Over,
}

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GuardEvent {
    /// It is a candidate's turn.
    Turn(usize),
    /// It could not be applied, or could not be kept so.
    Refused,
    /// A figure is beyond its bound.
    Passed,
    /// A judge has nothing new for longer than it may.
    Silent,
    /// Every judge has spoken, and no figure is beyond a bound.
    Well,
    /// It has not been well for too long.
    Unwell,
    /// Something is gone without which nothing can go on.
    Lost(Loss),
}

/// What is gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Loss {
    /// The program has ended.
    Program,
    /// The interface is gone, or down.
    Interface,
    /// A judge cannot go on.
    Judge,
    /// The one who began the trial wants its end.
    Told,
    /// The way back: something could not be put back, so nothing else is tried.
    Way,
}

/// What is to be done now.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GuardOrder {
    /// Nothing.
    Nothing,
    /// This candidate is to be applied in place of what is in force.
    Apply(usize),
    /// It has no turn.
    Skip,
    /// Everything is to be as it was before the trial.
    Back,
    /// The same, and the trial is over.
    End(EndedBy),
}

/// Why a trial is over before its time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EndedBy {
    /// Something is gone.
    Lost(Loss),
    /// The reference could not be applied.
    Reference,
    /// With nothing in force it did not become well.
    Unwell,
    /// All candidates but one were taken back.
    Alone,
}

/// Most candidates: each has a bit.
pub const CANDIDATES_MAX: usize = 16;

/// The guard.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Guard {
    state: GuardState,
    candidates: usize,
    reference: usize,
    /// A bit for each that was taken back.
    tripped: u16,
}

impl Guard {
    /// Of so many candidates, one of them the reference. It waits until all is well.
    ///
    /// # Panics
    /// If there are fewer than two, or more than [`CANDIDATES_MAX`], or the reference is none of them.
    #[must_use]
    pub fn new(candidates: usize, reference: usize) -> Self {
        assert!((2..=CANDIDATES_MAX).contains(&candidates) && reference < candidates, "{candidates} {reference}");
        Self { state: GuardState::Waiting, candidates, reference, tripped: 0 }
    }

    /// Where it is.
    #[must_use]
    pub fn state(&self) -> GuardState {
        self.state
    }

    /// Whether a candidate was taken back, and is not tried again.
    #[must_use]
    pub fn has_tripped(&self, candidate: usize) -> bool {
        self.tripped >> candidate & 1 == 1
    }

    /// What is to be done.
    ///
    /// # Panics
    /// If the turn is of a candidate that there is not.
    pub fn on(&mut self, event: GuardEvent) -> GuardOrder {
        match (self.state, event) {
            (GuardState::Over, GuardEvent::Turn(_)) => GuardOrder::Skip,
            (GuardState::Over, _) => GuardOrder::Nothing,
            (GuardState::Home | GuardState::Away(_) | GuardState::Waiting, GuardEvent::Lost(loss)) => {
                self.end(EndedBy::Lost(loss))
            }
            (GuardState::Home | GuardState::Away(_), GuardEvent::Turn(candidate)) => self.turn(candidate),
            (GuardState::Waiting, GuardEvent::Turn(_)) => GuardOrder::Skip,
            (GuardState::Away(candidate), GuardEvent::Refused) if candidate == self.reference => {
                self.end(EndedBy::Reference)
            }
            (GuardState::Away(candidate), GuardEvent::Refused | GuardEvent::Passed | GuardEvent::Silent) => {
                self.back(candidate)
            }
            (GuardState::Waiting, GuardEvent::Well) => {
                self.state = GuardState::Home;
                GuardOrder::Nothing
            }
            (GuardState::Waiting, GuardEvent::Unwell) => self.end(EndedBy::Unwell),
            (GuardState::Home | GuardState::Waiting, GuardEvent::Refused | GuardEvent::Passed | GuardEvent::Silent)
            | (GuardState::Home | GuardState::Away(_), GuardEvent::Well | GuardEvent::Unwell) => GuardOrder::Nothing,
        }
    }

    fn turn(&mut self, candidate: usize) -> GuardOrder {
        assert!(candidate < self.candidates, "candidate {candidate} of {}", self.candidates);
        if self.has_tripped(candidate) {
            return GuardOrder::Skip;
        }
        self.state = GuardState::Away(candidate);
        GuardOrder::Apply(candidate)
    }

    fn back(&mut self, candidate: usize) -> GuardOrder {
        if candidate != self.reference {
            self.tripped |= 1 << candidate;
        }
        if self.tripped.count_ones() as usize + 1 >= self.candidates {
            return self.end(EndedBy::Alone);
        }
        self.state = GuardState::Waiting;
        GuardOrder::Back
    }

    fn end(&mut self, why: EndedBy) -> GuardOrder {
        self.state = GuardState::Over;
        GuardOrder::End(why)
    }
}

impl fmt::Display for EndedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost(Loss::Program) => "the program has ended",
            Self::Lost(Loss::Interface) => "the interface is gone or down",
            Self::Lost(Loss::Judge) => "a judge cannot go on",
            Self::Lost(Loss::Told) => "it was told to end",
            Self::Lost(Loss::Way) => "something could not be put back",
            Self::Reference => "the reference could not be applied",
            Self::Unwell => "with nothing in force a judge was silent, or a limit passed, for too long",
            Self::Alone => "nothing is left to compare: the other modes were taken back",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use super::*;

    const LOSSES: [Loss; 5] = [Loss::Program, Loss::Interface, Loss::Judge, Loss::Told, Loss::Way];

    fn home() -> Guard {
        let mut guard = Guard::new(3, 0);
        assert_eq!(
            (guard.on(GuardEvent::Turn(1)), guard.on(GuardEvent::Well)),
            (GuardOrder::Skip, GuardOrder::Nothing)
        );
        guard
    }

    fn away(candidate: usize) -> Guard {
        let mut guard = home();
        assert_eq!(guard.on(GuardEvent::Turn(candidate)), GuardOrder::Apply(candidate));
        guard
    }

    fn waiting() -> Guard {
        let mut guard = away(1);
        assert_eq!(guard.on(GuardEvent::Passed), GuardOrder::Back);
        guard
    }

    /// The table of the module's head, row by row.
    #[test]
    fn each_state_answers_each_event() {
        use GuardEvent::{Lost, Passed, Refused, Silent, Turn, Unwell, Well};
        let over = {
            let mut guard = away(0);
            assert_eq!(guard.on(Refused), GuardOrder::End(EndedBy::Reference));
            guard
        };
        let gone = GuardOrder::End(EndedBy::Lost(Loss::Program));
        let nothing = GuardOrder::Nothing;
        let events = [Turn(2), Refused, Passed, Silent, Well, Unwell, Lost(Loss::Program)];
        let rows = [
            (home(), [GuardOrder::Apply(2), nothing, nothing, nothing, nothing, nothing, gone]),
            (
                away(1),
                [GuardOrder::Apply(2), GuardOrder::Back, GuardOrder::Back, GuardOrder::Back, nothing, nothing, gone],
            ),
            (
                away(0),
                [
                    GuardOrder::Apply(2),
                    GuardOrder::End(EndedBy::Reference),
                    GuardOrder::Back,
                    GuardOrder::Back,
                    nothing,
                    nothing,
                    gone,
                ],
            ),
            (waiting(), [GuardOrder::Skip, nothing, nothing, nothing, nothing, GuardOrder::End(EndedBy::Unwell), gone]),
            (over, [GuardOrder::Skip, nothing, nothing, nothing, nothing, nothing, nothing]),
        ];
        for (guard, orders) in rows {
            for (event, order) in events.into_iter().zip(orders) {
                let mut guard = guard;
                assert_eq!(guard.on(event), order, "{:?} on {event:?}", guard.state());
            }
        }
        let mut guard = waiting();
        assert_eq!((guard.on(Well), guard.state()), (nothing, GuardState::Home));
        assert_eq!(
            (guard.on(Turn(1)), guard.on(Turn(2))),
            (GuardOrder::Skip, GuardOrder::Apply(2)),
            "1 was taken back"
        );
        assert_eq!(guard.on(Passed), GuardOrder::End(EndedBy::Alone), "the reference is left");
    }

    /// Every sequence of events, over all states that there are.
    #[test]
    fn nothing_that_was_taken_back_is_applied_again() {
        for candidates in 2..=4 {
            for reference in [0, candidates - 1] {
                walk(Guard::new(candidates, reference), candidates, reference);
            }
        }
    }

    fn walk(first: Guard, candidates: usize, reference: usize) {
        let mut events =
            vec![GuardEvent::Refused, GuardEvent::Passed, GuardEvent::Silent, GuardEvent::Well, GuardEvent::Unwell];
        events.extend(LOSSES.map(GuardEvent::Lost));
        events.extend((0..candidates).map(GuardEvent::Turn));
        let (mut seen, mut open) = (HashSet::from([first]), vec![first]);
        let mut orders: BTreeMap<String, usize> = BTreeMap::new();
        while let Some(before) = open.pop() {
            for event in &events {
                let mut guard = before;
                let order = guard.on(*event);
                *orders.entry(format!("{order:?}")).or_default() += 1;
                // What is in force in the world follows from orders alone.
                match order {
                    GuardOrder::Apply(candidate) => {
                        assert!(!before.has_tripped(candidate), "{before:?} on {event:?}");
                        assert_eq!(guard.state(), GuardState::Away(candidate));
                    }
                    GuardOrder::Back => assert_eq!(guard.state(), GuardState::Waiting),
                    GuardOrder::End(_) => assert_eq!(guard.state(), GuardState::Over),
                    GuardOrder::Nothing | GuardOrder::Skip => {
                        let stays = guard.state() == before.state();
                        assert!(stays || (before.state(), guard.state()) == (GuardState::Waiting, GuardState::Home));
                    }
                }
                let is_bad = !matches!(event, GuardEvent::Turn(_) | GuardEvent::Well | GuardEvent::Unwell);
                if let GuardState::Away(candidate) = before.state()
                    && is_bad
                {
                    assert!(!matches!(guard.state(), GuardState::Away(_)), "{before:?} on {event:?} stays away");
                    let is_own = matches!(event, GuardEvent::Refused | GuardEvent::Passed | GuardEvent::Silent);
                    assert_eq!(guard.has_tripped(candidate), is_own && candidate != reference);
                }
                assert!(!guard.has_tripped(reference), "the reference is never taken back for good");
                assert!((0..candidates).all(|one| guard.has_tripped(one) || !before.has_tripped(one)));
                if before.state() == GuardState::Over {
                    assert_eq!(guard, before);
                }
                if seen.insert(guard) {
                    open.push(guard);
                }
            }
        }
        assert!(orders.contains_key("Back") && orders.contains_key("Skip") && seen.len() > candidates, "{orders:?}");
    }
}
