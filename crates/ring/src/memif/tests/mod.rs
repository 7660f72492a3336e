//! Both ends of both rings over private memory.

mod hostile;
mod queues;

use std::sync::Arc;

use super::protocol::{RingMemory, RingWord};
use super::*;
use crate::sync::Ordering;
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
        ring.store(RingWord::Head, start, Ordering::Relaxed);
        ring.store(RingWord::Tail, start, Ordering::Relaxed);
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
    fn send(&mut self, length: u32) {
        let frame = self.pool.alloc().expect("frame");
        self.c2s.0.push(frame, length).expect("room");
        let _ = self.c2s.0.publish();
    }

    fn post(&mut self, count: u32) {
        for _ in 0..count {
            let frame = self.pool.alloc().expect("frame");
            self.s2c.1.post(frame).expect("room");
        }
        self.s2c.1.publish_posts();
    }
}
