//! What a packet costs on one core, from ring memory to the caller's buffer and back into a frame.
//!
//! `cargo test --release -p napier-runtime stack::tests::cost -- --ignored --nocapture --test-threads 1`

use std::hint::black_box;
use std::time::{Duration, Instant};

use napier_ring::Frame;

use crate::UdpSocket;
use crate::testing::{IFINDEX, NAPI, Rig, at, udp};

const RUN: Duration = Duration::from_millis(300);

/// Lower quartile over rounds (others use the processor too) of ns per packet for both halves: a pass over `batch` frames, and reading them.
fn receive_and_read(batch: usize, payload: usize, flows: u16, batched: bool) -> (f64, f64) {
    let mut rig = Rig::with_frames(512);
    let sockets: Vec<_> = (0..flows)
        .map(|i| UdpSocket::builder().nonblocking(true).bind(&rig.ns, at(&format!("10.0.0.1:{}", 1000 + i))).unwrap())
        .collect();
    let packets: Vec<_> = (0..batch)
        .map(|i| udp("10.0.0.2:7", &format!("10.0.0.1:{}", 1000 + i % usize::from(flows)), &vec![1; payload]))
        .collect();
    let (mut receive_ns, mut read_ns) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; 2048];
    let start = Instant::now();
    let mut frames: Vec<Frame> = Vec::with_capacity(batch);
    while start.elapsed() < RUN {
        for packet in &packets {
            let mut frame = rig.pool.alloc().unwrap();
            rig.host.frames.data_mut(&mut frame)[..packet.len()].copy_from_slice(packet);
            frames.push(frame);
        }
        let before = Instant::now();
        let view = rig.ns.view();
        let mut pass = view.pass(NAPI, IFINDEX).unwrap();
        for (frame, packet) in frames.drain(..).zip(&packets) {
            pass.receive(frame, packet.len() as u32);
        }
        pass.end();
        drop(view);
        let between = Instant::now();
        let mut left = batch;
        for socket in &sockets {
            while left > 0 {
                if batched {
                    match socket.recv_batch(32, &mut |bytes, _| {
                        black_box(bytes);
                    }) {
                        Ok(n) => left -= n,
                        Err(_) => break,
                    }
                } else {
                    match socket.recv_from(&mut buffer) {
                        Ok(_) => left -= 1,
                        Err(_) => break,
                    }
                }
                if flows > 1 && left.is_multiple_of(usize::from(flows)) {
                    break;
                }
            }
        }
        let after = Instant::now();
        receive_ns.push((between - before).as_nanos() as f64 / batch as f64);
        read_ns.push((after - between).as_nanos() as f64 / batch as f64);
    }
    let quartile = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 4]
    };
    (quartile(&mut receive_ns), quartile(&mut read_ns))
}

#[test]
#[ignore = "a measurement"]
fn receive() {
    for (batch, payload, flows, batched) in [
        (1, 64, 1, false),
        (8, 64, 1, false),
        (32, 64, 1, false),
        (32, 64, 1, true),
        (32, 64, 32, false),
        (32, 1400, 1, false),
    ] {
        let (receive, read) = receive_and_read(batch, payload, flows, batched);
        println!(
            "batch {batch:2} payload {payload:4} sockets {flows:2} recv_batch {batched:5}: receive {receive:6.1} read {read:6.1} ns/packet"
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn send() {
    let rig = Rig::new();
    rig.know_peers();
    for connected in [true, false] {
        for payload in [64, 1400] {
            let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
            socket.connect(at("10.0.0.2:7")).unwrap();
            let bytes = vec![7; payload];
            let peer = at("10.0.0.2:7");
            rig.device.sink.store(true, std::sync::atomic::Ordering::Relaxed);
            let start = Instant::now();
            let mut rounds = Vec::new();
            while start.elapsed() < RUN {
                let before = Instant::now();
                for _ in 0..32 {
                    let sent = if connected { socket.send(&bytes) } else { socket.send_to(&bytes, peer) };
                    sent.unwrap();
                }
                rounds.push(before.elapsed().as_nanos() as f64 / 32.0);
            }
            rounds.sort_by(f64::total_cmp);
            let ns = rounds[rounds.len() / 4];
            println!("send connected {connected:5} payload {payload:4}: {ns:6.1} ns");
        }
    }
}
