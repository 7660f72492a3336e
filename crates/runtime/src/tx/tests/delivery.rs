//! What is not dropped arrives in the order of its flow, whatever changes meanwhile, and what is dropped is counted.

use super::*;

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
    let mut receiver = Receiver::new(&rig.to);
    let sent = while_sending(&rig.sender(), 4, || {
        for turn in 0..60_usize {
            rig.from.set_tx_variant(0, TxVariant::ALL[turn % 3]).expect("variant");
            rig.from.set_byte_limits(0, (turn % 2 == 0).then(ByteLimits::default)).expect("limits");
            for _ in 0..20 {
                receiver.port.wait(Some(Duration::from_micros(100)));
                receiver.take();
            }
        }
    });
    receiver.until(&rig, sent);
    drop(receiver);
    rig.assert_nothing_lost();
}

#[test]
fn a_deactivated_queue_drops_and_counts_and_comes_back() {
    for variant in TxVariant::ALL {
        let rig = plain_with(&QdiscConfig::pfifo(), variant);
        let mut receiver = Receiver::new(&rig.to);
        while_sending(&rig.sender(), 3, || {
            for _ in 0..20 {
                rig.from.set_down();
                assert_eq!(rig.stats().qlen, 0, "{variant:?}: nothing waits in a queue that is down");
                rig.from.set_up().expect("up");
                // It is there again.
                let (before, begin) = (receiver.received, Instant::now());
                while receiver.received == before {
                    receiver.wait();
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

#[test]
fn a_ring_that_stays_full_stops_the_queue_and_nothing_is_lost() {
    for variant in TxVariant::ALL {
        let rig = rig(&LinkConfig { ring_size: 64, sender_frames: 512, ..LinkConfig::default() }, false);
        rig.with(&QdiscConfig::Pfifo { limit_pkts: 200 }, variant);
        rig.from.set_byte_limits(0, None).expect("limits");
        // No thread polls the receiving instance: the ring fills.
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
        // The owner's thread may have had no processor yet.
        napier_testkit::eventually("the queue is stopped and the discipline is full", || {
            let stats = rig.stats();
            let dropped: u64 = stats.drops.iter().map(|(_, packets)| packets).sum();
            stats.stops >= 1 && stats.qlen > 0 && dropped > 0
        });
        let stats = rig.stats();
        assert!(stats.drops.iter().all(|(reason, _)| *reason == DropReason::Overlimit), "{stats:?}");
        rig.to.set_up().expect("up");
        receiver.until(&rig, 400);
        assert!(accepted <= 400);
        drop(receiver);
        rig.assert_nothing_lost();
    }
}

/// The thread that reads counters holds the root lock for a moment, and what is left to it meanwhile must be done.
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
