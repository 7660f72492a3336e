//! What round-trip experiments share: frames with a time stamp, percentiles in ns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use napier_core::frames::{HEADER_BYTES, Template};
use napier_runtime::raw::{RawPort, TxRingFull};
use serde::{Deserialize, Serialize};

use super::rounds::{RowSlice, latencies, nanos};
use super::stat::Spread;
use crate::pair::Pair;

/// Bytes of an experiment's frame: the smallest that Ethernet carries.
pub(crate) const FRAME_BYTES: usize = 64;

/// Largest latency that is told apart: one minute.
const NS_MAX: u64 = 60_000_000_000;

/// No answer within this time is the end of a run.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(1);

/// An empty histogram of ns.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, NS_MAX, 3).expect("the bounds are legal")
}

/// Percentiles of a latency, all in ns.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each name says it all")]
pub struct Percentiles {
    pub p5_ns: u64,
    pub p50_ns: u64,
    pub p95_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
    pub count: u64,
}

impl Percentiles {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self {
            p5_ns: at(0.05),
            p50_ns: at(0.5),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: histogram.max(),
            count: histogram.len(),
        }
    }

    /// A quantile over runs, in ns.
    #[expect(clippy::cast_precision_loss, reason = "figures for a report")]
    pub(super) fn spread(runs: &[Histogram<u64>], quantile: f64) -> Spread {
        Spread::over(runs, |run| run.value_at_quantile(quantile) as f64)
    }
}

/// Round trips one after the other: `ask` sends a request, and `take` says whether its answer has come. The first
/// `warm_up` do not count.
#[inline]
pub(crate) fn ping(
    (round_trips, warm_up): (u32, u32),
    answer_max: Duration,
    now_ns: impl Fn() -> u64,
    mut ask: impl FnMut() -> anyhow::Result<()>,
    mut take: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<RowSlice<Histogram<u64>>> {
    let mut histogram = histogram();
    let answer_max_ns = nanos(answer_max);
    let mut begun_ns = now_ns();
    for round_trip in 0..round_trips + warm_up {
        let sent_ns = now_ns();
        if round_trip == warm_up {
            begun_ns = sent_ns;
        }
        ask()?;
        while !take()? {
            anyhow::ensure!(now_ns() - sent_ns < answer_max_ns, "no answer within {answer_max:?}");
        }
        if round_trip >= warm_up {
            histogram.saturating_record(now_ns() - sent_ns);
        }
    }
    let window = Duration::from_nanos(now_ns() - begun_ns);
    let (latency, answered) = (latencies(&histogram), histogram.len());
    Ok(RowSlice { latency, answered, window, cpu: Duration::ZERO, run: histogram })
}

/// Runs `client` while `server` runs on a thread of its own: that says when it is ready, and ends when the flag is set.
pub(super) fn with_server<T>(
    server: impl FnOnce(SyncSender<()>, &AtomicBool) -> anyhow::Result<()> + Send,
    client: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ((ready, is_ready), stop) = (sync_channel(1), &stop);
        let served = scope.spawn(move || server(ready, stop));
        let measured = is_ready.recv().context("the server did not start").and_then(|()| client());
        stop.store(true, Ordering::Release);
        served.join().expect("the server does not panic")?;
        measured
    })
}

/// Sends a datagram with a stamp to the end under test, unless the ring is full.
#[inline]
pub(super) fn send_stamped(
    pair: &Pair,
    source: &RawPort,
    template: &Template,
    stamp_ns: u64,
) -> Result<(), TxRingFull> {
    source.build(FRAME_BYTES, |frame| {
        write_stamped(frame, pair.peer.mac(), pair.tested.mac(), stamp_ns);
        template.complete(frame, FRAME_BYTES - HEADER_BYTES)
    })?;
    source.flush();
    Ok(())
}

/// Writes a frame that carries `stamp_ns`.
pub(crate) fn write_stamped(frame: &mut [u8], src: [u8; 6], dst: [u8; 6], stamp_ns: u64) -> usize {
    frame[..6].copy_from_slice(&dst);
    frame[6..12].copy_from_slice(&src);
    // An EtherType for local experiments. Source: IEEE 802, "Local Experimental EtherType 1".
    frame[12..14].copy_from_slice(&0x88b5_u16.to_be_bytes());
    frame[14..22].copy_from_slice(&stamp_ns.to_le_bytes());
    frame[22..FRAME_BYTES].fill(0);
    FRAME_BYTES
}

/// The stamp of a frame, if it is one of ours.
pub(crate) fn stamp_of(frame: &[u8]) -> Option<u64> {
    let stamp = frame.get(14..22)?;
    (frame[12..14] == 0x88b5_u16.to_be_bytes()).then(|| u64::from_le_bytes(stamp.try_into().expect("eight bytes")))
}

/// Turns a frame round: what it was sent from becomes where it goes.
pub(crate) fn turn_round(frame: &mut [u8]) {
    let (dst, rest) = frame.split_at_mut(6);
    dst.swap_with_slice(&mut rest[..6]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_come_back() {
        let mut frame = [0xff; FRAME_BYTES];
        assert_eq!(write_stamped(&mut frame, [1; 6], [2; 6], 77), FRAME_BYTES);
        turn_round(&mut frame);
        assert_eq!((stamp_of(&frame), &frame[..6], &frame[6..12]), (Some(77), &[1; 6][..], &[2; 6][..]));
        assert_eq!(stamp_of(&[0; 60]), None);
    }
}
