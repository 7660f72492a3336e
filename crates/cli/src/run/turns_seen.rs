//! Who polled in each turn of a trial. A thread of its own looks, so that neither a turn nor the way back waits for a look.
//!
//! ```text
//! the first turn of a mode: as `run` looks, for as long as the turn lasts
//! each later one: until packets come --> a window of polls --> no more
//! ```
//!
//! A turn begins with what is left out of its figures, and so does the window: what tracing costs is in few of them. The tracer is made once.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use napier_linux::observe::{Acts, Observation, Observer, WhoPolls};
use rustix::time::{ClockId, clock_gettime};

use super::seen::{RunOutcome, Subject, watch, watch_polls};

/// What windows of later turns may take of a CPU: those that would take more are omitted.
const SHARE: f64 = 0.002;

/// Looks at turns.
#[derive(Default)]
pub(super) struct TurnsSeen {
    looker: Option<TurnLooker>,
    /// Candidates that had a turn.
    known: BTreeSet<usize>,
    /// Goes away with the turn.
    stop: Option<Sender<()>>,
    turn: u64,
    /// The last window of this turn.
    of_turn: Option<Observation>,
    outcomes: Vec<(usize, RunOutcome)>,
}

/// The thread.
struct TurnLooker {
    asks: Sender<Turn>,
    found: Receiver<TurnNews>,
    thread: JoinHandle<()>,
}

struct Turn {
    number: u64,
    candidate: usize,
    is_first: bool,
    subject: Subject,
    stopped: Receiver<()>,
}

enum TurnNews {
    Window(u64, Observation),
    Outcome(usize, Box<RunOutcome>),
}

impl TurnsSeen {
    /// A candidate has its turn.
    pub(super) fn begin(&mut self, candidate: usize, subject: Subject) {
        self.stop();
        self.take();
        (self.turn, self.of_turn) = (self.turn + 1, None);
        let is_first = self.known.insert(candidate);
        let (stop, stopped) = channel();
        self.stop = Some(stop);
        if self.looker.is_none() {
            self.looker = TurnLooker::begin();
        }
        let turn = Turn { number: self.turn, candidate, is_first, subject, stopped };
        // Without a thread nothing is seen.
        if let Some(looker) = &self.looker {
            let _ = looker.asks.send(turn);
        }
    }

    /// Its turn is over. It is not waited until the thread has heard of that.
    pub(super) fn stop(&mut self) {
        self.stop = None;
    }

    /// What was seen of this turn so far.
    pub(super) fn of_turn(&mut self) -> Option<Observation> {
        self.take();
        self.of_turn.clone()
    }

    /// What was seen of candidates in their first turns.
    pub(super) fn end(mut self) -> Vec<(usize, RunOutcome)> {
        self.stop();
        if let Some(TurnLooker { asks, found, thread }) = self.looker.take() {
            drop(asks);
            let left = found.iter().filter_map(|found| match found {
                TurnNews::Outcome(candidate, outcome) => Some((candidate, *outcome)),
                TurnNews::Window(..) => None,
            });
            self.outcomes.extend(left);
            // It can have panicked, which its output has said.
            let _ = thread.join();
        }
        self.outcomes
    }

    fn take(&mut self) {
        for found in self.looker.iter().flat_map(|looker| looker.found.try_iter()) {
            match found {
                TurnNews::Window(turn, seen) if turn == self.turn => self.of_turn = Some(seen),
                // It came too late.
                TurnNews::Window(..) => {}
                TurnNews::Outcome(candidate, outcome) => self.outcomes.push((candidate, *outcome)),
            }
        }
    }
}

impl TurnLooker {
    fn begin() -> Option<Self> {
        let ((asks, asked), (tells, found)) = (channel(), channel());
        let looks = move || look(&asked, &tells);
        let thread = std::thread::Builder::new().name("seen".to_owned()).spawn(looks).ok()?;
        Some(Self { asks, found, thread })
    }
}

fn look(asked: &Receiver<Turn>, tells: &Sender<TurnNews>) {
    let mut observer: Option<Observer> = None;
    let mut not_before = Instant::now();
    for Turn { number, candidate, is_first, subject, stopped } in asked {
        // Nobody may want to know it any more.
        let mut told = |seen: &Observation| {
            let _ = tells.send(TurnNews::Window(number, of_block(seen, WhoPolls::of(&subject.plan))));
        };
        if is_first {
            let outcome = watch(&subject, &stopped, &mut observer, &mut told);
            let _ = tells.send(TurnNews::Outcome(candidate, Box::new(outcome)));
        } else if Instant::now() >= not_before {
            let before = spent();
            let seen = watch_polls(&subject, &stopped, &mut observer);
            seen.iter().for_each(&mut told);
            not_before = Instant::now() + spent().saturating_sub(before).div_f64(SHARE);
        }
    }
}

/// What a window says of its block. Where the one that shall poll did so at all the block counts: on a machine that has much to do it polls seldom for
/// once, and without such blocks the mode would look better than it is.
fn of_block(seen: &Observation, poller: WhoPolls) -> Observation {
    let polled = seen.polls.as_ref().and_then(|polls| polls.of(poller)).is_some_and(|polls| polls > 0);
    let are_taken = seen.taken.zip(seen.packets).is_none_or(|(taken, packets)| taken * 2 >= packets);
    let acts = match seen.acts {
        Acts::No if polled && are_taken => Acts::Unknown,
        acts => acts,
    };
    Observation { acts, ..seen.clone() }
}

/// CPU time of this thread.
fn spent() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use napier_linux::facts::Through;
    use napier_linux::observe::Shares;

    use super::*;

    #[test]
    fn a_block_is_left_out_only_if_the_one_that_shall_poll_did_not_at_all() {
        let seen = |acts, program, taken| Observation {
            acts,
            seconds: 0.2,
            packets: Some(100),
            taken,
            polls: Some(Shares { program, softirq: 1000, ..Shares::default() }),
            polls_unknown: None,
            connections: Through::default(),
            unreached: Vec::new(),
            lines: Vec::new(),
        };
        for (acts, program, taken, wanted) in [
            (Acts::No, 0, Some(100), Acts::No),
            (Acts::No, 3, Some(100), Acts::Unknown),
            (Acts::No, 3, None, Acts::Unknown),
            // They pass by.
            (Acts::No, 3, Some(10), Acts::No),
            (Acts::Yes, 90, Some(100), Acts::Yes),
        ] {
            let found = of_block(&seen(acts, program, taken), WhoPolls::Program).acts;
            assert_eq!(found, wanted, "{program} {taken:?}");
        }
        assert_eq!(of_block(&seen(Acts::No, 3, Some(10)), WhoPolls::Any).acts, Acts::No);
    }

    #[test]
    fn it_is_not_waited_for_what_a_turn_shows() {
        let mut seen = TurnsSeen::default();
        assert!(seen.of_turn().is_none());
        seen.stop();
        assert!(seen.end().is_empty());
    }
}
