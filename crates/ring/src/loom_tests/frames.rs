//! Frames that change hands. The bytes of a real frame are outside loom, so each frame has a loom cell as shadow.
//! Who takes is the spawned thread, as in `queues`.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use super::{model, model_preempted, without};
use crate::sync::Point;
use crate::{ArenaConfig, Frame, FrameList, FramePool, FrameTable, Mapping};

struct Shadow(Vec<UnsafeCell<u32>>);

// SAFETY: the model checks that a frame has one user at a time; loom reports it if not.
unsafe impl Sync for Shadow {}
// SAFETY: as above.
unsafe impl Send for Shadow {}

impl Shadow {
    fn write(&self, frame: &mut Frame) {
        // SAFETY: the frame is borrowed mutably.
        self.0[frame.index() as usize].with_mut(|bytes| unsafe { *bytes += 1 });
    }
}

fn frames(per_home: u32, homes: u16) -> (Arc<FrameTable>, Vec<FramePool>, Arc<Shadow>) {
    let count = per_home * u32::from(homes);
    let table = Arc::new(FrameTable::new());
    let config = ArenaConfig {
        mapping: Arc::new(Mapping::anonymous(64 * count as usize)),
        offset: 0,
        stride: 64,
        frames_per_home: per_home,
        homes,
    };
    let (_, pools) = table.add_arena(config).expect("arena");
    (table, pools, Arc::new(Shadow((0..count).map(|_| UnsafeCell::new(0)).collect())))
}

/// A frame given back by another thread comes out of its pool with that thread's writes behind it.
fn give_back_hands_frames_over() {
    model(|| {
        let (table, mut pools, shadow) = frames(2, 1);
        let mut given = [0, 1].map(|_| pools[0].alloc().expect("frame"));
        given.iter_mut().for_each(|frame| shadow.write(frame));
        let (mut pool, other_shadow) = (pools.remove(0), shadow.clone());
        let owner = thread::spawn(move || {
            let mut here = Vec::new();
            for _ in 0..2 {
                if let Some(mut frame) = pool.alloc() {
                    other_shadow.write(&mut frame);
                    here.push(frame);
                }
            }
            here.into_iter().for_each(|frame| pool.free(frame));
            pool
        });
        for mut frame in given {
            shadow.write(&mut frame);
            table.give_back(frame);
        }
        assert_eq!(owner.join().unwrap().available(), 2, "a frame was lost");
    });
}

#[test]
fn give_back() {
    give_back_hands_frames_over();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn give_back_needs_the_ordering_of_the_push() {
    without(Point::ListPush, give_back_hands_frames_over);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn give_back_needs_the_ordering_of_the_take() {
    without(Point::ListTake, give_back_hands_frames_over);
}

/// A batch for two homes against both owners.
#[test]
fn a_batch_reaches_both_homes() {
    model_preempted(2, || {
        let (table, mut pools, shadow) = frames(2, 2);
        let given = [0, 1, 0, 1].map(|home: usize| pools[home].alloc().expect("frame"));
        let owners: Vec<_> = pools
            .into_iter()
            .map(|mut pool| {
                let shadow = shadow.clone();
                thread::spawn(move || {
                    if let Some(mut frame) = pool.alloc() {
                        shadow.write(&mut frame);
                        pool.free(frame);
                    }
                    pool
                })
            })
            .collect();
        let mut batch = table.batch();
        for mut frame in given {
            shadow.write(&mut frame);
            batch.push(frame);
        }
        drop(batch);
        for owner in owners {
            assert_eq!(owner.join().unwrap().available(), 2, "a frame was lost");
        }
    });
}

fn frame_list_hands_frames_over() {
    model(|| {
        let (table, mut pools, shadow) = frames(2, 1);
        let list = Arc::new(FrameList::new());
        let mut given = [0, 1].map(|_| pools[0].alloc().expect("frame"));
        given.iter_mut().for_each(|frame| shadow.write(frame));
        let (taker_table, taker_shadow, taker_list) = (table.clone(), shadow.clone(), list.clone());
        let take = move || {
            let mut order = Vec::new();
            let mut taken = taker_list.take(&taker_table);
            while let Some(mut frame) = taken.pop(&taker_table) {
                taker_shadow.write(&mut frame);
                order.push(frame.index());
                taker_table.give_back(frame);
            }
            order
        };
        let taker = thread::spawn({
            let take = take.clone();
            move || take()
        });
        for mut frame in given {
            shadow.write(&mut frame);
            list.push(&table, frame);
        }
        let order = [taker.join().unwrap(), take()].concat();
        assert_eq!(order, [0, 1]);
        assert_eq!(pools[0].available(), 2, "a frame was lost");
    });
}

#[test]
fn frame_list() {
    frame_list_hands_frames_over();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn frame_list_needs_the_ordering_of_the_push() {
    without(Point::ListPush, frame_list_hands_frames_over);
}
