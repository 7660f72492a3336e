//! What has to be sent is sent, whatever else happens.

use napier_runtime::device::{XdpConfig, XdpFilter};
use napier_runtime::raw::{RawFrame, RawPort};
use napier_runtime::socket::UdpSocket;
use napier_runtime::tx::QdiscConfig;

use crate::rig::*;

/// Sends a packet at a time to a kernel socket; nothing ever comes back, and nobody polls for it.
#[test]
fn a_lone_packet_goes_out_without_traffic_in() {
    let test = "a_lone_packet_goes_out_without_traffic_in";
    let Some(pair) = veth(test, 1) else { return };
    let Some(xdp) = Xdp::new(test, pair.left(), small(), &[LEFT]) else { return };
    xdp.ns.neighbour_add(xdp.device.ifindex(), ip(RIGHT_KERNEL), RIGHT_MAC).expect("added");
    let sink = kernel_udp(pair.right(), at(RIGHT_KERNEL, 9));
    let socket = UdpSocket::bind(&xdp.ns, at(LEFT, 0)).expect("bound");
    for turn in 0..300_u32 {
        socket.send_to(&turn.to_ne_bytes(), at(RIGHT_KERNEL, 9)).expect("sent");
        let mut bytes = [0; 8];
        assert_eq!(sink.recv(&mut bytes).expect("received"), 4);
        assert_eq!(bytes[..4], turn.to_ne_bytes());
    }
    assert_eq!(xdp.device.stats().rx_packets, 0);
}

fn frame(number: u32) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&RIGHT_MAC);
    frame[6..12].copy_from_slice(&LEFT_MAC);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]); // for experiments
    frame[14..18].copy_from_slice(&number.to_ne_bytes());
    frame
}

/// Far more packets than any ring holds, in batches larger than one kick sends, through the smallest rings; the
/// completion ring is never looked at by the program.
#[test]
fn many_packets_go_through_tiny_rings() {
    let test = "many_packets_go_through_tiny_rings";
    for ring_size in [16, 256] {
        let Some(pair) = veth(test, 1) else { return };
        let config = XdpConfig { ring_size, filter: XdpFilter::Everything, ..XdpConfig::on("") };
        let Some(left) = Xdp::new(test, pair.left(), config.clone(), &[]) else { return };
        let config = XdpConfig { ring_size: 1024, ..config };
        let Some(right) = Xdp::new(test, pair.right(), config, &[]) else { return };
        let (from, to) =
            (RawPort::bind(&left.device, 0).expect("free"), RawPort::bind(&right.device, 0).expect("free"));
        let (mut sent, mut received) = (0_u32, 0_u32);
        while received < 20_000 {
            for _ in 0..100 {
                if sent < 20_000 && sent - received < 500 {
                    let built = from.build(60, |to| {
                        to.copy_from_slice(&frame(sent));
                        60
                    });
                    sent += u32::from(built.is_ok());
                }
            }
            from.flush();
            while let Some(frame) = to.next() {
                if frame.data()[12..14] == [0x88, 0xb5] {
                    assert_eq!(frame.data()[14..18], received.to_ne_bytes(), "in order and none lost");
                    received += 1;
                }
            }
            if received < sent {
                assert!(to.wait(Some(PATIENCE)), "{received} of {sent} after {PATIENCE:?}");
            }
        }
        let kernel = left.device.xdp_stats().expect("counted");
        assert_eq!(kernel.tx_invalid_descs, 0);
    }
}

/// Waits for the next frame that a test has made; the kernel sends some too.
fn next_of_ours(port: &RawPort) -> RawFrame<'_> {
    loop {
        assert!(port.wait(Some(PATIENCE)), "no frame after {PATIENCE:?}");
        while let Some(frame) = port.next() {
            if frame.data()[12..14] == [0x88, 0xb5] {
                return frame;
            }
        }
    }
}

/// Frames come from where they were received, and go on without a copy.
#[test]
fn received_frames_are_forwarded_in_place() {
    let test = "received_frames_are_forwarded_in_place";
    let Some(pair) = veth(test, 1) else { return };
    let config = XdpConfig { filter: XdpFilter::Everything, ..small() };
    let Some(left) = Xdp::new(test, pair.left(), config.clone(), &[]) else { return };
    let Some(right) = Xdp::new(test, pair.right(), config, &[]) else { return };
    let (from, to) = (RawPort::bind(&left.device, 0).expect("free"), RawPort::bind(&right.device, 0).expect("free"));
    for turn in 0..500_u32 {
        from.build(60, |to| {
            to.copy_from_slice(&frame(turn));
            60
        })
        .expect("room");
        from.flush();
        let received = next_of_ours(&to);
        assert!(to.forward(received).is_ok(), "room");
        to.flush();
        let back = next_of_ours(&from);
        assert_eq!(back.data()[14..18], turn.to_ne_bytes());
    }
}

/// With a queueing discipline packets are built in frames of senders, which the kernel is lent too.
#[test]
fn senders_with_a_discipline() {
    let test = "senders_with_a_discipline";
    let Some(pair) = veth(test, 1) else { return };
    let Some(left) = Xdp::new(test, pair.left(), small(), &[LEFT]) else { return };
    let Some(right) = Xdp::new(test, pair.right(), small(), &[RIGHT]) else { return };
    // A neighbour that is being asked for holds few packets, and drops the others.
    left.ns.neighbour_add(left.device.ifindex(), ip(RIGHT), RIGHT_MAC).expect("added");
    right.ns.neighbour_add(right.device.ifindex(), ip(LEFT), LEFT_MAC).expect("added");
    left.device.set_qdisc(0, &QdiscConfig::PfifoFast { limit_pkts: 1000 }).expect("set");
    let server = UdpSocket::bind(&right.ns, at(RIGHT, 7)).expect("bound");
    server.set_read_timeout(Some(PATIENCE)).expect("set");
    std::thread::scope(|scope| {
        for sender in 0..3_u8 {
            let left = &left;
            scope.spawn(move || {
                let socket = UdpSocket::bind(&left.ns, at(LEFT, 100 + u16::from(sender))).expect("bound");
                socket.set_read_timeout(Some(PATIENCE)).expect("set");
                for _ in 0..300 {
                    socket.send_to(&[sender; 20], at(RIGHT, 7)).expect("sent");
                    let mut answer = [0; 32];
                    assert_eq!(socket.recv(&mut answer).expect("answered"), 20);
                    assert_eq!(answer[0], sender);
                }
            });
        }
        let mut bytes = [0; 32];
        for _ in 0..900 {
            let (length, from) = server.recv_from(&mut bytes).expect("received");
            server.send_to(&bytes[..length], from).expect("sent");
        }
    });
}
