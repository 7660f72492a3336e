//! A program that stalls its own thread in the engine stalls itself.

use std::io::{BufRead as _, ErrorKind, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use napier_linux::process::HeldSends;
use napier_testkit::eventually;

use crate::peer::echoes;
use crate::stand::{Stand, Started};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stalled/stalled.py");
const LINGERING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stalled/lingering.py");

/// Long on a busy machine, too.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_program_that_stalls_its_thread_stalls_no_other() {
    let test = "a_program_that_stalls_its_thread_stalls_no_other";
    let Some(stand) = Stand::new(test, None) else { return };
    let Some((stalled, mut stream)) = stalls(&stand, test, SCRIPT) else { return };
    // The call is taken at once on a quiet machine; nothing shows when.
    std::thread::sleep(Duration::from_millis(100));
    // Bytes for it come as well, as many as the sockets between take.
    stream.set_nonblocking(true).expect("set");
    loop {
        match stream.write(&[7; 65_536]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    another_is_served(&stand, stalled);
}

#[test]
fn a_file_that_is_sent_along_and_lingers_stalls_no_other() {
    let test = "a_file_that_is_sent_along_and_lingers_stalls_no_other";
    let Some(stand) = Stand::with_loopback(test) else { return };
    let Some((stalled, mut stream)) = stalls(&stand, test, LINGERING) else { return };
    let reads = std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
    // As above.
    std::thread::sleep(Duration::from_millis(100));
    another_is_served(&stand, stalled);
    // It ends with its program, whichever way.
    let _ = reads.join().expect("it ends");
}

/// A program that stalls its thread, and a connection to it; `None`, said aloud, where it cannot.
fn stalls(stand: &Stand, test: &str, script: &str) -> Option<(Started, TcpStream)> {
    let (stalled, mut said) = stand.program_by((HeldSends::None, None), script, &["7090"]);
    let mut line = String::new();
    said.read_line(&mut line).expect("it speaks");
    if line.starts_with("skipped") {
        napier_testkit::skip!(test, "{}", line.trim());
        return None;
    }
    let stream = stand.connect(7090).expect("connected");
    said.read_line(&mut line).expect("it speaks");
    assert_eq!(line, "ready\nstalls\n");
    Some((stalled, stream))
}

fn another_is_served(stand: &Stand, stalled: Started) {
    let (_server, _said) = stand.server(&["serve", "7091"]);
    let is_served = || {
        let stream = stand.connect(7091).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        echoes(stream, 300_000);
    };
    (0..5).for_each(|_| is_served());
    drop(stalled);
    eventually("the one that stalled is gone", || stand.sockets().len() == 1);
    is_served();
}
