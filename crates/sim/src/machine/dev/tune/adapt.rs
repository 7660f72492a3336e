//! `adapt`: `gro-flush-timeout` follows how many packets a poll takes.

use napier_core::completion::Tunables;
use napier_core::time::Span;

use super::{TunedPoll, Tuner, TunerKind};

pub(super) const KIND: TunerKind = TunerKind {
    name: "adapt",
    what: "gro-flush-timeout grows by a quarter where a poll takes 8 packets or more, and shrinks by a fifth where it takes 2 or fewer, from 10 to 200 us",
    new: || Box::new(Adapt),
};

/// A poll with so many packets is worth waiting longer for.
const MANY: u32 = 8;
/// One with so few is not.
const FEW: u32 = 2;
const LEAST: Span = Span::from_us(10);
const MOST: Span = Span::from_us(200);

#[derive(Debug)]
struct Adapt;

impl Tuner for Adapt {
    fn polled(&mut self, TunedPoll { packets, mut tunables, .. }: TunedPoll) -> Tunables {
        let ns = tunables.gro_flush_timeout.ns;
        let wanted = match packets {
            MANY.. => ns + ns / 4,
            ..=FEW => ns - ns / 5,
            _ => ns,
        };
        tunables.gro_flush_timeout = Span::from_ns(wanted.clamp(LEAST.ns, MOST.ns));
        tunables
    }
}

#[cfg(test)]
mod tests {
    use napier_core::time::Instant;

    use super::*;

    #[test]
    fn it_follows_the_packets_within_its_bounds() {
        let mut adapt = (KIND.new)();
        let mut tunables = Tunables { defer_hard_irqs: 100, ..Tunables::default() };
        let mut us_after = |packets: u32, polls: u32| {
            for _ in 0..polls {
                let poll = TunedPoll { at: Instant::ZERO, packets, budget: 64, by_program: false, tunables };
                tunables = adapt.polled(poll);
            }
            (tunables.gro_flush_timeout.ns / 1000, tunables.defer_hard_irqs)
        };
        assert_eq!(us_after(0, 1), (10, 100), "from nothing to the least");
        assert_eq!(us_after(64, 1), (12, 100));
        assert_eq!(us_after(5, 100), (12, 100), "neither many nor few");
        assert_eq!(us_after(8, 100), (200, 100));
        assert_eq!(us_after(2, 1), (160, 100));
        assert_eq!(us_after(1, 100), (10, 100));
    }
}
