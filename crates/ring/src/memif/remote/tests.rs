//! Both roles against each other, against wrong descriptors, and the corpus of the fuzzer.

use super::burst::tests::Bowl;
use super::*;
use crate::Mapping;
use crate::memif::protocol::{RingMemory, RingWord};
use crate::memif::{DESCRIPTOR_NEXT, RingEnd, RingView};
use crate::test_rng::Rng;
use core::sync::atomic::Ordering as O;
use std::collections::VecDeque;
use std::sync::Arc;

const LOG2: u8 = 3;
const SLOTS: u32 = 8;
const BUFFER: u32 = 64;

/// A client and a server, one ring each way, all indices starting at `start`; and views to write as a hostile peer does.
struct Pair {
    client: (Sender, Receiver),
    server: (Sender, Receiver),
    /// As the client could write: C2S, S2C.
    by_client: [RingView; 2],
    /// As the server could write.
    by_server: [RingView; 2],
    region_bytes: u32,
}

fn pair(start: u16) -> Pair {
    let rings = 512;
    let region_bytes = rings + 2 * SLOTS * BUFFER;
    let mapping = Arc::new(Mapping::anonymous(region_bytes as usize));
    let second = Arc::new(Mapping::anonymous(128));
    let open = |ring: usize, end| RingView::new(&mapping, ring * 256, LOG2, end).expect("inside");
    let clients = [open(0, RingEnd::Client), open(1, RingEnd::Client)];
    let servers = [open(0, RingEnd::Server), open(1, RingEnd::Server)];
    for ring in &clients {
        ring.init();
        ring.store(RingWord::Head, start, O::Relaxed);
        ring.store(RingWord::Tail, start, O::Relaxed);
    }
    let regions = Arc::new(Regions::new(vec![mapping.clone(), second]));
    let by_client = [clients[0].for_switch(), clients[1].for_switch()];
    let by_server = [servers[0].for_switch(), servers[1].for_switch()];
    let buffers = |ring: u32| SlotBuffers::new(&mapping, rings + ring * SLOTS * BUFFER, BUFFER, BUFFER, SLOTS);
    let [c2s, s2c] = clients;
    let (c2s_buffers, s2c_buffers) = (buffers(0).expect("inside"), buffers(1).expect("inside"));
    let client = (
        Sender::Client(C2sSender::starting_at(c2s, c2s_buffers, start)),
        Receiver::Client(S2cReceiver::starting_at(s2c, s2c_buffers, start)),
    );
    let [c2s, s2c] = servers;
    let server = (
        Sender::Server(S2cSender::starting_at(s2c, regions.clone(), start)),
        Receiver::Server(C2sReceiver::starting_at(c2s, regions, start)),
    );
    Pair { client, server, by_client, by_server, region_bytes }
}

fn low(flags: u16, region: u16, length: u32) -> u64 {
    u64::from(flags) | u64::from(region) << 16 | u64::from(length) << 32
}

#[test]
fn nothing_can_be_sent_to_a_client_that_posted_nothing() {
    let mut pair = pair(0);
    assert_eq!(pair.server.0.send(&[1]), Err(SendError::Full));
    assert_eq!(pair.server.0.in_flight(), SLOTS);
    assert_eq!(pair.client.1.release(), SLOTS);
    assert_eq!(pair.server.0.in_flight(), 0);
    assert_eq!(pair.server.0.send(&[1]), Ok(()));
}

/// Random work on one direction against a queue of what was sent; the 16-bit indices wrap on the way.
fn carries(tx: &mut Sender, rx: &mut Receiver, rng: &mut Rng) {
    let (mut sent, mut visible) = (VecDeque::new(), 0);
    let mut next = 0_u8;
    for _ in 0..200_000 {
        match rng.below(7) {
            0 | 1 => {
                let packet = vec![next; 1 + rng.below(BUFFER) as usize];
                match tx.send(&packet) {
                    Ok(()) => {
                        sent.push_back(packet);
                        next = (next + 1) % 100;
                    }
                    Err(error) => assert_eq!(error, SendError::Full),
                }
            }
            2 => {
                let published = tx.publish();
                visible += published.published as usize;
                assert_eq!(visible, sent.len(), "everything sent is published");
            }
            3 => {
                let mut to = [0; BUFFER as usize];
                match rx.take_into(&mut to) {
                    Some(length) => {
                        let packet = sent.pop_front().expect("a packet that was sent");
                        visible -= 1;
                        assert_eq!(to[..length.expect("a good packet")], packet);
                    }
                    None => assert_eq!(visible, 0, "a published packet was not seen"),
                }
            }
            4 => {
                let packets: Vec<_> =
                    (0..rng.below(12)).map(|at| vec![next + at as u8; 1 + rng.below(BUFFER) as usize]).collect();
                let room = tx.prepare(packets.len());
                let result = tx.send_burst(packets.iter().map(Vec::as_slice));
                let bytes: usize = packets[..room].iter().map(Vec::len).sum();
                assert_eq!(result, Sent { packets: room as u64, bytes: bytes as u64, too_long: 0 });
                sent.extend(packets.into_iter().take(room));
                next = (next + room as u8) % 100;
            }
            5 => {
                let max = rng.below(12) as usize;
                let mut bowl = Bowl::new(BUFFER as usize);
                rx.take_burst(max, &mut bowl);
                assert_eq!(bowl.results.len(), max.min(visible), "a published packet was not seen");
                visible -= bowl.results.len();
                for taken in bowl.results {
                    assert_eq!(taken.as_ref().ok(), sent.pop_front().as_ref());
                }
            }
            _ => {
                rx.release();
            }
        }
        assert!(sent.len() <= SLOTS as usize);
    }
    assert_eq!((tx.index_errors(), rx.index_errors(), tx.bad_descriptors()), (0, 0, 0));
}

#[test]
#[cfg_attr(miri, ignore = "too long")]
fn both_directions_carry_packets_in_order() {
    for start in [0, u16::MAX - 5] {
        let mut pair = pair(start);
        pair.client.1.release();
        let mut rng = Rng::new(u64::from(start) + 1);
        carries(&mut pair.client.0, &mut pair.server.1, &mut rng);
        carries(&mut pair.server.0, &mut pair.client.1, &mut rng);
    }
}

/// One descriptor each, written by a hostile client and read by our server.
#[test]
fn a_server_refuses_what_a_descriptor_may_not_say() {
    use BadDescriptor as B;
    let end = pair(0).region_bytes;
    let cases = [
        (low(0, 0, 0), 512, Err(B::Empty)),
        (low(0, 0, 65), 512, Err(B::TooLong)),
        (low(0, 0, 64), 512, Ok(64)),
        (low(0, 0, 64), end - 64, Ok(64)),
        (low(0, 0, 64), end - 63, Err(B::OutOfRegion)),
        (low(0, 0, 1), 511, Err(B::OutOfRegion)),
        (low(0, 0, 1), 0, Err(B::OutOfRegion)),
        (low(0, 0, 1), u32::MAX, Err(B::OutOfRegion)),
        (low(0, 0, u32::MAX), u32::MAX, Err(B::OutOfRegion)),
        (low(0, 0, u32::MAX), 512, Err(B::OutOfRegion)),
        (low(0, 1, 64), 64, Ok(64)),
        (low(0, 1, 64), 65, Err(B::OutOfRegion)),
        (low(0, 2, 1), 512, Err(B::OutOfRegion)),
        (low(0, u16::MAX, 1), 512, Err(B::OutOfRegion)),
        // A chain that ends before its last slot.
        (low(1, 0, 1), 512, Err(B::Chained)),
        // Flags that memif does not have mean nothing.
        (low(0xfffe, 0, 1), 512, Ok(1)),
    ];
    for (low, offset, result) in cases {
        let mut pair = pair(0);
        let [c2s, _] = &pair.by_client;
        c2s.store_low(0, low);
        c2s.store_high(0, u64::from(offset) | 0xdead_beef << 32);
        c2s.store(RingWord::Head, 1, O::Release);
        assert_eq!(pair.server.1.take_into(&mut [0; 64]), Some(result), "{low:#x} at {offset}");
        assert_eq!(pair.server.1.take_into(&mut [0; 64]), None);
        assert_eq!(pair.server.1.release(), 1);
    }
}

#[test]
fn a_server_gives_bad_buffers_back_empty_and_keeps_those_that_are_too_small() {
    let mut pair = pair(0);
    let [_, s2c] = &pair.by_client;
    for (slot, (region, length, offset)) in [(0, 64, 0), (9, 64, 512), (0, 0, 512), (0, 8, 512)].into_iter().enumerate()
    {
        s2c.store_low(slot as u16, low(0, region, length));
        s2c.store_high(slot as u16, offset);
    }
    s2c.store(RingWord::Head, 4, O::Release);
    assert_eq!(pair.server.0.send(&[7; 9]), Err(SendError::TooLong));
    assert_eq!(pair.server.0.bad_descriptors(), 3);
    assert_eq!(pair.server.0.send(&[7; 8]), Ok(()));
    assert_eq!(pair.server.0.send(&[7; 8]), Err(SendError::Full));
    assert_eq!(pair.server.0.publish().published, 4);
    let [_, s2c] = &pair.by_client;
    assert_eq!([0, 1, 2, 3].map(|slot| s2c.load_low(slot) >> 32), [0, 0, 0, 8]);
    assert_eq!(s2c.load_low(1) >> 16 & 0xffff, 9, "the region is given back as it was posted");
}

/// A hostile server answers our client's posts.
#[test]
fn a_client_believes_only_length_and_flags() {
    use BadDescriptor as B;
    let lengths = [(0, Err(B::Empty)), (64, Ok(64)), (65, Err(B::OutOfRegion)), (u32::MAX, Err(B::OutOfRegion))];
    for (length, result) in lengths {
        let mut pair = pair(0);
        pair.client.1.release();
        let [_, s2c] = &pair.by_server;
        s2c.store_low(0, low(0, 7, length));
        s2c.store_high(0, u64::MAX);
        s2c.store(RingWord::Tail, 1, O::Release);
        assert_eq!(pair.client.1.take_into(&mut [0; 64]), Some(result));
        // The slot is posted again, as it was at first.
        assert_eq!(pair.client.1.release(), 1);
        let [_, s2c] = &pair.by_server;
        assert_eq!((s2c.load_low(8), s2c.load_high(8)), (low(0, 0, BUFFER), u64::from(512 + SLOTS * BUFFER)));
    }
}

#[test]
fn impossible_indices_are_counted_and_nothing_is_read() {
    for start in [0, u16::MAX] {
        let mut pair = pair(start);
        pair.client.1.release();
        for wrong in [9, 0x8000, u16::MAX] {
            pair.by_client[0].store(RingWord::Head, start.wrapping_add(wrong), O::Release);
            assert_eq!(pair.server.1.take_into(&mut [0; 64]), None);
            pair.by_server[1].store(RingWord::Tail, start.wrapping_add(wrong), O::Release);
            assert_eq!(pair.client.1.take_into(&mut [0; 64]), None);
        }
        assert_eq!((pair.server.1.index_errors(), pair.client.1.index_errors()), (3, 3));
        pair.by_server[0].store(RingWord::Tail, start.wrapping_add(1), O::Release);
        assert_eq!(pair.client.0.in_flight(), 0);
        pair.by_client[1].store(RingWord::Head, start.wrapping_sub(1), O::Release);
        assert_eq!(pair.server.0.send(&[1]), Err(SendError::Full));
        assert_eq!((pair.client.0.index_errors(), pair.server.0.index_errors()), (1, 1));
        // A peer that comes to its senses is served.
        pair.by_client[0].store(RingWord::Head, start, O::Release);
        pair.by_server[0].store(RingWord::Tail, start, O::Release);
        assert_eq!(pair.client.0.send(&[5]), Ok(()));
        assert_eq!(pair.client.0.publish().published, 1);
        assert_eq!(pair.server.1.take_into(&mut [0; 64]), Some(Ok(1)));
    }
}

/// Packets in several slots, from a client and from a server.
#[test]
fn chains_are_joined_if_they_fit_and_are_whole() {
    let next = DESCRIPTOR_NEXT;
    type Slots<'a> = &'a [(u16, u32)];
    let cases: [(Slots, Result<usize, BadDescriptor>); 6] = [
        (&[(next, 60), (0, 4)], Ok(64)),
        (&[(next, 10), (next, 20), (next, 30), (0, 40)], Ok(100)),
        (&[(next, 64), (next, 64), (0, 64)], Err(BadDescriptor::TooLong)),
        (&[(next, 10), (0, 0)], Err(BadDescriptor::Empty)),
        (&[(next, 0), (0, 10)], Err(BadDescriptor::Empty)),
        (&[(next, 1); 8], Err(BadDescriptor::Chained)),
    ];
    for (slots, result) in cases {
        let mut pair = pair(0);
        pair.client.1.release();
        for (slot, (flags, length)) in (0..).zip(slots.iter()) {
            pair.by_client[0].store_low(slot, low(*flags, 0, *length));
            pair.by_client[0].store_high(slot, 512 + u64::from(slot) * u64::from(BUFFER));
            pair.by_server[1].store_low(slot, low(*flags, 0, *length));
        }
        pair.by_client[0].store(RingWord::Head, slots.len() as u16, O::Release);
        pair.by_server[1].store(RingWord::Tail, slots.len() as u16, O::Release);
        for rx in [&mut pair.server.1, &mut pair.client.1] {
            assert_eq!(rx.take_into(&mut [0; 128]), Some(result), "{slots:?}");
            assert_eq!(rx.take_into(&mut [0; 128]), None, "all slots of a chain are done with");
            assert_eq!(rx.release(), slots.len() as u32);
        }
    }
}

#[test]
fn a_burst_ends_neither_at_a_chain_nor_at_a_packet_that_is_refused() {
    let next = DESCRIPTOR_NEXT;
    // Seven slots, four packets of which one has three slots and two are refused.
    let slots = [(0, 5), (next, 10), (next, 20), (0, 3), (0, 0), (0, 64), (0, 6)];
    let mut pair = pair(u16::MAX - 2);
    pair.client.1.release();
    for (slot, (flags, length)) in slots.into_iter().enumerate() {
        let index = (slot as u16).wrapping_add(u16::MAX - 2);
        pair.by_client[0].store_low(index, low(flags, 0, length));
        pair.by_client[0].store_high(index, 512);
        pair.by_server[1].store_low(index, low(flags, 0, length));
    }
    pair.by_client[0].store(RingWord::Head, 4, O::Release);
    pair.by_server[1].store(RingWord::Tail, 4, O::Release);
    for rx in [&mut pair.server.1, &mut pair.client.1] {
        let mut bowl = Bowl::new(63);
        rx.take_burst(32, &mut bowl);
        let lengths: Vec<_> = bowl.results.into_iter().map(|taken| taken.map(|bytes| bytes.len())).collect();
        assert_eq!(lengths, [Ok(5), Ok(33), Err(BadDescriptor::Empty), Err(BadDescriptor::TooLong), Ok(6)]);
        assert_eq!(rx.release(), 7);
    }
}

#[test]
fn a_burst_counts_what_does_not_fit_the_peers_buffers_and_ends_when_there_is_none() {
    let mut pair = pair(0);
    for slot in 0..3_u16 {
        pair.by_client[1].store_low(slot, low(0, 0, 8));
        pair.by_client[1].store_high(slot, 512);
    }
    pair.by_client[1].store(RingWord::Head, 3, O::Release);
    assert_eq!(pair.server.0.prepare(32), 3);
    let packets = [8_usize, 9, 7, 8, 8].map(|length| vec![1; length]);
    let sent = pair.server.0.send_burst(packets.iter().map(Vec::as_slice));
    assert_eq!(sent, Sent { packets: 3, bytes: 23, too_long: 1 });
    assert_eq!(pair.server.0.publish().published, 3);
}

#[test]
fn joined_bytes_are_in_order() {
    let mut pair = pair(0);
    pair.client.1.release();
    for part in [&[1_u8; 3][..], &[2; 5], &[3; 2]] {
        assert_eq!(pair.client.0.send(part), Ok(()));
    }
    // Three packets become one.
    for slot in [0, 1] {
        let whole = pair.by_client[0].load_low(slot);
        pair.by_client[0].store_low(slot, whole | u64::from(DESCRIPTOR_NEXT));
    }
    let _ = pair.client.0.publish();
    let mut to = [0; 16];
    assert_eq!(pair.server.1.take_into(&mut to), Some(Ok(10)));
    assert_eq!(to, [1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn buffers_between_or_before_rings() {
    let usable = |rings: &[usize]| {
        let mapping = Arc::new(Mapping::anonymous(4096));
        for ring in rings {
            RingView::new(&mapping, *ring, LOG2, RingEnd::Server).expect("inside");
        }
        let regions = Regions::new(vec![mapping]);
        [0, 256, 1024, 3072, 4032].map(|offset| regions.locate(0, offset, 64).is_ok())
    };
    assert_eq!(usable(&[]), [true; 5]);
    assert_eq!(usable(&[0, 256]), [false, false, true, true, true]);
    assert_eq!(usable(&[3072, 3328]), [true, true, true, false, false]);
    assert_eq!(usable(&[0, 2048]), [false, false, false, true, true]);
}

/// The fuzzer's corpus, and as many scripts again from a generator.
#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn the_corpus_of_hostile_memory() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/descriptors");
    let mut played = 0;
    for entry in std::fs::read_dir(corpus).expect("fuzz/corpus/descriptors is in the tree") {
        fuzz::fuzz_descriptors(&std::fs::read(entry.expect("an entry").path()).expect("a script"));
        played += 1;
    }
    assert!(played > 0, "the corpus is empty");
    let mut rng = Rng::new(7);
    for _ in 0..500 {
        let script: Vec<u8> = (0..4 * rng.below(400)).map(|_| rng.below(256) as u8).collect();
        fuzz::fuzz_descriptors(&script);
    }
}
