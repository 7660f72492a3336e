//! The name space's writers: one at a time, and what others leave to it.
//!
//! | who | finds it free | finds it taken |
//! |---|---|---|
//! | a program (bind, connect, close, a device, a neighbour) | writes | waits |
//! | a thread that works for others (`nowait`): a neighbour has spoken, or is not known | writes | leaves a [`Note`]; beyond [`LEFT_BYTES_MAX`] it is lost and counted |
//!
//! The writer works notes off before it lets go, in their order. What has to be sent for them is sent afterwards: a device
//! may have others poll, who have news for the writer as well.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::ops::{Deref, DerefMut};

use napier_core::time::Deadline;
use napier_ring::{Owned, Owner, Release};
use napier_sys::clock::Clock;
use napier_sys::nowait;

use crate::counters::Counter;
use crate::tables::Tables;
use crate::tables::neighbour::{Allowance, HeldPacket, Key, MOVES_MAX, Neighbour, Pending, Said};
use crate::tables::path_mtu::PathMtu;
use crate::tables::registry::Registry;
use crate::wait::park::Parker;
use crate::wire::addr::Addr;

/// Bytes of the notes that wait for one writer.
pub(crate) const LEFT_BYTES_MAX: u64 = 1 << 20;
/// What a note is charged beside a packet.
const NOTE_BYTES: u64 = 256;
/// Looks at a writer before the waiter sleeps.
const SPINS: u32 = 100;

/// What only writers need.
pub(crate) struct Writer {
    /// By protocol number.
    ports: HashMap<u8, Registry>,
    pub(crate) pending: Pending,
    pub(crate) unsolicited: Allowance,
    /// Changes of neighbours' addresses, and of paths' MTUs, that are taken in.
    pub(crate) moves: Allowance,
    pub(crate) paths: Allowance,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            ports: HashMap::new(),
            pending: Pending::default(),
            unsolicited: Allowance::unsolicited(),
            moves: Allowance::new(MOVES_MAX),
            paths: Allowance::new(MOVES_MAX),
        }
    }
}

impl Writer {
    /// The ports of a protocol, by its number in the IP header.
    pub(crate) fn ports(&mut self, protocol: u8) -> &mut Registry {
        self.ports.entry(protocol).or_default()
    }
}

/// Something for the writer to do.
pub(crate) enum Note {
    /// A neighbour has said where it is.
    Heard(Said),
    /// A path goes by a neighbour that may not be there any more.
    Used(Key),
    /// A neighbour has acknowledged what went to this Ethernet address.
    Confirmed(Key, [u8; 6]),
    /// Something of what is believed of neighbours has ended.
    Age,
    /// A router on the way to this address takes no longer packets.
    Lower(Addr, PathMtu),
    /// A packet for a neighbour that was not known.
    Hold(Key, HeldPacket),
    /// What was held for a neighbour has been sent: the round that follows.
    Settle(Key, Neighbour, u32),
}

impl Note {
    fn weight(&self) -> u64 {
        match self {
            Self::Heard(_) | Self::Used(_) | Self::Confirmed(..) | Self::Age | Self::Lower(..) | Self::Settle(..) => {
                NOTE_BYTES
            }
            Self::Hold(_, held) => NOTE_BYTES + held.truesize() as u64,
        }
    }
}

/// Something to do when nothing is written any more.
pub(crate) enum After {
    /// Asks for a neighbour: all, or this station.
    Probe(Key, Option<[u8; 6]>),
    /// Sends a packet whose neighbour is known now.
    Send(Key, [u8; 6], HeldPacket),
    /// Sends what was held for a neighbour, and goes on with this round.
    Settle(Key, Neighbour, VecDeque<HeldPacket>, u32),
}

/// The writers' lock.
pub(crate) struct Writers {
    writer: Owned<Writer, Note>,
    /// Wakes programs that wait until no thread writes.
    free: Parker,
}

impl Writers {
    pub(crate) fn new() -> Self {
        Self { writer: Owned::new(Writer::default()), free: Parker::new() }
    }

    #[cold]
    fn wait(&self, clock: &Clock) -> Owner<'_, Writer, Note> {
        for _ in 0..SPINS {
            std::hint::spin_loop();
            if let Some(owner) = (!self.writer.is_owned()).then(|| self.writer.try_own()).flatten() {
                return owner;
            }
        }
        let found = Cell::new(None);
        let look = || {
            let owner = found.take().or_else(|| self.writer.own_or_note());
            let got = owner.is_some();
            found.set(owner);
            got
        };
        self.writer.wait_begins();
        self.free.sleep(look, Deadline::NEVER, clock);
        self.writer.wait_ends();
        // The next one is woken when this one lets go.
        self.free.hand_on(|| false);
        found.take().expect("a sleep without deadline ends when there is something")
    }
}

/// The writers' lock, held. A drop works off what others have left, and then does what follows from it.
#[must_use = "the lock is free again as soon as this is dropped"]
pub(crate) struct Writing<'a> {
    pub(crate) ns: &'a Tables,
    /// Gone only while it is dropped.
    owner: Option<Owner<'a, Writer, Note>>,
    /// Notes taken in that are not worked off, oldest first.
    notes: VecDeque<Note>,
    /// What the notes weigh that were taken in.
    weight: u64,
    pub(crate) after: VecDeque<After>,
}

impl Tables {
    /// The writers' lock; waits for the writer. For programs. A panic of a writer does not matter: it changes the
    /// registry and the snapshot in a fixed order, and our own asserts are the only panics in between.
    pub(crate) fn lock(&self) -> Writing<'_> {
        let writers = &self.writers;
        Writing::new(self, writers.writer.try_own().unwrap_or_else(|| writers.wait(&Clock)))
    }

    /// The writers' lock, or none: what `note` says is left to the writer. Programs wait.
    pub(crate) fn lock_or_leave(&self, note: impl FnOnce() -> Note) -> Option<Writing<'_>> {
        if let Some(owner) = self.writers.writer.try_own() {
            return Some(Writing::new(self, owner));
        }
        if nowait::may_wait() {
            return Some(self.lock());
        }
        let note = note();
        let weight = note.weight();
        let max = match &note {
            // One for each question that is out, so there are not many; what was asked for must be settled.
            Note::Settle(..) => u64::MAX >> 1,
            Note::Heard(_) | Note::Used(_) | Note::Confirmed(..) | Note::Age | Note::Lower(..) | Note::Hold(..) => {
                LEFT_BYTES_MAX
            }
        };
        match self.writers.writer.post_weighed(note, weight, max) {
            Ok(None) => {}
            // Free by now. Its drop works off the note.
            Ok(Some(owner)) => Writing::new(self, owner).work_off(),
            Err(lost) => match lost.0 {
                Note::Hold(..) => self.counters.count(Counter::NeighUnresolvedDiscards),
                Note::Heard(_) | Note::Settle(..) => self.counters.count(Counter::NeighTableFulls),
                // Comes again: with the next path, tick or packet that is too long. One that is not confirmed is asked.
                Note::Used(_) | Note::Confirmed(..) | Note::Age | Note::Lower(..) => {}
            },
        }
        None
    }

    /// Whether all that may be left for a writer could be.
    #[cfg(test)]
    pub(crate) fn writers_have_room(&self) -> bool {
        let room = self.writers.writer.reserve(LEFT_BYTES_MAX, LEFT_BYTES_MAX);
        if room {
            self.writers.writer.unreserve(LEFT_BYTES_MAX);
        }
        room
    }

    /// Sends what writers had to leave until they let go.
    #[cold]
    fn do_after(&self, mut after: VecDeque<After>) {
        while let Some(next) = after.pop_front() {
            match next {
                After::Probe(key, at) => self.probe(key, at),
                After::Send(key, mac, held) => self.send_held(key, mac, &held),
                After::Settle(key, neighbour, held, round) => {
                    held.iter().for_each(|held| self.send_held(key, neighbour.mac, held));
                    if let Some(mut writing) = self.lock_or_leave(|| Note::Settle(key, neighbour, round)) {
                        writing.settle(key, neighbour, round);
                        after.append(&mut writing.let_go());
                    }
                }
            }
        }
    }
}

impl<'a> Writing<'a> {
    fn new(ns: &'a Tables, owner: Owner<'a, Writer, Note>) -> Self {
        Self { ns, owner: Some(owner), notes: VecDeque::new(), weight: 0, after: VecDeque::new() }
    }

    /// Takes in what was left so far.
    fn take_in(&mut self) {
        for note in self.owner.as_ref().expect("there until the drop").messages() {
            self.weight += note.weight();
            self.notes.push_back(note);
        }
    }

    /// Takes out the packets for a neighbour that were left so far; other notes keep their order.
    pub(crate) fn left_for(&mut self, key: Key) -> Vec<HeldPacket> {
        self.take_in();
        let mut held = Vec::new();
        if !self.notes.iter().any(|note| matches!(note, Note::Hold(to, _) if *to == key)) {
            return held;
        }
        for note in std::mem::take(&mut self.notes) {
            match note {
                Note::Hold(to, packet) if to == key => held.push(packet),
                other => self.notes.push_back(other),
            }
        }
        held
    }

    /// Works off what was left so far.
    #[cold]
    fn work_off(&mut self) {
        self.take_in();
        while let Some(note) = self.notes.pop_front() {
            match note {
                Note::Heard(said) => self.heard(said),
                Note::Used(key) => self.used(key),
                Note::Confirmed(key, mac) => self.confirmed(key, mac),
                Note::Age => self.age(Clock.now()),
                Note::Lower(dst, path) => self.lower(dst, path),
                // Nobody hears whether the neighbour can be reached; the next packet asks again.
                Note::Hold(key, held) => _ = self.hold(key, held),
                Note::Settle(key, neighbour, round) => self.settle(key, neighbour, round),
            }
        }
    }

    /// What was left is lost with a writer that panics, and counted. What an answer has begun ends.
    #[cold]
    fn discard(&mut self) {
        self.take_in();
        while let Some(note) = self.notes.pop_front() {
            let counters = &self.ns.counters;
            match note {
                Note::Hold(..) => counters.count(Counter::NeighUnresolvedDiscards),
                Note::Heard(_) => counters.count(Counter::NeighTableFulls),
                Note::Used(_) | Note::Confirmed(..) | Note::Age | Note::Lower(..) => {}
                Note::Settle(key, ..) => {
                    let late = self.pending.end(key);
                    self.ns.counters.add(Counter::NeighUnresolvedDiscards, late);
                }
            }
        }
    }

    /// Lets go, after what others have left. Gives what is to be done then.
    fn let_go(&mut self) -> VecDeque<After> {
        loop {
            if std::thread::panicking() {
                self.discard();
            } else if !self.notes.is_empty() {
                self.work_off();
            }
            let Some(owner) = self.owner.take() else { break };
            match owner.release(self.weight) {
                Release::Freed { wake } => {
                    if wake {
                        self.ns.writers.free.wake();
                    }
                    break;
                }
                Release::Noted(again) => {
                    self.owner = Some(again);
                    self.take_in();
                }
            }
        }
        std::mem::take(&mut self.after)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let after = self.let_go();
        if !after.is_empty() {
            self.ns.do_after(after);
        }
    }
}

impl Deref for Writing<'_> {
    type Target = Writer;

    fn deref(&self) -> &Writer {
        self.owner.as_ref().expect("there until the drop")
    }
}

impl DerefMut for Writing<'_> {
    fn deref_mut(&mut self) -> &mut Writer {
        self.owner.as_mut().expect("there until the drop")
    }
}
