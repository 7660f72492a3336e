//! `napier compare --backend kernel`: programs that were not made for it under the kernel's modes, as a user runs it.

mod common;

use std::fs;
use std::io::Read as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{NAPIER, Running, has, rows, said, signal, two_cpus};
use napier_testkit::{in_time_enough, python};
use serde_json::Value;

/// Short runs at a load that every machine sustains for a while.
const SHORT: [&str; 9] = ["--backend", "kernel", "--runs", "1", "--flows", "4", "--load", "1k", "--json"];

const LENGTH: Duration = Duration::from_millis(400);

fn compare(arguments: &[&str], command: &[&str]) -> Output {
    compare_for(LENGTH, arguments, command)
}

fn compare_for(length: Duration, arguments: &[&str], command: &[&str]) -> Output {
    let seconds = length.as_secs_f64().to_string();
    let separator: &[&str] = if command.is_empty() { &[] } else { &["--"] };
    let mut napier = Command::new("timeout");
    napier
        .args(["120", NAPIER, "compare", "--seconds", &seconds])
        .args(SHORT)
        .args(arguments)
        .args(separator)
        .args(command);
    napier.stdin(Stdio::null()).output().expect("timeout is installed")
}

/// Whether this machine can; says so if not.
fn can(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        napier_testkit::skip!(test, "needs root");
    }
    is_root && two_cpus(test)
}

/// The rows of a comparison that is long enough for each that is not refused to have answers.
fn answered(arguments: &[&str], command: &[&str]) -> Vec<Value> {
    in_time_enough("each row has answers", LENGTH, |length| {
        let rows = rows(&compare_for(length, arguments, command));
        let has_answers = |row: &Value| row["achieved_rps"].as_f64() > Some(0.0);
        rows.iter().all(|row| !row["refused"].is_null() || has_answers(row)).then_some(rows)
    })
}

/// Processes whose command line holds a word.
fn running(word: &str) -> Vec<String> {
    let lines = fs::read_dir("/proc").expect("/proc").flatten().filter_map(|entry| {
        let name =
            entry.file_name().into_string().ok().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))?;
        let line = String::from_utf8_lossy(&fs::read(entry.path().join("cmdline")).ok()?).replace('\0', " ");
        let is_zombie = fs::read_to_string(entry.path().join("stat")).is_ok_and(|stat| stat.contains(") Z "));
        (line.contains(word) && !is_zombie).then_some(format!("{name}: {line}"))
    });
    lines.collect()
}

#[test]
fn memcached_runs_under_the_modes_and_is_gone_afterwards() {
    let test = "memcached_runs_under_the_modes_and_is_gone_afterwards";
    if !can(test) || !has(test, "memcached") {
        return;
    }
    for (proto, port) in [("tcp", "-p"), ("udp", "-U")] {
        // A port that nobody else has, by which the process is found.
        let number = (20_000 + std::process::id() % 20_000 + u32::from(proto == "udp")).to_string();
        let command = ["memcached", "-u", "nobody", "-t", "1", port, &number];
        let rows = answered(&["--proto", proto, "--modes", "base,suspend20,fullbusy,busy-read"], &command);
        let names: Vec<(&Value, &Value)> = rows.iter().map(|row| (&row["mode"], &row["receive"])).collect();
        assert_eq!(
            names[..3],
            [
                (&"base".into(), &"device".into()),
                (&"base".into(), &"irq".into()),
                (&"suspend20".into(), &"device".into()),
            ]
        );
        for row in &rows[..3] {
            assert!(row["achieved_rps"].as_f64().expect("a rate") > 0.0, "{row}");
            for counted in
                ["polls_per_s", "work_per_poll", "softirq_polls_per_s", "timers_per_s", "context_switches_per_s"]
            {
                assert!(row[counted].is_f64(), "{counted}: {row}");
            }
            assert!(row["polls_per_s"].as_f64() > Some(0.0), "{row}");
            assert_eq!(row["interrupts_per_s"], Value::Null, "a veth has none");
            let server = &row["cores"]["server"];
            assert!(server["user_pct"].is_f64() && server["softirq_pct"].is_f64(), "{row}");
        }
        // The thread that stands for the interrupt polls, and no softirq does.
        assert!(
            rows[1]["softirq_polls_per_s"].as_f64() < Some(0.1 * rows[1]["polls_per_s"].as_f64().unwrap()),
            "{}",
            rows[1]
        );
        assert!(rows[4]["achieved_rps"].as_f64() > Some(0.0), "its sockets busy poll: {}", rows[4]);
        // The command has the library itself. A machine that is taken away answers nothing, in any mode.
        assert!(rows[3]["refused"].is_null(), "{}", rows[3]);
        // What was killed may take its time to go, and another program's number may hold this one for a moment.
        assert!(wait_until(|| running(&number).is_empty()), "nothing is left behind: {:?}", running(&number));
    }
}

#[test]
fn redis_is_found_out_and_served() {
    let test = "redis_is_found_out_and_served";
    if !can(test) || !has(test, "redis-server") {
        return;
    }
    let redis = ["redis-server", "--save", "", "--appendonly", "no"];
    let command = [&redis[..], &["--protected-mode", "no"]].concat();
    let rows = answered(&["--modes", "base,defer20"], &command);
    assert!(rows.iter().all(|row| row["achieved_rps"].as_f64().expect("a rate") > 0.0), "{rows:?}");
    let output = compare(&["--modes", "base", "--speak", "redis"], &redis);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("--protected-mode no"), "{}", said(&output));
    let output = compare(&["--modes", "base", "--speak", "memcached"], &command);
    assert!(said(&output).contains("it speaks redis at port 6379, not memcached"), "{}", said(&output));
}

#[test]
fn a_program_that_cannot_serve_is_told_in_one_line() {
    let test = "a_program_that_cannot_serve_is_told_in_one_line";
    if !can(test) {
        return;
    }
    for (command, words) in [
        (&["sh", "-c", "echo no room >&2; exit 3"][..], "ended with status 3 before it answered; it printed: no room"),
        (&["sh", "-c", "kill -SEGV $$"], "was ended by signal 11"),
    ] {
        let output = compare(&["--modes", "base"], command);
        let told = said(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(words) && told.trim_end().lines().count() == 1, "{told}");
    }
}

/// memcached at a port.
fn memcached(port: &str) -> [&str; 7] {
    ["memcached", "-u", "nobody", "-t", "1", "-p", port]
}

/// A comparison of one run that would take ten minutes, with this server.
fn long_run(mode: &str, server: &[&str]) -> Child {
    Command::new(NAPIER)
        .args(["compare", "--backend", "kernel", "--load", "1k", "--modes", mode, "--runs", "1", "--seconds", "600"])
        .args(["--flows", "6", "--"])
        .args(server)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("napier starts")
}

/// What `tests/run/reader.py`, which is none of ours, finds in a process: its sockets or epoll instances, without their numbers.
fn settings(pid: &str, kind: &str) -> Vec<Vec<u64>> {
    let reader = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/reader.py");
    let output = Command::new(python()).args([reader, "fds", pid]).output().expect("python3 is installed");
    let Ok(found) = serde_json::from_slice::<Value>(&output.stdout) else { return Vec::new() };
    let found: Vec<Vec<u64>> = serde_json::from_value(found[kind].clone()).expect("numbers");
    found.into_iter().map(|one| one[1..].to_vec()).collect()
}

#[test]
fn what_a_mode_sets_on_a_program_is_there_in_the_run_also_on_its_connections() {
    let test = "what_a_mode_sets_on_a_program_is_there_in_the_run_also_on_its_connections";
    if !can(test) || !has(test, "memcached") || !has(test, "python3") {
        return;
    }
    let wanted = [
        ("busy-read", "sockets", vec![400, 1]),
        ("suspend20", "epoll", vec![0, 64, 1]),
        ("fullbusy", "epoll", vec![1000, 64, 1]),
    ];
    for (nth, (mode, kind, values)) in (0_u32..).zip(wanted) {
        let port = (51_000 + nth * 4000 + std::process::id() % 4000).to_string();
        let _napier = Running(long_run(mode, &memcached(&port)));
        let pid = loaded_memcached(&port);
        // Listeners, and those that came with the clients.
        let all = || {
            // But for the one that the library in it polls with.
            let found: Vec<_> = settings(&pid, kind).into_iter().filter(|one| one[..2] != [3, 61]).collect();
            found.len() > usize::from(kind == "sockets") && found.iter().all(|one| *one == values)
        };
        assert!(wait_until(all), "{mode}: {:?}", settings(&pid, kind));
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
        assert_eq!(maps.contains("libnapier_modes"), mode == "fullbusy", "{mode}");
    }
}

/// Speaks what memcached does, with an epoll instance for each connection that it takes.
const EPOLL_FOR_EACH: &str = "
import select, socket, sys, threading
store = {}
def serve(connection):
    epoll = select.epoll(); epoll.register(connection.fileno(), select.EPOLLIN)
    lines = connection.makefile('rb')
    while words := lines.readline().split():
        if words[0] == b'set':
            store[words[1]] = words[2], lines.read(int(words[4]) + 2)
            connection.sendall(b'STORED\\r\\n')
        elif words[0] == b'get':
            flags, value = store[words[1]]
            head = b'VALUE %s %s %d\\r\\n' % (words[1], flags, len(value) - 2)
            connection.sendall(head + value + b'END\\r\\n')
        else:
            connection.sendall(b'VERSION 1\\r\\n' if words[0] == b'version' else b'ERROR\\r\\n')
listener = socket.create_server(('0.0.0.0', int(sys.argv[1])))
first = select.epoll()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
";

#[test]
fn what_a_program_makes_in_a_run_is_set_too() {
    let test = "what_a_program_makes_in_a_run_is_set_too";
    if !can(test) || !has(test, "python3") {
        return;
    }
    let port = (18_000 + std::process::id() % 2000).to_string();
    let _napier = Running(long_run("suspend20", &[python(), "-uc", EPOLL_FOR_EACH, &port]));
    let pid = || {
        let is_server = |line: &&String| line.contains("python3 -uc") && !line.contains("internal-init");
        let lines = running(&port);
        let line = lines.iter().filter(is_server).find(|line| !line.contains(" compare "))?;
        Some(line.split_once(": ")?.0.to_owned())
    };
    // The one that was there before, and those of the connections.
    let all = || {
        let found = pid().map_or(Vec::new(), |pid| settings(&pid, "epoll"));
        found.len() > 4 && found.iter().all(|one| *one == [0, 64, 1])
    };
    assert!(wait_until(all), "{:?}", pid().map(|pid| settings(&pid, "epoll")));
}

/// Waits for something; whether it came.
fn wait_until(what: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !what() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    what()
}

/// The memcached that was started with this port, once clients are connected to it over the interface.
fn served_memcached(port: &str) -> Option<String> {
    let lines = running(port);
    let (pid, _) = lines.iter().find(|line| line.contains(": memcached"))?.split_once(": ")?;
    // 10.77.0.2 in the byte order of the machine.
    let address = format!("{:08X}:", u32::from_ne_bytes([10, 77, 0, 2]));
    let connections = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    connections.lines().any(|line| line.contains(&address)).then(|| pid.to_owned())
}

/// Waits for that process.
fn loaded_memcached(port: &str) -> String {
    let begun = Instant::now();
    loop {
        if let Some(pid) = served_memcached(port) {
            return pid;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "memcached was never there");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_program_that_ends_in_a_run_fails_that_run_and_says_how() {
    let test = "a_program_that_ends_in_a_run_fails_that_run_and_says_how";
    if !can(test) || !has(test, "memcached") {
        return;
    }
    let port = (31_000 + std::process::id() % 10_000).to_string();
    let napier = Running(long_run("defer20", &memcached(&port)));
    let pid = loaded_memcached(&port);
    signal(pid.parse().expect("a number"), "KILL");
    let mut napier = napier;
    let mut told = String::new();
    napier.0.stderr.take().expect("it is piped").read_to_string(&mut told).expect("text");
    assert_eq!(napier.0.wait().expect("it ends").code(), Some(1), "{told}");
    assert!(told.contains("the program was ended by signal 9"), "{told}");
}

#[test]
fn a_program_does_not_outlive_a_comparison_that_is_killed() {
    let test = "a_program_does_not_outlive_a_comparison_that_is_killed";
    if !can(test) || !has(test, "memcached") {
        return;
    }
    let port = (41_000 + std::process::id() % 10_000).to_string();
    let napier = Running(long_run("defer20", &memcached(&port)));
    let served = wait_until(|| served_memcached(&port).is_some());
    // It is killed: nothing of it runs any more.
    drop(napier);
    assert!(served, "memcached was never there");
    assert!(wait_until(|| running(&port).is_empty()), "{:?}", running(&port));
}
