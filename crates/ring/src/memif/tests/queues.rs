//! Peers that keep to the protocol.

use std::collections::VecDeque;

use super::*;
use crate::test_rng::Rng;

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
                    match pair.c2s.0.push(frame, length) {
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
                    match pair.s2c.1.post(frame) {
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
                    let got = pair.s2c.1.take();
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
    pair.c2s.0.push(frame, 1).expect("room");
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
                assert!(s2c.1.post(frame).is_ok());
            }
            s2c.1.publish_posts();
            if sent < count
                && c2s.0.free_slots() > 0
                && let Some(mut frame) = pool.alloc()
            {
                table.data_mut(&mut frame)[..8].copy_from_slice(&sent.to_le_bytes());
                assert!(c2s.0.push(frame, 8).is_ok());
                let _ = c2s.0.publish();
                sent += 1;
            }
            match s2c.1.take() {
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
