//! Over AF_XDP: the program has one end of a pair of interfaces, the kernel the other.

use std::net::UdpSocket;
use std::time::Duration;

use napier_testkit::eventually;
use napier_testnet::{Veth, VethConfig, ends, ip, pair};

use crate::work::{Program, build};

/// A pair whose senders compute checksums: the kernel is 10.56.0.2 on the right.
fn veth(test: &str) -> Option<Veth> {
    let config = ends(("left", &["10.56.0.1/24"]), ("right", &["10.56.0.2/24"]));
    pair(test, &VethConfig { tx_checksum: false, tso: false, ..config })
}

/// Starts a program where the left interface is.
fn start(veth: &Veth, program: &Program, arguments: &[&str]) -> crate::work::Running {
    veth.left().netns().run(|| program.start(arguments)).expect("the namespace is there")
}

#[test]
fn a_c_program_answers_over_af_xdp() {
    let test = "a_c_program_answers_over_af_xdp";
    let Some(program) = build(test, "echo") else { return };
    let Some(veth) = veth(test) else { return };
    let mut echo = start(&veth, &program, &["xdp:left", "10.56.0.11/24", "400"]);
    let client = veth.right().netns().run(|| UdpSocket::bind("10.56.0.2:0")).expect("the namespace is there");
    let client = client.expect("a socket");
    client.set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
    client.connect("10.56.0.11:7").expect("a way");
    let (mut asked, mut answered) = (0_u32, 0);
    eventually("300 answers", || {
        assert!(!echo.has_ended(), "the program has ended after {answered} answers to {asked}");
        asked += 1;
        let (question, mut answer) = ([asked.to_ne_bytes(); 8].concat(), [0; 64]);
        if client.send(&question).is_ok() {
            // Those that are late are of questions before.
            while let Ok(bytes) = client.recv(&mut answer) {
                if answer[..bytes] == question[..] {
                    answered += 1;
                    break;
                }
            }
        }
        answered == 300
    });
    echo.until_it_ends(|| {
        // An interface whose program is gone refuses it.
        let _ = client.send(b"more");
    });
    echo.end();
}

/// Sends frames to a program that counts 500 of them.
fn count(veth: &Veth, program: &Program) {
    let mut receiver = start(veth, program, &["left", "500"]);
    assert_eq!(receiver.first_line(), "ready");
    // Nothing answers questions for an address there.
    veth.right().add_neighbour(ip("10.56.0.99"), veth.left().mac()).expect("a neighbour");
    let client = veth.right().netns().run(|| UdpSocket::bind("10.56.0.2:0")).expect("the namespace is there");
    let client = client.expect("a socket");
    // Whatever its ring loses while the program has no processor, more come.
    receiver.until_it_ends(|| {
        for _ in 0..4 {
            // An interface whose program is gone may refuse it.
            let _ = client.send_to(&[7; 100], "10.56.0.99:9");
        }
    });
    let said = receiver.end();
    let numbers: Vec<u64> = said.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] >= 500 && numbers[1] >= 500 * 60, "{said}");
    // Neighbour discovery comes beside.
    assert!(numbers[2] > 300, "{said}");
}

#[test]
fn a_c_program_counts_frames_by_af_xdp() {
    let test = "a_c_program_counts_frames_by_af_xdp";
    let Some(program) = build(test, "xsk_receiver") else { return };
    let Some(veth) = veth(test) else { return };
    count(&veth, &program);
}

#[test]
fn valgrind_finds_nothing_in_a_receiver() {
    let test = "valgrind_finds_nothing_in_a_receiver";
    let Some(program) = build(test, "xsk_receiver").and_then(|program| program.under_valgrind(test)) else { return };
    let Some(veth) = veth(test) else { return };
    count(&veth, &program);
}
