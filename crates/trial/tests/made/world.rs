//! A made service, the stage that candidates are applied to, and the judge that looks at it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use napier_linux::observe::parts::Through;
use napier_linux::observe::{Acts, Observation};
use napier_rng::{Xoshiro256PlusPlus, open_unit, stream};
use napier_trial::{
    Better, BlockTimes, Course, CourseOutcome, Decision, Judge, JudgeError, JudgedFigure, Limit, LimitSide, Look, Loss,
    Measured, Question, Reading, Stage, Trouble, Unit, Within,
};

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The figure rises while the candidate is in force.
    Rises,
    /// The judge says nothing more while it is in force.
    Silent,
    /// The judge cannot go on.
    JudgeFails,
    /// The candidate cannot be applied any more.
    Refused,
    /// What is in force is so no more.
    NotKept,
    Program,
    Interface,
    Told,
    /// The figure rises and stays so.
    StaysHigh,
    /// It rises, and the way back fails.
    NotPutBack,
}

impl Fault {
    pub(crate) const ALL: [Self; 8] = [
        Self::Rises,
        Self::Silent,
        Self::JudgeFails,
        Self::Refused,
        Self::NotKept,
        Self::Program,
        Self::Interface,
        Self::Told,
    ];

    /// What it ends the trial with.
    pub(crate) fn ends(self) -> Option<Loss> {
        match self {
            Self::Rises | Self::Silent | Self::Refused | Self::NotKept | Self::StaysHigh | Self::NotPutBack => None,
            Self::JudgeFails => Some(Loss::Judge),
            Self::Program => Some(Loss::Program),
            Self::Interface => Some(Loss::Interface),
            Self::Told => Some(Loss::Told),
        }
    }
}

/// What a world is made of.
#[derive(Clone)]
pub(crate) struct Made {
    /// What each candidate makes of the latency, as a factor.
    pub(crate) effects: Vec<f64>,
    /// Likewise of CPU time.
    pub(crate) cpu: Vec<f64>,
    /// How much of the opposite effect there is in the first half of a block.
    pub(crate) late: Vec<f64>,
    /// How far blocks of one candidate differ, as the deviation of a logarithm.
    pub(crate) noise: f64,
    /// Share of the time in which another program makes all three times as slow.
    pub(crate) disturbed: f64,
    pub(crate) fault: Option<(Fault, Duration)>,
    /// What takes long beside it.
    pub(crate) slow: Slow,
    /// A candidate that does not act.
    pub(crate) idle: Option<usize>,
}

/// What takes long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slow {
    Nothing,
    /// Deciding, after every round.
    Deciding,
    /// Another judge, which speaks every two seconds.
    Judge,
    /// The machine: pauses are longer than they are asked for.
    Machine,
    /// Half of each block is left out.
    Settling,
}

impl Slow {
    pub(crate) const ALL: [Self; 5] = [Self::Nothing, Self::Deciding, Self::Judge, Self::Machine, Self::Settling];
}

/// What has become of it.
pub(crate) struct World {
    made: Made,
    now: Duration,
    rng: Xoshiro256PlusPlus,
    pub(crate) in_force: Option<usize>,
    since: Duration,
    /// Of this block.
    level: f64,
    /// When the disturbance, or the rest from it, ends.
    turns: Duration,
    is_disturbed: bool,
    /// What was in force when the fault came, and when that was.
    pub(crate) faulted: Option<(Option<usize>, Duration)>,
    /// When everything was back.
    pub(crate) backs: Vec<Duration>,
    pub(crate) applied: Vec<(Duration, usize)>,
}

const TIMES: (u64, u64) = (2, 120);

impl Made {
    pub(crate) fn new(effects: &[f64]) -> Self {
        let same = vec![1.0; effects.len()];
        Self {
            effects: effects.to_vec(),
            cpu: same,
            late: vec![0.0; effects.len()],
            noise: 0.05,
            disturbed: 0.0,
            fault: None,
            slow: Slow::Nothing,
            idle: None,
        }
    }

    pub(crate) fn figures() -> [JudgedFigure; 2] {
        let of = |name: &str, unit| JudgedFigure { name: name.to_owned(), unit, better: Better::Less };
        [of("p99", Unit::Seconds), of("cpu", Unit::Share)]
    }

    pub(crate) fn decide(
        &self,
        measured: &[Measured],
        [out, unheard]: [&[usize]; 2],
        looks: u32,
        bounds: &[Within],
    ) -> Decision {
        let figures = &Self::figures();
        let candidates = self.effects.len();
        let question = Question { figures, decides: 0, bounds, candidates, reference: 0, out, unheard, looks, seed: 1 };
        Decision::of(&question, measured)
    }

    /// Runs a course in it; what it came to, and what became of the world.
    pub(crate) fn course(&self, seed: u64, run: impl FnOnce(Course<'_>) -> CourseOutcome) -> (CourseOutcome, World) {
        let world = Arc::new(Mutex::new(World::new(self, seed)));
        let judge = MadeJudge { world: world.clone(), figures: Self::figures(), sums: [0.0; 2], looks: 0 };
        let limits = vec![Limit { figure: 0, side: LimitSide::Below(LIMIT) }];
        let settle = (self.slow == Slow::Settling).then_some(Duration::from_secs(TIMES.0) / 2);
        let times = BlockTimes::new(Duration::from_secs(TIMES.1), Duration::from_secs(TIMES.0), settle);
        let mut judges: Vec<Box<dyn Judge>> = vec![Box::new(judge)];
        if self.slow == Slow::Judge {
            judges.push(Box::new(SeldomJudge::new(world.clone())));
        }
        let mut stage = MadeStage(world.clone());
        let mut told = |_: napier_trial::Note<'_>| {};
        let course = Course::new(&mut stage, judges, limits, (self.effects.len(), 0), times, &mut told);
        let outcome = run(course);
        drop(stage);
        let world = Arc::into_inner(world).expect("the judge went with the course").into_inner().expect("no panic");
        (outcome, world)
    }
}

/// About 100 us; a disturbance makes it 300, a fault 10 times as much.
const USUAL: f64 = 100e-6;
const LIMIT: f64 = 800e-6;

fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (-2.0 * open_unit(rng).ln()).sqrt() * (std::f64::consts::TAU * open_unit(rng)).cos()
}

impl World {
    fn new(made: &Made, seed: u64) -> Self {
        Self {
            made: made.clone(),
            now: Duration::ZERO,
            rng: stream(seed, "made world"),
            in_force: None,
            since: Duration::ZERO,
            level: 1.0,
            turns: Duration::ZERO,
            is_disturbed: false,
            faulted: None,
            backs: Vec::new(),
            applied: Vec::new(),
        }
    }

    /// Whether a fault goes on, which begins while something is in force.
    fn has(&mut self, kind: Fault) -> bool {
        let Some((own, at)) = self.made.fault else { return false };
        if own != kind || self.now < at {
            return false;
        }
        // Where it is about a candidate the reference is spared.
        let is_own = kind.ends().is_some() || self.in_force.is_some_and(|one| one != 0);
        if self.faulted.is_none() && self.in_force.is_some() && is_own {
            self.faulted = Some((self.in_force, self.now));
        }
        match (kind, self.faulted) {
            (_, None) => false,
            (Fault::StaysHigh, Some(_)) => true,
            (_, Some((of, _))) => kind.ends().is_some() || self.in_force == of,
        }
    }

    fn disturbance(&mut self) -> f64 {
        let Made { disturbed, .. } = self.made;
        while disturbed > 0.0 && self.now >= self.turns {
            self.is_disturbed = !self.is_disturbed;
            let mean = if self.is_disturbed { 3.0 } else { 3.0 * (1.0 / disturbed - 1.0) };
            self.turns += Duration::from_secs_f64(-mean * open_unit(&mut self.rng).ln());
        }
        if self.is_disturbed { 3.0 } else { 1.0 }
    }

    /// Latency and CPU time of this moment.
    fn figures(&mut self) -> [f64; 2] {
        let candidate = self.in_force.unwrap_or(0);
        let Made { effects, cpu, late, .. } = &self.made;
        let is_first_half = self.now.saturating_sub(self.since) < Duration::from_millis(1200);
        let late = if is_first_half { 1.0 + late[candidate] } else { 1.0 };
        let (effect, cpu) = (effects[candidate] * late, cpu[candidate]);
        // The machine drifts, under all alike.
        let drift = 1.0 + 0.3 * (self.now.as_secs_f64() / 17.0).sin();
        let high = self.has(Fault::Rises) || self.has(Fault::StaysHigh) || self.has(Fault::NotPutBack);
        let factor = drift * self.disturbance() * self.level * (0.1 * normal(&mut self.rng)).exp();
        [USUAL * effect * factor * if high { 20.0 } else { 1.0 }, 0.3 * cpu * factor.sqrt()]
    }
}

struct MadeStage(Arc<Mutex<World>>);

impl Stage for MadeStage {
    fn now(&self) -> Duration {
        self.0.lock().expect("no panic").now
    }

    fn apply(&mut self, candidate: usize) -> Result<(), String> {
        let mut world = self.0.lock().expect("no panic");
        world.now += Duration::from_millis(8);
        (world.in_force, world.since) = (Some(candidate), world.now);
        let (now, noise) = (world.now, world.made.noise);
        world.level = (noise * normal(&mut world.rng)).exp();
        world.applied.push((now, candidate));
        if world.has(Fault::Refused) { Err("it is refused".to_owned()) } else { Ok(()) }
    }

    fn back(&mut self) -> Result<(), String> {
        let mut world = self.0.lock().expect("no panic");
        let fails = world.has(Fault::NotPutBack);
        world.now += Duration::from_millis(5);
        world.in_force = None;
        let now = world.now;
        world.backs.push(now);
        if fails { Err("a value is left".to_owned()) } else { Ok(()) }
    }

    fn look(&mut self) -> Result<(), Trouble> {
        let mut world = self.0.lock().expect("no panic");
        for (kind, loss) in
            [(Fault::Program, Loss::Program), (Fault::Interface, Loss::Interface), (Fault::Told, Loss::Told)]
        {
            if world.has(kind) {
                return Err(Trouble::Lost(loss, format!("{kind:?}")));
            }
        }
        if world.has(Fault::NotKept) { Err(Trouble::Refused("another program".to_owned())) } else { Ok(()) }
    }

    fn pause(&mut self, span: Duration) {
        let mut world = self.0.lock().expect("no panic");
        let at_least = if world.made.slow == Slow::Machine { Duration::from_millis(220) } else { Duration::ZERO };
        world.now += span.max(at_least);
    }

    fn seen(&mut self) -> Option<Observation> {
        let world = self.0.lock().expect("no panic");
        let acts = if world.made.idle.is_some() && world.made.idle == world.in_force { Acts::No } else { Acts::Yes };
        Some(Observation {
            acts,
            seconds: 0.2,
            packets: Some(1000),
            taken: Some(1000),
            polls: None,
            polls_unknown: None,
            connections: Through::default(),
            unreached: Vec::new(),
            lines: Vec::new(),
        })
    }
}

struct MadeJudge {
    world: Arc<Mutex<World>>,
    figures: [JudgedFigure; 2],
    sums: [f64; 2],
    looks: u32,
}

impl Judge for MadeJudge {
    fn figures(&self) -> &[JudgedFigure] {
        &self.figures
    }

    fn begin(&mut self) -> Result<(), JudgeError> {
        (self.sums, self.looks) = ([0.0; 2], 0);
        Ok(())
    }

    fn look(&mut self) -> Result<Look, JudgeError> {
        let mut world = self.world.lock().expect("no panic");
        if world.has(Fault::JudgeFails) {
            return Err(JudgeError { judge: "made".to_owned(), why: "it fails".to_owned() });
        }
        if world.has(Fault::Silent) {
            return Ok(Look::Nothing);
        }
        let newest = world.figures();
        self.looks += 1;
        self.sums.iter_mut().zip(newest).for_each(|(sum, value)| *sum += value);
        let values = self.sums.iter().map(|sum| Some(sum / f64::from(self.looks))).collect();
        Ok(Look::Seen(Reading { values, newest: newest.map(Some).to_vec() }))
    }
}

/// Says something every two seconds.
struct SeldomJudge {
    world: Arc<Mutex<World>>,
    figures: [JudgedFigure; 1],
    spoke: Duration,
}

impl SeldomJudge {
    const PAUSE: Duration = Duration::from_secs(2);

    fn new(world: Arc<Mutex<World>>) -> Self {
        let figure = JudgedFigure { name: "seldom".to_owned(), unit: Unit::Plain, better: Better::Less };
        Self { world, figures: [figure], spoke: Duration::ZERO }
    }
}

impl Judge for SeldomJudge {
    fn figures(&self) -> &[JudgedFigure] {
        &self.figures
    }

    fn begin(&mut self) -> Result<(), JudgeError> {
        Ok(())
    }

    fn look(&mut self) -> Result<Look, JudgeError> {
        let now = self.world.lock().expect("no panic").now;
        if now < self.spoke + Self::PAUSE {
            return Ok(Look::Nothing);
        }
        self.spoke = now;
        Ok(Look::Seen(Reading { values: vec![Some(1.0)], newest: vec![Some(1.0)] }))
    }

    fn patience(&self) -> Duration {
        3 * Self::PAUSE
    }
}
