//! A program that serves: started in the server's namespace, found where it listens, filled with the records, and ended with
//! the comparison. It is the same process in all runs; between them only its mode changes.

mod apply;
pub mod init;
mod listen;
mod process;
mod speak;

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use napier_core::control::plan::Plan;
use napier_kv::load::codec::Format;
use napier_kv::load::generator::Generator;
use napier_kv::load::net::{KernelClient, Proto};
use napier_kv::load::plan::Plan as LoadPlan;
use napier_kv::load::wire::SocketWire;
use napier_kv::profile::Profile;
use napier_linux::Netns;
use napier_linux::process::{Library, PreloadError, library_in, preload_for};

pub(crate) use apply::AppliedToProgram;
use listen::Listening;
use process::Process;
pub use speak::Speaks;

/// How long a program may take until it answers.
const START_MAX: Duration = Duration::from_secs(15);

/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// How long it may take to hear of an end that clients have seen.
const HEARD_MAX: Duration = Duration::from_millis(300);

/// Connections that set the records, and sets that may be without an answer on each.
const FILL: (usize, usize) = (4, 16);

/// A set over datagrams without an answer for so long is sent again.
const GIVE_UP: Duration = Duration::from_millis(50);

/// A program to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramConfig {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What it speaks; `None`: it is asked.
    pub speaks: Option<Speaks>,
}

impl ProgramConfig {
    /// As it was given.
    #[must_use]
    pub fn line(&self) -> String {
        self.command.join(" ")
    }

    /// What has to be loaded into the program for a mode; `None` if nothing.
    pub(crate) fn library(&self, plan: &Plan) -> Result<Option<PathBuf>, PreloadError> {
        let program = self.command.first().map_or("", String::as_str);
        plan.wait().map(|_| preload_for(OsStr::new(program), None)).transpose()
    }
}

/// Where a program is to run, and with what.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) netns: Netns,
    /// At which it is reached there.
    pub(crate) address: Ipv4Addr,
    /// CPUs of the server.
    pub(crate) cpus: Vec<usize>,
    pub(crate) proto: Proto,
    pub(crate) profile: Profile,
}

/// A program, whether or not it runs.
pub(crate) struct ServerProgram {
    config: ProgramConfig,
    setting: Setting,
    served: Mutex<Option<Arc<Served>>>,
}

/// A program that runs and answers.
pub(crate) struct Served {
    process: Process,
    /// What was loaded into it.
    library: Option<PathBuf>,
    /// Where.
    pub(crate) at: SocketAddrV4,
    /// How requests to it are written.
    pub(crate) format: Format,
}

impl ServerProgram {
    /// Starts it, and waits until it answers and has all records.
    pub(crate) fn start(config: &ProgramConfig, setting: Setting, interrupted: &AtomicBool) -> anyhow::Result<Self> {
        let program = Self { config: config.clone(), setting, served: Mutex::default() };
        program.served(None, interrupted)?;
        Ok(program)
    }

    /// How requests to it are written.
    pub(crate) fn format(&self) -> Format {
        let served = self.served.lock().expect("no thread panics with it");
        served.as_ref().map_or(Format::Ascii, |served| served.format)
    }

    /// The program as it runs in a mode; one that has ended meanwhile, or runs without what the mode needs in it or with what another
    /// one needed, is started again.
    pub(crate) fn for_mode(&self, plan: &Plan, interrupted: &AtomicBool) -> anyhow::Result<Arc<Served>> {
        self.served(self.config.library(plan)?.as_deref(), interrupted)
    }

    fn served(&self, library: Option<&Path>, interrupted: &AtomicBool) -> anyhow::Result<Arc<Served>> {
        let mut served = self.served.lock().expect("no thread panics with it");
        let is_right = |served: &&Arc<Served>| served.process.ended().is_none() && served.library.as_deref() == library;
        if let Some(running) = served.as_ref().filter(is_right) {
            return Ok(running.clone());
        }
        // Its port is for the next one.
        *served = None;
        let name = self.config.command.first().map_or("", String::as_str);
        let process = Process::start(&self.config.command, library, &self.setting.netns, &self.setting.cpus)?;
        let answers = wait_until_it_answers(&process, &self.config, &self.setting, interrupted)
            .and_then(|(at, speaks)| fill(&self.setting, at, speaks.format(), interrupted).map(|()| (at, speaks)));
        let (at, speaks) = match answers {
            Ok(answers) => answers,
            Err(error) => bail!("{name}: {error:#}{}", process.last_words()),
        };
        if let Some(file) = library
            && !process.family().into_iter().any(|pid| has_met(pid, file))
        {
            bail!(
                "{name} answers without the library that this mode loads into it: its waits for events are not by the C library's epoll"
            );
        }
        let library = library.map(Path::to_owned);
        let new = Arc::new(Served { process, library, at, format: speaks.format() });
        *served = Some(new.clone());
        Ok(new)
    }
}

impl Served {
    /// Applies the part of a mode that is the program's, as long as the answer lives.
    pub(crate) fn apply(&self, plan: &Plan) -> anyhow::Result<Option<AppliedToProgram>> {
        AppliedToProgram::on_program(self.process.root(), plan)
    }

    /// CPU time of its threads so far.
    pub(crate) fn cpu(&self) -> Duration {
        self.process.family().into_iter().map(super::threads::cpu_of).sum()
    }

    /// Context switches of its threads so far.
    pub(crate) fn switches(&self) -> u64 {
        self.process.family().into_iter().map(|pid| super::threads::switches_of(pid, &|_| true)).sum()
    }

    /// Until a run is over: ends it if the program has ended, or if it was interrupted.
    pub(crate) fn watch(&self, over: &AtomicBool, interrupted: &AtomicBool, stop: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            if interrupted.load(Ordering::Relaxed) || self.process.ended().is_some() {
                stop.store(true, Ordering::Relaxed);
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Fails if it has ended, with its last words. If it looks as if it had, a moment is given to hear of it.
    pub(crate) fn check(&self, seems_so: bool) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            if let Some(how) = self.process.ended() {
                bail!("the program {how}{}", self.process.last_words());
            }
            if !seems_so || begun.elapsed() > HEARD_MAX {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Whether a library has seen a wait of a process, which has answered by now.
fn has_met(pid: u32, library: &Path) -> bool {
    matches!(library_in(pid, library), Ok(Library::Loaded(counts)) if counts.met > 0)
}

/// Waits until something answers on a port that the interface reaches.
fn wait_until_it_answers(
    process: &Process,
    config: &ProgramConfig,
    setting: &Setting,
    interrupted: &AtomicBool,
) -> anyhow::Result<(SocketAddrV4, Speaks)> {
    let begun = Instant::now();
    let proto = setting.proto;
    loop {
        ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
        if let Some(how) = process.ended() {
            bail!("it {how} before it answered");
        }
        let listening = Some(Listening::of(&process.family(), proto)).filter(|listening| !listening.is_empty());
        let port = listening.as_ref().and_then(|listening| listening.port(IpAddr::V4(setting.address)));
        let late = begun.elapsed() > START_MAX;
        match (port, listening) {
            (Some(port), _) => {
                let at = SocketAddrV4::new(setting.address, port);
                let heard = setting.netns.run(|| speak::ask(at, proto))?;
                match (heard, config.speaks) {
                    (Ok(speaks), Some(wanted)) if speaks != wanted => {
                        bail!("it speaks {speaks} at port {port}, not {wanted}: omit --speak")
                    }
                    (Ok(speaks), _) => return Ok((at, speaks)),
                    (Err(error), _) if late || error.is_final => bail!("{}", error.what),
                    (Err(_), _) => {}
                }
            }
            (None, Some(listening)) if late => bail!("{}", listening.out_of_reach(setting.address)),
            (None, None) if late => bail!("{}", listen::nothing(proto, START_MAX)),
            (None, _) => {}
        }
        std::thread::sleep(LOOK);
    }
}

/// Sets every record, over the namespace's own loopback: it is not measured.
fn fill(setting: &Setting, at: SocketAddrV4, format: Format, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let Setting { proto, profile, .. } = setting;
    let (connections, depth) = FILL;
    let filled = setting.netns.run(|| -> anyhow::Result<_> {
        let wire = SocketWire::connect(KernelClient::new()?, *proto, format, at.into(), connections)?;
        let give_up = (*proto == Proto::Udp).then_some(GIVE_UP);
        let profile = profile.clone();
        let plan = LoadPlan { profile, value_bytes: None, depth, overruns: false, give_up, burst: 64 };
        Generator::new(wire, connections, plan).fill(interrupted)
    })?;
    let filled = filled.context("setting the records")?;
    ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
    ensure!(filled.wrong == 0, "it answered a set as it must not");
    ensure!(filled.refused == 0, "it refused {} of {} sets", filled.refused, profile.config().records);
    Ok(())
}
