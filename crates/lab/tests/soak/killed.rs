//! Clients that are killed: they leave connections of which no segment says that nobody is there any more.
//!
//! `NAPIER_KILLED_CLIENTS` is their number, `NAPIER_KILLED_CONNECTIONS` how many connections each has, `NAPIER_SOAK_SEED` where
//! the draws begin, `NAPIER_KILLED_OVER` one of `memif` and `xdp` if not both. Each client has an engine of its own, so its stack dies with it.

use std::time::{Duration, Instant};

use napier_rng::{Xoshiro256PlusPlus, below, stream};
use napier_testkit::from_env;

use crate::child::{Dev, Said, Task};
use crate::{Program, pair};

/// Until a client that comes from the ports of one that was killed is connected.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Until the server has given back what the killed clients held.
const FORGET_MAX: Duration = Duration::from_secs(120);
/// What it may keep of it: this share of what it had before.
const KEPT_MAX_PERCENT: u64 = 5;
/// Ports that clients come from, in turn.
const PORTS: std::ops::Range<u32> = 10_000..60_000;

/// A server, and what its clients are told.
struct Bench {
    over: &'static str,
    dev: Dev,
    server: Program,
    veth: Option<napier_linux::Veth>,
    connections: u16,
    test: &'static str,
}

impl Bench {
    fn start(over: &'static str, connections: u16, test: &'static str) -> Option<Self> {
        let veth = if over == "xdp" { Some(pair(&over)?) } else { None };
        let dev = match veth {
            Some(_) => Dev::Xdp,
            None => Dev::Memif(format!("@napier-killed-{}", std::process::id())),
        };
        let serve = Task::Serve { dev: dev.clone(), mode: "base".to_owned(), pinned: None };
        let server = Program::start(&serve, veth.as_ref().map(|veth| veth.left().netns()), test);
        server.wait_until_ready(&mut Vec::new());
        Some(Self { over, dev, server, veth, connections, test })
    }

    /// The client of this number. The ports come round again only when all have had their turn.
    fn client(&self, number: u32) -> Program {
        let (connections, dev) = (self.connections, self.dev.clone());
        let rounds = (PORTS.end - PORTS.start) / u32::from(connections);
        let from = PORTS.start + number % rounds * u32::from(connections);
        let from_port = u16::try_from(from).expect("it is in the range");
        let task = Task::Hold { dev, connections, from_port };
        Program::start(&task, self.veth.as_ref().map(|veth| veth.right().netns()), self.test)
    }

    /// Resident memory of the server.
    fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.server.process.id());
        let statm = std::fs::read_to_string(path).expect("the server runs");
        let pages: u64 = statm.split_whitespace().nth(1).expect("two numbers").parse().expect("a number");
        pages * rustix::param::page_size() as u64
    }
}

/// Until a client has all its connections and answers over them, and the longest that one took to connect. `None` if one did
/// not come about.
fn connected(client: &Program) -> Option<Duration> {
    match client.lines.recv_timeout(crate::PATIENCE) {
        Ok(Said::Held { longest_ns }) => Some(Duration::from_nanos(longest_ns)),
        Ok(Said::Broken { why, connection, .. }) => {
            println!("  connection {connection}: {why}");
            None
        }
        other => panic!("a client did not begin: {other:?}"),
    }
}

/// What a server made of its clients' deaths.
struct Left {
    /// When one client had come and gone in order.
    cold_bytes: u64,
    /// When the first tenth was killed and forgotten: tables have grown to what so many need at a time, and stay.
    before_bytes: u64,
    most_bytes: u64,
    after_bytes: u64,
    forgotten_after: Option<Duration>,
    came_back: Option<Duration>,
}

fn kill_clients(bench: &Bench, clients: u32, rng: &mut Xoshiro256PlusPlus) -> Left {
    // One that ends in order, so that what the server needs for so many connections at a time is there.
    let first = bench.client(0);
    assert!(connected(&first).is_some(), "the first client does not connect");
    first.end();
    std::thread::sleep(Duration::from_secs(3));
    let cold_bytes = bench.resident_bytes();
    let (mut before_bytes, mut most_bytes) = (cold_bytes, cold_bytes);
    let first_tenth = (clients / 10).max(1);
    for number in 1..=clients {
        let client = bench.client(number);
        // Every other one dies while it connects or sends, the others once they have all.
        if number % 2 == 0 || number == clients {
            connected(&client);
        }
        std::thread::sleep(Duration::from_millis(u64::from(5 + below(rng, 300))));
        drop(client);
        most_bytes = most_bytes.max(bench.resident_bytes());
        if number == first_tenth {
            std::thread::sleep(FORGET_MAX);
            before_bytes = bench.resident_bytes();
        }
    }
    let killed = Instant::now();
    let next = bench.client(clients);
    let came_back = connected(&next);
    next.end();
    let kept_max = before_bytes + before_bytes * KEPT_MAX_PERCENT / 100;
    let mut forgotten_after = None;
    while forgotten_after.is_none() && killed.elapsed() < FORGET_MAX {
        std::thread::sleep(Duration::from_millis(500));
        forgotten_after = (bench.resident_bytes() <= kept_max).then(|| killed.elapsed());
    }
    Left { cold_bytes, before_bytes, most_bytes, after_bytes: bench.resident_bytes(), forgotten_after, came_back }
}

/// Kills clients over both devices; what went wrong.
pub(crate) fn run(test: &'static str) -> Vec<String> {
    let seed = from_env("NAPIER_SOAK_SEED", 1);
    let clients = u32::try_from(from_env("NAPIER_KILLED_CLIENTS", 20)).expect("NAPIER_KILLED_CLIENTS: fewer");
    let connections = from_env("NAPIER_KILLED_CONNECTIONS", 64);
    let connections = u16::try_from(connections).ok().filter(|n| (1..=10_000).contains(n));
    let connections = connections.expect("NAPIER_KILLED_CONNECTIONS: 1 to 10000");
    println!("\nkilled clients: seed {seed}, {clients} of {connections} connections each");
    let mut wrong = Vec::new();
    let only = std::env::var("NAPIER_KILLED_OVER").ok();
    for over in ["memif", "xdp"].into_iter().filter(|over| only.as_ref().is_none_or(|only| only == over)) {
        let Some(bench) = Bench::start(over, connections, test) else {
            continue;
        };
        let left = kill_clients(&bench, clients, &mut stream(seed, over));
        let kib = |bytes: u64| bytes / 1024;
        println!(
            "{:<6} resident memory {} KiB after one client, {} when the first tenth was forgotten, {} at most, {} after; as \
             before after {:?}; the next client from the same ports: longest connect {:?}",
            bench.over,
            kib(left.cold_bytes),
            kib(left.before_bytes),
            kib(left.most_bytes),
            kib(left.after_bytes),
            left.forgotten_after,
            left.came_back,
        );
        if left.forgotten_after.is_none() {
            wrong.push(format!("{over}: the server keeps the memory of clients that were killed"));
        }
        if left.came_back.is_none_or(|longest| longest > CONNECT_MAX) {
            wrong.push(format!("{over}: a client from the ports of a killed one took {:?} to connect", left.came_back));
        }
        bench.server.end();
    }
    wrong
}
