//! A program that stalls its own thread in the engine stalls itself.

use std::io::{BufRead as _, ErrorKind, Write as _};
use std::time::Duration;

use napier_linux::process::HeldSends;
use napier_testkit::eventually;

use crate::peer::echoes;
use crate::stand::Stand;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stalled/stalled.py");

/// Long on a busy machine, too.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_program_that_stalls_its_thread_stalls_no_other() {
    let test = "a_program_that_stalls_its_thread_stalls_no_other";
    let Some(stand) = Stand::new(test, None) else { return };
    let (stalled, mut said) = stand.program_by((HeldSends::None, None), SCRIPT, &["7090"]);
    let mut line = String::new();
    said.read_line(&mut line).expect("it speaks");
    if line.starts_with("skipped") {
        return napier_testkit::skip!(test, "{}", line.trim());
    }
    let mut stream = stand.connect(7090).expect("connected");
    said.read_line(&mut line).expect("it speaks");
    assert_eq!(line, "ready\nstalls\n");
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
