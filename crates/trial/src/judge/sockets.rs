//! A service's own connections, as the kernel knows them.
//!
//! The smoothed round trip of a connection is no time of a request. It ends when the peer's acknowledgement has been taken from the interface, so it has in it what the
//! way takes, what the peer waits before it acknowledges (often until its next request), and what the packet waits here: only the last differs from mode to
//! mode. What the service itself takes is not in it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use napier_linux::connections::{ConnectionRow, Connections};
use napier_linux::process::Roots;
use napier_verdict::Histogram;

use super::beside::{Beside, Going, Looker};
use super::{Better, Judge, JudgeError, JudgedFigure, Reading, Unit};

/// Between two looks at least.
const PAUSE: Duration = Duration::from_millis(250);
/// From one time that its ports are looked for to the next.
const FIND_AGAIN: Duration = Duration::from_secs(60);
/// The kernel is never silent: who waits so long had no CPU.
const PATIENCE: Duration = Duration::from_secs(3);
/// Segments after which a smoothed round trip has an eighth of what it was before at most: (7/8)^16.
const SEGMENTS_MIN: u32 = 16;
/// Connections that are kept in mind.
const CONNECTIONS_MAX: usize = 1 << 18;

/// The judge.
///
/// # Errors
/// It has no TCP connections, or they are not to be seen from here.
pub(super) fn sockets(roots: &Roots) -> Result<Box<dyn Judge>, JudgeError> {
    let connections = open(roots).map_err(|why| JudgeError { judge: "sockets".to_owned(), why })?;
    let source =
        Sockets { roots: roots.clone(), connections, tally: ConnectionTally::default(), found: Instant::now() };
    let figure = |name: &str, unit, better| JudgedFigure { name: name.to_owned(), unit, better };
    let figures = vec![
        figure("rtt-p50", Unit::Seconds, Better::Less),
        figure("rtt-p99", Unit::Seconds, Better::Less),
        figure("segments", Unit::PerSecond, Better::More),
        figure("retransmissions", Unit::PerSecond, Better::Less),
        figure("bytes", Unit::BytesPerSecond, Better::More),
        figure("between", Unit::Seconds, Better::Less),
    ];
    Ok(Box::new(Beside::start("sockets", figures, source)?))
}

fn open(roots: &Roots) -> Result<Connections, String> {
    Connections::of(roots).map_err(|error| {
        format!(
            "{error}. The kernel knows round trips of TCP alone: give --judge 'cmd:COMMAND', 'prom:URL QUERY', 'file:PATH' or cpu"
        )
    })
}

/// Looks at connections.
struct Sockets {
    roots: Roots,
    connections: Connections,
    tally: ConnectionTally,
    /// When its ports were looked for.
    found: Instant,
}

impl Sockets {
    fn take(&mut self) -> Result<(), String> {
        let begun = self.tally.look_begins(Instant::now());
        let tally = &mut self.tally;
        let looked = self.connections.look(&mut |row| tally.add(&row));
        self.tally.look_ends(begun);
        looked.map_err(|error| format!("the kernel does not list its connections: {error}"))
    }
}

impl Looker for Sockets {
    fn begin(&mut self, _: &Going) -> Result<(), String> {
        // It may listen on other ports by now; if it cannot be told, the old ones hold. That is a look at all of its descriptors, so not in each block.
        if self.found.elapsed() >= FIND_AGAIN {
            self.found = Instant::now();
            if let Ok(found) = Connections::of(&self.roots) {
                self.connections = found;
            }
        }
        self.take()?;
        self.tally.begin();
        Ok(())
    }

    fn look(&mut self, _: &Going) -> Result<Option<Reading>, String> {
        if self.tally.since.is_none() {
            self.take()?;
            self.tally.begin();
            return Ok(None);
        }
        self.take()?;
        Ok(self.tally.reading())
    }

    fn pause(&self) -> Duration {
        PAUSE
    }

    fn share(&self) -> f64 {
        0.002
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

/// What connections had at the looks of a block. Pure.
#[derive(Default)]
struct ConnectionTally {
    known: HashMap<u64, KnownConnection>,
    /// Those that the look that is being made has found.
    found: HashMap<u64, KnownConnection>,
    /// When the first look was made from which this block counts.
    since: Option<Instant>,
    last: Option<Instant>,
    /// The time between the two last looks.
    between: Duration,
    /// Of the whole block, and of the last look.
    all: Counts,
    newest: Counts,
}

/// A connection as it was.
#[derive(Clone, Copy)]
struct KnownConnection {
    row: ConnectionRow,
    /// Segments when the block began.
    begun: u32,
    /// It is younger than the block.
    is_new: bool,
}

#[derive(Default)]
struct Counts {
    round_trips_us: Histogram,
    segments: u64,
    retransmissions: u64,
    bytes: u64,
    /// Connections that sent something.
    active: u64,
}

impl ConnectionTally {
    /// From the last look on counts.
    fn begin(&mut self) {
        self.since = self.last;
        self.all = Counts::default();
        self.known.values_mut().for_each(|known| (known.begun, known.is_new) = (known.row.segs_in, false));
    }

    fn look_begins(&mut self, now: Instant) -> Instant {
        self.newest = Counts::default();
        now
    }

    /// A connection of a look.
    fn add(&mut self, row: &ConnectionRow) {
        if self.found.len() >= CONNECTIONS_MAX {
            return;
        }
        let is_first = self.last.is_none();
        // One that is new had all that it has meanwhile; at the first look it is not known since when.
        let new = if is_first {
            KnownConnection { row: *row, begun: row.segs_in, is_new: false }
        } else {
            KnownConnection { row: ConnectionRow::default(), begun: 0, is_new: true }
        };
        let KnownConnection { row: before, begun, is_new } = self.known.get(&row.cookie).copied().unwrap_or(new);
        self.found.insert(row.cookie, KnownConnection { row: *row, begun, is_new });
        let segments = row.segs_in.wrapping_sub(before.segs_in);
        let is_fresh = is_new || row.segs_in.wrapping_sub(begun) >= SEGMENTS_MIN;
        let bytes = row.bytes_received.saturating_sub(before.bytes_received)
            + row.bytes_acked.saturating_sub(before.bytes_acked);
        for counts in [&mut self.all, &mut self.newest] {
            counts.segments += u64::from(row.data_segs_in.wrapping_sub(before.data_segs_in));
            counts.retransmissions += u64::from(row.retransmissions.wrapping_sub(before.retransmissions));
            counts.bytes += bytes;
            counts.active += u64::from(segments > 0);
            if !is_first && segments > 0 && is_fresh && row.srtt_us > 0 {
                counts.round_trips_us.record(row.srtt_us.into(), 1);
            }
        }
    }

    fn look_ends(&mut self, at: Instant) {
        self.between = self.last.map_or(Duration::ZERO, |last| at - last);
        self.known = std::mem::take(&mut self.found);
        self.last = Some(at);
    }

    fn reading(&self) -> Option<Reading> {
        let span = self.last? - self.since?;
        let active = self.known.values().filter(|known| known.is_new || known.row.segs_in != known.begun).count();
        let newest = self.newest.values(self.between, self.newest.active);
        Some(Reading { values: self.all.values(span, active as u64), newest })
    }
}

impl Counts {
    /// Of so long, and of so many connections that sent something.
    fn values(&self, span: Duration, active: u64) -> Vec<Option<f64>> {
        let seconds = span.as_secs_f64();
        let quantile = |q| self.round_trips_us.quantile(q).map(|us| us as f64 / 1e6);
        let rate = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
        let between = (self.segments > 0).then(|| active as f64 * seconds / self.segments as f64);
        let [segments, retransmissions, bytes] = [self.segments, self.retransmissions, self.bytes].map(rate);
        vec![quantile(0.5), quantile(0.99), segments, retransmissions, bytes, between]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cookie: u64, srtt_us: u32, segs: u32) -> ConnectionRow {
        let bytes = u64::from(segs) * 10;
        ConnectionRow {
            cookie,
            srtt_us,
            segs_in: segs,
            data_segs_in: segs,
            bytes_received: bytes,
            bytes_acked: bytes,
            ..ConnectionRow::default()
        }
    }

    fn look(tally: &mut ConnectionTally, at: Instant, rows: &[ConnectionRow]) {
        let at = tally.look_begins(at);
        rows.iter().for_each(|row| tally.add(row));
        tally.look_ends(at);
    }

    #[test]
    fn a_round_trip_counts_when_it_is_of_this_block() {
        let (mut tally, begun) = (ConnectionTally::default(), Instant::now());
        let after = |ms| begun + Duration::from_millis(ms);
        look(&mut tally, begun, &[row(1, 500, 1000), row(2, 900, 1000)]);
        tally.begin();
        // Too few segments since, so that it has too much of what was before; and one that did nothing.
        look(&mut tally, after(500), &[row(1, 400, 1015), row(2, 900, 1000)]);
        let reading = tally.reading().expect("two looks");
        assert_eq!(reading.values, [None, None, Some(30.0), Some(0.0), Some(600.0), Some(0.5 / 15.0)]);
        // One is fresh now, and a new one is at once.
        look(&mut tally, after(1000), &[row(1, 120, 1016), row(3, 80, 4)]);
        let reading = tally.reading().expect("three looks");
        assert_eq!(reading.values[..2], [Some(80e-6), Some(120e-6)]);
        assert_eq!((reading.values[2], reading.newest[2]), (Some(20.0), Some(10.0)));
        assert_eq!(reading.newest[4], Some(200.0));
        look(&mut tally, after(1500), &[row(1, 120, 1016), row(3, 70, 8)]);
        assert_eq!(tally.reading().expect("four looks").newest[0], Some(70e-6), "it is new for all of the block");
    }

    #[test]
    fn a_block_begins_with_nothing() {
        let (mut tally, begun) = (ConnectionTally::default(), Instant::now());
        look(&mut tally, begun, &[row(1, 500, 100)]);
        tally.begin();
        look(&mut tally, begun + Duration::from_secs(1), &[row(1, 500, 200)]);
        assert_eq!(tally.reading().expect("two looks").values[0], Some(500e-6));
        tally.begin();
        look(&mut tally, begun + Duration::from_secs(3), &[row(1, 300, 300)]);
        let reading = tally.reading().expect("looks");
        assert_eq!((reading.values[0], reading.values[2]), (Some(300e-6), Some(50.0)));
        assert_eq!((reading.values[5], reading.newest[5]), (Some(20e-3), Some(20e-3)));
    }

    #[test]
    fn counters_may_wrap_and_connections_be_many_or_none() {
        let (mut tally, begun) = (ConnectionTally::default(), Instant::now());
        assert_eq!(tally.reading(), None);
        look(&mut tally, begun, &[row(1, 500, u32::MAX)]);
        tally.begin();
        let wrapped = ConnectionRow { segs_in: 99, data_segs_in: 99, ..row(1, 200, u32::MAX) };
        look(&mut tally, begun + Duration::from_secs(1), &[wrapped]);
        assert_eq!(tally.reading().expect("looks").values[2], Some(100.0));
        look(&mut tally, begun + Duration::from_secs(2), &[]);
        assert_eq!(tally.reading().expect("looks").newest, [None, None, Some(0.0), Some(0.0), Some(0.0), None]);
    }
}
