//! Event loops that were not made for this: what a mode does to their passes, timers, wake-ups and signals.
//!
//! Nothing is asserted of how long they took: a wait without time that waits is seen in what the library counts, and is printed by `how_long_loops_take`.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use napier_testkit::{eventually, python};
use serde_json::Value;

use super::bench::{Bench, end, stderr};
use super::epoll_of;
use crate::common::{NAPIER, Running, has};

fn source(name: &str) -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/run/loops")
        .join(name)
        .to_str()
        .expect("a plain path")
        .to_owned()
}

/// A program in C; `None`, said aloud, where it cannot be built.
pub(super) fn built(test: &str, bench: &Bench, name: &str, libraries: &[&str]) -> Option<String> {
    let program = bench.folder.file(name);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-w", "-o", &program, &source(&format!("{name}.c"))]).args(libraries).arg("-lpthread");
    match cc.output() {
        Ok(output) if output.status.success() => Some(program),
        Ok(_) if !libraries.is_empty() => {
            napier_testkit::skip!(test, "{name} cannot be built: headers for {libraries:?} are not installed");
            None
        }
        Ok(output) => panic!("{}", stderr(&output)),
        Err(_) => {
            napier_testkit::skip!(test, "cc is not installed");
            None
        }
    }
}

/// Runs a loop under a mode, with a peer whose bytes it echoes. What it says of itself, and the counts of the library.
fn refereed(bench: &Bench, mode: &str, more: &[&str], program: &[&str]) -> Value {
    let go = bench.folder.file("go");
    let _ = std::fs::remove_file(&go);
    let mut peer = Command::new(python());
    peer.arg(source("peer.py")).stderr(Stdio::null());
    let _peer = Running(bench.client().netns().run(|| peer.spawn()).expect("entered").expect("it starts"));
    let mut command = bench.command(NAPIER);
    command.args(["run", "--dev", "server", "--mode", mode]).args(more).args(["--", python()]);
    command.args([&source("referee.py"), &go]).args(program).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut running, pid) = bench.begin(&mut command);
    let pid = pid.parse().expect("a number");
    if ["fullbusy", "napibusy", "suspend20"].contains(&mode) {
        eventually("its epoll instances are set", || {
            let all = epoll_of(bench, pid);
            !all.is_empty() && all.iter().all(|one| one[2] == 1)
        });
    }
    std::fs::write(&go, "").expect("written");
    let (mut said, mut errors) = (String::new(), String::new());
    running.0.stdout.take().expect("it is piped").read_to_string(&mut said).expect("text");
    running.0.stderr.take().expect("it is piped").read_to_string(&mut errors).expect("text");
    let status = running.0.wait().expect("it ends");
    assert!(status.success(), "{mode} {program:?}: {status} {said} {errors}");
    let said: Value =
        serde_json::from_str(said.trim()).unwrap_or_else(|_| panic!("{mode} {program:?}: {said} {errors}"));
    assert_eq!((&said["said"][0], &said["status"]), (&"done".into(), &0.into()), "{mode} {program:?}: {said} {errors}");
    assert_eq!(said["said"][1], "0", "{mode} {program:?}: a timer was early, or a signal was lost: {said}");
    said
}

fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{value}"))
}

/// Each mode that touches programs, on one loop. Under `fullbusy` its passes poll seldom, and wait never.
fn under_all_modes(test: &str, bench: &Bench, program: &[&str]) {
    for mode in ["napibusy", "suspend20", "busy-read"] {
        refereed(bench, mode, &[], program);
    }
    let said = refereed(bench, "fullbusy", &[], program);
    let [_, loops, turns_of_none, _] = [0, 1, 2, 3].map(|nth| number(&said["counts"][nth]));
    // 2000 passes, each of which was a busy loop of 1 ms once: what is left are those of timers and of waits for other threads. And the longer
    // it takes the more waits the peer ends, which sends a byte each 10 ms at most, and the more there are of 10 ms for the last one.
    assert!(loops < 1000 + number(&said["took_ms"]) / 5, "{test}: {said}");
    let passes_us = number(&said["said"][2]);
    assert!(turns_of_none <= passes_us / 100 + 1000, "{test}: {said}");
}

#[test]
fn a_loop_of_epoll_waits_as_without_a_mode() {
    let test = "a_loop_of_epoll_waits_as_without_a_mode";
    let Some(bench) = Bench::new(test) else { return };
    let Some(program) = built(test, &bench, "epoll_loop", &[]) else { return };
    under_all_modes(test, &bench, &[&program]);
    let said = refereed(&bench, "fullbusy", &["--strict"], &[&program]);
    // It polled for the socket in the long waits, and held calls of the library's own would have been set by others.
    assert!(number(&said["counts"][3]) > 0, "{said}");
}

#[test]
fn asyncio_goes_on_as_without_a_mode() {
    let test = "asyncio_goes_on_as_without_a_mode";
    let Some(bench) = Bench::new(test) else { return };
    under_all_modes(test, &bench, &[python(), &source("asyncio_loop.py")]);
}

#[test]
fn node_goes_on_as_without_a_mode() {
    let test = "node_goes_on_as_without_a_mode";
    let Some(bench) = Bench::new(test).filter(|_| has(test, "node")) else { return };
    under_all_modes(test, &bench, &["node", &source("node_loop.js")]);
}

#[test]
fn libuv_libevent_and_libev_go_on_as_without_a_mode() {
    let test = "libuv_libevent_and_libev_go_on_as_without_a_mode";
    let Some(bench) = Bench::new(test) else { return };
    for (name, library) in [("libuv_loop", "-luv"), ("libevent_loop", "-levent"), ("libev_loop", "-lev")] {
        if let Some(program) = built(test, &bench, name, &[library]) {
            under_all_modes(test, &bench, &[&program]);
        }
    }
}

#[test]
fn a_selector_of_java_goes_on_as_without_a_mode() {
    let test = "a_selector_of_java_goes_on_as_without_a_mode";
    let Some(bench) = Bench::new(test).filter(|_| has(test, "javac")) else { return };
    let folder = bench.folder.file("classes");
    let compiled = Command::new("javac").args(["-d", &folder, &source("Loop.java")]).output().expect("it starts");
    assert!(compiled.status.success(), "{}", stderr(&compiled));
    under_all_modes(test, &bench, &["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", &folder, "Loop"]);
}

/// A loop whose libraries are fetched: built in a folder of its own, which nothing of the workspace depends on. `None`, said aloud, where it
/// cannot be.
fn fetched(test: &str, bench: &Bench, name: &str) -> Option<Vec<String>> {
    let folder = bench.folder.file(name);
    let (tool, build, program) = match name {
        "tokio" => {
            let built = format!("{folder}/target/release/tokio_loop");
            ("cargo", "cargo build --quiet --release --target-dir target".to_owned(), vec![built])
        }
        "netty" => {
            let build =
                "mvn -q dependency:copy-dependencies -DoutputDirectory=jars && javac -cp 'jars/*' -d . NettyLoop.java";
            let path = format!("{folder}:{folder}/jars/*");
            ("mvn", build.to_owned(), ["java", "-Xshare:auto", "-cp", &path, "NettyLoop"].map(str::to_owned).to_vec())
        }
        other => panic!("{other}"),
    };
    if !has(test, tool) {
        return None;
    }
    let copied = Command::new("cp").args(["-r", &source(name), &folder]).status().expect("cp");
    assert!(copied.success());
    let output = Command::new("sh").args(["-c", &build]).current_dir(&folder).output().expect("a shell");
    if output.status.success() {
        return Some(program);
    }
    napier_testkit::skip!(test, "{name} cannot be built here: {}", stderr(&output).lines().next().unwrap_or_default());
    None
}

#[test]
#[ignore = "fetches libraries: cargo test -p napier --test run -- --ignored --nocapture tokio_and_netty"]
fn tokio_and_netty_go_on_as_without_a_mode() {
    let test = "tokio_and_netty_go_on_as_without_a_mode";
    let Some(bench) = Bench::new(test) else { return };
    for program in ["tokio", "netty"].into_iter().filter_map(|name| fetched(test, &bench, name)) {
        under_all_modes(test, &bench, &program.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// What napier says while a program runs that it cannot reach.
fn said_of(bench: &Bench, program: &[&str], wanted: &str) {
    let mut command = bench.command(NAPIER);
    command.args(["run", "--dev", "server", "--mode", "fullbusy", "--"]).args(program);
    let (mut running, pid) = bench.begin(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut stderr = std::io::BufReader::new(running.0.stderr.take().expect("it is piped"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stderr, &mut line).expect("text");
    assert!(line.contains(wanted) && line.contains(&pid), "{line}");
    running.0.stderr = Some(stderr.into_inner());
    end(running, "-TERM");
}

#[test]
fn programs_that_never_meet_the_library_are_told() {
    let test = "programs_that_never_meet_the_library_are_told";
    let Some(bench) = Bench::new(test) else { return };
    let Some(raw) = built(test, &bench, "raw_loop", &[]) else { return };
    said_of(&bench, &[&raw], "asks the kernel itself");
    // A script cannot be told from outside: what it starts is.
    let fixed = bench.folder.file("static");
    let cc =
        Command::new("cc").args(["-static", "-w", "-o", &fixed, &source("raw_loop.c")]).output().expect("it starts");
    if cc.status.success() {
        said_of(&bench, &["sh", "-c", "\"$0\"", &fixed], "has not loaded the library");
    } else {
        napier_testkit::skip!(test, "no static C library is installed");
    }
    if !has(test, "go") {
        return;
    }
    let program = bench.folder.file("go-loop");
    let go = Command::new("go").args(["build", "-o", &program, &source("loop.go")]).env("CGO_ENABLED", "1").output();
    let go = go.expect("it starts");
    assert!(go.status.success(), "{}", stderr(&go));
    said_of(&bench, &[&program], "asks the kernel itself");
}

/// Prints what 2000 passes and 200 wake-ups take, without a mode and under each.
#[test]
#[ignore = "a measurement: cargo test -p napier --test run -- --ignored --nocapture how_long_loops_take"]
fn how_long_loops_take() {
    let test = "how_long_loops_take";
    let Some(bench) = Bench::new(test) else { return };
    let own = |name: &str, libraries: &[&str]| built(test, &bench, name, libraries).map(|program| vec![program]);
    let loops = [
        own("epoll_loop", &[]),
        own("libuv_loop", &["-luv"]),
        own("libevent_loop", &["-levent"]),
        own("libev_loop", &["-lev"]),
        Some(vec![python().to_owned(), source("asyncio_loop.py")]),
        has(test, "node").then(|| vec!["node".to_owned(), source("node_loop.js")]),
        fetched(test, &bench, "tokio"),
        fetched(test, &bench, "netty"),
    ];
    for program in loops.iter().flatten() {
        let program: Vec<&str> = program.iter().map(String::as_str).collect();
        for round in 0..3 {
            for mode in ["base", "napibusy", "suspend20", "busy-read", "fullbusy"] {
                let said = refereed(&bench, mode, &[], &program);
                let (passes, wakes) = (number(&said["said"][2]), number(&said["said"][3]));
                let name = program.last().and_then(|name| name.rsplit('/').next()).unwrap_or_default();
                eprintln!(
                    "{name} {mode} round {round}: 2000 passes {passes} us, 200 wake-ups {wakes} us, counts {}",
                    said["counts"]
                );
            }
        }
    }
}

#[test]
fn a_program_that_forbids_itself_calls_meets_none_of_the_librarys() {
    let test = "a_program_that_forbids_itself_calls_meets_none_of_the_librarys";
    let Some(bench) = Bench::new(test) else { return };
    let script = "
import ctypes, select, time
counts = (ctypes.c_uint64 * 4).in_dll(ctypes.CDLL(None), 'napier_modes_counts')
e = select.epoll()
until = time.monotonic() + 20
while counts[1] == 0 and time.monotonic() < until:
    e.poll(0.01)
before = list(counts)
libc = ctypes.CDLL(None)
assert before[1] > 0 and libc.prctl(38, 1, 0, 0, 0) == 0
for _ in range(20):
    e.poll(0.01)
print(list(counts) == before)
";
    let output = bench.napier(&["run", "--dev", "server", "--mode", "fullbusy", "--", python(), "-c", script]);
    assert_eq!(
        (output.status.code(), crate::common::text(&output).as_str()),
        (Some(0), "True\n"),
        "{}",
        stderr(&output)
    );
}
