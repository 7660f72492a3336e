//! Neighbours: which Ethernet address an on-link IP address has, and when the stack believes it.
//!
//! The table is immutable and sorted; a writer copies it. What is believed, and for how long, is in
//! [`napier_core::neighbour`]; a thread of the name space (`ageing`) carries it out. A thread that works out a path says so if
//! it uses a stale neighbour, and an entry that becomes stale makes paths to be worked out again: so no packet looks at
//! an entry or at a clock.
//!
//! | news | known? | what happens |
//! |---|---|---|
//! | an answer that we asked for | no | learnt, *confirmed*; what waited for it goes out (see `pending`) |
//! | an answer to no question | no | ignored (`arp_accept` = 0) |
//! | a station asks us, and says where it is | no | learnt, unconfirmed; of many unsolicited ones at once only some |
//! | another Ethernet address | yes | the core's table, and at most [`MOVES_MAX`] changes at once |
//! | any | permanent | ignored |
//!
//! A table that is full forgets the oldest unconfirmed entry, and if there is none the oldest confirmed one. So forged
//! requests push out each other, and a neighbour that was forgotten is asked for with the next packet to it.
//! FORBIDDEN: learnt -> asked.

use std::sync::Arc;

use napier_core::neighbour::{Force, Known, LOCKTIME, News, Nud, Word};
use napier_core::time::{Deadline, Instant, Span};

use crate::wire::addr::Addr;

mod pending;

pub(crate) use pending::{Answered, HeldPacket, Hold, Pending, ROUNDS_MAX};

/// Learnt entries per name space. Source: `net/ipv4/arp.c arp_tbl.gc_thresh3`.
pub(crate) const LEARNT_MAX: usize = 1024;
/// Unsolicited neighbours that are learnt at once, and how long it takes until one more may. Each costs a copy of the
/// table, and makes the paths that sockets remember stale.
const UNSOLICITED_MAX: u32 = 256;
/// The same for changes of what is known: each may be forged, and costs as much.
pub(crate) const MOVES_MAX: u32 = 256;
const INTERVAL: Span = Span { ns: 10_000_000 };

/// A neighbour is looked up by device and address: link-local addresses repeat from link to link.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) ifindex: u32,
    pub(crate) addr: Addr,
}

impl Key {
    /// Any number. When an answer was good for long enough need not be a secret, only spread.
    fn draw(&self, now: Instant) -> u64 {
        let (high, low) = self.addr.words();
        (high ^ low ^ now.ns).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
    }

    /// What is believed of a neighbour that has acknowledged what went to `mac`, if that changes.
    pub(crate) fn confirmed(&self, known: Option<Neighbour>, mac: [u8; 6], now: Instant) -> Option<Neighbour> {
        let known = known.filter(|known| known.mac == mac)?;
        let nud = known.nud.confirmed(now, self.draw(now))?;
        Some(Neighbour { nud, ..known })
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) mac: [u8; 6],
    pub(crate) origin: Origin,
    /// When it got this address.
    pub(crate) since: Instant,
    pub(crate) nud: Nud,
}

/// Why a neighbour is known. In the order in which entries are kept.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// It asked for us.
    Unsolicited,
    /// It answered a question of ours.
    Confirmed,
    /// The user says so.
    Permanent,
}

impl Neighbour {
    /// One that the user names.
    pub(crate) fn permanent(mac: [u8; 6], since: Instant) -> Self {
        Self { mac, origin: Origin::Permanent, since, nud: Nud::Permanent }
    }

    /// What it leads to that this neighbour, or one that is not known, has said where it is. `asked`: a question of ours for
    /// one that is not known is out.
    pub(crate) fn hear(
        known: Option<Self>,
        mac: [u8; 6],
        (word, force): (Word, Force),
        asked: bool,
        (now, draw): (Instant, u64),
    ) -> News {
        // Of several that answer the first is kept, for a while (`net/ipv4/arp.c arp_process`).
        let locked = known.is_some_and(|known| now < known.since + LOCKTIME);
        let force = if force == Force::Weak && !locked { Force::Overrides } else { force };
        let known = known.map(|known| Known { nud: known.nud, same: known.mac == mac });
        Nud::heard(word, force, known, asked, (now, draw))
    }
}

/// A neighbour has said where it is.
#[derive(Copy, Clone)]
pub(crate) struct Said {
    pub(crate) key: Key,
    pub(crate) mac: [u8; 6],
    pub(crate) word: Word,
    pub(crate) force: Force,
}

impl Said {
    pub(crate) fn news(&self, known: Option<Neighbour>, asked: bool, now: Instant) -> News {
        let Self { mac, word, force, key } = *self;
        Neighbour::hear(known, mac, (word, force), asked, (now, key.draw(now)))
    }
}

/// The known neighbours of one moment.
#[derive(Clone, Default)]
pub(crate) struct Neighbours(Arc<[(Key, Neighbour)]>);

impl Neighbours {
    pub(crate) fn get(&self, key: Key) -> Option<Neighbour> {
        self.0.binary_search_by_key(&key, |(k, _)| *k).ok().map(|at| self.0[at].1)
    }

    /// With this entry, and without the one that had to make room for it; true if there was one.
    pub(crate) fn with(&self, key: Key, neighbour: Neighbour) -> (Self, bool) {
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
    pub(crate) fn without(&self, gone: impl Fn(Key) -> bool) -> Self {
        Self(self.0.iter().filter(|(key, _)| !gone(*key)).copied().collect())
    }

    /// Everything, each as `change` says; without those of which it says `None`.
    pub(crate) fn changed(&self, change: impl Fn(&Neighbour) -> Option<Neighbour>) -> Self {
        Self(self.0.iter().filter_map(|(key, neighbour)| Some((*key, change(neighbour)?))).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Key, Neighbour)> {
        self.0.iter()
    }

    /// When something of what is believed ends next.
    pub(crate) fn ends(&self) -> Deadline {
        self.0.iter().fold(Deadline::NEVER, |first, (_, neighbour)| first.earliest(neighbour.nud.ends()))
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// How much more is taken in of what others could send without end.
pub(crate) struct Allowance {
    left: u32,
    max: u32,
    counted: Instant,
}

impl Allowance {
    /// At most `max` at once, and then one in each interval.
    pub(crate) fn new(max: u32) -> Self {
        Self { left: max, max, counted: Instant::ZERO }
    }

    /// For those who introduce themselves.
    pub(crate) fn unsolicited() -> Self {
        Self::new(UNSOLICITED_MAX)
    }

    /// Takes one in; false if too many came.
    pub(crate) fn admit(&mut self, now: Instant) -> bool {
        let more = now.ns.saturating_sub(self.counted.ns) / INTERVAL.ns;
        if more > 0 {
            self.left = u32::try_from(more).unwrap_or(u32::MAX).saturating_add(self.left).min(self.max);
            self.counted = now;
        }
        let admitted = self.left > 0;
        self.left -= u32::from(admitted);
        admitted
    }
}

#[cfg(test)]
mod tests;
