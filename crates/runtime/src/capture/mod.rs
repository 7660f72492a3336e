//! Captures: what a device receives and transmits, as a pcapng file.
//!
//! ```text
//! receive queue --take--> tap --\                              (one ring per queue and direction)
//! transmit queue --build,give--> tap --> rings --> a thread --> FILE
//! ```
//!
//! A frame is copied where it leaves the receive ring, before anything is merged, and where it enters the transmit ring,
//! after every queueing discipline. The thread at the queue copies it into a ring of the tap; if that is full the capture
//! has lost a frame and counts it, and the frame itself goes its way. Without a capture a frame costs one look at a
//! flag of its queue, and a poll one at that of the tap. Starting and ending a capture stops no thread.
//!
//! Frames of one queue and direction are in the order in which they went by. The others are sorted in by their times; only
//! a frame whose copying takes longer than a look of the thread may come after younger ones.

mod pcapng;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::engine::DeviceHandle;
use crate::netdev::Device;
use crate::port::tap::{self, Counters};
use pcapng::Direction;
use writer::{Tapped, Writer};

/// Bytes that a ring can have.
const RING_BYTES: core::ops::RangeInclusive<u32> = 64..=1 << 30;
/// More than any frame.
const WHOLE_FRAMES: u32 = 1 << 18;

/// Where a capture goes and how much it may hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureConfig {
    /// The file. A named pipe or `/dev/stdout` will do.
    pub path: PathBuf,
    /// True: a section is added at the end of the file. False: what was there is gone.
    pub append: bool,
    /// Bytes of a frame that are recorded; 0 = all of it.
    pub snaplen: u32,
    /// Bytes of the ring between a queue's owner and the capture's thread, 64 to 2^30, rounded up to a power of two;
    /// there are two per queue. It holds what comes in a millisecond or two.
    pub ring_bytes: u32,
}

impl CaptureConfig {
    /// Whole frames into a new file, with 1 MiB per ring.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), append: false, snaplen: 0, ring_bytes: 1 << 20 }
    }
}

/// Why a capture cannot begin, or is not complete.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Another capture is running.
    #[error("{device} is being captured (EBUSY): drop the other capture first")]
    Busy {
        /// Name of the device.
        device: String,
    },
    /// The size of the rings.
    #[error("a capture's ring has 64 to 1073741824 bytes, not {ring_bytes}")]
    RingBytes {
        /// As asked for.
        ring_bytes: u32,
    },
    /// The file.
    #[error("the capture cannot be written to {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The capture's thread.
    #[error("the capture's thread did not start: {0}")]
    Thread(io::Error),
}

/// What a capture has counted. Frames seen are the sum.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub struct CaptureStats {
    /// Frames in the file.
    pub written: u64,
    /// Frames that are not, because a ring was full or the file took no more. The device delivered them all the same.
    pub dropped: u64,
}

napier_core::shown!(CaptureStats { written, dropped });

/// A capture that is running. Dropping it ends it; [`Capture::finish`] also says whether the file is complete.
///
/// ```
/// # use napier_runtime::doc_link;
/// # let (engine, tested, peer) = doc_link()?;
/// # let path = std::env::temp_dir().join(format!("napier-doc-{}.pcapng", std::process::id()));
/// use napier_runtime::capture::CaptureConfig;
/// use napier_runtime::raw::RawPort;
/// let capture = tested.capture(&CaptureConfig::new(&path))?;
/// let port = RawPort::bind(&tested, 0)?;
/// port.build(64, |frame| { frame[..64].fill(7); 64 })?;
/// port.flush();
/// let stats = capture.finish()?;
/// assert_eq!((stats.written, stats.dropped), (1, 0));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a capture ends when it is dropped"]
pub struct Capture {
    device: Arc<Device>,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    path: PathBuf,
    thread: Option<JoinHandle<io::Result<()>>>,
    _claim: OneCapture,
}

/// The right to capture a device.
struct OneCapture(Arc<AtomicBool>);

impl OneCapture {
    fn new(busy: &Arc<AtomicBool>) -> Option<Self> {
        // Relaxed: the taps order by themselves what is in them.
        (!busy.swap(true, Ordering::Relaxed)).then(|| Self(busy.clone()))
    }
}

impl Drop for OneCapture {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl DeviceHandle {
    /// Writes every frame that the device receives and transmits from now on into a pcapng file, with direction, queue and
    /// time in ns.
    ///
    /// # Errors
    /// See [`CaptureError`].
    pub fn capture(&self, config: &CaptureConfig) -> Result<Capture, CaptureError> {
        let &CaptureConfig { ref path, append, snaplen, ring_bytes } = config;
        if !RING_BYTES.contains(&ring_bytes) {
            return Err(CaptureError::RingBytes { ring_bytes });
        }
        let taps = &self.device.taps;
        // Before the file is opened: that of the other capture must keep what it has.
        let claim = OneCapture::new(&taps.busy).ok_or_else(|| CaptureError::Busy { device: self.name().to_owned() })?;
        let at_file = |source| CaptureError::File { path: path.clone(), source };
        let file = open(path, append).map_err(at_file)?;
        let counters = Arc::new(Counters::default());
        let record_bytes = if snaplen == 0 { WHOLE_FRAMES } else { snaplen };
        let (mut sinks, mut tapped) = (Vec::new(), Vec::new());
        for (taps, direction) in [(&taps.rx, Direction::In), (&taps.tx, Direction::Out)] {
            for (queue, tap) in (0..).zip(taps) {
                let (sink, source) = tap::ring(ring_bytes, record_bytes, counters.clone());
                sinks.push((tap, sink));
                tapped.push(Tapped { source, queue, direction });
            }
        }
        let of = (self.name(), self.mac(), snaplen);
        let writer = Writer::begin(file, of, tapped, counters.clone()).map_err(at_file)?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name(format!("cap/{}", self.name())).spawn({
            let stop = stop.clone();
            move || writer.run(&stop)
        });
        let thread = Some(thread.map_err(CaptureError::Thread)?);
        sinks.into_iter().for_each(|(tap, sink)| tap.attach(sink));
        taps.counts(&counters);
        self.device.look_at_taps();
        Ok(Capture { device: self.device.clone(), counters, stop, path: path.clone(), thread, _claim: claim })
    }
}

impl Device {
    /// Each transmit queue looks whether it is captured; receive queues look when a poll begins.
    fn look_at_taps(&self) {
        (0..self.tx.len()).for_each(|queue| self.claim_tx(queue).queue.look_at_tap());
    }
}

fn open(path: &Path, append: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true);
    if append {
        options.append(true)
    } else {
        options.write(true).truncate(true)
    };
    options.open(path)
}

impl Capture {
    /// Frames written and dropped so far.
    #[must_use]
    pub fn stats(&self) -> CaptureStats {
        let (written, dropped) = self.counters.get();
        CaptureStats { written, dropped }
    }

    /// What the file said when it took no more; `None` while it takes what comes. Nothing is recorded from then on, and
    /// [`Capture::finish`] says so too.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.counters.failed.get().map(String::as_str)
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// The file took no more at some time; what was written before can be read.
    pub fn finish(mut self) -> Result<CaptureStats, CaptureError> {
        match self.stop() {
            Ok(()) => Ok(self.stats()),
            Err(source) => Err(CaptureError::File { path: self.path.clone(), source }),
        }
    }

    fn stop(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let taps = &self.device.taps;
        taps.rx.iter().chain(&taps.tx).for_each(|tap| tap.detach());
        self.device.look_at_taps();
        // Release: pairs with the Acquire in `Writer::run`.
        self.stop.store(true, Ordering::Release);
        thread.thread().unpark();
        thread.join().expect("the capture's thread does not panic")
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // A caller that wants to know asks `finish`.
        let _ = self.stop();
    }
}

impl Counters {
    fn get(&self) -> (u64, u64) {
        // Relaxed: figures, ordered with nothing; final ones are read after the thread was joined.
        (self.written.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed))
    }
}
