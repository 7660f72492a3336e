//! A trial as it goes: blocks in their order, judges looked at, the guard asked, its orders carried out at once.
//!
//! ```text
//! wait until all is well
//! turn --> apply --> settling --> first half --> second half --> next turn
//!            |           |             |              |
//!            '-----------'-- a look every 50 ms ------'--> the guard: back --> wait until all is well --> next turn
//!                                                                      end --> back, over
//! ```
//!
//! The time, and all that is done to the machine, is behind [`Stage`].

use std::time::Duration;

use napier_linux::observe::Observation;

use crate::guard::{EndedBy, Guard, GuardEvent, GuardOrder, Loss};
use crate::judge::Judge;
use crate::limits::{Limit, Watch};
use crate::record::{Measured, Values};
use crate::{Block, BlockTimes};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// How long it is waited that all is well after something was taken back, at least.
const WAIT_MIN: Duration = Duration::from_secs(10);
/// How long all has to be well before it goes on.
const WELL: Duration = Duration::from_millis(500);

/// What candidates are applied to.
pub trait Stage {
    /// Time that has gone by since some moment.
    fn now(&self) -> Duration;

    /// Applies a candidate in place of what is in force.
    ///
    /// # Errors
    /// Why it cannot be. What of it is in force is taken back by [`back`](Self::back).
    fn apply(&mut self, candidate: usize) -> Result<(), String>;

    /// Makes everything as it was before the trial. It is called also where nothing is in force.
    ///
    /// # Errors
    /// What could not be put back.
    fn back(&mut self) -> Result<(), String>;

    /// Looks after what is in force, and whether all is there that a trial needs.
    ///
    /// # Errors
    /// [`Trouble`].
    fn look(&mut self) -> Result<(), Trouble>;

    /// Lets time go by; it may return earlier.
    fn pause(&mut self, span: Duration);

    /// What was seen of the block that ends: who polled, and whether what is in force acted. It waits for nothing.
    fn seen(&mut self) -> Option<Observation> {
        None
    }
}

/// What a look found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// Something is gone.
    Lost(Loss, String),
    /// What is in force is in force no more, or not everywhere.
    Refused(String),
}

/// What is told while it goes.
#[derive(Clone, PartialEq, Debug)]
pub enum Note<'a> {
    /// A block begins.
    Turn(Block),
    /// A candidate was taken back.
    Back(&'a Trip),
    /// All is well again.
    Well,
}

/// Something was taken back before its time.
#[derive(Clone, PartialEq, Debug)]
pub struct Trip {
    /// Whose turn it was; `None` if nothing was in force.
    pub candidate: Option<usize>,
    /// What happened: a figure that passed its limit speaks against the candidate; a judge that fell silent, or a refusal, does not.
    pub event: GuardEvent,
    /// The same in words.
    pub why: String,
    /// When it was noticed, since the beginning.
    pub at: Duration,
    /// How long the way back took from there.
    pub took: Duration,
}

/// What a trial came to.
#[derive(Clone, PartialEq, Debug)]
pub struct CourseOutcome {
    /// Blocks that were measured whole.
    pub measured: Vec<Measured>,
    /// What was taken back.
    pub trips: Vec<Trip>,
    /// Candidates that were not tried again.
    pub out: Vec<usize>,
    /// Why it ended before its time, if something was wrong.
    pub ended: Option<(EndedBy, String)>,
    /// How long it took.
    pub took: Duration,
}

impl CourseOutcome {
    /// Candidates that are out though no figure speaks against them: nothing is known of them.
    #[must_use]
    pub fn unheard(&self) -> Vec<usize> {
        let spoke = |one: &usize| {
            self.trips.iter().any(|trip| trip.candidate == Some(*one) && trip.event == GuardEvent::Passed)
        };
        self.out.iter().copied().filter(|one| !spoke(one)).collect()
    }
}

/// The block, or all of it, is over before its time.
enum Broken {
    Back,
    End,
}

/// A trial.
pub struct Course<'a> {
    stage: &'a mut dyn Stage,
    watch: Watch,
    guard: Guard,
    candidates: usize,
    times: BlockTimes,
    told: &'a mut dyn FnMut(Note<'_>),
    in_force: Option<usize>,
    begun: Duration,
    measured: Vec<Measured>,
    trips: Vec<Trip>,
    ended: Option<(EndedBy, String)>,
}

impl<'a> Course<'a> {
    /// One that has not begun.
    pub fn new(
        stage: &'a mut dyn Stage,
        judges: Vec<Box<dyn Judge>>,
        limits: Vec<Limit>,
        (candidates, reference): (usize, usize),
        times: BlockTimes,
        told: &'a mut dyn FnMut(Note<'_>),
    ) -> Self {
        let begun = stage.now();
        Self {
            stage,
            watch: Watch::new(judges, limits, begun),
            guard: Guard::new(candidates, reference),
            candidates,
            times,
            told,
            in_force: None,
            begun,
            measured: Vec::new(),
            trips: Vec::new(),
            ended: None,
        }
    }

    /// Goes through the blocks. After each round `is_decided` is asked, with how many rounds there were, what was measured and which candidates
    /// are out.
    pub fn run(
        self,
        blocks: &[Block],
        mut is_decided: impl FnMut(u32, &[Measured], &[usize]) -> bool,
    ) -> CourseOutcome {
        self.run_beside(blocks, |round, measured, out| Some(is_decided(round, measured, out)))
    }

    /// The same where deciding takes long: `None` says that it is not known yet, and it is asked again at each look. What is in force is looked
    /// after meanwhile.
    pub fn run_beside(
        mut self,
        blocks: &[Block],
        mut is_decided: impl FnMut(u32, &[Measured], &[usize]) -> Option<bool>,
    ) -> CourseOutcome {
        // Nothing is tried on a service of which nothing is known, or that is beyond a limit already.
        let blocks = if self.wait().is_ok() { blocks } else { &[] };
        for (at, block) in blocks.iter().enumerate() {
            let ends_round = blocks.get(at + 1).is_none_or(|next| next.round != block.round);
            let done = self.block(*block).or_else(|broken| self.after(broken));
            let is_over = match done {
                Ok(()) if ends_round => self.decided(block.round + 1, &mut is_decided),
                done => done.map(|()| false),
            };
            if is_over.unwrap_or(true) {
                break;
            }
        }
        if self.ended.is_none() {
            self.go_back(None, GuardEvent::Well, String::new());
        }
        let (out, took) = (self.out(), self.stage.now().saturating_sub(self.begun));
        CourseOutcome { measured: self.measured, trips: self.trips, out, ended: self.ended, took }
    }

    /// Goes on after something was taken back, if it may.
    fn after(&mut self, broken: Broken) -> Result<(), Broken> {
        match broken {
            Broken::Back => self.wait(),
            Broken::End => Err(Broken::End),
        }
    }

    fn decided(
        &mut self,
        rounds: u32,
        is_decided: &mut impl FnMut(u32, &[Measured], &[usize]) -> Option<bool>,
    ) -> Result<bool, Broken> {
        loop {
            if let Some(is_decided) = is_decided(rounds, &self.measured, &self.out()) {
                return Ok(is_decided);
            }
            self.stage.pause(LOOK);
            self.look().or_else(|broken| self.after(broken))?;
        }
    }

    fn out(&self) -> Vec<usize> {
        (0..self.candidates).filter(|one| self.guard.has_tripped(*one)).collect()
    }

    fn block(&mut self, block: Block) -> Result<(), Broken> {
        match self.guard.on(GuardEvent::Turn(block.candidate)) {
            GuardOrder::Apply(candidate) => self.apply(candidate)?,
            GuardOrder::Nothing | GuardOrder::Skip | GuardOrder::Back | GuardOrder::End(_) => return Ok(()),
        }
        (self.told)(Note::Turn(block));
        let at = self.stage.now().saturating_sub(self.begun);
        self.span(self.times.settle)?;
        let halves = [self.half()?, self.half()?];
        self.measured.push(Measured { block, at, halves, seen: self.stage.seen() });
        Ok(())
    }

    fn apply(&mut self, candidate: usize) -> Result<(), Broken> {
        self.in_force = Some(candidate);
        self.stage.apply(candidate).or_else(|why| self.event(GuardEvent::Refused, why))?;
        // What was beyond a limit under another one is not this one's fault.
        if self.watch.turn() { self.begin() } else { Ok(()) }
    }

    fn half(&mut self) -> Result<Values, Broken> {
        self.begin()?;
        self.span(self.times.half())?;
        // A judge that looks seldom has not looked yet: the half is longer then, until it is silent for too long.
        let until = self.stage.now() + self.watch.patience();
        while !self.watch.have_all_spoken() && self.stage.now() < until {
            self.stage.pause(LOOK);
            self.look()?;
        }
        Ok(self.watch.values())
    }

    fn begin(&mut self) -> Result<(), Broken> {
        self.watch.begin().or_else(|error| self.event(GuardEvent::Lost(Loss::Judge), error.to_string()))
    }

    fn span(&mut self, length: Duration) -> Result<(), Broken> {
        let until = self.stage.now() + length;
        loop {
            let left = until.saturating_sub(self.stage.now());
            self.look()?;
            if left.is_zero() {
                return Ok(());
            }
            self.stage.pause(left.min(LOOK));
        }
    }

    fn look(&mut self) -> Result<(), Broken> {
        match self.stage.look() {
            Ok(()) => {}
            Err(Trouble::Lost(loss, why)) => self.event(GuardEvent::Lost(loss), why)?,
            Err(Trouble::Refused(why)) => self.event(GuardEvent::Refused, why)?,
        }
        match self.watch.look(self.stage.now()) {
            Ok(None) => Ok(()),
            Ok(Some((event, why))) => self.event(event, why),
            Err(error) => self.event(GuardEvent::Lost(Loss::Judge), error.to_string()),
        }
    }

    /// Asks the guard, and does what it orders.
    fn event(&mut self, event: GuardEvent, why: String) -> Result<(), Broken> {
        match self.guard.on(event) {
            GuardOrder::Nothing | GuardOrder::Skip | GuardOrder::Apply(_) => Ok(()),
            GuardOrder::Back => {
                self.go_back(self.in_force, event, why);
                if self.ended.is_some() { Err(Broken::End) } else { Err(Broken::Back) }
            }
            GuardOrder::End(ended) => {
                self.ended = Some((ended, why.clone()));
                // What ends everything is no fault of the candidate, unless it was the last one.
                let of = if ended == EndedBy::Alone { self.in_force } else { None };
                self.go_back(of, event, why);
                Err(Broken::End)
            }
        }
    }

    /// Everything as it was before.
    fn go_back(&mut self, candidate: Option<usize>, event: GuardEvent, why: String) {
        let noticed = self.stage.now();
        let back = self.stage.back();
        self.in_force = None;
        let now = self.stage.now();
        let (at, took) = (noticed.saturating_sub(self.begun), now.saturating_sub(noticed));
        if let Some(candidate) = candidate {
            let trip = Trip { candidate: Some(candidate), event, why, at, took };
            (self.told)(Note::Back(&trip));
            self.trips.push(trip);
        }
        if let Err(left) = back {
            // What was to end it already is the better reason.
            let lost = GuardEvent::Lost(Loss::Way);
            if let GuardOrder::End(ended) = self.guard.on(lost) {
                self.ended = Some((ended, left));
            }
        }
    }

    /// Until all is well again.
    fn wait(&mut self) -> Result<(), Broken> {
        let until = self.stage.now() + WAIT_MIN.max(self.times.block * 3);
        self.watch.forget(self.stage.now());
        self.begin()?;
        let mut well_since = None;
        loop {
            self.stage.pause(LOOK);
            if let Err(Trouble::Lost(loss, why)) = self.stage.look() {
                self.event(GuardEvent::Lost(loss), why)?;
            }
            let now = self.stage.now();
            match self.watch.is_well(now) {
                Ok(true) => {
                    let since = *well_since.get_or_insert(now);
                    if now.saturating_sub(since) >= WELL {
                        if !self.trips.is_empty() {
                            (self.told)(Note::Well);
                        }
                        return self.event(GuardEvent::Well, String::new());
                    }
                }
                Ok(false) => well_since = None,
                Err(error) => self.event(GuardEvent::Lost(Loss::Judge), error.to_string())?,
            }
            if now >= until {
                let why = self.watch.why_unwell().unwrap_or_default();
                self.event(GuardEvent::Unwell, why)?;
            }
        }
    }
}
