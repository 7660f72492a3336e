//! The load generator: one thread, many connections with a window of requests each.
//!
//! Latency is taken from the moment a request should have left, so a generator or a server that falls behind is not
//! excused from the waiting time it causes; the figure from the moment it was handed to its connection is kept beside.
//! A request that finds all windows full waits, and that waiting counts.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::codec::{write_get, write_set};
use super::net::{ClientNet, Proto};
use super::plan::{Measured, Pace, Plan, Window};
use super::replies::{Connection, Run};
use crate::arrivals::Poisson;
use crate::kv::flight::Sent;
use crate::kv::profile::{Draw, Operation, Requests};

/// Most requests sent before replies are looked at again.
const SEND_BURST: usize = 64;

/// A datagram that is without an answer for so long is given up.
const GIVE_UP_NS: u64 = 200_000_000;

/// Sets of the first fill that may be lost.
const LOST_SETS_MAX: u64 = 1000;

/// The generator sleeps only if nothing is due for longer than this, and wakes up so much earlier.
const SPIN_NS: u64 = 60_000;

/// Longest sleep: whether the run shall end is looked at after it.
const WAIT_MAX: Duration = Duration::from_millis(20);

const READ_BYTES: usize = 64 << 10;

/// Requests that are written for a connection but have no room, in bytes; no more are sent on it then.
const OUTBOX_BYTES_MAX: usize = 4 << 20;

/// Connections to a server.
pub struct Generator<N: ClientNet> {
    net: N,
    plan: Plan,
    connections: Vec<Connection<N::Socket>>,
    clock: Instant,
    scratch: Box<[u8]>,
    ready: Vec<u64>,
}

impl<N: ClientNet> Generator<N> {
    /// Connects.
    ///
    /// # Errors
    /// Nobody is at the address.
    pub fn connect(mut net: N, plan: Plan, to: SocketAddr, connections: usize) -> anyhow::Result<Self> {
        let connections = (0..connections as u64)
            .map(|token| {
                Ok(Connection {
                    socket: net.connect(plan.proto, to, token)?,
                    pending: VecDeque::with_capacity(plan.depth),
                    next_id: 0,
                    inbox: Vec::new(),
                    outbox: Vec::new(),
                    outbox_at: 0,
                })
            })
            .collect::<io::Result<Vec<_>>>()
            .with_context(|| format!("connecting to {to} over {} (is a server running there?)", plan.proto))?;
        let (scratch, ready) = (vec![0; READ_BYTES].into(), Vec::with_capacity(256));
        Ok(Self { net, plan, connections, clock: Instant::now(), scratch, ready })
    }

    /// Sets every record once.
    ///
    /// # Errors
    /// The connection breaks, or the server answers what it must not.
    pub fn fill(&mut self, stop: &AtomicBool) -> anyhow::Result<Measured> {
        let mut run = Run::new(0, u64::MAX);
        let mut left: Vec<u32> = (0..self.plan.profile.config().records).rev().collect();
        let mut draws = self.plan.profile.requests("fill");
        loop {
            let now_ns = self.now_ns();
            for index in 0..self.connections.len() {
                while self.has_room(index)
                    && let Some(record) = left.pop()
                {
                    let operation = Operation::Set { value_bytes: draws.value_bytes(record) };
                    self.send(&mut run, index, Draw { record, operation }, now_ns, now_ns);
                }
                self.flush(index)?;
            }
            if (self.out() == 0 && left.is_empty()) || stop.load(Ordering::Relaxed) {
                return Ok(run.out);
            }
            self.receive(&mut run, WAIT_MAX)?;
            // A set that was lost is sent again, a server that loses everything is not waited for.
            self.give_up(&mut run, &mut |record| left.push(record));
            if run.out.lost > LOST_SETS_MAX {
                bail!("{} sets got no answer within {} ms: is the server there?", run.out.lost, GIVE_UP_NS / 1_000_000);
            }
        }
    }

    /// Runs one load; `name` and the profile's seed decide what is asked for and when. `on_edge` is called when
    /// measuring begins and when it ends.
    ///
    /// # Errors
    /// The connection breaks, or what comes is no reply.
    pub fn run(
        &mut self,
        pace: Pace,
        window: Window,
        (seed, name): (u64, &str),
        stop: &AtomicBool,
        on_edge: &mut dyn FnMut(bool),
    ) -> anyhow::Result<Measured> {
        let start_ns = self.now_ns();
        let from_ns = start_ns + nanos(window.warm_up);
        let mut run = Run::new(from_ns, from_ns + nanos(window.measure));
        let mut requests = self.plan.profile.requests(name);
        let mut arrivals = match pace {
            Pace::Open { rate_rps } => Some(Arrivals::new(rate_rps, seed, name, start_ns)),
            Pace::Closed => None,
        };
        let (mut edges, mut next) = (0, 0);
        loop {
            let now_ns = self.now_ns();
            for (number, edge_ns) in [run.from_ns, run.until_ns].into_iter().enumerate() {
                if edges == number && now_ns >= edge_ns {
                    edges += 1;
                    on_edge(number == 0);
                }
            }
            // A generator that is late sends what was due all the same: leaving it out would hide that it waited.
            let owes = arrivals.as_ref().is_some_and(|arrivals| arrivals.next_ns < run.until_ns);
            let is_over = now_ns >= run.until_ns && !(owes && now_ns < run.until_ns + nanos(window.drain));
            if is_over || stop.load(Ordering::Relaxed) {
                break;
            }
            let wait = match &mut arrivals {
                Some(arrivals) => self.send_due(&mut run, &mut requests, arrivals, now_ns, &mut next),
                None => self.send_all(&mut run, &mut requests, now_ns),
            };
            for index in 0..self.connections.len() {
                self.flush(index)?;
            }
            let left = Duration::from_nanos(run.until_ns.saturating_sub(now_ns));
            self.receive(&mut run, wait.min(left))?;
            self.give_up(&mut run, &mut |_| ());
        }
        let drained_ns = self.now_ns() + nanos(window.drain);
        while self.out() > 0 && self.now_ns() < drained_ns && !stop.load(Ordering::Relaxed) {
            for index in 0..self.connections.len() {
                self.flush(index)?;
            }
            self.receive(&mut run, Duration::from_millis(1))?;
        }
        run.out.lost += self.out() as u64;
        Ok(run.out)
    }

    /// Whether answers are still out, so that a stream could not be used for another run.
    pub fn is_idle(&self) -> bool {
        self.out() == 0
    }

    /// Sends what is due while there is room; returns how long nothing will be due.
    fn send_due(
        &mut self,
        run: &mut Run,
        requests: &mut Requests,
        arrivals: &mut Arrivals,
        now_ns: u64,
        next: &mut usize,
    ) -> Duration {
        let all = self.connections.len();
        for _ in 0..SEND_BURST {
            if arrivals.next_ns > now_ns || arrivals.next_ns >= run.until_ns {
                break;
            }
            let Some(index) = (0..all).map(|step| (*next + step) % all).find(|index| self.has_room(*index)) else {
                // Answers make room; until then the requests that are due wait, and their time runs.
                return WAIT_MAX;
            };
            let intended_ns = arrivals.take();
            self.send(run, index, requests.draw(), intended_ns, now_ns);
            *next = (index + 1) % all;
        }
        Duration::from_nanos(arrivals.next_ns.saturating_sub(now_ns).saturating_sub(SPIN_NS)).min(WAIT_MAX)
    }

    fn send_all(&mut self, run: &mut Run, requests: &mut Requests, now_ns: u64) -> Duration {
        for index in 0..self.connections.len() {
            while self.has_room(index) {
                self.send(run, index, requests.draw(), now_ns, now_ns);
            }
        }
        WAIT_MAX
    }

    fn has_room(&self, index: usize) -> bool {
        let connection = &self.connections[index];
        connection.pending.len() < self.plan.depth && connection.outbox.len() < OUTBOX_BYTES_MAX
    }

    fn send(&mut self, run: &mut Run, index: usize, draw: Draw, intended_ns: u64, now_ns: u64) {
        let Plan { format, proto, profile, value_bytes, .. } = &self.plan;
        let connection = &mut self.connections[index];
        let id = connection.next_id;
        connection.next_id = id.wrapping_add(1);
        let start = connection.outbox.len();
        if *proto == Proto::Udp {
            // The length goes before each datagram in the outbox and is not sent.
            connection.outbox.extend_from_slice(&[0; 2]);
            connection.outbox.extend_from_slice(&id.to_be_bytes());
            connection.outbox.extend_from_slice(&[0, 0, 0, 1, 0, 0]);
        }
        let key = profile.key(draw.record);
        let is_set = match draw.operation {
            Operation::Get => {
                write_get(*format, &mut connection.outbox, key);
                false
            }
            Operation::Set { value_bytes: drawn } => {
                let value_bytes = value_bytes.unwrap_or(usize::from(drawn));
                write_set(*format, &mut connection.outbox, key, value_bytes);
                true
            }
        };
        if *proto == Proto::Udp {
            let bytes = connection.outbox.len() - start - 2;
            let length = u16::try_from(bytes).expect("values of datagrams are checked with the options");
            connection.outbox[start..start + 2].copy_from_slice(&length.to_be_bytes());
        }
        connection.pending.push_back((id, Sent { record: draw.record, is_set, intended_ns, actual_ns: now_ns }));
        if run.counts(intended_ns) {
            run.out.sent += 1;
        }
    }

    fn flush(&mut self, index: usize) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        while connection.outbox_at < connection.outbox.len() {
            let rest = &connection.outbox[connection.outbox_at..];
            let (skip, bytes) = match (self.plan.proto, rest) {
                (Proto::Udp, [high, low, rest @ ..]) => (2, &rest[..usize::from(u16::from_be_bytes([*high, *low]))]),
                (_, rest) => (0, rest),
            };
            match self.net.write(&connection.socket, bytes) {
                Ok(written) => connection.outbox_at += skip + written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What an earlier datagram met.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    return Err(error).context("no program listens at the server's port");
                }
                Err(error) => return Err(error).context("sending requests"),
            }
        }
        connection.outbox.clear();
        connection.outbox_at = 0;
        Ok(())
    }

    fn receive(&mut self, run: &mut Run, wait: Duration) -> anyhow::Result<()> {
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        self.net.wait(wait, &mut ready)?;
        for token in &ready {
            self.receive_on(run, *token as usize)?;
        }
        self.ready = ready;
        Ok(())
    }

    fn receive_on(&mut self, run: &mut Run, index: usize) -> anyhow::Result<()> {
        for _ in 0..SEND_BURST {
            let connection = &mut self.connections[index];
            let bytes = match self.net.read(&connection.socket, &mut self.scratch) {
                Ok(0) if self.plan.proto == Proto::Tcp => bail!("the server closed the connection"),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    return Err(error).context("no program listens at the server's port");
                }
                Err(error) => return Err(error).context("receiving replies"),
            };
            let now_ns = nanos(self.clock.elapsed());
            let input = &self.scratch[..bytes];
            match self.plan.proto {
                Proto::Udp => run.on_datagram(connection, &self.plan, input, now_ns),
                Proto::Tcp if connection.inbox.is_empty() => {
                    let used = run.on_stream(connection, &self.plan, input, now_ns)?;
                    connection.inbox.extend_from_slice(&input[used..]);
                }
                Proto::Tcp => {
                    connection.inbox.extend_from_slice(input);
                    let inbox = std::mem::take(&mut connection.inbox);
                    let used = run.on_stream(connection, &self.plan, &inbox, now_ns)?;
                    connection.inbox = inbox;
                    connection.inbox.drain(..used);
                }
            }
            if self.plan.proto == Proto::Tcp && bytes < self.scratch.len() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Datagrams get lost; streams do not.
    fn give_up(&mut self, run: &mut Run, on_lost: &mut dyn FnMut(u32)) {
        if self.plan.proto == Proto::Tcp {
            return;
        }
        let now_ns = self.now_ns();
        for connection in &mut self.connections {
            while let Some((_, sent)) =
                connection.pending.pop_front_if(|(_, sent)| now_ns - sent.actual_ns > GIVE_UP_NS)
            {
                on_lost(sent.record);
                run.out.lost += 1;
            }
        }
    }

    fn out(&self) -> usize {
        self.connections.iter().map(|connection| connection.pending.len()).sum()
    }

    fn now_ns(&self) -> u64 {
        nanos(self.clock.elapsed())
    }
}

/// The arrival process with its next point in time.
struct Arrivals {
    process: Poisson,
    start_ns: u64,
    next_ns: u64,
}

impl Arrivals {
    fn new(rate_rps: u64, seed: u64, name: &str, start_ns: u64) -> Self {
        let mut process = Poisson::new(rate_rps, seed, name);
        let next_ns = start_ns + process.next_ns();
        Self { process, start_ns, next_ns }
    }

    fn take(&mut self) -> u64 {
        let this_ns = self.next_ns;
        self.next_ns = self.start_ns + self.process.next_ns();
        this_ns
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("no run lasts 584 years")
}
