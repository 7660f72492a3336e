//! Who polled, and what is found in that.

use super::picture::{quiet, thread, with_program};
use super::{instances, only};
use crate::doctor::{Severity, diagnose};
use crate::facts::{EpollParams, Facts};
use crate::observe::{Polls, Received, WindowCounts};

/// Deferral on both instances, a program that prefers, and a window with its packets.
fn seen(polls: Polls, sleeps: u64) -> Facts {
    let mut facts = with_program(quiet());
    let files = &mut facts.devices[0].files;
    (files.gro_flush_timeout, files.napi_defer_hard_irqs) = (Some(20_000), Some(100));
    for instance in instances(&mut facts) {
        (instance.defer_hard_irqs, instance.gro_flush_timeout_ns) = (Some(100), Some(20_000));
    }
    let program = facts.program.as_mut().expect("there");
    program.sleeps = Some(sleeps);
    let params = Some(EpollParams { prefer_busy_poll: true, busy_poll_budget: 64, busy_poll_usecs: 0 });
    program.epolls.iter_mut().for_each(|epoll| epoll.params = params);
    see(&mut facts, polls);
    facts
}

fn see(facts: &mut Facts, polls: Polls) {
    let received = Some(Received { packets: 1000, polled: None });
    let polls = Some(Polls { work: 1000, instances: 2, ..polls });
    facts.seen = [("eth0".to_owned(), WindowCounts { received, polls, ..WindowCounts::default() })].into();
}

fn softirq(polls: u64) -> Polls {
    Polls { softirq: polls, interrupted: [("memcached".to_owned(), polls)].into(), ..Polls::default() }
}

#[test]
fn a_program_that_shall_poll_and_does_not() {
    let found = only(&seen(softirq(1000), 900), "program-does-not-poll", Severity::Serious);
    assert!(found.what.contains("1000, softirq 100 % (in the time of memcached 100 %)"), "{}", found.what);
    // It polls, or the packets are another program's, or nothing is deferred for it.
    let polls = Polls { threads: [(101, 900)].into(), ..softirq(100) };
    assert_eq!(diagnose(&seen(polls, 900)), []);
    assert_eq!(diagnose(&seen(softirq(1000), 3)), []);
    let mut plain = with_program(quiet());
    see(&mut plain, softirq(1000));
    assert_eq!(diagnose(&plain), []);
}

#[test]
fn threads_that_shall_poll_and_do_not() {
    let threaded = |polls: Polls| {
        let mut facts = quiet();
        facts.devices[0].files.threaded = Some(1);
        for (at, instance) in instances(&mut facts).iter_mut().enumerate() {
            let tid = 20 + at as u32;
            (instance.threaded, instance.thread) = (Some("enabled".to_owned()), Some(thread(tid, &[tid - 20])));
        }
        see(&mut facts, polls);
        facts
    };
    only(&threaded(softirq(1000)), "threads-do-not-poll", Severity::Serious);
    for fine in [[(20, 900), (21, 5)], [(70, 900), (71, 900)]] {
        let found = diagnose(&threaded(Polls { threads: fine.into(), ..softirq(100) }));
        assert_eq!(found, [], "a thread of the instance, or a program that busy polls");
    }
}

#[test]
fn softirqs_that_are_left_to_a_thread() {
    let mut facts = quiet();
    see(&mut facts, Polls { ksoftirqd: 600, ..softirq(1000) });
    let found = only(&facts, "ksoftirqd-polls", Severity::Warning);
    assert!(found.what.contains("ksoftirqd 60 %"), "{}", found.what);
    see(&mut facts, Polls { ksoftirqd: 400, ..softirq(1000) });
    assert_eq!(diagnose(&facts), []);
}
