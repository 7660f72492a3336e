use std::path::Path;

use napier_scenario::Action;
use napier_scenario::compare::{Judgement, judge};

use super::*;

/// Scenarios in which nothing depends on whether a thread gets its processor in time, one of each kind.
const FILES: &[&str] = &[
    "A-scheduling/01-one-packet",
    "B-deferral/14b-two-deferrals",
    "B-deferral/15-no-timeout",
    "B-deferral/17-held-packet",
    "C-socket-busy-poll/24-non-blocking",
    "C-socket-busy-poll/28a-pledge-on-an-idle-instance",
    "D-socket-options/39a-busy-poll",
    "E-epoll/43a-order-of-checks",
    "G-threaded/62-enabled",
    "H-control/72-all-or-nothing",
    "H-control/74a-dump",
    "J-merging/204-burst",
    "K-transmit/247-noqueue-down",
    "K-transmit/261-counted-at-the-discipline",
];

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, "test").unwrap_or_else(|error| panic!("{error}"))
}

/// Without times: a machine that is busy with other things makes everything late, but changes neither values nor order.
#[test]
fn scenarios_pass_whatever_the_time() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    for file in FILES {
        let text = std::fs::read_to_string(folder.join(format!("{file}.toml"))).expect("the scenario is there");
        let mut scenario = parse(&text);
        // A check looks at a time.
        scenario.timeline.retain(|step| !matches!(step.action, Action::Check(_)));
        scenario.expect.settle = Span::from_secs(10);
        scenario.expect.tolerance.engine = Span::from_secs(60);
        for expected in &mut scenario.expect.events {
            expected.at = None;
        }
        // A thread that had no processor for so long has not made its calls yet, or in another order. What is wrong is wrong each time.
        let mut found = Ok(());
        for after_last in [Span::from_ms(300), Span::from_secs(5), Span::from_secs(5)] {
            found = run_for(&scenario, file, after_last);
            match &found {
                Ok(()) => break,
                Err(late) => eprintln!("{file}, once more with more time: {late}"),
            }
        }
        found.unwrap_or_else(|difference| panic!("{file}: {difference}"));
    }
}

fn run_for(scenario: &Scenario, file: &str, after_last: Span) -> Result<(), String> {
    let observed = RealEngine { after_last }.run(scenario).unwrap_or_else(|refused| panic!("{file}: {refused}"));
    assert_eq!(observed.broken, None, "{file}");
    match judge(scenario, Clock::Real, &observed.events, &observed.counters) {
        Judgement::Pass => Ok(()),
        Judgement::Fail(difference) => Err(difference.render(120)),
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_the_reason() {
    let device = |more: &str| format!("[[device]]\nname = \"eth0\"\n{more}\n");
    let step = |step: &str| format!("[timeline]\nsteps = [{{ at = \"0ms\", {step} }}]\n");
    let watch = |kind: &str| format!("[expect]\nwatch = [\"{kind}\"]\nevents = []\n");
    for (part, why) in [
        (
            format!("[machine]\nhz = 250\n{}", device("gro = true")),
            "packets are held for jiffies, and those of the engine are 1 ms",
        ),
        (
            format!("[machine]\nhz = 1000\n{}{}", device("gro = true"), step("packets = 1, to = \"eth0/0\", hash = 3")),
            "the engine makes the hash of a flow itself",
        ),
        (device("weight = 8"), "the engine polls with a weight of 64"),
        (device("persistent = false"), "the engine's devices keep their settings and ids over down and up"),
        (device("ring = 100"), "a ring of the engine has 64 to 4096 slots, a power of two"),
        ("[[socket]]\nname = \"rx\"\nkind = \"tcp\"\n".to_owned(), "it needs a TCP socket"),
        (step("schedule = \"eth0/0\", cpu = 0"), "it injects a schedule"),
        (step("arm = \"eth0/0\", after = \"1ms\", cpu = 0"), "it arms a timer from outside"),
        (step("call = \"busy-loop\", napi = \"eth0/0\", budget = 8"), "it makes a busy loop by itself"),
        (watch("raise"), "the engine keeps no record of raise"),
        (watch("drop"), "the engine keeps no record of drop"),
        (watch("tx-run"), "the engine keeps no record of tx-run"),
    ] {
        let expect = if part.contains("[expect]") { "" } else { "[expect]\nevents = []\n" };
        let scenario = parse(&format!("title = \"t\"\nrules = [\"1\"]\n{part}{expect}"));
        assert_eq!(RealEngine::default().run(&scenario), Err(refused(why)), "{part}");
    }
    let asks = "title = \"t\"\nrules = [\"1\"]\n[expect]\nevents = []\n[expect.counters]\n\"drops.disabled\" = 0\n";
    let refusal = RealEngine::default().run(&parse(asks)).expect_err("there is no such counter");
    assert_eq!(refusal.why, "the engine has no counter drops.disabled");
}

/// The difference that a run shows, if it does not pass: of the first run whose difference `is_wanted`, or of the slowest.
/// A thread that had no processor in between makes its calls late, in another order.
fn difference(scenario: &Scenario, after_last: Span, is_wanted: impl Fn(&str) -> bool) -> Option<String> {
    let mut found = None;
    for times in [1, 4, 16] {
        let slow = scenario.stretched(times);
        let after_last = Span::from_ns(after_last.ns * u64::from(times));
        let observed = RealEngine { after_last }.run(&slow).expect("it can be run");
        let Judgement::Fail(seen) = judge(&slow, Clock::Real, &observed.events, &observed.counters) else {
            return None;
        };
        let text = seen.render(120);
        let is_over = is_wanted(&text);
        found = Some(text);
        if is_over {
            break;
        }
    }
    found
}

/// A device that sends, with `device` in its table, and these steps.
fn sending(device: &str, steps: &str, expect: &str) -> Scenario {
    parse(&format!(
        "title = \"t\"\nrules = [\"1\"]\n[[device]]\nname = \"eth0\"\n{device}\n[[thread]]\nname = \"a\"\n[[thread]]\n\
         name = \"b\"\n[timeline]\nsteps = [\n{steps}\n]\n[expect]\n{expect}\n"
    ))
}

#[test]
fn what_the_transmit_side_does_not_have_or_show_is_refused_with_the_reason() {
    let send = "{ at = \"1ms\", by = \"a\", call = \"send\", to = \"eth0/tx-0\" },";
    let both = &format!("{send}\n{}", send.replace("\"a\"", "\"b\""));
    let down = &format!("{{ at = \"0ms\", call = \"down\", device = \"eth0\" }},\n{send}");
    let step = |step: &str| format!("{{ at = \"1ms\", {step} }},");
    let (stop, freeze) = (&step("tx-stop = \"eth0/tx-0\""), &step("tx-freeze = \"eth0/tx-0\""));
    let (ring, running) =
        (&step("check = \"eth0/tx-0\", in-ring = 0"), &step("check = \"eth0/tx-0\", running = false"));
    let (bit, away) =
        (&step("check = \"eth0/tx-0\", set = [\"SCHED\"]"), &step("call = \"deactivate\", device = \"eth0\""));
    let (pfifo, nothing) = ("qdisc = \"pfifo\"", "events = []");
    let expects = |event: &str, kind: &str| format!("watch = [\"{kind}\"]\nevents = [{{ {event} }}]");
    let more = &expects("transmit = \"eth0/tx-0\", more = false", "transmit");
    let congested = &expects("xmit = \"a\", code = 2", "xmit");
    for (device, steps, expect, why) in [
        ("qdisc = \"pfifo_fast\"", send, nothing, "the engine has no discipline without root lock"),
        (
            "qdisc = \"pfifo\"\nbql = true",
            send,
            nothing,
            "byte limits follow the speed of the wire, which in the engine is that of the peer",
        ),
        (
            "qdisc = \"pfifo\"\ntx-time = \"1ms\"",
            send,
            nothing,
            "the wire has a speed, and in the engine that is the peer's",
        ),
        ("qdisc = \"pfifo\"\ntx-ring = 2", send, nothing, "both directions of a link have rings of one size"),
        (
            "qdisc = \"pfifo\"\ntx-queues = 2",
            send,
            nothing,
            "the engine's sockets choose the transmit queue of a packet, not the program",
        ),
        (pfifo, both, nothing, "several threads send, and whose drop it was is not seen"),
        (pfifo, down, nothing, "the engine reports that a device is down where its discipline was taken away"),
        (pfifo, stop, nothing, "it stops a transmit queue, which the engine does only when the ring is full"),
        (pfifo, freeze, nothing, "the engine never freezes a transmit queue"),
        (pfifo, away, nothing, "the engine takes a discipline away only with the device"),
        (pfifo, ring, nothing, "what is in a ring follows the speed of the wire"),
        (pfifo, running, nothing, "the engine does not show who runs a discipline, nor what waits to be sent again"),
        (pfifo, bit, nothing, "the engine does not show the state word of a discipline"),
        (pfifo, send, more, "the engine does not show whether its driver was told that more follow"),
        (pfifo, send, congested, "the engine's sockets do not tell congestion from success"),
    ] {
        let scenario = sending(device, steps, expect);
        assert_eq!(RealEngine::default().run(&scenario), Err(refused(why)), "{device} {steps} {expect}");
    }
}

#[test]
fn what_a_sender_wrongly_expects_is_seen() {
    // The third packet exceeds the limit, the others wait long.
    let steps = "{ at = \"1ms\", by = \"a\", call = \"send\", to = \"eth0/tx-0\", packets = 3, txtime = \"1000s\" },\n\
                 { at = \"200ms\", by = \"a\", call = \"send\", to = \"eth0/tx-0\", flow = 7 },\n\
                 { at = \"400ms\", check = \"eth0/tx-0\", qlen = QLEN },";
    let expect = "watch = [\"xmit\", \"tx-drop\", \"transmit\"]\nevents = [\n\
                  { xmit = \"a\", code = 0, repeat = 2 },\n{ tx-drop = \"eth0/tx-0\", why = \"WHY\" },\n\
                  { xmit = \"a\", code = CODE },\n{ transmit = \"eth0/tx-0\", flow = FLOW },\n\
                  { xmit = \"a\", code = 0 },\n]\n[expect.counters]\n\"eth0/tx-0.dropped\" = DROPPED\n";
    let device = "qdisc = \"fq\"\nqdisc-options = { flow_limit = 2, horizon = \"3600s\" }";
    let run = |wrong: Option<(&str, &str)>, shown: &str| {
        let right = [("QLEN", "2"), ("WHY", "qdisc_flow_limit"), ("CODE", "1"), ("FLOW", "7"), ("DROPPED", "1")];
        let (mut steps, mut expect) = (steps.to_owned(), expect.to_owned());
        for (name, value) in wrong.into_iter().chain(right) {
            (steps, expect) = (steps.replace(name, value), expect.replace(name, value));
        }
        let mut scenario = sending(device, &steps, &expect);
        scenario.expect.settle = Span::from_secs(1);
        scenario.expect.tolerance.engine = Span::from_secs(60);
        difference(&scenario, Span::from_ms(300), |text| wrong.is_some() && text.contains(shown))
    };
    assert_eq!(run(None, ""), None);
    for (wrong, shown) in [
        (("QLEN", "3"), "expected qlen = 3 and found qlen = 2"),
        (("WHY", "qdisc_overlimit"), "qdisc_overlimit"),
        (("CODE", "0"), "code"),
        (("FLOW", "8"), "flow=7"),
        (("DROPPED", "0"), "eth0/tx-0.dropped"),
    ] {
        let text = run(Some(wrong), shown).unwrap_or_else(|| panic!("{wrong:?} must not pass"));
        assert!(text.contains(shown), "{text}");
    }
}

#[test]
fn a_wrong_expectation_and_a_wrong_check_are_seen() {
    let text = "title = \"t\"\nrules = [\"1\"]\n[[socket]]\nname = \"rx\"\n[timeline]\nsteps = [\n\
                { at = \"0ms\", packets = 1, to = \"rx\" },\n\
                { at = \"200ms\", check = \"rx\", queued = 2 },\n]\n\
                [expect]\nwatch = [\"poll\"]\nevents = [{ poll = \"eth0/0\", work = 2 }]\n";
    let mut scenario = parse(text);
    scenario.expect.tolerance.engine = Span::from_secs(60);
    let wanted = ["expected queued = 2 and found queued = 1", "work=2", "work=1"];
    let has_all = |text: &str| wanted.iter().all(|word| text.contains(word));
    let shown = difference(&scenario, AFTER_LAST, has_all).expect("it must not pass");
    assert!(has_all(&shown), "{shown}");
}
