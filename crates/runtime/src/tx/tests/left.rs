//! What a softirq has to send while a program has a lock of the transmit path in hand and no processor.

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Address,
    Ipv4Packet, Ipv4Repr,
};

use super::*;
use crate::port::IrqLine;
use crate::socket::UdpSocket;
use crate::tx::wire::LEFT_MAX;

mod waits;

const FROM: Ipv4Address = Ipv4Address::new(10, 77, 0, 1);
const TO: Ipv4Address = Ipv4Address::new(10, 77, 0, 2);

/// A peer that asks for echoes, and counts the answers. What is no answer has number `None`.
struct Asker {
    port: RawPort,
    answers: Vec<Option<u16>>,
}

impl Asker {
    fn new(rig: &Rig) -> Self {
        Self { port: RawPort::bind(&rig.to, 0).expect("port"), answers: Vec::new() }
    }

    fn ask(&self, numbers: std::ops::Range<u16>) {
        for number in numbers {
            let begin = Instant::now();
            while self.port.build(128, |frame| echo_request(frame, number)).is_err() {
                assert!(begin.elapsed() < PATIENCE, "the softirq takes nothing");
                self.port.flush();
                std::thread::yield_now();
            }
        }
        self.port.flush();
    }

    fn take(&mut self) {
        let answers = &mut self.answers;
        self.port.drain(1 << 20, |frame| answers.push(echo_answer(frame)));
    }

    fn until(&mut self, enough: impl Fn(usize) -> bool) {
        let begin = Instant::now();
        self.take();
        while !enough(self.answers.len()) {
            assert!(begin.elapsed() < PATIENCE, "{} frames came", self.answers.len());
            self.port.wait(Some(Duration::from_millis(1)));
            self.take();
        }
    }

    fn numbers(&self) -> Vec<u16> {
        self.answers.iter().copied().flatten().collect()
    }
}

fn echo_request(frame: &mut [u8], number: u16) -> usize {
    let caps = ChecksumCapabilities::default();
    let echo = Icmpv4Repr::EchoRequest { ident: 7, seq_no: number, data: b"napier" };
    let payload_len = echo.buffer_len();
    let ip = Ipv4Repr { src_addr: TO, dst_addr: FROM, next_header: IpProtocol::Icmp, payload_len, hop_limit: 64 };
    let link = EthernetRepr {
        src_addr: EthernetAddress([2, 0, 0, 0x77, 0, 2]),
        dst_addr: EthernetAddress([2, 0, 0, 0x77, 0, 1]),
        ethertype: EthernetProtocol::Ipv4,
    };
    link.emit(&mut EthernetFrame::new_unchecked(&mut *frame));
    let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
    ip.emit(&mut packet, &caps);
    echo.emit(&mut Icmpv4Packet::new_unchecked(packet.payload_mut()), &caps);
    14 + ip.buffer_len() + payload_len
}

fn echo_answer(frame: &[u8]) -> Option<u16> {
    let caps = ChecksumCapabilities::default();
    let packet = Ipv4Packet::new_checked(frame.get(14..)?).ok()?;
    let Ok(Icmpv4Repr::EchoReply { ident: 7, seq_no, .. }) =
        Icmpv4Repr::parse(&Icmpv4Packet::new_checked(packet.payload()).ok()?, &caps)
    else {
        return None;
    };
    Some(seq_no)
}

/// Two sockets, and how one sees that the other's softirq CPU goes on: a datagram comes through.
struct Pulse {
    sends: UdpSocket,
    receives: UdpSocket,
}

impl Pulse {
    fn new(rig: &Rig) -> Self {
        let mac = [2, 0, 0, 0x77, 0, 1];
        rig.to.netns().neighbour_add(rig.to.ifindex(), std::net::IpAddr::V4(FROM), mac).expect("a station");
        let receives = UdpSocket::bind(rig.from.netns(), "10.77.0.1:7".parse().unwrap()).expect("socket");
        receives.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let sends = UdpSocket::bind(rig.to.netns(), "10.77.0.2:7".parse().unwrap()).expect("socket");
        Self { sends, receives }
    }

    /// Behind all that was sent before on the queue.
    fn beat(&self) {
        self.sends.send_to(b"beat", "10.77.0.1:7".parse().unwrap()).expect("room");
        let received = self.receives.recv_from(&mut [0; 16]);
        assert_eq!(received.expect("the softirq goes on").0, 4);
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "not seen: {what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn looks_in_vain(path: &TxPath) -> u32 {
    path.watchdog.in_vain.load(Ordering::Relaxed)
}

/// Parks a program that sends a packet at `point`, does `meanwhile`, and lets it go on.
fn while_parked(rig: &Rig, point: Point, meanwhile: impl FnOnce()) {
    let sender = rig.sender();
    let (reached, is_reached) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let parked = std::thread::spawn(move || {
        hold::on_next(point, move || {
            reached.send(()).expect("the test listens");
            // An error as well: the test has failed.
            let _ = may_go_on.recv();
        });
        assert_eq!(send(&sender, 0, 0), Ok(()));
    });
    is_reached.recv_timeout(PATIENCE).expect("the program comes by");
    meanwhile();
    go_on.send(()).expect("the program waits");
    parked.join().expect("the program ends");
}

#[test]
fn answers_do_not_wait_for_a_program_with_the_transmit_lock() {
    let rig = rig(&LinkConfig::default(), false);
    let (mut asker, pulse) = (Asker::new(&rig), Pulse::new(&rig));
    while_parked(&rig, Point::UnderWire, || {
        asker.ask(0..20);
        pulse.beat();
        asker.take();
        assert_eq!(asker.answers, [], "nothing overtakes the program's packet");
    });
    asker.until(|frames| frames == 21);
    assert_eq!(asker.answers[0], None, "the program's packet is first");
    assert_eq!(asker.numbers(), (0..20).collect::<Vec<_>>(), "the answers follow in their order");
    assert_eq!((rig.stats().left, rig.stats().left_refused), (20, 0));
    asker.ask(20..21);
    asker.until(|frames| frames == 22);
    assert_eq!(rig.stats().left, 20, "the lock is free");
    drop((asker, pulse));
    rig.assert_nothing_lost();
}

/// Whom the interrupt wakes may take the sender's processor: the others must not need the sender then.
#[test]
fn a_sender_that_interrupts_the_peer_has_let_go_of_the_lock() {
    let rig = rig(&LinkConfig::default(), false);
    let port = RawPort::bind(&rig.to, 0).expect("port");
    let napi = rig.to.napi(0).expect("an instance");
    let (IrqLine::LinkClient(line) | IrqLine::LinkServer(line)) = &napi.irq else { unreachable!("a link's line") };
    for variant in [None, Some(TxVariant::Llist), Some(TxVariant::Locked)] {
        if let Some(variant) = variant {
            rig.with(&QdiscConfig::pfifo(), variant);
        }
        // Else the peer is not to be interrupted.
        until("the poll before has ended", || !line.is_masked());
        while_parked(&rig, Point::BeforeBell, || {
            let path = &rig.from.device.tx[0];
            assert!(path.try_claim_wire().is_some(), "{variant:?}: the transmit lock is free");
            assert!(!path.root.0.is_entered(), "{variant:?}: the root lock is free");
            assert!(!path.running.load(Ordering::Relaxed), "{variant:?}: nobody counts on its run");
        });
        let mut frames = 0;
        until("the packet has come", || {
            port.wait(Some(Duration::from_millis(1)));
            port.drain(16, |_| frames += 1);
            frames == 1
        });
    }
    drop(port);
    rig.assert_nothing_lost();
}

#[test]
fn what_is_left_for_the_holder_is_bounded() {
    let rig = rig(&LinkConfig::default(), false);
    let (mut asker, pulse) = (Asker::new(&rig), Pulse::new(&rig));
    let left = LEFT_MAX as u16;
    while_parked(&rig, Point::UnderWire, || {
        asker.ask(0..left + 10);
        pulse.beat();
    });
    asker.until(|frames| frames == 1 + usize::from(left));
    assert_eq!(asker.numbers(), (0..left).collect::<Vec<_>>());
    assert_eq!((rig.stats().left, rig.stats().left_refused), (LEFT_MAX, 10));
    assert_eq!(rig.from.netns().counters().reply_tx_drops, 10, "what is lost is counted");
    asker.ask(0..1);
    asker.until(|frames| frames == 2 + usize::from(left));
    drop((asker, pulse));
    rig.assert_nothing_lost();
}

/// Nobody reads, and the ring is full; how many packets that took.
fn fill(rig: &Rig, sender: &RawSender) -> u32 {
    rig.to.set_down();
    let mut filled = 0;
    while send(sender, 0, filled) == Ok(()) {
        filled += 1;
    }
    filled
}

/// The ring is full when the holder comes to what was left: it goes out when there is room, before all that comes later.
#[test]
fn what_was_left_waits_for_room() {
    let rig = rig(&LinkConfig { ring_size: 64, ..LinkConfig::default() }, false);
    let (mut asker, sender) = (Asker::new(&rig), rig.sender());
    let filled = fill(&rig, &sender);
    let in_hand = rig.from.device.tx[0].claim_wire();
    asker.ask(0..20);
    let begin = Instant::now();
    while rig.from.netns().counters().icmp_out_echo_reps < 20 {
        assert!(begin.elapsed() < PATIENCE, "the softirq does not go on");
        std::thread::yield_now();
    }
    drop(in_hand);
    assert_eq!(send(&sender, 0, filled), Err(RawSendError::Full));
    until("looks become rarer", || looks_in_vain(&rig.from.device.tx[0]) > 2);
    rig.to.set_up().expect("up");
    let filled = filled as usize;
    asker.until(|frames| frames == filled + 20);
    assert_eq!(asker.numbers(), (0..20).collect::<Vec<_>>());
    assert_eq!(asker.answers[filled - 1], None, "the answers come behind what was there before");
    assert!(send_surely(&sender, 0, 0));
    asker.until(|frames| frames == filled + 21);
    until("there was room", || looks_in_vain(&rig.from.device.tx[0]) <= 1);
    drop(asker);
    rig.assert_nothing_lost();
}

/// A port of the program's own has the lock, but is not the first in the line.
#[test]
fn a_port_does_not_overtake_what_was_left() {
    let rig = rig(&LinkConfig { ring_size: 64, ..LinkConfig::default() }, false);
    let (mut asker, sender) = (Asker::new(&rig), rig.sender());
    let filled = fill(&rig, &sender);
    let path = &*rig.from.device.tx[0];
    let in_hand = path.claim_wire();
    asker.ask(0..20);
    until("the softirq goes on", || rig.from.netns().counters().icmp_out_echo_reps == 20);
    drop(in_hand);
    // From here on nobody else looks.
    let in_hand = path.claim_wire();
    rig.to.set_up().expect("up");
    let filled = filled as usize;
    asker.until(|frames| frames == filled);
    let port = RawPort::bind(&rig.from, 0).expect("port");
    drop(in_hand);
    assert_eq!(
        port.build(64, |frame| {
            frame[..64].fill(0);
            64
        }),
        Ok(())
    );
    port.flush();
    asker.until(|frames| frames == filled + 21);
    assert_eq!(asker.numbers(), (0..20).collect::<Vec<_>>());
    assert_eq!(asker.answers[filled + 20], None, "the port's packet is last");
    drop((asker, port));
    rig.assert_nothing_lost();
}

/// What was left for a program that panics with the lock goes out all the same.
#[test]
fn what_was_left_for_a_program_that_panics_goes_out() {
    let rig = rig(&LinkConfig::default(), false);
    let (mut asker, pulse, sender) = (Asker::new(&rig), Pulse::new(&rig), rig.sender());
    let (reached, is_reached) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let program = std::thread::spawn(move || {
        hold::on_next(Point::UnderWire, move || {
            reached.send(()).expect("the test listens");
            let _ = may_go_on.recv();
            panic!("a program panics (meant by the test)");
        });
        let _ = send(&sender, 0, 0);
    });
    is_reached.recv_timeout(PATIENCE).expect("the program comes by");
    asker.ask(0..20);
    pulse.beat();
    go_on.send(()).expect("the program waits");
    assert!(program.join().is_err(), "it panics");
    asker.until(|frames| frames == 20);
    assert_eq!(asker.numbers(), (0..20).collect::<Vec<_>>());
    until("there is room for as many again", || has_room_to_leave(&rig));
    drop((asker, pulse));
    rig.assert_nothing_lost();
}

fn has_room_to_leave(rig: &Rig) -> bool {
    let lock = &rig.from.device.tx[0].wire.0;
    let room = lock.reserve(LEFT_MAX, LEFT_MAX);
    if room {
        lock.unreserve(LEFT_MAX);
    }
    room
}

/// A packet that could not be built takes up no room.
#[test]
fn a_frame_whose_maker_panics_was_not_left() {
    let rig = rig(&LinkConfig::default(), false);
    let path = &*rig.from.device.tx[0];
    let in_hand = path.claim_wire();
    let _for_others = napier_sys::nowait::ForOthers::begin();
    let panics = || path.send_direct(64, &mut |_| panic!("a maker panics (meant by the test)"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    assert!(has_room_to_leave(&rig));
    drop(in_hand);
}

#[test]
fn answers_do_not_wait_for_a_program_in_a_discipline() {
    let cases = [
        (TxVariant::Locked, Point::UnderRootLock),
        (TxVariant::Locked, Point::UnderTxLock),
        (TxVariant::Llist, Point::UnderRootLock),
        (TxVariant::Llist, Point::UnderTxLock),
    ];
    for (variant, point) in cases {
        let rig = rig(&LinkConfig::default(), false);
        rig.with(&QdiscConfig::pfifo(), variant);
        let (mut asker, pulse) = (Asker::new(&rig), Pulse::new(&rig));
        while_parked(&rig, point, || {
            asker.ask(0..20);
            pulse.beat();
        });
        asker.until(|frames| frames == 21);
        assert_eq!(asker.numbers(), (0..20).collect::<Vec<_>>(), "{variant:?}, {point:?}");
        drop((asker, pulse));
        rig.assert_nothing_lost();
    }
}

/// A port takes the lock of a queue that has a discipline: the softirq that runs the queue leaves the run to it.
#[test]
fn a_run_does_not_wait_for_a_program_with_the_transmit_lock() {
    for variant in [TxVariant::Locked, TxVariant::Llist] {
        let rig = rig(&LinkConfig::default(), false);
        rig.with(&QdiscConfig::pfifo(), variant);
        let (mut asker, pulse) = (Asker::new(&rig), Pulse::new(&rig));
        let path = rig.from.device.tx[0].clone();
        let in_hand = path.claim_wire();
        asker.ask(0..20);
        pulse.beat();
        pulse.beat();
        asker.take();
        assert_eq!(asker.answers, []);
        until("looks become rarer", || looks_in_vain(&path) > 2);
        drop(in_hand);
        asker.until(|frames| frames == 20);
        until("there was room", || looks_in_vain(&path) <= 1);
        assert_eq!(asker.numbers(), (0..20).collect::<Vec<_>>(), "{variant:?}");
        drop((asker, pulse));
        rig.assert_nothing_lost();
    }
}

/// Programs that send all the time, and a softirq that answers: each answer comes once, in order, or is counted.
#[test]
fn answers_keep_their_order_among_senders() {
    const ASKED: u16 = 4000;
    let rig = rig(&LinkConfig::default(), false);
    let (mut asker, sender, stop) = (Asker::new(&rig), rig.sender(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        for flow in 0..2 {
            let (sender, stop) = (&sender, &stop);
            scope.spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let _ = send(sender, flow, number);
                }
            });
        }
        for first in (0..ASKED).step_by(50) {
            asker.ask(first..first + 50);
            asker.take();
        }
    });
    let begin = Instant::now();
    let (lost, missing) = loop {
        asker.take();
        // The sum of the three places where an answer can be lost on the way there, here and back.
        let lost =
            rig.from.netns().counters().reply_tx_drops + rig.to.stats().rx_no_frame + rig.from.stats().rx_no_frame;
        let missing = u64::from(ASKED) - asker.numbers().len() as u64;
        if missing <= lost && rig.from.stats().rx_packets + rig.from.stats().rx_no_frame >= u64::from(ASKED) {
            break (lost, missing);
        }
        assert!(begin.elapsed() < PATIENCE, "{missing} answers are missing, {lost} packets were lost");
        asker.port.wait(Some(Duration::from_millis(1)));
    };
    assert!(missing <= lost);
    assert!(asker.numbers().is_sorted_by(|one, next| one < next), "no answer overtakes another");
    drop(asker);
    rig.assert_nothing_lost();
}
