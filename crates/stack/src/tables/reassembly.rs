//! Packets of which some fragments have come, by the rules of [`napier_core::fragments`].
//!
//! Fragments are copied: a frame that waited for others could be one of the last that its device has. What is whole is copied
//! once more, into a frame of an arena of the name space's own, and goes the way of every other packet from there on. Fragments are rare,
//! so this is where packets cost an allocation.
//!
//! One thread at a time works here. One that finds another leaves it its fragment ([`Owned`]) and goes on; what that makes
//! whole, the other delivers if it came by the same interface: else it is lost, as the caller would say it came by its own.
//!
//! | | bound | beyond it |
//! |---|---|---|
//! | bytes of packets that are not whole | [`HELD_BYTES_MAX`] | the oldest packet is given up |
//! | fragments left to one thread | [`LEFT_BYTES_MAX`] | lost, and the packet with them |
//! | time | [`expires_after`] | given up, by the thread that makes neighbours old (`ageing`) or with the next fragment |
//! | whole packets that no program has read | [`SMALL`], [`LARGE`] | lost |

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use napier_core::fragments::{Assembly, Brought, HELD_BYTES_MAX, expires_after};
use napier_core::time::{Deadline, Instant};
use napier_ring::{ArenaConfig, Frame, FramePool, FrameTable, Mapping, Owned, Release};

use crate::counters::{Counter, Counters};
use crate::wire::fragment::{Fragment, PacketKey, first_as_it_came, head, is_discovery, mend};

/// Frames for whole packets: how many, and bytes of each. Longer ones than the second are impossible.
const SMALL: (u32, usize) = (512, 4096 + 64);
const LARGE: (u32, usize) = (64, 65_536 + 128);
/// Bytes of fragments that wait for one thread.
const LEFT_BYTES_MAX: u64 = 256 << 10;
/// Packets given up whose senders are told, until the thread that tells them comes; of more no sender is told.
const OVERDUE_MAX: usize = 64;
/// What a fragment is charged beside its bytes. Source: `include/linux/skbuff.h SKB_TRUESIZE`.
const OVERHEAD_BYTES: usize = 576;

/// The packets that are not whole of one name space.
pub(crate) struct Reassembly {
    open: Owned<Open, Left>,
    /// When something may have waited too long, in ns; `u64::MAX`: never. Not later than that.
    ends: AtomicU64,
}

/// A fragment out of its frame.
struct Left {
    fragment: Fragment,
    /// Of the first: what stands before, and the next header's number.
    head: Option<(Vec<u8>, u8)>,
    bytes: Vec<u8>,
    now: Instant,
}

impl Left {
    fn charge(&self) -> usize {
        self.bytes.len() + OVERHEAD_BYTES
    }

    fn is_v4(&self) -> bool {
        self.fragment.key.src.is_v4()
    }
}

/// Packets that are not whole.
#[derive(Default)]
struct Open {
    packets: HashMap<PacketKey, Waiting>,
    /// Of each family, IPv4 first, by the order in which they were begun.
    by_age: [BTreeMap<u64, PacketKey>; 2],
    last_age: u64,
    /// Charged for all.
    bytes: usize,
    /// Whose senders are to be told.
    overdue: Vec<Overdue>,
    /// None before the first whole packet, or if there was no room for them.
    frames: Option<[FramePool; 2]>,
}

#[derive(Default)]
struct Waiting {
    age: u64,
    since: Instant,
    assembly: Assembly,
    first: Option<First>,
    bytes: Vec<u8>,
    charged: usize,
}

/// The first fragment of a packet.
struct First {
    /// What stands before it, and the next header's number.
    head: (Vec<u8>, u8),
    ecn: u8,
    len: usize,
    /// The interface that it came in by.
    ifindex: u32,
}

/// The beginning of a packet that was given up because the rest did not come: a frame, as it came in by an interface.
pub(crate) struct Overdue {
    pub(crate) ifindex: u32,
    pub(crate) frame: Vec<u8>,
}

/// What a family counts.
struct Names {
    reqds: Counter,
    oks: Counter,
    fails: Counter,
    timeout: Counter,
}

const fn names(v4: bool) -> Names {
    use Counter as C;
    if v4 {
        Names { reqds: C::IpReasmReqds, oks: C::IpReasmOks, fails: C::IpReasmFails, timeout: C::IpReasmTimeout }
    } else {
        Names { reqds: C::Ip6ReasmReqds, oks: C::Ip6ReasmOks, fails: C::Ip6ReasmFails, timeout: C::Ip6ReasmTimeout }
    }
}

impl Reassembly {
    pub(super) fn new() -> Self {
        Self { open: Owned::new(Open::default()), ends: AtomicU64::new(u64::MAX) }
    }

    /// When [`age`](Self::age) may have something to do.
    pub(crate) fn ends(&self) -> Deadline {
        // Relaxed: a hint; the alarm publishes it.
        Deadline::at(Instant { ns: self.ends.load(Ordering::Relaxed) })
    }

    /// Time has passed: gives up what has waited too long. Where a thread is at it, that sees to it. Gives what was given up and has begun, since the
    /// last call: their senders are to be told.
    pub(crate) fn age(&self, counters: &Counters, now: Instant) -> Vec<Overdue> {
        let Some(mut open) = self.open.try_own() else { return Vec::new() };
        open.expire(counters, now);
        self.note(&open);
        // What is left meanwhile lies there until the next fragment: this thread could not deliver it.
        std::mem::take(&mut open.overdue)
    }

    fn note(&self, open: &Open) {
        self.ends.store(open.ends().instant().map_or(u64::MAX, |at| at.ns), Ordering::Relaxed);
    }

    /// Takes a fragment of a frame, and gives what is whole by it, or by what others have left: frames and the lengths of
    /// the packets in them.
    #[cold]
    pub(crate) fn take(
        &self,
        frames: &Arc<FrameTable>,
        counters: &Counters,
        (frame, fragment): (&[u8], Fragment),
        now: Instant,
    ) -> Vec<(Frame, u32)> {
        let mut whole = Vec::new();
        let (v4, ifindex) = (fragment.key.src.is_v4(), fragment.ifindex);
        counters.count(names(v4).reqds);
        let from = fragment.at;
        let left = Left {
            head: (fragment.piece.at == 0).then(|| head(frame, &fragment)),
            bytes: frame[from..from + fragment.piece.len as usize].to_vec(),
            fragment,
            now,
        };
        let weight = left.charge() as u64;
        let mut owner = match self.open.post_weighed(left, weight, LEFT_BYTES_MAX) {
            Ok(Some(owner)) => owner,
            Ok(None) => return whole,
            Err(_) => {
                counters.count(names(v4).fails);
                return whole;
            }
        };
        let mut done = 0;
        loop {
            for left in owner.messages() {
                done += left.charge() as u64;
                let (v4, here) = (left.is_v4(), left.fragment.ifindex == ifindex);
                match owner.take(frames, counters, left) {
                    Some(made) if here => whole.push(made),
                    Some((frame, _)) => {
                        frames.give_back(frame);
                        counters.count(names(v4).fails);
                    }
                    None => {}
                }
            }
            self.note(&owner);
            match owner.release(std::mem::take(&mut done)) {
                Release::Noted(again) => owner = again,
                Release::Freed { .. } => return whole,
            }
        }
    }

    /// What `others` leave finds a thread at it.
    #[cfg(test)]
    pub(crate) fn with_owner(&self, others: impl FnOnce()) {
        let _owner = self.open.try_own().expect("no other thread is at it");
        others();
    }

    /// Packets that are not whole, and what is charged for them.
    #[cfg(test)]
    pub(crate) fn held(&self) -> (usize, usize) {
        let open = self.open.try_own().expect("no other thread is at it");
        (open.packets.len(), open.bytes)
    }
}

impl Open {
    fn take(&mut self, frames: &Arc<FrameTable>, counters: &Counters, left: Left) -> Option<(Frame, u32)> {
        self.expire(counters, left.now);
        let (v4, key) = (left.is_v4(), left.fragment.key);
        if left.fragment.is_whole() {
            // By itself: what else there is of the same number is of another packet.
            let mut alone = Waiting::default();
            return match alone.add(left) {
                Brought::Whole => self.finish(frames, counters, v4, alone),
                Brought::Kept | Brought::Again | Brought::Spoilt => {
                    counters.count(names(v4).fails);
                    None
                }
            };
        }
        let open = self.packets.entry(key).or_insert_with(|| {
            self.last_age += 1;
            self.by_age[usize::from(!v4)].insert(self.last_age, key);
            Waiting { age: self.last_age, since: left.now, ..Waiting::default() }
        });
        let before = open.bytes.capacity();
        let taken = open.add(left);
        // A piece far behind takes memory for what is to come before it.
        let charge = open.bytes.capacity() - before + OVERHEAD_BYTES;
        match taken {
            Brought::Again => None,
            Brought::Kept => {
                open.charged += charge;
                self.bytes += charge;
                while self.bytes > HELD_BYTES_MAX
                    && let Some(oldest) = self.oldest()
                {
                    self.close(oldest);
                    counters.count(names(oldest.src.is_v4()).fails);
                }
                None
            }
            Brought::Whole => {
                let whole = self.close(key)?;
                self.finish(frames, counters, v4, whole)
            }
            Brought::Spoilt => {
                self.close(key);
                counters.count(names(v4).fails);
                None
            }
        }
    }

    fn close(&mut self, key: PacketKey) -> Option<Waiting> {
        let waiting = self.packets.remove(&key)?;
        self.by_age[usize::from(!key.src.is_v4())].remove(&waiting.age);
        self.bytes -= waiting.charged;
        Some(waiting)
    }

    fn oldest(&self) -> Option<PacketKey> {
        let first = self.by_age.iter().filter_map(|ages| ages.first_key_value());
        first.min_by_key(|(age, _)| **age).map(|(_, key)| *key)
    }

    /// When the first of a family has waited too long, and which it is.
    fn first_end(&self, family: usize) -> Option<(Instant, PacketKey)> {
        let (_, key) = self.by_age[family].first_key_value()?;
        Some((self.packets[key].since + expires_after(family == 0), *key))
    }

    fn ends(&self) -> Deadline {
        let at = |family| self.first_end(family).map_or(Deadline::NEVER, |(at, _)| Deadline::at(at));
        at(0).earliest(at(1))
    }

    /// Gives up what has waited too long.
    fn expire(&mut self, counters: &Counters, now: Instant) {
        for family in [0, 1] {
            while let Some((_, key)) = self.first_end(family).filter(|(at, _)| now >= *at) {
                if let Some(waiting) = self.close(key)
                    && let Some(First { head, len, ifindex, .. }) = waiting.first
                    && self.overdue.len() < OVERDUE_MAX
                {
                    let frame = first_as_it_came((&head.0, head.1), key.id, &waiting.bytes[..len]);
                    self.overdue.push(Overdue { ifindex, frame });
                }
                counters.count(names(family == 0).timeout);
                counters.count(names(family == 0).fails);
            }
        }
    }

    /// Puts a whole packet into a frame.
    fn finish(
        &mut self,
        frames: &Arc<FrameTable>,
        counters: &Counters,
        v4: bool,
        whole: Waiting,
    ) -> Option<(Frame, u32)> {
        let made = self.build(frames, whole);
        counters.count(if made.is_some() { names(v4).oks } else { names(v4).fails });
        made
    }

    fn build(&mut self, frames: &Arc<FrameTable>, whole: Waiting) -> Option<(Frame, u32)> {
        let Waiting { assembly, first, bytes, .. } = whole;
        let First { head: (mut head, next), ecn, .. } = first?;
        let bytes = bytes.get(..assembly.bytes() as usize)?;
        if is_discovery(&head, next, bytes) || !mend(&mut head, next, assembly.bytes(), assembly.ecn(ecn)?) {
            return None;
        }
        let len = head.len() + bytes.len();
        if self.frames.is_none() {
            self.frames = Some([pool(frames, SMALL)?, pool(frames, LARGE)?]);
        }
        let [small, large] = self.frames.as_mut()?;
        let mut frame = if len <= SMALL.1 { small.alloc().or_else(|| large.alloc()) } else { large.alloc() }?;
        let room = &mut frames.data_mut(&mut frame)[..len];
        room[..head.len()].copy_from_slice(&head);
        room[head.len()..].copy_from_slice(bytes);
        Some((frame, u32::try_from(len).expect("as long as a packet")))
    }
}

impl Waiting {
    fn add(&mut self, left: Left) -> Brought {
        let Left { fragment, head, bytes, .. } = left;
        let taken = self.assembly.take(fragment.key.src.is_v4(), fragment.piece, fragment.ecn);
        if let Brought::Kept | Brought::Whole = taken {
            let at = fragment.piece.at as usize;
            // As much of it as the rule has taken.
            let bytes = &bytes[..if fragment.piece.more { bytes.len() & !7 } else { bytes.len() }];
            let end = at + bytes.len();
            if self.bytes.len() < end {
                self.bytes.resize(end, 0);
            }
            self.bytes[at..end].copy_from_slice(bytes);
            if let Some(head) = head {
                let Fragment { ecn, ifindex, .. } = fragment;
                self.first = Some(First { head, ecn, len: bytes.len(), ifindex });
            }
        }
        taken
    }
}

/// Frames for whole packets. They belong to the table for good, as those of a device.
fn pool(frames: &Arc<FrameTable>, (count, stride): (u32, usize)) -> Option<FramePool> {
    let mapping = Arc::new(Mapping::anonymous(stride * count as usize));
    let arena = ArenaConfig { mapping, offset: 0, stride, frames_per_home: count, homes: 1 };
    frames.add_arena(arena).ok().and_then(|(_, mut pools)| pools.pop())
}
