//! `napier export` as a user has it.

mod common;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use common::{Folder, NAPIER, Running, end, free_port, has, napier, refused, said, start, text};
use napier_core::metric::Metric;
use napier_testkit::PATIENCE;

fn scrape(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn figures_are_printed_once() {
    let output = napier(&["export", "--once"]);
    assert!(output.status.success(), "{}", said(&output));
    let page = text(&output);
    assert!(page.contains("# TYPE napier_kernel_softnet_processed_total counter\n"), "{page}");
    assert!(!page.contains("# EOF"), "{page}");
    let output = napier(&["export", "--once", "--format", "openmetrics", "--dev", "lo"]);
    let page = text(&output);
    assert!(
        page.contains("napier_kernel_device_rx_packets_total{device=\"lo\"} ") && page.ends_with("\n# EOF\n"),
        "{page}"
    );
}

#[test]
fn promtool_finds_nothing_to_complain_of() {
    if !has("promtool_finds_nothing_to_complain_of", "promtool") {
        return;
    }
    let page = napier(&["export", "--once"]).stdout;
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    promtool.stdin.take().expect("piped").write_all(&page).expect("it reads");
    let output = promtool.wait_with_output().expect("it ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
}

#[test]
fn it_answers_until_it_is_interrupted() {
    let port = free_port();
    let running = start(&["export", "--listen", &format!("127.0.0.1:{port}")]);
    let answer = scrape(port);
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0"),
        "{answer}"
    );
    assert!(answer.contains("\nnapier_kernel_cpu_seconds_total{cpu=\"0\",state=\"user\"} "), "{answer}");
    end(running);
}

#[test]
fn a_service_manager_is_told() {
    let folder = Folder::new("export-notify");
    let socket = UnixDatagram::bind(folder.file("notify")).expect("bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let child = Command::new(NAPIER)
        .args(["export", "--listen", "127.0.0.1:0"])
        .env("NOTIFY_SOCKET", folder.file("notify"))
        .stdout(Stdio::null())
        .spawn();
    let running = Running(child.expect("the binary starts"));
    let mut bytes = [0; 500];
    let mut told = || {
        let count = socket.recv(&mut bytes).expect("it tells");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    let ready = told();
    assert!(ready.starts_with("READY=1\nSTATUS=ready: http://127.0.0.1:"), "{ready}");
    end(running);
    assert_eq!(told(), "STOPPING=1\n");
}

#[test]
fn what_cannot_be_listened_at_is_told_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let addr = taken.local_addr().expect("bound").to_string();
    let rows: [(&[&str], i32, &str); 7] = [
        (&["--listen", &addr], 1, "another program has 127.0.0.1:"),
        (&["--listen", "192.0.2.1:9100"], 1, "192.0.2.1 is no address of this machine"),
        (&["--listen", ":9100"], 2, "give an address too: 127.0.0.1:9100"),
        (&["--listen", "here"], 2, "give an address and a port, such as 127.0.0.1:19100"),
        (&["--dev", "no-such-one", "--once"], 2, "no interface is called no-such-one"),
        (&["--format", "text"], 2, "--once"),
        (&["--once", "--listen", "127.0.0.1:0"], 2, "cannot be used with"),
    ];
    for (args, status, words) in rows {
        refused(&[&["export"], args].concat(), status, words);
    }
}

#[test]
fn an_engine_is_looked_into_over_http() {
    let folder = Folder::new("export-engine");
    let (dev, port) = (format!("memif:{}", folder.file("memif.sock")), free_port());
    let addr = format!("127.0.0.1:{port}");
    let serve = ["serve", "kv", "--dev", &dev, "--ip", "10.78.0.1/24", "--metrics", &addr];
    let server = start(&serve);
    let page = scrape(port);
    assert!(page.contains("\nnapier_engine_info{version=\"") && page.ends_with("# EOF\n"), "{page}");
    assert!(page.contains("\n# UNIT napier_thread_cpu_seconds seconds\n"), "{page}");
    // The second one does not even begin.
    refused(&serve, 1, "another program has 127.0.0.1:");
    end(server);
    refused(&["serve", "kv", "--metrics", &addr], 2, "napier export has the kernel's figures");
    refused(&["compare", "--backend", "sim", "--metrics", &addr], 2, "--metrics is for what is measured");
}

/// `docs/metrics-kernel.md` as it is to be.
fn page() -> String {
    let all: Vec<&Metric> = napier_linux::metrics::all().collect();
    let head = include_str!("export/page.md");
    format!("{head}\n{}", napier_export::table(&all))
}

#[test]
fn the_page_of_the_kernels_figures_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics-kernel.md");
    if std::env::var_os("NAPIER_UPDATE").is_some() {
        std::fs::write(&path, page()).expect("written");
    }
    let is_current = std::fs::read_to_string(&path).unwrap_or_default() == page();
    assert!(is_current, "docs/metrics-kernel.md is old; run: NAPIER_UPDATE=1 cargo test -p napier --test export");
}
