//! `napier run` and `napier host undo`, with programs that know nothing of it; what is in force is read by a script that is none of
//! ours.

#[path = "run/apart.rs"]
mod apart;
#[path = "run/attach.rs"]
mod attach;
#[path = "run/common.rs"]
mod bench;
mod common;
#[path = "run/faults.rs"]
mod faults;
#[path = "run/keep.rs"]
mod keep;
#[path = "run/ledger.rs"]
mod ledger;
#[path = "run/loops.rs"]
mod loops;
#[path = "run/mode.rs"]
mod mode;
#[path = "run/programs.rs"]
mod programs;
#[path = "run/queues.rs"]
mod queues;
#[path = "run/rings.rs"]
mod rings;
#[path = "run/seen.rs"]
mod seen;
#[path = "run/steer.rs"]
mod steer;
#[path = "run/strict.rs"]
mod strict;
#[path = "run/targets.rs"]
mod targets;
#[path = "run/trial.rs"]
mod trial;
#[path = "run/trial_named.rs"]
mod trial_named;

use bench::{Bench, end, kill, said, stderr};
use common::{NAPIER, refused, text};
use napier_testkit::eventually;
use serde_json::json;

/// Makes an epoll instance with a socket in it, says its number, and waits for ever.
const WAITS: &str = "
import select, socket, os
e = select.epoll(); s = socket.socket(); s.bind(('10.79.0.1', 0)); s.listen(); e.register(s.fileno())
print(os.getpid())
e.poll(60)
";

/// What suspend20 makes of a NAPI instance.
const SUSPENDED: [u64; 3] = [100, 20_000, 20_000_000];

/// What suspend20 makes of an epoll instance: busy-poll time, budget, preference.
const SUSPEND20: [u64; 3] = [0, 64, 1];

fn epoll_of(bench: &Bench, pid: u32) -> Vec<Vec<u64>> {
    let found = bench.fds(pid)["epoll"].clone();
    let all: Vec<Vec<u64>> = serde_json::from_value(found).expect("numbers");
    all.into_iter().map(|one| one[1..].to_vec()).collect()
}

fn is_suspended(bench: &Bench) -> bool {
    bench.deferrals().iter().all(|one| *one == SUSPENDED)
}

#[test]
fn a_mode_is_in_force_while_its_program_runs() {
    let test = "a_mode_is_in_force_while_its_program_runs";
    let Some(bench) = Bench::new(test) else { return };
    let at_first = bench.napis();
    let (running, pid) = bench.waits("suspend20", &["--json"]);
    assert!(is_suspended(&bench), "{}", bench.napis());
    eventually("its epoll instance is set", || epoll_of(&bench, pid) == [SUSPEND20]);
    // The signal goes to the program, whose end is this command's.
    let (status, said) = end(running, "-TERM");
    assert_eq!(status, Some(128 + 15), "{said}");
    let report: serde_json::Value = serde_json::from_str(said.trim()).expect("JSON");
    assert_eq!(
        (&report["epolls_set"], &report["status"], &report["left"]),
        (&json!(1), &json!(143), &json!([])),
        "{report}"
    );
    assert_eq!(bench.napis(), at_first);
    assert!(bench.is_clean());
}

#[test]
fn sockets_and_those_that_they_accept_busy_poll() {
    let test = "sockets_and_those_that_they_accept_busy_poll";
    let Some(bench) = Bench::new(test) else { return };
    let script = "
import os, socket, sys, time
s = socket.socket(); u = socket.socket(type=socket.SOCK_DGRAM); x = socket.socket(socket.AF_UNIX)
s.bind(('127.0.0.1', 0)); s.listen()
print(os.getpid())
time.sleep(0.5)
c = socket.create_connection(s.getsockname()); a, _ = s.accept()
time.sleep(60)
";
    // Loopback is down in a new namespace.
    bench.run("ip", &["link", "set", "lo", "up"]);
    let (running, pid) = bench.python("busy-read", &[], script);
    let pid = pid.parse().expect("a number");
    let sockets = || bench.fds(pid)["sockets"].as_array().expect("a list").clone();
    eventually("all sockets are set", || {
        sockets().len() == 4 && sockets().iter().all(|socket| socket[1] == 400 && socket[2] == 1)
    });
    let (status, said) = end(running, "-INT");
    // Python takes it as an exception, and ends by it.
    assert_eq!(status, Some(128 + 2), "{said}");
    assert!(bench.is_clean());
}

#[test]
fn the_status_and_the_output_are_the_programs() {
    let test = "the_status_and_the_output_are_the_programs";
    let Some(bench) = Bench::new(test) else { return };
    let at_first = bench.napis();
    let run =
        |mode: &str, script: &str| bench.napier(&["run", "--dev", "server", "--mode", mode, "--", "sh", "-c", script]);
    let output = run("threaded", "echo out; echo err >&2; exit 7");
    assert_eq!((output.status.code(), text(&output).as_str()), (Some(7), "out\n"));
    assert_eq!(stderr(&output), "err\n");
    let output = run("base", "kill -USR1 $$");
    assert_eq!(output.status.code(), Some(128 + 10));
    // What it inherits is what it would without this command.
    let inherited =
        "grep -E 'SigBlk|SigIgn|NoNewPrivs|Seccomp:' /proc/self/status; ls /proc/self/fd; env | grep -v ^_=; pwd";
    let plain = bench.output(bench.command("sh").args(["-c", inherited]));
    assert_eq!(text(&run("suspend20", inherited)), text(&plain));
    let ignoring = |program: &[&str]| {
        let mut command = bench.command("env");
        let output = bench.output(command.arg("--ignore-signal=INT,TERM,HUP,CHLD,USR1").args(program));
        assert!(output.status.success(), "{}", stderr(&output));
        text(&output)
    };
    let napier = [NAPIER, "run", "--dev", "server", "--mode", "suspend20", "--", "sh", "-c", inherited];
    assert_eq!(ignoring(&napier), ignoring(&["sh", "-c", inherited]));
    let output = bench.napier(&["run", "--dev", "server", "--mode", "suspend20", "--", "no-such-program"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("no-such-program cannot be started"), "{}", stderr(&output));
    assert_eq!(bench.napis(), at_first);
    assert!(bench.is_clean());
}

#[test]
fn a_dry_run_names_everything_and_changes_nothing() {
    let test = "a_dry_run_names_everything_and_changes_nothing";
    let Some(bench) = Bench::new(test) else { return };
    let at_first = bench.napis();
    let args = ["run", "--dev", "server", "--mode", "suspend20", "--dry-run", "--", "true"];
    let output = bench.napier(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = text(&output);
    assert!(said.contains("gro-flush-timeout of NAPI instance") && said.contains(": 0 -> 20000\n"), "{said}");
    assert!(said.contains("every epoll descriptor of the program: busy_poll_usecs 0, budget 64, prefer 1"), "{said}");
    let output = bench.napier(&[&args[..6], &["--json"], &args[6..]].concat());
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let lines = document["lines"].as_array().expect("a list");
    assert_eq!(lines.len(), 8, "{document}");
    assert_eq!(lines.iter().filter(|line| line["changes"] == true).count(), 6, "{document}");
    assert_eq!(bench.napis(), at_first);
    assert!(!std::path::Path::new(&bench.folder.file("state")).exists());
}

#[test]
fn what_a_killed_run_left_is_put_back_by_the_next_command() {
    let test = "what_a_killed_run_left_is_put_back_by_the_next_command";
    let Some(bench) = Bench::new(test) else { return };
    let at_first = bench.napis();
    let (running, pid) = bench.waits("suspend20", &[]);
    eventually("its epoll instance is set", || epoll_of(&bench, pid) == [SUSPEND20]);
    // Two runs on one interface refuse each other, and no command touches what a living run has changed.
    let second = bench.napier(&["run", "--dev", "server", "--mode", "base", "--", "true"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(stderr(&second).contains(&format!("another napier (pid {})", running.0.id())), "{}", stderr(&second));
    assert!(is_suspended(&bench));
    end(running, "-KILL");
    assert!(is_suspended(&bench), "nobody was there to put it back");
    let said = bench.undo(&["--stale"]);
    assert!(said.contains("put back 7 of what the napier with pid"), "{said}");
    assert_eq!(bench.napis(), at_first);
    assert_eq!(epoll_of(&bench, pid), [[0, 0, 0]], "the program lives on, as it was");
    assert!(bench.is_clean());
    kill(pid, "-KILL");
    let nothing = bench.napier(&["host", "undo", "--json"]);
    assert_eq!(text(&nothing), "{\"held\":[],\"undone\":[]}\n");
}

#[test]
fn a_value_that_was_changed_meanwhile_is_left_and_said() {
    let test = "a_value_that_was_changed_meanwhile_is_left_and_said";
    let Some(bench) = Bench::new(test) else { return };
    let go = bench.folder.file("go");
    let script = format!(
        "
import os, time
print('on')
while not os.path.exists('{go}'):
    time.sleep(0.01)
"
    );
    let (mut running, _) = bench.python("defer20", &[], &script);
    let change = napier_linux::change::DeviceRef { ifindex: bench.server().ifindex(), name: "server".to_owned() };
    let file = napier_linux::change::Key::device_file(&change, "gro_flush_timeout");
    bench.server().netns().run(|| file.write("7777")).expect("entered").expect("written");
    std::fs::write(&go, "").expect("written");
    assert_eq!(running.0.wait().expect("it ends").code(), Some(0));
    let said = said(&mut running);
    assert_eq!(said.matches("another program changed it meanwhile").count(), 2, "{said}");
    let napis = bench.napis();
    assert!(napis.as_array().expect("a list").iter().all(|napi| napi["gro-flush-timeout"] == 7777), "{napis}");
    assert!(bench.is_clean());
}

#[test]
fn bad_usage_is_refused_before_anything_is_changed() {
    for (args, why) in [
        (&["run", "--dev", "lo", "--mode", "suspend20"][..], "nothing to run: give a program"),
        (&["run", "--dev", "lo", "--mode", "nonsense", "--", "true"], "is no mode"),
        (&["run", "--dev", "lo", "--mode", "suspend20000", "--", "true"], "out of range"),
        (&["run", "--dev", "lo", "--mode", "base", "--attach", "0"], "no process 0"),
        (&["run", "--dev", "lo", "--mode", "base", "--attach", "1", "--", "true"], "cannot be used with"),
    ] {
        refused(args, 2, why);
    }
    refused(&["run", "--dev", "no-such", "--mode", "base", "true"], 2, "no interface no-such");
}
