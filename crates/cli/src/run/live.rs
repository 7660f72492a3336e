//! A program while it runs: its descriptors watched, signals passed on.

use std::process::Command;
use std::time::{Duration, Instant};

use napier_linux::change::Ledger;
use napier_linux::process::{
    Ended, Process, Program, ProgramSettings, Roots, SignalSeen, Signals, Strict, Watcher, wait_for,
};
use std::os::fd::AsFd as _;

use super::instances::Instances;

/// What watches a program.
pub(crate) struct Live {
    signals: Signals,
    ledger: Ledger,
    instances: Instances,
    watcher: Watcher,
    is_watching: bool,
    strict: Option<Strict>,
}

impl Live {
    /// With what is changed on the interface so far.
    pub(crate) fn new(
        signals: Signals,
        (ledger, instances): (Ledger, Instances),
        settings: ProgramSettings,
        roots: Roots,
    ) -> Self {
        let is_watching = !settings.is_empty();
        let watcher = Watcher::new(settings, roots, Instant::now());
        Self { signals, ledger, instances, watcher, is_watching, strict: None }
    }

    /// Starts a program under it.
    pub(crate) fn start(
        &mut self,
        command: &mut Command,
        strict: Option<&ProgramSettings>,
    ) -> std::io::Result<Program> {
        let Some(settings) = strict else { return Program::start(command, &self.signals) };
        let (program, strict) = Program::start_strict(command, &self.signals, settings)?;
        self.strict = Some(strict);
        Ok(program)
    }

    /// Descriptors of epoll and sockets that were set, and those that were made with the settings.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let (epolls, sockets) = self.watcher.counts();
        (epolls, sockets, self.strict.as_ref().map_or(0, Strict::answered))
    }

    /// How often the interface had new instances.
    pub(crate) const fn renewed(&self) -> usize {
        self.instances.times()
    }

    /// What was changed. Signals stay taken: nothing interrupts the way back.
    pub(crate) fn end(self) -> Ledger {
        self.ledger
    }

    /// Until nothing of the program runs any more.
    pub(crate) fn follow(&mut self, program: &mut Program) -> anyhow::Result<Ended> {
        let mut is_said = false;
        loop {
            let pause = Some(self.look());
            self.wait(pause)?;
            while let Some(signal) = self.signals.next()? {
                match signal {
                    SignalSeen::Child => program.reap()?,
                    // A hangup goes to the leader of the session alone, which this may be.
                    SignalSeen::Other { number, is_from_terminal: true }
                        if number != signal_hook::consts::SIGHUP && program.ended().is_none() => {}
                    SignalSeen::Other { number, .. } => program.signal(number),
                }
            }
            match program.ended() {
                Some(ended) if program.is_over() => return Ok(ended),
                Some(_) if !is_said => {
                    is_said = true;
                    let left = "the program has ended, but not all that it started: the mode stays until that ends";
                    crate::host::say(&[left.to_owned()]);
                }
                _ => {}
            }
        }
    }

    /// Until the process ends, or this command is told to end.
    pub(crate) fn accompany(&mut self, process: &Process) -> anyhow::Result<()> {
        while !process.has_ended() {
            let pause = Some(self.look());
            wait_for(&self.signals, &[process.as_fd()], pause)?;
            while let Some(signal) = self.signals.next()? {
                if let SignalSeen::Other { number, .. } = signal
                    && ENDS.contains(&number)
                {
                    return Ok(());
                }
            }
        }
        crate::host::say(&[format!("{} has ended", process.who())]);
        Ok(())
    }

    /// Waits for a signal, answering held calls meanwhile.
    fn wait(&mut self, pause: Option<Duration>) -> anyhow::Result<()> {
        let Some(strict) = &mut self.strict else { return Ok(wait_for(&self.signals, &[], pause)?) };
        wait_for(&self.signals, &[strict.as_fd()], pause)?;
        while let Some(held) = strict.next()? {
            // Noted before its first descriptor is set.
            if held.pid.is_some_and(|pid| !self.watcher.knows(pid)) {
                let scan = self.watcher.scan(&mut self.ledger, Instant::now());
                crate::host::say(&scan.said);
            }
            if let Some(said) = strict.answer(&held)? {
                crate::host::say(&[said]);
            }
        }
        Ok(())
    }

    /// Looks at the interface and at the program once; how long until the next time.
    fn look(&mut self) -> Duration {
        let (until, said) = self.instances.look(&mut self.ledger);
        crate::host::say(said.as_slice());
        if !self.is_watching {
            return until;
        }
        let begun = Instant::now();
        let scan = self.watcher.scan(&mut self.ledger, begun);
        let now = Instant::now();
        self.watcher.took(now - begun);
        crate::host::say(&scan.said);
        self.watcher.pause(now).min(until)
    }
}

/// What ends `--attach`: the others are for programs.
const ENDS: [i32; 4] = [
    signal_hook::consts::SIGINT,
    signal_hook::consts::SIGTERM,
    signal_hook::consts::SIGHUP,
    signal_hook::consts::SIGQUIT,
];
