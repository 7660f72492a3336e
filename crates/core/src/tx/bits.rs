//! What the words of bits of the transmit path have in common.

/// Gives a tuple struct over `u8` its reading and writing, and shows it as the set of its bits' names. The bits are the
/// lowest ones, in this order.
macro_rules! word_of_bits {
    ($word:ident, $($bit:ident),+) => {
        impl $word {
            const NAMES: [(Self, &'static str); [$(Self::$bit),+].len()] =
                [$((Self::$bit, stringify!($bit))),+];

            /// The word with these bits, e.g. out of an atomic.
            ///
            /// # Panics
            /// If there is no such bit.
            #[inline]
            #[must_use]
            pub const fn from_bits(bits: u8) -> Self {
                assert!(bits < 1 << Self::NAMES.len(), "no such bit");
                Self(bits)
            }

            /// The bits, e.g. for an atomic.
            #[inline]
            #[must_use]
            pub const fn bits(self) -> u8 {
                self.0
            }

            /// True if one of `other`'s bits is set.
            #[inline]
            #[must_use]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }

        impl core::fmt::Debug for $word {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let names = Self::NAMES.into_iter().filter(|(bit, _)| self.intersects(*bit)).map(|(_, name)| name);
                f.debug_set().entries(names).finish()
            }
        }
    };
}

pub(super) use word_of_bits;
