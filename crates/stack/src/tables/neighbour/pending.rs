//! Packets that wait for their neighbour to say where it is.
//!
//! | state | packet to it | answer arrives | no answer |
//! |---|---|---|---|
//! | unknown | held, a question is sent | - | - |
//! | asked | held behind the others; if they are too many bytes, the oldest are dropped and counted | *answered* | after a second asked again; after the third all that is held is dropped and counted |
//! | asked 3 times, the last >= 1 s ago | refused with EHOSTUNREACH; unknown again | *answered* | - |
//! | answered | held behind the others | - | - |
//!
//! *Answered*: what is held goes out in its order, and only when nothing is left is the neighbour known to everybody: so
//! no packet that comes later overtakes. What is still added after [`ROUNDS_MAX`] rounds is dropped and counted.
//!
//! Three questions a second apart are `mcast_solicit` and `retrans_time_ms` of `net/ipv4/arp.c arp_tbl`. The thread that makes
//! neighbours old asks again (`ageing`), so that one packet is enough to find a neighbour whose first answer was lost; a
//! packet that comes before it does the same.

use std::collections::{BTreeMap, VecDeque};

use napier_core::time::{Deadline, Instant, Span};

use crate::device::PacketClass;
use crate::tables::neighbour::Key;

/// Neighbours being asked for at one time. When one more comes, the one that was asked for first is given up.
pub(crate) const PENDING_MAX: usize = 1024;
/// Bytes held per neighbour: 101 full frames. Source: `unres_qlen_bytes`, `net/ipv4/arp.c arp_tbl.parms`
/// (`QUEUE_LEN_BYTES` = `SK_WMEM_DEFAULT`), kept as `net/core/neighbour.c __neigh_event_send` does.
pub(crate) const HELD_BYTES_MAX: usize = 212_992;
/// Bytes held for all neighbours together. The kernel has no such limit.
pub(crate) const HELD_ALL_BYTES_MAX: usize = 4 << 20;
/// What a packet is charged beyond its bytes. Source: `include/linux/skbuff.h SKB_TRUESIZE`: `struct sk_buff` and
/// `struct skb_shared_info`, in cache lines.
const OVERHEAD_BYTES: usize = 256 + 320;
/// Times that an answered question looks for packets that came meanwhile.
pub(crate) const ROUNDS_MAX: u32 = 64;
const PROBES_MAX: u32 = 3;
const PROBE_INTERVAL: Span = Span { ns: 1_000_000_000 };
/// A question that was not asked again for so long is forgotten with what it holds.
const ABANDONED: Span = Span { ns: 10_000_000_000 };

/// The questions that are out.
#[derive(Default)]
pub(crate) struct Pending {
    asked: BTreeMap<Key, Question>,
    /// By the order in which they were asked first.
    by_age: BTreeMap<u64, Key>,
    last_age: u64,
    /// Charged for all.
    bytes: usize,
}

struct Question {
    age: u64,
    held: VecDeque<HeldPacket>,
    bytes: usize,
    probes: u32,
    last: Instant,
    answered: bool,
}

/// A whole frame, complete but for its destination Ethernet address.
pub(crate) struct HeldPacket {
    pub(crate) frame: Vec<u8>,
    pub(crate) class: PacketClass,
}

impl HeldPacket {
    pub(crate) fn truesize(&self) -> usize {
        self.frame.len() + OVERHEAD_BYTES
    }
}

/// What to do with a packet whose neighbour is not known.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It is held. `probe`: ask now. `dropped`: older ones that had to go.
    Held { probe: bool, dropped: u64 },
    /// The neighbour does not answer; `dropped` counts those that were held, without this one.
    Unreachable { dropped: u64 },
}

/// What an answer meets.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// No question is out.
    NotAsked,
    /// The caller has to send what is held: [`Pending::take`] until there is nothing, then [`Pending::end`].
    First,
    /// Another thread is at it.
    Again,
}

impl Pending {
    /// Keeps a packet until its neighbour answers.
    pub(crate) fn hold(&mut self, key: Key, now: Instant, held: HeldPacket) -> Hold {
        let Some(asked) = self.asked.get_mut(&key) else {
            let dropped = self.make_place(now);
            self.last_age += 1;
            let age = self.last_age;
            self.by_age.insert(age, key);
            let held_of = VecDeque::new();
            self.asked.insert(key, Question { age, held: held_of, bytes: 0, probes: 1, last: now, answered: false });
            return Hold::Held { probe: true, dropped: dropped + self.push(key, held) };
        };
        let due = !asked.answered && now >= asked.last + PROBE_INTERVAL;
        if due && asked.probes == PROBES_MAX {
            return Hold::Unreachable { dropped: self.end(key) };
        }
        if due {
            asked.probes += 1;
            asked.last = now;
        }
        Hold::Held { probe: due, dropped: self.push(key, held) }
    }

    /// When [`age`](Self::age) has something to do.
    pub(crate) fn ends(&self) -> Deadline {
        let waits = |asked: &&Question| !asked.answered && (asked.probes < PROBES_MAX || !asked.held.is_empty());
        let ends = self.asked.values().filter(waits).map(|asked| Deadline::at(asked.last + PROBE_INTERVAL));
        ends.fold(Deadline::NEVER, Deadline::earliest)
    }

    /// Time has passed: those that are to be asked for again, and how many packets are given up because nothing was heard.
    pub(crate) fn age(&mut self, now: Instant) -> (Vec<Key>, u64) {
        let (mut again, mut dropped) = (Vec::new(), 0);
        for (key, asked) in &mut self.asked {
            if asked.answered || now < asked.last + PROBE_INTERVAL {
                continue;
            }
            if asked.probes < PROBES_MAX {
                asked.probes += 1;
                asked.last = now;
                again.push(*key);
            } else {
                // The next packet to it is refused, and the one after that begins anew.
                self.bytes -= std::mem::take(&mut asked.bytes);
                dropped += std::mem::take(&mut asked.held).len() as u64;
            }
        }
        (again, dropped)
    }

    /// Whether a question is out.
    pub(crate) fn is_asked(&self, key: Key) -> bool {
        self.asked.contains_key(&key)
    }

    /// An answer has come.
    pub(crate) fn answered(&mut self, key: Key) -> Answered {
        match self.asked.get_mut(&key) {
            None => Answered::NotAsked,
            Some(asked) if asked.answered => Answered::Again,
            Some(asked) => {
                asked.answered = true;
                Answered::First
            }
        }
    }

    /// What is held, in its order.
    pub(crate) fn take(&mut self, key: Key) -> VecDeque<HeldPacket> {
        let Some(asked) = self.asked.get_mut(&key) else { return VecDeque::new() };
        self.bytes -= std::mem::take(&mut asked.bytes);
        std::mem::take(&mut asked.held)
    }

    /// The question is settled, or given up. Gives the number of packets that were still held: they are lost.
    pub(crate) fn end(&mut self, key: Key) -> u64 {
        let Some(asked) = self.asked.remove(&key) else { return 0 };
        self.by_age.remove(&asked.age);
        self.bytes -= asked.bytes;
        asked.held.len() as u64
    }

    /// The device is gone; gives the number of packets that are lost with it.
    pub(crate) fn forget(&mut self, ifindex: u32) -> u64 {
        let keys: Vec<Key> = self.asked.keys().filter(|key| key.ifindex == ifindex).copied().collect();
        keys.into_iter().map(|key| self.end(key)).sum()
    }

    /// Room for one more question.
    fn make_place(&mut self, now: Instant) -> u64 {
        let mut dropped = 0;
        while let Some((_, &oldest)) = self.by_age.first_key_value() {
            let abandoned = now >= self.asked[&oldest].last + ABANDONED;
            if !abandoned && self.asked.len() < PENDING_MAX {
                break;
            }
            dropped += self.end(oldest);
        }
        dropped
    }

    /// Adds a packet and gives how many others had to go for it: the oldest of this neighbour, then all of the neighbours
    /// that were asked for first.
    fn push(&mut self, key: Key, held: HeldPacket) -> u64 {
        let size = held.truesize();
        let mut dropped = 0;
        let asked = self.asked.get_mut(&key).expect("the caller has asked");
        while asked.bytes + size > HELD_BYTES_MAX
            && let Some(oldest) = asked.held.pop_front()
        {
            asked.bytes -= oldest.truesize();
            self.bytes -= oldest.truesize();
            dropped += 1;
        }
        asked.held.push_back(held);
        asked.bytes += size;
        self.bytes += size;
        while self.bytes > HELD_ALL_BYTES_MAX
            && let Some(&oldest) = self.by_age.values().find(|other| **other != key)
        {
            dropped += self.end(oldest);
        }
        dropped
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
