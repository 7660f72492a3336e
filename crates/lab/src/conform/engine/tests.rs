use std::path::Path;

use napier_sim::scenario::Action;
use napier_sim::scenario::compare::{Verdict, judge};

use super::*;

/// Scenarios in which nothing depends on whether a thread gets its processor in time, one of each kind.
const FILES: &[&str] = &[
    "A-scheduling/01-one-packet",
    "B-deferral/14b-two-deferrals",
    "B-deferral/15-no-timeout",
    "C-socket-busy-poll/24-non-blocking",
    "C-socket-busy-poll/28a-pledge-on-an-idle-instance",
    "D-socket-options/39a-busy-poll",
    "E-epoll/43a-order-of-checks",
    "G-threaded/62-enabled",
    "H-control/72-all-or-nothing",
    "H-control/74a-dump",
];

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, "test").unwrap_or_else(|error| panic!("{error}"))
}

/// Without times: a machine that is busy with other things makes everything late, but changes neither values nor order.
#[test]
fn scenarios_pass_whatever_the_time() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let mut engine = RealEngine { after_last: Span::from_ms(300) };
    for file in FILES {
        let text = std::fs::read_to_string(folder.join(format!("{file}.toml"))).expect("the scenario is there");
        let mut scenario = parse(&text);
        // A check looks at a time.
        scenario.timeline.retain(|step| !matches!(step.action, Action::Check(_)));
        scenario.expect.settle = Span::from_secs(1);
        scenario.expect.tolerance.engine = Span::from_secs(60);
        let observed = engine.run(&scenario).unwrap_or_else(|refused| panic!("{file}: {refused}"));
        assert_eq!(observed.broken, None, "{file}");
        for expected in &mut scenario.expect.events {
            expected.at = None;
        }
        match judge(&scenario, Clock::Real, &observed.events, &observed.counters) {
            Verdict::Pass => {}
            Verdict::Fail(difference) => panic!("{file}: {}", difference.render(120)),
        }
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_the_reason() {
    let device = |more: &str| format!("[[device]]\nname = \"eth0\"\n{more}\n");
    let step = |step: &str| format!("[timeline]\nsteps = [{{ at = \"0ms\", {step} }}]\n");
    let watch = |kind: &str| format!("[expect]\nwatch = [\"{kind}\"]\nevents = []\n");
    for (part, why) in [
        (device("gro = true"), "the engine holds no packets for merging"),
        (device("weight = 8"), "the engine polls with a weight of 64"),
        (device("persistent = false"), "the engine's devices keep their settings and ids over down and up"),
        (device("ring = 100"), "a ring of the engine has 64 to 4096 slots, a power of two"),
        ("[[socket]]\nname = \"rx\"\nkind = \"tcp\"\n".to_owned(), "it needs a TCP socket"),
        (step("schedule = \"eth0/0\", cpu = 0"), "it injects a schedule"),
        (step("arm = \"eth0/0\", after = \"1ms\", cpu = 0"), "it arms a timer from outside"),
        (step("call = \"busy-loop\", napi = \"eth0/0\", budget = 8"), "it makes a busy loop by itself"),
        (watch("raise"), "the engine keeps no record of raise"),
        (watch("drop"), "the engine keeps no record of drop"),
    ] {
        let expect = if part.contains("[expect]") { "" } else { "[expect]\nevents = []\n" };
        let scenario = parse(&format!("title = \"t\"\nrules = [\"1\"]\n{part}{expect}"));
        assert_eq!(RealEngine::default().run(&scenario), Err(refused(why)), "{part}");
    }
    let asks = "title = \"t\"\nrules = [\"1\"]\n[expect]\nevents = []\n[expect.counters]\n\"drops.disabled\" = 0\n";
    let refusal = RealEngine::default().run(&parse(asks)).expect_err("there is no such counter");
    assert_eq!(refusal.why, "the engine has no counter drops.disabled");
}

#[test]
fn a_wrong_expectation_and_a_wrong_check_are_seen() {
    let text = "title = \"t\"\nrules = [\"1\"]\n[[socket]]\nname = \"rx\"\n[timeline]\nsteps = [\n\
                { at = \"0ms\", packets = 1, to = \"rx\" },\n\
                { at = \"200ms\", check = \"rx\", queued = 2 },\n]\n\
                [expect]\nwatch = [\"poll\"]\nevents = [{ poll = \"eth0/0\", work = 2 }]\n";
    let mut scenario = parse(text);
    scenario.expect.tolerance.engine = Span::from_secs(60);
    let observed = RealEngine::default().run(&scenario).expect("it can be run");
    let Verdict::Fail(difference) = judge(&scenario, Clock::Real, &observed.events, &observed.counters) else {
        panic!("it must not pass")
    };
    let shown = difference.render(120);
    assert!(shown.contains("expected queued = 2 and found queued = 1"), "{shown}");
    assert!(shown.contains("work=2") && shown.contains("work=1"), "{shown}");
}
