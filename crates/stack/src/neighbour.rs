//! Neighbours: which Ethernet address an on-link IP address has, and when the stack believes it.
//!
//! The table is immutable and sorted; a writer copies it. There is no ageing: a learnt entry stays until the neighbour
//! says something else, or its place is needed; a static entry until it is removed.
//!
//! | news | known? | what happens |
//! |---|---|---|
//! | an answer that we asked for | no | learnt, *confirmed*; what waited for it goes out (see `pending`) |
//! | an answer that nobody asked for | no | ignored (`arp_accept` = 0) |
//! | somebody asks us, and says where he is | no | learnt, unconfirmed; of many strangers at once only some |
//! | another Ethernet address | yes | taken if the entry is a second old (`LOCKTIME`), else ignored |
//! | any | permanent | ignored |
//!
//! A table that is full forgets the oldest unconfirmed entry, and if there is none the oldest confirmed one. So forged
//! requests push out each other, and a neighbour that was forgotten is asked for with the next packet to it.
//! FORBIDDEN: learnt -> asked.

use std::sync::Arc;

use napier_core::time::{Instant, Span};

use super::addr::Addr;

mod pending;

pub(super) use pending::{Answered, Held, Hold, Pending, ROUNDS_MAX};

/// Learnt entries per name space. Source: `net/ipv4/arp.c arp_tbl.gc_thresh3`.
pub(super) const LEARNT_MAX: usize = 1024;
/// How long an entry stays as it is. Source: `net/ipv4/arp.c arp_tbl` `LOCKTIME`, used in `arp_process`.
pub(super) const LOCKTIME: Span = Span { ns: 1_000_000_000 };
/// Strangers that may introduce themselves at once, and how long it takes until one more may. Each costs a copy of the
/// table, and makes the paths that sockets remember stale.
const STRANGERS_MAX: u32 = 256;
const STRANGER_INTERVAL: Span = Span { ns: 10_000_000 };

/// A neighbour is looked up by device and address: link-local addresses repeat from link to link.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) ifindex: u32,
    pub(super) addr: Addr,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Neighbour {
    pub(super) mac: [u8; 6],
    pub(super) origin: Origin,
    /// When it got this address.
    pub(super) since: Instant,
}

/// Why a neighbour is known. In the order in which entries are kept.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// It asked for us.
    Stranger,
    /// It answered a question of ours.
    Confirmed,
    /// The user says so.
    Permanent,
}

impl Neighbour {
    /// Whether news at `now` leave it as it is.
    pub(super) fn is_settled(&self, mac: [u8; 6]) -> bool {
        self.origin == Origin::Permanent || self.mac == mac
    }

    pub(super) fn is_locked(&self, now: Instant) -> bool {
        now < self.since + LOCKTIME
    }
}

/// The known neighbours of one moment.
#[derive(Clone, Default)]
pub(super) struct Neighbours(Arc<[(Key, Neighbour)]>);

impl Neighbours {
    pub(super) fn get(&self, key: Key) -> Option<Neighbour> {
        self.0.binary_search_by_key(&key, |(k, _)| *k).ok().map(|at| self.0[at].1)
    }

    /// With this entry, and without the one that had to make room for it; true if there was one.
    pub(super) fn with(&self, key: Key, neighbour: Neighbour) -> (Self, bool) {
        let mut all = self.0.to_vec();
        match all.binary_search_by_key(&key, |(k, _)| *k) {
            Ok(at) => {
                all[at].1 = neighbour;
                return (Self(all.into()), false);
            }
            Err(at) => all.insert(at, (key, neighbour)),
        }
        let learnt = || all.iter().enumerate().filter(|(_, (k, n))| n.origin != Origin::Permanent && *k != key);
        let full = learnt().count() >= LEARNT_MAX && neighbour.origin != Origin::Permanent;
        let oldest = learnt().min_by_key(|(_, (_, n))| (n.origin, n.since)).map(|(at, _)| at);
        match oldest.filter(|_| full) {
            Some(at) => {
                all.remove(at);
                (Self(all.into()), true)
            }
            None => (Self(all.into()), false),
        }
    }

    /// Everything but those that `gone` names.
    pub(super) fn without(&self, gone: impl Fn(Key) -> bool) -> Self {
        Self(self.0.iter().filter(|(key, _)| !gone(*key)).copied().collect())
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// How many more strangers are taken in.
pub(super) struct Strangers {
    left: u32,
    counted: Instant,
}

impl Default for Strangers {
    fn default() -> Self {
        Self { left: STRANGERS_MAX, counted: Instant::ZERO }
    }
}

impl Strangers {
    /// Takes one in; false if too many came.
    pub(super) fn admit(&mut self, now: Instant) -> bool {
        let more = now.ns.saturating_sub(self.counted.ns) / STRANGER_INTERVAL.ns;
        if more > 0 {
            self.left = u32::try_from(more).unwrap_or(u32::MAX).saturating_add(self.left).min(STRANGERS_MAX);
            self.counted = now;
        }
        let admitted = self.left > 0;
        self.left -= u32::from(admitted);
        admitted
    }
}

#[cfg(test)]
mod tests;
