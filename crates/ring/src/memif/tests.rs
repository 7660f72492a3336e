use std::collections::VecDeque;
use std::sync::Arc;

use super::protocol::{RingMemory, Word};
use super::*;
use crate::sync::Ordering;
use crate::test_rng::Rng;
use crate::{ArenaConfig, FramePool, FrameTable, Mapping};

const FRAME: usize = 192;

/// Both ends of both rings of one queue over private memory, and views to play a hostile peer with.
struct Pair {
    table: Arc<FrameTable>,
    pool: FramePool,
    c2s: (C2sProducer, C2sConsumer),
    s2c: (S2cProducer, S2cConsumer),
    mapping: Arc<Mapping>,
    layout: Layout,
}

fn pair(log2: u8, frames: u32, start: u16) -> Pair {
    let layout = Layout::new(1, log2, frames, FRAME as u32).expect("layout");
    let mapping = Arc::new(Mapping::anonymous(layout.region_len()));
    let table = Arc::new(FrameTable::new());
    let config = ArenaConfig {
        mapping: mapping.clone(),
        offset: layout.frames_offset(),
        stride: FRAME,
        frames_per_home: frames,
        homes: 1,
    };
    let (arena, mut pools) = table.add_arena(config).expect("arena");
    let view = |offset, end| RingView::new(&mapping, offset, log2, end).expect("ring");
    let ends = |offset| (view(offset, RingEnd::Client), view(offset, RingEnd::Server));
    let (c2s_client, c2s_server) = ends(layout.c2s_ring(0));
    let (s2c_client, s2c_server) = ends(layout.s2c_ring(0));
    for ring in [&c2s_client, &s2c_client] {
        assert_eq!(ring.check_cookie(), Err(RingError::NoCookie));
        ring.init();
        assert_eq!(ring.check_cookie(), Ok(()));
        ring.store(Word::Head, start, Ordering::Relaxed);
        ring.store(Word::Tail, start, Ordering::Relaxed);
    }
    Pair {
        c2s: (
            C2sProducer::starting_at(c2s_client, &table, arena, start),
            C2sConsumer::starting_at(c2s_server, layout.frames(), start),
        ),
        s2c: (
            S2cProducer::starting_at(s2c_server, layout.frames(), start),
            S2cConsumer::starting_at(s2c_client, &table, arena, start),
        ),
        pool: pools.remove(0),
        table,
        mapping,
        layout,
    }
}

impl Pair {
    /// A hostile hand on a ring's header: what a peer in another process could write.
    fn poke(&self, ring: usize, offset: usize, value: u16) {
        let at = self.mapping.at(ring + offset).cast::<crate::sync::MappedU16>();
        // SAFETY: a ring word, inside the mapping, atomics only.
        unsafe { &*at }.store(value, Ordering::Release);
    }

    /// A hostile hand on a descriptor.
    fn poke_descriptor(&self, ring: usize, slot: usize, low: u64, offset: u64) {
        for (half, value) in [low, offset].into_iter().enumerate() {
            let at = self.mapping.at(ring + RING_HEADER_BYTES + slot * DESCRIPTOR_BYTES + half * 8);
            // SAFETY: a descriptor word, inside the mapping, atomics only.
            unsafe { &*at.cast::<crate::sync::MappedU64>() }.store(value, Ordering::Relaxed);
        }
    }

    fn send(&mut self, length: u32) {
        let frame = self.pool.alloc().expect("frame");
        self.c2s.0.push(&self.table, frame, length).expect("room");
        let _ = self.c2s.0.publish();
    }

    fn post(&mut self, count: u32) {
        for _ in 0..count {
            let frame = self.pool.alloc().expect("frame");
            self.s2c.1.post(&self.table, frame).expect("room");
        }
        self.s2c.1.publish_posts();
    }
}

#[test]
fn c2s_behaves_as_a_queue_across_the_wrap() {
    for seed in 0..if cfg!(miri) { 2 } else { 200 } {
        let mut rng = Rng::new(seed);
        let mut pair = pair(3, 12, u16::MAX - rng.below(64) as u16);
        let (mut pushed, mut sent, mut taken) = (VecDeque::new(), VecDeque::new(), 0);
        for step in 0..400u32 {
            let fill = step as u8;
            match rng.below(6) {
                0 | 1 => {
                    let Some(mut frame) = pair.pool.alloc() else {
                        continue;
                    };
                    let length = 1 + rng.below(FRAME as u32);
                    pair.table.data_mut(&mut frame).fill(fill);
                    let fits = pair.c2s.0.free_slots() > 0;
                    match pair.c2s.0.push(&pair.table, frame, length) {
                        Ok(()) => pushed.push_back((fill, length)),
                        Err(frame) => pair.pool.free(frame),
                    }
                    assert_eq!(fits, pushed.back() == Some(&(fill, length)));
                }
                2 => {
                    let publish = pair.c2s.0.publish();
                    assert_eq!(publish.published as usize, pushed.len());
                    assert_eq!(publish.peer_wants_interrupt, !pushed.is_empty());
                    sent.append(&mut pushed);
                }
                3 | 4 => {
                    let mut bytes = [0; FRAME];
                    let got = pair.c2s.1.take_into(&mut bytes).map(|length| length.expect("good"));
                    let want: Option<(u8, u32)> = sent.pop_front();
                    assert_eq!(got, want.map(|(_, length)| length as usize));
                    if let Some((fill, length)) = want {
                        assert!(bytes[..length as usize].iter().all(|&byte| byte == fill));
                        taken += 1;
                    }
                }
                _ => {
                    assert_eq!(pair.c2s.1.release(), taken);
                    assert_eq!(pair.c2s.0.reclaim(|frame| pair.pool.free(frame)), taken);
                    taken = 0;
                }
            }
            assert_eq!(pair.c2s.1.pending() as usize, sent.len());
            assert_eq!(pair.c2s.0.in_flight() as usize, pushed.len() + sent.len() + taken as usize);
            assert_eq!(pair.pool.available(), 12 - pair.c2s.0.in_flight() as usize);
        }
        assert_eq!(pair.c2s.0.index_errors() + pair.c2s.1.index_errors(), 0);
    }
}

#[test]
fn s2c_behaves_as_a_queue_across_the_wrap() {
    for seed in 0..if cfg!(miri) { 2 } else { 200 } {
        let mut rng = Rng::new(seed);
        let mut pair = pair(3, 12, u16::MAX - rng.below(64) as u16);
        let (mut built, mut sent) = (VecDeque::new(), VecDeque::new());
        let (mut staged, mut posted) = (0, 0);
        for step in 0..400u32 {
            let fill = step as u8;
            match rng.below(8) {
                0 | 1 => {
                    let Some(frame) = pair.pool.alloc() else {
                        continue;
                    };
                    match pair.s2c.1.post(&pair.table, frame) {
                        Ok(()) => staged += 1,
                        Err(frame) => pair.pool.free(frame),
                    }
                }
                2 => {
                    assert_eq!(pair.s2c.1.publish_posts(), staged);
                    posted += staged;
                    staged = 0;
                }
                3 | 4 => {
                    let length = 1 + rng.below(FRAME as u32) as usize;
                    let result = pair.s2c.0.build(|buffer| {
                        assert_eq!(buffer.len(), FRAME);
                        buffer[..length].fill(fill);
                        length
                    });
                    assert_eq!(result, if posted > 0 { Ok(length) } else { Err(RingFull) });
                    if result.is_ok() {
                        posted -= 1;
                        built.push_back((fill, length));
                    }
                }
                5 => {
                    assert_eq!(pair.s2c.0.publish().published as usize, built.len());
                    sent.append(&mut built);
                }
                _ => {
                    let got = pair.s2c.1.take(&pair.table);
                    let want: Option<(u8, usize)> = sent.pop_front();
                    assert_eq!(got.is_some(), want.is_some());
                    let (Some((frame, length)), Some((fill, want))) = (got, want) else {
                        continue;
                    };
                    assert_eq!(length as usize, want);
                    assert!(pair.table.data(&frame, want).iter().all(|&byte| byte == fill));
                    pair.pool.free(frame);
                }
            }
            assert_eq!(pair.s2c.0.free_slots(), posted);
            assert_eq!(pair.s2c.1.pending() as usize, sent.len());
            assert_eq!(pair.pool.available(), 12 - pair.s2c.1.posted() as usize);
        }
        assert_eq!(pair.s2c.0.index_errors() + pair.s2c.1.index_errors(), 0);
        assert_eq!(pair.s2c.0.bad_descriptors() + pair.s2c.1.bad_descriptors(), 0);
    }
}

#[test]
fn masked_means_no_interrupt_and_unmask_tells_of_work() {
    let mut pair = pair(2, 8, 0);
    pair.c2s.1.mask();
    pair.send(1);
    let frame = pair.pool.alloc().expect("frame");
    pair.c2s.0.push(&pair.table, frame, 1).expect("room");
    assert_eq!(pair.c2s.0.publish(), Publish { published: 1, peer_wants_interrupt: false });
    assert!(pair.c2s.1.unmask());
    let mut bytes = [0; FRAME];
    while pair.c2s.1.take_into(&mut bytes).is_some() {}
    assert!(!pair.c2s.1.unmask());
    assert_eq!(pair.c2s.0.publish(), Publish { published: 0, peer_wants_interrupt: false });

    pair.post(2);
    pair.s2c.1.mask();
    assert_eq!(pair.s2c.0.build(|_| 5), Ok(5));
    assert_eq!(pair.s2c.0.publish(), Publish { published: 1, peer_wants_interrupt: false });
    assert!(pair.s2c.1.unmask());
    assert_eq!(pair.s2c.0.build(|_| 6), Ok(6));
    assert_eq!(pair.s2c.0.publish(), Publish { published: 1, peer_wants_interrupt: true });
}

#[test]
fn a_build_of_nothing_keeps_the_buffer() {
    let mut pair = pair(2, 8, 0);
    pair.post(1);
    assert_eq!(pair.s2c.0.build(|_| 0), Ok(0));
    assert_eq!(pair.s2c.0.publish().published, 0);
    assert_eq!(pair.s2c.0.build(|_| 1), Ok(1));
    assert_eq!(pair.s2c.0.build(|_| 1), Err(RingFull));
}

#[test]
#[should_panic(expected = "beyond its buffer")]
fn a_build_of_too_much_panics() {
    let mut pair = pair(2, 8, 0);
    pair.post(1);
    let _ = pair.s2c.0.build(|buffer| buffer.len() + 1);
}

#[test]
fn impossible_indices_are_counted_and_nothing_is_read() {
    for start in [0, u16::MAX - 1] {
        let mut pair = pair(2, 8, start);
        let (c2s, s2c) = (pair.layout.c2s_ring(0), pair.layout.s2c_ring(0));
        let mut bytes = [0; FRAME];
        // The client offers more than a ring, or takes back what it offered.
        for head in [start.wrapping_add(5), start.wrapping_sub(1), start.wrapping_add(0x8000)] {
            pair.poke(c2s, HEAD_OFFSET, head);
            assert_eq!(pair.c2s.1.take_into(&mut bytes), None);
            assert!(!pair.c2s.1.unmask());
            pair.poke(s2c, HEAD_OFFSET, head);
            assert_eq!(pair.s2c.0.build(|_| 1), Err(RingFull));
        }
        assert_eq!((pair.c2s.1.index_errors(), pair.s2c.0.index_errors()), (6, 3));
        pair.poke(c2s, HEAD_OFFSET, start);
        pair.poke(s2c, HEAD_OFFSET, start);
        pair.send(1);
        pair.post(1);
        // The server answers what was not offered.
        for tail in [start.wrapping_add(2), start.wrapping_sub(1), start.wrapping_add(0x8000)] {
            pair.poke(c2s, TAIL_OFFSET, tail);
            assert_eq!(pair.c2s.0.reclaim(|_| panic!("nothing was read")), 0);
            pair.poke(s2c, TAIL_OFFSET, tail);
            assert!(pair.s2c.1.take(&pair.table).is_none());
            assert_eq!(pair.s2c.1.pending(), 0);
        }
        assert_eq!((pair.c2s.0.index_errors(), pair.s2c.1.index_errors()), (3, 6));
        // A peer that comes to its senses is served.
        pair.poke(c2s, TAIL_OFFSET, start);
        assert_eq!(pair.c2s.1.take_into(&mut bytes), Some(Ok(1)));
        pair.c2s.1.release();
        assert_eq!(pair.c2s.0.reclaim(|frame| pair.pool.free(frame)), 1);
    }
}

#[test]
fn a_server_counts_bad_packets_and_goes_on() {
    let mut pair = pair(3, 8, 0);
    let ring = pair.layout.c2s_ring(0);
    let frames = pair.layout.frames();
    let low = |flags: u64, region: u64, length: u64| flags | region << 16 | length << 32;
    let cases = [
        (low(0, 0, 0), frames.start as u64, Err(BadDescriptor::Empty)),
        (low(0, 0, FRAME as u64 + 1), frames.start as u64, Err(BadDescriptor::TooLong)),
        (low(0, 1, 1), frames.start as u64, Err(BadDescriptor::OutOfRegion)),
        (low(0, 0, 2), frames.end as u64 - 1, Err(BadDescriptor::OutOfRegion)),
        (low(0, 0, u64::from(u32::MAX)), u64::from(u32::MAX), Err(BadDescriptor::OutOfRegion)),
        (low(1, 0, 1), frames.start as u64, Err(BadDescriptor::Chained)),
        (low(0, 0, 1), frames.start as u64, Err(BadDescriptor::Chained)),
        (low(0, 0, 1), frames.start as u64 - 1, Err(BadDescriptor::OutOfRegion)),
    ];
    for (slot, (low, offset, _)) in cases.iter().enumerate() {
        pair.poke_descriptor(ring, slot, *low, *offset);
    }
    pair.poke(ring, HEAD_OFFSET, 8);
    let mut bytes = [0; FRAME];
    for (_, _, result) in cases {
        assert_eq!(pair.c2s.1.take_into(&mut bytes), Some(result));
    }
    assert_eq!(pair.c2s.1.take_into(&mut bytes), None);
    assert_eq!(pair.c2s.1.release(), 8);
}

#[test]
fn a_server_gives_bad_buffers_back_empty() {
    let mut pair = pair(2, 8, 0);
    let ring = pair.layout.s2c_ring(0);
    pair.post(3);
    pair.poke_descriptor(ring, 0, 64 << 32, 0); // over the rings
    assert_eq!(pair.s2c.0.build_at_least(FRAME + 1, |_| 1), Err(RingFull));
    assert_eq!(pair.s2c.0.bad_descriptors(), 3);
    assert_eq!(pair.s2c.0.publish().published, 3);
    // The client drops the three empty packets and posts the frames again.
    assert_eq!(pair.s2c.1.pending(), 3);
    assert!(pair.s2c.1.take(&pair.table).is_none());
    assert_eq!((pair.s2c.1.bad_descriptors(), pair.s2c.1.posted()), (3, 3));
    assert_eq!(pair.s2c.1.publish_posts(), 3);
    assert_eq!(pair.s2c.0.build_at_least(FRAME, |_| 1), Ok(1));
}

#[test]
fn a_client_believes_only_the_length_and_only_if_it_can_be() {
    let mut pair = pair(3, 8, 0);
    let ring = pair.layout.s2c_ring(0);
    pair.post(6);
    let lengths = [FRAME as u64 + 1, 0, u64::from(u32::MAX), 5, 5, 7];
    for (slot, length) in lengths.into_iter().enumerate() {
        let chained = u64::from(slot == 3); // goes on in slot 4
        pair.poke_descriptor(ring, slot, length << 32 | 9 << 16 | chained, u64::MAX);
    }
    pair.poke(ring, TAIL_OFFSET, 6);
    let (frame, length) = pair.s2c.1.take(&pair.table).expect("the last one is good");
    assert_eq!(length, 7);
    assert_eq!(pair.s2c.1.bad_descriptors(), 5);
    assert_eq!((pair.s2c.1.pending(), pair.s2c.1.posted()), (0, 5));
    pair.pool.free(frame);
    assert_eq!(pair.pool.available(), 3);
}

#[test]
fn a_ring_has_one_view_per_end() {
    let mapping = Arc::new(Mapping::anonymous(4096));
    let open = |offset, log2, end| RingView::new(&mapping, offset, log2, end).map(drop);
    assert_eq!(open(0, 0, RingEnd::Client), Err(RingError::Size));
    assert_eq!(open(0, 15, RingEnd::Client), Err(RingError::Size));
    assert_eq!(open(32, 3, RingEnd::Client), Err(RingError::Unaligned));
    assert_eq!(open(0, 3, RingEnd::Client), Ok(()));
    assert!(matches!(open(0, 3, RingEnd::Client), Err(RingError::Range(_))));
    assert_eq!(open(0, 3, RingEnd::Server), Ok(()));
    assert!(matches!(open(4096 - 64, 3, RingEnd::Server), Err(RingError::Range(_))));
}

#[test]
fn two_threads_exchange_packets_both_ways() {
    let count = if cfg!(miri) { 60 } else { 100_000u64 };
    let Pair { table, mut pool, mut c2s, mut s2c, .. } = pair(4, 40, u16::MAX - 20);
    std::thread::scope(|scope| {
        // The server sends back what it gets.
        scope.spawn(|| {
            let mut bytes = [0; FRAME];
            let mut echoed = 0;
            while echoed < count {
                let Some(length) = c2s.1.take_into(&mut bytes) else {
                    std::thread::yield_now();
                    continue;
                };
                let length = length.expect("good");
                c2s.1.release();
                let copy = |buffer: &mut [u8]| {
                    buffer[..length].copy_from_slice(&bytes[..length]);
                    length
                };
                while s2c.0.free_slots() == 0 {
                    std::thread::yield_now();
                }
                assert_eq!(s2c.0.build(copy), Ok(length));
                let _ = s2c.0.publish();
                echoed += 1;
            }
        });
        let (mut sent, mut received) = (0, 0);
        while received < count {
            c2s.0.reclaim(|frame| pool.free(frame));
            while s2c.1.free_slots() > 0 {
                let Some(frame) = pool.alloc() else { break };
                assert!(s2c.1.post(&table, frame).is_ok());
            }
            s2c.1.publish_posts();
            if sent < count
                && c2s.0.free_slots() > 0
                && let Some(mut frame) = pool.alloc()
            {
                table.data_mut(&mut frame)[..8].copy_from_slice(&sent.to_le_bytes());
                assert!(c2s.0.push(&table, frame, 8).is_ok());
                let _ = c2s.0.publish();
                sent += 1;
            }
            match s2c.1.take(&table) {
                Some((frame, length)) => {
                    assert_eq!(table.data(&frame, length as usize), received.to_le_bytes());
                    pool.free(frame);
                    received += 1;
                }
                None => std::thread::yield_now(),
            }
        }
    });
    c2s.0.reclaim(|frame| pool.free(frame));
    assert_eq!(pool.available() + s2c.1.posted() as usize, 40);
}
