//! An echo server by the kernel, by the slow door and by the fast one, in turn: what a round trip takes, and how many there are of several connections.
//! `cargo test --release -p napier-door --test programs -- --ignored --nocapture round_trips_by_each_door`

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use napier_linux::process::{HeldSends, sockets_preload_for};
use napier_testkit::from_env;

use super::{Stand, Started};

const ECHO_BYTES: usize = 64;

/// The example of this package that is an echo server.
fn server() -> PathBuf {
    let own = std::env::current_exe().expect("this file");
    own.parent().and_then(|folder| folder.parent()).expect("target/PROFILE/deps").join("examples/plain_echo")
}

/// Round trips one after the other, by blocking calls: the nanoseconds of each.
fn trips(stream: &mut TcpStream, span: Duration) -> Vec<u64> {
    let (mut bytes, begun, mut all) = ([7; ECHO_BYTES], Instant::now(), Vec::new());
    while begun.elapsed() < span {
        let sent = Instant::now();
        stream.write_all(&bytes).expect("sent");
        stream.read_exact(&mut bytes).expect("answered");
        all.push(u64::try_from(sent.elapsed().as_nanos()).expect("short"));
    }
    all
}

struct Seen {
    median_ns: u64,
    per_second: f64,
}

/// One connection, then several at once, each with `depth` messages on their way.
fn measure(stand: &Stand, to: SocketAddr) -> Seen {
    let connect = || stand.pair.right().netns().run(|| TcpStream::connect(to)).expect("entered").expect("connected");
    let (connections, depth) = (from_env("NAPIER_CONNECTIONS", 8), from_env("NAPIER_DEPTH", 1) as usize);
    let span = Duration::from_millis(from_env("NAPIER_MS", 500));
    let mut one = connect();
    one.set_nodelay(true).expect("set");
    trips(&mut one, span / 5);
    let mut all = trips(&mut one, span);
    all.sort_unstable();
    drop(one);
    let streams: Vec<_> = (0..connections).map(|_| connect()).collect();
    let begun = Instant::now();
    let counts: Vec<_> = streams
        .into_iter()
        .map(|mut stream| {
            std::thread::spawn(move || {
                stream.set_nodelay(true).expect("set");
                let (mut bytes, mut count) = (vec![7; ECHO_BYTES * depth], 0);
                while begun.elapsed() < span {
                    stream.write_all(&bytes).expect("sent");
                    stream.read_exact(&mut bytes).expect("answered");
                    count += depth;
                }
                count
            })
        })
        .collect();
    let count: usize = counts.into_iter().map(|thread| thread.join().expect("measured")).sum();
    Seen { median_ns: all[all.len() / 2], per_second: count as f64 / begun.elapsed().as_secs_f64() }
}

const NAMES: [&str; 3] = ["kernel", "slow", "fast"];

/// Starts a program by a way.
#[expect(clippy::zombie_processes, reason = "it ends with this process")]
fn start(stand: &Stand, way: usize, mut command: Command) -> (Started, Box<dyn std::io::BufRead>) {
    if way > 0 {
        let (started, said) = stand.start(HeldSends::None, command);
        return (started, Box::new(said));
    }
    let start = || command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut child = stand.pair.left().netns().run(start).expect("entered");
    let said = BufReader::new(child.stdout.take().expect("a pipe"));
    (Started(child.id()), Box::new(said))
}

fn sorted(figures: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = figures.collect();
    all.sort_by(f64::total_cmp);
    all
}

/// In the mode that `NAPIER_MODE` names.
fn stand_of(test: &str) -> Option<Stand> {
    let mode = std::env::var("NAPIER_MODE").ok().map(|mode| mode.parse().expect("a mode"));
    Stand::new(test, mode)
}

/// Where the server of a way is: at the kernel, or at the engine.
fn at_way(way: usize, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 79, 0, if way == 0 { 1 } else { 9 }], port))
}

/// Starts the server at an address, by its way.
fn begin(stand: &Stand, way: usize, to: SocketAddr) -> (Started, impl Sized) {
    let library = (way == 2).then(|| sockets_preload_for(server().as_os_str()).expect("a library"));
    let mut command = Command::new(server());
    command.arg(to.to_string()).envs(library.map(|library| ("LD_PRELOAD", library)));
    let (started, mut said) = start(stand, way, command);
    let mut line = String::new();
    said.read_line(&mut line).expect("it speaks");
    assert!(line.starts_with("ready"), "{line:?}");
    (started, said)
}

#[test]
#[ignore = "it takes a minute and measures: see the head of this file"]
fn round_trips_by_each_door() {
    let test = "round_trips_by_each_door";
    let Some(stand) = stand_of(test) else { return };
    let mut all: [Vec<Seen>; 3] = Default::default();
    for round in 0..from_env("NAPIER_ROUNDS", 10) {
        for at in 0..3 {
            let way = (at + round as usize) % 3;
            let to = at_way(way, 7040 + round as u16);
            let server = begin(&stand, way, to);
            all[way].push(measure(&stand, to));
            let counts = stand.shown().counts;
            eprintln!("{}: {} bytes past sockets, {} through them", NAMES[way], counts.fast_bytes, counts.pair_bytes);
            drop(server);
        }
    }
    for way in 0..3 {
        let ratio = |figure: fn(&Seen) -> f64, of: usize| {
            let all = sorted(all[way].iter().zip(&all[of]).map(|(one, other)| figure(one) / figure(other)));
            format!("{:.2} ({:.2} to {:.2})", all[all.len() / 2], all[0], all[all.len() - 1])
        };
        let mid = |figure: fn(&Seen) -> f64| {
            let all = sorted(all[way].iter().map(figure));
            all[all.len() / 2]
        };
        let trip: fn(&Seen) -> f64 = |seen| seen.median_ns as f64;
        let rate: fn(&Seen) -> f64 = |seen| seen.per_second;
        eprintln!(
            "{}: round trip {:.0} ns, {} of the kernel's, {} of the slow door's; {:.0} a second, {} of the kernel's, {} of the slow door's",
            NAMES[way],
            mid(trip),
            ratio(trip, 0),
            ratio(trip, 1),
            mid(rate),
            ratio(rate, 0),
            ratio(rate, 1)
        );
    }
}

/// A server and a load of others: `NAPIER_SERVER` and `NAPIER_LOAD` are commands of a shell, where `HOST` and `PORT` stand for the address.
/// `NAPIER_SERVER="exec redis-server --bind HOST --port PORT --save '' --protected-mode no" NAPIER_LOAD="redis-benchmark -h HOST -p PORT -q -t get" ...`
#[test]
#[ignore = "it is told what to run: see above it"]
fn others_by_each_door() {
    let test = "others_by_each_door";
    let Some(stand) = stand_of(test) else { return };
    for round in 0..from_env("NAPIER_ROUNDS", 3) {
        for way in [0, 1, 2] {
            let to = at_way(way, 7060 + round as u16);
            let words = |name: &str| {
                let text = std::env::var(name).expect("it is told what to run");
                text.replace("HOST", &to.ip().to_string()).replace("PORT", &to.port().to_string())
            };
            let mut command = Command::new("sh");
            command.arg("-c").arg(words("NAPIER_SERVER"));
            let library = (way == 2).then(|| sockets_preload_for("sh".as_ref()).expect("a library"));
            command.envs(library.map(|library| ("LD_PRELOAD", library)));
            let (started, _said) = start(&stand, way, command);
            let is_up = || stand.pair.right().netns().run(|| TcpStream::connect(to)).expect("entered").is_ok();
            napier_testkit::eventually("it is up", is_up);
            let load = || Command::new("sh").arg("-c").arg(words("NAPIER_LOAD")).output().expect("it runs");
            let output = stand.pair.right().netns().run(load).expect("entered");
            let counts = stand.shown().counts;
            eprintln!("{} {}", NAMES[way], String::from_utf8_lossy(&output.stdout).replace('\r', "\n").trim());
            eprintln!("  {counts:?}");
            drop(started);
        }
    }
}
