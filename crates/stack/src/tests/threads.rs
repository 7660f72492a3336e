//! Several instances, readers and writers at the same time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use napier_ring::{ArenaConfig, Mapping};

use crate::testing::{IFINDEX, Rig, STRIDE, at, udp};
use crate::{NetNs, SocketOption, UdpSocket};

const PACKETS: usize = 20_000;

/// Two pools more, one per thread that receives.
fn pools(rig: &Rig, count: u16) -> Vec<napier_ring::FramePool> {
    let mapping = std::sync::Arc::new(Mapping::anonymous(STRIDE * 64 * usize::from(count)));
    let arena = ArenaConfig { mapping, offset: 0, stride: STRIDE, frames_per_home: 64, homes: count };
    rig.host.frames.add_arena(arena).expect("an arena").1
}

/// Feeds numbered packets in polls of up to 16 frames; waits for frames to come home.
fn feed(ns: &NetNs, pool: &mut napier_ring::FramePool, napi_id: u32, packets: &[Vec<u8>]) {
    let mut next = packets.iter();
    let mut more = true;
    while more {
        let view = ns.view();
        let mut pass = view.pass(napi_id, IFINDEX).unwrap();
        for _ in 0..16 {
            let Some(mut frame) = pool.alloc() else { break };
            let Some(bytes) = next.next() else {
                pool.free(frame);
                more = false;
                break;
            };
            ns.tables().frames.data_mut(&mut frame)[..bytes.len()].copy_from_slice(bytes);
            pass.receive(frame, u32::try_from(bytes.len()).unwrap());
        }
        drop(pass);
        std::thread::yield_now();
    }
}

fn numbered(src: &str, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|i| udp(src, "10.0.0.1:9", &u32::try_from(i).unwrap().to_be_bytes())).collect()
}

#[test]
fn two_instances_and_two_blocking_readers() {
    let rig = Rig::new();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    socket.setsockopt(SocketOption::RcvBuf, 4 << 20).unwrap();
    let mut pools = pools(&rig, 2);
    let read = AtomicUsize::new(0);
    let in_order = AtomicBool::new(true);
    std::thread::scope(|scope| {
        for (i, pool) in pools.iter_mut().enumerate() {
            let ns = &rig.ns;
            scope.spawn(move || {
                let packets = numbered(&format!("10.0.0.2:{}", i + 1), PACKETS);
                feed(ns, pool, 200 + u32::try_from(i).unwrap(), &packets);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = [None, None];
                let mut buffer = [0; 8];
                socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                while read.load(Ordering::Relaxed) < 2 * PACKETS {
                    // Nothing for a while: the other reader may have had the last one.
                    let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
                    assert_eq!(len, 4);
                    let number = u32::from_be_bytes(buffer[..4].try_into().unwrap());
                    let last = &mut last[usize::from(from.port()) - 1];
                    // Each reader sees the packets of one instance in their order.
                    in_order.fetch_and(last.is_none_or(|last| last < number), Ordering::Relaxed);
                    *last = Some(number);
                    read.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(read.load(Ordering::Relaxed), 2 * PACKETS);
    assert!(in_order.load(Ordering::Relaxed));
    assert_eq!(rig.ns.counters().udp_in_datagrams, 2 * PACKETS as u64);
    assert_eq!(socket.inner().charged_bytes(), 0);
    assert!(pools.iter_mut().all(|pool| pool.available() == 64));
}

#[test]
fn sockets_come_and_go_under_load() {
    let rig = Rig::new();
    let mut pools = pools(&rig, 2);
    let done = AtomicUsize::new(0);
    let packets = numbered("10.0.0.2:1", PACKETS);
    std::thread::scope(|scope| {
        for (i, pool) in pools.iter_mut().enumerate() {
            let (ns, packets, done) = (&rig.ns, &packets, &done);
            scope.spawn(move || {
                feed(ns, pool, 200 + u32::try_from(i).unwrap(), packets);
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            while done.load(Ordering::Relaxed) < 2 {
                let socket = UdpSocket::builder().nonblocking(true).bind(&rig.ns, at("0.0.0.0:9")).unwrap();
                std::thread::yield_now();
                let _ = socket.recv_batch(32, &mut |bytes, _| assert_eq!(bytes.len(), 4));
                socket.connect(at("10.0.0.2:1")).unwrap();
                std::thread::yield_now();
                let _ = socket.recv(&mut [0; 4]);
            }
        });
    });
    let counters = rig.ns.counters();
    let seen = counters.udp_in_datagrams + counters.udp_no_ports + counters.udp_rcvbuf_errors;
    assert_eq!(seen, 2 * PACKETS as u64);
    assert!(pools.iter_mut().all(|pool| pool.available() == 64));
}

#[test]
fn a_sleeping_reader_is_woken_and_a_read_times_out() {
    let mut rig = Rig::new();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    let packet = udp("10.0.0.2:1", "10.0.0.1:9", b"wake");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| socket.recv(&mut [0; 9]).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        rig.inject(&packet);
        assert_eq!(reader.join().unwrap(), 4);
    });
    socket.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
    let start = Instant::now();
    assert_eq!(socket.recv(&mut []).unwrap_err().raw_os_error(), Some(libc::EAGAIN));
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!(socket.set_read_timeout(Some(Duration::ZERO)).unwrap_err().raw_os_error(), Some(libc::EINVAL));
}

#[test]
fn two_senders_on_one_socket() {
    let rig = Rig::new();
    rig.know_peers();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    socket.connect(at("10.0.0.2:7")).unwrap();
    std::thread::scope(|scope| {
        for byte in 0..2u8 {
            let socket = &socket;
            scope.spawn(move || (0..2000).for_each(|_| assert_eq!(socket.send(&[byte; 9]).unwrap(), 9)));
        }
        scope.spawn(|| {
            for i in 0..200 {
                rig.ns.neighbour_add(IFINDEX, "10.0.0.3".parse().unwrap(), [2, 0, 0, 0, 1, i]).unwrap();
            }
        });
    });
    let sent = rig.sent();
    assert_eq!(sent.len(), 4000);
    for byte in 0..2u8 {
        let want = crate::testing::udp_frame(
            at("10.0.0.1:9"),
            at("10.0.0.2:7"),
            crate::testing::OUR_MAC,
            crate::testing::PEER_MAC,
            &[byte; 9],
        );
        assert_eq!(sent.iter().filter(|frame| **frame == want).count(), 2000);
    }
}
