//! Round trips between two hosts: who sends, the wire, who answers, and the programs of both ends.
//!
//! The client is instance and socket 0, the server 1. Packets are of one flow and keep their order.

use std::collections::VecDeque;

use napier_core::time::{Deadline, Instant, Span};
use napier_rng::Xoshiro256PlusPlus;
use rand::RngExt;

use super::event::Ev;
use super::hosts::{Poller, Quiet, Traffic};
use super::laws::{Look, Tally};
use super::vm::K;
use super::work::Work;
use super::world::World;
use napier_scenario::ThreadIx;

pub(super) const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;

/// How often a program that computes looks at the clock.
const GLANCE: Span = Span::from_ns(250);

/// The round trips of a run.
#[derive(Debug)]
pub(super) struct Trips {
    of: Traffic,
    quiet: Quiet,
    /// What the device of each end takes more to send what waits.
    late: [Span; 2],
    rng: Xoshiro256PlusPlus,
    /// When packets left that are not answered yet.
    sent: VecDeque<Instant>,
    /// When the last frame to each end arrives.
    last_at: [Instant; 2],
    /// Trips count that began from here on.
    pub(super) from: Instant,
    /// From send to answer, in the order of the answers.
    pub(super) latency_ns: Vec<u64>,
    /// All trips.
    pub(super) tally: Tally,
}

impl Trips {
    pub(super) fn new(of: Traffic, quiet: Quiet, seed: u64) -> Self {
        Self {
            of,
            quiet,
            late: [Span::ZERO; 2],
            rng: napier_rng::stream(seed, "wire"),
            sent: VecDeque::new(),
            last_at: [Instant::ZERO; 2],
            from: Instant::from_ns(u64::MAX),
            latency_ns: Vec::new(),
            tally: Tally::new(Instant::ZERO),
        }
    }

    /// When each packet left that is not answered.
    pub(super) fn sent(&self) -> impl Iterator<Item = Instant> {
        self.sent.iter().copied()
    }
}

impl World {
    /// The programs of both ends may begin.
    pub(super) fn begin_trips(&mut self, trips: Trips) {
        self.trips = Some(trips);
        for thread in 0..self.inboxes.len() {
            let ctx = self.inboxes[thread].ctx;
            self.wake(ctx);
        }
    }

    fn trips(&mut self) -> &mut Trips {
        self.trips.as_mut().expect("there is traffic")
    }

    /// Laws of the run since a look.
    pub(super) fn check_trips(&mut self, before: Look) {
        let window = self.since(before);
        let trips = self.trips.as_ref().expect("there is traffic");
        let mut held = vec![trips.tally.holds(self.now, trips.sent()), window.busy()];
        match trips.of.period {
            None => held.push(window.closed()),
            Some(period) => {
                // They go by the clock, whatever comes back.
                let (sent, ns) =
                    (window.after.asked() - window.before.asked(), (window.after.at - window.before.at).ns);
                if sent > ns / period.ns.max(1) + 1 {
                    held.push(Err(format!("{sent} packets were sent in {ns} ns, one each {} ns", period.ns)));
                }
            }
        }
        held.into_iter().for_each(|held| self.must(held));
    }

    fn trip_begins(&mut self) {
        let now = self.now;
        let trips = self.trips();
        trips.sent.push_back(now);
        trips.tally.asks(now);
    }

    /// The answer to the oldest packet is read.
    fn trip_ends(&mut self) {
        let now = self.now;
        let trips = self.trips();
        let sent = trips.sent.pop_front().expect("one answer for one packet");
        trips.tally.is_answered(now, sent);
        if sent >= trips.from {
            trips.latency_ns.push(now.ns - sent.ns);
        }
    }

    /// Frames of one end are on the wire.
    fn launch(&mut self, from: usize, frames: u32) {
        let now = self.now;
        let to = 1 - from;
        for _ in 0..frames {
            let trips = self.trips();
            let noise = trips.rng.random_range(0..=trips.of.wire_noise.ns);
            let late = std::mem::take(&mut trips.late[from]);
            let at = (now + Span::from_ns(trips.of.wire.ns + noise + late.ns)).max(trips.last_at[to]);
            trips.last_at[to] = at;
            self.push_at(at, Ev::Wire { napi: to });
        }
    }

    /// A frame is in the ring of a queue: if nobody busy polls it, its device has to be woken.
    fn queue_frame(&mut self, napi: usize) {
        let quiet = self.trips().quiet;
        let n = &mut self.napis[napi];
        n.to_send += 1;
        if self.now.ns - n.busy_at.ns >= quiet.after.ns {
            let late = if n.masked || n.timer.armed { quiet.deferred } else { quiet.armed };
            self.trips().late[napi] = late;
        }
    }
}

impl K {
    /// A poll sends what waits in the ring of its queue.
    pub(super) async fn send_ring(&self, napi: usize) {
        let frames = std::mem::take(&mut self.w().napis[napi].to_send);
        self.works(&[(Work::PacketDown, frames.into())]).await;
        self.w().launch(napi, frames);
    }

    /// `sendto` on a socket whose ring has a frame: whoever polls sends it; if nobody does, the instance is scheduled here.
    async fn kick(&self, napi: usize) {
        self.w().queue_frame(napi);
        self.work(Work::Syscall).await;
        self.bh_off();
        self.napi_schedule(napi).await;
        self.bh_on().await;
    }

    /// Sleeps until the traffic begins.
    async fn until_begin(&self) {
        while self.w().trips.is_none() {
            self.block(Deadline::NEVER).await;
        }
    }

    /// `recvfrom` on an `AF_XDP` socket: polls its instance once, and returns. Source: `net/xdp/xsk.c __xsk_recvmsg`.
    async fn xsk_recv(&self, socket: usize) {
        self.work(Work::Syscall).await;
        let (params, id) = {
            let w = self.w();
            let busy = &w.socks[socket].busy;
            (busy.busy_params(true, w.ids.first()), busy.napi_id)
        };
        if let Some(params) = params {
            self.busy_loop(id, params, false, move |w| !w.socks[socket].queue.is_empty()).await;
        }
    }

    /// The program of one end: it takes packets out of its ring; the server sends them back, the client computes.
    pub(super) async fn ring_main(self, end: usize, poller: Poller) {
        self.until_begin().await;
        loop {
            if self.w().take_packet(end) {
                self.work(Work::Request).await;
                if end == SERVER {
                    self.kick(end).await;
                } else {
                    self.w().trip_ends();
                    self.work(Work::Recycle).await;
                    self.compute().await;
                }
            } else if poller == Poller::Program {
                self.xsk_recv(end).await;
            } else {
                self.spin_pause().await;
            }
        }
    }

    /// What the program does with an answer: it takes a time by the clock.
    async fn compute(&self) {
        let end = {
            let mut w = self.w();
            w.now + w.trips().of.delay
        };
        loop {
            let left = end.ns.saturating_sub(self.w().now.ns);
            if left == 0 {
                return;
            }
            self.spend(Span::from_ns(left).min(GLANCE)).await;
        }
    }

    /// A thread that does nothing but to call `recvfrom`.
    pub(super) async fn poll_main(self, end: usize) {
        self.until_begin().await;
        loop {
            self.xsk_recv(end).await;
        }
    }

    /// A thread that sends at a fixed rate, whatever comes back.
    pub(super) async fn send_main(self) {
        self.until_begin().await;
        let (mut due, period) = {
            let mut w = self.w();
            (w.now, w.trips().of.period)
        };
        loop {
            let Some(period) = period else {
                self.block(Deadline::NEVER).await;
                continue;
            };
            due += period;
            let left = due.ns.saturating_sub(self.w().now.ns);
            self.spend(Span::from_ns(left)).await;
            self.w().trip_begins();
            self.kick(CLIENT).await;
        }
    }

    /// One end of a stream with one byte to and fro.
    pub(super) async fn stream_main(self, end: usize, thread: usize) {
        self.until_begin().await;
        let me = ThreadIx(thread as u16);
        if end == CLIENT {
            self.w().trip_begins();
            self.answer(end).await;
        }
        loop {
            self.work(Work::Syscall).await;
            self.recv(end, false, None, me).await;
            if end == CLIENT {
                let mut w = self.w();
                w.trip_ends();
                w.trip_begins();
            }
            self.work(Work::Request).await;
            self.answer(end).await;
        }
    }

    async fn answer(&self, end: usize) {
        self.work(Work::Answer).await;
        self.w().launch(end, 1);
    }
}
