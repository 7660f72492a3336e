//! The thread of a capture: brings the records of all taps into the order of their times and writes them.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::pcapng::{self, CapturedPacket, Direction, Statistics};
use crate::port::tap::{Counters, TapSource};
use napier_sys::clock::Clock;

/// Pause between two looks at the rings, which must hold what comes meanwhile.
const PAUSE: Duration = Duration::from_millis(1);
/// Bytes of whole blocks that are written at once, or one block more.
const CHUNK_BYTES: usize = 64 << 10;

/// A tap's reading end and what its frames are.
pub(super) struct Tapped {
    pub(super) source: TapSource,
    pub(super) queue: u16,
    pub(super) direction: Direction,
}

/// What the thread works with.
pub(super) struct Writer {
    file: File,
    tapped: Vec<Tapped>,
    counters: Arc<Counters>,
    /// Added to `CLOCK_MONOTONIC` it gives the time since 1970 at the beginning of the capture.
    since_1970_ns: u64,
    begun_ns: u64,
    out: Vec<u8>,
    /// Frames in `out`.
    unwritten: u64,
}

impl Writer {
    /// Writes the head of a section.
    ///
    /// # Errors
    /// What the file says.
    pub(super) fn begin(
        file: File,
        (name, mac, snaplen): (&str, [u8; 6], u32),
        tapped: Vec<Tapped>,
        counters: Arc<Counters>,
    ) -> io::Result<Self> {
        let (monotonic_ns, since_1970) = (Clock.now().ns, clock_gettime(ClockId::Realtime));
        let wall_ns = since_1970.tv_sec.cast_unsigned() * 1_000_000_000 + since_1970.tv_nsec.cast_unsigned();
        let mut writer = Self {
            file,
            tapped,
            counters,
            since_1970_ns: wall_ns.wrapping_sub(monotonic_ns),
            begun_ns: wall_ns,
            out: Vec::with_capacity(2 * CHUNK_BYTES),
            unwritten: 0,
        };
        pcapng::section_header(&mut writer.out);
        pcapng::interface_description(&mut writer.out, name, mac, snaplen);
        writer.flush()?;
        Ok(writer)
    }

    /// Writes until `stop`, which is set when nothing is recorded any more, and then the end of the section.
    ///
    /// # Errors
    /// What the file says; the rest of the capture is counted as dropped then.
    pub(super) fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        loop {
            // Acquire: pairs with the Release of `Capture::stop`: everything that was recorded is seen below.
            let last = stop.load(Ordering::Acquire);
            // What is recorded from now on waits, so that no queue runs ahead of the others.
            let until_ns = if last { u64::MAX } else { Clock.now().ns };
            if let Err(error) = self.round(until_ns) {
                let _ = self.counters.failed.set(error.to_string()); // only this thread sets it, and once
                self.give_up(stop);
                return Err(error);
            }
            if last {
                return self.end();
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    /// Writes all records from before `until_ns`, oldest first.
    fn round(&mut self, until_ns: u64) -> io::Result<()> {
        loop {
            let heads = self.tapped.iter_mut().enumerate().filter_map(|(at, tap)| Some((tap.source.peek()?, at)));
            let Some((head, at)) = heads.min_by_key(|(head, _)| head.at_ns).filter(|(head, _)| head.at_ns < until_ns)
            else {
                break;
            };
            let Tapped { source, queue, direction } = &mut self.tapped[at];
            let packet = CapturedPacket {
                at_ns: head.at_ns.wrapping_add(self.since_1970_ns),
                length: head.length,
                direction: *direction,
                queue: u32::from(*queue),
                lost: head.lost,
            };
            pcapng::enhanced_packet(&mut self.out, &packet, head.captured, |out| source.take(out));
            self.unwritten += 1;
            if self.out.len() >= CHUNK_BYTES {
                self.flush()?;
            }
        }
        self.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        let (written, dropped) = self.counters.get();
        pcapng::interface_statistics(
            &mut self.out,
            &Statistics {
                begun_ns: self.begun_ns,
                ended_ns: Clock.now().ns.wrapping_add(self.since_1970_ns),
                seen: written + dropped,
                dropped,
            },
        );
        self.flush()
    }

    /// Whole blocks only, so that the file can be read whenever the process ends.
    fn flush(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            self.file.write_all(&self.out)?;
            self.out.clear();
            self.counters.written.fetch_add(std::mem::take(&mut self.unwritten), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Nothing can be written any more: what comes is dropped here until the capture ends.
    #[cold]
    fn give_up(&mut self, stop: &AtomicBool) {
        let mut dropped = std::mem::take(&mut self.unwritten);
        loop {
            let last = stop.load(Ordering::Acquire);
            for tap in &mut self.tapped {
                while tap.source.peek().is_some() {
                    self.out.clear();
                    tap.source.take(&mut self.out);
                    dropped += 1;
                }
            }
            self.counters.dropped.fetch_add(std::mem::take(&mut dropped), Ordering::Relaxed);
            if last {
                return;
            }
            std::thread::park_timeout(PAUSE);
        }
    }
}
