//! `--confirm`: a change that may take the way to this machine away stays only if it is confirmed.
//!
//! A process of its own waits, which needs neither the network nor the terminal nor the command that started it: in a session of its
//! own, deaf to the end of the terminal. See [`napier_linux::change::Trial`].

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use napier_linux::change::{Line, Recovered, Trial, TrialEnd, is_remote};
use napier_linux::process::Signals;

use crate::Told;

/// How long a change is on trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Confirm(Option<Duration>);

/// Options of a command that changes values of the kernel, until they are put back.
#[derive(clap::Args)]
pub(crate) struct ChangeArgs {
    /// Put it back after this time, such as 60s, unless it is confirmed: `y`, or `napier host confirm` (docs/host.md); `no`: keep it at once
    /// [default: 60s on a terminal of another machine (SSH) that it may cut off, else no]
    #[arg(long, value_name = "TIME", value_parser = confirm)]
    pub(crate) confirm: Option<Confirm>,

    /// Change nothing; print each value that would be changed, with what is there now
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print one JSON object, of which the command's page tells
    #[arg(long)]
    pub(crate) json: bool,
}

/// Long enough to open another connection and to look.
const BY_ITSELF: Duration = Duration::from_secs(60);
/// Longer is no trial.
const LONGEST_S: f64 = 24.0 * 3600.0;

/// `60s`, `2min`, `60`, `no`.
pub(crate) fn confirm(text: &str) -> Result<Confirm, String> {
    if text == "no" {
        return Ok(Confirm(None));
    }
    let wrong = || format!("`{text}` is no time such as 60s, 2min or 60 (s), or `no`");
    let seconds = crate::units::seconds(text).ok().filter(|seconds| *seconds >= 0.0).ok_or_else(wrong)?;
    if seconds > LONGEST_S {
        return Err(format!("`{text}` is more than a day; give a time such as 60s or 2min"));
    }
    Ok(Confirm((seconds > 0.0).then(|| Duration::from_secs_f64(seconds))))
}

/// How long these lines are on trial: as asked for, or a minute if they may cut off a terminal that is elsewhere.
pub(crate) fn span<'a>(given: Option<Confirm>, mut lines: impl Iterator<Item = &'a Line>) -> Option<Duration> {
    match given {
        Some(Confirm(span)) => span,
        None => {
            let is_watched = io::stdin().is_terminal() || io::stderr().is_terminal();
            (is_watched && lines.any(Line::may_cut_off) && is_remote()).then_some(BY_ITSELF)
        }
    }
}

/// A trial whose process waits.
pub(crate) struct OnTrial {
    trial: Trial,
    span: Duration,
}

impl OnTrial {
    /// Begins: before the first change.
    pub(crate) fn of_journals(journals: Vec<PathBuf>, span: Option<Duration>) -> anyhow::Result<Option<Self>> {
        let Some(span) = span else { return Ok(None) };
        Self::begin(
            Trial::of_journals(journals).context("what is on trial cannot be noted, so nothing was changed")?,
            span,
        )
    }

    /// The same of what a run changes, which ends with the trial.
    pub(crate) fn of_this_run(span: Option<Duration>) -> anyhow::Result<Option<Self>> {
        let Some(span) = span else { return Ok(None) };
        Self::begin(Trial::of_this_run().context("what is on trial cannot be noted, so nothing was changed")?, span)
    }

    fn begin(trial: Trial, span: Duration) -> anyhow::Result<Option<Self>> {
        if let Err(error) = start(trial.path(), span) {
            let _ = trial.confirm();
            return Err(error);
        }
        Ok(Some(Self { trial, span }))
    }

    /// There is nothing to confirm.
    pub(crate) fn end(self) {
        let _ = self.trial.confirm();
    }

    /// How to keep what is on trial.
    pub(crate) fn words(&self) -> String {
        let seconds = self.span.as_secs();
        format!(
            "on trial for {seconds} s: `napier host confirm` keeps it, in this terminal or a new one; else it is put back"
        )
    }

    /// Asks on a terminal, and says how to confirm elsewhere. Fails if it was put back.
    pub(crate) fn ask(self) -> anyhow::Result<()> {
        let mut stderr = io::stderr();
        // Nobody may read it.
        let _ = writeln!(stderr, "napier: {}", self.words());
        if !io::stdin().is_terminal() {
            return Ok(());
        }
        let _ = writeln!(stderr, "napier: y and Enter keeps it, n puts it back now");
        let answers = answers();
        loop {
            if !self.trial.is_open() && !self.trial.is_ending() {
                return match self.trial.is_kept() {
                    true => Ok(()),
                    false => Err(Told("it was not confirmed, so it is put back".to_owned()).into()),
                };
            }
            match answers.recv_timeout(Duration::from_millis(200)) {
                Ok(true) if self.trial.confirm() => {
                    let _ = writeln!(stderr, "napier: kept, until napier host undo");
                    return Ok(());
                }
                Ok(false) => {
                    say(&put_back(&self.trial));
                    return Err(Told("put back, as asked".to_owned()).into());
                }
                Ok(true) | Err(mpsc::RecvTimeoutError::Timeout) => {}
                // The terminal is gone.
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
}

/// Lines of the terminal that are an answer. The thread ends with the process.
fn answers() -> mpsc::Receiver<bool> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let answer = match line.trim() {
                "y" | "Y" | "yes" => true,
                "n" | "N" | "no" => false,
                _ => continue,
            };
            if send.send(answer).is_err() {
                break;
            }
        }
    });
    receive
}

/// Starts the process that waits, and returns when it does.
fn start(file: &Path, span: Duration) -> anyhow::Result<()> {
    let mut command = Command::new(napier_linux::process::this_program());
    command.args(["host", "watch", "--start"]).arg(file).arg(span.as_secs().to_string());
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut watcher =
        spawned.context("the process that would put it back cannot be started, so nothing was changed")?;
    let mut said = String::new();
    let out = watcher.stdout.take().expect("it is piped");
    io::BufReader::new(out.take(64)).read_line(&mut said).context("the process that would put it back")?;
    // It has started another one: what waits is no child of this command, which may wait for all that it has started.
    let _ = watcher.wait();
    if said.trim() != READY {
        bail!("the process that would put it back did not begin, so nothing was changed");
    }
    Ok(())
}

const READY: &str = "ready";

/// Options of `napier host watch`, which `--confirm` starts.
#[derive(clap::Args)]
pub(crate) struct WatchArgs {
    /// File of the trial
    file: PathBuf,

    /// How long, s
    seconds: u64,

    /// Start the process that waits, and end
    #[arg(long)]
    start: bool,
}

/// Between two looks.
const LATER: Duration = Duration::from_millis(100);
/// What is busy for longer is in the hands of another command, which says what it did.
const BUSY_MAX: Duration = Duration::from_secs(600);

/// Waits, and puts back.
pub(crate) fn watch(args: &WatchArgs) -> anyhow::Result<()> {
    let begun = Instant::now();
    if args.start {
        let mut command = Command::new(napier_linux::process::this_program());
        command.args(["host", "watch"]).arg(&args.file).arg(args.seconds.to_string());
        command.spawn().context("the process that waits")?;
        return Ok(());
    }
    // Out of the terminal's session; whoever leads one already stays.
    let _ = rustix::process::setsid();
    // The end of the terminal, and of the machine: then it is put back at once.
    let signals = Signals::take().context("taking signals")?;
    let trial = Trial::wait_for(&args.file)?;
    {
        let mut out = io::stdout().lock();
        writeln!(out, "{READY}")?;
        out.flush()?;
    }
    let span = Duration::from_secs(args.seconds);
    while begun.elapsed() < span && trial.is_open() {
        if ends(&signals) {
            break;
        }
        std::thread::sleep(LATER);
    }
    put_back(&trial);
    Ok(())
}

/// Whether it was told to end, as at the end of the machine. That the terminal is gone is what it is for.
fn ends(signals: &Signals) -> bool {
    use napier_linux::process::SignalSeen;
    let mut is_told = false;
    while let Ok(Some(seen)) = signals.next() {
        is_told |= matches!(seen, SignalSeen::Other { number: signal_hook::consts::SIGTERM, .. });
    }
    is_told
}

fn put_back(trial: &Trial) -> Vec<Recovered> {
    let begun = Instant::now();
    loop {
        match trial.put_back() {
            TrialEnd::Busy if begun.elapsed() < BUSY_MAX => std::thread::sleep(LATER),
            TrialEnd::Busy | TrialEnd::Decided => return Vec::new(),
            TrialEnd::PutBack(found) => return found,
        }
    }
}

fn say(all: &[Recovered]) {
    all.iter().for_each(|found| crate::say::say(&found.lines()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_is_in_seconds() {
        let seconds = |text: &str| confirm(text).map(|confirm| confirm.0.map(|span| span.as_secs()));
        for (text, wanted) in [("60s", Some(60)), ("60", Some(60)), ("2m", Some(120)), ("0", None), ("no", None)] {
            assert_eq!(seconds(text), Ok(wanted), "{text}");
        }
        for text in ["", "x", "60x", "-1", "25h", "99999999999999999999"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
