//! The client: many connections with one request each on its way, one after the other or at given points in time.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use hdrhistogram::Histogram;
use napier_kv::serve::net::{Net, Watch};
use napier_rng as rng;

use super::wire::{Arrived, Head, Incoming, MessageShape, Op, Outgoing, page};
use crate::bench::rounds::nanos;
use crate::bench::rtt::histogram;
use crate::loads::Load;

/// How long a wait is at most, so that an interrupted run ends.
const LOOK: Duration = Duration::from_millis(50);
/// How long answers are waited for after the last request of an open loop was due.
const LATE_MAX: Duration = Duration::from_secs(1);
/// How long a closed loop goes on at most until as many requests were answered as there are connections.
const FIRST_MAX: Duration = Duration::from_secs(60);

/// What a client asks for.
#[derive(Copy, Clone, Debug)]
pub(in crate::bench) enum Ask {
    /// So many bytes there, and so many back.
    Echo { request: usize, response: usize },
    /// An operation of a store, reads in so many of a hundred.
    Store { bytes: u32, read_pct: u32, seed: u64 },
}

/// What came of a run.
pub(in crate::bench) struct ClientOutcome {
    /// Closed loop: from the send. Open loop: from when it was due.
    pub(in crate::bench) latency: Histogram<u64>,
    /// Requests answered in the time that counts.
    pub(in crate::bench) answered: u64,
    /// That time.
    pub(in crate::bench) counted: Duration,
    /// Requests of the whole run that were due; of a closed loop, that were sent.
    pub(in crate::bench) due: u64,
    /// Of them, those answered before the last was due.
    pub(in crate::bench) in_time: u64,
    /// Of them, those that were never answered.
    pub(in crate::bench) lost: u64,
}

/// A closed loop of which nothing can be said.
#[derive(Debug, thiserror::Error)]
#[error(
    "{answered} answers over {flows} flows a minute after the end of a run: give fewer flows, or less for each to carry"
)]
pub(in crate::bench) struct TooSlow {
    answered: u64,
    flows: usize,
}

struct Conn<S> {
    stream: S,
    incoming: Incoming,
    outgoing: Outgoing,
    /// From when the latency of its request counts; `None` without one.
    from: Option<Instant>,
    number: u64,
    is_blocked: bool,
}

struct Client<'a, N: Net> {
    net: N,
    ask: Ask,
    conns: Vec<Conn<N::Stream>>,
    page: Vec<u8>,
    /// Connections without a request, and requests without a connection: one of the two is empty.
    free: Vec<usize>,
    waiting: VecDeque<Instant>,
    asked: u64,
    /// Answers of an open loop that came after its end.
    late: u64,
    times: Times,
    outcome: ClientOutcome,
    interrupted: &'a AtomicBool,
}

/// Points in time of a run.
struct Times {
    /// What is answered from here on counts; in an open loop, what is due.
    warm: Instant,
    end: Instant,
}

/// Runs a client over `streams` for `length`, of which the first tenth does not count.
pub(super) fn run<N: Net>(
    net: N,
    streams: Vec<N::Stream>,
    ask: Ask,
    (load, length): (Load, Duration),
    interrupted: &AtomicBool,
) -> anyhow::Result<ClientOutcome> {
    let shape = match ask {
        Ask::Echo { response, .. } => MessageShape::Plain(response),
        Ask::Store { .. } => MessageShape::Headed,
    };
    let conn = |stream| {
        let (incoming, outgoing) = (Incoming::new(shape), Outgoing::default());
        Conn { stream, incoming, outgoing, from: None, number: 0, is_blocked: false }
    };
    let conns: Vec<_> = streams.into_iter().map(conn).collect();
    let begun = Instant::now();
    let times = Times { warm: begun + length / 10, end: begun + length };
    let counted = times.end - times.warm;
    let outcome = ClientOutcome { latency: histogram(), answered: 0, counted, due: 0, in_time: 0, lost: 0 };
    let (free, waiting) = ((0..conns.len()).rev().collect(), VecDeque::new());
    let client =
        Client { net, ask, conns, page: page(), free, waiting, asked: 0, late: 0, times, outcome, interrupted };
    match load {
        Load::Max => client.closed(),
        // Equally far apart, as the document's tool has them.
        Load::Rps(rate) => client.open(begun, Duration::from_nanos((1_000_000_000 / rate).max(1))),
    }
}

impl<N: Net> Client<'_, N> {
    fn closed(mut self) -> anyhow::Result<ClientOutcome> {
        while let Some(at) = self.free.pop() {
            self.send(at, Instant::now())?;
        }
        let mut tokens = Vec::new();
        loop {
            let now = Instant::now();
            if now >= self.times.end {
                // The first answers alone would be those of the connections that are served first.
                if self.outcome.answered >= self.conns.len() as u64 {
                    break;
                }
                if now >= self.times.end + FIRST_MAX {
                    return Err(TooSlow { answered: self.outcome.answered, flows: self.conns.len() }.into());
                }
            }
            self.wait(&mut tokens, LOOK)?;
            for &token in &tokens {
                let at = usize::try_from(token).expect("an index");
                if let Some(from) = self.turn(at)? {
                    let now = Instant::now();
                    self.outcome.in_time += 1;
                    if now >= self.times.warm {
                        self.outcome.answered += 1;
                        self.outcome.latency.saturating_record(nanos(now - from));
                    }
                    self.send(at, now)?;
                }
            }
        }
        self.outcome.counted = self.times.warm.elapsed();
        self.outcome.due = self.asked;
        Ok(self.outcome)
    }

    fn open(mut self, begun: Instant, period: Duration) -> anyhow::Result<ClientOutcome> {
        let mut due = begun + period;
        let mut tokens = Vec::new();
        loop {
            let now = Instant::now();
            self.fall_due(now, &mut due, period)?;
            let is_over = due >= self.times.end;
            let all_answered = self.outcome.due == self.outcome.in_time + self.late;
            if is_over && (all_answered || now >= self.times.end + LATE_MAX) {
                break;
            }
            self.wait(&mut tokens, if is_over { LOOK } else { LOOK.min(due.saturating_duration_since(now)) })?;
            for &token in &tokens {
                let at = usize::try_from(token).expect("an index");
                if let Some(from) = self.turn(at)? {
                    let now = Instant::now();
                    self.note(from, now);
                    self.free.push(at);
                    // What fell due meanwhile has waited longer than what will.
                    self.fall_due(now, &mut due, period)?;
                }
            }
        }
        self.outcome.lost = self.outcome.due - self.outcome.in_time - self.late;
        Ok(self.outcome)
    }

    /// An answer of an open loop.
    fn note(&mut self, from: Instant, now: Instant) {
        if now < self.times.end {
            self.outcome.in_time += 1;
        } else {
            self.late += 1;
        }
        if from >= self.times.warm {
            self.outcome.latency.saturating_record(nanos(now - from));
        }
        if now >= self.times.warm && now < self.times.end {
            self.outcome.answered += 1;
        }
    }

    /// Requests whose time has come go to connections that are free, the oldest first.
    fn fall_due(&mut self, now: Instant, due: &mut Instant, period: Duration) -> anyhow::Result<()> {
        while *due <= now && *due < self.times.end {
            self.waiting.push_back(*due);
            self.outcome.due += 1;
            *due += period;
        }
        while !self.waiting.is_empty()
            && let Some(at) = self.free.pop()
        {
            let from = self.waiting.pop_front().expect("it is not empty");
            self.send(at, from)?;
        }
        Ok(())
    }

    fn wait(&mut self, tokens: &mut Vec<u64>, at_most: Duration) -> anyhow::Result<()> {
        ensure!(!self.interrupted.load(Ordering::Relaxed), "interrupted");
        tokens.clear();
        Ok(self.net.wait(Some(at_most), tokens)?)
    }

    /// Sends the next request over a connection that has none.
    fn send(&mut self, at: usize, from: Instant) -> io::Result<()> {
        let conn = &mut self.conns[at];
        conn.from = Some(from);
        conn.number = self.asked;
        self.asked += 1;
        conn.outgoing = match self.ask {
            Ask::Echo { request, .. } => Outgoing::plain(request),
            Ask::Store { bytes, read_pct, seed } => {
                let reads = rng::mix(seed ^ conn.number) % 100 < u64::from(read_pct);
                let op = if reads { Op::Read } else { Op::Write };
                Outgoing::headed(Head::request(op, bytes, conn.number))
            }
        };
        self.go_on(at)
    }

    fn go_on(&mut self, at: usize) -> io::Result<()> {
        let conn = &mut self.conns[at];
        let done = conn.outgoing.write(&self.net, &conn.stream, &mut self.page)?;
        if conn.is_blocked == done {
            conn.is_blocked = !done;
            let watch = if done { Watch::Read } else { Watch::Write };
            self.net.watch(&conn.stream, at as u64, watch)?;
        }
        Ok(())
    }

    /// A connection has something to read, or room to write. From when the latency of its request counts, if that was
    /// answered.
    fn turn(&mut self, at: usize) -> anyhow::Result<Option<Instant>> {
        if self.conns[at].outgoing.waits() {
            self.go_on(at)?;
            return Ok(None);
        }
        let conn = &mut self.conns[at];
        match conn.incoming.read(&self.net, &conn.stream, &mut self.page)? {
            Arrived::Part => Ok(None),
            Arrived::Whole(head) => {
                ensure!(head.is_none_or(|head| head.op == Op::Answer && head.number == conn.number), "a wrong answer");
                let from = conn.from.take();
                ensure!(from.is_some(), "an answer without a request");
                Ok(from)
            }
            Arrived::End => anyhow::bail!("the server closed a connection"),
        }
    }
}
