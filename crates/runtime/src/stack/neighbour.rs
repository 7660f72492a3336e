//! Neighbours: which Ethernet address an on-link IP address has, and the one datagram that waits for the answer.
//!
//! The table is immutable and sorted; a writer copies it. There is no ageing: a learnt entry stays until the neighbour
//! says something else, a static entry until it is removed.
//!
//! | state | datagram to it | answer arrives | no answer |
//! |---|---|---|---|
//! | unknown | held, a question is sent | learnt, the held one goes out | - |
//! | asked, < 1 s ago | held instead of the older one, which is dropped and counted | as above | - |
//! | asked, >= 1 s ago, fewer than 3 times | held, asked again | as above | - |
//! | asked 3 times, >= 1 s ago | refused with EHOSTUNREACH; unknown again | - | held one dropped and counted |
//!
//! Three questions a second apart are `mcast_solicit` and `retrans_time_ms` of `net/ipv4/arp.c arp_tbl`. As no timer
//! runs here, the next datagram is what notices the passing of time. FORBIDDEN: learnt -> asked. An answer nobody asked
//! for changes a known neighbour but never makes one (`arp_accept` = 0).

use std::sync::Arc;

use napier_core::time::{Instant, Span};

use super::addr::Addr;

/// Learnt entries per name space. Source: `net/ipv4/arp.c arp_tbl.gc_thresh3`.
pub(super) const LEARNT_MAX: usize = 1024;
/// Neighbours being asked for at one time, each with one held datagram.
pub(super) const PENDING_MAX: usize = 256;
const PROBES_MAX: u32 = 3;
const PROBE_INTERVAL: Span = Span { ns: 1_000_000_000 };

/// A neighbour is looked up by device and address: link-local addresses repeat from link to link.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) ifindex: u32,
    pub(super) addr: Addr,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Neighbour {
    pub(super) mac: [u8; 6],
    pub(super) permanent: bool,
}

/// The known neighbours of one moment.
#[derive(Clone, Default)]
pub(super) struct Neighbours(Arc<[(Key, Neighbour)]>);

impl Neighbours {
    pub(super) fn get(&self, key: Key) -> Option<Neighbour> {
        self.0.binary_search_by_key(&key, |(k, _)| *k).ok().map(|at| self.0[at].1)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn with(&self, key: Key, neighbour: Neighbour) -> Self {
        let mut all = self.0.to_vec();
        match all.binary_search_by_key(&key, |(k, _)| *k) {
            Ok(at) => all[at].1 = neighbour,
            Err(at) => all.insert(at, (key, neighbour)),
        }
        Self(all.into())
    }

    /// Everything but those that `gone` names.
    pub(super) fn without(&self, gone: impl Fn(Key) -> bool) -> Self {
        Self(self.0.iter().filter(|(key, _)| !gone(*key)).copied().collect())
    }
}

/// The questions that are out.
#[derive(Default)]
pub(super) struct Pending(Vec<Asked>);

struct Asked {
    key: Key,
    held: Held,
    probes: u32,
    last: Instant,
}

/// A whole frame, complete but for its destination Ethernet address.
pub(super) struct Held {
    pub(super) frame: Vec<u8>,
    pub(super) flow_hash: u32,
}

/// What to do with a datagram whose neighbour is not known.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// It is held. `probe`: ask now. `dropped`: an older one had to go.
    Held { probe: bool, dropped: bool },
    /// Nobody answers (or too many neighbours are being asked for); `dropped` counts the one that was held.
    Unreachable { dropped: bool },
}

impl Pending {
    /// Keeps a datagram until its neighbour answers.
    pub(super) fn hold(&mut self, key: Key, now: Instant, held: Held) -> Hold {
        let Some(at) = self.0.iter().position(|asked| asked.key == key) else {
            if self.0.len() == PENDING_MAX {
                self.0.retain(|asked| !is_stale(asked, now));
            }
            if self.0.len() == PENDING_MAX {
                return Hold::Unreachable { dropped: false };
            }
            self.0.push(Asked { key, held, probes: 1, last: now });
            return Hold::Held { probe: true, dropped: false };
        };
        let asked = &mut self.0[at];
        let due = is_due(asked, now);
        if due && asked.probes == PROBES_MAX {
            self.0.swap_remove(at);
            return Hold::Unreachable { dropped: true };
        }
        if due {
            asked.probes += 1;
            asked.last = now;
        }
        asked.held = held;
        Hold::Held { probe: due, dropped: true }
    }

    /// The neighbour is known now: what was held for it.
    pub(super) fn release(&mut self, key: Key) -> Option<Held> {
        let at = self.0.iter().position(|asked| asked.key == key)?;
        Some(self.0.swap_remove(at).held)
    }

    pub(super) fn is_asked(&self, key: Key) -> bool {
        self.0.iter().any(|asked| asked.key == key)
    }

    /// The device is gone.
    pub(super) fn forget(&mut self, ifindex: u32) {
        self.0.retain(|asked| asked.key.ifindex != ifindex);
    }
}

fn is_due(asked: &Asked, now: Instant) -> bool {
    now >= asked.last + PROBE_INTERVAL
}

fn is_stale(asked: &Asked, now: Instant) -> bool {
    asked.probes == PROBES_MAX && is_due(asked, now)
}

#[cfg(test)]
mod tests;
