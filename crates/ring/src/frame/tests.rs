use std::sync::Arc;

use super::*;
use crate::mapping::ClaimError;
use crate::test_rng::Rng;
use crate::{Mapping, spsc};

fn config(bytes: usize, stride: usize, frames_per_home: u32, homes: u16) -> ArenaConfig {
    ArenaConfig { mapping: Arc::new(Mapping::anonymous(bytes)), offset: 0, stride, frames_per_home, homes }
}

fn table_with(frames_per_home: u32, homes: u16) -> (Arc<FrameTable>, Vec<FramePool>) {
    let table = Arc::new(FrameTable::new());
    let bytes = 96 * frames_per_home as usize * usize::from(homes);
    let (_, pools) = table.add_arena(config(bytes, 96, frames_per_home, homes)).expect("arena");
    (table, pools)
}

#[test]
fn pools_hold_all_frames_of_their_home_once() {
    let (table, mut pools) = table_with(3, 2);
    let mut seen = Vec::new();
    for pool in &mut pools {
        assert_eq!((pool.available(), pool.total()), (3, 3));
        while let Some(frame) = pool.alloc() {
            assert_eq!(frame.arena(), pool.arena());
            seen.push(table.offset_of(&frame));
            table.give_back(frame);
            if seen.len() % 3 == 0 {
                break;
            }
        }
    }
    // A pool hands out what it holds before it collects what came back.
    assert_eq!(seen, [0, 96, 192, 288, 384, 480]);
    assert!(pools.iter_mut().all(|pool| pool.available() == 3));
}

#[test]
fn bytes_and_metadata_stay_with_the_frame() {
    let (table, mut pools) = table_with(2, 1);
    let mut frame = pools[0].alloc().expect("frame");
    let other = pools[0].alloc().expect("frame");
    assert!(pools[0].alloc().is_none());
    assert_eq!(table.data_mut(&mut frame).len(), 96);
    table.data_mut(&mut frame).fill(7);
    table.set_meta(&mut frame, u64::MAX);
    assert_eq!(table.data(&frame, 96), [7; 96]);
    assert_eq!(table.data(&other, 96), [0; 96]);
    assert_eq!((table.meta(&frame), table.meta(&other)), (u64::MAX, 0));
    assert_eq!(table.capacity(&frame), 96);
    pools[0].free(frame);
    pools[0].free(other);
    assert_eq!(pools[0].available(), 2);
}

#[test]
fn free_of_a_foreign_frame_goes_to_its_home() {
    let (_table, mut pools) = table_with(2, 2);
    let [first, second] = &mut pools[..] else { panic!("two pools") };
    let frame = first.alloc().expect("frame");
    second.free(frame);
    assert_eq!((first.available(), second.available()), (2, 2));
}

#[test]
fn arenas_that_cannot_be_are_refused() {
    let table = Arc::new(FrameTable::new());
    let refused = |config| table.add_arena(config).expect_err("refused");
    assert_eq!(refused(config(64, 0, 1, 1)), ArenaError::Empty);
    assert_eq!(refused(config(64, 64, 0, 1)), ArenaError::Empty);
    assert_eq!(refused(config(64, 64, 1 << 24, 1)), ArenaError::TooLarge);
    assert_eq!(refused(config(64, 1 << 20, 4096, 1)), ArenaError::TooLarge);
    assert_eq!(refused(config(64, 64, 2, 1)), ArenaError::Range(ClaimError::OutOfRange));
    let twice = config(64, 64, 1, 1);
    assert!(table.add_arena(twice.clone()).is_ok());
    assert_eq!(refused(twice), ArenaError::Range(ClaimError::Taken));
    for _ in 1..255 {
        assert!(table.add_arena(config(1, 1, 1, 1)).is_ok());
    }
    assert_eq!(refused(config(1, 1, 1, 1)), ArenaError::TableFull);
}

#[test]
#[should_panic(expected = "another table")]
fn a_frame_is_useless_with_another_table() {
    let (_, mut pools) = table_with(1, 1);
    let (other, _others) = table_with(1, 1);
    let frame = pools[0].alloc().expect("frame");
    let _ = other.data(&frame, 1);
}

#[test]
#[should_panic(expected = "another table")]
fn a_list_is_useless_with_another_table() {
    let (table, mut pools) = table_with(1, 1);
    let (other, _others) = table_with(1, 1);
    let list = FrameList::new();
    list.push(&table, pools[0].alloc().expect("frame"));
    let _ = list.take(&other);
}

#[test]
fn a_list_keeps_order_over_arenas() {
    let (table, mut pools) = table_with(4, 1);
    pools.extend(table.add_arena(config(64 * 4, 64, 4, 1)).expect("arena").1);
    let (list, onward) = (FrameList::new(), FrameList::new());
    let mut expected = Vec::new();
    for turn in 0..8 {
        let frame = pools[turn % 2].alloc().expect("frame");
        expected.push((frame.arena(), frame.index()));
        assert_eq!(list.push(&table, frame), turn == 0);
    }
    let (mut fifo, mut chain) = (list.take(&table), FrameChain::new());
    while let Some(frame) = fifo.pop(&table) {
        chain.push(&table, frame);
    }
    assert!(onward.push_chain(&table, chain));
    assert!(!onward.push_chain(&table, FrameChain::new()));
    assert!(list.is_empty() && !onward.is_empty());
    let mut taken = onward.take(&table);
    let mut order = Vec::new();
    while let Some(frame) = taken.pop(&table) {
        order.push((frame.arena(), frame.index()));
        table.give_back(frame);
    }
    assert!(taken.is_empty());
    assert_eq!(order, expected);
    assert!(pools.iter_mut().all(|pool| pool.available() == 4));
}

/// Frames of a chain stay together and in order, whether they go through a list, between others, or not.
#[test]
fn a_chain_keeps_its_frames_together() {
    let (table, mut pools) = table_with(8, 1);
    let list = FrameList::new();
    for length in 0..6 {
        let mut chains = [FrameChain::new(), FrameChain::new()];
        for chain in &mut chains {
            assert!(chain.is_empty());
            for place in 0..length.min(3) {
                let mut frame = pools[0].alloc().expect("frame");
                table.set_meta(&mut frame, place);
                chain.push(&table, frame);
            }
            assert_eq!(chain.is_empty(), length == 0);
        }
        let [by_itself, listed] = chains;
        let mut before = pools[0].alloc().expect("frame");
        table.set_meta(&mut before, 77);
        assert!(list.push(&table, before));
        assert!(!list.push_chain(&table, listed), "the list was not empty");
        let mut through = list.take(&table);
        let first = through.pop(&table).expect("frame");
        assert_eq!(table.meta(&first), 77);
        pools[0].free(first);
        for mut fifo in [through, by_itself.into_fifo(&table)] {
            for place in 0..length.min(3) {
                let frame = fifo.pop(&table).expect("frame");
                assert_eq!(table.meta(&frame), place);
                pools[0].free(frame);
            }
            assert!(fifo.is_empty());
        }
    }
    let mut chain = FrameChain::new();
    chain.push(&table, pools[0].alloc().expect("frame"));
    assert!(list.push_chain(&table, chain), "the list was empty");
    pools[0].free(list.take(&table).pop(&table).expect("frame"));
    assert_eq!(pools[0].available(), 8);
}

#[test]
fn a_batch_brings_every_frame_home() {
    let (table, mut pools) = table_with(4, 7); // more homes than a batch keeps apart
    let mut batch = table.batch();
    for round in 0..4 {
        for pool in &mut pools {
            let mut frame = pool.alloc().expect("frame");
            table.set_meta(&mut frame, round);
            batch.push(frame);
        }
    }
    drop(batch);
    assert!(pools.iter_mut().all(|pool| pool.available() == 4));
}

#[test]
fn a_sorter_brings_every_frame_home() {
    let (table, mut pools) = table_with(4, 6);
    let mut sorter = FrameSorter::new(&pools[0]);
    for round in 0..2 {
        let frames = (0..4).flat_map(|_| pools.iter_mut().map(|pool| pool.alloc().expect("frame")).collect::<Vec<_>>());
        let frames: Vec<_> = frames.collect();
        frames.into_iter().for_each(|frame| sorter.push(frame));
        assert!(pools.iter_mut().all(|pool| pool.available() == 0), "round {round}: still in the sorter");
        sorter.flush();
        assert!(pools.iter_mut().all(|pool| pool.available() == 4), "round {round}: all at home");
    }
    sorter.push(pools[5].alloc().expect("frame"));
    drop(sorter);
    assert_eq!(pools[5].available(), 4);
    drop(table);
}

#[test]
fn a_list_may_refuse_a_frame() {
    let (table, mut pools) = table_with(4, 1);
    let list = FrameList::new();
    let mut next = || pools[0].alloc().expect("frame");
    assert!(list.push_admitted(&table, next(), || panic!("an empty list has room")).expect("taken"));
    assert!(!list.push_admitted(&table, next(), || true).expect("taken"));
    let refused = list.push_admitted(&table, next(), || false).expect_err("refused");
    assert_eq!(refused.index(), 2);
    table.give_back(refused);
    let mut taken = list.take(&table);
    for index in [0, 1] {
        let frame = taken.pop(&table).expect("both that were admitted, in order");
        assert_eq!(frame.index(), index);
        table.give_back(frame);
    }
    assert!(taken.is_empty() && list.is_empty());
}

#[test]
fn frames_travel_through_a_queue() {
    let (table, mut pools) = table_with(2, 1);
    let (mut producer, mut consumer) = spsc::channel::<Frame>(2);
    let mut frame = pools[0].alloc().expect("frame");
    table.data_mut(&mut frame)[0] = 9;
    assert!(producer.push(frame).is_ok());
    let frame = consumer.pop().expect("frame");
    assert_eq!(table.data(&frame, 1), [9]);
    table.give_back(frame);
    assert_eq!(pools[0].available(), 2);
}

#[test]
fn random_owners_never_share_a_frame() {
    for seed in 0..if cfg!(miri) { 2 } else { 100 } {
        let mut rng = Rng::new(seed);
        let (table, mut pools) = table_with(5, 3);
        let list = FrameList::new();
        let mut held: Vec<Frame> = Vec::new();
        for step in 1..200u64 {
            let pool = rng.below(3) as usize;
            match rng.below(6) {
                0..3 => {
                    if let Some(mut frame) = pools[pool].alloc() {
                        assert_eq!(table.meta(&frame), 0, "somebody holds this frame");
                        table.set_meta(&mut frame, step);
                        held.push(frame);
                    }
                }
                3 if !held.is_empty() => {
                    let mut frame = held.swap_remove(rng.below(held.len() as u32) as usize);
                    table.set_meta(&mut frame, 0);
                    pools[pool].free(frame);
                }
                4 if !held.is_empty() => {
                    list.push(&table, held.swap_remove(rng.below(held.len() as u32) as usize));
                }
                _ => {
                    let mut batch = table.batch();
                    let mut taken = list.take(&table);
                    while let Some(mut frame) = taken.pop(&table) {
                        table.set_meta(&mut frame, 0);
                        batch.push(frame);
                    }
                }
            }
        }
        let mut batch = table.batch();
        held.into_iter().for_each(|frame| batch.push(frame));
        let mut taken = list.take(&table);
        while let Some(frame) = taken.pop(&table) {
            batch.push(frame);
        }
        drop(batch);
        assert!(pools.iter_mut().all(|pool| pool.available() == 5));
    }
}

#[test]
fn frames_given_back_by_another_thread_carry_its_writes() {
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let (table, mut pools) = table_with(4, 1);
    let (mut producer, mut consumer) = spsc::channel::<Frame>(4);
    std::thread::scope(|scope| {
        let worker_table = table.clone();
        scope.spawn(move || {
            let mut done = 0u64;
            while done < rounds {
                let Some(mut frame) = consumer.pop() else {
                    std::thread::yield_now();
                    continue;
                };
                let bytes = worker_table.data_mut(&mut frame);
                bytes[1] = bytes[0].wrapping_add(1);
                worker_table.give_back(frame);
                done += 1;
            }
        });
        for round in 0..rounds {
            let mut frame = loop {
                match pools[0].alloc() {
                    Some(frame) => break frame,
                    None => std::thread::yield_now(),
                }
            };
            let bytes = table.data_mut(&mut frame);
            assert!(bytes[1] == 0 || bytes[1] == bytes[0].wrapping_add(1));
            bytes[0] = round as u8;
            assert!(producer.push(frame).is_ok());
        }
    });
    assert_eq!(pools[0].available(), 4);
}

/// Packets one way and frames the other, one by one and in bursts, against a plain queue.
#[test]
fn packets_come_in_order_and_their_frames_come_home() {
    let (table, mut pools) = table_with(70, 2);
    let pool = &mut pools[0];
    let (mut sender, mut receiver) = packet_queue(pool);
    let mut rng = Rng::new(9);
    let (mut sent, mut out) = (std::collections::VecDeque::new(), 0);
    for round in 0..if cfg!(miri) { 60 } else { 5000_u32 } {
        match rng.below(5) {
            0 => {
                for _ in 0..rng.below(40) {
                    let Some(bytes) = pool.next_bytes() else { break };
                    bytes[..4].copy_from_slice(&round.to_le_bytes());
                    let (frame, len) = (pool.alloc().expect("it was there before"), 4 + rng.below(93));
                    assert_eq!(table.data(&frame, 4), round.to_le_bytes(), "what was filled is what is taken");
                    sender.push(frame, len);
                    sent.push_back((round, len));
                    out += 1;
                }
                sender.publish();
            }
            1 => {
                let max = rng.below(80) as usize;
                let expected = max.min(PACKET_BURST_MAX).min(sent.len());
                let mut burst = receiver.take_burst(max);
                assert_eq!((burst.len(), burst.is_empty()), (expected, expected == 0));
                burst.each_mut(|bytes| bytes[3] |= 0x80);
                for (bytes, (round, len)) in burst.iter().zip(sent.drain(..expected)) {
                    assert_eq!((bytes.len(), &bytes[..4]), (len as usize, &(round | 1 << 31).to_le_bytes()[..]));
                }
                // One is taken out for good and one for a moment.
                if let Some((frame, _)) = burst.take(1) {
                    assert!(burst.take(1).is_none() && burst.iter().count() == expected - 1);
                    table.give_back(frame);
                    out -= 1;
                }
                if let Some((frame, len)) = burst.take(0) {
                    burst.put_back(0, frame, len);
                }
            }
            3 => {
                let max = rng.below(80);
                let expected = (max as usize).min(sent.len());
                let mut before = sent.drain(..expected);
                let drained = receiver.drain(max, |bytes| {
                    let (round, len) = before.next().expect("as many as there were");
                    assert_eq!((bytes.len(), &bytes[..4]), (len as usize, &round.to_le_bytes()[..]));
                });
                assert_eq!(drained as usize, expected);
            }
            2 => {
                if let Some((frame, len)) = receiver.pop() {
                    assert_eq!(sent.pop_front().map(|(_, len)| len), Some(len));
                    receiver.give_back(frame);
                }
            }
            _ => {
                sender.collect(pool);
                out = sent.len();
                assert_eq!(pool.available(), 70 - out);
            }
        }
        assert!(receiver.is_empty() == sent.is_empty() && out >= sent.len());
    }
}

#[test]
#[should_panic(expected = "a frame of another arena")]
fn a_queue_of_packets_takes_frames_of_its_arena_only() {
    let (table, pools) = table_with(2, 1);
    let (_, mut others) = table.add_arena(config(192, 96, 2, 1)).expect("arena");
    packet_queue(&pools[0]).0.push(others[0].alloc().expect("frame"), 1);
}
