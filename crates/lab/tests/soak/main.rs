//! Connections over memif and AF_XDP between two processes that are starved and stopped: none stands still for longer than
//! what was done to it.
//!
//! `NAPIER_SOAK_SECONDS` is the length of the whole, `NAPIER_SOAK_SEED` where its draws begin, `NAPIER_SOAK_CONNECTIONS` the
//! number of connections (16 to 64, drawn if not given), `NAPIER_SOAK_CELLS` what is run (`memif/base,xdp/suspend20/pinned`; by
//! default all, in less than two minutes half of them). A silence is a fault unless it is known that the system gave no CPU for as long; how often that was so is
//! printed.

mod child;
mod disturb;
mod judge;
mod killed;
mod watch;

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use child::{Dev, Said, Silence, TASK, Task};
use disturb::{Disturbance, Disturber, Kind};
use judge::{Blame, Judged, incidents, journal, judge};
use napier_linux::Netns;
use napier_rng::{below, stream};
use napier_testkit::from_env;
use napier_testnet::{self as net, Veth, VethConfig};
use watch::{Span, Watch};

/// Longest time that a child may take to begin or to end. Only a hang takes that long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Modes in which the server's packets are delivered.
const MODES: [&str; 5] = ["base", "threaded", "suspend20", "napibusy", "fullbusy"];
/// Incidents that are printed in full, per cell.
const PRINTED_MAX: usize = 3;

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).expect("the machine has booted") * 1_000_000_000
        + u64::try_from(now.tv_nsec).expect("a fraction")
}

/// A child process and its lines. It ends with this.
struct Program {
    process: Child,
    lines: Receiver<Said>,
}

impl Program {
    fn start(task: &Task, netns: Option<&Netns>, test: &str) -> Self {
        let begin = || {
            Command::new(std::env::current_exe().expect("it is running"))
                .args(["--exact", test, "--nocapture", "--include-ignored"])
                .env(TASK, serde_json::to_string(task).expect("it can be written"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("this binary starts")
        };
        let mut process = netns.map_or_else(begin, |netns| netns.run(begin).expect("the namespace is there"));
        let (say, lines) = channel();
        let out = BufReader::new(process.stdout.take().expect("it is piped"));
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once(child::MARK) {
                    let said = serde_json::from_str(said).unwrap_or_else(|error| panic!("{said}: {error}"));
                    if say.send(said).is_err() {
                        break;
                    }
                }
            }
        });
        Self { process, lines }
    }

    fn wait_until_ready(&self, silences: &mut Vec<Silence>) {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(Said::Ready) => return,
                // Before all connections are there nothing counts.
                Ok(Said::Silence(_)) => silences.clear(),
                other => panic!("a program did not begin: {other:?}"),
            }
        }
    }

    /// Tells it to end, and takes what it said.
    fn end(mut self) -> Vec<Said> {
        drop(self.process.stdin.take());
        let mut said = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(one) => said.push(one),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("a program hangs when it is told to end"),
            }
        }
        let status = self.process.wait().expect("it can be waited for");
        assert!(status.success(), "a program failed: {status}");
        said
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One device in one mode.
struct SoakCell {
    over: &'static str,
    mode: &'static str,
    /// Whether the engines' softirq threads are pinned. `serve kv` does not ask for it.
    pinned: bool,
}

impl fmt::Display for SoakCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}{}", self.over, self.mode, if self.pinned { "/pinned" } else { "" }))
    }
}

/// What came of a cell.
struct SoakOutcome {
    requests: u64,
    broken: Vec<String>,
    judged: Vec<Judged>,
    done: Vec<Disturbance>,
    seen: watch::Watched,
}

impl SoakCell {
    /// Runs both programs, with what `disturb` does to them. `None` where the machine does not let us.
    fn run(
        &self,
        test: &str,
        connections: usize,
        disturb: impl FnOnce(u32, u32) -> Vec<Disturbance>,
    ) -> Option<SoakOutcome> {
        let cpus = napier_runtime::available_cpus();
        let pinned = self.pinned.then_some(cpus[0]);
        let veth = if self.over == "xdp" { Some(pair(self)?) } else { None };
        let dev = match veth {
            Some(_) => Dev::Xdp,
            None => Dev::Memif(format!("@napier-soak-{}-{}", std::process::id(), self.mode)),
        };
        let serve = Task::Serve { dev: dev.clone(), mode: self.mode.to_owned(), pinned };
        let server = Program::start(&serve, veth.as_ref().map(|veth| veth.left().netns()), test);
        let mut before = Vec::new();
        server.wait_until_ready(&mut before);
        let load = Task::Load { dev, connections, pinned };
        let client = Program::start(&load, veth.as_ref().map(|veth| veth.right().netns()), test);
        client.wait_until_ready(&mut before);
        let (server_pid, client_pid) = (server.process.id(), client.process.id());
        let watch = Watch::begin(&[("server", server_pid), ("client", client_pid)], &cpus);
        let done = disturb(server_pid, client_pid);
        let said = client.end();
        let seen = watch.end();
        server.end();
        let mut outcome = SoakOutcome { requests: 0, broken: Vec::new(), judged: Vec::new(), done, seen };
        for one in said {
            match one {
                Said::Ready | Said::Held { .. } => {}
                Said::Silence(silence) => outcome.judged.push(judge(silence, &outcome.done, &outcome.seen)),
                Said::Broken { connection, why, .. } => outcome.broken.push(format!("connection {connection}: {why}")),
                Said::Done { requests } => outcome.requests = requests,
            }
        }
        Some(outcome)
    }

    /// Prints a line and the journals of incidents; the number of faults.
    fn report(&self, outcome: SoakOutcome, connections: usize) -> usize {
        let SoakOutcome { requests, broken, judged, done, seen } = outcome;
        let beyond_ns = judged.iter().map(|one| one.beyond_ns).max().unwrap_or(0);
        let count = |of: fn(&Kind) -> bool| done.iter().filter(|one| of(&one.kind)).count();
        let incidents: Vec<_> =
            incidents(judged).into_iter().filter(|(worst, _)| worst.verdict != Blame::Fine).collect();
        let verdicts = |of: fn(&Blame) -> bool| incidents.iter().filter(|(worst, _)| of(&worst.verdict)).count();
        let faults = verdicts(|verdict| *verdict == Blame::Fault) + broken.len();
        println!(
            "{self:<23} {connections:>3} connections {requests:>8} requests, {} stops, {} busy loops, {} hogs; longest \
             silence beyond a stop {:>5} ms; incidents: {} without a CPU, {} without the machine, {} faults",
            count(|kind| matches!(kind, Kind::Stop { .. })),
            count(|kind| matches!(kind, Kind::BusyLoops(_))),
            count(|kind| matches!(kind, Kind::Hog { .. })),
            beyond_ns / 1_000_000,
            verdicts(|verdict| matches!(verdict, Blame::NoCpu { .. })),
            verdicts(|verdict| matches!(verdict, Blame::NoMachine { .. })),
            faults,
        );
        for why in broken.iter().take(PRINTED_MAX) {
            println!("  {why}");
        }
        for (worst, count) in incidents.iter().filter(|(worst, _)| worst.verdict == Blame::Fault).take(PRINTED_MAX) {
            print!("{}", journal(worst, *count, &done, &seen));
        }
        for (worst, count) in incidents.iter().filter(|(worst, _)| worst.verdict != Blame::Fault).take(PRINTED_MAX) {
            println!("  excluded: {count} connections, {} ms: {:?}", worst.beyond_ns / 1_000_000, worst.verdict);
        }
        faults
    }
}

/// A pair whose first end the engine has; the kernel's address there is one that nobody asks.
fn pair(what: &dyn fmt::Display) -> Option<Veth> {
    let ends = net::ends(("server", &["10.79.0.101/24"]), ("client", &["10.79.0.2/24"]));
    net::pair(what, &VethConfig { tso: false, tx_checksum: false, ..ends })
}

/// Below this each device and mode is run either pinned or not, by the seed.
const ALL_CELLS_FROM: Duration = Duration::from_secs(120);

/// Those that were asked for, or all that there is time for.
fn cells(seed: u64, length: Duration) -> Vec<SoakCell> {
    let all = ["memif", "xdp"].into_iter().flat_map(|over| MODES.map(|mode| (over, mode)));
    let all = all.flat_map(|(over, mode)| [false, true].map(|pinned| SoakCell { over, mode, pinned }));
    let wanted = std::env::var("NAPIER_SOAK_CELLS").unwrap_or_default();
    let cells: Vec<_> = if wanted.is_empty() {
        let first = seed % 2;
        let turn = |at: u64| length >= ALL_CELLS_FROM || at % 2 == (at / 2 + first) % 2;
        (0..).zip(all).filter(|(at, _)| turn(*at)).map(|(_, cell)| cell).collect()
    } else {
        all.filter(|cell| wanted.split(',').any(|name| name == cell.to_string())).collect()
    };
    assert!(!cells.is_empty(), "NAPIER_SOAK_CELLS={wanted}: give names such as memif/base,xdp/threaded/pinned");
    cells
}

#[test]
#[ignore = "takes a minute and wants the machine for itself: cargo test --release -p napier-lab --test soak -- --include-ignored"]
fn connections_go_on() {
    if child::run().is_some() {
        return;
    }
    let seed = from_env("NAPIER_SOAK_SEED", 1);
    let length = Duration::from_secs(from_env("NAPIER_SOAK_SECONDS", 60));
    println!("\nsoak: seed {seed}, {} s (NAPIER_SOAK_SEED, NAPIER_SOAK_SECONDS)", length.as_secs());
    let (cells, cpus) = (cells(seed, length), napier_runtime::available_cpus());
    let each = length / u32::try_from(cells.len()).expect("a few");
    let (mut hogs, mut without_hogs, mut faults) = (0, false, 0);
    for cell in &cells {
        let mut rng = stream(seed, &cell.to_string());
        let drawn = 16 + below(&mut rng, 49);
        let connections = usize::try_from(from_env("NAPIER_SOAK_CONNECTIONS", u64::from(drawn))).expect("a number");
        let outcome = cell.run("connections_go_on", connections, |server, client| {
            let mut disturber = Disturber { rng, server, client, cpus: cpus.clone(), hogs, without_hogs };
            let done = disturber.run(each);
            (hogs, without_hogs) = (disturber.hogs, disturber.without_hogs);
            done
        });
        faults += outcome.map_or(0, |outcome| cell.report(outcome, connections));
    }
    if without_hogs {
        napier_testkit::skip!("connections_go_on", "the hog: real-time scheduling is not allowed here");
    }
    assert_eq!(faults, 0, "seed {seed}: connections stood still, or broke, without a reason that is known; see above");
}

/// The test above sees a silence of which it knows no reason.
#[test]
fn a_stop_that_nobody_announced_is_seen() {
    if child::run().is_some() {
        return;
    }
    // The client may have no CPU for a part of it.
    const LENGTH: Duration = Duration::from_millis(800);
    let cell = SoakCell { over: "memif", mode: "base", pinned: false };
    let mut span = None;
    let outcome = cell.run("a_stop_that_nobody_announced_is_seen", 4, |server, _| {
        let from_ns = now_ns();
        disturb::stop_for(server, LENGTH);
        span = Some(Span { from_ns, to_ns: now_ns() });
        std::thread::sleep(Duration::from_millis(200));
        Vec::new()
    });
    let (outcome, span) = (outcome.expect("memif needs no privilege"), span.expect("it was stopped"));
    assert_eq!(outcome.broken, Vec::<String>::new());
    let silent_ns = |one: &&Judged| Span { from_ns: one.silence.from_ns, to_ns: one.silence.to_ns }.overlap_ns(span);
    let longest = outcome.judged.iter().max_by_key(silent_ns).expect("a silence was seen");
    // A request leaves at most a hundredth of a second after the answer before it, where the machine is there.
    assert!(longest.beyond_ns > judge::BEYOND_MAX_NS && longest.verdict != Blame::Fine, "{longest:?}");
    assert!(u128::from(silent_ns(&longest)) > LENGTH.as_nanos() / 4, "{longest:?}");
    let announced = Disturbance { kind: Kind::Stop { server: true }, span };
    let judged = judge(longest.silence, &[announced], &outcome.seen);
    assert_eq!(judged.beyond_ns + silent_ns(&longest), longest.beyond_ns, "what was announced does not count");
}

#[test]
#[ignore = "takes ten minutes: cargo test --release -p napier-lab --test soak -- --include-ignored killed_clients"]
fn killed_clients_leave_nothing() {
    if child::run().is_some() {
        return;
    }
    assert_eq!(killed::run("killed_clients_leave_nothing"), Vec::<String>::new());
}
