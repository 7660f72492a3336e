//! Pictures of machines, and what is found in them.

mod kept;
mod picture;
mod places;
mod polled;
mod reached;

use super::{Finding, IDS, Severity, diagnose};
use crate::change::Line;
use crate::facts::{DeviceFiles, EpollParams, Facts, Governor, IdleState, Instance, Kernel};
use picture::{irq, names, quiet, thread, with_program};

/// The only finding with this id.
fn one(facts: &Facts, id: &str) -> Finding {
    let all: Vec<Finding> = diagnose(facts).into_iter().filter(|finding| finding.id == id).collect();
    let [found] = &all[..] else { panic!("{} findings {id}: {:#?}", all.len(), diagnose(facts)) };
    assert!(found.what.ends_with('.') && found.why.ends_with('.'), "{found:#?}");
    assert!(found.mend.iter().all(|line| line.command().is_some()), "{found:#?}");
    found.clone()
}

/// The only finding that there is.
fn only(facts: &Facts, id: &str, severity: Severity) -> Finding {
    let all: Vec<_> = diagnose(facts).into_iter().map(|finding| finding.id).collect();
    assert_eq!(all, [id]);
    let found = one(facts, id);
    assert_eq!(found.severity, severity);
    found
}

fn commands(finding: &Finding) -> Vec<String> {
    finding.mend.iter().filter_map(Line::command).collect()
}

fn instances(facts: &mut Facts) -> &mut Vec<Instance> {
    facts.devices[0].instances.as_mut().expect("listed")
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    assert_eq!(diagnose(&quiet()), []);
    assert_eq!(diagnose(&with_program(quiet())), []);
    // A machine of which nothing could be read.
    assert_eq!(diagnose(&Facts::default()), []);
}

#[test]
fn suspension_without_deferral() {
    let mut facts = quiet();
    instances(&mut facts)[1].irq_suspend_timeout_ns = Some(20_000_000);
    let found = diagnose(&facts);
    assert_eq!((found[0].id, found[0].severity), ("suspension-without-deferral", Severity::Serious));
    assert!(found[0].what.contains("NAPI instance 6 of eth0") && found[0].what.contains("20 ms"), "{}", found[0].what);
    assert_eq!(found[0].mend.len(), 2);
    // A mode in force (suspend0) is meant so.
    facts.devices[0].is_held = true;
    assert!(diagnose(&facts).iter().all(|finding| finding.severity == Severity::Note));
    facts.devices[0].is_held = false;
    // With one of both values only the other one is missing.
    instances(&mut facts)[1].defer_hard_irqs = Some(7);
    let found = one(&facts, "suspension-without-deferral");
    assert_eq!(commands(&found), ["napier napi-set --json '{\"id\": 6, \"gro-flush-timeout\": 20000}'"]);
    instances(&mut facts)[1].gro_flush_timeout_ns = Some(1);
    assert!(diagnose(&facts).iter().all(|finding| finding.severity == Severity::Note));
}

#[test]
fn a_time_out_without_a_count() {
    let mut facts = quiet();
    facts.devices[0].files.gro_flush_timeout = Some(20_000);
    instances(&mut facts).iter_mut().for_each(|instance| instance.gro_flush_timeout_ns = Some(20_000));
    let found = only(&facts, "flush-without-defer", Severity::Warning);
    assert_eq!(commands(&found), ["echo 0 > /sys/class/net/eth0/gro_flush_timeout"]);
    // The file is left alone if another instance is set well.
    instances(&mut facts)[0].defer_hard_irqs = Some(1);
    assert_eq!(one(&facts, "flush-without-defer").mend.len(), 1);
    assert!(commands(&one(&facts, "flush-without-defer"))[0].starts_with("napier napi-set"));
    // A kernel that does not show instances' values.
    for instance in instances(&mut facts) {
        (instance.defer_hard_irqs, instance.gro_flush_timeout_ns) = (None, None);
    }
    assert!(one(&facts, "flush-without-defer").what.contains("eth0"));
}

#[test]
fn a_count_without_a_time_out() {
    let mut facts = quiet();
    facts.devices[0].files.napi_defer_hard_irqs = Some(2);
    instances(&mut facts).iter_mut().for_each(|instance| instance.defer_hard_irqs = Some(2));
    let found = only(&facts, "defer-without-timeout", Severity::Warning);
    assert!(found.mend.is_empty() && found.advice.is_some());
}

#[test]
fn coalescing_beside_deferral() {
    let mut facts = quiet();
    facts.devices[0].coalesce = names(&[("rx-usecs", "50"), ("adaptive-rx", "on")]);
    assert_eq!(diagnose(&facts), [], "coalescing alone is nobody's mistake");
    facts.devices[0].files =
        DeviceFiles { gro_flush_timeout: Some(1), napi_defer_hard_irqs: Some(1), threaded: Some(0) };
    for instance in instances(&mut facts) {
        (instance.defer_hard_irqs, instance.gro_flush_timeout_ns) = (Some(1), Some(1));
    }
    let found = only(&facts, "coalescing-hides-deferral", Severity::Warning);
    assert_eq!(commands(&found), ["ethtool -C eth0 adaptive-rx off", "ethtool -C eth0 rx-usecs 0"]);
}

#[test]
fn values_that_sysfs_does_not_show() {
    let mut facts = quiet();
    (instances(&mut facts)[0].defer_hard_irqs, instances(&mut facts)[0].gro_flush_timeout_ns) = (Some(1), Some(1));
    let found = only(&facts, "instance-hides-sysfs", Severity::Note);
    assert!(found.what.contains("defer-hard-irqs, gro-flush-timeout"), "{}", found.what);
}

#[test]
fn a_preference_without_deferral() {
    let mut facts = with_program(quiet());
    let program = facts.program.as_mut().expect("there");
    program.epolls[0].params = Some(EpollParams { prefer_busy_poll: true, ..EpollParams::default() });
    let found = only(&facts, "prefer-without-deferral", Severity::Serious);
    assert_eq!(found.mend.len(), 2);
    let program = facts.program.as_mut().expect("there");
    program.epolls[0].params = None;
    program.sockets[1].prefer_busy_poll = true;
    // Its epoll instance polls, which is another matter than whether it prefers to.
    program.epolls[1].params = Some(EpollParams { busy_poll_usecs: 64, ..EpollParams::default() });
    assert!(only(&facts, "prefer-without-deferral", Severity::Serious).what.contains("instance 6"));
}

#[test]
fn an_epoll_instance_that_mixes() {
    let mut facts = with_program(quiet());
    facts.workers = Some(2);
    facts.program.as_mut().expect("there").epolls[0].members = vec![10, 11, 12];
    assert_eq!(diagnose(&facts), [], "one that does not poll may mix");
    facts.sysctls.busy_poll = Some(50);
    let found = one(&facts, "epoll-mixes-instances");
    assert_eq!(found.severity, Severity::Serious);
    assert!(found.what.contains("descriptor 3") && found.what.contains("5 and 6"), "{}", found.what);
    // An instance that has gone is no other one.
    facts.napi_ids = vec![5];
    assert!(diagnose(&facts).iter().all(|finding| finding.id != "epoll-mixes-instances"));
}

#[test]
fn spinning_and_suspension() {
    let mut facts = with_program(quiet());
    facts.devices[0].files =
        DeviceFiles { gro_flush_timeout: Some(1), napi_defer_hard_irqs: Some(1), threaded: Some(0) };
    for instance in instances(&mut facts) {
        (instance.defer_hard_irqs, instance.gro_flush_timeout_ns) = (Some(1), Some(1));
        instance.irq_suspend_timeout_ns = Some(1_500_000);
    }
    let params = |busy_poll_usecs| Some(EpollParams { busy_poll_usecs, prefer_busy_poll: true, busy_poll_budget: 8 });
    facts.program.as_mut().expect("there").epolls[1].params = params(64);
    let found = only(&facts, "busy-poll-with-suspension", Severity::Warning);
    assert!(found.what.contains("64 µs") && found.what.contains("1500 µs"), "{}", found.what);
    facts.program.as_mut().expect("there").epolls[1].params = params(0);
    assert_eq!(diagnose(&facts), []);
}

#[test]
fn a_veth_without_receive_offload() {
    let mut facts = quiet();
    facts.devices[0].instances = Some(vec![]);
    let found = only(&facts, "driver-without-ids", Severity::Serious);
    assert!(found.what.contains("ice"), "{}", found.what);
    (facts.devices[0].driver, facts.devices[0].gro) = (Some("veth".to_owned()), Some(false));
    let found = only(&facts, "no-instance", Severity::Serious);
    assert_eq!(commands(&found), ["ethtool -K eth0 rx-gro on"]);
    // Beside an interface that has some, only one that was asked about is worth a word.
    let mut facts = Facts { devices: [facts.devices, quiet().devices].concat(), ..quiet() };
    facts.devices[0].is_asked = false;
    assert_eq!(diagnose(&facts), []);
    // A kernel that lists none says nothing of the driver.
    facts.devices[0].instances = None;
    assert_eq!(diagnose(&facts), []);
    facts.devices[0].is_up = false;
    only(&facts, "interface-down", Severity::Warning);
}

#[test]
fn queues_without_ids() {
    let mut facts = quiet();
    facts.devices[0].rx_queues.iter_mut().for_each(|queue| queue.napi_id = None);
    only(&facts, "queues-without-ids", Severity::Note);
}

#[test]
fn a_napi_thread_on_the_programs_cpu() {
    let mut facts = with_program(quiet());
    facts.devices[0].files.threaded = Some(1);
    for (instance, cpu) in instances(&mut facts).iter_mut().zip([0, 1]) {
        instance.threaded = Some("enabled".to_owned());
        instance.thread = Some(thread(200 + cpu, &[cpu]));
    }
    assert_eq!(diagnose(&facts), []);
    facts.program.as_mut().expect("there").threads[0].cpus = vec![0];
    let found = only(&facts, "one-cpu", Severity::Warning);
    // The other CPU of the node is the other thread's.
    assert_eq!(commands(&found), ["taskset -pc 3 200"]);
    instances(&mut facts)[0].threaded = Some("busy-poll".to_owned());
    assert_eq!(one(&facts, "one-cpu").severity, Severity::Serious);
    // Two that poll for ever on one CPU, without a program.
    facts.program = None;
    instances(&mut facts)[1].thread = Some(thread(201, &[0]));
    assert!(one(&facts, "one-cpu").what.contains("another thread that polls"));
}

#[test]
fn an_interrupt_on_the_programs_cpu() {
    let mut facts = with_program(quiet());
    facts.program.as_mut().expect("there").threads.iter_mut().for_each(|thread| thread.cpus = vec![1]);
    facts.devices[0].irqs = vec![irq(40, &[1])];
    let found = only(&facts, "one-cpu", Severity::Warning);
    assert_eq!(commands(&found), ["echo 0 > /proc/irq/40/smp_affinity_list"]);
    facts.devices[0].irqs.push(irq(41, &[0]));
    assert_eq!(diagnose(&facts), []);
}

#[test]
fn another_node_than_the_devices() {
    let mut facts = with_program(quiet());
    facts.devices[0].irqs[1] = irq(41, &[3]);
    let found = only(&facts, "numa-apart", Severity::Warning);
    assert_eq!(commands(&found), ["echo 0-1 > /proc/irq/41/smp_affinity_list"]);
    facts.program.as_mut().expect("there").threads[0].cpus = vec![2, 3];
    let found = one(&facts, "numa-apart");
    assert!(found.what.contains("memcached") && found.advice.is_some_and(|advice| advice.contains("numactl")));
}

#[test]
fn queues_and_workers() {
    let mut facts = quiet();
    facts.workers = Some(4);
    let found = only(&facts, "queues-and-workers", Severity::Warning);
    assert_eq!(commands(&found), ["ethtool -L eth0 combined 4"]);
    facts.workers = Some(9);
    let found = one(&facts, "queues-and-workers");
    assert_eq!(commands(&found), ["ethtool -L eth0 combined 8"]);
    assert!(found.advice.is_some_and(|advice| advice.contains("at most 8")));
    // Seen from the program: one epoll instance receives from the interface.
    let mut facts = with_program(quiet());
    facts.program.as_mut().expect("there").epolls.truncate(1);
    assert_eq!(only(&facts, "queues-and-workers", Severity::Note).mend[0].value, "1");
}

#[test]
fn packets_that_are_given_to_other_cpus() {
    let mut facts = quiet();
    facts.devices[0].rx_queues[1].rps_cpus = Some(vec![2, 3]);
    facts.devices[0].rx_queues[0].rps_flow_cnt = Some(4096);
    let found = only(&facts, "rps-in-the-way", Severity::Warning);
    assert_eq!(commands(&found), ["echo 0 > /sys/class/net/eth0/queues/rx-1/rps_cpus"]);
    facts.sysctls.rps_sock_flow_entries = Some(32768);
    assert_eq!(one(&facts, "rps-in-the-way").mend.len(), 2);
}

#[test]
fn processors_that_are_slow_to_wake() {
    let mut facts = quiet();
    let policy = |governor: &str| Governor {
        path: "/g".to_owned(),
        governor: governor.to_owned(),
        can_perform: true,
        preference: None,
        khz: None,
    };
    facts.cpus.governors = vec![policy("performance"), policy("powersave")];
    let found = only(&facts, "governor", Severity::Warning);
    assert_eq!(commands(&found), ["echo performance > /g"]);
    facts.cpus.governors.clear();
    let state = |state, name: &str, exit_latency_us| IdleState {
        cpu: 1,
        state,
        name: name.to_owned(),
        exit_latency_us,
        is_disabled: false,
        limit_us: None,
    };
    facts.cpus.idle_states = vec![state(1, "C1", 2), state(2, "C6", 133)];
    let found = only(&facts, "deep-idle", Severity::Warning);
    assert_eq!(commands(&found), ["echo 1 > /sys/devices/system/cpu/cpu1/cpuidle/state2/disable"]);
    facts.cpus.idle_states[1].is_disabled = true;
    (facts.cpus.smt_active, facts.cpus.smt_control) = (true, Some("on".to_owned()));
    only(&facts, "smt-active", Severity::Note);
    (facts.cpus.smt_active, facts.cpus.irqbalance_pid) = (false, Some(9));
    only(&facts, "irqbalance", Severity::Note);
}

#[test]
fn an_old_kernel_and_a_user_without_privileges() {
    let mut facts = quiet();
    // What lacks threads that poll for ever and nothing else is not old.
    facts.kernel = Kernel { release: "6.18.1".to_owned(), version: (6, 18) };
    assert_eq!(diagnose(&facts), []);
    facts.kernel = Kernel { release: "6.1.0".to_owned(), version: (6, 1) };
    assert!(only(&facts, "kernel-too-old", Severity::Warning).what.contains("since 6.13"));
    let mut facts = quiet();
    facts.missing_capabilities = vec!["CAP_NET_ADMIN"];
    assert!(only(&facts, "capabilities-missing", Severity::Warning).what.contains("CAP_NET_ADMIN ("));
}

#[test]
fn the_weightiest_comes_first() {
    let mut facts = quiet();
    facts.kernel.version = (6, 18);
    facts.devices[0].rx_queues[0].rps_cpus = Some(vec![1]);
    instances(&mut facts)[0].irq_suspend_timeout_ns = Some(1000);
    let all: Vec<_> = diagnose(&facts).into_iter().map(|finding| finding.severity).collect();
    assert!(all.windows(2).all(|pair| pair[0] >= pair[1]) && all[0] == Severity::Serious, "{all:?}");
}

#[test]
fn every_finding_has_a_page_and_every_page_a_finding() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor");
    let entries = std::fs::read_dir(folder).expect("docs/doctor");
    let pages: Vec<String> =
        entries.map(|entry| entry.expect("one").file_name().into_string().expect("text")).collect();
    let mut pages: Vec<&str> =
        pages.iter().map(|page| page.strip_suffix(".md").expect("a page")).filter(|page| *page != "README").collect();
    pages.sort_unstable();
    let mut ids = IDS.to_vec();
    ids.sort_unstable();
    assert_eq!(pages, ids);
    for id in IDS {
        let text = std::fs::read_to_string(format!("{folder}/{id}.md")).expect("a page");
        assert!(text.starts_with(&format!("# {id}\n")) && text.contains("\n## How to mend it\n"), "{id}");
    }
}
