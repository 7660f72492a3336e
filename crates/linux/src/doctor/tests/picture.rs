//! What pictures are made of.

use std::collections::BTreeMap;

use crate::change::DeviceRef;
use crate::facts::{
    Cpus, DeviceFacts, DeviceFiles, Epoll, EpollParams, Facts, Instance, Irq, Kernel, Node, Program, Role, RxQueue,
    Socket, Sysctls, Thread, Through,
};

pub(super) fn instance(id: u32, place: u32) -> Instance {
    Instance {
        id,
        place,
        irq: None,
        thread: None,
        defer_hard_irqs: Some(0),
        gro_flush_timeout_ns: Some(0),
        irq_suspend_timeout_ns: Some(0),
        threaded: Some("disabled".to_owned()),
    }
}

pub(super) fn queue(index: u32) -> RxQueue {
    RxQueue { index, rps_cpus: Some(vec![]), rps_flow_cnt: Some(0), napi_id: Some(index + 5) }
}

pub(super) fn thread(tid: u32, cpus: &[u32]) -> Thread {
    Thread {
        tid,
        started: 1,
        name: format!("t{tid}"),
        cpus: cpus.to_vec(),
        last_cpu: cpus[0],
        scheduling: "other".into(),
    }
}

pub(super) fn irq(number: u32, cpus: &[u32]) -> Irq {
    let (affinity, effective) = (Some(cpus.to_vec()), Some(cpus.to_vec()));
    Irq { number, name: format!("eth0-{number}"), role: Role::Both, queue: Some(number - 40), affinity, effective }
}

pub(super) fn names(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Four CPUs on two nodes, one interface with two queues at the first node, and nothing wrong.
pub(super) fn quiet() -> Facts {
    let device = DeviceFacts {
        device: DeviceRef { ifindex: 2, name: "eth0".to_owned() },
        is_asked: true,
        is_held: false,
        is_up: true,
        driver: Some("ice".to_owned()),
        numa_node: Some(0),
        has_xdp: false,
        xsk_queues: Vec::new(),
        xsk_zero_copy: None,
        rx_queues: vec![queue(0), queue(1)],
        instances: Some(vec![instance(5, 0), instance(6, 1)]),
        files: DeviceFiles { gro_flush_timeout: Some(0), napi_defer_hard_irqs: Some(0), threaded: Some(0) },
        irqs: vec![irq(40, &[0]), irq(41, &[1])],
        channels: names(&[("combined", "2"), ("combined-max", "8")]),
        rings: BTreeMap::new(),
        coalesce: names(&[("rx-usecs", "0"), ("adaptive-rx", "off")]),
        gro: Some(true),
        lro: Some(false),
        leads_to: None,
    };
    Facts {
        kernel: Kernel { release: "7.3.0".to_owned(), version: (7, 3) },
        cpus: Cpus {
            online: vec![0, 1, 2, 3],
            nodes: vec![Node { id: 0, cpus: vec![0, 1] }, Node { id: 1, cpus: vec![2, 3] }],
            ..Cpus::default()
        },
        sysctls: Sysctls {
            busy_poll: Some(0),
            busy_read: Some(0),
            rps_sock_flow_entries: Some(0),
            netdev_budget: Some(300),
            netdev_budget_usecs: Some(8000),
        },
        devices: vec![device],
        napi_ids: vec![5, 6],
        ..Facts::default()
    }
}

/// A program with two workers, each with an epoll instance, a CPU and a socket of its own.
pub(super) fn with_program(mut facts: Facts) -> Facts {
    let socket = |fd, id| Socket { fd, busy_poll_usecs: 0, prefer_busy_poll: false, napi_id: Some(id) };
    let epoll = |fd, members: &[i32]| Epoll { fd, params: Some(EpollParams::default()), members: members.to_vec() };
    facts.program = Some(Program {
        pid: 100,
        name: "memcached".to_owned(),
        threads: vec![thread(100, &[0, 1]), thread(101, &[0, 1])],
        epolls: vec![epoll(3, &[10]), epoll(4, &[11])],
        sockets: vec![socket(10, 5), socket(11, 6)],
        internet: [10, 11].into(),
        connections: [("eth0".to_owned(), Through { count: 2, with_id: 2 })].into(),
        ..Program::default()
    });
    facts
}
