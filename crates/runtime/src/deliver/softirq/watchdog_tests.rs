use std::sync::Arc;
use std::time::Duration;

use napier_core::context::PollContext;
use napier_core::state::State;

use super::*;
use crate::device::{DeviceHandle, EndConfig, LinkConfig};
use crate::engine::Engine;
use crate::napi::Napi;
use crate::test_link::{end, eventually, is_at_rest};

impl SoftirqCpu {
    /// Where a test keeps the thread from its processor.
    pub(in crate::deliver::softirq) fn stand_still_if_told(&self) {
        while self.stand_still[0].load(Ordering::Relaxed) {
            self.stand_still[1].store(true, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(in crate::deliver::softirq) fn stand_still(&self) -> StandsStill<'_> {
        self.stand_still[0].store(true, Ordering::Relaxed);
        self.kick();
        let still = StandsStill(self);
        eventually("the thread stands still", || self.stand_still[1].load(Ordering::Relaxed));
        still
    }
}

/// The thread goes on when this ends: an engine could not end before.
pub(in crate::deliver::softirq) struct StandsStill<'a>(&'a SoftirqCpu);

impl Drop for StandsStill<'_> {
    fn drop(&mut self) {
        self.0.stand_still[0].store(false, Ordering::Relaxed);
    }
}

fn link(cpus: &[usize]) -> (Engine, [DeviceHandle; 2], [Arc<Napi>; 2]) {
    let engine = Engine::builder().softirq_cpus(cpus).fifo(false).start().unwrap();
    let end = |name, mac| EndConfig { irq_cpus: vec![cpus[0]], ..end(&engine, name, mac) };
    let (first, second) = engine.add_link(&LinkConfig::default(), end("first", 1), end("second", 2)).unwrap();
    let napis = [&first, &second].map(|device| engine.inner.deliver.napi_by_id(device.napi_id(0)).unwrap().clone());
    eventually("the first looks", || napis.iter().all(|napi| is_at_rest(napi)));
    (engine, [first, second], napis)
}

/// Polls, and interrupts for which there was nothing to be polled.
fn polls(napi: &Napi) -> u64 {
    let stats = napi.stats();
    stats.polls[PollContext::Softirq] + stats.irq_needless
}

/// A doorbell, a scheduled instance and a timer wait for a thread that gets no processor.
fn all_is_done_by_others(cpus: &[usize]) {
    let (engine, _devices, [first, second]) = link(cpus);
    let inner = &engine.inner.deliver;
    let still = inner.softirq[0].stand_still();
    let before = [&first, &second].map(|napi| polls(napi));
    inner.interrupt_by_thread(&first);
    if cpus.len() > 1 {
        // By way of the first CPU, wherever this thread runs.
        inner.softirq[0].kick();
    }
    rustix::io::write(second.irq.doorbell_fd().unwrap(), &1_u64.to_ne_bytes()).unwrap();
    eventually("both are polled", || {
        inner.watchdog.tick(Context::current(), inner, inner.clock.now());
        polls(&first) > before[0] && polls(&second) > before[1]
    });
    let fires = first.stats().timer_fires;
    first.timer.arm(inner.clock.now(), 0);
    eventually("the timer fires", || {
        inner.watchdog.tick(Context::current(), inner, inner.clock.now());
        first.stats().timer_fires > fires
    });
    let stats = inner.softirq[0].stats();
    assert!(stats.taken_over >= 2, "{stats:?}");
    drop(still);
}

#[test]
fn what_waits_is_done_by_the_thread_that_looks() {
    all_is_done_by_others(&crate::available_cpus()[..1]);
}

#[test]
fn what_waits_is_done_by_another_softirq_cpu() {
    let cpus = crate::available_cpus();
    if cpus.len() < 2 {
        napier_testkit::skip!("what_waits_is_done_by_another_softirq_cpu", "two CPUs are needed");
        return;
    }
    all_is_done_by_others(&cpus[..2]);
}

/// A thread that is only idle, or at work, is left alone.
#[test]
fn nothing_is_taken_from_a_thread_that_runs() {
    let (engine, _devices, [first, _]) = link(&crate::available_cpus()[..1]);
    let inner = &engine.inner.deliver;
    for _ in 0..20 {
        inner.interrupt_by_thread(&first);
        eventually("polled", || !first.state().contains(State::SCHED));
        inner.watchdog.tick(Context::current(), inner, inner.clock.now());
        std::thread::sleep(Duration::from_millis(2));
    }
    let stats = inner.softirq[0].stats();
    // On a machine that is busy with other things the thread may really have been kept waiting.
    assert!(stats.taken_over == 0 || stats.run_delay_ns == 0 || stats.run_delay_ns > 10_000_000, "{stats:?}");
}
