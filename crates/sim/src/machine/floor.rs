//! Floors: each part of the machine stands on the one below, knows that and nothing above it.

/// A part of the machine stands on another one, its field `below`: what that has and does is there as its own.
macro_rules! stands_on {
    ($upper:ty, $lower:ty) => {
        impl std::ops::Deref for $upper {
            type Target = $lower;

            #[inline]
            fn deref(&self) -> &$lower {
                &self.below
            }
        }

        impl std::ops::DerefMut for $upper {
            #[inline]
            fn deref_mut(&mut self) -> &mut $lower {
                &mut self.below
            }
        }
    };
}
