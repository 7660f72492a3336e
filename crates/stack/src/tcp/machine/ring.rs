//! Bytes in order, in memory that grows when it is needed.
//!
//! What lies behind the end is a receiver's: bytes that came out of order stand where they belong, and become a part of it when
//! the hole before them is filled.

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

    /// Writes `data` where its first byte is number `at`; nothing becomes a part of the queue by that.
    #[inline]
    pub(super) fn write(&mut self, at: usize, data: &[u8]) {
        let end = at + data.len();
        if end > self.bytes.len() {
            self.grow(end);
        }
        let place = self.place(at);
        let first = data.len().min(self.bytes.len() - place);
        self.bytes[place..place + first].copy_from_slice(&data[..first]);
        self.bytes[..data.len() - first].copy_from_slice(&data[first..]);
        self.extent = self.extent.max(end);
    }

    #[cold]
    fn grow(&mut self, wanted: usize) {
        let room = wanted.next_power_of_two().max(ROOM_MIN);
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
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use napier_rng::{below, stream};

    use super::*;

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
                ring.write(ring.len(), &data);
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
        ring.write(0, &[9; 1500]);
        ring.extend(1500);
        ring.consume(1499);
        // Across the end of the memory, and then more of it.
        ring.write(800, b"later");
        ring.write(3000, b"last");
        ring.write(1, &[1; 799]);
        ring.extend(804);
        ring.write(805, &[2; 2195]);
        ring.extend(2199);
        let bytes = all(&ring);
        assert_eq!((&bytes[800..805], &bytes[3000..]), (&b"later"[..], &b"last"[..]));
        assert_eq!(bytes[0], 9);
    }

    #[test]
    fn an_empty_one_begins_where_its_memory_does() {
        let mut ring = ByteRing::default();
        assert_eq!((ring.room(), ring.address(0)), (0, 0));
        ring.write(0, b"abc");
        ring.extend(3);
        let first = ring.address(0);
        ring.consume(3);
        assert_eq!(ring.address(0), first);
        ring.clear();
        assert_eq!(ring.room(), 0);
    }
}
