//! Child processes of tests, which end with the test.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use napier_linux::Netns;
pub(crate) use napier_testkit::{Folder, python};
use napier_testnet::{self as net, Veth, VethConfig, VethEnd};

pub(crate) const NAPIER: &str = env!("CARGO_BIN_EXE_napier");

/// A child process that is ended with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    // Below those that the system gives to connections (`ip_local_port_range`): one of them may be given before the server
    // has it. Programs of tests begin at different places.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let ports = std::iter::repeat_with(|| {
        let nth = std::process::id().wrapping_mul(101).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        10_000 + (nth % 20_000) as u16
    });
    ports.take(1000).find(free).expect("one of a thousand ports is free")
}

/// Whether a program is there; says so if not.
pub(crate) fn has(test: &str, program: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()));
    if !found {
        napier_testkit::skip!(test, "{program} is not installed");
    }
    found
}

/// Whether client and server have a CPU each; says so if not.
pub(crate) fn two_cpus(test: &str) -> bool {
    let enough = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() >= 2);
    if !enough {
        napier_testkit::skip!(test, "needs 2 CPUs");
    }
    enough
}

/// Starts a program that says when it is ready, and waits for that.
pub(crate) fn start(args: &[&str]) -> Running {
    started(Command::new(NAPIER).args(args))
}

/// The same, of a command that is made already.
pub(crate) fn started(command: &mut Command) -> Running {
    let mut running = Running(command.stdout(Stdio::piped()).spawn().expect("the binary starts"));
    let line = line(running.0.stdout.take());
    assert!(line.starts_with("ready: "), "{command:?}: {line:?}");
    running
}

/// The first line that a program says.
pub(crate) fn line(pipe: Option<impl Read>) -> String {
    let mut line = String::new();
    BufReader::new(pipe.expect("it is piped")).read_line(&mut line).expect("it speaks");
    line
}

/// Answers what it is sent, after a pause in ms, if one is given; says its process.
const ECHO: &str = "
import asyncio, os, sys, time
pause = int(sys.argv[3]) / 1000
async def serve(reader, writer):
    while data := await reader.read(64):
        time.sleep(pause)
        writer.write(data)
async def main():
    server = await asyncio.start_server(serve, sys.argv[1], int(sys.argv[2]))
    print(os.getpid(), flush=True)
    await server.serve_forever()
asyncio.run(main())
";

/// The server of [`ECHO`], and its process.
pub(crate) fn echo_server(netns: &Netns, at: (&str, u16), pause_ms: u32) -> (Running, String) {
    let mut command = Command::new(python());
    command.args(["-c", ECHO, at.0, &at.1.to_string(), &pause_ms.to_string()]).stdout(Stdio::piped());
    let mut running = Running(netns.run(move || command.spawn()).expect("entered").expect("it starts"));
    let pid = line(running.0.stdout.take());
    (running, pid.trim().to_owned())
}

/// Runs the command, without input.
pub(crate) fn napier(args: &[&str]) -> Output {
    Command::new(NAPIER).args(args).stdin(Stdio::null()).output().expect("the binary starts")
}

/// Status, standard output and standard error of a command, which must come to an end.
pub(crate) fn ended(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new("timeout");
    let output = command.args(["-k", "1", "60", NAPIER]).args(args).stdin(Stdio::null()).output();
    let output = output.expect("timeout is installed");
    (output.status.code(), text(&output), said(&output))
}

/// It is refused with this status, in one line that has these words; bad usage prints nothing else.
pub(crate) fn refused(args: &[&str], status: i32, words: &str) {
    let (code, out, said) = ended(args);
    assert_eq!(code, Some(status), "{args:?}: {said}");
    assert!(said.starts_with("napier: ") && said.contains(words) && said.lines().count() == 1, "{args:?}: {said}");
    assert!(status != 2 || out.is_empty(), "{args:?}: {out}");
}

/// The same in the namespace of an end, with journals in a folder.
pub(crate) fn napier_at(end: &VethEnd, folder: &Folder, args: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.arg("60").arg(NAPIER).args(args).env("NAPIER_STATE_DIRECTORY", folder.file("state"));
    end.netns().run(|| command.output()).expect("entered").expect("timeout is installed")
}

/// Sends a signal, such as `INT`.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().expect("kill is installed");
    assert!(sent.success(), "SIG{name}");
}

/// Whether a process is gone. One that was not waited for is, as it has no descriptors any more.
pub(crate) fn has_ended(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

/// Kills a process that is no child of this one, and waits until it has ended.
pub(crate) fn kill_and_wait(pid: u32) {
    signal(pid, "KILL");
    napier_testkit::eventually("it has ended", || has_ended(pid));
}

/// Runs a program for at most a minute.
pub(crate) fn run(program: &str, args: &[&str]) -> Output {
    let output = Command::new("timeout").arg("60").arg(program).args(args).output().expect("timeout is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{program} {args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    output
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it said on standard error.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim_end().to_owned()
}

/// The JSON object that a command which succeeds has printed.
pub(crate) fn printed(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// The rows of it.
pub(crate) fn rows(output: &Output) -> Vec<serde_json::Value> {
    printed(output)["rows"].as_array().expect("rows").clone()
}

/// Lets `sockperf ping-pong` measure for a second, or for longer if it got little CPU in what it takes for valid of that; all of its
/// messages must come back, none twice and in order.
pub(crate) fn sockperf(ip: &str, port: &str, more: &[&str]) {
    let (report, sent, received) =
        napier_testkit::in_time_enough("sockperf measures", Duration::from_secs(1), |length| {
            let length = length.as_secs().to_string();
            let output = run("sockperf", &[&["ping-pong", "-i", ip, "-p", port, "-t", &length][..], more].concat());
            // sockperf colours its output, and ends with success even if nothing was answered.
            let report = text(&output) + &String::from_utf8_lossy(&output.stderr);
            if ["No valid observations found", "Test end before test start"].iter().any(|short| report.contains(short))
            {
                return None;
            }
            let line =
                report.lines().find(|line| line.contains("[Valid Duration]")).unwrap_or_else(|| panic!("{report}"));
            let count = |name: &str| -> u64 {
                let (_, number) = line.split_once(name).unwrap_or_else(|| panic!("{report}"));
                let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
                digits.parse().unwrap_or_else(|_| panic!("{report}"))
            };
            let (sent, received) = (count("SentMessages="), count("ReceivedMessages="));
            (received > 10 || sent > received).then_some((report, sent, received))
        });
    assert_eq!(sent, received, "{report}");
    assert!(
        report.contains("# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0"),
        "{report}"
    );
}

/// Options of a short load.
pub(crate) const SHORT: [&str; 15] = [
    "--rate",
    "2k",
    "--connections",
    "4",
    "--depth",
    "8",
    "--keys",
    "500",
    "--seconds",
    "0.3",
    "--warmup",
    "0.1",
    "--runs",
    "1",
    "--json",
];

/// Loads a server for a moment; everything that was asked for must have been answered and found.
pub(crate) fn load(server: &str, proto: &str, format: &str, more: &[&str]) {
    let args = [&["load", "kv", "--server", server, "--proto", proto, "--format", format][..], &SHORT, more].concat();
    let report: serde_json::Value = serde_json::from_str(&text(&run(NAPIER, &args))).expect("it prints JSON");
    let figures = &report["median"];
    assert!(figures["latency_us"]["p50"].as_f64().expect("a number") > 0.0, "{report}");
    assert!(figures["latency_us"]["p50"].as_f64() >= figures["service_latency_us"]["p50"].as_f64(), "{report}");
    assert_eq!((figures["refused"].as_u64(), figures["missing"].as_u64()), (Some(0), Some(0)), "{report}");
}

/// Ends a server as a user does, and waits for it.
pub(crate) fn end(mut server: Running) {
    signal(server.0.id(), "INT");
    assert!(server.0.wait().expect("it can be waited for").success());
}

/// A server with an engine of its own; its interface has no peer. It ends with the test.
pub(crate) struct Served {
    server: Option<Running>,
    /// Its number, as `--engine` takes it.
    pub(crate) pid: String,
}

impl Served {
    pub(crate) fn new(test: &str) -> Self {
        let device = format!("memif:@{test}-{}", std::process::id());
        let server = start(&["serve", "kv", "--dev", &device, "--ip", "10.77.0.1/24"]);
        let pid = server.0.id().to_string();
        Self { server: Some(server), pid }
    }

    pub(crate) fn end(&mut self) {
        self.server.take().into_iter().for_each(end);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A test that has failed says why, and not that its server ended otherwise than a user ends it.
        if !std::thread::panicking() {
            self.end();
        }
    }
}

/// Whether `doctor --fix` would change more than the interface; says so. A test does not change the machine that it runs on.
pub(crate) fn would_change_the_machine(test: &str, end: &VethEnd, folder: &Folder) -> bool {
    let dry = text(&napier_at(end, folder, &["doctor", "--dev", end.name(), "--fix", "--dry-run"]));
    let would = ["/sys/devices/", "/proc/", "sysctl", "chrt", "taskset"].iter().any(|place| dry.contains(place));
    if would {
        napier_testkit::skip!(test, "doctor has something to mend on this machine");
    }
    would
}

/// A pair whose first end has only an address of the kernel that nobody asks, or a line that says why not.
pub(crate) fn pair(test: &str) -> Option<Veth> {
    let ends = net::ends(("server", &["10.78.0.101/24"]), ("client", &["10.78.0.2/24"]));
    net::pair(test, &VethConfig { tso: false, tx_checksum: false, ..ends })
}
