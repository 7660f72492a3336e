//! Many packets out of a ring in one go: first all descriptors, then all bytes.
//!
//! What the peer wrote is in its cache. A descriptor says where the bytes are, so with one packet after the other each waits
//! for two lines, one after the other. Here the lines of all packets of a burst are asked for before the first is copied.

use core::mem::MaybeUninit;

use super::{BadDescriptor, Part, Parts, copy_out, join};
use crate::memory;

/// Most slots whose memory is asked for before the first is used.
pub const BURST_MAX: usize = 32;

/// Where the packets of a burst go.
pub trait Landing {
    /// Room for the next packet. It is asked for again if the packet was refused.
    fn room(&mut self) -> &mut [u8];
    /// A packet of `length` bytes is in the room that was asked for last.
    fn landed(&mut self, length: usize);
    /// A packet was dropped.
    fn refused(&mut self, why: BadDescriptor);
}

/// See [`Receiver::take_burst`](super::Receiver::take_burst).
#[inline]
pub(super) fn take_burst<R: Parts>(ring: &mut R, max: usize, landing: &mut impl Landing) {
    let mut left = if ring.known() < max { ring.look().min(max) } else { max };
    while left > 0 {
        let mut parts = [const { MaybeUninit::<Part>::uninit() }; BURST_MAX];
        let mut many = 0;
        for place in parts.iter_mut().take(left) {
            let Some(part) = ring.next_known_part() else { break };
            if let Ok((start, length)) = part.bytes {
                memory::will_read(start);
                if length > 64 {
                    memory::will_read(start.wrapping_add(64));
                }
            }
            let more = part.more;
            place.write(part);
            many += 1;
            // The rest of this packet is in the next slots.
            if more {
                break;
            }
        }
        if many == 0 {
            return;
        }
        left -= many;
        for part in &parts[..many] {
            // SAFETY: the first `many` were written above, and a part needs no drop.
            let part = unsafe { part.assume_init_ref() };
            let to = landing.room();
            let mut length = part.bytes.and_then(|from| copy_out(from, to));
            if part.more {
                length = join(ring, length, to);
            }
            match length {
                Ok(length) => landing.landed(length),
                Err(why) => landing.refused(why),
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    use super::*;

    /// Room of a fixed size, and what became of the packets.
    pub(crate) struct Bowl {
        pub(crate) room: Vec<u8>,
        pub(crate) usable: usize,
        pub(crate) results: Vec<Result<Vec<u8>, BadDescriptor>>,
    }

    impl Bowl {
        pub(crate) fn new(usable: usize) -> Self {
            Self { room: vec![0; usable], usable, results: Vec::new() }
        }
    }

    impl Landing for Bowl {
        fn room(&mut self) -> &mut [u8] {
            &mut self.room[..self.usable]
        }

        fn landed(&mut self, length: usize) {
            self.results.push(Ok(self.room[..length].to_vec()));
        }

        fn refused(&mut self, why: BadDescriptor) {
            self.results.push(Err(why));
        }
    }
}
