//! Several runs on one interface: each has the instances of its own receive queues, and no other is touched.

use std::process::Stdio;
use std::time::Duration;

use napier_testkit::{Dice, eventually, from_env};
use serde_json::{Value, json};

use super::bench::{Bench, end, kill, stderr};
use super::{SUSPENDED, WAITS};
use crate::common::{NAPIER, Running, kill_and_wait, text};

/// Kills in a test of seconds; `NAPIER_KILLS` for more.
const KILLS: u64 = 10;

fn bench(test: &str) -> Option<Bench> {
    let bench = Bench::with_queues(test, "server", 3, false)?;
    // No queue is as it was made, so that one that is put back to nothing shows.
    for (at, napi) in bench.napis().as_array().expect("a list").iter().enumerate() {
        let change = format!("{{\"id\": {}, \"gro-flush-timeout\": {}}}", napi["id"], 7000 + at);
        assert!(bench.napier(&["napi-set", "--json", &change]).status.success());
    }
    Some(bench)
}

fn has(values: &Value, wanted: [u64; 3]) -> bool {
    json!([values["defer-hard-irqs"], values["gro-flush-timeout"], values["irq-suspend-timeout"]]) == json!(wanted)
}

const DEFERRED: [u64; 3] = [100, 200_000, 0];

/// A run that is in force, and its program.
fn run(bench: &Bench, mode: &str, queues: &str) -> (Running, u32) {
    bench.waits(mode, &["--queues", queues])
}

/// Ends a run, or kills it and its program; the next command puts back what is left.
fn finish(bench: &Bench, (running, program): (Running, u32), is_killed: bool) {
    if is_killed {
        end(running, "-KILL");
        kill_and_wait(program);
        let said = bench.undo(&["--stale"]);
        assert!(!said.contains("left by"), "{said}");
    } else {
        let (status, said) = end(running, "-TERM");
        assert_eq!(status, Some(143), "{said}");
        assert!(!said.contains("not put back") && !said.contains("is left"), "{said}");
    }
}

#[test]
fn two_runs_have_queues_of_their_own_and_leave_the_third() {
    let Some(bench) = bench("two_runs_have_queues_of_their_own_and_leave_the_third") else { return };
    let at_first = bench.values();
    for is_first_over_first in [true, false] {
        for killed in [[false, false], [true, false], [false, true], [true, true]] {
            let one = run(&bench, "suspend20", "0");
            let two = run(&bench, "defer200", "2");
            let now = bench.values();
            assert!(has(&now[0], SUSPENDED) && has(&now[2], DEFERRED), "{now:?}");
            assert_eq!(now[1], at_first[1]);
            let (first, second, left, mode) =
                if is_first_over_first { (one, two, 2, DEFERRED) } else { (two, one, 0, SUSPENDED) };
            finish(&bench, first, killed[0]);
            let now = bench.values();
            assert!(has(&now[left], mode), "the other run goes on: {now:?}");
            (0..3).filter(|at| *at != left).for_each(|at| assert_eq!(now[at], at_first[at], "queue {at}"));
            finish(&bench, second, killed[1]);
            assert_eq!(bench.values(), at_first);
            assert!(bench.is_clean());
        }
    }
}

#[test]
fn what_another_run_has_is_refused_and_named() {
    let Some(bench) = bench("what_another_run_has_is_refused_and_named") else { return };
    let at_first = bench.values();
    let one = run(&bench, "suspend20", "0-1");
    let pid = one.0.0.id();
    let in_force = bench.values();
    let refused = |more: &[&str], in_other_folder: bool| {
        let mut command = bench.command(NAPIER);
        if in_other_folder {
            command.env("NAPIER_STATE_DIRECTORY", bench.folder.file("other"));
        }
        command.args(["run", "--dev", "server", "--mode", "defer200"]).args(more).args(["--", "true"]);
        let output = bench.output(&mut command);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        stderr(&output)
    };
    for in_other_folder in [false, true] {
        let said = refused(&["--queues", "1-2"], in_other_folder);
        let whose = if in_other_folder { "queue 1 of server" } else { "queues 0-1 of server" };
        assert!(said.contains(&format!("another napier (pid {pid}) has {whose}")), "{said}");
        assert!(said.contains("napier run --queues") && said.contains("napier host show"), "{said}");
        let said = refused(&[], in_other_folder);
        assert!(said.contains(&format!("another napier (pid {pid}) has queue")), "{said}");
    }
    let tuned = bench.napier(&["host", "tune", "--dev", "server"]);
    assert!(!tuned.status.success() && stderr(&tuned).contains(&format!("pid {pid}")), "{}", stderr(&tuned));
    assert_eq!(bench.values(), in_force);
    // Who has the whole interface has each queue.
    finish(&bench, one, false);
    let (whole, program) = bench.waits("suspend20", &[]);
    let said = refused(&["--queues", "2"], true);
    assert!(said.contains(&format!("another napier (pid {}) has server:", whole.0.id())), "{said}");
    finish(&bench, (whole, program), false);
    assert_eq!(bench.values(), at_first);
}

#[test]
fn queues_that_are_not_there_are_refused() {
    let Some(bench) = bench("queues_that_are_not_there_are_refused") else { return };
    let at_first = bench.napis();
    let refused = |queues: &str, status: i32| {
        let output = bench.napier(&["run", "--dev", "server", "--mode", "suspend20", "--queues", queues, "--", "true"]);
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        stderr(&output)
    };
    let said = refused("2-3", 1);
    assert!(said.contains("server has no receive queue 3") && said.contains("it has 0-2"), "{said}");
    assert!(refused("a", 2).contains("0-3,6"));
    // No veth has flow rules.
    let port = |more: &[&str]| {
        let args =
            [&["run", "--dev", "server", "--mode", "suspend20", "--port", "11211"], more, &["--", "true"]].concat();
        let output = bench.napier(&args);
        (output.status.code(), stderr(&output))
    };
    let (status, said) = port(&["--queues", "1"]);
    assert!(status == Some(1) && said.contains("takes no flow rules") && said.contains("--steer"), "{status:?} {said}");
    assert!(matches!(port(&[]), (Some(2), said) if said.contains("give --queues N too")));
    assert_eq!(bench.napis(), at_first);
    assert!(bench.is_clean());
}

#[test]
fn each_owner_is_shown() {
    let Some(bench) = bench("each_owner_is_shown") else { return };
    let (one, two) = (run(&bench, "suspend20", "0,2"), run(&bench, "defer200", "1"));
    let said = text(&bench.napier(&["host", "show"]));
    for (run, name) in [(&one, "queues 0,2 of server: "), (&two, "queue 1 of server: ")] {
        let line = said.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {said}"));
        assert!(line.contains(&format!("by napier run, pid {}", run.0.0.id())), "{line}");
    }
    assert!(said.contains("(queue 1) of server: 7001 -> 200000"), "{said}");
    let document: Value = serde_json::from_str(&text(&bench.napier(&["host", "show", "--json"]))).expect("JSON");
    let mut shown: Vec<Value> = document["changed"].as_array().expect("a list").clone();
    shown.sort_by_key(|one| one["queues"].to_string());
    assert_eq!((&shown[0]["name"], &shown[0]["queues"]), (&json!("server"), &json!([0, 2])));
    assert_eq!((&shown[1]["queues"], &shown[1]["pid"]), (&json!([1]), &json!(two.0.0.id())));
    // By a command whose journals are elsewhere too.
    let mut elsewhere = bench.command(NAPIER);
    elsewhere.env("NAPIER_STATE_DIRECTORY", bench.folder.file("other")).args(["host", "show"]);
    let said = text(&bench.output(&mut elsewhere));
    assert!(said.contains(&format!("queues 0,2 of server: another napier, pid {}", one.0.0.id())), "{said}");
    finish(&bench, two, false);
    finish(&bench, one, false);
}

#[test]
fn an_interface_that_goes_down_and_up_gets_the_modes_of_its_queues_again() {
    let Some(bench) = bench("an_interface_that_goes_down_and_up_gets_the_modes_of_its_queues_again") else { return };
    let at_first = bench.values();
    let (one, two) = (run(&bench, "suspend20", "2"), run(&bench, "defer200", "0"));
    for how in [&["link", "set", "server", "down"][..], &["link", "set", "server", "up"]] {
        assert!(bench.output(bench.command("ip").args(how)).status.success());
    }
    eventually("both are in force again", || {
        let now = bench.values();
        has(&now[2], SUSPENDED) && has(&now[0], DEFERRED)
    });
    // The kernel has made it anew.
    let third = bench.values()[1].clone();
    finish(&bench, one, true);
    finish(&bench, two, false);
    let now = bench.values();
    assert_eq!((&now[0], &now[1], &now[2]), (&at_first[0], &third, &at_first[2]));
    assert!(bench.is_clean());
}

/// Two runs are killed at any moment, together with what they have started; a third one and the third queue are as they were.
#[test]
fn runs_that_are_killed_at_any_moment_leave_nothing() {
    let Some(bench) = bench("runs_that_are_killed_at_any_moment_leave_nothing") else { return };
    let kills = from_env("NAPIER_KILLS", KILLS);
    let at_first = bench.values();
    let mut dice = Dice(0x5eed);
    // It outlives the kills on a machine that is busy.
    let (running, program) = bench.python("suspend20", &["--queues", "2"], &WAITS.replace("poll(60)", "poll(3600)"));
    let third = (running, program.parse().expect("a number"));
    for at in 0..kills {
        let start = |mode: &str, queue: &str| {
            let mut command = bench.command(NAPIER);
            command.args(["run", "--dev", "server", "--mode", mode, "--queues", queue, "--", "sleep", "5"]);
            Running(bench.spawn(command.stderr(Stdio::null())))
        };
        let runs = [start("suspend20", "0"), start("defer200", "1")];
        std::thread::sleep(Duration::from_micros(dice.roll(60_000)));
        let order = usize::from(dice.roll(2) == 1);
        for run in [&runs[order], &runs[1 - order]] {
            let started = napier_linux::process::descendants(run.0.id());
            kill(run.0.id(), "-KILL");
            started.iter().for_each(|program| {
                drop(
                    std::process::Command::new("kill")
                        .args(["-KILL", &program.to_string()])
                        .stderr(Stdio::null())
                        .status(),
                )
            });
        }
        drop(runs);
        let said = bench.undo(&["--stale"]);
        let now = bench.values();
        assert_eq!((&now[0], &now[1]), (&at_first[0], &at_first[1]), "{at}: {said}");
        assert!(has(&now[2], SUSPENDED), "{at}: {now:?}");
    }
    finish(&bench, third, false);
    assert_eq!(bench.values(), at_first);
    assert!(bench.is_clean());
}
