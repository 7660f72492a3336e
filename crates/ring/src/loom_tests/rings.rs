//! The memif protocol, both kinds of ring, on loom's words.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use loom::thread;

use super::{model, without};
use crate::memif::{FLAG_MASK_INT, Follower, Leader, RingMemory, RingWord, mask, unmask, wants_interrupt};
use crate::sync::Point;

const SLOTS: u16 = 1; // the smallest ring: the second packet reuses the first one's slot
const START: u16 = u16::MAX; // and its index wraps

/// A ring and the bytes that its only slot stands for.
pub(super) struct Ring {
    flags: AtomicU16,
    head: AtomicU16,
    tail: AtomicU16,
    low: AtomicU64,
    high: AtomicU64,
    bytes: UnsafeCell<u32>,
}

// SAFETY: the model checks that the bytes have one user at a time; loom reports it if not.
unsafe impl Sync for Ring {}

impl Ring {
    fn new(flags: u16) -> Arc<Self> {
        Arc::new(Self {
            flags: AtomicU16::new(flags),
            head: AtomicU16::new(START),
            tail: AtomicU16::new(START),
            low: AtomicU64::new(0),
            high: AtomicU64::new(0),
            bytes: UnsafeCell::new(0),
        })
    }

    fn write(&self, value: u32) {
        // SAFETY: the slot is this end's.
        self.bytes.with_mut(|bytes| unsafe { *bytes = value });
    }

    fn read(&self) -> u32 {
        // SAFETY: the slot is this end's.
        self.bytes.with(|bytes| unsafe { *bytes })
    }

    fn word(&self, word: RingWord) -> &AtomicU16 {
        match word {
            RingWord::Flags => &self.flags,
            RingWord::Head => &self.head,
            RingWord::Tail => &self.tail,
        }
    }
}

impl RingMemory for Arc<Ring> {
    fn slots(&self) -> u16 {
        SLOTS
    }
    fn load(&self, word: RingWord, ordering: Ordering) -> u16 {
        self.word(word).load(ordering)
    }
    fn store(&self, word: RingWord, value: u16, ordering: Ordering) {
        self.word(word).store(value, ordering);
    }
    fn load_low(&self, _: u16) -> u64 {
        self.low.load(Ordering::Relaxed)
    }
    fn load_high(&self, _: u16) -> u64 {
        self.high.load(Ordering::Relaxed)
    }
    fn store_low(&self, _: u16, low: u64) {
        self.low.store(low, Ordering::Relaxed);
    }
    fn store_high(&self, _: u16, high: u64) {
        self.high.store(high, Ordering::Relaxed);
    }
}

pub(super) fn ends(flags: u16) -> (Leader<Arc<Ring>>, Follower<Arc<Ring>>) {
    let ring = Ring::new(flags);
    (Leader::new(ring.clone(), START), Follower::new(ring, START))
}

const LOOKS: u32 = 3;

/// Client to server: two packets through one slot. Neither end waits, so some runs carry fewer.
fn c2s_carries_packets() {
    model(|| {
        let (mut client, mut server) = ends(FLAG_MASK_INT);
        let thread = thread::spawn(move || {
            let mut sent = 0;
            for _ in 0..LOOKS {
                client.refresh().expect("an honest peer");
                client.take_back();
                if client.free() > 0 && sent < 2 {
                    client.memory.write(sent + 10);
                    client.offer(sent, sent + 20);
                    assert_eq!(client.publish(), 1);
                    sent += 1;
                }
            }
            sent
        });
        let mut received = 0;
        let mut look = |server: &mut Follower<Arc<Ring>>| {
            server.refresh().expect("an honest peer");
            if let Some(index) = server.next() {
                assert_eq!(server.memory.load_low(index) >> 32, u64::from(received + 20));
                assert_eq!(server.memory.load_high(index), u64::from(received));
                assert_eq!(server.memory.read(), received + 10);
                server.answer();
                assert_eq!(server.publish(), 1);
                received += 1;
            }
        };
        for _ in 0..2 {
            look(&mut server);
        }
        let sent = thread.join().unwrap();
        look(&mut server);
        assert_eq!(received, sent, "a packet was lost");
    });
}

/// Server to client: the client posts the slot, the server builds in it, the client reads and posts again.
fn s2c_carries_packets() {
    model(|| {
        let (mut client, mut server) = ends(FLAG_MASK_INT);
        client.offer(0, 64);
        client.publish();
        let thread = thread::spawn(move || {
            let mut sent = 0;
            for _ in 0..LOOKS {
                server.refresh().expect("an honest peer");
                if let Some(index) = server.next()
                    && sent < 2
                {
                    assert_eq!(server.memory.load_low(index) >> 32, 64, "the buffer as posted");
                    server.memory.write(sent + 10);
                    server.memory.store_low(index, u64::from(sent + 20) << 32);
                    server.answer();
                    assert_eq!(server.publish(), 1);
                    sent += 1;
                }
            }
            sent
        });
        let mut received = 0;
        let mut look = |client: &mut Leader<Arc<Ring>>| {
            client.refresh().expect("an honest peer");
            if let Some(index) = client.take_back() {
                assert_eq!(client.memory.load_low(index) >> 32, u64::from(received + 20));
                assert_eq!(client.memory.read(), received + 10);
                client.memory.write(0); // the next user of the buffer
                received += 1;
                client.offer(0, 64);
                client.publish();
            }
        };
        for _ in 0..2 {
            look(&mut client);
        }
        let sent = thread.join().unwrap();
        look(&mut client);
        assert_eq!(received, sent, "a packet was lost");
    });
}

#[test]
fn c2s() {
    c2s_carries_packets();
}

#[test]
#[should_panic]
fn c2s_needs_the_ordering_of_the_head() {
    without(Point::RingHeadStore, c2s_carries_packets);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn c2s_needs_the_ordering_of_the_tail() {
    without(Point::RingTailStore, c2s_carries_packets);
}

#[test]
fn s2c() {
    s2c_carries_packets();
}

#[test]
#[should_panic]
fn s2c_needs_the_ordering_of_the_head() {
    without(Point::RingHeadStore, s2c_carries_packets);
}

#[test]
#[should_panic]
fn s2c_needs_the_ordering_of_the_tail() {
    without(Point::RingTailStore, s2c_carries_packets);
}

/// The consumer polls masked, unmasks, looks again and sleeps; a packet that it did not see must have interrupted.
fn c2s_sleeper_is_interrupted() {
    model(|| {
        let (mut client, mut server) = ends(0);
        let thread = thread::spawn(move || {
            client.offer(0, 1);
            client.publish();
            wants_interrupt(&client.memory)
        });
        mask(&server.memory);
        let mut seen = server.refresh().expect("an honest peer");
        if seen == 0 {
            unmask(&server.memory);
            seen = server.refresh().expect("an honest peer");
        }
        let interrupted = thread.join().unwrap();
        assert!(seen == 1 || interrupted, "lost interrupt");
    });
}

fn s2c_sleeper_is_interrupted() {
    model(|| {
        let (mut client, mut server) = ends(0);
        client.offer(0, 1);
        client.publish();
        let thread = thread::spawn(move || {
            server.refresh().expect("an honest peer");
            server.answer();
            server.publish();
            wants_interrupt(&server.memory)
        });
        mask(&client.memory);
        let mut seen = client.refresh().expect("an honest peer");
        if seen == 0 {
            unmask(&client.memory);
            seen = client.refresh().expect("an honest peer");
        }
        let interrupted = thread.join().unwrap();
        assert!(seen == 1 || interrupted, "lost interrupt");
    });
}

#[test]
fn c2s_interrupt() {
    c2s_sleeper_is_interrupted();
}

#[test]
fn s2c_interrupt() {
    s2c_sleeper_is_interrupted();
}

#[test]
#[should_panic(expected = "lost interrupt")]
fn c2s_interrupt_needs_the_fence_of_the_producer() {
    without(Point::RingPublishFence, c2s_sleeper_is_interrupted);
}

#[test]
#[should_panic(expected = "lost interrupt")]
fn c2s_interrupt_needs_the_fence_of_the_consumer() {
    without(Point::RingUnmaskFence, c2s_sleeper_is_interrupted);
}

#[test]
#[should_panic(expected = "lost interrupt")]
fn s2c_interrupt_needs_the_fence_of_the_producer() {
    without(Point::RingPublishFence, s2c_sleeper_is_interrupted);
}

#[test]
#[should_panic(expected = "lost interrupt")]
fn s2c_interrupt_needs_the_fence_of_the_consumer() {
    without(Point::RingUnmaskFence, s2c_sleeper_is_interrupted);
}
