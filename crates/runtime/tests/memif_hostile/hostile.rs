//! A peer that does whatever comes to its mind, for ever. Its seed says in which order.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use napier_core::memif::{AddRegion, AddRing, MESSAGE_BYTES, Message, Name};
use rustix::fs::{FallocateFlags, SealFlags};
use rustix::io::ReadWriteFlags;

use crate::raw::{Client, Raw, eventfd, init, memfd};

/// Threads that fill an eventfd again and again, and most of them.
static FILLING: AtomicU64 = AtomicU64::new(0);
const FILLERS_MAX: u64 = 40;

/// A small repeatable generator (xorshift64*).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    fn pause(&mut self) {
        let longest_us = [0, 100, 3_000, 20_000][self.below(4) as usize];
        std::thread::sleep(Duration::from_micros(self.below(longest_us + 1)));
    }
}

/// What is not closed at once: connections, and descriptors of theirs.
type Kept = VecDeque<Box<dyn Send>>;

/// Attacks until it is killed.
pub(crate) fn attack(name: &str, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut kept = Kept::new();
    loop {
        match rng.below(8) {
            0 => kept.extend(Raw::try_connect(name).map(|raw| Box::new(raw) as Box<dyn Send>)),
            1 => babbles(name, &mut rng),
            2 => shakes_half_a_hand(name, &mut rng, &mut kept),
            3 => announces_other_files(name, &mut rng),
            _ => connects_and_misbehaves(name, &mut rng, &mut kept),
        }
        while kept.len() as u64 > 10 + rng.below(20) {
            kept.pop_front();
        }
        rng.pause();
    }
}

/// Bytes of any number, with any descriptors.
fn babbles(name: &str, rng: &mut Rng) {
    let Some(raw) = Raw::try_connect(name) else { return };
    for _ in 0..=rng.below(4) {
        let len = [0, 1, MESSAGE_BYTES, MESSAGE_BYTES, MESSAGE_BYTES + 1, 4000][rng.below(6) as usize];
        let mut bytes = rng.bytes(len);
        if len == MESSAGE_BYTES {
            bytes[..2].copy_from_slice(&(rng.below(10) as u16).to_le_bytes());
        }
        let files: Vec<OwnedFd> = (0..rng.below(5)).map(|_| strange_file(rng)).collect();
        raw.send_bytes(&bytes, &files.iter().map(AsFd::as_fd).collect::<Vec<_>>());
    }
}

fn strange_file(rng: &mut Rng) -> OwnedFd {
    match rng.below(5) {
        0 => std::fs::File::open("/dev/zero").unwrap().into(),
        1 => std::io::pipe().unwrap().1.into(),
        2 => memfd(rng.below(100_000), SealFlags::empty()),
        3 => memfd(8 << 30, SealFlags::SHRINK),
        _ => eventfd(),
    }
}

/// Goes some way and stops, or closes there, at any point.
fn shakes_half_a_hand(name: &str, rng: &mut Rng, kept: &mut Kept) {
    let Some(raw) = Raw::try_connect(name) else { return };
    let file = memfd(1 << 20, SealFlags::SHRINK);
    let ring = |c2s, offset| AddRing { c2s, index: 0, region: 0, offset, log2_ring_size: 6, private_header_bytes: 0 };
    let steps = [
        (Message::Init(init()), None),
        (Message::AddRegion(AddRegion { index: 0, bytes: 1 << 20 }), Some(&file)),
        (Message::AddRing(ring(true, 0)), Some(&file)),
        (Message::AddRing(ring(false, 64)), None),
        (Message::Connect(Name::new("half")), None),
    ];
    for (message, descriptor) in steps.iter().take(rng.below(6) as usize) {
        raw.send(message, *descriptor);
        rng.pause();
    }
    if rng.below(2) == 0 {
        kept.push_back(Box::new((raw, file)));
    }
}

/// A good handshake over files that are not what they should be.
fn announces_other_files(name: &str, rng: &mut Rng) {
    let more_bytes = [8 << 20, 1 << 30, 3 << 30][rng.below(3) as usize];
    let Some(client) = Client::try_announced(name, more_bytes, false) else { return };
    client.raw.send(&Message::Connect(Name::new("sparse")), None);
    // It may end at any time now.
    let _ = rustix::fs::ftruncate(&client.file, rng.below(100_000));
    rng.pause();
}

/// A good handshake, and then nothing good.
fn connects_and_misbehaves(name: &str, rng: &mut Rng, kept: &mut Kept) {
    let Some(mut client) = Client::try_announced(name, 0, rng.below(2) == 0) else { return };
    let answer = client.raw.reply(&Message::Connect(Name::new("hostile")), None);
    if !matches!(answer, Some(Message::Connected(_))) {
        return;
    }
    // Buffers to send into, so that it is rung as well.
    for slot in 0..64_u32 {
        client.descriptor(false, slot.into(), (0, 0, 2048, 8192 + (64 + slot) * 2048));
    }
    client.head(false, 64);
    for _ in 0..=rng.below(6) {
        misbehaves(&mut client, rng);
    }
    rng.pause();
    if rng.below(4) == 0 {
        // The control socket goes, the rest stays.
        let Client { raw, file, eventfds, .. } = client;
        drop(raw);
        kept.push_back(Box::new((file, eventfds)));
    } else if rng.below(4) == 0 {
        kept.push_back(Box::new((client.raw, client.file, client.eventfds)));
    }
}

fn misbehaves(client: &mut Client, rng: &mut Rng) {
    let (c2s, any) = (rng.below(2) == 0, rng.next());
    match rng.below(9) {
        0 => client.head(c2s, any as u16),
        1 => {
            for slot in 0..64 {
                let wild = (rng.next() as u16, rng.below(3) as u16, rng.next() as u32, rng.next() as u32);
                client.descriptor(c2s, slot, wild);
            }
            client.head(true, rng.below(65) as u16);
        }
        2 => {
            // All of the ring's words, but not its cookie.
            let bytes = rng.bytes(1000);
            client.poke(c2s, 4, &bytes);
        }
        3 | 4 => makes_a_ringer_wait(client, rng),
        5 => {
            for _ in 0..rng.below(20_000) {
                // From now on it may wait itself, if it was filled: then it is over.
                rustix::io::ioctl_fionbio(&client.eventfds[0], true).unwrap();
                let _ = rustix::io::write(&client.eventfds[0], &1_u64.to_ne_bytes());
            }
        }
        6 => {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = rustix::fs::fallocate(&client.file, hole, 0, client.layout.len());
            let _ = rustix::fs::ftruncate(&client.file, any % 10_000);
        }
        7 => client.raw.send_bytes(&rng.bytes(MESSAGE_BYTES), &[]),
        _ => {
            // Good packets for a change.
            for slot in 0..64_u32 {
                client.descriptor(true, slot.into(), (0, 0, 64, 8192 + slot * 2048));
            }
            client.head(true, rng.below(65) as u16);
        }
    }
    let _ = rustix::io::ioctl_fionbio(&client.eventfds[0], true);
    let _ = rustix::io::write(&client.eventfds[0], &1_u64.to_ne_bytes());
}

/// Fills what the other side rings, lets a write to it wait, and sometimes fills it again as soon as there is room.
fn makes_a_ringer_wait(client: &Client, rng: &mut Rng) {
    let ours = &client.eventfds[1];
    let _ = rustix::io::ioctl_fionbio(ours, true);
    let _ = rustix::io::write(ours, &(u64::MAX - 1).to_ne_bytes());
    let _ = rustix::io::ioctl_fionbio(ours, false);
    if rng.below(3) > 0 || FILLING.load(Ordering::Relaxed) >= FILLERS_MAX {
        return;
    }
    for _ in 0..4 {
        let theirs = rustix::io::dup(ours).unwrap();
        FILLING.fetch_add(1, Ordering::Relaxed);
        std::thread::spawn(move || {
            for _ in 0..50 {
                let _ = rustix::io::write(&theirs, &(u64::MAX - 1).to_ne_bytes());
            }
            FILLING.fetch_sub(1, Ordering::Relaxed);
        });
    }
    // When the other side has made room for them they are no good any more.
    let emptied = rustix::io::dup(ours).unwrap();
    std::thread::spawn(move || {
        for _ in 0..4 * 50 + 1 {
            std::thread::sleep(Duration::from_millis(1));
            let mut count = [0; 8];
            // Without waiting; an eventfd has no position.
            let to = &mut [IoSliceMut::new(&mut count)];
            let _ = rustix::io::preadv2(&emptied, to, u64::MAX, ReadWriteFlags::NOWAIT);
        }
    });
}
