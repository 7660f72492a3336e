use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::{Action, Call, Kind, Pattern, Range};

const RICH: &str = include_str!("tests/rich.toml");

/// Smallest file that errors are made from: a key or two are appended to it.
const HEAD: &str = "title = \"t\"\n";

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, "x.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn without_lines(mut scenario: Scenario) -> Scenario {
    scenario.timeline.iter_mut().for_each(|step| step.line = 0);
    scenario.expect.events.iter_mut().for_each(|event| event.line = 0);
    scenario
}

#[test]
fn defaults() {
    let scenario = parse(HEAD);
    assert_eq!(scenario.machine.devices.len(), 1);
    assert_eq!(scenario.machine.napi_name(crate::NapiIx(0)), "eth0/0");
    assert_eq!(scenario.machine.threads[0].name, "ctl");
    assert!(scenario.expect.watch.is_empty() && scenario.timeline.is_empty());
    let scenario = parse(&format!("{HEAD}[expect]\nevents = []"));
    assert_eq!(scenario.expect.watch, Kind::WATCHED_BY_DEFAULT);
}

#[test]
fn a_kernel_carries_out_what_asks_for_it() {
    assert!(parse(HEAD).kernel.not_runnable.is_some_and(|why| why.contains("[kernel] run = true")));
    let kernel = |text: &str| parse(&format!("{HEAD}[kernel]\n{text}")).kernel;
    let plain = kernel("run = true");
    assert_eq!((plain.not_runnable, plain.since, plain.tolerance.map(|span| span.ns)), (None, None, Some(2_000_000)));
    assert_eq!(kernel("run = true\ntolerance = \"order\"").tolerance, None);
    assert_eq!(kernel("run = true\nsince = \"7.3\"").since, Some(crate::Release(7, 3)));
    assert!(crate::Release::parse("6.18.44-fc") < Some(crate::Release(7, 3)));
    assert_eq!(kernel("run = false\nwhy = \"x\"").not_runnable.as_deref(), Some("x"));
}

#[test]
fn the_rich_file_says_what_it_should() {
    let scenario = parse(RICH);
    assert_eq!(scenario.machine.seed, u64::MAX);
    assert_eq!(scenario.machine.napis(), 3);
    assert_eq!(scenario.timeline[0].line, 86);
    assert_eq!(scenario.expect.events[26].repeat, Range { min: 0, max: 210 });
    assert_eq!(scenario.expect.events[1].fields[0], ("napi".to_owned(), Pattern::Text("eth0/0".to_owned())));
    let napi_set = scenario.timeline.iter().find_map(|step| match &step.action {
        Action::Call { call: Call::NapiSet { attributes, .. }, .. } => Some(attributes.clone()),
        _ => None,
    });
    let named: Vec<_> = [("threaded", 1), ("defer-hard-irqs", 9), ("gro-flush-timeout", 2_000_000), ("wrong", 1)]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
    assert_eq!(napi_set, Some(named));
}

#[test]
fn written_is_read() {
    let scenario = parse(RICH);
    let text = scenario.to_toml();
    assert_eq!(without_lines(parse(&text)), without_lines(scenario));
    assert_eq!(parse(&text).to_toml(), text);
}

/// Files with pieces cut, doubled, exchanged and replaced: an error with a line, or a scenario that can be written.
#[test]
fn mutated_files_do_not_panic() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let tokens: Vec<&str> = RICH.split_inclusive(&[' ', '\n', '"', ',']).collect();
    let (mut read, mut refused) = (0, 0);
    for _ in 0..3000 {
        let mut mutant = tokens.clone();
        for _ in 0..rng.random_range(1..4) {
            let (at, other) = (rng.random_range(0..mutant.len()), rng.random_range(0..mutant.len()));
            match rng.random_range(0..6) {
                0 => drop(mutant.remove(at)),
                1 => mutant.insert(at, mutant[other]),
                2 => mutant.swap(at, other),
                3 => mutant[at] = ["0", "-1", "99999999999999999999", "\"", "[]", "{}", "\n", "\u{e9}"][other % 8],
                4 => mutant.truncate(at + 1),
                _ => mutant[at] = mutant[other],
            }
        }
        let text = mutant.concat();
        match Scenario::parse(&text, "x.toml") {
            Ok(scenario) => {
                read += 1;
                assert_eq!(without_lines(parse(&scenario.to_toml())), without_lines(scenario), "{text}");
            }
            Err(error) => {
                refused += 1;
                let lines = u32::try_from(text.lines().count()).expect("a small file");
                assert!(error.line >= 1 && error.line <= lines + 1, "{error} of {lines} lines");
            }
        }
    }
    assert!(read > 50 && refused > 50, "{read} read, {refused} refused");
}

#[test]
fn deep_nesting_is_an_error() {
    let text = format!("title = {}", "[".repeat(100_000));
    assert!(Scenario::parse(&text, "x").is_err());
}

/// What is appended to the head, the line, the message.
const ERRORS: &[(&str, u32, &str)] = &[
    ("x = ", 2, "not TOML: "),
    ("titel = 1", 2, r#"unknown key "titel"; expected title, rules, machine, "#),
    ("titel = 1", 2, "engine, kernel (did you mean title?)"),
    ("machine = 1", 2, "machine: found the number 1; expected the table [machine]"),
    ("[machine]\ncpus = 0", 3, "machine.cpus: found the number 0; expected a whole number from 1 to 64"),
    ("[machine]\ncpus = \"two\"", 3, r#"machine.cpus: found the string "two"; expected a whole number"#),
    ("[machine]\nhz = 1.5", 3, "machine.hz: found the number 1.5; expected a whole number"),
    ("[machine.costs]\npoll = 0", 3, r#"machine.costs.poll: found the number 0; expected at least "1ns""#),
    ("[machine.costs]\npoll = 5", 3, r#"machine.costs.poll: found the number 5; expected a time such as "20us""#),
    ("[machine.costs]\npoll = \"5\"", 3, r#"found the string "5"; expected a time such as"#),
    ("[machine.costs]\npoll = \"2h\"", 3, r#"found the string "2h"; expected a time such as"#),
    ("[machine.costs]\npoll = \"7200s\"", 3, "expected at most an hour"),
    ("[[device]]\nqueues = 1", 2, r#"device[0]: missing key "name""#),
    ("[[device]]\nname = \"a/b\"", 3, r#"device[0].name: found the string "a/b"; expected a name of 1 to 32"#),
    ("[[device]]\nname = \"a\"\n[[device]]\nname = \"a\"", 5, r#"device[1].name: the name "a" is taken"#),
    ("[[device]]\nname = \"a\"\nring = 0", 4, "device[0].ring: found the number 0; expected a whole number from 1"),
    (
        "[[device]]\nname = \"a\"\nirq-cpu = [1]",
        4,
        "device[0].irq-cpu[0]: found the number 1; expected a whole number from 0 to 0",
    ),
    (
        "[[device]]\nname = \"a\"\nthreaded = \"workqueue\"",
        4,
        r#"unknown name "workqueue"; expected disabled, enabled, busy-poll"#,
    ),
    ("[[device]]\nname = \"a\"\ngro_flush_timeout = 0", 4, "(did you mean gro-flush-timeout?)"),
    (
        "[[thread]]\nname = \"a\"\npolicy = \"fiffo\"",
        4,
        r#"unknown name "fiffo"; expected fair, fifo (did you mean fifo?)"#,
    ),
    (
        "[[socket]]\nname = \"a\"\nqueue-of = \"eth0/1\"",
        4,
        r#"unknown instance "eth0/1"; expected eth0/0 (did you mean eth0/0?)"#,
    ),
    ("[[socket]]\nname = \"a\"\nkind = \"tcp\"\nconnected = false", 5, "a tcp socket is always connected"),
    ("[[socket]]\nname = \"a\"\n[[epoll]]\nname = \"a\"", 5, r#"the name "a" is taken"#),
    ("[[epoll]]\nname = \"e\"\nmembers = [\"rx\"]", 4, r#"epoll[0].members[0]: unknown socket "rx"; expected none"#),
    (
        "[timeline]\nsteps = [\n{ at = \"2ms\", interrupt = \"eth0/0\" },\n{ at = \"1ms\", interrupt = \"eth0/0\" },\n]",
        5,
        ": steps[1]: at 1ms comes after 2ms; put the steps in the order of time",
    ),
    ("[[device]]\nname = \"eth0\"\ntx-ring = 4", 4, "tx-ring: without a qdisc"),
    ("[[device]]\nname = \"eth0\"\nqdisc = \"pfif\"", 4, "(did you mean pfifo?)"),
    ("[[device]]\nname = \"eth0\"\nqdisc = \"noqueue\"\nqdisc-options = { limit = 1 }", 5, "noqueue has no options"),
    ("[[device]]\nname = \"eth0\"\nqdisc = \"pfifo\"\nqdisc-options = { quantum = 1 }", 5, r#"unknown key "quantum""#),
    ("[[device]]\nname = \"eth0\"\nqdisc = \"pfifo_fast\"\nmq = false", 5, "pfifo_fast serves one transmit queue"),
    ("[[device]]\nname = \"eth0\"\nqdisc = \"fq\"\nlower = \"eth0/tx-0\"", 5, r#"has qdisc = "noqueue""#),
    (
        "[[device]]\nname = \"eth0\"\nqdisc = \"fq\"\nbql = { limit_min = 2, limit_max = 1 }",
        5,
        "limit_min is more than limit_max",
    ),
    ("[expect]\nwatch = [\"polls\"]", 3, r#"expect.watch[0]: unknown name "polls"; expected poll, "#),
    ("[expect]\nwatch = [\"timer\", \"timer-fire\"]", 3, "timer-fire is there already"),
    ("[expect]\nwatch = [\"check-failed\"]", 3, r#"unknown name "check-failed""#),
    (
        "[expect.counters]\n\"eth0/0.poll\" = 1",
        3,
        r#"expect.counters.eth0/0.poll: unknown counter "eth0/0.poll"; expected cpuN.time_squeeze"#,
    ),
    ("[expect.counters]\n\"cpu1.ksoftirqd\" = 1", 3, "unknown counter"),
    ("[expect.counters]\n\"cpu0.ksoftirqd\" = -1", 3, "expected a whole number from 0"),
    ("[engine]\nrun = false", 2, "engine: run = false needs why"),
    ("[engine]\nwhy = \"x\"", 2, "engine: why says why it does not run"),
    ("[kernel]\nwatch = []", 2, "kernel: [kernel] needs run = true"),
    ("[kernel]\nrun = false", 2, "kernel: run = false needs why"),
    ("[kernel]\nrun = true\nsince = \"new\"", 4, "a release of Linux such as \"7.3\""),
    ("[kernel]\nrun = true\ntolerance = \"much\"", 4, "kernel.tolerance"),
    ("[engine]\nwatch = [\"poll\"]", 3, "poll is not among the kinds that [expect] watches"),
];

/// The one step of a timeline, in line 4, and the message.
const STEP_ERRORS: &[(&str, &str)] = &[
    ("at = 0", ": steps[0]: nothing happens; expected one of packets, interrupt, "),
    ("at = 0, packet = 1", r#": steps[0]: unknown key "packet"; expected packets, "#),
    ("at = 0, packet = 1", "(did you mean packets?)"),
    (r#"interrupt = "eth0/0""#, r#": steps[0]: missing key "at""#),
    (r#"at = 1, interrupt = "eth0/0""#, ": steps[0].at: found the number 1; expected a time"),
    (r#"at = 0, interrupt = "eth0/0", schedule = "eth0/0""#, "both interrupt and schedule"),
    (r#"at = 0, interrupt = "eth0/0", cpu = 0"#, r#": steps[0]: unknown key "cpu"; expected at, interrupt"#),
    (r#"at = 0, packets = 0, to = "eth0/0""#, ": steps[0].packets: found the number 0"),
    (r#"at = 0, packets = 1, to = "rx""#, r#": steps[0].to: unknown socket "rx"; expected none"#),
    (r#"at = 0, check = "eth0/0""#, "nothing to look at"),
    (r#"at = 0, check = "eth0/0", set = ["SHED"]"#, r#": steps[0].set[0]: unknown name "SHED""#),
    (r#"at = 0, check = "eth0/0", queued = 1"#, r#"unknown key "queued""#),
    (r#"at = 0, call = "epol-wait""#, "(did you mean epoll-wait?)"),
    (r#"at = 0, by = "app", call = "napi-get""#, r#": steps[0].by: unknown thread "app"; expected ctl"#),
    (r#"at = 0, call = "napi-get", napi = "eth0/0", id = 1"#, "both napi and id"),
    (
        r#"at = 0, call = "write", file = "eth0/thread", value = "1""#,
        "expected DEVICE/FILE, where FILE is gro_flush_timeout",
    ),
    (r#"at = 0, call = "write", file = "eth0/threaded", value = 1"#, "expected a string: what is written"),
    (r#"at = 0, call = "sysctl", name = "busy-read", value = 1"#, "(did you mean busy_read?)"),
    (r#"at = 0, call = "set-queues", device = "eth0", queues = 2"#, "expected a whole number from 1 to 1"),
    (r#"at = 0, tx-stop = "eth0/tx-0""#, r#"unknown transmit queue "eth0/tx-0""#),
    (r#"at = 0, check = "eth0/tx-0", qlen = 0"#, "unknown discipline or transmit queue"),
    (r#"at = 0, call = "activate", device = "eth0""#, "the device has no qdisc"),
];

/// What is expected, in line 3, and the message.
const EVENT_ERRORS: &[(&str, &str)] = &[
    (r#"sleep = "ctl""#, "expect.events[0]: sleep is not watched; add it to watch"),
    ("work = 1", r#"expect.events[0]: unknown key "work"; expected poll, "#),
    ("at = 0", "no event; expected one of poll, "),
    (r#"poll = "eth0/0", mask = "eth0/0""#, "both poll and mask"),
    (r#"poll = "eth0/0", wrok = 1"#, "(did you mean work?)"),
    (r#"poll = "eth0/0", in = "irq""#, "expected softirq, ksoftirqd, kthread, kthread-busy, group, user"),
    (r#"poll = "eth0/0", work = [3, 1]"#, "from 3 to 1 is no range"),
    (r#"poll = "eth0/0", work = [3]"#, "expected a whole number or [least, most]"),
    (r#"poll = "eth0/0", within = "1ms""#, "give at too"),
    (r#"poll = "eth0/0", repeat = 0"#, "repeat = 0 is no event"),
    (r#"at = "2ms", poll = "eth0/0" }, { at = "1ms", poll = "eth0/0""#, "its time is before 2ms"),
    (r#"return = "ctl", value = "EAGIAN""#, r#"unknown error "EAGIAN""#),
    (r#"return = "ctl", value = 1.5"#, "expected a number, [least, most], an error"),
];

#[test]
fn errors_say_where_and_what() {
    let all = ERRORS.iter().map(|(text, line, message)| ((*text).to_owned(), *line, *message));
    let steps = STEP_ERRORS.iter();
    let steps = steps.map(|(step, message)| (format!("[timeline]\nsteps = [\n{{ {step} }},\n]"), 4, *message));
    let events = EVENT_ERRORS.iter();
    let events = events.map(|(event, message)| (format!("[expect]\nevents = [{{ {event} }}]"), 3, *message));
    for (text, line, message) in all.chain(steps).chain(events) {
        let text = format!("{HEAD}{text}");
        let error = Scenario::parse(&text, "x.toml").expect_err(&text);
        let shown = error.to_string();
        assert_eq!(error.line, line, "{shown}\n{text}");
        assert!(shown.starts_with(&format!("x.toml:{line}: ")), "{shown}");
        assert!(shown.contains(message), "{shown}\n  lacks: {message}\n{text}");
    }
    for (text, message) in
        [("", "x.toml:1: missing key \"title\""), ("title = \" \"", "x.toml:1: title: found the string \" \"")]
    {
        let error = Scenario::parse(text, "x.toml").expect_err(text).to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn the_conformance_files_come_back() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let mut files = 0;
    for part in std::fs::read_dir(&folder).expect("conformance/").map(|entry| entry.expect("an entry").path()) {
        for file in std::fs::read_dir(part).into_iter().flatten().map(|entry| entry.expect("an entry").path()) {
            let text = std::fs::read_to_string(&file).expect("a file");
            let scenario =
                Scenario::parse(&text, &file.display().to_string()).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(without_lines(parse(&scenario.to_toml())), without_lines(scenario), "{}", file.display());
            files += 1;
        }
    }
    assert!(files > 100, "{files} files in {}", folder.display());
}
