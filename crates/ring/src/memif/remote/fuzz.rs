//! A peer that writes anything anywhere in the shared memory, driven by bytes.
//!
//! One link of each role over memory with guards on both sides. Each step of the input writes into the shared memory as a
//! peer could, or uses an end as the engine does. Whatever the bytes are: no panic, nothing read or written outside,
//! no ring word touched by a packet, and every result within its bound.

use core::ptr::NonNull;
use std::sync::Arc;

use super::{
    BadDescriptor, C2sReceiver, C2sSender, Landing, Receiver, Regions, S2cReceiver, S2cSender, Sender, SlotBuffers,
};
use crate::Mapping;
use crate::memif::{
    COOKIE, COOKIE_OFFSET, DESCRIPTOR_BYTES, HEAD_OFFSET, RING_HEADER_BYTES, RingEnd, RingView, TAIL_OFFSET,
};
use crate::sync::{MappedU16, MappedU32, MappedU64, Ordering};

const LOG2: u8 = 3;
const SLOTS: u32 = 1 << LOG2;
const RING_BYTES: usize = 256;
const BUFFER: u32 = 64;
/// Rings, then buffers for both.
const REGION_BYTES: usize = 2 * RING_BYTES + 2 * (SLOTS * BUFFER) as usize;
const GUARD_WORDS: usize = 64;
const GUARD: u64 = 0x5afe_5afe_5afe_5afe;

/// Shared memory between two guards.
struct Guarded {
    words: Arc<[MappedU64]>,
    mapping: Arc<Mapping>,
}

impl Guarded {
    fn new(bytes: usize) -> Self {
        let words = bytes / 8 + 2 * GUARD_WORDS + 8;
        let words: Arc<[MappedU64]> = (0..words).map(|_| MappedU64::new(GUARD)).collect();
        let first = words[GUARD_WORDS..].as_ptr();
        let skip = first.align_offset(64);
        let inside = &words[GUARD_WORDS + skip..][..bytes / 8];
        inside.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        let base = NonNull::from(inside).cast::<u8>();
        // SAFETY: the words live as long as the owner, are initialised, and are only reached as atomics beside this.
        let mapping = unsafe { Mapping::from_raw(base, bytes, Box::new(words.clone())) };
        Self { words, mapping: Arc::new(mapping) }
    }

    fn word(&self, offset: usize) -> &MappedU16 {
        assert!(offset.is_multiple_of(2) && offset < self.mapping.len(), "a word outside");
        let at = self.mapping.at(offset).cast::<MappedU16>();
        // SAFETY: inside the mapping, aligned, atomics only.
        unsafe { &*at }
    }

    /// A descriptor near the edges of what is allowed.
    fn describe(&self, a: u8, b: u8, c: u8) {
        const LENGTHS: [u32; 8] = [0, 1, 63, 64, 65, 79, 513, u32::MAX];
        const OFFSETS: [u32; 16] =
            [0, 4, 128, 256, 448, 511, 512, 513, 575, 1024, END - 64, END - 63, END - 1, END, END + 1, u32::MAX];
        const END: u32 = REGION_BYTES as u32;
        let at = usize::from(a & 1) * RING_BYTES + RING_HEADER_BYTES + usize::from(a >> 1 & 7) * DESCRIPTOR_BYTES;
        let (length, offset) = (LENGTHS[usize::from(b & 7)], OFFSETS[usize::from(c & 15)]);
        let region = u16::from(b >> 3 & 3).saturating_mul(if c & 16 == 0 { 1 } else { u16::MAX });
        let halves = |word: u32| [word as u16, (word >> 16) as u16];
        let fields = [[u16::from(b >> 5 & 1), region], halves(length), halves(offset)];
        for (field, value) in (0..).zip(fields.as_flattened()) {
            self.word(at + 2 * field).store(*value, Ordering::Relaxed);
        }
    }

    /// Moves head or tail of a ring, mostly by what could be.
    fn move_index(&self, a: u8, b: u8) {
        let word = self.word(usize::from(a & 1) * RING_BYTES + if a & 2 == 0 { HEAD_OFFSET } else { TAIL_OFFSET });
        let by = if a & 0x80 == 0 { u16::from(b & 7) } else { u16::from(b) << 8 | u16::from(b) };
        word.store(word.load(Ordering::Relaxed).wrapping_add(by), Ordering::Release);
    }

    fn cookie(&self, ring: usize) -> u32 {
        let at = self.mapping.at(ring * RING_BYTES + COOKIE_OFFSET).cast::<MappedU32>();
        // SAFETY: as above.
        unsafe { &*at }.load(Ordering::Relaxed)
    }

    fn check(&self) {
        let guards = self.words[..GUARD_WORDS].iter().chain(&self.words[self.words.len() - GUARD_WORDS..]);
        assert!(guards.into_iter().all(|word| word.load(Ordering::Relaxed) == GUARD), "written outside");
    }
}

/// A frame with bytes behind it that must not be written.
struct Cup {
    bytes: [u8; 80],
    room: usize,
    packets: usize,
}

impl Landing for Cup {
    fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.room]
    }

    fn landed(&mut self, length: usize) {
        assert!((1..=self.room).contains(&length), "a packet of {length} bytes in {}", self.room);
        self.packets += 1;
    }

    fn refused(&mut self, _why: BadDescriptor) {
        self.packets += 1;
    }
}

/// Both ends of one side.
struct Ends {
    memory: Guarded,
    rx: Receiver,
    tx: Sender,
}

impl Ends {
    fn client() -> Self {
        let memory = Guarded::new(REGION_BYTES);
        let view = |ring| {
            let view = RingView::new(&memory.mapping, ring * RING_BYTES, LOG2, RingEnd::Client).expect("inside");
            view.init();
            view
        };
        let (c2s, s2c) = (view(0), view(1));
        let buffers = |ring| {
            let offset = 2 * RING_BYTES as u32 + ring * SLOTS * BUFFER;
            SlotBuffers::new(&memory.mapping, offset, BUFFER, BUFFER, SLOTS).expect("inside")
        };
        let tx = Sender::Client(C2sSender::new(c2s, buffers(0)));
        let mut rx = Receiver::Client(S2cReceiver::new(s2c, buffers(1)));
        rx.release();
        Self { memory, rx, tx }
    }

    /// The second region holds no ring.
    fn server() -> (Self, Guarded) {
        let (memory, second) = (Guarded::new(REGION_BYTES), Guarded::new(512));
        let view = |ring| {
            let offset = ring * RING_BYTES;
            RingView::new(&memory.mapping, offset, LOG2, RingEnd::Client).expect("inside").init();
            RingView::new(&memory.mapping, offset, LOG2, RingEnd::Server).expect("inside")
        };
        let (c2s, s2c) = (view(0), view(1));
        let regions = Arc::new(Regions::new(vec![memory.mapping.clone(), second.mapping.clone()]));
        let rx = Receiver::Server(C2sReceiver::new(c2s, regions.clone()));
        let tx = Sender::Server(S2cSender::new(s2c, regions));
        (Self { memory, rx, tx }, second)
    }

    fn take(&mut self, room: usize) {
        let mut to = [0xa5; 80];
        if let Some(Ok(length)) = self.rx.take_into(&mut to[..room]) {
            assert!((1..=room).contains(&length), "a packet of {length} bytes in {room}");
        }
        assert!(to[room..].iter().all(|&byte| byte == 0xa5), "written beyond the frame");
    }

    fn take_burst(&mut self, max: usize) {
        let mut cup = Cup { bytes: [0xa5; 80], room: max % 80, packets: 0 };
        self.rx.take_burst(max, &mut cup);
        assert!(cup.packets <= max && cup.packets <= SLOTS as usize, "{} packets of {max}", cup.packets);
        assert!(cup.bytes[cup.room..].iter().all(|&byte| byte == 0xa5), "written beyond the frame");
    }

    fn step(&mut self, what: u8, a: u8) {
        match what {
            0 if a & 0x80 != 0 => self.take_burst(usize::from(a & 0x7f)),
            0 => self.take(usize::from(a) % 80),
            1 => assert!(self.rx.release() <= SLOTS),
            2 => assert!(self.rx.pending() <= SLOTS),
            // Full, or too long for what the peer posted: both are the peer's right.
            3 if a & 0x80 != 0 => {
                assert!(self.tx.prepare(usize::from(a & 0x1f)) <= SLOTS as usize);
                let packet = &[0x3c; 80][..1 + usize::from(a & 0x7f) % 79];
                let sent = self.tx.send_burst([packet, &packet[..1], packet].into_iter());
                assert!(sent.packets + sent.too_long <= 3 && sent.bytes <= 3 * 80);
            }
            3 => drop(self.tx.send(&[0x3c; 80][..1 + usize::from(a) % 79])),
            4 => assert!(self.tx.publish().published <= SLOTS),
            5 => assert!(self.tx.in_flight() <= SLOTS),
            _ => drop(self.rx.interrupt_switch().unmask()),
        }
    }
}

/// Plays `script`, four bytes a step: what, and three operands.
///
/// # Panics
///
/// If an end does what it must not: that is the finding.
pub fn fuzz_descriptors(script: &[u8]) {
    let mut client = Ends::client();
    let (mut server, second) = Ends::server();
    for step in script.chunks_exact(4).take(4096) {
        let &[what, a, b, c] = step else { unreachable!("chunks of four") };
        let side = if what & 1 == 0 { &mut client } else { &mut server };
        match what >> 1 & 15 {
            what @ 0..=6 => side.step(what, a),
            7..=10 => side.memory.describe(a, b, c),
            11..=13 => side.memory.move_index(a, b),
            // Any word, except the cookies, which tell whether a packet was written where none may be.
            _ => {
                let offset = (usize::from(a) * 8 + usize::from(b & 6)) % REGION_BYTES;
                if !(offset % RING_BYTES < 4 && offset < 2 * RING_BYTES) {
                    side.memory.word(offset).store(u16::from_le_bytes([c, b >> 3]), Ordering::Release);
                }
            }
        }
    }
    for guarded in [&client.memory, &server.memory, &second] {
        guarded.check();
    }
    for memory in [&client.memory, &server.memory] {
        assert_eq!((memory.cookie(0), memory.cookie(1)), (COOKIE, COOKIE), "a packet over a ring");
    }
}
