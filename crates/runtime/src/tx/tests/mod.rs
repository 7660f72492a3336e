use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use napier_core::time::Span;
use napier_core::tx::queue::QueueBits;
use napier_testkit::PATIENCE;

use super::hold::{self, Point};
use super::*;
use crate::device::{DeviceHandle, LinkConfig};
use crate::engine::Engine;
use crate::raw::{RawPort, RawSendError, RawSender};
use crate::socket::{SocketOption, UdpSocket};
use crate::tx::{DropReason, FqConfig};
use napier_sys::clock::Clock;
use rig::*;

mod delivery;
mod frames;
mod late_list;
mod left;
mod rig;
mod room;
mod shown;
mod stalled;

/// A socket at the sending end, one at the receiving end, and that one's address.
fn sockets(rig: &Rig) -> (UdpSocket, UdpSocket, SocketAddr) {
    let bind = |device: &DeviceHandle, addr: &str| UdpSocket::bind(device.netns(), addr).expect("socket");
    let (socket, peer) = (bind(&rig.from, "10.77.0.1:0"), bind(&rig.to, "10.77.0.2:7"));
    peer.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let to = peer.local_addr().expect("address");
    (socket, peer, to)
}

#[test]
fn fq_paces_and_departs_by_the_watchdog() {
    let rig = plain_with(&QdiscConfig::Fq(FqConfig::default()), TxVariant::Llist);
    let ((socket, peer, to), mut buffer) = (sockets(&rig), [0; 16]);
    socket.send_to(b"first", to).expect("sent");
    peer.recv_from(&mut buffer).expect("received");
    let departs_ns = rig.engine.now_ns() + 3_000_000;
    socket.send_at(b"later", Some(to), departs_ns).expect("queued");
    let (len, _) = peer.recv_from(&mut buffer).expect("received");
    assert_eq!(&buffer[..len], b"later");
    assert!(rig.engine.now_ns() >= departs_ns, "it left before its time");
    rig.assert_nothing_lost();
}

#[test]
fn bands_go_by_priority() {
    let rig = plain_with(&QdiscConfig::pfifo_fast(), TxVariant::Llist);
    let path = rig.from.device.tx[0].clone();
    let ((socket, peer, to), mut buffer) = (sockets(&rig), [0; 16]);
    socket.send_to(b"hello", to).expect("sent");
    peer.recv_from(&mut buffer).expect("the neighbour is known now");
    path.words.update_bits(|bits| (bits.freeze(), ()));
    for (priority, payload) in [(2, b"1st!"), (2, b"bulk"), (0, b"best"), (6, b"soon")] {
        socket.setsockopt(SocketOption::Priority, priority).expect("priority");
        socket.send_to(payload, to).expect("queued");
    }
    assert!(path.words.update_bits(QueueBits::thaw));
    path.schedule_if_waiting();
    let order = [(); 4].map(|()| {
        let (len, _) = peer.recv_from(&mut buffer).expect("received");
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    });
    // The first passed by the empty discipline, was not taken, and so comes back to the front.
    assert_eq!(order, ["1st!", "soon", "best", "bulk"]);
}

#[test]
fn bad_settings_are_refused_and_change_nothing() {
    let rig = plain();
    let refused = rig.from.set_tx_variant(0, TxVariant::Owner).expect_err("no discipline");
    assert!(refused.to_string().contains("set one before the variant owner"), "{refused}");
    let refused = rig.from.set_qdisc(1, &QdiscConfig::pfifo()).expect_err("one queue");
    assert!(refused.to_string().contains("client has 1 transmit queues, 1 is none of them"), "{refused}");
    let odd = QdiscConfig::Fq(FqConfig { buckets: 3, ..FqConfig::default() });
    assert!(rig.from.set_qdisc(0, &odd).expect_err("odd").to_string().contains("buckets"));
    let limits = ByteLimits { min_bytes: 2, max_bytes: 1, ..ByteLimits::default() };
    assert!(rig.from.set_byte_limits(0, Some(limits)).expect_err("wrong way round").to_string().contains("limit_min"));
    assert_eq!((rig.stats().qdisc, rig.from.tx_senders()), ("noqueue", 0));
    rig.with(&QdiscConfig::pfifo(), TxVariant::Owner);
    rig.from.set_qdisc(0, &QdiscConfig::Noqueue).expect("taken away");
    traffic(&rig, 2, 100);
}

#[test]
fn one_sender_passes_by_an_empty_pfifo() {
    let rig = plain_with(&QdiscConfig::pfifo(), TxVariant::Llist);
    let mut receiver = Receiver::new(&rig.to);
    let sender = rig.sender();
    for number in 0..20 {
        assert_eq!(send(&sender, 0, number), Ok(()));
        let stats = rig.stats();
        assert_eq!((stats.qlen, stats.packets, stats.run_pkts), (0, u64::from(number) + 1, u64::from(number) + 1));
    }
    receiver.until(&rig, 20);
}

/// Two runners come back from the same queue: one saw a departure far away, the other a full ring.
#[test]
fn the_watchdog_keeps_the_earlier_look() {
    let rig = plain();
    let path = &rig.from.device.tx[0];
    let (soon, late) = (Clock.now() + Span::from_ms(100_000), Clock.now() + Span::from_ms(200_000));
    path.watch(&*rig.engine.inner.deliver, soon);
    path.watch(&*rig.engine.inner.deliver, late);
    assert_eq!(path.watchdog_on(0), Some(soon));
}

#[test]
fn a_stopped_queue_is_woken_once() {
    let rig = plain_with(&QdiscConfig::pfifo(), TxVariant::Llist);
    let path = rig.from.device.tx[0].clone();
    let mut receiver = Receiver::new(&rig.to);
    // As a thread that holds all queues still: no completion takes this back.
    path.words.update_bits(|bits| (bits.freeze(), ()));
    let sender = rig.sender();
    for number in 0..10 {
        assert_eq!(send(&sender, 0, number), Ok(()));
    }
    let stats = rig.stats();
    assert_eq!((stats.qlen, stats.run_pkts), (10, 0), "nothing leaves a queue that is held still");
    assert!(path.words.update_bits(QueueBits::thaw), "it was held still");
    assert!(!path.words.update_bits(QueueBits::thaw), "a second time it was not");
    path.schedule_if_waiting();
    receiver.until(&rig, 10);
    assert_eq!(rig.stats().qlen, 0);
    rig.assert_nothing_lost();
}
