//! Datagrams of programs by the fast door, with the kernel's at the other end.

use std::io::{BufReader, PipeReader};
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use napier_testkit::eventually;
use napier_testnet::Veth;

use crate::stand::{Stand, Started, rest};

pub(super) const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fast/datagrams.py");
const PATIENCE: Duration = Duration::from_secs(60);

/// A socket of the kernel at the other end, and its port.
fn socket(pair: &Veth) -> (UdpSocket, String) {
    let bound = pair.right().netns().run(|| UdpSocket::bind("10.79.0.2:0")).expect("entered").expect("bound");
    bound.set_read_timeout(Some(PATIENCE)).expect("set");
    let port = bound.local_addr().expect("bound").port().to_string();
    (bound, port)
}

/// Sends back what comes, until this process ends.
pub(super) fn echo(pair: &Veth) -> String {
    echoing(socket(pair).0)
}

fn echoing(bound: UdpSocket) -> String {
    bound.set_read_timeout(None).expect("set");
    let port = bound.local_addr().expect("bound").port().to_string();
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok((count, from)) = bound.recv_from(&mut bytes) {
            let _ = bound.send_to(&bytes[..count], from);
        }
    });
    port
}

impl Stand {
    fn datagrams(&self, args: &[&str]) -> (Started, BufReader<PipeReader>) {
        self.fast(PROGRAMS, args)
    }

    /// All that a part says with an echo at the other end.
    fn said_with_echo(&self, part: &str) -> String {
        let port = echo(&self.pair);
        let (_program, mut said) = self.datagrams(&[part, &port]);
        rest(&mut said)
    }
}

fn line(said: &mut impl std::io::BufRead) -> String {
    let mut line = String::new();
    said.read_line(&mut line).expect("it speaks");
    line
}

#[test]
fn a_program_answers_datagrams() {
    let test = "a_program_answers_datagrams";
    let Some(stand) = Stand::new(test, None) else { return };
    let (server, mut said) = stand.datagrams(&["serve", "7099"]);
    assert_eq!(line(&mut said), "ready ('10.79.0.9', 7099)\n");
    let (peer, _) = socket(&stand.pair);
    for size in [0, 1, 1400, 1472, 1473, 9000] {
        let sent: Vec<u8> = (0..size).map(|at| at as u8).collect();
        peer.send_to(&sent, "10.79.0.9:7099").expect("sent");
        let mut got = vec![1; 10_000];
        let (count, from) = peer.recv_from(&mut got).expect("answered");
        assert_eq!((&got[..count], from), (&sent[..], "10.79.0.9:7099".parse().expect("an address")));
    }
    let shown: Vec<_> = stand.sockets().into_iter().map(|one| (one.state, one.door, one.peer)).collect();
    assert_eq!(shown, [("bound".to_owned(), "fast".to_owned(), None)]);
    eventually("they are counted", || stand.shown().counts.datagrams_out == 6);
    let counts = stand.shown().counts;
    assert_eq!((counts.datagram_sockets, counts.datagrams_in, counts.left_to_kernel), (1, 6, 0));
    // Its end frees the port.
    drop(server);
    eventually("nothing is left", || stand.sockets().is_empty());
    let (_server, mut said) = stand.datagrams(&["serve", "7099"]);
    assert_eq!(line(&mut said), "ready ('10.79.0.9', 7099)\n");
}

#[test]
fn a_program_asks_with_and_without_a_peer() {
    let Some(stand) = Stand::new("a_program_asks_with_and_without_a_peer", None) else { return };
    let expected = "('0.0.0.0', 0) ENOTCONN EDESTADDRREQ\nTrue 10.79.0.9 True\nTrue\nENOTCONN EDESTADDRREQ\nTrue\n\
                    10.79.0.9 0\nTrue 0.0.0.0 True\nEMSGSIZE\nTrue 17\n-1 True\n";
    assert_eq!(stand.said_with_echo("asks"), expected);
}

#[test]
fn addresses_are_taken_once_and_free_when_they_are_closed() {
    let Some(stand) = Stand::new("addresses_are_taken_once_and_free_when_they_are_closed", None) else { return };
    let expected = "EADDRINUSE EADDRINUSE ok\nEINVAL\nEINVAL\nTrue ok\nb'after it'\n";
    let (port, (peer, to)) = (echo(&stand.pair), socket(&stand.pair));
    let (_program, mut said) = stand.datagrams(&["places", &port, &to]);
    assert_eq!(rest(&mut said), expected);
    // What was sent before a close leaves, also where the port is bound again at once.
    let mut bytes = [0; 100];
    for number in 0..50 {
        let (count, _) = peer.recv_from(&mut bytes).expect("sent");
        assert_eq!(bytes[..count], *number.to_string().as_bytes());
    }
}

#[test]
fn a_peer_is_heard_alone() {
    let Some(stand) = Stand::new("a_peer_is_heard_alone", None) else { return };
    let ((peer, port), (other, _)) = (socket(&stand.pair), socket(&stand.pair));
    let (_program, mut said) = stand.datagrams(&["filters", &port]);
    assert_eq!(line(&mut said), "ready\n");
    let mut bytes = [0; 100];
    let (count, from) = peer.recv_from(&mut bytes).expect("asked");
    assert_eq!(&bytes[..count], b"asked");
    other.send_to(b"of another", from).expect("sent");
    peer.send_to(b"of the peer", from).expect("sent");
    assert_eq!(rest(&mut said), "b'of the peer'\nnothing else\n");
}

#[test]
fn messages_are_looked_at_cut_and_told_of_as_with_the_kernel() {
    let test = "messages_are_looked_at_cut_and_told_of_as_with_the_kernel";
    let Some(stand) = Stand::new(test, None) else { return };
    let expected = "b'012' 10\n10\nb'0123' [] True True\nEAGAIN EAGAIN\n(b'', [], 0)\n\
                    b'abc' 0 [1, 2, 8] 10.79.0.9 True 1\nb'own' True\nEINVAL\nENOPROTOOPT ENOPROTOOPT 1\ndone\n";
    let port = echo(&stand.pair);
    let (_program, mut said) = stand.datagrams(&["messages", &port]);
    let all: String = (0..expected.lines().count()).map(|_| line(&mut said)).collect();
    assert_eq!(all, expected);
    let counts = stand.shown().counts;
    assert_eq!(counts.refused.iter().collect::<Vec<_>>(), [("UDP_GRO", 1), ("UDP_SEGMENT", 1)]);
}

#[test]
fn many_datagrams_go_by_one_call() {
    let Some(stand) = Stand::new("many_datagrams_go_by_one_call", None) else { return };
    assert_eq!(stand.said_with_echo("many"), "done 20\n");
}

#[test]
fn an_error_behind_a_datagram_is_for_the_next_call() {
    let Some(stand) = Stand::new("an_error_behind_a_datagram_is_for_the_next_call", None) else { return };
    let behind = "2 b'one' ECONNREFUSED EAGAIN\n".repeat(3);
    let expected = format!("{behind}0 0\n-1 ECONNREFUSED EAGAIN\nECONNREFUSED EAGAIN\n");
    assert_eq!(stand.said_with_echo("later"), expected);
}

#[test]
fn reads_of_nothing_take_nothing_and_no_read_sees_a_head() {
    let Some(stand) = Stand::new("reads_of_nothing_take_nothing_and_no_read_sees_a_head", None) else { return };
    let read = "10 b'a da' b'tagram'\n";
    let expected = format!("0 0 0\n{}(-1, 'ESPIPE') (-1, 'EOPNOTSUPP')\n10 (-1, 'EAGAIN')\n", read.repeat(3));
    assert_eq!(stand.said_with_echo("parts"), expected);
}

#[test]
fn a_datagram_has_as_many_parts_as_with_the_kernel() {
    let Some(stand) = Stand::new("a_datagram_has_as_many_parts_as_with_the_kernel", None) else { return };
    assert_eq!(stand.said_with_echo("most"), "done\n");
}

#[test]
fn what_waits_for_datagrams_is_woken() {
    let Some(stand) = Stand::new("what_waits_for_datagrams_is_woken", None) else { return };
    let expected = "True [] []\n[b'woken']\nEAGAIN\nin time\nEAGAIN\n[b''] ENOTCONN\nEPIPE\nasyncio\n";
    assert_eq!(stand.said_with_echo("waits"), expected);
}

#[test]
fn a_peer_that_is_not_there_is_told_of() {
    let Some(stand) = Stand::new("a_peer_that_is_not_there_is_told_of", None) else { return };
    let (gone, port) = socket(&stand.pair);
    drop(gone);
    let (_program, mut said) = stand.datagrams(&["refused", &port]);
    assert_eq!(rest(&mut said), "ECONNREFUSED\nTrue ECONNREFUSED EAGAIN\n");
}

#[test]
fn loopback_groups_and_what_the_engine_lacks_are_the_kernels() {
    let test = "loopback_groups_and_what_the_engine_lacks_are_the_kernels";
    let Some(stand) = Stand::with_loopback(test) else { return };
    let (peer, port) = socket(&stand.pair);
    let (_program, mut said) = stand.datagrams(&["left", &port]);
    assert_eq!(line(&mut said), "connect b'here' True\n");
    assert_eq!(line(&mut said), "sendto b'here' True\n");
    assert_eq!(line(&mut said), "ok ('0.0.0.0', 7105)\n");
    assert_eq!(line(&mut said), "ENOPROTOOPT ENETUNREACH\n");
    assert_eq!(line(&mut said), "ready\n");
    assert_eq!(line(&mut said), "b'near'\n");
    peer.send_to(b"far", "10.79.0.9:7107").expect("sent");
    let mut bytes = [0; 100];
    let (count, from) = peer.recv_from(&mut bytes).expect("answered");
    assert_eq!((&bytes[..count], from), (&b"far"[..], "10.79.0.9:7107".parse().expect("an address")));
    assert_eq!(line(&mut said), "b'far' 10.79.0.2\n");
    let left = stand.shown().counts.left;
    let all: Vec<_> = left.iter().collect();
    for why in ["an option that the engine does not have", "bound to loopback", "connected to loopback"] {
        assert!(all.iter().any(|(name, _)| *name == why), "{why}: {all:?}");
    }
}

#[test]
fn a_child_has_it_and_no_other_program() {
    let Some(stand) = Stand::new("a_child_has_it_and_no_other_program", None) else { return };
    let expected = "0\n0\nb'after it'\nb'of a copy' False\nEPERM EPERM\nTrue\nEPERM EINVAL\nTrue 5 b'bytes'\n";
    assert_eq!(stand.said_with_echo("children"), expected);
    eventually("nothing is left", || stand.sockets().is_empty());
}

#[test]
fn a_socket_of_both_families_reaches_the_older_one() {
    let Some(stand) = Stand::new("a_socket_of_both_families_reaches_the_older_one", None) else { return };
    let expected = "b'mapped' True ::\nb'connected' ::ffff:10.79.0.9 True\nENETUNREACH\n";
    assert_eq!(stand.said_with_echo("mapped"), expected);
}

#[test]
fn addresses_and_control_messages_of_ipv6_are_as_with_the_kernel() {
    let test = "addresses_and_control_messages_of_ipv6_are_as_with_the_kernel";
    let Some(stand) = Stand::new(test, None) else { return };
    // Without a look whether another one has it, which takes a second.
    let add = || Command::new("ip").args(["addr", "add", "fd79::2/64", "dev", "client", "nodad"]).status();
    if !stand.pair.right().netns().run(add).expect("entered").is_ok_and(|status| status.success()) {
        return napier_testkit::skip!(test, "there is no IPv6");
    }
    let bound = stand.pair.right().netns().run(|| UdpSocket::bind("[fd79::2]:0")).expect("entered").expect("bound");
    let port = echoing(bound);
    let (_program, mut said) = stand.datagrams(&["newer", &port]);
    assert_eq!(rest(&mut said), "b'six' True True [50, 52, 67] fd79::9 0\nfd79::9 True\nECONNREFUSED\n");
}

#[test]
fn programs_on_one_engine_send_to_each_other_by_its_address() {
    let test = "programs_on_one_engine_send_to_each_other_by_its_address";
    let Some(stand) = Stand::new(test, None) else { return };
    let (_server, mut said) = stand.datagrams(&["serve", "7099"]);
    line(&mut said);
    let (_program, mut said) = stand.datagrams(&["near", "7099"]);
    let all = rest(&mut said);
    let expected = "10.79.0.9 True\nb'itself' True 10.79.0.9\nEAGAIN\nECONNREFUSED\nb'mapped' ::\nsent\n";
    assert_eq!(all, expected);
    eventually("only the server is left", || stand.sockets().len() == 1);
}

#[test]
fn a_flood_waits_for_room_and_nothing_stays_behind() {
    let Some(stand) = Stand::new("a_flood_waits_for_room_and_nothing_stays_behind", None) else { return };
    let (peer, port) = socket(&stand.pair);
    let (_program, mut said) = stand.datagrams(&["flood", &port]);
    // The kernel's own queue may lose some.
    std::thread::spawn(move || while peer.recv_from(&mut [0; 1 << 16]).is_ok() {});
    assert_eq!(line(&mut said), "sent\n");
    eventually("all have left", || stand.shown().counts.datagrams_out == 20_051);
    assert_eq!(stand.shown().counts.datagrams_lost.sum(), 0);
}

#[test]
fn whatever_is_written_past_the_library_harms_nothing_else() {
    let test = "whatever_is_written_past_the_library_harms_nothing_else";
    let Some(stand) = Stand::new(test, None) else { return };
    let (_server, mut said) = stand.datagrams(&["serve", "7099"]);
    line(&mut said);
    let port = echo(&stand.pair);
    let (_hostile, mut said) = stand.datagrams(&["hostile", &port]);
    assert_eq!([line(&mut said), line(&mut said)], ["2000 b'fine'\n", "closed\n"]);
    eventually("it is closed", || stand.sockets().len() == 2);
    let (peer, _) = socket(&stand.pair);
    peer.send_to(b"still there", "10.79.0.9:7099").expect("sent");
    let mut bytes = [0; 100];
    let (count, _) = peer.recv_from(&mut bytes).expect("answered");
    assert_eq!(&bytes[..count], b"still there");
    let counts = stand.shown().counts;
    assert!(counts.datagrams_lost.iter().any(|(why, count)| why == "written past the library" && count > 900));
}

#[test]
fn half_of_a_socket_that_is_shut_down_past_the_library_is_its_end() {
    let test = "half_of_a_socket_that_is_shut_down_past_the_library_is_its_end";
    let Some(stand) = Stand::new(test, None) else { return };
    let (_program, mut said) = stand.datagrams(&["half", &echo(&stand.pair)]);
    assert_eq!(line(&mut said), "b'x'\n");
    match line(&mut said).as_str() {
        "True 0\n" => eventually("it is gone", || stand.sockets().is_empty()),
        other => napier_testkit::skip!(test, "pidfd_getfd does not work here: {other}"),
    }
}

#[test]
fn a_program_hears_that_its_engine_has_ended() {
    let test = "a_program_hears_that_its_engine_has_ended";
    let Some(stand) = Stand::with_loopback(test) else { return };
    let port = echo(&stand.pair);
    let (_program, mut said) = stand.datagrams(&["until_it_ends", &port]);
    assert_eq!(line(&mut said), "ready\n");
    let Stand { door, device: _device, pair: _pair } = stand;
    drop(door);
    assert_eq!(rest(&mut said), "ENETDOWN ENETDOWN ENETDOWN\nb'kernel'\n");
}

#[test]
fn a_program_has_so_many_sockets_and_no_more() {
    let test = "a_program_has_so_many_sockets_and_no_more";
    let Some(stand) = Stand::new(test, None) else { return };
    let (_program, mut said) = stand.datagrams(&["too_many", "1"]);
    assert_eq!(line(&mut said), "4096 ENFILE\n");
    let over = stand.shown().counts.over;
    assert_eq!(over.iter().collect::<Vec<_>>(), [("sockets (4096)", 1)]);
    assert_eq!(line(&mut said), "ok\n");
}
