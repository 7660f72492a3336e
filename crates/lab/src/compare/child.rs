//! The load generator in a process of its own: what the parent tells it, what it tells the parent, both sides.
//!
//! Each message is one line of JSON: the parent writes a task and, once the server is ready, a word to go; the child writes
//! reports. The child ends when its standard input does, so it never outlives its parent; the parent ends its own
//! child when the run is over, however it ends.

use crate::loads::Load;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use napier_kv::load::codec::Format;
use napier_kv::load::net::Proto;
use napier_kv::load::plan::{Measured, Window};
use napier_kv::profile::{Profile, ProfileConfig};
use napier_linux::process::this_program;
use napier_runtime::device::{MemifConfig, MemifRole, MemifSecret};
use serde::{Deserialize, Serialize};

use super::addresses::SERVER;
use super::generator::{GeneratorEnd, Offer};
use crate::pair::{Side, start_engine};

/// The hidden subcommand that runs the child.
pub const SUBCOMMAND: &str = "internal-load";

/// How long each side waits for the other to be there.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a side that waits for the other looks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(50);

/// The line after which the child offers its load.
const GO: &str = "go";

/// What the child is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// Abstract address of the memif.
    pub(crate) socket: String,
    /// What the client of the memif has to know.
    pub(crate) secret: String,
    pub(crate) queues: u16,
    pub(crate) ring_size: u32,
    pub(crate) cpu: usize,
    pub(crate) proto: Proto,
    pub(crate) flows: usize,
    pub(crate) seed: u64,
    /// From which arrivals come.
    pub(crate) arrivals: u64,
    pub(crate) pace: Load,
    pub(crate) window: Window,
}

/// What the child says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ChildReport {
    /// The generator's end of the memif is there; the server may connect.
    Listening,
    /// Measuring begins (true) or ends.
    Edge(bool),
    /// The run is over.
    Done(Box<Measured>),
    /// It failed.
    Failed(String),
}

/// The child as its parent has it. It is ended when this is dropped.
pub(crate) struct Generator {
    child: Child,
    lines: Receiver<String>,
}

impl Generator {
    /// Starts the child and waits until its end of the memif is there.
    pub(crate) fn start(task: &Task, interrupted: &AtomicBool) -> anyhow::Result<Self> {
        let mut child = Command::new(this_program())
            .arg(SUBCOMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the load generator's process; check the limit on processes (ulimit -u)")?;
        let output = BufReader::new(child.stdout.take().expect("it was asked for"));
        let (line, lines) = channel();
        // From here on the child is ended with `generator`, and the thread ends with the child.
        let mut generator = Self { child, lines };
        std::thread::Builder::new().name("reports".to_owned()).spawn(move || pass_on(output, &line))?;
        generator.tell(&serde_json::to_string(task)?)?;
        match generator.next(interrupted)? {
            ChildReport::Listening => Ok(generator),
            other => bail!("the load generator says {other:?} before it listens"),
        }
    }

    /// Lets the child offer its load, and waits until it has. `on_edge` is called when it says so.
    pub(crate) fn offer(
        &mut self,
        interrupted: &AtomicBool,
        on_edge: &mut dyn FnMut(bool),
    ) -> anyhow::Result<Measured> {
        self.tell(GO)?;
        loop {
            match self.next(interrupted)? {
                ChildReport::Edge(begins) => on_edge(begins),
                ChildReport::Done(measured) => return Ok(*measured),
                other => bail!("the load generator says {other:?} while it offers its load"),
            }
        }
    }

    fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        // The pipe stays open: its end is the child's.
        let input = self.child.stdin.as_mut().expect("it was asked for");
        writeln!(input, "{line}").context("telling the load generator what to do")
    }

    fn next(&mut self, interrupted: &AtomicBool) -> anyhow::Result<ChildReport> {
        let line = loop {
            ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => break line,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the load generator's process ended before its run did"),
            }
        };
        match serde_json::from_str(&line).context("the load generator says what is no report")? {
            ChildReport::Failed(why) => bail!("the load generator: {why}"),
            report => Ok(report),
        }
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        // Our own child, which nobody has waited for yet, so the number is still its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Hands on what comes line by line, until it ends or its reader is gone.
fn pass_on(input: impl BufRead, lines: &Sender<String>) {
    for line in input.lines() {
        let Ok(line) = line else { return };
        if lines.send(line).is_err() {
            return;
        }
    }
}

/// The child: does what standard input says and reports on standard output, what goes wrong too.
pub fn run(interrupted: &Arc<AtomicBool>) {
    let outcome = listen(interrupted).and_then(|lines| {
        let line = lines.recv().context("nothing to do")?;
        let task: Task = serde_json::from_str(&line).context("this is run by `napier compare`, not by hand")?;
        task.run(&lines, interrupted)
    });
    // A parent that is gone misses nothing.
    let _ = say(&match outcome {
        Ok(measured) => ChildReport::Done(Box::new(measured)),
        Err(error) => ChildReport::Failed(format!("{error:#}")),
    });
}

/// What the parent says. When it says nothing more, it is gone, and so is this process.
fn listen(interrupted: &Arc<AtomicBool>) -> anyhow::Result<Receiver<String>> {
    let (line, lines) = channel();
    let interrupted = interrupted.clone();
    std::thread::Builder::new().name("parent".to_owned()).spawn(move || {
        pass_on(std::io::stdin().lock(), &line);
        drop(line);
        interrupted.store(true, Ordering::Relaxed);
        // A run looks at the flag at each turn; whatever takes longer is ended.
        std::thread::sleep(Duration::from_secs(1));
        std::process::exit(1);
    })?;
    Ok(lines)
}

fn say(report: &ChildReport) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(report)?)?;
    Ok(out.flush()?)
}

impl Task {
    /// The memif, as one of its two sides has it.
    pub(crate) fn memif(&self, role: MemifRole) -> anyhow::Result<MemifConfig> {
        Ok(MemifConfig {
            secret: Some(secret(&self.secret)?),
            queues: self.queues,
            ring_size: self.ring_size,
            retry: Duration::from_millis(5),
            ..MemifConfig::new(role, &self.socket)
        })
    }

    fn run(&self, lines: &Receiver<String>, interrupted: &AtomicBool) -> anyhow::Result<Measured> {
        let engine = start_engine(&[], &[self.cpu])?;
        let netns = engine.namespace();
        let device = engine.add_memif(self.memif(MemifRole::Server)?, Side::Peer.config(&netns, &[self.cpu]))?;
        Side::Peer.introduce_peer(&netns, &device)?;
        let profile = Profile::new(ProfileConfig::default(), self.seed)?;
        say(&ChildReport::Listening)?;
        ensure!(lines.recv().is_ok_and(|line| line == GO), "the server did not start");
        ensure!(device.wait_link(PATIENCE), "the server is not there: {:?}", device.link_state());
        let &Self { proto, flows, arrivals: seed, pace, window, queues, .. } = self;
        let end = GeneratorEnd { engine, device, netns, cpu: self.cpu };
        let (server, format, started) = (SERVER, Format::Ascii, None);
        let offer = Offer { server, proto, format, profile, flows, seed, pace, window, started };
        // If nobody listens any more, the end of standard input says so soon.
        let on_edge = &mut |begins| drop(say(&ChildReport::Edge(begins)));
        end.offer(&offer, &|from| from.port() % queues, interrupted, on_edge)
    }
}

/// A secret that no other program knows, as text.
pub(crate) fn new_secret() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 11];
    let mut random = std::fs::File::open("/dev/urandom").context("/dev/urandom")?;
    random.read_exact(&mut bytes).context("/dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn secret(text: &str) -> anyhow::Result<MemifSecret> {
    MemifSecret::new(text.as_bytes()).context("a secret has 1 to 24 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_goes_from_process_to_process() {
        let mut measured = Measured { answered: 1, sent: 2, replies: 3, lost: 4, wrong: 5, ..Measured::new(6) };
        for n in 1..5000 {
            measured.recorder.record(n, n + 7, n * n + 7);
        }
        let line = serde_json::to_string(&ChildReport::Done(Box::new(measured.clone()))).unwrap();
        let ChildReport::Done(read) = serde_json::from_str(&line).unwrap() else { panic!("{line}") };
        assert_eq!(read.recorder.intended(), measured.recorder.intended());
        assert_eq!(read.recorder.actual(), measured.recorder.actual());
        assert_eq!((read.answered, read.sent, read.replies), (1, 2, 3));
        assert_eq!((read.lost, read.wrong, read.window_ns), (4, 5, 6));
        let broken = line.replacen("recorder\":[[", "recorder\":[[7,", 1);
        assert!(serde_json::from_str::<ChildReport>(&broken).is_err(), "broken histograms are an error");
    }

    #[test]
    fn secrets_differ_and_fit() {
        let (one, other) = (new_secret().unwrap(), new_secret().unwrap());
        assert!(one != other && secret(&one).is_ok());
        assert!(secret("").is_err());
    }
}
