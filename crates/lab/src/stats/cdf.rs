//! A distribution as latencies at fixed percentiles, dense towards the end, as a plot of the tail needs them.

use std::fmt;

use hdrhistogram::Histogram;
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Reduce, rounded};

/// How many points a distribution has.
const POINTS: usize = 19;

/// Latencies at [`Cdf::AT_PCT`], in µs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cdf([f64; POINTS]);

impl Cdf {
    /// The percentiles: what is above them is divided by 2 to 2.5 from one to the next, so each nine has three.
    pub const AT_PCT: [f64; POINTS] = [
        0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.8, 99.9, 99.95, 99.98, 99.99, 99.995, 99.998,
        99.999, 100.0,
    ];

    /// Of a histogram of ns; `None` if it is empty.
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let us = |pct: f64| histogram.value_at_quantile(pct / 100.0) as f64 / 1e3;
        (!histogram.is_empty()).then(|| Self(Self::AT_PCT.map(us)))
    }

    /// Percentile and µs of each point, from the shortest to the longest.
    pub fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        Self::AT_PCT.into_iter().zip(self.0)
    }

    /// Latency of the n-th point, in µs.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn us(&self, point: usize) -> f64 {
        self.0[point]
    }

    /// Each point by itself; `None` of none.
    pub(super) fn reduce(all: &[Self], by: Reduce) -> Option<Self> {
        let at = |point: usize| rounded(by(&mut all.iter().map(|cdf| cdf.0[point]).collect::<Vec<_>>()));
        (!all.is_empty()).then(|| Self(std::array::from_fn(at)))
    }

    /// Of made-up latencies, for tests.
    #[cfg(test)]
    pub(crate) fn from_us(us: impl Fn(f64) -> f64) -> Self {
        Self(Self::AT_PCT.map(us))
    }
}

/// An object: the percentile as text to µs.
impl Serialize for Cdf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(POINTS))?;
        for (pct, us) in self.points() {
            map.serialize_entry(&pct.to_string(), &us)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Cdf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Points)
    }
}

/// Reads the object; other percentiles than ours are passed over.
struct Points;

impl<'de> Visitor<'de> for Points {
    type Value = Cdf;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("latencies by percentile")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Cdf, A::Error> {
        let mut found = [None; POINTS];
        while let Some((name, us)) = map.next_entry::<String, f64>()? {
            let pct: f64 = name.parse().map_err(|_| A::Error::custom(format!("`{name}` is no percentile")))?;
            if let Some(point) = Cdf::AT_PCT.iter().position(|at| (at - pct).abs() < 1e-9) {
                found[point] = Some(us);
            }
        }
        match found.iter().position(Option::is_none) {
            Some(missing) => Err(A::Error::custom(format!("latency_cdf lacks {}", Cdf::AT_PCT[missing]))),
            None => Ok(Cdf(found.map(|us| us.expect("none is missing")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Recorder, median};

    #[test]
    fn percentiles_of_a_known_distribution_come_back_from_json() {
        let mut recorder = Recorder::new();
        (1..=100_000).for_each(|us| recorder.record(0, 0, us * 1000));
        let cdf = Cdf::of(recorder.intended()).unwrap();
        for (pct, us) in cdf.points().skip(1) {
            assert!((us / (pct * 1000.0) - 1.0).abs() < 0.002, "{us} at {pct}");
        }
        let text = serde_json::to_string(&cdf).unwrap();
        assert!(text.contains(r#""99.999":"#), "{text}");
        assert_eq!(serde_json::from_str::<Cdf>(&text).unwrap(), cdf);
        let more = text.replace('{', r#"{"99.7":1.0,"#);
        assert_eq!(serde_json::from_str::<Cdf>(&more).unwrap(), cdf, "a finer one can be read");
        let less = text.replace(r#""50":"#, r#""51":"#);
        assert!(serde_json::from_str::<Cdf>(&less).unwrap_err().to_string().contains("lacks 50"));
        assert!(Cdf::of(Recorder::new().intended()).is_none());
    }

    #[test]
    fn each_point_is_reduced_by_itself() {
        let all = [1.0, 5.0, 3.0].map(|factor| Cdf::from_us(|pct| pct * factor));
        let reduced = Cdf::reduce(&all, median).expect("there are three");
        assert!(reduced.points().all(|(pct, us)| (us - pct * 3.0).abs() < 1e-6), "{reduced:?}");
        assert_eq!(Cdf::reduce(&[], median), None);
    }
}
