//! A load generator that waits for comparisons elsewhere (`napier load kv --agent`), and how a comparison drives it.
//!
//! The generator is the one of `load kv` over the kernel's sockets; what it asks for is what `compare` asks for. One comparison at a
//! time drives it, over one connection; when that ends, so does the run. Who has the secret may load any address from here: the
//! file is to be kept like a key.

mod channel;
pub(crate) mod driver;
mod serve;
#[cfg(test)]
mod tests;

use crate::loads::Load;
use std::net::SocketAddrV4;
use std::time::Duration;

use anyhow::ensure;
use napier_kv::load::codec::Format;
use napier_kv::load::net::Proto;
use napier_kv::load::plan::{Measured, Window};
use serde::{Deserialize, Serialize};

pub use channel::{Secret, SecretError};
pub use serve::{Agent, Served};

/// Longest measured time of one run, and longest time beside it.
const MEASURE_MAX: Duration = Duration::from_secs(3600);
const BESIDE_MAX: Duration = Duration::from_secs(10);

/// Highest rate: no machine sends so many.
const RATE_RPS_MAX: u64 = 1_000_000_000;

/// One run, as a comparison asks for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub(crate) server: SocketAddrV4,
    pub(crate) proto: Proto,
    /// A [`Format`] by its name.
    pub(crate) format: String,
    pub(crate) flows: usize,
    pub(crate) seed: u64,
    /// From which arrivals come, if that is another one.
    #[serde(default)]
    pub(crate) arrivals: Option<u64>,
    pub(crate) pace: Load,
    pub(crate) window: Window,
}

impl Offer {
    /// How requests are written, if all of it can be run.
    fn check(&self) -> anyhow::Result<Format> {
        ensure!((1..=4096).contains(&self.flows), "1 to 4096 flows, not {}", self.flows);
        if let Load::Rps(rate_rps) = self.pace {
            ensure!((1..=RATE_RPS_MAX).contains(&rate_rps), "1 to {RATE_RPS_MAX} requests per second, not {rate_rps}");
        }
        let Window { warm_up, measure, margin, drain } = self.window;
        let beside = [warm_up, margin, drain].into_iter().all(|time| time <= BESIDE_MAX);
        ensure!(measure <= MEASURE_MAX && beside, "a run of at most an hour");
        let format: Format = self.format.parse().map_err(anyhow::Error::msg)?;
        ensure!(self.proto == Proto::Tcp || format != Format::Resp, "redis does not speak over UDP");
        Ok(format)
    }
}

/// What an agent says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AgentReport {
    /// It serves this connection.
    Ready,
    /// It serves another one.
    Busy,
    /// All flows are connected; the load begins.
    Started,
    /// Measuring begins (true) or ends.
    Edge(bool),
    /// The run is over.
    Done(Box<Measured>),
    /// It failed.
    Failed(String),
}

impl AgentReport {
    const fn name(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Busy => "busy",
            Self::Started => "started",
            Self::Edge(_) => "edge",
            Self::Done(_) => "done",
            Self::Failed(_) => "failed",
        }
    }
}
