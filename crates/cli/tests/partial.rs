//! A comparison that is interrupted or fails keeps what it measured, and its exit status says how it ended.

mod common;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Folder, NAPIER, said, signal, two_cpus};
use serde_json::Value;

/// Longest wait for anything; only a fault takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Far more runs than are waited for.
const MANY: [&str; 9] = ["compare", "--modes", "base", "--load", "1k,2k", "--runs", "1000", "--seconds", "0.2"];

fn start(args: &[&str]) -> Child {
    let mut command = Command::new(NAPIER);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("napier starts")
}

/// Waits for what the first slice leaves behind.
fn first_run(napier: &mut Child, histogram: &str) {
    let begun = Instant::now();
    while !std::path::Path::new(histogram).exists() {
        let ended = napier.try_wait().expect("it can be asked");
        assert!(begun.elapsed() < PATIENCE && ended.is_none(), "the first run does not end: {ended:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_interrupted_comparison_shows_what_it_has() {
    if !two_cpus("an_interrupted_comparison_shows_what_it_has") {
        return;
    }
    for (name, status, json) in [("INT", 130, true), ("TERM", 143, false)] {
        let folder = Folder::new(&format!("partial-{name}"));
        let out = folder.file("histograms");
        let more: &[&str] = if json { &["--out", &out, "--json"] } else { &["--out", &out] };
        let mut napier = start(&[&MANY[..], more].concat());
        first_run(&mut napier, &format!("{out}/base-1k.hlog"));
        signal(napier.id(), name);
        let output = napier.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(status), "{}", said(&output));
        assert_eq!(said(&output), "napier: interrupted");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if json {
            let report: Value = serde_json::from_str(&printed).expect("one JSON object");
            let (rows, row) = (report["rows"].as_array().expect("rows"), &report["rows"][0]);
            assert_eq!((rows.len(), &report["ended"]), (2, &Value::from("interrupted")));
            let (runs, lost) = (row["runs"].as_u64().expect("runs"), row["lost_runs"].as_u64().expect("lost runs"));
            // On a busy machine slices are left out, of which some may be behind the figures.
            let left_out = row["left_out"].as_u64().expect("a count");
            assert!(runs >= 1 && runs + lost <= 1000 && runs + left_out + lost >= 1000, "{row}");
            assert!(row["achieved_rps"].is_f64(), "{row}");
            assert_eq!((rows[1]["runs"].as_u64(), rows[1]["lost"].as_str()), (Some(0), Some("1000 not run")));
            assert!(report["memory"]["peak_kib"].as_u64() > Some(1000), "{}", report["memory"]);
        } else {
            assert!(
                printed.contains("INCOMPLETE: interrupted; this is from what there is. Not begun: 2K."),
                "{printed}"
            );
            assert!(
                printed.contains("Not in the figures of base at 1K: ") && printed.contains("of 1000 runs"),
                "{printed}"
            );
        }
    }
}

#[test]
fn histograms_that_cannot_be_kept_end_it_with_the_table() {
    if !two_cpus("histograms_that_cannot_be_kept_end_it_with_the_table") {
        return;
    }
    let folder = Folder::new("partial-out");
    let out = folder.file("histograms");
    std::fs::create_dir_all(format!("{out}/base-1k.hlog")).expect("a folder where a file is to be");
    let output = start(&[&MANY[..], &["--out", &out]].concat()).wait_with_output().expect("it ends");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("the comparison ended early: cannot write"), "{}", said(&output));
    assert_eq!(said(&output).lines().count(), 1);
    assert!(printed.contains("1K/s offered") && printed.contains("999 not run"), "{printed}");
}

/// A generator of a comparison, once there is one that is not `other`.
fn generator_of(parent: &mut Child, other: Option<u32>) -> u32 {
    let begun = Instant::now();
    let children = format!("/proc/{0}/task/{0}/children", parent.id());
    loop {
        let text = std::fs::read_to_string(&children).unwrap_or_default();
        let mut pids = text.split_whitespace().map(|pid| pid.parse().expect("a number"));
        if let Some(pid) = pids.find(|pid| Some(*pid) != other) {
            return pid;
        }
        let ended = parent.try_wait().expect("it can be asked");
        assert!(begun.elapsed() < PATIENCE && ended.is_none(), "there is no generator: {ended:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_run_that_fails_takes_no_other_with_it() {
    if !two_cpus("a_run_that_fails_takes_no_other_with_it") {
        return;
    }
    let options = ["--dev", "memif", "--modes", "base", "--load", "1k", "--runs", "3", "--seconds", "1", "--json"];
    let mut napier = start(&[&["compare"][..], &options].concat());
    // The first one is that of a short run which tells what a request costs.
    let first = generator_of(&mut napier, None);
    signal(generator_of(&mut napier, Some(first)), "KILL");
    let output = napier.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).starts_with("napier: 1 run failed: base at 1K: "), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let row = &report["rows"][0];
    // On a busy machine one of the two that are left may not count.
    assert!(row["runs"].as_u64().is_some_and(|runs| (1..=2).contains(&runs)), "{row}");
    assert_eq!(row["lost_runs"], Value::from(1), "{row}");
    assert_eq!(report["failures"].as_array().map(Vec::len), Some(1), "{}", report["failures"]);
    assert_eq!(report["ended"], Value::Null);
}
