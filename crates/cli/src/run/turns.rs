//! One mode after another on a program that runs: what a trial applies and puts back.
//!
//! ```text
//! apply --only values of instances differ--> exchange them, in the same journal
//!   '------ else: everything back, a journal anew, and on
//! ```
//!
//! A mode that needs other things of a pair of veth interfaces, or of the program's descriptors, goes the long way: each of these has a way back of
//! its own, and no short cut between two modes.

use std::collections::BTreeSet;
use std::os::fd::AsFd as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use napier_lab::modes::Mode;
use napier_linux::by_name::ProgramTarget;
use napier_linux::change::{DeviceRef, Key, Line, Queues};
use napier_linux::observe::{Acts, Observation};
use napier_linux::process::{Process, ProgramSettings, SignalSeen, Signals, wait_for};
use napier_linux::wiring::PairLines;
use napier_trial::{Loss, Stage, Trouble};

use super::attached::{AttachTo, Attached};
use super::instances::{Instances, lines_for};
use super::live::{ENDS, Live};
use super::pair::Ledgers;
use super::port::FlowPort;
use super::seen::{RunOutcome, Subject};
use super::turns_seen::TurnsSeen;
use super::{Changes, changes_of, rings};
use crate::Usage;
use crate::target::TargetArgs;

/// What is asked for.
pub(crate) struct AskedTurns<'a> {
    pub(crate) dev: &'a str,
    pub(crate) attach: Option<u32>,
    pub(crate) target: &'a TargetArgs,
    pub(crate) modes: &'a [Mode],
    pub(crate) queues: Option<&'a Queues>,
    pub(crate) port: Option<&'a FlowPort>,
    pub(crate) is_quiet: bool,
}

/// A program that runs, and the modes that take turns on it.
pub(crate) struct Turns {
    attached: Attached,
    /// Processes without all of which the program is gone.
    serving: Vec<Process>,
    /// All that there were at first.
    at_first: BTreeSet<u32>,
    modes: Vec<Mode>,
    queues: Option<Queues>,
    port: Option<FlowPort>,
    /// Taken before the first turn.
    signals: Option<Signals>,
    in_force: Option<Force>,
    begun: Instant,
    ended_by: Option<i32>,
    /// What was said not to be put back.
    left: Vec<String>,
    /// Looks whether modes act.
    seen: TurnsSeen,
    /// Epoll instances that a mode harms, by process and descriptor: they are left without it.
    harmed: Vec<(Mode, (u32, i32))>,
    tells_harmed: Sender<(u32, i32)>,
    harmed_seen: Receiver<(u32, i32)>,
}

/// A mode in force.
struct Force {
    mode: Mode,
    /// Without that of the interface, which `live` has.
    ledgers: Ledgers,
    live: Live,
    /// The next look.
    due: Instant,
    /// Something of a pair of veth interfaces was changed for it.
    has_pair: bool,
    /// Takes epoll instances that are to be left without the mode.
    tells: Sender<(u32, i32)>,
}

fn has_lines(pair: &PairLines) -> bool {
    !pair.own.is_empty() || pair.other.is_some()
}

impl Turns {
    /// Finds the program, and refuses what cannot be applied to it: before anything is changed. This thread is in the interface's namespace
    /// afterwards.
    pub(crate) fn find(asked: &AskedTurns<'_>) -> anyhow::Result<Self> {
        let &AskedTurns { dev, attach, target, modes, is_quiet, .. } = asked;
        let settings = |mode: &Mode| ProgramSettings::of(&mode.plan());
        let widest = modes.iter().find(|mode| !settings(mode).is_empty()).or(modes.last());
        let mode = *widest.ok_or_else(|| anyhow!("no mode"))?;
        let to = AttachTo { dev, attach, target, mode, is_quiet };
        let how = "name a program that runs: --attach PID, or --unit, --container, --pod, --cgroup";
        let attached = Attached::find(&to, &settings(&mode))?.ok_or_else(|| Usage(anyhow!("{how}")))?;
        if let Some(process) = &attached.process {
            modes.iter().try_for_each(|mode| rings::refuse_suspension(process, *mode, &settings(mode)))?;
        }
        let (serving, at_first) = (attached.target.serving(), attached.target.roots.pids());
        let (tells_harmed, harmed_seen) = channel();
        let begun = Instant::now();
        Ok(Self {
            attached,
            serving,
            at_first,
            modes: modes.to_vec(),
            queues: asked.queues.cloned(),
            port: asked.port.cloned(),
            signals: None,
            in_force: None,
            begun,
            ended_by: None,
            left: Vec::new(),
            seen: TurnsSeen::default(),
            harmed: Vec::new(),
            tells_harmed,
            harmed_seen,
        })
    }

    /// The interface.
    pub(crate) fn device(&self) -> &DeviceRef {
        &self.attached.wired.device
    }

    /// The program.
    pub(crate) fn target(&self) -> &ProgramTarget {
        &self.attached.target
    }

    /// The program in words.
    pub(crate) fn program(&self) -> String {
        let process = self.attached.process.as_ref().map(|process| process.who().to_string());
        process.unwrap_or_else(|| self.attached.target.name.to_string())
    }

    /// What a mode changes, from what is there before the trial: `base` is what a pair of veth interfaces was, too.
    pub(crate) fn changes(&self, mode: Mode) -> anyhow::Result<Changes> {
        let of = (self.device().clone(), self.attached.pair.clone());
        changes_of(mode, of, self.queues.as_ref(), self.port.as_ref())
    }

    /// What is changed at the other end of a pair of veth interfaces meanwhile, in words.
    pub(crate) fn other_end(&self) -> anyhow::Result<Option<String>> {
        let other = self.modes.iter().find(|mode| **mode != Mode::Base);
        Ok(other.map(|mode| self.changes(*mode)).transpose()?.and_then(|changes| changes.other_end()))
    }

    /// Takes signals, for good. This has to be the only thread.
    pub(crate) fn take_signals(&mut self) -> anyhow::Result<()> {
        self.signals = Some(Signals::take().context("taking signals")?);
        Ok(())
    }

    /// The signal that told it to end.
    pub(crate) const fn ended_by(&self) -> Option<i32> {
        self.ended_by
    }

    /// What is not put back.
    pub(crate) fn left(&self) -> &[String] {
        &self.left
    }

    /// Whether nothing but values of instances differs between what is in force and a mode.
    fn is_short(&self, force: &Force, mode: Mode) -> bool {
        if ProgramSettings::of(&mode.plan()) != ProgramSettings::of(&force.mode.plan()) {
            return false;
        }
        // Of a pair base needs nothing, and all others the same.
        match (force.mode, mode) {
            (_, Mode::Base) => !force.has_pair,
            (Mode::Base, _) => !has_lines(&self.attached.pair),
            _ => true,
        }
    }

    /// The short way; `None` if there is none.
    fn exchange(&mut self, mode: Mode) -> anyhow::Result<Option<()>> {
        if !self.in_force.as_ref().is_some_and(|force| self.is_short(force, mode)) {
            return Ok(None);
        }
        let queues = self.queues.as_ref();
        let mut lines = lines_for(&mode.plan(), self.device(), queues).map_err(|error| anyhow!("{error}"))?;
        if !lines.iter().all(|line| matches!(line.key, Key::Napi(_))) {
            return Ok(None);
        }
        lines.extend(super::port::lines(self.port.as_ref(), queues, self.device())?);
        let instances = Instances::new(mode.plan(), self.device().clone(), self.queues.clone(), lines.clone());
        let Some(force) = &mut self.in_force else { return Ok(None) };
        force.mode = mode;
        // Who looks after the program's descriptors stays: another one would take what is set for the program's own.
        force.live.exchange(&lines, instances)?;
        Ok(Some(()))
    }

    /// Looks after what is in force from now on.
    fn begin(&mut self, mode: Mode, mut ledgers: Ledgers, lines: Vec<Line>, has_pair: bool) -> anyhow::Result<()> {
        let signals = self.signals.as_ref().context("signals were not taken");
        let signals = match signals.and_then(|signals| Ok(signals.again()?)) {
            Ok(signals) => signals,
            Err(error) => {
                self.put_back(ledgers);
                return Err(error);
            }
        };
        let instances = Instances::new(mode.plan(), self.device().clone(), self.queues.clone(), lines);
        let (tells, harmed) = channel();
        let settings = ProgramSettings::of(&mode.plan());
        let roots = self.attached.target.roots.clone();
        let mut live = Live::new(signals, (ledgers.take(), instances), settings, roots, harmed);
        live.enter(self.attached.apart.as_ref());
        let mut due = Instant::now() + live.look();
        // They are known to it now, and left by the next look.
        for (_, one) in self.harmed.iter().filter(|(of, _)| *of == mode) {
            let _ = tells.send(*one);
            due = Instant::now();
        }
        self.in_force = Some(Force { mode, ledgers, live, due, has_pair, tells });
        Ok(())
    }

    /// From now on it is looked whether a candidate acts.
    fn watch(&mut self, candidate: usize) {
        let (mode, device, roots) = (self.modes[candidate], self.device().clone(), self.attached.target.roots.clone());
        let (harmed, is_quiet) = (self.tells_harmed.clone(), true);
        let subject = Subject { mode: mode.to_string(), plan: mode.plan(), device, roots, harmed, is_quiet };
        self.seen.begin(candidate, subject);
    }

    /// What was seen of each candidate in its first turn, by its number. No other turn comes.
    pub(crate) fn end_looks(&mut self) -> Vec<(usize, RunOutcome)> {
        std::mem::take(&mut self.seen).end()
    }

    /// Epoll instances that the mode in force harms are left without it.
    fn leave_harmed(&mut self) {
        let Some(force) = &mut self.in_force else { return };
        for one in self.harmed_seen.try_iter() {
            self.harmed.push((force.mode, one));
            let _ = force.tells.send(one);
            force.due = Instant::now();
        }
    }

    fn put_back(&mut self, ledgers: Ledgers) {
        let undone = ledgers.put_back();
        crate::say::say(&undone.lines());
        if undone.is_refused {
            self.left.extend(undone.left);
        }
    }

    fn apply_anew(&mut self, mode: Mode) -> anyhow::Result<()> {
        self.back().map_err(|left| anyhow!("not put back: {left}"))?;
        let changes = self.changes(mode)?;
        let mut ledgers = Ledgers::begin(&changes)?;
        match ledgers.apply(&changes, &mode.plan(), self.queues.as_ref()) {
            Ok(lines) => self.begin(mode, ledgers, lines, has_lines(&changes.pair)),
            Err(error) => {
                self.put_back(ledgers);
                Err(error)
            }
        }
    }

    /// Why the program is no more what it was when the trial began.
    fn is_gone(&self) -> Option<String> {
        let roots = &self.attached.target.roots;
        // Each process that is held costs a call, so the first that lives ends the search.
        let has_ended = !self.serving.is_empty() && self.serving.iter().all(Process::has_ended);
        if !has_ended && (self.attached.process.is_some() || !roots.is_over()) {
            return None;
        }
        let program = self.program();
        let is_group = self.attached.process.is_none();
        let new = is_group.then(|| roots.pids().into_iter().find(|pid| !self.at_first.contains(pid))).flatten();
        Some(match (self.serving.first(), new) {
            (Some(first), Some(pid)) => format!(
                "{program} was started anew: {} has ended, and process {pid} is there. A trial is of one run of a program: begin another",
                first.who()
            ),
            _ => format!("{program} has ended"),
        })
    }

    fn is_over(&self) -> Option<Trouble> {
        if let Some(why) = self.is_gone() {
            return Some(Trouble::Lost(Loss::Program, why));
        }
        let name = &self.device().name;
        match self.device().is_up() {
            Ok(true) => None,
            Ok(false) => Some(Trouble::Lost(Loss::Interface, format!("{name} is down"))),
            Err(error) => Some(Trouble::Lost(Loss::Interface, error.to_string())),
        }
    }
}

impl Stage for Turns {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn apply(&mut self, candidate: usize) -> Result<(), String> {
        self.seen.stop();
        let mode = self.modes[candidate];
        let applied = match self.in_force.as_ref().is_some_and(|force| force.mode == mode) {
            true => Ok(()),
            false => self.exchange(mode).and_then(|done| done.map_or_else(|| self.apply_anew(mode), Ok)),
        };
        applied.map_err(|error| format!("{error:#}"))?;
        self.watch(candidate);
        Ok(())
    }

    fn back(&mut self) -> Result<(), String> {
        if let Some(Force { mut ledgers, live, .. }) = self.in_force.take() {
            ledgers.give_back(live.end());
            self.put_back(ledgers);
        }
        self.seen.stop();
        if self.left.is_empty() { Ok(()) } else { Err(self.left.join("; ")) }
    }

    fn look(&mut self) -> Result<(), Trouble> {
        while let Some(Ok(Some(signal))) = self.signals.as_ref().map(Signals::next) {
            if let SignalSeen::Other { number, .. } = signal
                && ENDS.contains(&number)
            {
                self.ended_by = Some(number);
                return Err(Trouble::Lost(Loss::Told, format!("signal {number}")));
            }
        }
        if let Some(trouble) = self.is_over() {
            return Err(trouble);
        }
        self.leave_harmed();
        if let Some(force) = &mut self.in_force
            && Instant::now() >= force.due
        {
            force.due = Instant::now() + force.live.look();
        }
        Ok(())
    }

    fn seen(&mut self) -> Option<Observation> {
        let is_base = self.in_force.as_ref().is_some_and(|force| force.mode == Mode::Base);
        let seen = self.seen.of_turn()?;
        // What there is without a mode has nothing to act by, under whatever name.
        Some(if is_base { Observation { acts: Acts::Unknown, ..seen } } else { seen })
    }

    fn pause(&mut self, span: Duration) {
        let due = self.in_force.as_ref().map(|force| force.due.saturating_duration_since(Instant::now()));
        let span = due.map_or(span, |due| due.min(span));
        // One that has ended would end each pause.
        let lives = self.serving.iter().find(|process| !process.has_ended());
        let beside: Vec<_> = lives.iter().map(|process| process.as_fd()).collect();
        let waited = self.signals.as_ref().map(|signals| wait_for(signals, &beside, Some(span)));
        if !matches!(waited, Some(Ok(()))) {
            std::thread::sleep(span);
        }
    }
}
