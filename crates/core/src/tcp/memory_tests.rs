use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

fn limits() -> MemoryLimits {
    MemoryLimits::new(10_000, 20_000, 40_000).expect("they do not fall")
}

/// Each row: the state, all, holders, own, forced; the state after it and whether it is given.
#[test]
fn the_table() {
    use Grant::{Given, Refused};
    use Pressure::{Calm, Pressed};
    for (now, all, holders, own, forced, then) in [
        (Calm, 10_000, 1, 10_000, false, (Calm, Given)),
        (Pressed, 10_000, 9, 10_000, false, (Calm, Given)),
        (Calm, 10_001, 9, 10_001, false, (Calm, Given)),
        (Calm, 20_000, 9, 20_000, false, (Calm, Given)),
        // As before, by its share.
        (Pressed, 10_001, 4, 10_000, false, (Pressed, Given)),
        (Pressed, 10_001, 4, 10_001, false, (Pressed, Refused)),
        (Calm, 20_001, 4, 10_000, false, (Pressed, Given)),
        (Calm, 20_001, 4, 10_001, false, (Pressed, Refused)),
        (Pressed, 40_000, 4, 10_000, false, (Pressed, Given)),
        // The least is within any share.
        (Pressed, 40_000, u64::MAX, LEAST, false, (Pressed, Given)),
        (Pressed, 40_000, u64::MAX, LEAST + 1, false, (Pressed, Refused)),
        // Beyond the most, only what is forced.
        (Calm, 40_001, 1, LEAST, false, (Pressed, Refused)),
        (Pressed, 40_001, 1, 1, false, (Pressed, Refused)),
        (Calm, 40_001, 1, 40_001, true, (Pressed, Given)),
        (Pressed, 20_000, 4, 10_001, true, (Pressed, Given)),
    ] {
        let ask = MemoryAsk { all, holders, own, forced };
        assert_eq!(limits().ask(now, &ask), then, "{now:?} {ask:?}");
    }
    for (now, all, then) in
        [(Calm, 50_000, Calm), (Pressed, 10_000, Pressed), (Pressed, 9_999, Calm), (Calm, 0, Calm), (Pressed, 0, Calm)]
    {
        assert_eq!(limits().given_back(now, all), then, "{now:?} {all}");
    }
    let nothing = MemoryLimits::new(0, 0, 0).expect("they do not fall");
    assert_eq!(nothing.given_back(Pressed, 0), Calm, "with no memory at all the state has an end too");
}

#[test]
fn thresholds_do_not_fall() {
    for (low, pressure, max, holds) in [(1, 2, 3, true), (3, 3, 3, true), (2, 1, 3, false), (1, 3, 2, false)] {
        assert_eq!(MemoryLimits::new(low, pressure, max).is_ok(), holds, "{low} {pressure} {max}");
    }
    // What `tcp_init_mem` gives with 8 GiB, in pages, and on the smallest machine.
    let of = |bytes| {
        let limits = MemoryLimits::of_machine(bytes);
        [limits.low(), limits.pressure(), limits.max()].map(|bytes| bytes / PAGE)
    };
    assert_eq!(of(8 << 30), [98_304, 131_072, 196_608]);
    assert_eq!(of(0), [96, 128, 192]);
}

/// Two buffers of a small world, and how much each has.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
struct Small {
    have: [u64; 2],
    pressure: Pressure,
}

/// What a walk over the small world does, with a mistake for those of its rules that have a twin.
struct Rules {
    limits: MemoryLimits,
    /// What is refused is not taken off the sum.
    keeps_refused: bool,
}

impl Rules {
    fn asks(&self, world: Small, who: usize, own: u64, forced: bool) -> (Small, Grant) {
        let sum: u64 = world.have.iter().sum();
        let all = sum - world.have[who] + own;
        let holders = 1 + u64::from(world.have[1 - who] > 0);
        let (pressure, grant) = self.limits.ask(world.pressure, &MemoryAsk { all, holders, own, forced });
        let mut have = world.have;
        if grant == Grant::Given || self.keeps_refused {
            have[who] = own;
            return (Small { have, pressure }, grant);
        }
        (Small { have, pressure: self.limits.given_back(pressure, sum) }, grant)
    }

    fn gives_back(&self, world: Small, who: usize, left: u64) -> Small {
        let mut have = world.have;
        have[who] = left;
        Small { have, pressure: self.limits.given_back(world.pressure, have.iter().sum()) }
    }

    /// Every world that two buffers can come to, by steps of a [`LEAST`], and the worst that all have.
    fn walk(&self) -> (Vec<Small>, u64) {
        let mut worlds = Vec::from([Small { have: [0; 2], pressure: Pressure::Calm }]);
        let mut at = 0;
        while let Some(&world) = worlds.get(at) {
            at += 1;
            let mut next = Vec::new();
            for who in [0, 1] {
                let have = world.have[who] / LEAST;
                for own in have + 1..=12 {
                    next.push(self.asks(world, who, own * LEAST, false).0);
                }
                if have == 0 {
                    let (forced, grant) = self.asks(world, who, LEAST, true);
                    assert_eq!(grant, Grant::Given, "a connection with nothing goes on, whatever others have");
                    next.push(forced);
                }
                next.extend((0..have).map(|left| self.gives_back(world, who, left * LEAST)));
            }
            for world in next {
                if !worlds.contains(&world) {
                    worlds.push(world);
                }
            }
        }
        let most = worlds.iter().map(|world| world.have.iter().sum()).max().unwrap_or(0);
        (worlds, most)
    }
}

/// Low is 3 times the least, pressure 5, the most 8.
fn small(keeps_refused: bool) -> Rules {
    let limits = MemoryLimits::new(3 * LEAST, 5 * LEAST, 8 * LEAST).expect("they do not fall");
    Rules { limits, keeps_refused }
}

#[test]
fn every_world_of_two_buffers() {
    let rules = small(false);
    let (worlds, most) = rules.walk();
    // What is forced of a buffer that has nothing is all that goes beyond the most.
    assert_eq!(most, 9 * LEAST);
    for world in &worlds {
        let sum: u64 = world.have.iter().sum();
        if sum > rules.limits.pressure() {
            assert_eq!(world.pressure, Pressure::Pressed, "{world:?}");
        }
        if sum < rules.limits.low() {
            assert_eq!(world.pressure, Pressure::Calm, "{world:?}");
        }
        // All give back: nothing is left, and nothing is short.
        let one = rules.gives_back(*world, 0, 0);
        let none = rules.gives_back(one, 1, 0);
        assert_eq!(none, Small { have: [0; 2], pressure: Pressure::Calm });
        // One of them alone gets all that there is below pressure.
        assert_eq!(rules.asks(none, 0, 5 * LEAST, false).1, Grant::Given);
    }
    // Between the low threshold and that of pressure both states are met.
    let between = |pressure| worlds.iter().any(|w| w.have.iter().sum::<u64>() == 4 * LEAST && w.pressure == pressure);
    assert!(between(Pressure::Calm) && between(Pressure::Pressed));
}

#[test]
fn the_walk_sees_what_is_refused_and_kept() {
    assert!(small(true).walk().1 > 9 * LEAST);
}

proptest! {
    /// Whatever many buffers ask for and give back: the sum is what they have, and 0 in the end.
    #[test]
    fn the_sum_is_exact(steps in prop::collection::vec((0_usize..20, 0_u64..30_000, any::<bool>()), 0..300)) {
        let limits = limits();
        let (mut have, mut all, mut state) = ([0_u64; 20], 0_u64, Pressure::Calm);
        for (who, wants, forced) in steps {
            if wants > have[who] {
                let more = wants - have[who];
                let holders = have.iter().filter(|bytes| **bytes > 0).count() as u64 + u64::from(have[who] == 0);
                let forced = forced && have[who] == 0 && wants <= LEAST;
                let (after, grant) = limits.ask(state, &MemoryAsk { all: all + more, holders, own: wants, forced });
                state = after;
                if grant == Grant::Given {
                    all += more;
                    have[who] = wants;
                } else {
                    state = limits.given_back(state, all);
                }
            } else {
                all -= have[who] - wants;
                have[who] = wants;
                state = limits.given_back(state, all);
            }
            prop_assert_eq!(all, have.iter().sum::<u64>());
            prop_assert!(all <= limits.max() + 20 * LEAST);
            prop_assert!(all <= limits.pressure() || state == Pressure::Pressed);
        }
        for bytes in have {
            all -= bytes;
            state = limits.given_back(state, all);
        }
        prop_assert_eq!((all, state), (0, Pressure::Calm));
    }
}

#[test]
fn thresholds_that_fall_are_told_which_order_is_right() {
    let error = MemoryLimits::new(2, 1, 3).unwrap_err();
    assert!(alloc::format!("{error}").contains("give the low one first"));
}
