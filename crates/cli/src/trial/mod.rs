//! `napier trial`: modes take turns on a service that runs, its own figures judge, and everything goes back by itself.

mod acts;
mod bounds;
mod carry;
mod document;
mod keep;
mod said;

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{anyhow, bail};
use napier_lab::compare::AskedModes;
use napier_lab::html::trial_page;
use napier_lab::modes::{Mode, NO_GROUPS};
use napier_lab::subject::Subject;
use napier_linux::change::Queues;
use napier_trial::judge::{self, Service};
use napier_trial::{
    Block, BlockTimes, CANDIDATES_MAX, CourseOutcome, Decision, EndedBy, Judge, JudgedFigure, Loss, Measured, Question,
    Within, blocks, figures_of, looks_counted, never_acted,
};

use crate::output::PageFile;
use crate::run::{AskedTurns, FlowPort, Turns, preview_lines, previews_json};
use crate::target::TargetArgs;
use crate::{ExitWith, Told, Usage, units};
use acts::Acted;

/// Options of `napier trial`.
#[derive(clap::Args)]
#[command(
    after_help = "Blocks of all modes come in random order, so that whatever else goes on meets all of them alike; it ends as soon as all is decided. \
                  What is changed is noted in /var/lib/napier (or $NAPIER_STATE_DIRECTORY) before, and put back at the end, at Ctrl-C and SIGTERM, and \
                  after a crash by the next napier of any kind (docs/trial.md)."
)]
pub(crate) struct TrialArgs {
    /// Interface that the service's packets come through, in the namespace of this command or of the service
    #[arg(long, value_name = "IF")]
    dev: String,

    /// Modes that take turns; base, which the others are held against, is among them in any case
    #[arg(long, value_name = "LIST", default_value = "base,defer20,suspend20")]
    modes: String,

    /// The service: a process and its descendants
    #[arg(long, value_name = "PID", conflicts_with = "target")]
    attach: Option<u32>,

    #[command(flatten)]
    target: TargetArgs,

    /// The NAPI instances of these receive queues alone, such as 0-3,6
    #[arg(long, value_name = "LIST")]
    queues: Option<Queues>,

    /// Send the packets of this port to the queue of --queues meanwhile, in all modes: 11211, udp:53, tcp4:11211
    #[arg(long, value_name = "PORT")]
    port: Option<FlowPort>,

    /// How long at most, such as 20m
    #[arg(long = "for", value_name = "TIME", default_value = "20m", value_parser = whole)]
    span: Duration,

    /// How long a mode has its turn, such as 20s
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = block)]
    block: Duration,

    /// What is left out at the beginning of each turn [default: a fifth of it, at most 3s]
    #[arg(long, value_name = "TIME", value_parser = units::warm_up)]
    settle: Option<Duration>,

    /// What judges the service (docs/judges.md); the first one's first figure decides, and the CPU time is always watched [default: what the
    /// kernel knows of it]
    #[arg(long, value_name = "JUDGE")]
    judge: Vec<String>,

    /// The figure that decides, in place of the first one: such as p50
    #[arg(long, value_name = "FIGURE")]
    by: Option<String>,

    /// A figure that must not become worse than under base by more than this for a mode to be taken, such as 'cpu<+10%'
    #[arg(long, value_name = "BOUND")]
    bound: Vec<String>,

    /// A figure that must stay on one side of a value: else everything is put back at once, and the mode is not tried again; such as
    /// 'p99<2ms'
    #[arg(long, value_name = "LIMIT")]
    guard: Vec<String>,

    /// Seed of the order of turns
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Change nothing; print the turns, and each value that would be changed
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object (docs/trial.md)
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    page: PageFile,
}

fn whole(text: &str) -> Result<Duration, String> {
    units::time_within(text, units::Bare::Seconds, 1.0..=604_800.0).map(Duration::from_secs_f64)
}

fn block(text: &str) -> Result<Duration, String> {
    units::time_within(text, units::Bare::Seconds, 0.5..=3600.0).map(Duration::from_secs_f64)
}

/// What a trial is about, once it is known to be possible.
struct TrialPlan {
    /// Names of the modes; one that is there once more is the same under another name.
    modes: Vec<String>,
    kinds: Vec<Mode>,
    times: BlockTimes,
    rounds: u32,
    figures: Vec<JudgedFigure>,
    /// The figure that decides.
    decides: usize,
    bounds: Vec<Within>,
    seed: u64,
}

/// What it came to.
struct TrialResult<'a> {
    plan: &'a TrialPlan,
    dev: &'a str,
    program: &'a str,
    outcome: &'a CourseOutcome,
    decision: &'a Decision,
    /// Commands that keep the mode to be taken.
    keep: Vec<String>,
    left: &'a [String],
    /// Whether each mode acted.
    acts: Vec<Acted>,
}

/// The mode that the others are held against comes first.
const REFERENCE: usize = 0;

/// Runs the command.
pub(crate) fn run(args: &TrialArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let subjects = modes(&args.modes)?;
    let modes: Vec<String> = subjects.iter().map(|subject| subject.name(false)).collect();
    let kinds: Vec<Mode> = subjects.iter().map(|subject| subject.mode).collect();
    let times = BlockTimes::new(args.span, args.block, args.settle);
    let rounds = times.rounds(modes.len()).map_err(|error| Usage(error.into()))?;
    let page = args.page.target()?;
    let mut turns = Turns::find(&AskedTurns {
        dev: &args.dev,
        attach: args.attach,
        target: &args.target,
        modes: &kinds,
        queues: args.queues.as_ref(),
        port: args.port.as_ref(),
        is_quiet: args.dry_run,
    })?;
    // The threads of judges begin with signals taken.
    turns.take_signals()?;
    if interrupted.load(Ordering::Relaxed) {
        bail!("interrupted"); // from here on signals come through `turns`
    }
    let judges = judges(args, &turns)?;
    let figures = figures_of(&judges);
    let decides = args.by.as_deref().map_or(Ok(0), |name| bounds::figure(name, &figures))?;
    let bounds = args.bound.iter().map(|text| bounds::bound(text, &figures)).collect::<Result<Vec<_>, _>>()?;
    let limits = args.guard.iter().map(|text| bounds::limit(text, &figures)).collect::<Result<Vec<_>, _>>()?;
    let plan = TrialPlan { modes, kinds, times, rounds, figures, decides, bounds, seed: args.seed };
    if args.dry_run {
        return dry_run(args, &plan, &turns);
    }
    plan.kinds.iter().try_for_each(|mode| can_be_applied(&turns, *mode))?;
    let program = turns.program();
    crate::say::say(&said::begins(&plan, &args.dev, &program));
    crate::say::say(turns.other_end()?.as_slice());
    let outcome = plan.carry_out(&mut turns, judges, limits);
    let decision = plan.decide(&outcome.measured, [&outcome.out, &outcome.unheard()]);
    let keep = keep::commands(args, &plan, &decision, turns.target());
    let first = turns.end_looks();
    let acts = acts::of_modes(&plan, &outcome.measured, &first, &turns.device().name);
    let (outcome, decision, left) = (&outcome, &decision, turns.left());
    let result = TrialResult { plan: &plan, dev: &args.dev, program: &program, outcome, decision, keep, left, acts };
    let document = document::document(&result);
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &document)?;
        writeln!(out)?;
    } else {
        out.write_all(said::text(&result).as_bytes())?;
    }
    out.flush()?;
    crate::output::write(page.as_ref(), || trial_page(&document))?;
    ends(outcome, decision.is_decided(), &turns)
}

/// How this command ends.
fn ends(outcome: &CourseOutcome, is_decided: bool, turns: &Turns) -> anyhow::Result<()> {
    if !turns.left().is_empty() {
        return Err(Told("not everything was put back: the next napier tries again".to_owned()).into());
    }
    match &outcome.ended {
        // What was measured is printed.
        Some((EndedBy::Lost(Loss::Told), _)) => {
            let signal = turns.ended_by().and_then(|number| u8::try_from(number).ok()).unwrap_or(0);
            Err(ExitWith(crate::EXIT_SIGNAL + signal).into())
        }
        None => Ok(()),
        Some((EndedBy::Alone, _)) if is_decided => Ok(()),
        Some((why, words)) => Err(Told(format!("the trial ended early: {why}: {words}")).into()),
    }
}

/// The modes, base first, then those that are there once more.
fn modes(list: &str) -> anyhow::Result<Vec<Subject>> {
    let asked = AskedModes::parse(list).map_err(|error| Usage(error.into()))?;
    let others = asked.modes.iter().copied().filter(|mode| *mode != Mode::Base);
    let first = std::iter::once(Mode::Base).chain(others).map(Subject::kernel);
    let copies = asked.copies.iter().map(|(mode, copy)| Subject::kernel(*mode).copied(*copy));
    let all: Vec<Subject> = first.chain(copies).collect();
    let refused = |words: String| -> anyhow::Result<Vec<Subject>> { Err(Usage(anyhow!("{words}")).into()) };
    if !asked.irq.is_empty() {
        return refused("-irq is a row of compare, whose server it makes: give the mode without it".to_owned());
    }
    if asked.modes.contains(&Mode::Group) {
        return refused(NO_GROUPS.to_owned());
    }
    if let Some(mode) = asked.modes.iter().find(|mode| mode.plan().wait().is_some()) {
        return refused(format!(
            "{mode} needs other waits for events, which a program that runs already cannot get: leave it out of --modes, or take napibusy"
        ));
    }
    if all.len() < 2 {
        return refused(
            "base alone has nothing to be held against: give --modes such as base,defer20,suspend20".to_owned(),
        );
    }
    if all.len() > CANDIDATES_MAX {
        return refused(format!("{} modes are too many to decide between: give {CANDIDATES_MAX} at most", all.len()));
    }
    Ok(all)
}

/// Those that were asked for, and CPU time: what a mode costs is part of every answer.
fn judges(args: &TrialArgs, turns: &Turns) -> anyhow::Result<Vec<Box<dyn Judge>>> {
    let service = Service { roots: turns.target().roots.clone() };
    let usage = |error: napier_trial::JudgeError| Usage(error.into());
    let mut judges = match args.judge.as_slice() {
        [] => judge::usual(&service).map_err(usage)?,
        given => {
            given.iter().map(|given| judge::named(given, &service)).collect::<Result<Vec<_>, _>>().map_err(usage)?
        }
    };
    if !figures_of(&judges).iter().any(|figure| figure.name == CPU) {
        judges.push(judge::named(CPU, &service).map_err(usage)?);
    }
    Ok(judges)
}

/// The judge of CPU time, and its figure.
const CPU: &str = "cpu";

/// Refuses what cannot be applied, before anything is changed.
fn can_be_applied(turns: &Turns, mode: Mode) -> anyhow::Result<()> {
    let previews = turns.changes(mode)?.previews()?;
    let refused = previews.iter().find_map(|preview| Some((&preview.line, preview.now.as_ref().err()?)));
    match refused {
        Some((line, error)) => bail!("{mode} cannot be applied here: {line}: {error}"),
        None => Ok(()),
    }
}

fn dry_run(args: &TrialArgs, plan: &TrialPlan, turns: &Turns) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let all = plan.blocks();
    let mut refused = Vec::new();
    let mut documents = Vec::new();
    if !args.json {
        said::begins(plan, &args.dev, &turns.program()).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        writeln!(out, "turns: {}", said::order(plan, &all))?;
    }
    for (mode, kind) in plan.modes.iter().zip(&plan.kinds) {
        let changes = turns.changes(*kind)?;
        let previews = changes.previews()?;
        let wrong = previews.iter().filter(|preview| preview.now.is_err()).count();
        if wrong > 0 {
            refused.push(format!("{mode} ({wrong} of {} values)", previews.len()));
        }
        if args.json {
            documents.push(serde_json::json!({
                "mode": mode.to_string(), "lines": previews_json(&previews), "program": changes.program_lines(),
            }));
            continue;
        }
        writeln!(out, "{mode}:")?;
        for line in preview_lines(&changes, &previews) {
            writeln!(out, "  {line}")?;
        }
    }
    if args.json {
        writeln!(out, "{}", document::planned(plan, args, &turns.program(), documents))?;
    }
    if !refused.is_empty() {
        bail!("not all modes can be applied: {}", refused.join(", "));
    }
    Ok(())
}

impl TrialPlan {
    fn blocks(&self) -> Vec<Block> {
        blocks(self.modes.len(), self.rounds, self.seed)
    }

    /// What blocks say. Modes that were taken back, and those that never acted, are out; of those that are `unheard` nothing is known.
    fn decide(&self, measured: &[Measured], [out, unheard]: [&[usize]; 2]) -> Decision {
        let looks = looks_counted(self.rounds, self.modes.len());
        let idle = never_acted(measured, self.modes.len(), REFERENCE).into_iter().filter(|one| !out.contains(one));
        let out = &out.iter().copied().chain(idle).collect::<Vec<_>>();
        let (figures, bounds, candidates) = (&self.figures, &self.bounds, self.modes.len());
        let decides = self.decides;
        let question = Question {
            figures,
            decides,
            bounds,
            candidates,
            reference: REFERENCE,
            out,
            unheard,
            looks,
            seed: self.seed,
        };
        Decision::of(&question, measured)
    }
}
