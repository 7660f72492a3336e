//! Round trips between two hosts: who sends, and the wire.
//!
//! The client is instance and socket 0, the server 1. Packets are of one flow and keep their order.

use std::collections::VecDeque;

use napier_core::time::{Instant, Span};
use napier_rng::Xoshiro256PlusPlus;
use napier_rng::load::Load;
use rand::RngExt;

use crate::machine::peers::Peers;
use crate::machine::peers::tally::RequestTally;
use crate::machine::sim::event::Ev;

/// What sending takes more from a queue that no thread busy polls.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Quiet {
    /// No thread has busy polled it for so long.
    pub after: Span,
    /// What it takes while the interrupt is armed.
    pub armed: Span,
    /// What it takes while the interrupt is deferred.
    pub deferred: Span,
}

/// What goes over the wire.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// Packets of the client, all equally far apart; in a closed loop the next goes when the last is answered.
    pub load: Load,
    /// What the client's program computes after each answer.
    pub delay: Span,
    /// From the driver of one host into the ring of the other.
    pub wire: Span,
    /// At most so much more, evenly.
    pub wire_noise: Span,
}

impl Traffic {
    /// Time between two packets of the client; `None`: a closed loop.
    pub(crate) fn period(&self) -> Option<Span> {
        match self.load {
            Load::Rps(rate) => Some(Span::from_ns(1_000_000_000 / rate)),
            Load::Max => None,
        }
    }
}

pub(crate) const CLIENT: usize = 0;

pub(crate) const SERVER: usize = 1;

/// The round trips of a run.
#[derive(Debug)]
pub(crate) struct RoundTrips {
    pub(crate) of: Traffic,
    pub(crate) quiet: Quiet,
    /// What the device of each end takes more to send what waits.
    pub(crate) late: [Span; 2],
    pub(crate) rng: Xoshiro256PlusPlus,
    /// When packets left that are not answered yet.
    pub(crate) sent: VecDeque<Instant>,
    /// When the last frame to each end arrives.
    pub(crate) last_at: [Instant; 2],
    /// RoundTrips count that began from here on.
    pub(crate) from: Instant,
    /// From send to answer, in the order of the answers.
    pub(crate) latency_ns: Vec<u64>,
    /// All trips.
    pub(crate) tally: RequestTally,
}

impl RoundTrips {
    pub(crate) fn new(of: Traffic, quiet: Quiet, seed: u64) -> Self {
        Self {
            of,
            quiet,
            late: [Span::ZERO; 2],
            rng: napier_rng::stream(seed, "wire"),
            sent: VecDeque::new(),
            last_at: [Instant::ZERO; 2],
            from: Instant::from_ns(u64::MAX),
            latency_ns: Vec::new(),
            tally: RequestTally::new(Instant::ZERO),
        }
    }

    /// When each packet left that is not answered.
    pub(crate) fn sent(&self) -> impl Iterator<Item = Instant> {
        self.sent.iter().copied()
    }
}

impl Peers {
    pub(crate) fn rpc(&mut self) -> &mut RoundTrips {
        self.rpc.as_mut().expect("there is traffic")
    }

    pub(crate) fn trip_begins(&mut self) {
        let now = self.now;
        let trips = self.rpc();
        trips.sent.push_back(now);
        trips.tally.asks(now);
    }

    /// The answer to the oldest packet is read.
    pub(crate) fn trip_ends(&mut self) {
        let now = self.now;
        let trips = self.rpc();
        let sent = trips.sent.pop_front().expect("one answer for one packet");
        trips.tally.is_answered(now, sent);
        if sent >= trips.from {
            trips.latency_ns.push(now.ns - sent.ns);
        }
    }

    /// Frames of one end are on the wire.
    pub(crate) fn launch(&mut self, from: usize, frames: u32) {
        let now = self.now;
        let to = 1 - from;
        for _ in 0..frames {
            let trips = self.rpc();
            let noise = trips.rng.random_range(0..=trips.of.wire_noise.ns);
            let late = std::mem::take(&mut trips.late[from]);
            let at = (now + Span::from_ns(trips.of.wire.ns + noise + late.ns)).max(trips.last_at[to]);
            trips.last_at[to] = at;
            self.push_at(at, Ev::Wire { napi: to });
        }
    }

    /// A frame is in the ring of a queue: if no thread busy polls it, its device has to be woken.
    pub(crate) fn queue_frame(&mut self, napi: usize) {
        let (quiet, now) = (self.rpc().quiet, self.now);
        let n = &mut self.napis[napi];
        n.to_send += 1;
        if now.ns - n.busy_at.ns >= quiet.after.ns {
            let late = if n.masked || n.timer.armed { quiet.deferred } else { quiet.armed };
            self.rpc().late[napi] = late;
        }
    }
}
