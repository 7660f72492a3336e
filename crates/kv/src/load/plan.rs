//! What a load generator is to ask for, and what a run of it measures.

use std::time::Duration;

use super::codec::Format;
use super::net::Proto;
use crate::profile::Profile;
use crate::recorder::Recorder;
use crate::{DATAGRAM_BYTES_MAX, FRAME_HEADER_BYTES};

/// How requests are paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Poisson arrivals at this rate, whatever comes back.
    Open {
        /// Requests per second.
        rate_rps: u64,
    },
    /// Every connection has its window full at any time.
    Closed,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How requests are written.
    pub format: Format,
    /// How they travel.
    pub proto: Proto,
    /// Keys, sizes, shares.
    pub profile: Profile,
    /// Length of every value in bytes, in place of the profile's.
    pub value_bytes: Option<usize>,
    /// Requests that may be without an answer on one connection.
    pub depth: usize,
}

/// What a run measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Latencies of the requests that were due in the measured time.
    pub recorder: Recorder,
    /// Replies that came in the measured time.
    pub answered: u64,
    /// Requests that were due in the measured time and were sent.
    pub sent: u64,
    /// Gets that found nothing.
    pub missing: u64,
    /// Requests that the server refused.
    pub refused: u64,
    /// Values that are not those of their keys, and replies of another kind than the request's.
    pub wrong: u64,
    /// Requests that were given up.
    pub lost: u64,
    /// Length of the measured time in ns.
    pub window_ns: u64,
}

/// When a run begins and ends.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Before anything counts.
    pub warm_up: Duration,
    /// What counts.
    pub measure: Duration,
    /// How long answers are waited for afterwards.
    pub drain: Duration,
}

/// Longest value of a plan whose requests and replies travel in one datagram each, with keys of `key_bytes`.
pub fn datagram_value_bytes_max(format: Format, key_bytes: usize) -> usize {
    let overhead = match format {
        // `set <key> <flags> 0 <bytes>`, or `VALUE <key> <flags> <bytes>` and `END`, with their ends of line.
        Format::Ascii | Format::Meta | Format::Resp => 48,
        Format::Binary => 24 + 8,
    };
    DATAGRAM_BYTES_MAX - FRAME_HEADER_BYTES - overhead - key_bytes
}
