//! Every way of receiving delivers everything, and any of them can be changed for any other while traffic flows.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use napier_runtime::available_cpus;
use napier_runtime::control::NapiSet;
use napier_runtime::device::{Coalesce, DeviceHandle, EndConfig, LinkConfig, PollContext};
use napier_runtime::engine::Engine;
use napier_runtime::event::{EventContext, Interest};
use napier_runtime::raw::{RawBusyPoll, RawPoller, RawPort};
use napier_runtime::socket::UdpSocket;

use crate::common::modes::{Mode, echo, echo_blocking, echo_by_events, echo_raw, round_trips, stop};
use crate::common::{Dice, PEER_V4, PEER_V6, Pair, TESTED_V4, TESTED_V6, bound, eventually, stats_of, v4, v6};

const COUNT: usize = 400;
const WINDOW: usize = 32;

/// Takes round trips until the way of polling that a mode promises has brought something: on a busy machine softirq may be first.
fn until_polled(mode: Mode, device: &DeviceHandle, mut trips: impl FnMut()) {
    let by = match mode {
        Mode::ThreadedBusyPoll => PollContext::KthreadBusy,
        Mode::BusyRead | Mode::SeparatePoller | Mode::EventBusyPoll => PollContext::User,
        _ => return,
    };
    eventually("the mode's own polls bring something", || {
        trips();
        stats_of(device).packets[by] > 0
    });
}

/// What each mode promises about who polls; nothing is promised where two may be first.
fn check_poller(mode: Mode, device: &DeviceHandle) {
    // One reading: the last round may be counted at any time.
    let stats = stats_of(device);
    let (of, all) = (|context: PollContext| stats.packets[context], stats.packets_total());
    match mode {
        Mode::Softirq | Mode::Deferral => assert_eq!(of(PollContext::Softirq), all),
        Mode::Threaded | Mode::Workqueue => assert_eq!(of(PollContext::Kthread), all),
        Mode::ThreadedBusyPoll => assert!(of(PollContext::KthreadBusy) > 0),
        Mode::BusyRead | Mode::SeparatePoller | Mode::EventBusyPoll => assert!(of(PollContext::User) > 0),
        // One poll per wait: which may find nothing, every time.
        Mode::EventSuspension => {}
    }
}

/// Nothing was lost anywhere: every counter of losses is 0.
fn check_no_loss(pair: &Pair) {
    for device in [&pair.tested, &pair.peer] {
        let stats = device.stats();
        let lost = [stats.rx_no_frame, stats.rx_bad_descriptors, stats.rx_index_errors, stats.tx_bad_descriptors];
        assert_eq!(lost, [0; 4], "{}: {stats:?}", device.name());
    }
    for ns in [&pair.tested_ns, &pair.peer_ns] {
        let counters = ns.counters();
        let lost = counters.udp_in_errors + counters.udp6_in_errors + counters.udp_no_ports + counters.udp6_no_ports;
        assert_eq!(lost, 0, "{counters}");
    }
}

fn sockets_deliver(mode: Mode) {
    let pair = Pair::new(&LinkConfig::default());
    pair.set_all(&pair.tested, &mode.settings());
    for (server, client) in [(v4(TESTED_V4, 4000), v4(PEER_V4, 5000)), (v6(TESTED_V6, 4000), v6(PEER_V6, 5000))] {
        let thread = echo(&pair.engine, mode, UdpSocket::bind(&pair.tested_ns, server).unwrap());
        let client = UdpSocket::bind(&pair.peer_ns, client).unwrap();
        round_trips(&client, server, COUNT, WINDOW);
        // One at a time: every request finds the server asleep, or about to be.
        round_trips(&client, server, COUNT / 4, 1);
        until_polled(mode, &pair.tested, || round_trips(&client, server, WINDOW, 4));
        stop(&client, server, thread);
    }
    check_poller(mode, &pair.tested);
    check_no_loss(&pair);
}

/// Polls a raw port from a thread of its own until told to end.
fn poller_thread(poller: RawPoller, end: Arc<AtomicBool>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while !end.load(Ordering::Relaxed) {
            poller.poll(RawBusyPoll { usecs: 50, prefer: true, budget: 64 });
            std::thread::yield_now();
        }
    })
}

fn raw_ports_deliver(mode: Mode) {
    let pair = Pair::new(&LinkConfig::default());
    pair.set_all(&pair.tested, &mode.settings());
    let port = RawPort::bind(&pair.tested, 0).unwrap();
    assert_eq!(port.napi_id(), pair.tested.napi_id(0));
    port.set_busy_poll(mode.busy_read());
    let end = Arc::new(AtomicBool::new(false));
    let poller = (mode == Mode::SeparatePoller).then(|| poller_thread(port.poller(), end.clone()));
    let thread = echo_raw(port);
    for (server, client) in [(v4(TESTED_V4, 4000), v4(PEER_V4, 5000)), (v6(TESTED_V6, 4000), v6(PEER_V6, 5000))] {
        let client = UdpSocket::bind(&pair.peer_ns, client).unwrap();
        round_trips(&client, server, COUNT, WINDOW);
        round_trips(&client, server, COUNT / 4, 1);
    }
    let client = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5001)).unwrap();
    until_polled(mode, &pair.tested, || round_trips(&client, v4(TESTED_V4, 4000), WINDOW, 4));
    stop(&client, v4(TESTED_V4, 4000), thread);
    end.store(true, Ordering::Relaxed);
    if let Some(poller) = poller {
        poller.join().unwrap();
    }
    check_poller(mode, &pair.tested);
    check_no_loss(&pair);
}

#[test]
fn every_mode_delivers_datagrams() {
    for mode in Mode::ALL {
        // Only raw ports can be polled by another thread.
        if mode != Mode::SeparatePoller {
            println!("{mode:?}");
            sockets_deliver(mode);
        }
    }
}

#[test]
fn every_mode_delivers_frames() {
    for mode in Mode::ALL {
        println!("{mode:?}");
        raw_ports_deliver(mode);
    }
}

/// Changes settings of instances at random.
struct Switcher {
    engine: Engine,
    devices: [DeviceHandle; 2],
    dice: Dice,
    cpus: Vec<usize>,
}

impl Switcher {
    fn turn(&mut self) {
        let device = &self.devices[self.dice.roll(2) as usize];
        let queue = self.dice.roll(u64::from(device.queues())) as u16;
        let id = device.napi_id(queue);
        match self.dice.roll(8) {
            0 => {
                let cpu = self.cpus[self.dice.roll(self.cpus.len() as u64) as usize];
                self.engine.set_irq_affinity(id, cpu).unwrap();
            }
            1 => {
                let usecs = [0, 10, 100][self.dice.roll(3) as usize];
                let frames = self.dice.roll(3) as u32 * 4;
                let fixed = Coalesce::new(usecs, frames).unwrap_or_default();
                let coalesce = if self.dice.roll(2) == 0 { Coalesce::adaptive() } else { fixed };
                assert!(device.set_coalesce(queue, coalesce));
            }
            2 => {
                let id = Some(u64::from(id));
                let gro_ns = self.dice.roll(3) * 30_000;
                let set = NapiSet { id, gro_flush_timeout: Some(gro_ns), ..NapiSet::default() };
                self.engine.napi_set(set).unwrap();
            }
            _ => {
                let mode = Mode::ALL[self.dice.roll(9) as usize];
                let id = Some(u64::from(id));
                self.engine.napi_set(NapiSet { id, ..mode.settings() }).unwrap();
            }
        }
        std::thread::sleep(Duration::from_micros(self.dice.roll(1500)));
    }

    fn run(mut self, length: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < length {
            self.turn();
        }
    }
}

fn switcher(pair: &Pair, seed: u64) -> Switcher {
    Switcher {
        engine: pair.engine.clone(),
        devices: [pair.tested.clone(), pair.peer.clone()],
        dice: Dice(seed),
        cpus: available_cpus(),
    }
}

/// A client that goes on until `end`, then stops its server.
fn client(
    pair: &Pair,
    addr: SocketAddr,
    server: SocketAddr,
    thread: JoinHandle<()>,
    end: &Arc<AtomicBool>,
) -> JoinHandle<usize> {
    let client = UdpSocket::bind(&pair.peer_ns, addr).unwrap();
    let end = end.clone();
    std::thread::spawn(move || {
        let mut rounds = 0;
        while !end.load(Ordering::Relaxed) {
            round_trips(&client, server, 64, 1 + rounds % WINDOW);
            rounds += 1;
        }
        round_trips(&client, server, COUNT, WINDOW);
        stop(&client, server, thread);
        rounds
    })
}

#[test]
fn modes_change_under_datagrams() {
    let pair = Pair::new(&LinkConfig { queues: 2, ..LinkConfig::default() });
    let servers = [v4(TESTED_V4, 4000), v4(TESTED_V4, 4001), v6(TESTED_V6, 4000), v6(TESTED_V6, 4001)];
    let bind = |addr| UdpSocket::bind(&pair.tested_ns, addr).unwrap();
    let by_events = |mode: Mode, addr, interest| {
        let context = EventContext::new(&pair.engine);
        context.set_params(mode.event_params().unwrap_or_default()).unwrap();
        echo_by_events(context, bind(addr), interest)
    };
    let threads = [
        echo_blocking(bind(servers[0]), Mode::Softirq.busy_read()),
        by_events(Mode::EventSuspension, servers[1], Interest::IN),
        echo_blocking(bind(servers[2]), Mode::BusyRead.busy_read()),
        by_events(Mode::EventBusyPoll, servers[3], Interest::IN | Interest::EDGE),
    ];
    let end = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = std::iter::zip(servers, threads)
        .zip(5000..)
        .map(|((server, thread), port)| {
            let addr = if server.is_ipv4() { v4(PEER_V4, port) } else { v6(PEER_V6, port) };
            client(&pair, addr, server, thread, &end)
        })
        .collect();
    switcher(&pair, 1).run(Duration::from_secs(2));
    end.store(true, Ordering::Relaxed);
    let rounds: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    println!("rounds of 64 requests: {rounds:?}");
    check_no_loss(&pair);
}

#[test]
fn modes_change_under_frames() {
    let pair = Pair::new(&LinkConfig::default());
    let port = RawPort::bind(&pair.tested, 0).unwrap();
    port.set_busy_poll(RawBusyPoll { usecs: 20, prefer: true, budget: 8 });
    let end = Arc::new(AtomicBool::new(false));
    let poller = poller_thread(port.poller(), end.clone());
    let server = v4(TESTED_V4, 4000);
    let client = client(&pair, v4(PEER_V4, 5000), server, echo_raw(port), &end);
    switcher(&pair, 2).run(Duration::from_secs(1));
    end.store(true, Ordering::Relaxed);
    poller.join().unwrap();
    println!("rounds of 64 requests: {}", client.join().unwrap());
    check_no_loss(&pair);
}

/// Frames one by one, each with its doorbell, over a link of their own until `end`; counts those that arrive.
fn trickle(engine: &Engine, cpu: usize, end: &Arc<AtomicBool>) -> ([JoinHandle<()>; 2], Arc<AtomicU64>) {
    let config = |last: u8| EndConfig {
        irq_cpus: vec![cpu],
        ..crate::common::end(&format!("trickle{last}"), &engine.namespace(), [2, 0, 0, 0x78, 0, last], &[])
    };
    let (source, sink) = engine.add_link(&LinkConfig::default(), config(1), config(2)).unwrap();
    let (from, to) = (RawPort::bind(&source, 0).unwrap(), RawPort::bind(&sink, 0).unwrap());
    let arrived = Arc::new(AtomicU64::new(0));
    let sender = std::thread::spawn({
        let end = end.clone();
        move || {
            while !end.load(Ordering::Relaxed) {
                if from.build(64, |_| 64).is_err() {
                    std::thread::yield_now();
                }
                from.flush();
            }
        }
    });
    let receiver = std::thread::spawn({
        let (end, arrived) = (end.clone(), arrived.clone());
        move || {
            while !end.load(Ordering::Relaxed) {
                to.wait(Some(Duration::from_millis(100)));
                arrived.fetch_add(std::iter::from_fn(|| to.next()).count() as u64, Ordering::Relaxed);
            }
        }
    });
    ([sender, receiver], arrived)
}

/// Far more than softirqs work off in one go is left to the softirq thread, as to ksoftirqd. What other instances
/// receive meanwhile is not forgotten when it is done.
#[test]
fn nobody_is_forgotten_after_a_flood() {
    let pair = Pair::new(&LinkConfig { queues: 4, ..LinkConfig::default() });
    // One poll per run, so that the ten runs that softirqs may make in one go are soon used up.
    pair.engine.set_sysctl_netdev_budget(1);
    let cpu = available_cpus()[0];
    for queue in 0..4 {
        pair.engine.set_irq_affinity(pair.tested.napi_id(queue), cpu).unwrap();
    }
    let ports: Vec<_> = (0..4).map(|queue| RawPort::bind(&pair.tested, queue).unwrap()).collect();
    let senders: Vec<_> = (0..4).map(|queue| RawPort::bind(&pair.peer, queue).unwrap()).collect();
    let end = Arc::new(AtomicBool::new(false));
    let (threads, arrived) = trickle(&pair.engine, cpu, &end);

    let _on_that_cpu = pair.engine.count_thread("flood", Some(cpu));
    for _ in 0..100 {
        // A device that is down lets its rings fill up; when it comes up there is all the work at once.
        pair.tested.set_down();
        for sender in &senders {
            while sender.build(64, |_| 64).is_ok() {}
            sender.flush();
        }
        pair.tested.set_up().unwrap();
        let mut left = 4 * 1024;
        eventually("the flood has passed", || {
            left -= ports.iter().map(|port| std::iter::from_fn(|| port.next()).count()).sum::<usize>();
            left == 0
        });
        // More than there were frames on their way.
        let seen = arrived.load(Ordering::Relaxed);
        eventually("others are served", || arrived.load(Ordering::Relaxed) > seen + 4096);
    }
    end.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    let left_over: u64 = pair.engine.softirq_stats().iter().map(|cpu| cpu.ksoftirqd).sum();
    println!("left to ksoftirqd {left_over} times");
    assert!(left_over > 0, "there was more than one go's work");
}

/// From its binding on a socket gets what is sent to it, also from a poll that had begun before. Other programs compete
/// for the processors, so that polls are held up in the middle.
#[test]
fn a_socket_receives_from_its_binding_on() {
    let pair = Pair::new(&LinkConfig::default());
    pair.set_all(&pair.tested, &Mode::ThreadedBusyPoll.settings());
    let (client, server) = (UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap(), v4(TESTED_V4, 4000));
    let end = Arc::new(AtomicBool::new(false));
    let competitors: Vec<_> = (0..3)
        .map(|_| {
            let end = end.clone();
            std::thread::spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        let socket = bound(&pair.tested_ns, server);
        client.send_to(b"request", server).unwrap();
        assert_eq!(socket.recv(&mut [0; 64]).expect("it was sent to a bound socket"), 7);
    }
    end.store(true, Ordering::Relaxed);
    for competitor in competitors {
        competitor.join().unwrap();
    }
}
