//! Pictures of machines, and their lists.

use std::collections::{BTreeMap, VecDeque};

use super::{Delivery, FIFO, Step, TuneError, Tuning, check, default_cpus, renew_interrupts, steps, threads};
use crate::change::{DeviceFileKey, DeviceRef, FileKey, Key, Line, NapiKey, ThreadSetting};
use crate::facts::{Cpus, DeviceFacts, DeviceFiles, Facts, Instance, Irq, Node, Role, RxQueue, Sysctls, Thread};

fn irq(number: u32, name: &str, role: Role, queue: Option<u32>) -> Irq {
    Irq { number, name: name.into(), role, queue, affinity: Some(vec![0]), effective: Some(vec![0]) }
}

fn device() -> DeviceFacts {
    let number = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let thread = Thread {
        tid: 9,
        started: 1,
        name: "napi/eth0-5".into(),
        cpus: vec![0, 1],
        last_cpu: 0,
        scheduling: "other".into(),
    };
    let instance = Instance {
        id: 5,
        place: 0,
        irq: Some(40),
        thread: Some(thread),
        defer_hard_irqs: None,
        gro_flush_timeout_ns: None,
        irq_suspend_timeout_ns: None,
        threaded: None,
    };
    let queue = |index| RxQueue { index, rps_cpus: Some(vec![]), rps_flow_cnt: Some(0), napi_id: None };
    DeviceFacts {
        device: DeviceRef { ifindex: 2, name: "eth0".to_owned() },
        is_asked: true,
        is_held: false,
        is_up: true,
        driver: None,
        numa_node: Some(1),
        has_xdp: false,
        xsk_queues: Vec::new(),
        xsk_zero_copy: None,
        rx_queues: vec![queue(0), queue(1)],
        instances: Some(vec![instance]),
        files: DeviceFiles::default(),
        irqs: vec![irq(40, "eth0-0", Role::Both, Some(0))],
        channels: BTreeMap::from([number("combined", "2"), number("combined-max", "8")]),
        rings: BTreeMap::from([number("rx", "256"), number("rx-max", "4096")]),
        coalesce: BTreeMap::from([number("rx-usecs", "8"), number("adaptive-rx", "on")]),
        gro: None,
        lro: None,
        leads_to: None,
    }
}

fn facts() -> Facts {
    let cpus = Cpus {
        online: vec![0, 1, 2, 3],
        nodes: vec![Node { id: 0, cpus: vec![0, 3] }, Node { id: 1, cpus: vec![1, 2] }],
        smt_control: Some("on".to_owned()),
        work_queue_masks: vec!["/wq".to_owned()],
        ..Cpus::default()
    };
    let sysctls =
        Sysctls { busy_poll: Some(0), busy_read: Some(0), rps_sock_flow_entries: Some(0), ..Sysctls::default() };
    Facts { cpus, sysctls, ..Facts::default() }
}

fn tuning(delivery: Delivery, queues: Option<u32>) -> Tuning {
    Tuning { delivery, cpus: vec![2], queues }
}

fn commands(steps: &[Step]) -> Vec<String> {
    let words = |step: &Step| match step {
        Step::Line(line) => line.command().expect("a command"),
        Step::Not { what, why } => format!("not {what}: {why}"),
    };
    steps.iter().map(words).collect()
}

#[test]
fn the_list_is_the_scripts() {
    let wanted = "\
echo 0 > /sys/class/net/eth0/threaded
sysctl -w kernel.timer_migration=0
echo off > /sys/devices/system/cpu/smt/control
ethtool -L eth0 combined 1
ethtool -G eth0 rx 1024
sysctl -w net.core.rps_sock_flow_entries=0
echo 0 > /sys/class/net/eth0/queues/rx-0/rps_cpus
echo 2 > /proc/irq/40/smp_affinity_list
sysctl -w kernel.sched_rt_runtime_us=-1
echo b > /wq
sysctl -w net.core.busy_poll=0
sysctl -w net.core.busy_read=400
echo 100 > /sys/class/net/eth0/napi_defer_hard_irqs
echo 15000 > /sys/class/net/eth0/gro_flush_timeout
ethtool -C eth0 adaptive-rx off
ethtool -C eth0 rx-usecs 0";
    let found = commands(&steps(&facts(), &device(), &tuning(Delivery::BusyRead, Some(1))));
    assert_eq!(found.join("\n"), wanted);
}

#[test]
fn threads_come_last_with_their_priority_and_cpu() {
    let tuning = tuning(Delivery::ThreadedBusyPoll, None);
    let found = commands(&steps(&facts(), &device(), &tuning));
    assert_eq!(
        found.last().map(String::as_str),
        Some("napier napi-set --json '{\"id\": 5, \"threaded\": \"busy-poll\"}'")
    );
    assert!(found.iter().all(|command| !command.contains("/threaded") && !command.contains("-L")), "{found:?}");
    assert!(found.contains(&"sysctl -w net.core.busy_read=0".to_owned()));
    let of: Vec<_> = threads(&facts(), &device(), &tuning).iter().filter_map(|line| line.command()).collect();
    assert_eq!(of, ["taskset -pc 2 9", "chrt --fifo -p 50 9"]);
}

#[test]
fn what_a_machine_lacks_is_said() {
    let bare = DeviceFacts {
        irqs: vec![],
        channels: BTreeMap::new(),
        rings: BTreeMap::from([("rx-max".to_owned(), "256".to_owned())]),
        coalesce: BTreeMap::new(),
        instances: Some(vec![]),
        ..device()
    };
    let all = Tuning { cpus: vec![0, 1, 2, 3], ..tuning(Delivery::Threaded, Some(1)) };
    let mut machine = facts();
    machine.cpus.smt_control = Some("notsupported".to_owned());
    machine.sysctls = Sysctls::default();
    let found = commands(&steps(&machine, &bare, &all));
    let nots: Vec<_> = found.iter().filter(|step| step.starts_with("not ")).collect();
    assert_eq!(nots.len(), 12, "{nots:#?}");
    assert!(found.iter().any(|step| step.contains("at most 256 descriptors")));
}

#[test]
fn the_cpus_are_of_the_devices_node_and_as_many_as_queues() {
    let machine = facts();
    let of = |device: &DeviceFacts, delivery, queues| default_cpus(&machine, device, delivery, queues);
    assert_eq!(of(&device(), Delivery::Interrupts, None), [1, 2]);
    assert_eq!(of(&device(), Delivery::BusyRead, Some(1)), [2]);
    let anywhere = DeviceFacts { numa_node: None, ..device() };
    assert_eq!(of(&anywhere, Delivery::BusyRead, Some(9)), [0, 1, 2, 3]);
    assert_eq!(of(&anywhere, Delivery::Threaded, Some(9)), [1, 2, 3], "one is left to the others");
    assert!(default_cpus(&Facts::default(), &device(), Delivery::Threaded, None).is_empty());
    // Isolated CPUs are for those that never sleep.
    let mut isolated = facts();
    isolated.cpus.isolated = vec![1, 3];
    let of = |delivery| default_cpus(&isolated, &anywhere, delivery, None);
    assert_eq!((of(Delivery::ThreadedBusyPoll), of(Delivery::Interrupts)), (vec![1, 3], vec![0, 2]));
}

fn with_queues(count: u32) -> DeviceFacts {
    let of = |queue: u32| {
        let thread = Thread {
            tid: 90 + queue,
            started: 1,
            name: format!("napi/eth0-{queue}"),
            cpus: vec![0, 1, 2, 3],
            last_cpu: 0,
            scheduling: "other".into(),
        };
        Instance { id: 50 + queue, place: queue, irq: None, thread: Some(thread), ..device().instances()[0].clone() }
    };
    let queue = |index| RxQueue { index, rps_cpus: None, rps_flow_cnt: None, napi_id: Some(50 + index) };
    // The vectors of a queue are apart in the table, and one for the rest is first.
    let mut irqs = vec![irq(39, "virtio0-config", Role::Control, None)];
    irqs.extend((0..count).map(|at| irq(40 + 2 * at, "input", Role::Receive, Some(at))));
    irqs.extend((0..count).map(|at| irq(41 + 2 * at, "output", Role::Transmit, Some(at))));
    DeviceFacts {
        rx_queues: (0..count).map(queue).collect(),
        instances: Some((0..count).map(of).collect()),
        irqs,
        ..device()
    }
}

#[test]
fn what_belongs_to_a_queue_goes_to_one_cpu() {
    let tuning = Tuning { cpus: vec![2, 3], ..tuning(Delivery::Threaded, None) };
    let device = with_queues(4);
    let found = commands(&steps(&facts(), &device, &tuning));
    let irqs: Vec<&str> = found.iter().filter_map(|line| line.strip_suffix("/smp_affinity_list")).collect();
    let wanted = ["2", "3", "2", "3", "2", "3", "2", "3"].iter().zip([40, 42, 44, 46, 41, 43, 45, 47]);
    assert_eq!(irqs, wanted.map(|(cpu, irq)| format!("echo {cpu} > /proc/irq/{irq}")).collect::<Vec<_>>());
    let threads: Vec<_> = threads(&facts(), &device, &tuning).iter().filter_map(|line| line.command()).collect();
    assert_eq!(threads.iter().filter(|line| line.starts_with("taskset -pc 2")).count(), 2);
    assert_eq!(threads[..2], ["taskset -pc 2 90", "chrt --fifo -p 50 90"]);
}

#[test]
fn threads_that_poll_for_ever_never_outnumber_their_cpus() {
    let of = |cpus: &[u32], queues, delivery| {
        check(&with_queues(4), &Tuning { cpus: cpus.to_vec(), ..tuning(delivery, queues) })
    };
    let error = of(&[3], None, Delivery::ThreadedBusyPoll).expect_err("four on one");
    assert_eq!(error, TuneError::Crowded { device: "eth0".to_owned(), threads: 4, cpus: 1 });
    assert!(error.to_string().contains("--queues 1"), "{error}");
    assert!(of(&[2, 3], None, Delivery::ThreadedBusyPoll).is_err());
    assert_eq!(of(&[2, 3], Some(2), Delivery::ThreadedBusyPoll), Ok(()));
    assert_eq!(of(&[0, 1, 2, 3], None, Delivery::ThreadedBusyPoll), Ok(()));
    // Threads that sleep may share.
    assert_eq!(of(&[3], None, Delivery::Threaded), Ok(()));
    // Instances of queues that are not kept get no such thread, and none gets a real-time class on the last CPU.
    let kept = Tuning { cpus: vec![2, 3], ..tuning(Delivery::ThreadedBusyPoll, Some(2)) };
    let found = commands(&steps(&facts(), &with_queues(4), &kept));
    assert_eq!(found.iter().filter(|line| line.contains("busy-poll")).count(), 2, "{found:#?}");
    assert_eq!(threads(&facts(), &with_queues(4), &kept).len(), 4);
    let whole = Tuning { cpus: vec![0, 1, 2, 3], ..kept };
    let found = threads(&facts(), &with_queues(4), &whole);
    assert!(found.iter().all(|line| line.value != FIFO), "{found:?}");
}

/// What a delivery sets, as facts: doctor has nothing to say against it.
#[test]
fn doctor_is_silent_after_each_delivery() {
    let deliveries = [Delivery::Interrupts, Delivery::BusyRead, Delivery::Threaded, Delivery::ThreadedBusyPoll];
    for (delivery, queues) in deliveries.into_iter().flat_map(|delivery| [1, 2, 3].map(|queues| (delivery, queues))) {
        let mut machine = facts();
        machine.cpus.nodes.clear();
        let mut device = DeviceFacts { numa_node: None, ..with_queues(queues) };
        device.rx_queues.iter_mut().for_each(|queue| queue.rps_cpus = Some(vec![]));
        device.coalesce.clear();
        if !matches!(delivery, Delivery::Threaded | Delivery::ThreadedBusyPoll) {
            device.instances.iter_mut().flatten().for_each(|instance| instance.thread = None);
        }
        let cpus = default_cpus(&machine, &device, delivery, None);
        let tuning = Tuning { delivery, cpus, queues: None };
        check(&device, &tuning).expect("it fits");
        let steps = steps(&machine, &device, &tuning).into_iter();
        let lines: Vec<Line> =
            steps.filter_map(|step| if let Step::Line(line) = step { Some(line) } else { None }).collect();
        let threads = threads(&machine, &device, &tuning);
        for line in lines.iter().chain(&threads) {
            in_force(line, &mut device);
        }
        machine.devices = vec![device];
        machine.kernel.version = (7, 3);
        let found: Vec<_> = crate::doctor::diagnose(&machine)
            .into_iter()
            .filter(|finding| finding.severity > crate::doctor::Severity::Note)
            .collect();
        assert!(found.is_empty(), "{delivery:?} with {queues} queues: {found:#?}");
    }
}

/// What a line makes of the picture.
fn in_force(line: &Line, device: &mut DeviceFacts) {
    let number = || line.value.parse::<u64>().expect("a number");
    match &line.key {
        Key::DeviceFile(DeviceFileKey { file, .. }) => {
            let instances = device.instances.iter_mut().flatten();
            match file.as_str() {
                "threaded" => {
                    device.files.threaded = Some(number());
                    let name = if number() == 0 { "disabled" } else { "enabled" };
                    instances.for_each(|instance| instance.threaded = Some(name.to_owned()));
                }
                "napi_defer_hard_irqs" => {
                    device.files.napi_defer_hard_irqs = Some(number());
                    instances.for_each(|instance| instance.defer_hard_irqs = Some(number() as u32));
                }
                "gro_flush_timeout" => {
                    device.files.gro_flush_timeout = Some(number());
                    instances.for_each(|instance| instance.gro_flush_timeout_ns = Some(number()));
                }
                _ => {}
            }
        }
        Key::Napi(NapiKey { id, .. }) => {
            let own = device.instances.iter_mut().flatten().find(|instance| instance.id == *id).expect("there");
            own.threaded = Some(line.value.clone());
        }
        Key::File(FileKey { path }) => {
            let Some(irq) = path.strip_prefix("/proc/irq/").and_then(|rest| rest.split('/').next()) else { return };
            let own = device.irqs.iter_mut().find(|own| own.number.to_string() == irq).expect("there");
            (own.affinity, own.effective) = (Some(vec![number() as u32]), Some(vec![number() as u32]));
        }
        Key::Thread(key) if key.setting == ThreadSetting::Affinity => {
            let threads = device.instances.iter_mut().flatten().filter_map(|instance| instance.thread.as_mut());
            threads.filter(|thread| thread.tid == key.tid).for_each(|thread| thread.cpus = vec![number() as u32]);
        }
        _ => {}
    }
}

/// Four queues became one, and the driver has asked for its interrupts again: what is left of the list goes to those that there are.
#[test]
fn interrupts_that_a_driver_has_anew_are_moved() {
    let (facts, tuning) = (facts(), tuning(Delivery::Interrupts, Some(1)));
    let irqs = (0..4).map(|at| irq(36 + at, &format!("eth0-{at}"), Role::Both, Some(at)));
    let before = DeviceFacts { irqs: irqs.collect(), ..device() };
    let all = steps(&facts, &before, &tuning);
    let mut left = VecDeque::from(all.clone());
    while !left[0].is_interrupt() {
        left.pop_front();
    }
    let behind: Vec<Step> = left.iter().skip(4).cloned().collect();
    let now = DeviceFacts { irqs: vec![irq(51, "eth0-0", Role::Both, Some(0))], ..device() };
    renew_interrupts(&mut left, &now, &tuning);
    let moved = left.iter().filter(|step| step.is_interrupt()).filter_map(Step::line).map(ToString::to_string);
    assert_eq!(moved.collect::<Vec<_>>(), ["/proc/irq/51/smp_affinity_list = 2"]);
    assert!(left[0].is_interrupt() && left.into_iter().skip(1).eq(behind), "the rest stays as it is");
    let sets_rings = |step: &Step| step.line().is_some_and(|line| line.key.resets_queues());
    assert_eq!(all.iter().filter(|step| sets_rings(step)).count(), 2, "queues and the ring");
}
