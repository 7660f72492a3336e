//! Datagrams that a call reads in place.

use napier_ring::Frame;

use crate::udp::queue::UdpInner;
use crate::wire::Meta;

/// Most of them.
pub(super) const TAKEN_MAX: usize = 32;

/// Datagrams that were taken out of a queue and are looked at outside of it; they go home when this is dropped, also
/// if the caller's function panics.
pub(crate) struct Taken<'a> {
    socket: &'a UdpInner,
    pub(super) frames: [Option<Frame>; TAKEN_MAX],
}

impl<'a> Taken<'a> {
    pub(crate) fn new(socket: &'a UdpInner) -> Self {
        Self { socket, frames: [const { None }; TAKEN_MAX] }
    }

    pub(crate) fn for_each(&self, mut read: impl FnMut(Meta, &[u8])) {
        for frame in self.frames.iter().map_while(Option::as_ref) {
            let meta = Meta::from_bits(self.socket.frames.meta(frame));
            read(meta, self.socket.frames.data(frame, meta.payload().end));
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let frames = &self.socket.frames;
        let mut batch = frames.batch();
        let mut bytes = 0;
        for frame in self.frames.iter_mut().map_while(Option::take) {
            bytes += Meta::from_bits(frames.meta(&frame)).truesize();
            batch.push(frame);
        }
        drop(batch);
        self.socket.uncharge(bytes);
    }
}
