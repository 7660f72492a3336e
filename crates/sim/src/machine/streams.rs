//! Messages between two hosts: flows with one request each at a time, the wire, and the programs of both ends.
//!
//! Sockets: flow `f` is socket `f` of the client and `flows + f` of the server; `2 * flows + f` tells the server that a storage device
//! has done what flow `f` asked for.

use std::sync::Arc;

use napier_core::time::{Deadline, Instant, Span};
use napier_rng::Xoshiro256PlusPlus;
use rand::RngExt;

use super::clients::minus_ln;
use super::event::Ev;
use super::flows::{Asks, Flows};
use super::laws::{Look, Tally};
use super::link::{Link, SEGMENT_BYTES, chunks};
use super::vm::K;
use super::work::Work;
use super::world::World;
use napier_scenario::{SocketIx, ThreadIx};

pub(super) const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;

/// Events of one wait of a program at most.
const EVENTS_MAX: usize = 64;

#[derive(Copy, Clone, Debug)]
struct Flow {
    /// When its request was sent.
    sent: Instant,
    /// When its next is due, if it sends at a rate.
    due: Instant,
    /// Parts of the message under way that are not read yet.
    unread: u32,
    /// Its request is not answered yet.
    is_out: bool,
}

/// The flows of a run.
#[derive(Debug)]
pub(super) struct Streams {
    bytes: [u32; 2],
    both_ways: bool,
    asks: Asks,
    wire: (Span, Span),
    storage_ns: Arc<[u64]>,
    flows: Vec<Flow>,
    links: [Link; 2],
    rng: Xoshiro256PlusPlus,
    /// Answers count from here on.
    pub(super) from: Instant,
    /// From request to answer, in the order of the answers.
    pub(super) latency_ns: Vec<u64>,
    /// All requests.
    pub(super) tally: Tally,
}

impl Streams {
    pub(super) fn new(of: &Flows, seed: u64) -> Self {
        let idle = Flow { sent: Instant::ZERO, due: Instant::ZERO, unread: 0, is_out: false };
        Self {
            bytes: [of.request_bytes, of.response_bytes],
            both_ways: of.both_ways,
            asks: of.asks,
            wire: (of.wire, of.wire_noise),
            storage_ns: of.storage_ns.clone(),
            flows: vec![idle; of.flows.into()],
            links: [Link::new(of.mbit_s, of.flows), Link::new(of.mbit_s, of.flows)],
            rng: napier_rng::stream(seed, "streams"),
            from: Instant::from_ns(u64::MAX),
            latency_ns: Vec::new(),
            tally: Tally::new(Instant::ZERO),
        }
    }

    /// Requests at a rate that are late, and those that would have come behind them.
    pub(super) fn behind(&self, now: Instant) -> f64 {
        let Asks::Rate { rate_rps } = self.asks else { return 0.0 };
        let mean_ns = self.flows.len() as f64 * 1e9 / rate_rps.max(1) as f64;
        let late = self.flows.iter().filter(|flow| flow.is_out);
        late.map(|flow| 1.0 + now.ns.saturating_sub(flow.due.ns) as f64 / mean_ns).sum()
    }

    /// When each request was sent that is not answered.
    pub(super) fn sent(&self) -> impl Iterator<Item = Instant> {
        self.flows.iter().filter(|flow| flow.is_out).map(|flow| flow.sent)
    }

    /// What a flow's messages from a host are long.
    fn bytes(&self, flow: usize, from: usize) -> u32 {
        self.bytes[if self.both_ways && flow % 2 == 1 { 1 - from } else { from }]
    }

    fn on_the_wire(&mut self) -> Span {
        Span::from_ns(self.wire.0.ns + self.rng.random_range(0..=self.wire.1.ns))
    }

    /// Time between two requests of a flow at a rate, drawn.
    fn gap(&mut self, rate_rps: u64) -> Span {
        let even: f64 = self.rng.random_range(f64::EPSILON..1.0);
        Span::from_ns((minus_ln(even) * self.flows.len() as f64 * 1e9 / rate_rps.max(1) as f64) as u64)
    }
}

impl World {
    /// The flows begin: at a rate as if they had been asking for ever, else spread over a millisecond.
    pub(super) fn begin_streams(&mut self, mut streams: Streams) {
        for flow in 0..streams.flows.len() {
            let due = self.now
                + match streams.asks {
                    Asks::Program => Span::from_ns(streams.rng.random_range(0..=1_000_000)),
                    // What is left of a gap that is exponential is exponential.
                    Asks::Rate { rate_rps } => streams.gap(rate_rps),
                };
            streams.flows[flow].due = due;
            self.push_at(due, Ev::Due { flow: flow as u16 });
        }
        self.streams = Some(Box::new(streams));
        for thread in 0..self.inboxes.len() {
            let ctx = self.inboxes[thread].ctx;
            self.wake(ctx);
        }
    }

    /// Laws of the run since a look.
    pub(super) fn check_streams(&mut self, before: Look, of: &Flows) {
        let window = self.since(before);
        let streams = self.streams.as_ref().expect("there are flows");
        let each = self.costs.get(Work::Request);
        // Programs of the client do what those of the server do. What is on its way between the two is done by one of them.
        let (ends, cpus) = if streams.asks == Asks::Program { (2, 2) } else { (1, 1) };
        let both = Span::from_ns(each.ns * ends);
        let held = [
            streams.tally.holds(self.now, streams.sent()),
            window.busy(),
            window.work(both, u64::from(of.flows) + u64::from(of.threads)),
            window.capacity(both, cpus * u64::from(of.threads.min(of.cpus))),
            match streams.asks {
                Asks::Program => window.closed(),
                Asks::Rate { rate_rps } => {
                    window.offered((window.after.at - window.before.at).ns as f64 * rate_rps as f64 / 1e9)
                }
            },
        ];
        held.into_iter().for_each(|held| self.must(held));
    }

    fn streams(&mut self) -> &mut Streams {
        self.streams.as_mut().expect("there are flows")
    }

    /// A flow sends its next request, if the last is answered; a program sends its own, all but the first.
    pub(super) fn request_is_due(&mut self, flow: usize) {
        self.send_message(flow, CLIENT);
    }

    /// A message leaves a host.
    fn send_message(&mut self, flow: usize, from: usize) {
        let now = self.now;
        let streams = self.streams();
        if from == CLIENT {
            (streams.flows[flow].sent, streams.flows[flow].is_out) = (now, true);
            streams.tally.asks(now);
        }
        let bytes = streams.bytes(flow, from);
        streams.flows[flow].unread = chunks(bytes).count() as u32;
        let to = (1 - from) as u8;
        for chunk in chunks(bytes) {
            let streams = self.streams();
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
        let streams = self.streams();
        let Some((flow, chunk, span)) = streams.links[from].next() else { return };
        let at = now + span + streams.on_the_wire();
        self.push_at(now + span, Ev::LinkFree { from: from as u8 });
        self.push_at(at, Ev::Chunk { flow, to: (1 - from) as u8, is_ack: false, segments: chunk.segments });
    }

    /// See [`Ev::LinkFree`].
    pub(super) fn link_is_free(&mut self, from: usize) {
        self.streams().links[from].free();
        self.transmit(from);
    }

    /// A part of a message is at its host. TCP acknowledges at once what is more than a segment; the next message does for the rest.
    pub(super) fn chunk_arrives(&mut self, flow: usize, to: usize, is_ack: bool, segments: u16) {
        let now = self.now;
        let streams = self.streams();
        let is_source = to == CLIENT && streams.asks != Asks::Program;
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
        let socket = SocketIx((to * self.streams().flows.len() + flow) as u16);
        let napi = self.socks[socket.at()].napi;
        // What is lost fails the run.
        let _ = self.put_segments(napi, Some(socket), segments.into(), is_ack);
    }

    /// Parts of a message are read; true: it was the rest.
    fn is_whole(&mut self, flow: usize, parts: u32) -> bool {
        let unread = &mut self.streams().flows[flow].unread;
        *unread -= parts;
        *unread == 0
    }

    fn note_answer(&mut self, flow: usize) {
        let now = self.now;
        let streams = self.streams();
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
        let streams = self.streams();
        let Asks::Rate { rate_rps } = streams.asks else { return };
        let gap = streams.gap(rate_rps);
        let due = streams.flows[flow].due + gap;
        streams.flows[flow].due = due;
        self.push_at(due.max(now), Ev::Due { flow: flow as u16 });
    }

    /// A storage device begins; what it takes is drawn.
    fn ask_storage(&mut self, flow: usize) {
        let streams = self.streams();
        let ns = streams.storage_ns[streams.rng.random_range(0..streams.storage_ns.len())];
        let at = Deadline::after(self.now, Span::from_ns(ns));
        self.push(at, Ev::Stored { flow: flow as u16 });
    }

    /// See [`Ev::Stored`].
    pub(super) fn stored(&mut self, flow: usize) {
        let socket = 2 * self.streams().flows.len() + flow;
        self.make_readable(SocketIx(socket as u16));
    }
}

impl K {
    /// A thread of a program: it waits for its flows, reads what is there, and answers what is whole. `thread` is its event context too.
    pub(super) async fn stream_thread(self, end: usize, thread: usize) {
        while self.w().streams.is_none() {
            self.block(Deadline::NEVER).await;
        }
        loop {
            self.work(Work::Syscall).await;
            let ready = self.epoll_wait(thread, None, EVENTS_MAX, ThreadIx(thread as u16)).await;
            self.works(&[(Work::EpollReturn, 1), (Work::EpollEvent, ready.len() as u64)]).await;
            for socket in ready {
                self.read_flow(end, socket.at()).await;
            }
        }
    }

    async fn read_flow(&self, end: usize, socket: usize) {
        let (flow, is_stored, parts, segments, has_storage) = {
            let mut w = self.w();
            let (mut parts, mut segments) = (0, 0);
            while let Some(more) = w.take_segments(socket) {
                (parts, segments) = (parts + 1, segments + more);
            }
            let streams = w.streams();
            let flows = streams.flows.len();
            (socket % flows, socket / flows == 2, parts, segments, !streams.storage_ns.is_empty())
        };
        if parts == 0 {
            return;
        }
        if !is_stored {
            let kib = self.kib_read(flow, 1 - end, segments);
            self.works(&[(Work::Syscall, 1), (Work::CopyKib, kib)]).await;
            if !self.w().is_whole(flow, parts) {
                return;
            }
            if end == CLIENT {
                self.w().note_answer(flow);
            }
            self.work(Work::Request).await;
        }
        if end == SERVER && has_storage && !is_stored {
            self.work(Work::Syscall).await;
            self.w().ask_storage(flow);
            return;
        }
        let bytes = self.w().streams().bytes(flow, end);
        let parts = chunks(bytes).count() as u64;
        let copied = (Work::CopyKib, u64::from(bytes / 1024));
        self.works(&[(Work::Answer, 1), copied, (Work::PacketDown, parts)]).await;
        self.w().send_message(flow, end);
    }

    /// KiB of so many segments of a message; a message of a few bytes is none.
    fn kib_read(&self, flow: usize, from: usize, segments: u32) -> u64 {
        let bytes = self.w().streams().bytes(flow, from);
        u64::from((segments * SEGMENT_BYTES).min(bytes) / 1024)
    }
}
