//! A link, senders whose packets are numbered, and a receiver that looks at the numbers.

use std::thread::JoinHandle;

use napier_testkit::eventually;

use super::*;
use crate::hold::Stopped;

pub(super) struct Rig {
    pub(super) engine: Engine,
    /// Sends.
    pub(super) from: DeviceHandle,
    /// Receives.
    pub(super) to: DeviceHandle,
}

pub(super) fn rig(config: &LinkConfig, from_server: bool) -> Rig {
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

/// A plain link.
pub(super) fn plain() -> Rig {
    rig(&LinkConfig::default(), false)
}

/// The same with a discipline.
pub(super) fn plain_with(qdisc: &QdiscConfig, variant: TxVariant) -> Rig {
    let rig = plain();
    rig.with(qdisc, variant);
    rig
}

pub(super) fn disciplines() -> [QdiscConfig; 3] {
    [QdiscConfig::pfifo(), QdiscConfig::pfifo_fast(), QdiscConfig::Fq(FqConfig::default())]
}

impl Rig {
    pub(super) fn with(&self, qdisc: &QdiscConfig, variant: TxVariant) {
        self.from.set_qdisc(0, qdisc).expect("qdisc");
        self.from.set_tx_variant(0, variant).expect("variant");
    }

    pub(super) fn sender(&self) -> RawSender {
        let port = RawPort::bind(&self.from, 0).expect("port");
        port.sender()
    }

    pub(super) fn stats(&self) -> TxQueueStats {
        self.from.tx_stats(0).expect("queue")
    }

    /// Packets that were dropped, for whatever reason; also for want of a frame to receive into, which is not the
    /// sender's matter.
    pub(super) fn lost(&self) -> u64 {
        let stats = self.stats();
        self.to.stats().rx_no_frame + stats.burst_drops + stats.drops.iter().map(|(_, packets)| packets).sum::<u64>()
    }

    /// Everything is at rest: no frame is on the way.
    pub(super) fn assert_nothing_lost(&self) {
        let frames_out = || self.from.frames_out() + self.to.frames_out();
        eventually("every frame is back", || frames_out() == 0);
    }
}

/// A packet with its flow and number.
pub(super) fn send(sender: &RawSender, flow: u32, number: u32) -> Result<(), RawSendError> {
    sender.send(64, |frame| {
        frame[..64].fill(0);
        frame[14..18].copy_from_slice(&flow.to_le_bytes());
        frame[18..22].copy_from_slice(&number.to_le_bytes());
        64
    })
}

/// Sends until it was taken; false if the discipline dropped it.
pub(super) fn send_surely(sender: &RawSender, flow: u32, number: u32) -> bool {
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

/// Says that it is over when it goes.
pub(super) struct StopAtEnd<'a>(pub(super) &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Threads that send all the time, each a flow of its own, while the test does `meanwhile`. Returns how many packets were
/// taken or dropped by the discipline.
pub(super) fn while_sending(sender: &RawSender, flows: u32, meanwhile: impl FnOnce()) -> u64 {
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        // Also if an assertion fails: the senders must not go on for ever.
        let _stop = StopAtEnd(&stop);
        for flow in 0..flows {
            let (sender, stop, sent) = (sender.clone().with_flow(flow), &stop, &sent);
            scope.spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    match send(&sender, flow, number) {
                        Ok(()) | Err(RawSendError::Dropped) => drop(sent.fetch_add(1, Ordering::Relaxed)),
                        Err(_) => std::thread::yield_now(),
                    }
                }
            });
        }
        meanwhile();
    });
    sent.load(Ordering::Relaxed)
}

/// A thread that sends a packet of flow 0, and stops when it comes by `point`.
pub(super) fn send_until(sender: &RawSender, point: Point) -> (JoinHandle<Result<(), RawSendError>>, Stopped) {
    let (sender, (stops, stopped)) = (sender.clone(), crate::hold::stop());
    let thread = std::thread::spawn(move || {
        hold::on_next(point, stops);
        send(&sender, 0, 0)
    });
    stopped.wait();
    (thread, stopped)
}

/// Takes what has come; each flow's packets must be in order.
pub(super) struct Receiver {
    pub(super) port: RawPort,
    last: std::collections::BTreeMap<u32, u32>,
    pub(super) received: u64,
}

impl Receiver {
    pub(super) fn new(device: &DeviceHandle) -> Self {
        Self { port: RawPort::bind(device, 0).expect("port"), last: Default::default(), received: 0 }
    }

    pub(super) fn take(&mut self) {
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

    /// What comes within a moment.
    pub(super) fn wait(&mut self) {
        self.port.wait(Some(Duration::from_millis(1)));
        self.take();
    }

    /// Until all of `packets` have come, or were dropped and counted.
    pub(super) fn until(&mut self, rig: &Rig, packets: u64) {
        let begin = Instant::now();
        while self.received + rig.lost() < packets {
            self.wait();
            let (received, lost) = (self.received, rig.lost());
            assert!(begin.elapsed() < PATIENCE, "{received} of {packets} came, {lost} were lost: {:?}", rig.stats());
        }
        assert_eq!(self.received + rig.lost(), packets);
    }
}

/// Many threads, each a flow of its own: what is not dropped arrives, in the order of its flow, and every drop is counted.
pub(super) fn traffic(rig: &Rig, threads: u32, each: u32) {
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
            receiver.wait();
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
