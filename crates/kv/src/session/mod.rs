//! What a server makes of a stream of bytes: memcached's ASCII, meta and binary protocols, Redis' RESP2, and
//! sockperf's ping-pong.
//!
//! A [`Session`] is one connection without the connection: it is handed the bytes that have come and not been used,
//! says how many of them it used up and what has to happen next, and appends its answers to a buffer. So a request may
//! be split over any number of reads, many may come in one, and tests need no socket. It keeps no bytes itself; its
//! caller must be able to keep [`INPUT_BYTES_MAX`], and no more is ever asked for.
//!
//! Source of formats, limits and words: memcached `doc/protocol.txt` and `protocol_binary.h`, and what its version
//! 1.6.18 answers; <https://redis.io/docs/latest/develop/reference/protocol-spec/>.

mod ascii;
mod binary;
mod line;
mod meta;
mod resp;
mod server;
mod sockperf;
mod stats;
mod storage;
mod text;
pub mod udp;

pub use server::{Counters, Seat, SeatError, Server, Totals, WorkerStats};
pub use sockperf::answer_datagram as answer_sockperf_datagram;

use super::store::VALUE_BYTES_MAX;

/// Longest line of RESP, in bytes. Source: redis `PROTO_INLINE_MAX_SIZE`.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Most input that is ever asked for: the longest value and what goes with it.
pub const INPUT_BYTES_MAX: usize = VALUE_BYTES_MAX + 2 * LINE_BYTES_MAX;

/// Answers beyond which no further request is taken, so that a client that does not read takes no memory: it is at most
/// this and one answer.
pub const OUTPUT_BYTES_HIGH: usize = 256 << 10;

/// Which family of protocols a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// ASCII, meta or binary, told apart by the first byte as memcached does.
    Memcached,
    /// RESP2, or words on a line.
    Redis,
    /// sockperf's messages, which are sent back.
    Sockperf,
}

/// What has to happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More input; nothing can be done before `bytes_least` bytes in all have come (what was used up not counted).
    Read {
        /// At most [`INPUT_BYTES_MAX`].
        bytes_least: usize,
    },
    /// The answers are to be sent, and then the session called again with what is left.
    Write,
    /// The answers are to be sent, and the connection closed.
    Close,
}

/// What a session did with its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes at the start of the input that are not needed any more.
    pub used: usize,
    /// What has to happen next.
    pub next: Next,
}

/// What the requests of one turn have in common.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    /// What all workers share.
    pub server: &'a Server,
    /// Counters of this worker.
    pub stats: &'a WorkerStats,
    /// The time, in ms since 1970.
    pub now_ms: u64,
}

/// A request's surroundings, for the protocols.
struct SessionCall<'a, 'b> {
    turn: Turn<'a>,
    out: &'b mut Vec<u8>,
    /// There is no memory to wait for the rest of the request: it is to be refused, and [`SessionStep::More`] is no answer.
    is_starved: bool,
}

impl SessionCall<'_, '_> {
    fn count_starved(&self) {
        self.turn.stats.add(|c| &c.requests, 1);
        self.turn.stats.add(|c| &c.refused, 1);
        self.turn.stats.add(|c| &c.requests_out_of_memory, 1);
    }
}

/// What a protocol did with the request at the start of the input.
enum SessionStep {
    /// Used up so many bytes.
    Done(usize),
    /// Used up so many bytes, and the same number and these many behind them are to be thrown away.
    Skip(usize, usize),
    /// The line at the start of the input, or what has come of it, is to be thrown away up to its end.
    SkipLine,
    /// Cannot go on before so many bytes are there.
    More(usize),
    /// Has answered what there is to answer.
    Close,
}

/// One connection without the connection.
#[derive(Debug)]
pub struct Session {
    protocol: Protocol,
    /// Bytes of a value that is not wanted, still to come.
    skip: usize,
    /// The rest of a line is not wanted.
    skip_line: bool,
    /// Nothing can be done before so many bytes are there.
    wanted: usize,
}

#[derive(Debug)]
enum Protocol {
    /// Memcached's, but nothing has come.
    Undecided,
    Ascii(ascii::Ascii),
    Binary,
    Redis(resp::Resp),
    Sockperf,
}

impl Session {
    /// A session of which nothing has come.
    pub fn new(family: Family) -> Self {
        let protocol = match family {
            Family::Memcached => Protocol::Undecided,
            Family::Redis => Protocol::Redis(resp::Resp::default()),
            Family::Sockperf => Protocol::Sockperf,
        };
        Self { protocol, skip: 0, skip_line: false, wanted: 1 }
    }

    /// Serves what can be served of `input`, the bytes that have come and were not used up before.
    ///
    /// No input makes it panic, and each call ends: a round uses up a byte at least, or makes the next one do so or
    /// return.
    pub fn advance(&mut self, turn: &Turn<'_>, input: &[u8], out: &mut Vec<u8>) -> Progress {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            if self.skip > 0 {
                let skipped = self.skip.min(rest.len());
                self.skip -= skipped;
                used += skipped;
                if self.skip > 0 {
                    return Progress { used, next: Next::Read { bytes_least: 1 } };
                }
                self.wanted = 1;
                continue;
            }
            if self.skip_line {
                let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
                    return Progress { used: input.len(), next: Next::Read { bytes_least: 1 } };
                };
                used += end + 1;
                self.skip_line = false;
                continue;
            }
            if rest.len() < self.wanted {
                return Progress { used, next: Next::Read { bytes_least: self.wanted } };
            }
            if out.len() >= OUTPUT_BYTES_HIGH {
                return Progress { used, next: Next::Write };
            }
            let asked = turn.stats.requests();
            let step = self.step(&mut SessionCall { turn: *turn, out, is_starved: false }, rest);
            turn.stats.work_since(asked);
            match self.take(step, rest.len()) {
                Some(bytes) => used += bytes,
                None => return Progress { used: input.len(), next: Next::Close },
            }
        }
    }

    /// Refuses the request at the start of `input`, the whole of which does not fit into the memory there is, in the
    /// protocol's words, and goes on with what is behind it as [`advance`](Self::advance) does. To be called after that
    /// has asked for more input. What is still to come of the request will be thrown away.
    pub fn refuse_for_memory(&mut self, turn: &Turn<'_>, input: &[u8], out: &mut Vec<u8>) -> Progress {
        let mut call = SessionCall { turn: *turn, out, is_starved: true };
        call.count_starved();
        let step = self.step(&mut call, input);
        assert!(!matches!(step, SessionStep::More(_)), "no more can be waited for");
        let Some(used) = self.take(step, input.len()) else {
            return Progress { used: input.len(), next: Next::Close };
        };
        let Progress { used: more, next } = self.advance(turn, &input[used..], out);
        Progress { used: used + more, next }
    }

    /// Keeps what follows from a step on an input of `there` bytes; returns the bytes used up, `None` to close.
    #[inline]
    fn take(&mut self, step: SessionStep, there: usize) -> Option<usize> {
        let is_used = |bytes| assert!((1..=there).contains(&bytes), "a request has bytes, and no more than there are");
        self.wanted = 1;
        match step {
            SessionStep::Done(bytes) => {
                is_used(bytes);
                Some(bytes)
            }
            SessionStep::Skip(bytes, skip) => {
                is_used(bytes);
                self.skip = skip;
                Some(bytes)
            }
            SessionStep::SkipLine => {
                self.skip_line = true;
                Some(0)
            }
            SessionStep::More(bytes) => {
                assert!(bytes > there && bytes <= INPUT_BYTES_MAX, "what is asked for is bounded and not there");
                self.wanted = bytes;
                Some(0)
            }
            SessionStep::Close => None,
        }
    }

    /// Whether a request was answered in part, and more of it is to come.
    fn is_amid_request(&self) -> bool {
        matches!(&self.protocol, Protocol::Ascii(ascii) if ascii.is_amid_get())
    }

    fn step(&mut self, call: &mut SessionCall<'_, '_>, input: &[u8]) -> SessionStep {
        match &mut self.protocol {
            Protocol::Undecided => {
                let is_binary = input[0] == binary::REQUEST_MAGIC;
                self.protocol = if is_binary { Protocol::Binary } else { Protocol::Ascii(ascii::Ascii::default()) };
                self.step(call, input)
            }
            Protocol::Ascii(ascii) => ascii.step(call, input),
            Protocol::Binary => binary::step(call, input),
            Protocol::Redis(resp) => resp.step(call, input),
            Protocol::Sockperf => sockperf::step(call, input),
        }
    }
}

#[cfg(test)]
mod tests;
