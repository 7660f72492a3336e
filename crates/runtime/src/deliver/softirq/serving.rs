//! The word of a softirq CPU ([`Serving`]), which its thread, a program's and the watchdog change.

use napier_core::serving::Serving;
use napier_ring::StateCell;

pub(super) struct ServingCell(StateCell);

impl ServingCell {
    pub(super) fn new() -> Self {
        Self(StateCell::new(Serving::START.bits()))
    }

    #[inline]
    pub(super) fn load(&self) -> Serving {
        Serving::from_bits(self.0.load())
    }

    /// Applies a rule.
    pub(super) fn change<R>(&self, mut rule: impl FnMut(Serving) -> (Serving, R)) -> R {
        self.0.update(|bits| {
            let (next, answer) = rule(Serving::from_bits(bits));
            (next.bits(), answer)
        })
    }

    /// Applies a rule that may decline; false if it did.
    pub(super) fn change_if(&self, mut rule: impl FnMut(Serving) -> Option<Serving>) -> bool {
        self.change(|word| rule(word).map_or((word, false), |next| (next, true)))
    }
}
