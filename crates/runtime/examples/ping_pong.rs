//! Round trips between two sockets, once with receives that sleep and once with receives that busy poll.
//!
//! A receive that sleeps is woken by interrupt, softirq and futex. One that busy polls (`SO_BUSY_POLL`) fetches the
//! packet itself, and with `SO_PREFER_BUSY_POLL` and deferral the interrupt stays away. Busy polling pays if each of
//! the two threads has a processor of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use napier_runtime::control::NapiSet;
use napier_runtime::device::{DeviceHandle, EndConfig, IfAddr, LinkConfig};
use napier_runtime::engine::Engine;
use napier_runtime::socket::{SocketOption, UdpSocket};

type Failure = Box<dyn std::error::Error>;

/// Per way of receiving.
const RUN: Duration = Duration::from_millis(500);
/// Ends the answering side.
const STOP: &[u8] = b"stop";
const EVERY_ANSWER: &str = "a link loses nothing as long as its rings have room";

pub(crate) fn main() -> Result<(), Failure> {
    let engine = Engine::builder().start()?;
    let (left, right) = link(&engine)?;

    println!("{:<10}{:>10}{:>10}{:>10}{:>10}{:>10}", "ns", "trips", "p50", "p90", "p99", "max");
    report("blocking", run(&left, &right, 0)?);

    // Deferral keeps the interrupts of both ends away from a program that polls in time.
    for device in [&left, &right] {
        engine.napi_set(NapiSet {
            id: Some(u64::from(device.napi_id(0))),
            defer_hard_irqs: Some(100),
            gro_flush_timeout: Some(200_000),
            ..NapiSet::default()
        })?;
    }
    report("busy poll", run(&left, &right, 100)?);
    Ok(())
}

/// Round trips for a while; returns the time of each in ns.
fn run(left: &DeviceHandle, right: &DeviceHandle, busy_poll_usecs: i32) -> Result<Vec<u64>, Failure> {
    let ping = socket(left, "10.7.0.1:1", "10.7.0.2:2", busy_poll_usecs)?;
    let pong = socket(right, "10.7.0.2:2", "10.7.0.1:1", busy_poll_usecs)?;
    // Room for all, so that nothing is allocated while time is taken.
    let mut times = Vec::with_capacity(1 << 20);
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| answer(&pong));
        let begun = Instant::now();
        while times.is_empty() || (begun.elapsed() < RUN && times.len() < times.capacity()) {
            let sent = Instant::now();
            ping.send(b"ping").expect(EVERY_ANSWER);
            ping.recv(&mut [0; 64]).expect(EVERY_ANSWER);
            times.push(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        ping.send(STOP).expect(EVERY_ANSWER);
        answering.join().expect("the answering side does not panic");
    });
    Ok(times)
}

fn answer(socket: &UdpSocket) {
    let mut buffer = [0; 64];
    loop {
        let len = socket.recv(&mut buffer).expect(EVERY_ANSWER);
        if &buffer[..len] == STOP {
            return;
        }
        socket.send(&buffer[..len]).expect(EVERY_ANSWER);
    }
}

fn socket(device: &DeviceHandle, from: &str, to: &str, busy_poll_usecs: i32) -> Result<UdpSocket, Failure> {
    let socket = UdpSocket::bind(device.netns(), from)?;
    socket.connect(to.parse::<SocketAddr>()?)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.setsockopt(SocketOption::BusyPoll, busy_poll_usecs)?;
    socket.setsockopt(SocketOption::PreferBusyPoll, i32::from(busy_poll_usecs != 0))?;
    Ok(socket)
}

fn report(name: &str, mut times: Vec<u64>) {
    assert!(!times.is_empty(), "{name}: at least one round trip");
    times.sort_unstable();
    let at = |permille: usize| times.get(times.len() * permille / 1000).copied().unwrap_or(0);
    let (trips, max) = (times.len(), times.last().copied().unwrap_or(0));
    println!("{name:<10}{trips:>10}{:>10}{:>10}{:>10}{max:>10}", at(500), at(900), at(990));
}

/// Two devices that are each other's peer, each in a name space of its own.
fn link(engine: &Engine) -> Result<(DeviceHandle, DeviceHandle), Failure> {
    let end = |name: &str, last: u8| EndConfig {
        mac: [2, 0, 0, 7, 0, last],
        ..EndConfig::new(name, engine.namespace(), &[IfAddr { addr: [10, 7, 0, last].into(), prefix_len: 24 }])
    };
    Ok(engine.add_link(&LinkConfig::default(), end("left", 1), end("right", 2))?)
}
