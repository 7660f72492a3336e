//! Peers that write what they should not.

use super::*;
use crate::sync::{MappedU16, MappedU64};

impl Pair {
    /// A hostile hand on a ring's header: what a peer in another process could write.
    fn poke(&self, ring: usize, offset: usize, value: u16) {
        let at = self.mapping.at(ring + offset).cast::<MappedU16>();
        // SAFETY: a ring word, inside the mapping, atomics only.
        unsafe { &*at }.store(value, Ordering::Release);
    }

    /// A hostile hand on a descriptor.
    fn poke_descriptor(&self, ring: usize, slot: usize, low: u64, offset: u64) {
        for (half, value) in [low, offset].into_iter().enumerate() {
            let at = self.mapping.at(ring + RING_HEADER_BYTES + slot * DESCRIPTOR_BYTES + half * 8);
            // SAFETY: a descriptor word, inside the mapping, atomics only.
            unsafe { &*at.cast::<MappedU64>() }.store(value, Ordering::Relaxed);
        }
    }
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
            assert!(pair.s2c.1.take().is_none());
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
    assert!(pair.s2c.1.take().is_none());
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
    let (frame, length) = pair.s2c.1.take().expect("the last one is good");
    assert_eq!(length, 7);
    assert_eq!(pair.s2c.1.bad_descriptors(), 5);
    assert_eq!((pair.s2c.1.pending(), pair.s2c.1.posted()), (0, 5));
    pair.pool.free(frame);
    assert_eq!(pair.pool.available(), 3);
}

#[test]
fn a_burst_believes_only_the_length_and_only_if_it_can_be() {
    let mut pair = pair(3, 10, 0);
    let ring = pair.layout.s2c_ring(0);
    pair.post(8);
    let lengths = [FRAME as u64 + 1, 0, u64::from(u32::MAX), 5, 5, 7, 8, 9];
    for (slot, length) in lengths.into_iter().enumerate() {
        let chained = u64::from(slot == 3); // goes on in slot 4
        pair.poke_descriptor(ring, slot, length << 32 | 9 << 16 | chained, u64::MAX);
    }
    pair.poke(ring, TAIL_OFFSET, 8);
    let Pair { pool, s2c: (_, client), .. } = &mut pair;
    let (mut frames, mut dropped) = (Vec::new(), 0);
    let mut take = |max| client.exchange_many(max, pool, || dropped += 1, |frame, len| frames.push((frame, len)));
    // Five are refused, two get the two frames that are left, and for the last there is none.
    assert_eq!(take(6), (1, 7));
    assert_eq!(take(6), (1, 8));
    assert_eq!(take(6), (0, 0));
    assert_eq!((client.bad_descriptors(), dropped, client.posted(), client.free_slots()), (5, 1, 8, 0));
    assert_eq!((client.pending(), client.publish_posts()), (0, 8));
    assert!(frames.iter().map(|(_, len)| *len).eq([7, 8]));
    frames.into_iter().for_each(|(frame, _)| pool.free(frame));
    assert_eq!(pool.available(), 2);
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
