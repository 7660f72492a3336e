//! Senders that wait for room: credit of their own packets, or a device that takes nothing now.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use napier_testkit::eventually;

use crate::event::{Event, EventContext, Interest, Timeout, Watchable};
use crate::host::Host;
use crate::testing::{Rig, at};
use crate::{SocketOption, UdpSocket};

const PEER: &str = "10.0.0.2:7";

fn open(rig: &Rig, nonblocking: bool) -> UdpSocket {
    rig.know_peers();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    socket.set_nonblocking(nonblocking).unwrap();
    socket
}

fn refused(socket: &UdpSocket) -> bool {
    match socket.send_to(b"x", at(PEER)) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
            true
        }
    }
}

fn is_out(context: &EventContext) -> bool {
    let mut events = [Event::default(); 4];
    context.wait(&mut events, Timeout::Now).unwrap() > 0 && events[0].events.contains(Interest::OUT)
}

#[test]
fn a_socket_without_credit_refuses_until_half_of_its_buffer_is_free() {
    let rig = Rig::new();
    let socket = open(&rig, true);
    let context = EventContext::new(rig.host.clone() as Arc<dyn Host>);
    context.add(&socket, Interest::OUT, 5).unwrap();
    assert!(is_out(&context));
    let (buffers, number) = (rig.ns.send_buffers(), socket.inner().send_buffer.number);
    assert_eq!(socket.getsockopt(SocketOption::SndBuf), Ok(212_992));
    // The last packet may go beyond the limit.
    buffers.charge(number, 212_991);
    assert!(!refused(&socket));
    buffers.charge(number, 2001);
    assert!(refused(&socket) && !is_out(&context));
    assert!(!buffers.credit(number, 3000) && !refused(&socket), "there is room, though not half");
    assert!(!is_out(&context));
    assert!(buffers.credit(number, 150_000));
    buffers.tell(number);
    assert!(is_out(&context));
    assert_eq!(rig.ns.counters().udp_sndbuf_errors, 1);
}

#[test]
fn a_blocking_sender_sleeps_until_its_packets_are_home() {
    let rig = Rig::new();
    let socket = open(&rig, false);
    let (buffers, number) = (rig.ns.send_buffers(), socket.inner().send_buffer.number);
    buffers.charge(number, 212_992);
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..3).map(|_| scope.spawn(|| socket.send_to(b"x", at(PEER)))).collect();
        std::thread::yield_now();
        assert!(rig.sent().is_empty());
        assert!(buffers.credit(number, 150_000));
        buffers.tell(number);
        senders.into_iter().for_each(|sender| assert_eq!(sender.join().unwrap().unwrap(), 1));
    });
    assert_eq!(rig.sent().len(), 3);
}

#[test]
fn a_larger_buffer_is_room() {
    let rig = Rig::new();
    let socket = open(&rig, true);
    rig.ns.send_buffers().charge(socket.inner().send_buffer.number, 212_992);
    assert!(refused(&socket));
    socket.setsockopt(SocketOption::SndBuf, 212_992).unwrap();
    assert_eq!(socket.getsockopt(SocketOption::SndBuf), Ok(2 * 212_992));
    assert!(socket.watched().ready().contains(Interest::OUT) && !refused(&socket));
    for (asked, got) in [(0, 4608), (-1, 8 << 20), (100_000, 200_000)] {
        socket.setsockopt(SocketOption::SndBuf, asked).unwrap();
        assert_eq!(socket.getsockopt(SocketOption::SndBuf), Ok(got));
    }
}

#[test]
fn a_device_that_takes_nothing_now_says_when_it_does() {
    let rig = Rig::new();
    let socket = open(&rig, true);
    rig.device.busy.store(true, Relaxed);
    assert!(refused(&socket) && refused(&socket));
    assert!(!socket.watched().ready().contains(Interest::OUT));
    let take = || rig.device.waiters.lock().unwrap().pop();
    let waiter = take().expect("it asked to be told");
    assert!(take().is_none(), "asked once");
    rig.device.busy.store(false, Relaxed);
    assert!(waiter.on_room());
    assert!(socket.watched().ready().contains(Interest::OUT) && !refused(&socket));

    socket.set_nonblocking(false).unwrap();
    rig.device.busy.store(true, Relaxed);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| socket.send_to(b"x", at(PEER)));
        let mut waiter = None;
        eventually("the sender asks", || {
            waiter = take();
            waiter.is_some()
        });
        rig.device.busy.store(false, Relaxed);
        assert!(waiter.expect("there").on_room());
        assert_eq!(sender.join().unwrap().unwrap(), 1);
    });
}

#[test]
fn a_full_ring_says_when_it_has_room() {
    let rig = Rig::new();
    let socket = open(&rig, true);
    let context = EventContext::new(rig.host.clone() as Arc<dyn Host>);
    context.add(&socket, Interest::OUT | Interest::EDGE, 5).unwrap();
    assert!(is_out(&context) && !is_out(&context));
    rig.device.full.store(true, Relaxed);
    assert!(refused(&socket) && refused(&socket) && !is_out(&context));
    let waiter = rig.device.waiters.lock().unwrap().pop().expect("it asked to be told");
    rig.device.full.store(false, Relaxed);
    assert!(waiter.on_room());
    assert!(is_out(&context) && !is_out(&context) && !refused(&socket));
}

#[test]
fn who_waits_for_credit_has_its_device_look_until_it_has_it() {
    let rig = Rig::new();
    let socket = open(&rig, true);
    let (buffers, number) = (rig.ns.send_buffers(), socket.inner().send_buffer.number);
    buffers.charge(number, 300_000);
    rig.device.busy.store(true, Relaxed);
    assert!(refused(&socket));
    let waiter = rig.device.waiters.lock().unwrap().pop().expect("it asked");
    assert!(!waiter.clone().on_room(), "nothing came home");
    assert!(buffers.credit(number, 300_000));
    assert!(waiter.on_room());
}
