//! One connection: what has come of its next request, what it has not taken of its answers, and the memory of both.

use std::io;

use super::net::{Net, Watch};
use crate::session::{Family, Next, OUTPUT_BYTES_HIGH, Seat, Session, Turn};

/// Bytes that are read at once.
pub(super) const READ_BYTES: usize = 64 << 10;

/// Reads of one connection before another one has its turn. Source: the idea of memcached's `-R`.
const READS_PER_EVENT: usize = 4;

/// Answers that make a connection one of those that wait once a turn of the worker has made [`TURN_BYTES_HIGH`] of them.
const LONG_BYTES: usize = 64 << 10;

/// Long answers of a turn, in bytes, beyond which connections that had long ones before wait for the next turn.
const TURN_BYTES_HIGH: usize = 1 << 20;

/// What a connection takes of this process beside its buffers and its network's, in bytes, rounded up: its struct and a
/// place in a list that grows by doubling.
const CONNECTION_BYTES: usize = 1 << 10;

/// What an allocation takes beside its bytes, rounded up.
const ALLOCATION_BYTES: usize = 32;

/// An inbox that has more room than it needs by this much gives it back.
const SLACK_BYTES: usize = 4 << 10;

/// A read of so many bytes in all is a sign of life although no request has come whole.
const LIFE_BYTES: usize = 16 << 10;

/// What a connection takes from its start; `stream_bytes` is its network's.
pub(super) fn first_bytes(stream_bytes: usize) -> usize {
    CONNECTION_BYTES + stream_bytes
}

pub(super) struct Connection<'a, S> {
    stream: S,
    session: Session,
    /// What has come and was not used up.
    inbox: Vec<u8>,
    /// Answers that had no room, from `outbox_at`.
    outbox: Vec<u8>,
    outbox_at: usize,
    next: Next,
    watch: Watch,
    seat: Seat<'a>,
    first_bytes: usize,
    /// Bytes that have come since the last sign of life.
    unfinished_bytes: usize,
    is_alive: bool,
    /// Its last answers were long.
    is_heavy: bool,
    /// When it was last seen alive, in ms of the worker's clock; kept by the worker.
    pub(super) alive_ms: u64,
}

/// What becomes of a connection.
#[derive(PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    Ends,
}

/// Buffers that the connections of one worker use in turn.
pub(super) struct Desk {
    pub(super) scratch: Box<[u8]>,
    pub(super) answers: Vec<u8>,
    /// Long answers of this turn, in bytes.
    pub(super) long_bytes: usize,
}

impl<'a, S> Connection<'a, S> {
    pub(super) fn new(stream: S, family: Family, seat: Seat<'a>, alive_ms: u64) -> Self {
        Self {
            stream,
            session: Session::new(family),
            inbox: Vec::new(),
            outbox: Vec::new(),
            outbox_at: 0,
            next: Next::Read { bytes_least: 1 },
            watch: Watch::Read,
            first_bytes: seat.held.bytes(),
            seat,
            unfinished_bytes: 0,
            is_alive: true,
            is_heavy: false,
            alive_ms,
        }
    }

    /// Reads, answers and sends until there is nothing more to do, or it is another connection's turn. At most one load
    /// of long answers ([`OUTPUT_BYTES_HIGH`]) is made per call.
    pub(super) fn serve<N: Net<Stream = S>>(&mut self, net: &N, turn: &Turn<'_>, desk: &mut Desk) -> io::Result<Fate> {
        for round in 0..READS_PER_EVENT {
            if !self.flush(net, turn)? {
                return Ok(Fate::Stays);
            }
            match self.next {
                Next::Close => return Ok(Fate::Ends),
                Next::Write if round > 0 => return Ok(Fate::Stays),
                Next::Write => self.resume(net, turn, desk)?,
                Next::Read { .. } => match net.read(&self.stream, &mut desk.scratch) {
                    Ok(0) => return Ok(Fate::Ends),
                    Ok(bytes) => self.arrived(net, turn, desk, bytes)?,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Fate::Stays),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                },
            }
            self.is_heavy = desk.answers.len() >= LONG_BYTES;
            if self.is_heavy {
                desk.long_bytes += desk.answers.len();
                if desk.answers.len() >= OUTPUT_BYTES_HIGH {
                    break;
                }
            }
        }
        let is_done = self.outbox.is_empty() && self.next == Next::Close;
        Ok(if is_done { Fate::Ends } else { Fate::Stays })
    }

    /// Whether it should wait for the next turn, so that those who ask for little are not behind all who ask for much.
    /// The thread that waits for events is told of it again, behind others.
    #[inline]
    pub(super) fn waits(&self, desk: &Desk) -> bool {
        self.is_heavy && desk.long_bytes >= TURN_BYTES_HIGH
    }

    /// Whether a request came whole, an answer was taken, or a good part of a long request came, since it was last asked.
    pub(super) fn was_alive(&mut self) -> bool {
        std::mem::take(&mut self.is_alive)
    }

    /// Watches for what it waits for.
    pub(super) fn rewatch<N: Net<Stream = S>>(&mut self, net: &N, token: u64) -> io::Result<()> {
        // Requests that have come and wait for their turn are gone on with as soon as there is room for an answer.
        let waits_to_write = !self.outbox.is_empty() || self.next == Next::Write;
        let watch = if waits_to_write { Watch::Write } else { Watch::Read };
        if watch != self.watch {
            net.watch(&self.stream, token, watch)?;
            self.watch = watch;
        }
        Ok(())
    }

    /// Most requests come whole and alone: they are served from the worker's buffer, and idle connections have none.
    fn arrived<N: Net<Stream = S>>(
        &mut self,
        net: &N,
        turn: &Turn<'_>,
        desk: &mut Desk,
        bytes: usize,
    ) -> io::Result<()> {
        turn.stats.add(|c| &c.bytes_read, bytes as u64);
        let Desk { scratch, answers, .. } = desk;
        let fresh = &scratch[..bytes];
        answers.clear();
        self.unfinished_bytes += bytes;
        if self.unfinished_bytes >= LIFE_BYTES {
            self.live();
        }
        if self.inbox.is_empty() {
            self.take(turn, fresh, answers)?;
        } else {
            self.take_behind(turn, fresh, answers)?;
        }
        self.deliver(net, turn, answers)
    }

    /// Goes on with requests that waited until answers were sent.
    #[inline(never)]
    fn resume<N: Net<Stream = S>>(&mut self, net: &N, turn: &Turn<'_>, desk: &mut Desk) -> io::Result<()> {
        desk.answers.clear();
        self.advance_inbox(turn, &mut desk.answers);
        self.deliver(net, turn, &desk.answers)
    }

    fn live(&mut self) {
        (self.is_alive, self.unfinished_bytes) = (true, 0);
    }

    /// Takes what has come while nothing else is there.
    #[inline(always)]
    fn take(&mut self, turn: &Turn<'_>, fresh: &[u8], answers: &mut Vec<u8>) -> io::Result<()> {
        let progress = self.session.advance(turn, fresh, answers);
        self.next = progress.next;
        if progress.used > 0 {
            self.live();
        }
        if progress.used < fresh.len() { self.keep(turn, &fresh[progress.used..], answers) } else { Ok(()) }
    }

    /// Puts what is left into the inbox, which is empty. Without memory for it, it is refused.
    #[inline(never)]
    fn keep(&mut self, turn: &Turn<'_>, mut rest: &[u8], answers: &mut Vec<u8>) -> io::Result<()> {
        while !rest.is_empty() && self.next != Next::Close {
            if self.hold(rest.len(), self.outbox.capacity()) {
                // As much as is held, not as a vector begins with.
                self.inbox.reserve_exact(rest.len());
                self.inbox.extend_from_slice(rest);
                return Ok(());
            }
            match self.next {
                // What came is whole, but its answer has to wait and so it has to be kept.
                Next::Write => return Err(out_of_memory(turn)),
                _ => {
                    let progress = self.session.refuse_for_memory(turn, rest, answers);
                    self.next = progress.next;
                    rest = &rest[progress.used..];
                }
            }
        }
        Ok(())
    }

    /// Takes what has come behind the start of a request.
    #[inline(never)]
    fn take_behind(&mut self, turn: &Turn<'_>, fresh: &[u8], answers: &mut Vec<u8>) -> io::Result<()> {
        let Next::Read { bytes_least } = self.next else { unreachable!("only a read brings something") };
        if !self.make_room_for(fresh.len(), bytes_least) {
            let inbox = std::mem::take(&mut self.inbox);
            let progress = self.session.refuse_for_memory(turn, &inbox, answers);
            self.recharge();
            self.next = progress.next;
            return match self.next {
                Next::Close => Ok(()),
                _ if progress.used == inbox.len() => self.take(turn, fresh, answers),
                // The start of the next request is held, which has no memory either.
                _ => Err(out_of_memory(turn)),
            };
        }
        self.inbox.extend_from_slice(fresh);
        if self.inbox.len() >= bytes_least {
            self.advance_inbox(turn, answers);
        }
        Ok(())
    }

    /// Room in the inbox for so many bytes more: as many again as there are, but not more than the request is long.
    fn make_room_for(&mut self, more: usize, bytes_least: usize) -> bool {
        let needed = self.inbox.len() + more;
        if needed <= self.inbox.capacity() {
            return true;
        }
        let capacity = needed.max(bytes_least.min(2 * self.inbox.capacity()));
        if !self.hold(capacity, self.outbox.capacity()) {
            return false;
        }
        self.inbox.reserve_exact(capacity - self.inbox.len());
        true
    }

    fn advance_inbox(&mut self, turn: &Turn<'_>, answers: &mut Vec<u8>) {
        let progress = self.session.advance(turn, &self.inbox, answers);
        self.next = progress.next;
        if progress.used == 0 {
            return;
        }
        self.live();
        self.inbox.drain(..progress.used);
        if self.inbox.is_empty() {
            self.inbox = Vec::new();
        } else if self.inbox.capacity() > self.inbox.len() + SLACK_BYTES {
            self.inbox.shrink_to_fit();
        }
        self.recharge();
    }

    /// Sends answers, and keeps what has no room.
    #[inline(always)]
    fn deliver<N: Net<Stream = S>>(&mut self, net: &N, turn: &Turn<'_>, answers: &[u8]) -> io::Result<()> {
        let sent = send(net, &self.stream, turn, answers)?;
        if sent < answers.len() {
            if !self.hold(self.inbox.capacity(), answers.len() - sent) {
                return Err(out_of_memory(turn));
            }
            self.outbox_at = 0;
            self.outbox.reserve_exact(answers.len() - sent);
            self.outbox.extend_from_slice(&answers[sent..]);
        }
        Ok(())
    }

    /// Sends answers that had no room; true if none are left.
    fn flush<N: Net<Stream = S>>(&mut self, net: &N, turn: &Turn<'_>) -> io::Result<bool> {
        if self.outbox.is_empty() {
            return Ok(true);
        }
        let sent = send(net, &self.stream, turn, &self.outbox[self.outbox_at..])?;
        self.outbox_at += sent;
        if sent > 0 {
            self.live();
        }
        if self.outbox_at < self.outbox.len() {
            return Ok(false);
        }
        self.outbox = Vec::new();
        self.outbox_at = 0;
        self.recharge();
        Ok(true)
    }

    /// Holds the memory of buffers of these lengths; false if there is none.
    fn hold(&mut self, inbox_bytes: usize, outbox_bytes: usize) -> bool {
        self.seat.held.set(self.first_bytes + cost(inbox_bytes) + cost(outbox_bytes)).is_ok()
    }

    /// Holds the memory of the buffers as they are, which have become shorter.
    fn recharge(&mut self) {
        // An allocator may give a little more than was asked for. Where that cannot be held, what was held before stands.
        let _ = self.hold(self.inbox.capacity(), self.outbox.capacity());
    }
}

fn cost(capacity: usize) -> usize {
    if capacity == 0 { 0 } else { capacity + ALLOCATION_BYTES }
}

#[cold]
fn out_of_memory(turn: &Turn<'_>) -> io::Error {
    turn.stats.add(|c| &c.connections_out_of_memory, 1);
    io::ErrorKind::OutOfMemory.into()
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
