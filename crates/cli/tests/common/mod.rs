//! Child processes of tests, which end with the test.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};

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
    TcpListener::bind("127.0.0.1:0").expect("loopback is there").local_addr().expect("it is bound").port()
}

/// Whether a program is there; says so if not.
pub(crate) fn has(test: &str, program: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()));
    if !found {
        println!("SKIPPED: {test}: {program} is not installed");
    }
    found
}

/// Starts a program that says when it is ready, and waits for that.
pub(crate) fn start(args: &[&str]) -> Running {
    let process = Command::new(NAPIER).args(args).stdout(Stdio::piped()).spawn();
    let mut running = Running(process.expect("the binary starts"));
    let mut line = String::new();
    let out = running.0.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut line).expect("the server speaks");
    assert!(line.starts_with("ready: "), "{args:?}: {line:?}");
    running
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

/// Lets `sockperf ping-pong` measure for a second; all of its messages must come back, none twice and in order.
pub(crate) fn sockperf(ip: &str, port: &str, more: &[&str]) {
    let output = run("sockperf", &[&["ping-pong", "-i", ip, "-p", port, "-t", "1"][..], more].concat());
    // sockperf colours its output, and ends with success even if nothing was answered.
    let report = text(&output) + &String::from_utf8_lossy(&output.stderr);
    let line = report.lines().find(|line| line.contains("[Valid Duration]")).unwrap_or_else(|| panic!("{report}"));
    let count = |name: &str| -> u64 {
        let (_, number) = line.split_once(name).unwrap_or_else(|| panic!("{report}"));
        let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or_else(|_| panic!("{report}"))
    };
    let (sent, received) = (count("SentMessages="), count("ReceivedMessages="));
    assert!(received > 10 && sent == received, "{report}");
    assert!(report.contains("# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0"), "{report}");
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
