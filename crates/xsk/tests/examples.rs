//! The examples on a pair of interfaces in namespaces.

#[path = "../examples/counter.rs"]
mod counter;
#[path = "../examples/reflector.rs"]
mod reflector;

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::mpsc::channel;
use std::time::Duration;

use napier_testkit::{PATIENCE, eventually};
use napier_testnet::{self as net, EndConfig, Veth, VethConfig, VethEnd, ip};
use napier_xsk::{XdpFilter, Xsk, XskConfig, XskError, XskQueue};

const LEFT: &str = "10.56.0.1";
const RIGHT: &str = "10.56.0.2";
const LEFT_MAC: [u8; 6] = [2, 0, 0, 0x56, 0, 1];
const RIGHT_MAC: [u8; 6] = [2, 0, 0, 0x56, 0, 2];
/// How long a packet is waited for before another is sent.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// The examples' Ethernet type for experiments.
const EXPERIMENT: [u8; 2] = [0x88, 0xb5];

/// A pair whose senders compute checksums, or a line that says why the test does not run.
fn pair(test: &str, queues: u16) -> Option<Veth> {
    let left = EndConfig::new("left", LEFT_MAC).address(ip(LEFT), 24);
    let right = EndConfig::new("right", RIGHT_MAC).address(ip(RIGHT), 24);
    let config = VethConfig { queues, tx_checksum: false, tso: false, ..VethConfig::new(left, right) };
    net::or_skip(test, Veth::new(&config))
}

/// Small queues on an end.
fn on(end: &VethEnd, queues: u16, filter: XdpFilter) -> XskConfig {
    let netns = end.netns().as_fd().try_clone_to_owned().unwrap();
    XskConfig { netns: Some(netns.into()), queues, ring_size: 64, filter, ..XskConfig::on(end.name()) }
}

/// Opened queues, or a line that says why the test does not run.
fn opened(test: &str, config: &XskConfig) -> Option<(Xsk, Vec<XskQueue>)> {
    match Xsk::open(config) {
        Ok(opened) => Some(opened),
        Err(error) if error.is_privilege() => {
            napier_testkit::skip!(test, "{error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A packet of the type for experiments.
fn packet(number: u8, to: &mut [u8]) -> usize {
    to[..6].copy_from_slice(&RIGHT_MAC);
    to[6..12].copy_from_slice(&LEFT_MAC);
    to[12..14].copy_from_slice(&EXPERIMENT);
    to[14..60].fill(number);
    60
}

fn udp(end: &VethEnd, address: &str, port: u16) -> UdpSocket {
    let address = SocketAddr::new(ip(address), port);
    let socket = end.netns().run(|| UdpSocket::bind(address)).unwrap().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

#[test]
fn a_receiver_that_sleeps_gets_what_a_sender_sends() {
    let test = "a_receiver_that_sleeps_gets_what_a_sender_sends";
    let Some(pair) = pair(test, 1) else { return };
    // Nothing is taken here: what comes goes to the kernel.
    let Some((xsk, mut queues)) = opened(test, &on(pair.left(), 1, XdpFilter::OwnAddresses)) else { return };
    assert_eq!((xsk.info().mac, xsk.info().interface.as_str()), (LEFT_MAC, pair.left().name()));
    let config = on(pair.right(), 1, XdpFilter::Everything);
    let (done, is_done) = channel();
    let counts = std::thread::spawn(move || {
        let counted = counter::run(&config, 100).unwrap();
        done.send(()).unwrap();
        counted
    });
    let (_, sender) = queues[0].parts();
    // It may not be there at first; more than it waits for is not wrong.
    eventually("it has counted", || {
        assert!(sender.send(8, |to| packet(1, to)) <= 8);
        is_done.try_recv().is_ok()
    });
    let (packets, bytes) = counts.join().unwrap();
    assert!(packets >= 100 && bytes >= 60 * packets, "{packets} packets, {bytes} bytes");
    eventually("all frames are back", || {
        sender.flush();
        sender.in_flight() == 0
    });
}

#[test]
fn a_port_is_reflected_and_the_kernel_has_the_others() {
    let test = "a_port_is_reflected_and_the_kernel_has_the_others";
    let Some(pair) = pair(test, 1) else { return };
    let filter = XdpFilter::Ports { addresses: vec![ip(RIGHT)], udp: vec![7..=7], tcp: Vec::new() };
    let config = on(pair.right(), 1, filter);
    if opened(test, &config).is_none() {
        return;
    }
    let reflects = std::thread::spawn(move || reflector::run(&config, 20).unwrap());
    let (client, kernel) = (udp(pair.left(), LEFT, 5000), udp(pair.right(), RIGHT, 8));
    let mut buffer = [0; 64];
    kernel.set_read_timeout(Some(AGAIN_AFTER)).unwrap();
    // The kernel's answers to ARP come first, and those of its port after them.
    eventually("the kernel's port is heard", || {
        client.send_to(b"kernel", SocketAddr::new(ip(RIGHT), 8)).unwrap();
        matches!(kernel.recv_from(&mut buffer), Ok((6, _)))
    });
    client.set_read_timeout(Some(AGAIN_AFTER)).unwrap();
    let mut answers = 0;
    eventually("twenty were reflected", || {
        client.send_to(b"reflect", SocketAddr::new(ip(RIGHT), 7)).unwrap();
        answers += u32::from(matches!(client.recv_from(&mut buffer), Ok((7, from)) if from.port() == 7));
        reflects.is_finished()
    });
    assert!(reflects.join().unwrap() >= 20);
    // All at once and after the last look, if it was not run for a while.
    eventually("an answer comes", || {
        answers += u32::from(matches!(client.recv_from(&mut buffer), Ok((7, from)) if from.port() == 7));
        answers > 0
    });
}

#[test]
fn what_one_queue_receives_another_sends() {
    let test = "what_one_queue_receives_another_sends";
    let Some(pair) = pair(test, 2) else { return };
    let left = on(pair.left(), 1, XdpFilter::Everything);
    let Some((_left, mut outside)) = opened(test, &left) else { return };
    let Some((xsk, mut queues)) = opened(test, &on(pair.right(), 2, XdpFilter::Everything)) else { return };
    assert_eq!((queues.len(), xsk.info().interface_queues), (2, 2));
    let mut seen = 0;
    eventually("a hundred went round", || {
        let (receiver, sender) = outside[0].parts();
        sender.send(4, |to| packet(9, to));
        for from in 0..2 {
            let mut other = queues.swap_remove(1 - from);
            let (receiver, _) = queues[0].parts();
            while let Some((mut frame, len)) = receiver.take() {
                let packet = &mut xsk.frames().data_mut(&mut frame)[..len as usize];
                let (to, from) = packet[..12].split_at_mut(6);
                to.swap_with_slice(from);
                if let Err(frame) = other.parts().1.push(frame, len) {
                    receiver.give_back(frame);
                }
            }
            receiver.refill();
            other.parts().1.flush();
            queues.insert(1 - from, other);
        }
        receiver.receive(|packet| seen += u32::from(packet[12..14] == EXPERIMENT));
        seen >= 100
    });
    assert_eq!(xsk.statistics().tx_invalid_descs, 0);
}

#[test]
fn what_cannot_be_is_refused_in_one_sentence() {
    let test = "what_cannot_be_is_refused_in_one_sentence";
    let refused = |config: &XskConfig| Xsk::open(config).err().unwrap();
    let no_such = XskConfig { queues: 1, ..XskConfig::on("no-such-one") };
    assert!(matches!(refused(&no_such), XskError::NoSuchInterface { .. }));
    let odd = XskConfig { ring_size: 100, ..XskConfig::on("lo") };
    assert!(matches!(refused(&odd), XskError::Config { .. }));
    let Some(pair) = pair(test, 1) else { return };
    let config = on(pair.left(), 1, XdpFilter::Everything);
    let Some(first) = opened(test, &config) else { return };
    assert!(matches!(refused(&config), XskError::ProgramAttached { .. }));
    assert!(matches!(
        refused(&XskConfig { first_queue: 3, ..config.clone() }),
        XskError::NoSuchQueue { .. } | XskError::ProgramAttached { .. }
    ));
    drop(first);
    assert!(opened(test, &config).is_some(), "it is free again");
}
