//! A wildcard is the engine's address and all of the kernel's.

use std::io::BufRead as _;

use napier_linux::process::HeldSends;
use napier_testkit::eventually;

use crate::peer::{echoes, listen};
use crate::stand::{PROGRAMS, rest};
use crate::{Stand, fast};

#[test]
fn a_wildcard_takes_what_comes_by_the_engine_and_by_the_kernel() {
    let test = "a_wildcard_takes_what_comes_by_the_engine_and_by_the_kernel";
    let Some(stand) = Stand::with_loopback(test) else { return };
    let (_there, port) = listen(&stand.pair);
    let (_program, mut said) = stand.program(&["wildcard", &port]);
    let mut line = String::new();
    said.read_line(&mut line).expect("it speaks");
    // Blocking, watched, and again by a family for both; its source is what it was bound to, also towards the wire.
    assert_eq!(line, "ready [b'0', b'1', b'2'] EADDRINUSE True True ENOTCONN ENOTCONN\n");
    let stream = stand.connect(7001).expect("connected");
    // Looked at before the echo: the program ends after that, and its counts are those of no program that is served.
    eventually("it is accepted", || stand.shown().counts.accepted == 1);
    let counts = stand.shown().counts;
    let left: Vec<_> = counts.left.iter().collect();
    assert!(left.contains(&("accepted over the kernel's interfaces", 4)), "{left:?}");
    assert_eq!(counts.connected, 1);
    echoes(stream, 300_000);
    assert_eq!(rest(&mut said), "10.79.0.2 over\n");
}

#[test]
fn a_port_of_a_wildcard_that_was_closed_is_free_at_loopback() {
    let test = "a_port_of_a_wildcard_that_was_closed_is_free_at_loopback";
    let Some(stand) = Stand::with_loopback(test) else { return };
    for library in [None, Some(fast::library())] {
        let (_program, mut said) = stand.program_by((HeldSends::None, library), PROGRAMS, &["frees", "7012"]);
        assert_eq!(rest(&mut said), "True\nTrue\n");
    }
}
