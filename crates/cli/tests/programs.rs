//! The server beside programs that were not written for it, and the load generator beside servers of others.

mod common;

use std::net::TcpStream;
use std::process::{Command, Stdio};

use common::{Folder, NAPIER, Running, ended, free_port, has, line, load, run, signal, sockperf, start, text};
use napier_testkit::eventually;

struct Server {
    _process: Running,
    memcached: u16,
    redis: u16,
}

fn serve() -> Server {
    let (memcached, redis) = (free_port(), free_port());
    let (port, resp_port) = (memcached.to_string(), redis.to_string());
    let process = start(&["serve", "kv", "--workers", "2", "--port", &port, "--resp-port", &resp_port]);
    Server { _process: process, memcached, redis }
}

#[test]
fn memccapable_finds_the_whole_of_both_protocols() {
    if !has("memccapable_finds_the_whole_of_both_protocols", "memccapable") {
        return;
    }
    let server = serve();
    let output = run("memccapable", &["-h", "127.0.0.1", "-p", &server.memcached.to_string()]);
    let report = text(&output) + &String::from_utf8_lossy(&output.stderr);
    assert!(report.contains("All tests passed"), "{report}");
    assert!(report.matches("[pass]").count() >= 54, "{report}");
}

#[test]
fn tools_of_libmemcached_store_and_fetch() {
    let test = "tools_of_libmemcached_store_and_fetch";
    if !["memccp", "memccat", "memcstat", "memcrm"].iter().all(|program| has(test, program)) {
        return;
    }
    let server = serve();
    let servers = format!("--servers=127.0.0.1:{}", server.memcached);
    let folder = Folder::new("programs");
    let file = folder.join("greeting");
    std::fs::write(&file, "good day\n").expect("the folder can be written");
    for protocol in [&["--binary"][..], &[]] {
        let with = |last: &'static str| [&[servers.as_str()], protocol, &[last]].concat();
        let copied = [&[servers.as_str()], protocol, &[file.to_str().expect("a plain path")]].concat();
        run("memccp", &copied);
        assert_eq!(text(&run("memccat", &with("greeting"))).trim_end(), "good day");
        run("memcrm", &with("greeting"));
    }
    assert!(text(&run("memcstat", &[&servers])).contains("curr_items: 0"));
}

#[test]
fn redis_cli_and_redis_benchmark_are_content() {
    let test = "redis_cli_and_redis_benchmark_are_content";
    if !["redis-cli", "redis-benchmark"].iter().all(|program| has(test, program)) {
        return;
    }
    let server = serve();
    let port = server.redis.to_string();
    let cli = |args: &[&str]| text(&run("redis-cli", &[&["-p", port.as_str()], args].concat())).trim_end().to_owned();
    assert_eq!(cli(&["set", "greeting", "good day"]), "OK");
    assert_eq!(cli(&["get", "greeting"]), "good day");
    assert_eq!(cli(&["del", "greeting", "other"]), "1");
    assert!(cli(&["info"]).contains("napier"));
    let report = text(&run(
        "redis-benchmark",
        &["-p", &port, "-t", "ping,get,set", "-n", "2000", "-c", "10", "-P", "4", "-d", "2000", "--csv"],
    ));
    for name in ["PING_INLINE", "PING_MBULK", "SET", "GET"] {
        assert!(report.contains(&format!("\"{name}\"")), "{report}");
    }
}

#[test]
fn memcslap_and_memcaslap_get_their_answers() {
    let test = "memcslap_and_memcaslap_get_their_answers";
    let server = serve();
    let at = format!("127.0.0.1:{}", server.memcached);
    if has(test, "memcslap") {
        let servers = format!("--servers={at}");
        run("memcslap", &[&servers, "--concurrency=4", "--execute-number=500", "--test=get"]);
    }
    if has(test, "memcaslap") {
        // Without a file it writes its defaults into the user's home, which not every user has.
        let folder = Folder::new("memcaslap");
        let workload = folder.file("workload");
        std::fs::write(&workload, "key\n16 16 1\nvalue\n1024 1024 1\ncmd\n0 0.1\n1 0.9\n").expect("a folder of ours");
        let report = text(&run("memcaslap", &["-s", &at, "-t", "1s", "-c", "4", "-T", "1", "-F", &workload]));
        assert!(report.contains("get_misses: 0"), "{report}");
    }
}

#[test]
fn sockperf_gets_every_message_back() {
    if !has("sockperf_gets_every_message_back", "sockperf") {
        return;
    }
    let (memcached, port) = (free_port().to_string(), free_port().to_string());
    let _server = start(&["serve", "kv", "--workers", "2", "--port", &memcached, "--sockperf-port", &port]);
    for more in [&[][..], &["-m", "1400"], &["--tcp"], &["--tcp", "-m", "50000"]] {
        sockperf("127.0.0.1", &port, more);
    }
}

/// Starts a server of others and waits until it takes connections.
fn foreign(program: &str, args: &[&str], port: u16) -> Running {
    let child = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let running = Running(child.expect("the program starts"));
    eventually("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    running
}

fn at(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

#[test]
fn the_load_generator_talks_to_memcached() {
    if !has("the_load_generator_talks_to_memcached", "memcached") {
        return;
    }
    let port = free_port();
    let number = port.to_string();
    let _memcached = foreign("memcached", &["-l", "127.0.0.1", "-p", &number, "-U", &number, "-u", "root"], port);
    for format in ["ascii", "binary", "meta"] {
        for proto in ["tcp", "udp"] {
            load(&at(port), proto, format, &[]);
        }
    }
}

#[test]
fn the_load_generator_talks_to_redis() {
    if !has("the_load_generator_talks_to_redis", "redis-server") {
        return;
    }
    let port = free_port();
    let args = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    let _redis = foreign("redis-server", &args, port);
    load(&at(port), "tcp", "resp", &[]);
}

#[test]
fn the_load_generator_talks_to_our_own_server() {
    let server = serve();
    for format in ["ascii", "binary", "meta"] {
        for proto in ["tcp", "udp"] {
            load(&at(server.memcached), proto, format, &[]);
        }
    }
    load(&at(server.redis), "tcp", "resp", &[]);
}

#[test]
fn a_server_ends_with_a_summary_when_it_is_told_to() {
    let port = free_port().to_string();
    let child = Command::new(NAPIER)
        .args(["serve", "kv", "--port", &port, "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("the binary starts");
    assert!(line(child.stderr.take()).starts_with("ready: "));
    signal(child.id(), "TERM");
    let mut running = Running(child);
    let out = running.0.stdout.take().expect("it is piped");
    let report: serde_json::Value = serde_json::from_reader(out).expect("it prints JSON");
    assert_eq!(report["counters"]["requests"], 0);
    assert!(running.0.wait().expect("it can be waited for").success());
}

#[test]
fn what_cannot_be_served_or_loaded_is_refused_with_a_reason() {
    for (args, reason) in [
        (&["serve", "kv", "--dev", "link"][..], "both its ends in one process"),
        (&["serve", "kv", "--dev", "token-ring"], "is no device"),
        (&["serve", "kv", "--mode", "suspend20"], "napier run --dev IF --mode suspend20 -- napier serve kv"),
        (&["serve", "kv", "--dev", "memif:@x"], "needs an address of its own"),
        (&["serve", "kv", "--ip", "127.0.0.1/33"], "no length of a prefix"),
        (
            &["serve", "kv", "--dev", "memif:@gw", "--ip", "10.1.0.1/24", "--gateway", "10.2.0.1"],
            "--gateway 10.2.0.1 is not on the link of --ip 10.1.0.1/24",
        ),
        (&["serve", "kv", "--dev", "memif:@gw", "--ip", "10.1.0.1/24", "--gateway", "fd00::1"], "of two families"),
        (&["serve", "kv", "--gateway", "127.0.0.2"], "the kernel's routes are set with ip route"),
        (&["serve", "kv", "--memory", "0"], "--memory must be 8 to 16777216 MiB"),
        (&["serve", "kv", "--max-connections", "0"], "--max-connections must be 1 to"),
        (&["serve", "kv", "--idle-timeout", "99999999999"], "--idle-timeout must be 0 (none) to"),
        (&["load", "kv", "--server", "127.0.0.1", "--format", "resp", "--proto", "udp"], "does not speak over UDP"),
        (&["load", "kv", "--server", "127.0.0.1", "--proto", "udp", "--value-size", "5000"], "give --proto tcp"),
    ] {
        let (status, _, said) = ended(args);
        assert!(status != Some(0) && said.contains(reason), "{args:?}: {said}");
        // What the command line cannot say is bad usage wherever it runs; a mode is looked at with its device.
        let is_usage = args[0] == "serve" && !args.contains(&"--mode");
        assert!(!is_usage || status == Some(2), "{args:?}: {status:?}");
    }
}
