//! The memory of [`outbox`](crate::outbox) in a mapping, as the engine has it, and a connection's ring there.

use std::sync::Arc;

use crate::Mapping;
use crate::memory::copy;
use crate::outbox::{
    self, BadOutbox, NEWS_WORDS, OUTBOX_BYTES, OUTBOXES, OUTBOXES_BYTES, OutboxMemory, OutboxReceiver, OutboxWord,
    byte_offset,
};
use crate::sync::MappedU32;
use core::sync::atomic::Ordering;

/// The rings of one process.
#[derive(Debug)]
pub struct Outboxes {
    mapping: Mapping,
    number: u32,
}

impl Outboxes {
    /// Bytes that it needs.
    pub const BYTES: usize = OUTBOXES_BYTES;

    /// In zeroed memory that is shared with a process, which knows it by this number. No connection has a ring yet.
    ///
    /// # Panics
    /// If the memory is shorter than [`BYTES`](Self::BYTES).
    #[must_use]
    pub fn new(mapping: Mapping, number: u32) -> Self {
        assert!(mapping.len() >= Self::BYTES, "the memory has room for all rings");
        let made = Self { mapping, number };
        made.store(OutboxWord::Number, number, Ordering::Relaxed);
        for ring in 0..OUTBOXES {
            made.store(OutboxWord::Closed(ring), 1, Ordering::Relaxed);
        }
        made
    }

    /// By which the process knows it.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Says that the engine is about to sleep; false: a ring has news, so it does not.
    #[must_use = "false means that there are news"]
    pub fn may_sleep(&self) -> bool {
        outbox::may_sleep(self)
    }

    /// The engine is awake.
    pub fn is_awake(&self) {
        outbox::is_awake(self);
    }

    /// Takes the rings that have news: at most [`OUTBOXES`] numbers.
    pub fn take_news(&self, mut each: impl FnMut(usize)) {
        for at in 0..NEWS_WORDS {
            let mut bits = outbox::news(self, at);
            while bits != 0 {
                each(at * 32 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    fn word(&self, word: OutboxWord) -> &MappedU32 {
        let at = self.mapping.at(word.offset()).cast::<MappedU32>();
        // SAFETY: `offset` lies in the mapping, which is long enough (`new`) and aligned to 64 bytes, at a multiple of 4; the word is reached as an
        // atomic by all who have the memory, and lives as long as the mapping, which `self` has.
        unsafe { &*at }
    }
}

impl OutboxMemory for Outboxes {
    fn load(&self, word: OutboxWord, order: Ordering) -> u32 {
        self.word(word).load(order)
    }

    fn store(&self, word: OutboxWord, value: u32, order: Ordering) {
        self.word(word).store(value, order);
    }

    fn set(&self, word: OutboxWord, bits: u32, order: Ordering) {
        self.word(word).fetch_or(bits, order);
    }

    fn take(&self, word: OutboxWord, order: Ordering) -> u32 {
        self.word(word).swap(0, order)
    }

    fn write(&self, ring: usize, at: usize, bytes: &[u8]) {
        assert!(bytes.len() <= OUTBOX_BYTES - at % OUTBOX_BYTES, "they end before the ring does");
        let to = self.mapping.at(byte_offset(ring, at));
        // SAFETY: the range lies in the ring and so in the mapping; what another process writes there meanwhile is any bytes.
        unsafe { copy(bytes.as_ptr(), to, bytes.len()) };
    }

    fn read(&self, ring: usize, at: usize, into: &mut [u8]) {
        assert!(into.len() <= OUTBOX_BYTES - at % OUTBOX_BYTES, "they end before the ring does");
        let from = self.mapping.at(byte_offset(ring, at));
        // SAFETY: as in `write`.
        unsafe { copy(from, into.as_mut_ptr(), into.len()) };
    }
}

/// The engine's side of a connection's ring, with the memory that it is in.
#[derive(Debug)]
pub struct SharedOutbox {
    memory: Arc<Outboxes>,
    end: Option<OutboxReceiver>,
}

impl SharedOutbox {
    /// Gives a ring to a connection, in whose pair so many bytes are that the program has sent before. No other connection has it.
    ///
    /// # Panics
    /// If there is no ring of that number.
    #[must_use]
    pub fn new(memory: &Arc<Outboxes>, ring: usize, unread: u32) -> Self {
        assert!(ring < OUTBOXES, "there is such a ring");
        Self { memory: memory.clone(), end: Some(OutboxReceiver::new(&**memory, ring, unread)) }
    }

    fn end(&mut self) -> (&Outboxes, &mut OutboxReceiver) {
        (&self.memory, self.end.as_mut().expect("it has one until it is dropped"))
    }

    /// Whether nothing is in the ring.
    ///
    /// # Errors
    /// [`BadOutbox`].
    pub fn is_empty(&mut self) -> Result<bool, BadOutbox> {
        let (memory, end) = self.end();
        end.filled(memory).map(|filled| filled == 0)
    }

    /// As [`OutboxReceiver::receive`].
    ///
    /// # Errors
    /// [`BadOutbox`].
    pub fn receive(&mut self, into: &mut [u8]) -> Result<usize, BadOutbox> {
        let (memory, end) = self.end();
        end.receive(memory, into)
    }

    /// Takes all that is in the ring to the end of `into`, which has room for a whole one, before so many bytes that were received by the pair and
    /// are handed on after that; how many.
    ///
    /// # Errors
    /// [`BadOutbox`].
    pub fn receive_before(&mut self, into: &mut [u8], by_pair: u32) -> Result<usize, BadOutbox> {
        let (memory, end) = self.end();
        let filled = end.filled(memory)?.min(into.len());
        let from = into.len() - filled;
        let count = end.receive(memory, &mut into[from..])?;
        end.took_from_pair(memory, by_pair);
        Ok(count)
    }

    /// Why the library has left the ring, if it has.
    #[must_use]
    pub fn left(&self) -> Option<&'static str> {
        self.end.as_ref()?.left(&*self.memory)
    }
}

impl Drop for SharedOutbox {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end.close(&*self.memory);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::outbox::{OutboxSender, OutboxWay, REASONS, SeenOutbox, UNREAD_MAX};
    use crate::test_rng::Rng;

    fn memory() -> Arc<Outboxes> {
        Arc::new(Outboxes::new(Mapping::anonymous(Outboxes::BYTES), 7))
    }

    #[test]
    fn the_table_of_ways() {
        for bits in 0..16 {
            let seen = |free| SeenOutbox {
                is_asleep: bits & 1 != 0,
                is_closed: bits & 2 != 0,
                is_behind: bits & 4 != 0,
                is_unread: bits & 8 != 0,
                free,
            };
            assert_eq!(seen(4).way(4) == OutboxWay::Ring, bits == 0, "{bits}");
            assert_eq!(seen(3).way(4), OutboxWay::Pair, "there is no room");
        }
    }

    #[test]
    fn no_two_words_and_rings_share_a_place() {
        let of_ring = |ring| {
            [OutboxWord::Head(ring), OutboxWord::Left(ring), OutboxWord::Tail(ring), OutboxWord::Taken(ring)]
                .into_iter()
                .chain([OutboxWord::Closed(ring)])
        };
        let all = [OutboxWord::Asleep, OutboxWord::Number].into_iter();
        let all = all.chain((0..NEWS_WORDS).map(OutboxWord::News)).chain((0..OUTBOXES).flat_map(of_ring));
        let mut places: Vec<usize> = all.map(OutboxWord::offset).collect();
        let count = places.len();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), count);
        assert!(places.iter().all(|place| place % 4 == 0 && place + 4 <= byte_offset(0, 0)));
        assert_eq!(byte_offset(OUTBOXES - 1, OUTBOX_BYTES - 1) + 1, Outboxes::BYTES);
    }

    /// Bytes by both ways and in any order of turns, near the wrap of the indices, come out as they went in.
    #[test]
    fn bytes_by_both_ways_come_out_in_their_order() {
        for seed in 1..20 {
            let (memory, mut rng) = (memory(), Rng::new(seed));
            memory.store(OutboxWord::Head(3), u32::MAX - 20_000, Ordering::Relaxed);
            let mut receiver = SharedOutbox::new(&memory, 3, 0);
            let mut sender = OutboxSender::new(&*memory, 3);
            let (mut pair, mut got, mut sent) = (Vec::new(), Vec::new(), 0_u32);
            let mut scratch = vec![0; 2 * OUTBOX_BYTES];
            for _ in 0..if cfg!(miri) { 50 } else { 2000 } {
                let most = if rng.below(4) == 0 { 9000 } else { 40 };
                let len = rng.below(most) as usize;
                match rng.below(5) {
                    0..3 => {
                        let bytes: Vec<u8> = (0..len).map(|at| (sent as usize + at) as u8).collect();
                        sent += len as u32;
                        if sender.way(&*memory, len) == OutboxWay::Ring && rng.below(8) != 0 {
                            let (one, other) = bytes.split_at(len / 3);
                            assert!(!sender.put(&*memory, [one, other].into_iter()), "it is awake");
                        } else {
                            pair.extend(bytes);
                            sender.sent_by_pair(len as u32);
                        }
                    }
                    3 => {
                        let count = receiver.receive(&mut scratch[..len]).expect("an honest program");
                        got.extend_from_slice(&scratch[..count]);
                    }
                    _ => {
                        let part: Vec<u8> = pair.drain(..len.min(pair.len())).collect();
                        let before =
                            receiver.receive_before(&mut scratch[..OUTBOX_BYTES], part.len() as u32).expect("honest");
                        got.extend_from_slice(&scratch[OUTBOX_BYTES - before..OUTBOX_BYTES]);
                        got.extend(part);
                    }
                }
            }
            assert!(got.len() > 1000 || cfg!(miri), "{}", got.len());
            assert!(got.iter().enumerate().all(|(at, byte)| *byte == at as u8), "seed {seed}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_and_a_ring_is_closed_with_its_connection() {
        let memory = memory();
        let mut receiver = SharedOutbox::new(&memory, 0, 5);
        let mut sender = OutboxSender::new(&*memory, 0);
        assert_eq!(sender.way(&*memory, 1), OutboxWay::Pair, "five bytes are in the pair");
        assert_eq!(receiver.receive_before(&mut [0; OUTBOX_BYTES], 5), Ok(0));
        assert_eq!(sender.way(&*memory, OUTBOX_BYTES), OutboxWay::Ring);
        assert_eq!(sender.way(&*memory, OUTBOX_BYTES + 1), OutboxWay::Pair);
        assert!(!sender.put(&*memory, [&[1_u8; OUTBOX_BYTES][..]].into_iter()));
        assert_eq!((sender.way(&*memory, 1), receiver.is_empty()), (OutboxWay::Pair, Ok(false)));
        let mut news = Vec::new();
        memory.take_news(|ring| news.push(ring));
        assert_eq!(news, [0]);
        for wrong in [1_u32, 1 << 31, u32::MAX] {
            memory.store(OutboxWord::Head(0), (OUTBOX_BYTES as u32).wrapping_add(wrong), Ordering::Relaxed);
            let is_bad = wrong.wrapping_add(OUTBOX_BYTES as u32) as usize > OUTBOX_BYTES;
            assert_eq!(receiver.is_empty().is_err(), is_bad, "{wrong}");
        }
        assert_eq!(receiver.left(), None);
        sender.leave(&*memory, 1);
        assert_eq!(receiver.left(), Some(REASONS[1]));
        memory.store(OutboxWord::Left(0), 99, Ordering::Relaxed);
        assert_eq!(receiver.left(), Some("others"));
        drop(receiver);
        assert_eq!(OutboxSender::new(&*memory, 0).way(&*memory, 1), OutboxWay::Pair, "it is closed");
    }

    #[test]
    fn an_engine_that_takes_nothing_gets_a_few_writes() {
        let memory = memory();
        let mut receiver = SharedOutbox::new(&memory, 9, 0);
        let mut sender = OutboxSender::new(&*memory, 9);
        for _ in 0..3 {
            for _ in 0..UNREAD_MAX {
                assert_eq!(sender.way(&*memory, 1), OutboxWay::Ring);
                assert!(!sender.put(&*memory, [&b"x"[..]].into_iter()), "it is awake, as far as it has said");
            }
            // As an engine that was killed looks.
            assert_eq!(sender.way(&*memory, 1), OutboxWay::Pair);
            assert_eq!(receiver.receive(&mut [0]), Ok(1));
        }
    }

    #[test]
    fn an_engine_that_has_news_does_not_sleep() {
        let memory = memory();
        let _receiver = SharedOutbox::new(&memory, 200, 0);
        let mut sender = OutboxSender::new(&*memory, 200);
        assert!(memory.may_sleep());
        assert_eq!(sender.way(&*memory, 1), OutboxWay::Pair);
        assert!(sender.put(&*memory, [&b"x"[..]].into_iter()), "it has to be called");
        memory.is_awake();
        assert!(!memory.may_sleep());
        let mut news = Vec::new();
        memory.take_news(|ring| news.push(ring));
        assert_eq!(news, [200]);
        assert!(memory.may_sleep());
    }
}
