//! Whether a mode acts: what `napier run` and `napier doctor` say of programs that wait in different ways, while packets come.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use napier_testkit::{PATIENCE, eventually, python};
use serde_json::Value;

use super::bench::{Bench, stderr};
use super::common::{NAPIER, Running, has};

/// Connections of a client.
const CONNECTIONS: u64 = 4;

/// Requests from the other end of the pair, one after the other, until it is ended.
pub(super) struct Client {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    pub(super) fn begin(bench: &Bench, port: u16) -> Self {
        Self::to(bench, ("10.79.0.1", port))
    }

    pub(super) fn to(bench: &Bench, address: (&'static str, u16)) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, netns) = (Arc::clone(&stop), bench.client().netns().clone());
        let thread = std::thread::spawn(move || {
            let connect = || TcpStream::connect(address).expect("it listens");
            let mut connections: Vec<TcpStream> =
                netns.run(|| (0..CONNECTIONS).map(|_| connect()).collect()).expect("entered");
            let mut answer = [0; 8];
            for at in (0..connections.len()).cycle() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let connection = &mut connections[at];
                connection.set_read_timeout(Some(PATIENCE)).expect("a time-out");
                connection.write_all(b"question").expect("sent");
                connection.read_exact(&mut answer).expect("answered");
                // Both CPUs are for others, too.
                std::thread::sleep(Duration::from_micros(500));
            }
            connections[0].write_all(b"quit").expect("sent");
        });
        Self { stop, thread: Some(thread) }
    }

    pub(super) fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("each question was answered");
    }
}

/// What a run under `--must-act` ended with, what it said, and its report; and what doctor found meanwhile.
struct Told {
    status: Option<i32>,
    said: String,
    seen: Value,
    findings: Vec<String>,
}

/// Runs the echo program in a mode, loads it until something was said of what was seen, asks doctor, and lets it end.
fn told(bench: &Bench, way: &str, mode: &str, port: u16) -> Told {
    let echo = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/echo.py");
    let dev = bench.server().name().to_owned();
    let mut command = bench.command(NAPIER);
    command.args(["run", "--dev", &dev, "--mode", mode, "--must-act", "--json", "--", python(), echo, way]);
    command.arg(port.to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut running, pid): (Running, String) = bench.begin(&mut command);
    // At first a server has nothing to do: then it is in its wait whenever it is looked at, on a busy machine too.
    eventually("it is in its wait", || {
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall"));
        call.map_or(true, |call| !call.starts_with("running"))
    });
    is_looked_at(running.0.id());
    let client = Client::begin(bench, port);
    let mut err = BufReader::new(running.0.stderr.take().expect("it is piped"));
    let mut said = String::new();
    while !said.contains("packets came to") {
        assert!(err.read_line(&mut said).expect("it is text") > 0, "it ended: {said}");
    }
    let is_harmed = ["nested", "poll-of-epoll"].contains(&way);
    let mut document = Value::Null;
    // A descriptor that doctor has no CPU to look at for long is passed over.
    eventually("doctor sees all descriptors, and the instance that the mode harms is left", || {
        let found = bench.napier(&["doctor", "--dev", &dev, "--pid", &pid, "--json"]);
        document = serde_json::from_slice(&found.stdout).unwrap_or_else(|_| panic!("{}", stderr(&found)));
        let program = &document["facts"]["program"];
        let sees_all = program["epolls"].as_array().is_some_and(|all| all.len() == 2)
            && program["connections"][&dev]["count"].as_u64() == Some(CONNECTIONS);
        sees_all && !(is_harmed && document.to_string().contains("epoll-behind-another"))
    });
    client.end();
    err.read_to_string(&mut said).expect("it is text");
    let status = running.0.wait().expect("it can be waited for").code();
    let report: Value =
        serde_json::from_str(said.lines().find(|line| line.starts_with('{')).expect("a report")).expect("JSON");
    let ids = document["findings"].as_array().expect("a list").iter();
    let findings = ids.map(|finding| finding["id"].as_str().expect("text").to_owned()).collect();
    Told { status, said, seen: report["seen"].clone(), findings }
}

/// Until the command has looked at its program a few times: its thread for that sleeps between two looks.
fn is_looked_at(command: u32) {
    let sleeps = || {
        let threads = std::fs::read_dir(format!("/proc/{command}/task")).expect("it runs").flatten();
        let read =
            |thread: &std::path::Path, file: &str| std::fs::read_to_string(thread.join(file)).unwrap_or_default();
        let thread = threads.map(|thread| thread.path()).find(|thread| read(thread, "comm").trim() == "seen")?;
        let status = read(&thread, "status");
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        count.trim().parse::<u64>().ok()
    };
    let mut first = None;
    eventually("the program is looked at", || {
        let now = sleeps();
        first = first.or(now);
        now >= first.map(|first| first + LOOKS) && now.is_some()
    });
}

/// Sleeps between looks that are waited for: a look may be in two of them.
const LOOKS: u64 = 6;

/// Findings of what is set and does not reach its program or its packets.
const NOT_REACHED: [&str; 8] = [
    "nothing-polls",
    "epoll-behind-another",
    "connections-without-instance",
    "suspension-not-used",
    "epoll-of-busy-sockets",
    "ring-not-polled",
    "prefer-on-loopback",
    "small-budget",
];

fn not_reached(told: &Told) -> Vec<&str> {
    told.findings.iter().map(String::as_str).filter(|id| NOT_REACHED.contains(id)).collect()
}

#[test]
fn a_mode_that_acts_is_seen_to() {
    let test = "a_mode_that_acts_is_seen_to";
    let Some(bench) = Bench::of(test, "seen-acts", false) else { return };
    for (way, mode, port) in [("epoll", "suspend20", 7001), ("poll", "threaded", 7002), ("block", "busy-read", 7003)] {
        let told = told(&bench, way, mode, port);
        assert_eq!((told.status, &told.seen["acts"]), (Some(0), &"yes".into()), "{way} under {mode}: {}", told.said);
        assert!(told.seen["unreached"].as_array().is_some_and(Vec::is_empty), "{}", told.seen);
        assert_eq!(not_reached(&told), [""; 0], "{way} under {mode}");
        assert!(bench.is_clean());
    }
}

#[test]
fn a_mode_that_does_not_reach_the_program_is_told() {
    let test = "a_mode_that_does_not_reach_the_program_is_told";
    let Some(bench) = Bench::of(test, "seen-missed", false) else { return };
    for (way, mode, finding, instead, port) in [
        ("poll", "suspend20", "suspension-not-used", "Take threaded", 7011),
        ("block", "suspend20", "suspension-not-used", "Take ", 7012),
        ("epoll", "busy-read", "epoll-of-busy-sockets", "Take suspendX or napibusy", 7013),
    ] {
        let told = told(&bench, way, mode, port);
        assert_eq!((told.status, &told.seen["acts"]), (Some(3), &"no".into()), "{way} under {mode}: {}", told.said);
        assert!(told.said.contains(instead) && told.said.contains("was seen not to act"), "{}", told.said);
        assert_eq!(not_reached(&told), [finding], "{way} under {mode}");
    }
}

#[test]
fn suspension_behind_another_wait_is_warned_of_and_taken_back() {
    let test = "suspension_behind_another_wait_is_warned_of_and_taken_back";
    let Some(bench) = Bench::of(test, "seen-nested", false) else { return };
    for (way, port) in [("nested", 7021), ("poll-of-epoll", 7022)] {
        let told = told(&bench, way, "suspend20", port);
        assert_eq!(told.status, Some(3), "{}", told.said);
        assert!(told.said.contains("WARNING: python3 (") && told.said.contains("irq-suspend-timeout"), "{}", told.said);
        assert!(told.said.contains("the instance is left without the mode"), "{}", told.said);
        assert!(!not_reached(&told).contains(&"epoll-behind-another"), "{:?}", told.findings);
    }
}

#[test]
fn packets_that_pass_by_the_instances_are_told() {
    let test = "packets_that_pass_by_the_instances_are_told";
    let Some(bench) = Bench::of(test, "seen-passed", true) else { return };
    let told = told(&bench, "epoll", "suspend20", 7031);
    assert_eq!((told.status, &told.seen["taken"]), (Some(3), &0.into()), "{}", told.said);
    assert!(told.said.contains("took 0 of them") && told.said.contains("tso off"), "{}", told.said);
    assert_eq!(not_reached(&told), ["nothing-polls"]);
    // As the exporter counts it, without any privilege.
    let page = bench.napier(&["export", "--once", "--dev", "seen-passed"]);
    let page = super::common::text(&page);
    assert!(page.contains("napier_kernel_device_rx_polled_packets_total{device=\"seen-passed\"} 0\n"), "{page}");
}

#[test]
fn an_interface_on_top_of_another_is_told_so() {
    let test = "an_interface_on_top_of_another_is_told_so";
    let Some(bench) = Bench::of(test, "seen-below", false).filter(|_| has(test, "ip")) else { return };
    let script = "ip link add mv0 link seen-below type macvlan mode bridge && ip link set mv0 up";
    let made = bench.output(bench.command("sh").args(["-c", script]));
    if !made.status.success() {
        return napier_testkit::skip!(test, "{}", stderr(&made).trim());
    }
    let mut found = Value::Null;
    eventually("it is up", || {
        let output = bench.napier(&["doctor", "--dev", "mv0", "--json"]);
        found = serde_json::from_slice(&output.stdout).expect("JSON");
        !found.to_string().contains("interface-down")
    });
    let text = found["findings"].to_string();
    assert!(text.contains("instances-below") && !text.contains("driver-without-ids"), "{text}");
    assert_eq!(found["serious"], 0, "{text}");
}
