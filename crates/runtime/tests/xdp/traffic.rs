//! Packets both ways: with the kernel, between devices, over several queues.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use napier_runtime::device::{XdpConfig, XdpFilter, XdpMode};
use napier_runtime::socket::UdpSocket;

use crate::rig::*;

/// Answers what comes until `count` came.
fn echo(socket: &UdpSocket, count: u32) {
    let mut bytes = [0; 2048];
    for _ in 0..count {
        let (length, from) = socket.recv_from(&mut bytes).expect("received");
        socket.send_to(&bytes[..length], from).expect("sent");
    }
}

fn kernel_client(test: &str, mode: XdpMode) {
    let Some(pair) = veth(test, 1) else { return };
    let config = XdpConfig { mode, ..small() };
    let Some(xdp) = Xdp::new(test, pair.left(), config, &[LEFT, LEFT_V6]) else { return };
    let info = xdp.device.xdp_info().expect("an interface's device");
    if wired_names().is_none() {
        assert_eq!(info.mode, if mode == XdpMode::Native { XdpMode::Native } else { XdpMode::Generic });
        assert!(!info.zero_copy, "veth has no zero copy");
    }
    assert_eq!(xdp.device.mac(), LEFT_MAC);
    assert!(xdp.device.link_state().carrier);
    for (ours, kernels) in [(LEFT, RIGHT_KERNEL), (LEFT_V6, RIGHT_KERNEL_V6)] {
        let server = xdp.bound(ours, 7);
        // It asks for the Ethernet address first, by ARP or neighbour discovery.
        let client = kernel_udp(pair.right(), at(kernels, 0));
        client.connect(at(ours, 7)).expect("connected");
        std::thread::scope(|scope| {
            scope.spawn(|| echo(&server, 300));
            for turn in 0..300_usize {
                let request = vec![turn as u8; 1 + turn * 4];
                client.send(&request).expect("sent");
                let mut answer = [0; 2048];
                let length = client.recv(&mut answer).expect("answered");
                assert_eq!(answer[..length], request);
            }
        });
    }
    // What a round of an instance received is counted at its end, after the receiver was woken.
    xdp.check();
    let stats = xdp.device.stats();
    assert!(stats.rx_packets >= 600 && stats.tx_packets >= 600, "{stats:?}");
    assert_eq!((stats.rx_bad_descriptors, stats.rx_index_errors, stats.tx_index_errors), (0, 0, 0));
    assert!(stats.interrupts > 0, "{stats:?}");
    let kernel = xdp.device.xdp_stats().expect("counted");
    assert_eq!((kernel.rx_invalid_descs, kernel.tx_invalid_descs), (0, 0), "{kernel:?}");
}

#[test]
fn a_kernel_client_is_answered() {
    kernel_client("a_kernel_client_is_answered", XdpMode::Auto);
}

#[test]
fn a_kernel_client_is_answered_in_native_mode() {
    kernel_client("a_kernel_client_is_answered_in_native_mode", XdpMode::Native);
}

#[test]
fn a_kernel_server_answers() {
    let test = "a_kernel_server_answers";
    let Some(pair) = veth(test, 1) else { return };
    let Some(xdp) = Xdp::new(test, pair.left(), small(), &[LEFT]) else { return };
    let server = kernel_udp(pair.right(), at(RIGHT_KERNEL, 7));
    let client = xdp.bound(LEFT, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = [0; 2048];
            for _ in 0..200 {
                let (length, from) = server.recv_from(&mut bytes).expect("received");
                server.send_to(&bytes[..length], from).expect("sent");
            }
        });
        for turn in 0..200_u8 {
            client.send_to(&[turn; 33], at(RIGHT_KERNEL, 7)).expect("sent");
            let mut answer = [0; 64];
            assert_eq!(client.recv(&mut answer).expect("answered"), 33);
            assert_eq!(answer[0], turn);
        }
    });
}

#[test]
fn two_devices_talk() {
    let test = "two_devices_talk";
    let Some(pair) = veth(test, 1) else { return };
    let Some(left) = Xdp::new(test, pair.left(), small(), &[LEFT, LEFT_V6]) else { return };
    let Some(right) = Xdp::new(test, pair.right(), small(), &[RIGHT, RIGHT_V6]) else { return };
    for (from, to) in [(LEFT, RIGHT), (LEFT_V6, RIGHT_V6)] {
        let (client, server) = (left.bound(from, 0), right.bound(to, 7));
        std::thread::scope(|scope| {
            scope.spawn(|| echo(&server, 500));
            for turn in 0..500_u32 {
                client.send_to(&turn.to_ne_bytes(), at(to, 7)).expect("sent");
                let mut answer = [0; 64];
                let answered = client.recv(&mut answer);
                let all = || [&left, &right].map(|xdp| (xdp.device.stats(), xdp.device.xdp_stats()));
                assert_eq!(answered.ok(), Some(4), "turn {turn}: {:?}", all());
                assert_eq!(answer[..4], turn.to_ne_bytes());
            }
        });
    }
}

#[test]
fn two_devices_of_one_engine_share_its_threads() {
    let test = "two_devices_of_one_engine_share_its_threads";
    let Some(pair) = veth(test, 1) else { return };
    let Some(left) = Xdp::new(test, pair.left(), small(), &[LEFT]) else { return };
    let right = Xdp::in_engine(&left.engine, pair.right(), small(), &[RIGHT]).expect("a second device");
    let (client, server) = (left.bound(LEFT, 0), right.bound(RIGHT, 7));
    std::thread::scope(|scope| {
        scope.spawn(|| echo(&server, 300));
        for _ in 0..300 {
            client.send_to(b"question", at(RIGHT, 7)).expect("sent");
            assert_eq!(client.recv(&mut [0; 64]).expect("answered"), 8);
        }
    });
}

#[test]
fn every_queue_receives_and_sends() {
    let test = "every_queue_receives_and_sends";
    const QUEUES: u16 = 3;
    let Some(pair) = veth(test, QUEUES) else { return };
    let config = || XdpConfig { queues: QUEUES, ..small() };
    let Some(left) = Xdp::new(test, pair.left(), config(), &[LEFT]) else { return };
    let Some(right) = Xdp::new(test, pair.right(), config(), &[RIGHT]) else { return };
    let server = right.bound(RIGHT, 7);
    std::thread::scope(|scope| {
        scope.spawn(|| echo(&server, 3 * 40 * 10));
        for flow in 0..3 * 40 {
            // A flow of its own, so the queue differs.
            let client = left.bound(LEFT, 10_000 + flow * 7);
            for _ in 0..10 {
                client.send_to(b"question", at(RIGHT, 7)).expect("sent");
                assert_eq!(client.recv(&mut [0; 64]).expect("answered"), 8);
            }
        }
    });
    for queue in 0..QUEUES {
        assert!(left.device.napi_stats(queue).packets_total() > 0, "left, queue {queue}");
        assert!(right.device.napi_stats(queue).packets_total() > 0, "right, queue {queue}");
    }
}

#[test]
fn a_queue_without_a_socket_is_the_kernels() {
    let test = "a_queue_without_a_socket_is_the_kernels";
    let Some(pair) = veth(test, 2) else { return };
    // The second queue only: what comes by the first goes on.
    let config = XdpConfig { first_queue: 1, filter: XdpFilter::Everything, ..small() };
    let Some(left) = Xdp::new(test, pair.left(), config, &[LEFT]) else { return };
    let config = XdpConfig { queues: 2, ..small() };
    let Some(right) = Xdp::new(test, pair.right(), config, &[RIGHT]) else { return };
    right.ns.neighbour_add(right.device.ifindex(), ip(LEFT_KERNEL), LEFT_MAC).expect("added");
    let kernel = kernel_udp(pair.left(), at(LEFT_KERNEL, 9));
    kernel.set_read_timeout(Some(Duration::from_millis(20))).expect("set");
    // The device has not the address, and counts what comes by its queue.
    let to_device = || left.ns.counters().ip_in_addr_errors;
    let (mut to_kernel, mut all) = (0, 0_u16);
    eventually("both queues were used", || {
        all += 1;
        right.bound(RIGHT, 10_000 + all % 1000).send_to(b"x", at(LEFT_KERNEL, 9)).expect("sent");
        to_kernel += u16::from(kernel.recv(&mut [0; 8]).is_ok());
        to_kernel > 0 && to_kernel < all && to_device() > 0
    });
}

/// The interface's own addresses stay the kernel's, with all that it does on them.
#[test]
fn what_the_filter_does_not_name_is_the_kernels() {
    let test = "what_the_filter_does_not_name_is_the_kernels";
    let Some(pair) = veth(test, 1) else { return };
    let Some(xdp) = Xdp::new(test, pair.left(), small(), &[LEFT]) else { return };
    let listener = pair.left().netns().run(|| TcpListener::bind(at(LEFT_KERNEL, 22))).expect("in").expect("bound");
    let connect = || TcpStream::connect_timeout(&at(LEFT_KERNEL, 22), PATIENCE);
    let mut client = pair.right().netns().run(connect).expect("in").expect("connected");
    let (mut server, _) = listener.accept().expect("accepted");
    client.write_all(&[7; 100_000]).expect("sent");
    client.shutdown(std::net::Shutdown::Write).expect("shut");
    let mut all = Vec::new();
    server.read_to_end(&mut all).expect("received");
    assert_eq!(all.len(), 100_000);
    let (a, b) = (kernel_udp(pair.left(), at(LEFT_KERNEL, 9)), kernel_udp(pair.right(), at(RIGHT_KERNEL, 0)));
    b.send_to(b"x", at(LEFT_KERNEL, 9)).expect("sent");
    assert_eq!(a.recv(&mut [0; 8]).expect("received"), 1);
    assert_eq!(xdp.device.stats().rx_packets, 0, "none of it was the device's");
}

/// The kernel's own address, of which the device has one port.
#[test]
fn ports_are_shared_with_the_kernel() {
    let test = "ports_are_shared_with_the_kernel";
    let Some(pair) = veth(test, 1) else { return };
    let filter = XdpFilter::Ports { addresses: vec![ip(LEFT_KERNEL)], udp: vec![7..=7], tcp: vec![] };
    let Some(xdp) = Xdp::new(test, pair.left(), XdpConfig { filter, ..small() }, &[LEFT_KERNEL]) else { return };
    // The kernel keeps ARP, so the device is told its neighbours.
    xdp.ns.neighbour_add(xdp.device.ifindex(), ip(RIGHT_KERNEL), RIGHT_MAC).expect("added");
    let server = xdp.bound(LEFT_KERNEL, 7);
    let kernel = kernel_udp(pair.left(), at(LEFT_KERNEL, 8));
    let client = kernel_udp(pair.right(), at(RIGHT_KERNEL, 0));
    std::thread::scope(|scope| {
        scope.spawn(|| echo(&server, 100));
        for _ in 0..100 {
            client.send_to(b"ours", at(LEFT_KERNEL, 7)).expect("sent");
            assert_eq!(client.recv(&mut [0; 8]).expect("answered"), 4);
            client.send_to(b"kernel", at(LEFT_KERNEL, 8)).expect("sent");
            assert_eq!(kernel.recv(&mut [0; 8]).expect("received"), 6);
        }
    });
    // What a round of an instance received is counted at its end, after the receiver was woken.
    eventually("each datagram is counted", || xdp.device.stats().rx_packets >= 100);
    assert_eq!(xdp.device.stats().rx_packets, 100);
}
