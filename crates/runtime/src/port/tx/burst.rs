//! Many packets at a time: the claim, the choice of the end and the counters once for all of them.

use napier_ring::PacketBurst;

use super::{TxQueue, TxRing};
use crate::port::TxEnd;

impl TxQueue {
    /// Builds at most `max` packets, as [`build`](Self::build), until there is no room or one has a length of 0; returns how
    /// many were sent. What finds no room is counted once.
    ///
    /// # Panics
    ///
    /// As [`build`](Self::build).
    pub(crate) fn build_many(
        &mut self,
        max: usize,
        max_len: usize,
        mut build: impl FnMut(&mut [u8]) -> usize,
    ) -> usize {
        assert!(max_len <= self.frame_bytes, "packets of {max_len} bytes for frames of {}", self.frame_bytes);
        if !self.captures {
            let mut bounded = |buffer: &mut [u8]| {
                let length = build(&mut buffer[..max_len]);
                assert!(length <= max_len, "built a packet beyond its bound");
                length
            };
            let home = &mut self.home;
            if let Some(built) = on_end!(TxEnd, &mut self.end, end => end.build_many(max, max_len, home, &mut bounded))
            {
                return built;
            }
        }
        let (mut built, mut over) = (0, false);
        while built < max && !over {
            let sent = self.build(max_len, |buffer| {
                let length = build(buffer);
                over = length == 0;
                length
            });
            if sent.is_err() {
                break;
            }
            built += usize::from(!over);
        }
        built
    }

    /// Sends the packets of a burst, as [`give`](Self::give); returns how many, the first ones. Those that were copied, and
    /// those that found no room, stay in the burst; the latter are counted.
    ///
    /// # Panics
    ///
    /// As [`give`](Self::give).
    pub(crate) fn give_burst(&mut self, burst: &mut PacketBurst<'_>) -> usize {
        if !self.captures {
            let many = burst.len();
            let home = &mut self.home;
            if let Some(sent) = on_end!(TxEnd, &mut self.end, end => end.copy_many(burst.iter(), many, home)) {
                return sent;
            }
        }
        let mut sent = 0;
        for at in 0..burst.len() {
            let Some((frame, len)) = burst.take(at) else { continue };
            match self.give(frame, len) {
                Ok(()) => sent += 1,
                Err(frame) => burst.put_back(at, frame, len),
            }
        }
        sent
    }

    /// As [`refuse`](Self::refuse), `many` packets: none is sent.
    #[cold]
    pub(crate) fn refuse_many(&self, many: usize) -> usize {
        self.home.counters.tx_full_drops.add(many as u64);
        0
    }
}
