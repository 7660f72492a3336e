//! Programs that were not changed on an engine's sockets (docs/engine-programs.md), over AF_XDP on a pair of veth interfaces with the kernel's stack at
//! the other end.

mod common;
mod containers;
#[path = "../../door/tests/peer/mod.rs"]
mod peer;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use common::{NAPIER, Running, has, started};
use napier_testkit::{eventually, python};
use napier_testnet::{self as net, Veth, VethConfig};
use peer::{echoes, sees_the_end};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../door/tests/served.py");

/// A pair of interfaces, an engine on one, and Python; or a line that says what is missing.
struct Stand {
    engine: Running,
    pair: Veth,
}

impl Stand {
    fn new(test: &str, more: &[&str]) -> Option<Self> {
        if !has(test, "python3") {
            return None;
        }
        let ends = net::ends(("server", &["10.79.0.1/24"]), ("client", &["10.79.0.2/24"]));
        let pair = net::pair(test, &VethConfig { tx_checksum: false, tso: false, ..ends })?;
        let mut command = Command::new(NAPIER);
        command.args(["engine", "start", "--dev", "xdp:server", "--ip", "10.79.0.9/24"]).args(more);
        let engine = pair.left().netns().run(|| started(&mut command)).expect("entered");
        Some(Self { engine, pair })
    }

    /// A part of the script under the engine.
    fn program(&self, args: &[&str]) -> Running {
        let mut command = Command::new(NAPIER);
        command.args(["run", "--engine", "--", python(), "-u", PROGRAMS]).args(args);
        command.stdout(Stdio::piped()).stdin(Stdio::null());
        Running(self.pair.left().netns().run(|| command.spawn()).expect("entered").expect("it starts"))
    }

    /// One that says when it is ready, and what it says.
    fn server(&self, args: &[&str]) -> (Running, BufReader<std::process::ChildStdout>) {
        let mut running = self.program(args);
        let mut said = BufReader::new(running.0.stdout.take().expect("it is piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it speaks");
        assert!(line.starts_with("ready"), "{args:?}: {line:?}");
        (running, said)
    }

    /// Runs something in the network namespace of the engine.
    fn inside<R: Send>(&self, act: impl FnOnce() -> R + Send) -> R {
        self.pair.left().netns().run(act).expect("entered")
    }

    /// Ends the engine as a service manager does.
    fn end(&mut self) {
        let pid = self.engine.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill is there").success());
        self.engine.0.wait().expect("its status");
    }

    fn connect(&self, port: u16) -> std::io::Result<TcpStream> {
        peer::connect(&self.pair, port)
    }

    fn sockets(&self) -> serde_json::Value {
        let mut command = Command::new(NAPIER);
        let output = self.pair.left().netns().run(|| command.args(["engine", "ss", "--json"]).output());
        let output = output.expect("entered").expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

#[test]
fn a_server_that_knows_nothing_of_it_echoes_and_ends_halves_over_many_connections() {
    let test = "a_server_that_knows_nothing_of_it_echoes_and_ends_halves_over_many_connections";
    let Some(stand) = Stand::new(test, &[]) else { return };
    let (_server, _said) = stand.server(&["serve", "7001"]);
    echoes(stand.connect(7001).expect("connected"), 3_000_000);
    for _ in 0..20 {
        echoes(stand.connect(7001).expect("connected"), 1000);
    }
    let at_once: Vec<_> = (0..20).map(|_| stand.connect(7001).expect("connected")).collect();
    at_once.into_iter().for_each(|stream| echoes(stream, 50_000));
    let sockets = stand.sockets();
    assert_eq!(sockets["counts"]["accepted"], 41, "{sockets}");
    eventually("only the listener is left", || stand.sockets()["sockets"].as_array().is_some_and(|all| all.len() == 1));
    assert_eq!(stand.sockets()["sockets"][0]["state"], "listening");
}

#[test]
fn it_is_explained_what_was_held_and_what_stayed_with_the_kernel() {
    let test = "it_is_explained_what_was_held_and_what_stayed_with_the_kernel";
    let Some(stand) = Stand::new(test, &[]) else { return };
    if !lo_is_up(&stand, test) {
        return;
    }
    let mut command = Command::new(NAPIER);
    command.args(["run", "--engine", "--explain", "--", python(), PROGRAMS, "mixed"]).stdin(Stdio::null());
    let output = stand.pair.left().netns().run(|| command.output()).expect("entered").expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for part in [
        "accept4 1",
        "bind 2",
        "sockets of the engine: 1 listened",
        "bound to loopback 1",
        "UDP 1",
        "refused: TCP_ULP 1",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (_server, _said) = stand.server(&["serve", "7001"]);
    let mut command = Command::new(NAPIER);
    let output = stand.pair.left().netns().run(|| command.args(["engine", "ss", "--explain"]).output());
    let said = output.expect("entered").expect("it starts").stdout;
    let said = String::from_utf8_lossy(&said);
    let name = python().rsplit('/').next().unwrap_or_default();
    assert!(said.contains(&format!("{name}: sockets of the engine: 1 listened")), "{said}");
}

#[test]
fn udp_sockets_by_the_fast_door_are_explained() {
    let test = "udp_sockets_by_the_fast_door_are_explained";
    let Some(stand) = Stand::new(test, &[]) else { return };
    if !lo_is_up(&stand, test) {
        return;
    }
    let mut command = Command::new(NAPIER);
    command.args(["run", "--engine", "--door", "fast", "--explain", "--", python(), PROGRAMS, "mixed"]);
    let output = stand.pair.left().netns().run(|| command.stdin(Stdio::null()).output());
    let output = output.expect("entered").expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let expected = "UDP sockets by the fast door: 1; datagrams sent 0, received 0, lost in the door 0\n";
    assert!(said.contains(expected) && !said.contains("UDP 1"), "{said}");
}

/// How many numbers a process has in a line of its status.
fn numbers_of(pid: u64, key: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix(key)).map_or(0, |line| line.split_whitespace().count())
}

/// Sets the loopback interface of the engine's namespace up; says so if that cannot be.
fn lo_is_up(stand: &Stand, test: &str) -> bool {
    if !has(test, "ip") {
        return false;
    }
    let up = || Command::new("ip").args(["link", "set", "lo", "up"]).status();
    let done = stand.pair.left().netns().run(up).expect("entered").is_ok_and(|status| status.success());
    if !done {
        napier_testkit::skip!(test, "lo cannot be set up");
    }
    done
}

#[test]
fn a_program_that_is_killed_leaves_no_connection_and_no_port() {
    let test = "a_program_that_is_killed_leaves_no_connection_and_no_port";
    let Some(stand) = Stand::new(test, &[]) else { return };
    for round in 0..10 {
        let (server, _said) = stand.server(&["serve", "7004"]);
        let mut streams: Vec<_> = (0..5).map(|_| stand.connect(7004).expect("connected")).collect();
        for stream in &mut streams {
            stream.write_all(&vec![1; 1 << (round + 4)]).expect("sent");
        }
        let pid = stand.sockets()["sockets"][0]["pid"].as_u64().expect("a number").to_string();
        assert!(Command::new("kill").args(["-KILL", &pid]).status().expect("kill is there").success());
        streams.into_iter().for_each(sees_the_end);
        eventually("nothing is left", || stand.sockets()["sockets"].as_array().is_some_and(Vec::is_empty));
        assert!(stand.connect(7004).is_err(), "nothing listens");
        drop(server);
    }
}

#[test]
fn a_program_goes_on_with_the_kernel_when_its_engine_is_killed() {
    let test = "a_program_goes_on_with_the_kernel_when_its_engine_is_killed";
    let Some(mut stand) = Stand::new(test, &[]) else { return };
    if !lo_is_up(&stand, test) {
        return;
    }
    let (_listener, port) = peer::listen(&stand.pair);
    let (mut program, mut said) = stand.server(&["goes_on", &port]);
    stand.engine.0.kill().expect("it runs");
    stand.engine.0.wait().expect("its status");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("it speaks");
    assert_eq!(rest, "ended True accept True\nb'here' True True\n");
    assert!(program.0.wait().expect("its status").success());
}

#[test]
fn without_an_engine_it_is_said_where_to_get_one() {
    let output = Command::new(NAPIER).args(["run", "--engine=no-such", "--", "true"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no engine serves") || said.contains("no engine named"), "{said}");
}
