//! `napier compare --dev` and `napier load kv --agent`, each in a namespace of its own at the ends of one veth pair.

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Folder, NAPIER, Running, has, refused, rows, said, signal};
use napier_testkit::in_time_enough;
use napier_testnet::{self as net, Veth, VethConfig, VethEnd};
use serde_json::Value;

const SECRET: &str = "a secret of this test, and of no other";
const AGENT: &str = "10.99.7.2:7000";

/// A pair of interfaces, one for each side, and a folder for secrets and the journal.
struct Sides {
    pair: Veth,
    folder: Folder,
}

impl Sides {
    /// `None`, said aloud, where this machine cannot.
    fn new(test: &str) -> Option<Self> {
        let name = format!("on-{}", std::process::id());
        let ends = net::ends((&name, &["10.99.7.1/24"]), ("client", &["10.99.7.2/24"]));
        // Packets of a veth are polled only if its peer does not segment by itself.
        let pair = net::pair(test, &VethConfig { tso: false, ..ends })?;
        pair.left().set_feature(c"rx-gro", true).expect("a veth has it");
        Some(Self { pair, folder: Folder::new(test) })
    }

    fn secret(&self, name: &str, text: &str) -> PathBuf {
        let path = PathBuf::from(self.folder.file(name));
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path).unwrap();
        writeln!(file, "{text}").unwrap();
        path
    }

    fn command(&self, end: &VethEnd, args: &[&str]) -> Running {
        let mut command = Command::new(NAPIER);
        command.args(args).env("NAPIER_STATE_DIRECTORY", self.folder.file("."));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A child is in the namespace of the thread that starts it.
        Running(end.netns().run(|| command.spawn()).unwrap().expect("the binary starts"))
    }

    /// An agent at the other end, once it listens.
    fn agent(&self) -> (Running, BufReader<std::process::ChildStderr>) {
        let secret = self.secret("agent.secret", SECRET);
        let args = ["load", "kv", "--agent", AGENT, "--json", "--secret-file", secret.to_str().unwrap()];
        let mut agent = self.command(self.pair.right(), &args);
        let mut told = BufReader::new(agent.0.stderr.take().unwrap());
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        assert!(line.starts_with("ready: an agent at "), "{line}");
        (agent, told)
    }

    fn compare(&self, secret: &str, more: &[&str]) -> Running {
        let secret = self.secret("compare.secret", secret);
        let secret = secret.to_str().unwrap();
        let fixed = ["compare", "--backend", "kernel", "--client", AGENT, "--secret-file", secret, "--runs", "1"];
        let on = ["--on", self.pair.left().name(), "--flows", "4", "--json"];
        self.command(self.pair.left(), &[&fixed[..], &on, more].concat())
    }
}

fn output(mut running: Running) -> Output {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    running.0.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
    running.0.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
    Output { status: running.0.wait().unwrap(), stdout, stderr }
}

#[test]
fn a_server_on_an_interface_is_loaded_from_elsewhere() {
    let Some(place) = Sides::new("a_server_on_an_interface_is_loaded_from_elsewhere") else { return };
    let (agent, _told) = place.agent();
    let before = place.pair.left().napis().unwrap();
    // A stranger that talks a lot is closed, and nothing comes of it.
    place
        .pair
        .left()
        .netns()
        .run(|| {
            let mut stranger = TcpStream::connect(AGENT).expect("the agent listens");
            let _ = stranger.write_all(&vec![b'x'; 1 << 20]);
        })
        .unwrap();
    let short = ["--modes", "base,suspend20,threaded", "--load", "1k"];
    for proto in ["udp", "tcp"] {
        let rows = in_time_enough("each row has answers", Duration::from_millis(300), |length| {
            let seconds = length.as_secs_f64().to_string();
            let more = ["--proto", proto, "--seconds", &seconds];
            let rows = rows(&output(place.compare(SECRET, &[&short[..], &more].concat())));
            rows.iter().all(|row| row["achieved_rps"].as_f64() > Some(0.0)).then_some(rows)
        });
        assert_eq!(rows.len(), 4, "base has two: {rows:?}");
        for row in &rows {
            assert!(row["achieved_rps"].as_f64().expect("a rate") > 0.0, "{row}");
            assert!(row["latency_us"]["p99"].as_f64().expect("a latency") > 0.0, "{row}");
            assert_eq!((&row["cores"]["client"], &row["interrupts_per_s"]), (&Value::Null, &Value::Null), "{row}");
            // Null where nothing can be traced.
            assert!(row["polls_per_s"].as_f64() != Some(0.0), "{row}");
        }
    }
    if has("a_server_on_an_interface_is_loaded_from_elsewhere", "memcached") {
        let program = ["--proto", "tcp", "--", "memcached", "-u", "nobody", "-t", "1"];
        let rows = rows(&output(place.compare(SECRET, &[&short[..], &program].concat())));
        assert!(rows.iter().all(|row| row["achieved_rps"].as_f64() > Some(0.0)), "{rows:?}");
    }
    assert_eq!(place.pair.left().napis().unwrap(), before, "everything is as it was");
    let journals: Vec<_> =
        std::fs::read_dir(place.folder.file(".")).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(!journals.iter().any(|name| name.to_string_lossy().contains("journal")), "{journals:?}");
    drop(agent);
}

#[test]
fn another_secret_is_refused_and_nothing_is_changed() {
    let Some(place) = Sides::new("another_secret_is_refused_and_nothing_is_changed") else { return };
    let short = ["--modes", "base", "--load", "1k", "--seconds", "0.3"];
    let nobody = output(place.compare(SECRET, &short));
    assert!(nobody.status.code() == Some(1) && said(&nobody).contains("napier load kv --agent"), "{}", said(&nobody));
    let (_agent, _told) = place.agent();
    let before = place.pair.left().napis().unwrap();
    let wrong = output(place.compare("a secret of another test altogether", &short));
    assert_eq!(wrong.status.code(), Some(1));
    assert!(said(&wrong).contains("does not have the same secret"), "{}", said(&wrong));
    assert_eq!(place.pair.left().napis().unwrap(), before);
}

#[test]
fn an_agent_that_goes_away_fails_the_run_and_the_values_are_put_back() {
    let Some(place) = Sides::new("an_agent_that_goes_away_fails_the_run_and_the_values_are_put_back") else { return };
    let (mut agent, mut told) = place.agent();
    let before = place.pair.left().napis().unwrap();
    let long = ["--modes", "defer20", "--load", "1k", "--seconds", "600", "--no-trace"];
    let compare = place.compare(SECRET, &long);
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.starts_with("driven from "), "{line}");
    // The mode is in force once the row runs. It is read once each time: between a row's trial and the row itself the values are put back. It
    // is the row that has them for a second, and its flows are connected then.
    let begun = Instant::now();
    let mut since = begun;
    while since.elapsed() < Duration::from_secs(1) {
        assert!(begun.elapsed().as_secs() < 60, "the mode was never in force");
        if place.pair.left().napis().unwrap() == before {
            since = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(agent.0.id(), "TERM");
    agent.0.wait().unwrap();
    let ended = output(compare);
    assert_eq!(ended.status.code(), Some(1), "{}", said(&ended));
    assert!(said(&ended).contains("the agent at 10.99.7.2:7000"), "{}", said(&ended));
    assert_eq!(place.pair.left().napis().unwrap(), before, "everything is as it was");
}

#[test]
fn what_does_not_go_together_is_wrong_usage() {
    let file = "/nowhere/secret";
    let whole = ["--dev", "eth0", "--client", "192.0.2.1:7000", "--secret-file", file];
    fn compare<'a>(args: &[&'a str]) -> Vec<&'a str> {
        [&["compare"][..], args].concat()
    }
    for (args, words) in [
        (compare(&["--backend", "kernel", "--dev", "eth0"]), "--client"),
        (compare(&["--backend", "kernel", "--dev", "eth0", "--client", "192.0.2.1:7000"]), "--secret-file"),
        (compare(&["--client", "192.0.2.1:7000"]), "--dev"),
        (compare(&whole), "urandom"),
        (vec!["load", "kv"], "--server"),
        (vec!["load", "kv", "--agent", "127.0.0.1:0"], "--secret-file"),
        (vec!["load", "kv", "--agent", "127.0.0.1:0", "--secret-file", file, "--rate", "5k"], "cannot be used with"),
        (vec!["load", "kv", "--agent", "127.0.0.1:0", "--secret-file", file, "--over", "xdp:eth0"], "omit --over"),
        (vec!["load", "kv", "--agent", "127.0.0.1:0", "--secret-file", file], "urandom"),
    ] {
        refused(&args, 2, words);
    }
    let folder = Folder::new("what_does_not_go_together_is_wrong_usage");
    let path = folder.file("secret");
    let mut made = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path).unwrap();
    writeln!(made, "{SECRET}").unwrap();
    for (more, words) in
        [(&["--backend", "engine"][..], "--backend kernel"), (&["--backend", "kernel", "--over", "xdp"], "omit --over")]
    {
        let args = [&compare(&whole[..5])[..], &[&path], more].concat();
        refused(&args, 2, words);
    }
}
