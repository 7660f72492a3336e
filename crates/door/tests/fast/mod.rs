//! Programs by the fast door: their bytes go by two ways, and come out in their order whatever they do in the middle.

mod datagrams;
mod engine;
mod figures;

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, PipeReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;

use napier_linux::process::{HeldSends, sockets_preload_for};
use napier_testkit::{eventually, python};

use super::peer::{echoes, listen, sees_the_end};
use super::{Stand, Started};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fast/records.py");

/// Whether all tests of this file's neighbours are to go by the fast door, by hand.
pub(crate) fn is_asked_for() -> bool {
    std::env::var("NAPIER_TEST_DOOR").is_ok_and(|door| door == "fast")
}

pub(crate) fn library() -> PathBuf {
    sockets_preload_for(OsStr::new(python())).expect("a library for Python")
}

impl Stand {
    /// A program that listened at a port was killed, and these were its connections.
    pub(super) fn nothing_is_left(&self, streams: Vec<TcpStream>, port: u16) {
        streams.into_iter().for_each(sees_the_end);
        eventually("nothing is left", || self.sockets().is_empty());
        assert!(self.connect(port).is_err(), "nothing listens");
    }

    fn fast(&self, script: &str, args: &[&str]) -> (Started, BufReader<PipeReader>) {
        self.program_by((HeldSends::None, Some(library())), script, args)
    }

    /// A server that says when it is ready.
    fn fast_server(&self, args: &[&str]) -> (Started, BufReader<PipeReader>) {
        let (started, mut said) = self.fast(crate::stand::PROGRAMS, args);
        let mut line = String::new();
        said.read_line(&mut line).expect("it speaks");
        assert!(line.starts_with("ready"), "{args:?}: {line:?}");
        (started, said)
    }
}

/// How many records there are, which are numbered: all of them, in their order.
fn records(mut stream: TcpStream) -> usize {
    const BYTES: usize = 16;
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("all");
    for (number, record) in all.chunks(BYTES).enumerate() {
        let expected = format!("{number:015}\n");
        assert_eq!(String::from_utf8_lossy(record), expected, "after {number} records");
    }
    all.len() / BYTES
}

#[test]
fn records_come_in_their_order_whatever_leaves_the_ring() {
    let test = "records_come_in_their_order_whatever_leaves_the_ring";
    let Some(stand) = Stand::new(test, None) else { return };
    let (listener, port) = listen(&stand.pair);
    // The last three leave nothing: what the first of them does goes by the pair always, and what the others do for once.
    let leave = ["fork", "_Fork", "dup", "SCM_RIGHTS", "syscall", "fdopen", "dprintf", "posix_spawn"];
    let ways = [&leave[..], &["stdout", "sendfile", "large"]].concat();
    let connections = ways.len();
    let peer = std::thread::spawn(move || {
        let each = (0..connections).map(|_| records(listener.accept().expect("a connection").0));
        let counts: Vec<_> = each.collect();
        assert!(counts.iter().all(|count| *count >= 600), "{counts:?}");
    });
    let (_program, mut said) = stand.fast(PROGRAMS, &[&[port.as_str()], &ways[..]].concat());
    assert_eq!(crate::stand::rest(&mut said), "done\n");
    peer.join().expect("all records, in their order");
    eventually("all are closed", || stand.sockets().is_empty());
}

#[test]
fn why_a_ring_was_left_is_counted_by_name() {
    let test = "why_a_ring_was_left_is_counted_by_name";
    let Some(stand) = Stand::new(test, None) else { return };
    let (listener, port) = listen(&stand.pair);
    let ways = ["fork", "dup", "SCM_RIGHTS", "syscall", "fdopen", "dprintf", "posix_spawn"];
    // It waits in the end, so that it is served still.
    let (_program, mut said) = stand.fast(PROGRAMS, &[&[port.as_str()], &ways[..], &["waits"]].concat());
    let peers: Vec<_> = ways.iter().map(|_| records(listener.accept().expect("a connection").0)).collect();
    assert_eq!(peers.len(), ways.len());
    let mut line = String::new();
    said.read_line(&mut line).expect("it speaks");
    assert_eq!(line, "done\n");
    eventually("all are counted", || stand.shown().counts.demoted as usize == ways.len());
    let counts = stand.shown().counts;
    let mut names: Vec<_> = counts.demotions.iter().map(|(name, _)| name.to_owned()).collect();
    let mut expected: Vec<_> = ways.iter().map(|way| (*way).to_owned()).collect();
    names.sort();
    expected.sort();
    assert_eq!((names, counts.fast as usize), (expected, ways.len()));
}

#[test]
fn a_server_by_the_fast_door_echoes_and_ends_halves() {
    let test = "a_server_by_the_fast_door_echoes_and_ends_halves";
    let Some(stand) = Stand::new(test, None) else { return };
    let (_server, _said) = stand.fast_server(&["serve", "7021"]);
    echoes(stand.connect(7021).expect("connected"), 3_000_000);
    for _ in 0..20 {
        echoes(stand.connect(7021).expect("connected"), 1000);
    }
    let mut stream = stand.connect(7021).expect("connected");
    let mut number = 0_u32;
    let mut answers = || {
        for _ in 0..100 {
            number += 1;
            stream.write_all(&number.to_be_bytes()).expect("sent");
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).expect("answered");
            assert_eq!(u32::from_be_bytes(answer), number);
        }
    };
    eventually("some go past the socket", || {
        answers();
        stand.shown().counts.fast_bytes > 0
    });
    // A thread of the server may be about to close one of those before.
    eventually("it is shown as fast, and alone", || {
        let sockets = stand.sockets().into_iter().filter(|one| one.peer.is_some());
        sockets.map(|one| one.door).eq(["fast"])
    });
    drop(stream);
    eventually("only the listener is left", || stand.sockets().len() == 1);
}

#[test]
fn a_program_by_the_fast_door_that_is_killed_leaves_nothing() {
    let test = "a_program_by_the_fast_door_that_is_killed_leaves_nothing";
    let Some(stand) = Stand::new(test, None) else { return };
    for round in 0..3 {
        let (server, _said) = stand.fast_server(&["serve", "7024"]);
        let mut streams: Vec<_> = (0..5).map(|_| stand.connect(7024).expect("connected")).collect();
        for stream in &mut streams {
            stream.write_all(&vec![1; 1 << (round * 4 + 6)]).expect("sent");
            stream.read_exact(&mut [0; 16]).expect("answered");
        }
        drop(server);
        stand.nothing_is_left(streams, 7024);
    }
}
