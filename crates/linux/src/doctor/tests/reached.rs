//! What is set and reaches neither program nor packets.

use super::picture::{quiet, thread, with_program};
use super::{instances, one, only};
use crate::doctor::{Severity, diagnose};
use crate::facts::{EpollParams, Facts, Program, Ring, Through};
use crate::observe::{How, Polls, Received, Waits, WindowCounts};

/// Deferral and suspension on both instances.
fn suspended(mut facts: Facts) -> Facts {
    let files = &mut facts.devices[0].files;
    (files.gro_flush_timeout, files.napi_defer_hard_irqs) = (Some(20_000), Some(100));
    for instance in instances(&mut facts) {
        (instance.defer_hard_irqs, instance.gro_flush_timeout_ns) = (Some(100), Some(20_000));
        instance.irq_suspend_timeout_ns = Some(20_000_000);
    }
    facts
}

/// Under suspension, with epoll instances that prefer.
fn in_force() -> Facts {
    let mut facts = suspended(with_program(quiet()));
    let params = Some(EpollParams { prefer_busy_poll: true, busy_poll_budget: 64, busy_poll_usecs: 0 });
    program(&mut facts).epolls.iter_mut().for_each(|epoll| epoll.params = params);
    facts
}

fn program(facts: &mut Facts) -> &mut Program {
    facts.program.as_mut().expect("there")
}

fn waits(found: &[(How, i32)]) -> Waits {
    Waits { waiting: 9, found: found.iter().map(|one| (*one, 9)).collect(), ..Waits::default() }
}

fn see(facts: &mut Facts, packets: u64, polled: Option<u64>, polls: Option<Polls>) {
    let window = WindowCounts { received: Some(Received { packets, polled }), polls, ..WindowCounts::default() };
    facts.seen = [("eth0".to_owned(), window)].into();
}

#[test]
fn a_mode_that_acts_is_no_finding() {
    let mut facts = in_force();
    see(&mut facts, 1000, Some(1000), Some(Polls { softirq: 10, work: 1000, instances: 2, ..Polls::default() }));
    program(&mut facts).waits = waits(&[(How::Epoll, 3), (How::Epoll, 4)]);
    assert_eq!(diagnose(&facts), []);
}

#[test]
fn packets_that_no_instance_takes() {
    for polls in [None, Some(Polls { instances: 0, ..Polls::default() })] {
        let mut facts = in_force();
        facts.devices[0].driver = Some("veth".to_owned());
        see(&mut facts, 1000, polls.is_none().then_some(3), polls);
        let found = one(&facts, "nothing-polls");
        assert_eq!(found.severity, Severity::Serious);
        assert!(found.what.contains("1000 packets") && found.advice.is_some_and(|text| text.contains("tso off")));
    }
    // Few packets, packets that are polled, polls of another interface with that name.
    let mut facts = in_force();
    for (packets, polled, polls) in [
        (5, Some(0), None),
        (1000, Some(900), None),
        (1000, None, None),
        (1000, None, Some(Polls { instances: 3, ..Polls::default() })),
    ] {
        see(&mut facts, packets, polled, polls);
        assert_eq!(diagnose(&facts), []);
    }
    // Nothing is set, and nobody asked for this interface.
    let mut facts = quiet();
    facts.devices[0].is_asked = false;
    see(&mut facts, 1000, Some(0), None);
    assert_eq!(diagnose(&facts), []);
}

#[test]
fn connections_that_learned_no_instance() {
    let mut facts = in_force();
    program(&mut facts).connections = [("eth0".to_owned(), Through { count: 16, with_id: 0 })].into();
    let found = only(&facts, "connections-without-instance", Severity::Serious);
    assert!(found.what.contains("16 connections by eth0"), "{}", found.what);
    program(&mut facts).connections = [("lo".to_owned(), Through { count: 16, with_id: 0 })].into();
    let found = only(&facts, "prefer-on-loopback", Severity::Warning);
    assert!(found.what.contains("(16)"), "{}", found.what);
}

#[test]
fn suspension_that_no_epoll_instance_uses() {
    let facts = suspended(with_program(quiet()));
    let found = only(&facts, "suspension-not-used", Severity::Serious);
    assert!(found.what.contains("has no epoll instance that prefers"), "{}", found.what);
    for how in [How::Poll, How::Select, How::Receive] {
        let mut facts = suspended(with_program(quiet()));
        program(&mut facts).epolls.clear();
        program(&mut facts).waits = waits(&[(how, 10)]);
        let found = only(&facts, "suspension-not-used", Severity::Serious);
        assert!(found.what.contains(how.call()), "{}", found.what);
    }
    // One that has no sockets has nothing to wait for.
    let mut facts = suspended(with_program(quiet()));
    (program(&mut facts).internet, program(&mut facts).sockets) = Default::default();
    assert_eq!(diagnose(&facts), []);
}

#[test]
fn rings_that_do_not_poll() {
    let mut facts = suspended(with_program(quiet()));
    program(&mut facts).epolls.clear();
    program(&mut facts).rings = vec![Ring { fd: 5, polls: Some(false), ..Ring::default() }];
    program(&mut facts).waits = waits(&[(How::Ring, 5)]);
    assert_eq!(one(&facts, "ring-not-polled").severity, Severity::Warning);
    assert!(one(&facts, "suspension-not-used").what.contains("io_uring"));
    program(&mut facts).rings[0].polls = Some(true);
    assert!(only(&facts, "suspension-not-used", Severity::Serious).what.contains("knows no suspension"));
    instances(&mut facts).iter_mut().for_each(|instance| instance.irq_suspend_timeout_ns = Some(0));
    assert_eq!(diagnose(&facts), [], "it polls, and interrupts are deferred");
}

#[test]
fn epoll_instances_behind_others() {
    let mut facts = in_force();
    let outer = crate::facts::Epoll { fd: 9, params: Some(EpollParams::default()), members: vec![3, 4] };
    program(&mut facts).epolls.push(outer);
    let found = only(&facts, "epoll-behind-another", Severity::Serious);
    assert!(found.what.contains("by way of epoll instance 9") && found.why.contains("20 ms"), "{found:?}");
    program(&mut facts).epolls.pop();
    program(&mut facts).waits = waits(&[(How::Poll, 3)]);
    only(&facts, "epoll-behind-another", Severity::Serious);
    instances(&mut facts).iter_mut().for_each(|instance| instance.irq_suspend_timeout_ns = Some(0));
    only(&facts, "epoll-behind-another", Severity::Warning);
    // One that does not poll may be anywhere.
    let mut facts = with_program(quiet());
    program(&mut facts).waits = waits(&[(How::Poll, 3)]);
    assert_eq!(diagnose(&facts), []);
}

#[test]
fn sockets_that_poll_in_an_epoll_instance_that_does_not() {
    let mut facts = with_program(quiet());
    program(&mut facts).sockets[0].busy_poll_usecs = 400;
    let found = only(&facts, "epoll-of-busy-sockets", Severity::Serious);
    assert!(found.what.contains("epoll descriptor 3"), "{}", found.what);
    facts.sysctls.busy_read = Some(50);
    let found = only(&facts, "busy-poll-for-all", Severity::Note);
    assert!(found.what.contains("net.core.busy_read 50"), "{}", found.what);
    facts.sysctls.busy_read = Some(0);
    let params = Some(EpollParams { busy_poll_usecs: 64, ..EpollParams::default() });
    program(&mut facts).epolls[0].params = params;
    assert_eq!(diagnose(&facts), []);
    program(&mut facts).epolls[0].params =
        Some(EpollParams { busy_poll_usecs: 64, busy_poll_budget: 1, prefer_busy_poll: false });
    only(&facts, "small-budget", Severity::Warning);
}

#[test]
fn offload_that_takes_the_instance_from_packets() {
    let mut facts = with_program(quiet());
    facts.devices[0].lro = Some(true);
    assert_eq!(diagnose(&facts), [], "of other drivers nothing is known");
    facts.devices[0].driver = Some("vmxnet3".to_owned());
    program(&mut facts).connections.insert("eth0".to_owned(), Through { count: 2, with_id: 0 });
    // It says why, so that nothing else has to.
    let found = only(&facts, "lro-hides-instances", Severity::Note);
    assert_eq!(
        found.mend.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["rx-lro of the offloads of eth0 = off"]
    );
    for instance in instances(&mut facts) {
        (instance.defer_hard_irqs, instance.gro_flush_timeout_ns) = (Some(100), Some(20_000));
        instance.irq_suspend_timeout_ns = Some(20_000_000);
    }
    let found = diagnose(&facts);
    assert_eq!((found[0].id, found[0].severity), ("lro-hides-instances", Severity::Serious), "{found:?}");
    let mut with_ids = facts.clone();
    program(&mut with_ids).connections.insert("eth0".to_owned(), Through { count: 2, with_id: 2 });
    facts.devices[0].lro = Some(false);
    assert!([diagnose(&with_ids), diagnose(&facts)].concat().iter().all(|finding| finding.id != "lro-hides-instances"));
}

#[test]
fn threads_of_a_class_that_does_not_fit() {
    let mut facts = with_program(quiet());
    program(&mut facts).threads[1].scheduling = "idle".to_owned();
    assert!(only(&facts, "program-in-idle-class", Severity::Warning).what.contains("thread 101"));
    program(&mut facts).threads[1].scheduling = "fifo 50".to_owned();
    assert_eq!(diagnose(&facts), []);
    facts.devices[0].files.threaded = Some(1);
    for instance in instances(&mut facts) {
        instance.threaded = Some("enabled".to_owned());
        instance.thread = Some(thread(200 + instance.id, &[1, 2]));
    }
    let found = only(&facts, "program-over-napi-threads", Severity::Warning);
    assert!(found.what.contains("fifo 50") && found.what.contains("thread 205"), "{}", found.what);
    instances(&mut facts).iter_mut().for_each(|instance| {
        if let Some(thread) = &mut instance.thread {
            thread.scheduling = "fifo 60".to_owned();
        }
    });
    assert_eq!(diagnose(&facts), []);
}

#[test]
fn interfaces_on_top_of_others() {
    let mut facts = with_program(quiet());
    facts.devices[0].instances = Some(vec![]);
    facts.devices[0].driver = Some("macvlan".to_owned());
    facts.napi_ids.clear();
    let found = only(&facts, "instances-below", Severity::Note);
    assert!(found.what.contains("2 of 2 connections") && found.what.contains("instances of 5 and 6"), "{}", found.what);
    facts.program = None;
    only(&facts, "instances-below", Severity::Note);
    facts.devices[0].driver = Some("tun".to_owned());
    only(&facts, "driver-without-ids", Severity::Warning);
}
