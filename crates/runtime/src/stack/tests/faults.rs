//! Mistakes of ours that a frame meets: they cost that frame, and nothing else.

use napier_testkit::{Dice, PATIENCE, eventually};
use smoltcp::wire::Icmpv4Repr;

use super::answers::icmp4;
use crate::stack::fuzz::fuzz_frames;
use crate::stack::in_hand::injected::{ARMED, MARK};
use crate::stack::testing::{at, udp_frame};
use crate::{DeviceHandle, RawPort, UdpSocket, doc_link};

const TESTED_MAC: [u8; 6] = [2, 0, 0, 0x77, 0, 1];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0x77, 0, 2];

fn datagram(payload: &[u8]) -> Vec<u8> {
    udp_frame(at("10.77.0.2:8"), at("10.77.0.1:7"), PEER_MAC, TESTED_MAC, payload)
}

/// To our station, with the mark behind whatever is in it.
fn marked(mut frame: Vec<u8>) -> Vec<u8> {
    frame[..6].copy_from_slice(&TESTED_MAC);
    frame.extend(MARK);
    frame
}

/// A segment for nobody, with a good checksum: a datagram's, with the protocol changed.
fn segment() -> Vec<u8> {
    let mut tcp = [0; 20];
    tcp[12] = 5 << 4;
    let mut frame = datagram(&[&tcp[8..], MARK].concat());
    let (ip, tcp) = frame[14..].split_at_mut(20);
    ip[9] = 6;
    ip[10..12].fill(0);
    let sum = checksum(ip, 0);
    ip[10..12].copy_from_slice(&sum);
    tcp[..8].copy_from_slice(&[0, 8, 0, 7, 0, 0, 0, 1]);
    tcp[12] = 5 << 4;
    tcp[13] = 0x10;
    tcp[16..18].fill(0);
    let pseudo = ip[12..20].chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum::<u32>();
    let sum = checksum(tcp, pseudo + 6 + tcp.len() as u32);
    tcp[16..18].copy_from_slice(&sum);
    frame
}

fn checksum(bytes: &[u8], begin: u32) -> [u8; 2] {
    let words = bytes.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], *two.get(1).unwrap_or(&0)])));
    let mut sum = begin + words.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

fn survives(faults: &[Vec<u8>], tested: &DeviceHandle, peer: &DeviceHandle) {
    let socket = UdpSocket::bind(tested.netns(), at("10.77.0.1:7")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let wire = RawPort::bind(peer, 0).unwrap();
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
    let faults = u64::from(sent);
    eventually("every fault is counted", || tested.netns().counters().rx_faults == faults);
    drop(wire);
    eventually("every frame is back", || tested.frames_out() == 0 && peer.frames_out() == 0);
}

#[test]
fn a_panic_costs_the_frame_that_it_is_about() {
    ARMED.store(true, std::sync::atomic::Ordering::Relaxed);
    // One message per fault would hide all others.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let injected = info.payload().downcast_ref::<&str>().is_some_and(|text| text.starts_with("injected"));
        if !injected {
            usual(info);
        }
    }));
    let echo = Icmpv4Repr::EchoRequest { ident: 1, seq_no: 1, data: MARK };
    let mut ping = icmp4([10, 77, 0, 1].into(), &echo);
    ping[..6].copy_from_slice(&TESTED_MAC);
    ping[26..30].copy_from_slice(&[10, 77, 0, 2]);
    ping[24..26].fill(0);
    let sum = checksum(&ping[14..34], 0);
    ping[24..26].copy_from_slice(&sum);
    let mut arp = vec![0; 42];
    arp[6..14].copy_from_slice(&[2, 0, 0, 0x77, 0, 2, 8, 6]);
    let faults = [datagram(MARK), marked(arp), ping, segment()];
    for threaded in [0, 1] {
        let (engine, tested, peer) = doc_link().unwrap();
        let id = Some(tested.napi_id(0).into());
        let set = crate::control::NapiSet { id, threaded: Some(threaded), ..Default::default() };
        engine.napi_set(set).unwrap();
        survives(&faults, &tested, &peer);
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/frames");
    let entries = std::fs::read_dir(corpus).expect("fuzz/corpus/frames is in the tree");
    let mut scripts: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    scripts.sort();
    assert!(!scripts.is_empty(), "the corpus is empty");
    scripts.into_iter().map(|path| std::fs::read(path).expect("a script")).collect()
}

/// The fuzzer's corpus, with every set of switches.
#[test]
fn the_corpus_of_hostile_frames() {
    for mut script in corpus() {
        for switches in 0..16 {
            script[0] = switches;
            fuzz_frames(&script);
        }
    }
}

/// A fuzzer for those who have none: scripts of the corpus, cut, joined and changed at random.
#[test]
fn frames_like_those_of_the_corpus() {
    let runs = std::env::var("NAPIER_FUZZ_RUNS").map_or(500, |runs| runs.parse().expect("a number"));
    let scripts = corpus();
    for seed in 0..runs {
        let mut dice = Dice(seed);
        let mut roll = |faces: usize| dice.roll(faces as u64) as usize;
        let mut script = scripts[roll(scripts.len())].clone();
        let other = &scripts[roll(scripts.len())];
        script.extend_from_slice(&other[1..]);
        for _ in 0..1 + roll(8) {
            let at = roll(script.len());
            script[at] = if roll(2) == 0 { [0, 1, 4, 0x7f, 0x80, 0xff][roll(6)] } else { roll(256) as u8 };
        }
        let result = std::panic::catch_unwind(|| fuzz_frames(&script));
        assert!(result.is_ok(), "seed {seed}");
    }
}
