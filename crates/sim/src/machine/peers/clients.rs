//! Those who ask: connections with one request each at a time, the wire to the server and back, and the program that answers.
//!
//! A client is a source of events, not a host: what its machine takes is part of the way, a constant and a step that some answers
//! meet. A connection sends its next request when it is due and the one before is answered, as the load generators of the documents
//! do; latency counts from when it was sent. At a rate all connections are from the first moment as if they had been asking for ever. A
//! request that the server's ring has no room for is sent again, as TCP does.

use napier_core::time::{Deadline, Instant, Span};
use napier_rng::Xoshiro256PlusPlus;
use napier_rng::load::Load;
use rand::RngExt;

use crate::machine::peers::Peers;
use crate::machine::peers::arrivals::Rates;
use crate::machine::peers::chance::minus_ln;
use crate::machine::peers::recorded::Replay;
use crate::machine::peers::tally::RequestTally;
use crate::machine::sim::event::Ev;
use napier_scenario::SocketIx;

/// The clients of a run, and the way to them.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Clients {
    /// Connections to one queue.
    pub connections: u16,
    /// When they send.
    pub load: Load,
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
    /// A request that was lost is sent again after this and what an answer takes, and then after twice as long; `None`: never, so that
    /// a loss breaks the run.
    pub rto_min: Option<Span>,
}

/// What Linux has for [`Clients::rto_min`]. Source: `include/net/tcp.h TCP_RTO_MIN`.
pub const RTO_MIN: Span = Span::from_ms(200);

/// Longest time until a request is sent again. Source: `include/net/tcp.h TCP_RTO_MAX`.
pub(crate) const RTO_MAX: Span = Span::from_secs(120);

/// A closed loop begins within so long, if nothing is known of what a request takes.
pub(crate) const ROUND: Span = Span::from_ms(1);

/// One connection.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ClientConnection {
    /// When the next request is due; in a closed loop it always is.
    pub(crate) due: Instant,
    /// When the one that is out was due.
    pub(crate) was_due: Instant,
    pub(crate) sent: Instant,
    /// One is out.
    pub(crate) is_out: bool,
    /// What its answer took to the client.
    pub(crate) way_back: Span,
    /// What answers take, smoothed, in ns.
    pub(crate) smoothed_ns: u64,
    /// How often it was lost.
    pub(crate) losses: u8,
}

/// A run's clients as they are.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) of: Clients,
    pub(crate) rng: Xoshiro256PlusPlus,
    pub(crate) connections: Vec<ClientConnection>,
    /// Rates of the queues, in percent of the pace, since the beginning; none: the pace as it is.
    pub(crate) rates: Vec<Rates>,
    /// Requests come as they were recorded, and not by chance.
    pub(crate) replay: Option<Replay>,
    pub(crate) begun: Instant,
    /// A closed loop's requests begin within so long.
    pub(crate) round: Span,
    /// Answers count from here on.
    pub(crate) from: Instant,
    /// From send to answer, in the order of the answers.
    pub(crate) latency_ns: Vec<u64>,
    /// From when it was due, likewise.
    pub(crate) from_due_ns: Vec<u64>,
    /// What of it was the way there and back, likewise.
    pub(crate) way_ns: Vec<u64>,
    /// All requests.
    pub(crate) tally: RequestTally,
    /// Requests on the wire, or lost and to be sent again.
    pub(crate) on_wire: u64,
    /// Requests that came into the server's ring, so far.
    pub(crate) entered: u64,
    /// Requests that a program has taken, and not answered.
    pub(crate) in_programs: u64,
    /// Answers on the way back.
    pub(crate) on_way_back: u64,
    /// Requests that were lost, so far.
    pub(crate) lost: u64,
    /// What requests took programs beside, so far.
    pub(crate) service_ns: u64,
    /// Waits of the program that returned, and the events that they brought.
    pub(crate) waits: u64,
    pub(crate) events: u64,
}

impl Asking {
    pub(crate) fn new(of: Clients, seed: u64) -> Self {
        let idle = ClientConnection {
            due: Instant::ZERO,
            was_due: Instant::ZERO,
            sent: Instant::ZERO,
            is_out: false,
            way_back: Span::ZERO,
            smoothed_ns: 0,
            losses: 0,
        };
        Self {
            of,
            rng: napier_rng::stream(seed, "clients"),
            connections: vec![idle; of.connections.into()],
            rates: Vec::new(),
            replay: None,
            begun: Instant::ZERO,
            round: ROUND,
            from: Instant::from_ns(u64::MAX),
            latency_ns: Vec::new(),
            from_due_ns: Vec::new(),
            way_ns: Vec::new(),
            tally: RequestTally::new(Instant::ZERO),
            on_wire: 0,
            entered: 0,
            in_programs: 0,
            on_way_back: 0,
            lost: 0,
            service_ns: 0,
            waits: 0,
            events: 0,
        }
    }

    /// The same with a rate of its own for each queue; connections take them in turn.
    pub(crate) fn with_rates(self, begun: Instant, rates: Vec<Rates>) -> Self {
        Self { begun, rates, ..self }
    }

    /// The same with requests as they were recorded.
    pub(crate) fn with_replay(self, begun: Instant, replay: Replay) -> Self {
        Self { begun, replay: Some(replay), ..self }
    }

    /// The same with a closed loop that begins as it goes on: spread over what all requests take the server.
    pub(crate) fn with_round(self, round: Span) -> Self {
        Self { round: round.max(ROUND), ..self }
    }

    /// Mean time between two requests of a connection at the full rate; none in a closed loop.
    fn gap_ns(&self) -> Option<f64> {
        let Load::Rps(rate_rps) = self.of.load else { return None };
        Some(1e9 * f64::from(self.of.connections) / rate_rps.max(1) as f64)
    }

    /// When a connection's next request is due whose last was due at `last`, drawn.
    fn next_due(&mut self, connection: usize, last: Instant) -> Instant {
        if let Some(replay) = &self.replay {
            return self.begun + Span::from_ns(replay.after(connection, (last - self.begun).ns));
        }
        let Some(mean_ns) = self.gap_ns() else { return last };
        let gap = self.exponential(mean_ns);
        let Some(queue) = connection.checked_rem(self.rates.len()) else { return last + gap };
        let since_ns = (last - self.begun).ns;
        self.begun + Span::from_ns(self.rates[queue].after(since_ns, gap.ns))
    }

    /// When a connection's first request is due. At a rate it is as if it had been asking for ever: what is left of a gap that is
    /// exponential is exponential.
    fn first_due(&mut self, connection: usize, now: Instant) -> Instant {
        match self.of.load {
            Load::Max => Instant::from_ns(now.ns + self.rng.random_range(0..=self.round.ns)),
            Load::Rps(_) => self.next_due(connection, now),
        }
    }

    /// How many requests of a connection come due in a time, in the mean.
    fn due_between(&self, connection: usize, from: Instant, to: Instant) -> f64 {
        if let Some(replay) = &self.replay {
            return replay.between(connection, (from - self.begun).ns, (to - self.begun).ns);
        }
        let Some(mean_ns) = self.gap_ns() else { return 0.0 };
        let ns = match connection.checked_rem(self.rates.len()) {
            Some(queue) => self.rates[queue].between((from - self.begun).ns, (to - self.begun).ns),
            None => (to - from).ns as f64,
        };
        ns / mean_ns
    }

    /// How many requests of all connections come due in a time, in the mean; none in a closed loop.
    pub(crate) fn expected(&self, from: Instant, to: Instant) -> Option<f64> {
        self.gap_ns()?;
        Some((0..self.connections.len()).map(|connection| self.due_between(connection, from, to)).sum())
    }

    /// Requests that are late, and those that would have come behind them.
    pub(crate) fn behind(&self, now: Instant) -> f64 {
        let late = self.connections.iter().enumerate().filter(|(_, this)| this.is_out);
        late.map(|(connection, this)| 1.0 + self.due_between(connection, this.was_due, now)).sum()
    }

    /// When each request was sent that is not answered.
    pub(crate) fn sent(&self) -> impl Iterator<Item = Instant> {
        self.connections.iter().filter(|this| this.is_out).map(|this| this.sent)
    }

    /// How long those have been out, together, that were lost and are to be sent again.
    pub(crate) fn lost_ns(&self, now: Instant) -> u64 {
        let lost = self.connections.iter().filter(|this| this.is_out && this.losses > 0);
        lost.map(|this| (now - this.sent).ns).sum()
    }

    /// A request was lost: after how long it is sent again. Source: `net/ipv4/tcp_input.c __tcp_set_rto`, where the deviation is at
    /// least `TCP_RTO_MIN`, and `tcp_timer.c`, which doubles it. A probe of the tail is not sooner while one packet is out.
    fn again_after(&mut self, connection: usize) -> Option<Span> {
        let least = self.of.rto_min?;
        let this = &mut self.connections[connection];
        let ns = (least.ns + this.smoothed_ns) << this.losses.min(10);
        this.losses = this.losses.saturating_add(1);
        Some(Span::from_ns(ns).min(RTO_MAX))
    }

    /// An answer came after so long: the mean follows, but not after a loss. Source: RFC 6298, section 3 (Karn's algorithm).
    fn smooth(this: &mut ClientConnection, ns: u64) {
        if this.losses == 0 {
            this.smoothed_ns =
                if this.smoothed_ns == 0 { ns } else { this.smoothed_ns - this.smoothed_ns / 8 + ns / 8 };
        }
        this.losses = 0;
    }

    fn exponential(&mut self, mean_ns: f64) -> Span {
        let even: f64 = self.rng.random_range(f64::EPSILON..1.0);
        Span::from_ns((minus_ln(even) * mean_ns) as u64)
    }

    /// What a request takes its program beside, of points that are equally likely.
    pub(crate) fn draw(&mut self, points_ns: &[u64]) -> u64 {
        let ns = points_ns[self.rng.random_range(0..points_ns.len())];
        self.service_ns += ns;
        ns
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

impl Peers {
    /// The connections begin.
    pub(crate) fn begin_asking(&mut self, asking: Asking) {
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
    pub(crate) fn ask(&mut self, connection: usize) {
        let now = self.now;
        let asking = self.asking.as_mut().expect("there are clients");
        let this = &mut asking.connections[connection];
        (this.was_due, this.sent, this.is_out) = (this.due.min(now), now, true);
        asking.tally.asks(now);
        asking.on_wire += 1;
        let at = Deadline::after(now, asking.of.to_server);
        self.push(at, Ev::Frame { connection: connection as u32, is_ack: false });
    }

    /// A frame of a connection is in the server's ring.
    pub(crate) fn frame_arrives(&mut self, connection: usize, is_ack: bool) {
        let asking = self.asking.as_mut().expect("there are clients");
        let bytes = if is_ack { 66 } else { u64::from(asking.of.request_bytes) };
        let napi = self.socks[connection].napi;
        self.napis[napi].wire_bytes += bytes;
        let socket = Some(SocketIx(connection as u16));
        let entered = self.put_in_rx_ring(napi, socket, is_ack);
        if is_ack {
            return; // one that is lost is made up for by the next
        }
        let asking = self.asking.as_mut().expect("there are clients");
        asking.on_wire -= 1;
        if entered {
            asking.entered += 1;
            return;
        }
        asking.lost += 1;
        if let Some(after) = asking.again_after(connection) {
            asking.on_wire += 1;
            let at = Deadline::after(self.now, after);
            self.push(at, Ev::Frame { connection: connection as u32, is_ack: false });
        }
    }

    /// The program has written its answer.
    pub(crate) fn send_answer(&mut self, connection: usize) {
        if self.datagrams.is_some() {
            return self.answer_datagram(connection);
        }
        let now = self.now;
        let asking = self.asking.as_mut().expect("there are clients");
        let way_back = asking.way_back();
        asking.connections[connection].way_back = way_back;
        asking.in_programs -= 1;
        asking.on_way_back += 1;
        self.push_at(now + way_back, Ev::Answered { connection: connection as u32 });
    }

    /// The answer is at the client's program; its acknowledgement goes back.
    pub(crate) fn answered(&mut self, connection: usize) {
        let now = self.now;
        let asking = self.asking.as_mut().expect("there are clients");
        let this = &mut asking.connections[connection];
        this.is_out = false;
        Asking::smooth(this, now.ns - this.sent.ns);
        let this = *this;
        asking.on_way_back -= 1;
        asking.tally.is_answered(now, this.sent);
        if now >= asking.from {
            asking.latency_ns.push(now.ns - this.sent.ns);
            asking.from_due_ns.push(now.ns - if asking.of.load == Load::Max { this.sent.ns } else { this.was_due.ns });
            asking.way_ns.push(asking.of.to_server.ns + this.way_back.ns);
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

    /// A program takes a request, if there is one: by what it is answered.
    pub(crate) fn take_request(&mut self, socket: usize) -> Option<usize> {
        if self.datagrams.is_some() {
            return self.take_datagram(socket);
        }
        let took = self.take_packet(socket);
        if let Some(asking) = &mut self.asking {
            asking.in_programs += u64::from(took);
        }
        took.then_some(socket)
    }

    /// A wait of the program brought so many events.
    pub(crate) fn note_wait(&mut self, events: u64) {
        let counts = match (&mut self.asking, &mut self.datagrams) {
            (Some(asking), _) => (&mut asking.waits, &mut asking.events),
            (None, Some(datagrams)) => (&mut datagrams.waits, &mut datagrams.events),
            (None, None) => return,
        };
        *counts.0 += 1;
        *counts.1 += events;
    }

    /// What the next request takes beside, drawn and accounted for.
    pub(crate) fn draw_service(&mut self, cpu: usize, points_ns: &[u64]) -> Span {
        let ns = match &mut self.datagrams {
            Some(datagrams) => datagrams.draw(points_ns),
            None => self.asking.as_mut().expect("there are clients").draw(points_ns),
        };
        self.cpus[cpu].speed.serve(ns);
        Span::from_ns(ns)
    }
}
