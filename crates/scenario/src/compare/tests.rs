use napier_core::control::Errno;
use napier_core::time::{Instant, Span};

use super::*;
use crate::{Answer, CpuIx, Kind, NapiIx, PollContext, SocketIx, ThreadIx};

/// A scenario with these keys of `[expect]`.
fn scenario(expect: &str) -> Scenario {
    let text = format!(
        "title = \"t\"\n[machine]\ncpus = 2\n[[device]]\nname = \"eth0\"\nqueues = 2\n[[thread]]\nname = \"app\"\n\
         [[socket]]\nname = \"rx\"\n[expect]\n{expect}\n"
    );
    Scenario::parse(&text, "x").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn poll(us: u64, napi: u16, work: u32) -> Seen {
    let event = Event::Poll { napi: NapiIx(napi), context: PollContext::Softirq, cpu: CpuIx(0), work, budget: 64 };
    Seen { at: Instant::from_ns(us * 1000), event }
}

fn seen(us: u64, event: Event) -> Seen {
    Seen { at: Instant::from_ns(us * 1000), event }
}

fn polls(works: &[u32]) -> Vec<Seen> {
    works.iter().zip(0..).map(|(work, us)| poll(us, 0, *work)).collect()
}

fn sim(scenario: &Scenario, seen: &[Seen]) -> Judgement {
    judge(scenario, Clock::Virtual, seen, &[])
}

fn reason(verdict: Judgement) -> String {
    match verdict {
        Judgement::Pass => "pass".to_owned(),
        Judgement::Fail(difference) => difference.reason,
    }
}

#[test]
fn every_field_counts_and_times_have_a_tolerance() {
    let one = scenario("events = [{ at = \"1ms\", poll = \"eth0/0\", in = \"softirq\", work = [1, 3], budget = 64 }]");
    assert_eq!(reason(sim(&one, &[poll(1_020, 0, 3)])), "pass");
    assert_eq!(reason(sim(&one, &[poll(980, 0, 1)])), "pass");
    assert_eq!(reason(sim(&one, &[poll(1_021, 0, 3)])), "line 12: poll comes at 1021us, expected 1ms within 20us");
    assert_eq!(reason(sim(&one, &[poll(1_000, 0, 4)])), "line 12: work is 4, expected 1..3");
    assert_eq!(
        reason(sim(&one, &[poll(1_000, 1, 3)])),
        "line 12: expected `1.000ms poll eth0/0 in=softirq work=1..3 budget=64`, \
         but saw `1.000ms poll eth0/1 in=softirq work=3 budget=64 cpu=0`"
    );
    assert_eq!(reason(sim(&one, &[])), "line 12: `1.000ms poll eth0/0 in=softirq work=1..3 budget=64` did not happen");
    assert_eq!(
        reason(sim(&scenario("events = []"), &[poll(5, 0, 0)])),
        "`0.005ms poll eth0/0 in=softirq work=0 budget=64 cpu=0` was not expected"
    );
    let within = scenario("events = [{ at = \"1ms\", within = \"1us\", poll = \"eth0/0\" }]");
    assert_eq!(reason(sim(&within, &[poll(1_002, 0, 3)])), "line 12: poll comes at 1002us, expected 1ms within 1us");
    assert_eq!(reason(judge(&within, Clock::Real, &[poll(2_900, 0, 3)], &[])), "pass");
    assert_eq!(reason(judge(&one, Clock::Real, &[poll(2_900, 0, 3)], &[])), "pass");
}

#[test]
fn unwatched_events_may_happen() {
    let one = scenario("watch = [\"poll\"]\nevents = [{ poll = \"eth0/0\" }]");
    let others = [seen(0, Event::Raise { cpu: CpuIx(0) }), poll(1, 0, 1), seen(1, Event::Mask { napi: NapiIx(0) })];
    assert_eq!(reason(sim(&one, &others)), "pass");
}

/// Expectations with repeats, works of the polls that are seen, whether they match.
const RUNS: &[(&str, &[u32], bool)] = &[
    ("{ poll = \"eth0/0\", repeat = 3 }", &[1, 1, 1], true),
    ("{ poll = \"eth0/0\", repeat = 3 }", &[1, 1], false),
    ("{ poll = \"eth0/0\", repeat = 3 }", &[1, 1, 1, 1], false),
    ("{ poll = \"eth0/0\", repeat = [0, 2] }", &[], true),
    ("{ poll = \"eth0/0\", repeat = [0, 2] }, { poll = \"eth0/0\", work = 9 }", &[9], true),
    ("{ poll = \"eth0/0\", repeat = [0, 2] }, { poll = \"eth0/0\", work = 9 }", &[1, 1, 9], true),
    ("{ poll = \"eth0/0\", repeat = [0, 2] }, { poll = \"eth0/0\", work = 9 }", &[1, 9, 9, 9], false),
    // The run must not take the last one, which what follows needs.
    ("{ poll = \"eth0/0\", repeat = [1, 5] }, { poll = \"eth0/0\" }", &[1, 1, 1], true),
    ("{ poll = \"eth0/0\", repeat = [1, 5] }, { poll = \"eth0/0\", work = 0 }", &[0, 0, 0], true),
    (
        "{ poll = \"eth0/0\", work = [0, 1], repeat = [1, 9] }, { poll = \"eth0/0\", work = [1, 2], repeat = [2, 3] }",
        &[0, 1, 1, 2],
        true,
    ),
    (
        "{ poll = \"eth0/0\", work = [0, 1], repeat = [1, 9] }, { poll = \"eth0/0\", work = [1, 2], repeat = [2, 3] }",
        &[0, 0, 1],
        false,
    ),
    (
        "{ poll = \"eth0/0\", repeat = [1, 2] }, { poll = \"eth0/0\", repeat = [1, 2] }, { poll = \"eth0/0\", work = 7 }",
        &[7, 7, 7, 7, 7],
        true,
    ),
    (
        "{ poll = \"eth0/0\", repeat = [1, 2] }, { poll = \"eth0/0\", repeat = [1, 2] }, { poll = \"eth0/0\", work = 7 }",
        &[7, 7, 7, 7, 7, 7],
        false,
    ),
    // The time is that of the first of a run.
    (
        "{ poll = \"eth0/0\", repeat = [0, 9] }, { at = \"2us\", within = 0, poll = \"eth0/0\", repeat = [2, 3] }",
        &[1, 1, 1, 1],
        true,
    ),
    (
        "{ poll = \"eth0/0\", repeat = [0, 9] }, { at = \"3us\", within = 0, poll = \"eth0/0\", repeat = [2, 3] }",
        &[1, 1, 1, 1],
        false,
    ),
];

#[test]
fn runs_leave_what_others_need() {
    for (events, works, passes) in RUNS {
        let one = scenario(&format!("events = [{events}]"));
        let verdict = sim(&one, &polls(works));
        assert_eq!(verdict == Judgement::Pass, *passes, "{events} {works:?}: {verdict:?}");
    }
}

/// The same by trying everything, on all short sequences.
#[test]
fn runs_match_as_brute_force_says() {
    fn tries(expected: &[(u32, u32, i64, i64)], works: &[u32]) -> bool {
        let Some(((low, high, min, max), rest)) = expected.split_first() else { return works.is_empty() };
        (0..=works.len()).any(|taken| {
            let (run, left) = works.split_at(taken);
            let count = i64::try_from(taken).expect("short");
            (*min..=*max).contains(&count) && run.iter().all(|work| (low..=high).contains(&work)) && tries(rest, left)
        })
    }
    let choices = [(0, 0, 1, 1), (0, 1, 0, 2), (1, 1, 1, 3), (0, 1, 2, 2)];
    for (a, b, c) in (0..64).map(|n| (n % 4, n / 4 % 4, n / 16)) {
        let expected = [choices[a], choices[b], choices[c]];
        let event = |(low, high, min, max): &(u32, u32, i64, i64)| {
            format!("{{ poll = \"eth0/0\", work = [{low}, {high}], repeat = [{min}, {max}] }}")
        };
        let one = scenario(&format!("events = [{}]", expected.iter().map(event).collect::<Vec<_>>().join(", ")));
        for length in 0..7 {
            for bits in 0..1u32 << length {
                let works: Vec<u32> = (0..length).map(|at| bits >> at & 1).collect();
                let passes = sim(&one, &polls(&works)) == Judgement::Pass;
                assert_eq!(passes, tries(&expected, &works), "{expected:?} {works:?}");
            }
        }
    }
}

#[test]
fn real_time_compares_lanes() {
    let two = scenario(
        "events = [{ poll = \"eth0/0\" }, { poll = \"eth0/1\" }, { deliver = \"rx\" }, { mask = \"eth0/0\" }]",
    );
    let deliver = seen(0, Event::Deliver { socket: SocketIx(0), packets: 1 });
    let mask = seen(0, Event::Mask { napi: NapiIx(0) });
    let other = [deliver.clone(), poll(0, 1, 1), poll(0, 0, 1), mask.clone()];
    assert_eq!(reason(judge(&two, Clock::Real, &other, &[])), "pass");
    assert_ne!(reason(sim(&two, &other)), "pass");
    let wrong = [deliver, poll(0, 1, 1), mask, poll(0, 0, 1)];
    let Judgement::Fail(difference) = judge(&two, Clock::Real, &wrong, &[]) else {
        panic!("the order in a lane counts")
    };
    assert!(difference.render(120).contains("-- napi eth0/0 --"), "{}", difference.render(120));
}

#[test]
fn the_engine_can_watch_less() {
    let mut two = scenario("events = [{ poll = \"eth0/0\" }, { deliver = \"rx\" }]");
    let deliver = [seen(0, Event::Deliver { socket: SocketIx(0), packets: 1 })];
    assert_ne!(reason(judge(&two, Clock::Real, &deliver, &[])), "pass");
    two.engine.watch = Some(vec![Kind::Deliver]);
    assert_eq!(reason(judge(&two, Clock::Real, &deliver, &[])), "pass");
}

/// A kernel shows no masks and no time if it is told so, and what it does not show is counted.
#[test]
fn a_kernel_is_judged_by_what_it_shows() {
    let mut two = scenario("events = [{ at = \"1ms\", poll = \"eth0/0\" }, { mask = \"eth0/0\" }]");
    let late = [poll(5_000_000, 0, 1)];
    let (with, without) = (Clock::Kernel { times: true }, Clock::Kernel { times: false });
    assert_eq!(two.not_looked_at_on_kernels().events, 1);
    assert_ne!(reason(judge(&two, with, &late, &[])), "pass");
    assert_eq!(reason(judge(&two, without, &late, &[])), "pass");
    assert_ne!(reason(judge(&two, without, &[], &[])), "pass", "counts are compared");
    two.kernel.tolerance = None;
    assert_eq!(reason(judge(&two, with, &late, &[])), "pass");
}

/// What is expected of a return, the answer, whether it fits.
#[test]
fn answers() {
    let text = |text: &str| Answer::Text(text.to_owned());
    let names = |names: &[&str]| Answer::Names(names.iter().map(|name| (*name).to_owned()).collect());
    let attributes =
        || Answer::Attributes(vec![("threaded".to_owned(), "enabled".to_owned()), ("pid".to_owned(), "77".to_owned())]);
    for (value, answer, passes) in [
        ("0", Answer::Number(0), true),
        ("0", Answer::Error(Errno::EAGAIN), false),
        ("[0, 2]", Answer::Number(2), true),
        ("\"EAGAIN\"", Answer::Error(Errno::EAGAIN), true),
        ("\"EPERM\"", Answer::Error(Errno::EAGAIN), false),
        ("\"1\"", text("1\n"), true),
        ("\"1\"", Answer::Number(1), false),
        ("[\"eth0/1\", \"eth0/0\"]", names(&["eth0/1", "eth0/0"]), true),
        ("[\"eth0/1\"]", names(&["eth0/1", "eth0/0"]), false),
        ("{ threaded = \"enabled\" }", attributes(), true),
        ("{ threaded = \"enabled\", pid = \"some\", irq = \"none\" }", attributes(), true),
        ("{ pid = 77 }", attributes(), true),
        ("{ pid = \"none\" }", attributes(), false),
        ("{ irq = \"some\" }", attributes(), false),
    ] {
        let one = scenario(&format!("watch = [\"return\"]\nevents = [{{ return = \"app\", value = {value} }}]"));
        let event = Event::Return { thread: ThreadIx(0), call: "recv", answer: answer.clone(), ready: Vec::new() };
        let verdict = sim(&one, &[seen(0, event)]);
        assert_eq!(verdict == Judgement::Pass, passes, "{value} {answer:?}");
    }
    let one = scenario("watch = [\"return\"]\nevents = [{ return = \"app\", ready = [] }]");
    let event = |ready| Event::Return { thread: ThreadIx(0), call: "poll", answer: Answer::Number(0), ready };
    assert_eq!(reason(sim(&one, &[seen(0, event(vec![]))])), "pass");
    assert_eq!(reason(sim(&one, &[seen(0, event(vec![SocketIx(0)]))])), "line 13: ready is [rx], expected []");
}

#[test]
fn counters_and_checks() {
    let one = scenario("[expect.counters]\n\"eth0/0.polls\" = [2, 3]\n\"rx.delivered\" = 1");
    let counters = |polls| [("eth0/0.polls".to_owned(), polls), ("rx.delivered".to_owned(), 1)];
    assert_eq!(reason(judge(&one, Clock::Virtual, &[], &counters(3))), "pass");
    assert_eq!(reason(judge(&one, Clock::Virtual, &[], &counters(4))), "the counter eth0/0.polls is 4, expected 2..3");
    assert_eq!(
        reason(judge(&one, Clock::Virtual, &[], &counters(3)[..1])),
        "the counter rx.delivered is unknown, expected 1"
    );
    let check = Event::CheckFailed { line: 14, expected: "masked=true".to_owned(), seen: "masked=false".to_owned() };
    assert_eq!(
        reason(judge(&one, Clock::Virtual, &[seen(5, check)], &counters(3))),
        "line 14: the check expected masked=true and found masked=false"
    );
}

#[test]
fn the_columns() {
    let mut events: Vec<String> =
        (0..12).map(|n| format!("{{ at = \"{n}us\", poll = \"eth0/0\", work = {n} }}")).collect();
    events.push("{ timer-start = \"eth0/0\", after = \"2ms\" }".to_owned());
    events.push("{ at = \"2ms\", poll = \"eth0/0\", in = \"softirq\", work = 0 }".to_owned());
    events.push("{ unmask = \"eth0/0\" }".to_owned());
    let one = scenario(&format!("events = [\n{}\n]", events.join(",\n")));
    let mut run = polls(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    run.push(poll(2_000, 0, 1));
    run.push(seen(2_000, Event::Deliver { socket: SocketIx(0), packets: 1 }));
    run.push(seen(2_010, Event::Unmask { napi: NapiIx(0) }));
    let Judgement::Fail(difference) = sim(&one, &run) else { panic!("it differs") };
    let text = difference.render(120);
    assert_eq!(
        text,
        "\
line 25: `timer-start eth0/0 after=2ms` did not happen
          EXPECTED                                                     SEEN
          ... 9 lines equal ...
  0.009ms poll eth0/0 work=9                                   0.009ms poll eth0/0 in=softirq work=9 budget=64 cpu=0
  0.010ms poll eth0/0 work=10                                  0.010ms poll eth0/0 in=softirq work=10 budget=64 cpu=0
  0.011ms poll eth0/0 work=11                                  0.011ms poll eth0/0 in=softirq work=11 budget=64 cpu=0
          timer-start eth0/0 after=2ms                     <
  2.000ms poll eth0/0 in=softirq work=0                    |   2.000ms poll eth0/0 in=softirq work=1 budget=64 cpu=0
                                                           >   2.000ms deliver rx packets=1
          unmask eth0/0                                        2.010ms unmask eth0/0
"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 120));
    assert_eq!(difference.expected[13], "2.000ms poll eth0/0 in=softirq work=0");
    assert_eq!(difference.seen[14], "2.010ms unmask eth0/0");
}

#[test]
fn long_lines_are_wrapped_and_long_runs_shortened() {
    let one = scenario("watch = [\"poll\", \"return\"]\nevents = []");
    let mut run: Vec<Seen> = (0..5_000).map(|us| poll(us, 0, 0)).collect();
    let attributes = (0..20).map(|n| (format!("attribute-{n}"), "x".repeat(n * 5))).collect();
    let event = Event::Return {
        thread: ThreadIx(0),
        call: "napi-get",
        answer: Answer::Attributes(attributes),
        ready: Vec::new(),
    };
    run.insert(3, seen(3, event));
    let Judgement::Fail(difference) = sim(&one, &run) else { panic!("it differs") };
    let text = difference.render(120);
    assert!(text.lines().skip(1).all(|line| line.chars().count() <= 120), "{text}");
    assert!(text.lines().count() < 80, "{text}");
    assert!(text.contains("more events were seen; not aligned"));
    let text = difference.render(10);
    assert!(text.lines().count() < 2_000);
}

#[test]
fn everything_expected_is_aligned_in_time() {
    let events: Vec<_> = (0..3000).map(|_| "{ poll = \"eth0/0\", work = [0, 1], repeat = [0, 1000] }").collect();
    let one = scenario(&format!("events = [{}]", events.join(",")));
    let mut works = vec![1; 4000];
    works.push(2);
    assert_ne!(reason(sim(&one, &polls(&works))), "pass");
    works.pop();
    assert_eq!(reason(sim(&one, &polls(&works))), "pass");
}

#[test]
fn lines_of_all_kinds() {
    let one = scenario("");
    let start = Event::TimerStart { napi: NapiIx(1), after: Span::from_us(1500), cpu: CpuIx(1) };
    let end = Event::RunEnd { cpu: CpuIx(0), left: vec![NapiIx(0), NapiIx(1)] };
    assert_eq!(
        lines(&one, &[seen(1, start), seen(2, end)]),
        ["0.001ms timer-start eth0/1 after=1500us cpu=1", "0.002ms run-end 0 left=[eth0/0, eth0/1]"]
    );
}
