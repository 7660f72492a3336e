use std::path::Path;

use napier_scenario::Kind;
use napier_scenario::compare::{Judgement, judge};

use super::*;

/// Scenarios of each part, what is made wrong in them, and with what.
const WRONG: &[(&str, &str, &str)] = &[
    ("A-scheduling/01-one-packet", "work = 1, budget = 64", "work = 2, budget = 64"),
    ("B-deferral/14b-two-deferrals", "work = 0, budget = 64 },\n  { unmask", "work = 1, budget = 64 },\n  { unmask"),
    (
        "B-deferral/14c-three-deferrals",
        "timer-start = \"eth0/0\", after = \"4ms\"",
        "timer-start = \"eth0/0\", after = \"3ms\"",
    ),
    ("B-deferral/22-disable-cancels-the-timer", "timer-cancel = \"eth0/0\"", "timer-fire = \"eth0/0\""),
    ("C-socket-busy-poll/24-non-blocking", "budget = 8, repeat = 2", "budget = 8, repeat = 3"),
    ("D-socket-options/39d-budget", "value = \"EPERM\"", "value = \"EINVAL\""),
    ("E-epoll/43a-order-of-checks", "value = \"EINVAL\", repeat = 3", "value = \"EPERM\", repeat = 3"),
    ("E-epoll/150-ready-at-once", "value = 1, ready = [\"rx\"] }", "value = 0 }"),
    ("H-control/72-all-or-nothing", "threaded = \"disabled\"", "threaded = \"enabled\""),
];

fn text_of(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    std::fs::read_to_string(folder.join(format!("{file}.toml"))).expect("the scenario is there")
}

/// Carries a file out, so many times as slowly, order and counts only: a machine that is busy makes everything late. `None` if
/// this machine refuses it.
fn verdict(file: &str, text: &str, stretch: u32) -> Option<Judgement> {
    let scenario = Scenario::parse(text, file).unwrap_or_else(|error| panic!("{error}")).stretched(stretch);
    let mut kernel = LiveKernel::without_times(Some(stretch));
    assert!(kernel.take_pace(&scenario, 0) && !kernel.take_pace(&scenario, 1), "what is given is the only pace");
    match kernel.run(&scenario) {
        Ok(observed) => Some(judge(&scenario, kernel.clock(), &observed.events, &observed.counters)),
        Err(refused) => {
            napier_testkit::skip!("a_kernel_carries_files_out_and_what_is_wrong_fails", "{file}: {}", refused.why);
            None
        }
    }
}

/// What is wrong with a file is wrong each time; a host that takes the CPUs away for milliseconds changes what happens once.
fn best_verdict(file: &str, text: &str) -> Option<Judgement> {
    let mut last = None;
    for stretch in [1, 1, 2, 4, 8, 8] {
        last = Some(verdict(file, text, stretch)?);
        if matches!(last, Some(Judgement::Pass)) {
            break;
        }
    }
    last
}

/// The same files as they are, and with something wrong in them.
#[test]
fn a_kernel_carries_files_out_and_what_is_wrong_fails() {
    for (file, right, wrong) in WRONG {
        let text = text_of(file);
        let Some(verdict_of_file) = best_verdict(file, &text) else { return };
        if let Judgement::Fail(difference) = verdict_of_file {
            panic!("{file}: {}", difference.render(120));
        }
        let mutant = text.replacen(right, wrong, 1);
        assert_ne!(mutant, text, "{file} has no {right:?}");
        match verdict(file, &mutant, 1) {
            Some(Judgement::Pass) => panic!("{file}: {wrong:?} instead of {right:?} passes"),
            Some(Judgement::Fail(_)) | None => {}
        }
    }
}

/// A wrong expectation of what is not seen neither passes nor fails: it is counted.
#[test]
fn what_a_kernel_does_not_show_is_counted() {
    let text = text_of("B-deferral/14b-two-deferrals");
    let scenario = Scenario::parse(&text, "x").expect("a scenario");
    let hidden = scenario.not_looked_at_on_kernels();
    // A mask and an unmask; bits, deferrals, mask and timer of two checks; interrupts.
    assert_eq!((hidden.events, hidden.checks, hidden.counters), (2, 8, 1));
    assert!(!scenario.watched_on_kernels().contains(&Kind::Mask));
}

#[test]
fn what_a_kernel_cannot_do_is_refused_with_the_reason() {
    let device = |more: &str| format!("[[device]]\nname = \"eth0\"\n{more}\n");
    let step = |step: &str| format!("[timeline]\nsteps = [{{ at = \"0ms\", {step} }}]\n");
    for (part, why) in [
        ("[machine]\njitter = true\n".to_owned(), "by a seed"),
        ("[machine.sysctl]\nnetdev_budget = 1\n".to_owned(), "a knob of the whole machine"),
        (device("weight = 16"), "the weight of the driver, 64"),
        (device("rx-usecs = 10"), "no interrupt to coalesce"),
        (step("interrupt = \"eth0/0\""), "veth has no interrupt"),
        (step("schedule = \"eth0/0\", cpu = 0"), "injects a schedule"),
        (step("call = \"busy-loop\", napi = \"eth0/0\""), "as only the kernel can"),
        (step("call = \"delete\", napi = \"eth0/0\""), "no program deletes"),
        ("[kernel]\nrun = true\nsince = \"99.0\"\n".to_owned(), "it is so since Linux 99.0"),
    ] {
        let scenario =
            Scenario::parse(&format!("title = \"t\"\n{part}"), "x").unwrap_or_else(|error| panic!("{error}"));
        let refused = refuse::check(&scenario, 64).expect_err(&part);
        assert!(refused.why.contains(why), "{part}: {}", refused.why);
    }
}
