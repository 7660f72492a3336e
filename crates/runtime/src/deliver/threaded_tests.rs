use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::context::PollContext;
use napier_core::control::{DevAttribute, DevSet, DevSetError, Errno, NapiSet, ThreadedSetting};
use napier_core::state::State;

use super::*;
use crate::device::{DeviceHandle, LinkConfig};
use crate::engine::Engine;
use crate::napi::hold::{self, Point};
use crate::test_link::{end, eventually, is_at_rest};

/// An engine with one link; the instance of its first end.
fn link() -> (Engine, Arc<Napi>) {
    let (engine, device) = queues(1);
    let napi = engine.inner.deliver.napi_by_id(device.napi_id(0)).unwrap().clone();
    eventually("the first look at the ring", || is_at_rest(&napi));
    (engine, napi)
}

/// An engine with one link of so many queues; its first end.
fn queues(queues: u16) -> (Engine, DeviceHandle) {
    let cpu = crate::available_cpus()[0];
    let engine = Engine::builder().softirq_cpus(&[cpu]).fifo(false).workers(1).start().unwrap();
    let config = LinkConfig { queues, ..LinkConfig::default() };
    let (first, _second) = engine.add_link(&config, end(&engine, "first", 1), end(&engine, "second", 2)).unwrap();
    (engine, first)
}

fn set(engine: &Engine, napi: &Napi, setting: ThreadedSetting) {
    let workqueue = setting == ThreadedSetting::Workqueue;
    let threaded = setting.number().map(u64::from);
    let id = Some(napi.id().into());
    engine.napi_set(NapiSet { id, threaded, workqueue, ..NapiSet::default() }).unwrap();
}

/// The instance is given to its thread, which has done with it before the scheduler comes to wake it; by then the pool
/// acts for the thread. The scheduler must not give the instance to the pool, whose it is not.
#[test]
fn who_polls_is_decided_when_the_instance_is_scheduled() {
    let (engine, napi) = link();
    set(&engine, &napi, ThreadedSetting::Enabled);
    hold::on_next(Point::Scheduled, {
        let (engine, napi) = (engine.clone(), napi.clone());
        move || {
            // It may be awake for a reason of its own.
            napi.thread_parker.wake();
            eventually("the thread polls", || !napi.state().contains(State::SCHED));
            set(&engine, &napi, ThreadedSetting::Workqueue);
        }
    });
    engine.inner.deliver.interrupt(Context::current(), &napi);
    assert!(!hold::is_armed(), "the moment came");
    assert_eq!(engine.inner.deliver.workqueue.pushes(), 0, "nobody has scheduled it to the pool");
    engine.inner.deliver.interrupt(Context::current(), &napi);
    eventually("the pool polls", || !napi.state().contains(State::SCHED));
    assert_eq!(engine.inner.deliver.workqueue.pushes(), 1);
}

/// An instance whose queue is never empty is never completed; whoever takes the mode from its poller must not wait for it.
#[test]
fn a_thread_that_never_completes_hands_its_instance_over() {
    for setting in [ThreadedSetting::Enabled, ThreadedSetting::BusyPoll, ThreadedSetting::Workqueue] {
        let (engine, napi) = link();
        set(&engine, &napi, setting);
        napi.never_empty.store(true, Ordering::Relaxed);
        engine.inner.deliver.interrupt(Context::current(), &napi);
        let polls = |contexts: &[PollContext]| contexts.iter().map(|c| napi.stats().polls[*c]).sum::<u64>();
        eventually("the thread polls", || polls(&[PollContext::Kthread, PollContext::KthreadBusy]) > 3);
        std::thread::scope(|scope| {
            let control = scope.spawn(|| set(&engine, &napi, ThreadedSetting::Disabled));
            eventually("the control call returns", || control.is_finished());
        });
        assert!(napi.kthread.lock().unwrap().is_none());
        let before = polls(&[PollContext::Softirq]);
        eventually("softirq goes on", || polls(&[PollContext::Softirq]) > before + 3);
        assert!(!napi.state().intersects(State::THREADED.with(State::SCHED_THREADED)));
        // A poller that never completes can be given a thread again, and be rid of it.
        set(&engine, &napi, setting);
        set(&engine, &napi, ThreadedSetting::Disabled);
        napi.never_empty.store(false, Ordering::Relaxed);
    }
}

/// Scenario 68b: one thread of a device write cannot be started, so nobody is threaded, whatever was set before.
#[test]
fn a_device_write_that_cannot_start_a_thread_leaves_nobody_threaded() {
    let (engine, device) = queues(3);
    let napis: Vec<_> = (0..3).map(|q| engine.inner.deliver.napi_by_id(device.napi_id(q)).unwrap().clone()).collect();
    set(&engine, &napis[0], ThreadedSetting::BusyPoll);
    let write = DevSet { attribute: DevAttribute::Threaded, value: 1 };
    crate::deliver::kthread_fail::IN.set(2);
    assert_eq!(device.set(write), Err(DevSetError::ThreadNotCreated(Errno::ENOMEM)));
    for napi in &napis {
        assert_eq!(napi.threaded_setting(), ThreadedSetting::Disabled);
        assert!(napi.kthread.lock().unwrap().is_none() && !napi.state().contains(State::THREADED));
    }
    assert_eq!(device.settings().threaded, ThreadedSetting::Disabled);
    device.set(write).unwrap();
    assert!(napis.iter().all(|napi| napi.kthread.lock().unwrap().is_some()));
    assert_eq!(device.settings().threaded, ThreadedSetting::Enabled);
}
