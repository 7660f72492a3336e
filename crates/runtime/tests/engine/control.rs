//! Control in the kernel's vocabulary, seen from a program.

use std::path::PathBuf;

use napier_core::time::Span;
use napier_runtime::available_cpus;
use napier_runtime::control::{
    DevAttribute, DevSet, Errno, NapiGet, NapiInfo, NapiSet, QueryError, QueueGet, QueueInfo, QueueKind,
    ThreadedSetting,
};
use napier_runtime::device::{AffinityError, DeviceHandle, LinkConfig};
use napier_runtime::socket::UdpSocket;

use crate::common::modes::{Mode, echo, round_trips, stop};
use crate::common::{PEER_V4, Pair, TESTED_V4, eventually, v4};

fn pair(queues: u16) -> Pair {
    Pair::new(&LinkConfig { queues, ring_size: 64, ..LinkConfig::default() })
}

fn id(device: &DeviceHandle, queue: u16) -> Option<u64> {
    Some(u64::from(device.napi_id(queue)))
}

fn info(pair: &Pair, queue: u16) -> NapiInfo {
    pair.engine.napi_get(NapiGet { id: id(&pair.tested, queue) }).unwrap()
}

fn write(device: &DeviceHandle, attribute: DevAttribute, value: u64) -> Result<(), Errno> {
    device.set(DevSet { attribute, value }).map_err(|error| error.errno())
}

fn task(pid: u32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/task/{pid}/{file}"))
}

#[test]
fn a_dump_is_in_the_kernels_order() {
    let pair = pair(3);
    let order = |device: &DeviceHandle| (0..3).rev().map(|queue| (device.ifindex(), device.napi_id(queue))).collect();
    let [tested, peer]: [Vec<_>; 2] = [order(&pair.tested), order(&pair.peer)];
    let dump = |ifindex| {
        let infos = pair.engine.napi_dump(ifindex)?;
        Ok::<Vec<_>, QueryError>(infos.iter().map(|info| (info.ifindex, info.id)).collect())
    };
    assert_eq!(dump(None), Ok([tested.clone(), peer.clone()].concat()), "devices up, ids down");
    assert_eq!(dump(Some(pair.peer.ifindex().into())), Ok(peer.clone()));
    assert_eq!(dump(Some(0)).unwrap_err().errno(), Errno::ERANGE);
    assert_eq!(dump(Some(99)).unwrap_err().errno(), Errno::ENODEV);
    pair.tested.set_down();
    assert_eq!(dump(None), Ok(peer), "a disabled instance is not shown");
    assert_eq!(dump(Some(pair.tested.ifindex().into())), Ok(Vec::new()));
    pair.tested.set_up().unwrap();
    assert_eq!(dump(Some(pair.tested.ifindex().into())), Ok(tested));
    assert_eq!(pair.engine.napi_get(NapiGet { id: None }).unwrap_err().errno(), Errno::EINVAL);
    assert_eq!(pair.engine.napi_get(NapiGet { id: Some(1) }).unwrap_err().errno(), Errno::ENOENT);
}

#[test]
fn a_refused_napi_set_changes_nothing() {
    let pair = pair(1);
    let good = NapiSet {
        id: id(&pair.tested, 0),
        defer_hard_irqs: Some(3),
        gro_flush_timeout: Some(4_000),
        irq_suspend_timeout: Some(5_000_000),
        threaded: Some(1),
        workqueue: false,
    };
    let before = info(&pair, 0);
    let too_many = Some(1 << 31);
    let refused = [
        (NapiSet { defer_hard_irqs: too_many, ..good }, Errno::ERANGE),
        (NapiSet { threaded: Some(3), ..good }, Errno::ERANGE),
        (NapiSet { workqueue: true, ..good }, Errno::EINVAL),
        (NapiSet { id: None, ..good }, Errno::EINVAL),
        (NapiSet { id: Some(7), ..good }, Errno::ENOENT),
        (NapiSet { id: Some(1 << 40), ..good }, Errno::ENOENT),
    ];
    for (request, errno) in refused {
        assert_eq!(pair.engine.napi_set(request).unwrap_err().errno(), errno, "{request:?}");
        assert_eq!(info(&pair, 0), before);
    }
    pair.engine.set_cap_net_admin(false);
    assert_eq!(pair.engine.napi_set(good).unwrap_err().errno(), Errno::EPERM);
    assert_eq!(info(&pair, 0), before);
    pair.engine.set_cap_net_admin(true);

    pair.engine.napi_set(good).unwrap();
    let after = info(&pair, 0);
    assert_eq!((after.defer_hard_irqs, after.gro_flush_timeout), (Some(3), Some(Span::from_us(4))));
    assert_eq!(after.irq_suspend_timeout, Some(Span::from_ms(5)));
    assert_eq!(after.threaded, Some(ThreadedSetting::Enabled));
    let only_one = NapiSet { id: id(&pair.tested, 0), gro_flush_timeout: Some(6_000), ..NapiSet::default() };
    pair.engine.napi_set(only_one).unwrap();
    let latest = info(&pair, 0);
    let want = (Some(3), Some(Span::from_us(6)));
    assert_eq!((latest.defer_hard_irqs, latest.gro_flush_timeout), want, "what is not named stays");
}

#[test]
fn device_settings_write_all_instances() {
    let pair = pair(2);
    let own = NapiSet {
        id: id(&pair.tested, 1),
        defer_hard_irqs: Some(9),
        gro_flush_timeout: Some(9_000),
        irq_suspend_timeout: Some(9_000_000),
        ..NapiSet::default()
    };
    pair.engine.napi_set(own).unwrap();
    assert_eq!(pair.tested.settings().defer_hard_irqs, 0, "an instance's value does not show in the device's");

    write(&pair.tested, DevAttribute::NapiDeferHardIrqs, 4).unwrap();
    write(&pair.tested, DevAttribute::GroFlushTimeout, 20_000).unwrap();
    write(&pair.tested, DevAttribute::Threaded, 1).unwrap();
    let settings = pair.tested.settings();
    assert_eq!((settings.defer_hard_irqs, settings.gro_flush_timeout.ns), (4, 20_000));
    assert_eq!(settings.threaded, ThreadedSetting::Enabled);
    for queue in 0..2 {
        let info = info(&pair, queue);
        assert_eq!((info.defer_hard_irqs, info.gro_flush_timeout), (Some(4), Some(Span::from_us(20))));
        assert_eq!(info.threaded, Some(ThreadedSetting::Enabled));
        assert!(info.pid.is_some());
    }
    assert_eq!(info(&pair, 1).irq_suspend_timeout, Some(Span::from_ms(9)), "only instances have that one");
    assert_eq!(info(&pair, 0).irq_suspend_timeout, Some(Span::ZERO));
    let other = pair.engine.napi_get(NapiGet { id: id(&pair.peer, 0) }).unwrap();
    assert_eq!(other.defer_hard_irqs, Some(0), "the other device keeps its own");

    let before = (pair.tested.settings(), info(&pair, 0), info(&pair, 1));
    assert_eq!(write(&pair.tested, DevAttribute::NapiDeferHardIrqs, 1 << 31), Err(Errno::ERANGE));
    assert_eq!(write(&pair.tested, DevAttribute::Threaded, 2), Err(Errno::EOPNOTSUPP));
    pair.engine.set_cap_net_admin(false);
    assert_eq!(write(&pair.tested, DevAttribute::Threaded, 0), Err(Errno::EPERM));
    let pool = NapiSet { workqueue: true, ..NapiSet::default() };
    let refused = pair.engine.napi_set(NapiSet { id: id(&pair.tested, 0), ..pool });
    assert_eq!(refused.unwrap_err().errno(), Errno::EPERM);
    pair.engine.set_cap_net_admin(true);
    assert_eq!((pair.tested.settings(), info(&pair, 0), info(&pair, 1)), before);

    pair.set_all(&pair.tested, &pool);
    for queue in 0..2 {
        assert_eq!((info(&pair, queue).threaded, info(&pair, queue).pid), (Some(ThreadedSetting::Workqueue), None));
    }
    write(&pair.tested, DevAttribute::Threaded, 0).unwrap();
    assert_eq!(info(&pair, 0).threaded, Some(ThreadedSetting::Disabled));
}

/// `napi/<dev>-<id>`, cut off where the system cuts names off.
#[test]
fn threads_carry_the_name_of_their_instance() {
    let pair = pair(2);
    for (number, setting) in [(1, ThreadedSetting::Enabled), (2, ThreadedSetting::BusyPoll)] {
        let set = NapiSet { id: id(&pair.tested, 1), threaded: Some(number), ..NapiSet::default() };
        pair.engine.napi_set(set).unwrap();
        let info = info(&pair, 1);
        assert_eq!(info.threaded, Some(setting));
        let name = std::fs::read_to_string(task(info.pid.unwrap(), "comm")).unwrap();
        let full = format!("napi/tested-{}", info.id);
        assert_eq!(name.trim_end(), &full[..full.len().min(15)]);
    }
    let pid = info(&pair, 1).pid.unwrap();
    let set = NapiSet { id: id(&pair.tested, 1), threaded: Some(0), ..NapiSet::default() };
    pair.engine.napi_set(set).unwrap();
    assert_eq!(info(&pair, 1).pid, None);
    eventually("the thread is gone", || !task(pid, "comm").exists());
}

#[test]
fn down_and_up_keeps_ids_settings_and_traffic() {
    let pair = pair(2);
    let ids = [id(&pair.tested, 0), id(&pair.tested, 1)];
    let server = v4(TESTED_V4, 4000);
    let thread = echo(&pair.engine, Mode::Softirq, UdpSocket::bind(&pair.tested_ns, server).unwrap());
    let client = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
    for mode in [Mode::Deferral, Mode::Threaded, Mode::ThreadedBusyPoll, Mode::Workqueue, Mode::Softirq] {
        pair.set_all(&pair.tested, &mode.settings());
        round_trips(&client, server, 16, 4);
        // What an answer leaves behind on its way is sent before the device goes: the answers were all received.
        let before = info(&pair, 0);
        pair.tested.set_down();
        assert_eq!(pair.engine.napi_get(NapiGet { id: ids[0] }).unwrap_err().errno(), Errno::ENOENT);
        let set = NapiSet { id: ids[0], ..NapiSet::default() };
        assert_eq!(pair.engine.napi_set(set).unwrap_err().errno(), Errno::ENOENT);
        pair.tested.set_up().unwrap();
        assert_eq!([id(&pair.tested, 0), id(&pair.tested, 1)], ids, "{mode:?}");
        assert_eq!(info(&pair, 0), before, "{mode:?}");
        round_trips(&client, server, 16, 4);
    }
    stop(&client, server, thread);
}

#[test]
fn queues_name_their_instances() {
    let pair = pair(2);
    let ifindex = pair.tested.ifindex();
    let ask = |id, kind, ifindex: u32| {
        pair.engine.queue_get(QueueGet { id: Some(id), kind: Some(kind), ifindex: Some(ifindex.into()) })
    };
    for (number, kind) in [(0, QueueKind::Rx), (1, QueueKind::Tx)] {
        for queue in 0..2 {
            let napi_id = Some(pair.tested.napi_id(queue));
            let want = QueueInfo { id: queue.into(), ifindex, kind, napi_id };
            assert_eq!(ask(queue.into(), number, ifindex), Ok(want));
        }
    }
    assert_eq!(ask(2, 0, ifindex).unwrap_err().errno(), Errno::EINVAL);
    assert_eq!(ask(0, 2, ifindex).unwrap_err().errno(), Errno::ERANGE);
    assert_eq!(ask(0, 0, 99).unwrap_err().errno(), Errno::ENODEV);
    assert_eq!(pair.engine.queue_get(QueueGet::default()).unwrap_err().errno(), Errno::EINVAL);
    pair.tested.set_down();
    assert_eq!(ask(0, 0, ifindex).unwrap_err().errno(), Errno::ENOENT);
}

#[test]
fn interrupts_and_threads_move_to_the_cpu_named() {
    let pair = pair(1);
    let (cpus, napi) = (available_cpus(), pair.tested.napi_id(0));
    let server = v4(TESTED_V4, 4000);
    let thread = echo(&pair.engine, Mode::Softirq, UdpSocket::bind(&pair.tested_ns, server).unwrap());
    let client = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
    for cpu in &cpus {
        pair.engine.set_irq_affinity(napi, *cpu).unwrap();
        assert_eq!(pair.tested.irq_cpu(0), Some(*cpu));
        round_trips(&client, server, 16, 4);
    }
    let nowhere = pair.engine.set_irq_affinity(napi, 100_000).unwrap_err();
    assert_eq!(nowhere, AffinityError::NoSuchSoftirqCpu { cpu: 100_000 });
    assert_eq!(pair.engine.set_irq_affinity(7, cpus[0]).unwrap_err(), AffinityError::NoSuchNapi { id: 7 });

    // Asked for before there is a thread, and while there is one.
    let last = *cpus.last().unwrap();
    pair.engine.set_thread_affinity(napi, last).unwrap();
    pair.set_all(&pair.tested, &Mode::Threaded.settings());
    let pid = info(&pair, 0).pid.unwrap();
    assert_eq!(allowed(pid), last.to_string());
    pair.engine.set_thread_affinity(napi, cpus[0]).unwrap();
    assert_eq!(allowed(pid), cpus[0].to_string());
    for nowhere in [1000, 100_000] {
        let refused = pair.engine.set_thread_affinity(napi, nowhere);
        assert!(matches!(refused, Err(AffinityError::Refused { .. })));
    }
    // What was refused is not remembered for the next thread either.
    pair.set_all(&pair.tested, &Mode::Softirq.settings());
    pair.set_all(&pair.tested, &Mode::Threaded.settings());
    assert_eq!(allowed(info(&pair, 0).pid.unwrap()), cpus[0].to_string());
    round_trips(&client, server, 16, 4);
    stop(&client, server, thread);
}

/// Processors that a thread may use, as the system shows them.
fn allowed(pid: u32) -> String {
    let status = std::fs::read_to_string(task(pid, "status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    line.trim().to_owned()
}
