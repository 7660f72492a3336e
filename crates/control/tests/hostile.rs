//! The figures over the socket; and what is at either end of a socket that is not as it should be.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use napier_control::server::CLIENTS_MAX;
use napier_control::{AskError, Client, ControlSocket};
use napier_runtime::engine::Engine;
use napier_runtime::metric::{Metric, metrics};
use napier_testkit::Folder;

/// An engine and its socket.
fn engine_in(folder: &Folder) -> (Engine, ControlSocket, String) {
    let (engine, _, _) = napier_runtime::doc_link().expect("it starts");
    let socket = ControlSocket::open_in(folder, &engine).expect("opened");
    let path = socket.path().to_str().expect("a plain path").to_owned();
    (engine, socket, path)
}

/// A figure as text: name, labels.
type Key = (String, BTreeMap<String, String>);

fn asked(client: &mut Client, prefixes: &[&str]) -> BTreeMap<Key, u64> {
    let families = client.metrics(prefixes).expect("answered");
    let all = families.into_iter().flat_map(|family| {
        family.samples.into_iter().map(move |sample| ((family.name.clone(), sample.labels), sample.value))
    });
    all.collect()
}

fn walked(engine: &Engine) -> BTreeMap<Key, u64> {
    let mut seen = BTreeMap::new();
    engine.metrics(&mut |metric: &'static Metric, labels: &[&str], value: u64| {
        let labels = metric.labels.iter().zip(labels).map(|(name, label)| ((*name).to_owned(), (*label).to_owned()));
        seen.insert((metric.name.to_owned(), labels.collect()), value);
    });
    seen
}

#[test]
fn the_figures_come_over_the_socket() {
    let folder = Folder::new("hostile-figures");
    let (engine, _socket, path) = engine_in(&folder);
    let mut client = Client::connect(&path).expect("connected");
    // The thread that neighbours age by begins when a device comes, in its own time, and so does the watchdog's.
    napier_testkit::eventually("all threads are there", || {
        let now = walked(&engine);
        let is_there =
            |thread: &str| now.keys().any(|(_, labels)| labels.get("name").is_some_and(|name| name == thread));
        is_there("neighbour timer") && is_there("napier-watch")
    });
    let (before, over, after) = (walked(&engine), asked(&mut client, &[]), walked(&engine));
    assert_eq!(over.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    let counters = over.iter().filter(|((name, _), _)| {
        metrics().iter().any(|metric| metric.name == name && metric.kind == napier_runtime::metric::Kind::Counter)
    });
    for (key, value) in counters {
        assert!(before[key] <= *value && *value <= after[key], "{key:?}");
    }
    let some = asked(&mut client, &["napier_napi_p"]);
    assert!(!some.is_empty() && some.keys().all(|(name, _)| name.starts_with("napier_napi_p")));
    let more = asked(&mut client, &["napier_engine_uptime", "napier_napi_p"]);
    assert_eq!(more.len(), some.len() + 1);
    assert!(client.metrics(&["napier_napi_p"; 65]).expect_err("too many").to_string().contains("at most 64"));
    assert_eq!(asked(&mut client, &["no_such"]), BTreeMap::new());

    let stream = UnixStream::connect(&path).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
    for attributes in [r#"{"prefix": 1}"#, r#"{"prefix": ["x", 1]}"#, r#"{"name": "x"}"#] {
        let request = format!("{{\"op\": \"metrics\", \"how\": \"dump\", \"attributes\": {attributes}}}\n");
        (&stream).write_all(request.as_bytes()).expect("sent");
        let mut line = String::new();
        reader.read_line(&mut line).expect("answered");
        assert!(line.contains("EINVAL") && line.contains("prefix"), "{line}");
    }
    drop(engine);
    assert!(client.metrics(&[]).expect_err("it has stopped").to_string().contains("the engine has stopped"));
}

#[test]
fn a_socket_that_a_dead_engine_left_is_no_engine() {
    let folder = Folder::new("hostile-dead");
    let path = folder.join("1.sock");
    drop(UnixListener::bind(&path).expect("bound"));
    let path = path.to_str().expect("a plain path");
    let error = Client::connect(path).expect_err("nobody listens");
    assert!(matches!(error, AskError::NotThere { .. }) && error.to_string().contains(path), "{error}");
}

/// What is at a socket answers with these bytes, and goes.
fn answered_with(folder: &Folder, bytes: &[u8]) -> AskError {
    let path = folder.join("9.sock");
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("bound");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (stream, _) = listener.accept().expect("it connects");
            BufReader::new(&stream).read_line(&mut String::new()).expect("it asks");
            let _ = (&stream).write_all(bytes);
        });
        let mut client = Client::connect(path.to_str().expect("a plain path")).expect("connected");
        client.metrics(&[]).expect_err("it is no answer")
    })
}

#[test]
fn garbage_instead_of_an_answer_is_an_error() {
    let folder = Folder::new("hostile-garbage");
    let endless = vec![b'x'; 17 << 20];
    let deep = [&b"{\"reply\": "[..], &[b'['; 100_000], b"\n"].concat();
    let answers: [&[u8]; 9] = [
        b"",
        b"\n",
        b"\0\xff\xfe\n",
        b"{\"reply\": 7}\n",
        b"{\"reply\": [{\"name\": \"x\"}]}\n",
        b"{\"reply\": [{\"name\": \"x\", \"kind\": \"y\", \"unit\": \"z\", \"help\": \"\", \"samples\": [{\"labels\": {}, \"value\": -1}]}]}\n",
        b"{\"reply\": []}",
        &endless,
        &deep,
    ];
    for answer in answers {
        let error = answered_with(&folder, answer);
        assert!(matches!(error, AskError::System { .. }), "{error}");
        assert!(error.to_string().contains("asking the engine at"), "{error}");
    }
    let told = answered_with(&folder, b"{\"error\": {\"errno\": null, \"message\": \"a\\u001b[2Jb\"}}\n");
    assert_eq!(told.to_string(), "a[2Jb", "its words are for a terminal");
}

#[test]
fn who_floods_the_socket_keeps_nobody_else_waiting() {
    let folder = Folder::new("hostile-flood");
    let (_engine, socket, path) = engine_in(&folder);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut stream = UnixStream::connect(socket.path()).expect("connected");
                stream.set_write_timeout(Some(Duration::from_millis(50))).expect("set");
                let asks = b"{\"op\": \"metrics\", \"how\": \"dump\"}\n".repeat(50);
                while !ends.load(Ordering::Relaxed) {
                    // It reads nothing, so the engine does not either after a while.
                    let _ = stream.write(&asks);
                }
            });
        }
        let mut client = Client::connect(&path).expect("connected");
        for _ in 0..30 {
            client.metrics(&["napier_napi_"]).expect("answered");
        }
        ends.store(true, Ordering::Relaxed);
    });
}

#[test]
fn ten_thousand_connections_are_bounded_and_an_honest_client_is_answered() {
    const OPEN_MAX: usize = 200;
    let folder = Folder::new("hostile-many");
    let (_engine, socket, path) = engine_in(&folder);
    let mut client = Client::connect(&path).expect("connected");
    client.metrics(&["napier_softirq_"]).expect("answered");
    let descriptors = || fs::read_dir("/proc/self/fd").expect("it is there").count();
    let before = descriptors();
    let mut open = VecDeque::new();
    for nth in 0..10_000 {
        let stream = UnixStream::connect(socket.path()).expect("connected");
        let _ = (&stream).write(if nth % 2 == 0 { b"{\"op\": " } else { b"" });
        open.push_back(stream);
        if open.len() > OPEN_MAX {
            open.pop_front();
        }
        if nth % 500 == 0 {
            // The one that asked before is not given up for those that never did; and who comes now is answered, too.
            client.metrics(&["napier_softirq_"]).expect("answered");
            Client::connect(&path).expect("connected").metrics(&["napier_softirq_"]).expect("answered");
        }
    }
    let until = Instant::now() + Duration::from_secs(20);
    // Other tests have descriptors of their own.
    let most = before + OPEN_MAX + CLIENTS_MAX + 60;
    while descriptors() > most && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(descriptors() <= most, "{} after {before}", descriptors());
    client.metrics(&["napier_softirq_"]).expect("answered");
}
