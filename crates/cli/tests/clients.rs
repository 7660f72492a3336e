//! Clients that hold a server's memory: it stays inside its limit, comes back, and others are served meanwhile.
//!
//! `NAPIER_CLIENTS` says how many there are of each kind; each takes a descriptor.

mod common;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Folder, Running, end, free_port, start, started};
use napier_lab::device::Device;
use napier_lab::serve::device::{DeviceConfig, OneDevice};

/// Longest time that anything may take. Only a stall takes that long.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the server may have for records and connections.
const MEMORY_MIB: usize = 64;

/// What it may take beside that from its start on: docs/decisions/0026, "Beside the account".
const BESIDE_MIB: usize = 24;

/// What may be left of it in the end, records being forgotten.
const LEFT_MIB: usize = 24;

const VALUE_BYTES: usize = 1 << 20;

fn clients() -> usize {
    usize::try_from(napier_testkit::from_env("NAPIER_CLIENTS", 300)).expect("a number of clients")
}

trait Wire: Read + Write {}

impl<T: Read + Write> Wire for T {}

/// `None`: there is no place for the connection, and it was reset before this end knew of it.
type Connect<'a> = dyn Fn() -> Option<Box<dyn Wire>> + Sync + 'a;

/// What clients of a kind send; the one that behaves may help.
type Attack = fn(&mut [Box<dyn Wire>], &mut Good);

/// Where the clients are.
enum Net {
    Kernel(SocketAddr),
    Engine(Box<OneDevice>, SocketAddr),
}

impl Net {
    fn connect(&self) -> Option<Box<dyn Wire>> {
        Some(match self {
            Self::Kernel(at) => {
                let stream = std::net::TcpStream::connect_timeout(at, PATIENCE).expect("it takes connections");
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
                stream.set_nodelay(true).expect("an option");
                Box::new(stream)
            }
            Self::Engine(one, at) => {
                let builder = napier_runtime::socket::TcpStream::builder().nodelay(true).connect_timeout(PATIENCE);
                let stream = match builder.connect(&one.netns, *at) {
                    Ok(stream) => stream,
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                    Err(error) => panic!("it takes no connections: {error}"),
                };
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
                Box::new(stream)
            }
        })
    }
}

/// A client that behaves.
struct Good(BufReader<Box<dyn Wire>>);

impl Good {
    fn new(connect: &Connect<'_>) -> Self {
        Self(BufReader::new(connect().expect("there is a place")))
    }

    fn say(&mut self, request: &[u8]) {
        self.0.get_mut().write_all(request).expect("the server reads");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the server answers");
        line
    }

    fn ask(&mut self, request: &[u8], expected: &str) {
        self.say(request);
        assert_eq!(self.line(), expected);
    }

    fn stat(&mut self, name: &str) -> u64 {
        self.say(b"stats\r\n");
        let mut found = None;
        loop {
            let line = self.line();
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["END"] => return found.expect("the server has it"),
                ["STAT", its, value] if its == name => found = Some(value.parse().expect("a number")),
                ["STAT", ..] => {}
                _ => panic!("{line:?}"),
            }
        }
    }

    /// Stores and fetches a small record 2000 times, and goes on until `is_over`; half of the 99th percentile of the
    /// time of both, in us.
    fn p99_us(&mut self, is_over: &AtomicBool) -> u128 {
        let mut times = Vec::new();
        while times.len() < 2000 || !is_over.load(Ordering::Relaxed) {
            let begun = Instant::now();
            self.ask(b"set small 0 0 2\r\nhi\r\n", "STORED\r\n");
            self.say(b"get small\r\n");
            // It may have made room meanwhile.
            let answer = self.line();
            if answer != "END\r\n" {
                let lines = [answer, self.line(), self.line()];
                assert_eq!(lines.concat(), "VALUE small 0 2\r\nhi\r\nEND\r\n");
            }
            times.push(begun.elapsed().as_micros() / 2);
        }
        times.sort_unstable();
        times[times.len() * 99 / 100]
    }
}

/// Ends a measurement, also if what it is measured beside fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A line of `/proc/PID/status`, in MiB.
fn memory_mib(server: &Running, name: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.0.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel says so");
    let kib: usize = line.trim_matches([':', ' ', '\t']).trim_end_matches(" kB").parse().expect("a number");
    kib >> 10
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sends as much as the server takes; one that was closed for want of memory takes less.
fn send(wire: &mut dyn Wire, bytes: &[u8]) {
    match wire.write_all(bytes) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
        Err(error) => panic!("the server does not read: {error}"),
    }
}

fn starts_of_lines(wires: &mut [Box<dyn Wire>], _: &mut Good) {
    for wire in wires {
        send(&mut **wire, b"get");
    }
}

fn values_without_their_ends(wires: &mut [Box<dyn Wire>], _: &mut Good) {
    let value = [format!("set big 0 0 {VALUE_BYTES}\r\n").as_bytes(), &vec![b'x'; VALUE_BYTES - 5]].concat();
    for wire in wires {
        send(&mut **wire, &value);
    }
}

/// It is stored again and again: what is held for those who do not read takes it away.
fn answers_that_nobody_reads(wires: &mut [Box<dyn Wire>], good: &mut Good) {
    let value = [format!("set big 0 0 {VALUE_BYTES}\r\n").as_bytes(), &vec![b'x'; VALUE_BYTES], b"\r\n"].concat();
    for (index, wire) in wires.iter_mut().enumerate() {
        if index % 8 == 0 {
            good.say(&value);
            let answer = good.line();
            assert!(answer == "STORED\r\n" || answer.starts_with("SERVER_ERROR out of memory"), "{answer}");
        }
        send(&mut **wire, &b"get big\r\n".repeat(50));
    }
}

fn attack(test: &str, server: &Running, connect: &Connect<'_>) {
    let attacks: [(&str, Attack); 3] = [
        ("starts of lines", starts_of_lines),
        ("values without their ends", values_without_their_ends),
        ("answers that nobody reads", answers_that_nobody_reads),
    ];
    let mut good = Good::new(connect);
    let before_us = good.p99_us(&AtomicBool::new(true));
    let at_start_mib = memory_mib(server, "VmRSS");
    for (name, run) in attacks {
        // Peaks are of each attack on its own, where the kernel lets us say so.
        let _ = std::fs::write(format!("/proc/{}/clear_refs", server.0.id()), "5");
        let (is_over, mut wires) = (AtomicBool::new(false), Vec::new());
        let during_us = std::thread::scope(|scope| {
            let beside = scope.spawn(|| Good::new(connect).p99_us(&is_over));
            {
                let _over = Over(&is_over);
                wires.extend((0..clients()).filter_map(|_| connect()));
                run(&mut wires, &mut good);
            }
            beside.join().expect("it is served")
        });
        // Whatever they ask for, it is served or refused.
        let mut read = 0;
        wait_for("the server comes to rest", || {
            let before = std::mem::replace(&mut read, good.stat("bytes_read"));
            read - before < 100
        });
        let under_us = good.p99_us(&AtomicBool::new(true));
        let (held, limit) = (good.stat("bytes") + good.stat("connections_bytes"), good.stat("limit_maxbytes"));
        assert!(held <= limit, "{name}: {held} of {limit} bytes");
        let peak_mib = memory_mib(server, "VmHWM");
        assert!(peak_mib <= at_start_mib + MEMORY_MIB + BESIDE_MIB, "{name}: {at_start_mib} MiB, then {peak_mib}");
        drop(wires);
        wait_for("all connections are gone", || good.stat("curr_connections") == 1);
        good.ask(b"flush_all\r\n", "OK\r\n");
        wait_for("memory comes back", || memory_mib(server, "VmRSS") <= at_start_mib + LEFT_MIB);
        // Past the test's capture: a figure for whoever asks for it.
        let _ = writeln!(
            std::io::stderr(),
            "{test}: {} clients with {name}: {at_start_mib} MiB at start, peak {peak_mib}, {} after; p99 of a good client \
             {before_us} us before, {during_us} us while they come, {under_us} us beside them; refused: {} connections, {} requests; {} closed",
            clients(),
            memory_mib(server, "VmRSS"),
            good.stat("rejected_connections"),
            good.stat("read_buf_oom"),
            good.stat("response_obj_oom"),
        );
    }
}

fn limits() -> [String; 4] {
    // A good client, and those of a round before that are still being closed.
    let connections = 2 * clients() + 8;
    ["--memory".to_owned(), MEMORY_MIB.to_string(), "--connections".to_owned(), connections.to_string()]
}

#[test]
fn clients_on_kernel_sockets_take_no_more_than_there_is() {
    let port = free_port();
    let limits = limits();
    let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
    let server = start(&[&["serve", "kv", "--port", &port.to_string()], &limits[..]].concat());
    let net = Net::Kernel(([127, 0, 0, 1], port).into());
    attack("kernel", &server, &|| net.connect());
    end(server);
}

#[test]
fn clients_on_the_engine_take_no_more_than_there_is() {
    let folder = Folder::new("clients-memif");
    let socket = folder.file("memif.sock");
    let limits = limits();
    let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
    let args = ["serve", "kv", "--dev", &format!("memif:{socket}"), "--ip", "10.78.0.1/24"];
    let server = start(&[&args[..], &limits[..]].concat());
    let config = DeviceConfig::new(Device::Memif { socket: Some(socket) }, IpAddr::from([10, 78, 0, 2]), 24);
    let one = OneDevice::start(&config).expect("the server is there");
    assert!(one.device.wait_link(PATIENCE), "{:?}", one.device.link_state());
    let net = Net::Engine(Box::new(one), ([10, 78, 0, 1], 11_211).into());
    attack("memif", &server, &|| net.connect());
    end(server);
}

/// Reads until the server closes.
fn last_words(stream: &mut std::net::TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut words = Vec::new();
    stream.read_to_end(&mut words).expect("the server closes");
    String::from_utf8(words).expect("it is text")
}

#[test]
fn connections_over_the_limit_and_idle_ones_are_ended() {
    let port = free_port();
    // The first one is there still when the second one comes, on a busy machine too.
    let args = ["serve", "kv", "--port", &port.to_string(), "--connections", "1", "--idle-timeout", "4"];
    let server = start(&args);
    let at = ("127.0.0.1", port);
    let mut first = std::net::TcpStream::connect(at).expect("it takes connections");
    first.write_all(b"get").expect("it reads");
    let mut second = std::net::TcpStream::connect(at).expect("the kernel takes it");
    assert_eq!(last_words(&mut second), "ERROR Too many open connections\r\n");
    assert_eq!(last_words(&mut first), "", "nothing was asked of it");
    let mut good = Good::new(&|| Some(Box::new(std::net::TcpStream::connect(at).expect("it takes connections"))));
    let counted = ["max_connections", "rejected_connections", "idle_kicks"].map(|name| good.stat(name));
    assert_eq!(counted, [1, 1, 1]);
    end(server);
}

#[test]
fn a_server_without_descriptors_waits_for_one() {
    let port = free_port();
    let script = format!("ulimit -n 24; exec {} serve kv --port {port}", common::NAPIER);
    let server = started(Command::new("sh").args(["-c", &script]));
    let connect = || std::net::TcpStream::connect(("127.0.0.1", port)).expect("the kernel takes it");
    let mut good = Good::new(&|| Some(Box::new(connect())));
    good.ask(b"mn\r\n", "MN\r\n");
    let mut others: Vec<_> = (0..40).map(|_| connect()).collect();
    wait_for("it finds out", || good.stat("listen_disabled_num") > 2);
    let served = good.stat("curr_connections");
    assert!((2..24).contains(&served), "{served} connections");
    // Those that go make room for those that wait.
    let last = others.pop().expect("there are many");
    drop(others);
    let mut last = Good::new(&|| Some(Box::new(last.try_clone().expect("a descriptor"))));
    last.ask(b"mn\r\n", "MN\r\n");
    end(server);
}
