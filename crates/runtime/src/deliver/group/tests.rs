//! Groups of an engine on links.

mod idle;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use napier_core::context::PollContext;
use napier_core::control::NapiGet;
use napier_core::group::{Doing, GroupCpu, GroupError, Policy, Settings};
use napier_core::time::Span;

use napier_sys::sched::pin_current_thread;

use super::{GroupChangeError, GroupClass, instant};
use crate::available_cpus;
use crate::device::{DeviceHandle, EndConfig, IfAddr, LinkConfig};
use crate::engine::Engine;
use crate::socket::UdpSocket;
use crate::test_link::{PATIENCE, end, eventually};
use crate::tx::{QdiscConfig, TxVariant};

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2)];

/// All CPUs may sleep.
fn sleepy() -> Settings {
    Settings { min_active: 0, shrink_after: Span::from_us(50), ..Settings::default() }
}

struct Rig {
    engine: Engine,
    ends: [DeviceHandle; 2],
    sockets: [UdpSocket; 2],
}

impl Rig {
    fn new() -> Self {
        let engine = Engine::builder().softirq_cpus(&available_cpus()[..1]).fifo(false).start().unwrap();
        let of = |index: u8| EndConfig {
            addresses: vec![IfAddr { addr: IpAddr::V4(ADDRESSES[usize::from(index)]), prefix_len: 24 }],
            ..end(&engine, &format!("end{index}"), index)
        };
        let (first, second) = engine.add_link(&LinkConfig::default(), of(0), of(1)).unwrap();
        let ends = [first, second];
        let sockets = [0, 1].map(|index| {
            let socket = UdpSocket::bind(ends[index].netns(), SocketAddr::from((ADDRESSES[index], 7))).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket
        });
        Self { engine, ends, sockets }
    }

    fn id(&self, end: usize) -> u32 {
        self.ends[end].napi_id(0)
    }

    fn send(&self, to: usize, text: &[u8]) {
        self.sockets[1 - to].send_to(text, (ADDRESSES[to], 7).into()).unwrap();
    }

    fn round(&self, number: u32) {
        for to in [0, 1] {
            self.send(to, &number.to_ne_bytes());
            let mut bytes = [0; 16];
            assert_eq!(self.sockets[to].recv(&mut bytes).unwrap(), 4);
            assert_eq!(bytes[..4], number.to_ne_bytes(), "in order, and each once");
        }
    }

    fn polls(&self, end: usize, context: PollContext) -> u64 {
        self.ends[end].napi_stats(0).polls[context]
    }
}

#[test]
fn a_group_polls_its_members_without_an_interrupt_and_gives_them_back() {
    let rig = Rig::new();
    rig.round(0);
    rig.engine.group_new("g", &available_cpus()[..1], Settings::default()).unwrap();
    for end in [0, 1] {
        rig.engine.group_attach("g", rig.id(end)).unwrap();
    }
    let interrupts = |end: usize| rig.ends[end].napi_stats(0).interrupts;
    let before = [0, 1].map(interrupts);
    (1..200).for_each(|number| rig.round(number));
    assert_eq!([0, 1].map(interrupts), before, "masked for as long as somebody polls");
    let info = rig.engine.groups().remove(0);
    assert_eq!((info.name.as_str(), info.cpus.len(), info.members.len()), ("g", 1, 2));
    assert!(info.cpus[0].pid > 0 && info.cpus[0].doing == Doing::Active);
    assert!([0, 1].iter().all(|end| rig.polls(*end, PollContext::Group) > 100));
    rig.engine.group_detach("g", rig.id(0)).unwrap();
    rig.engine.group_del("g").unwrap();
    let polls = [0, 1].map(|end| rig.polls(end, PollContext::Group));
    (200..220).for_each(|number| rig.round(number));
    assert_eq!([0, 1].map(|end| rig.polls(end, PollContext::Group)), polls, "nobody of the group is left");
    assert!([0, 1].iter().all(|end| interrupts(*end) > before[*end]), "by interrupts again");
    assert!(rig.engine.groups().is_empty());
}

#[test]
fn dry_runs_keep_to_themselves() {
    let rig = Rig::new();
    rig.engine.group_new("g", &available_cpus()[..1], Settings::default()).unwrap();
    rig.engine.group_attach("g", rig.id(0)).unwrap();
    let napi = rig.engine.inner.deliver.napi_by_id(rig.id(0)).unwrap().clone();
    let (ns, runs) = (rig.ends[0].netns(), || napi.dry_runs.load(Ordering::Relaxed));
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(runs(), 0, "nothing has come yet that could be sent again");
    let mut number = 0;
    eventually("a packet that came after polls in vain is sent again", || {
        rig.round(number);
        number += 1;
        std::thread::sleep(Duration::from_millis(2));
        runs() > 0
    });
    eventually("they go on while nothing comes", || runs() > 100);
    let (before, ran) = (ns.counters(), runs());
    eventually("they go on while nothing comes", || runs() > ran + 100);
    assert_eq!(ns.counters(), before);
    rig.sockets[0].set_nonblocking(true).unwrap();
    assert_eq!(rig.sockets[0].recv(&mut [0; 4]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    rig.engine.group_detach("g", rig.id(0)).unwrap();
    let ran = runs();
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(runs(), ran, "who polls by interrupt has none");
    rig.engine.group_del("g").unwrap();
}

/// One poller, one look at each ring, one sleep: what comes then wakes it.
#[test]
fn all_cpus_sleep_when_there_is_nothing_to_do() {
    let rig = Rig::new();
    rig.engine.group_new("g", &available_cpus()[..1], sleepy()).unwrap();
    for end in [0, 1] {
        rig.engine.group_attach("g", rig.id(end)).unwrap();
    }
    let asleep = || {
        let group = rig.engine.groups().remove(0);
        group.cpus[0].doing == Doing::Asleep && group.members.iter().all(|member| member.armed)
    };
    for number in 0..50 {
        eventually("it parks, with each member armed", asleep);
        let polls = rig.polls(0, PollContext::Group);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(rig.polls(0, PollContext::Group), polls, "who sleeps does not poll");
        rig.round(number);
    }
    assert!(rig.engine.groups()[0].cpus[0].parks >= 50);
}

#[test]
fn nothing_is_lost_while_members_and_settings_change() {
    let rig = Rig::new();
    let cpus = available_cpus();
    let two = cpus.len() > 1;
    if !two {
        napier_testkit::skip!(
            "nothing_is_lost_while_members_and_settings_change",
            "one processor only: CPUs do not change"
        );
    }
    rig.engine.group_new("g", &cpus[..1], sleepy()).unwrap();
    let (done, changed) = (AtomicBool::new(false), AtomicU32::new(0));
    let enough = std::env::var("NAPIER_GROUP_CHANGES").map_or(40, |turns| turns.parse().expect("a number"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let more = |number: &u32| *number < 3000 || changed.load(Ordering::Relaxed) < enough;
            (0..u32::MAX).take_while(more).for_each(|number| rig.round(number));
            done.store(true, Ordering::Relaxed);
        });
        let mut turns = 0_u32;
        while !done.load(Ordering::Relaxed) {
            let (end, settings) = ((turns % 2) as usize, [sleepy(), Settings::default()][(turns / 2 % 2) as usize]);
            rig.engine.group_attach("g", rig.id(end)).unwrap();
            rig.engine.group_set("g", settings).unwrap();
            if two {
                rig.engine.group_attach_cpu("g", cpus[1]).unwrap();
                rig.engine.group_detach_cpu("g", cpus[(turns / 4 % 2) as usize]).unwrap();
                if (turns / 4).is_multiple_of(2) {
                    rig.engine.group_attach_cpu("g", cpus[0]).unwrap();
                    rig.engine.group_detach_cpu("g", cpus[1]).unwrap();
                }
            }
            rig.engine.group_detach("g", rig.id(end)).unwrap();
            turns += 1;
            changed.store(turns, Ordering::Relaxed);
        }
    });
    assert!(rig.polls(0, PollContext::Group) > 0);
}

#[test]
fn a_member_outlives_down_and_up_of_its_device() {
    let rig = Rig::new();
    rig.engine.group_new("g", &available_cpus()[..1], Settings::default()).unwrap();
    rig.engine.group_attach("g", rig.id(0)).unwrap();
    let before = rig.ends[0].napi_stats(0).interrupts;
    for number in 0..20 {
        rig.round(number);
        rig.ends[0].set_down();
        assert!(rig.engine.groups()[0].members[0].armed, "nobody polls a queue of a device that is down");
        rig.ends[0].set_up().unwrap();
    }
    let polls = rig.polls(0, PollContext::Group);
    rig.round(20);
    // A packet is delivered before its poll is counted.
    eventually("it is the group's still", || rig.polls(0, PollContext::Group) > polls);
    assert_eq!(rig.ends[0].napi_stats(0).interrupts, before, "masked as soon as it is up");
    // Down, and out of the group meanwhile.
    let id = rig.id(0);
    rig.ends[0].set_down();
    assert!(matches!(rig.engine.group_detach("g", id), Err(GroupChangeError::NoSuchNapi { .. })));
    rig.engine.group_del("g").unwrap();
    rig.ends[0].set_up().unwrap();
    rig.round(21);
}

#[test]
fn an_engine_ends_with_its_groups() {
    for settings in [Settings::default(), sleepy(), Settings { policy: Policy::Static, ..Settings::default() }] {
        let rig = Rig::new();
        rig.engine.group_new("g", &available_cpus()[..1], settings).unwrap();
        rig.engine.group_attach("g", rig.id(0)).unwrap();
        rig.round(0);
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let rig = Rig::new();
    let (engine, cpu) = (&rig.engine, available_cpus()[0]);
    let other = Settings { delay_target: Span::ZERO, ..Settings::default() };
    let refused = |answer: Result<(), GroupChangeError>| answer.expect_err("refused").to_string();
    assert!(refused(engine.group_new("", &[cpu], Settings::default())).contains("cannot name a group"));
    assert!(refused(engine.group_new("g", &[], Settings::default())).contains("has no CPU"));
    assert!(refused(engine.group_new("g", &[cpu, cpu], Settings::default())).contains("name it once"));
    assert!(refused(engine.group_new("g", &[60_000], Settings::default())).contains("CPU 60000 is not there"));
    assert!(refused(engine.group_new("g", &[70_000], Settings::default())).contains("is not there"));
    assert!(refused(engine.group_new("g", &[cpu], other)).contains("a delay target of 0 ns"));
    let many = Settings { min_active: 2, ..Settings::default() };
    assert!(refused(engine.group_new("g", &[cpu], many)).contains("min-active 2 for a group of 1 CPU:"));
    assert!(engine.groups().is_empty());
    engine.group_new("g", &[cpu], Settings::default()).unwrap();
    assert!(refused(engine.group_new("g", &[cpu], Settings::default())).contains("there is a group g already"));
    assert!(refused(engine.group_new("h", &[cpu], Settings::default())).contains("is in group g"));
    assert!(refused(engine.group_attach("h", rig.id(0))).contains("there is no group h"));
    assert!(refused(engine.group_attach("g", 77_777)).contains("no enabled NAPI instance has id 77777"));
    engine.group_attach("g", rig.id(0)).unwrap();
    assert!(refused(engine.group_attach("g", rig.id(0))).contains("end0/0 is in the group already"));
    assert!(refused(engine.group_detach("g", rig.id(1))).contains("end1/0 is not in group g"));
    assert!(matches!(
        engine.group_detach_cpu("g", cpu),
        Err(GroupChangeError::Refused(GroupError::LastCpu { members: 1, .. }))
    ));
    rig.round(0);
    assert_eq!(engine.groups()[0].members.len(), 1);
}

#[test]
fn who_asks_for_an_instance_is_told_of_its_group() {
    let rig = Rig::new();
    let asked = || rig.engine.napi_get(NapiGet { id: Some(rig.id(0).into()) }).unwrap();
    assert_eq!((asked().pid, rig.engine.group_of(rig.id(0))), (None, None));
    rig.engine.group_new("g", &available_cpus()[..1], Settings::default()).unwrap();
    rig.engine.group_attach("g", rig.id(0)).unwrap();
    let of = rig.engine.group_of(rig.id(0)).unwrap();
    assert_eq!((of.name.as_str(), usize::from(of.cpu)), ("g", available_cpus()[0]));
    assert_eq!(of.pid, rig.engine.groups()[0].cpus[0].pid);
    assert_eq!(asked().pid, Some(of.pid), "the thread that polls it");
    rig.engine.group_detach("g", rig.id(0)).unwrap();
    assert_eq!((asked().pid, rig.engine.group_of(rig.id(0))), (None, None));
}

/// Scheduling class of a thread of this process: field 41 of its `stat`, see proc_pid_stat(5); 1 is `SCHED_FIFO`.
fn is_fifo(tid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(41 - 3).unwrap() == "1"
}

#[test]
fn a_real_time_class_is_taken_or_refused_and_others_get_their_turn() {
    let rig = Rig::new();
    let cpu = available_cpus()[0];
    rig.engine.group_new("g", &[cpu], Settings::default()).unwrap();
    rig.engine.group_attach("g", rig.id(0)).unwrap();
    let info = || rig.engine.groups().remove(0);
    let isolated = info().cpus[0].isolated;
    assert_eq!((info().class, info().cpus[0].fifo && !isolated), (GroupClass::Auto, false));
    if let Err(refused) = rig.engine.group_set_class("g", GroupClass::Fifo) {
        assert!(refused.to_string().contains("CAP_SYS_NICE"), "{refused}");
        assert_eq!((info().class, is_fifo(info().cpus[0].pid)), (GroupClass::Auto, false), "nothing has changed");
        rig.round(0);
        return napier_testkit::skip!(
            "a_real_time_class_is_taken_or_refused_and_others_get_their_turn",
            "SCHED_FIFO is not granted: only the refusal was tested"
        );
    }
    assert!(info().cpus[0].fifo && is_fifo(info().cpus[0].pid));
    // This thread shares the CPU with one that never sleeps, but for its steps aside.
    pin_current_thread(cpu);
    (0..200).for_each(|number| rig.round(number));
    rig.engine.group_set_class("g", GroupClass::Other).unwrap();
    assert!(!info().cpus[0].fifo && !is_fifo(info().cpus[0].pid));
    rig.round(200);
}

/// Senders only push: what they leave is enqueued and run by the group, which takes nothing for itself if it may sleep.
#[test]
fn a_group_that_is_always_awake_runs_the_queues_of_its_members() {
    let rig = Rig::new();
    rig.ends[0].set_qdisc(0, &QdiscConfig::Pfifo { limit_pkts: 1000 }).unwrap();
    let variant = || rig.ends[0].tx_stats(0).unwrap().variant;
    assert_eq!(variant(), TxVariant::Llist);
    rig.engine.group_new("g", &available_cpus()[..1], Settings::default()).unwrap();
    rig.engine.group_attach("g", rig.id(0)).unwrap();
    assert_eq!(variant(), TxVariant::Owner);
    (0..200).for_each(|number| rig.round(number));
    rig.engine.group_set("g", sleepy()).unwrap();
    assert_eq!(variant(), TxVariant::Llist, "nobody would look at what is pushed");
    (200..260).for_each(|number| rig.round(number));
    rig.engine.group_set("g", Settings::default()).unwrap();
    assert_eq!(variant(), TxVariant::Owner);
    eventually("it polls again", || rig.engine.groups()[0].cpus[0].doing == Doing::Active);
    (260..300).for_each(|number| rig.round(number));
    rig.ends[0].set_down();
    rig.ends[0].set_up().unwrap();
    (300..340).for_each(|number| rig.round(number));
    rig.engine.group_detach("g", rig.id(0)).unwrap();
    assert_eq!(variant(), TxVariant::Llist);
    (340..400).for_each(|number| rig.round(number));
    let stats = rig.ends[0].tx_stats(0).unwrap();
    assert!(stats.packets >= 400 && stats.qlen == 0 && stats.drops.is_empty(), "{stats:?}");
}

/// Who holds the policy's turn may be stopped by the host with it in hand.
#[test]
fn members_are_taken_over_from_a_cpu_that_stopped_in_the_midst_of_deciding() {
    let [first, second, ..] = available_cpus()[..] else {
        return napier_testkit::skip!(
            "members_are_taken_over_from_a_cpu_that_stopped_in_the_midst_of_deciding",
            "one processor only"
        );
    };
    let rig = Rig::new();
    // Longer than this host keeps a thread from its processor.
    let settings = Settings { min_active: 2, stall_after: Span::from_secs(10), ..Settings::default() };
    rig.engine.group_new("g", &[first, second], settings).unwrap();
    rig.engine.group_attach("g", rig.id(0)).unwrap();
    let group = rig.engine.inner.deliver.groups.group("g");
    // From here on nobody else moves it.
    let deciding = group.turn.lock().unwrap();
    let home = usize::from(rig.engine.groups()[0].members[0].cpu);
    let other = if home == first { second } else { first };
    let poller = group.poller(GroupCpu(u16::try_from(other).unwrap())).unwrap();
    let now = instant(&poller.seen_ns);
    // As long as both come round nothing is taken from anybody, whoever is deciding.
    group.rescue(&poller, now);
    assert_eq!(usize::from(rig.engine.groups()[0].members[0].cpu), home);
    // Seen from a minute later nobody has come round.
    group.rescue(&poller, now + Span::from_secs(60));
    assert_eq!(usize::from(rig.engine.groups()[0].members[0].cpu), other);
    drop(deciding);
    (0..50).for_each(|number| rig.round(number));
}

#[test]
fn a_member_that_nobody_polls_has_no_load() {
    let rig = Rig::new();
    rig.engine.group_new("g", &available_cpus()[..1], sleepy()).unwrap();
    rig.engine.group_attach("g", rig.id(0)).unwrap();
    rig.round(0);
    let group = rig.engine.inner.deliver.groups.group("g");
    eventually("it parks", || rig.engine.groups()[0].cpus[0].doing == Doing::Asleep);
    let member = group.members.load()[0].clone();
    // As a device that goes down under load leaves it.
    member.load_permille.store(300, Ordering::Relaxed);
    member.backlog.store(5, Ordering::Relaxed);
    let view = super::policy::member_view(&member, instant(&member.turn_ended_ns));
    assert_eq!((view.load, view.backlog, view.age), (0, 0, Span::ZERO));
}
