//! The server, with honest clients and others.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use napier_core::metric::{Kind, Metric, Sink, Unit};
use napier_export::{Exporter, ListenError, Place, Polling};
use napier_sys::sched::PATIENT_NICENESS;
use napier_testkit::PATIENCE;

static WALKS: Metric =
    Metric { name: "napier_test_walks", kind: Kind::Counter, unit: Unit::Count, help: "Walks", labels: &[] };
static FILL: Metric =
    Metric { name: "napier_test_fill", kind: Kind::Gauge, unit: Unit::Count, help: "To fill a page", labels: &["nth"] };

/// Samples that fill a page of more bytes than the buffers of both ends of a connection hold. A few long ones: to make it is quick.
const TOO_MANY: u64 = 2_000;
const LABEL_BYTES: usize = 2_000;

const ANY: SocketAddr = SocketAddr::V4(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0));

/// The label of a sample that fills a page.
fn label(nth: u64) -> String {
    format!("{nth:0LABEL_BYTES$}")
}

/// With as many samples beside the one that counts walks.
fn exporter(samples: u64) -> Exporter {
    let walks = Arc::new(AtomicU64::new(0));
    let labels: Vec<String> = (0..samples).map(label).collect();
    let walk = move |sink: &mut dyn Sink| {
        sink.sample(&WALKS, &[], walks.fetch_add(1, Ordering::Relaxed) + 1);
        labels.iter().zip(0..).for_each(|(label, nth)| sink.sample(&FILL, &[label], nth));
    };
    Exporter::start(ANY, || Polling::On(Vec::new()), walk).expect("a port is free")
}

fn connect(exporter: &Exporter) -> TcpStream {
    let stream = TcpStream::connect(exporter.addr()).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time-out");
    stream
}

/// Its buffer does not grow, so that most of a page stays with the sender, who has room for some 2.6 MB at first (`net/ipv4/tcp_input.c` `tcp_sndbuf_expand`).
fn takes_little(stream: &TcpStream) {
    const BYTES: usize = 64 << 10;
    rustix::net::sockopt::set_socket_recv_buffer_size(stream, BYTES).expect("any size");
}

/// All that comes until the other end closes.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // What was not read there may end it with a reset.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn ask(exporter: &Exporter, request: &str) -> String {
    let mut stream = connect(exporter);
    stream.write_all(request.as_bytes()).expect("it reads");
    rest(stream)
}

fn scrape(exporter: &Exporter) {
    let answer = ask(exporter, "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text\r\n\r\n");
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0;"),
        "{answer}"
    );
    assert!(answer.contains("napier_test_walks_total ") && answer.ends_with("# EOF\n"), "{answer}");
}

#[test]
fn figures_are_answered() {
    let exporter = exporter(0);
    scrape(&exporter);
    let plain = ask(&exporter, "GET /metrics HTTP/1.0\r\n\r\n");
    assert!(plain.contains("\r\nContent-Type: text/plain; version=0.0.4;"), "{plain}");
    assert!(plain.contains("# TYPE napier_test_walks_total counter\n"), "{plain}");
    let head = ask(&exporter, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(ask(&exporter, "GET / HTTP/1.1\r\n\r\n").contains("href=\"/metrics\""));
    assert!(ask(&exporter, "GET /secret HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    let posted = ask(&exporter, "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
    assert!(posted.starts_with("HTTP/1.1 405 ") && posted.contains("\r\nAllow: GET, HEAD\r\n"), "{posted}");
}

#[test]
fn a_connection_is_kept_for_who_asks() {
    let exporter = exporter(0);
    let mut stream = connect(&exporter);
    let mut one = |close: bool| {
        let then = if close { "close" } else { "keep-alive" };
        stream.write_all(b"GET /metr").expect("it reads");
        thread::sleep(std::time::Duration::from_millis(20));
        stream.write_all(format!("ics HTTP/1.1\r\nConnection: {then}\r\n\r\n").as_bytes()).expect("it reads");
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a head");
            bytes.extend(byte);
        }
        let head = String::from_utf8(bytes).expect("text");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nConnection: {then}\r\n")), "{head}");
        let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next()).expect("a length");
        let mut page = vec![0; length.parse().expect("a number")];
        stream.read_exact(&mut page).expect("a page");
        assert!(page.starts_with(b"# HELP napier_test_walks_total "), "{}", String::from_utf8_lossy(&page));
    };
    (0..3).for_each(|_| one(false));
    one(true);
    assert_eq!(rest(stream), "");
}

#[test]
fn a_request_may_come_in_pieces() {
    let exporter = exporter(0);
    let mut stream = connect(&exporter);
    for piece in ["GET /met", "rics HTTP/1.1\r", "\nHost: x\r\n", "\r\n"] {
        stream.write_all(piece.as_bytes()).expect("it reads");
        scrape(&exporter);
    }
    assert!(rest(stream).starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn garbage_is_refused_and_harms_nobody() {
    let exporter = exporter(0);
    // A greeting of TLS, zeros, and a request that is cut.
    for garbage in
        [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], &[0; 3000], b"\r\n\r\n", b"hello\n\n", &[0xff; 20000]]
    {
        let mut stream = connect(&exporter);
        // It may have been refused before the end.
        let _ = stream.write_all(garbage);
        let answer = rest(stream);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
        scrape(&exporter);
    }
    let mut cut = connect(&exporter);
    cut.write_all(b"GET /metr").expect("it reads");
    cut.shutdown(Shutdown::Write).expect("open");
    assert_eq!(rest(cut), "");
    // With nothing at all.
    drop(connect(&exporter));
    scrape(&exporter);
}

#[test]
fn a_huge_head_is_refused() {
    let exporter = exporter(0);
    let answer = ask(&exporter, &format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9000)));
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    // Without an end: the client is told, and what it still sends is kept nowhere.
    let mut stream = connect(&exporter);
    let line = format!("X-{}: y\r\n", "x".repeat(1000));
    let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n");
    // It reads for half a second more; how much comes in that is the machine's matter.
    let begun = std::time::Instant::now();
    while stream.write_all(line.as_bytes()).is_ok() {
        assert!(begun.elapsed() < PATIENCE, "it takes all that comes");
    }
    scrape(&exporter);
}

#[test]
fn a_slow_client_is_told_and_holds_nobody_up() {
    let exporter = exporter(0);
    let mut slow = connect(&exporter);
    slow.write_all(b"GET /metrics HT").expect("it reads");
    let mut scrapes = 0;
    // One byte after the other, while others are answered.
    let mut answer = [0; 12];
    slow.set_nonblocking(true).expect("open");
    while slow.read_exact(&mut answer).is_err() {
        let _ = slow.write_all(b"x");
        scrape(&exporter);
        scrapes += 1;
        thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 408");
    assert!(scrapes > 0);
}

#[test]
fn a_client_that_reads_nothing_is_left() {
    let exporter = exporter(TOO_MANY);
    let mut stream = connect(&exporter);
    takes_little(&stream);
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it reads");
    // It can be asked for meanwhile.
    assert!(ask(&exporter, "GET / HTTP/1.1\r\n\r\n").contains("/metrics"));
    // Until the server has closed, it takes what is written; then it is reset.
    let begun = std::time::Instant::now();
    while stream.write_all(b"x").is_ok() {
        assert!(begun.elapsed() < PATIENCE, "it is still waited for");
        thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_thousand_connections_shut_nobody_out() {
    const HELD_MAX: usize = 600;
    let exporter = exporter(0);
    let mut held = VecDeque::new();
    for nth in 0..1000 {
        // More than a process may have open with the limit that is usual.
        if held.len() == HELD_MAX {
            held.pop_front();
        }
        let mut stream = connect(&exporter);
        // Some ask by halves.
        if nth % 2 == 0 {
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n");
        }
        held.push_back(stream);
        if nth % 100 == 99 {
            scrape(&exporter);
        }
    }
    scrape(&exporter);
}

#[test]
fn many_that_ask_at_once_are_all_answered() {
    let exporter = exporter(100);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| (0..25).for_each(|_| scrape(&exporter)));
        }
    });
}

#[test]
fn an_address_that_cannot_be_had_is_told() {
    let taken = TcpListener::bind(ANY).expect("a port is free");
    let addr = taken.local_addr().expect("bound");
    let error = Exporter::start(addr, || Polling::On(Vec::new()), |_: &mut dyn Sink| {}).expect_err("it is taken");
    assert!(matches!(error, ListenError::InUse { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        format!("another program has {addr}: give another port, or end that program (ss -ltnp shows it)")
    );
    // TEST-NET-1, RFC 5737.
    let addr: SocketAddr = "192.0.2.1:9".parse().expect("an address");
    let error = Exporter::start(addr, || Polling::On(Vec::new()), |_: &mut dyn Sink| {}).expect_err("it is nobody's");
    assert!(matches!(error, ListenError::NotLocal { .. }), "{error}");
    assert!(error.to_string().starts_with("192.0.2.1 is no address of this machine"), "{error}");
}

#[test]
fn an_address_is_free_again_after_the_end() {
    let first = exporter(0);
    let addr = first.addr();
    let left = connect(&first);
    scrape(&first);
    drop(first);
    let again = Exporter::start(addr, || Polling::On(Vec::new()), |_: &mut dyn Sink| {}).expect("the first has ended");
    assert!(ask(&again, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
    drop(left);
}

/// What the system says of the thread of this name: where it may run, its niceness, its class.
fn seen(name: &str) -> Vec<(String, i32, u32)> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("proc").flatten().map(|entry| entry.path());
    let tasks = tasks.filter(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name));
    let of = |task: std::path::PathBuf| {
        let status = std::fs::read_to_string(task.join("status")).ok()?;
        let stat = std::fs::read_to_string(task.join("stat")).ok()?;
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned();
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(19 - 3);
        let nice = fields.next()?.parse().ok()?;
        Some((cpus, nice, fields.nth(41 - 20)?.parse().ok()?))
    };
    tasks.filter_map(of).collect()
}

#[test]
fn slow_clients_do_not_hold_a_page_each() {
    // So each holds its page.
    let exporter = exporter(TOO_MANY);
    let ask_only = || {
        let mut stream = connect(&exporter);
        takes_little(&stream);
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it reads");
        // A page of its own.
        thread::sleep(std::time::Duration::from_millis(120));
        assert!(ask(&exporter, "GET / HTTP/1.1\r\n\r\n").contains("/metrics"));
        stream
    };
    let begun = std::time::Instant::now();
    let mut slow: Vec<TcpStream> = (0..20).map(|_| ask_only()).collect();
    if begun.elapsed() > std::time::Duration::from_secs(5) {
        return napier_testkit::skip!("slow_clients_do_not_hold_a_page_each", "a machine that makes pages faster");
    }
    // The first one has gone for others, not for its time: its answer is cut. The last one has all of it.
    let line = format!("\nnapier_test_fill{{nth=\"{}\"}} {}\n", label(TOO_MANY - 1), TOO_MANY - 1);
    let last = rest(slow.pop().expect("twenty"));
    assert!(last.contains(&line), "{} bytes", last.len());
    let first = rest(slow.remove(0));
    assert!(!first.contains(&line), "{} bytes", first.len());
}

#[test]
fn the_thread_keeps_off_cpus_that_poll() {
    let all = napier_sys::sched::available_cpus();
    let start = |polling: Polling| Exporter::start(ANY, move || polling.clone(), |_: &mut dyn Sink| {});
    let start = |polling: Polling| start(polling).expect("a port is free");
    let nowhere = start(Polling::On(all.clone()));
    assert_eq!(nowhere.place(), &Place::Anywhere);
    assert_eq!(start(Polling::Anywhere).place(), &Place::Anywhere);
    // `include/uapi/linux/sched.h SCHED_NORMAL`.
    assert!(seen("napier-export").iter().any(|(_, nice, class)| (*nice, *class) == (PATIENT_NICENESS, 0)));
    let [first, rest @ ..] = all.as_slice() else { unreachable!("a CPU runs this") };
    if rest.is_empty() {
        return napier_testkit::skip!("the_thread_keeps_off_cpus_that_poll", "one CPU");
    }
    let apart = start(Polling::On(vec![*first]));
    assert_eq!(apart.place(), &Place::Apart(rest.to_vec()));
    let list = |cpus: &str| cpus.split(',').map(|part| part.split('-').next().map(str::to_owned)).next().flatten();
    let found = seen("napier-export");
    let is_it = |(cpus, nice, class): &&(String, i32, u32)| {
        (list(cpus), *nice, *class) == (Some(rest[0].to_string()), PATIENT_NICENESS, 0)
    };
    assert!(found.iter().find(is_it).is_some(), "{found:?}");
}

#[test]
fn the_thread_leaves_a_cpu_that_begins_to_poll() {
    let test = "the_thread_leaves_a_cpu_that_begins_to_poll";
    let all = napier_sys::sched::available_cpus();
    let [first, second, ..] = all[..] else { return napier_testkit::skip!(test, "one CPU") };
    let polls = Arc::new(AtomicU64::new(0));
    let begun = polls.clone();
    let polling = move || Polling::On(if begun.load(Ordering::Relaxed) == 0 { vec![first] } else { vec![second] });
    // Of the thread that walks, which no other test can be taken for.
    static ALLOWED: std::sync::Mutex<Vec<usize>> = std::sync::Mutex::new(Vec::new());
    let walk = |_: &mut dyn Sink| {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("proc");
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:")).expect("a mask").trim();
        let low = u64::from_str_radix(&cpus[cpus.len().saturating_sub(8)..], 16).expect("a number");
        *ALLOWED.lock().expect("short") = (0..32).filter(|cpu| low >> cpu & 1 == 1).collect();
    };
    if second >= 32 {
        return napier_testkit::skip!(test, "CPUs with lower numbers");
    }
    let exporter = Exporter::start(ANY, polling, walk).expect("a port is free");
    let allowed = || {
        ask(&exporter, "GET /metrics HTTP/1.1\r\n\r\n");
        ALLOWED.lock().expect("short").clone()
    };
    assert!(!allowed().contains(&first) && allowed().contains(&second));
    polls.store(1, Ordering::Relaxed);
    let begun = std::time::Instant::now();
    while allowed().contains(&second) {
        assert!(begun.elapsed() < PATIENCE, "it stays");
        thread::sleep(std::time::Duration::from_millis(200));
    }
    assert!(allowed().contains(&first));
}
