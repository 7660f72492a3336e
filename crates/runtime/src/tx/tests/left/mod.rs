//! What a softirq has to send while a program has a lock of the transmit path in hand and no processor.

use napier_testkit::eventually;

use super::*;
use crate::port::IrqLine;
use crate::tx::wire::LEFT_MAX;
use asker::{Asker, Pulse};

mod asker;
mod waits;

fn looks_in_vain(path: &TxPath) -> u32 {
    path.watchdog.in_vain()
}

/// Parks a program that sends a packet at `point`, does `meanwhile`, and lets it go on.
fn while_parked(rig: &Rig, point: Point, meanwhile: impl FnOnce()) {
    let (parked, stopped) = send_until(&rig.sender(), point);
    meanwhile();
    stopped.go_on();
    assert_eq!(parked.join().expect("the program ends"), Ok(()));
}

#[test]
fn answers_do_not_wait_for_a_program_with_the_transmit_lock() {
    let rig = plain();
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
    let mut asked = 20;
    // A look that began before may still have it for a moment.
    eventually("the lock is free", || {
        let left = rig.stats().left;
        asker.ask(asked..asked + 1);
        asked += 1;
        asker.until(|frames| frames == 1 + usize::from(asked));
        rig.stats().left == left
    });
    drop((asker, pulse));
    rig.assert_nothing_lost();
}

/// Whom the interrupt wakes may take the sender's processor: the others must not need the sender then.
#[test]
fn a_sender_that_interrupts_the_peer_has_let_go_of_the_lock() {
    let rig = plain();
    let port = RawPort::bind(&rig.to, 0).expect("port");
    let napi = rig.to.napi(0).expect("an instance");
    let (IrqLine::LinkClient(line) | IrqLine::LinkServer(line)) = &napi.irq else { unreachable!("a link's line") };
    for variant in [None, Some(TxVariant::Llist), Some(TxVariant::Locked)] {
        if let Some(variant) = variant {
            rig.with(&QdiscConfig::pfifo(), variant);
        }
        // Else the peer is not to be interrupted.
        eventually("the poll before has ended", || !line.is_masked());
        while_parked(&rig, Point::BeforeBell, || {
            let path = &rig.from.device.tx[0];
            assert!(path.try_claim_wire().is_some(), "{variant:?}: the transmit lock is free");
            assert!(!path.root.0.is_entered(), "{variant:?}: the root lock is free");
            assert!(!path.running.load(Ordering::Relaxed), "{variant:?}: nobody counts on its run");
        });
        let mut frames = 0;
        eventually("the packet has come", || {
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
    let rig = plain();
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

/// No thread reads, and the ring is full; how many packets that took.
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
    eventually("the softirq goes on", || rig.from.netns().counters().icmp_out_echo_reps == 20);
    drop(in_hand);
    assert_eq!(send(&sender, 0, filled), Err(RawSendError::Full));
    eventually("looks become rarer", || looks_in_vain(&rig.from.device.tx[0]) > 2);
    rig.to.set_up().expect("up");
    let filled = filled as usize;
    asker.until(|frames| frames == filled + 20);
    assert_eq!(asker.numbers(), (0..20).collect::<Vec<_>>());
    assert_eq!(asker.answers[filled - 1], None, "the answers come behind what was there before");
    assert!(send_surely(&sender, 0, 0));
    asker.until(|frames| frames == filled + 21);
    eventually("there was room", || looks_in_vain(&rig.from.device.tx[0]) <= 1);
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
    eventually("the softirq goes on", || rig.from.netns().counters().icmp_out_echo_reps == 20);
    drop(in_hand);
    // From here on no other thread looks.
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
    let rig = plain();
    let (mut asker, pulse, sender) = (Asker::new(&rig), Pulse::new(&rig), rig.sender());
    let (stops, stopped) = crate::hold::stop();
    let program = std::thread::spawn(move || {
        hold::on_next(Point::UnderWire, move || {
            stops();
            panic!("a program panics (meant by the test)");
        });
        let _ = send(&sender, 0, 0);
    });
    stopped.wait();
    asker.ask(0..20);
    pulse.beat();
    stopped.go_on();
    assert!(program.join().is_err(), "it panics");
    asker.until(|frames| frames == 20);
    assert_eq!(asker.numbers(), (0..20).collect::<Vec<_>>());
    eventually("there is room for as many again", || has_room_to_leave(&rig));
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
    let rig = plain();
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
        let rig = plain_with(&QdiscConfig::pfifo(), variant);
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
        let rig = plain_with(&QdiscConfig::pfifo(), variant);
        let (mut asker, pulse) = (Asker::new(&rig), Pulse::new(&rig));
        let path = rig.from.device.tx[0].clone();
        let in_hand = path.claim_wire();
        asker.ask(0..20);
        pulse.beat();
        pulse.beat();
        asker.take();
        assert_eq!(asker.answers, []);
        eventually("looks become rarer", || looks_in_vain(&path) > 2);
        drop(in_hand);
        asker.until(|frames| frames == 20);
        eventually("there was room", || looks_in_vain(&path) <= 1);
        assert_eq!(asker.numbers(), (0..20).collect::<Vec<_>>(), "{variant:?}");
        drop((asker, pulse));
        rig.assert_nothing_lost();
    }
}

/// Programs that send all the time, and a softirq that answers: each answer comes once, in order, or is counted.
#[test]
fn answers_keep_their_order_among_senders() {
    const ASKED: u16 = 4000;
    let rig = plain();
    let mut asker = Asker::new(&rig);
    while_sending(&rig.sender(), 2, || {
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
