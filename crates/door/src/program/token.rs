//! What events carry: which socket of which program. The generation is in the upper half, so that an event of one that is gone reaches no other; below
//! it two marks, the program's number at its carrier, and the socket's place.

use crate::limits::SOCKETS_MAX;

/// Beside a socket's token: an event is of its twin.
pub(super) const OF_TWIN: u64 = 1 << 31;
/// The same: an event is of what it has of a connection to another program on the engine.
pub(super) const OF_NEAR: u64 = 1 << 30;
/// Generations that sockets have; tokens of those beyond are no socket's.
pub(super) const GENERATIONS: u32 = u32::MAX >> 1;

const PLACE_BITS: u32 = 14;
const _: () = assert!(SOCKETS_MAX <= 1 << PLACE_BITS, "each has a place");
const _: () = assert!((u16::MAX as u64) << PLACE_BITS < OF_NEAR, "no number looks like a mark");

pub(super) const fn of(generation: u32, program: u16, place: u32) -> u64 {
    assert!(generation < GENERATIONS && place < 1 << PLACE_BITS, "a token has no room for it");
    (generation as u64) << 32 | (program as u64) << PLACE_BITS | place as u64
}

pub(super) const fn place(token: u64) -> usize {
    (token & ((1 << PLACE_BITS) - 1)) as usize
}

/// The program that a token is of, by its number at its carrier.
pub(super) const fn program(token: u64) -> u16 {
    (token >> PLACE_BITS) as u16
}

pub(super) const fn without_marks(token: u64) -> u64 {
    token & !(OF_TWIN | OF_NEAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_do_not_touch() {
        for (generation, number, at) in
            [(0, 0, 0), (GENERATIONS - 1, u16::MAX, (1 << PLACE_BITS) - 1), (7, 1, 4095), (7, u16::MAX, 0)]
        {
            let token = of(generation, number, at);
            for token in [token, token | OF_TWIN, token | OF_NEAR] {
                assert_eq!((program(token), place(token), token >> 32), (number, at as usize, generation.into()));
            }
            assert_eq!(without_marks(token | OF_TWIN | OF_NEAR), token);
        }
    }
}
