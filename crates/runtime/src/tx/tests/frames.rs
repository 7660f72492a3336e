//! Frames that the peer has read can be used at once.

use super::*;

/// So many packets have come to the receiver, and the polls that took them have given their slots back, which they do last.
fn given_back(rig: &Rig, packets: u64) {
    let counted = || (0..rig.to.queues()).map(|queue| rig.to.napi_stats(queue).packets_total()).sum::<u64>();
    napier_testkit::eventually("the polls are over", || counted() == packets);
}

/// The thread that has all frames in the ring sees that the peer has read them, also if it does not try twice.
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
        let packets = 40 * (u64::from(round) + 1);
        receiver.until(&rig, packets);
        given_back(&rig, packets);
    }
}

/// The same where another, perhaps the owner of the queue, is just taking frames back: that is no reason to refuse a packet.
#[test]
fn frames_that_another_takes_back_can_be_used_at_once() {
    let rig = rig(&LinkConfig { sender_frames: 40, ..LinkConfig::default() }, false);
    rig.with(&QdiscConfig::pfifo(), TxVariant::Llist);
    let (mut receiver, sender) = (Receiver::new(&rig.to), rig.sender());
    // No thread reads before the last one has gone: so none is taken back.
    rig.to.set_down();
    (0..40).for_each(|number| assert_eq!(send(&sender, 0, number), Ok(())));
    rig.to.set_up().expect("up");
    receiver.until(&rig, 40);
    given_back(&rig, 40);
    let path = rig.from.device.tx[0].clone();
    let (stops, stopped) = crate::hold::stop();
    let (gone, is_gone) = mpsc::channel();
    let other = std::thread::spawn(move || {
        let wire = path.claim_wire();
        stops();
        drop(wire);
        let _ = gone.send(());
    });
    stopped.wait();
    hold::on_next(Point::BetweenLooks, move || {
        stopped.go_on();
        is_gone.recv_timeout(PATIENCE).expect("the other lets go");
    });
    assert_eq!(send(&sender, 0, 40), Ok(()));
    other.join().expect("the other ends");
    receiver.until(&rig, 41);
}

/// The same where they lie in the ring of another queue, which no thread uses any more.
#[test]
fn frames_of_another_queue_that_were_read_can_be_used_at_once() {
    let rig = rig(&LinkConfig { queues: 2, sender_frames: 40, ..LinkConfig::default() }, false);
    for queue in 0..2 {
        rig.from.set_qdisc(queue, &QdiscConfig::pfifo()).expect("qdisc");
    }
    let mut receiver = Receiver::new(&rig.to);
    let [first, second] = [0, 1].map(|queue| RawPort::bind(&rig.from, queue).expect("port").sender());
    // No thread reads before the last one has gone: so none is taken back.
    rig.to.set_down();
    (0..40).for_each(|number| assert_eq!(send(&first, 0, number), Ok(())));
    rig.to.set_up().expect("up");
    receiver.until(&rig, 40);
    given_back(&rig, 40);
    assert_eq!(send(&second, 0, 40), Ok(()));
}
