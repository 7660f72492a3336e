//! NAPI ids. Source: `net/core/dev.c napi_hash_add`, `include/net/busy_poll.h napi_id_valid` (Linux 7.3).

/// True if `id` is a NAPI id. Smaller numbers are not: the field that carries it in a packet is shared with other uses.
/// `first_id` is [`IdAllocator::first`].
#[inline]
#[must_use]
pub const fn napi_id_valid(id: u32, first_id: u32) -> bool {
    id >= first_id
}

/// Hands out ids, across all devices and namespaces: counting up from the number of CPUs + 1, wrapping to it, skipping
/// what is in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdAllocator {
    first: u32,
    last: u32,
}

impl IdAllocator {
    /// An allocator on a machine of `cpus` CPUs.
    ///
    /// # Panics
    /// If `cpus` is `u32::MAX`.
    #[must_use]
    pub const fn new(cpus: u32) -> Self {
        assert!(cpus < u32::MAX, "no id is left beyond that many CPUs");
        Self { first: cpus + 1, last: cpus }
    }

    /// The smallest id.
    #[inline]
    #[must_use]
    pub const fn first(&self) -> u32 {
        self.first
    }

    /// The next id that is not `in_use`.
    ///
    /// # Panics
    /// If all of them are.
    #[must_use]
    pub fn allocate(&mut self, mut in_use: impl FnMut(u32) -> bool) -> u32 {
        for _ in self.first..=u32::MAX {
            self.last = if self.last == u32::MAX { self.first } else { self.last + 1 };
            if !in_use(self.last) {
                return self.last;
            }
        }
        panic!("every NAPI id is in use");
    }
}

#[cfg(test)]
#[path = "ids_tests.rs"]
mod tests;
