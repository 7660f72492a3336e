//! A pair as the kernel has it.

mod common;

use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use common::{config, pair};
use napier_linux::{LinuxError, VethConfig};

#[test]
fn datagrams_and_streams_pass_both_ways() {
    let Some(pair) = pair("datagrams_and_streams_pass_both_ways", &config()) else { return };
    for (left, right) in [("10.9.0.1:0", "10.9.0.2:0"), ("[fd09::1]:0", "[fd09::2]:0")] {
        let bind = |address: &str| {
            let socket = UdpSocket::bind(address)?;
            socket.set_read_timeout(Some(Duration::from_secs(10)))?;
            io::Result::Ok(socket)
        };
        let a = pair.left().netns().run(|| bind(left)).expect("entered").expect("bound");
        let b = pair.right().netns().run(|| bind(right)).expect("entered").expect("bound");
        a.send_to(b"there", b.local_addr().expect("bound")).expect("sent");
        let mut bytes = [0; 16];
        let (length, from) = b.recv_from(&mut bytes).expect("received");
        assert_eq!((&bytes[..length], from), (&b"there"[..], a.local_addr().expect("bound")));
        b.send_to(b"back", from).expect("sent");
        assert_eq!(a.recv(&mut bytes).expect("received"), 4);
    }
    let listener = pair.right().netns().run(|| TcpListener::bind("10.9.0.2:0")).expect("entered").expect("bound");
    let to = listener.local_addr().expect("bound");
    let stream = pair.left().netns().run(|| TcpStream::connect(to)).expect("entered").expect("connected");
    assert_eq!(listener.accept().expect("accepted").1, stream.local_addr().expect("connected"));
}

#[test]
fn offloads_make_instances_and_queues_are_as_asked() {
    let with = VethConfig { queues: 3, gro: true, tso: false, mtu: 3000, ..config() };
    let Some(pair) = pair("offloads_make_instances_and_queues_are_as_asked", &with) else { return };
    for end in [pair.left(), pair.right()] {
        let napis = end.napis().expect("listed");
        assert_eq!(napis.len(), 3, "one instance a queue: {napis:?}");
    }
    pair.left().set_feature(c"rx-gro", false).expect("switched");
    assert_eq!(pair.left().napis().expect("listed"), [], "no GRO, no instance");
    assert!(pair.left().set_feature(c"no-such-thing", true).is_err());
    pair.left().set_mtu(1280).expect("changed");
    assert!(pair.left().set_mtu(60).is_err());
}

#[test]
fn an_end_goes_down_and_away() {
    let Some(pair) = pair("an_end_goes_down_and_away", &config()) else { return };
    let carrier = || {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).expect("readable");
        pair.left().netns().run(|| read("dev")).expect("entered")
    };
    assert!(carrier().contains("left"));
    pair.left().set_up(false).expect("down");
    let bind = || UdpSocket::bind("10.9.0.1:0").and_then(|socket| socket.send_to(b"x", "10.9.0.2:9"));
    assert!(pair.left().netns().run(bind).expect("entered").is_err(), "no route while the interface is down");
    pair.left().set_up(true).expect("up");
    pair.left().add_neighbour("10.9.0.7".parse().expect("an address"), [2, 0, 0, 0, 9, 7]).expect("added");
    pair.right().delete().expect("removed");
    assert!(!carrier().contains("left"), "the peer goes too");
    assert!(matches!(pair.left().set_up(true), Err(LinuxError::Refused { .. })));
}
