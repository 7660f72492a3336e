use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};

use napier_core::busy::{BusyLimit, BusyParams};
use napier_core::context::PollContext;

use super::*;
use crate::device::{DeviceHandle, LinkConfig};
use crate::engine::Engine;
use crate::napi::Napi;
use crate::napi::context::Scope as InContext;
use crate::raw::RawPort;
use crate::test_link::{PATIENCE, end, eventually, is_at_rest};

/// An engine with one softirq CPU and a link, which packets cross from the second end to the first.
struct Rig {
    engine: Engine,
    cpu: usize,
    devices: [DeviceHandle; 2],
    napis: [Arc<Napi>; 2],
}

impl Rig {
    fn new() -> Self {
        let cpu = crate::available_cpus()[0];
        let engine = Engine::builder().softirq_cpus(&[cpu]).fifo(false).start().unwrap();
        let (first, second) =
            engine.add_link(&LinkConfig::default(), end(&engine, "first", 1), end(&engine, "second", 2)).unwrap();
        let devices = [first, second];
        let napis = [0, 1].map(|at: usize| engine.inner.deliver.napi_by_id(devices[at].napi_id(0)).unwrap().clone());
        eventually("the first looks", || napis.iter().all(|napi| is_at_rest(napi)));
        Self { engine, cpu, devices, napis }
    }

    fn deliver(&self) -> &Deliver {
        &self.engine.inner.deliver
    }

    fn softirq(&self) -> &SoftirqCpu {
        &self.deliver().softirq[0]
    }

    /// A thread that waits for a frame on the first end, asleep in the CPU's place; it tells whether one came.
    fn sleeper<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> ScopedJoinHandle<'scope, bool> {
        let port = RawPort::bind(&self.devices[0], 0).unwrap();
        let thread = scope.spawn(move || {
            napier_sys::sched::pin_current_thread(self.cpu);
            port.wait(Some(PATIENCE))
        });
        eventually("the place is taken", || self.softirq().hand_over.serving.load().is_lent());
        thread
    }

    fn hand_over(&self) -> Option<Arc<dyn IrqHandOver>> {
        self.deliver().softirq.hand_over(Context::current(), self.deliver())
    }

    fn send(&self) {
        let port = RawPort::bind(&self.devices[1], 0).unwrap();
        port.build(64, |frame| {
            frame[..64].fill(7);
            64
        })
        .unwrap();
        port.flush();
    }

    fn stats(&self) -> crate::engine::SoftirqStats {
        self.softirq().stats()
    }
}

fn polls(napi: &Napi) -> u64 {
    napi.stats().polls[PollContext::Softirq]
}

/// Doorbell, poll and program: one wake-up. The CPU's thread has no part in it.
#[test]
fn a_sleeping_program_takes_its_packet_itself() {
    let rig = Rig::new();
    let still = rig.softirq().stand_still();
    let before = rig.stats();
    std::thread::scope(|scope| {
        let sleeper = rig.sleeper(scope);
        rig.send();
        assert!(sleeper.join().unwrap(), "the frame came");
    });
    let after = rig.stats();
    assert!(after.stood_in > before.stood_in);
    assert_eq!(after.wakeups, before.wakeups);
    assert!(!rig.softirq().hand_over.serving.load().is_lent());
    drop(still);
}

/// What is raised for others is polled by who sleeps, and so is a timer run that is due meanwhile.
#[test]
fn a_sleeping_program_works_for_others() {
    let rig = Rig::new();
    let still = rig.softirq().stand_still();
    let other = &rig.napis[1];
    let (fires, polled) = (other.stats().timer_fires, polls(other));
    other.timer.arm(rig.deliver().clock.now() + Span::from_ms(50), 0);
    std::thread::scope(|scope| {
        let sleeper = rig.sleeper(scope);
        eventually("the timer has fired, and polled", || other.stats().timer_fires > fires && polls(other) > polled);
        let polled = polls(other);
        rig.deliver().interrupt_by_thread(other);
        eventually("what was raised is polled", || polls(other) > polled);
        assert!(!sleeper.is_finished());
        rig.send();
        assert!(sleeper.join().unwrap());
    });
    drop(still);
}

/// The CPU's thread hears a bell that was not for it.
#[test]
fn a_bell_that_another_has_heard_is_passed_on() {
    let rig = Rig::new();
    let place = &rig.softirq().hand_over;
    // Nobody has the place: nothing is waited for.
    assert_eq!(place.pass_on(), Bell::Nothing);
    std::thread::scope(|scope| {
        let sleeper = rig.sleeper(scope);
        for _ in 0..100 {
            let Bell::Ring { round } = place.pass_on() else { panic!("a program has it") };
            place.stand_aside(Bell::Ring { round });
            eventually("the sleeper has heard it", || place.serving.load().is_over(round));
        }
        rig.send();
        assert!(sleeper.join().unwrap());
    });
}

/// One thread has the place; others sleep as before and are woken by it.
#[test]
fn one_thread_has_the_place() {
    let rig = Rig::new();
    napier_sys::sched::pin_current_thread(rig.cpu);
    let first = rig.hand_over().expect("nobody has it");
    assert!(rig.hand_over().is_none());
    first.end();
    let again = rig.hand_over().expect("it was given back");
    // Called before: it does not sleep.
    rustix::io::write(again.bell(), &1_u64.to_ne_bytes()).unwrap();
    let mut awake = 0;
    again.sleep(Deadline::at(rig.deliver().clock.now()), &mut || awake += 1);
    assert_eq!(awake, 1);
    again.end();
}

/// A softirq, or what works for one, never sleeps in a place.
#[test]
fn who_works_for_others_takes_no_place() {
    let rig = Rig::new();
    napier_sys::sched::pin_current_thread(rig.cpu);
    let cx = Context::current();
    Context::of_thread(0).begin();
    assert!(rig.hand_over().is_none());
    cx.begin();
    let contexts: [fn(Context) -> InContext; 5] =
        [|cx| cx.serve(0), |cx| cx.handle(0), |cx| cx.inline_on(0), Context::inline, Context::kick_only];
    for begin in contexts {
        let _kept = begin(cx);
        assert!(rig.hand_over().is_none());
    }
    rig.hand_over().expect("a program").end();
}

/// A program that comes by sees to what is due; the CPU's thread need not.
#[test]
fn a_program_that_comes_by_runs_what_is_due() {
    let rig = Rig::new();
    napier_sys::sched::pin_current_thread(rig.cpu);
    let still = rig.softirq().stand_still();
    let napi = &rig.napis[0];
    let fires = napi.stats().timer_fires;
    let earliest = rig.deliver().clock.now() + Span::from_ms(2);
    rig.deliver().arm_timer(Context::current(), napi, Span::from_ms(2));
    rig.deliver().softirq.poll_deferred(rig.deliver());
    // This thread may have lost its CPU for as long.
    let not_due = rig.deliver().clock.now() < earliest;
    assert!(!not_due || napi.stats().timer_fires == fires, "it is not due");
    let due = rig.deliver().clock.now() + Span::from_ms(2);
    eventually("it is due", || rig.deliver().clock.now() > due);
    rig.deliver().softirq.poll_deferred(rig.deliver());
    // What is overdue the engine's watchdog takes over, while this thread has no processor.
    let by_others = || rig.stats().taken_over > 0;
    assert!(napi.stats().timer_fires == fires + 1 || by_others());
    rig.deliver().softirq.poll_deferred(rig.deliver());
    assert!(napi.stats().timer_fires == fires + 1 || by_others(), "it was run");
    drop(still);
}

/// While an instance has an owner its timer would do nothing.
#[test]
fn who_takes_an_instance_disarms_its_timer() {
    let rig = Rig::new();
    let napi = &rig.napis[0];
    napi.timer.arm(rig.deliver().clock.now() + Span::from_ms(60_000), 0);
    let once = BusyParams { prefer: false, budget_pkts: 8, limit: BusyLimit::Once };
    rig.deliver().busy_loop(napi.id(), once, &mut || false);
    assert_eq!(napi.timer.expiry_on(0), None);
}
