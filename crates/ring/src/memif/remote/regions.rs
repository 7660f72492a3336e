//! The regions that a client shared, as its server sees them.

use core::ops::Range;
use std::sync::Arc;

use crate::Mapping;
use crate::memif::BadDescriptor;

/// Regions of a foreign client. A descriptor may name bytes of any of them, but none of a ring.
pub struct Regions {
    regions: Box<[Region]>,
}

struct Region {
    /// The bytes that descriptors may name.
    usable: Range<u64>,
    mapping: Arc<Mapping>,
}

impl Regions {
    /// The regions, by number; to be called after every ring's [`RingView`](crate::memif::RingView) was opened.
    ///
    /// The usable bytes of a region with rings are those after its last ring or before its first, whichever are more:
    /// every client is known to lay its rings out together. Buffers between rings are refused.
    ///
    /// # Panics
    ///
    /// If there are more than 2^16.
    #[must_use]
    pub fn new(mappings: Vec<Arc<Mapping>>) -> Self {
        assert!(mappings.len() <= 1 << 16, "a region number has 16 bits");
        let usable = |mapping: &Mapping| {
            let all = mapping.len() as u64;
            match mapping.claimed() {
                Some(rings) if rings.start as u64 > all - rings.end as u64 => 0..rings.start as u64,
                Some(rings) => rings.end as u64..all,
                None => 0..all,
            }
        };
        let regions = mappings.into_iter().map(|mapping| Region { usable: usable(&mapping), mapping });
        Self { regions: regions.collect() }
    }

    /// The address of `length` bytes that a descriptor names, checked.
    #[inline]
    pub(super) fn locate(&self, region: u16, offset: u32, length: u32) -> Result<(*mut u8, usize), BadDescriptor> {
        if length == 0 {
            return Err(BadDescriptor::Empty);
        }
        let region = self.regions.get(usize::from(region)).ok_or(BadDescriptor::OutOfRegion)?;
        let (start, end) = (u64::from(offset), u64::from(offset) + u64::from(length)); // no overflow: both are 32 bits
        if start < region.usable.start || end > region.usable.end {
            return Err(BadDescriptor::OutOfRegion);
        }
        Ok((region.mapping.at(offset as usize), length as usize))
    }
}
