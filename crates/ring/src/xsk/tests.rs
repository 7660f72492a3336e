//! Both sides of a socket, with the kernel's part played here.

use std::sync::Arc;

use super::protocol::{Consumer, Descriptor, Producer, XskMemory, XskWord};
use super::*;
use crate::sync::Ordering;
use crate::test_rng::Rng;
use crate::{ArenaConfig, ArenaId, Frame, FramePool, FrameTable, Mapping};

const CHUNK: u32 = 2048;
const FRAMES: u32 = 16;
const SLOTS: u32 = 8;
const PLACES: RingPlaces = RingPlaces { producer: 0, consumer: 64, flags: 128, descriptors: 192 };

struct Memory {
    table: Arc<FrameTable>,
    pool: FramePool,
    arena: ArenaId,
}

fn memory() -> Memory {
    let mapping = Arc::new(Mapping::anonymous((CHUNK * FRAMES) as usize));
    let table = Arc::new(FrameTable::new());
    let config = ArenaConfig {
        mapping,
        offset: HEADROOM_BYTES as usize,
        stride: CHUNK as usize,
        frames_per_home: FRAMES,
        homes: 1,
    };
    let (arena, mut pools) =
        table.add_arena_with_gaps(config, (CHUNK - HEADROOM_BYTES) as usize).expect("an arena of chunks");
    Memory { table, pool: pools.remove(0), arena }
}

/// A ring for the socket, and the same one for the thread that plays the kernel. Indices begin short of wrapping.
fn ring(kind: RingKind) -> (KernelRing, KernelRing) {
    let mapping = Arc::new(Mapping::anonymous(4096));
    let ours = KernelRing::new(&mapping, PLACES, kind, SLOTS).expect("a ring");
    let kernels = ours.for_look();
    for word in [XskWord::Producer, XskWord::Consumer] {
        kernels.store(word, u32::MAX - 2, Ordering::Relaxed);
    }
    (ours, kernels)
}

struct Receive {
    memory: Memory,
    rx: XskRx,
    fill: Consumer<KernelRing>,
    packets: Producer<KernelRing>,
}

fn receive() -> Receive {
    let memory = memory();
    let ((fill, kernel_fill), (packets, kernel_packets)) = (ring(RingKind::Addresses), ring(RingKind::Packets));
    let rx = XskRx::new(fill, packets, &memory.table, memory.arena);
    Receive { memory, rx, fill: Consumer::new(kernel_fill), packets: Producer::new(kernel_packets) }
}

impl Receive {
    /// As the kernel receives a packet: it takes a chunk and says where its bytes are.
    fn deliver(&mut self, length: u32) -> Option<u64> {
        self.packets.refresh().expect("an honest program");
        if self.packets.free() == 0 {
            return None; // counted as rx_ring_full by a real one
        }
        self.fill.refresh().expect("an honest program");
        let index = self.fill.take()?;
        let address = self.fill.memory.read_address(index) + u64::from(HEADROOM_BYTES);
        self.fill.release();
        self.describe(Descriptor { address, length, options: 0 });
        Some(address)
    }

    fn describe(&mut self, descriptor: Descriptor) {
        self.packets.refresh().expect("an honest program");
        let index = self.packets.claim();
        self.packets.memory.write_packet(index, descriptor);
        self.packets.publish();
    }

    fn post(&mut self, frames: u32) {
        for _ in 0..frames {
            let frame = self.memory.pool.alloc().expect("a frame");
            self.rx.post(frame).expect("room");
        }
    }
}

struct Send {
    memory: Memory,
    tx: XskTx,
    packets: Consumer<KernelRing>,
    sent: Producer<KernelRing>,
}

fn send() -> Send {
    let memory = memory();
    let ((packets, kernel_packets), (sent, kernel_sent)) = (ring(RingKind::Packets), ring(RingKind::Addresses));
    let tx = XskTx::new(packets, sent, &memory.table, memory.arena);
    Send { memory, tx, packets: Consumer::new(kernel_packets), sent: Producer::new(kernel_sent) }
}

impl Send {
    fn push(&mut self) -> bool {
        let Some(frame) = self.memory.pool.alloc() else { return false };
        match self.tx.push(frame, 60) {
            Ok(()) => true,
            Err(frame) => {
                self.memory.pool.free(frame);
                false
            }
        }
    }

    /// As the kernel sends a packet.
    fn transmit(&mut self) -> Option<u64> {
        self.packets.refresh().expect("an honest program");
        let index = self.packets.take()?;
        let address = self.packets.memory.read_packet(index).address;
        self.packets.release();
        Some(address)
    }

    fn complete(&mut self, address: u64) {
        self.sent.refresh().expect("an honest program");
        let index = self.sent.claim();
        self.sent.memory.write_address(index, address);
        self.sent.publish();
    }

    fn reclaim(&mut self) -> u32 {
        let pool = &mut self.memory.pool;
        self.tx.reclaim(|frame| pool.free(frame))
    }
}

#[test]
fn packets_come_in_the_frames_that_were_posted() {
    let mut at = receive();
    at.post(SLOTS);
    assert_eq!(at.deliver(60), None, "nothing was published");
    assert!(at.rx.publish().is_none(), "the kernel is awake");
    let address = at.deliver(60).expect("a chunk");
    assert!(at.deliver(61).is_some());
    assert_eq!(at.rx.pending(), 2);
    let (frame, length) = at.rx.take().expect("the first");
    assert_eq!((u64::from(at.memory.table.offset_of(&frame)), length), (address, 60));
    assert_eq!(at.memory.table.data(&frame, 60).len(), 60);
    assert_eq!(at.memory.table.capacity(&frame), (CHUNK - HEADROOM_BYTES) as usize);
    at.memory.pool.free(frame);
    let (second, length) = at.rx.take().expect("the second");
    assert_eq!(length, 61);
    assert!(at.rx.take().is_none());
    assert_eq!(at.rx.posted(), SLOTS - 2);
    at.memory.pool.free(second);
    assert_eq!((at.rx.bad_descriptors(), at.rx.index_errors()), (0, 0));
}

#[test]
fn a_full_fill_ring_hands_the_frame_back() {
    let mut at = receive();
    at.post(SLOTS);
    let frame = at.memory.pool.alloc().expect("a frame");
    let frame = at.rx.post(frame).expect_err("no slot is free");
    let _ = at.rx.publish();
    assert!(at.deliver(60).is_some());
    at.rx.post(frame).expect("the kernel has taken one");
}

#[test]
fn only_a_frame_that_is_with_the_kernel_comes_out() {
    let mut at = receive();
    at.post(4);
    let _ = at.rx.publish();
    let address = at.deliver(60).expect("a chunk");
    let wrong = [
        (address, 60, 0),                               // a second time
        (address + 1, 60, 0),                           // not where packets begin
        (address - u64::from(HEADROOM_BYTES), 60, 0),   // the chunk itself
        (u64::from(CHUNK * FRAMES) + 256, 60, 0),       // outside
        (u64::MAX, 60, 0),                              // far outside
        (u64::from(CHUNK * (FRAMES - 1)) + 256, 60, 0), // never posted
    ];
    let (frame, _) = at.rx.take().expect("the honest one");
    for (address, length, options) in wrong {
        at.describe(Descriptor { address, length, options });
        assert!(at.rx.take().is_none(), "{address:#x}");
        let _ = at.rx.publish();
    }
    assert_eq!(at.rx.bad_descriptors(), wrong.len() as u64);
    assert_eq!(at.rx.posted(), 3, "nothing was lost by it");
    at.memory.pool.free(frame);
}

#[test]
fn a_packet_that_cannot_be_goes_back_to_the_kernel() {
    for (length, options) in [(0, 0), (CHUNK - HEADROOM_BYTES + 1, 0), (u32::MAX, 0), (60, 1)] {
        let mut at = receive();
        at.post(1);
        let _ = at.rx.publish();
        at.fill.refresh().expect("honest");
        let index = at.fill.take().expect("a chunk");
        let address = at.fill.memory.read_address(index) + u64::from(HEADROOM_BYTES);
        at.fill.release();
        at.describe(Descriptor { address, length, options });
        assert!(at.rx.take().is_none());
        assert_eq!((at.rx.bad_descriptors(), at.rx.posted()), (1, 1));
        let _ = at.rx.publish();
        assert_eq!(at.deliver(60), Some(address), "the chunk was posted again");
    }
}

#[test]
fn impossible_indices_are_counted_and_ignored() {
    let mut at = receive();
    at.post(2);
    let _ = at.rx.publish();
    assert!(at.deliver(60).is_some());
    let at_packet = at.packets.memory.load(XskWord::Producer, Ordering::Relaxed);
    for wrong in [at_packet.wrapping_add(SLOTS), at_packet.wrapping_sub(2)] {
        at.packets.memory.store(XskWord::Producer, wrong, Ordering::Relaxed);
        let before = at.rx.index_errors();
        assert_eq!(at.rx.pending(), 0);
        assert_eq!(at.rx.index_errors(), before + 1);
    }
    at.packets.memory.store(XskWord::Producer, at_packet, Ordering::Relaxed);
    assert_eq!(at.rx.pending(), 1);
    let mut at = send();
    at.packets.memory.store(XskWord::Consumer, 77, Ordering::Relaxed);
    assert!(at.push());
    assert_eq!(at.tx.publish().published, 1);
    assert_eq!((at.tx.unsent(), at.tx.index_errors() > 0), (1, true));
    at.sent.memory.store(XskWord::Producer, 77, Ordering::Relaxed);
    assert_eq!(at.reclaim(), 0);
}

#[test]
fn whoever_publishes_is_told_that_the_kernel_sleeps() {
    let mut at = receive();
    at.fill.memory.store(XskWord::Flags, RING_NEED_WAKEUP, Ordering::Relaxed);
    assert!(at.rx.publish().is_none(), "nothing was published");
    at.post(1);
    assert!(at.rx.publish().is_some());
    let mut at = send();
    at.packets.memory.store(XskWord::Flags, RING_NEED_WAKEUP, Ordering::Relaxed);
    assert!(at.tx.publish().wake.is_none(), "nothing waits");
    assert!(at.push());
    assert!(at.tx.publish().wake.is_some());
    let again = at.tx.publish();
    assert!(again.published == 0 && again.wake.is_some(), "the packet waits still");
    assert!(at.transmit().is_some());
    assert!(at.tx.publish().wake.is_none(), "the kernel has taken it");
}

#[test]
fn no_more_is_on_the_way_than_the_completion_ring_holds() {
    let mut at = send();
    for round in 0..5 {
        let pushed = (0..).take_while(|_| at.push()).count() as u32;
        assert_eq!(pushed, SLOTS, "round {round}");
        assert_eq!(at.tx.publish().published, SLOTS);
        let taken: Vec<u64> = std::iter::from_fn(|| at.transmit()).collect();
        assert_eq!(taken.len() as u32, SLOTS);
        assert!(!at.push(), "the transmit ring is empty, but nothing was completed");
        taken.into_iter().for_each(|address| at.complete(address));
        assert_eq!(at.reclaim(), SLOTS);
        assert_eq!(at.tx.in_flight(), 0);
    }
    assert_eq!(at.memory.pool.available() as u32, FRAMES);
}

#[test]
fn a_completion_of_what_was_never_sent_makes_no_frame() {
    let mut at = send();
    assert!(at.push());
    let _ = at.tx.publish();
    let address = at.transmit().expect("sent");
    at.complete(address + u64::from(CHUNK));
    at.complete(address);
    at.complete(address);
    assert_eq!(at.reclaim(), 1);
    assert_eq!((at.tx.bad_descriptors(), at.tx.in_flight()), (2, 0));
}

#[test]
fn frames_of_a_second_arena_go_out_and_come_back() {
    let mut at = send();
    let mapping = Arc::new(Mapping::anonymous((CHUNK * FRAMES * 2) as usize));
    let first = (CHUNK * FRAMES) as usize; // where the first arena ends in the socket's memory
    let config = ArenaConfig {
        mapping,
        offset: first + HEADROOM_BYTES as usize,
        stride: CHUNK as usize,
        frames_per_home: 4,
        homes: 1,
    };
    let (arena, mut pools) = at.memory.table.add_arena_with_gaps(config, 1024).expect("an arena");
    assert!(!at.tx.takes(arena));
    at.tx.add_arena(&at.memory.table, arena);
    assert!(at.tx.takes(arena) && at.tx.takes(at.memory.arena));
    let frame = pools[0].alloc().expect("a frame");
    at.tx.push(frame, 60).expect("room");
    let _ = at.tx.publish();
    let address = at.transmit().expect("sent");
    assert_eq!(address, first as u64 + u64::from(HEADROOM_BYTES));
    at.complete(address);
    let mut back = Vec::new();
    assert_eq!(at.tx.reclaim(|frame: Frame| back.push(frame)), 1);
    assert_eq!(back.pop().map(|frame| frame.arena()), Some(arena));
}

#[test]
fn rings_that_cannot_be_are_refused() {
    let mapping = Arc::new(Mapping::anonymous(4096));
    let make = |places, slots| KernelRing::new(&mapping, places, RingKind::Packets, slots).map(|_| ());
    assert_eq!(make(PLACES, 3), Err(XskRingError::Size));
    assert_eq!(make(PLACES, 0), Err(XskRingError::Size));
    assert_eq!(make(PLACES, 1 << 30), Err(XskRingError::Size));
    assert_eq!(make(PLACES, 256), Err(XskRingError::Places), "the slots end after the mapping");
    assert_eq!(make(RingPlaces { flags: 4094, ..PLACES }, 8), Err(XskRingError::Places));
    assert_eq!(make(RingPlaces { producer: u64::MAX, ..PLACES }, 8), Err(XskRingError::Places));
    assert_eq!(make(PLACES, 8), Ok(()));
    assert_eq!(make(PLACES, 8), Err(XskRingError::Range(crate::ClaimError::Taken)));
}

/// A long walk of both sides against an honest kernel: every frame is somewhere at each step.
#[test]
fn frames_are_never_lost() {
    let mut rng = Rng::new(9);
    let (mut at, mut held) = (receive(), Vec::new());
    let mut out = send();
    let mut on_the_way = Vec::new();
    for _ in 0..20_000 {
        match rng.below(6) {
            0 => {
                if let Some(frame) = at.memory.pool.alloc()
                    && let Err(frame) = at.rx.post(frame)
                {
                    at.memory.pool.free(frame);
                }
            }
            1 => drop(at.deliver(60)),
            2 => held.extend(at.rx.take().map(|(frame, _)| frame)),
            3 => {
                held.drain(..).for_each(|frame| at.memory.pool.free(frame));
                let _ = at.rx.publish();
            }
            4 => drop(out.push().then(|| out.tx.publish())),
            _ => {
                on_the_way.extend(out.transmit());
                if rng.below(2) == 0 {
                    on_the_way.drain(..).for_each(|address| out.complete(address));
                    out.reclaim();
                }
            }
        }
        let received = at.memory.pool.available() as u32 + at.rx.posted() + held.len() as u32;
        assert_eq!(received, FRAMES);
        assert_eq!(out.memory.pool.available() as u32 + out.tx.in_flight(), FRAMES);
    }
    assert_eq!((at.rx.bad_descriptors(), at.rx.index_errors()), (0, 0));
    assert_eq!((out.tx.bad_descriptors(), out.tx.index_errors()), (0, 0));
}
