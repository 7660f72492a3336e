//! The rings of an AF_XDP socket on loom's words, with the kernel's part by its own rules.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::thread;

use super::{model, without};
use crate::sync::Point;
use crate::xsk::{Consumer, Descriptor, Producer, RING_NEED_WAKEUP, XskMemory, XskWord, wants_wakeup};

const START: u32 = u32::MAX; // the index wraps

/// A ring of one slot, and the bytes that the slot stands for.
struct Ring {
    producer: AtomicU32,
    consumer: AtomicU32,
    flags: AtomicU32,
    slot: AtomicU64,
    bytes: UnsafeCell<u32>,
}

// SAFETY: the model checks that the bytes have one user at a time; loom reports it if not.
unsafe impl Sync for Ring {}

impl Ring {
    fn write(&self, value: u32) {
        // SAFETY: the slot is this side's.
        self.bytes.with_mut(|bytes| unsafe { *bytes = value });
    }

    fn read(&self) -> u32 {
        // SAFETY: the slot is this side's.
        self.bytes.with(|bytes| unsafe { *bytes })
    }

    fn word(&self, word: XskWord) -> &AtomicU32 {
        match word {
            XskWord::Producer => &self.producer,
            XskWord::Consumer => &self.consumer,
            XskWord::Flags => &self.flags,
        }
    }
}

impl XskMemory for Arc<Ring> {
    fn slots(&self) -> u32 {
        1
    }
    fn load(&self, word: XskWord, ordering: Ordering) -> u32 {
        self.word(word).load(ordering)
    }
    fn store(&self, word: XskWord, value: u32, ordering: Ordering) {
        self.word(word).store(value, ordering);
    }
    fn read_address(&self, _: u32) -> u64 {
        self.slot.load(Ordering::Relaxed)
    }
    fn write_address(&self, _: u32, address: u64) {
        self.slot.store(address, Ordering::Relaxed);
    }
    fn read_packet(&self, index: u32) -> Descriptor {
        Descriptor { address: self.read_address(index), length: 0, options: 0 }
    }
    fn write_packet(&self, index: u32, descriptor: Descriptor) {
        self.write_address(index, descriptor.address);
    }
}

fn sides() -> (Producer<Arc<Ring>>, Consumer<Arc<Ring>>) {
    let ring = Arc::new(Ring {
        producer: AtomicU32::new(START),
        consumer: AtomicU32::new(START),
        flags: AtomicU32::new(0),
        slot: AtomicU64::new(0),
        bytes: UnsafeCell::new(0),
    });
    (Producer::new(ring.clone()), Consumer::new(ring))
}

/// Two slots' worth through a ring of one: what is read is what was written, and nothing is written over before.
fn ring_carries() {
    model(|| {
        let (mut producer, mut consumer) = sides();
        let thread = thread::spawn(move || {
            let mut sent = 0;
            for _ in 0..3 {
                producer.refresh().expect("an honest consumer");
                if producer.free() > 0 && sent < 2 {
                    let index = producer.claim();
                    producer.memory.write(sent + 10);
                    producer.memory.write_address(index, u64::from(sent + 20));
                    assert_eq!(producer.publish(), 1);
                    sent += 1;
                }
            }
            sent
        });
        let mut received = 0;
        let mut look = |consumer: &mut Consumer<Arc<Ring>>| {
            consumer.refresh().expect("an honest producer");
            if let Some(index) = consumer.take() {
                assert_eq!(consumer.memory.read_address(index), u64::from(received + 20));
                assert_eq!(consumer.memory.read(), received + 10);
                consumer.release();
                received += 1;
            }
        };
        for _ in 0..2 {
            look(&mut consumer);
        }
        let sent = thread.join().unwrap();
        look(&mut consumer);
        assert_eq!(received, sent, "a slot was lost");
    });
}

/// The kernel finds nothing, sets the flag, fences, looks once more and sleeps. What it did not see must be kicked.
fn sleeper_is_kicked() {
    model(|| {
        let (mut producer, mut consumer) = sides();
        let thread = thread::spawn(move || {
            producer.claim();
            producer.publish();
            wants_wakeup(&producer.memory)
        });
        consumer.refresh().expect("an honest producer");
        let mut seen = consumer.waiting();
        if seen == 0 {
            consumer.memory.store(XskWord::Flags, RING_NEED_WAKEUP, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            consumer.refresh().expect("an honest producer");
            seen = consumer.waiting();
        }
        let kicked = thread.join().unwrap();
        assert!(seen == 1 || kicked, "lost kick");
    });
}

#[test]
fn carries() {
    ring_carries();
}

#[test]
#[should_panic]
fn carrying_needs_the_ordering_of_the_producer() {
    without(Point::XskPublish, ring_carries);
}

#[test]
#[should_panic]
fn carrying_needs_the_ordering_of_the_consumer() {
    without(Point::XskRelease, ring_carries);
}

#[test]
fn kick() {
    sleeper_is_kicked();
}

#[test]
#[should_panic(expected = "lost kick")]
fn kick_needs_the_fence_of_the_producer() {
    without(Point::XskWakeLook, sleeper_is_kicked);
}
