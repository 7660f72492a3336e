//! Pictures of machines, and their lists.

use std::collections::BTreeMap;

use super::{Delivery, Step, Tuning, default_cpu, steps, threads};
use crate::change::DeviceRef;
use crate::facts::{Cpus, Device, DeviceFiles, Facts, Instance, Irq, Node, RxQueue, Sysctls, Thread};

fn device() -> Device {
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
    let queue = |index| RxQueue { index, rps_cpus: vec![], rps_flow_cnt: 0, napi_id: None };
    Device {
        device: DeviceRef { ifindex: 2, name: "eth0".to_owned() },
        is_asked: true,
        is_up: true,
        driver: None,
        numa_node: Some(1),
        has_xdp: false,
        rx_queues: vec![queue(0), queue(1)],
        instances: Some(vec![instance]),
        files: DeviceFiles::default(),
        irqs: vec![Irq { number: 40, name: "eth0-0".into(), affinity: vec![0], effective: vec![0] }],
        channels: BTreeMap::from([number("combined", "2"), number("combined-max", "8")]),
        rings: BTreeMap::from([number("rx", "256"), number("rx-max", "4096")]),
        coalesce: BTreeMap::from([number("rx-usecs", "8"), number("adaptive-rx", "on")]),
        gro: None,
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
    let sysctls = Sysctls { busy_poll: Some(0), busy_read: Some(0), rps_sock_flow_entries: Some(0) };
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
    let of: Vec<_> = threads(&device(), &tuning).iter().filter_map(|line| line.command()).collect();
    assert_eq!(of, ["taskset -pc 2 9", "chrt --fifo -p 50 9"]);
}

#[test]
fn what_a_machine_lacks_is_said() {
    let bare = Device {
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
fn the_cpu_is_one_of_the_devices_node() {
    assert_eq!(default_cpu(&facts(), &device()), Some(2));
    assert_eq!(default_cpu(&facts(), &Device { numa_node: None, ..device() }), Some(3));
    assert_eq!(default_cpu(&Facts::default(), &device()), None);
}
