//! Time-outs, losses, budgets, and who runs on which CPU.

use super::picture::{irq, quiet, thread, with_program};
use super::{commands, one, only};
use crate::doctor::{Severity, diagnose, looked_at, not_asked};
use crate::facts::{EpollParams, Facts, Losses, Lost, Watched};

/// Deferral as a time-out of so many ns, in both places.
fn deferring(flush_ns: u64) -> Facts {
    let mut facts = quiet();
    facts.devices[0].files.gro_flush_timeout = Some(flush_ns);
    facts.devices[0].files.napi_defer_hard_irqs = Some(100);
    for instance in facts.devices[0].instances.as_mut().expect("listed") {
        (instance.defer_hard_irqs, instance.gro_flush_timeout_ns) = (Some(100), Some(flush_ns));
    }
    facts
}

#[test]
fn a_deferral_that_packets_wait_for() {
    assert_eq!(diagnose(&deferring(999_999)), []);
    only(&deferring(5_000_000), "timeout-too-long", Severity::Warning);
    let found = only(&deferring(500_000_000), "timeout-too-long", Severity::Serious);
    assert!(found.what.contains("500 ms"), "{}", found.what);
    assert_eq!(commands(&found), ["echo 20000 > /sys/class/net/eth0/gro_flush_timeout"]);
    // A mode that is in force knows what it does.
    let mut held = deferring(5_000_000);
    held.devices[0].is_held = true;
    assert_eq!(diagnose(&held), []);
    // A program polls one of both instances by itself.
    let mut polled = with_program(deferring(5_000_000));
    polled.program.as_mut().expect("there").epolls[0].params =
        Some(EpollParams { busy_poll_usecs: 64, prefer_busy_poll: true, busy_poll_budget: 8 });
    let found = one(&polled, "timeout-too-long");
    assert!(found.what.contains("NAPI instance 6 of") && found.advice.is_none(), "{found:#?}");
    // A kernel that does not show instances' values.
    let mut old = deferring(5_000_000);
    for instance in old.devices[0].instances.as_mut().expect("listed") {
        (instance.defer_hard_irqs, instance.gro_flush_timeout_ns) = (None, None);
    }
    assert_eq!(one(&old, "timeout-too-long").mend.len(), 1);
}

#[test]
fn a_suspension_that_is_longer_than_anybody_waits() {
    let mut facts = deferring(20_000);
    let instances = facts.devices[0].instances.as_mut().expect("listed");
    instances.iter_mut().for_each(|instance| instance.irq_suspend_timeout_ns = Some(10_000_000_000));
    let found = only(&facts, "timeout-too-long", Severity::Warning);
    assert!(found.what.contains("10 s") && found.mend.len() == 2, "{found:#?}");
    let mut facts = deferring(900_000);
    facts.devices[0].instances.as_mut().expect("listed")[0].irq_suspend_timeout_ns = Some(500_000);
    let found = only(&facts, "flush-above-suspend", Severity::Warning);
    assert_eq!(commands(&found), ["napier napi-set --json '{\"id\": 5, \"gro-flush-timeout\": 20000}'"]);
}

#[test]
fn all_queues_on_one_cpu() {
    let mut facts = quiet();
    facts.devices[0].irqs = vec![irq(40, &[1]), irq(41, &[1])];
    let found = only(&facts, "queues-on-one-cpu", Severity::Warning);
    assert_eq!(
        commands(&found),
        ["echo 0 > /proc/irq/40/smp_affinity_list", "echo 1 > /proc/irq/41/smp_affinity_list"]
    );
    // Where it is raised cannot be read: nothing is said of it.
    let mut unread = facts.clone();
    unread.devices[0].irqs[1].effective = None;
    unread.devices[0].irqs[1].affinity = None;
    assert_eq!(diagnose(&unread), []);
    // Threads: the interrupts only wake them.
    facts.devices[0].files.threaded = Some(1);
    for (instance, tid) in facts.devices[0].instances.as_mut().expect("listed").iter_mut().zip([200, 201]) {
        instance.threaded = Some("enabled".to_owned());
        instance.thread = Some(thread(tid, &[tid - 200]));
    }
    assert_eq!(diagnose(&facts), []);
    facts.devices[0].instances.as_mut().expect("listed")[0].thread = Some(thread(200, &[1]));
    let found = only(&facts, "queues-on-one-cpu", Severity::Warning);
    assert_eq!(commands(&found), ["taskset -pc 0 200", "taskset -pc 1 201"]);
}

#[test]
fn isolated_cpus() {
    let mut facts = with_program(quiet());
    facts.cpus.isolated = vec![0, 1];
    let weights: Vec<_> = diagnose(&facts).iter().map(|finding| (finding.id, finding.severity)).collect();
    assert_eq!(weights, [("isolated-cpus", Severity::Warning), ("isolated-cpus", Severity::Note)]);
    let found = diagnose(&facts).remove(0);
    assert!(found.what.starts_with("2 threads of memcached (100) may run on isolated CPUs 0-1,"), "{}", found.what);
    assert_eq!(commands(&found), ["taskset -pc 0 100", "taskset -pc 1 101"]);
    // Pinned, each of them; the interrupts are there as well.
    for (thread, cpu) in facts.program.as_mut().expect("there").threads.iter_mut().zip([0, 1]) {
        thread.cpus = vec![cpu];
    }
    assert_eq!(diagnose(&facts), []);
    facts.program.as_mut().expect("there").threads[1].cpus = vec![0];
    let found = only(&facts, "isolated-cpus", Severity::Note);
    assert!(found.what.contains("Interrupts 41 of eth0"), "{}", found.what);
    facts.cpus.isolated = vec![2, 3];
    assert_eq!(diagnose(&facts), []);
    let instance = &mut facts.devices[0].instances.as_mut().expect("listed")[0];
    (instance.threaded, instance.thread) = (Some("busy-poll".to_owned()), Some(thread(200, &[0, 1])));
    facts.devices[0].files.threaded = Some(1);
    let found = one(&facts, "isolated-cpus");
    assert!(found.severity == Severity::Note && found.what.contains("CPUs 2-3 are isolated"), "{}", found.what);
}

#[test]
fn packets_that_were_lost_and_a_budget_that_loses_them() {
    let lost = |who: &str, of, lost| Lost { who: who.to_owned(), of, lost };
    let mut facts = quiet();
    facts.losses = Losses {
        backlog: vec![lost("0", 1_000_000, 9)],
        squeezed: vec![lost("0", 1_000_000, 999)],
        missed: vec![lost("eth0", 1_000_000, 9), lost("eth9", 10, 10)],
    };
    assert_eq!(diagnose(&facts), [], "one of 100,000 at least, and of this interface");
    let now = Losses { missed: vec![lost("eth0", 5000, 1)], ..Losses::default() };
    facts.watched = Some(Watched { ms: 500, losses: now });
    facts.devices[0].rings = [("rx", "512"), ("rx-max", "4096")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    let found = only(&facts, "packets-lost", Severity::Warning);
    assert!(found.what.contains("1 in 500 ms just now; 9 of 1000000 since"), "{}", found.what);
    assert_eq!(commands(&found), ["ethtool -G eth0 rx 4096"]);
    facts.watched = None;
    facts.losses.squeezed[0].lost = 1000;
    only(&facts, "packets-lost", Severity::Note);
    // As a machine that has just begun shows it.
    facts.losses.squeezed = vec![lost("0", 3, 2), lost("1", 4, 4)];
    assert_eq!(diagnose(&facts), [], "some packets are no habit");
    facts.losses = Losses::default();
    (facts.sysctls.netdev_budget, facts.sysctls.netdev_budget_usecs) = (Some(2), Some(100));
    let found = only(&facts, "softirq-budget", Severity::Warning);
    assert_eq!(
        commands(&found),
        ["sysctl -w net.core.netdev_budget=300", "sysctl -w net.core.netdev_budget_usecs=8000"]
    );
}

#[test]
fn what_is_good_is_named_and_only_what_was_looked_at() {
    let facts = quiet();
    let good = looked_at(&facts, &diagnose(&facts));
    assert!(
        ["instances", "CPUs of interrupts", "deferral", "softirq budget"].iter().all(|word| good.contains(word)),
        "{good:?}"
    );
    // There are no threads, no idle states and no program.
    assert!(["NAPI threads", "idle states", "busy polling of the program"].iter().all(|word| !good.contains(word)));
    let unasked = not_asked(&facts, &diagnose(&facts));
    assert!(["NAPI threads", "idle states"].iter().all(|word| unasked.contains(word)), "{unasked:?}");
    assert!(unasked.iter().all(|word| !good.contains(word)), "{unasked:?} {good:?}");
    let facts = deferring(500_000_000);
    assert!(!looked_at(&facts, &diagnose(&facts)).contains(&"deferral"));
}

#[test]
fn an_effective_value_counts_and_not_the_setting_alone() {
    use crate::facts::{Governor, IdleState};
    let mut facts = quiet();
    let policy = |preference: Option<&str>, khz| Governor {
        path: "/g".to_owned(),
        governor: "powersave".to_owned(),
        can_perform: true,
        preference: preference.map(ToOwned::to_owned),
        khz,
    };
    facts.cpus.governors = vec![policy(Some("performance"), Some((800_000, 3_000_000)))];
    assert_eq!(diagnose(&facts), []);
    facts.cpus.governors = vec![policy(None, Some((3_000_000, 3_000_000)))];
    assert_eq!(diagnose(&facts), []);
    facts.cpus.governors = vec![policy(Some("balance_power"), None)];
    only(&facts, "governor", Severity::Warning);
    facts.cpus.governors.clear();
    let state = |limit_us| IdleState {
        cpu: 0,
        state: 2,
        name: "C6".to_owned(),
        exit_latency_us: 133,
        is_disabled: false,
        limit_us,
    };
    for (limit_us, is_found) in [(None, true), (Some(0), false), (Some(132), false), (Some(133), true)] {
        facts.cpus.idle_states = vec![state(limit_us)];
        assert_eq!(!diagnose(&facts).is_empty(), is_found, "{limit_us:?}");
    }
    facts.cpus.idle_states.clear();
    (facts.cpus.irqbalance_pid, facts.cpus.irqbalance_banned) = (Some(9), vec![40, 41]);
    assert_eq!(diagnose(&facts), [], "it was told to leave all of them alone");
}
