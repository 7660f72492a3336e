//! A worker: takes connections and datagrams, and lets sessions answer them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::net::{Net, TOKEN_STOP, Watch};
use crate::kv::DATAGRAM_BYTES_MAX;
use crate::kv::session::{Family, Next, Server, Session, Turn, WorkerStats, answer_sockperf_datagram, udp};

const TOKEN_MEMCACHED: u64 = u64::MAX - 1;
const TOKEN_REDIS: u64 = u64::MAX - 2;
const TOKEN_UDP: u64 = u64::MAX - 3;
const TOKEN_SOCKPERF: u64 = u64::MAX - 4;
const TOKEN_SOCKPERF_UDP: u64 = u64::MAX - 5;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// Reads of one connection before another one has its turn. Source: the idea of memcached's `-R`.
const READS_PER_EVENT: usize = 4;

/// Datagrams taken before the next event is looked at.
const DATAGRAMS_PER_EVENT: usize = 32;

/// Connections taken before the next event is looked at.
const ACCEPTS_PER_EVENT: usize = 16;

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
    connections: Vec<(u32, Option<Connection<N::Stream>>)>,
    free: Vec<u32>,
    scratch: Box<[u8]>,
    answers: Vec<u8>,
    datagram: Box<[u8; DATAGRAM_BYTES_MAX]>,
}

struct Connection<S> {
    stream: S,
    session: Session,
    /// What has come and was not used up.
    inbox: Vec<u8>,
    /// Answers that had no room, from `outbox_at`.
    outbox: Vec<u8>,
    outbox_at: usize,
    next: Next,
    watch: Watch,
}

/// What becomes of a connection.
#[derive(PartialEq, Eq)]
enum Fate {
    Stays,
    Ends,
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
            scratch: vec![0; READ_BYTES].into(),
            answers: Vec::new(),
            datagram: Box::new([0; DATAGRAM_BYTES_MAX]),
        })
    }

    /// Serves until it is told to stop. Each wait lasts at most `wait_max`.
    ///
    /// # Errors
    /// The place to wait is broken.
    pub fn run(&mut self, wait_max: Option<Duration>) -> io::Result<()> {
        let mut ready = Vec::with_capacity(super::net::EVENTS_MAX);
        loop {
            ready.clear();
            self.net.wait(wait_max, &mut ready)?;
            if !ready.is_empty() {
                self.stats.add(|c| &c.waits_with_events, 1);
                self.stats.add(|c| &c.events, ready.len() as u64);
            }
            let turn = Turn { server: self.server, stats: self.stats, now_ms: super::now_ms() };
            turn.server.store.tick(turn.now_ms);
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
            // Without a descriptor for it the connection waits until one is free; the wait reports it again.
            let Ok(Some(stream)) = self.net.accept(listener, token(index, tenant)) else { return };
            let connection = Connection {
                stream,
                session: Session::new(family),
                inbox: Vec::new(),
                outbox: Vec::new(),
                outbox_at: 0,
                next: Next::Read { bytes_least: 1 },
                watch: Watch::Read,
            };
            if self.free.pop().is_some() {
                self.connections[index as usize].1 = Some(connection);
            } else {
                self.connections.push((0, Some(connection)));
            }
            self.stats.add(|c| &c.connections, 1);
        }
    }

    fn datagrams(&mut self, turn: &Turn<'_>) {
        let Some(socket) = &self.udp else { return };
        for _ in 0..DATAGRAMS_PER_EVENT {
            let Ok((bytes, from)) = self.net.receive(socket, &mut self.scratch) else { return };
            answer_datagram(
                &self.net,
                socket,
                turn,
                &self.scratch[..bytes],
                from,
                &mut self.answers,
                &mut self.datagram,
            );
        }
    }

    fn sockperf_datagrams(&mut self, turn: &Turn<'_>) {
        let Some((_, socket)) = &self.sockperf else { return };
        for _ in 0..DATAGRAMS_PER_EVENT {
            let Ok((bytes, from)) = self.net.receive(socket, &mut self.scratch) else { return };
            turn.stats.add(|c| &c.bytes_read, bytes as u64);
            answer_sockperf_datagram(turn, &self.scratch[..bytes], &mut self.answers);
            // A full queue loses the answer, as anywhere on the way.
            if !self.answers.is_empty() && self.net.send(socket, &self.answers, from).is_ok() {
                turn.stats.add(|c| &c.bytes_written, self.answers.len() as u64);
            }
        }
    }

    fn connection(&mut self, turn: &Turn<'_>, token: u64) {
        let (index, tenant) = (token as u32, (token >> 32) as u32);
        let Some((now, place)) = self.connections.get_mut(index as usize) else { return };
        // An event of a connection that was closed earlier in this turn.
        let Some(connection) = place.as_mut().filter(|_| *now == tenant) else { return };
        let fate = connection.serve(&self.net, turn, &mut self.scratch, &mut self.answers);
        let fate = fate.and_then(|fate| connection.rewatch(&self.net, token).map(|()| fate));
        if !matches!(fate, Ok(Fate::Stays)) {
            *place = None;
            *now = now.wrapping_add(1) & 0x7fff_ffff;
            self.free.push(index);
            self.stats.add(|c| &c.connections_closed, 1);
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
    datagram: &mut [u8; DATAGRAM_BYTES_MAX],
) {
    turn.stats.add(|c| &c.bytes_read, request.len() as u64);
    udp::serve(turn, request, answers, datagram, |bytes| {
        turn.stats.add(|c| &c.bytes_written, bytes.len() as u64);
        // A full queue loses the answer, as anywhere on the way.
        let _ = net.send(socket, bytes, from);
    });
}

impl<S> Connection<S> {
    fn serve<N: Net<Stream = S>>(
        &mut self,
        net: &N,
        turn: &Turn<'_>,
        scratch: &mut [u8],
        answers: &mut Vec<u8>,
    ) -> io::Result<Fate> {
        let mut reads = 0;
        loop {
            if !self.flush(net, turn)? {
                return Ok(Fate::Stays);
            }
            let bytes_least = match self.next {
                Next::Close => return Ok(Fate::Ends),
                Next::Write => {
                    let inbox = std::mem::take(&mut self.inbox);
                    let used = self.advance(net, turn, &inbox, answers)?;
                    if used < inbox.len() {
                        self.inbox = inbox;
                        self.inbox.drain(..used);
                    }
                    continue;
                }
                Next::Read { .. } if reads == READS_PER_EVENT => return Ok(Fate::Stays),
                Next::Read { bytes_least } => bytes_least,
            };
            reads += 1;
            let read = if self.inbox.is_empty() {
                self.read_to_scratch(net, turn, scratch, answers)
            } else {
                self.read_to_inbox(net, turn, bytes_least, answers)
            };
            match read {
                Ok(0) => return Ok(Fate::Ends),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Fate::Stays),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Most requests come whole and alone: they are served from the worker's buffer, and idle connections have none.
    fn read_to_scratch<N: Net<Stream = S>>(
        &mut self,
        net: &N,
        turn: &Turn<'_>,
        scratch: &mut [u8],
        answers: &mut Vec<u8>,
    ) -> io::Result<usize> {
        let bytes = net.read(&self.stream, scratch)?;
        turn.stats.add(|c| &c.bytes_read, bytes as u64);
        if bytes > 0 {
            let used = self.advance(net, turn, &scratch[..bytes], answers)?;
            self.inbox.extend_from_slice(&scratch[used..bytes]);
        }
        Ok(bytes)
    }

    fn read_to_inbox<N: Net<Stream = S>>(
        &mut self,
        net: &N,
        turn: &Turn<'_>,
        bytes_least: usize,
        answers: &mut Vec<u8>,
    ) -> io::Result<usize> {
        let had = self.inbox.len();
        // Once for the whole of a long value, and not again for each part that comes.
        self.inbox.reserve(bytes_least.saturating_sub(had));
        self.inbox.resize(had + READ_BYTES, 0);
        let read = net.read(&self.stream, &mut self.inbox[had..]);
        self.inbox.truncate(had + *read.as_ref().unwrap_or(&0));
        let bytes = read?;
        turn.stats.add(|c| &c.bytes_read, bytes as u64);
        if bytes > 0 && self.inbox.len() >= bytes_least {
            let inbox = std::mem::take(&mut self.inbox);
            let used = self.advance(net, turn, &inbox, answers)?;
            if used < inbox.len() {
                self.inbox = inbox;
                self.inbox.drain(..used);
            }
        }
        Ok(bytes)
    }

    /// Lets the session answer and sends what it says; returns the bytes used up.
    fn advance<N: Net<Stream = S>>(
        &mut self,
        net: &N,
        turn: &Turn<'_>,
        input: &[u8],
        answers: &mut Vec<u8>,
    ) -> io::Result<usize> {
        answers.clear();
        let progress = self.session.advance(turn, input, answers);
        self.next = progress.next;
        let sent = send(net, &self.stream, turn, answers)?;
        if sent < answers.len() {
            self.outbox.clear();
            self.outbox_at = 0;
            self.outbox.extend_from_slice(&answers[sent..]);
        }
        Ok(progress.used)
    }

    /// Sends answers that had no room; true if none are left.
    fn flush<N: Net<Stream = S>>(&mut self, net: &N, turn: &Turn<'_>) -> io::Result<bool> {
        if self.outbox.is_empty() {
            return Ok(true);
        }
        self.outbox_at += send(net, &self.stream, turn, &self.outbox[self.outbox_at..])?;
        if self.outbox_at < self.outbox.len() {
            return Ok(false);
        }
        self.outbox = Vec::new();
        self.outbox_at = 0;
        Ok(true)
    }

    fn rewatch<N: Net<Stream = S>>(&mut self, net: &N, token: u64) -> io::Result<()> {
        let watch = if self.outbox.is_empty() { Watch::Read } else { Watch::Write };
        if watch != self.watch {
            net.watch(&self.stream, token, watch)?;
            self.watch = watch;
        }
        Ok(())
    }
}

/// Sends what there is room for.
fn send<N: Net>(net: &N, stream: &N::Stream, turn: &Turn<'_>, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match net.write(stream, &bytes[sent..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => sent += bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    turn.stats.add(|c| &c.bytes_written, sent as u64);
    Ok(sent)
}

/// A worker that blocks in a receive which busy polls (`SO_BUSY_POLL`), until `stopped` says so.
///
/// # Errors
/// The address is taken or not there, or the busy-poll time is refused.
pub fn run_blocking<N: Net>(
    net: &N,
    server: &Server,
    index: usize,
    at: SocketAddr,
    (busy_poll_usecs, prefer): (u32, bool),
    ready: impl FnOnce(),
    stopped: impl Fn() -> bool,
) -> io::Result<()> {
    let socket = net.bind_blocking(at, busy_poll_usecs, prefer)?;
    let (mut request, mut answers) = (vec![0; READ_BYTES], Vec::new());
    let mut datagram = Box::new([0; DATAGRAM_BYTES_MAX]);
    ready();
    while !stopped() {
        let received = net.receive(&socket, &mut request);
        let turn = Turn { server, stats: server.worker(index), now_ms: super::now_ms() };
        turn.server.store.tick(turn.now_ms);
        let Ok((bytes, from)) = received else { continue };
        answer_datagram(net, &socket, &turn, &request[..bytes], from, &mut answers, &mut datagram);
    }
    Ok(())
}
