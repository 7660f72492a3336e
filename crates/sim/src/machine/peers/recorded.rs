//! Requests as they came to a server somewhere: when each was due, on which connection. A run has them again and again.

use std::sync::Arc;

use napier_core::time::Span;
use napier_rng::Xoshiro256PlusPlus;
use rand::RngExt as _;

/// Arrivals of requests, by connection. Each connection has one at least.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedArrivals {
    /// In order, each at another time, in ns from the begin.
    connections: Vec<Vec<u64>>,
    length_ns: u64,
}

impl RecordedArrivals {
    /// Of times within `length` and the connection of each, in any order; `None` without any. Connections are those that are named, by their
    /// numbers.
    #[must_use]
    pub fn new(length: Span, requests: impl IntoIterator<Item = (Span, u32)>) -> Option<Self> {
        let mut all: Vec<(u32, u64)> = requests.into_iter().map(|(at, connection)| (connection, at.ns)).collect();
        all.sort_unstable();
        let mut connections: Vec<Vec<u64>> = Vec::new();
        let mut last = None;
        for (connection, at_ns) in all {
            if last != Some(connection) {
                connections.push(Vec::new());
                last = Some(connection);
            }
            let own = connections.last_mut().expect("it was pushed");
            // Two of a connection are one behind the other.
            let at_ns = own.last().map_or(at_ns, |before| at_ns.max(before + 1));
            own.push(at_ns);
        }
        let end = connections.iter().filter_map(|own| own.last()).max()? + 1;
        Some(Self { connections, length_ns: length.ns.max(end) })
    }

    /// Connections that asked for something.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Requests.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.connections.iter().map(Vec::len).sum()
    }

    /// How long it was.
    #[must_use]
    pub fn length(&self) -> Span {
        Span::from_ns(self.length_ns)
    }

    /// Requests in a second.
    #[must_use]
    pub fn rate_rps(&self) -> f64 {
        self.requests() as f64 * 1e9 / self.length_ns as f64
    }

    /// Variance of the requests in a slice of time, of all connections together, over their mean: 1 where they come by chance alone, more where
    /// they come in bursts, less where they go by a clock.
    #[must_use]
    pub fn dispersion(&self, slice: Span) -> f64 {
        let slices = (self.length_ns / slice.ns.max(1)) as usize;
        let mut counts = vec![0_u32; slices];
        for at in self.connections.iter().flatten() {
            if let Some(count) = counts.get_mut((at / slice.ns.max(1)) as usize) {
                *count += 1;
            }
        }
        let mean = counts.iter().map(|count| f64::from(*count)).sum::<f64>() / slices.max(1) as f64;
        let off = |count: &u32| (f64::from(*count) - mean) * (f64::from(*count) - mean);
        let variance = counts.iter().map(off).sum::<f64>() / slices.max(1) as f64;
        if mean > 0.0 { variance / mean } else { 0.0 }
    }

    /// Those of one of so many queues, to which connections go in turn; at least one.
    #[must_use]
    pub fn of_queue(&self, queue: usize, queues: usize) -> Self {
        let queues = queues.clamp(1, self.connections.len());
        let own = self.connections.iter().skip(queue % queues).step_by(queues);
        Self { connections: own.cloned().collect(), ..*self }
    }

    /// The same, faster or slower.
    #[must_use]
    pub fn faster(&self, factor: f64) -> Self {
        let scaled = |ns: u64| (ns as f64 / factor) as u64;
        let all = self.connections.iter().zip(0..).flat_map(|(own, nth)| own.iter().map(move |at| (*at, nth)));
        let scaled_all = all.map(|(at, nth)| (Span::from_ns(scaled(at)), nth));
        Self::new(Span::from_ns(scaled(self.length_ns)), scaled_all).expect("it has as many")
    }

    /// When the next request of a connection is due after a time; times go on when the recording begins again.
    fn after(&self, connection: usize, since_ns: u64) -> u64 {
        let own = &self.connections[connection];
        let (turns, within) = (since_ns / self.length_ns, since_ns % self.length_ns);
        match own.get(own.partition_point(|at| *at <= within)) {
            Some(at) => turns * self.length_ns + at,
            None => (turns + 1) * self.length_ns + own[0],
        }
    }

    /// Requests of a connection that are due until a time.
    fn until(&self, connection: usize, ns: u64) -> u64 {
        let own = &self.connections[connection];
        let within = own.partition_point(|at| *at <= ns % self.length_ns);
        ns / self.length_ns * own.len() as u64 + within as u64
    }
}

/// Arrivals that a run has again, from some moment of them on.
#[derive(Debug)]
pub(crate) struct Replay {
    of: Arc<RecordedArrivals>,
    start_ns: u64,
}

impl Replay {
    /// From a random moment on.
    pub(crate) fn new(of: Arc<RecordedArrivals>, rng: &mut Xoshiro256PlusPlus) -> Self {
        let start_ns = rng.random_range(0..of.length_ns);
        Self { of, start_ns }
    }

    /// When a connection's next request is due after a time since the run began, likewise.
    pub(crate) fn after(&self, connection: usize, since_ns: u64) -> u64 {
        self.of.after(connection, self.start_ns + since_ns) - self.start_ns
    }

    /// How many of its requests are due between.
    pub(crate) fn between(&self, connection: usize, from_ns: u64, to_ns: u64) -> f64 {
        let until = |ns: u64| self.of.until(connection, self.start_ns + ns);
        (until(to_ns) - until(from_ns)) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(length_ns: u64, requests: &[(u64, u32)]) -> RecordedArrivals {
        let requests = requests.iter().map(|(at, connection)| (Span::from_ns(*at), *connection));
        RecordedArrivals::new(Span::from_ns(length_ns), requests).expect("there are some")
    }

    #[test]
    fn requests_come_again_and_again() {
        let of = arrivals(100, &[(30, 7), (10, 7), (10, 7), (50, 2)]);
        assert_eq!((of.connections(), of.requests(), of.rate_rps()), (2, 4, 4e7));
        // The connection with the smaller number is the first.
        let dues = |connection: usize, count: usize| {
            let next = |at: &u64| Some(of.after(connection, *at));
            std::iter::successors(Some(of.after(connection, 0)), next).take(count).collect::<Vec<_>>()
        };
        assert_eq!(dues(0, 3), [50, 150, 250]);
        assert_eq!(dues(1, 5), [10, 11, 30, 110, 111]);
        assert_eq!((of.until(1, 9), of.until(1, 10), of.until(1, 99), of.until(1, 210)), (0, 1, 3, 7));
        assert!(RecordedArrivals::new(Span::from_ns(5), []).is_none());
        assert_eq!(arrivals(0, &[(9, 0)]).length(), Span::from_ns(10), "it is as long as what it has");
    }

    #[test]
    fn a_replay_begins_anywhere() {
        let of = Arc::new(arrivals(100, &[(10, 0), (60, 0)]));
        let mut rng = napier_rng::stream(1, "replay");
        for _ in 0..200 {
            let replay = Replay::new(of.clone(), &mut rng);
            let first = replay.after(0, 0);
            assert!((1..=50).contains(&first), "{replay:?}");
            assert_eq!(replay.after(0, first), first + 50);
            assert_eq!((replay.between(0, 0, 1000), replay.between(0, 0, first)), (20.0, 1.0));
        }
    }

    #[test]
    fn a_recording_is_shared_by_queues_and_made_faster() {
        let of = arrivals(1000, &[(10, 0), (20, 1), (30, 2), (40, 2)]);
        let queue = |nth: usize| of.of_queue(nth, 2);
        assert_eq!((queue(0).requests(), queue(1).requests(), queue(2)), (3, 1, queue(0)));
        assert_eq!((of.of_queue(5, 9).connections(), of.of_queue(0, 1)), (1, of.clone()));
        let twice = of.faster(2.0);
        assert_eq!((twice.length(), twice.connections[2].as_slice()), (Span::from_ns(500), [15, 20].as_slice()));
    }

    #[test]
    fn bursts_are_told_from_a_clock() {
        let clock: Vec<(u64, u32)> = (0..1000).map(|nth| (nth * 10, 0)).collect();
        let bursts: Vec<(u64, u32)> = (0..1000).map(|nth| (nth / 100 * 1000 + nth % 100, 0)).collect();
        let slice = Span::from_ns(100);
        let of = |requests: &[(u64, u32)]| arrivals(10_000, requests).dispersion(slice);
        assert!(of(&clock) < 0.01 && of(&bursts) > 50.0, "{} {}", of(&clock), of(&bursts));
        let mut rng = napier_rng::stream(1, "chance");
        let chance: Vec<(u64, u32)> = (0..10_000).map(|nth| (rng.random_range(0..1_000_000), nth)).collect();
        let found = arrivals(1_000_000, &chance).dispersion(Span::from_ns(1000));
        assert!((0.8..1.25).contains(&found), "{found}");
    }
}
