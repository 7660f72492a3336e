//! What goes wrong, and that nothing is left behind.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use napier_runtime::device::{AddXdpError, XdpBusyPoll, XdpConfig, XdpFilter, XdpMode, XskError};
use napier_runtime::socket::{MtuDiscovery, UdpSocket};
use napier_testkit::closing_frees;
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, XdpUmemReg, XdpUmemRegFlags};
use rustix::net::{self, sockopt};

use crate::rig::*;

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let test = "what_cannot_be_is_refused_in_one_line";
    let _free = closing_frees();
    let Some(pair) = veth(test, 1) else { return };
    if Xdp::new(test, pair.left(), small(), &[LEFT]).is_none() {
        return;
    }
    let refused = |config: XdpConfig, addresses: &[&str]| {
        let error = Xdp::try_new(pair.left(), config, addresses).err().expect("refused");
        let text = error.to_string();
        assert!(!text.contains('\n') && text.contains([':', ',']), "{text}");
        assert!(!pair.left().has_xdp().expect("asked"), "{text}");
        error
    };
    let ours = &[LEFT][..];
    assert!(matches!(
        refused(XdpConfig { first_queue: 5, ..small() }, ours),
        AddXdpError::Interface(XskError::NoSuchQueue { queue: 5, .. })
    ));
    assert!(matches!(
        refused(XdpConfig { queues: 2, ..small() }, ours),
        AddXdpError::Interface(XskError::NoSuchQueue { queue: 1, .. })
    ));
    assert!(matches!(
        refused(XdpConfig { queues: 65, ..small() }, ours),
        AddXdpError::Interface(XskError::Config { .. })
    ));
    assert!(matches!(
        refused(XdpConfig { ring_size: 100, ..small() }, ours),
        AddXdpError::Interface(XskError::Config { .. })
    ));
    assert!(matches!(
        refused(XdpConfig { chunk_bytes: 1024, ..small() }, ours),
        AddXdpError::Interface(XskError::Config { .. })
    ));
    assert!(matches!(
        refused(XdpConfig { frames_per_queue: 64, ..small() }, ours),
        AddXdpError::Interface(XskError::Config { .. })
    ));
    assert!(matches!(refused(small(), &[]), AddXdpError::Interface(XskError::Config { .. })));
    let filter = XdpFilter::Ports { addresses: vec![], udp: vec![], tcp: vec![] };
    assert!(matches!(refused(XdpConfig { filter, ..small() }, ours), AddXdpError::Interface(XskError::Config { .. })));

    // The rig names the interface itself, so this one goes past it.
    let engine = napier_runtime::engine::Engine::builder().start().expect("an engine");
    let end = end_in(&engine.namespace(), "x", &[LEFT]);
    for name in ["no-such-one", "", "a-name-that-is-far-too-long"] {
        let config = XdpConfig { interface: name.to_owned(), ..on(pair.left(), small()) };
        let error = engine.add_xdp(&config, end.clone()).err().expect("refused");
        assert!(matches!(error, AddXdpError::Interface(XskError::NoSuchInterface { .. })), "{error}");
    }
}

#[test]
fn an_mtu_that_exceeds_a_frame_is_refused() {
    let test = "an_mtu_that_exceeds_a_frame_is_refused";
    let _free = closing_frees();
    let Some(pair) = veth(test, 1) else { return };
    pair.left().set_mtu(1775).expect("set");
    let refused = |config| Xdp::try_new(pair.left(), config, &[LEFT]).err().expect("refused");
    let error = refused(XdpConfig { chunk_bytes: 2048, ..small() });
    assert!(matches!(error, AddXdpError::Interface(XskError::MtuTooLarge { mtu: 1775, most: 1774, .. })), "{error}");
    assert!(error.to_string().contains("chunks of 4096 bytes"), "{error}");
    // Of themselves chunks are as long as the MTU needs them.
    for config in [XdpConfig { chunk_bytes: 4096, ..small() }, small()] {
        assert!(Xdp::new(test, pair.left(), config, &[LEFT]).is_some_and(|xdp| xdp.device.link_state().carrier));
    }
    // More than any chunk takes: what is said can be done, and helps.
    pair.left().set_mtu(9000).expect("set");
    let error = refused(small());
    let AddXdpError::Interface(XskError::MtuTooLarge { mtu: 9000, most, .. }) = error else { panic!("{error}") };
    assert!(error.to_string().contains(&format!("mtu {most}")) && !error.to_string().contains("chunks"), "{error}");
    pair.left().set_mtu(most).expect("set");
    assert!(Xdp::new(test, pair.left(), small(), &[LEFT]).is_some_and(|xdp| xdp.device.link_state().carrier));
}

/// The interface has several queues, and nobody has said how many are wanted.
#[test]
fn all_queues_are_taken_unless_fewer_are_asked_for() {
    let test = "all_queues_are_taken_unless_fewer_are_asked_for";
    let _free = closing_frees();
    let Some(pair) = veth(test, 3) else { return };
    for (config, taken) in
        [(small(), 3), (XdpConfig { queues: 2, ..small() }, 2), (XdpConfig { first_queue: 1, ..small() }, 2)]
    {
        let Some(xdp) = Xdp::new(test, pair.left(), config, &[LEFT]) else { return };
        assert_eq!(xdp.device.queues(), taken);
        assert!(xdp.device.xdp_info().expect("an interface's").interface_queues >= 3);
    }
}

/// The MTU and the Ethernet address of an interface change under a device.
#[test]
fn what_changes_of_an_interface_is_noticed() {
    let test = "what_changes_of_an_interface_is_noticed";
    let Some(pair) = veth(test, 1) else { return };
    let Some(xdp) = Xdp::new(test, pair.left(), small(), &[LEFT]) else { return };
    xdp.ns.neighbour_add(xdp.device.ifindex(), ip(RIGHT_KERNEL), RIGHT_MAC).expect("added");
    let socket = xdp.bound(LEFT, 0);
    socket.set_mtu_discovery(MtuDiscovery::Do).expect("set");
    assert_eq!(socket.send_to(&[0; 1400], at(RIGHT_KERNEL, 9)).expect("sent"), 1400);
    pair.left().set_mtu(1300).expect("set");
    eventually("longer packets are refused", || socket.send_to(&[0; 1400], at(RIGHT_KERNEL, 9)).is_err());
    assert_eq!(socket.send_to(&[0; 1272], at(RIGHT_KERNEL, 9)).expect("sent"), 1272);
    pair.left().set_mtu(1500).expect("set");
    eventually("they are sent again", || socket.send_to(&[0; 1400], at(RIGHT_KERNEL, 9)).is_ok());
}

/// A neighbour that moves says so to all, and the kernel has to hear it as much as the device.
#[test]
fn what_a_neighbour_tells_all_is_heard_beside_the_kernel() {
    let test = "what_a_neighbour_tells_all_is_heard_beside_the_kernel";
    let _free = closing_frees();
    let Some(pair) = veth(test, 1) else { return };
    let ports = XdpFilter::Ports { addresses: vec![ip(LEFT)], udp: vec![7..=7], tcp: vec![] };
    for filter in [XdpFilter::OwnAddresses, ports] {
        let Some(xdp) = Xdp::new(test, pair.left(), XdpConfig { filter, ..small() }, &[LEFT]) else { return };
        let ifindex = xdp.device.ifindex();
        // The kernel answers no question for an address that it has not, so the device learns it from a question of ours.
        let asker = Raw::on(&pair);
        let moved = [2, 0, 0, 0x55, 0, 0x77];
        eventually("the neighbour is known", || {
            asker.arp(RIGHT_MAC, RIGHT_KERNEL, LEFT);
            xdp.ns.neighbour(ifindex, ip(RIGHT_KERNEL)) == Some(RIGHT_MAC)
        });
        // Again and again: a question of before may still be on its way, which is another one than that of what is said to all.
        eventually("it has moved", || {
            asker.arp(moved, RIGHT_KERNEL, RIGHT_KERNEL);
            xdp.ns.neighbour(ifindex, ip(RIGHT_KERNEL)) == Some(moved)
        });
    }
}

/// A filter that accepts everything.
const ALL: napier_sys::packet::FilterCode =
    napier_sys::packet::FilterCode { code: 6, if_true: 0, if_false: 0, k: 0xffff };

/// Sends Ethernet frames of its own making from the right end.
struct Raw {
    socket: OwnedFd,
}

impl Raw {
    fn on(pair: &napier_linux::Veth) -> Self {
        let open = || napier_sys::packet::listen(pair.right().ifindex(), 0x88b5, &[ALL]);
        Self { socket: pair.right().netns().run(open).expect("entered").expect("a packet socket") }
    }

    /// A question for `target` by `from` at `mac`, to all.
    fn arp(&self, mac: [u8; 6], from: &str, target: &str) {
        let octets = |text: &str| match ip(text) {
            std::net::IpAddr::V4(address) => address.octets(),
            std::net::IpAddr::V6(_) => panic!("IPv4 only"),
        };
        let mut frame = vec![0xff; 6];
        frame.extend(mac);
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend(mac);
        frame.extend(octets(from));
        frame.extend([0; 6]);
        frame.extend(octets(target));
        rustix::io::write(&self.socket, &frame).expect("sent");
    }
}

#[test]
fn a_second_device_finds_the_interface_taken() {
    let test = "a_second_device_finds_the_interface_taken";
    let _free = closing_frees();
    let Some(pair) = veth(test, 1) else { return };
    for mode in [XdpMode::Generic, XdpMode::Native] {
        let config = || XdpConfig { mode, ..small() };
        let Some(first) = Xdp::new(test, pair.left(), config(), &[LEFT]) else { return };
        assert!(pair.left().has_xdp().expect("asked"));
        for other in [XdpMode::Generic, XdpMode::Native] {
            let error = Xdp::try_new(pair.left(), XdpConfig { mode: other, ..small() }, &[LEFT]).err();
            assert!(matches!(error, Some(AddXdpError::Interface(XskError::ProgramAttached { .. }))), "{error:?}");
        }
        drop(first);
        assert!(!pair.left().has_xdp().expect("asked"), "the program went with the device");
    }
}

/// Somebody else's socket, of a program that attached nothing.
fn foreign_socket(ifindex: u32, queue: u32) -> rustix::io::Result<OwnedFd> {
    #[repr(align(4096))]
    struct Page(#[expect(dead_code, reason = "the kernel's")] [u8; 4096]);
    let memory: &'static [Page; 16] = Box::leak(Box::new([const { Page([0; 4096]) }; 16]));
    let socket = net::socket_with(net::AddressFamily::XDP, net::SocketType::RAW, net::SocketFlags::CLOEXEC, None)?;
    let memory = XdpUmemReg {
        addr: std::ptr::from_ref(memory).expose_provenance() as u64,
        len: 16 * 4096,
        chunk_size: 2048,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    sockopt::set_xdp_umem_reg(&socket, memory)?;
    sockopt::set_xdp_umem_fill_ring_size(&socket, 64)?;
    sockopt::set_xdp_umem_completion_ring_size(&socket, 64)?;
    sockopt::set_xdp_rx_ring_size(&socket, 64)?;
    let address = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_COPY, ifindex, queue);
    // The kernel may not have finished with the socket before.
    eventually("the queue is free", || !matches!(net::bind(&socket, &address), Err(rustix::io::Errno::BUSY)));
    Ok(socket)
}

#[test]
fn a_queue_that_has_a_socket_is_refused() {
    let test = "a_queue_that_has_a_socket_is_refused";
    let _free = closing_frees();
    let Some(pair) = veth(test, 2) else { return };
    let config = || XdpConfig { queues: 2, ..small() };
    if Xdp::new(test, pair.left(), config(), &[LEFT]).is_none() {
        return;
    }
    let ifindex = pair.left().ifindex();
    let foreign = pair.left().netns().run(|| foreign_socket(ifindex, 1)).expect("entered").expect("bound");
    let error = Xdp::try_new(pair.left(), config(), &[LEFT]).err().expect("refused");
    assert!(matches!(error, AddXdpError::Interface(XskError::QueueBusy { queue: 1, .. })), "{error}");
    assert!(!pair.left().has_xdp().expect("asked"), "the program went as well");
    drop(foreign);
    // The kernel may need a moment to forget it, which is waited for.
    assert!(Xdp::new(test, pair.left(), config(), &[LEFT]).is_some());
}

/// There is no carrier, for a reason that says this.
fn lost_because(xdp: &Xdp, why: &str) -> bool {
    let state = xdp.device.link_state();
    !state.carrier && state.reason.is_some_and(|reason| reason.contains(why))
}

/// The interface goes down and comes back under traffic, again and again.
#[test]
fn carrier_follows_the_interface() {
    let test = "carrier_follows_the_interface";
    let Some(pair) = veth(test, 1) else { return };
    let Some(xdp) = Xdp::new(test, pair.left(), small(), &[LEFT]) else { return };
    xdp.ns.neighbour_add(xdp.device.ifindex(), ip(RIGHT_KERNEL), RIGHT_MAC).expect("added");
    let socket = UdpSocket::bind(&xdp.ns, at(LEFT, 0)).expect("bound");
    let sink = kernel_udp(pair.right(), at(RIGHT_KERNEL, 9));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // Refused while it is down.
                let _ = socket.send_to(b"x", at(RIGHT_KERNEL, 9));
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        });
        for round in 1..=10 {
            pair.left().set_up(false).expect("down");
            // At a look in the middle of it the link may be gone before the interface is down.
            let why = format!("ip link set {} up", pair.left().name());
            eventually("carrier is lost", || lost_because(&xdp, &why));
            assert_eq!(xdp.device.link_state().losses, round);
            pair.left().set_up(true).expect("up");
            assert!(xdp.device.wait_link(PATIENCE), "{:?}", xdp.device.link_state());
            assert_eq!(sink.recv(&mut [0; 8]).expect("traffic goes on"), 1);
        }
        // The ends of other interfaces need not know of each other.
        if wired_names().is_none() {
            pair.right().set_up(false).expect("down");
            eventually("carrier is lost", || lost_because(&xdp, "no link"));
            pair.right().set_up(true).expect("up");
            assert!(xdp.device.wait_link(PATIENCE));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(xdp.device.stats().tx_packets > 0);
}

#[test]
fn an_interface_that_is_removed_under_traffic_is_reported() {
    let test = "an_interface_that_is_removed_under_traffic_is_reported";
    if !only_on_veth(test, "only a veth can be removed") {
        return;
    }
    for mode in [XdpMode::Generic, XdpMode::Native] {
        let Some(pair) = veth(test, 1) else { return };
        let Some(xdp) = Xdp::new(test, pair.left(), XdpConfig { mode, ..small() }, &[LEFT]) else { return };
        xdp.ns.neighbour_add(xdp.device.ifindex(), ip(RIGHT_KERNEL), RIGHT_MAC).expect("added");
        let socket = UdpSocket::bind(&xdp.ns, at(LEFT, 0)).expect("bound");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _ = socket.send_to(b"x", at(RIGHT_KERNEL, 9));
                }
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            pair.right().delete().expect("removed");
            // It is down before it is gone.
            eventually("carrier is lost", || lost_because(&xdp, "is gone"));
            stop.store(true, Ordering::Relaxed);
        });
        // Nothing polls or kicks any more.
        eventually("nothing happens any more", || {
            let seen = |xdp: &Xdp| (xdp.device.stats().tx_kicks, xdp.device.napi_stats(0).polls_total());
            let before = seen(&xdp);
            std::thread::sleep(std::time::Duration::from_millis(50));
            seen(&xdp) == before
        });
    }
}

/// A socket that holds every frame costs packets, not the queue.
#[test]
fn frames_that_sockets_hold_are_missed_and_counted() {
    let test = "frames_that_sockets_hold_are_missed_and_counted";
    let Some(pair) = veth(test, 1) else { return };
    let config = XdpConfig { ring_size: 16, frames_per_queue: 32, ..XdpConfig::on("") };
    let Some(xdp) = Xdp::new(test, pair.left(), config, &[LEFT]) else { return };
    let socket = xdp.bound(LEFT, 7);
    let client = kernel_udp(pair.right(), at(RIGHT_KERNEL, 0));
    eventually("packets were lost for want of frames", || {
        client.send_to(&[1; 100], at(LEFT, 7)).expect("sent");
        xdp.device.stats().rx_no_frame > 20
    });
    for _ in 0..10 {
        socket.recv(&mut [0; 200]).expect("what is held");
    }
    // Goes on, though the program was not told that frames had come back.
    while socket.recv_from(&mut [0; 200]).expect("received").0 == 100 {
        client.send_to(&[2; 50], at(LEFT, 7)).expect("sent");
    }
}

#[test]
fn busy_polling_is_accepted_where_it_does_nothing() {
    let test = "busy_polling_is_accepted_where_it_does_nothing";
    let Some(pair) = veth(test, 1) else { return };
    let busy_poll = Some(XdpBusyPoll { usecs: 20, budget: 64 });
    let Some(xdp) = Xdp::new(test, pair.left(), XdpConfig { busy_poll, ..small() }, &[LEFT]) else { return };
    let server = xdp.bound(LEFT, 7);
    let client = kernel_udp(pair.right(), at(RIGHT_KERNEL, 0));
    for _ in 0..100 {
        client.send_to(b"question", at(LEFT, 7)).expect("sent");
        assert_eq!(server.recv(&mut [0; 16]).expect("received"), 8);
    }
    assert_eq!(xdp.device.xdp_info().expect("an interface's").kernel_napi_ids.len(), 1);
}
