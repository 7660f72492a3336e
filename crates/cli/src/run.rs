//! `napier run`.

mod attached;
mod engine;
mod instances;
mod live;
mod pair;
mod port;
mod report;
mod rings;
mod seen;
mod startable;
mod turns;
mod turns_seen;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, anyhow, bail};
use napier_lab::modes::{Mode, NO_GROUPS};
use napier_linux::change::{DeviceRef, Line, Queues, Scope, Undone};
use napier_linux::observe::Acts;
use napier_linux::process::{
    PreloadError, Program, ProgramSettings, Roots, Signals, ld_preload, preload_for, preload_would_be,
};
use napier_linux::wiring::PairLines;

use crate::confirm::{self, Confirm, OnTrial};
use crate::mode_names::ModeNames;
use crate::target::TargetArgs;
use crate::{ExitWith, Usage};
use attached::{AttachTo, Attached};
pub(crate) use instances::{Instances, lines_for};
pub(crate) use live::ENDS;
use live::Live;
use pair::Ledgers;
pub(crate) use port::FlowPort;
use report::Report;
pub(crate) use report::{dry_run, preview_lines, previews_json};
pub(crate) use seen::{RunOutcome, Subject, Watching, look_once};
use startable::{not_started, startable};
pub(crate) use turns::{AskedTurns, Turns};

/// The status of `--must-act`.
const NOT_ACTING: u8 = 3;

/// See [`RunArgs::door`].
#[derive(Copy, Clone, PartialEq, Eq, clap::ValueEnum)]
enum ProgramDoor {
    Slow,
    Fast,
}

/// Options of `napier run`.
#[derive(clap::Args)]
#[command(
    after_help = "What is changed is noted in /var/lib/napier (or $NAPIER_STATE_DIRECTORY) before, and put back when the program ends, \
                        newest first; after a crash by the next napier of any kind. The exit status is the program's, 128 and the \
                        number of the signal that ended it, or 127 if there is no such program."
)]
pub(crate) struct RunArgs {
    /// Interface that the program's packets come through, in the namespace of this command or of the program
    #[arg(long, value_name = "IF", required_unless_present = "engine")]
    dev: Option<String>,

    /// How packets are delivered, by the names of `compare`
    #[arg(long, value_name = "MODE", value_parser = ModeNames, hide_possible_values = true, required_unless_present = "engine")]
    mode: Option<Mode>,

    /// Let the program have its TCP sockets from a running engine, the one of this name or the only one of this network namespace
    /// (docs/engine-programs.md); nothing is changed on an interface
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        conflicts_with_all = ["dev", "mode", "attach", "target", "confirm", "queues", "port", "dry_run", "strict", "steer", "preload", "must_act", "json"]
    )]
    engine: Option<Option<String>>,

    /// Say at the end which calls the engine held, which sockets were its, and which stayed with the kernel and why
    #[arg(long, requires = "engine")]
    explain: bool,

    /// Hold sendto with an address as well, which some programs use on connections of TCP: the address is ignored then, as by the kernel. Each
    /// datagram of the program that goes that way costs a held call
    #[arg(long, requires = "engine")]
    hold_sendto: bool,

    /// By which door the program's sockets go. fast: what it writes to connections goes through memory that it shares with the engine, by a library
    /// that is loaded into it, and its UDP sockets are the engine's too; a static program goes by slow, through a pair of Unix sockets [default: slow]
    #[arg(long, requires = "engine", value_name = "DOOR", hide_possible_values = true)]
    door: Option<ProgramDoor>,

    /// Apply the mode to a process that runs already, and to its descendants, until it ends or this command is interrupted
    #[arg(long, value_name = "PID", conflicts_with_all = ["program", "target"])]
    attach: Option<u32>,

    #[command(flatten)]
    target: TargetArgs,

    /// End and put everything back after this time, such as 60s, unless `napier host confirm` keeps it (docs/host.md) [default: 60s for
    /// modes with NAPI threads on a terminal of another machine (SSH), else no]
    #[arg(long, value_name = "TIME", value_parser = confirm::confirm)]
    confirm: Option<Confirm>,

    /// Apply the mode to the NAPI instances of these receive queues alone, such as 0-3,6: other runs may have the others
    #[arg(long, value_name = "LIST")]
    queues: Option<Queues>,

    /// Send the packets of this port to the queue of --queues, by a flow rule where the driver has them: 11211, udp:53, tcp4:11211
    #[arg(long, value_name = "PORT")]
    port: Option<FlowPort>,

    /// Change nothing; print each value that would be changed, with what is there now
    #[arg(long)]
    dry_run: bool,

    /// Apply the mode to each descriptor before the call that makes it returns
    #[arg(long, conflicts_with_all = ["attach", "target"])]
    strict: bool,

    /// Let listeners that share a port (SO_REUSEPORT) have the connections of one receive queue each, as many as there are; it takes the
    /// place of a choice that the program has made itself, which no kernel tells
    #[arg(long)]
    steer: bool,

    /// Another library than this command's own for modes that need other waits of the program (fullbusy)
    #[arg(long, value_name = "FILE")]
    preload: Option<PathBuf>,

    /// End with status 3 if the program ends well and the mode was not seen to act on it (docs/run.md)
    #[arg(long, conflicts_with = "dry_run")]
    must_act: bool,

    /// Print one JSON object: with --dry-run on standard output, else at the end on standard error, for standard output is the
    /// program's (docs/run.md)
    #[arg(long)]
    json: bool,

    /// The program and its arguments
    #[arg(conflicts_with = "target", value_name = "PROGRAM", trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

impl RunArgs {
    /// The mode; there is none with `--engine`, which goes another way.
    fn mode(&self) -> Mode {
        self.mode.expect("clap asks for it")
    }

    fn dev(&self) -> &str {
        self.dev.as_deref().expect("clap asks for it")
    }

    /// The command in words, for what it changes.
    pub(crate) const fn name(&self) -> &'static str {
        if self.attach.is_some() { "run --attach" } else { "run" }
    }

    /// Whether the program runs already.
    fn is_attached(&self) -> bool {
        self.target.name(self.attach).is_some()
    }
}

/// What a mode changes here.
pub(crate) struct Changes {
    pub(crate) scope: Scope,
    pub(crate) device: DeviceRef,
    /// What a pair of veth interfaces needs before.
    pub(crate) pair: PairLines,
    /// Of the mode; those of instances that the pair has not yet are not among them.
    pub(crate) lines: Vec<Line>,
    pub(crate) settings: ProgramSettings,
    /// What is loaded into the program.
    pub(crate) library: Option<PathBuf>,
}

impl Changes {
    /// What changes in the program, in lines for a person.
    pub(crate) fn program_lines(&self) -> Vec<String> {
        let library = self.library.iter().map(|library| {
            format!(
                "waits of the program for events poll for packets as long as they last: LD_PRELOAD {}",
                library.display()
            )
        });
        self.settings.lines().into_iter().chain(library).collect()
    }
}

/// Runs the program, or accompanies one that runs, and puts everything back.
pub(crate) fn run(args: &RunArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    if let Some(engine) = &args.engine {
        return engine::run(args, engine.as_deref(), interrupted);
    }
    if args.mode() == Mode::Group {
        return Err(crate::Usage(anyhow!("{NO_GROUPS}")).into());
    }
    if !args.is_attached() && args.program.is_empty() {
        let how = "give a program and its arguments behind --, or --attach PID (or --unit, --container, --pod, --cgroup) of one that runs";
        return Err(Usage(anyhow!("nothing to run: {how}")).into());
    }
    let (dev, target) = (args.dev(), &args.target);
    let to = AttachTo { dev, attach: args.attach, target, mode: args.mode(), is_quiet: args.dry_run };
    let attached = Attached::find(&to, &settings(args))?;
    if let Some(process) = attached.as_ref().and_then(|attached| attached.process.as_ref()) {
        rings::refuse_suspension(process, args.mode(), &settings(args))?;
    }
    startable(args)?;
    let changes = changes(args, attached.as_ref())?;
    if args.dry_run {
        return dry_run(args.mode(), args.json, &changes);
    }
    let signals = Signals::take().context("taking signals")?;
    if interrupted.load(Ordering::Relaxed) {
        bail!("interrupted"); // from here on signals come through `signals`
    }
    let mut report = Report::new(args, &changes);
    let (mut ledgers, lines, trial) = applied(args, &changes)?;
    let ledger = ledgers.take();
    let roots = attached.as_ref().map_or(Roots::Children, |attached| attached.target.roots.clone());
    let (mode, device) = (args.mode().to_string(), changes.device.clone());
    let (tells, harmed) = std::sync::mpsc::channel();
    let subject =
        Subject { mode, plan: args.mode().plan(), device, roots: roots.clone(), harmed: tells, is_quiet: false };
    let instances = Instances::new(args.mode().plan(), changes.device.clone(), args.queues.clone(), lines);
    let mut live = Live::new(signals, (ledger, instances), changes.settings.clone(), roots, harmed);
    // A thread begins with handlers of the C library's own signals, which a program that was started after it would see.
    let mut watching = None;
    let status = match &attached {
        Some(attached) => {
            watching = Some(Watching::begin(subject));
            live.accompany(attached).map(|()| None)
        }
        None => start(args, changes.library.as_deref(), &mut live, &changes.settings)
            .and_then(|program| {
                watching = Some(Watching::begin(subject));
                live.follow(program)
            })
            .map(|ended| Some(ended.status())),
    };
    let seen = watching.map(Watching::end).unwrap_or_default();
    let is_watched = std::io::stderr().is_terminal();
    crate::say::say(seen.answer(&args.mode().to_string(), &changes.device.name, is_watched).as_slice());
    crate::say::say(&seen.lines());
    report.seen(&seen);
    live.tell(&mut report);
    ledgers.give_back(live.end());
    report.changed(&ledgers.entries());
    let undone = ledgers.put_back();
    crate::say::say(&undone.lines());
    trial.into_iter().for_each(OnTrial::end);
    // What is left is said already.
    let status = status?;
    if args.json {
        eprintln!("{}", report.end(status, &undone));
    }
    ends_as(args, status, undone.is_refused, &seen)
}

/// What is changed, the mode's lines among it, and the trial that it is on.
type Applied = (Ledgers, Vec<Line>, Option<OnTrial>);

/// Applies a mode to its interface; what was changed is put back if that is refused.
fn applied(args: &RunArgs, changes: &Changes) -> anyhow::Result<Applied> {
    let mut ledgers = Ledgers::begin(changes)?;
    let trial = match OnTrial::of_this_run(confirm::span(args.confirm, changes.lines.iter())) {
        Ok(trial) => trial,
        Err(error) => return Err(with_left(error, &ledgers.put_back())),
    };
    trial.iter().for_each(|trial| crate::say::say(&[trial.words()]));
    match ledgers.apply(changes, &args.mode().plan(), args.queues.as_ref()) {
        Ok(lines) => {
            crate::say::say(changes.other_end().as_slice());
            Ok((ledgers, lines, trial))
        }
        Err(error) => {
            trial.into_iter().for_each(OnTrial::end);
            Err(with_left(error, &ledgers.put_back()))
        }
    }
}

/// How this command ends: as the program did, unless that is well and something of its own is not.
fn ends_as(args: &RunArgs, status: Option<u8>, is_left: bool, seen: &RunOutcome) -> anyhow::Result<()> {
    match status {
        // What could not be put back is a failure of this command, unless the program has its own.
        None | Some(0) if is_left => bail!("not everything was put back: the next napier tries again"),
        None | Some(0) if args.must_act && seen.acts() != Acts::Yes => {
            crate::say::say(&[seen.why()]);
            Err(ExitWith(NOT_ACTING).into())
        }
        None | Some(0) => Ok(()),
        Some(status) => Err(ExitWith(status).into()),
    }
}

fn settings(args: &RunArgs) -> ProgramSettings {
    ProgramSettings { steer: args.steer, ..ProgramSettings::of(&args.mode().plan()) }
}

/// The interface of that name, here.
pub(crate) fn device(name: &str) -> anyhow::Result<DeviceRef> {
    DeviceRef::named(name).map_err(|error| {
        Usage(anyhow!("there is no interface {name} in this network namespace ({error}): `ip link` lists them")).into()
    })
}

fn changes(args: &RunArgs, attached: Option<&Attached>) -> anyhow::Result<Changes> {
    let (device, pair) = match attached {
        Some(attached) => (attached.wired.device.clone(), attached.pair.clone()),
        None => {
            let device = device(args.dev())?;
            let pair = attached::pair_of(args.mode(), &device);
            (device, pair)
        }
    };
    let library = if args.mode().plan().wait().is_some() { Some(library(args)?) } else { None };
    let changes = changes_of(args.mode(), (device, pair), args.queues.as_ref(), args.port.as_ref())?;
    Ok(Changes { settings: settings(args), library, ..changes })
}

/// What a mode changes on an interface, with what its pair needs before, or on some of its queues, and on a program's descriptors.
fn changes_of(
    mode: Mode,
    (device, pair): (DeviceRef, PairLines),
    queues: Option<&Queues>,
    port: Option<&FlowPort>,
) -> anyhow::Result<Changes> {
    let steered = port::lines(port, queues, &device)?;
    // Instances are made with the first of what a pair needs; until then base has nothing to set.
    let mut lines = match pair.own.as_slice() {
        [] => lines_for(&mode.plan(), &device, queues).map_err(|error| anyhow!("{error}"))?,
        _ => Vec::new(),
    };
    let pair = if mode == Mode::Base { PairLines::default() } else { pair };
    lines.extend(steered);
    let scope = Scope::device_or_queues(device.clone(), queues.cloned())?;
    Ok(Changes { scope, device, pair, lines, settings: ProgramSettings::of(&mode.plan()), library: None })
}

fn start(
    args: &RunArgs,
    library: Option<&Path>,
    live: &mut Live,
    settings: &ProgramSettings,
) -> anyhow::Result<Program> {
    let (program, rest) = args.program.split_first().expect("clap asks for it");
    let mut command = Command::new(program);
    command.args(rest);
    if let Some(library) = library {
        command.env("LD_PRELOAD", ld_preload(library));
    }
    let is_made = settings.epoll.is_some() || !settings.sockets.is_empty();
    let strict = (args.strict && is_made).then_some(settings);
    let error = match live.start(&mut command, strict, library) {
        Ok(started) => return Ok(started),
        Err(error) => error,
    };
    Err(not_started(program, &error))
}

/// The library that another time-out needs, if it can be loaded into the program.
fn library(args: &RunArgs) -> anyhow::Result<PathBuf> {
    let mode = args.mode();
    let Some(name) = args.program.first() else {
        return Err(Usage(anyhow!(
            "{mode} needs other waits for events, which a process that runs already cannot get"
        ))
        .into());
    };
    let given = args.preload.as_deref();
    if let Some(path) = given.filter(|path| !path.is_file()) {
        return Err(Usage(anyhow!("--preload {}: there is no such file", path.display())).into());
    }
    let found = if args.dry_run { preload_would_be(name, given) } else { preload_for(name, given) };
    found.map_err(|error| match error {
        PreloadError::NoProgram(_) => error.into(),
        PreloadError::NotLoadable { .. } => {
            anyhow!("{mode} needs a library in the program: {error}: take another mode, such as suspend20")
        }
        PreloadError::NotBuilt | PreloadError::NoPlace(_) | PreloadError::Path(_) => {
            anyhow!("{mode} needs a library in the program: {error}; say where one is (--preload FILE)")
        }
    })
}

fn with_left(error: anyhow::Error, undone: &Undone) -> anyhow::Error {
    match undone.left.join("; ") {
        left if left.is_empty() => error,
        left => anyhow!("{error}; not put back: {left}"),
    }
}
