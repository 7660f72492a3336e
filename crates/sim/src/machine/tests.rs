//! The machine itself: CPUs, threads, time. What the rules do on it is in `conformance/`.

use super::*;
use napier_scenario::{Answer, Event};

fn parse(text: &str) -> Scenario {
    let whole = format!("title = \"A test\"\nrules = []\n{text}");
    Scenario::parse(&whole, "test.toml").unwrap_or_else(|error| panic!("{error}\n{whole}"))
}

fn outcome(text: &str) -> Outcome {
    let outcome = run(&parse(text));
    assert_eq!(outcome.broken, None);
    outcome
}

/// When the calls of the timeline returned, us.
fn returns_us(outcome: &Outcome) -> Vec<u64> {
    let returns = outcome.events.iter().filter(|seen| matches!(seen.event, Event::Return { .. }));
    returns.map(|seen| seen.at.ns / 1000).collect()
}

const APP: &str = "[[thread]]\nname = \"app\"\ncpu = 0\n[[socket]]\nname = \"rx\"\n";

/// An application that busy polls for 10 ms, with something beside it.
fn busy_for_10_ms(beside: &str) -> u64 {
    let text = format!(
        "[machine]\ncpus = 2\n{APP}[timeline]\nsteps = [\n\
         {{ at = \"0ms\", by = \"app\", call = \"busy-loop\", napi = \"eth0/0\", usecs = 9766, budget = 8 }},\n{beside}]\n"
    );
    returns_us(&outcome(&text))[0]
}

#[test]
fn threads_share_a_cpu() {
    let alone = busy_for_10_ms("");
    assert!((10_000..10_020).contains(&alone), "{alone}");
    // The loop ends by the clock, so time that went to others shows only if it was away when its time ran out.
    let fifo = busy_for_10_ms("{ at = \"9ms\", hog = 0, for = \"5ms\", policy = \"fifo\" },\n");
    assert!((14_000..14_020).contains(&fifo), "{fifo}");
    let elsewhere = busy_for_10_ms("{ at = \"9ms\", hog = 1, for = \"5ms\", policy = \"fifo\" },\n");
    assert_eq!(elsewhere, alone);
    // A fair one that has had nothing so far gets in when it wakes up, and is put out again after its slice.
    let fair = busy_for_10_ms("{ at = \"9ms\", hog = 0, for = \"50ms\", policy = \"fair\" },\n");
    assert!((12_000..16_000).contains(&fair), "{fair}");
}

#[test]
fn a_stalled_thread_stands_still() {
    let stalled = busy_for_10_ms("{ at = \"9ms\", stall = \"app\", for = \"7ms\" },\n");
    assert!((16_000..16_020).contains(&stalled), "{stalled}");
}

#[test]
fn calls_of_a_thread_wait_for_each_other() {
    let text = format!(
        "{APP}[timeline]\nsteps = [\n\
         {{ at = \"0ms\", by = \"app\", call = \"recv\", socket = \"rx\", timeout = \"2ms\" }},\n\
         {{ at = \"1ms\", by = \"app\", call = \"recv\", socket = \"rx\", timeout = \"3ms\" }},\n\
         {{ at = \"6ms\", packets = 1, to = \"rx\" }},\n\
         {{ at = \"7ms\", by = \"app\", call = \"recv\", socket = \"rx\", nonblock = true }},\n]\n"
    );
    let outcome = outcome(&text);
    let us = returns_us(&outcome);
    assert!(us.iter().zip([2000, 5000, 7000]).all(|(us, want)| us.abs_diff(want) < 10), "{us:?}");
    let answers = outcome.events.iter().filter_map(|seen| match &seen.event {
        Event::Return { answer, .. } => Some(answer.clone()),
        _ => None,
    });
    let eagain = || Answer::Error(napier_core::control::Errno::EAGAIN);
    assert_eq!(answers.collect::<Vec<_>>(), [eagain(), eagain(), Answer::Number(1)]);
}

#[test]
fn an_interrupt_takes_time_from_whom_it_interrupts() {
    let quiet = busy_for_10_ms("");
    // 100 packets in the last 100 us, each with an interrupt and a poll of its own on the same CPU.
    let noisy = busy_for_10_ms("{ at = \"9ms\", packets = 500, to = \"rx\", every = \"2us\" },\n");
    assert!(noisy >= quiet, "{noisy} {quiet}");
}

#[test]
fn the_same_scenario_is_the_same_run() {
    let text = "[machine]\ncpus = 2\nseed = 7\njitter = true\nlate-interrupts = true\n[[socket]]\nname = \"rx\"\n\
                [timeline]\nsteps = [\n{ at = \"0ms\", packets = 300, to = \"rx\", every = \"3us\" },\n]\n";
    assert_eq!(outcome(text), outcome(text));
    let other = text.replace("seed = 7", "seed = 8");
    assert_ne!(outcome(text).events, outcome(&other).events, "the seed decides");
    let calm = text.replace("true", "false");
    assert_eq!(outcome(&calm).events, outcome(&calm.replace("seed = 7", "seed = 8")).events, "nothing is random");
}

#[test]
fn what_does_not_fit_is_counted() {
    let text = "[[device]]\nname = \"eth0\"\nring = 4\n[[socket]]\nname = \"rx\"\ndepth = 2\n[timeline]\n\
                steps = [\n{ at = \"0ms\", packets = 10, to = \"rx\" },\n]\n[expect]\ndrains = true\n";
    let outcome = outcome(text);
    let counter = |name: &str| outcome.counters.iter().find(|(counter, _)| counter == name).expect("it exists").1;
    assert_eq!(counter("drops.ring-full"), 6);
    assert_eq!(counter("drops.socket-full"), 2);
    assert_eq!(counter("rx.delivered"), 2);
}

#[test]
fn what_is_left_is_a_failure_only_if_it_should_drain() {
    // No poller completes after this poll, so the second packet stays.
    let text = "[[socket]]\nname = \"rx\"\n[timeline]\nsteps = [\n\
                { at = \"0ms\", driver = \"eth0/0\", quirk = \"never-completes\" },\n\
                { at = \"1ms\", packets = 1, to = \"rx\" },\n{ at = \"2ms\", packets = 1, to = \"rx\" },\n]\n";
    let broken = run(&parse(text)).broken.expect("a packet is left");
    assert!(broken.contains("packets wait"), "{broken}");
    let lenient = format!("{text}[expect]\ndrains = false\n");
    assert_eq!(run(&parse(&lenient)).broken, None);
}

#[test]
fn a_failed_assertion_is_reported() {
    let mut scenario =
        parse("[[socket]]\nname = \"rx\"\n[timeline]\nsteps = [\n{ at = 0, interrupt = \"eth0/0\" },\n]\n");
    scenario.timeline[0].action = napier_scenario::Action::Interrupt { napi: napier_scenario::NapiIx(9) };
    let broken = run(&scenario).broken.expect("there is no such instance");
    assert!(broken.starts_with("an assertion failed: index out of bounds"), "{broken}");
}
