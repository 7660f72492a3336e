//! Those who ask: connections with one request each at a time, the wire to the server and back, and the program that answers.
//!
//! A client is a source of events, not a host: what its machine takes is part of the way, a constant and a step that some answers
//! meet. A connection sends its next request when it is due and the one before is answered, as the load generators of the documents
//! do; latency counts from when it was sent.

use std::sync::Arc;

use napier_core::time::{Deadline, Instant, Span};
use napier_rng::Xoshiro256PlusPlus;
use rand::RngExt;

use super::device::FrameAt;
use super::event::Ev;
use super::figures::Core;
use super::group::Rates;
use super::vm::K;
use super::work::{Class, Work};
use super::world::World;
use napier_scenario::{SocketIx, ThreadIx};

/// When connections send.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Pace {
    /// All together so many requests a second, each connection at random times of its own.
    Open {
        /// Requests per second.
        rate_rps: u64,
    },
    /// The next as soon as the last is answered.
    Closed,
}

/// The clients of a run, and the way to them.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Clients {
    /// Connections to one queue.
    pub connections: u16,
    /// When they send.
    pub pace: Pace,
    /// From a client's send until the frame is in the server's ring.
    pub to_server: Span,
    /// From the server's write until the answer is at the client's program, if nothing else comes in between.
    pub to_client: Span,
    /// Mean of a random time beside it, exponential.
    pub to_client_noise: Span,
    /// Answers that meet something else on the client's machine, per 100,000.
    pub step_per_100k: u32,
    /// How long that takes: between these, evenly.
    pub step: (Span, Span),
    /// Bytes of a request's frame.
    pub request_bytes: u32,
    /// Each answer is acknowledged by a frame of its own, as TCP does.
    pub acknowledges: bool,
}

/// One connection.
#[derive(Copy, Clone, Debug)]
struct Connection {
    /// When the next request is due; in a closed loop it always is.
    due: Instant,
    /// When the one that is out was due.
    was_due: Instant,
    sent: Instant,
}

/// A run's clients as they are.
#[derive(Debug)]
pub(super) struct Asking {
    of: Clients,
    rng: Xoshiro256PlusPlus,
    connections: Vec<Connection>,
    /// Rates of the queues, in percent of the pace, since the beginning; none: the pace as it is.
    rates: Vec<Rates>,
    begun: Instant,
    /// Answers count from here on.
    pub(super) from: Instant,
    /// From send to answer, in the order of the answers.
    pub(super) latency_ns: Vec<u64>,
    /// From when it was due, likewise.
    pub(super) from_due_ns: Vec<u64>,
    /// Waits of the program that returned, and the events that they brought.
    pub(super) waits: u64,
    pub(super) events: u64,
    /// Frames of the server's queue, and their bytes.
    pub(super) bytes: u64,
}

impl Asking {
    pub(super) fn new(of: Clients, seed: u64) -> Self {
        let idle = Connection { due: Instant::ZERO, was_due: Instant::ZERO, sent: Instant::ZERO };
        Self {
            of,
            rng: napier_rng::stream(seed, "clients"),
            connections: vec![idle; of.connections.into()],
            rates: Vec::new(),
            begun: Instant::ZERO,
            from: Instant::from_ns(u64::MAX),
            latency_ns: Vec::new(),
            from_due_ns: Vec::new(),
            waits: 0,
            events: 0,
            bytes: 0,
        }
    }

    /// The same with a rate of its own for each queue; connections take them in turn.
    pub(super) fn with_rates(self, begun: Instant, rates: Vec<Rates>) -> Self {
        Self { begun, rates, ..self }
    }

    /// When a connection's next request is due whose last was due at `last`, drawn.
    fn next_due(&mut self, connection: usize, last: Instant) -> Instant {
        let Pace::Open { rate_rps } = self.of.pace else { return last };
        let mean_ns = 1e9 * f64::from(self.of.connections) / rate_rps.max(1) as f64;
        let gap = self.exponential(mean_ns);
        let Some(queue) = connection.checked_rem(self.rates.len()) else { return last + gap };
        let since_ns = (last - self.begun).ns;
        self.begun + Span::from_ns(self.rates[queue].after(since_ns, gap.ns))
    }

    /// When a connection's first request is due.
    fn first_due(&mut self, connection: usize, now: Instant) -> Instant {
        let spread_ns = match self.of.pace {
            Pace::Closed => 1_000_000,
            Pace::Open { .. } if !self.rates.is_empty() => return self.next_due(connection, now),
            Pace::Open { rate_rps } => 1_000_000_000 * u64::from(self.of.connections) / rate_rps.max(1),
        };
        Instant::from_ns(now.ns + self.rng.random_range(0..=spread_ns))
    }

    fn exponential(&mut self, mean_ns: f64) -> Span {
        let even: f64 = self.rng.random_range(f64::EPSILON..1.0);
        Span::from_ns((minus_ln(even) * mean_ns) as u64)
    }

    fn way_back(&mut self) -> Span {
        let mut ns = self.of.to_client.ns + self.exponential(self.of.to_client_noise.ns as f64).ns;
        if self.rng.random_range(0..100_000) < self.of.step_per_100k {
            let (least, most) = self.of.step;
            ns += self.rng.random_range(least.ns..=most.ns.max(least.ns));
        }
        Span::from_ns(ns)
    }
}

/// `-ln(x)` of a number above 0 and at most 1, by additions, products and quotients alone: those are the same on every machine,
/// which functions of the C library are not.
pub(super) fn minus_ln(x: f64) -> f64 {
    let (mut mantissa, mut halvings) = (x, 0.0);
    while mantissa < 0.75 {
        mantissa *= 2.0;
        halvings += 1.0;
    }
    // ln(m) = 2 atanh((m - 1) / (m + 1)); the argument is at most 1/7, so that ten terms are more than enough.
    let part = (mantissa - 1.0) / (mantissa + 1.0);
    let (square, mut power, mut sum) = (part * part, part, 0.0);
    for odd in (1..=19).step_by(2) {
        sum += power / f64::from(odd);
        power *= square;
    }
    halvings * std::f64::consts::LN_2 - 2.0 * sum
}

impl World {
    /// The connections begin, spread over their first gap.
    pub(super) fn begin_asking(&mut self, asking: Asking) {
        let now = self.now;
        let asking = self.asking.insert(asking);
        let dues: Vec<Instant> = (0..asking.connections.len())
            .map(|at| {
                let due = asking.first_due(at, now);
                asking.connections[at].due = due;
                due
            })
            .collect();
        for (connection, due) in dues.into_iter().enumerate() {
            self.push_at(due, Ev::Ask { connection: connection as u32 });
        }
    }

    /// A connection sends its request.
    pub(super) fn ask(&mut self, connection: usize) {
        let now = self.now;
        let asking = self.asking.as_mut().expect("somebody asks");
        let this = &mut asking.connections[connection];
        (this.was_due, this.sent) = (this.due.min(now), now);
        let at = Deadline::after(now, asking.of.to_server);
        self.push(at, Ev::Frame { connection: connection as u32, is_ack: false });
    }

    /// A frame of a connection is in the server's ring.
    pub(super) fn frame_arrives(&mut self, connection: usize, is_ack: bool) {
        let asking = self.asking.as_mut().expect("somebody asks");
        asking.bytes += if is_ack { 66 } else { u64::from(asking.of.request_bytes) };
        let napi = self.socks[connection].napi;
        let socket = Some(SocketIx(connection as u16));
        self.put_in_rx_ring(napi, socket, is_ack);
    }

    /// The program has written its answer.
    fn send_answer(&mut self, connection: usize) {
        let now = self.now;
        let asking = self.asking.as_mut().expect("somebody asks");
        let at = now + asking.way_back();
        self.push_at(at, Ev::Answered { connection: connection as u32 });
    }

    /// The answer is at the client's program; its acknowledgement goes back.
    pub(super) fn answered(&mut self, connection: usize) {
        let now = self.now;
        let asking = self.asking.as_mut().expect("somebody asks");
        let this = asking.connections[connection];
        if this.sent >= asking.from {
            asking.latency_ns.push(now.ns - this.sent.ns);
            asking
                .from_due_ns
                .push(now.ns - if asking.of.pace == Pace::Closed { this.sent.ns } else { this.was_due.ns });
        }
        let ack_at = now + asking.of.to_server;
        let due = asking.next_due(connection, this.due);
        asking.connections[connection].due = due;
        let next = due.max(now);
        if asking.of.acknowledges {
            self.push_at(ack_at, Ev::Frame { connection: connection as u32, is_ack: true });
        }
        self.push_at(next, Ev::Ask { connection: connection as u32 });
    }

    /// What the next request takes beside, drawn and accounted for.
    fn draw_service(&mut self, cpu: usize, points_ns: &[u64]) -> Span {
        let asking = self.asking.as_mut().expect("somebody asks");
        let ns = points_ns[asking.rng.random_range(0..points_ns.len())];
        self.cpus[cpu].speed.account.add(Class::User, ns, ns);
        Span::from_ns(ns)
    }

    /// The data of the next request is not in the CPU's cache any more.
    fn cool(&mut self, cpu: usize) {
        let lasts = Span::from_ns(self.costs.get(Work::Request).ns + self.costs.get(Work::Answer).ns);
        self.cpus[cpu].speed.disturb(lasts);
    }

    /// A frame without data has reached its connection.
    pub(super) fn take_ack(&mut self, frame: u32) {
        self.acks += 1;
        self.go(frame, FrameAt::Stack, FrameAt::Free);
    }
}

/// The program of a server; see [`Core`].
#[derive(Debug)]
pub(super) struct Server {
    /// Which thread, and which event context.
    nth: u16,
    wait: Option<Span>,
    events_max: usize,
    warm_max: usize,
    service_ns: Arc<[u64]>,
}

impl Server {
    /// The thread with this number, with the event context of the same number.
    pub(super) fn of(core: &Core, nth: u16) -> Self {
        let Core { wait, events_max, warm_max, .. } = *core;
        Self { nth, wait, events_max, warm_max, service_ns: core.service_ns.clone() }
    }
}

impl K {
    /// A server that waits in an event context, answers what is there, and waits again.
    pub(super) async fn serve_main(self, server: Server) {
        let me = ThreadIx(server.nth);
        loop {
            self.work(Work::Syscall).await;
            let ready = self.epoll_wait(server.nth.into(), server.wait, server.events_max, me).await;
            if let Some(asking) = &mut self.w().asking {
                asking.waits += 1;
                asking.events += ready.len() as u64;
            }
            self.works(&[(Work::EpollReturn, 1), (Work::EpollEvent, ready.len() as u64)]).await;
            for (at, socket) in ready.into_iter().enumerate() {
                if at >= server.warm_max {
                    self.w().cool(self.cpu());
                }
                while self.w().take_packet(socket.at()) {
                    self.work(Work::Request).await;
                    if !server.service_ns.is_empty() {
                        let service = self.w().draw_service(self.cpu(), &server.service_ns);
                        self.spend(service).await;
                    }
                    self.work(Work::Answer).await;
                    self.w().send_answer(socket.at());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_one() {
        for x in [f64::EPSILON, 1e-9, 0.1, 0.374, 0.5, 0.7499, 0.75, 0.9, 0.999, 1.0] {
            assert!((minus_ln(x) + x.ln()).abs() < 1e-13 * (1.0 - x.ln()), "{x}");
        }
    }
}
