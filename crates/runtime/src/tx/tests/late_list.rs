//! Packets that come to the list while somebody runs the queue.

use super::*;

/// The run's own time is from before they came. A discipline that knows time must not take them for packets that may
/// leave only later.
#[test]
fn a_packet_that_comes_during_a_run_leaves_with_it() {
    let rig = rig(&LinkConfig::default(), false);
    rig.with(&QdiscConfig::Fq(FqConfig::default()), TxVariant::Llist);
    let mut receiver = Receiver::new(&rig.to);
    let sender = rig.sender();
    let other = sender.clone();
    let (pushed, is_pushed) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    // Its packet is on the list; that anybody should flush it has not been said.
    let late = move || {
        hold::on_next(Point::BeforeRootLock, move || {
            pushed.send(()).expect("the runner listens");
            may_go_on.recv().expect("the test goes on");
        });
        send(&other, 1, 0)
    };
    let runner = std::thread::spawn(move || {
        let (started, late_thread) = mpsc::channel();
        hold::on_next(Point::UnderTxLock, move || {
            started.send(std::thread::spawn(late)).expect("the runner listens");
            is_pushed.recv_timeout(PATIENCE).expect("it is pushed");
        });
        assert_eq!(send(&sender, 0, 0), Ok(()));
        late_thread.recv().expect("the runner came by")
    });
    let late_thread = runner.join().expect("the runner ends");
    let stats = rig.stats();
    assert_eq!((stats.runs, stats.run_pkts), (1, 2), "one run takes both");
    go_on.send(()).expect("the late sender waits");
    assert_eq!(late_thread.join().expect("the late sender ends"), Ok(()));
    receiver.until(&rig, 2);
    drop(receiver);
    rig.assert_nothing_lost();
}
