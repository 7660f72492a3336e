//! What drivers do: what they forget, and what they cannot.

use super::picture::{instance, quiet};
use super::{Severity, commands, diagnose, instances, one};
use crate::facts::{Facts, Instance, Kernel};

fn with(driver: &str, version: (u32, u32)) -> Facts {
    let mut facts = quiet();
    facts.devices[0].driver = Some(driver.to_owned());
    facts.kernel = Kernel { release: format!("{}.{}.0", version.0, version.1), version };
    facts
}

fn has(facts: &Facts, id: &str) -> bool {
    diagnose(facts).iter().any(|finding| finding.id == id)
}

fn thread(instance: &mut Instance, name: &str) {
    instance.threaded = Some(name.to_owned());
}

#[test]
fn threads_that_the_next_start_of_the_interface_takes() {
    // A driver that keeps what was set: the other one was not set, and nothing was lost.
    let mut facts = with("ice", (7, 3));
    thread(&mut instances(&mut facts)[0], "enabled");
    let found = one(&facts, "threaded-lost");
    assert_eq!(found.severity, Severity::Note);
    assert!(found.what.starts_with("Only NAPI instance 5 of eth0 is threaded"), "{}", found.what);
    assert!(found.why.contains("the driver ice keeps") && found.why.contains("were not set"), "{}", found.why);
    assert_eq!(commands(&found), ["echo 1 > /sys/class/net/eth0/threaded"]);
    // All of them: only a driver that is known to forget is named.
    thread(&mut instances(&mut facts)[1], "enabled");
    assert!(!has(&facts, "threaded-lost"));
    for (driver, words) in [("veth", "the driver veth does not keep what"), ("another", "")] {
        facts.devices[0].driver = Some(driver.to_owned());
        assert_eq!(has(&facts, "threaded-lost"), !words.is_empty(), "{driver}");
    }
    facts.devices[0].driver = Some("veth".to_owned());
    let found = one(&facts, "threaded-lost");
    assert_eq!(found.severity, Severity::Note);
    assert!(found.why.contains("the driver veth does not keep what"), "{}", found.why);
    // Of a driver that nothing is known of, what is there counts.
    facts.devices[0].driver = Some("another".to_owned());
    thread(&mut instances(&mut facts)[1], "disabled");
    let found = one(&facts, "threaded-lost");
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.why.contains("it is not known whether the driver another keeps"), "{}", found.why);
    facts.devices[0].driver = Some("veth".to_owned());
    assert_eq!(one(&facts, "threaded-lost").severity, Severity::Warning);
    thread(&mut instances(&mut facts)[1], "busy-poll");
    assert_eq!(one(&facts, "threaded-lost").mend, []);
    // A mode in force is applied to new instances by who holds it.
    facts.devices[0].is_held = true;
    assert!(!has(&facts, "threaded-lost"));
    // An instance of a queue that is not in use needs no thread.
    facts.devices[0].is_held = false;
    facts.devices[0].driver = Some("ice".to_owned());
    thread(&mut instances(&mut facts)[1], "disabled");
    facts.devices[0].rx_queues.truncate(1);
    assert!(!has(&facts, "threaded-lost"));
}

/// Before anything is lost, and only where something is set that will be.
#[test]
fn settings_that_the_driver_forgets() {
    // ENA keeps them since Linux 6.16.
    for (version, forgets) in [((6, 14), true), ((6, 15), true), ((6, 16), false), ((7, 3), false), ((0, 0), false)] {
        let mut facts = with("ena", version);
        assert!(!has(&facts, "settings-not-kept"), "nothing is set");
        for instance in instances(&mut facts) {
            (instance.defer_hard_irqs, instance.gro_flush_timeout_ns) = (Some(100), Some(20_000));
        }
        assert_eq!(has(&facts, "settings-not-kept"), forgets, "{version:?}");
        facts.devices[0].is_held = true;
        assert!(!has(&facts, "settings-not-kept"), "a mode in force is applied to new instances");
    }
    let mut facts = with("ena", (6, 14));
    for instance in instances(&mut facts) {
        (instance.defer_hard_irqs, instance.gro_flush_timeout_ns) = (Some(100), Some(20_000));
    }
    let found = one(&facts, "settings-not-kept");
    assert_eq!(found.severity, Severity::Warning);
    let said = "NAPI instances 5 and 6 of eth0 have defer-hard-irqs, gro-flush-timeout that will be lost: the driver ena keeps what is \
                set on instances when the interface goes down and up since Linux 6.16 only, and this is 6.14.";
    assert_eq!(found.what, said);
    let files =
        ["echo 100 > /sys/class/net/eth0/napi_defer_hard_irqs", "echo 20000 > /sys/class/net/eth0/gro_flush_timeout"];
    assert_eq!(commands(&found), files);
    // The files are written to all instances: only where all have the same.
    instances(&mut facts)[1].gro_flush_timeout_ns = Some(10_000);
    assert_eq!(commands(&one(&facts, "settings-not-kept")), Vec::<String>::new());
    // What new instances get from the files is not lost.
    instances(&mut facts)[1].gro_flush_timeout_ns = Some(20_000);
    (facts.devices[0].files.napi_defer_hard_irqs, facts.devices[0].files.gro_flush_timeout) = (Some(100), Some(20_000));
    assert!(!has(&facts, "settings-not-kept"));
    // Suspension has no file.
    instances(&mut facts)[0].irq_suspend_timeout_ns = Some(20_000_000);
    let found = one(&facts, "settings-not-kept");
    assert!(found.what.starts_with("NAPI instance 5 of eth0 has irq-suspend-timeout that"), "{}", found.what);
    assert!(found.advice.is_some_and(|advice| advice.contains("has no file")));
    // Nothing is said of a driver that nothing is known of.
    facts.devices[0].driver = Some("another".to_owned());
    assert!(!has(&facts, "settings-not-kept"));
    facts.devices[0].driver = None;
    assert!(!has(&facts, "settings-not-kept"));
}

#[test]
fn queues_that_name_no_instance_on_this_kernel() {
    let said = |driver: &str, version| {
        let mut facts = with(driver, version);
        facts.devices[0].rx_queues.iter_mut().for_each(|queue| queue.napi_id = None);
        one(&facts, "queues-without-ids").what
    };
    let of = "does not say which NAPI instance serves which receive queue of eth0";
    assert_eq!(said("ena", (6, 12)), format!("ena {of} before Linux 6.13, and this is 6.12."));
    assert_eq!(said("ena", (7, 3)), format!("ena {of}."));
    assert_eq!(said("veth", (7, 3)), format!("veth {of}."));
    assert_eq!(said("another", (7, 3)), format!("another {of}."));
}

/// What the kernel says counts, and what is known of a driver where it says nothing.
#[test]
fn an_af_xdp_socket_on_a_driver_that_copies() {
    let of = |driver: &str, version, told: Option<bool>| {
        let mut facts = with(driver, version);
        (facts.devices[0].xsk_queues, facts.devices[0].xsk_zero_copy) = (vec![0, 1], told);
        diagnose(&facts).into_iter().find(|finding| finding.id == "xsk-copies").map(|finding| finding.what)
    };
    let said = "Receive queues 0 and 1 of eth0 have AF_XDP sockets, and virtio_net has no zero copy before Linux 6.11, and this is 6.8.";
    assert_eq!(of("virtio_net", (6, 8), None).as_deref(), Some(said));
    assert_eq!(of("virtio_net", (6, 8), Some(true)), None, "a distribution may have brought it");
    assert_eq!(of("virtio_net", (6, 18), None), None);
    let said = "Receive queues 0 and 1 of eth0 have AF_XDP sockets, and virtio_net has no zero copy.";
    assert_eq!(of("virtio_net", (6, 18), Some(false)).as_deref(), Some(said));
    assert_eq!(of("another", (6, 18), None), None);
    let mut facts = with("veth", (7, 3));
    facts.devices[0].xsk_queues = vec![0];
    assert!(one(&facts, "xsk-copies").what.starts_with("Receive queue 0 of eth0 has"));
    // A clean picture has neither.
    assert!(instance(5, 0).irq.is_none() && !has(&with("veth", (7, 3)), "xsk-copies"));
}
