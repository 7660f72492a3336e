//! The same bytes to a memcached and to a session: the same bytes must come back.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use napier_kv::serve::now_ms;
use napier_kv::session::{Family, Next, Server, Session, Turn};
use napier_rng::{self as rng, Xoshiro256PlusPlus, below};
use napier_testkit::PATIENCE;

struct Memcached {
    process: Child,
    port: u16,
}

impl Drop for Memcached {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Memcached {
    fn start(test: &str) -> Option<Self> {
        let begun = Instant::now();
        loop {
            let mut memcached = Self::start_at_any_port(test)?;
            while memcached.process.try_wait().expect("it is a child").is_none() {
                if TcpStream::connect(("127.0.0.1", memcached.port)).is_ok() {
                    return Some(memcached);
                }
                assert!(begun.elapsed() < PATIENCE, "memcached does not listen");
                std::thread::sleep(Duration::from_millis(20));
            }
            // Another program has taken the port meanwhile.
            assert!(begun.elapsed() < PATIENCE, "memcached does not stay");
        }
    }

    fn start_at_any_port(test: &str) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").expect("loopback is there").local_addr().expect("bound").port();
        let process = Command::new("memcached")
            .args(["-l", "127.0.0.1", "-p", &port.to_string(), "-U", "0", "-u", "root"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(process) = process else {
            napier_testkit::skip!(test, "memcached is not installed");
            return None;
        };
        Some(Self { process, port })
    }

    /// What it answers, until it has nothing more to say.
    fn talk(&self, input: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(b"flush_all\r\n").expect("it reads");
        stream.write_all(input).expect("it reads");
        stream.shutdown(Shutdown::Write).expect("it is connected");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers and closes");
        answer.strip_prefix(b"OK\r\n").expect("it flushes").to_vec()
    }
}

/// What a session answers.
fn session(input: &[u8]) -> Vec<u8> {
    let server = Server::new(0, 1, now_ms());
    let turn = Turn { server: &server, stats: server.worker(0), now_ms: now_ms() };
    let (mut session, mut at, mut out, mut all) = (Session::new(Family::Memcached), 0, Vec::new(), Vec::new());
    loop {
        let progress = session.advance(&turn, &input[at..], &mut out);
        at += progress.used;
        all.append(&mut out);
        if progress.next != Next::Write {
            return all;
        }
    }
}

/// One request, mostly well formed, on one of a few keys.
fn request(rng: &mut Xoshiro256PlusPlus) -> String {
    let key = format!("key{}", below(rng, 4));
    let other = format!("key{}", below(rng, 4));
    let value = ["", "7", "41", "word", "a longer value, with spaces"][below(rng, 5) as usize];
    let bytes = value.len();
    let flags = below(rng, 100);
    let pick = |rng: &mut Xoshiro256PlusPlus, list: &[&'static str]| list[below(rng, list.len() as u32) as usize];
    let noreply = pick(rng, &["", "", " noreply"]);
    let number = pick(rng, &["1", "5", "18446744073709551615", "x", "-1", "+3"]);
    let exptime = pick(rng, &["0", "0", "0", "100", "-1", "x"]);
    match below(rng, 20) {
        0..=3 => {
            let name = pick(rng, &["set", "add", "replace", "append", "prepend"]);
            format!("{name} {key} {flags} {exptime} {bytes}{noreply}\r\n{value}\r\n")
        }
        4..=6 => format!("get {key} nothing {other}\r\n"),
        7 => format!("{} {key} {number}{noreply}\r\n", pick(rng, &["incr", "decr"])),
        8 => format!("delete {key}{noreply}\r\n"),
        9 => format!("touch {key} {exptime}{noreply}\r\n"),
        10 => format!("gat {} {key} {other}\r\n", pick(rng, &["0", "100", "x"])),
        11 => {
            let version = pick(rng, &["999999999", "0", "x"]);
            format!("cas {key} {flags} 0 {bytes} {version}{noreply}\r\n{value}\r\n")
        }
        12..=13 => {
            let mode = pick(rng, &["", " MS", " ME", " MR", " MA", " MP", " MX"]);
            let more = pick(
                rng,
                &["", " k", " O12 k", " q", " T100", " v", " !", " F1 F2", " C999999999", " C0", " Cx", " Tx", " q Fx"],
            );
            format!("ms {key} {bytes}{mode} F{flags}{more}\r\n{value}\r\n")
        }
        14..=15 => {
            let flags = pick(rng, &["v", "", "f v", "k s v O77", "t v", "q v", "T90 t", "v v", "!", "s f t k"]);
            format!("mg {key} {flags}\r\n")
        }
        16 => format!("md {key} {}\r\n", pick(rng, &["", "q", "k O9", "C999999999", "C0", "Cx", "!"])),
        17 => {
            let flags = pick(
                rng,
                &[
                    "v",
                    "",
                    "MD v",
                    "N0 J13 v",
                    "D3 v t",
                    "MX",
                    "MDD",
                    "Dx",
                    "q",
                    "k O1 v",
                    "C0",
                    "C999999999 q",
                    "q N0 J5",
                    "N0 v q",
                ],
            );
            format!("ma {key} {flags}\r\n")
        }
        18 => format!("set {key} 0 0 {bytes}\r\n{value}too long\r\n"),
        _ => pick(
            rng,
            &[
                "mn\r\n",
                "nonsense\r\n",
                "\r\n",
                "get\r\n",
                "verbosity 1\r\n",
                "delete\r\n",
                "set a\r\n",
                "flush_all\r\n",
                "touch key1\r\n",
                "  get   key1  \r\n",
                "delete key1 5\r\n",
                "verbosity\r\n",
                "gat 0\r\n",
            ],
        )
        .to_owned(),
    }
}

#[test]
fn random_requests_are_answered_as_memcached_answers_them() {
    let Some(memcached) = Memcached::start("random_requests_are_answered_as_memcached_answers_them") else { return };
    for seed in 0..200 {
        let mut rng = rng::stream(seed, "memcached");
        let mut requests: Vec<String> = (0..40).map(|_| request(&mut rng)).collect();
        let answers = |requests: &[String]| {
            let input = requests.concat().into_bytes();
            (memcached.talk(&input), session(&input))
        };
        // Its seconds pass between two requests now and then, by which what is left of an item's time is one less.
        let agree = (0..3).any(|_| {
            let (theirs, ours) = answers(&requests);
            theirs == ours
        });
        if agree {
            continue;
        }
        // Fewer requests that still differ say more.
        let mut at = 0;
        while at < requests.len() {
            let without: Vec<String> = [&requests[..at], &requests[at + 1..]].concat();
            let (theirs, ours) = answers(&without);
            if theirs == ours {
                at += 1;
            } else {
                requests = without;
            }
        }
        let (theirs, ours) = answers(&requests);
        panic!(
            "seed {seed}: to {requests:#?} memcached says {:?}, we say {:?}",
            String::from_utf8_lossy(&theirs),
            String::from_utf8_lossy(&ours)
        );
    }
}
