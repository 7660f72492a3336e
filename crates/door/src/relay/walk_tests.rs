//! Every order in which a program writes by both ways, leaves its ring, and the engine takes bytes, sleeps and wakes: they come out in their order, and
//! none is left when the engine sleeps.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::sync::atomic::Ordering;

use napier_ring::outbox::{
    OutboxMemory, OutboxReceiver, OutboxSender, OutboxWay, OutboxWord, is_awake, may_sleep, news,
};
use napier_testkit::explore::{Step, World, walk};

/// Bytes that a program writes at most.
const BYTES: u8 = 5;

/// The words of ring 0, and the first of its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Memory {
    words: [Cell<u32>; 6],
    bytes: [Cell<u8>; BYTES as usize],
}

impl Hash for Memory {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.words.iter().for_each(|word| word.get().hash(state));
        self.bytes.iter().for_each(|byte| byte.get().hash(state));
    }
}

impl Memory {
    fn word(&self, word: OutboxWord) -> Option<&Cell<u32>> {
        let at = match word {
            OutboxWord::Asleep => 0,
            OutboxWord::News(0) => 1,
            OutboxWord::Head(0) => 2,
            OutboxWord::Tail(0) => 3,
            OutboxWord::Taken(0) => 4,
            OutboxWord::Closed(0) => 5,
            _ => return None,
        };
        Some(&self.words[at])
    }
}

impl OutboxMemory for Memory {
    fn load(&self, word: OutboxWord, _: Ordering) -> u32 {
        self.word(word).map_or(0, Cell::get)
    }

    fn store(&self, word: OutboxWord, value: u32, _: Ordering) {
        if let Some(word) = self.word(word) {
            word.set(value);
        }
    }

    fn set(&self, word: OutboxWord, bits: u32, _: Ordering) {
        let word = self.word(word).expect("ring 0");
        word.set(word.get() | bits);
    }

    fn take(&self, word: OutboxWord, _: Ordering) -> u32 {
        self.word(word).map_or(0, Cell::take)
    }

    fn write(&self, _: usize, at: usize, bytes: &[u8]) {
        bytes.iter().zip(&self.bytes[at.min(BYTES as usize)..]).for_each(|(byte, cell)| cell.set(*byte));
    }

    fn read(&self, _: usize, at: usize, into: &mut [u8]) {
        into.iter_mut().zip(&self.bytes[at.min(BYTES as usize)..]).for_each(|(byte, cell)| *byte = cell.get());
    }
}

/// Steps of which one is taken away, so that the walk has to find what comes of it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Lacks {
    Nothing,
    /// The engine hands on what came by the pair without a look at the ring.
    RingFirst,
    /// The library does not look whether the pair is empty.
    EmptyPair,
    /// It does not call an engine that went to sleep meanwhile.
    Call,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Story {
    memory: Memory,
    sender: OutboxSender,
    receiver: OutboxReceiver,
    pair: Vec<u8>,
    /// The next byte that is written, and the next that is expected.
    next: u8,
    expected: u8,
    /// The library has seen that the way is the ring, and not put the byte there yet.
    is_about_to_put: bool,
    /// A byte is in the pair that the library has not counted yet.
    is_uncounted: bool,
    has_left: bool,
    /// Of the engine: what it has received by the pair and not handed on.
    held: Option<u8>,
    sleeps: bool,
    is_called: bool,
}

impl Story {
    fn new() -> Self {
        let memory = Memory { words: Default::default(), bytes: Default::default() };
        let receiver = OutboxReceiver::new(&memory, 0, 0);
        let sender = OutboxSender::new(&memory, 0);
        Self {
            memory,
            sender,
            receiver,
            pair: Vec::new(),
            next: 0,
            expected: 0,
            is_about_to_put: false,
            is_uncounted: false,
            has_left: false,
            held: None,
            sleeps: false,
            is_called: false,
        }
    }

    fn hand_on(&mut self, byte: u8) -> Result<(), &'static str> {
        if byte != self.expected {
            return Err("a byte is out of order");
        }
        self.expected += 1;
        Ok(())
    }

    /// What is in the ring.
    fn hand_on_ring(&mut self) -> Result<bool, &'static str> {
        let mut bytes = [0; BYTES as usize];
        let count = self.receiver.receive(&self.memory, &mut bytes).map_err(|_| "an honest program is not believed")?;
        bytes[..count].iter().try_for_each(|byte| self.hand_on(*byte))?;
        Ok(count > 0)
    }

    fn write_by_pair(&mut self) {
        self.pair.push(self.next);
        self.next += 1;
    }

    fn may_write(&self) -> bool {
        !self.is_about_to_put && !self.is_uncounted && self.next < BYTES
    }

    /// A step of the program, which may stop for good.
    fn program(&self, steps: &mut Vec<Step<Self>>, label: &'static str, take: impl FnOnce(&mut Self) -> bool) {
        let mut world = self.clone();
        if take(&mut world) {
            steps.push(Step { label: label.into(), by_itself: false, outcome: Ok(world) });
        }
    }
}

impl Story {
    fn of_program(&self, lacks: Lacks, steps: &mut Vec<Step<Self>>) {
        self.program(steps, "the library looks", |world| {
            let way = world.sender.way(&world.memory, 1);
            let is_behind = lacks == Lacks::EmptyPair && world.memory.load(OutboxWord::Asleep, Ordering::Relaxed) == 0;
            let is_ring = way == OutboxWay::Ring || is_behind;
            let may = world.may_write() && !world.has_left && is_ring;
            world.is_about_to_put = may;
            may
        });
        self.program(steps, "the library sends by the pair", |world| {
            let may = world.may_write() && !world.has_left;
            if may {
                world.write_by_pair();
                world.is_uncounted = true;
            }
            may
        });
        self.program(steps, "the library leaves", |world| {
            let may = world.may_write() && !world.has_left;
            world.has_left = true;
            may
        });
        self.program(steps, "a child writes", |world| {
            let may = world.may_write() && world.has_left;
            if may {
                world.write_by_pair();
            }
            may
        });
        self.step(steps, "the library puts", |world| {
            if !std::mem::take(&mut world.is_about_to_put) {
                return Ok(false);
            }
            let byte = [world.next];
            let calls = world.sender.put(&world.memory, [&byte[..]].into_iter());
            world.is_called |= calls && lacks != Lacks::Call;
            world.next += 1;
            Ok(true)
        });
        self.step(steps, "the library counts", |world| {
            world.sender.sent_by_pair(u32::from(world.is_uncounted));
            Ok(std::mem::take(&mut world.is_uncounted))
        });
    }

    fn of_engine(&self, lacks: Lacks, steps: &mut Vec<Step<Self>>) {
        let is_at_work = !self.sleeps && self.held.is_none();
        self.step(steps, "ring", |world| {
            let had_news = is_at_work && news(&world.memory, 0) != 0;
            Ok(is_at_work && (world.hand_on_ring()? || had_news))
        });
        self.step(steps, "pair", |world| {
            let may = is_at_work && !world.pair.is_empty();
            world.held = if may { Some(world.pair.remove(0)) } else { world.held };
            Ok(may)
        });
        self.step(steps, "hand on", |world| {
            let Some(byte) = world.held.take() else { return Ok(false) };
            if lacks != Lacks::RingFirst {
                world.hand_on_ring()?;
            }
            world.hand_on(byte)?;
            world.receiver.took_from_pair(&world.memory, 1);
            Ok(true)
        });
        self.step(steps, "sleep", |world| {
            // It has taken what the pair had, or is woken by that.
            world.sleeps = is_at_work && may_sleep(&world.memory);
            Ok(world.sleeps)
        });
        self.step(steps, "wake", |world| {
            let wakes = world.sleeps && (world.is_called || !world.pair.is_empty());
            if wakes {
                (world.sleeps, world.is_called) = (false, false);
                is_awake(&world.memory);
            }
            Ok(wakes)
        });
    }
}

impl World for Story {
    type Config = Lacks;
    type Rule = &'static str;

    fn steps(&self, lacks: &Lacks, steps: &mut Vec<Step<Self>>) {
        self.of_program(*lacks, steps);
        self.of_engine(*lacks, steps);
    }

    fn check(&self, _: &Lacks) -> Result<(), &'static str> {
        Ok(())
    }
}

/// Whatever the program does, the engine hands on what has been written, unless the program stops in the middle of a call.
fn walk_all(lacks: Lacks) {
    walk(&format!("two ways, {lacks:?} lacks"), &lacks, Story::new())
        .can_reach("a byte is left over", |world| world.expected == world.next);
}

#[test]
fn bytes_come_out_in_their_order_wherever_the_ring_is_left() {
    walk_all(Lacks::Nothing);
}

#[test]
#[should_panic(expected = "a byte is out of order")]
fn order_needs_the_ring_first() {
    walk_all(Lacks::RingFirst);
}

#[test]
#[should_panic(expected = "a byte is out of order")]
fn order_needs_an_empty_pair() {
    walk_all(Lacks::EmptyPair);
}

#[test]
#[should_panic(expected = "a byte is left over")]
fn sleep_needs_the_call() {
    walk_all(Lacks::Call);
}
