use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::context::PollContext;
use napier_core::state::State;

use super::*;
use crate::device::{DeviceHandle, LinkConfig};
use crate::engine::Engine;
use crate::napi::hold::{self, Point};
use crate::test_link::{end, eventually, is_at_rest};

/// An engine with one softirq CPU and a link; the instances of its ends.
fn link() -> (Engine, DeviceHandle, Arc<Napi>, Arc<Napi>) {
    let cpu = crate::available_cpus()[0];
    let engine = Engine::builder().softirq_cpus(&[cpu]).fifo(false).start().unwrap();
    let (device, second) =
        engine.add_link(&LinkConfig::default(), end(&engine, "first", 1), end(&engine, "second", 2)).unwrap();
    let napi = |id| engine.inner.deliver.napi_by_id(id).unwrap().clone();
    let (first, second) = (napi(device.napi_id(0)), napi(second.napi_id(0)));
    eventually("the first looks", || is_at_rest(&first) && is_at_rest(&second));
    (engine, device, first, second)
}

fn polls(napi: &Napi) -> u64 {
    napi.stats().polls[PollContext::Softirq]
}

/// A program that loses its processor in a poll keeps its own instance from being polled, and no other.
#[test]
fn a_program_that_stands_still_in_a_poll_holds_up_no_other_instance() {
    let (engine, _device, first, second) = link();
    let before = polls(&second);
    hold::on_next(Point::Polling, {
        let engine = engine.clone();
        let second = second.clone();
        move || {
            // By somebody else: what a thread raises itself it could also wait for.
            std::thread::scope(|scope| {
                scope.spawn(|| engine.inner.deliver.interrupt_by_thread(&second)).join().unwrap()
            });
            eventually("the other instance is polled", || polls(&second) > before);
        }
    });
    engine.inner.deliver.interrupt(Context::current(), &first);
    assert!(!hold::is_armed(), "the caller has polled");
}

/// However much there is to poll, the caller polls once; the thread goes on.
#[test]
fn a_program_polls_once() {
    let (engine, _device, first, _) = link();
    first.never_empty.store(true, Ordering::Relaxed);
    let runs = engine.inner.deliver.softirq[0].stats().task_runs;
    engine.inner.deliver.interrupt(Context::current(), &first);
    let stats = engine.inner.deliver.softirq[0].stats();
    // What the thread had no processor for the watchdog takes over, and that counts as well.
    assert!(stats.task_runs == runs + 1 || stats.taken_over > 0, "{stats:?}");
    let before = polls(&first);
    eventually("the thread goes on", || polls(&first) > before + 20);
    first.never_empty.store(false, Ordering::Relaxed);
}

/// What a thread may do is put back however a poll ends.
#[test]
fn a_program_polls_inline_again_after_a_panic() {
    let (engine, _device, first, second) = link();
    let deliver = &engine.inner.deliver;
    hold::on_next(Point::Polling, || panic!("looked for"));
    let polls_first = || deliver.interrupt(Context::current(), &first);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(polls_first)).is_err());
    assert!(Context::current() == Context::PROGRAM && napier_sys::nowait::may_wait());
    let (runs, before) = (deliver.softirq[0].stats().task_runs, polls(&second));
    deliver.interrupt(Context::current(), &second);
    assert_eq!((deliver.softirq[0].stats().task_runs, polls(&second)), (runs + 1, before + 1));
    // Nothing else releases the instance that was being polled, and the engine's end waits for it.
    let _ = first.transition(crate::journal::Rule::CompleteRelease, State::complete_release);
}

/// A sender may be inside a call of a connection, which a poll could want to enter.
#[test]
fn a_sender_that_runs_its_queue_polls_nothing() {
    let (engine, device, first, second) = link();
    let cpu = &engine.inner.deliver.softirq[0];
    device.set_qdisc(0, &crate::tx::QdiscConfig::pfifo()).unwrap();
    assert!(first.tx_path().schedule());
    // Waits on the list, and nobody has been told.
    second.transition(crate::journal::Rule::SchedulePrep, State::schedule_prep);
    cpu.raised.push(&engine.inner.deliver.napi_links, second.index);
    hold::on_next(Point::Polling, || panic!("polled by the sender"));
    cpu.raise_tx(Context::current(), &engine.inner.deliver, first.index, true);
    assert!(hold::is_armed());
    hold::forget();
    cpu.kick();
    eventually("what waited is polled by the thread", || !second.state().contains(State::SCHED));
}
