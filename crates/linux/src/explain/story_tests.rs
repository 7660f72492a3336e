//! Events put together to requests: made by hand for each rule, and recorded from a kernel for each kind of program and mode.

use super::*;

const PROGRAM: u32 = 70;
const CLIENT: u32 = 80;
const NAPI: u32 = 20;
const KSOFTIRQD: u32 = 15;
const SOCKET: u64 = 0xffff_8880_0000_1000;

fn story() -> Story {
    let mut story = Story::default();
    story.know(KnownThreads { program: [PROGRAM, 71].into(), napi: [NAPI].into(), ksoftirqd: [KSOFTIRQD].into() });
    story
}

/// On CPU 1 in a softirq, as most of these happen.
fn at(at_ns: u64, tid: u32, what: Happened) -> PathEvent {
    let in_softirq =
        matches!(what, Happened::Taken | Happened::Received | Happened::Ready { .. } | Happened::Waking { .. });
    PathEvent { at_ns, cpu: 1, tid, in_softirq, in_irq: false, what }
}

fn in_irq(event: PathEvent) -> PathEvent {
    PathEvent { in_irq: true, in_softirq: false, ..event }
}

fn switch(at_ns: u64, from: u32, name: &str, to: u32) -> PathEvent {
    at(at_ns, from, Happened::Switch { from, name: name.to_owned(), to })
}

const READY: Happened = Happened::Ready { socket: SOCKET };
const READ: Happened = Happened::Read { socket: SOCKET, bytes: 8 };
const SENT: Happened = Happened::Sent { socket: SOCKET };
const WAKING: Happened = Happened::Waking { woken: PROGRAM };

/// The requests of some events.
fn told(story: &mut Story, events: &[PathEvent]) -> Vec<Request> {
    events.iter().filter_map(|event| story.add(event)).collect()
}

fn stages(request: &Request) -> Vec<(Stage, u64)> {
    Stage::ALL.into_iter().filter_map(|stage| Some((stage, request.stage_ns(stage)?))).collect()
}

/// A packet that an interrupt brought, for a program that sleeps.
fn woken() -> Vec<PathEvent> {
    vec![
        in_irq(at(1000, 0, Happened::Interrupt)),
        in_irq(at(1200, 0, Happened::Raised)),
        at(1500, 0, Happened::Softirq),
        at(2000, 0, Happened::Taken),
        at(2100, 0, Happened::Received),
        at(3500, 0, READY),
        at(3900, 0, WAKING),
        at(4000, 0, Happened::Polled),
        switch(9000, 0, "swapper/1", PROGRAM),
        at(12_000, PROGRAM, READ),
        at(32_000, PROGRAM, Happened::Queued),
        at(34_000, PROGRAM, SENT),
    ]
}

#[test]
fn each_stage_begins_where_the_one_before_ends() {
    let mut story = story();
    let [request] = &told(&mut story, &woken())[..] else { panic!() };
    let expected = [
        (Stage::Poll, 1000),
        (Stage::Socket, 1500),
        (Stage::Wake, 400),
        (Stage::Run, 5100),
        (Stage::Read, 3000),
        (Stage::Answer, 20_000),
    ];
    assert_eq!(stages(request), expected);
    assert_eq!(request.total_ns(), 31_000, "from the interrupt until the packet was queued");
    assert_eq!((request.cause, request.polled_by), (Cause::Interrupt, PolledBy::Softirq));
    assert_eq!((request.before.map(|before| before.name()), request.off_cpu_ns), (Some(None), 0));
    assert_eq!(story.left(), (0, 0));
}

#[test]
fn what_asked_for_a_poll_is_told() {
    let of = |events: &[PathEvent]| {
        let mut all = events.to_vec();
        all.extend(woken().into_iter().skip(2));
        let found = told(&mut story(), &all);
        (found[0].cause, found[0].stage_ns(Stage::Poll))
    };
    assert_eq!(
        of(&[in_irq(at(900, 0, Happened::Timer)), in_irq(at(950, 0, Happened::Raised))]),
        (Cause::Timer, Some(1100))
    );
    assert_eq!(of(&[at(1300, CLIENT, Happened::Raised)]), (Cause::Raised, Some(700)), "the sender's own call");
    let long_ago = [in_irq(at(100, 0, Happened::Interrupt)), in_irq(at(200_100, 0, Happened::Raised))];
    let mut late = woken();
    late.iter_mut().for_each(|event| event.at_ns += 300_000);
    let found = told(&mut story(), &[&long_ago[..], &late[2..]].concat());
    assert_eq!(found[0].cause, Cause::Raised, "an interrupt is over by then");
    assert_eq!(of(&[]), (Cause::Unseen, Some(0)), "it was being polled");
    // Something asked before: that is what the softirq runs for.
    let first = at(1100, CLIENT, Happened::Raised);
    assert_eq!(of(&[first, at(1400, CLIENT, Happened::Raised)]), (Cause::Raised, Some(900)));
}

#[test]
fn a_thread_of_an_instance_polls_from_its_wake_up_on() {
    let mut events = vec![
        in_irq(at(1000, 0, Happened::Interrupt)),
        PathEvent { cpu: 1, ..in_irq(at(1100, 0, Happened::Waking { woken: NAPI })) },
    ];
    let on_2 = |event: PathEvent| PathEvent { cpu: 2, in_softirq: false, tid: NAPI, ..event };
    let poll = [at(5000, NAPI, Happened::Taken), at(6000, NAPI, READY), at(6100, NAPI, WAKING)];
    events.extend(poll.into_iter().map(on_2));
    events.extend(woken().into_iter().skip(8));
    let [request] = &told(&mut story(), &events)[..] else { panic!() };
    assert_eq!((request.cause, request.polled_by), (Cause::Interrupt, PolledBy::NapiThread));
    assert_eq!((request.stage_ns(Stage::Poll), request.stage_ns(Stage::Socket)), (Some(4000), Some(1000)));
}

#[test]
fn a_program_that_polls_is_awake() {
    let own = |event: PathEvent| PathEvent { in_softirq: false, ..event };
    let events = [
        own(at(1000, PROGRAM, Happened::Taken)),
        own(at(1100, PROGRAM, Happened::Polled)),
        own(at(2000, PROGRAM, Happened::Taken)),
        // What it has kept goes to the protocols after its end.
        own(at(2200, PROGRAM, Happened::Polled)),
        own(at(2300, PROGRAM, Happened::Received)),
        own(at(2600, PROGRAM, READY)),
        at(4000, PROGRAM, READ),
        at(9000, PROGRAM, SENT),
    ];
    let [request] = &told(&mut story(), &events)[..] else { panic!() };
    let expected = [(Stage::Poll, 0), (Stage::Socket, 600), (Stage::Awake, 1400), (Stage::Answer, 5000)];
    assert_eq!(
        stages(request),
        expected,
        "without a packet that is queued the answer is there with the end of the call"
    );
    assert_eq!((request.cause, request.polled_by), (Cause::Program, PolledBy::Program));
}

#[test]
fn softirqs_that_were_left_to_a_thread_are_told() {
    let mut events = woken();
    events.iter_mut().filter(|event| event.in_softirq).for_each(|event| event.tid = KSOFTIRQD);
    assert_eq!(told(&mut story(), &events)[0].polled_by, PolledBy::Ksoftirqd);
}

#[test]
fn connections_are_told_apart_by_their_sockets() {
    let other = SOCKET + 64;
    let events = [
        at(1000, CLIENT, Happened::Raised),
        at(1100, CLIENT, Happened::Softirq),
        at(2000, CLIENT, Happened::Received),
        at(3000, CLIENT, READY),
        at(3100, CLIENT, WAKING),
        // The same poll: the thread is woken already.
        at(3500, CLIENT, Happened::Ready { socket: other }),
        at(4000, CLIENT, Happened::Polled),
        switch(5000, 99, "kworker/1:0", PROGRAM),
        at(6000, PROGRAM, READ),
        at(7000, PROGRAM, Happened::Read { socket: other, bytes: 3 }),
        // Another program's socket and thread.
        at(7100, CLIENT, Happened::Read { socket: 5, bytes: 3 }),
        at(8000, PROGRAM, Happened::Queued),
        at(8500, PROGRAM, SENT),
        at(9000, PROGRAM, Happened::Queued),
        at(9500, 71, Happened::Sent { socket: other }),
    ];
    let mut story = story();
    let [first, second] = &told(&mut story, &events)[..] else { panic!() };
    assert_eq!(
        (first.total_ns(), first.before.and_then(|before| before.name())),
        (7000, Some("kworker/1:0".to_owned()))
    );
    let expected = [(Stage::Poll, 1000), (Stage::Socket, 1500), (Stage::Awake, 3500), (Stage::Answer, 2500)];
    assert_eq!(stages(second), expected, "another thread answers, whose packet is not seen");
    assert_eq!(story.left(), (0, 0));
}

#[test]
fn time_off_the_cpu_is_a_part_of_the_answer() {
    let mut events = woken();
    events.splice(10..10, [switch(13_000, PROGRAM, "srv", 99), switch(28_000, 99, "other", PROGRAM)]);
    assert_eq!(told(&mut story(), &events)[0].off_cpu_ns, 15_000);
}

#[test]
fn a_request_of_several_reads_is_one() {
    let mut events = woken();
    events.splice(10..10, [at(13_000, 0, READY), at(14_000, PROGRAM, READ)]);
    let mut story = story();
    let found = told(&mut story, &events);
    assert_eq!((found.len(), found[0].total_ns()), (1, 31_000));
    // What was read in between belongs to it; the next one begins anew.
    let mut next = woken();
    next.iter_mut().for_each(|event| event.at_ns += 100_000);
    assert_eq!(told(&mut story, &next)[0].total_ns(), 31_000);
}

#[test]
fn what_cannot_be_matched_is_counted() {
    let mut story = story();
    // Data from a socket's backlog, data that was there before, an end of a connection, an answer without a question.
    told(&mut story, &woken()[..5]);
    let alone =
        [PathEvent { in_softirq: false, ..at(10, PROGRAM, READY) }, at(20, PROGRAM, READ), at(30, PROGRAM, SENT)];
    assert_eq!(told(&mut story, &alone), []);
    assert_eq!(told(&mut story, &[at(40, PROGRAM, Happened::Read { socket: 9, bytes: 0 })]), []);
    assert_eq!(story.left(), (1, 0));
    // Read, and no answer.
    assert_eq!(told(&mut story, &woken()[..10]), []);
    story.end();
    assert_eq!(story.left(), (1, 1));
}

#[test]
fn a_connection_that_is_over_leaves_nothing_to_its_successor() {
    for over in [Happened::Closed { socket: SOCKET }, Happened::Read { socket: SOCKET, bytes: 0 }] {
        let mut story = story();
        told(&mut story, &woken()[..8]);
        told(&mut story, &[at(8000, PROGRAM, over)]);
        let mut next = woken();
        next.iter_mut().for_each(|event| event.at_ns += 100_000);
        assert_eq!(told(&mut story, &next)[0].total_ns(), 31_000);
    }
}

#[test]
fn after_a_loss_nothing_is_made_of_halves() {
    let mut story = story();
    let events = woken();
    told(&mut story, &events[..10]);
    story.lost();
    assert_eq!(told(&mut story, &events[10..]), []);
    assert_eq!(story.left(), (1, 0));
    let mut next = woken();
    next.iter_mut().for_each(|event| event.at_ns += 100_000);
    assert_eq!(told(&mut story, &next).len(), 1);
}
