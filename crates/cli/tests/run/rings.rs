//! Programs that wait in io_uring: what reaches their rings, what does not and is said, and what is put back.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::time::Duration;

use napier_linux::change::DeviceRef;
use napier_linux::observe::{Observer, threads_of};
use napier_testkit::eventually;
use serde_json::{Value, json};

use super::bench::{Bench, end, stderr};
use super::loops::built;
use super::seen::Client;
use crate::common::{NAPIER, Running, text};

/// What a ring has: nothing, or its time in microseconds.
fn polling(pid: u32, ring: u32) -> Option<u64> {
    let mut found = None;
    // A ring that is in use in that moment shows nothing of itself.
    eventually("the kernel shows what the ring has", || {
        let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{ring}")).expect("it runs");
        let of = |name: &str| info.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
        let is_shown = of("NAPI:").is_some();
        found = of("napi_busy_poll_dt:").map(|ns| ns.parse::<u64>().expect("a number") / 1000);
        is_shown
    });
    found
}

/// Packets that came in a window, and polls by the program in it.
fn window(bench: &Bench, pid: u32) -> (u64, u64) {
    let device = DeviceRef { ifindex: bench.server().ifindex(), name: bench.server().name().to_owned() };
    let look = move || {
        let mut observer = Observer::new(device);
        observer.open();
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(20));
            observer.look();
        }
        let window = observer.close();
        let polls = window.polls.unwrap_or_else(|| panic!("{:?}", window.no_polls));
        (window.received.map_or(0, |received| received.packets), polls.by(&threads_of([pid])))
    };
    bench.server().netns().run(look).expect("entered")
}

/// The echo program, running; its process and its ring.
fn begin(bench: &Bench, program: &str, args: &[&str]) -> (Running, u32, u32) {
    let (running, said) = bench.begin(bench.command(program).args(args).stdout(Stdio::piped()));
    let (pid, ring) = numbers(&said);
    (running, pid, ring)
}

fn numbers(said: &str) -> (u32, u32) {
    let (pid, ring) = said.split_once(' ').expect("two numbers");
    (pid.parse().expect("a number"), ring.parse().expect("a number"))
}

/// `napier run --attach PID`, running, once the ring polls.
fn attach(bench: &Bench, pid: u32, ring: u32) -> Running {
    let dev = bench.server().name().to_owned();
    let mut command = bench.command(NAPIER);
    command.args(["run", "--dev", &dev, "--mode", "napibusy", "--attach", &pid.to_string()]);
    let running = Running(bench.spawn(command.stderr(Stdio::piped())));
    eventually("the ring is registered", || polling(pid, ring) == Some(64));
    running
}

/// Polls by the program come to a thousand, where there were none without a mode.
fn polls_by_itself(bench: &Bench, kind: &str, pid: u32) {
    let (mut polls, mut windows) = (0, 0);
    eventually("the program polls", || {
        polls += window(bench, pid).1;
        windows += 1;
        polls >= 1000
    });
    println!("{kind}: {polls} polls by the program in {windows} windows of 0.2 s");
}

#[test]
fn rings_of_each_kind_poll_and_are_put_back() {
    let test = "rings_of_each_kind_poll_and_are_put_back";
    let Some(bench) = Bench::of(test, "rings", false) else { return };
    let Some(program) = built(test, &bench, "ring_echo", &[]) else { return };
    let (at_first, go) = (bench.napis(), bench.folder.file("go"));
    for (kind, port) in [("plain", 7101), ("sqpoll", 7102), ("coop", 7103), ("disabled", 7104)] {
        let _ = std::fs::remove_file(&go);
        let (mut echo, pid, ring) = begin(&bench, &program, &[&port.to_string(), kind, &go]);
        assert_eq!(polling(pid, ring), None, "{kind}");
        let early = (kind == "disabled").then(|| attach(&bench, pid, ring));
        std::fs::write(&go, "").expect("written");
        let client = Client::begin(&bench, port);
        if early.is_none() {
            let (mut packets, mut polls) = (0, 0);
            eventually("packets come", || {
                let seen = window(&bench, pid);
                (packets, polls) = (packets + seen.0, polls + seen.1);
                packets > 100
            });
            assert_eq!(polls, 0, "{kind}, of {packets} packets");
        }
        let running = early.unwrap_or_else(|| attach(&bench, pid, ring));
        polls_by_itself(&bench, kind, pid);
        let mut found = Value::Null;
        // A ring that is in use in that moment shows nothing of itself.
        eventually("doctor sees that the ring polls", || {
            let asked = ["doctor", "--dev", bench.server().name(), "--pid", &pid.to_string(), "--json"];
            let doctor = bench.napier(&asked);
            found = serde_json::from_slice(&doctor.stdout).unwrap_or_else(|_| panic!("{}", stderr(&doctor)));
            found["facts"]["program"]["rings"][0]["busy_poll_usecs"] == 64
        });
        assert!(!found.to_string().contains("ring-not-polled"), "{}", found["findings"]);
        let (status, said) = end(running, "-INT");
        assert_eq!((status, polling(pid, ring)), (Some(0), None), "{kind}: {said}");
        assert!(bench.is_clean());
        // The next command is there for what a killed one leaves.
        end(attach(&bench, pid, ring), "-KILL");
        assert_eq!(polling(pid, ring), Some(64), "{kind}: nothing was there to put it back");
        bench.undo(&["--stale"]);
        assert_eq!((polling(pid, ring), bench.napis()), (None, at_first.clone()), "{kind}");
        assert!(bench.is_clean());
        client.end();
        assert!(echo.0.wait().expect("it ends").success());
    }
}

/// A run of the echo program that is loaded until something was said of packets. Its status, what was said, and its report.
fn loaded(bench: &Bench, args: &[&str], program: &[&str], port: u16) -> (Option<i32>, String, Value) {
    let dev = bench.server().name().to_owned();
    let mut command = bench.command(NAPIER);
    command.args(["run", "--dev", &dev, "--json", "--must-act", "--mode"]).args(args).arg("--").args(program);
    let (mut running, _) = bench.begin(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let client = Client::begin(bench, port);
    let mut err = BufReader::new(running.0.stderr.take().expect("it is piped"));
    let mut said = String::new();
    while !said.contains("packets came to") {
        assert!(err.read_line(&mut said).expect("it is text") > 0, "it ended: {said}");
    }
    client.end();
    err.read_to_string(&mut said).expect("it is text");
    let status = running.0.wait().expect("it can be waited for").code();
    let report = said.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("no report: {said}"));
    (status, said.clone(), serde_json::from_str(report).expect("JSON"))
}

#[test]
fn a_ring_of_one_thread_is_named_and_strict_is_in_time_for_it() {
    let test = "a_ring_of_one_thread_is_named_and_strict_is_in_time_for_it";
    let Some(bench) = Bench::of(test, "rings-single", false) else { return };
    let Some(program) = built(test, &bench, "ring_echo", &[]) else { return };
    let at_first = bench.napis();
    let (status, said, report) = loaded(&bench, &["napibusy"], &[&program, "7111", "single"], 7111);
    assert_eq!((status, &report["seen"]["acts"]), (Some(3), &json!("no")), "{said}");
    assert_eq!((&report["rings_set"], &report["rings_missed"][0]["fd"]), (&json!(0), &json!(4)), "{report}");
    let missed = "the mode does not reach the ring of io_uring at descriptor 4 of ring_echo (pid ";
    assert!(
        said.contains(missed) && said.contains("IORING_SETUP_SINGLE_ISSUER") && said.contains("--strict"),
        "{said}"
    );
    assert!(said.contains("not reached: the ring of io_uring at descriptor 4 of ring_echo"), "{said}");
    for (args, kind, port) in [
        (&["napibusy", "--strict"][..], "disabled-single", 7112),
        (&["busy-read", "--strict"], "disabled-single", 7113),
        (&["napibusy"], "plain", 7114),
        (&["fullbusy"], "coop", 7115),
    ] {
        let (status, said, report) = loaded(&bench, args, &[&program, &port.to_string(), kind], port);
        assert_eq!((status, &report["seen"]["acts"]), (Some(0), &json!("yes")), "{args:?} {kind}: {said}");
        assert_eq!((&report["rings_set"], &report["rings_missed"]), (&json!(1), &json!([])), "{args:?} {kind}: {said}");
    }
    assert_eq!(bench.napis(), at_first);
    // Nothing can take it from such a ring again, which is said, and is in no one's way.
    let go = bench.folder.file("go");
    let mut command = bench.command(NAPIER);
    command.args(["run", "--dev", bench.server().name(), "--mode", "napibusy", "--strict", "--"]);
    command.args([&program, "7116", "disabled-single", &go]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (running, said) = bench.begin(&mut command);
    let (pid, ring) = numbers(&said);
    eventually("the ring is registered", || polling(pid, ring) == Some(64));
    std::fs::write(&go, "").expect("written");
    let client = Client::begin(&bench, 7116);
    eventually("the ring is enabled", || window(&bench, pid).1 > 0);
    end(running, "-KILL");
    let said = bench.undo(&["--stale"]);
    assert!(said.contains("keeps what it has until it is closed"), "{said}");
    assert_eq!(bench.napis(), at_first);
    assert!(bench.is_clean());
    client.end();
}

#[test]
fn suspension_is_refused_for_rings_with_the_reason() {
    let test = "suspension_is_refused_for_rings_with_the_reason";
    let Some(bench) = Bench::of(test, "rings-suspend", false) else { return };
    let Some(program) = built(test, &bench, "ring_echo", &[]) else { return };
    let at_first = bench.napis();
    let (echo, pid, ring) = begin(&bench, &program, &["7121", "plain"]);
    for more in [&[][..], &["--dry-run"]] {
        let args = ["run", "--dev", bench.server().name(), "--mode", "suspend20", "--attach", &pid.to_string()];
        let refused = bench.napier(&[&args[..], more].concat());
        let said = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("only epoll suspends interrupts; take napibusy"), "{said}");
    }
    assert_eq!((polling(pid, ring), bench.napis()), (None, at_first.clone()));
    drop(echo);
    // Of one that is started it is known when it has its ring.
    let (status, said, report) = loaded(&bench, &["suspend20"], &[&program, "7122", "plain"], 7122);
    assert_eq!((status, &report["seen"]["acts"], &report["rings_set"]), (Some(3), &json!("no"), &json!(0)), "{said}");
    assert!(said.contains("only epoll suspends interrupts") && said.contains("Take napibusy"), "{said}");
    let program_lines = report["program"].to_string();
    assert!(program_lines.contains("rings of io_uring of the program: left"), "{program_lines}");
    assert_eq!(bench.napis(), at_first);
    assert!(bench.is_clean());
}

#[test]
fn a_ring_that_its_program_has_registered_has_that_again() {
    let test = "a_ring_that_its_program_has_registered_has_that_again";
    let Some(bench) = Bench::of(test, "rings-own", false) else { return };
    let Some(program) = built(test, &bench, "ring_echo", &[]) else { return };
    // Its own time, and the mode's.
    for (own, port) in [(30, "7131"), (64, "7132")] {
        let (_echo, pid, ring) = begin(&bench, &program, &[port, "plain", "/", &own.to_string()]);
        assert_eq!(polling(pid, ring), Some(own));
        for signal in ["-INT", "-KILL"] {
            let running = attach(&bench, pid, ring);
            let mut noted = String::new();
            eventually("it is noted", || {
                noted = text(&bench.napier(&["host", "show"]));
                noted.contains("descriptors of ring_echo")
            });
            // A run that is killed between the two must not have noted the program alone: all that is as the mode's would be taken back.
            let place = |what| noted.find(what);
            let own_at = place("IORING_REGISTER_NAPI of descriptor");
            assert_eq!(own_at.is_some(), own != 64, "what is not changed is not shown: {noted}");
            assert!(own_at < place("descriptors of ring_echo"), "{noted}");
            end(running, signal);
            bench.undo(&["--stale"]);
            assert_eq!(polling(pid, ring), Some(own), "{signal}");
            assert!(bench.is_clean());
        }
    }
}
