//! Requests of a plan as a log or a file of captured packets has them, or with gaps of a distribution, in place of chance.

use std::path::Path;
use std::sync::Arc;

use napier_kv::service::{Service, ServiceError};
use napier_lab::advise::{RecordedArrivals, gaps, log, pcap};
use napier_linux::given;
use napier_scenario::ParseError;
use napier_scenario::read::Node;

/// Largest file.
const BYTES_MAX: u64 = 1 << 30;
/// Connections that are simulated, over all queues.
const CONNECTIONS_MAX: usize = 60_000;
/// What draws requests by their gaps: which run of a plan it is does not change them, only where it begins.
const GAPS_SEED: u64 = 1;

/// Requests that were recorded.
#[derive(Clone, Debug)]
pub struct PlanArrivals {
    /// When each came, on which connection.
    pub recorded: Arc<RecordedArrivals>,
    /// What they took the program, if the log says so.
    pub service: Option<Service>,
}

impl PlanArrivals {
    /// Reads a file; of captured packets those that bring data to `port`, or without one to the busiest.
    pub(super) fn read(node: &Node<'_>, port: Option<u16>) -> Result<Self, ParseError> {
        let file = node.text(
            "a log of requests: lines of a time in us, a connection and, if it is known, the time of service in us; or a file of packets",
        )?;
        let wrong = |error: String| node.error(format!("{file}: {error}"));
        let bytes = given::read(Path::new(file), BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
        let is_pcap = pcap::is_one(&bytes);
        if port.is_some() && !is_pcap {
            return Err(wrong("a log has the requests of one service, and no port".to_owned()));
        }
        let (length, requests, service) = if is_pcap {
            let found = pcap::requests(&mut &bytes[..], port).map_err(|error| wrong(error.to_string()))?;
            (found.length, found.requests, None)
        } else {
            let text =
                String::from_utf8(bytes).map_err(|_| wrong("it is neither text nor a file of packets".to_owned()))?;
            let found = log::requests(&text).map_err(|error| wrong(error.to_string()))?;
            (found.length, found.requests, found.service)
        };
        let recorded = RecordedArrivals::new(length, requests).expect("there are requests");
        if recorded.connections() > CONNECTIONS_MAX {
            return Err(
                node.error(format!("{file} has more connections than the {CONNECTIONS_MAX} that are simulated"))
            );
        }
        Ok(Self { recorded: Arc::new(recorded), service })
    }

    /// Requests with gaps of a distribution over all connections.
    pub(super) fn with_gaps(node: &Node<'_>, connections: u16) -> Result<Self, ParseError> {
        let text = node.text(
            "the time between two requests of all connections, such as \"exp:5us\" or \"hist:FILE\", of which the file may be a log of \
             HdrHistogram",
        )?;
        let gaps: Service = text.parse().map_err(|error: ServiceError| node.error(error))?;
        Ok(Self { recorded: Arc::new(gaps::requests(&gaps, connections, GAPS_SEED)), service: None })
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
}
