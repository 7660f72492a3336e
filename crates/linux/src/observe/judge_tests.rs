//! Windows, and what is said of them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::observe::parts::{Epoll, EpollParams};
use crate::observe::{How, Polls, Received, Waits};

const SUSPENDS: Needs = Needs { epolls: true, sockets: false, suspends: true, is_poll_busy: false };

fn window(packets: u64, polled: Option<u64>, polls: Option<Polls>) -> WindowCounts {
    let no_polls = polls.is_none().then(|| "not shown".to_owned());
    WindowCounts { span: Duration::from_secs(1), received: Some(Received { packets, polled }), polls, no_polls }
}

/// By softirq, and by the threads 7 (of the program), 20 (of an instance) and 30.
fn polls(softirq: u64, threads: [u64; 3], work: u64) -> Polls {
    let threads: BTreeMap<u32, u64> = [7, 20, 30].into_iter().zip(threads).filter(|(_, polls)| *polls > 0).collect();
    let read = softirq + threads.values().sum::<u64>();
    Polls { softirq, threads, work, read, instances: 1, ..Polls::default() }
}

fn program(with_id: u32) -> Program {
    Program {
        pid: 7,
        name: "srv".to_owned(),
        epolls: vec![Epoll { fd: 3, params: Some(EpollParams::default()), members: vec![10] }],
        internet: [10].into(),
        connections: [("eth0".to_owned(), Through { count: 4, with_id })].into(),
        waits: Waits { waiting: 9, found: [((How::Epoll, 3), 9)].into(), ..Waits::default() },
        ..Program::default()
    }
}

fn judged(poller: WhoPolls, needs: Needs, window: &WindowCounts, programs: &[Program]) -> Observation {
    let (napi_threads, tids) = (&[20].into(), &[7].into());
    judge(&Evidence {
        mode: "suspend20",
        device: "eth0",
        instances: 1,
        napi_threads,
        poller,
        needs,
        window,
        programs,
        tids,
    })
}

/// A thread that polls for ever: the buffer keeps a hundredth of its polls, with two or three of the packets.
#[test]
fn few_polls_of_very_many_tell_nothing_of_packets() {
    let all = polls(0, [0, 400_000, 0], 90);
    let seen = |read| window(250, None, Some(Polls { read, ..all.clone() }));
    let verdict = judged(WhoPolls::Thread, Needs::default(), &seen(4_000), &[]);
    assert_eq!((verdict.acts, verdict.taken), (Acts::Yes, None));
    // Where all were read, they pass by.
    let verdict = judged(WhoPolls::Thread, Needs::default(), &seen(400_000), &[]);
    assert_eq!((verdict.acts, verdict.taken), (Acts::No, Some(90)));
}

#[test]
fn a_program_that_polls_is_seen_to() {
    let seen = window(1000, Some(1000), Some(polls(100, [900, 0, 0], 1000)));
    let verdict = judged(WhoPolls::Program, SUSPENDS, &seen, &[program(4)]);
    assert_eq!((verdict.acts, verdict.taken), (Acts::Yes, Some(1000)));
    assert_eq!(verdict.lines, ["1000 packets came to eth0 in 1.0 s; polls: 1000, srv 90 %, softirq 10 %"]);
    // A light load: a hundred timers for each packet.
    let seen = window(100, Some(100), Some(polls(9_900, [100, 0, 0], 100)));
    assert_eq!(judged(WhoPolls::Program, SUSPENDS, &seen, &[program(4)]).acts, Acts::Yes);
    // What polls is softirq, and the mode says otherwise.
    let seen = window(1000, Some(1000), Some(polls(1000, [0, 0, 0], 1000)));
    let verdict = judged(WhoPolls::Program, SUSPENDS, &seen, &[program(4)]);
    assert_eq!(verdict.acts, Acts::No);
    assert_eq!(
        verdict.lines[1],
        "suspend20 was not seen to act on srv: it lets the program poll, which made 0 % of the polls"
    );
    assert_eq!(judged(WhoPolls::Any, Needs::default(), &seen, &[program(4)]).acts, Acts::Yes);
    assert_eq!(judged(WhoPolls::Thread, Needs::default(), &seen, &[program(4)]).acts, Acts::No);
    let by_thread = window(1000, Some(1000), Some(polls(0, [0, 500, 0], 1000)));
    assert_eq!(judged(WhoPolls::Thread, Needs::default(), &by_thread, &[]).acts, Acts::Yes);
}

#[test]
fn softirqs_are_told_by_whom_they_interrupt() {
    let interrupted = [("srv", 300), ("an idle CPU", 90), ("kworker/0:1", 10)];
    let interrupted = interrupted.map(|(name, polls)| (name.to_owned(), polls)).into();
    let softirq = Polls { ksoftirqd: 50, interrupted, ..polls(450, [540, 10, 0], 1000) };
    let verdict = judged(WhoPolls::Program, SUSPENDS, &window(1000, Some(1000), Some(softirq)), &[program(4)]);
    assert_eq!(
        verdict.lines,
        [
            "1000 packets came to eth0 in 1.0 s; polls: 1000, srv 54 %, softirq 40 % (in the time of srv 30 %, an idle CPU 9 %), \
          ksoftirqd 5 %, threads of its instances 1 %"
        ]
    );
}

#[test]
fn packets_that_pass_by_are_named() {
    for seen in [
        window(1000, Some(0), None),
        window(1000, Some(0), Some(polls(0, [0; 3], 0))),
        window(1000, None, Some(polls(0, [0; 3], 0))),
    ] {
        for poller in [WhoPolls::Program, WhoPolls::Any, WhoPolls::Thread] {
            let verdict = judged(poller, SUSPENDS, &seen, &[program(0)]);
            assert_eq!(verdict.acts, Acts::No);
            assert!(verdict.lines[0].contains("took 0 of them"), "{verdict:?}");
            // Only a veth has such a peer, and only its packets are told apart by their counters.
            let is_veth = seen.received.is_some_and(|received| received.polled.is_some());
            assert_eq!(verdict.lines[0].contains("tso off"), is_veth, "{verdict:?}");
        }
    }
}

#[test]
fn nothing_is_said_of_too_few_packets_or_of_what_is_not_shown() {
    let few = window(3, Some(0), Some(polls(0, [0; 3], 0)));
    let verdict = judged(WhoPolls::Program, SUSPENDS, &few, &[program(0)]);
    assert_eq!((verdict.acts, verdict.lines.len()), (Acts::Unknown, 0), "{verdict:?}");
    // A NIC, without root.
    let hidden = window(1000, None, None);
    let verdict = judged(WhoPolls::Program, SUSPENDS, &hidden, &[program(4)]);
    assert_eq!((verdict.acts, verdict.taken, verdict.polls), (Acts::Unknown, None, None));
    assert_eq!(verdict.lines, ["1000 packets came to eth0 in 1.0 s; not shown"]);
    // Two interfaces have the name, in two namespaces.
    let twice = window(1000, None, Some(Polls { instances: 2, ..polls(900, [0; 3], 900) }));
    let verdict = judged(WhoPolls::Program, SUSPENDS, &twice, &[program(4)]);
    assert_eq!((verdict.acts, verdict.polls.clone()), (Acts::Unknown, None));
    assert!(verdict.lines[0].contains("other namespaces"), "{verdict:?}");
    // Of which the program polls one: that is its own, as the `eth0` of each container is.
    let one =
        |softirq, tid, polls| Polls { softirq, threads: [(tid, polls)].into(), work: softirq, ..Polls::default() };
    let each = vec![one(100, 7, 900), one(5000, 30, 1)];
    let told = window(1000, None, Some(Polls { instances: 2, each, ..polls(5100, [900, 0, 1], 5100) }));
    let verdict = judged(WhoPolls::Program, SUSPENDS, &told, &[program(4)]);
    assert_eq!((verdict.acts, verdict.taken), (Acts::Yes, None), "what others took is not known: {verdict:?}");
    assert_eq!(verdict.polls, Some(Shares { program: 900, softirq: 100, ..Shares::default() }));
}

#[test]
fn connections_without_an_instance_are_named() {
    let seen = window(1000, Some(900), None);
    let verdict = judged(WhoPolls::Program, SUSPENDS, &seen, &[program(0)]);
    assert!(
        verdict.lines.iter().any(|line| line.starts_with("none of the 4 connections of srv by eth0")),
        "{verdict:?}"
    );
}

#[test]
fn what_is_not_reached_is_named_without_any_packet() {
    let quiet = window(0, Some(0), None);
    let polling = Program {
        epolls: Vec::new(),
        waits: Waits { waiting: 9, found: [((How::Poll, 10), 9)].into(), ..Waits::default() },
        ..program(0)
    };
    let verdict = judged(WhoPolls::Program, SUSPENDS, &quiet, &[polling]);
    assert_eq!(verdict.acts, Acts::Unknown);
    let [line] = &verdict.lines[..] else { panic!("{verdict:?}") };
    assert!(
        line.starts_with("srv (7) waits for a socket in poll(); under suspend20") && line.contains("threaded"),
        "{line}"
    );
}

#[test]
fn suspension_behind_another_epoll_instance_is_a_warning() {
    let outer = Epoll { fd: 4, params: Some(EpollParams::default()), members: vec![3] };
    let mut nested = program(4);
    nested.epolls.push(outer);
    let seen = window(1000, Some(1000), Some(polls(100, [900, 0, 0], 1000)));
    let verdict = judged(WhoPolls::Program, SUSPENDS, &seen, &[nested.clone()]);
    assert_eq!(verdict.acts, Acts::No, "it polls, and is slower for it");
    let line = verdict.lines.last().expect("one");
    assert!(line.starts_with("WARNING: srv (7)") && line.contains("irq-suspend-timeout"), "{line}");
    let busy = Needs { suspends: false, ..SUSPENDS };
    let harmed = |needs| verdict.harmed(needs).collect::<Vec<_>>();
    assert_eq!((harmed(SUSPENDS), harmed(busy)), (vec![(7, 3)], vec![]));
    assert!(!judged(WhoPolls::Program, busy, &seen, &[nested]).lines.iter().any(|line| line.starts_with("WARNING")));
}

#[test]
fn connections_that_come_elsewhere_are_named() {
    let of = |connections: &[(&str, u32)]| {
        let through = |(name, count): &(&str, u32)| ((*name).to_owned(), Through { count: *count, with_id: 0 });
        Program { connections: connections.iter().map(through).collect(), ..program(0) }
    };
    let said = |programs: &[Program]| elsewhere("eth0", "suspend20", programs);
    let told = said(&[of(&[("lo", 3)]), of(&[("eth1", 1)])]).expect("something");
    assert_eq!(told, "srv: its 4 connections use eth1, loopback, and none uses eth0: suspend20 does not act on them");
    assert_eq!(said(&[of(&[("lo", 3), ("eth0", 1)])]), None);
    assert_eq!((said(&[of(&[])]), said(&[])), (None, None));
}
