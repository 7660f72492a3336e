//! `napier explain` on programs that know nothing of it, over a pair of interfaces and on loopback.

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::{Folder, NAPIER, echo_server, has, napier, napier_at, said, text};
use napier_linux::Netns;
use napier_testkit::{PATIENCE, in_time_enough};
use napier_testnet::{self as net, Veth, VethConfig};
use serde_json::Value;

/// Asks one question after the other until it is stopped; the longest round trip.
struct Client {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Client {
    fn begin(netns: &Netns, at: (&'static str, u16)) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, netns) = (Arc::clone(&stop), netns.clone());
        let thread = std::thread::spawn(move || {
            let mut stream = netns.run(|| TcpStream::connect(at)).expect("entered").expect("it listens");
            stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
            stream.set_nodelay(true).expect("an option");
            let (mut answer, mut longest) = ([0; 8], Duration::ZERO);
            while !stopped.load(Ordering::Relaxed) {
                let begun = Instant::now();
                stream.write_all(b"question").expect("sent");
                stream.read_exact(&mut answer).expect("answered");
                longest = longest.max(begun.elapsed());
            }
            longest
        });
        Self { stop, thread }
    }

    fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("each question was answered")
    }
}

fn pair(test: &str, names: (&str, &str), addresses: (&str, &str)) -> Option<Veth> {
    if !has(test, "python3") {
        return None;
    }
    let ends = net::ends((names.0, &[addresses.0]), (names.1, &[addresses.1]));
    net::pair(test, &VethConfig { gro: true, tso: false, ..ends })
}

/// What it says of a program, once it has followed enough requests and found what is looked for; `None`, said aloud, where nothing can be
/// traced.
fn explained(test: &str, pair: &Veth, pid: &str, is_found: impl Fn(&Value) -> bool) -> Option<Value> {
    let folder = Folder::new(test);
    let mut refused = None;
    let found = in_time_enough("requests are followed", Duration::from_secs(1), |length| {
        let span = format!("{}s", length.as_secs());
        let output = napier_at(pair.left(), &folder, &["explain", "--pid", pid, "--for", &span, "--json"]);
        if said(&output).contains("tracepoints") || said(&output).contains("this kernel has no") {
            refused = Some(said(&output));
            return Some(Value::Null);
        }
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
        (document["requests"].as_u64() >= Some(5) && is_found(&document)).then_some(document)
    });
    if let Some(why) = refused {
        napier_testkit::skip!("napier explain", "{why}");
        return None;
    }
    Some(found)
}

fn us(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn stages_add_up_and_are_no_longer_than_what_the_client_saw() {
    let test = "stages_add_up_and_are_no_longer_than_what_the_client_saw";
    let Some(pair) = pair(test, ("explain-a", "explain-b"), ("10.83.0.1/24", "10.83.0.2/24")) else { return };
    let at = ("10.83.0.1", 7001);
    let (_server, pid) = echo_server(pair.left().netns(), at, 0);
    let client = Client::begin(pair.right().netns(), at);
    // A reader that is held up for long loses events.
    let found = explained(test, &pair, &pid, |found| found["lost_events"] == 0);
    let longest = client.end();
    let Some(found) = found else { return };
    let whole = &found["whole"];
    let sum: f64 = found["stages"].as_array().expect("a list").iter().map(|stage| us(&stage["mean_us"])).sum();
    assert!((sum - us(&whole["mean_us"])).abs() < 0.01, "{found}");
    // Times are kept to a hundredth.
    assert!(us(&whole["max_us"]) <= longest.as_secs_f64() * 1e6 * 1.01, "{longest:?}: {found}");
    assert_eq!((&found["program"], &found["lost_events"]), (&"python3".into(), &0.into()), "{found}");
    // A veth has no interrupt: who sends asks for the poll.
    assert!(found["causes"]["raised"].as_u64() >= Some(1), "{found}");
    let answer = found["answer"].as_str().expect("a sentence");
    assert!(answer.starts_with("of ") && answer.contains(" are spent between "), "{answer}");
}

#[test]
fn where_a_program_sleeps_is_where_the_time_goes() {
    let test = "where_a_program_sleeps_is_where_the_time_goes";
    let Some(pair) = pair(test, ("explain-c", "explain-d"), ("10.84.0.1/24", "10.84.0.2/24")) else { return };
    let at = ("10.84.0.1", 7002);
    let (_server, pid) = echo_server(pair.left().netns(), at, 100);
    let client = Client::begin(pair.right().netns(), at);
    // Where a busy machine has kept the program from its CPU for still longer, that is what it says.
    let found = explained(test, &pair, &pid, |found| found["longest"] == "answer");
    client.end();
    let Some(found) = found else { return };
    // It slept for so long in each.
    let slept = us(&found["stages"][6]["mean_us"]);
    assert!(slept >= 100_000.0 && us(&found["off_cpu_mean_us"]) >= slept / 2.0, "{found}");
    assert!(found["because"].as_str().is_some_and(|words| words.contains("has no CPU for")), "{found}");
}

#[test]
fn what_cannot_be_explained_is_refused_in_words() {
    let none = napier(&["explain", "--pid", "4194304"]);
    assert_eq!(none.status.code(), Some(2), "{}", said(&none));
    assert!(said(&none).contains("there is no process 4194304"), "{}", said(&none));
    let own = std::process::id().to_string();
    // This process has clients of its own in the tests beside this one.
    let mut sleeps = Command::new("sleep").arg("60").spawn().expect("sleep is there");
    let idle = napier(&["explain", "--pid", &sleeps.id().to_string(), "--for", "0.1s"]);
    sleeps.kill().and_then(|()| sleeps.wait()).expect("it is ours");
    assert_eq!(idle.status.code(), Some(1), "{}", said(&idle));
    let words = text(&idle) + &said(&idle);
    assert!(words.contains("no request of") || words.contains("tracepoints") || words.contains("no "), "{words}");
    let mut user = Command::new("setpriv");
    user.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", NAPIER, "explain", "--pid", &own]);
    match user.output() {
        Ok(output) if !said(&output).contains("setpriv") => {
            assert_eq!(output.status.code(), Some(1), "{}", said(&output));
            assert!(said(&output).contains("root alone (CAP_SYS_ADMIN)"), "{}", said(&output));
        }
        _ => napier_testkit::skip!("what_cannot_be_explained_is_refused_in_words", "setpriv cannot change the user"),
    }
}
