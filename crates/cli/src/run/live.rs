//! A program while it runs: its descriptors watched, signals passed on.
//!
//! Signals and the end of children are the work of a thread of their own, for which nothing else is done: a look at a program may take long, and
//! its calls may be held without end.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use napier_linux::Netns;
use napier_linux::change::{ApplyError, Ledger, Line};
use napier_linux::process::{
    Answer, Ended, Meeting, Process, Program, ProgramSettings, Roots, Scan, SignalSeen, Signals, Strict, Watcher,
    wait_for, wait_for_one,
};
use rustix::event::{EventfdFlags, eventfd};

use super::attached::Attached;
use super::instances::Instances;
use super::report::Report;
use super::rings;

/// Held calls that are answered before the rest is looked at.
const ANSWERS_MAX: usize = 64;

/// Until a socket that a held call has gone on to make is there.
const SOON: Duration = Duration::from_micros(200);

/// What watches a program.
pub(crate) struct Live {
    signals: Signals,
    ledger: Ledger,
    instances: Instances,
    watcher: Watcher,
    /// When the program is looked at again.
    scans_at: Instant,
    is_watching: bool,
    strict: Option<Strict>,
    meeting: Option<Meeting>,
    /// Epoll instances that the mode harms, by process and descriptor.
    harmed: Receiver<(u32, i32)>,
}

impl Live {
    /// With what is changed on the interface so far.
    pub(crate) fn new(
        signals: Signals,
        (ledger, instances): (Ledger, Instances),
        settings: ProgramSettings,
        roots: Roots,
        harmed: Receiver<(u32, i32)>,
    ) -> Self {
        let is_watching = !settings.is_empty();
        let now = Instant::now();
        let watcher = Watcher::new(settings, roots, now);
        Self { signals, ledger, instances, watcher, scans_at: now, is_watching, strict: None, meeting: None, harmed }
    }

    /// Starts a program under it, into which a library is loaded if one is named.
    pub(crate) fn start(
        &mut self,
        command: &mut Command,
        strict: Option<&ProgramSettings>,
        library: Option<&Path>,
    ) -> std::io::Result<Program> {
        self.meeting = library.map(|file| Meeting::new(file.to_owned(), Instant::now()));
        let Some(settings) = strict else { return Program::start(command, &self.signals) };
        let (program, strict) = Program::start_strict(command, &self.signals, settings)?;
        self.strict = Some(strict);
        self.watcher.expect_made_set();
        Ok(program)
    }

    /// Tells what was set, made and not reached.
    pub(crate) fn tell(&self, report: &mut Report) {
        let (epolls, sockets) = self.watcher.counts();
        report.counts((epolls, sockets, self.strict.as_ref().map_or(0, Strict::answered)));
        report.rings(self.watcher.rings_set(), self.watcher.rings_missed());
        // They were told one by one when they were found.
        crate::say::say(rings::at_the_end(self.watcher.rings_missed()).as_slice());
        report.renewed(self.instances.times());
    }

    /// What was changed. Signals stay taken: nothing interrupts the way back.
    pub(crate) fn end(self) -> Ledger {
        self.ledger
    }

    /// Until nothing of the program runs any more.
    pub(crate) fn follow(&mut self, program: Program) -> anyhow::Result<Ended> {
        let passing = Passing::begin(self.signals.again()?, program)?;
        // What ends the looks does not end the program.
        let watched = self.watch(&passing.over);
        let ended = passing.end();
        watched.and(ended)
    }

    /// Looks and answers until the program is over.
    fn watch(&mut self, over: &OwnedFd) -> anyhow::Result<()> {
        let mut due = Instant::now();
        loop {
            let now = Instant::now();
            if now >= due {
                due = now + self.look();
            }
            let pause = due.saturating_duration_since(Instant::now());
            let held = self.strict.as_ref().map(|strict| strict.as_fd());
            let beside: Vec<_> = std::iter::once(over.as_fd()).chain(held).collect();
            match wait_for_one(&beside, pause)? {
                Some(0) => return Ok(()),
                Some(_) => {}
                None => continue,
            }
            match self.answer()? {
                Some(true) => {
                    self.scans_at = Instant::now() + SOON;
                    due = due.min(self.scans_at);
                }
                Some(false) => {}
                // The last process that could make one has ended, which the other thread hears of.
                None => std::thread::sleep(SOON),
            }
        }
    }

    /// The program is in another namespace than this process.
    pub(super) fn enter(&mut self, apart: Option<&Netns>) {
        if let Some(netns) = apart {
            self.watcher.enter(netns.clone());
        }
    }

    /// Applies another mode's lines in place of those that are in force, where the program's descriptors have the same in both.
    pub(super) fn exchange(&mut self, lines: &[Line], instances: Instances) -> Result<(), ApplyError> {
        self.instances = instances;
        self.ledger.exchange(lines)
    }

    /// Until the program ends, or this command is told to end.
    pub(crate) fn accompany(&mut self, attached: &Attached) -> anyhow::Result<()> {
        let Attached { target, process, apart, .. } = attached;
        self.enter(apart.as_ref());
        let has_ended = || process.as_ref().map_or_else(|| target.roots.is_over(), Process::has_ended);
        while !has_ended() {
            let pause = Some(self.look());
            let beside: Vec<_> = process.iter().map(|process| process.as_fd()).collect();
            wait_for(&self.signals, &beside, pause)?;
            while let Some(signal) = self.signals.next()? {
                if let SignalSeen::Other { number, .. } = signal
                    && ENDS.contains(&number)
                {
                    return Ok(());
                }
            }
        }
        let name = process.as_ref().map_or_else(|| target.name.to_string(), |process| process.who().to_string());
        crate::say::say(&[format!("{name} has ended")]);
        Ok(())
    }

    /// Answers calls that are held, a few at once; whether one of them makes a socket that is to be found soon, and `None` if there was none.
    fn answer(&mut self) -> anyhow::Result<Option<bool>> {
        let Some(strict) = &mut self.strict else { return Ok(None) };
        let mut follows = None;
        for _ in 0..ANSWERS_MAX {
            let Some(held) = strict.next_held()? else { break };
            follows.get_or_insert(false);
            // Noted before its first descriptor is set. A ring that is going to be enabled is set by the look itself.
            if held.enables_ring() || held.pid.is_some_and(|pid| !self.watcher.knows(pid)) {
                say(&self.watcher.scan(&mut self.ledger, Instant::now()));
            }
            match strict.answer(&held)? {
                Answer::Done => {}
                Answer::Follows => follows = Some(true),
                Answer::Without(said) => crate::say::say(&[said]),
            }
        }
        Ok(follows)
    }

    /// Looks at the interface and at the program once; how long until the next time.
    pub(super) fn look(&mut self) -> Duration {
        let (until, said) = self.instances.look(&mut self.ledger);
        crate::say::say(said.as_slice());
        if !self.is_watching {
            return until;
        }
        let begun = Instant::now();
        for (pid, fd) in self.harmed.try_iter() {
            self.watcher.leave(pid, fd);
        }
        // The interface is looked at more often than a program with many descriptors.
        if begun < self.scans_at {
            return until.min(self.scans_at - begun);
        }
        let scan = self.watcher.scan(&mut self.ledger, begun);
        let now = Instant::now();
        self.watcher.took(now - begun);
        say(&scan);
        if let Some(meeting) = &mut self.meeting {
            crate::say::say(&meeting.look(self.watcher.processes(), now));
        }
        let pause = self.watcher.pause(now);
        self.scans_at = now + pause;
        pause.min(until)
    }
}

fn say(scan: &Scan) {
    crate::say::say(&scan.said);
    crate::say::say(&scan.missed);
}

/// The thread that passes signals on, and waits for the program.
struct Passing {
    /// Can be read once the program is over.
    over: OwnedFd,
    thread: std::thread::JoinHandle<anyhow::Result<Ended>>,
}

impl Passing {
    fn begin(signals: Signals, mut program: Program) -> anyhow::Result<Self> {
        let over = eventfd(0, EventfdFlags::CLOEXEC)?;
        let told = over.try_clone()?;
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let ended = pass_on(&signals, &mut program, "the mode stays");
            // It has room: nothing else is written to it.
            rustix::io::write(&told, &1_u64.to_ne_bytes())?;
            ended
        })?;
        Ok(Self { over, thread })
    }

    fn end(self) -> anyhow::Result<Ended> {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Until nothing of the program runs any more.
pub(super) fn pass_on(signals: &Signals, program: &mut Program, what_stays: &str) -> anyhow::Result<Ended> {
    let mut asked = None;
    let mut is_said = false;
    loop {
        wait_for(signals, &[], None)?;
        while let Some(signal) = signals.next()? {
            match signal {
                SignalSeen::Child => program.reap()?,
                // A hangup goes to the leader of the session alone, which this may be.
                SignalSeen::Other { number, is_from_terminal: true }
                    if number != signal_hook::consts::SIGHUP && program.ended().is_none() => {}
                SignalSeen::Other { number, .. } => {
                    if program.ended().is_none() && ENDS.contains(&number) {
                        asked = Some(number);
                    }
                    program.signal(number);
                }
            }
        }
        match program.ended() {
            Some(ended) if program.is_over() => return Ok(ended),
            Some(_) if !is_said => {
                is_said = true;
                crate::say::say(&[left(program, asked, what_stays)]);
            }
            _ => {}
        }
    }
}

/// The first process has ended, and others have not. If it was asked to end, so was the program: who asked knows one number only, as a
/// service manager that signals the process that it has started.
fn left(program: &Program, asked: Option<i32>, what_stays: &str) -> String {
    let Some(number) = asked else {
        return format!("the program has ended, but not all that it started: {what_stays} until that ends");
    };
    program.signal(number);
    format!(
        "the program has ended, and what it started is asked to end as well (signal {number}): {what_stays} until then"
    )
}

/// What ends `--attach`, and asks a program to end.
pub(crate) const ENDS: [i32; 4] = [
    signal_hook::consts::SIGINT,
    signal_hook::consts::SIGTERM,
    signal_hook::consts::SIGHUP,
    signal_hook::consts::SIGQUIT,
];
