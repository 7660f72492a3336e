//! The bytes that a program sends, past the pair that is its socket: a ring for each connection in memory that its engine and a library in it share.
//!
//! The pair of Unix sockets stays, and is where bytes go whenever the ring cannot have them. So two ways lead to the engine, and it has to put
//! together in order what came by both:
//!
//! * the program's side puts bytes into the ring only if the engine has **taken all that went by the pair** ([`OutboxWord::Taken`] is what it has sent
//!   that way). What is in the pair is thus never older than what is in the ring;
//! * the engine's side empties the ring **before it hands on what it has received by the pair**, and says only then that it has taken that.
//!
//! So leaving the ring for good needs no word of the engine: the program's side sends by the pair from then on. Whatever else writes to the pair,
//! unknown to the library (a child, another program), makes the engine take more than the library has sent, and the two numbers never meet again.
//!
//! | the engine | the pair | the ring has room | bytes go by |
//! |---|---|---|---|
//! | sleeps, or has closed | - | - | the pair, which wakes it, or says that it is closed |
//! | is awake | has bytes | - | the pair |
//! | is awake | is empty | no | the pair |
//! | is awake | is empty | yes, but [`UNREAD_MAX`] writes lie in it of which nothing was taken | the pair |
//! | is awake | is empty | yes | the ring |
//!
//! An engine that is killed while it is awake can say nothing: the last but one row lets the pair tell of its end.
//!
//! An engine that is about to sleep says so, and looks once more; a program that has put bytes into a ring looks whether it sleeps, and calls it then.
//! Either sees the other, for both have a full fence between.
//!
//! This file is part of `ring` and of the library in the program (`crates/preload/sockets`), which has its own `sync`.

use super::sync::{Ordering, Point, full_fence, order};

/// Connections that have a ring, of one process.
pub const OUTBOXES: usize = 256;
/// Bytes of a ring, a power of two.
pub const OUTBOX_BYTES: usize = 16 << 10;
/// Bytes of the memory of one process: a page of words of all, the words of each connection, and the rings.
pub const OUTBOXES_BYTES: usize = RINGS_AT + OUTBOXES * OUTBOX_BYTES;
/// Writes that are put into a ring while the engine takes nothing out of it.
pub const UNREAD_MAX: u32 = 8;
/// Words that say which rings have news, of 32 bits each.
pub const NEWS_WORDS: usize = OUTBOXES / 32;

const NEWS_AT: usize = 64;
const LINES_AT: usize = 4096;
/// A cache line that the program writes, and one that the engine writes.
const LINE_BYTES: usize = 64;
const RINGS_AT: usize = LINES_AT + OUTBOXES * 2 * LINE_BYTES;
const MASK: u32 = OUTBOX_BYTES as u32 - 1;

/// What the library asks its engine for: `getsockopt` of a level that no protocol has, which is held as all are.
pub const LIBRARY_LEVEL: i32 = 0x4e41_5053;
/// The memory of this process: its descriptor is what the call returns.
pub const ASK_MEMORY: i32 = 1;
/// A ring for this connection: the value's pointer is the number of the memory, the length's is that of the ring.
pub const ASK_RING: i32 = 2;
/// To look at the rings.
pub const ASK_LOOK: i32 = 3;

/// Why the library has left a ring for good, by [`OutboxWord::Left`] less one.
pub const REASONS: [&str; 9] = [
    "fork",
    "dup",
    "SCM_RIGHTS",
    "syscall",
    "fdopen",
    "posix_spawn",
    "flag or control data",
    "two threads at once",
    "dprintf",
];

/// A word of that memory.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum OutboxWord {
    /// 1: the engine sleeps, or is about to. The engine writes it.
    Asleep,
    /// The number of this memory. The engine writes it once.
    Number,
    /// Rings with news, one bit each. The program sets bits, the engine takes them.
    News(usize),
    /// Of a ring: bytes that were put in, wrapping. The program writes it.
    Head(usize),
    /// Of a ring: 0, or why the library has left it, see [`REASONS`]. The program writes it.
    Left(usize),
    /// Of a ring: bytes that were taken out, wrapping. The engine writes it, as all that follow.
    Tail(usize),
    /// Of a connection: bytes that were taken from the pair since it has the ring, wrapping.
    Taken(usize),
    /// 1: no connection has this ring.
    Closed(usize),
}

impl OutboxWord {
    /// Where it lies.
    #[must_use]
    pub const fn offset(self) -> usize {
        match self {
            Self::Asleep => 0,
            Self::Number => 4,
            Self::News(at) => NEWS_AT + (at % NEWS_WORDS) * 4,
            Self::Head(ring) => line(ring, 0),
            Self::Left(ring) => line(ring, 0) + 4,
            Self::Tail(ring) => line(ring, 1),
            Self::Taken(ring) => line(ring, 1) + 4,
            Self::Closed(ring) => line(ring, 1) + 8,
        }
    }
}

/// One of the two lines of a ring's words.
const fn line(ring: usize, of: usize) -> usize {
    LINES_AT + (2 * (ring % OUTBOXES) + of) * LINE_BYTES
}

/// Where a byte of a ring lies.
#[must_use]
pub const fn byte_offset(ring: usize, at: usize) -> usize {
    RINGS_AT + (ring % OUTBOXES) * OUTBOX_BYTES + at % OUTBOX_BYTES
}

/// The memory, wherever its words live.
pub trait OutboxMemory {
    /// Reads a word.
    fn load(&self, word: OutboxWord, order: Ordering) -> u32;
    /// Writes one.
    fn store(&self, word: OutboxWord, value: u32, order: Ordering);
    /// Sets bits of one.
    fn set(&self, word: OutboxWord, bits: u32, order: Ordering);
    /// Its value, in whose place is 0 now.
    fn take(&self, word: OutboxWord, order: Ordering) -> u32;
    /// Writes to a ring, from `at` on; the bytes end before the ring does.
    fn write(&self, ring: usize, at: usize, bytes: &[u8]);
    /// Reads from a ring, in the same way.
    fn read(&self, ring: usize, at: usize, into: &mut [u8]);
}

/// Which way bytes go.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum OutboxWay {
    /// Through the ring.
    Ring,
    /// Through the pair.
    Pair,
}

/// What the program's side has seen before it sends.
#[derive(Copy, Clone, Debug)]
pub struct SeenOutbox {
    /// The engine sleeps.
    pub is_asleep: bool,
    /// No connection has the ring any more.
    pub is_closed: bool,
    /// Bytes are in the pair, as far as the program's side knows.
    pub is_behind: bool,
    /// The engine has taken nothing out of the ring for [`UNREAD_MAX`] writes.
    pub is_unread: bool,
    /// Bytes that the ring has room for.
    pub free: u32,
}

impl SeenOutbox {
    /// The table at the head of this file.
    pub const fn way(self, bytes: usize) -> OutboxWay {
        let Self { is_asleep, is_closed, is_behind, is_unread, free } = self;
        let is_by_pair = is_asleep || is_closed || is_behind || is_unread || bytes > free as usize;
        if is_by_pair { OutboxWay::Pair } else { OutboxWay::Ring }
    }
}

/// The program's side of a connection's ring.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct OutboxSender {
    ring: usize,
    head: u32,
    by_pair: u32,
    /// The tail that was seen last, and writes that were put in since it moved.
    tail: u32,
    unread: u32,
}

impl OutboxSender {
    /// Of a ring that the engine has just given.
    pub fn new(memory: &impl OutboxMemory, ring: usize) -> Self {
        memory.store(OutboxWord::Left(ring), 0, Ordering::Relaxed);
        // Relaxed: it is this side's own word.
        let head = memory.load(OutboxWord::Head(ring), Ordering::Relaxed);
        Self { ring, head, by_pair: 0, tail: head, unread: 0 }
    }

    /// Which way so many bytes go. If by the pair, [`sent_by_pair`](Self::sent_by_pair) is told how many went.
    pub fn way(&mut self, memory: &impl OutboxMemory, bytes: usize) -> OutboxWay {
        let is = |word, value| memory.load(word, Ordering::Relaxed) == value;
        // Acquire: pairs with the Release of `receive`, so the bytes there were read before they are written over.
        let tail = memory.load(OutboxWord::Tail(self.ring), order(Point::OutboxTail, Ordering::Acquire));
        if tail != self.tail {
            (self.tail, self.unread) = (tail, 0);
        }
        let filled = self.head.wrapping_sub(tail);
        let seen = SeenOutbox {
            is_asleep: !is(OutboxWord::Asleep, 0),
            is_closed: !is(OutboxWord::Closed(self.ring), 0),
            is_behind: !is(OutboxWord::Taken(self.ring), self.by_pair),
            is_unread: self.unread >= UNREAD_MAX,
            free: (OUTBOX_BYTES as u32).saturating_sub(filled),
        };
        seen.way(bytes)
    }

    /// Puts bytes into the ring that [`way`](Self::way) has said there is room for. True: the engine may sleep, and has to be called
    /// ([`ASK_LOOK`]).
    #[must_use = "true means that the engine has to be called"]
    pub fn put<'b>(&mut self, memory: &impl OutboxMemory, parts: impl Iterator<Item = &'b [u8]>) -> bool {
        let mut head = self.head;
        for part in parts {
            let at = (head & MASK) as usize;
            let (first, rest) = part.split_at(part.len().min(OUTBOX_BYTES - at));
            memory.write(self.ring, at, first);
            memory.write(self.ring, 0, rest);
            head = head.wrapping_add(part.len() as u32);
        }
        self.head = head;
        self.unread = self.unread.saturating_add(1);
        // Release: pairs with the Acquire of `filled`.
        memory.store(OutboxWord::Head(self.ring), head, order(Point::OutboxHead, Ordering::Release));
        self.tell(memory)
    }

    /// So many bytes went by the pair.
    pub fn sent_by_pair(&mut self, bytes: u32) {
        self.by_pair = self.by_pair.wrapping_add(bytes);
    }

    /// The ring is used no more, for this reason of [`REASONS`].
    pub fn leave(self, memory: &impl OutboxMemory, reason: usize) {
        memory.store(OutboxWord::Left(self.ring), reason as u32 + 1, Ordering::Relaxed);
        // What sleeps hears of it later: nothing waits for it.
        let _ = self.tell(memory);
    }

    fn tell(&self, memory: &impl OutboxMemory) -> bool {
        // Release: pairs with the Acquire of `news`.
        memory.set(OutboxWord::News(self.ring / 32), 1 << (self.ring % 32), Ordering::Release);
        // Pairs with the fence in `may_sleep`: either that look sees the bit, or this one that the engine sleeps.
        full_fence(Point::OutboxTell);
        memory.load(OutboxWord::Asleep, Ordering::Relaxed) != 0
    }
}

/// The program's side says that it has put more into a ring than there is room for, or taken some back.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct BadOutbox;

/// The engine's side of a connection's ring. It trusts nothing there but what it has written itself, and that it keeps.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OutboxReceiver {
    ring: usize,
    tail: u32,
    taken: u32,
}

impl OutboxReceiver {
    /// Gives a ring to a connection, in whose pair so many bytes are that the program has sent before.
    pub fn new(memory: &impl OutboxMemory, ring: usize, unread: u32) -> Self {
        // Relaxed, all: the program's side looks at them when its call has returned.
        let tail = memory.load(OutboxWord::Head(ring), Ordering::Relaxed);
        let taken = unread.wrapping_neg();
        memory.store(OutboxWord::Tail(ring), tail, Ordering::Relaxed);
        memory.store(OutboxWord::Taken(ring), taken, Ordering::Relaxed);
        memory.store(OutboxWord::Closed(ring), 0, Ordering::Relaxed);
        Self { ring, tail, taken }
    }

    /// Bytes that are in the ring.
    ///
    /// # Errors
    /// [`BadOutbox`].
    pub fn filled(&self, memory: &impl OutboxMemory) -> Result<usize, BadOutbox> {
        // Acquire: pairs with the Release of `put`.
        let head = memory.load(OutboxWord::Head(self.ring), order(Point::OutboxLook, Ordering::Acquire));
        let filled = head.wrapping_sub(self.tail) as usize;
        if filled > OUTBOX_BYTES { Err(BadOutbox) } else { Ok(filled) }
    }

    /// Takes bytes out of the ring, as many as there are and there is room for; how many.
    ///
    /// # Errors
    /// [`BadOutbox`].
    pub fn receive(&mut self, memory: &impl OutboxMemory, into: &mut [u8]) -> Result<usize, BadOutbox> {
        let count = self.filled(memory)?.min(into.len());
        if count == 0 {
            return Ok(0);
        }
        let at = (self.tail & MASK) as usize;
        let (first, rest) = into[..count].split_at_mut(count.min(OUTBOX_BYTES - at));
        memory.read(self.ring, at, first);
        memory.read(self.ring, 0, rest);
        self.tail = self.tail.wrapping_add(count as u32);
        // Release: pairs with the Acquire of `way`.
        memory.store(OutboxWord::Tail(self.ring), self.tail, order(Point::OutboxTailStore, Ordering::Release));
        Ok(count)
    }

    /// So many bytes were received by the pair, and all that the ring had then is before them.
    pub fn took_from_pair(&mut self, memory: &impl OutboxMemory, bytes: u32) {
        self.taken = self.taken.wrapping_add(bytes);
        // Relaxed: what the program's side puts into the ring because of it, this side reads later than what it has received before.
        memory.store(OutboxWord::Taken(self.ring), self.taken, Ordering::Relaxed);
    }

    /// Why the library has left the ring, if it has: a name of [`REASONS`].
    #[must_use]
    pub fn left(&self, memory: &impl OutboxMemory) -> Option<&'static str> {
        let said = memory.load(OutboxWord::Left(self.ring), Ordering::Relaxed) as usize;
        (said > 0).then(|| REASONS.get(said - 1).copied().unwrap_or("others"))
    }

    /// The connection has ended: another one may have the ring.
    pub fn close(self, memory: &impl OutboxMemory) {
        memory.store(OutboxWord::Closed(self.ring), 1, Ordering::Relaxed);
    }
}

/// Says that the engine is about to sleep; false: a ring has news, so it does not.
#[must_use = "false means that there are news"]
pub fn may_sleep(memory: &impl OutboxMemory) -> bool {
    memory.store(OutboxWord::Asleep, 1, Ordering::Relaxed);
    // Pairs with the fence in `tell`.
    full_fence(Point::OutboxSleep);
    (0..NEWS_WORDS).all(|at| memory.load(OutboxWord::News(at), Ordering::Relaxed) == 0)
}

/// The engine is awake.
pub fn is_awake(memory: &impl OutboxMemory) {
    memory.store(OutboxWord::Asleep, 0, Ordering::Relaxed);
}

/// Takes the rings that have news, of a word of them: one bit each.
#[must_use]
pub fn news(memory: &impl OutboxMemory, at: usize) -> u32 {
    // Relaxed look first: most of the time there are none.
    if memory.load(OutboxWord::News(at), Ordering::Relaxed) == 0 {
        return 0;
    }
    // Acquire: pairs with the Release of `tell`, so the bytes are there that the bit stands for.
    memory.take(OutboxWord::News(at), Ordering::Acquire)
}
