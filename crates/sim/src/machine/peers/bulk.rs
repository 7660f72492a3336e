//! Messages between two hosts: flows with one request each at a time, and the wire.
//!
//! Sockets: flow `f` is socket `f` of the client and `flows + f` of the server; `2 * flows + f` tells the server that a storage device
//! has done what flow `f` asked for.

use std::sync::Arc;

use napier_core::time::{Deadline, Instant, Span};
use napier_rng::Xoshiro256PlusPlus;
use napier_rng::load::Load;
use rand::RngExt;

use crate::machine::cpu::work::{Disturbance, WorkCosts};
use crate::machine::peers::Peers;
use crate::machine::peers::chance::minus_ln;
use crate::machine::peers::link::{Link, chunks};
use crate::machine::peers::tally::RequestTally;
use crate::machine::sim::event::Ev;
use napier_scenario::SocketIx;

/// Who polls.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Polls {
    /// Softirqs.
    Softirq,
    /// A thread for each instance.
    Thread,
    /// A pool of workers, two for each instance.
    Pool,
}

/// Both hosts.
#[derive(Clone, Debug)]
pub struct Flows {
    /// What work costs.
    pub costs: WorkCosts,
    /// What an interrupt and a switch cost beside.
    pub disturbance: Disturbance,
    /// A CPU that was idle for so long sleeps deeply; 0: never.
    pub deep_after: Span,
    /// Jiffies per second.
    pub hz: u32,
    /// Hyper-threads of a host, an even number.
    pub cpus: u16,
    /// By how much work is slower while the other hyper-thread of the core works, in percent.
    pub sibling_pct: u32,
    /// A thread that ran so shortly ago is not taken over by another CPU.
    pub migration_cost: Span,
    /// Receive queues of a host.
    pub queues: u16,
    /// Threads of a program.
    pub threads: u16,
    /// Connections.
    pub flows: u16,
    /// Who polls.
    pub polls: Polls,
    /// Those who poll stay on the CPUs of the interrupts; else the scheduler places them.
    pub pinned: bool,
    /// Longest holding back of an interrupt, in microseconds.
    pub rx_usecs: u32,
    /// Bytes of a request.
    pub request_bytes: u32,
    /// Bytes of an answer.
    pub response_bytes: u32,
    /// Every second flow has the two the other way round: it writes where the others read.
    pub both_ways: bool,
    /// Who asks. In a closed loop a program like the server's on a host like the server's: the next of a flow when the last is answered. At
    /// a rate a source outside, all flows together; each has one request at a time.
    pub load: Load,
    /// What a storage device takes for a request, in ns: points of its distribution, of which each request gets one. Empty: none.
    pub storage_ns: Arc<[u64]>,
    /// From host to host.
    pub wire: Span,
    /// At most so much more, evenly.
    pub wire_noise: Span,
    /// Rate of the wire in each direction, in megabits per second; 0: no limit.
    pub mbit_s: u32,
}

pub(crate) const CLIENT: usize = 0;

pub(crate) const SERVER: usize = 1;

#[derive(Copy, Clone, Debug)]
pub(crate) struct BulkFlow {
    /// When its request was sent.
    pub(crate) sent: Instant,
    /// When its next is due, if it sends at a rate.
    pub(crate) due: Instant,
    /// Parts of the message under way that are not read yet.
    pub(crate) unread: u32,
    /// Its request is not answered yet.
    pub(crate) is_out: bool,
}

/// The flows of a run.
#[derive(Debug)]
pub(crate) struct BulkFlows {
    pub(crate) bytes: [u32; 2],
    pub(crate) both_ways: bool,
    pub(crate) load: Load,
    pub(crate) wire: (Span, Span),
    pub(crate) storage_ns: Arc<[u64]>,
    pub(crate) flows: Vec<BulkFlow>,
    pub(crate) links: [Link; 2],
    pub(crate) rng: Xoshiro256PlusPlus,
    /// Answers count from here on.
    pub(crate) from: Instant,
    /// From request to answer, in the order of the answers.
    pub(crate) latency_ns: Vec<u64>,
    /// All requests.
    pub(crate) tally: RequestTally,
}

impl BulkFlows {
    pub(crate) fn new(of: &Flows, seed: u64) -> Self {
        let idle = BulkFlow { sent: Instant::ZERO, due: Instant::ZERO, unread: 0, is_out: false };
        Self {
            bytes: [of.request_bytes, of.response_bytes],
            both_ways: of.both_ways,
            load: of.load,
            wire: (of.wire, of.wire_noise),
            storage_ns: of.storage_ns.clone(),
            flows: vec![idle; of.flows.into()],
            links: [Link::new(of.mbit_s, of.flows), Link::new(of.mbit_s, of.flows)],
            rng: napier_rng::stream(seed, "streams"),
            from: Instant::from_ns(u64::MAX),
            latency_ns: Vec::new(),
            tally: RequestTally::new(Instant::ZERO),
        }
    }

    /// Requests at a rate that are late, and those that would have come behind them.
    pub(crate) fn behind(&self, now: Instant) -> f64 {
        let Load::Rps(rate_rps) = self.load else { return 0.0 };
        let mean_ns = self.flows.len() as f64 * 1e9 / rate_rps.max(1) as f64;
        let late = self.flows.iter().filter(|flow| flow.is_out);
        late.map(|flow| 1.0 + now.ns.saturating_sub(flow.due.ns) as f64 / mean_ns).sum()
    }

    /// When each request was sent that is not answered.
    pub(crate) fn sent(&self) -> impl Iterator<Item = Instant> {
        self.flows.iter().filter(|flow| flow.is_out).map(|flow| flow.sent)
    }

    /// What a flow's messages from a host are long.
    pub(crate) fn bytes(&self, flow: usize, from: usize) -> u32 {
        self.bytes[if self.both_ways && flow % 2 == 1 { 1 - from } else { from }]
    }

    fn on_the_wire(&mut self) -> Span {
        Span::from_ns(self.wire.0.ns + self.rng.random_range(0..=self.wire.1.ns))
    }

    /// Time between two requests of a flow at a rate, drawn.
    pub(crate) fn gap(&mut self, rate_rps: u64) -> Span {
        let even: f64 = self.rng.random_range(f64::EPSILON..1.0);
        Span::from_ns((minus_ln(even) * self.flows.len() as f64 * 1e9 / rate_rps.max(1) as f64) as u64)
    }
}

impl Peers {
    pub(crate) fn bulk(&mut self) -> &mut BulkFlows {
        self.bulk.as_mut().expect("there are flows")
    }

    /// A flow sends its next request, if the last is answered; a program sends its own, all but the first.
    pub(crate) fn request_is_due(&mut self, flow: usize) {
        self.send_message(flow, CLIENT);
    }

    /// A message leaves a host.
    pub(crate) fn send_message(&mut self, flow: usize, from: usize) {
        let now = self.now;
        let streams = self.bulk();
        if from == CLIENT {
            (streams.flows[flow].sent, streams.flows[flow].is_out) = (now, true);
            streams.tally.asks(now);
        }
        let bytes = streams.bytes(flow, from);
        streams.flows[flow].unread = chunks(bytes).count() as u32;
        let to = (1 - from) as u8;
        for chunk in chunks(bytes) {
            let streams = self.bulk();
            if streams.links[from].is_limited() {
                streams.links[from].push(flow as u16, chunk);
            } else {
                let at = now + streams.on_the_wire();
                self.push_at(at, Ev::Chunk { flow: flow as u16, to, is_ack: false, segments: chunk.segments });
            }
        }
        self.transmit(from);
    }

    /// The wire takes the next part, if it is free.
    fn transmit(&mut self, from: usize) {
        let now = self.now;
        let streams = self.bulk();
        let Some((flow, chunk, span)) = streams.links[from].next() else { return };
        let at = now + span + streams.on_the_wire();
        self.push_at(now + span, Ev::LinkFree { from: from as u8 });
        self.push_at(at, Ev::Chunk { flow, to: (1 - from) as u8, is_ack: false, segments: chunk.segments });
    }

    /// See [`Ev::LinkFree`].
    pub(crate) fn link_is_free(&mut self, from: usize) {
        self.bulk().links[from].free();
        self.transmit(from);
    }

    /// A part of a message is at its host. TCP acknowledges at once what is more than a segment; the next message does for the rest.
    pub(crate) fn chunk_arrives(&mut self, flow: usize, to: usize, is_ack: bool, segments: u16) {
        let now = self.now;
        let streams = self.bulk();
        let is_source = to == CLIENT && streams.load != Load::Max;
        if !is_ack && segments > 1 {
            let at = now + streams.on_the_wire();
            self.push_at(at, Ev::Chunk { flow: flow as u16, to: (1 - to) as u8, is_ack: true, segments: 1 });
        }
        if is_source {
            if !is_ack && self.is_whole(flow, 1) {
                self.answered_at_source(flow);
            }
            return;
        }
        let socket = SocketIx((to * self.bulk().flows.len() + flow) as u16);
        let napi = self.socks[socket.at()].napi;
        // What is lost fails the run.
        let _ = self.put_segments(napi, Some(socket), segments.into(), is_ack);
    }

    /// Parts of a message are read; true: it was the rest.
    pub(crate) fn is_whole(&mut self, flow: usize, parts: u32) -> bool {
        let unread = &mut self.bulk().flows[flow].unread;
        *unread -= parts;
        *unread == 0
    }

    pub(crate) fn note_answer(&mut self, flow: usize) {
        let now = self.now;
        let streams = self.bulk();
        let sent = streams.flows[flow].sent;
        streams.flows[flow].is_out = false;
        streams.tally.is_answered(now, sent);
        if now >= streams.from {
            streams.latency_ns.push(now.ns - sent.ns);
        }
    }

    /// The next request goes when it is due, at once if it should have gone already.
    fn answered_at_source(&mut self, flow: usize) {
        self.note_answer(flow);
        let now = self.now;
        let streams = self.bulk();
        let Load::Rps(rate_rps) = streams.load else { return };
        let gap = streams.gap(rate_rps);
        let due = streams.flows[flow].due + gap;
        streams.flows[flow].due = due;
        self.push_at(due.max(now), Ev::Due { flow: flow as u16 });
    }

    /// A storage device begins; what it takes is drawn.
    pub(crate) fn ask_storage(&mut self, flow: usize) {
        let streams = self.bulk();
        let ns = streams.storage_ns[streams.rng.random_range(0..streams.storage_ns.len())];
        let at = Deadline::after(self.now, Span::from_ns(ns));
        self.push(at, Ev::Stored { flow: flow as u16 });
    }

    /// See [`Ev::Stored`].
    pub(crate) fn stored(&mut self, flow: usize) {
        let socket = 2 * self.bulk().flows.len() + flow;
        self.make_readable(SocketIx(socket as u16));
    }
}
