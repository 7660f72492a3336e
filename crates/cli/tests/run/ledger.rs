//! What is noted: of programs that set the same themselves, of what outlives them, and who holds what.

use std::io::Read as _;
use std::process::Stdio;

use napier_testkit::{eventually, python};
use serde_json::{Value, json};

use super::bench::{Bench, end, errors_of, kill, stderr, until};
use super::{SUSPEND20, WAITS, epoll_of, is_suspended};
use crate::common::{NAPIER, Running, kill_and_wait, text};

/// A program that has set for itself what suspend20 and busy-read set, beside what it has as it was made; and a child that has the
/// same by its parent.
const OWN: &str = "
import fcntl, os, select, socket, struct, time
own, made = select.epoll(), select.epoll()
fcntl.ioctl(own, 0x40088a01, struct.pack('=IHBB', 0, 64, 1, 0))
l = socket.socket(); l.setsockopt(1, 69, 1); l.setsockopt(1, 46, 400); l.bind(('10.79.0.1', 0)); l.listen()
m = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
c = socket.create_connection(l.getsockname()); a, _ = l.accept()
if os.fork() == 0:
    time.sleep(60)
print(os.getpid())
time.sleep(60)
";

#[test]
fn what_a_program_had_set_itself_is_left_as_it_was() {
    let Some(bench) = Bench::new("what_a_program_had_set_itself_is_left_as_it_was") else { return };
    bench.run("ip", &["link", "set", "lo", "up"]);
    let (process, pid) = bench.script(OWN);
    let before = bench.fds(pid);
    for (mode, signal) in [("suspend20", "-INT"), ("suspend20", "-KILL"), ("busy-read", "-INT"), ("busy-read", "-KILL")]
    {
        let running = bench.attach(mode, pid);
        eventually("it is in force", || match mode {
            "suspend20" => epoll_of(&bench, pid) == [SUSPEND20, SUSPEND20],
            _ => bench.fds(pid)["sockets"].as_array().expect("a list").iter().all(|one| one[1] == 400 && one[2] == 1),
        });
        end(running, signal);
        let said = bench.undo(&[]);
        assert_eq!(bench.fds(pid), before, "{mode} {signal}: {said}");
        assert!(bench.is_clean());
    }
    let children = napier_linux::process::descendants(pid);
    drop(process);
    children.iter().for_each(|child| kill(*child, "-KILL"));
}

/// Runs its arguments with two listeners of one port and a socket for datagrams, which it keeps, and says what they have afterwards.
const SUPERVISOR: &str = "
import json, os, socket, subprocess, sys
def listener():
    s = socket.socket(); s.setsockopt(1, socket.SO_REUSEPORT, 1); s.bind(('10.79.0.1', 7801)); s.listen(); return s
kept = [listener(), listener(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]
kept[2].bind(('10.79.0.1', 7801))
found = subprocess.run(sys.argv[1:], pass_fds=[s.fileno() for s in kept], capture_output=True, text=True)
subprocess.run([sys.argv[1], 'host', 'undo'], capture_output=True)
def steered(s):
    try:
        s.setsockopt(1, 68, 0)
    except FileNotFoundError:
        return False
    return True
values = [[s.getsockopt(1, 46), s.getsockopt(1, 69)] for s in kept]
print(json.dumps({'values': values, 'steered': steered(kept[0]), 'said': found.stderr, 'in_force': found.stdout.strip()}))
";

#[test]
fn a_socket_that_outlives_its_program_is_put_back() {
    let Some(bench) = Bench::new("a_socket_that_outlives_its_program_is_put_back") else { return };
    // They have the numbers that they have in the supervisor.
    let waits = "
import socket, time
sockets = [socket.socket(fileno=fd) for fd in (3, 4, 5)]
for _ in range(2000):
    have = [(s.getsockopt(1, 46), s.getsockopt(1, 69)) for s in sockets]
    if all(one == (400, 1) for one in have):
        break
    time.sleep(0.005)
print(have)
";
    let program = |how: &[&str], mode: &str, script: &str| {
        let napier = [NAPIER, "run", "--dev", "server", "--mode", mode, "--json"];
        let args = [&["-c", SUPERVISOR][..], &napier, how, &["--", python(), "-c", script]].concat();
        let output = bench.output(bench.command(python()).args(args));
        assert!(output.status.success(), "{}", stderr(&output));
        let found: Value = serde_json::from_str(&text(&output)).expect("JSON");
        assert_eq!(found["values"], json!([[0, 0], [0, 0], [0, 0]]), "{found}");
        assert_eq!(found["steered"], json!(false), "{found}");
        found
    };
    let found = program(&[], "busy-read", waits);
    assert_eq!(found["in_force"], "[(400, 1), (400, 1), (400, 1)]", "{found}");
    program(&["--steer"], "base", "import time; time.sleep(0.3)");
    // The command ends before its program does, and the program before the next command.
    let killed = format!(
        "{waits}
import os, signal
os.kill(os.getppid(), signal.SIGKILL)
"
    );
    let found = program(&["--steer"], "busy-read", &killed);
    assert_eq!(found["in_force"], "[(400, 1), (400, 1), (400, 1)]", "{found}");
    assert!(bench.is_clean());
}

#[test]
fn who_holds_what_is_shown_and_named_by_undo() {
    let Some(bench) = Bench::new("who_holds_what_is_shown_and_named_by_undo") else { return };
    let show = |args: &[&str]| bench.run(NAPIER, &[&["host", "show"], args].concat());
    assert!(show(&[]).contains("Nothing is changed by Napier"));
    let (running, program) = bench.waits("suspend20", &[]);
    let pid = running.0.id();
    let said = show(&[]);
    assert!(said.contains(&format!("by napier run, pid {pid}, since ")), "{said}");
    assert!(said.contains("irq-suspend-timeout of NAPI instance") && said.contains(": 0 -> 20000000"), "{said}");
    let document: Value = serde_json::from_str(&show(&["--json"])).expect("JSON");
    let one = &document["changed"][0];
    assert_eq!((&one["name"], &one["state"], &one["pid"]), (&json!("server"), &json!("running"), &json!(pid)));
    assert!(one["lines"].as_array().is_some_and(|lines| lines.iter().any(|line| line["now"] == "20000000")), "{one}");
    // Neither takes away what a living run has, nor says that there is nothing.
    let undone = bench.napier(&["host", "undo"]);
    assert_eq!((undone.status.code(), text(&undone).as_str()), (Some(1), ""));
    assert!(
        stderr(&undone).contains(&format!("server is held by napier run, pid {pid}: end it")),
        "{}",
        stderr(&undone)
    );
    // Running commands are none of its matter.
    bench.undo(&["--stale"]);
    // One whose journal is in another folder is known by the lock of the machine.
    let mut elsewhere = bench.command(NAPIER);
    elsewhere.env("NAPIER_STATE_DIRECTORY", bench.folder.file("other")).args(["host", "show"]);
    let said = text(&bench.output(&mut elsewhere));
    assert!(said.contains(&format!("server: another napier, pid {pid}")), "{said}");
    // Killed, it is still shown by what only looks.
    end(running, "-KILL");
    kill_and_wait(program);
    assert!(show(&[]).contains("which has ended: the next napier puts it back"));
    let would = text(&bench.napier(&["host", "undo", "--dry-run"]));
    assert!(would.contains(": back to 0") && would.contains(" settings would be put back; nothing was."), "{would}");
    assert!(is_suspended(&bench));
    bench.undo(&[]);
    assert!(show(&[]).contains("Nothing is changed by Napier") && bench.is_clean());
}

/// systemd gives each service a `$STATE_DIRECTORY` of its own.
#[test]
fn a_services_own_folder_is_not_the_journals() {
    let Some(bench) = Bench::new("a_services_own_folder_is_not_the_journals") else { return };
    let at_first = bench.napis();
    let service = |name: &str, mode: &str| {
        let mut command = bench.command(NAPIER);
        command.env("STATE_DIRECTORY", bench.folder.file(name));
        command.args(["run", "--dev", "server", "--mode", mode, "--", python(), "-uc", WAITS]);
        command
    };
    let (running, pid) = bench.begin(service("one", "suspend20").stdout(Stdio::piped()).stderr(Stdio::piped()));
    let second = bench.output(&mut service("two", "defer200"));
    assert_eq!(second.status.code(), Some(1));
    assert!(stderr(&second).contains("another napier (pid "), "{}", stderr(&second));
    end(running, "-KILL");
    kill_and_wait(pid.parse().expect("a number"));
    bench.undo(&[]);
    assert_eq!(bench.napis(), at_first);
    assert!(!["one", "two"].iter().any(|name| std::path::Path::new(&bench.folder.file(name)).exists()));
    // What a version before has left there is found by a command that is given it.
    bench.killed("suspend20");
    std::fs::rename(bench.folder.file("state"), bench.folder.file("one")).expect("moved");
    let mut undo = bench.command(NAPIER);
    let undo = bench.output(undo.env("STATE_DIRECTORY", bench.folder.file("one")).args(["host", "undo"]));
    assert!(stderr(&undo).contains("put back 6"), "{}", stderr(&undo));
    assert_eq!(bench.napis(), at_first);
}

/// Accepts connections once its listener has the time to busy poll that is given, puts them into an epoll set and closes them while they
/// still get data: what comes for one that is closed is counted. Another thread listens, closes, and listens again at once: its port may be
/// taken for a moment in each look, which are 5 ms apart at least, and is free again soon.
const CLOSES: &str = "
import errno, select, socket, sys, threading, time
l = socket.create_server(('127.0.0.1', 0)); l.setblocking(False)
e = select.epoll(); e.register(l.fileno(), select.EPOLLIN)
until = time.monotonic() + 20
while l.getsockopt(1, 46) != int(sys.argv[1]) and time.monotonic() < until:
    time.sleep(0.01)
time.sleep(0.5)
live, closed, stale, begun = {}, 0, 0, time.monotonic()
def goes_on():
    spent = time.monotonic() - begun
    return spent < 2 or closed <= 100 and spent < 60
def ask():
    while goes_on():
        try:
            c = socket.create_connection(l.getsockname())
            for _ in range(20):
                c.send(b'x')
            c.close()
        except OSError:
            pass
moments, taken = 0, False
def again():
    global moments, taken
    while goes_on() or (taken and time.monotonic() - begun < 80):
        before, taken, s = taken, False, socket.socket()
        try:
            s.bind(('127.0.0.1', 7999)); s.listen(1)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
        s.close()
        moments += taken and not before
for work in (ask, ask):
    threading.Thread(target=work, daemon=True).start()
listens = threading.Thread(target=again)
listens.start()
while goes_on():
    for fd, _ in e.poll(0.1):
        if fd == l.fileno():
            try:
                c, _ = l.accept()
            except OSError:
                continue
            live[c.fileno()] = c
            e.register(c.fileno(), select.EPOLLIN)
        elif fd not in live:
            stale += 1
        else:
            live[fd].recv(1); live.pop(fd).close(); closed += 1
listens.join()
print(closed > 100, stale, moments <= 200 * (time.monotonic() - begun) + 1, taken)
";

#[test]
fn what_a_program_closes_is_closed() {
    let Some(bench) = Bench::new("what_a_program_closes_is_closed") else { return };
    bench.run("ip", &["link", "set", "lo", "up"]);
    for (how, usecs) in [(&["--mode", "busy-read"][..], "400"), (&["--mode", "base", "--steer"], "0")] {
        let args = [&["run", "--dev", "server"], how, &["--", python(), "-c", CLOSES, usecs]].concat();
        let output = bench.napier(&args);
        // A listener is copied once in its life, for a moment: what is bound in that moment finds the port taken (docs/run.md).
        assert_eq!(text(&output), "True 0 True False\n", "{how:?}: {}", stderr(&output));
    }
}

#[test]
fn a_tuning_that_is_refused_says_so_and_leaves_nothing() {
    let Some(bench) = Bench::new("a_tuning_that_is_refused_says_so_and_leaves_nothing") else { return };
    let state = bench.folder.file("theirs");
    std::fs::create_dir(&state).expect("a folder");
    let own = std::process::Command::new("chown").args(["65534", &state]).status().expect("chown is there");
    assert!(own.success());
    for _ in 0..2 {
        let tuned = bench.output(bench.command_of_user(&state).args(["host", "tune", "--dev", "server"]));
        assert_eq!(tuned.status.code(), Some(1), "{}", text(&tuned));
        assert!(text(&tuned).contains("Nothing was changed: "), "{}", text(&tuned));
        assert!(stderr(&tuned).contains("nothing was changed"), "{}", stderr(&tuned));
        assert_eq!(std::fs::read_dir(&state).expect("there").count(), 0);
    }
}

#[test]
fn a_limit_of_file_sizes_is_refused_and_said() {
    let Some(bench) = Bench::new("a_limit_of_file_sizes_is_refused_and_said") else { return };
    let at_first = bench.napis();
    let script = format!("ulimit -f 1; exec {NAPIER} run --dev server --mode suspend20 -- echo ran");
    let output = bench.output(bench.command("bash").args(["-c", &script]));
    assert_eq!((output.status.code(), text(&output).as_str()), (Some(1), ""), "{}", stderr(&output));
    assert!(stderr(&output).contains("no journal can be kept"), "{}", stderr(&output));
    assert_eq!(bench.napis(), at_first);
}

#[test]
fn names_of_programs_do_not_reach_the_terminal_as_they_are() {
    let Some(bench) = Bench::new("names_of_programs_do_not_reach_the_terminal_as_they_are") else { return };
    // A child is called so from its start.
    let script = "
import fcntl, os, select, struct, sys, time
if os.fork():
    os.wait()
    os._exit(0)
def params():
    return struct.unpack('=IHBB', fcntl.ioctl(e, 0x80088a02, bytes(8)))[:3]
e = select.epoll()
while params() != (0, 64, 1):
    time.sleep(0.01)
fcntl.ioctl(e, 0x40088a01, struct.pack('=IHBB', 7, 3, 0, 0))
until = time.monotonic() + 60
while not os.path.exists(sys.argv[1]) and time.monotonic() < until:
    time.sleep(0.01)
";
    // A program is called as its file is.
    let named = "
import os, subprocess, sys
name = sys.argv[1] + '/\\x1b[31mX\\n\\r'
os.symlink(os.path.realpath(sys.executable), name)
subprocess.run([name, '-c', sys.argv[2], sys.argv[3]], check=True)
";
    let (folder, seen) = (bench.folder.file("."), bench.folder.file("seen"));
    let mut command = bench.command(NAPIER);
    command.args([
        "run",
        "--dev",
        "server",
        "--mode",
        "suspend20",
        "--",
        python(),
        "-c",
        named,
        &folder,
        script,
        &seen,
    ]);
    let mut running = Running(bench.spawn(command.stderr(Stdio::piped())));
    let (mut err, mut said) = (errors_of(&mut running), String::new());
    until(&mut err, &mut said, "changed the parameters");
    std::fs::write(&seen, "").expect("written");
    err.read_to_string(&mut said).expect("it is text");
    assert!(said.contains(r"\u{1b}[31mX\n\r"), "{said:?}");
    assert!(said.chars().all(|letter| letter == '\n' || !letter.is_control()), "{said:?}");
}
