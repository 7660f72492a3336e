//! Queues, devices and counters of the kernel, what it says where it refuses, and where its settings live beside.

mod common;

use common::{config, pair};
use napier_core::control::{Errno, NapiGet, NapiSet, NapiSetError, QueryError, QueueGet, QueueKind, ThreadedSetting};
use napier_linux::netdev::{Netdev, Told, places};
use napier_linux::{KernelError, Netns, Veth, VethConfig};

const QUEUES: u16 = 3;

fn three(test: &str) -> Option<Veth> {
    pair(test, &VethConfig { queues: QUEUES, gro: true, tso: false, ..config() })
}

/// Runs `f` with the family, in the namespace of the first end.
fn at<T: Send>(pair: &Veth, f: impl FnOnce(&mut Netdev) -> T + Send) -> T {
    let netdev = || Netdev::open::<QueryError>().expect("napis were listed");
    pair.left().netns().run(|| f(&mut netdev())).expect("entered")
}

#[test]
fn queues_are_shown_one_by_one_as_in_the_list() {
    let Some(pair) = three("queues_are_shown_one_by_one_as_in_the_list") else { return };
    let ifindex = pair.left().ifindex();
    let all = at(&pair, |netdev| netdev.queue_dump(Some(ifindex.into()))).expect("listed");
    let places: Vec<_> = all.iter().map(|queue| (queue.info.kind, queue.info.id)).collect();
    let wanted =
        [QueueKind::Rx, QueueKind::Tx].into_iter().flat_map(|kind| (0..u32::from(QUEUES)).map(move |id| (kind, id)));
    assert!(places.into_iter().eq(wanted));
    assert!(all.iter().all(|queue| queue.info.ifindex == ifindex && !queue.xsk && queue.lease.is_none()));
    for queue in &all {
        let request = QueueGet {
            id: Some(queue.info.id.into()),
            kind: Some(queue.info.kind as u64),
            ifindex: Some(ifindex.into()),
        };
        assert_eq!(at(&pair, |netdev| netdev.queue_get(request)).expect("it is there"), *queue);
    }
    let everywhere = at(&pair, |netdev| netdev.queue_dump(None)).expect("listed");
    assert!(all.iter().all(|queue| everywhere.contains(queue)));
}

#[test]
fn what_is_not_there_is_refused_in_words() {
    let Some(pair) = three("what_is_not_there_is_refused_in_words") else { return };
    let ifindex = Some(u64::from(pair.left().ifindex()));
    let queue = |request| at(&pair, move |netdev| netdev.queue_get(request)).expect_err("it is not there");
    let is = |told: Told<QueryError>, want: QueryError| {
        assert!(matches!(&told.error, KernelError::Refused(refused) if *refused == want), "{told}");
    };
    let request = QueueGet { id: Some(QUEUES.into()), kind: Some(1), ifindex };
    is(queue(request), QueryError::NoSuchQueue { id: QUEUES.into(), queues: QUEUES.into() });
    is(
        queue(QueueGet { id: Some(1 << 40), ..request }),
        QueryError::NoSuchQueue { id: 1 << 40, queues: QUEUES.into() },
    );
    is(queue(QueueGet { ifindex: Some(4_000_000), ..request }), QueryError::NoSuchDevice { ifindex: 4_000_000 });
    is(queue(QueueGet { kind: None, ..request }), QueryError::Missing("type"));
    let nowhere = Some(4_000_000);
    for refused in [
        at(&pair, |netdev| netdev.queue_dump(nowhere).map(|_| ())),
        at(&pair, |netdev| netdev.napi_dump(nowhere).map(|_| ())),
        at(&pair, |netdev| netdev.qstats_dump(nowhere, true).map(|_| ())),
        at(&pair, |netdev| netdev.dev_get(nowhere).map(|_| ())),
    ] {
        is(refused.expect_err("it is not there"), QueryError::NoSuchDevice { ifindex: 4_000_000 });
    }
    let told = at(&pair, |netdev| netdev.napi_get(NapiGet { id: Some(1) })).expect_err("it is not there");
    assert!(told.to_string().contains("give --netns"), "{told}");

    pair.left().set_up(false).expect("taken down");
    is(queue(QueueGet { id: Some(0), ..request }), QueryError::DeviceDown { ifindex: pair.left().ifindex() });
    assert_eq!(at(&pair, |netdev| netdev.queue_dump(ifindex)).expect("listed"), [], "none while it is down");
}

#[test]
fn a_device_is_shown_and_its_counters_or_that_it_has_none() {
    let Some(pair) = three("a_device_is_shown_and_its_counters_or_that_it_has_none") else { return };
    let ifindex = pair.left().ifindex();
    let device = at(&pair, |netdev| netdev.dev_get(Some(ifindex.into()))).expect("it is there");
    assert_eq!(device.ifindex, ifindex);
    assert!(device.xdp_features.is_some_and(|bits| bits & 1 == 1), "veth has XDP: {device:?}");
    assert!(at(&pair, |netdev| netdev.dev_dump()).expect("listed").contains(&device));
    match at(&pair, |netdev| netdev.qstats_dump(Some(ifindex.into()), true)) {
        Ok(stats) => assert!(stats.iter().all(|stats| stats.ifindex == ifindex && stats.queue.is_some())),
        Err(told) => {
            assert_eq!(told.errno(), Some(Errno::EOPNOTSUPP));
            assert!(told.to_string().contains("the driver of this device counts nothing"), "{told}");
        }
    }
}

#[test]
fn the_kernels_own_words_and_bounds_are_shown() {
    let test = "the_kernels_own_words_and_bounds_are_shown";
    let Some(pair) = three(test) else { return };
    let id = Some(u64::from(pair.left().napis().expect("listed")[0].id));
    let set = |threaded| {
        let request = NapiSet { id, threaded: Some(threaded), ..NapiSet::default() };
        at(&pair, |netdev| netdev.napi_set(&request))
    };
    match set(2) {
        Ok(()) => napier_testkit::skip!(test, "this kernel has threaded busy polling"),
        Err(told) if told.error.is_privilege() => napier_testkit::skip!(test, "{told}"),
        Err(told) => {
            let want = NapiSetError::OutOfRange { attribute: "threaded", max: 1 };
            assert!(matches!(&told.error, KernelError::Refused(refused) if *refused == want), "{told}");
            assert!(told.said.is_some(), "{told}");
            assert!(told.to_string().contains("since Linux 6.19") && told.to_string().contains("the kernel says: "));
        }
    }
}

#[test]
fn the_places_of_an_instance_with_a_thread_are_found() {
    let test = "the_places_of_an_instance_with_a_thread_are_found";
    let Some(pair) = three(test) else { return };
    let id = u64::from(pair.left().napis().expect("listed")[0].id);
    let request = NapiSet { id: Some(id), threaded: Some(1), defer_hard_irqs: Some(7), ..NapiSet::default() };
    if let Err(told) = at(&pair, |netdev| netdev.napi_set(&request)) {
        assert!(told.error.is_privilege(), "{told}");
        napier_testkit::skip!(test, "{told}");
        return;
    }
    let found = pair.left().netns().run(|| places::of(pair.left().name())).expect("entered").expect("it is there");
    assert_eq!((found.device.as_str(), found.ifindex), (pair.left().name(), pair.left().ifindex()));
    assert_eq!(found.instances.len(), usize::from(QUEUES));
    assert_eq!(found.files.len(), places::FILES.len());
    assert!(found.files.iter().all(|(_, value)| value.as_deref() == Some("0")), "an instance's own values do not show");
    for instance in &found.instances {
        if u64::from(instance.napi.id) == id {
            assert_eq!(instance.napi.threaded, Some(ThreadedSetting::Enabled));
            let thread = instance.thread.as_ref().expect("it has one");
            assert!(thread.name.starts_with("napi/"), "{thread:?}");
            assert_eq!((thread.class, thread.priority), ("SCHED_OTHER", 0));
            assert!(thread.cpus.as_ref().is_some_and(|cpus| cpus.starts_with('0')), "{thread:?}");
        } else {
            assert_eq!((instance.thread.as_ref(), instance.napi.defer_hard_irqs), (None, Some(0)));
        }
    }
    let gone = pair.left().netns().run(|| places::of("no-such-if")).expect("entered");
    assert!(gone.expect_err("it is not there").to_string().contains("no-such-if"));
    let (name, budget) = &places::sysctls()[2];
    assert_eq!(*name, "net.core.netdev_budget");
    assert!(budget.as_deref().is_none_or(|budget| budget.parse::<u32>().is_ok()), "{budget:?}");
}

#[test]
fn a_namespace_is_opened_by_process_and_by_path() {
    let test = "a_namespace_is_opened_by_process_and_by_path";
    let Some(pair) = three(test) else { return };
    use std::os::fd::{AsFd as _, AsRawFd as _};
    let path = format!("/proc/self/fd/{}", pair.left().netns().as_fd().as_raw_fd());
    let inside =
        Netns::open(&path).expect("opened").run(|| Netdev::open::<QueryError>().expect("opened").napi_dump(None));
    assert_eq!(inside.expect("entered").expect("listed").len(), usize::from(QUEUES));
    let own = Netns::open(&std::process::id().to_string()).expect("opened");
    own.run(|| ()).expect("entered");
    for text in ["no-such-namespace", "/no/such/path", "4294967295", "", "..", "/dev/null", "/"] {
        let error = Netns::open(text).expect_err("there is none");
        assert!(error.to_string().contains("opening the network namespace"), "{error}");
    }
    let other = Netns::open("/proc/self/ns/uts").expect("it is a namespace");
    other.run(|| ()).expect_err("but not of networks");
}
