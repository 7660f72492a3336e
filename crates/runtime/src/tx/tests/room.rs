//! Sockets whose device has no room: they wait, and nothing is lost.

use super::*;
use crate::event::{Event, EventContext, Interest, Timeout};

const EACH: u32 = 300;

fn socket(rig: &Rig, port: u32) -> UdpSocket {
    let addr: SocketAddr = format!("10.77.0.1:{}", 10_000 + port).parse().expect("address");
    let socket = UdpSocket::bind(rig.from.netns(), addr).expect("socket");
    socket.connect("10.77.0.2:7").expect("connected");
    socket
}

/// Knows the neighbour, so that no datagram waits for it.
fn introduce(rig: &Rig) {
    let netns = rig.from.netns();
    netns.neighbour_add(rig.from.ifindex(), "10.77.0.2".parse().expect("address"), rig.to.mac()).expect("a neighbour");
}

/// Blocking sockets, more than the defer list lets in and than processors can serve at once, and a slow receiver.
fn nothing_is_lost(variant: TxVariant, max_burst: i32) {
    let rig = plain_with(&QdiscConfig::Fq(FqConfig::default()), variant);
    rig.engine.set_sysctl_qdisc_max_burst(max_burst);
    introduce(&rig);
    let port = RawPort::bind(&rig.to, 0).expect("port");
    let sockets: Vec<_> = (0..24).map(|number| socket(&rig, number)).collect();
    std::thread::scope(|scope| {
        for socket in &sockets {
            scope.spawn(move || {
                for _ in 0..EACH {
                    assert_eq!(socket.send(b"datagram").expect("sent"), 8);
                }
            });
        }
        let (mut received, begin) = (0_u64, Instant::now());
        // What comes faster than it is read is lost at this end, for want of a frame.
        while received + rig.to.stats().rx_no_frame < u64::from(24 * EACH) {
            port.wait(Some(Duration::from_millis(1)));
            received += port.drain(100, |_| ()) as u64;
            let stats = rig.stats();
            assert_eq!((stats.burst_drops, stats.drops.len()), (0, 0), "{variant:?}");
            assert!(begin.elapsed() < PATIENCE, "{variant:?}: {received} came, {stats:?}");
        }
    });
    drop(port);
    rig.assert_nothing_lost();
    drop(sockets);
    assert_eq!(rig.lost(), rig.to.stats().rx_no_frame, "{variant:?}");
}

#[test]
fn senders_that_can_wait_lose_nothing_at_the_burst_limit() {
    for variant in TxVariant::ALL {
        for max_burst in [1000, 8, 0] {
            nothing_is_lost(variant, max_burst);
        }
    }
}

/// A sender that loses its processor before it enqueues: the list fills up, and sockets are told to come again.
#[test]
fn a_socket_that_does_not_wait_is_told_when_the_list_is_taken() {
    let rig = plain_with(&QdiscConfig::pfifo(), TxVariant::Llist);
    rig.engine.set_sysctl_qdisc_max_burst(40);
    introduce(&rig);
    let receiver = Receiver::new(&rig.to);
    let (stalled, stopped) = send_until(&rig.sender(), Point::BeforeRootLock);
    let socket = socket(&rig, 0);
    socket.set_nonblocking(true).expect("set");
    let context = EventContext::new(&rig.engine);
    context.add(&socket, Interest::OUT, 1).expect("a member");
    let mut sent = 0;
    while socket.send(&[0; 64]).is_ok() {
        sent += 1;
        assert!(sent < 40, "more than the list may hold");
    }
    let mut events = [Event::default(); 1];
    assert_eq!(context.wait(&mut events, Timeout::Now).expect("wait"), 0, "it cannot send");
    stopped.go_on();
    stalled.join().expect("the sender ends").expect("sent");
    assert_eq!(context.wait(&mut events, Timeout::After(PATIENCE)).expect("wait"), 1);
    assert!(events[0].events.contains(Interest::OUT) && socket.send(&[0; 64]).is_ok());
    let begin = Instant::now();
    while receiver.port.wait(Some(Duration::from_millis(1))) && begin.elapsed() < PATIENCE {
        receiver.port.drain(1000, |_| ());
    }
    assert_eq!(rig.lost(), 0);
    drop(receiver);
    rig.assert_nothing_lost();
}

/// A queue that sends nothing: a socket has as many packets in its discipline as its buffer takes, and goes on when they leave.
#[test]
fn a_socket_waits_for_a_queue_that_sends_nothing() {
    let rig = plain_with(&QdiscConfig::Fq(FqConfig::default()), TxVariant::Llist);
    introduce(&rig);
    let port = RawPort::bind(&rig.to, 0).expect("port");
    let path = rig.from.device.tx[0].clone();
    path.words.update_bits(|bits| (bits.freeze(), ()));
    let socket = socket(&rig, 0);
    socket.setsockopt(SocketOption::SndBuf, 10_000).expect("set");
    socket.set_nonblocking(true).expect("set");
    let sent = (0..100).take_while(|_| socket.send(&[0; 64]).is_ok()).count();
    assert_eq!(sent, 8, "packets of 2048 and 576 bytes in a buffer of 20,000");
    socket.set_nonblocking(false).expect("set");
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| socket.send(&[0; 64]));
        assert!(path.words.update_bits(QueueBits::thaw));
        path.schedule_if_waiting();
        assert_eq!(sender.join().expect("no panic").expect("sent"), 64);
    });
    let begin = Instant::now();
    let mut received = 0;
    while received < 9 {
        port.wait(Some(Duration::from_millis(1)));
        received += port.drain(100, |_| ());
        assert!(begin.elapsed() < PATIENCE, "{received} came: {:?}", rig.stats());
    }
    drop(port);
    rig.assert_nothing_lost();
}

/// All of a socket's packets lie, read, in the ring of a queue on which no thread sends any more: they come home nevertheless.
#[test]
fn packets_in_another_queue_come_home() {
    for (first, then) in [(QdiscConfig::pfifo(), QdiscConfig::pfifo()), (QdiscConfig::pfifo(), QdiscConfig::Noqueue)] {
        let rig = rig(&LinkConfig { queues: 2, ..LinkConfig::default() }, false);
        for queue in 0..2 {
            rig.from.set_qdisc(queue, &first).expect("qdisc");
        }
        introduce(&rig);
        let ports: Vec<_> = (0..2).map(|queue| RawPort::bind(&rig.to, queue).expect("port")).collect();
        let read = |of: usize| {
            let begin = Instant::now();
            let mut left = of;
            while left > 0 {
                left -= ports.iter().map(|port| if port.recv() { port.drain(100, |_| ()) } else { 0 }).sum::<usize>();
                assert!(begin.elapsed() < PATIENCE, "{left} of {of} did not come");
            }
        };
        let socket = UdpSocket::bind(rig.from.netns(), "10.77.0.1:9").expect("socket");
        socket.setsockopt(SocketOption::SndBuf, 10_000).expect("set");
        let target = |port: u16| SocketAddr::from(([10, 77, 0, 2], port));
        let queue_of = |port: u16| rig.to.rx_queue_of(socket.local_addr().expect("bound"), target(port));
        let [one, other] = [0, 1].map(|queue| (10..200).find(|port| queue_of(*port) == queue).expect("a port"));
        let sent = (0..8).take_while(|_| socket.send_to(&[0; 64], target(one)).is_ok()).count();
        assert_eq!(sent, 8, "packets of 2048 and 576 bytes in a buffer of 20,000");
        read(sent);
        rig.from.set_qdisc(1, &then).expect("qdisc");
        let (done, sends) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| done.send(socket.send_to(&[0; 64], target(other)).is_ok()).expect("somebody waits"));
            assert_eq!(sends.recv_timeout(PATIENCE), Ok(true), "{first:?}, then {then:?}");
        });
        read(1);
    }
}
