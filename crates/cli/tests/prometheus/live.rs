//! A real Prometheus scrapes a kernel's exporter and an engine's, and each expression of the board finds something.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use napier_testkit::{PATIENCE, eventually};
use serde_json::Value;

use super::common::{Folder, NAPIER, Running, free_port, has, start};
use super::names::figures;
use super::{board, read};

/// The body of an answer. HTTP 1.0, so that it is not sent in pieces.
fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some(body.to_owned())
}

fn api(port: u16, path: &str) -> Value {
    get(port, path).and_then(|body| serde_json::from_str(&body).ok()).unwrap_or(Value::Null)
}

/// What a query finds now; an error in it is a failure.
fn query(port: u16, expr: &str) -> Vec<Value> {
    let coded: String = expr.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let answer = api(port, &format!("/api/v1/query?query={coded}"));
    assert_ne!(answer["status"], "error", "{expr}: {answer}");
    answer["data"]["result"].as_array().cloned().unwrap_or_default()
}

/// Figures that not every machine, driver or server has.
const PERHAPS: [&str; 7] = [
    "napier_kernel_doctor_findings",
    "napier_xdp_",
    "napier_group_",
    "napier_tx_",
    "napier_kernel_napi_",
    "napier_kernel_queue_",
    "napier_kernel_interrupts_",
];

#[test]
fn prometheus_scrapes_and_the_board_shows_it() {
    let test = "prometheus_scrapes_and_the_board_shows_it";
    if !has(test, "prometheus") {
        return;
    }
    let folder = Folder::new("prometheus");
    let [kernel, engine, own] = [free_port(), free_port(), free_port()];
    let at = |port: u16| format!("127.0.0.1:{port}");
    let dev = format!("memif:{}", folder.file("memif.sock"));
    let _exporter = start(&["export", "--listen", &at(kernel)]);
    let serve = ["serve", "kv", "--dev", &dev, "--ip", "10.78.0.1/24", "--mode", "suspend20", "--metrics", &at(engine)];
    let _server = start(&serve);
    let load = ["load", "kv", "--server", "10.78.0.1", "--dev", &dev, "--ip", "10.78.0.2/24", "--proto", "udp"];
    let rest = ["--rate", "2k", "--connections", "4", "--keys", "500", "--seconds", "300", "--runs", "1"];
    let client = Command::new(NAPIER).args(load).args(rest).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _client = Running(client.expect("the binary starts"));

    // As it comes along, but faster and at our ports.
    let config = read("deploy/prometheus/prometheus.yml").replace("scrape_interval: 5s", "scrape_interval: 1s");
    let config = config.replace("127.0.0.1:19100", &at(kernel)).replace("127.0.0.1:19101", &at(engine));
    assert!(config.contains("interval: 1s\n") && config.contains(&at(kernel)) && config.contains(&at(engine)));
    std::fs::write(folder.file("prometheus.yml"), config).expect("written");
    std::fs::write(folder.file("napier.rules.yml"), read("deploy/prometheus/napier.rules.yml")).expect("written");
    let args = ["--config.file", &folder.file("prometheus.yml"), "--storage.tsdb.path", &folder.file("data")];
    let prometheus = Command::new("prometheus")
        .args(args)
        .args(["--web.listen-address", &at(own), "--log.level", "error"])
        .stdout(Stdio::null())
        .spawn();
    let _prometheus = Running(prometheus.expect("it starts"));
    eventually("both are scraped", || query(own, "up == 1").len() == 2);
    eventually("traffic is seen", || !query(own, "rate(napier_napi_packets_total{context!=\"\"}[10s]) > 0").is_empty());
    // A scrape of a busy machine may have come too late; the next one does not.
    eventually("targets are up, without an error", || {
        let health = api(own, "/api/v1/targets");
        let is_well = |target: &Value| target["health"] == "up" && target["lastError"] == "";
        health["data"]["activeTargets"]
            .as_array()
            .is_some_and(|targets| targets.len() == 2 && targets.iter().all(is_well))
    });
    let rules = api(own, "/api/v1/rules").to_string();
    assert!(!rules.contains("\"health\":\"err\""), "{rules}");

    let pages = [kernel, engine].map(|port| get(port, "/metrics").expect("it answers"));
    let is_there = |name: &String| {
        pages.iter().any(|page| page.contains(&format!("\n{name}{{")) || page.contains(&format!("\n{name} ")))
    };
    for (title, expr) in board::expressions() {
        let absent: Vec<String> = figures(&expr).into_iter().filter(|name| !is_there(name)).collect();
        let unexpected = absent.iter().find(|name| !PERHAPS.iter().any(|begin| name.starts_with(begin)));
        assert_eq!(unexpected, None, "{title}: not exported: {expr}");
        if !absent.is_empty() {
            continue;
        }
        // Of what only matters above 0 the rest is to be there.
        let plain = expr.replace(" > 0", "").replace("$__rate_interval", "10s");
        let plain =
            ["$job", "$instance", "$device"].into_iter().fold(plain, |expr, variable| expr.replace(variable, ".+"));
        let begun = Instant::now();
        while query(own, &plain).is_empty() {
            assert!(begun.elapsed() < PATIENCE, "{title}: no data: {plain}");
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    }
}
