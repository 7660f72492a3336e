//! Who works for others waits neither for a root lock nor for a kernel timer.

use super::*;
use crate::deliver::softirq::timer_hold;
use crate::port::lock;

/// Sends a packet as one who works for others, who comes by `BeforeRootLock` when the test has let it; true if it goes on
/// while the test holds what it holds then.
fn goes_on_without<L>(rig: &Rig, take: impl FnOnce() -> L, give_back: impl FnOnce(L)) -> bool {
    let sender = rig.sender();
    std::thread::scope(|scope| {
        let (stops, stopped) = crate::hold::stop();
        let (sent, is_sent) = mpsc::channel();
        scope.spawn(move || {
            let _for_others = napier_sys::nowait::ForOthers::begin();
            hold::on_next(Point::BeforeRootLock, stops);
            // An error as well: the test has ended.
            let _ = sent.send(send(&sender, 0, 0));
        });
        stopped.wait();
        let in_hand = take();
        stopped.go_on();
        let went_on = is_sent.recv_timeout(PATIENCE) == Ok(Ok(()));
        give_back(in_hand);
        went_on
    })
}

/// The root lock is taken after the sender has seen it free, or there is a line in front of it.
#[test]
fn a_softirq_does_not_line_up_for_the_root_lock() {
    let rig = plain_with(&QdiscConfig::pfifo(), TxVariant::Locked);
    let mut receiver = Receiver::new(&rig.to);
    let path = &*rig.from.device.tx[0];
    let root = || path.root.0.try_enter().expect("free");
    assert!(goes_on_without(&rig, root, |guarded| path.leave(guarded, path.rest())), "it waits for the root lock");
    let line = || {
        // As while a program runs the queue and another contends.
        path.running.store(true, Ordering::Relaxed);
        lock(&path.busylock.0).0
    };
    assert!(goes_on_without(&rig, line, drop), "it waits in the line");
    eventually("both have come", || {
        receiver.port.wait(Some(Duration::from_millis(1)));
        receiver.received += receiver.port.drain(8, |_| {}) as u64;
        receiver.received == 2
    });
    drop(receiver);
    rig.assert_nothing_lost();
}

/// The owner's thread lets go of the root lock while a program has the transmit lock, which may want it as well.
#[test]
fn the_owner_of_a_queue_does_not_wait_for_a_program_with_the_transmit_lock() {
    let rig = plain_with(&QdiscConfig::pfifo(), TxVariant::Owner);
    let (mut receiver, path) = (Receiver::new(&rig.to), &*rig.from.device.tx[0]);
    let in_hand = path.claim_wire();
    assert_eq!(send(&rig.sender(), 0, 0), Ok(()));
    eventually("the owner takes the list", || path.defer.is_empty());
    eventually("the owner lets go", || {
        path.root.0.try_enter().is_some_and(|guarded| {
            let waits = guarded.root.qlen() == 1;
            path.leave(guarded, path.rest());
            waits
        })
    });
    drop(in_hand);
    receiver.until(&rig, 1);
    drop(receiver);
    rig.assert_nothing_lost();
}

/// A program sets the kernel timer of the softirq CPU: its thread goes on, and what it arms meanwhile is due in time.
#[test]
fn a_softirq_does_not_wait_for_a_program_with_its_timer() {
    let rig = plain();
    let (pulse, path) = (Pulse::new(&rig), rig.from.device.tx[0].clone());
    let engine = &*rig.engine.inner.deliver;
    std::thread::scope(|scope| {
        // Let go where this ends, also by a panic: what waits for it is joined after that.
        let in_hand = engine.softirq[0].hold_timer();
        let (set, is_set) = mpsc::channel();
        let path = &path;
        scope.spawn(move || {
            let _for_others = napier_sys::nowait::ForOthers::begin();
            path.watch(engine, Clock.now() + Span::from_ms(50));
            set.send(()).expect("the test listens");
        });
        is_set.recv_timeout(PATIENCE).expect("who works for others goes on");
        pulse.beat();
        eventually("the timer has come", || path.watchdog_on(0).is_none());
        pulse.beat();
        drop(in_hand);
    });
    pulse.beat();
}

/// A program has said when the kernel timer will fire, and has not set it: no thread relies on that.
#[test]
fn a_timer_that_is_only_announced_is_not_relied_on() {
    let rig = plain();
    let (engine, path) = (&*rig.engine.inner.deliver, rig.from.device.tx[0].clone());
    let wakeups = || rig.engine.softirq_stats()[0].wakeups;
    std::thread::scope(|scope| {
        let (stops, stopped) = crate::hold::stop();
        scope.spawn(move || {
            timer_hold::on_next(timer_hold::Point::BeforeKernelTimer, stops);
            eventually("the CPU's thread sleeps", || {
                // In vain while the CPU's thread is awake.
                engine.softirq[0].watchdog_armed(crate::napi::Context::current(), Clock.now() + Span::from_ms(300_000));
                !timer_hold::is_armed()
            });
        });
        stopped.wait();
        let woken_before = wakeups();
        let _for_others = napier_sys::nowait::ForOthers::begin();
        // After the time that was announced; long after the test.
        let far = Clock.now() + Span::from_ms(600_000);
        eventually("the CPU's thread is woken to see to it", || {
            // In vain while the CPU's thread is awake.
            path.watch(engine, far);
            wakeups() > woken_before
        });
    });
}
