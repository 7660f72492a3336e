//! What packets to a destination may have where a router has said so, by the rules of [`napier_core::icmp`].
//!
//! The table is immutable and sorted; a writer copies it. A sender that has worked out a way to the destination does so again, for the
//! way itself says how long its packets may be: none is looked up per packet. What has expired is passed over, and goes
//! when the next destination comes.

use std::sync::Arc;

use napier_core::icmp::EXPIRES_AFTER;
use napier_core::time::{Deadline, Instant};
use napier_sys::clock::Clock;

use crate::tables::Snapshot;
use crate::wire::addr::Addr;

/// Destinations with an MTU of their own. When one more comes, the one that expires first goes.
const PATHS_MAX: usize = 1024;

/// What packets to a destination may have.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathMtu {
    /// Bytes of the IP packet.
    pub(crate) bytes: u32,
    /// Longer ones are tried again then.
    pub(crate) until: Instant,
}

impl PathMtu {
    /// What was learnt now.
    pub(crate) fn learnt(bytes: u32, now: Instant) -> Self {
        Self { bytes, until: now + EXPIRES_AFTER }
    }
}

/// All of one moment.
#[derive(Clone, Default)]
pub(crate) struct PathMtus(Arc<[(Addr, PathMtu)]>);

impl PathMtus {
    fn get(&self, dst: Addr) -> Option<PathMtu> {
        self.0.binary_search_by_key(&dst, |(addr, _)| *addr).ok().map(|at| self.0[at].1)
    }

    pub(super) fn with(&self, dst: Addr, path: PathMtu, now: Instant) -> Self {
        let keeps = |(addr, other): &&(Addr, PathMtu)| *addr != dst && other.until > now;
        let mut all: Vec<_> = self.0.iter().filter(keeps).copied().collect();
        let first_to_go = all.iter().enumerate().min_by_key(|(_, (_, other))| other.until).map(|(at, _)| at);
        if let Some(at) = first_to_go.filter(|_| all.len() >= PATHS_MAX) {
            all.remove(at);
        }
        let at = all.partition_point(|(addr, _)| *addr < dst);
        all.insert(at, (dst, path));
        Self(all.into())
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.len()
    }
}

impl Snapshot {
    /// What packets to `dst` may have on an interface that takes `mtu` bytes, and until when that holds.
    pub(crate) fn path_mtu(&self, dst: Addr, mtu: usize) -> (usize, Deadline) {
        // Mostly there is none, and no clock is read.
        match self.path_mtus.get(dst) {
            Some(PathMtu { bytes, until }) if (bytes as usize) < mtu && until > Clock.now() => {
                (bytes as usize, Deadline::at(until))
            }
            _ => (mtu, Deadline::NEVER),
        }
    }
}

#[cfg(test)]
mod tests {
    use napier_core::time::Span;

    use super::*;

    fn host(number: usize) -> Addr {
        Addr::v4([10, 0, (number >> 8) as u8, number as u8])
    }

    #[test]
    fn a_path_is_found_replaced_and_forgotten() {
        let now = Clock.now();
        let path = |bytes, secs| PathMtu { bytes, until: now + Span::from_secs(secs) };
        let table = PathMtus::default().with(host(2), path(1280, 600), now).with(host(1), path(1400, 5), now);
        assert_eq!((table.get(host(1)), table.get(host(2))), (Some(path(1400, 5)), Some(path(1280, 600))));
        assert_eq!(table.get(host(3)), None);
        let table = table.with(host(2), path(576, 700), now);
        assert_eq!((table.len(), table.get(host(2))), (2, Some(path(576, 700))));
        let table = table.with(host(3), path(1000, 9), now + Span::from_secs(6));
        assert_eq!((table.len(), table.get(host(1))), (2, None), "what has expired goes with the next that comes");
    }

    #[test]
    fn a_full_table_gives_up_what_expires_first() {
        let now = Clock.now();
        let path = |number: usize| PathMtu { bytes: 1280, until: now + Span::from_secs(1000 + number as u64) };
        let all = (0..PATHS_MAX + 10).fold(PathMtus::default(), |table, at| table.with(host(at), path(at), now));
        assert_eq!(all.len(), PATHS_MAX);
        assert_eq!((all.get(host(9)), all.get(host(10))), (None, Some(path(10))));
    }
}
