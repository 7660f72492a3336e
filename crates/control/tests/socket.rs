//! A running engine answers at its socket, to those who may ask, and stands what they send.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use napier_control::server::{CLIENTS_MAX, REQUEST_BYTES_MAX};
use napier_control::words::{How, Operation};
use napier_control::{AskError, Client, ControlSocket, record};
use napier_runtime::device::{EndConfig, IfAddr, LinkConfig};
use napier_runtime::engine::Engine;
use napier_testkit::Folder;
use serde_json::{Map, Value, json};

/// A folder that is this user's alone.
fn own_folder(test: &str) -> Folder {
    let folder = Folder::new(&format!("control-{test}"));
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("set");
    folder
}

/// An engine with a link of two queues, `a0` and `b0`.
fn engine() -> Engine {
    let engine = Engine::builder().start().expect("it starts");
    let end = |name: &str, n| EndConfig {
        name: name.into(),
        netns: engine.namespace(),
        mac: [2, 0, 0, 0, 0, n],
        addresses: vec![IfAddr { addr: [10, 0, 0, n].into(), prefix_len: 24 }],
        irq_cpus: vec![],
    };
    let config = LinkConfig { queues: 2, ..LinkConfig::default() };
    engine.add_link(&config, end("a0", 1), end("b0", 2)).expect("added");
    engine
}

fn path(socket: &ControlSocket) -> &str {
    socket.path().to_str().expect("a plain path")
}

fn attributes(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other}"),
    }
}

fn errno(answer: Result<Value, AskError>) -> Option<String> {
    match answer {
        Err(AskError::Refused { errno, message }) => {
            assert!(!message.is_empty());
            errno
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_words_are_those_of_the_engine() {
    let (folder, engine) = (own_folder("words"), engine());
    let socket = ControlSocket::open_in(&folder, &engine).expect("opened");
    let mut client = Client::connect(path(&socket)).expect("connected");
    let mut ask = |operation, how, value| client.ask(operation, how, &attributes(value), None);

    let napis = engine.napi_dump(None).expect("listed");
    assert_eq!(napis.len(), 4);
    let all = ask(Operation::NapiGet, How::Dump, json!({})).expect("answered");
    assert_eq!(all, record::all(&napis, record::napi));
    let id = napis[0].id;
    let change =
        json!({"id": id, "defer-hard-irqs": 7, "irq-suspend-timeout": 5_000_000_000_u64, "threaded": "workqueue"});
    assert_eq!(ask(Operation::NapiSet, How::Do, change).expect("set"), Value::Null);
    let now = ask(Operation::NapiGet, How::Do, json!({"id": id})).expect("answered");
    assert_eq!((&now["defer-hard-irqs"], &now["threaded"]), (&json!(7), &json!("workqueue")));
    assert_eq!(now["irq-suspend-timeout"], json!(5_000_000_000_u64));

    let queues = ask(Operation::QueueGet, How::Dump, json!({"ifindex": 1})).expect("answered");
    assert_eq!(queues.as_array().map(Vec::len), Some(4));
    let one = ask(Operation::QueueGet, How::Do, json!({"ifindex": 1, "type": "tx", "id": 1})).expect("answered");
    assert_eq!(one, queues[3]);
    let devices = ask(Operation::DevGet, How::Dump, json!({})).expect("answered");
    assert_eq!(devices[1], ask(Operation::DevGet, How::Do, json!({"ifindex": 2})).expect("answered"));
    let stats = ask(Operation::QstatsGet, How::Dump, json!({"ifindex": 1, "scope": "queue"})).expect("answered");
    assert_eq!((&stats[0]["queue-type"], &stats[3]["queue-id"]), (&json!("rx"), &json!(1)));
    assert!(stats[0]["rx-packets"].is_u64() && stats[0]["tx-packets"].is_null());

    for (operation, how, value, want) in [
        (Operation::NapiGet, How::Do, json!({"id": 7}), "ENOENT"),
        (Operation::NapiGet, How::Do, json!({}), "EINVAL"),
        (Operation::NapiGet, How::Dump, json!({"ifindex": 0}), "ERANGE"),
        (Operation::QueueGet, How::Dump, json!({"ifindex": 99}), "ENODEV"),
        (Operation::DevGet, How::Do, json!({"ifindex": 99}), "ENODEV"),
        (Operation::QstatsGet, How::Do, json!({}), "EOPNOTSUPP"),
        (Operation::NapiSet, How::Do, json!({"id": id, "irq": 1}), "EINVAL"),
        (Operation::NapiSet, How::Do, json!({"id": id, "defer-hard-irqs": 1_u64 << 31}), "ERANGE"),
    ] {
        assert_eq!(errno(ask(operation, how, value.clone())).as_deref(), Some(want), "{value}");
    }
    engine.set_cap_net_admin(false);
    assert_eq!(errno(ask(Operation::NapiSet, How::Do, json!({"id": id}))).as_deref(), Some("EPERM"));
}

#[test]
fn a_device_of_the_engine_goes_by_its_name() {
    let (folder, engine) = (own_folder("names"), engine());
    let socket = ControlSocket::open_in(&folder, &engine).expect("opened");
    let mut client = Client::connect(path(&socket)).expect("connected");
    let mut ask = |dev| client.ask(Operation::DevGet, How::Do, &Map::new(), Some(dev));
    assert_eq!(ask("b0").expect("answered")["ifindex"], 2);
    assert_eq!(errno(ask("c0")).as_deref(), Some("ENODEV"));
}

#[test]
fn sockets_are_their_users_alone_have_names_of_their_own_and_go() {
    let (folder, engine) = (own_folder("places"), engine());
    let pid = std::process::id();
    // As a process leaves it that is killed.
    let left = folder.join(format!("{pid}.sock"));
    let bind = |path: &PathBuf| std::os::unix::net::UnixListener::bind(path).expect("bound");
    // No process has the number of the second.
    for path in [&left, &folder.join("4194305-2.sock")] {
        drop(bind(path));
    }
    let first = ControlSocket::open_in(&folder, &engine).expect("opened");
    let second = ControlSocket::open_in(&folder, &engine).expect("opened");
    assert_eq!((first.name(), second.name()), (pid.to_string(), format!("{pid}-2")));
    assert_eq!(first.path(), left);
    assert_eq!(fs::metadata(&left).expect("it is there").mode() & 0o777, 0o600);
    drop((first, second));
    assert_eq!(fs::read_dir(&folder).expect("listed").count(), 0);
    ControlSocket::open_in(&folder.join("none"), &engine).expect_err("there is no such folder");
}

#[test]
fn an_engine_is_not_kept_running() {
    let (folder, engine) = (own_folder("stops"), engine());
    let socket = ControlSocket::open_in(&folder, &engine).expect("opened");
    let mut client = Client::connect(path(&socket)).expect("connected");
    let weak = engine.downgrade();
    client.ask(Operation::DevGet, How::Dump, &Map::new(), None).expect("answered");
    drop(engine);
    // A thread of the socket may be asking it something.
    napier_testkit::eventually("the engine has ended", || weak.upgrade().is_none());
    let refused = client.ask(Operation::DevGet, How::Dump, &Map::new(), None).expect_err("it has stopped");
    assert!(refused.to_string().contains("the engine has stopped"), "{refused}");
    drop(socket);
    client.ask(Operation::DevGet, How::Dump, &Map::new(), None).expect_err("no one answers");
}

/// What a stream says before it ends, or before it falls silent.
fn rest(mut stream: UnixStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn what_is_no_request_is_told_so_and_others_go_on() {
    let (folder, engine) = (own_folder("hostile"), engine());
    let socket = ControlSocket::open_in(&folder, &engine).expect("opened");
    let connect = || UnixStream::connect(socket.path()).expect("connected");
    let mut client = Client::connect(path(&socket)).expect("connected");
    let deep = "[".repeat(40_000);
    let lines: [&[u8]; 9] = [
        b"",
        b"\0\xff\xfe",
        b"null",
        b"[]",
        deep.as_bytes(),
        br#"{"op": "napi-get"}"#,
        br#"{"op": "napi-get", "how": "dump", "more": 1}"#,
        br#"{"op": "bind-rx", "how": "do"}"#,
        br#"{"op": "napi-get", "how": "dump", "dev": "a0", "attributes": {"ifindex": 1}}"#,
    ];
    let stream = connect();
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
    for line in lines {
        (&stream).write_all(&[line, b"\n"].concat()).expect("sent");
        let mut answer = String::new();
        reader.read_line(&mut answer).expect("answered");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["error"]["errno"], "EINVAL", "{answer}");
    }
    client.ask(Operation::DevGet, How::Dump, &Map::new(), None).expect("answered");

    let long = connect();
    let sent = (&long).write_all(&vec![b'x'; 2 * REQUEST_BYTES_MAX]);
    assert!(sent.is_ok() || sent.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe));
    let said = rest(long);
    // The rest of what was sent may be refused before the words were read.
    assert!(said.is_empty() || said.contains("at most 65536 bytes"), "{said}");
    client.ask(Operation::DevGet, How::Dump, &Map::new(), None).expect("answered");

    // Many that say nothing, half a request, or go away with an answer unread.
    let silent: Vec<UnixStream> = (0..3 * CLIENTS_MAX).map(|_| connect()).collect();
    for (nth, mut stream) in silent.iter().enumerate() {
        let words: &[u8] = if nth % 2 == 0 { b"{\"op\": " } else { b"{\"op\": \"napi-get\", \"how\": \"dump\"}\n" };
        let _ = stream.write(words);
    }
    let mut late = Client::connect(path(&socket)).expect("connected");
    late.ask(Operation::NapiGet, How::Dump, &Map::new(), None).expect("answered");
    drop(silent);
    late.ask(Operation::NapiGet, How::Dump, &Map::new(), None).expect("answered");
}

#[test]
fn several_clients_ask_at_once() {
    let (folder, engine) = (own_folder("several"), engine());
    let socket = ControlSocket::open_in(&folder, &engine).expect("opened");
    let id = engine.napi_dump(None).expect("listed")[0].id;
    std::thread::scope(|scope| {
        for value in 1..=8_u32 {
            let path = path(&socket);
            scope.spawn(move || {
                let mut client = Client::connect(path).expect("connected");
                for _ in 0..50 {
                    let change = json!({"id": id, "defer-hard-irqs": value, "gro-flush-timeout": value});
                    client.ask(Operation::NapiSet, How::Do, &attributes(change), None).expect("set");
                    let now = client.ask(Operation::NapiGet, How::Do, &attributes(json!({"id": id})), None);
                    // Who looks does not wait for a change that is under way: it may see one half of it.
                    let now = now.expect("answered");
                    for attribute in ["defer-hard-irqs", "gro-flush-timeout"] {
                        assert!(now[attribute].as_u64().is_some_and(|value| (1..=8).contains(&value)), "{now}");
                    }
                }
            });
        }
    });
    let now = record::napi(&engine.napi_dump(None).expect("listed")[0]);
    assert_eq!(now["defer-hard-irqs"], now["gro-flush-timeout"], "one change at a time");
}

#[test]
fn another_user_is_not_answered() {
    let test = "another_user_is_not_answered";
    let can = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !rustix::process::geteuid().is_root() || !can("setpriv") || !can("python3") {
        napier_testkit::skip!(test, "it needs root, setpriv and python3");
        return;
    }
    let (folder, engine) = (own_folder("user"), engine());
    let socket = ControlSocket::open_in(&folder, &engine).expect("opened");
    let ask = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
               s.settimeout(10)\ns.sendall(b'{\"op\": \"dev-get\", \"how\": \"dump\"}\\n')\nprint(len(s.recv(100)))";
    let as_nobody = |uid: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", uid, "--clear-groups", "python3", "-c", ask]).arg(socket.path());
        let output = command.output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    assert!(!as_nobody("65534").0, "the folder is closed to it");
    // If both were open, it would be let in and not be answered.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("set");
    fs::set_permissions(socket.path(), fs::Permissions::from_mode(0o666)).expect("set");
    let (ended, said) = as_nobody("65534");
    assert!(!ended || said == "0", "{said}");
    assert_ne!(as_nobody("0").1, "0");
}
