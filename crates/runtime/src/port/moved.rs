//! Sending where frames are moved into a ring: at the client of a link, and to an AF_XDP socket.

use napier_ring::{Frame, FramePool, FrameSorter};

use super::tx::{Given, TxFull, TxHome};

/// A ring that frames are moved into, and out of when they were sent.
pub(crate) trait FrameRing {
    /// Packets that can be pushed, as far as is known.
    fn free_slots(&self) -> u32;
    fn push(&mut self, frame: Frame, len: u32) -> Result<(), Frame>;
    /// Takes back what was sent; returns how many frames that were.
    fn reclaim(&mut self, home: impl FnMut(Frame)) -> u32;
}

/// Sends a frame of the ring's own memory as it is.
pub(crate) fn push_given(
    ring: &mut impl FrameRing,
    pool: &mut FramePool,
    frame: Frame,
    len: u32,
    home: &mut TxHome,
) -> Given {
    make_room(ring, pool, &mut home.sorter);
    if home.tap.is_on() && ring.free_slots() > 0 {
        home.tap.record(home.table.data(&frame, len as usize));
    }
    match ring.push(frame, len) {
        Ok(()) => {
            home.counters.packets.add(1);
            home.counters.bytes.add(u64::from(len));
            Given::Sent
        }
        Err(frame) => {
            home.counters.tx_full_drops.add(1);
            Given::Full(frame)
        }
    }
}

/// The way to build where frames are moved: in a frame of our own.
pub(crate) fn build_in_frame(
    ring: &mut impl FrameRing,
    pool: &mut FramePool,
    home: &mut TxHome,
    build: impl FnOnce(&mut [u8]) -> usize,
) -> Result<usize, TxFull> {
    make_room(ring, pool, &mut home.sorter);
    if ring.free_slots() == 0 {
        return home.full();
    }
    let Some(mut frame) = alloc(ring, pool, &mut home.sorter) else {
        home.counters.no_frame_drops.add(1);
        return Err(TxFull);
    };
    let length = build(pool.table().data_mut(&mut frame));
    if length == 0 {
        pool.free(frame);
    } else if ring.push(frame, length as u32).is_err() {
        unreachable!("the ring had a free slot");
    }
    Ok(length)
}

/// A frame from the pool, or one that the peer has just finished with.
fn alloc(ring: &mut impl FrameRing, pool: &mut FramePool, sorter: &mut Option<FrameSorter>) -> Option<Frame> {
    pool.alloc().or_else(|| {
        ring.reclaim(|frame| bring_home(pool, sorter, frame));
        pool.alloc()
    })
}

/// A frame that was sent goes back to where it came from.
#[inline]
pub(crate) fn bring_home(pool: &mut FramePool, sorter: &mut Option<FrameSorter>, frame: Frame) {
    match sorter {
        Some(sorter) if sorter.arena() == frame.arena() => sorter.push(frame),
        _ => pool.free(frame),
    }
}

/// Looks at the peer's index only if the ring is full as far as known.
pub(crate) fn make_room(ring: &mut impl FrameRing, pool: &mut FramePool, sorter: &mut Option<FrameSorter>) {
    if ring.free_slots() == 0 {
        ring.reclaim(|frame| bring_home(pool, sorter, frame));
    }
}
