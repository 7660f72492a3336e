//! Bytes of a program by two ways: its ring and its pair. They come out in their order, and none lies in a ring while the engine sleeps.

use std::collections::VecDeque;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::thread;

use super::{model, without};
use crate::outbox::{
    NEWS_WORDS, OUTBOX_BYTES, OutboxMemory, OutboxReceiver, OutboxSender, OutboxWay, OutboxWord, is_awake, may_sleep,
    news,
};
use crate::sync::Point;

/// Bytes of the ring that the models use, from its beginning.
const CELLS: usize = 3;

/// What a program and its engine share: the words of one ring, and the pair, which the kernel has a lock for.
struct Shared {
    asleep: AtomicU32,
    news: AtomicU32,
    head: AtomicU32,
    tail: AtomicU32,
    taken: AtomicU32,
    closed: AtomicU32,
    cells: [UnsafeCell<u8>; CELLS],
    pair: Mutex<VecDeque<u8>>,
    /// The engine was called, or found bytes in the pair that it sleeps on.
    is_called: AtomicBool,
}

// SAFETY: the model checks that each cell has one user at a time; loom reports it if not.
unsafe impl Sync for Shared {}

impl Shared {
    fn word(&self, word: OutboxWord) -> Option<&AtomicU32> {
        match word {
            OutboxWord::Asleep => Some(&self.asleep),
            OutboxWord::News(0) => Some(&self.news),
            OutboxWord::Head(0) => Some(&self.head),
            OutboxWord::Tail(0) => Some(&self.tail),
            OutboxWord::Taken(0) => Some(&self.taken),
            OutboxWord::Closed(0) => Some(&self.closed),
            _ => None,
        }
    }
}

impl OutboxMemory for Shared {
    fn load(&self, word: OutboxWord, order: Ordering) -> u32 {
        self.word(word).map_or(0, |word| word.load(order))
    }

    fn store(&self, word: OutboxWord, value: u32, order: Ordering) {
        if let Some(word) = self.word(word) {
            word.store(value, order);
        }
    }

    fn set(&self, word: OutboxWord, bits: u32, order: Ordering) {
        self.word(word).expect("ring 0").fetch_or(bits, order);
    }

    fn take(&self, word: OutboxWord, order: Ordering) -> u32 {
        self.word(word).expect("ring 0").swap(0, order)
    }

    fn write(&self, _ring: usize, at: usize, bytes: &[u8]) {
        for (nth, byte) in bytes.iter().enumerate() {
            self.cells[at + nth].with_mut(|cell| {
                // SAFETY: that the other side is not there is what the model is about.
                unsafe { *cell = *byte }
            });
        }
    }

    fn read(&self, _ring: usize, at: usize, into: &mut [u8]) {
        for (nth, byte) in into.iter_mut().enumerate() {
            // SAFETY: as above.
            *byte = self.cells[at + nth].with(|cell| unsafe { *cell });
        }
    }
}

/// The memory, with so many bytes in the ring, and both ends.
fn ring(filled: u32) -> (Arc<Shared>, OutboxSender, OutboxReceiver) {
    let word = || AtomicU32::new(0);
    let shared = Arc::new(Shared {
        asleep: word(),
        news: word(),
        head: word(),
        tail: word(),
        taken: word(),
        closed: word(),
        cells: std::array::from_fn(|_| UnsafeCell::new(0)),
        pair: Mutex::new(VecDeque::new()),
        is_called: AtomicBool::new(false),
    });
    let receiver = OutboxReceiver::new(&*shared, 0, 0);
    shared.head.store(filled, Ordering::Relaxed);
    (shared.clone(), OutboxSender::new(&*shared, 0), receiver)
}

/// A program sends a byte, by the pair if it has to or wants to.
fn send(shared: &Shared, sender: &mut OutboxSender, byte: u8, by_pair: bool) {
    if !by_pair && sender.way(shared, 1) == OutboxWay::Ring {
        if sender.put(shared, [&[byte][..]].into_iter()) {
            shared.is_called.store(true, Ordering::Relaxed);
        }
        return;
    }
    shared.pair.lock().unwrap().push_back(byte);
    sender.sent_by_pair(1);
    shared.is_called.store(true, Ordering::Relaxed);
}

/// How an engine that has lost a step goes wrong.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Engine {
    Right,
    /// It hands on what came by the pair before what is in the ring.
    PairFirst,
    /// It says that it has taken what is in the pair before it has.
    SaysTooEarly,
}

/// One turn of the engine: the ring, then the pair, as the relay takes it.
fn turn(shared: &Shared, receiver: &mut OutboxReceiver, got: &mut Vec<u8>, engine: Engine) {
    let mut room = [0; CELLS];
    let mut from_ring = |receiver: &mut OutboxReceiver| {
        let count = receiver.receive(shared, &mut room).expect("an honest program");
        room[..count].to_vec()
    };
    got.extend(from_ring(receiver));
    if engine == Engine::SaysTooEarly {
        receiver.took_from_pair(shared, shared.pair.lock().unwrap().len() as u32);
    }
    let Some(byte) = shared.pair.lock().unwrap().pop_front() else { return };
    if engine == Engine::PairFirst {
        got.push(byte);
        got.extend(from_ring(receiver));
    } else {
        got.extend(from_ring(receiver));
        got.push(byte);
    }
    if engine != Engine::SaysTooEarly {
        receiver.took_from_pair(shared, 1);
    }
}

/// Three bytes, the second by the pair whatever the engine does: a child, a call that the library does not know, or the end of the ring for good.
fn bytes_come_out_in_their_order(engine: Engine) {
    super::model_preempted(3, move || {
        let (shared, mut sender, mut receiver) = ring(0);
        let program = shared.clone();
        let program = thread::spawn(move || {
            for (byte, by_pair) in [(1, false), (2, true), (3, false)] {
                send(&program, &mut sender, byte, by_pair);
            }
        });
        let mut got = Vec::new();
        turn(&shared, &mut receiver, &mut got, engine);
        turn(&shared, &mut receiver, &mut got, engine);
        program.join().unwrap();
        for _ in 0..3 {
            turn(&shared, &mut receiver, &mut got, engine);
        }
        assert_eq!(got, [1, 2, 3], "out of order");
    });
}

/// A full ring: a byte takes the place of one that the engine has read.
fn a_place_is_used_again_when_it_was_read() {
    model(|| {
        let (shared, mut sender, mut receiver) = ring(OUTBOX_BYTES as u32);
        let program = shared.clone();
        let program = thread::spawn(move || send(&program, &mut sender, 9, false));
        let mut one = [0];
        assert_eq!(receiver.receive(&*shared, &mut one), Ok(1));
        assert_eq!(one, [0], "written over");
        program.join().unwrap();
    });
}

/// The engine goes to sleep as a program sends.
fn no_byte_lies_in_the_ring_of_an_engine_that_sleeps() {
    model(|| {
        let (shared, mut sender, receiver) = ring(0);
        let program = shared.clone();
        let program = thread::spawn(move || send(&program, &mut sender, 1, false));
        let sleeps = may_sleep(&*shared);
        program.join().unwrap();
        let is_filled = receiver.filled(&*shared).expect("an honest program") > 0;
        let is_called = shared.is_called.load(Ordering::Relaxed);
        assert!(!sleeps || !is_filled || is_called, "lost wake-up");
        is_awake(&*shared);
        assert!(!is_filled || (0..NEWS_WORDS).map(|at| news(&*shared, at)).sum::<u32>() == 1, "lost news");
    });
}

#[test]
fn outbox_order() {
    bytes_come_out_in_their_order(Engine::Right);
}

#[test]
#[should_panic(expected = "out of order")]
fn outbox_order_needs_the_ring_before_the_pair() {
    bytes_come_out_in_their_order(Engine::PairFirst);
}

#[test]
#[should_panic(expected = "out of order")]
fn outbox_order_needs_the_pair_to_be_empty() {
    bytes_come_out_in_their_order(Engine::SaysTooEarly);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn outbox_needs_the_ordering_of_the_head() {
    without(Point::OutboxHead, || bytes_come_out_in_their_order(Engine::Right));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn outbox_needs_the_ordering_of_the_look() {
    without(Point::OutboxLook, || bytes_come_out_in_their_order(Engine::Right));
}

#[test]
fn outbox_places() {
    a_place_is_used_again_when_it_was_read();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn outbox_places_need_the_ordering_of_the_tail() {
    without(Point::OutboxTail, a_place_is_used_again_when_it_was_read);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn outbox_places_need_the_ordering_of_its_store() {
    without(Point::OutboxTailStore, a_place_is_used_again_when_it_was_read);
}

#[test]
fn outbox_sleep() {
    no_byte_lies_in_the_ring_of_an_engine_that_sleeps();
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn outbox_sleep_needs_the_fence_of_the_program() {
    without(Point::OutboxTell, no_byte_lies_in_the_ring_of_an_engine_that_sleeps);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn outbox_sleep_needs_the_fence_of_the_engine() {
    without(Point::OutboxSleep, no_byte_lies_in_the_ring_of_an_engine_that_sleeps);
}
