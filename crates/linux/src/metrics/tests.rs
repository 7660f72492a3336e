use std::collections::{BTreeMap, BTreeSet};

use napier_core::control::{NapiInfo, ThreadedSetting};
use napier_core::time::Span;

use super::*;

type Seen = BTreeMap<(&'static str, Vec<String>), u64>;

fn walk(kernel: &Kernel, now: Duration) -> Seen {
    let mut seen = Seen::new();
    kernel.walk(now, &mut |metric: &'static Metric, labels: &[&str], figure: u64| {
        assert!(all().any(|known| std::ptr::eq(known, metric)), "{} is in no list", metric.name);
        assert_eq!(labels.len(), metric.labels.len(), "{}", metric.name);
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        assert_eq!(seen.insert((metric.name, labels), figure), None, "{} twice", metric.name);
    });
    seen
}

#[test]
fn names_are_lawful_and_each_is_one_metrics() {
    let mut names = BTreeSet::new();
    for metric in all() {
        let Metric { name, help, labels, .. } = metric;
        assert!(names.insert(name), "{name} twice");
        assert!(name.starts_with("napier_kernel_"), "{name}");
        let is_word =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase());
        assert!(is_word(name) && labels.iter().all(|label| is_word(label)), "{name}");
        let ends = ["_total", "_seconds", "_bytes", "_ns", "_count", "_sum", "_info"];
        assert!(!ends.iter().any(|end| name.ends_with(end)), "{name}: the exporter says that");
        assert!(!help.ends_with('.') && help.starts_with(|c: char| c.is_uppercase() || c == '1'), "{help}");
    }
}

#[test]
fn a_live_kernel_is_walked_over() {
    let seen = walk(&Kernel::default(), Duration::ZERO);
    for source in ["rtnetlink", "/proc/softirqs", "/proc/stat", "/proc/net/softnet_stat", "doctor"] {
        assert_eq!(seen.get(&("napier_kernel_source_readable", vec![source.to_owned()])), Some(&1), "{source}");
    }
    assert!(seen.keys().any(|(name, _)| *name == "napier_kernel_softnet_processed"));
    let spent = seen.iter().filter(|((name, _), _)| *name == "napier_kernel_cpu").map(|(_, figure)| figure);
    assert!(spent.sum::<u64>() > 0);
    let is_loopback = |labels: &[String]| labels.first().is_some_and(|label| label == "lo");
    assert!(!seen.keys().any(|(_, labels)| is_loopback(labels)));
    let own = Kernel::new(&["lo".to_owned()]).expect("it is there");
    let seen = walk(&own, Duration::ZERO);
    assert!(seen.contains_key(&("napier_kernel_device_rx_packets", vec!["lo".to_owned()])));
    let devices = seen.keys().filter(|(name, _)| name.starts_with("napier_kernel_device_"));
    assert!(devices.into_iter().all(|(_, labels)| is_loopback(labels)));
}

#[test]
fn an_interface_that_is_not_there_is_told() {
    let error = Kernel::new(&["no-such-one".to_owned()]).expect_err("there is none");
    assert!(error.to_string().starts_with("no interface is called no-such-one"), "{error}");
}

#[test]
fn findings_are_looked_for_after_their_time() {
    let kernel = Kernel::default();
    let planted = || Counts::from([(("serious", "planted", String::new()), 3)]);
    *kernel.findings.lock().expect("whole") = Findings { at: Some(Duration::ZERO), counts: Some(planted()) };
    let key = ("napier_kernel_doctor_findings", ["planted", "serious", ""].map(str::to_owned).to_vec());
    let before = walk(&kernel, FINDINGS_FRESH.checked_sub(Duration::from_nanos(1)).expect("more"));
    assert_eq!(before.get(&key), Some(&3));
    assert_eq!(walk(&kernel, FINDINGS_FRESH).get(&key), None);
}

#[test]
fn an_instance_is_shown_with_its_settings() {
    let info = NapiInfo {
        ifindex: 7,
        id: 8193,
        irq: Some(38),
        pid: None,
        defer_hard_irqs: Some(100),
        gro_flush_timeout: Some(Span::from_us(20)),
        irq_suspend_timeout: Some(Span::from_ms(20)),
        threaded: Some(ThreadedSetting::Disabled),
    };
    let mut seen = Vec::new();
    let mut sink = |metric: &'static Metric, labels: &[&str], figure: u64| {
        seen.push(format!("{}{labels:?} {figure}", metric.name.trim_start_matches("napier_kernel_napi_")));
    };
    let elsewhere = NapiInfo { ifindex: 9, ..info };
    device::instances(&[info, elsewhere], &BTreeMap::from([(7, "eth0")]), &mut sink);
    let expected = [
        "mode[\"eth0\", \"8193\", \"suspend20\"] 1",
        "defer_hard_irqs[\"eth0\", \"8193\"] 100",
        "gro_flush_timeout[\"eth0\", \"8193\"] 20000",
        "irq_suspend_timeout[\"eth0\", \"8193\"] 20000000",
        "threaded[\"eth0\", \"8193\"] 0",
        "irq[\"eth0\", \"8193\", \"38\"] 1",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_mode_is_named_by_the_settings() {
    let of = |defer, flush_ns, suspend_ns, threaded| {
        mode::name_of(&NapiInfo {
            ifindex: 1,
            id: 1,
            irq: None,
            pid: None,
            defer_hard_irqs: Some(defer),
            gro_flush_timeout: Some(Span::from_ns(flush_ns)),
            irq_suspend_timeout: Some(Span::from_ns(suspend_ns)),
            threaded: Some(threaded),
        })
    };
    use ThreadedSetting::{BusyPoll, Disabled, Enabled};
    let rows = [
        (of(0, 0, 0, Disabled), "base"),
        (of(100, 200_000, 0, Disabled), "defer200"),
        (of(100, 1500, 0, Disabled), "defer1.5"),
        (of(100, 20_000, 1, Disabled), "suspend20"),
        (of(0, 20_000, 1, Disabled), "base"),
        (of(100, 0, 1, Disabled), "base"),
        (of(100, 20_000, 1, Enabled), "threaded"),
        (of(0, 0, 0, BusyPoll), "threaded-busy-poll"),
    ];
    for (name, expected) in rows {
        assert_eq!(name, expected);
    }
    let unknown = NapiInfo {
        ifindex: 1,
        id: 1,
        irq: None,
        pid: None,
        defer_hard_irqs: None,
        gro_flush_timeout: None,
        irq_suspend_timeout: None,
        threaded: None,
    };
    assert_eq!(mode::name_of(&unknown), "unknown");
    assert_eq!(mode::name_of(&NapiInfo { pid: Some(9), ..unknown }), "threaded");
}
