//! Random choices, as all that makes scenarios draws them.

use napier_core::time::Span;
use napier_rng::Xoshiro256PlusPlus;
use rand::RngExt;
use rand::seq::IndexedRandom;

/// Draws from a stream.
pub(super) trait Random {
    fn rng(&mut self) -> &mut Xoshiro256PlusPlus;

    fn below(&mut self, n: u32) -> u32 {
        self.rng().random_range(0..n)
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        *values.choose(self.rng()).expect("a choice of something")
    }

    fn us(&mut self, max: u64) -> Span {
        Span::from_ns(self.rng().random_range(0..=max * 1000))
    }
}
