//! A program's processes: started in a namespace, on some CPUs, with what they print kept for a message.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use napier_linux::Netns;
use napier_linux::process::{ld_preload, this_program};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, UnshareFlags};

/// Lines that are kept of what a program prints, and bytes of each.
const LINES_MAX: usize = 6;
const LINE_BYTES_MAX: u64 = 400;

/// How long a program may take to end when it is asked to.
const END_MAX: Duration = Duration::from_secs(2);

/// The processes of one program. They end when this is dropped, and with this process however it ends.
pub(super) struct Process {
    /// The first process of their namespace.
    init: u32,
    ended: Arc<Mutex<Option<String>>>,
    printed: Arc<Mutex<VecDeque<String>>>,
    keeper: Option<JoinHandle<()>>,
}

/// What the keeper tells of a process that it has started.
type Started = std::io::Result<(u32, ChildStdout, ChildStderr)>;

impl Process {
    /// With a library loaded into it, if one is given.
    pub(super) fn start(
        command: &[String],
        library: Option<&Path>,
        netns: &Netns,
        cpus: &[usize],
    ) -> anyhow::Result<Self> {
        let preload = library.map(ld_preload);
        let (ended, printed) = (Arc::<Mutex<Option<String>>>::default(), Arc::default());
        let (started, heard) = channel();
        let keeper = {
            let (command, cpus, netns, ended) = (command.to_vec(), cpus.to_vec(), netns.clone(), ended.clone());
            std::thread::Builder::new()
                .name("keeper".to_owned())
                .spawn(move || keep((&command, preload.as_deref()), &netns, &cpus, &started, &ended))?
        };
        let doing = "starting the program (a process namespace needs CAP_SYS_ADMIN)";
        let (init, stdout, stderr) = heard.recv().context(doing)?.context(doing)?;
        // From here on they are ended with `process`, and the readers with them.
        let process = Self { init, ended, printed, keeper: Some(keeper) };
        process.listen_to(stdout)?;
        process.listen_to(stderr)?;
        Ok(process)
    }

    fn listen_to(&self, from: impl Read + Send + 'static) -> std::io::Result<()> {
        let printed = self.printed.clone();
        std::thread::Builder::new().name("printed".to_owned()).spawn(move || listen_to(from, &printed)).map(drop)
    }

    /// How it ended, in words; `None` as long as any of its processes runs.
    pub(super) fn ended(&self) -> Option<String> {
        self.ended.lock().expect("no thread panics with it").clone()
    }

    /// What it printed last, as the end of a message.
    pub(super) fn last_words(&self) -> String {
        if self.ended().is_some() {
            // What it printed at its end may be on its way.
            std::thread::sleep(Duration::from_millis(30));
        }
        let printed = self.printed.lock().expect("no thread panics with it");
        let lines: Vec<&str> = printed.iter().map(String::as_str).collect();
        if lines.is_empty() { String::new() } else { format!("; it printed: {}", lines.join(" | ")) }
    }

    /// The one that all of them descend from.
    pub(super) fn root(&self) -> u32 {
        self.init
    }

    /// Its processes, without the one that waits for them.
    pub(super) fn family(&self) -> Vec<u32> {
        napier_linux::process::descendants(self.init)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let signal = |pid: u32, signal| {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // It may have ended by itself.
                let _ = kill_process(pid, signal);
            }
        };
        // Our own children, which the keeper has not waited for yet, so the numbers are still theirs.
        self.family().into_iter().for_each(|pid| signal(pid, Signal::TERM));
        let begun = Instant::now();
        while self.ended().is_none() && begun.elapsed() < END_MAX {
            std::thread::sleep(Duration::from_millis(5));
        }
        if self.ended().is_none() {
            signal(self.init, Signal::KILL);
        }
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// The thread that is the program's parent: the program ends with it.
fn keep(
    (command, preload): (&[String], Option<&OsStr>),
    netns: &Netns,
    cpus: &[usize],
    started: &Sender<Started>,
    ended: &Mutex<Option<String>>,
) {
    let start = || -> std::io::Result<_> {
        netns.enter().map_err(std::io::Error::other)?;
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        rustix::thread::sched_setaffinity(None, &set)?;
        #[expect(deprecated, reason = "unsafe only with the flag for descriptors, which is not set")]
        rustix::thread::unshare(UnshareFlags::NEWPID)?;
        let mut init = Command::new(this_program());
        // The one that waits for the program has it as well, and never waits for events.
        if let Some(preload) = preload {
            init.env("LD_PRELOAD", preload);
        }
        init.arg(super::init::SUBCOMMAND)
            .arg("--")
            .args(command)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // What a terminal sends to this process is not for the program.
            .process_group(0)
            .spawn()
    };
    let mut child = match start() {
        Ok(child) => child,
        Err(error) => {
            // If nobody listens, nobody misses it.
            let _ = started.send(Err(error));
            return;
        }
    };
    let pipes = (child.stdout.take().expect("it was asked for"), child.stderr.take().expect("it was asked for"));
    let _ = started.send(Ok((child.id(), pipes.0, pipes.1)));
    let how = match child.wait() {
        Ok(status) => in_words(status),
        Err(error) => format!("cannot be waited for: {error}"),
    };
    *ended.lock().expect("no thread panics with it") = Some(how);
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code @ 129..), _) => format!("was ended by signal {}", code - 128),
        (Some(127), _) => "was not started".to_owned(),
        (Some(code), _) => format!("ended with status {code}"),
        (None, signal) => format!("was ended by signal {}", signal.unwrap_or(0)),
    }
}

/// Keeps the last lines; what is no text is shown as such.
fn listen_to(from: impl Read, printed: &Mutex<VecDeque<String>>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        let text: String =
            String::from_utf8_lossy(&line).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        line.clear();
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let mut printed = printed.lock().expect("no thread panics with it");
        if printed.len() == LINES_MAX {
            printed.pop_front();
        }
        printed.push_back(text.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        let text = (0..20).map(|n| format!("line {n}\x1b\n\n")).collect::<String>();
        let printed = Mutex::default();
        listen_to(text.as_bytes(), &printed);
        let printed = printed.into_inner().unwrap();
        assert_eq!((printed.len(), printed.front().unwrap().as_str()), (LINES_MAX, "line 14"));
        let long = Mutex::default();
        listen_to([b'x'; 5000].as_slice(), &long);
        assert!(long.into_inner().unwrap().iter().all(|line: &String| line.len() <= 400));
    }

    #[test]
    fn an_end_is_said_in_words() {
        assert_eq!(in_words(ExitStatus::from_raw(71 << 8)), "ended with status 71");
        assert_eq!(in_words(ExitStatus::from_raw(139 << 8)), "was ended by signal 11");
        assert_eq!(in_words(ExitStatus::from_raw(9)), "was ended by signal 9");
    }
}
