//! Dry runs of an instance's receive path, while a group polls it and nothing comes.
//!
//! After some milliseconds of empty polls the way from the ring to the socket is not in the processor's nearest caches any more. A
//! datagram that came before is sent that way again now and then, up to the socket, where it ends ([`DryRun`]).

use std::panic::{AssertUnwindSafe, catch_unwind};

use napier_ring::{Frame, FrameTable};
use napier_stack::DryRun;

use super::{Napi, Owned};

/// Longest packet that is kept for dry runs: with longer ones half a microsecond does not matter.
const SAMPLE_BYTES_MAX: usize = 128;
/// Empty polls from one dry run to the next: some microseconds of polls, of which it takes a twentieth.
const POLLS_PER_RUN: u32 = 32;
/// Dry runs after which a newer packet is kept: to keep one costs the packet that comes some nanoseconds.
const RUNS_PER_SAMPLE: u32 = 64;

/// A packet that came, for dry runs; the owner's.
pub(crate) struct CacheWarming {
    /// The next packet that comes is kept.
    wants_sample: bool,
    bytes: [u8; SAMPLE_BYTES_MAX],
    /// 0: there is none.
    length: u8,
    empty_polls: u32,
    runs: u32,
}

impl CacheWarming {
    pub(super) const fn new() -> Self {
        Self { wants_sample: false, bytes: [0; SAMPLE_BYTES_MAX], length: 0, empty_polls: 0, runs: 0 }
    }

    /// Whether [`keep`](Self::keep) is to have the packet that comes now.
    #[inline]
    pub(super) const fn wants_sample(&self) -> bool {
        self.wants_sample
    }

    /// Keeps a packet, if it is short. Else another is asked for after more polls in vain: those behind it are not looked at.
    #[cold]
    pub(super) fn keep(&mut self, packet: &[u8]) {
        self.wants_sample = false;
        if packet.len() <= SAMPLE_BYTES_MAX {
            self.bytes[..packet.len()].copy_from_slice(packet);
            self.length = packet.len() as u8; // 128 at most
        }
    }

    /// An empty poll; true if it is time for a dry run, and there is a packet for one. Without one the next that comes is kept.
    #[inline]
    fn is_due(&mut self) -> bool {
        self.empty_polls += 1;
        if self.empty_polls < POLLS_PER_RUN {
            return false;
        }
        self.empty_polls = 0;
        self.runs = self.runs.wrapping_add(1);
        self.wants_sample |= self.length == 0 || self.runs.is_multiple_of(RUNS_PER_SAMPLE);
        self.length > 0
    }

    /// Puts the packet into a frame; its length.
    fn fill(&self, table: &FrameTable, frame: &mut Frame) -> Option<u32> {
        let bytes = &self.bytes[..self.length.into()];
        table.data_mut(frame).get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(self.length.into())
    }

    /// What came last goes to no socket: another one is wanted.
    const fn forget(&mut self) {
        self.length = 0;
    }
}

impl Napi {
    /// A poll found nothing. No packet is late for what is done here: the ring is looked at again after it.
    #[inline]
    pub(crate) fn polled_in_vain(&self, owned: &mut Owned) {
        if owned.warming.is_due() && owned.raw.is_none() {
            self.dry_run(owned);
        }
    }

    #[inline(never)]
    fn dry_run(&self, owned: &mut Owned) {
        let Owned { rx, warming, .. } = owned;
        let home = rx.frames_home();
        let Some(mut frame) = home.alloc() else { return };
        let Some(len) = warming.fill(home.table(), &mut frame) else { return home.free(frame) };
        let view = self.device.netns.view();
        let run = || view.dry_run(self.device.ifindex, frame, len);
        // As for a packet that came: a mistake of ours costs the frame, which the pass sends home.
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok((frame, came)) => {
                home.free(frame);
                match came {
                    DryRun::Nowhere => warming.forget(),
                    DryRun::Reached => {
                        #[cfg(test)]
                        self.dry_runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                }
            }
            Err(_) => {
                self.device.netns.note_fault();
                warming.forget();
            }
        }
    }
}
