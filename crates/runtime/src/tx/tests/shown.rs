//! Figures can be read whatever a sender, a runner or a poller has at the moment.

use super::*;

/// The walk's figure of this name, summed over what it is of.
fn figure(engine: &Engine, name: &str) -> u64 {
    let mut sum = 0;
    engine.metrics(&mut |metric: &crate::metric::Metric, _: &[&str], value: u64| {
        sum += if metric.name == name { value } else { 0 };
    });
    sum
}

#[test]
fn figures_are_read_while_every_lock_of_the_packet_path_is_held() {
    let rig = plain_with(&QdiscConfig::pfifo(), TxVariant::Llist);
    let mut receiver = Receiver::new(&rig.to);
    let sender = rig.sender();
    (0..5).for_each(|number| assert_eq!(send(&sender, 0, number), Ok(())));
    receiver.until(&rig, 5);
    let path = rig.from.device.tx[0].clone();
    let (answer, answered) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut root = None;
        // Who has run the queue may still be on its way out.
        napier_testkit::eventually("nobody sends", || {
            root = path.root.0.try_enter();
            root.is_some()
        });
        let root = root.expect("it was entered");
        let wire = path.claim_wire();
        let cells = rig.from.device.tx_shared.hold_senders();
        let napi = rig.from.napi(0).expect("it has one queue");
        let polls = rig.engine.inner.deliver.with_stopped(&napi, |_owned| {
            scope.spawn(|| answer.send(figure(&rig.engine, "napier_tx_run_packets")));
            answered.recv_timeout(PATIENCE)
        });
        drop((cells, wire));
        path.leave(root, path.rest());
        assert_eq!(polls.expect("the walk waits for none of them"), 5);
    });
    rig.assert_nothing_lost();
}

#[test]
fn drops_are_shown_and_those_of_a_device_outlive_its_disciplines() {
    let rig = plain_with(&QdiscConfig::Pfifo { limit_pkts: 3 }, TxVariant::Llist);
    let path = rig.from.device.tx[0].clone();
    path.words.update_bits(|bits| (bits.freeze(), ()));
    let sender = rig.sender();
    let sent = (0..20).filter(|number| send(&sender, 0, *number).is_ok()).count() as u64;
    let of = |name| figure(&rig.engine, name);
    let dropped = rig.lost();
    assert!(dropped > 0 && sent + dropped >= 20, "{sent} {dropped}");
    assert_eq!((of("napier_tx_drops"), of("napier_device_tx_qdisc_drops")), (dropped, dropped));
    assert_eq!((of("napier_tx_qlen"), rig.from.stats().tx_qdisc_drops), (rig.stats().qlen, dropped));
    // What waits is dropped with the discipline.
    let waiting = rig.stats().qlen;
    let shown = rig.stats().to_string();
    let has = |name: &str, what: &str| shown.lines().any(|line| line.split_whitespace().eq([name, what]));
    assert!(has("qdisc", "pfifo") && has("variant", "llist") && has("qlen", &waiting.to_string()), "{shown}");
    rig.from.set_qdisc(0, &QdiscConfig::pfifo()).expect("another");
    assert_eq!((of("napier_tx_drops"), of("napier_device_tx_qdisc_drops")), (0, dropped + waiting));
    assert_eq!((rig.lost(), of("napier_tx_flushes")), (0, 0), "it begins at 0");
    path.words.update_bits(QueueBits::thaw);
    rig.assert_nothing_lost();
}
