//! The load generator: many flows, one thread, always polling.
//!
//! Latency is taken from the moment a request should have left, so a generator or a server that falls
//! behind is not excused from the waiting time it causes; the figure from the moment it did leave is kept beside it.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::wire::Wire;
use crate::stats::Recorder;
use napier_kv::arrivals::Poisson;
use napier_kv::client::{check_get, check_set, parse_reply, write_get, write_set};
use napier_kv::flight::{InFlight, Sent};
use napier_kv::profile::{Operation, Profile, Requests};

/// Most requests sent before replies are looked at again.
const SEND_BURST: usize = 16;

/// A request of a closed loop that is without an answer for so long is given up, and the flow sends another.
const GIVE_UP_NS: u64 = 50_000_000;

/// Requests per flow that may be without an answer.
const WINDOW: usize = 1024;

/// How requests are paced.
#[derive(Copy, Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Pace {
    /// Poisson arrivals at this rate, whatever comes back.
    Open { rate_rps: u64 },
    /// Every flow has one request out at any time.
    Closed,
}

/// What a run measured at the client.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) recorder: Recorder,
    pub(crate) answered: u64,
    pub(crate) sent: u64,
    /// Replies that came, late ones too.
    pub(crate) replies: u64,
    pub(crate) lost: u64,
    pub(crate) wrong: u64,
    pub(crate) window_ns: u64,
}

/// When a run begins and ends, in ns of the wire's clock.
#[derive(Copy, Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Window {
    pub(crate) warm_up_ns: u64,
    pub(crate) measure_ns: u64,
    pub(crate) drain_ns: u64,
}

pub(crate) struct Client<W> {
    pub(crate) wire: W,
    /// What is out, by flow.
    pub(crate) flows: Vec<InFlight>,
    pub(crate) profile: Profile,
    pub(crate) seed: u64,
}

/// One run in progress.
struct Run<'a, W> {
    client: &'a mut Client<W>,
    requests: Requests,
    /// Replies to requests that were due in here count.
    from_ns: u64,
    until_ns: u64,
    out: Measured,
    /// Flows to send on next, in a closed loop.
    idle: Vec<usize>,
    /// When each flow sent last.
    sent_ns: Vec<u64>,
}

impl<W: Wire> Client<W> {
    /// A generator of this many flows.
    pub(crate) fn new(wire: W, flows: usize, profile: Profile, seed: u64) -> Self {
        Self { wire, flows: vec![InFlight::new(WINDOW); flows], profile, seed }
    }

    /// Runs one load. `on_edge(true)` is called when measuring begins, `on_edge(false)` when it ends.
    pub(crate) fn run(
        &mut self,
        pace: Pace,
        window: Window,
        stop: &AtomicBool,
        on_edge: &mut dyn FnMut(bool),
    ) -> Measured {
        let start_ns = self.wire.now_ns();
        let from_ns = start_ns + window.warm_up_ns;
        let until_ns = from_ns + window.measure_ns;
        let flows = self.flows.len();
        let (requests, seed) = (self.profile.requests("client"), self.seed);
        let mut run = Run {
            client: self,
            requests,
            from_ns,
            until_ns,
            out: Measured {
                recorder: Recorder::new(),
                answered: 0,
                sent: 0,
                replies: 0,
                lost: 0,
                wrong: 0,
                window_ns: window.measure_ns,
            },
            idle: (0..flows).collect(),
            sent_ns: vec![start_ns; flows],
        };
        let mut arrivals = match pace {
            Pace::Open { rate_rps } => Some(Arrivals::new(rate_rps, seed, start_ns)),
            Pace::Closed => None,
        };
        let mut measuring = false;
        let mut next_flow = 0;
        let mut next_look_ns = start_ns + GIVE_UP_NS;
        loop {
            let now_ns = run.client.wire.now_ns();
            if !measuring && now_ns >= from_ns {
                measuring = true;
                on_edge(true);
            }
            if now_ns >= until_ns || stop.load(Ordering::Relaxed) {
                break;
            }
            match &mut arrivals {
                Some(arrivals) => {
                    for _ in 0..SEND_BURST {
                        if arrivals.next_ns > now_ns {
                            break;
                        }
                        let intended_ns = arrivals.take();
                        run.send(next_flow, intended_ns, now_ns);
                        next_flow = (next_flow + 1) % flows;
                    }
                }
                None => {
                    if now_ns >= next_look_ns {
                        next_look_ns = now_ns + GIVE_UP_NS;
                        run.give_up(now_ns);
                    }
                    while let Some(flow) = run.idle.pop() {
                        run.send(flow, now_ns, now_ns);
                    }
                }
            }
            run.client.wire.flush();
            run.receive(arrivals.is_none());
        }
        on_edge(false);
        let drained_ns = run.client.wire.now_ns() + window.drain_ns;
        while run.out_now() > 0 && run.client.wire.now_ns() < drained_ns {
            run.receive(false);
        }
        run.finish()
    }
}

/// The arrival process with its next point in time.
struct Arrivals {
    process: Poisson,
    start_ns: u64,
    next_ns: u64,
}

impl Arrivals {
    fn new(rate_rps: u64, seed: u64, start_ns: u64) -> Self {
        let mut process = Poisson::new(rate_rps, seed, "arrivals");
        let next_ns = start_ns + process.next_ns();
        Self { process, start_ns, next_ns }
    }

    fn take(&mut self) -> u64 {
        let this_ns = self.next_ns;
        self.next_ns = self.start_ns + self.process.next_ns();
        this_ns
    }
}

impl<W: Wire> Run<'_, W> {
    fn send(&mut self, flow: usize, intended_ns: u64, now_ns: u64) {
        let draw = self.requests.draw();
        self.sent_ns[flow] = now_ns;
        let client = &mut *self.client;
        let is_set = matches!(draw.operation, Operation::Set { .. });
        let id = client.flows[flow].send(Sent { record: draw.record, is_set, intended_ns, actual_ns: now_ns });
        let key = client.profile.key(draw.record);
        let write = |payload: &mut [u8]| {
            let bytes = match draw.operation {
                Operation::Get => write_get(payload, id, key),
                Operation::Set { value_bytes } => write_set(payload, id, key, usize::from(value_bytes)),
            };
            bytes.expect("requests of the profile fit a frame")
        };
        if intended_ns >= self.from_ns {
            self.out.sent += 1;
        }
        client.wire.send(flow, write);
    }

    /// Lets flows of a closed loop go on whose request or answer was lost.
    fn give_up(&mut self, now_ns: u64) {
        for (flow, sent_ns) in self.sent_ns.iter().enumerate() {
            if now_ns - sent_ns > GIVE_UP_NS && self.client.flows[flow].out() > 0 {
                self.client.flows[flow].abandon();
                self.idle.push(flow);
            }
        }
    }

    fn receive(&mut self, closed_loop: bool) {
        let Self { client, out, idle, from_ns, until_ns, .. } = self;
        let Client { wire, flows, profile, .. } = &mut **client;
        let measured = *from_ns..*until_ns;
        wire.receive(|flow, datagram, now_ns| {
            let (Some(flow), Ok(reply)) = (flow, parse_reply(datagram)) else {
                out.wrong += 1;
                return;
            };
            out.replies += 1;
            let Some(sent) = flows[flow].receive(reply.id) else { return };
            let right = if sent.is_set {
                check_set(&reply.status).is_ok()
            } else {
                check_get(&reply.status, profile.key(sent.record)).is_ok()
            };
            out.wrong += u64::from(!right);
            if closed_loop {
                idle.push(flow);
            }
            out.answered += u64::from(measured.contains(&now_ns));
            if measured.contains(&sent.intended_ns) {
                out.recorder.record(sent.intended_ns, sent.actual_ns, now_ns);
            }
        });
    }

    fn out_now(&self) -> usize {
        self.client.flows.iter().map(InFlight::out).sum()
    }

    fn finish(mut self) -> Measured {
        for flow in &mut self.client.flows {
            flow.abandon();
            self.out.lost += flow.lost();
        }
        self.out
    }
}
