//! What is compared.

use std::fmt;

/// A figure by which candidates are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Median latency in ns; lower is better.
    P50,
    /// 99th percentile of latency in ns; lower is better.
    P99,
    /// 99.9th percentile of latency in ns; lower is better.
    P999,
    /// CPU time as a share (0 to 1) of the CPUs; lower is better.
    Cpu,
    /// Requests answered per second; higher is better.
    Throughput,
}

impl Metric {
    /// Whether more of it is better.
    #[must_use]
    pub fn higher_is_better(self) -> bool {
        match self {
            Self::P50 | Self::P99 | Self::P999 | Self::Cpu => false,
            Self::Throughput => true,
        }
    }

    /// Which quantile of latency it is.
    #[must_use]
    pub fn quantile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
            Self::Cpu | Self::Throughput => None,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Cpu => "CPU",
            Self::Throughput => "throughput",
        })
    }
}
