//! `napier advise` and `napier sim calibrate` as a person calls them.

mod common;

use std::process::{Command, Output};

use common::{Folder, NAPIER, napier, refused, said, signal, text};
use napier_testkit::eventually;
use serde_json::{Value, json};

const FEW: [&str; 9] = ["advise", "--rate", "20k", "--modes", "base,fullbusy", "--runs", "1", "--quick", "--jobs=1"];

#[test]
fn a_page_has_the_choice_why_and_the_commands() {
    let output = napier(&[&FEW[..], &["--dev", "ens1", "--p99", "100000"]].concat());
    let page = text(&output);
    assert!(output.status.success(), "{page}{}", said(&output));
    assert!(page.starts_with("Take base: p99 ") && page.replace('\n', " ").contains("leave it as it is"), "{page}");
    assert!(!page.contains("napier run"), "nothing has to be set: {page}");
    let longest = page.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{page}");
}

#[test]
fn a_mode_is_tried_without_a_change_before_it_is_put_into_force() {
    let output = napier(&["advise", "--rate", "20k", "--modes", "fullbusy", "--runs", "1", "--quick", "--dev", "ens1"]);
    let page = text(&output);
    assert!(output.status.success(), "{page}{}", said(&output));
    let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what}: {page}"));
    assert!(at("--mode fullbusy --dry-run -- PROGRAM") < at("--mode fullbusy -- PROGRAM"), "{page}");
}

#[test]
fn a_target_that_nothing_reaches_is_said_with_the_nearest() {
    let output = napier(&[&FEW[..], &["--p99", "1", "--json"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let advice: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((advice["reaches"].as_bool(), advice["choice"].as_str()), (Some(false), Some("fullbusy")));
    assert!(
        advice["why"].as_str().is_some_and(|why| why.starts_with("No mode reaches a p99 of at most 1 us")),
        "{advice}"
    );
    assert_eq!((&advice["verdict"], &advice["commands"]), (&json!("misses"), &json!([])), "{advice}");
    assert!(advice["why"].as_str().is_some_and(|why| why.contains("No mode can: ")), "{advice}");
}

/// A machine whose file says how far its predictions were off.
fn machine(folder: &Folder, error: &str) -> String {
    let file = folder.file("far.toml");
    let text = include_str!("../../../lab/machines/small-vm.toml");
    std::fs::write(&file, format!("{text}\n[error]\n{error}\n")).expect("a file");
    file
}

#[test]
fn a_machine_that_is_far_off_is_refused_and_anyway_it_is_said_first() {
    let folder = Folder::new("advise-far");
    let far = machine(&folder, "fit = 12\nheld-back = 87\nall = { rows = 2, p99 = [40, 300], cpu = [50, 180] }");
    let asked = [&FEW[..], &["--machine", &far]].concat();
    let output = napier(&asked);
    let why = said(&output);
    assert_eq!(output.status.code(), Some(1), "{why}");
    assert!(output.stdout.is_empty() && why.contains("87 % off") && why.contains("--anyway"), "{why}");
    let output = napier(&[&asked[..], &["--anyway"]].concat());
    let page = text(&output);
    let first: String = page.lines().take(6).collect::<Vec<_>>().join(" ");
    assert!(output.status.success(), "{page}{}", said(&output));
    assert!(
        first.contains("12 % off where it was fitted, 87 % elsewhere") && first.contains("NOT TO BE BELIEVED"),
        "{page}"
    );
    // Within a bound it is taken, and says how far it is off.
    let near = machine(&folder, "fit = 12\nheld-back = 17\nall = { rows = 2, p99 = [90, 130], cpu = [95, 110] }");
    let value = napier(&[&FEW[..], &["--machine", &near, "--json"]].concat());
    let advice: Value = serde_json::from_slice(&value.stdout).expect("one object");
    assert_eq!(advice["machine_error"], json!({"fit_pct": 12.0, "held_back_pct": 17.0, "distrust": null}));
    for row in advice["rows"].as_array().expect("rows") {
        let (p99, range) = (row["p99_us"].as_f64().unwrap(), &row["p99_range_us"]);
        assert!((range[0].as_f64().unwrap() / p99 - 0.9).abs() < 1e-9, "{row}");
        assert!((range[1].as_f64().unwrap() / p99 - 1.3).abs() < 1e-9, "{row}");
    }
}

/// Tells a child to end, and takes the rest of what it prints.
fn end(child: std::process::Child) -> Output {
    signal(child.id(), "TERM");
    child.wait_with_output().expect("it ends")
}

const TERMINATED: i32 = 128 + 15;

/// Looking for what would change the choice takes longest: whoever has seen the choice may end it, and has it.
#[test]
fn the_answer_is_printed_before_what_would_change_it_is_looked_for() {
    use std::io::{BufRead as _, BufReader};
    let mut child = Command::new(NAPIER)
        .args(["advise", "--rate", "20k", "--modes", "base,suspend20,fullbusy", "--runs", "12", "--jobs", "1"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let choice = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("Take ")));
    assert!(choice.is_some(), "no choice is printed");
    let output = end(child);
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(output.status.code(), Some(TERMINATED), "{rest:?}{}", said(&output));
    assert!(rest.iter().any(|line| line.starts_with("Of 12 runs")), "{rest:?}");
    assert!(!rest.iter().any(|line| line.contains("flip")), "{rest:?}");
}

/// One cell of an hour of virtual time is not waited for.
#[test]
fn a_cell_that_runs_ends_when_it_is_told_to() {
    let folder = Folder::new("sim-interrupted");
    let plan = folder.file("long.toml");
    std::fs::write(
        &plan,
        "title = \"long\"\nmachine = \"epyc-7662-cx5\"\nqueues = 1\nconnections = 60\nmodes = [\"base\"]\nloads = [50000]\n\
         measured = \"3000s\"\nseeds = 1\n",
    )
    .expect("a file");
    let mut command = Command::new(NAPIER);
    command.args(["sim", "plan", &plan, "--jobs", "1"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("it starts");
    // Whether it has begun or not, it ends; but before it takes signals it is ended by them.
    let taken = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("the kernel says so").trim();
        u64::from_str_radix(mask, 16).expect("a mask")
    };
    eventually("it takes SIGTERM", || taken() & (1 << 14) != 0);
    std::thread::sleep(std::time::Duration::from_millis(200));
    let output = end(child);
    assert_eq!(output.status.code(), Some(TERMINATED), "{}", said(&output));
}

/// A comparison that was never run: the format is what counts.
fn report(rows: &Value) -> String {
    json!({
        "host": {"cpu_model": "a CPU", "cpus": 2, "kernel": "6.18", "in_force": {}, "notes": {}},
        "commit": "0", "workload": {
            "name": "kv", "backend": "engine", "device": "link", "proto": "udp", "seed": 1, "flows": 8, "queues": 1,
            "server_cpus": 1, "records": 1, "set_pct": 3.0, "key_sizes": "fixed:1", "value_sizes": "fixed:1",
            "popularity": "uniform", "seconds": 0.1,
        },
        "modes": {}, "rows": rows,
    })
    .to_string()
}

fn row(mode: &str, load: &Value, p99_us: f64, cpu_pct: f64) -> Value {
    let latency = json!({"mean": 5.0, "p50": p99_us / 2.0, "p90": p99_us, "p95": p99_us, "p99": p99_us, "p999": p99_us, "max": p99_us});
    let achieved = load.as_f64().unwrap_or(200_000.0);
    json!({
        "mode": mode, "backend": "engine", "load_rps": load, "achieved_rps": achieved, "latency_us": latency,
        "service_latency_us": latency, "cpu": {"total_pct": cpu_pct, "useful_pct": cpu_pct, "spin_pct": 0.0}, "cores": null,
        "cycles_per_request": null, "interrupts_per_s": null, "polls_per_s": null, "empty_polls_pct": null,
        "work_per_poll": null, "events_per_wait": null, "runs": 1, "spread": null, "refused": null,
    })
}

#[test]
fn advice_is_judged_by_what_was_measured() {
    let folder = Folder::new("advise-judge");
    let file = folder.file("compare.json");
    let rows = json!([row("base", &json!(20_000), 30.0, 20.0), row("fullbusy", &json!(20_000), 29.0, 100.0)]);
    std::fs::write(&file, report(&rows)).expect("a file");
    let output = napier(&["advise", "--judge", &file, "--machine", "small-vm", "--runs", "1", "--json"]);
    let judged: Value = serde_json::from_slice(&output.stdout).expect("an array");
    assert_eq!(judged.as_array().map(Vec::len), Some(1), "{judged}");
    // Nearly the lowest p99, and far cheaper.
    assert_eq!(judged[0]["best"], "base");
    let is_right = judged[0]["advised"] == "base";
    assert_eq!(judged[0]["is_right"], is_right, "{judged}");
}

/// What wake-ups take where they were never measured, on the machine of [`report`].
fn wakeups(bench: &str, kernel: &str, p50_ns: [u64; 3]) -> String {
    let row = |(context, p50_ns): (&str, u64)| {
        let latency =
            json!({"p5_ns": 1, "p50_ns": p50_ns, "p95_ns": 1, "p99_ns": 1, "p999_ns": 1, "max_ns": 1, "count": 9});
        json!({"context": context, "gap_ns": 50_000, "latency": latency, "sender": latency})
    };
    let rows: Vec<Value> =
        ["threaded-busy-poll", "softirq", "event-context"].into_iter().zip(p50_ns).map(row).collect();
    let host = json!({"cpu_model": "a CPU", "cpus": 2, "kernel": kernel, "in_force": {}, "notes": {}});
    json!({"bench": bench, "host": host, "commit": "0", "rows": rows}).to_string()
}

#[test]
fn what_wake_ups_take_is_set_and_not_fitted() {
    let folder = Folder::new("calibrate-wakeup");
    let (compared, woken, out) = (folder.file("compare.json"), folder.file("wakeup.json"), folder.file("mine.toml"));
    let rows = json!([row("base", &json!(2_000), 30.0, 5.0), row("base", &json!("max"), 90.0, 100.0)]);
    std::fs::write(&compared, report(&rows)).expect("a file");
    std::fs::write(&woken, wakeups("wakeup", "6.18", [3_000, 25_000, 33_000])).expect("a file");
    // Two rows that no machine has ever had: no figure comes near.
    let output = napier(&["sim", "calibrate", &compared, "--wakeup", &woken, "--out", &out, "--anyway"]);
    let page = text(&output);
    assert!(output.status.success(), "{page}{}", said(&output));
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let measured = words.split("measured, not fitted").nth(1).expect("what was not fitted");
    for said in ["cost.idle-exit", "cost.wake", "napier bench wakeup, p50 after 50 us", "30.00 us", "8.00 us"] {
        assert!(measured.contains(said), "{said}: {page}");
    }
    let machine = std::fs::read_to_string(&out).expect("a machine");
    let lines: Vec<&str> = machine.lines().filter(|line| line.contains("origin = \"measured\"")).collect();
    assert!(lines.len() == 2 && lines.iter().all(|line| line.contains("napier bench wakeup")), "{machine}");
    assert!(
        napier(&["compare", "--backend", "sim", "--machine", &out, "--load", "2k", "--runs", "1"]).status.success()
    );
}

#[test]
fn what_is_wrong_is_said_and_nothing_runs() {
    let folder = Folder::new("advise-wrong");
    let file = |name: &str, text: &str| {
        let file = folder.file(name);
        std::fs::write(&file, text).expect("a file");
        file
    };
    let machine = file(
        "machine.toml",
        "title = \"x\"\nclock-mhz = 1\n[cost]\nop = { us = 1, origin = \"reckoned\", why = \"x\" }\n",
    );
    let trace = file("trace", "6us 1\nsix 2\n");
    let half = file("half.json", "{\"host\": {");
    let kernel = file("none.json", &report(&json!([])));
    let one = file("one.json", &report(&json!([row("base", &json!(2_000), 30.0, 5.0)])));
    let sooner = file("sooner.json", &wakeups("wakeup", "6.18", [33_000, 25_000, 3_000]));
    let elsewhere = file("elsewhere.json", &wakeups("wakeup", "6.12", [3_000, 25_000, 33_000]));
    let another = file("another.json", &wakeups("udp-rr", "6.18", [3_000, 25_000, 33_000]));
    let trace = format!("hist:{trace}");
    for (args, expected) in [
        (&["advise"][..], "--rate"),
        (&["advise", "--rate", "max"], "no workload"),
        (&["advise", "--rate", "0"], "`0`"),
        (
            &["advise", "--rate", "1k", "--machine", "cray"],
            "there is no machine cray: give a file, or one of epyc-7662-cx5, small-vm",
        ),
        (&["advise", "--rate", "1k", "--machine", "xsk-rr-pair"], "is two hosts on a wire"),
        (&["advise", "--rate", "1k", "--machine", &machine], "machine.toml:4"),
        (&["advise", "--rate", "1k", "--service=-6us"], "`-6us` is no time of service"),
        (&["advise", "--rate", "1k", "--service", &trace], "line 2: `six 2` is no bucket"),
        (&["advise", "--rate", "1k", "--modes", "turbo"], "`turbo` is no mode"),
        (
            &["advise", "--rate", "1k", "--modes", "busy-read"],
            "busy-read is no mode of a server that waits in an event context",
        ),
        (&["advise", "--rate", "1k", "--modes", "threaded-busy-poll"], "needs 2 CPUs"),
        (&["advise", "--rate", "2k", "--peak", "1k"], "the peak of 1000 requests/s is below the rate of 2000"),
        (&["advise", "--rate", "1k", "--queues", "8", "--connections", "4"], "give more --connections"),
        (&["advise", "--rate", "1k", "--queues", "8", "--cpus", "4"], "give more --server-cpus"),
        (&["advise", "--rate", "1k", "--p99=-1"], "above 0"),
        (&["advise", "--rate", "1k", "--from", &half], "is no report of `napier compare --json`"),
        (&["sim", "calibrate", &half], "is no report of `napier compare --json`"),
        (&["sim", "calibrate", &kernel], "has no row with figures of engine"),
        (&["sim", "calibrate", "/nowhere.json"], "cannot be read"),
        (&["sim", "calibrate", &one, "--wakeup", "/nowhere.json"], "/nowhere.json cannot be read"),
        (&["sim", "calibrate", &one, "--wakeup", &half], "is no report of `napier bench wakeup --json`: EOF"),
        (
            &["sim", "calibrate", &one, "--wakeup", &one],
            "is no report of `napier bench wakeup --json`: missing field `bench`",
        ),
        (&["sim", "calibrate", &one, "--wakeup", &another], "it is of `napier bench udp-rr`"),
        (
            &["sim", "calibrate", &one, "--wakeup", &sooner],
            "cannot be sooner than one that polls all the time (33000 ns)",
        ),
        (
            &["sim", "calibrate", &one, "--wakeup", &elsewhere],
            "another machine (a CPU, Linux 6.12) than the comparison",
        ),
    ] {
        refused(args, 2, expected);
    }
}
