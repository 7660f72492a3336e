//! An engine that ends, or is killed, as a program by the fast door sees it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::Shutdown;
use std::process::Child;

use napier_door::Door;
use napier_testkit::eventually;

use super::{PROGRAMS, datagrams};
use crate::killed::part;
use crate::peer::listen;
use crate::stand::{Stand, engine_on, rest};

const ENGINE: &str = "fast::engine::an_engine_of_another_process";

#[test]
fn a_program_by_the_fast_door_goes_on_when_it_closes() {
    let test = "a_program_by_the_fast_door_goes_on_when_it_closes";
    let Some(stand) = Stand::new(test, None) else { return };
    let (listener, port) = listen(&stand.pair);
    let (_program, mut said) = stand.fast(PROGRAMS, &[&port, "until_it_ends"]);
    let (mut stream, _) = listener.accept().expect("a connection");
    stream.read_exact(&mut [0; 1 << 12]).expect("sent");
    let Stand { door, device: _device, pair: _pair } = stand;
    drop(door);
    assert_eq!(rest(&mut said), "ended True\ndone\n");
}

#[test]
#[ignore = "a_program_by_the_fast_door_hears_that_its_engine_was_killed runs it"]
fn an_engine_of_another_process() {
    let namespace = File::open("/proc/self/ns/net").expect("a namespace").into();
    let Some((_device, config)) = engine_on(namespace, ENGINE, None, false) else { return };
    let _door = Door::open(config).expect("a door");
    eprintln!("ready");
    // It is killed, or the test that started it ends.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// An engine in a process of its own, and what it says after it is ready.
fn apart(test: &str, stand: &Stand) -> Option<(Child, impl Iterator<Item = String>)> {
    let mut engine = stand.pair.left().netns().run(|| part(ENGINE).spawn()).expect("entered").expect("it starts");
    let mut begins = BufReader::new(engine.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    if begins.any(|line| line == "ready") {
        return Some((engine, begins));
    }
    engine.wait().expect("it ends");
    napier_testkit::skip!(test, "an engine of another process does not start");
    None
}

#[test]
fn a_program_by_the_fast_door_hears_that_its_engine_was_killed() {
    let test = "a_program_by_the_fast_door_hears_that_its_engine_was_killed";
    let Some(stand) = Stand::without_engine(test).filter(|stand| stand.has_loopback(test)) else { return };
    let Some((mut engine, _begins)) = apart(test, &stand) else { return };
    let (listener, port) = listen(&stand.pair);
    let (_program, mut said) = stand.fast(PROGRAMS, &[&port, "until_it_is_killed"]);
    let (mut stream, _) = listener.accept().expect("a connection");
    let peer = stream.try_clone().expect("a copy");
    let reading = std::thread::spawn(move || while stream.read(&mut [0; 1 << 16]).is_ok_and(|count| count > 0) {});
    eventually("bytes go past the socket", || stand.shown().counts.fast_bytes > 0);
    engine.kill().expect("it runs");
    engine.wait().expect("it ends");
    assert_eq!(rest(&mut said), "readable True\nwritten in vain: a few True, then EPIPE\nb'here'\n");
    // No packet tells it.
    peer.shutdown(Shutdown::Both).expect("it lives");
    reading.join().expect("read");
}

#[test]
fn a_program_hears_that_the_engine_of_its_datagrams_was_killed() {
    let test = "a_program_hears_that_the_engine_of_its_datagrams_was_killed";
    let Some(stand) = Stand::without_engine(test).filter(|stand| stand.has_loopback(test)) else { return };
    let Some((mut engine, _begins)) = apart(test, &stand) else { return };
    let port = datagrams::echo(&stand.pair);
    let (_program, mut said) = stand.fast(datagrams::PROGRAMS, &["until_it_ends", &port]);
    let mut line = String::new();
    said.read_line(&mut line).expect("it speaks");
    assert_eq!(line, "ready\n");
    engine.kill().expect("it runs");
    engine.wait().expect("it ends");
    assert_eq!(rest(&mut said), "ENETDOWN ENETDOWN ENETDOWN\nb'kernel'\n");
}
