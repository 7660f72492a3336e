//! Requests of a plan as a log has them, in place of chance.

use std::path::Path;
use std::sync::Arc;

use napier_kv::service::Service;
use napier_lab::advise::{RecordedArrivals, log};
use napier_linux::given;
use napier_scenario::ParseError;
use napier_scenario::read::Node;

/// Largest log.
const BYTES_MAX: u64 = 1 << 30;
/// Connections that are simulated, over all queues.
const CONNECTIONS_MAX: usize = 60_000;
/// Points of a distribution of service times.
const POINTS: usize = 4096;

/// A log of requests.
#[derive(Clone, Debug)]
pub struct PlanArrivals {
    /// When each came, on which connection.
    pub recorded: Arc<RecordedArrivals>,
    /// What they took the program, if the log says so.
    pub service: Option<Service>,
}

impl PlanArrivals {
    pub(super) fn read(node: &Node<'_>) -> Result<Self, ParseError> {
        let file = node.text(
            "a log of requests: lines of a time in us, a connection and, if it is known, the time of service in us",
        )?;
        let text =
            given::read_text(Path::new(file), BYTES_MAX).map_err(|error| node.error(format!("{file}: {error}")))?;
        let found = log::requests(&text).map_err(|error| node.error(format!("{file}: {error}")))?;
        let recorded = RecordedArrivals::new(found.length, found.requests).expect("a log has requests");
        if recorded.connections() > CONNECTIONS_MAX {
            return Err(
                node.error(format!("{file} has more connections than the {CONNECTIONS_MAX} that are simulated"))
            );
        }
        Ok(Self { recorded: Arc::new(recorded), service: found.service })
    }

    /// Connections over all queues.
    pub(super) fn connections(&self) -> u16 {
        u16::try_from(self.recorded.connections()).expect("it was read")
    }

    /// Requests in a second as they came.
    pub(super) fn rate_rps(&self) -> u64 {
        (self.recorded.rate_rps().round() as u64).max(1)
    }

    /// Those of one of the queues, to which connections go in turn, at a rate of all queues.
    pub(super) fn of_queue(&self, nth: usize, queues: u16, rate_rps: u64) -> Arc<RecordedArrivals> {
        let own = self.recorded.of_queue(nth, queues.into());
        if rate_rps == self.rate_rps() {
            return Arc::new(own);
        }
        Arc::new(own.faster(rate_rps as f64 / self.recorded.rate_rps()))
    }

    /// What requests take beside, as points of its distribution.
    pub(super) fn service_ns(&self) -> Arc<[u64]> {
        self.service.as_ref().map_or_else(Vec::new, |service| service.points_ns(POINTS)).into()
    }
}
