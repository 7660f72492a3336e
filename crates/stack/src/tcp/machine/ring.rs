//! Bytes in order, in memory that grows when it is needed, if a [`Lender`] gives it.
//!
//! What lies behind the end is a receiver's: bytes that came out of order stand where they belong, and become a part of it when
//! the hole before them is filled.

use crate::tcp::memory::{Lender, Use};

/// Least memory that is asked for.
const ROOM_MIN: usize = 2048;

/// A queue of bytes.
#[derive(Debug, Default)]
pub(in crate::tcp) struct ByteRing {
    bytes: Box<[u8]>,
    /// Where the first byte is.
    start: usize,
    /// Bytes in order.
    len: usize,
    /// Behind the last byte that is there, counted from the first.
    extent: usize,
    lender: Lender,
}

impl ByteRing {
    /// Bytes in order.
    #[inline]
    pub(in crate::tcp) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(in crate::tcp) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory.
    #[inline]
    pub(in crate::tcp) fn room(&self) -> usize {
        self.bytes.len()
    }

    /// Memory is had from it from now on; there is none yet.
    pub(super) fn charge_to(&mut self, lender: Lender) {
        assert_eq!(self.bytes.len(), 0, "what there is has another lender");
        self.lender = lender;
    }

    /// Windows and buffers may grow.
    #[cold]
    pub(super) fn may_widen(&self) -> bool {
        self.lender.is_calm()
    }

    /// Where in memory byte `at` is or will be.
    #[inline]
    pub(in crate::tcp) fn address(&self, at: usize) -> usize {
        if self.bytes.is_empty() { 0 } else { self.bytes.as_ptr().addr() + self.place(at) }
    }

    #[inline]
    fn place(&self, at: usize) -> usize {
        let place = self.start + at;
        if place >= self.bytes.len() { place - self.bytes.len() } else { place }
    }

    /// Whether there is memory for bytes up to number `end`; if there is none it is asked for. `forced`: the connection cannot go on without.
    #[inline]
    pub(super) fn make_room(&mut self, what: Use, end: usize, forced: bool) -> bool {
        end <= self.bytes.len() || self.grow(what, end, forced)
    }

    /// Writes `data` where its first byte is number `at`, for which there is [room](Self::make_room); nothing becomes a part of the queue by that.
    #[inline]
    pub(super) fn write(&mut self, at: usize, data: &[u8]) {
        let end = at + data.len();
        let place = self.place(at);
        let first = data.len().min(self.bytes.len() - place);
        self.bytes[place..place + first].copy_from_slice(&data[..first]);
        self.bytes[..data.len() - first].copy_from_slice(&data[first..]);
        self.extent = self.extent.max(end);
    }

    #[cold]
    fn grow(&mut self, what: Use, wanted: usize, forced: bool) -> bool {
        let room = room_for(wanted);
        if !self.lender.lends(what, self.bytes.len(), room, forced) {
            return false;
        }
        self.move_to(room);
        true
    }

    /// Gives back memory that nothing is in.
    #[cold]
    pub(super) fn fit(&mut self) {
        let (have, room) = (self.bytes.len(), room_for(self.extent));
        if self.extent == 0 {
            self.clear();
        } else if room < have {
            self.move_to(room);
            self.lender.gets_back(have, room);
        }
    }

    fn move_to(&mut self, room: usize) {
        let mut bytes = vec![0; room].into_boxed_slice();
        let (first, second) = self.slices(0, self.extent);
        bytes[..first.len()].copy_from_slice(first);
        bytes[first.len()..self.extent].copy_from_slice(second);
        (self.bytes, self.start) = (bytes, 0);
    }

    /// The next `count` bytes have been written and are in order now.
    #[inline]
    pub(super) fn extend(&mut self, count: usize) {
        self.len += count;
        assert!(self.len <= self.extent, "only what was written");
    }

    /// Bytes from number `at` on, in two parts.
    #[inline]
    pub(in crate::tcp) fn slices(&self, at: usize, count: usize) -> (&[u8], &[u8]) {
        assert!(at + count <= self.extent, "only what was written");
        if count == 0 {
            return (&[], &[]);
        }
        let place = self.place(at);
        let first = count.min(self.bytes.len() - place);
        (&self.bytes[place..place + first], &self.bytes[..count - first])
    }

    /// Copies out as many of the first bytes as there are and fit.
    #[inline]
    pub(super) fn copy_to(&self, buffer: &mut [u8]) -> usize {
        let count = self.len.min(buffer.len());
        let (first, second) = self.slices(0, count);
        buffer[..first.len()].copy_from_slice(first);
        buffer[first.len()..count].copy_from_slice(second);
        count
    }

    /// The first `count` bytes are not needed any more.
    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        assert!(count <= self.len, "only what is there");
        self.len -= count;
        self.extent -= count;
        // An empty queue begins where its memory does, which is in the cache.
        self.start = if self.extent == 0 { 0 } else { self.place(count) };
    }

    /// Gives its memory back, and what is in it.
    pub(in crate::tcp) fn clear(&mut self) {
        let before = std::mem::take(&mut self.bytes);
        (self.start, self.len, self.extent) = (0, 0, 0);
        self.lender.gets_back(before.len(), 0);
    }
}

impl Drop for ByteRing {
    fn drop(&mut self) {
        self.lender.gets_back(self.bytes.len(), 0);
    }
}

fn room_for(bytes: usize) -> usize {
    bytes.next_power_of_two().max(ROOM_MIN)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use napier_rng::{below, stream};

    use super::*;

    fn put(ring: &mut ByteRing, at: usize, data: &[u8]) {
        assert!(ring.make_room(Use::Receive, at + data.len(), false), "there is no lender");
        ring.write(at, data);
    }

    fn all(ring: &ByteRing) -> Vec<u8> {
        let (first, second) = ring.slices(0, ring.len());
        [first, second].concat()
    }

    #[test]
    fn it_is_a_queue() {
        let mut rng = stream(7, "ring");
        let (mut ring, mut model) = (ByteRing::default(), VecDeque::new());
        for step in 0..20_000_u32 {
            if below(&mut rng, 2) == 0 {
                let data: Vec<u8> = (0..below(&mut rng, 900)).map(|at| (at ^ step) as u8).collect();
                let end = ring.len();
                put(&mut ring, end, &data);
                ring.extend(data.len());
                model.extend(data);
            } else {
                let mut buffer = vec![0; below(&mut rng, 1000) as usize];
                let count = ring.copy_to(&mut buffer);
                assert!(model.drain(..count).eq(buffer[..count].iter().copied()));
                ring.consume(count);
            }
            assert_eq!(ring.len(), model.len());
        }
        assert!(ring.room() < 1 << 20);
    }

    #[test]
    fn what_came_out_of_order_is_there_when_the_hole_is_filled() {
        let mut ring = ByteRing::default();
        put(&mut ring, 0, &[9; 1500]);
        ring.extend(1500);
        ring.consume(1499);
        // Across the end of the memory, and then more of it.
        put(&mut ring, 800, b"later");
        put(&mut ring, 3000, b"last");
        put(&mut ring, 1, &[1; 799]);
        ring.extend(804);
        put(&mut ring, 805, &[2; 2195]);
        ring.extend(2199);
        let bytes = all(&ring);
        assert_eq!((&bytes[800..805], &bytes[3000..]), (&b"later"[..], &b"last"[..]));
        assert_eq!(bytes[0], 9);
    }

    #[test]
    fn an_empty_one_begins_where_its_memory_does() {
        let mut ring = ByteRing::default();
        assert_eq!((ring.room(), ring.address(0)), (0, 0));
        put(&mut ring, 0, b"abc");
        ring.extend(3);
        let first = ring.address(0);
        ring.consume(3);
        assert_eq!(ring.address(0), first);
        ring.clear();
        assert_eq!(ring.room(), 0);
    }

    #[test]
    fn what_nothing_is_in_is_given_back() {
        let mut ring = ByteRing::default();
        put(&mut ring, 0, &[7; 50_000]);
        ring.extend(50_000);
        ring.consume(44_999);
        // Behind a hole, across the end of the memory.
        put(&mut ring, 20_000, b"later");
        ring.fit();
        assert_eq!(ring.room(), 32_768);
        put(&mut ring, 5001, &[1; 14_999]);
        ring.extend(15_004);
        let bytes = all(&ring);
        assert_eq!((bytes.len(), &bytes[..5001], &bytes[20_000..]), (20_005, &[7; 5001][..], &b"later"[..]));
        ring.consume(20_000);
        ring.fit();
        assert_eq!((ring.room(), all(&ring)), (ROOM_MIN, b"later".to_vec()));
        ring.consume(5);
        ring.fit();
        assert_eq!(ring.room(), 0);
    }
}
