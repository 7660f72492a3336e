//! `napier trial`: what it changes, and that all of it is back however it ends.

use std::process::Stdio;

use napier_testkit::{eventually, python};
use serde_json::Value;

use super::bench::{Bench, end, kill, said, stderr};
use super::{SUSPEND20, WAITS, epoll_of, is_suspended};
use crate::common::{NAPIER, Running, text};

/// A process that waits in epoll, and its number.
fn service(bench: &Bench) -> (Running, u32) {
    let (process, pid) = bench.begin(bench.command(python()).args(["-uc", WAITS]).stdout(Stdio::piped()));
    (process, pid.parse().expect("a number"))
}

/// With the epoll instance and the interface as suspend20 has them, or as they were.
pub(super) fn is_in_force(bench: &Bench, pid: u32) -> bool {
    is_suspended(bench) && epoll_of(bench, pid) == [SUSPEND20]
}

/// An interface and a service as they are before a trial.
struct Before {
    bench: Bench,
    _service: Running,
    pid: u32,
    epolls: Vec<Vec<u64>>,
    napis: Value,
}

impl Before {
    /// `None`, said aloud, where this machine lacks something.
    fn new(test: &str) -> Option<Self> {
        let bench = Bench::new(test)?;
        let napis = bench.napis();
        let (service, pid) = service(&bench);
        let epolls = epoll_of(&bench, pid);
        Some(Self { bench, _service: service, pid, epolls, napis })
    }

    /// Everything is as it was, and no journal is left.
    fn assert_is_back(&self, told: &str) {
        let now = (epoll_of(&self.bench, self.pid), self.bench.napis());
        assert_eq!((&now.0, &now.1), (&self.epolls, &self.napis), "{told}");
        assert!(self.bench.is_clean(), "{told}");
    }
}

/// A trial that goes on for longer than any test, in turns that are longer than a busy machine takes to look at one.
fn begin(bench: &Bench, pid: u32, modes: &str) -> Running {
    let mut command = bench.command(NAPIER);
    command.args(["trial", "--dev", "server", "--modes", modes, "--for", "1h", "--block", "4s", "--judge", "cpu"]);
    command.args(["--attach", &pid.to_string()]);
    Running(bench.spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())))
}

#[test]
fn modes_take_turns_and_everything_is_back() {
    let Some(before) = Before::new("modes_take_turns_and_everything_is_back") else { return };
    let Before { bench, pid, .. } = &before;
    let page = bench.folder.file("trial.html");
    let pid_text = pid.to_string();
    let mut args = vec!["trial", "--dev", "server", "--modes", "defer20,suspend20,defer20@2", "--for", "18s"];
    args.extend(["--block", "0.5s", "--attach", &pid_text, "--judge", "cpu", "--json", "--html", &page]);
    let output = bench.napier(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let blocks = found["blocks"].as_array().expect("a list");
    let of = |mode: &str| blocks.iter().filter(|block| block["mode"] == mode).count();
    let counts = ["base", "defer20", "suspend20", "defer20@2"].map(of);
    assert!(counts.iter().all(|count| *count == counts[0] && *count > 0), "{counts:?} {found:#}");
    assert!(blocks.iter().all(|block| block["values"]["cpu"].is_number()), "{found:#}");
    assert_eq!(found["reference"], "base");
    assert!(std::fs::read_to_string(&page).expect("written").contains("The blocks as they came"));
    before.assert_is_back("at the end");
}

#[test]
fn a_trial_that_is_told_to_end_puts_back_and_says_what_it_knows() {
    let Some(before) = Before::new("a_trial_that_is_told_to_end_puts_back_and_says_what_it_knows") else { return };
    let Before { bench, pid, .. } = &before;
    for (signal, status) in [("-TERM", 143), ("-INT", 130)] {
        let mut running = begin(bench, *pid, "base,suspend20");
        eventually("a mode is in force", || is_in_force(bench, *pid));
        kill(running.0.id(), signal);
        assert_eq!(running.0.wait().expect("it ends").code(), Some(status));
        let mut out = String::new();
        std::io::Read::read_to_string(&mut running.0.stdout.take().expect("piped"), &mut out).expect("text");
        assert!(out.starts_with("Undecided after") && out.contains("everything is as it was before"), "{out}");
        before.assert_is_back(signal);
    }
}

#[test]
fn what_a_killed_trial_left_is_put_back_by_the_next_command() {
    let Some(before) = Before::new("what_a_killed_trial_left_is_put_back_by_the_next_command") else { return };
    let Before { bench, pid, .. } = &before;
    // The second time two modes have taken each other's place in one journal.
    for modes in ["base,suspend20", "suspend20,suspend50"] {
        let running = begin(bench, *pid, modes);
        eventually("a mode is in force", || is_in_force(bench, *pid));
        end(running, "-KILL");
        let next = bench.napier(&["host", "undo"]);
        assert!(next.status.success(), "{}", stderr(&next));
        before.assert_is_back(&stderr(&next));
    }
}

#[test]
fn a_trial_ends_with_its_program_and_with_its_interface() {
    let Some(bench) = Bench::new("a_trial_ends_with_its_program_and_with_its_interface") else { return };
    let at_first = bench.napis();
    let (process, pid) = service(&bench);
    let mut running = begin(&bench, pid, "base,suspend20");
    eventually("a mode is in force", || is_in_force(&bench, pid));
    drop(process);
    assert_eq!(running.0.wait().expect("it ends").code(), Some(1));
    assert!(said(&mut running).contains("the program has ended"));
    assert_eq!(bench.napis(), at_first);
    assert!(bench.is_clean());
    let (process, pid) = service(&bench);
    let mut running = begin(&bench, pid, "base,suspend20");
    eventually("a mode is in force", || is_in_force(&bench, pid));
    bench.output(bench.command("ip").args(["link", "set", "server", "down"]));
    assert_eq!(running.0.wait().expect("it ends").code(), Some(1));
    assert!(said(&mut running).contains("down"));
    // It had no instances to put back to; now it has some.
    bench.output(bench.command("ip").args(["link", "set", "server", "up"]));
    let settings = |napis: Value| -> Vec<Value> {
        let all = napis.as_array().expect("a list").iter();
        all.map(|napi| serde_json::json!([napi["defer-hard-irqs"], napi["irq-suspend-timeout"]])).collect()
    };
    let next = bench.napier(&["host", "undo"]);
    assert!(next.status.success(), "{}", stderr(&next));
    assert_eq!(settings(bench.napis()), settings(at_first), "{}", stderr(&next));
    assert!(bench.is_clean());
    drop(process);
}

#[test]
fn a_dry_run_shows_turns_and_changes_and_changes_nothing() {
    let Some(bench) = Bench::new("a_dry_run_shows_turns_and_changes_and_changes_nothing") else { return };
    let at_first = bench.napis();
    let (process, pid) = service(&bench);
    let pid = pid.to_string();
    let output = bench.napier(&["trial", "--dev", "server", "--attach", &pid, "--judge", "cpu", "--dry-run"]);
    let out = text(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    for said in ["take turns of 20 s", "turns: ", "suspend20:", "irq-suspend-timeout", "seed 1"] {
        assert!(out.contains(said), "{said}: {out}");
    }
    let output = bench.napier(&["trial", "--dev", "server", "--attach", &pid, "--judge", "cpu", "--dry-run", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((found["turns"].as_array().map(Vec::len), found["modes"].as_array().map(Vec::len)), (Some(60), Some(3)));
    assert_eq!(bench.napis(), at_first);
    assert!(bench.is_clean());
    drop(process);
}

#[test]
fn what_cannot_be_tried_is_refused_before_anything_is_changed() {
    let Some(bench) = Bench::new("what_cannot_be_tried_is_refused_before_anything_is_changed") else { return };
    let at_first = bench.napis();
    let (process, pid) = service(&bench);
    let pid = pid.to_string();
    let usual = ["trial", "--dev", "server", "--attach", &pid];
    for (more, status, told) in [
        (&["--modes", "base,fullbusy"][..], 2, "take napibusy"),
        (&["--modes", "base"], 2, "nothing to be held against"),
        (&["--modes", "base,workqueue"], 1, "workqueue cannot be applied here"),
        (&["--for", "30s"], 2, "the fewest that can decide"),
        (&["--block", "2s", "--settle", "1.5s"], 2, "at most half of a block"),
        (&["--judge", "moon"], 2, "moon"),
        (&["--judge", "cpu", "--bound", "cpu<10%"], 2, "'cpu<+10%'"),
        (&["--judge", "cpu", "--guard", "p77<2ms"], 2, "no judge gives p77"),
        (&["--html", "/no/such/folder/x.html"], 2, "cannot write"),
    ] {
        let output = bench.napier(&[&usual[..], more].concat());
        assert_eq!(output.status.code(), Some(status), "{more:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{more:?}: {}", stderr(&output));
    }
    let output = bench.napier(&["trial", "--dev", "server"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--attach PID"), "{}", stderr(&output));
    assert_eq!(bench.napis(), at_first);
    assert!(bench.is_clean());
    drop(process);
}
