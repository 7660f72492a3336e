//! A threaded run and the rules come to the same decisions.

mod replay;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use napier_core::completion::Completed;
use napier_core::state::State;
use napier_core::time::Span;
use napier_runtime::control::NapiSet;
use napier_runtime::device::LinkConfig;
use napier_runtime::engine::Engine;
use napier_runtime::journal::{Event, Journal, Record, Rule};
use napier_runtime::socket::{SocketOption, UdpSocket};

use self::replay::replay;
use crate::common::modes::{Mode, echo, round_trips, stop};
use crate::common::{PEER_V4, Pair, TESTED_V4, eventually, v4};

const ROOM: usize = 2_000_000;

/// Rules, decisions and other events by name, with how often they were recorded.
fn names(records: &[Record]) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    let head = |text: String| text.split([' ', '(', '{']).next().unwrap().to_owned();
    for record in records {
        let name = match record.event {
            Event::Rule { rule, answer, .. } => format!("{}={answer}", head(format!("{rule:?}"))),
            Event::Poll { context, .. } => format!("Poll {context:?}"),
            Event::AfterPoll { decision, .. } => format!("AfterPoll {}", head(format!("{decision:?}"))),
            Event::Complete { decision, .. } => format!("Complete {}", head(format!("{decision:?}"))),
            Event::Completed { decision: Completed::Reschedule, .. } => "Completed Reschedule".to_owned(),
            Event::Completed { decision: Completed::Released { unmask, .. }, .. } => format!("Completed {unmask}"),
            Event::BusyStop { decision, .. } => format!("BusyStop {}", head(format!("{decision:?}"))),
            Event::AfterStopPoll { decision, .. } => format!("AfterStopPoll {decision:?}"),
            event => head(format!("{event:?}")),
        };
        *names.entry(name).or_default() += 1;
    }
    names
}

struct Server {
    addr: SocketAddr,
    client: UdpSocket,
    thread: JoinHandle<()>,
}

impl Server {
    fn start(pair: &Pair, mode: Mode, number: u16) -> Self {
        let addr = v4(TESTED_V4, 4000 + number);
        let thread = echo(&pair.engine, mode, UdpSocket::bind(&pair.tested_ns, addr).unwrap());
        let client = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000 + number)).unwrap();
        Self { addr, client, thread }
    }
}

/// Traffic in every way of receiving, while the instance goes through all modes; between rounds it goes down and up.
fn run(pair: &Pair) {
    let modes = [Mode::Softirq, Mode::BusyRead, Mode::BusyRead, Mode::EventSuspension, Mode::EventBusyPoll];
    let servers: Vec<_> = modes.iter().zip(0..).map(|(mode, number)| Server::start(pair, *mode, number)).collect();
    for window in [1, 40] {
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for server in &servers {
                let end = &end;
                scope.spawn(move || {
                    while !end.load(Ordering::Relaxed) {
                        round_trips(&server.client, server.addr, window * 4, window);
                    }
                });
            }
            for mode in Mode::ALL {
                pair.set_all(&pair.tested, &mode.settings());
                std::thread::sleep(Duration::from_millis(4));
            }
            end.store(true, Ordering::Relaxed);
        });
        pair.tested.set_down();
        pair.tested.set_up().unwrap();
    }
    for server in servers {
        stop(&server.client, server.addr, server.thread);
    }
}

/// What a run has to contain: without it the replay would show less than it seems to.
const WANTED: [&str; 36] = [
    "Added",
    "AfterStopPoll Gone",
    "BusyAcquire=false",
    "BusyAcquire=true",
    "BusyStop ArmTimer",
    "BusyStop PollOnce",
    "BusyStopBegin=true",
    "BusyStopRelease=true",
    "Complete Refused",
    "Complete Release",
    "CompleteRelease=false",
    "Completed false",
    "Completed true",
    "DisableBegin=true",
    "DisableClaim=true",
    "DisableEnd=true",
    "Enable=true",
    "Mask",
    "Poll Kthread",
    "Poll KthreadBusy",
    "Poll Softirq",
    "Poll User",
    "Resume",
    "SchedulePrep=false",
    "SchedulePrep=true",
    "Schedule=false",
    "Schedule=true",
    "Scheduled",
    "SetThreaded=true",
    "Suspend",
    "ThreadTurn=false",
    "ThreadTurn=true",
    "TimerAcquire=true",
    "TimerFire",
    "TimerStart",
    "Unmask",
];

#[test]
fn a_run_is_replayed_with_the_same_decisions() {
    let fresh = || Pair::on(Engine::builder().journal(ROOM), &LinkConfig::default());
    let mut pair = fresh();
    // Mostly once. On a machine that is busy with other things a mode may pass without a packet.
    for round in 1.. {
        run(&pair);
        let journal = pair.engine.journal();
        if journal.lost > 0 {
            // This thread was stopped in a mode that polls all the time, and every poll is recorded. What there was room for is right.
            replay(&journal.records).unwrap();
            assert!(round < 10, "more room is needed to see a whole run");
            pair = fresh();
            continue;
        }
        let seen = names(&journal.records);
        println!("{round}: {} records of {} bytes: {seen:#?}", journal.records.len(), size_of::<Record>());
        replay(&journal.records).unwrap();
        let missing: Vec<_> = WANTED.into_iter().filter(|name| !seen.contains_key(*name)).collect();
        if missing.is_empty() {
            return every_alteration_is_rejected(&journal.records);
        }
        assert!(round < 10, "the runs had no {missing:?}");
    }
}

/// Changes the first record in which `alter` finds something to change; the replay stops right there.
fn rejected(records: &[Record], what: &str, alter: impl Fn(&mut Event) -> bool) {
    let mut records = records.to_vec();
    let Some(position) = records.iter_mut().position(|record| alter(&mut record.event)) else {
        panic!("nothing to alter: {what}");
    };
    let why = replay(&records).expect_err(what);
    assert!(why.starts_with(&format!("record {position}: ")), "{what}, at {position}: {why}");
}

fn every_alteration_is_rejected(records: &[Record]) {
    rejected(records, "a completion that unmasks instead of deferring", |event| match event {
        Event::Completed { decision: Completed::Released { arm: arm @ Some(_), unmask: unmask @ false }, .. } => {
            (*arm, *unmask) = (None, true);
            true
        }
        _ => false,
    });
    rejected(records, "a deferral more", |event| match event {
        Event::Complete { defers_left: left @ 1.., .. } => {
            *left += 1;
            true
        }
        _ => false,
    });
    rejected(records, "another time-out in force", |event| match event {
        Event::BusyStop { tunables, .. } if !tunables.gro_flush_timeout.is_zero() => {
            tunables.gro_flush_timeout = Span::from_ns(tunables.gro_flush_timeout.ns + 1);
            true
        }
        _ => false,
    });
    rejected(records, "an event that was not missed", |event| match event {
        Event::Rule { rule: Rule::SchedulePrep, word, answer: false } if word.contains(State::MISSED) => {
            *word = word.without(State::MISSED);
            true
        }
        _ => false,
    });
    rejected(records, "an answer turned round", |event| match event {
        Event::Rule { rule: Rule::ThreadTurn, answer, .. } => {
            *answer = !*answer;
            true
        }
        _ => false,
    });
    rejected(records, "another rule", |event| match event {
        Event::Rule { rule: rule @ Rule::TimerAcquire, .. } => {
            *rule = Rule::BusyAcquire;
            true
        }
        _ => false,
    });
    rejected(records, "a timer for another time", |event| match event {
        Event::TimerStart { span, .. } => {
            span.ns += 1;
            true
        }
        _ => false,
    });
}

/// What is full keeps the beginning, which can be replayed, and counts the rest.
#[test]
fn a_full_journal_keeps_the_beginning() {
    let pair = Pair::on(Engine::builder().journal(50), &LinkConfig::default());
    let server = Server::start(&pair, Mode::Softirq, 0);
    round_trips(&server.client, server.addr, 100, 8);
    stop(&server.client, server.addr, server.thread);
    let journal = pair.engine.journal();
    assert_eq!(journal.records.len(), 50);
    assert!(journal.lost > 0);
    assert_eq!(replay(&journal.records), Ok(()));
    assert!(matches!(journal.records[0].event, Event::Added { .. }));
    let tested = journal.records.iter().find(|record| record.napi_id == pair.tested.napi_id(0)).unwrap();
    assert_eq!((tested.ifindex, tested.queue), (pair.tested.ifindex(), 0));
}

#[test]
fn without_being_asked_for_there_is_none() {
    let pair = Pair::new(&LinkConfig::default());
    assert_eq!(pair.engine.journal(), Journal::default());
}

/// The records of the instance under test from the first `Enable` after `mark` on.
fn since_enable(pair: &Pair, mark: usize) -> Vec<Event> {
    let id = pair.tested.napi_id(0);
    let records = pair.engine.journal().records;
    let own = records[mark..].iter().filter(|record| record.napi_id == id).map(|record| record.event);
    own.skip_while(|event| !matches!(event, Event::Rule { rule: Rule::Enable(_), .. })).collect()
}

#[test]
fn an_enable_hears_no_interrupt_of_before() {
    let pair = Pair::on(Engine::builder().journal(ROOM), &LinkConfig::default());
    let server = Server::start(&pair, Mode::Softirq, 0);
    round_trips(&server.client, server.addr, 4, 1);
    let mark = pair.engine.journal().records.len();
    pair.tested.set_down();
    pair.tested.set_up().unwrap();
    // An edge that a new watch reports comes at once.
    std::thread::sleep(Duration::from_millis(20));
    let events = since_enable(&pair, mark);
    let heard = |event: &Event| matches!(event, Event::Rule { rule: Rule::SchedulePrep, .. } | Event::Poll { .. });
    assert!(!events.is_empty() && !events.iter().any(heard), "{events:?}");
    assert!(!pair.engine.journal().records.iter().any(|record| match record.event {
        Event::Rule { word, .. } => word.is_disabled() && word.contains(State::MISSED),
        _ => false,
    }));
    stop(&server.client, server.addr, server.thread);
}

#[test]
fn a_timer_leaves_an_unmasked_interrupt_alone() {
    let pair = Pair::on(Engine::builder().journal(ROOM), &LinkConfig::default());
    let (addr, client) = (v4(TESTED_V4, 4000), UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap());
    let socket = UdpSocket::bind(&pair.tested_ns, addr).unwrap();
    client.send_to(&[0; 8], addr).unwrap();
    socket.recv(&mut [0; 8]).unwrap();
    let id = pair.tested.napi_id(0);
    let own = |from: usize| -> Vec<Event> {
        let records = pair.engine.journal().records;
        records[from..].iter().filter(|record| record.napi_id == id).map(|record| record.event).collect()
    };
    eventually("the interrupt is unmasked", || matches!(own(0).last(), Some(Event::Unmask { waiting: false })));
    let settings = NapiSet { defer_hard_irqs: Some(1), gro_flush_timeout: Some(1_000_000), ..NapiSet::default() };
    pair.set_all(&pair.tested, &settings);
    socket.setsockopt(SocketOption::BusyPoll, 50).unwrap();
    socket.setsockopt(SocketOption::PreferBusyPoll, 1).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mark = pair.engine.journal().records.len();
    socket.recv(&mut [0; 8]).unwrap_err();
    eventually("the pledge has run out", || matches!(own(mark).last(), Some(Event::Unmask { waiting: false })));
    let events = own(mark);
    assert!(events.iter().any(|event| matches!(event, Event::TimerFire { .. })), "{events:?}");
    assert!(!events.contains(&Event::Mask), "{events:?}");
}

#[test]
fn deliveries_are_counted_by_socket() {
    let pair = Pair::on(Engine::builder().journal(ROOM), &LinkConfig::default());
    let servers: Vec<_> = (0..2).map(|number| Server::start(&pair, Mode::Softirq, number)).collect();
    for (server, count) in servers.iter().zip([3, 70]) {
        round_trips(&server.client, server.addr, count, 20);
    }
    for (server, count) in servers.into_iter().zip([3, 70]) {
        stop(&server.client, server.addr, server.thread);
        let delivered = || {
            let records = pair.engine.journal().records;
            let of = |record: &Record| match record.event {
                Event::Deliver { to, packets } if to == server.addr => packets,
                _ => 0,
            };
            records.iter().map(of).sum::<u32>()
        };
        // A poll may say so after the receiver was woken. One more stopped it.
        eventually("all that was delivered is recorded", || delivered() == count + 1);
    }
}
