//! Packets that come to the list while a thread runs the queue.

use super::*;

/// The run's own time is from before they came. A discipline that knows time must not take them for packets that may
/// leave only later.
#[test]
fn a_packet_that_comes_during_a_run_leaves_with_it() {
    let rig = plain_with(&QdiscConfig::Fq(FqConfig::default()), TxVariant::Llist);
    let mut receiver = Receiver::new(&rig.to);
    let sender = rig.sender();
    let other = sender.clone();
    let (stops, stopped) = crate::hold::stop();
    // Its packet is on the list; that any thread should flush it has not been said.
    let late = move || {
        hold::on_next(Point::BeforeRootLock, stops);
        send(&other, 1, 0)
    };
    let runner = std::thread::spawn(move || {
        let (started, late_thread) = mpsc::channel();
        hold::on_next(Point::UnderTxLock, move || {
            let thread = std::thread::spawn(late);
            stopped.wait();
            started.send((thread, stopped)).expect("the runner listens");
        });
        assert_eq!(send(&sender, 0, 0), Ok(()));
        late_thread.recv().expect("the runner came by")
    });
    let (late_thread, stopped) = runner.join().expect("the runner ends");
    let stats = rig.stats();
    assert_eq!((stats.runs, stats.run_pkts), (1, 2), "one run takes both");
    stopped.go_on();
    assert_eq!(late_thread.join().expect("the late sender ends"), Ok(()));
    receiver.until(&rig, 2);
    drop(receiver);
    rig.assert_nothing_lost();
}
