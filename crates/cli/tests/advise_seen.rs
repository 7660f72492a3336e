//! `napier advise` for a program that is watched, and for packets that were captured.

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Folder, echo_server, has, napier, napier_at, said, text};
use napier_testkit::{PATIENCE, in_time_enough};
use napier_testnet::{self as net, VethConfig};
use serde_json::Value;

/// What is simulated in these tests.
const FEW: [&str; 7] = ["--modes", "base,suspend20", "--runs", "1", "--quick", "--jobs=1", "--json"];

const AT: (&str, u16) = ("10.85.0.1", 7003);

/// Asks one question after the other until it is stopped; how many.
fn ask(netns: &napier_linux::Netns, stop: &AtomicBool) -> usize {
    let mut stream = netns.run(|| TcpStream::connect(AT)).expect("entered").expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let (mut answer, mut asked) = ([0; 8], 0);
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(b"question").expect("sent");
        stream.read_exact(&mut answer).expect("answered");
        asked += 1;
    }
    asked
}

#[test]
fn a_program_that_runs_is_a_workload() {
    let test = "a_program_that_runs_is_a_workload";
    let ends = net::ends(("seen-a", &["10.85.0.1/24"]), ("seen-b", &["10.85.0.2/24"]));
    let Some(pair) =
        has(test, "python3").then(|| net::pair(test, &VethConfig { gro: true, tso: false, ..ends })).flatten()
    else {
        return;
    };
    let (_server, pid) = echo_server(pair.left().netns(), AT, 0);
    let (folder, stop) = (Folder::new(test), AtomicBool::new(false));
    let netns = pair.right().netns();
    let (found, asked) = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(|| ask(netns, &stop))).collect();
        let found = in_time_enough("there are requests enough", Duration::from_secs(1), |length| {
            let span = format!("{}s", length.as_secs());
            let args = [&["advise", "--live", &span, "--pid", &pid, "--dev", "seen-a"][..], &FEW].concat();
            let output = napier_at(pair.left(), &folder, &args);
            let words = said(&output);
            // Too few: for longer.
            (!words.contains("too few") && !words.contains("read nothing")).then(|| (text(&output), words))
        });
        stop.store(true, Ordering::Relaxed);
        let asked: usize = clients.into_iter().map(|client| client.join().expect("each question was answered")).sum();
        (found, asked)
    });
    if found.1.contains("tracepoints") || found.1.contains("this kernel has no") {
        return napier_testkit::skip!(test, "{}", found.1);
    }
    let document: Value = serde_json::from_str(&found.0).unwrap_or_else(|_| panic!("{found:?}"));
    let seen = &document["seen"];
    let requests = seen["requests"].as_u64().expect("a number");
    assert!((100..=asked as u64).contains(&requests), "{requests} of {asked}: {seen}");
    assert_eq!((&seen["connections"], &seen["queues"]), (&3.into(), &1.into()), "{seen}");
    assert!(
        seen["user_us"].as_f64() > Some(0.0) && seen["assumed"].as_array().is_some_and(|all| all.len() >= 4),
        "{seen}"
    );
    let workload = &document["workload"];
    let near = |a: &Value, b: &Value| (a.as_f64().expect("a number") - b.as_f64().expect("a number")).abs() <= 1.0;
    assert!(near(&workload["rate_rps"], &seen["rate_rps"]), "{workload}");
    let rows = document["rows"].as_array().expect("rows");
    assert!(rows.len() == 2 && rows.iter().all(|row| row["p99_us"].as_f64() > Some(0.0)), "{document}");
}

/// A file of requests from 20 connections, each of 30 bytes of data, in bursts of 20 each 2 ms.
fn captured(requests: u32) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 262_144, 101] {
        file.extend(word.to_le_bytes());
    }
    for nth in 0..requests {
        let client = (nth % 20) as u16;
        let ns = u64::from(nth / 20) * 2_000_000 + u64::from(nth % 20) * 1000;
        let mut packet = vec![0x45, 0, 0, 70, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
        packet.extend((40_000 + client).to_be_bytes());
        packet.extend(11_211_u16.to_be_bytes());
        packet.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x18, 0, 0, 0, 0, 0, 0]);
        for word in [(ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32, 40, 70] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

#[test]
fn captured_packets_are_a_workload_with_their_bursts() {
    let folder = Folder::new("advise-pcap");
    let file = folder.file("requests.pcap");
    std::fs::write(&file, captured(20_000)).expect("written");
    let output = napier(&[&["advise", "--pcap", &file, "--service", "4us"][..], &FEW].concat());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    let seen = &document["seen"];
    assert_eq!((&seen["requests"], &seen["connections"]), (&20_000.into(), &20.into()), "{seen}");
    assert!(seen["burstiness"].as_f64() > Some(5.0), "{seen}");
    let p99_us = |document: &Value| document["rows"][0]["p99_us"].as_f64().expect("a number");
    let p50_us = |document: &Value| document["rows"][0]["p50_us"].as_f64().expect("a number");
    // The same rate by chance.
    let output = napier(&[&["advise", "--rate", "10k", "--connections", "20", "--service", "4us"][..], &FEW].concat());
    let chance: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(p50_us(&document) > p50_us(&chance) + 20.0, "{} {}", p50_us(&document), p50_us(&chance));
    assert!(p99_us(&document) >= p50_us(&document), "{document}");
    assert!(document["rows"][0]["sustained"].as_bool() == Some(true), "{document}");
    let page = napier(&["advise", "--pcap", &file, "--modes", "base", "--runs", "1", "--quick"]);
    assert!(text(&page).contains("seen") && text(&page).contains("assumed"), "{}", text(&page));
}

/// A log has what the packets have, and beside it what each request took.
#[test]
fn a_log_of_requests_is_a_workload_with_their_times() {
    let folder = Folder::new("advise-arrivals");
    let log = |service: &str| {
        let line = |nth: u32| format!("{}.5,client{}{service}\n", nth * 100, nth % 20);
        let file = folder.file("requests.csv");
        std::fs::write(&file, (0..2_000).map(line).collect::<String>()).expect("written");
        let output = napier(&[&["advise", "--arrivals", &file][..], &FEW].concat());
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)))
    };
    let (without, with) = (log(""), log(",20"));
    let seen = &with["seen"];
    assert_eq!((&seen["requests"], &seen["connections"]), (&2_000.into(), &20.into()), "{seen}");
    assert!(seen["burstiness"].as_f64() < Some(0.5), "by a clock: {seen}");
    assert_eq!(with["workload"]["service"], "as in the log");
    // 10,000 requests a second, 20 us each.
    let cpu_pct = |document: &Value| document["rows"][0]["cpu_pct"].as_f64().expect("a number");
    let more = cpu_pct(&with) - cpu_pct(&without);
    assert!((17.0..23.0).contains(&more), "{more}");
}

#[test]
fn what_cannot_be_a_workload_is_told() {
    let folder = Folder::new("advise-pcap");
    let (few, wrong, none, log) = (folder.file("few"), folder.file("wrong"), folder.file("none"), folder.file("log"));
    std::fs::write(&log, "1,a\nsoon,a\n").expect("written");
    std::fs::write(&few, captured(20)).expect("written");
    std::fs::write(&wrong, "not packets").expect("written");
    for (args, told) in [
        (&["advise", "--pcap", &few][..], "too few"),
        (&["advise", "--pcap", &few, "--port", "80"], "to port 80"),
        (&["advise", "--pcap", &wrong], "is no file of packets"),
        (&["advise", "--arrivals", &log], "line 2: `soon,a` is no request"),
        (&["advise", "--pcap", &none], "No such file"),
        (&["advise", "--pcap", "/dev/zero"], "it is a device"),
        (&["advise", "--live", "1s"], "--pid"),
        (&["advise", "--live", "1s", "--pid", "4194304"], "there is no process 4194304"),
        (&["advise", "--pcap", &few, "--live", "1s", "--pid", "1"], "cannot be used with"),
    ] {
        let output = napier(args);
        assert!(output.status.code() != Some(0) && said(&output).contains(told), "{args:?}: {}", said(&output));
    }
}
