//! When the first slow start ends: when round trips get longer, before anything is lost (RFC 9406).

use crate::tcp::seq::Seq;
use crate::time::Span;

/// Least and most that a round trip must have grown by (section 4.3 `MIN_RTT_THRESH`, `MAX_RTT_THRESH`).
const GROWN_MIN: u64 = 4_000_000;
const GROWN_MAX: u64 = 16_000_000;
/// The same as a part of it (`MIN_RTT_DIVISOR`).
const GROWN_PART: u64 = 8;
/// Samples of a round (`N_RTT_SAMPLE`).
const SAMPLES: u8 = 8;
/// How much slower it grows while it is in doubt (`CSS_GROWTH_DIVISOR`).
const SLOWER: u32 = 4;
/// Rounds of doubt (`CSS_ROUNDS`).
const ROUNDS: u8 = 5;
/// Most segments that one acknowledgement is worth (section 4.2 `L`): as many as come in the longest merged packet.
const STEP_SEGMENTS: u32 = 45;

/// State of HyStart++.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct HyStart {
    round_end: Option<Seq>,
    /// The least round trip of the last round and of this, in ns; 0: none.
    last: u64,
    current: u64,
    samples: u8,
    /// In doubt: the least round trip when that began, and rounds since.
    doubt: Option<(u64, u8)>,
}

impl HyStart {
    /// Something was acknowledged. Whether slow start is over.
    pub(super) fn acked(&mut self, rtt: Option<Span>, acknowledged: Seq, sent: Seq) -> bool {
        if self.round_end.is_none_or(|end| !acknowledged.is_before(end)) {
            (self.last, self.current, self.samples) = (self.current, 0, 0);
            if let Some((_, rounds)) = &mut self.doubt
                && self.round_end.is_some()
            {
                *rounds += 1;
            }
            self.round_end = Some(sent);
        }
        if let Some(rtt) = rtt {
            let ns = rtt.ns.max(1);
            self.current = if self.current == 0 { ns } else { self.current.min(ns) };
            self.samples = self.samples.saturating_add(1);
        }
        let enough = self.samples >= SAMPLES && self.current > 0;
        match self.doubt {
            None if enough && self.last > 0 => {
                let grown = (self.last / GROWN_PART).clamp(GROWN_MIN, GROWN_MAX);
                if self.current >= self.last + grown {
                    self.doubt = Some((self.current, 0));
                }
                false
            }
            None => false,
            Some((began, _)) if enough && self.current < began => {
                self.doubt = None;
                false
            }
            Some((_, rounds)) => rounds >= ROUNDS,
        }
    }

    /// By how much the window grows.
    pub(super) fn step(&self, bytes: u32, segment: u32) -> u32 {
        let step = bytes.min(STEP_SEGMENTS * segment);
        if self.doubt.is_some() { step / SLOWER } else { step }
    }
}
