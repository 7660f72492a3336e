//! Frames of senders on their way home, and the credit that their sockets get for them.
//!
//! A sender writes down by frame to which send buffer its packet is charged; the thread that sends the frame home, because the
//! peer has read it or the discipline has dropped it, credits that buffer. Packets of one socket mostly come home one
//! after the other, and are one credit then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use napier_ring::{ArenaId, Frame, FramePool, FrameSorter};
use napier_stack::{OVERHEAD_BYTES, SendBuffers};

/// Which send buffer each frame of a device's senders is charged to.
pub(crate) struct Charges {
    /// By frame; 0: none.
    numbers: Box<[AtomicU32]>,
    truesize_bytes: u32,
    buffers: Arc<SendBuffers>,
}

impl Charges {
    /// For `frames` frames of `frame_bytes`.
    pub(crate) fn new(frames: usize, frame_bytes: u32, buffers: Arc<SendBuffers>) -> Arc<Self> {
        let numbers = (0..frames).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Self { numbers, truesize_bytes: frame_bytes + OVERHEAD_BYTES, buffers })
    }

    /// Charges a frame that goes on its way to buffer `number`, or to none.
    #[inline]
    pub(crate) fn charge(&self, frame: &Frame, number: u32) {
        // Relaxed: the frame's push publishes it.
        self.numbers[frame.index() as usize].store(number, Ordering::Relaxed);
        if number != 0 {
            self.buffers.charge(number, self.truesize_bytes);
        }
    }

    #[inline]
    fn number(&self, frame: &Frame) -> u32 {
        self.numbers[frame.index() as usize].load(Ordering::Relaxed)
    }

    /// Credits what was charged for a frame that goes home.
    pub(crate) fn credit(&self, frame: &Frame, news: &mut ToTell) {
        self.credit_many(self.number(frame), 1, news);
    }

    #[inline]
    fn credit_many(&self, number: u32, frames: u32, news: &mut ToTell) {
        if number != 0 && self.buffers.credit(number, frames * self.truesize_bytes) {
            news.push(number);
        }
    }

    /// Tells sockets that they have got room.
    pub(crate) fn tell(&self, news: ToTell) {
        news.numbers().for_each(|number| self.buffers.tell(number));
    }
}

/// Sockets that have got room and are to be told when no lock is held: whom that wakes may take this thread's processor.
/// Memory is got for those beyond the first few at a time.
#[must_use = "senders sleep until they are told"]
#[derive(Default)]
pub(crate) struct ToTell {
    /// 0: none.
    first: [u32; FIRST],
    more: Vec<u32>,
}

/// As many sockets as mostly get room at a time.
const FIRST: usize = 6;

impl ToTell {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first[0] == 0
    }

    fn push(&mut self, number: u32) {
        match self.first.iter_mut().find(|first| **first == 0) {
            Some(free) => *free = number,
            None => self.more.push(number),
        }
    }

    fn numbers(&self) -> impl Iterator<Item = u32> {
        self.first.iter().take_while(|first| **first != 0).chain(&self.more).copied()
    }

    /// Takes in those of another.
    #[inline]
    pub(crate) fn join(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        } else {
            other.numbers().for_each(|number| self.push(number));
        }
    }
}

/// Brings frames of a device's senders home, with credit.
pub(crate) struct TxCompletion {
    sorter: FrameSorter,
    charges: Arc<Charges>,
    /// Frames that came one after the other and are charged to one buffer.
    number: u32,
    frames: u32,
    news: ToTell,
}

impl TxCompletion {
    /// For the frames of the pool's arena.
    pub(crate) fn new(pool: &FramePool, charges: &Arc<Charges>) -> Self {
        Self { sorter: FrameSorter::new(pool), charges: charges.clone(), number: 0, frames: 0, news: ToTell::default() }
    }

    /// Adds a frame.
    #[inline]
    pub(crate) fn push(&mut self, frame: Frame) {
        let number = self.charges.number(&frame);
        if number != self.number {
            self.credit();
            self.number = number;
        }
        self.frames += 1;
        self.sorter.push(frame);
    }

    #[inline]
    fn credit(&mut self) {
        if self.frames > 0 {
            self.charges.credit_many(self.number, std::mem::take(&mut self.frames), &mut self.news);
        }
    }

    /// Sends them home now.
    #[inline]
    pub(crate) fn flush(&mut self) {
        // Before the credit: who is told has frames then.
        self.sorter.flush();
        self.credit();
    }

    /// Whose frames it takes.
    #[inline]
    pub(crate) fn arena(&self) -> ArenaId {
        self.sorter.arena()
    }

    /// Whom the caller is to tell.
    #[inline]
    pub(crate) fn take_news(&mut self) -> ToTell {
        std::mem::take(&mut self.news)
    }

    /// They are not told after all.
    pub(crate) fn keep_news(&mut self, news: ToTell) {
        self.news.join(news);
    }
}
