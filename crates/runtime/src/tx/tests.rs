use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use napier_core::time::Span;
use napier_core::tx::queue::QueueBits;
use napier_testkit::PATIENCE;

use super::hold::{self, Point};
use super::*;
use crate::device::{DeviceHandle, LinkConfig};
use crate::engine::Engine;
use crate::raw::{RawPort, RawSendError, RawSender};
use crate::tx::{DropReason, FqConfig};
use napier_sys::clock::Clock;

mod late_list;
mod left;

struct Rig {
    engine: Engine,
    /// Sends.
    from: DeviceHandle,
    /// Receives.
    to: DeviceHandle,
}

fn rig(config: &LinkConfig, from_server: bool) -> Rig {
    let cpu = crate::available_cpus()[0];
    let engine = Engine::builder().softirq_cpus(&[cpu]).fifo(false).start().expect("engine");
    let end = |name: &str, last: u8| crate::device::EndConfig {
        name: name.to_owned(),
        netns: engine.namespace(),
        mac: [2, 0, 0, 0x77, 0, last],
        addresses: vec![crate::device::IfAddr {
            addr: std::net::Ipv4Addr::new(10, 77, 0, last).into(),
            prefix_len: 24,
        }],
        irq_cpus: vec![cpu],
    };
    let (client, server) = engine.add_link(config, end("client", 1), end("server", 2)).expect("link");
    let (from, to) = if from_server { (server, client) } else { (client, server) };
    Rig { engine, from, to }
}

/// Says that it is over when it goes.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn disciplines() -> [QdiscConfig; 3] {
    [QdiscConfig::pfifo(), QdiscConfig::pfifo_fast(), QdiscConfig::Fq(FqConfig::default())]
}

impl Rig {
    fn with(&self, qdisc: &QdiscConfig, variant: TxVariant) {
        self.from.set_qdisc(0, qdisc).expect("qdisc");
        self.from.set_tx_variant(0, variant).expect("variant");
    }

    fn sender(&self) -> RawSender {
        let port = RawPort::bind(&self.from, 0).expect("port");
        port.sender()
    }

    fn stats(&self) -> TxQueueStats {
        self.from.tx_stats(0).expect("queue")
    }

    /// Packets that were dropped, for whatever reason; also for want of a frame to receive into, which is not the
    /// sender's matter.
    fn lost(&self) -> u64 {
        let stats = self.stats();
        self.to.stats().rx_no_frame + stats.burst_drops + stats.drops.iter().map(|(_, packets)| packets).sum::<u64>()
    }

    /// Everything is at rest: no frame is on the way.
    fn assert_nothing_lost(&self) {
        let begin = Instant::now();
        while self.from.frames_out() + self.to.frames_out() != 0 {
            assert!(begin.elapsed() < PATIENCE, "{} frames are lost: {:?}", self.from.frames_out(), self.stats());
            std::thread::yield_now();
        }
    }
}

/// A packet with its flow and number.
fn send(sender: &RawSender, flow: u32, number: u32) -> Result<(), RawSendError> {
    sender.send(64, |frame| {
        frame[..64].fill(0);
        frame[14..18].copy_from_slice(&flow.to_le_bytes());
        frame[18..22].copy_from_slice(&number.to_le_bytes());
        64
    })
}

/// Sends until it was taken; false if the discipline dropped it.
fn send_surely(sender: &RawSender, flow: u32, number: u32) -> bool {
    let begin = Instant::now();
    loop {
        match send(sender, flow, number) {
            Ok(()) => return true,
            Err(RawSendError::Dropped) => return false,
            Err(RawSendError::Full) => std::thread::yield_now(),
            Err(RawSendError::Down) => panic!("the device is up"),
        }
        assert!(begin.elapsed() < PATIENCE, "the queue stays full");
    }
}

/// Takes what has come; each flow's packets must be in order.
struct Receiver {
    port: RawPort,
    last: std::collections::BTreeMap<u32, u32>,
    received: u64,
}

impl Receiver {
    fn new(device: &DeviceHandle) -> Self {
        Self { port: RawPort::bind(device, 0).expect("port"), last: Default::default(), received: 0 }
    }

    fn take(&mut self) {
        let last = &mut self.last;
        let taken = self.port.drain(1 << 20, |frame| {
            let word = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().expect("4 bytes"));
            let (flow, number) = (word(14), word(18));
            if let Some(before) = last.insert(flow, number) {
                assert!(before < number, "flow {flow}: packet {number} behind packet {before}");
            }
        });
        self.received += taken as u64;
    }

    /// Until all of `packets` have come, or were dropped and counted.
    fn until(&mut self, rig: &Rig, packets: u64) {
        let begin = Instant::now();
        while self.received + rig.lost() < packets {
            self.port.wait(Some(Duration::from_millis(1)));
            self.take();
            let (received, lost) = (self.received, rig.lost());
            assert!(begin.elapsed() < PATIENCE, "{received} of {packets} came, {lost} were lost: {:?}", rig.stats());
        }
        assert_eq!(self.received + rig.lost(), packets);
    }
}

/// Many threads, each a flow of its own: what is not dropped arrives, in the order of its flow, and every drop is counted.
fn traffic(rig: &Rig, threads: u32, each: u32) {
    let mut receiver = Receiver::new(&rig.to);
    let sender = rig.sender();
    let refused = AtomicU64::new(0);
    let running = AtomicU64::new(threads.into());
    let lost_before = rig.lost();
    std::thread::scope(|scope| {
        for flow in 0..threads {
            let (refused, running) = (&refused, &running);
            let sender = sender.clone().with_flow(flow);
            scope.spawn(move || {
                let lost = (0..each).filter(|number| !send_surely(&sender, flow, *number)).count();
                refused.fetch_add(lost as u64, Ordering::Relaxed);
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while running.load(Ordering::Relaxed) > 0 {
            receiver.port.wait(Some(Duration::from_millis(1)));
            receiver.take();
        }
    });
    // What a flusher dropped of others' is not in `refused`, but counted.
    assert!(rig.lost() - lost_before >= refused.load(Ordering::Relaxed));
    receiver.until(rig, lost_before + u64::from(threads * each));
    drop(receiver);
    rig.assert_nothing_lost();
    let stats = rig.stats();
    assert_eq!((stats.qlen, stats.backlog_bytes), (0, 0));
}

#[test]
fn every_discipline_and_variant_delivers_in_order_from_both_ends() {
    for from_server in [false, true] {
        for qdisc in disciplines() {
            for variant in TxVariant::ALL {
                let rig = rig(&LinkConfig { ring_size: 64, ..LinkConfig::default() }, from_server);
                rig.with(&qdisc, variant);
                traffic(&rig, 4, 5000);
                let stats = rig.stats();
                assert_eq!((stats.qdisc, stats.variant), (name(&qdisc), variant));
                assert!(stats.runs > 0 && stats.packets >= stats.run_pkts, "{stats:?}");
            }
        }
    }
}

fn name(qdisc: &QdiscConfig) -> &'static str {
    match qdisc {
        QdiscConfig::Noqueue => "noqueue",
        QdiscConfig::Pfifo { .. } => "pfifo",
        QdiscConfig::PfifoFast { .. } => "pfifo_fast",
        QdiscConfig::Fq(_) => "fq",
    }
}

/// Variants, disciplines and byte limits change every few milliseconds under traffic.
#[test]
fn switching_under_traffic_loses_nothing_uncounted() {
    let rig = rig(&LinkConfig { ring_size: 64, ..LinkConfig::default() }, false);
    rig.with(&QdiscConfig::pfifo(), TxVariant::Llist);
    let stop = AtomicBool::new(false);
    let mut receiver = Receiver::new(&rig.to);
    let sender = rig.sender();
    let (taken, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        // Also if an assertion fails: the senders must not go on for ever.
        let stop = StopAtEnd(&stop);
        for flow in 0..4 {
            let (sender, stop, taken, refused) = (sender.clone().with_flow(flow), stop.0, &taken, &refused);
            scope.spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    match send(&sender, flow, number) {
                        Ok(()) => drop(taken.fetch_add(1, Ordering::Relaxed)),
                        Err(RawSendError::Dropped) => drop(refused.fetch_add(1, Ordering::Relaxed)),
                        Err(_) => std::thread::yield_now(),
                    }
                }
            });
        }
        for turn in 0..60_usize {
            rig.from.set_tx_variant(0, TxVariant::ALL[turn % 3]).expect("variant");
            rig.from.set_byte_limits(0, (turn % 2 == 0).then(ByteLimits::default)).expect("limits");
            for _ in 0..20 {
                receiver.port.wait(Some(Duration::from_micros(100)));
                receiver.take();
            }
        }
    });
    let sent = taken.load(Ordering::Relaxed) + refused.load(Ordering::Relaxed);
    receiver.until(&rig, sent);
    drop(receiver);
    rig.assert_nothing_lost();
}

#[test]
fn a_deactivated_queue_drops_and_counts_and_comes_back() {
    for variant in TxVariant::ALL {
        let rig = rig(&LinkConfig::default(), false);
        rig.with(&QdiscConfig::pfifo(), variant);
        let stop = AtomicBool::new(false);
        let sender = rig.sender();
        let mut receiver = Receiver::new(&rig.to);
        std::thread::scope(|scope| {
            let stop = StopAtEnd(&stop);
            for flow in 0..3 {
                let (sender, stop) = (sender.clone().with_flow(flow), stop.0);
                scope.spawn(move || {
                    for number in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        if send(&sender, flow, number).is_err() {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            for _ in 0..20 {
                rig.from.set_down();
                assert_eq!(rig.stats().qlen, 0, "{variant:?}: nothing waits in a queue that is down");
                rig.from.set_up().expect("up");
                // It is there again.
                let (before, begin) = (receiver.received, Instant::now());
                while receiver.received == before {
                    receiver.port.wait(Some(Duration::from_millis(1)));
                    receiver.take();
                    assert!(begin.elapsed() < PATIENCE, "{variant:?}: nothing comes any more: {:?}", rig.stats());
                }
            }
        });
        receiver.port.wait(Some(Duration::from_millis(5)));
        receiver.take();
        drop(receiver);
        rig.assert_nothing_lost();
    }
}

/// A thread stops for good at some point of the transmit path: others push and leave, until the burst limit; when it goes
/// on, everything that was accepted is sent.
#[test]
fn a_stalled_sender_keeps_nobody_waiting() {
    for variant in [TxVariant::Llist, TxVariant::Owner] {
        for point in Point::ALL {
            if variant == TxVariant::Owner && point != Point::BeforePush {
                continue; // senders do not come by the others
            }
            stall(variant, point);
        }
    }
}

fn stall(variant: TxVariant, point: Point) {
    let rig = rig(&LinkConfig::default(), false);
    rig.with(&QdiscConfig::pfifo(), variant);
    if variant == TxVariant::Llist {
        rig.engine.set_sysctl_qdisc_max_burst(50);
    }
    let mut receiver = Receiver::new(&rig.to);
    let sender = rig.sender();
    let (reached, is_reached) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let stalled = std::thread::spawn({
        let sender = sender.clone();
        move || {
            hold::on_next(point, move || {
                reached.send(()).expect("the test listens");
                may_go_on.recv().expect("the test goes on");
            });
            assert!(send_surely(&sender, 0, 0));
        }
    });
    is_reached.recv_timeout(PATIENCE).expect("the sender comes by");
    // Far longer than any of this takes; a test that waited for the stalled thread would never end.
    let (mut accepted, mut refused) = (0, 0);
    for number in 0..60 {
        match send(&sender, 1, number) {
            Ok(()) => accepted += 1,
            Err(RawSendError::Dropped) => refused += 1,
            Err(error) => panic!("{variant:?}, {point:?}: {error}"),
        }
    }
    match point {
        // Nobody flushes while the stalled one is to: the list fills to its limit, and the rest is refused and counted.
        Point::BeforeRootLock => assert_eq!((accepted, refused), (50, 10)),
        // Its own list is taken, so that the next sender is a flusher: it leaves the new list to the stalled one.
        Point::UnderRootLock | Point::BeforeTxLock | Point::UnderTxLock => assert_eq!((accepted, refused), (51, 9)),
        Point::BeforePush => assert_eq!((accepted, refused), (60, 0)),
        Point::UnderWire | Point::BeforeBell | Point::BetweenLooks => unreachable!("not on the way of every packet"),
    }
    go_on.send(()).expect("the sender waits");
    stalled.join().expect("the sender ends");
    receiver.until(&rig, 61);
    assert_eq!((receiver.received, rig.lost()), (1 + accepted, refused));
    drop(receiver);
    rig.assert_nothing_lost();
}

#[test]
fn a_ring_that_stays_full_stops_the_queue_and_nothing_is_lost() {
    for variant in TxVariant::ALL {
        let rig = rig(&LinkConfig { ring_size: 64, sender_frames: 512, ..LinkConfig::default() }, false);
        rig.with(&QdiscConfig::Pfifo { limit_pkts: 200 }, variant);
        rig.from.set_byte_limits(0, None).expect("limits");
        // Nobody polls the receiving instance: the ring fills.
        let mut receiver = Receiver::new(&rig.to);
        rig.to.set_down();
        let sender = rig.sender();
        let mut accepted = 0;
        let begin = Instant::now();
        for number in 0..400 {
            accepted += u64::from(send_surely(&sender, 0, number));
        }
        std::thread::sleep(Duration::from_millis(300));
        assert!(begin.elapsed() < PATIENCE);
        let stats = rig.stats();
        let dropped: u64 = stats.drops.iter().map(|(_, packets)| packets).sum();
        assert!(stats.stops >= 1, "{variant:?}: {stats:?}");
        assert!(stats.qlen > 0 && dropped > 0, "{variant:?}: the discipline is full: {stats:?}");
        assert!(stats.drops.iter().all(|(reason, _)| *reason == DropReason::Overlimit), "{stats:?}");
        rig.to.set_up().expect("up");
        receiver.until(&rig, 400);
        assert!(accepted <= 400);
        drop(receiver);
        rig.assert_nothing_lost();
    }
}

#[test]
fn fq_paces_and_departs_by_the_watchdog() {
    let rig = rig(&LinkConfig::default(), false);
    rig.with(&QdiscConfig::Fq(FqConfig::default()), TxVariant::Llist);
    let socket =
        crate::socket::UdpSocket::bind(rig.from.netns(), "10.77.0.1:0".parse().expect("address")).expect("socket");
    let peer = crate::socket::UdpSocket::bind(rig.to.netns(), "10.77.0.2:7".parse().expect("address")).expect("socket");
    peer.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let to = peer.local_addr().expect("address");
    let mut buffer = [0; 16];
    socket.send_to(b"first", to).expect("sent");
    peer.recv_from(&mut buffer).expect("received");
    let departs_ns = rig.engine.now_ns() + 3_000_000;
    socket.send_at(b"later", Some(to), departs_ns).expect("queued");
    let (len, _) = peer.recv_from(&mut buffer).expect("received");
    assert_eq!(&buffer[..len], b"later");
    assert!(rig.engine.now_ns() >= departs_ns, "it left before its time");
    rig.assert_nothing_lost();
}

#[test]
fn bad_settings_are_refused_and_change_nothing() {
    let rig = rig(&LinkConfig::default(), false);
    let refused = rig.from.set_tx_variant(0, TxVariant::Owner).expect_err("no discipline");
    assert!(refused.to_string().contains("set one before the variant owner"), "{refused}");
    let refused = rig.from.set_qdisc(1, &QdiscConfig::pfifo()).expect_err("one queue");
    assert!(refused.to_string().contains("client has 1 transmit queues, 1 is none of them"), "{refused}");
    let odd = QdiscConfig::Fq(FqConfig { buckets: 3, ..FqConfig::default() });
    assert!(rig.from.set_qdisc(0, &odd).expect_err("odd").to_string().contains("buckets"));
    let limits = ByteLimits { min_bytes: 2, max_bytes: 1, ..ByteLimits::default() };
    assert!(rig.from.set_byte_limits(0, Some(limits)).expect_err("wrong way round").to_string().contains("limit_min"));
    assert_eq!((rig.stats().qdisc, rig.from.tx_senders()), ("noqueue", 0));
    rig.with(&QdiscConfig::pfifo(), TxVariant::Owner);
    rig.from.set_qdisc(0, &QdiscConfig::Noqueue).expect("taken away");
    traffic(&rig, 2, 100);
}

/// A sender that is held before it takes the root lock, with what others push meanwhile.
fn with_a_waiting_batch(rig: &Rig, others: u32, meanwhile: impl FnOnce()) -> Result<(), RawSendError> {
    let sender = rig.sender();
    let (reached, is_reached) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let flusher = std::thread::spawn({
        let sender = sender.clone();
        move || {
            hold::on_next(Point::BeforeRootLock, move || {
                reached.send(()).expect("the test listens");
                may_go_on.recv().expect("the test goes on");
            });
            send(&sender, 0, 0)
        }
    });
    is_reached.recv_timeout(PATIENCE).expect("the sender comes by");
    for number in 0..others {
        assert_eq!(send(&sender, 1, number), Ok(()), "others are told success");
    }
    meanwhile();
    go_on.send(()).expect("the sender waits");
    flusher.join().expect("the sender ends")
}

#[test]
fn one_sender_passes_by_an_empty_pfifo() {
    let rig = rig(&LinkConfig::default(), false);
    rig.with(&QdiscConfig::pfifo(), TxVariant::Llist);
    let mut receiver = Receiver::new(&rig.to);
    let sender = rig.sender();
    for number in 0..20 {
        assert_eq!(send(&sender, 0, number), Ok(()));
        let stats = rig.stats();
        assert_eq!((stats.qlen, stats.packets, stats.run_pkts), (0, u64::from(number) + 1, u64::from(number) + 1));
    }
    receiver.until(&rig, 20);
}

#[test]
fn a_batch_for_a_deactivated_queue_is_dropped_and_only_its_flusher_hears_of_it() {
    let rig = rig(&LinkConfig::default(), false);
    rig.with(&QdiscConfig::pfifo(), TxVariant::Llist);
    let path = rig.from.device.tx[0].clone();
    let deactivated = || path.update_state(|state| (state.deactivate(), ()));
    assert_eq!(with_a_waiting_batch(&rig, 7, deactivated), Err(RawSendError::Dropped));
    let stats = rig.stats();
    assert_eq!((stats.drops, stats.qlen), (vec![(DropReason::Deactivated, 8)], 0));
    path.activate();
    rig.assert_nothing_lost();
}

/// Two runners come back from the same queue: one saw a departure far away, the other a full ring.
#[test]
fn the_watchdog_keeps_the_earlier_look() {
    let rig = rig(&LinkConfig::default(), false);
    let path = &rig.from.device.tx[0];
    let (soon, late) = (Clock.now() + Span::from_ms(100_000), Clock.now() + Span::from_ms(200_000));
    path.watch(&*rig.engine.inner.deliver, soon);
    path.watch(&*rig.engine.inner.deliver, late);
    assert_eq!(path.watchdog_on(0), Some(soon));
}

#[test]
fn a_run_ends_at_its_quota_and_the_softirq_goes_on() {
    let rig = rig(&LinkConfig { sender_frames: 512, ..LinkConfig::default() }, false);
    rig.with(&QdiscConfig::pfifo(), TxVariant::Llist);
    // Without limits nothing is bulked: a run sends 64 packets one by one.
    rig.from.set_byte_limits(0, None).expect("limits");
    let mut receiver = Receiver::new(&rig.to);
    assert_eq!(with_a_waiting_batch(&rig, 399, || {}), Ok(()));
    // Statistics are not asked for meanwhile: whoever has the root lock for them does the run of a softirq that comes then.
    let (begin, path) = (Instant::now(), &rig.from.device.tx[0]);
    while receiver.received < 400 || path.root.0.is_entered() {
        assert!(begin.elapsed() < PATIENCE, "{} came", receiver.received);
        receiver.port.wait(Some(Duration::from_millis(1)));
        receiver.take();
    }
    let stats = rig.stats();
    // Four times 64 by the flusher, 64 + 64 + 16 by the softirq.
    assert_eq!((stats.runs, stats.softirq_runs, stats.schedules, stats.run_pkts), (7, 3, 3, 400));
    assert_eq!(stats.batches.powers()[8], 1, "one batch of 256 to 511 packets");
}

#[test]
fn a_stopped_queue_is_woken_once() {
    let rig = rig(&LinkConfig::default(), false);
    rig.with(&QdiscConfig::pfifo(), TxVariant::Llist);
    let path = rig.from.device.tx[0].clone();
    let mut receiver = Receiver::new(&rig.to);
    // As somebody who holds all queues still: no completion takes this back.
    path.update_bits(|bits| (bits.freeze(), ()));
    let sender = rig.sender();
    for number in 0..10 {
        assert_eq!(send(&sender, 0, number), Ok(()));
    }
    let stats = rig.stats();
    assert_eq!((stats.qlen, stats.run_pkts), (10, 0), "nothing leaves a queue that is held still");
    assert!(path.update_bits(QueueBits::thaw), "it was held still");
    assert!(!path.update_bits(QueueBits::thaw), "a second time it was not");
    path.schedule_if_waiting();
    receiver.until(&rig, 10);
    assert_eq!(rig.stats().qlen, 0);
    rig.assert_nothing_lost();
}

#[test]
fn bands_go_by_priority() {
    let rig = rig(&LinkConfig::default(), false);
    rig.with(&QdiscConfig::pfifo_fast(), TxVariant::Llist);
    let path = rig.from.device.tx[0].clone();
    let socket =
        crate::socket::UdpSocket::bind(rig.from.netns(), "10.77.0.1:0".parse().expect("address")).expect("socket");
    let peer = crate::socket::UdpSocket::bind(rig.to.netns(), "10.77.0.2:7".parse().expect("address")).expect("socket");
    peer.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let to = peer.local_addr().expect("address");
    let mut buffer = [0; 16];
    socket.send_to(b"hello", to).expect("sent");
    peer.recv_from(&mut buffer).expect("the neighbour is known now");
    path.update_bits(|bits| (bits.freeze(), ()));
    for (priority, payload) in [(2, b"1st!"), (2, b"bulk"), (0, b"best"), (6, b"soon")] {
        socket.setsockopt(crate::socket::SocketOption::Priority, priority).expect("priority");
        socket.send_to(payload, to).expect("queued");
    }
    assert!(path.update_bits(QueueBits::thaw));
    path.schedule_if_waiting();
    let order = [(); 4].map(|()| {
        let (len, _) = peer.recv_from(&mut buffer).expect("received");
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    });
    // The first passed by the empty discipline, was not taken, and so comes back to the front.
    assert_eq!(order, ["1st!", "soon", "best", "bulk"]);
}

/// Whoever reads counters holds the root lock for a moment, and what is left to it meanwhile must be done.
#[test]
fn readers_of_counters_strand_nothing() {
    for qdisc in disciplines() {
        let rig = rig(&LinkConfig::default(), true);
        rig.with(&qdisc, TxVariant::Llist);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let stop = StopAtEnd(&stop);
            let (device, flag) = (rig.from.clone(), stop.0);
            scope.spawn(move || {
                while !flag.load(Ordering::Relaxed) {
                    let _ = (device.stats(), device.tx_stats(0));
                }
            });
            traffic(&rig, 3, 20_000);
        });
    }
}

/// Whoever has all frames in the ring sees that the peer has read them, also if it does not try twice.
#[test]
fn frames_that_were_read_can_be_used_at_once() {
    let rig = rig(&LinkConfig { sender_frames: 40, ..LinkConfig::default() }, false);
    rig.with(&QdiscConfig::pfifo(), TxVariant::Llist);
    let mut receiver = Receiver::new(&rig.to);
    let sender = rig.sender();
    for round in 0..3 {
        for number in 0..40 {
            assert_eq!(send(&sender, 0, 40 * round + number), Ok(()), "round {round}, packet {number}");
        }
        receiver.until(&rig, 40 * (u64::from(round) + 1));
    }
}

/// The same where another, perhaps the owner of the queue, is just taking frames back: that is no reason to refuse a packet.
#[test]
fn frames_that_another_takes_back_can_be_used_at_once() {
    let rig = rig(&LinkConfig { sender_frames: 40, ..LinkConfig::default() }, false);
    rig.with(&QdiscConfig::pfifo(), TxVariant::Llist);
    let (mut receiver, sender) = (Receiver::new(&rig.to), rig.sender());
    // Nobody reads before the last one has gone: so none is taken back.
    rig.to.set_down();
    (0..40).for_each(|number| assert_eq!(send(&sender, 0, number), Ok(())));
    rig.to.set_up().expect("up");
    receiver.until(&rig, 40);
    let path = rig.from.device.tx[0].clone();
    let (taken, is_taken) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let (gone, is_gone) = mpsc::channel();
    let other = std::thread::spawn(move || {
        let wire = path.claim_wire();
        taken.send(()).expect("the test listens");
        let _ = may_go_on.recv();
        drop(wire);
        let _ = gone.send(());
    });
    is_taken.recv_timeout(PATIENCE).expect("the lock is free");
    hold::on_next(Point::BetweenLooks, move || {
        go_on.send(()).expect("the other waits");
        is_gone.recv_timeout(PATIENCE).expect("the other lets go");
    });
    assert_eq!(send(&sender, 0, 40), Ok(()));
    other.join().expect("the other ends");
    receiver.until(&rig, 41);
}

/// The same where they lie in the ring of another queue, which nobody uses any more.
#[test]
fn frames_of_another_queue_that_were_read_can_be_used_at_once() {
    let rig = rig(&LinkConfig { queues: 2, sender_frames: 40, ..LinkConfig::default() }, false);
    for queue in 0..2 {
        rig.from.set_qdisc(queue, &QdiscConfig::pfifo()).expect("qdisc");
    }
    let mut receiver = Receiver::new(&rig.to);
    let [first, second] = [0, 1].map(|queue| RawPort::bind(&rig.from, queue).expect("port").sender());
    // Nobody reads before the last one has gone: so none is taken back.
    rig.to.set_down();
    (0..40).for_each(|number| assert_eq!(send(&first, 0, number), Ok(())));
    rig.to.set_up().expect("up");
    receiver.until(&rig, 40);
    assert_eq!(send(&second, 0, 40), Ok(()));
}
