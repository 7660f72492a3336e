//! A queue's interrupt: put away while the queue is polled, and back when it is not.

use std::net::UdpSocket as KernelSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use napier_runtime::available_cpus;
use napier_runtime::control::NapiSet;
use napier_runtime::device::XdpConfig;
use napier_runtime::socket::{SocketOption, UdpSocket};

use crate::rig::*;

const ROUNDS: u64 = 200;
/// So long is the interrupt deferred after a poll: twice, if the second finds nothing.
const DEFERRAL: Duration = Duration::from_millis(1);
/// Of three sockets: read by busy polling, read by sleeping, and not read.
const SPUN: u16 = 7;
const SLEPT_ON: u16 = 8;
const UNREAD: u16 = 9;

/// A number that differs from call to call, the same in each run.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn socket(xdp: &Xdp, port: u16, busy_poll_us: i32) -> UdpSocket {
    let socket = UdpSocket::bind(&xdp.ns, at(LEFT, port)).expect("bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    socket.setsockopt(SocketOption::BusyPoll, busy_poll_us).expect("set");
    socket.setsockopt(SocketOption::PreferBusyPoll, i32::from(busy_poll_us > 0)).expect("set");
    socket
}

fn deferring(test: &str, pair: &napier_linux::Veth) -> Option<Xdp> {
    let xdp = Xdp::new(test, pair.left(), XdpConfig { ring_size: 256, ..small() }, &[LEFT])?;
    let settings = NapiSet {
        id: Some(u64::from(xdp.device.napi_id(0))),
        defer_hard_irqs: Some(1),
        gro_flush_timeout: Some(u64::try_from(DEFERRAL.as_nanos()).expect("short")),
        ..NapiSet::default()
    };
    xdp.engine.napi_set(settings).expect("set");
    Some(xdp)
}

fn times_put_away(xdp: &Xdp) -> u64 {
    xdp.device.xdp_stats().expect("an interface's device").interrupts_put_away
}

/// Sends packets that are waited for by busy polling, until the interrupt was put away.
fn spin_until_put_away(xdp: &Xdp, spun: &UdpSocket, client: &KernelSocket) {
    let (before, begun) = (times_put_away(xdp), Instant::now());
    while times_put_away(xdp) == before {
        assert!(begun.elapsed() < PATIENCE, "the interrupt stays, however long the queue is polled");
        for _ in 0..24 {
            client.send_to(b"spun", at(LEFT, SPUN)).expect("sent");
            assert_eq!(spun.recv(&mut [0; 8]).expect("received by polling"), 4);
        }
    }
}

/// Sends packets to a sleeper until one of them comes by an interrupt. None may be lost meanwhile.
fn sleep_until_interrupted(xdp: &Xdp, slept_on: &UdpSocket, client: &KernelSocket, random: &mut u64) {
    let (before, begun) = (xdp.device.stats().interrupts, Instant::now());
    while xdp.device.stats().interrupts == before {
        assert!(begun.elapsed() < PATIENCE, "no interrupt, however long nobody polls");
        // From in the middle of a deferral to long after it.
        std::thread::sleep(Duration::from_micros(next(random) % 4_000));
        client.send_to(b"slept", at(LEFT, SLEPT_ON)).expect("sent");
        assert_eq!(slept_on.recv(&mut [0; 8]).expect("received by interrupt or timer"), 5);
    }
}

/// Packets that come at any time, in bursts, till `stop`.
fn chatter(client: &KernelSocket, on: &AtomicBool, stop: &AtomicBool) {
    let mut random = 7;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_micros(next(&mut random) % 5_000));
        for _ in 0..next(&mut random) % 8 {
            if on.load(Ordering::Relaxed) {
                client.send_to(b"chatter", at(LEFT, UNREAD)).expect("sent");
            }
        }
    }
}

#[test]
fn an_interrupt_that_was_put_away_comes_back() {
    let test = "an_interrupt_that_was_put_away_comes_back";
    let Some(pair) = veth(test, 1) else { return };
    let Some(xdp) = deferring(test, &pair) else { return };
    let (spun, slept_on, unread) = (socket(&xdp, SPUN, 5_000), socket(&xdp, SLEPT_ON, 0), socket(&xdp, UNREAD, 0));
    let client = kernel_udp(pair.right(), at(RIGHT_KERNEL, 0));
    let (on, stop, cpus) = (AtomicBool::new(false), AtomicBool::new(false), available_cpus());
    std::thread::scope(|scope| {
        let chattering = scope.spawn(|| chatter(&client, &on, &stop));
        let stop_at_end = StopAtEnd(&stop);
        let mut random = 1;
        for round in 0..ROUNDS {
            // Half of the rounds in silence: there is nothing that would come to the aid of a lost interrupt.
            on.store(round % 2 == 1, Ordering::Relaxed);
            spin_until_put_away(&xdp, &spun, &client);
            match round % 5 {
                0 => {
                    let cpu = cpus[next(&mut random) as usize % cpus.len()];
                    xdp.engine.set_irq_affinity(xdp.device.napi_id(0), cpu).expect("moved");
                }
                1 => {
                    xdp.device.set_down();
                    xdp.device.set_up().expect("up");
                }
                _ => {}
            }
            sleep_until_interrupted(&xdp, &slept_on, &client, &mut random);
        }
        drop(stop_at_end);
        chattering.join().expect("no panic");
    });
    assert!(times_put_away(&xdp) >= ROUNDS);
    drop((spun, slept_on, unread));
}

/// A request at a time, each waited for by sleeping: then the interrupt is worth its place.
#[test]
fn an_interrupt_that_is_needed_is_not_put_away() {
    let test = "an_interrupt_that_is_needed_is_not_put_away";
    let Some(pair) = veth(test, 1) else { return };
    let Some(xdp) = Xdp::new(test, pair.left(), small(), &[LEFT]) else { return };
    let slept_on = socket(&xdp, SLEPT_ON, 0);
    let client = kernel_udp(pair.right(), at(RIGHT_KERNEL, 0));
    for _ in 0..300 {
        client.send_to(b"slept", at(LEFT, SLEPT_ON)).expect("sent");
        assert_eq!(slept_on.recv(&mut [0; 8]).expect("received"), 5);
    }
    assert_eq!(times_put_away(&xdp), 0);
}

/// Lets the other thread end however this one ends.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
