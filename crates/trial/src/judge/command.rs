//! A command that prints a number each time it is run.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use rustix::time::Timespec;

use super::beside::{Beside, Going, Looker, Mean};
use super::{Better, Judge, JudgeError, JudgedFigure, Reading, Unit};
use crate::units::{self, Bare};

/// From one run to the next.
const PAUSE: Duration = Duration::from_secs(1);
/// A run takes no longer.
const LIMIT: Duration = Duration::from_secs(5);
/// Bytes of a run that are read of each of its outputs.
const OUTPUT_MAX: usize = 4096;
/// How long it may take until a thread that waits for a run sees that it ends.
const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// The judge; the command is run once before.
///
/// # Errors
/// That did not give a number.
pub(super) fn command(
    given: &str,
    text: &str,
    name: Option<&str>,
    better: Better,
) -> Result<Box<dyn Judge>, JudgeError> {
    let mut source = PrintedNumber::new(text, LIMIT);
    let wrong = |why| JudgeError { judge: given.to_owned(), why };
    let (_, unit) = source.run(&Going::once()).map_err(wrong)?;
    source.unit = Some(unit);
    let name = name.map_or_else(|| name_of(text), ToOwned::to_owned);
    Ok(Box::new(Beside::start(given, vec![JudgedFigure { name, unit, better }], source)?))
}

/// What bounds call its figure: the command's file without its ending, so that `./p99.sh` is `p99`.
fn name_of(command: &str) -> String {
    let file = command.split_whitespace().next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let stem = file.split_once('.').map_or(file, |(stem, _)| stem);
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
    if is_name(stem) { stem.to_owned() } else { "command".to_owned() }
}

struct PrintedNumber {
    command: String,
    limit: Duration,
    /// What the first run printed.
    unit: Option<Unit>,
    mean: Mean,
    took: Duration,
    /// A block has begun: there is nothing to wait for.
    is_due: bool,
}

impl PrintedNumber {
    fn new(command: &str, limit: Duration) -> Self {
        Self {
            command: command.to_owned(),
            limit,
            unit: None,
            mean: Mean::default(),
            took: Duration::ZERO,
            is_due: false,
        }
    }

    /// Runs it once.
    fn run(&mut self, going: &Going) -> Result<(f64, Unit), String> {
        self.is_due = false;
        let begun = Instant::now();
        let output = Run::start(&self.command)?.output(begun + self.limit, going);
        self.took = begun.elapsed();
        let (value, unit) = parse(&output?)?;
        match self.unit {
            Some(first) if first != unit => Err("it prints a number with a unit, and then one without".to_owned()),
            _ => Ok((value, unit)),
        }
    }
}

impl Looker for PrintedNumber {
    fn begin(&mut self, _: &Going) -> Result<(), String> {
        (self.mean, self.is_due) = (Mean::default(), true);
        Ok(())
    }

    fn look(&mut self, going: &Going) -> Result<Option<Reading>, String> {
        let (value, _) = self.run(going)?;
        Ok(Some(self.mean.add(value)))
    }

    fn pause(&self) -> Duration {
        if self.is_due { Duration::ZERO } else { PAUSE.saturating_sub(self.took) }
    }

    fn patience(&self) -> Duration {
        PAUSE + (self.took * 3).clamp(PAUSE / 2, self.limit)
    }
}

/// The number that a text is, in seconds if it is a time.
fn parse(text: &str) -> Result<(f64, Unit), String> {
    let text = text.trim();
    if let Some(value) = units::number(text) {
        return Ok((value, Unit::Plain));
    }
    if let Some(value) = text.parse().ok().filter(|value: &f64| value.is_finite()) {
        return Ok((value, Unit::Plain));
    }
    if let Some(percent) = text.strip_suffix('%').and_then(|digits| units::number(digits.trim_end())) {
        return Ok((percent / 100.0, Unit::Share));
    }
    units::time(text, Bare::Seconds)
        .map(|seconds| (seconds, Unit::Seconds))
        .map_err(|_| format!("it printed {}, and not one number such as 1.2ms, 200us, 0.03 or 12%", shown(text)))
}

/// The begin of what a program printed.
fn shown(text: &str) -> String {
    const SHOWN: usize = 60;
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(SHOWN) {
        _ if text.is_empty() => "nothing".to_owned(),
        Some((at, _)) => format!("`{}...`", &line[..at]),
        None if text.lines().count() > 1 => format!("`{line}` and more lines"),
        None => format!("`{line}`"),
    }
}

/// A run, with all that it starts in its process group: it ends with this.
struct Run {
    child: Child,
    group: Pid,
    is_over: bool,
}

impl Run {
    fn start(command: &str) -> Result<Self, String> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command).process_group(0);
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = shell.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
        let group = Pid::from_child(&child);
        Ok(Self { child, group, is_over: false })
    }

    /// What it printed until it ended.
    fn output(mut self, limit: Instant, going: &Going) -> Result<String, String> {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut pipes = (self.child.stdout.take(), self.child.stderr.take());
        for pipe in [pipes.0.as_ref().map(AsFd::as_fd), pipes.1.as_ref().map(AsFd::as_fd)].into_iter().flatten() {
            let flags = fcntl_getfl(pipe).unwrap_or(OFlags::empty());
            fcntl_setfl(pipe, flags | OFlags::NONBLOCK).map_err(|error| format!("its output: {error}"))?;
        }
        loop {
            // Before it is read: all that it printed is in the pipes when it has ended.
            let has_ended = self.has_ended();
            let is_open = read(&mut pipes.0, &mut out) | read(&mut pipes.1, &mut err);
            if out.len() > OUTPUT_MAX {
                return Err(format!("it prints more than {OUTPUT_MAX} bytes, and not one number"));
            }
            if has_ended {
                break;
            }
            if going.is_over() {
                return Err("it was ended".to_owned());
            }
            if Instant::now() >= limit {
                return Err(format!("a run of it took longer than {} s, and was ended", LIMIT.as_secs()));
            }
            wait_for(&pipes, is_open);
        }
        let ended = self.end();
        let (out, err) = (String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
        match ended {
            Ok(status) if status.success() => Ok(out.into_owned()),
            Ok(status) if err.trim().is_empty() => Err(format!("a run of it failed ({status})")),
            Ok(_) => Err(format!("a run of it failed: {}", shown(err.trim()))),
            Err(error) => Err(format!("how it ended is not told: {error}")),
        }
    }

    /// Whether the shell has ended. It is not waited for yet, so that its group is no other's.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(self.group), options), Ok(None))
    }

    /// Ends all of its group.
    fn end(&mut self) -> io::Result<std::process::ExitStatus> {
        if !self.is_over {
            let _ = kill_process_group(self.group, Signal::KILL);
            self.is_over = true;
        }
        self.child.wait()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // It was killed, so this does not wait for long.
        let _ = self.end();
    }
}

/// Reads what there is; whether there may be more later. What is beyond the limit is thrown away.
fn read(pipe: &mut Option<impl Read>, into: &mut Vec<u8>) -> bool {
    let mut buffer = [0; OUTPUT_MAX];
    while let Some(open) = pipe {
        match open.read(&mut buffer) {
            Ok(0) => *pipe = None,
            Ok(count) => {
                into.extend(&buffer[..count.min((OUTPUT_MAX + 1).saturating_sub(into.len()))]);
                if into.len() > OUTPUT_MAX {
                    return true;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            Err(_) => *pipe = None,
        }
    }
    false
}

/// Waits until there may be something to read, or a step.
fn wait_for(pipes: &(Option<impl AsFd>, Option<impl AsFd>), is_open: bool) {
    if !is_open {
        std::thread::sleep(Duration::from_nanos(STEP.tv_nsec.cast_unsigned()));
        return;
    }
    let open = [pipes.0.as_ref().map(AsFd::as_fd), pipes.1.as_ref().map(AsFd::as_fd)];
    let mut asked: Vec<PollFd<'_>> =
        open.iter().flatten().map(|pipe| PollFd::from_borrowed_fd(*pipe, PollFlags::IN)).collect();
    let _ = poll(&mut asked, Some(&STEP));
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
