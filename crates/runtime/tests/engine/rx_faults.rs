//! Mistakes of ours that a frame meets: they cost that frame, and nothing else.

use std::sync::atomic::Ordering;

use napier_runtime::control::NapiSet;
use napier_runtime::device::LinkConfig;
use napier_runtime::raw::RawPort;
use napier_stack::injected::{ARMED, MARK};

use crate::common::frames::{checksum, ip_head, pseudo_checksum, udp};
use crate::common::{PEER_MAC, PEER_V4, Pair, TESTED_MAC, TESTED_V4, bound, eventually};

fn datagram(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 256];
    let len = udp(&mut frame, (PEER_MAC, TESTED_MAC), ((PEER_V4, 8).into(), (TESTED_V4, 7).into()), payload);
    frame.truncate(len);
    frame
}

/// A packet of `protocol` whose checksum, at `sum_at`, is good.
fn packet(protocol: u8, body: &[u8], sum_at: usize) -> Vec<u8> {
    let ips = (PEER_V4.into(), TESTED_V4.into());
    let mut frame = vec![0; 34];
    let at = ip_head(&mut frame, (PEER_MAC, TESTED_MAC), ips, protocol, body.len());
    frame.extend_from_slice(body);
    let sum = if protocol == 6 { pseudo_checksum(ips, protocol, body) } else { checksum(&[body]) };
    frame[at + sum_at..at + sum_at + 2].copy_from_slice(&sum);
    frame
}

/// An ARP packet with the mark behind it.
fn arp() -> Vec<u8> {
    let mut frame = vec![0; 42];
    frame[..6].copy_from_slice(&TESTED_MAC);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0x77, 0, 2, 8, 6]);
    frame.extend(MARK);
    frame
}

fn survives(faults: &[Vec<u8>], pair: &Pair) {
    let socket = bound(&pair.tested_ns, (TESTED_V4, 7).into());
    let wire = RawPort::bind(&pair.peer, 0).unwrap();
    let mut sent = 0_u32;
    // Often enough that one frame each would be missed at the end, in bursts and one by one.
    for round in 0..200 {
        for bad in faults {
            let good = datagram(&sent.to_be_bytes());
            for frame in [&good, bad] {
                wire.build(frame.len(), |slot| {
                    slot[..frame.len()].copy_from_slice(frame);
                    frame.len()
                })
                .unwrap();
            }
            if round % 2 == 0 {
                wire.flush();
            }
            sent += 1;
        }
        wire.flush();
        let mut buffer = [0; 64];
        for number in sent - faults.len() as u32..sent {
            assert_eq!(socket.recv(&mut buffer).unwrap(), 4);
            assert_eq!(buffer[..4], number.to_be_bytes());
        }
        while wire.next().is_some() {}
    }
    eventually("every fault is counted", || pair.tested_ns.counters().rx_faults == u64::from(sent));
    drop(wire);
}

#[test]
fn a_panic_costs_the_frame_that_it_is_about() {
    ARMED.store(true, Ordering::Relaxed);
    // One message per fault would hide all others.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let injected = info.payload().downcast_ref::<&str>().is_some_and(|text| text.starts_with("injected"));
        if !injected {
            usual(info);
        }
    }));
    let ping = [&[8, 0, 0, 0, 0, 1, 0, 1], MARK].concat();
    // For nobody, with a header of five words and an acknowledgement.
    let segment = [&[0, 8, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 5 << 4, 0x10, 0, 0, 0, 0, 0, 0], MARK].concat();
    let faults = [datagram(MARK), arp(), packet(1, &ping, 2), packet(6, &segment, 16)];
    for threaded in [0, 1] {
        let pair = Pair::new(&LinkConfig::default());
        pair.set_all(&pair.tested, &NapiSet { threaded: Some(threaded), ..NapiSet::default() });
        survives(&faults, &pair);
    }
}
