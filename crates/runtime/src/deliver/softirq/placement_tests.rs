use std::os::fd::AsFd as _;
use std::sync::atomic::AtomicBool;

use napier_testkit::skip;
use rustix::thread::sched_getaffinity;

use super::*;
use crate::RealTime;
use crate::deliver::softirq::SoftirqCpu;
use crate::deliver::softirq::class::FIFO_PRIORITY;
use crate::device::{EndConfig, LinkConfig};
use crate::engine::Engine;
use crate::test_link::{PATIENCE, end, eventually};

fn may_run_on(cpu: &SoftirqCpu) -> Vec<usize> {
    let thread = Pid::from_raw(cpu.placement.tid()).expect("it runs");
    let set = sched_getaffinity(Some(thread)).unwrap();
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Two processors, or a line that says that they are missing.
fn two_cpus(test: &str) -> Option<Vec<usize>> {
    let cpus = crate::available_cpus();
    if cpus.len() < 2 {
        skip!(test, "two processors are needed");
        return None;
    }
    Some(cpus)
}

#[test]
fn a_thread_that_was_let_go_comes_home() {
    let Some(cpus) = two_cpus("a_thread_that_was_let_go_comes_home") else { return };
    let engine = Engine::builder().softirq_cpus(&cpus[..1]).start().unwrap();
    let (inner, cpu) = (&engine.inner.deliver, &engine.inner.deliver.softirq[0]);
    assert_eq!(may_run_on(cpu), cpus[..1]);
    let now = inner.clock.now();
    assert!(cpu.let_go(inner, now));
    // On a busy machine the engine's own watchdog lets it go once more, if it hears none of these kicks.
    eventually("it may run anywhere", || {
        cpu.kick();
        may_run_on(cpu).len() == cpus.len()
    });
    cpu.kick();
    eventually("from there too", || cpu.let_go(inner, inner.clock.now()));
    cpu.placement.away_since_ns.store(0, Ordering::Relaxed);
    eventually("it is home", || {
        cpu.kick();
        may_run_on(cpu) == cpus[..1]
    });
    assert!(cpu.stats().let_go >= 2, "{:?}", cpu.stats());
}

/// A thread that is not pinned, or has nowhere to go, is not let go.
#[test]
fn only_who_is_pinned_and_has_a_place_is_let_go() {
    let engine = Engine::builder().start().unwrap();
    assert_eq!(engine.inner.deliver.softirq[0].placement.rescue(0), Rescue::TakeOver);
    let mut one = CpuSet::new();
    one.set(3);
    assert_eq!(without(&one, 3).map(|set| set.count()), None);
    assert_eq!(without(&one, 5).map(|set| set.count()), Some(1));
}

/// Held by a test that takes a processor: two of them at a time would leave none to anything else.
static HOGS: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    HOGS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Takes a processor as a real-time thread does, until it is told to end or for `PATIENCE`.
fn hog(cpu: usize, priority: i32, stop: &AtomicBool, runs: &AtomicBool) {
    pin_current_thread(cpu);
    let _real_time = RealTime::begin(priority).expect("the engine may too");
    let begun = std::time::Instant::now();
    while !stop.load(Ordering::Relaxed) && begun.elapsed() < PATIENCE {
        runs.store(true, Ordering::Relaxed);
        std::hint::spin_loop();
    }
}

/// Whoever starts or ends an engine does not wait for a processor that a real-time thread has.
#[test]
fn an_engine_starts_and_ends_beside_a_real_time_thread() {
    let test = "an_engine_starts_and_ends_beside_a_real_time_thread";
    let Some(cpus) = two_cpus(test) else { return };
    let _alone = alone();
    if RealTime::begin(FIFO_PRIORITY).is_err() {
        return skip!(test, "real-time scheduling is not allowed here");
    }
    let (stop, runs) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let hog = scope.spawn(|| hog(cpus[1], FIFO_PRIORITY + 10, &stop, &runs));
        eventually("the other runs", || runs.load(Ordering::Relaxed));
        let engine = Engine::builder().softirq_cpus(&cpus[1..2]).start().unwrap();
        let end = |name, mac| EndConfig { irq_cpus: vec![cpus[1]], ..end(&engine, name, mac) };
        let (first, _second) = engine.add_link(&LinkConfig::default(), end("first", 1), end("second", 2)).unwrap();
        engine.group_new("g", &cpus[1..2], crate::engine::GroupSettings::default()).unwrap();
        engine.group_attach("g", first.napi_id(0)).unwrap();
        engine.group_detach("g", first.napi_id(0)).unwrap();
        engine.group_del("g").unwrap();
        drop(engine);
        assert!(!hog.is_finished(), "it took {PATIENCE:?}");
        stop.store(true, Ordering::Relaxed);
    });
}

/// All threads of the engine sleep, and the pinned one waits behind a real-time thread: its work is done all the same, while
/// that one goes on.
#[test]
fn work_behind_a_real_time_thread_is_done() {
    let Some(cpus) = two_cpus("work_behind_a_real_time_thread_is_done") else { return };
    let _alone = alone();
    let engine = Engine::builder().softirq_cpus(&cpus[..1]).start().unwrap();
    let inner = &engine.inner.deliver;
    if !inner.softirq[0].stats().fifo {
        skip!("work_behind_a_real_time_thread_is_done", "real-time scheduling is not allowed here");
        return;
    }
    let end = |name, mac| EndConfig { irq_cpus: vec![cpus[0]], ..end(&engine, name, mac) };
    let (first, _second) = engine.add_link(&LinkConfig::default(), end("first", 1), end("second", 2)).unwrap();
    let napi = inner.napi_by_id(first.napi_id(0)).unwrap();
    let (stop, runs) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| hog(cpus[0], FIFO_PRIORITY, &stop, &runs));
        eventually("the other runs", || runs.load(Ordering::Relaxed));
        // Nothing waits, so there is no poll.
        let heard = || napi.stats().irq_needless;
        let before = heard();
        rustix::io::write(napi.irq.doorbell_fd().unwrap().as_fd(), &1_u64.to_ne_bytes()).unwrap();
        eventually("it is heard", || heard() > before);
        assert!(!stop.swap(true, Ordering::Relaxed));
    });
    assert!(inner.softirq[0].stats().let_go > 0);
}
