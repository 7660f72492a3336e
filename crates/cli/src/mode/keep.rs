//! `napier mode keep`: a mode that is in force for as long as this runs, whatever becomes of the interface and of the program.
//!
//! ```text
//! wait --the interface has instances--> hold: look again and again --the interface is gone--> put back --> wait
//!                                         '--told to end, or the process of --attach has ended--> put back
//! ```
//!
//! Nothing tells of all that takes a mode away: the kernel sends no message for new instances or for a driver that was reset. So what is
//! there is read again, ten times a second, as descriptors of a program are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use napier_lab::modes::{Mode, NO_GROUPS};
use napier_linux::change::{ApplyError, DeviceRef, JournalError, KeyError, Ledger, Queues, Scope};
use napier_linux::process::{Process, ProgramSettings, Roots, SignalSeen, Signals, Watcher, wait_for};

use super::KEEP;
use super::keeping::{Kept, Whom, check_unit, whole_name};
use crate::Usage;
use crate::run::{ENDS, Instances, Subject, Watching, lines_for};
use crate::say::say;

/// Between two looks at what is not there.
const AWAY: Duration = Duration::from_millis(500);

/// Options of `napier mode keep`.
#[derive(clap::Args)]
#[command(
    after_help = "It runs in the foreground until it is told to end (SIGTERM, SIGINT), and puts everything back then; after a crash the next \
                  napier of any kind does. `napier mode enable` lets systemd run it beside a unit."
)]
pub(crate) struct KeepArgs {
    #[command(flatten)]
    kept: Kept,

    /// The program: a unit of systemd, also before it is started and after it was started anew
    #[arg(long, value_name = "UNIT", group = "whom")]
    unit: Option<String>,

    /// The program: all that is in this control group, by its folder
    #[arg(long, value_name = "PATH", group = "whom")]
    cgroup: Option<std::path::PathBuf>,

    /// The program: this process and its descendants, until it ends
    #[arg(long, value_name = "PID", group = "whom")]
    attach: Option<u32>,

    /// Let listeners that share a port (SO_REUSEPORT) have the connections of one receive queue each
    #[arg(long, requires = "whom")]
    steer: bool,
}

impl KeepArgs {
    /// The command in words, for what it changes: `mode list` reads them.
    pub(crate) fn name(&self) -> String {
        let mut words = format!("{KEEP} --mode {}", self.kept.mode);
        if let Some(unit) = &self.unit {
            words += &format!(" --unit {}", whole_name(unit));
        } else if let Some(path) = &self.cgroup {
            words += &format!(" --cgroup {}", path.display());
        } else if let Some(pid) = self.attach {
            words += &format!(" --attach {pid}");
        }
        words
    }

    fn whom(&self) -> anyhow::Result<Whom> {
        Ok(match (&self.unit, &self.cgroup, self.attach) {
            (Some(unit), ..) => {
                let unit = whole_name(unit);
                check_unit(&unit)?;
                Whom::Unit(unit)
            }
            (_, Some(path), _) => Whom::Cgroup(path.clone()),
            (.., Some(pid)) if pid == std::process::id() => {
                return Err(Usage(anyhow!("{pid} is this command itself")).into());
            }
            (.., Some(pid)) => {
                Whom::Process(Process::open(pid).map_err(|error| Usage(anyhow!("--attach {pid}: {error}")))?)
            }
            _ => Whom::Nothing,
        })
    }
}

/// Why a mode is not in force.
enum Not {
    /// It may be later.
    Yet(String),
    /// It never will.
    Ever(anyhow::Error),
}

/// How a hold ended.
enum Held {
    /// The interface is gone, or in another namespace.
    DeviceGone,
    /// This command was told to end.
    Told,
    /// The process of `--attach` has ended.
    ProgramOver,
}

/// Keeps the mode until it is told to end.
pub(crate) fn run(args: &KeepArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let mode = args.kept.mode;
    if mode == Mode::Group {
        return Err(Usage(anyhow!("{NO_GROUPS}")).into());
    }
    let whom = args.whom()?;
    if mode.plan().wait().is_some() && !matches!(whom, Whom::Nothing) {
        return Err(Usage(anyhow!(
            "{mode} needs other waits for events, which a process that runs already cannot get: take napibusy or suspend20, or put \
             `napier run --mode {mode} --` in front of the program"
        ))
        .into());
    }
    let signals = Signals::take().context("taking signals")?;
    if interrupted.load(Ordering::Relaxed) {
        bail!("interrupted"); // from here on signals come through `signals`
    }
    let mut waits_for = None;
    loop {
        match begin(args) {
            Ok((ledger, instances, device)) => {
                waits_for = None;
                say(&[format!("{mode} is in force on {}", args.kept.place())]);
                let mut hold = Hold::new(args, &whom, ledger, instances, device);
                let ended = hold.go_on(&signals);
                let undone = hold.end();
                say(&undone.lines());
                match ended? {
                    Held::DeviceGone => say(&[format!("{} is gone from here: it is waited for", args.kept.dev)]),
                    Held::ProgramOver | Held::Told if undone.is_refused => {
                        bail!("not everything was put back: the next napier tries again")
                    }
                    Held::ProgramOver | Held::Told => return Ok(()),
                }
            }
            Err(Not::Ever(error)) => return Err(error),
            Err(Not::Yet(why)) => {
                // Said once, however long it takes.
                if waits_for.as_ref() != Some(&why) {
                    say(&[format!("{mode} is not in force yet, and is tried again: {why}")]);
                    waits_for = Some(why);
                }
                if whom.has_ended() || is_told_to_end(&signals, AWAY)? {
                    return Ok(());
                }
            }
        }
    }
}

/// Applies the mode to the interface.
fn begin(args: &KeepArgs) -> Result<(Ledger, Instances, DeviceRef), Not> {
    let Kept { dev, mode, queues } = &args.kept;
    let plan = mode.plan();
    let device = DeviceRef::named(dev).map_err(|error| Not::Yet(format!("there is no interface {dev} ({error})")))?;
    let lines = lines_for(&plan, &device, queues.as_ref()).map_err(|error| Not::Yet(error.to_string()))?;
    let scope = scope(&device, queues.clone()).map_err(Not::Ever)?;
    let told = &mut |found: &napier_linux::change::Recovered| say(&found.lines());
    let mut ledger = Ledger::begin(&scope, lines.len(), told).map_err(|error| match error {
        // That one may end.
        JournalError::Busy { .. } | JournalError::Left { .. } => Not::Yet(error.to_string()),
        error => Not::Ever(error.into()),
    })?;
    if let Err(error) = ledger.apply(&lines) {
        let left = ledger.put_back().left;
        let words =
            if left.is_empty() { error.to_string() } else { format!("{error}; not put back: {}", left.join("; ")) };
        return Err(match error {
            ApplyError::Refused { error: KeyError::Gone(_) | KeyError::Away(_), .. } => Not::Yet(words),
            _ => Not::Ever(anyhow!("{words}")),
        });
    }
    let instances = Instances::kept(plan, device.clone(), queues.clone(), lines);
    Ok((ledger, instances, device))
}

fn scope(device: &DeviceRef, queues: Option<Queues>) -> anyhow::Result<Scope> {
    Scope::device_or_queues(device.clone(), queues).context("the namespace of this process")
}

/// A mode in force.
struct Hold<'a> {
    whom: &'a Whom,
    mode: Mode,
    settings: ProgramSettings,
    device: DeviceRef,
    ledger: Ledger,
    instances: Instances,
    program: Option<HeldProgram>,
    /// When the program is looked for again.
    due: Instant,
}

/// A program that was found.
struct HeldProgram {
    watcher: Watcher,
    watching: Watching,
    harmed: Receiver<(u32, i32)>,
}

impl<'a> Hold<'a> {
    fn new(args: &KeepArgs, whom: &'a Whom, ledger: Ledger, instances: Instances, device: DeviceRef) -> Self {
        let mode = args.kept.mode;
        let settings = ProgramSettings { steer: args.steer, ..ProgramSettings::of(&mode.plan()) };
        Self { whom, mode, settings, device, ledger, instances, program: None, due: Instant::now() }
    }

    /// Until something ends it.
    fn go_on(&mut self, signals: &Signals) -> anyhow::Result<Held> {
        let mut asked = Instant::now();
        loop {
            let (until, said) = self.instances.look(&mut self.ledger);
            say(said.as_slice());
            if asked.elapsed() >= AWAY {
                asked = Instant::now();
                if matches!(self.device.name_now(), Err(KeyError::Gone(_))) {
                    return Ok(Held::DeviceGone);
                }
            }
            if self.whom.has_ended() {
                return Ok(Held::ProgramOver);
            }
            let pause = self.look().min(until);
            if is_told_to_end(signals, pause)? {
                return Ok(Held::Told);
            }
        }
    }

    /// Looks for the program, or at its descriptors; how long until the next time.
    fn look(&mut self) -> Duration {
        let now = Instant::now();
        if self.program.is_none() && now >= self.due {
            self.due = now + AWAY;
            self.program = self.whom.roots().map(|roots| self.found(roots));
        }
        let Some(program) = &mut self.program else { return AWAY };
        for (pid, fd) in program.harmed.try_iter() {
            program.watcher.leave(pid, fd);
        }
        let scan = program.watcher.scan(&mut self.ledger, now);
        let after = Instant::now();
        program.watcher.took(after - now);
        say(&scan.said);
        say(&scan.missed);
        program.watcher.pause(after)
    }

    fn found(&self, roots: Roots) -> HeldProgram {
        let (tells, harmed) = channel();
        let (mode, plan, device) = (self.mode.to_string(), self.mode.plan(), self.device.clone());
        let watching =
            Watching::begin(Subject { mode, plan, device, roots: roots.clone(), harmed: tells, is_quiet: false });
        let watcher = Watcher::new(self.settings.clone(), roots, Instant::now());
        HeldProgram { watcher, watching, harmed }
    }

    /// Puts everything back.
    fn end(self) -> napier_linux::change::Undone {
        if let Some(program) = self.program {
            let seen = program.watching.end();
            say(seen.answer(&self.mode.to_string(), &self.device.name, false).as_slice());
        }
        self.ledger.put_back()
    }
}

/// Whether a signal that ends commands comes within this time.
fn is_told_to_end(signals: &Signals, span: Duration) -> anyhow::Result<bool> {
    wait_for(signals, &[], Some(span))?;
    while let Some(signal) = signals.next()? {
        if matches!(signal, SignalSeen::Other { number, .. } if ENDS.contains(&number)) {
            return Ok(true);
        }
    }
    Ok(false)
}
