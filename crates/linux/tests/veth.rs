//! A pair as the kernel has it.

use std::io;
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use napier_linux::{EndConfig, LinuxError, NapiSettings, Veth, VethConfig};

const LEFT: [u8; 6] = [2, 0, 0, 0, 9, 1];
const RIGHT: [u8; 6] = [2, 0, 0, 0, 9, 2];

fn config() -> VethConfig {
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    let left = EndConfig::new("left", LEFT).address(address("10.9.0.1"), 24).address(address("fd09::1"), 64);
    let right = EndConfig::new("right", RIGHT).address(address("10.9.0.2"), 24).address(address("fd09::2"), 64);
    VethConfig::new(left, right)
}

/// A pair, or a line that says why this test does not run.
fn pair(test: &str, config: &VethConfig) -> Option<Veth> {
    match Veth::new(config) {
        Ok(pair) => Some(pair),
        Err(error) if error.is_privilege() => {
            napier_testkit::skip!(test, "{error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

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
fn instances_take_settings() {
    let with = VethConfig { gro: true, tso: false, ..config() };
    let Some(pair) = pair("instances_take_settings", &with) else { return };
    let end = pair.left();
    let settings =
        NapiSettings { defer_hard_irqs: Some(7), gro_flush_timeout_ns: Some(40_000), ..NapiSettings::default() };
    end.set_napi(&settings).expect("set");
    let napi = end.napis().expect("listed")[0];
    assert_eq!((napi.defer_hard_irqs, napi.gro_flush_timeout_ns), (7, 40_000));
    assert_eq!(napi.thread_pid, None);
    let settings = NapiSettings { defer_hard_irqs: Some(9), gro_flush_timeout_ns: Some(50_000), ..settings };
    match end.set_napi_of_device(&settings) {
        Ok(()) => {
            let napi = end.napis().expect("listed")[0];
            assert_eq!((napi.defer_hard_irqs, napi.gro_flush_timeout_ns), (9, 50_000));
        }
        Err(error) => napier_testkit::skip!("instances_take_settings (sysfs)", "{error}"),
    }
    let threaded = NapiSettings { threaded: Some(1), ..NapiSettings::default() };
    match end.set_napi(&threaded) {
        Ok(()) => assert!(end.napis().expect("listed")[0].thread_pid.is_some()),
        Err(error) => napier_testkit::skip!("instances_take_settings (threaded)", "{error}"),
    }
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
