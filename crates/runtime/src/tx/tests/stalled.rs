//! Senders that stop on the way, and what the others do meanwhile.

use super::*;

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
    let rig = plain_with(&QdiscConfig::pfifo(), variant);
    if variant == TxVariant::Llist {
        rig.engine.set_sysctl_qdisc_max_burst(50);
    }
    let mut receiver = Receiver::new(&rig.to);
    let sender = rig.sender();
    let (stalled, stopped) = send_until(&sender, point);
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
        // No thread flushes while the stalled one is to: the list fills to its limit, and the rest is refused and counted.
        Point::BeforeRootLock => assert_eq!((accepted, refused), (50, 10)),
        // Its own list is taken, so that the next sender is a flusher: it leaves the new list to the stalled one.
        Point::UnderRootLock | Point::BeforeTxLock | Point::UnderTxLock => assert_eq!((accepted, refused), (51, 9)),
        Point::BeforePush => assert_eq!((accepted, refused), (60, 0)),
        Point::UnderWire | Point::BeforeBell | Point::BetweenLooks => unreachable!("not on the way of every packet"),
    }
    stopped.go_on();
    assert_eq!(stalled.join().expect("the sender ends"), Ok(()));
    receiver.until(&rig, 61);
    assert_eq!((receiver.received, rig.lost()), (1 + accepted, refused));
    drop(receiver);
    rig.assert_nothing_lost();
}

/// A sender that is held before it takes the root lock, with what others push meanwhile.
fn with_a_waiting_batch(rig: &Rig, others: u32, meanwhile: impl FnOnce()) -> Result<(), RawSendError> {
    let sender = rig.sender();
    let (flusher, stopped) = send_until(&sender, Point::BeforeRootLock);
    for number in 0..others {
        assert_eq!(send(&sender, 1, number), Ok(()), "others are told success");
    }
    meanwhile();
    stopped.go_on();
    flusher.join().expect("the sender ends")
}

#[test]
fn a_batch_for_a_deactivated_queue_is_dropped_and_only_its_flusher_hears_of_it() {
    let rig = plain_with(&QdiscConfig::pfifo(), TxVariant::Llist);
    let path = rig.from.device.tx[0].clone();
    let deactivated = || path.words.update_state(|state| (state.deactivate(), ()));
    assert_eq!(with_a_waiting_batch(&rig, 7, deactivated), Err(RawSendError::Dropped));
    let stats = rig.stats();
    assert_eq!((stats.drops, stats.qlen), (vec![(DropReason::Deactivated, 8)], 0));
    path.activate();
    rig.assert_nothing_lost();
}

#[test]
fn a_run_ends_at_its_quota_and_the_softirq_goes_on() {
    let rig = rig(&LinkConfig { sender_frames: 512, ..LinkConfig::default() }, false);
    rig.with(&QdiscConfig::pfifo(), TxVariant::Llist);
    // Without limits nothing is bulked: a run sends 64 packets one by one.
    rig.from.set_byte_limits(0, None).expect("limits");
    let mut receiver = Receiver::new(&rig.to);
    assert_eq!(with_a_waiting_batch(&rig, 399, || {}), Ok(()));
    // Statistics are not asked for meanwhile: the thread that has the root lock for them does the run of a softirq that comes then.
    let (begin, path) = (Instant::now(), &rig.from.device.tx[0]);
    while receiver.received < 400 || path.root.0.is_entered() {
        assert!(begin.elapsed() < PATIENCE, "{} came", receiver.received);
        receiver.wait();
    }
    let stats = rig.stats();
    // Four times 64 by the flusher, 64 + 64 + 16 by the softirq.
    assert_eq!((stats.runs, stats.softirq_runs, stats.schedules, stats.run_pkts), (7, 3, 3, 400));
    assert_eq!(stats.batches.powers()[8], 1, "one batch of 256 to 511 packets");
}
