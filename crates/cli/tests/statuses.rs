//! Exit statuses: one for each kind of end, whichever command it is.

mod common;

use std::process::{Command, Stdio};

use common::{Folder, NAPIER, napier, refused, said};

/// Not one command of them finds out by itself what to make of it.
#[test]
fn what_is_named_and_not_there_is_bad_usage_in_every_command() {
    for line in [
        "report nosuch.json",
        "report /",
        "conform nosuch",
        "sim plan nosuch.toml",
        "sim calibrate nosuch.json",
        "advise --rate 5k --machine nosuch.toml",
        "compare --backend sim --load 5k --machine nosuch.toml",
        "compare --load 5k --service hist:nosuch",
        "compare --backend kernel --load 5k -- /nowhere/memcached",
        "compare --load 5k --out /proc/nosuch",
        "compare --load 5k --html /proc/nosuch/page.html",
        "bench wakeup --html /proc/nosuch/page.html",
        "doctor --dev nosuchif0",
        "export --once --dev nosuchif0",
        "host tune --dev nosuchif0 --dry-run",
        "top --once --dev nosuchif0",
        "run --dev nosuchif0 --mode base -- true",
        "napi-get --dump --dev nosuchif0",
        "napi-get --everywhere --dev nosuchif0",
        "queue-get --dump --dev nosuchif0",
        "dev-get --dev nosuchif0",
        "qstats-get --dump --dev nosuchif0",
    ] {
        let args: Vec<&str> = line.split_whitespace().collect();
        refused(&args, 2, "");
    }
}

#[test]
fn a_comparison_of_which_nothing_came_has_failed() {
    // These two modes are not simulated, so nothing is predicted, on any machine.
    let none = ["compare", "--backend", "sim", "--load", "5k", "--modes", "workqueue,busy-read"];
    refused(&none, 1, "nothing was measured: sim/workqueue was refused");
    let some = [
        "compare",
        "--backend",
        "sim",
        "--load",
        "5k",
        "--modes",
        "base,workqueue",
        "--runs",
        "1",
        "--seconds",
        "50ms",
    ];
    assert_eq!(napier(&some).status.code(), Some(0));
}

#[test]
fn scenarios_that_were_all_refused_show_nothing() {
    let folder = Folder::new("statuses");
    // It does not say that a kernel can carry it out, so none is asked, by any user.
    let file = folder.file("a.toml");
    let text =
        "title = \"t\"\n[timeline]\nsteps = [{ at = \"1ms\", packets = 1, to = \"rx\" }]\n[[socket]]\nname = \"rx\"\n";
    let text = format!("{text}[expect]\nwatch = [\"deliver\"]\nevents = [{{ deliver = \"rx\", packets = 1 }}]\n");
    std::fs::write(&file, text).expect("a file of one's own");
    let output = napier(&["conform", &file]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    let output = napier(&["conform", "--executor", "kernel", &file]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(said(&output).starts_with("napier: none of 1 scenario file was run: "), "{}", said(&output));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    for args in [&["doctor", "--json"][..], &["compare", "--explain"], &["napi-get", "--dump"], &["man", "--markdown"]]
    {
        let (read, write) = std::io::pipe().expect("a pipe");
        drop(read);
        let mut command = Command::new(NAPIER);
        command.args(args).stdin(Stdio::null()).stdout(write).stderr(Stdio::piped());
        let output = command.spawn().and_then(|child| child.wait_with_output()).expect("napier starts");
        assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()), "{args:?}");
    }
}

#[test]
fn units_are_taken_where_a_time_or_a_share_is_and_an_error_has_an_example() {
    let sim = ["compare", "--backend", "sim", "--load", "5k", "--modes", "base", "--runs", "1", "--json", "--seconds"];
    let rows = |length: &str| {
        let output = napier(&[&sim[..], &[length]].concat());
        assert!(output.status.success(), "{}", said(&output));
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        value["rows"].clone()
    };
    assert_eq!(rows("0.05"), rows("50ms"));
    refused(&["compare", "--seconds", "soon"], 2, "`soon` is no time; give one such as 500ms, 2s or 2 (s)");
    refused(&["bench", "wakeup", "--gap", "1x"], 2, "`1x` is no time; give one such as 200us, 1.5ms or 200 (us)");
    refused(&["bench", "storage", "--rate", "1k", "--read-pct", "lots"], 2, "such as 80% or 80");
    refused(&["napi-set", "--id", "1", "--gro-flush-timeout", "x"], 2, "give one such as 20us or 20000 (ns)");
    // An interface needs a client.
    refused(&["compare", "--dev", "lo", "--load", "5k"], 2, "--client");
    refused(&["top", "--once", "--interval", "fast"], 2, "such as 500ms, 2s or 2 (s)");
    refused(&["advise", "--rate", "50k", "--p99", "200 furlongs"], 2, "such as 200us, 1.5ms or 200 (us)");
    refused(&["load", "kv", "--server", "127.0.0.1", "--get-ratio", "97"], 2, "such as 97% or 0.97");
    refused(&["compare", "--minutes", "0"], 2, "such as 90s, 2min or 2 (min)");
    refused(&["compare", "--modes", "suspend20us"], 2, "so give suspend20");
    refused(&["compare", "--load", "10,000"], 2, "give 10000, or 10k");
    refused(&["doctor", "lo"], 2, "an interface is given as --dev lo");
}
