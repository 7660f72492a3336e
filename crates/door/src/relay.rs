//! Bytes between the pair and the connection, or another program on the engine, both ways, with what does not fit at the moment kept in two buffers of at most [`CHUNK_BYTES`].
//!
//! ```text
//! program ==pair==> to_net     ==> connection     its end: FIN, when all is sent
//!         <==pair== to_program <== connection     its end: the end of the file, when all is handed over
//! ```
//!
//! A side is read only when nothing of it is left over: so a peer that does not read stops the program, and a program that does not read stops
//! the peer. By the fast door the program's bytes come out of a ring as well (`relay/ring.rs`).

mod far;
mod ring;
#[cfg(test)]
mod walk_tests;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use napier_ring::SharedOutbox;
use napier_runtime::event::Interest;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};

use crate::limits::{BYTES_MAX, PIECE_BYTES};
pub(crate) use far::Far;
use ring::FromProgram;

/// Bytes that are moved at one time, and the most that is left over each way.
pub(crate) const CHUNK_BYTES: usize = 32 << 10;
/// Chunks each way before other connections have their turn.
const ROUNDS_MAX: usize = 8;

/// What is left of a chunk.
#[derive(Default)]
struct Rest {
    bytes: Vec<u8>,
    at: usize,
}

impl Rest {
    fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn left(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn keep(&mut self, bytes: &[u8], room: &mut Room) {
        assert!(self.is_empty() && bytes.len() <= CHUNK_BYTES, "one chunk at a time");
        room.used += bytes.len();
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.at = 0;
    }

    fn took(&mut self, count: usize, room: &mut Room) {
        self.at += count;
        if self.is_empty() {
            room.used -= self.bytes.len();
            // Most connections have nothing left over for most of their time.
            *self = Self::default();
        }
    }
}

/// What is left over of all connections of a program.
#[derive(Default)]
pub(crate) struct Room {
    used: usize,
    /// Bytes of connections with rings, by these and by pairs, since they were asked for last.
    from_programs: [u64; 2],
    /// A chunk was cut since that was asked for last.
    is_short: bool,
    /// Chunks that were asked for, since that was asked for last.
    chunks: u32,
}

impl Room {
    /// How many bytes may be taken from a side at once: all that is taken may be left over.
    fn chunk(&mut self) -> usize {
        self.chunks = self.chunks.saturating_add(1);
        let free = BYTES_MAX.saturating_sub(self.used);
        self.is_short |= free < CHUNK_BYTES;
        free.clamp(PIECE_BYTES, CHUNK_BYTES)
    }

    /// Bytes that came through rings, and by the pairs of connections that have one, since that was asked for last.
    pub(crate) fn take_counted(&mut self) -> [u64; 2] {
        std::mem::take(&mut self.from_programs)
    }

    /// How many chunks were moved, or looked for, since that was asked for last.
    pub(crate) fn take_chunks(&mut self) -> u32 {
        std::mem::take(&mut self.chunks)
    }

    /// Whether there was less room than for a whole chunk, told once.
    pub(crate) fn was_short(&mut self) -> bool {
        std::mem::take(&mut self.is_short)
    }
}

/// How it goes on.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    /// With the next event.
    Idle,
    /// At once, after others.
    More,
    /// Not: the program has closed its socket, or both halves have ended.
    Closed,
    /// Not: the connection has ended with this error.
    Failed(i32),
}

/// A connection and its buffers.
pub(crate) struct Relay {
    pub(crate) far: Far,
    to_net: Rest,
    to_program: Rest,
    /// What the last event of each side said, until a call says otherwise.
    net: ReadyFor,
    pair: ReadyFor,
    /// The program will write no more; the other halves of the pair have ended as well.
    program_ended: bool,
    hung_up: bool,
    /// The peer will send no more, and the program has been told.
    net_ended: bool,
    /// The program does not read any more: what comes is dropped.
    is_deaf: bool,
    /// The connection has taken bytes since [`stuck_for`](Self::stuck_for) looked last.
    has_moved: bool,
    /// Since when it takes none, if that was looked for.
    stuck_since: Option<Instant>,
    /// Where the program's library puts bytes past the pair, if it has asked for that.
    outbox: Option<SharedOutbox>,
    /// It has been told that the library left the ring.
    has_told: bool,
}

#[derive(Copy, Clone)]
struct ReadyFor {
    readable: bool,
    writable: bool,
}

impl Relay {
    /// Of a connection that does not block.
    pub(crate) fn new(far: Far) -> Self {
        let any = ReadyFor { readable: true, writable: true };
        Self {
            far,
            to_net: Rest::default(),
            to_program: Rest::default(),
            net: any,
            pair: any,
            program_ended: false,
            hung_up: false,
            net_ended: false,
            is_deaf: false,
            has_moved: false,
            stuck_since: None,
            outbox: None,
            has_told: false,
        }
    }

    /// An event of the connection.
    pub(crate) fn net_says(&mut self, events: Interest) {
        let ends = Interest::ERR.with(Interest::HUP).with(Interest::RDHUP);
        self.net.readable |= events.intersects(Interest::IN.with(ends));
        self.net.writable |= events.intersects(Interest::OUT.with(ends));
    }

    /// An event of the engine's end of the pair.
    pub(crate) fn pair_says(&mut self, events: EventFlags) {
        let ends = EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR;
        self.pair.readable |= events.intersects(EventFlags::IN | ends);
        self.pair.writable |= events.intersects(EventFlags::OUT | ends);
        self.hung_up |= events.contains(EventFlags::HUP);
    }

    /// Moves what can be moved.
    pub(crate) fn pump(&mut self, own: BorrowedFd<'_>, scratch: &mut [u8; CHUNK_BYTES], room: &mut Room) -> Flow {
        let mut more = false;
        for direction in [Self::outward, Self::inward] {
            match direction(self, own, scratch, room) {
                Flow::Idle => {}
                Flow::More => more = true,
                Flow::Closed => return Flow::Closed,
                end @ Flow::Failed(_) => {
                    self.hand_over_last(own, scratch);
                    return end;
                }
            }
        }
        if self.hung_up && self.program_ended && self.to_net.is_empty() {
            return Flow::Closed;
        }
        if more { Flow::More } else { Flow::Idle }
    }

    /// From the program to the peer.
    fn outward(&mut self, own: BorrowedFd<'_>, scratch: &mut [u8; CHUNK_BYTES], room: &mut Room) -> Flow {
        for _ in 0..ROUNDS_MAX {
            if !self.to_net.is_empty() {
                if !self.net.writable {
                    return Flow::Idle;
                }
                match self.far.send(self.to_net.left()) {
                    Ok(count) => {
                        self.has_moved = true;
                        self.to_net.took(count, room);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.net.writable = false;
                        return Flow::Idle;
                    }
                    Err(error) => return failed(&error),
                }
                continue;
            }
            let taken = match self.take_from_program(own, scratch, room) {
                FromProgram::Bytes(taken) => taken,
                FromProgram::Again => continue,
                FromProgram::Nothing => return Flow::Idle,
                FromProgram::Closed => return Flow::Closed,
            };
            let (end, bytes) = (taken.end, &scratch[taken.clone()]);
            match self.far.send(bytes) {
                Ok(count) if count == bytes.len() => {}
                Ok(count) => self.to_net.keep(&scratch[taken.start + count..end], room),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.net.writable = false;
                    self.to_net.keep(&scratch[taken], room);
                }
                Err(error) => return failed(&error),
            }
        }
        Flow::More
    }

    /// From the peer to the program.
    fn inward(&mut self, own: BorrowedFd<'_>, scratch: &mut [u8; CHUNK_BYTES], room: &mut Room) -> Flow {
        for _ in 0..ROUNDS_MAX {
            if !self.to_program.is_empty() {
                if !self.pair.writable {
                    return Flow::Idle;
                }
                let count = self.hand_over(own, None);
                self.to_program.took(count, room);
                if !self.to_program.is_empty() {
                    return Flow::Idle;
                }
                continue;
            }
            if self.net_ended || !self.net.readable {
                return Flow::Idle;
            }
            let received = match self.far.recv(&mut scratch[..room.chunk()]) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.net.readable = false;
                    return Flow::Idle;
                }
                Err(error) => return failed(&error),
            };
            if received == 0 {
                self.net_ended = true;
                let _ = shutdown(own, Shutdown::Write);
                return Flow::Idle;
            }
            let count = self.hand_over(own, Some(&scratch[..received]));
            if count < received {
                self.to_program.keep(&scratch[count..received], room);
                return Flow::Idle;
            }
        }
        Flow::More
    }

    /// Of a connection that has failed: what came before is still the program's, as far as it has room (`net/ipv4/tcp.c` `tcp_recvmsg_locked`).
    /// It hears of no end but the error.
    fn hand_over_last(&mut self, own: BorrowedFd<'_>, scratch: &mut [u8; CHUNK_BYTES]) {
        for _ in 0..ROUNDS_MAX {
            if self.net_ended || !self.to_program.is_empty() {
                return;
            }
            match self.far.recv(scratch) {
                Ok(count) if count > 0 && self.hand_over(own, Some(&scratch[..count])) == count => {}
                _ => return,
            }
        }
    }

    /// Writes bytes, or what is left over, to the program; how many it took.
    fn hand_over(&mut self, own: BorrowedFd<'_>, bytes: Option<&[u8]>) -> usize {
        let bytes = bytes.unwrap_or_else(|| self.to_program.left());
        if self.is_deaf {
            return bytes.len();
        }
        let (count, is_deaf) = match send(own, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => (count, false),
            Err(Errno::AGAIN | Errno::INTR) => (0, false),
            // It has closed its socket, which the other direction hears of, or that half of it.
            Err(_) => (bytes.len(), true),
        };
        self.pair.writable = count == bytes.len();
        self.is_deaf |= is_deaf;
        count
    }

    /// For how long the connection has taken none of the bytes that wait for it, as far as it was looked for.
    pub(crate) fn stuck_for(&mut self, now: Instant) -> Duration {
        if std::mem::take(&mut self.has_moved) {
            self.stuck_since = None;
        }
        now.saturating_duration_since(*self.stuck_since.get_or_insert(now))
    }

    /// Whether bytes of the program wait for room in the connection.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.to_net.is_empty()
    }

    /// Closing it resets it from now on.
    pub(crate) fn reset_on_close(&self) {
        self.far.reset_on_close();
    }

    /// The program has closed it: with bytes of the peer that it has not read it is reset, as TCP does it.
    pub(crate) fn close(self, room: &mut Room) {
        room.used -= self.to_net.bytes.len() + self.to_program.bytes.len();
        if !self.to_program.is_empty() || (self.is_deaf && !self.net_ended) {
            self.reset_on_close();
        }
    }
}

fn failed(error: &io::Error) -> Flow {
    match error.raw_os_error() {
        // The sending half had ended, by the program or by an error that was told before.
        Some(libc::EPIPE) => Flow::Failed(libc::ECONNRESET),
        number => Flow::Failed(number.unwrap_or(libc::ECONNRESET)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_over_is_counted_and_given_back() {
        let mut room = Room::default();
        let mut many: Vec<Rest> = Vec::new();
        let mut dice = napier_testkit::Dice(7);
        let all = |many: &[Rest]| many.iter().map(|rest| rest.bytes.len()).sum::<usize>();
        for turn in 0..9_000 {
            let chunk = room.chunk();
            assert!((PIECE_BYTES..=CHUNK_BYTES).contains(&chunk));
            if dice.roll(3) > 0 {
                let mut rest = Rest::default();
                rest.keep(&vec![0; chunk], &mut room);
                many.push(rest);
            } else if !many.is_empty() {
                let at = dice.roll(many.len() as u64) as usize;
                let part = dice.roll(many[at].left().len() as u64) as usize + 1;
                many[at].took(part, &mut room);
                if many[at].is_empty() {
                    many.swap_remove(at);
                }
            }
            assert!(turn % 64 != 0 || room.used == all(&many), "{} of {}", room.used, all(&many));
            assert!(room.used <= BYTES_MAX + many.len() * PIECE_BYTES, "{} of {}", room.used, many.len());
        }
        assert!(room.was_short() && !room.was_short(), "the limit was met, which is told once");
        for mut rest in many {
            rest.took(rest.left().len(), &mut room);
        }
        assert_eq!(room.used, 0);
    }
}
