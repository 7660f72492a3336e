//! Requests whose gaps have a distribution: what a histogram of the times between requests says of them, and no more. One gap tells nothing of
//! the next, so bursts that are longer than a gap are not in it; a log has them.

use napier_core::time::Span;
use napier_kv::service::{Service, ServiceStream};
use napier_sim::machine::RecordedArrivals;
use rand::RngExt as _;

/// Requests that are drawn at least, before they come again.
const REQUESTS_MIN: usize = 200_000;
/// And for each connection, so that each has some.
const OF_CONNECTION: usize = 20;

/// Requests that come one after the other with gaps of a distribution, each on one of so many connections by chance. The same seed gives the
/// same requests.
///
/// # Panics
/// If there is no connection.
#[must_use]
pub fn requests(gaps: &Service, connections: u16, seed: u64) -> RecordedArrivals {
    assert!(connections > 0, "requests come on a connection");
    let count = REQUESTS_MIN.max(usize::from(connections) * OF_CONNECTION);
    let gaps = ServiceStream::new(gaps, seed, "gaps between requests");
    let mut chance = napier_rng::stream(seed, "connections of requests");
    let mut at_ns = 0.0;
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push((Span::from_ns(at_ns as u64), chance.random_range(0..u32::from(connections))));
        at_ns += gaps.draw_ns();
    }
    // The last gap is before the first request that comes again.
    RecordedArrivals::new(Span::from_ns(at_ns as u64), all).expect("there are requests")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(gaps: &str, connections: u16) -> RecordedArrivals {
        requests(&gaps.parse().expect("a distribution"), connections, 7)
    }

    #[test]
    fn gaps_have_the_distribution_that_was_given() {
        let clock = drawn("10us", 100);
        assert_eq!((clock.requests(), clock.connections()), (REQUESTS_MIN, 100));
        assert!((clock.rate_rps() - 100_000.0).abs() < 1e-6, "{}", clock.rate_rps());
        let chance = drawn("exp:10us", 100);
        assert!((chance.rate_rps() / 100_000.0 - 1.0).abs() < 0.02, "{}", chance.rate_rps());
        // By a clock no slice of time has more than another; by chance as many more as chance has.
        let [by_clock, by_chance] = [&clock, &chance].map(|of| of.dispersion(Span::from_us(1000)));
        assert!(by_clock < 0.01 && (0.8..1.2).contains(&by_chance), "{by_clock} {by_chance}");
        assert_eq!(chance, drawn("exp:10us", 100));
        assert_ne!(chance, requests(&"exp:10us".parse().expect("a distribution"), 100, 8));
    }

    #[test]
    fn many_connections_have_some_each() {
        let many = drawn("1us", 30_000);
        assert_eq!((many.connections(), many.requests()), (30_000, 600_000));
    }
}
