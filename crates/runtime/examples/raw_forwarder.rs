//! A forwarder between two links: frames that come in by one go out by the other, changed in place.
//!
//! ```text
//! source ==link one== in [forwarder] out ==link two== sink
//! ```
//! A raw port takes every frame of a queue, as an AF_XDP socket does. The forwarder rewrites the Ethernet addresses
//! where the frame lies and gives the frame itself to the transmit ring of the other device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use napier_runtime::device::{DeviceHandle, EndConfig, LinkConfig};
use napier_runtime::engine::Engine;
use napier_runtime::raw::{RawFrame, RawPort};

const RUN: Duration = Duration::from_millis(800);
/// Longest time until the first frame has arrived: the other threads may have to wait for a processor.
const FIRST: Duration = Duration::from_secs(10);
/// Longest wait of a receiver before it looks whether it should end.
const LOOK: Duration = Duration::from_millis(20);
const FRAME_BYTES: usize = 64;
/// A type that no protocol uses: local experiments (IEEE 802).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().start()?;
    let (source, inward) = link(&engine, ["source", "in"])?;
    let (outward, sink) = link(&engine, ["out", "sink"])?;

    let (arrived, end) = (AtomicBool::new(false), AtomicBool::new(false));
    let (forwarded, received, sent) = std::thread::scope(|scope| {
        // A port is used by one thread at a time, so each thread binds its own.
        let forwarder = scope.spawn(|| forward(&inward, &outward, sink.mac(), &end));
        let receiver = scope.spawn(|| receive(&sink, &arrived, &end));
        let sent = send(&source, inward.mac(), &arrived);
        std::thread::sleep(LOOK);
        end.store(true, Ordering::Relaxed);
        (forwarder.join().expect("no panic"), receiver.join().expect("no panic"), sent)
    });
    println!("sent {sent}, forwarded {forwarded}, received {received}");
    // What did not fit into a ring was not sent on, and the device says so.
    println!("dropped for want of room at the outward device: {}", outward.stats().tx_ring_full);
    assert!(received > 0 && received <= sent, "frames arrive, each once");
    Ok(())
}

/// Sends numbered frames as fast as the ring takes them, until some have arrived and the time is over; returns how many.
fn send(device: &DeviceHandle, to: [u8; 6], arrived: &AtomicBool) -> u64 {
    let port = RawPort::bind(device, 0).expect("the queue is free");
    let (begun, mut sent) = (Instant::now(), 0_u64);
    while begun.elapsed() < if arrived.load(Ordering::Relaxed) { RUN } else { FIRST } {
        for _ in 0..32 {
            let built = port.build(FRAME_BYTES, |frame| {
                frame.fill(0);
                address(frame, device.mac(), to);
                frame[12..14].copy_from_slice(&ETHERTYPE);
                frame[14..22].copy_from_slice(&sent.to_be_bytes());
                FRAME_BYTES
            });
            if built.is_err() {
                // The ring is full: the forwarder has the processor more to need.
                std::thread::yield_now();
                break;
            }
            sent += 1;
        }
        // One doorbell, at most, for the batch.
        port.flush();
    }
    sent
}

/// Moves frames from one device to the other until told to end; returns how many.
fn forward(from: &DeviceHandle, to: &DeviceHandle, next_hop: [u8; 6], end: &AtomicBool) -> u64 {
    let inward = RawPort::bind(from, 0).expect("the queue is free");
    let outward = RawPort::bind(to, 0).expect("the queue is free");
    let mut forwarded = 0;
    while !end.load(Ordering::Relaxed) {
        inward.wait(Some(LOOK));
        while let Some(mut frame) = inward.next() {
            address(frame.data_mut(), to.mac(), next_hop);
            // If the ring is full the frame comes back; dropped here, it returns to where it came from.
            forwarded += u64::from(outward.forward(frame).map_err(drop::<RawFrame<'_>>).is_ok());
        }
        outward.flush();
    }
    forwarded
}

/// Counts what arrives, and checks that it arrives in order.
fn receive(device: &DeviceHandle, arrived: &AtomicBool, end: &AtomicBool) -> u64 {
    let port = RawPort::bind(device, 0).expect("the queue is free");
    let (mut received, mut next) = (0, 0);
    while !end.load(Ordering::Relaxed) {
        port.wait(Some(LOOK));
        while let Some(frame) = port.next() {
            let number = frame.data()[14..22].try_into().map(u64::from_be_bytes).expect("eight bytes");
            assert!(number >= next, "frames overtook each other");
            next = number + 1;
            received += 1;
        }
        if received > 0 {
            arrived.store(true, Ordering::Relaxed);
        }
    }
    received
}

fn address(frame: &mut [u8], from: [u8; 6], to: [u8; 6]) {
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
}

/// A link without addresses: raw ports need none.
fn link(engine: &Engine, names: [&str; 2]) -> Result<(DeviceHandle, DeviceHandle), Box<dyn std::error::Error>> {
    let end = |name: &str| {
        let mac = [2, 0, 0, 7, name.len() as u8, name.as_bytes()[0]];
        EndConfig { mac, ..EndConfig::new(name, engine.namespace(), &[]) }
    };
    Ok(engine.add_link(&LinkConfig::default(), end(names[0]), end(names[1]))?)
}
