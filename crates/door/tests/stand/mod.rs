//! A pair of interfaces with an engine, a door and programs at one end, and the kernel's stack at the other.

use std::io::{BufRead as _, BufReader, PipeReader, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use napier_door::{Door, DoorConfig, EngineAt, Reach, ShownEngine, SocketView};
use napier_linux::process::{HeldSends, Program, Signals};
use napier_runtime::control::mode::Mode;
use napier_runtime::device::{DeviceHandle, EndConfig, IfAddr, XdpConfig};
use napier_runtime::engine::Engine;
use napier_testkit::python;
use napier_testnet::{self as net, Veth, VethConfig, ip};

use crate::{fast, peer};

pub(crate) const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/served.py");

/// A pair of interfaces, and an engine with a door on one of them.
pub(crate) struct Stand {
    // Before the namespace that it is in. None of them, where another process has the engine.
    pub(crate) door: Option<Door>,
    pub(crate) device: Option<DeviceHandle>,
    pub(crate) pair: Veth,
}

/// An engine with the interface of a namespace, and what its door is opened by. `None`, said aloud, where a privilege is missing.
pub(crate) fn engine_on(
    namespace: OwnedFd,
    test: &str,
    mode: Option<Mode>,
    for_all_users: bool,
) -> Option<(DeviceHandle, DoorConfig)> {
    let engine = Engine::builder().start().expect("an engine");
    let netns = engine.namespace();
    let addresses = ["10.79.0.9", "fd79::9"].map(ip).into_iter().zip([24, 64]);
    let addresses: Vec<_> = addresses.map(|(addr, prefix_len)| IfAddr { addr, prefix_len }).collect();
    let own = addresses.iter().map(|one| (one.addr, one.prefix_len)).collect();
    let end = EndConfig { name: "server".into(), netns: netns.clone(), mac: [0; 6], addresses, irq_cpus: Vec::new() };
    let config = XdpConfig { netns: Some(namespace.into()), ..XdpConfig::on("server") };
    let device = match engine.add_xdp(&config, end) {
        Ok(device) => device,
        Err(error) => {
            napier_testkit::skip!(test, "{error}");
            return None;
        }
    };
    if let Some(mode) = mode {
        engine.set_mode(&device, mode).expect("a mode of devices");
    }
    let reach = Reach { addresses: own, gateways: [false; 2], ..Reach::default() };
    Some((device, DoorConfig { name: "test".into(), engine, netns, reach, mode, for_all_users }))
}

/// A program, which ends with this.
pub(crate) struct Started(pub(crate) u32);

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended.
        let _ = Command::new("kill").args(["-KILL", &self.0.to_string()]).stderr(Stdio::null()).status();
    }
}

impl Stand {
    /// `None`, said aloud, where Python or a privilege is missing.
    pub(crate) fn new(test: &str, mode: Option<Mode>) -> Option<Self> {
        Self::of(test, mode, false)
    }

    /// One whose server has a loopback.
    pub(crate) fn with_loopback(test: &str) -> Option<Self> {
        Self::new(test, None).filter(|stand| stand.has_loopback(test))
    }

    /// One whose engine may be for the programs of all users.
    pub(crate) fn of(test: &str, mode: Option<Mode>, for_all_users: bool) -> Option<Self> {
        let mut stand = Self::without_engine(test)?;
        let namespace = stand.pair.left().netns().as_fd().try_clone_to_owned().expect("a descriptor");
        let (device, config) = engine_on(namespace, test, mode, for_all_users)?;
        let door = stand.pair.left().netns().run(|| Door::open(config)).expect("entered").expect("a door");
        (stand.door, stand.device) = (Some(door), Some(device));
        Some(stand)
    }

    /// One for an engine of another process.
    pub(crate) fn without_engine(test: &str) -> Option<Self> {
        if Command::new("python3").arg("-V").stdout(Stdio::null()).status().is_err() {
            napier_testkit::skip!(test, "python3 is not installed");
            return None;
        }
        let ends = net::ends(("server", &["10.79.0.1/24"]), ("client", &["10.79.0.2/24"]));
        let pair = net::pair(test, &VethConfig { tx_checksum: false, tso: false, ..ends })?;
        Some(Self { door: None, device: None, pair })
    }

    /// Sets loopback up; or says that it cannot be.
    pub(crate) fn has_loopback(&self, test: &str) -> bool {
        let up = || Command::new("ip").args(["link", "set", "lo", "up"]).status();
        let is_up = self.pair.left().netns().run(up).expect("entered").is_ok_and(|status| status.success());
        if !is_up {
            napier_testkit::skip!(test, "lo cannot be set up");
        }
        is_up
    }

    /// A part of the script, and what it says.
    pub(crate) fn program(&self, args: &[&str]) -> (Started, BufReader<PipeReader>) {
        self.program_with(HeldSends::None, args)
    }

    pub(crate) fn program_with(&self, sends: HeldSends, args: &[&str]) -> (Started, BufReader<PipeReader>) {
        let library = if fast::is_asked_for() { Some(fast::library()) } else { None };
        self.program_by((sends, library), PROGRAMS, args)
    }

    /// A part of a script, with a library loaded into it.
    pub(crate) fn program_by(
        &self,
        (sends, library): (HeldSends, Option<PathBuf>),
        script: &str,
        args: &[&str],
    ) -> (Started, BufReader<PipeReader>) {
        let mut command = Command::new(python());
        command.args(["-u", script]).args(args);
        command.envs(library.map(|library| ("LD_PRELOAD", library)));
        self.start(sends, command)
    }

    pub(crate) fn start(&self, sends: HeldSends, mut command: Command) -> (Started, BufReader<PipeReader>) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        command.stdin(Stdio::null()).stdout(writer);
        let name = command.get_program().to_string_lossy().into_owned();
        let start = || {
            let engine = EngineAt::find(None).expect("it is open");
            let signals = Signals::take().expect("a descriptor");
            let page = engine.begin().expect("there is room");
            let started = Program::start_held(&mut command, &signals, (engine.pid(), &page), sends);
            let (program, held) = started.expect("it starts");
            let _served = engine.serve(&name, &held).expect("it is served");
            program.pid()
        };
        let pid = self.pair.left().netns().run(start).expect("entered");
        drop(command);
        (Started(pid), BufReader::new(reader))
    }

    /// One that says when it is ready.
    pub(crate) fn server(&self, args: &[&str]) -> (Started, BufReader<PipeReader>) {
        let (started, mut said) = self.program(args);
        let mut line = String::new();
        said.read_line(&mut line).expect("it speaks");
        assert!(line.starts_with("ready"), "{args:?}: {line:?}");
        (started, said)
    }

    /// All that a program said.
    pub(crate) fn ended(&self, args: &[&str]) -> String {
        self.ended_with(HeldSends::None, args)
    }

    pub(crate) fn ended_with(&self, sends: HeldSends, args: &[&str]) -> String {
        let (_started, mut said) = self.program_with(sends, args);
        rest(&mut said)
    }

    pub(crate) fn connect(&self, port: u16) -> std::io::Result<TcpStream> {
        peer::connect(&self.pair, port)
    }

    pub(crate) fn shown(&self) -> ShownEngine {
        let ask = || EngineAt::find(None).expect("it is open").show().expect("they are shown");
        self.pair.left().netns().run(ask).expect("entered")
    }

    pub(crate) fn sockets(&self) -> Vec<SocketView> {
        self.shown().sockets
    }
}

/// All that a program says until it ends.
pub(crate) fn rest(said: &mut impl Read) -> String {
    let mut all = String::new();
    said.read_to_string(&mut all).expect("it speaks");
    all
}
