//! Dry runs: everything is as before.

use std::io::ErrorKind;

use smoltcp::wire::{ArpOperation, Ipv4Address};

use crate::tables::reuse::ReusePort;
use crate::testing::{IFINDEX, OUR_MAC, PEER_MAC, Rig, STRIDE, arp, at, udp, udp_frame};
use crate::{DryRun, SocketOption, UdpSocket};

use crate::tests::receive::open;

/// A dry run of these bytes.
fn dry(rig: &mut Rig, ifindex: u32, bytes: &[u8]) -> DryRun {
    let mut frame = rig.pool.alloc().expect("a free frame");
    rig.host.frames.data_mut(&mut frame)[..bytes.len()].copy_from_slice(bytes);
    let (frame, came) = rig.ns.view().dry_run(ifindex, frame, u32::try_from(bytes.len()).unwrap());
    rig.pool.free(frame);
    came
}

#[test]
fn a_dry_run_comes_to_the_socket_and_changes_nothing() {
    let mut rig = Rig::new();
    let shared = || {
        let builder = UdpSocket::builder().nonblocking(true).reuse_port(ReusePort::ByNapi);
        builder.bind(&rig.ns, at("10.0.0.1:8")).expect("a socket")
    };
    let by_napi = [shared(), shared()];
    let (plain, merged) = (open(&rig, "10.0.0.1:9"), open(&rig, "[fd00::1]:9"));
    merged.setsockopt(SocketOption::UdpGro, 1).unwrap();
    let mut broken = udp("10.0.0.2:7", "10.0.0.1:9", b"four");
    *broken.last_mut().unwrap() ^= 1;
    let elsewhere = udp_frame(at("10.0.0.2:7"), at("10.0.0.1:9"), PEER_MAC, [2; 6], b"");
    let cases = [
        (udp("10.0.0.2:7", "10.0.0.1:9", b"x"), DryRun::Reached),
        (udp("[fd00::2]:7", "[fd00::1]:9", b"x"), DryRun::Reached),
        (udp("10.0.0.2:7", "10.0.0.1:8", b"x"), DryRun::Reached),
        (udp("10.0.0.2:7", "10.0.0.1:10", b"nobody"), DryRun::Nowhere),
        (udp("10.0.0.2:7", "10.0.0.77:9", b"not ours"), DryRun::Nowhere),
        (broken, DryRun::Nowhere),
        (elsewhere, DryRun::Nowhere),
        (
            arp(ArpOperation::Request, Ipv4Address::new(10, 0, 0, 2), PEER_MAC, Ipv4Address::new(10, 0, 0, 1)),
            DryRun::Nowhere,
        ),
        (OUR_MAC.to_vec(), DryRun::Nowhere),
    ];
    let before = rig.ns.counters();
    for (bytes, came) in &cases {
        assert_eq!(dry(&mut rig, IFINDEX, bytes), *came, "{bytes:02x?}");
        assert_eq!(dry(&mut rig, IFINDEX + 1, bytes), DryRun::Nowhere, "no such device");
    }
    assert_eq!(rig.ns.counters(), before);
    assert!(rig.sent().is_empty(), "nobody is answered");
    for socket in by_napi.iter().chain([&plain, &merged]) {
        assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(socket.inner().charged_bytes(), 0);
        assert_eq!(socket.inner().napi_id.load(std::sync::atomic::Ordering::Relaxed), 0, "no instance is recorded");
    }
    rig.assert_home(0);
}

#[test]
fn a_dry_run_at_a_full_socket_comes_back() {
    let mut rig = Rig::new();
    let socket = open(&rig, "10.0.0.1:9");
    let packet = udp("10.0.0.2:7", "10.0.0.1:9", b"x");
    let fit = 212_992 / STRIDE;
    (0..fit).for_each(|_| rig.inject(&packet));
    let before = rig.ns.counters();
    assert_eq!(dry(&mut rig, IFINDEX, &packet), DryRun::Nowhere);
    assert_eq!(rig.ns.counters(), before);
    rig.assert_home(fit);
    assert_eq!(socket.recv(&mut [0]).unwrap(), 1);
}
