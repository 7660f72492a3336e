//! How many connections there may be, for how long, and how much each may send.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::tcp::congestion::Control;

use crate::tcp::conn::Conn;
use crate::tcp::flow::Flow;
use crate::tcp::tests::segments::{PEER, US, accepted, accepted_from, connected, listening, segment, sent};
use crate::tcp::{CongestionControl, TcpListener};
use crate::testing::{IFINDEX, Rig, at};
use crate::wire::addr::End;
use crate::wire::flag;

/// The connection with a peer, by the table.
fn conn(rig: &Rig, peer: &str) -> Option<Arc<Conn>> {
    let end = |text| End::from_socket_addr(&at(text));
    let flow = Flow { local: end(US), peer: end(peer) };
    rig.ns.tcp()?.flows.find(&flow, Arc::clone)
}

#[test]
fn the_oldest_handshake_gives_way() {
    let mut rig = Rig::new();
    rig.know_peers();
    let listener = TcpListener::builder().nonblocking(true).syn_limit(3).bind(&rig.ns, at(US)).unwrap();
    // Established ones do not count.
    let _streams: Vec<_> =
        (0..5).map(|port| accepted_from(&mut rig, &listener, &format!("10.0.0.2:{}", 7000 + port))).collect();
    for port in 5000..5010 {
        rig.inject(&segment(&format!("10.0.0.2:{port}"), US, flag::SYN, 1000, 0, b""));
    }
    let there = |port: u16| conn(&rig, &format!("10.0.0.2:{port}")).is_some();
    assert_eq!((5000..5010).filter(|port| there(*port)).collect::<Vec<_>>(), [5007, 5008, 5009]);
    let counters = rig.ns.counters();
    assert_eq!((counters.tcp_embryos_evicted, counters.tcp_ext_listen_drops), (7, 0));
    // Nobody hears of it: who sent the SYN may be forged.
    assert!(sent(&rig).iter().all(|seen| seen.flags == flag::SYN | flag::ACK));
}

#[test]
fn the_oldest_orphan_is_reset() {
    let mut rig = Rig::new();
    let listener = listening(&rig);
    rig.ns.set_tcp_max_orphans(2).unwrap();
    let peers = ["10.0.0.2:5000", "10.0.0.2:5001", "10.0.0.2:5002", "10.0.0.2:5003"];
    let mut resets = 0;
    for peer in peers {
        drop(accepted_from(&mut rig, &listener, peer));
        resets += sent(&rig).iter().filter(|seen| seen.flags & flag::RST != 0).count();
    }
    assert_eq!((resets, rig.ns.counters().tcp_ext_tcp_abort_on_memory), (2, 2));
    assert_eq!(peers.map(|peer| conn(&rig, peer).is_some()), [false, false, true, true]);
    rig.ns.set_tcp_max_orphans(0).unwrap();
    assert_eq!(peers.map(|peer| conn(&rig, peer).is_some()), [false; 4]);
}

/// An orphan's time begins when it gets on, not when its peer says something.
#[test]
fn a_talking_peer_does_not_keep_an_orphan() {
    let (mut rig, _listener, stream, ours) = connected();
    drop(stream);
    let ends = |rig: &Rig| {
        let conn = conn(rig, PEER).expect("half closed");
        let core = conn.own(rig.ns.tcp().unwrap());
        let unsent = core.machine.unacknowledged();
        core.silence_ends(unsent)
    };
    let pause = || std::thread::sleep(std::time::Duration::from_millis(2));
    let closed = ends(&rig);
    pause();
    rig.inject(&segment(PEER, US, flag::ACK, 1001, ours + 1, b""));
    let waits = ends(&rig);
    assert!(waits > closed, "FIN-WAIT-2 begins with the acknowledgement");
    for _ in 0..3 {
        pause();
        rig.inject(&segment(PEER, US, flag::ACK, 1001, ours + 1, b""));
        rig.inject(&segment(PEER, US, flag::ACK, 1000, ours + 1, b""));
        assert_eq!(ends(&rig), waits);
    }
}

#[test]
fn connections_end_with_the_link_that_they_go_over() {
    let (mut rig, listener, one, _) = connected();
    let (two, _) = accepted_from(&mut rig, &listener, "10.0.0.2:5001");
    drop(sent(&rig));
    assert_eq!(rig.ns.tcp_drop(IFINDEX + 1), 0);
    assert_eq!(rig.ns.tcp_drop(IFINDEX), 2);
    assert!(sent(&rig).is_empty());
    for stream in [&one, &two] {
        assert_eq!(stream.recv(&mut [0; 8]).unwrap_err().raw_os_error(), Some(libc::ENETRESET));
        assert_eq!(stream.send(b"x").unwrap_err().raw_os_error(), Some(libc::EPIPE));
    }
    let counters = rig.ns.counters();
    assert_eq!((counters.tcp_abort_on_link, counters.tcp_curr_estab), (2, 0));
    // The listener stays, and the ends are free.
    accepted(&mut rig, &listener);
}

#[test]
fn the_device_and_the_program_choose_the_congestion_control() {
    for (in_process, wanted, has) in [
        (false, None, Control::Cubic),
        (true, None, Control::None),
        (false, Some(CongestionControl::None), Control::None),
        (true, Some(CongestionControl::Cubic), Control::Cubic),
        (true, Some(CongestionControl::Reno), Control::Reno),
    ] {
        let mut rig = Rig::new();
        rig.know_peers();
        rig.device.in_process.store(in_process, Ordering::Relaxed);
        let mut builder = TcpListener::builder().nonblocking(true);
        if let Some(control) = wanted {
            builder = builder.congestion(control);
        }
        let listener = builder.bind(&rig.ns, at(US)).unwrap();
        let (_stream, _) = accepted(&mut rig, &listener);
        let conn = conn(&rig, PEER).expect("established");
        assert_eq!(
            conn.own(rig.ns.tcp().unwrap()).machine.sender.view().congestion.control(),
            has,
            "{in_process} {wanted:?}"
        );
    }
}

/// A connection begins with ten segments (RFC 6928), and what was acknowledged lets more out.
#[test]
fn what_is_under_way_is_bounded_from_the_beginning() {
    let (mut rig, _listener, stream, ours) = connected();
    stream.set_nonblocking(true).unwrap();
    assert_eq!(stream.send(&[7; 16_000]).unwrap(), 16_000);
    let bytes = |rig: &Rig| sent(rig).iter().map(|seen| seen.payload.len() as u32).sum::<u32>();
    let first = bytes(&rig);
    assert_eq!(first, 10 * 536);
    rig.inject(&segment(PEER, US, flag::ACK, 1001, ours + first, b""));
    assert!(bytes(&rig) > first);
}
