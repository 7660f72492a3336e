//! Real servers under a mode: what is in force is seen from outside, and they serve as ever.

use std::process::{Command, Stdio};

use napier_testkit::eventually;
use serde_json::json;

use super::bench::{Bench, stderr};
use super::{SUSPEND20, is_suspended};
use crate::common::{Folder, NAPIER, Running, has, text};

const ADDRESS: &str = "10.79.0.1";

/// Runs a server under suspend20, waits until it is in force on all of its epoll instances, lets `client` use it from the other
/// namespace, ends it, and looks whether everything is as before.
fn serve(test: &str, program: &str, args: &[&str], folder: Option<&Folder>, client: &dyn Fn(&Bench)) {
    if !has(test, program) {
        return;
    }
    let Some(bench) = Bench::new(test) else { return };
    let at_first = bench.napis();
    let mut command = bench.command(NAPIER);
    command.args(["run", "--dev", "server", "--mode", "suspend20", "--json", "--", program]).args(args);
    let out = folder.map_or(Stdio::null(), |folder| std::fs::File::create(folder.file("out")).expect("a file").into());
    let mut running = Running(bench.spawn(command.stdout(out).stderr(Stdio::piped())));
    let processes = || napier_linux::process::descendants(running.0.id());
    let epolls = || {
        let found: Vec<Vec<u64>> = processes().into_iter().flat_map(|pid| super::epoll_of(&bench, pid)).collect();
        found
    };
    eventually("it is in force on its epoll instances", || {
        let found = epolls();
        is_suspended(&bench) && !found.is_empty() && found.iter().all(|one| one == &SUSPEND20)
    });
    client(&bench);
    // Also on what it made for its clients.
    eventually("it is in force still", || epolls().iter().all(|one| one == &SUSPEND20));
    super::kill(running.0.id(), "-TERM");
    let status = running.0.wait().expect("it ends").code();
    let said = super::said(&mut running);
    let last = said.lines().last().unwrap_or_default();
    let report: serde_json::Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(
        (&report["left"], &report["gone"], report["status"].as_i64()),
        (&json!([]), &json!([]), status.map(i64::from))
    );
    assert_eq!(bench.napis(), at_first);
    assert!(bench.is_clean());
}

/// A command in the namespace of the client, which has to succeed.
fn from_client(bench: &Bench, program: &str, args: &[&str]) -> String {
    let run = || Command::new("timeout").arg("60").arg(program).args(args).output();
    let output = bench.client().netns().run(run).expect("entered").expect("timeout is there");
    assert!(output.status.success(), "{program} {args:?}: {}{}", text(&output), stderr(&output));
    text(&output)
}

fn load(bench: &Bench, port: &str, format: &str) {
    let server = format!("{ADDRESS}:{port}");
    let args = [&["load", "kv", "--server", &server, "--proto", "tcp", "--format", format][..], &crate::common::SHORT]
        .concat();
    let report: serde_json::Value = serde_json::from_str(&from_client(bench, NAPIER, &args)).expect("JSON");
    let figures = &report["median"];
    assert_eq!((figures["refused"].as_u64(), figures["missing"].as_u64()), (Some(0), Some(0)), "{report}");
}

#[test]
fn memcached_serves_under_a_mode() {
    let args = ["-u", "root", "-l", ADDRESS, "-p", "11311", "-t", "2"];
    serve("memcached_serves_under_a_mode", "memcached", &args, None, &|bench| load(bench, "11311", "ascii"));
}

#[test]
fn redis_serves_under_a_mode() {
    let args = ["--bind", ADDRESS, "--port", "6479", "--save", "", "--protected-mode", "no"];
    serve("redis_serves_under_a_mode", "redis-server", &args, None, &|bench| load(bench, "6479", "resp"));
}

#[test]
fn nginx_serves_under_a_mode() {
    let test = "nginx_serves_under_a_mode";
    if !has(test, "curl") {
        return;
    }
    let folder = Folder::new(test);
    let path = |name: &str| folder.file(name);
    std::fs::create_dir(path("www")).expect("a folder");
    std::fs::write(path("www/page"), "good day\n".repeat(10_000)).expect("written");
    Command::new("chmod").args(["-R", "755", &path("")]).status().expect("chmod is there");
    let config = format!(
        "daemon off; worker_processes 2; pid {}; error_log {}; events {{}} \
         http {{ access_log off; client_body_temp_path {}; server {{ listen {ADDRESS}:8480; root {}; }} }}",
        path("pid"),
        path("errors"),
        path("body"),
        path("www")
    );
    std::fs::write(path("nginx.conf"), config).expect("written");
    // Its workers have another user's rights.
    serve(test, "nginx", &["-c", &path("nginx.conf")], None, &|bench| {
        let page = from_client(bench, "curl", &["-sS", &format!("http://{ADDRESS}:8480/page")]);
        assert_eq!(page, "good day\n".repeat(10_000));
    });
}

#[test]
fn iperf_measures_under_a_mode() {
    let test = "iperf_measures_under_a_mode";
    // It has no epoll instance, but sockets.
    if !has(test, "iperf3") {
        return;
    }
    let Some(bench) = Bench::new(test) else { return };
    let mut command = bench.command(NAPIER);
    command.args(["run", "--dev", "server", "--mode", "busy-read", "--", "iperf3", "-s", "-1", "-p", "5301"]);
    let mut running = Running(bench.spawn(command.stdout(Stdio::null()).stderr(Stdio::piped())));
    let sockets = || {
        let processes = napier_linux::process::descendants(running.0.id());
        let found = processes.into_iter().flat_map(|pid| bench.fds(pid)["sockets"].as_array().expect("a list").clone());
        found.collect::<Vec<_>>()
    };
    eventually("it is in force", || {
        let found = sockets();
        !found.is_empty() && found.iter().all(|socket| socket[1] == 400 && socket[2] == 1)
    });
    let report = from_client(&bench, "iperf3", &["-c", ADDRESS, "-p", "5301", "-t", "1", "-J"]);
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert!(report["end"]["sum_received"]["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{report}");
    assert_eq!(running.0.wait().expect("it ends").code(), Some(0), "{}", super::said(&mut running));
    assert!(bench.is_clean());
}
