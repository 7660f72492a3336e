//! Where frames are copied for a capture: one tap per queue and direction, off without a capture.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use napier_ring::{Exclusive, spsc};

use super::lock;
use napier_sys::clock::Clock;

/// Words in front of the bytes of a record: lengths and time.
const HEAD_WORDS: usize = 2;
/// Bits of a length in a record's first word; a frame has at most 65536 bytes.
const LENGTH_BITS: u32 = 20;
/// Most drops that a record can tell of; more are in the counters all the same.
const LOST_MAX: u32 = (1 << (64 - 2 * LENGTH_BITS)) - 1;

/// What a capture has counted. Any thread adds and reads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) written: AtomicU64,
    pub(crate) dropped: AtomicU64,
    /// What the file said when it took no more.
    pub(crate) failed: OnceLock<String>,
}

/// The tap of one queue in one direction. The owner of the queue records; a capture puts a sink in and takes it out.
pub(crate) struct Tap {
    on: AtomicBool,
    sink: Exclusive<Option<Sink>>,
}

impl Tap {
    /// A tap that is off.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { on: AtomicBool::new(false), sink: Exclusive::new(None) })
    }

    /// Whether frames are to be recorded.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        // Relaxed: a hint; the sink is entered before it is used.
        self.on.load(Ordering::Relaxed)
    }

    /// Copies a frame, or counts it as dropped. Never waits.
    #[cold]
    pub(crate) fn record(&self, frame: &[u8]) {
        // Only a capture that begins or ends at this moment is inside: the frame is before it or after it.
        if let Some(mut sink) = self.sink.try_enter()
            && let Some(sink) = &mut *sink
        {
            sink.record(frame);
        }
    }

    /// Begins to record.
    pub(crate) fn attach(&self, sink: Sink) {
        let before = lock(&self.sink).0.replace(sink);
        assert!(before.is_none(), "a device is captured once at a time");
        self.on.store(true, Ordering::Relaxed);
    }

    /// Ends recording: what was recorded is published when this returns, and nothing follows.
    pub(crate) fn detach(&self) {
        self.on.store(false, Ordering::Relaxed);
        lock(&self.sink).0.take();
    }
}

/// The taps of a device, one per queue.
pub(crate) struct Taps {
    pub(crate) rx: Vec<Arc<Tap>>,
    pub(crate) tx: Vec<Arc<Tap>>,
    /// A capture is on.
    pub(crate) busy: Arc<AtomicBool>,
    /// What the last capture has counted, while it is there.
    pub(crate) counted: Mutex<Weak<Counters>>,
}

impl Taps {
    /// Counters of the capture that runs.
    pub(crate) fn counters(&self) -> Option<Arc<Counters>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    /// A capture begins.
    pub(crate) fn counts(&self, counters: &Arc<Counters>) {
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(counters);
    }
}

/// The writing end of a tap's ring.
pub(crate) struct Sink {
    ring: spsc::Producer<u64>,
    snaplen: usize,
    counters: Arc<Counters>,
    /// Frames dropped since the last one that had room.
    lost: u32,
}

/// The reading end.
pub(crate) struct TapSource {
    ring: spsc::Consumer<u64>,
    /// The next record, whose bytes are still in the ring.
    next: Option<Head>,
}

/// What a record says of a frame.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// `CLOCK_MONOTONIC`.
    pub(crate) at_ns: u64,
    /// Bytes of the frame.
    pub(crate) length: u32,
    /// Bytes of it that were recorded.
    pub(crate) captured: u32,
    /// Frames of the same queue and direction that were dropped just before.
    pub(crate) lost: u32,
}

/// A ring of `bytes`, rounded up to a power of two, for frames cut at `snaplen`.
pub(crate) fn ring(bytes: u32, snaplen: u32, counters: Arc<Counters>) -> (Sink, TapSource) {
    let (producer, consumer) = spsc::channel(bytes / 8);
    let sink = Sink { ring: producer, snaplen: snaplen as usize, counters, lost: 0 };
    (sink, TapSource { ring: consumer, next: None })
}

impl Sink {
    fn record(&mut self, frame: &[u8]) {
        let captured = &frame[..frame.len().min(self.snaplen)];
        let words = HEAD_WORDS + captured.len().div_ceil(8);
        if self.room() < words {
            self.lost = LOST_MAX.min(self.lost + 1);
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let lengths = (frame.len() as u64) << LENGTH_BITS | captured.len() as u64;
        let lost = u64::from(std::mem::take(&mut self.lost));
        self.stage(lost << (2 * LENGTH_BITS) | lengths);
        self.stage(Clock.now().ns);
        let (whole, rest) = captured.as_chunks::<8>();
        for word in whole {
            self.stage(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.stage(u64::from_le_bytes(word));
        }
        self.ring.publish();
    }

    /// Words that are free now; `free` may know of fewer, for it looks at the reader only where it knows of none.
    fn room(&self) -> usize {
        (self.ring.capacity() - self.ring.len()) as usize
    }

    #[inline]
    fn stage(&mut self, word: u64) {
        assert!(self.ring.stage(word).is_ok(), "there was room for the whole record");
    }
}

impl TapSource {
    /// The oldest record, without taking it.
    pub(crate) fn peek(&mut self) -> Option<Head> {
        if self.next.is_none() {
            let lengths = self.ring.pop()?;
            let at_ns = self.ring.pop().expect("a record is published whole");
            let length = |shift: u32| (lengths >> shift) as u32 & ((1 << LENGTH_BITS) - 1);
            let lost = (lengths >> (2 * LENGTH_BITS)) as u32; // 24 bits are left
            self.next = Some(Head { at_ns, length: length(LENGTH_BITS), captured: length(0), lost });
        }
        self.next
    }

    /// Takes the record that [`peek`](Self::peek) showed: appends its bytes to `to`.
    pub(crate) fn take(&mut self, to: &mut Vec<u8>) {
        let head = self.next.take().expect("taken after a look");
        let end = to.len() + head.captured as usize;
        while to.len() < end {
            let word = self.ring.pop().expect("a record is published whole").to_le_bytes();
            to.extend_from_slice(&word[..word.len().min(end - to.len())]);
        }
    }
}
