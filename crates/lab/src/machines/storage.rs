//! What stands behind a server of storage: how long a device takes, as a distribution, by the bytes of an operation.

use std::sync::Arc;

/// A storage device, and the program in front of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Storage {
    /// What the device takes, for small and for large operations; zero: there is none.
    pub times: [Quantiles; 2],
    /// What the program computes for each operation, in ns.
    pub program_ns: u64,
}

/// A distribution of times, in ns: the least, then so many of a thousand are at most that long, the most.
pub type Quantiles = [u64; 6];

/// Bytes of the operations whose times a file has.
const STORAGE_BYTES: [u32; 2] = [4 << 10, 1 << 20];

impl Storage {
    /// What the device takes for operations of so many bytes: a part of it is the same for all, and the rest goes with the bytes, so that
    /// it lies on a straight line through what the file has for a small and a large one. Below the small one nothing is known.
    #[must_use]
    pub fn times_of(&self, bytes: u32) -> Quantiles {
        let [small, large] = self.times.map(|times| times.map(i128::from));
        let [least, most] = STORAGE_BYTES.map(i128::from);
        let more = i128::from(bytes).max(least) - least;
        let mut longest = 0;
        std::array::from_fn(|at| {
            let ns = small[at] + (large[at] - small[at]) * more / (most - least);
            longest = longest.max(u64::try_from(ns).unwrap_or(0));
            longest
        })
    }
}

/// Of a thousand, at each of the [`Quantiles`].
const PER_MILLE: [u64; 6] = [0, 500, 950, 990, 999, 1000];
/// Points of a distribution that is drawn from.
const POINTS: u64 = 10_000;

/// Equally likely points of a distribution, in ns: between quantiles by straight lines, and by squares from 95 of 100 on, where such
/// distributions bend.
#[must_use]
pub fn points_ns(of: &Quantiles) -> Arc<[u64]> {
    let point = |nth: u64| {
        let at = PER_MILLE.windows(2).position(|two| nth * 1000 < two[1] * POINTS).expect("below the last");
        let (from, to) = (PER_MILLE[at] * POINTS, PER_MILLE[at + 1] * POINTS);
        let (part, whole) = (nth * 1000 - from, to - from);
        let step = of[at + 1] - of[at];
        let by = step * part / whole;
        of[at] + if PER_MILLE[at] < 950 { by } else { by * part / whole }
    };
    (0..POINTS).map(point).collect()
}
