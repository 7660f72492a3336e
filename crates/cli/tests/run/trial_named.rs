//! `napier trial` of a unit, a container, a pod and a control group: of control groups that are there, with programs that tell their names as systemctl,
//! docker and crictl do.

use std::io::Read as _;
use std::process::Stdio;

use napier_testkit::{eventually, python};
use serde_json::Value;

use super::bench::{Bench, kill, said};
use super::seen::Client;
use super::targets::{Groups, ID, UID, tooled};
use super::trial::is_in_force;
use super::{WAITS, epoll_of, is_suspended};
use crate::common::Running;

const ECHO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/echo.py");

/// A trial that goes on for longer than any test, of what is named so.
fn begin(bench: &Bench, tools: &[(&str, String)], named: [&str; 2], (judges, block): (&[&str], &str)) -> Running {
    let mut command = tooled(bench, tools);
    command.args(["trial", "--dev", "server", "--modes", "suspend20", "--for", "1h", "--block", block, "--json"]);
    for judge in judges {
        command.args(["--judge", judge]);
    }
    Running(bench.spawn(command.args(named).stdout(Stdio::piped()).stderr(Stdio::piped())))
}

/// Lets blocks of the mode go by, ends the trial, and gives what it says: a block is so short that a program may get no CPU in one.
fn told(bench: &Bench, mut running: Running, what: &str) -> Value {
    for _ in 0..3 {
        eventually(&format!("{what} has the mode"), || is_suspended(bench));
        eventually(&format!("{what} has not the mode"), || !is_suspended(bench));
    }
    kill(running.0.id(), "-TERM");
    let mut out = String::new();
    running.0.stdout.take().expect("piped").read_to_string(&mut out).expect("text");
    assert_eq!(running.0.wait().expect("it ends").code(), Some(143), "{what}: {}", said(&mut running));
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{what}: {error}: {out}"))
}

/// A figure over all blocks, as far as it is known.
fn all(found: &Value, figure: &str) -> Vec<f64> {
    let blocks = found["blocks"].as_array().expect("a list");
    let values: Vec<f64> = blocks.iter().filter_map(|block| block["values"][figure].as_f64()).collect();
    assert!(!values.is_empty(), "{figure}: {found:#}");
    values
}

/// Two services on one interface: one has traffic, and the other waits. Whichever is named, its own figures judge.
#[test]
fn the_judges_of_a_trial_are_of_the_program_that_is_named() {
    let test = "the_judges_of_a_trial_are_of_the_program_that_is_named";
    let Some(bench) = Bench::new(test) else { return };
    let Some(groups) = Groups::new("judged") else { return };
    let at_first = bench.napis();
    let (unit, container) = ("system.slice/judged-busy.service".to_owned(), format!("docker-{ID}.scope"));
    let (pod, group) = (format!("kubepods/besteffort/pod{UID}/{ID}"), "judged-idle".to_owned());
    let mut command = bench.command(python());
    let (busy, pid) = bench.begin(command.args([ECHO, "epoll", "7081"]).stdout(Stdio::piped()));
    let busy_pid: u32 = pid.parse().expect("a number");
    let (idle, idle_pid) = bench.script(&WAITS.replace("poll(60)", "poll(600)"));
    let client = Client::begin(&bench, 7081);
    let systemctl = format!("ControlGroup={}\nLoadState=loaded", groups.path(&unit));
    let folder = groups.put(&group, idle_pid).display().to_string();
    /// Which program is where, what tools say, and how it is named.
    type NamedBy<'a> = (bool, &'a str, &'a [(&'a str, String)], [&'a str; 2]);
    let rows: [NamedBy<'_>; 4] = [
        (true, &unit, &[("systemctl", systemctl)], ["--unit", "busy"]),
        (false, &container, &[("docker", format!("{ID} 1"))], ["--container", "web"]),
        (true, &pod, &[], ["--pod", UID]),
        (false, &group, &[], ["--cgroup", &folder]),
    ];
    for (is_busy, path, tools, named) in rows {
        groups.put(path, if is_busy { busy_pid } else { idle_pid });
        let found = told(&bench, begin(&bench, tools, named, (&["sockets", "cpu"], "0.5s")), named[0]);
        let (segments, cpu) = (all(&found, "segments"), all(&found, "cpu"));
        if is_busy {
            assert!(segments.iter().sum::<f64>() > 0.0 && cpu.iter().sum::<f64>() > 0.0, "{named:?}: {found:#}");
        } else {
            assert!(segments.iter().all(|count| *count == 0.0), "{named:?}: {segments:?}");
            // It sleeps, whatever else this machine does.
            assert!(cpu.iter().all(|share| *share < 0.05), "{named:?}: {cpu:?}");
        }
        assert_eq!(found["left"], serde_json::json!([]), "{named:?}");
        assert_eq!((epoll_of(&bench, idle_pid), bench.napis()), (vec![vec![0, 0, 0]], at_first.clone()), "{named:?}");
        assert!(bench.is_clean());
    }
    client.end();
    drop((busy, idle));
}

/// Its program ends in the control group, and another one is there in its place, or none; what has no socket is no program.
#[test]
fn a_trial_ends_when_its_unit_is_started_anew_or_ends() {
    let test = "a_trial_ends_when_its_unit_is_started_anew_or_ends";
    let Some(bench) = Bench::new(test) else { return };
    let Some(groups) = Groups::new("anew") else { return };
    let at_first = bench.napis();
    let unit = "system.slice/anew-web.service";
    let tools = [("systemctl", format!("ControlGroup={}\nLoadState=loaded", groups.path(unit)))];
    let (beside, keeps) = bench.script("import os, time; print(os.getpid()); time.sleep(600)");
    groups.put(unit, keeps);
    for (is_anew, words) in [(true, "unit web was started anew: python3 (pid"), (false, "the program has ended")] {
        let (first, pid) = bench.script(WAITS);
        groups.put(unit, pid);
        let mut running = begin(&bench, &tools, ["--unit", "web"], (&["cpu"], "4s"));
        eventually("the mode is in force", || is_in_force(&bench, pid));
        let second = is_anew.then(|| bench.script(WAITS));
        second.iter().for_each(|(_, pid)| drop(groups.put(unit, *pid)));
        drop(first);
        let mut out = String::new();
        running.0.stdout.take().expect("piped").read_to_string(&mut out).expect("text");
        let err = said(&mut running);
        assert_eq!(running.0.wait().expect("it ends").code(), Some(1), "{err}");
        let found: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
        assert_eq!(found["ended"]["why"], "the program has ended", "{found:#}");
        assert!(err.contains(words), "{err}");
        if let Some((_, pid)) = &second {
            assert_eq!(epoll_of(&bench, *pid), [[0, 0, 0]], "the one that came is as it was");
        }
        assert_eq!(bench.napis(), at_first, "{err}");
        assert!(bench.is_clean());
    }
    drop(beside);
}
