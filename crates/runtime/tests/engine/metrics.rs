//! Everything that an engine counts has a name, and what the walk says is what was counted.

mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use napier_runtime::available_cpus;
use napier_runtime::capture::CaptureConfig;
use napier_runtime::control::NapiSet;
use napier_runtime::device::{DeviceHandle, LinkConfig};
use napier_runtime::engine::{Engine, GroupSettings};
use napier_runtime::event::{Event, EventContext, Timeout};
use napier_runtime::metric::{Kind, Metric, metrics};
use napier_runtime::socket::UdpSocket;
use napier_runtime::tx::QdiscConfig;

use crate::common::modes::{Mode, echo, round_trips, stop};
use crate::common::{PEER_V4, Pair, TESTED_V4, bound, eventually, v4};

type Labels = Vec<String>;

/// One walk. Each figure must be of a known metric, with its labels, and come once.
fn walk(engine: &Engine) -> BTreeMap<(&'static str, Labels), u64> {
    let known = metrics();
    let mut seen = BTreeMap::new();
    engine.metrics(&mut |metric: &'static Metric, labels: &[&str], value: u64| {
        assert!(known.iter().any(|one| std::ptr::eq(*one, metric)), "{} is not in the list", metric.name);
        assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        let labels: Labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let again = seen.insert((metric.name, labels.clone()), value);
        assert_eq!(again, None, "{} {labels:?} comes twice", metric.name);
    });
    seen
}

/// The sum over all labels that `of` takes.
fn sum(walk: &BTreeMap<(&str, Labels), u64>, name: &str, of: impl Fn(&Labels) -> bool) -> u64 {
    assert!(metrics().iter().any(|metric| metric.name == name), "{name}");
    walk.iter().filter(|((known, labels), _)| *known == name && of(labels)).map(|(_, value)| value).sum()
}

#[test]
fn names_are_lawful_and_unlike() {
    let mut names = BTreeSet::new();
    for metric in metrics() {
        let Metric { name, help, labels, .. } = metric;
        assert!(names.insert(*name), "{name} is there twice");
        let lawful = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_lowercase())
                && word.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_')
        };
        assert!(lawful(name) && name.starts_with("napier_"), "{name}");
        let by_exporters = ["_total", "_bytes", "_seconds", "_ns", "_us", "_ticks", "_count", "_bucket", "_sum"];
        assert!(!by_exporters.iter().any(|end| name.ends_with(end)), "{name}");
        assert!(!help.is_empty() && !help.ends_with('.') && !help.contains(['\n', '"', '\\']), "{name}: {help}");
        assert!(labels.iter().all(|label| lawful(label) && *label != "le"), "{name}");
        assert_eq!(labels.iter().collect::<BTreeSet<_>>().len(), labels.len(), "{name}");
    }
    // What one is called with its unit must not be another's name: an exporter appends units.
    for metric in metrics() {
        assert!(!names.contains(&*format!("{}_bytes", metric.name)), "{}", metric.name);
    }
}

/// An engine with all that can be seen: traffic, a discipline, a group, an event context, a thread.
#[test]
fn every_metric_has_samples_and_they_are_what_was_counted() {
    let (queues, cpu) = (2, available_cpus()[0]);
    let pair = Pair::new(&LinkConfig { queues, ..LinkConfig::default() });
    pair.tested.set_qdisc(0, &QdiscConfig::pfifo()).unwrap();
    pair.peer.set_qdisc(1, &QdiscConfig::pfifo()).unwrap();
    pair.engine.group_new("g", &[cpu], GroupSettings::default()).unwrap();
    pair.engine.group_attach("g", pair.peer.napi_id(1)).unwrap();
    let mode = Mode::EventSuspension;
    let set = NapiSet { threaded: None, ..mode.settings() };
    pair.set_all(&pair.tested, &set);
    let counted = pair.engine.count_thread("test", None);
    let file = std::env::temp_dir().join(format!("napier-metrics-{}.pcapng", std::process::id()));
    let capture = pair.tested.capture(&CaptureConfig::new(&file)).unwrap();
    let (server, client) = (v4(TESTED_V4, 4000), v4(PEER_V4, 5000));
    let thread = echo(&pair.engine, mode, UdpSocket::bind(&pair.tested_ns, server).unwrap());
    let client = UdpSocket::bind(&pair.peer_ns, client).unwrap();
    round_trips(&client, server, 200, 8);
    // A thread of its own writes it.
    eventually("something is captured", || capture.stats().written > 0);

    let now = walk(&pair.engine);
    let without: Vec<_> = metrics().into_iter().map(|metric| metric.name).collect();
    let without = without.into_iter().filter(|name| !now.keys().any(|(seen, _)| seen == name));
    // Only devices on interfaces of the kernel have these.
    drop(capture);
    std::fs::remove_file(&file).unwrap();
    assert!(sum(&now, "napier_capture_written", |labels| labels[0] == "tested") > 0);
    assert!(!walk(&pair.engine).keys().any(|(name, _)| name.starts_with("napier_capture_")));
    assert_eq!(without.filter(|name| !name.starts_with("napier_xdp_")).collect::<Vec<_>>(), [""; 0]);

    stop(&client, server, thread);
    // What a round of an instance received, and what a run of a queue sent, is counted at its end, after the receiver was woken.
    let datagrams = || pair.tested_ns.counters().udp_in_datagrams + pair.peer_ns.counters().udp_in_datagrams;
    eventually("nothing is under way", || {
        let now = walk(&pair.engine);
        let all = |name: &str| sum(&now, name, |_| true);
        let counted = sum(&now, "napier_napi_packets", |labels| labels[0] == "tested") >= 201 && datagrams() == 2 * 201;
        counted && all("napier_tx_packets") == all("napier_tx_run_packets") && walk_is_exact(&pair)
    });
    let now = walk(&pair.engine);
    let all = |name: &str| sum(&now, name, |_| true);
    assert!(sum(&now, "napier_napi_packets", |labels| labels[0] == "tested") >= 200);
    assert!(all("napier_napi_suspensions") > 0 && all("napier_napi_deferrals") > 0);
    assert!(all("napier_tx_packets") > 0 && all("napier_tx_packets") == all("napier_tx_run_packets"));
    assert_eq!(sum(&now, "napier_tx_info", |labels| labels[3] == "pfifo"), 2);
    assert!(sum(&now, "napier_thread_cpu", |labels| labels[1] == "test") > 0);
    assert_eq!(sum(&now, "napier_napi_info", |labels| labels[5] == "g"), 1);
    assert_eq!(all("napier_napi_owner"), all("napier_napi_info"), "each instance has one owner");
    assert_eq!(all("napier_stack_udp_in_datagrams"), datagrams());
    drop(counted);
}

const SAID_BY_HANDLES: [&str; 7] = [
    "napier_device_rx_packets",
    "napier_device_tx",
    "napier_napi_polls",
    "napier_napi_unmasks",
    "napier_tx_packets",
    "napier_tx_flushes",
    "napier_tx_limit",
];

/// What the handles of a device say of these.
fn by_handles(device: &DeviceHandle) -> [u64; 7] {
    let stats = device.stats();
    let napis = (0..device.queues()).map(|queue| device.napi_stats(queue));
    let queues = (0..device.queues()).map(|queue| device.tx_stats(queue).unwrap());
    [
        stats.rx_packets,
        stats.tx_bytes,
        napis.clone().map(|stats| stats.polls_total()).sum(),
        napis.map(|stats| stats.unmasks).sum(),
        queues.clone().map(|stats| stats.packets).sum(),
        queues.clone().map(|stats| stats.flushes).sum(),
        queues.map(|stats| u64::from(stats.limit_bytes.unwrap_or(0))).sum(),
    ]
}

/// Whether the walk says what the handles say: a group polls all the time, so not less than they said before, nor more than after.
fn walk_is_exact(pair: &Pair) -> bool {
    let devices = [&pair.tested, &pair.peer];
    let before = devices.map(by_handles);
    let now = walk(&pair.engine);
    let after = devices.map(by_handles);
    devices.iter().zip(before.iter().zip(&after)).all(|(device, (before, after))| {
        let of = |name| sum(&now, name, |labels| labels[0] == device.name());
        let within = |(name, (before, after))| (before..=after).contains(&&of(name));
        SAID_BY_HANDLES.into_iter().zip(before.iter().zip(after)).all(within)
    })
}

/// Counters only grow and what is not an event context keeps its labels, whatever starts and ends meanwhile.
#[test]
fn counters_never_fall_while_threads_come_and_go() {
    let pair = Pair::new(&LinkConfig::default());
    let id = Some(u64::from(pair.tested.napi_id(0)));
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                for threaded in [1, 2, 0] {
                    let set = NapiSet { id, threaded: Some(threaded), ..NapiSet::default() };
                    pair.engine.napi_set(set).unwrap();
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        let server = UdpSocket::bind(&pair.tested_ns, v4(TESTED_V4, 4000)).unwrap();
        let client = bound(&pair.peer_ns, v4(PEER_V4, 5000));
        let mut before = walk(&pair.engine);
        for _ in 0..100 {
            client.send_to(b"x", v4(TESTED_V4, 4000)).unwrap();
            server.recv_from(&mut [0; 8]).unwrap();
            let now = walk(&pair.engine);
            for ((name, labels), value) in &before {
                let counts = metrics().iter().any(|metric| metric.name == *name && metric.kind == Kind::Counter);
                let later = now.get(&(*name, labels.clone()));
                assert!(!counts || later >= Some(value), "{name} {labels:?}: {value}, then {later:?}");
            }
            before = now;
        }
        ends.store(true, Ordering::Relaxed);
    });
}

#[test]
fn event_contexts_are_listed_while_they_are_there() {
    let engine = Engine::builder().start().unwrap();
    let count = |walk: &BTreeMap<(&str, Labels), u64>| sum(walk, "napier_event_contexts", |_| true);
    assert_eq!(count(&walk(&engine)), 0);
    let contexts: Vec<_> = (0..1100).map(|_| EventContext::new(&engine)).collect();
    contexts[0].wait(&mut [Event::default()], Timeout::Now).unwrap();
    let now = walk(&engine);
    assert_eq!((count(&now), sum(&now, "napier_event_waits", |_| true)), (1100, 1));
    let listed = now.keys().filter(|(name, _)| *name == "napier_event_waits").count();
    assert_eq!(listed, 1024, "a walk is bounded");
    drop(contexts);
    assert_eq!(count(&walk(&engine)), 0);
}
