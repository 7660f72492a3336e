//! What words of bits have in common.

/// Gives a tuple struct over an integer its way in and out: with any bits, or only with those in a table of names.
macro_rules! word {
    ($word:ident($bits:ty) $(, $(#[doc = $panics:literal])+ $names:ident)?) => {
        impl $word {
            /// The word with these bits, e.g. out of an atomic.
            $($(#[doc = $panics])+)?
            #[inline]
            #[must_use]
            pub const fn from_bits(bits: $bits) -> Self {
                $(assert!(bits < 1 << Self::$names.len(), "no such bit");)?
                Self(bits)
            }

            /// The bits, e.g. for an atomic.
            #[inline]
            #[must_use]
            pub const fn bits(self) -> $bits {
                self.0
            }
        }
    };
}

/// Gives a tuple struct over an integer what sets of bits can do. The bits are the lowest ones, in this order. The
/// visibility is that of what builds other words.
macro_rules! set_of_bits {
    ($vis:vis $word:ident($bits:ty): $($bit:ident),+) => {
        impl $word {
            const NAMES: [(Self, &'static str); [$(Self::$bit),+].len()] =
                [$((Self::$bit, stringify!($bit))),+];

            /// The word with this bit alone.
            const fn bit(number: u32) -> Self {
                Self(1 << number)
            }

            /// True if any bit of `other` is set.
            #[inline]
            #[must_use]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// The word with the bits of `other` added.
            #[inline]
            #[must_use]
            $vis const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The word with the bits of `other` removed.
            #[inline]
            #[must_use]
            $vis const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }

        const _: () = {
            let mut at = 0;
            while at < $word::NAMES.len() {
                assert!($word::NAMES[at].0.0 == 1 << at, "bits are named in their order, from the lowest");
                at += 1;
            }
        };
    };
}

/// Shows a set of bits as the set of their names.
macro_rules! shown_as_set {
    ($word:ident) => {
        impl core::fmt::Debug for $word {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let names = Self::NAMES.into_iter().filter(|(bit, _)| self.intersects(*bit)).map(|(_, name)| name);
                f.debug_set().entries(names).finish()
            }
        }
    };
}

pub(crate) use {set_of_bits, shown_as_set, word};
