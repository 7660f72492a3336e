//! What may go wrong: each is said, and nothing stays changed.

use std::io::{BufRead as _, Read as _};
use std::process::{Command, Stdio};

use napier_testkit::{Dice, eventually, from_env};

use super::bench::{Bench, end, errors_of, kill, stderr, until};
use super::{SUSPEND20, epoll_of, is_suspended};
use crate::common::{NAPIER, Running, has, kill_and_wait, text};

#[test]
fn a_run_without_capabilities_says_which() {
    let Some(bench) = Bench::new("a_run_without_capabilities_says_which") else { return };
    let at_first = bench.napis();
    let state = bench.folder.file("theirs");
    std::fs::create_dir(&state).expect("a folder");
    Command::new("chown").args(["65534", &state]).status().expect("chown is there");
    let mut command = bench.command_of_user(&state);
    let refused = bench.output(command.args(["run", "--dev", "server", "--mode", "suspend20", "--", "true"]));
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("CAP_NET_ADMIN"), "{}", stderr(&refused));
    assert_eq!(bench.napis(), at_first);
}

#[test]
fn programs_that_may_not_be_looked_into_are_said() {
    let Some(bench) = Bench::new("programs_that_may_not_be_looked_into_are_said") else { return };
    let state = bench.folder.file("theirs");
    std::fs::create_dir(&state).expect("a folder");
    let setuid = bench.folder.file("sleep");
    let script = format!("chown 65534 {state}; cp $(command -v sleep) {setuid}; chmod 4755 {setuid}");
    assert!(Command::new("sh").args(["-c", &script]).status().expect("sh is there").success());
    // What is in force already needs no capability.
    let at_first = bench.values();
    let set = |values: [u32; 3]| {
        for napi in bench.napis().as_array().expect("a list") {
            let change = format!(
                "{{\"id\": {}, \"defer-hard-irqs\": {}, \"gro-flush-timeout\": {}, \"irq-suspend-timeout\": {}}}",
                napi["id"], values[0], values[1], values[2]
            );
            assert!(bench.napier(&["napi-set", "--json", &change]).status.success());
        }
    };
    set([100, 20_000, 20_000_000]);
    assert!(is_suspended(&bench));
    for program in [&[&setuid, "60"][..], &["python3", "-c", NOT_DUMPABLE]] {
        let mut command = bench.command_of_user(&state);
        command.args(["run", "--dev", "server", "--mode", "suspend20", "--"]).args(program);
        let mut running = Running(bench.spawn(command.stderr(Stdio::piped())));
        let (mut err, mut said) = (errors_of(&mut running), String::new());
        until(&mut err, &mut said, "not in force on descriptors of");
        assert!(said.contains("CAP_SYS_PTRACE"), "{program:?}: {said}");
        napier_linux::process::descendants(running.0.id()).into_iter().for_each(|pid| kill(pid, "-TERM"));
        assert_eq!(running.0.wait().expect("it ends").code(), Some(143), "{program:?}");
    }
    set([0, 0, 0]);
    assert_eq!(bench.values(), at_first);
    // Root may.
    let script = NOT_DUMPABLE.replace("time.sleep(60)", "print(os.getpid()); time.sleep(60)");
    let (running, pid) = bench.python("suspend20", &[], &script);
    eventually("it is set", || epoll_of(&bench, pid.parse().expect("a number")) == [SUSPEND20]);
    assert_eq!(end(running, "-TERM"), (Some(143), String::new()));
}

const NOT_DUMPABLE: &str = "
import ctypes, os, select, time
ctypes.CDLL(None).prctl(4, 0)
e = select.epoll()
time.sleep(60)
";

#[test]
fn an_interface_that_goes_is_dropped() {
    let Some(bench) = Bench::new("an_interface_that_goes_is_dropped") else { return };
    let (running, _) = bench.waits("suspend20", &[]);
    bench.run("ip", &["link", "delete", "server"]);
    let (status, said) = end(running, "-TERM");
    assert_eq!(status, Some(143), "{said}");
    assert!(said.contains("nothing to put back: ") && said.contains("server is gone"), "{said}");
    assert!(bench.is_clean());
}

#[test]
fn an_interface_that_moves_is_put_back_where_it_is() {
    let Some(bench) = Bench::new("an_interface_that_moves_is_put_back_where_it_is") else { return };
    let at_first = bench.values();
    // The namespace of a process that this test has started elsewhere.
    let mut sleeper = bench.command("sleep");
    let sleeper = bench.client().netns().run(|| sleeper.arg("60").spawn()).expect("entered").expect("it starts");
    let sleeper = Running(sleeper);
    for is_killed in [false, true] {
        let (running, pid) = bench.waits("suspend20", &[]);
        bench.run("ip", &["link", "set", "server", "netns", &sleeper.0.id().to_string()]);
        // It is down there, and shows no instances until it is up.
        let up = || Command::new("ip").args(["link", "set", "server", "up"]).status();
        assert!(bench.client().netns().run(up).expect("entered").expect("ip is there").success());
        if is_killed {
            end(running, "-KILL");
            kill(pid, "-KILL");
            bench.undo(&[]);
        } else {
            let (status, said) = end(running, "-TERM");
            assert_eq!((status, said.contains("gone")), (Some(143), false), "{said}");
        }
        assert!(bench.is_clean());
        // And home again, with what it had there.
        let home = Running(bench.spawn(bench.command("sleep").arg("60")));
        let mut moved = Command::new("ip");
        moved.args(["link", "set", "server", "netns", &home.0.id().to_string()]);
        assert!(bench.client().netns().run(|| moved.status()).expect("entered").expect("ip is there").success());
        bench.run("ip", &["address", "add", "10.79.0.1/24", "dev", "server"]);
        bench.run("ip", &["link", "set", "server", "up"]);
        assert_eq!(bench.values(), at_first);
    }
}

#[test]
fn an_interface_with_another_name_is_put_back() {
    let Some(bench) = Bench::new("an_interface_with_another_name_is_put_back") else { return };
    let at_first = bench.values();
    let (running, _) = bench.waits("suspend20", &[]);
    // The instances are made anew, and veth keeps of theirs what it likes.
    bench.run("ip", &["link", "set", "server", "down"]);
    bench.run("ip", &["link", "set", "server", "name", "other", "up"]);
    let (status, said) = end(running, "-TERM");
    assert_eq!((status, said.contains("another program")), (Some(143), false), "{said}");
    assert_eq!(bench.values(), at_first);
    assert!(bench.is_clean());
}

#[test]
fn an_interface_that_goes_down_and_up_gets_its_mode_again() {
    let test = "an_interface_that_goes_down_and_up_gets_its_mode_again";
    let Some(bench) = Bench::new(test) else { return };
    // What the first instance has is what it has afterwards, though the kernel forgets it meanwhile.
    let first = bench.napis()[0]["id"].as_u64().expect("a number");
    let set = format!("{{\"id\": {first}, \"gro-flush-timeout\": 7777}}");
    assert!(bench.napier(&["napi-set", "--json", &set]).status.success());
    let at_first = bench.values();
    for mode in ["suspend20", "defer20"] {
        let (running, _) = bench.waits(mode, &["--json"]);
        let said = downs(&bench, running, &at_first);
        let report: serde_json::Value = serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
        // It may look while an interface goes up, and find one of two instances first.
        let renewed = renewals(&said);
        assert!((DOWNS..=2 * DOWNS).contains(&renewed), "{said}");
        assert_eq!((&report["renewed"], &report["left"]), (&renewed.into(), &serde_json::json!([])), "{report}");
        assert_eq!(bench.values(), at_first, "{said}");
        assert!(bench.is_clean());
    }
    // The next command puts it back as well.
    let (running, pid) = bench.waits("suspend20", &[]);
    let in_force = bench.values();
    bench.run("ip", &["link", "set", "server", "down"]);
    bench.run("ip", &["link", "set", "server", "up"]);
    eventually("the mode is in force again", || bench.values() == in_force);
    end(running, "-KILL");
    kill_and_wait(pid);
    let said = bench.undo(&[]);
    assert!(!said.contains("left by"), "{said}");
    assert_eq!(bench.values(), at_first);
    assert!(bench.is_clean());
}

const DOWNS: usize = 4;

fn renewals(said: &str) -> usize {
    said.matches("has new NAPI instances (it went down and up)").count()
}

/// The interface of a run goes down and up, again and again, and the run ends; what it said.
fn downs(bench: &Bench, mut running: Running, at_first: &[serde_json::Value]) -> String {
    let (mut err, mut said) = (errors_of(&mut running), String::new());
    let in_force = bench.values();
    assert_ne!(in_force, at_first);
    for nth in 1..=DOWNS {
        let before = bench.napis();
        bench.run("ip", &["link", "set", "server", "down"]);
        bench.run("ip", &["link", "set", "server", "up"]);
        assert_ne!(bench.napis()[0]["id"], before[0]["id"], "they are others");
        eventually("the mode is in force again", || bench.values() == in_force);
        // It goes down again when the command has done with this time.
        while renewals(&said) < nth {
            assert!(err.read_line(&mut said).expect("it is text") > 0, "it ended: {said}");
        }
    }
    kill(running.0.id(), "-TERM");
    err.read_to_string(&mut said).expect("it is text");
    assert_eq!(running.0.wait().expect("it ends").code(), Some(143), "{said}");
    said
}

/// Between fork and exec the program of a killed run has the journal's lock still, and it may have to wait for a CPU there.
#[test]
fn a_journal_that_is_held_for_a_moment_after_its_run_was_killed_is_put_back() {
    let test = "a_journal_that_is_held_for_a_moment_after_its_run_was_killed_is_put_back";
    if !has(test, "flock") {
        return;
    }
    let Some(bench) = Bench::new(test) else { return };
    let at_first = bench.napis();
    for next in [&["host", "undo", "--stale"][..], &["run", "--dev", "server", "--mode", "base", "--", "true"]] {
        bench.killed("suspend20");
        assert!(is_suspended(&bench), "nobody was there to put it back");
        let mut holder = bench.command("flock");
        holder.args([journal(&bench).to_str().expect("a plain path"), "sh", "-c", "echo held; sleep 0.2"]);
        let (holder, said) = bench.begin(holder.stdout(Stdio::piped()));
        assert_eq!(said, "held");
        let output = bench.napier(next);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).contains("put back"), "{}", stderr(&output));
        assert_eq!(bench.napis(), at_first, "{next:?}");
        assert!(bench.is_clean());
        drop(holder);
    }
}

fn journal(bench: &Bench) -> std::path::PathBuf {
    let mut entries = std::fs::read_dir(bench.folder.file("state")).expect("there").flatten();
    entries.find(|entry| entry.path().extension().is_some_and(|end| end == "journal")).expect("a journal").path()
}

#[test]
fn a_program_that_becomes_a_daemon_is_followed() {
    let Some(bench) = Bench::new("a_program_that_becomes_a_daemon_is_followed") else { return };
    let at_first = bench.napis();
    let script = "
import os, select, sys, time
if os.fork():
    os._exit(3)
os.setsid()
if os.fork():
    os._exit(0)
e = select.epoll()
print(os.getpid())
time.sleep(60)
";
    let (mut running, pid) = bench.python("suspend20", &[], script);
    let pid = pid.parse().expect("a number");
    let mut err = errors_of(&mut running);
    until(&mut err, &mut String::new(), "the mode stays until that ends");
    eventually("it is set", || epoll_of(&bench, pid) == [SUSPEND20]);
    assert!(is_suspended(&bench));
    kill(pid, "-TERM");
    // The status is that of the process that was started.
    assert_eq!(running.0.wait().expect("it ends").code(), Some(3));
    assert_eq!(bench.napis(), at_first);
    assert!(bench.is_clean());
}

#[test]
fn whatever_a_program_does_with_its_epoll_instances() {
    let Some(bench) = Bench::new("whatever_a_program_does_with_its_epoll_instances") else { return };
    let script = "
import array, ctypes, os, select, socket, sys, time
if len(sys.argv) == 1:
    os.execv(sys.executable, [sys.executable, '-uc', sys.orig_argv[2], 'again'])
# One that is closed, and another one with its number.
first = select.epoll(); number = first.fileno(); time.sleep(0.2); first.close()
second = select.epoll(); assert second.fileno() == number
# One inside another.
outer = select.epoll(); outer.register(second.fileno())
# A ring of io_uring with a socket.
params = ctypes.create_string_buffer(120)
ring = ctypes.CDLL(None).syscall(425, 4, params)
listener = socket.socket()
# One that is passed on, and closed here.
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
child = os.fork()
if child == 0:
    second.close(); outer.close(); ours.close()
    theirs.recvmsg(1, 64)
    time.sleep(60)
passed = select.epoll()
ours.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [passed.fileno()]))])
passed.close()
print(os.getpid(), child)
time.sleep(60)
";
    let (running, pids) = bench.python("suspend20", &[], script);
    let pids: Vec<u32> = pids.split(' ').map(|pid| pid.parse().expect("a number")).collect();
    eventually("two of its own", || epoll_of(&bench, pids[0]) == [SUSPEND20, SUSPEND20]);
    eventually("the one that was passed on", || epoll_of(&bench, pids[1]) == [SUSPEND20]);
    kill(pids[1], "-TERM");
    // Its parent does not ask for it, so that it stays in the list of processes; or the mode would rightly stay for it.
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", pids[1])).expect("it is there");
    eventually("it has ended", || stat().contains(") Z "));
    assert_eq!(end(running, "-TERM"), (Some(143), String::new()));
}

#[test]
fn a_full_disk_is_refused_before_the_first_write() {
    let Some(bench) = Bench::new("a_full_disk_is_refused_before_the_first_write") else { return };
    let at_first = bench.napis();
    let full = bench.folder.file("full");
    std::fs::create_dir(&full).expect("a folder");
    // Seen in a namespace of mounts that ends with the command.
    let script = format!(
        "mount -t tmpfs -o size=16k none {full} && NAPIER_STATE_DIRECTORY={full} {NAPIER} run --dev server --mode suspend20 -- echo ran; \
         status=$?; ls {full}; exit $status"
    );
    let output = bench.output(bench.command("unshare").args(["--mount", "sh", "-c", &script]));
    if stderr(&output).contains("mount:") {
        napier_testkit::skip!("a_full_disk_is_refused_before_the_first_write", "{}", stderr(&output));
        return;
    }
    assert_eq!((output.status.code(), text(&output).as_str()), (Some(1), ""), "{}", stderr(&output));
    assert!(stderr(&output).contains("no journal can be kept"), "{}", stderr(&output));
    assert_eq!(bench.napis(), at_first);
}

#[test]
fn a_damaged_journal_is_said_and_what_can_be_read_is_put_back() {
    let Some(bench) = Bench::new("a_damaged_journal_is_said_and_what_can_be_read_is_put_back") else { return };
    let at_first = bench.napis();
    // A byte of this line is another one; the journal's first line is 0.
    for (line, put_back) in [(2, true), (0, false)] {
        bench.killed("suspend20");
        let path = journal(&bench);
        let mut bytes = std::fs::read(&path).expect("read");
        let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let start = [0].into_iter().chain(starts).nth(line).expect("a line");
        bytes[start + 30] ^= 1;
        std::fs::write(&path, &bytes).expect("written");
        let next = bench.napier(&["host", "undo"]);
        assert!(stderr(&next).contains("1 lines of the journal"), "{}", stderr(&next));
        assert!(stderr(&next).contains("it is kept as "), "{}", stderr(&next));
        let is = bench.napis();
        let differing = is.as_array().expect("a list").iter().zip(at_first.as_array().expect("a list"));
        let differing = differing.filter(|(is, was)| is != was).count();
        assert_eq!(differing, if put_back { 1 } else { 2 }, "{is}");
        // By hand, for what comes next.
        let end = bench.server();
        let device = napier_linux::change::DeviceRef { ifindex: end.ifindex(), name: "server".to_owned() };
        let plan = napier_lab::modes::Mode::Base.plan();
        end.netns()
            .run(|| {
                let lines = napier_linux::change::lines_of(&plan, &device).expect("lines");
                lines.iter().for_each(|line| line.key.write(&line.value).expect("written"));
            })
            .expect("entered");
        assert_eq!(bench.napis(), at_first);
    }
}

/// `NAPIER_KILLS=1000` for more.
#[test]
fn runs_that_are_killed_at_any_time_leave_nothing() {
    let Some(bench) = Bench::new("runs_that_are_killed_at_any_time_leave_nothing") else { return };
    let kills = from_env("NAPIER_KILLS", 12);
    let at_first = bench.napis();
    let mut dice = Dice(7);
    let mut changed = 0;
    for round in 0..kills {
        let mut command = bench.command(NAPIER);
        command.args(["run", "--dev", "server", "--mode", ["suspend20", "threaded", "defer200"][round as usize % 3]]);
        command.args(["--", "sleep", "0.05"]).stderr(Stdio::null());
        let running = Running(bench.spawn(&mut command));
        std::thread::sleep(std::time::Duration::from_micros(dice.roll(80_000)));
        // It may have ended by itself, which a process that was not waited for does not show.
        end(running, "-KILL");
        changed += usize::from(bench.napis() != at_first);
        // The way back may be killed as well.
        if round % 2 == 0 {
            let undo = Running(
                bench.spawn(bench.command(NAPIER).args(["host", "undo"]).stdout(Stdio::null()).stderr(Stdio::null())),
            );
            std::thread::sleep(std::time::Duration::from_micros(dice.roll(20_000)));
            end(undo, "-KILL");
        }
        let said = bench.undo(&[]);
        assert_eq!(bench.napis(), at_first, "round {round}: {said}");
        assert!(bench.is_clean(), "round {round}");
    }
    eprintln!("{kills} runs were killed, {changed} of them while something was changed");
}
