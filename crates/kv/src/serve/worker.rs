//! A worker: takes connections and datagrams, and lets sessions answer them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use napier_runtime::control::plan::Plan;
use napier_runtime::give_back_free_memory;

use super::chores::Chores;
use super::connection::{Connection, Desk, Fate, READ_BYTES, first_bytes};
use super::net::{Net, REQUESTS_PER_EVENT, TOKEN_STOP};
use crate::session::{Family, SeatError, Server, Turn, WorkerStats, answer_sockperf_datagram, udp};

const TOKEN_MEMCACHED: u64 = u64::MAX - 1;
const TOKEN_REDIS: u64 = u64::MAX - 2;
const TOKEN_UDP: u64 = u64::MAX - 3;
const TOKEN_SOCKPERF: u64 = u64::MAX - 4;
const TOKEN_SOCKPERF_UDP: u64 = u64::MAX - 5;

/// Connections taken before the next event is looked at.
const ACCEPTS_PER_EVENT: usize = 16;

/// Why there is no place for a connection.
#[derive(Clone, Copy)]
enum Refusal {
    /// There are as many as there may be.
    Taken,
    /// The server, or the place to wait, has no memory for it.
    NoMemory,
}

impl From<SeatError> for Refusal {
    fn from(error: SeatError) -> Self {
        match error {
            SeatError::Taken => Self::Taken,
            SeatError::NoMemory(_) => Self::NoMemory,
        }
    }
}

/// Where a worker can be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// memcached's protocols over TCP.
    pub memcached: Option<SocketAddr>,
    /// memcached's protocols over UDP.
    pub udp: Option<SocketAddr>,
    /// RESP2 over TCP.
    pub redis: Option<SocketAddr>,
    /// sockperf's messages over TCP and UDP.
    pub sockperf: Option<SocketAddr>,
}

impl Addresses {
    /// Each once.
    pub fn each(&self) -> impl Iterator<Item = SocketAddr> {
        let Self { memcached, udp, redis, sockperf } = *self;
        [memcached, udp.filter(|_| udp != memcached), redis, sockperf].into_iter().flatten()
    }
}

/// One worker of a server on a network of its own.
pub struct Worker<'a, N: Net> {
    net: N,
    server: &'a Server,
    stats: &'a WorkerStats,
    memcached: Option<N::Listener>,
    redis: Option<N::Listener>,
    udp: Option<N::Datagrams>,
    sockperf: Option<(N::Listener, N::Datagrams)>,
    /// By the low half of the token; the high half tells its tenants apart.
    connections: Vec<(u32, Option<Connection<'a, N::Stream>>)>,
    free: Vec<u32>,
    desk: Desk,
    chores: Chores,
}

impl<'a, N: Net> Worker<'a, N> {
    /// A worker that can be reached.
    ///
    /// # Errors
    /// An address is taken or not there; the message names it.
    pub fn new(net: N, server: &'a Server, index: usize, at: Addresses) -> io::Result<Self> {
        let named = |at: SocketAddr| {
            move |error: io::Error| io::Error::new(error.kind(), format!("cannot be reached at {at}: {error}"))
        };
        let listen = |at: Option<SocketAddr>, token| at.map(|at| net.listen(at, token).map_err(named(at))).transpose();
        let (memcached, redis) = (listen(at.memcached, TOKEN_MEMCACHED)?, listen(at.redis, TOKEN_REDIS)?);
        let bind = |at: Option<SocketAddr>, token| at.map(|at| net.bind(at, token).map_err(named(at))).transpose();
        let udp = bind(at.udp, TOKEN_UDP)?;
        let sockperf = listen(at.sockperf, TOKEN_SOCKPERF)?.zip(bind(at.sockperf, TOKEN_SOCKPERF_UDP)?);
        Ok(Self {
            net,
            server,
            stats: server.worker(index),
            memcached,
            redis,
            udp,
            sockperf,
            connections: Vec::new(),
            free: Vec::new(),
            desk: Desk { scratch: vec![0; READ_BYTES].into(), answers: Vec::new(), long_bytes: 0 },
            chores: Chores::default(),
        })
    }

    /// Connections of which nothing was asked for so long are closed.
    #[must_use]
    pub fn with_idle_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.chores = Chores::new(timeout);
        self
    }

    /// Serves until it is told to stop. Each wait lasts at most `wait_max`.
    ///
    /// # Errors
    /// The place to wait is broken.
    pub fn run(&mut self, wait_max: Option<Duration>) -> io::Result<()> {
        let mut ready = Vec::with_capacity(super::net::EVENTS_MAX);
        loop {
            ready.clear();
            self.net.wait(self.chores.wait(wait_max), &mut ready)?;
            if !ready.is_empty() {
                self.stats.add(|c| &c.waits_with_events, 1);
                self.stats.add(|c| &c.events, ready.len() as u64);
            }
            let turn = Turn { server: self.server, stats: self.stats, now_ms: super::now_ms() };
            turn.server.store.tick(turn.now_ms);
            self.chores.begin_turn();
            self.desk.long_bytes = 0;
            for token in ready.drain(..) {
                match token {
                    TOKEN_STOP => return Ok(()),
                    TOKEN_MEMCACHED => self.accept(Family::Memcached),
                    TOKEN_REDIS => self.accept(Family::Redis),
                    TOKEN_UDP => self.datagrams(&turn),
                    TOKEN_SOCKPERF => self.accept(Family::Sockperf),
                    TOKEN_SOCKPERF_UDP => self.sockperf_datagrams(&turn),
                    token => self.connection(&turn, token),
                }
            }
            if self.chores.are_due(self.server) {
                self.do_chores();
            }
        }
    }

    fn accept(&mut self, family: Family) {
        for _ in 0..ACCEPTS_PER_EVENT {
            let listener = match family {
                Family::Memcached => self.memcached.as_ref(),
                Family::Redis => self.redis.as_ref(),
                Family::Sockperf => self.sockperf.as_ref().map(|(listener, _)| listener),
            };
            let index = self.free.last().copied().unwrap_or(self.connections.len() as u32);
            let tenant = self.connections.get(index as usize).map_or(0, |(tenant, _)| *tenant);
            let Some(listener) = listener else { return };
            let stream = match self.net.accept(listener) {
                Ok(Some(stream)) => stream,
                Ok(None) => return,
                // Without a descriptor the connection waits, and a wait would report it again at once.
                Err(_) => return self.pause_accepting(),
            };
            let seat = match self.server.seat(first_bytes(self.net.stream_bytes())) {
                Ok(seat) => seat,
                Err(error) => {
                    self.turn_away(stream, family, error.into());
                    continue;
                }
            };
            if self.net.join(&stream, token(index, tenant)).is_err() {
                self.turn_away(stream, family, Refusal::NoMemory);
                continue;
            }
            let connection = Connection::new(stream, family, seat, self.chores.now_ms());
            if self.free.pop().is_some() {
                self.connections[index as usize].1 = Some(connection);
            } else {
                self.connections.push((0, Some(connection)));
            }
            self.stats.add(|c| &c.connections, 1);
        }
    }

    /// Says why there is no place for a connection, and closes it.
    fn turn_away(&self, stream: N::Stream, family: Family, why: Refusal) {
        self.stats.add(
            match why {
                Refusal::Taken => |c| &c.connections_refused,
                Refusal::NoMemory => |c| &c.connections_refused_memory,
            },
            1,
        );
        let words: &[u8] = match (family, why) {
            (Family::Memcached, Refusal::Taken) => b"ERROR Too many open connections\r\n",
            (Family::Memcached, Refusal::NoMemory) => b"SERVER_ERROR out of memory for another connection\r\n",
            (Family::Redis, Refusal::Taken) => b"-ERR max number of clients reached\r\n",
            (Family::Redis, Refusal::NoMemory) => b"-OOM no memory for another client\r\n",
            (Family::Sockperf, _) => b"",
        };
        self.net.turn_away(stream, words);
    }

    fn pause_accepting(&mut self) {
        // One that is watched still is looked at again, in vain. Whatever became of them, all are watched again later.
        let _ = self.watch_listeners(false);
        self.stats.add(|c| &c.accepts_paused, 1);
        self.chores.accept_later();
    }

    /// Does so with each, whatever becomes of the others.
    fn watch_listeners(&self, is_watched: bool) -> io::Result<()> {
        let sockperf = self.sockperf.as_ref().map(|(listener, _)| listener);
        let listeners = [
            (self.memcached.as_ref(), TOKEN_MEMCACHED),
            (self.redis.as_ref(), TOKEN_REDIS),
            (sockperf, TOKEN_SOCKPERF),
        ];
        let mut all = Ok(());
        for (listener, token) in listeners {
            if let Some(listener) = listener {
                all = all.and(self.net.watch_listener(listener, token, is_watched));
            }
        }
        all
    }

    #[cold]
    fn do_chores(&mut self) {
        if self.chores.takes_up_accepting() && self.watch_listeners(true).is_err() {
            self.chores.accept_later();
        }
        if let Some(oldest_ms) = self.chores.sweeps_idle() {
            for index in 0..self.connections.len() {
                let alive_ms = self.connections[index].1.as_ref().map(|connection| connection.alive_ms);
                if alive_ms.is_some_and(|alive_ms| alive_ms < oldest_ms) {
                    self.stats.add(|c| &c.connections_idle, 1);
                    self.close(index as u32);
                }
            }
        }
        if self.chores.gives_back_memory(self.server) {
            give_back_free_memory();
        }
    }

    fn close(&mut self, index: u32) {
        let (tenant, place) = &mut self.connections[index as usize];
        *place = None;
        *tenant = tenant.wrapping_add(1) & 0x7fff_ffff;
        self.free.push(index);
        self.stats.add(|c| &c.connections_closed, 1);
    }

    fn datagrams(&mut self, turn: &Turn<'_>) {
        let Some(socket) = &self.udp else { return };
        for _ in 0..REQUESTS_PER_EVENT {
            let Ok((bytes, from)) = self.net.receive(socket, &mut self.desk.scratch) else { return };
            let Desk { scratch, answers, .. } = &mut self.desk;
            answer_datagram(&self.net, socket, turn, &scratch[..bytes], from, answers);
        }
    }

    fn sockperf_datagrams(&mut self, turn: &Turn<'_>) {
        let Some((_, socket)) = &self.sockperf else { return };
        for _ in 0..REQUESTS_PER_EVENT {
            let Ok((bytes, from)) = self.net.receive(socket, &mut self.desk.scratch) else { return };
            turn.stats.add(|c| &c.bytes_read, bytes as u64);
            answer_sockperf_datagram(turn, &self.desk.scratch[..bytes], &mut self.desk.answers);
            // A full queue loses the answer, as anywhere on the way.
            if !self.desk.answers.is_empty() && self.net.send(socket, &self.desk.answers, from).is_ok() {
                turn.stats.add(|c| &c.bytes_written, self.desk.answers.len() as u64);
            }
        }
    }

    fn connection(&mut self, turn: &Turn<'_>, token: u64) {
        let (index, tenant) = (token as u32, (token >> 32) as u32);
        let Some((now, place)) = self.connections.get_mut(index as usize) else { return };
        // An event of a connection that was closed earlier in this turn.
        let Some(connection) = place.as_mut().filter(|_| *now == tenant) else { return };
        if connection.waits(&self.desk) {
            return;
        }
        let fate = connection.serve(&self.net, turn, &mut self.desk);
        let fate = fate.and_then(|fate| connection.rewatch(&self.net, token).map(|()| fate));
        if connection.was_alive() {
            connection.alive_ms = self.chores.now_ms();
        }
        if !matches!(fate, Ok(Fate::Stays)) {
            self.close(index);
        }
    }
}

/// Never one of the tokens of listeners: the tenant has 31 bits.
fn token(index: u32, tenant: u32) -> u64 {
    u64::from(tenant) << 32 | u64::from(index)
}

fn answer_datagram<N: Net>(
    net: &N,
    socket: &N::Datagrams,
    turn: &Turn<'_>,
    request: &[u8],
    from: SocketAddr,
    answers: &mut Vec<u8>,
) {
    turn.stats.add(|c| &c.bytes_read, request.len() as u64);
    udp::serve(turn, request, answers, |bytes| {
        turn.stats.add(|c| &c.bytes_written, bytes.len() as u64);
        // A full queue loses the answer, as anywhere on the way.
        let _ = net.send(socket, bytes, from);
    });
}

/// A worker that blocks in a receive, which busy polls as `plan` has it (`SO_BUSY_POLL`), until `stopped` says so.
///
/// # Errors
/// The address is taken or not there, or an option is refused.
pub fn run_blocking<N: Net>(
    net: &N,
    server: &Server,
    index: usize,
    at: SocketAddr,
    plan: &Plan,
    ready: impl FnOnce(),
    stopped: impl Fn() -> bool,
) -> io::Result<()> {
    let socket = net.bind_blocking(at, plan)?;
    let (mut request, mut answers) = (vec![0; READ_BYTES], Vec::new());
    ready();
    while !stopped() {
        let received = net.receive(&socket, &mut request);
        let turn = Turn { server, stats: server.worker(index), now_ms: super::now_ms() };
        turn.server.store.tick(turn.now_ms);
        let Ok((bytes, from)) = received else { continue };
        answer_datagram(net, &socket, &turn, &request[..bytes], from, &mut answers);
    }
    Ok(())
}
