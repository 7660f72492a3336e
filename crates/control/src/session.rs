//! One client of a control socket: lines in, lines out, all of it bounded.
//!
//! ```text
//! reading --a line, and it may ask--> answering --all is written--> reading
//!    |                                    `--nothing moves for PATIENCE--> ended
//!    |--a line, but it asked too often--> waiting --time--> answering
//!    |--a line that changes something--> changing --it is done--> answering
//!    `--more than REQUEST_BYTES_MAX without an end--> told so, then ended
//! ```

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::refused::Refused;

/// Bytes of a request, its end included.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Requests per second of one client in the long run, and how many at once.
pub const REQUESTS_PER_S_MAX: u64 = 1000;
/// How many at once.
pub const BURST_MAX: u64 = 100;
/// How long a client may leave an answer unread, ns.
const PATIENCE_NS: u64 = 10_000_000_000;
/// So many bytes of an answer cost what a request costs.
const BYTES_PER_REQUEST: usize = 16 * 1024;
const NS_PER_REQUEST: u64 = 1_000_000_000 / REQUESTS_PER_S_MAX;
/// In the long run a client's answers take one part in so many of a CPU.
const CPU_PARTS: u32 = 10;

/// What a client is waited for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Waits {
    /// Its next bytes.
    Input,
    /// Room for what it is told, until then.
    Output {
        /// Time, ns.
        until_ns: u64,
    },
    /// Its answer, which another thread makes.
    Answer,
    /// Until it may ask again.
    Turn {
        /// Time, ns.
        at_ns: u64,
    },
}

/// An answer, and what it took of a CPU.
pub(crate) struct Said {
    pub(crate) line: String,
    pub(crate) spent: Duration,
}

/// What becomes of a request.
pub(crate) enum Answer {
    /// It is answered.
    Now(Said),
    /// It is carried out elsewhere; [`Session::answered`] is called then.
    Later,
}

pub(crate) struct Session {
    /// Tells it from all others of this socket.
    pub(crate) number: u64,
    pub(crate) stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// Requests that were allowed are paid for up to this time.
    paid_ns: u64,
    /// It has asked for something.
    pub(crate) has_asked: bool,
    /// When bytes moved last.
    pub(crate) moved_ns: u64,
    /// Its last request is carried out elsewhere.
    awaits_answer: bool,
    /// It is ended when the output is out.
    last: bool,
}

impl Session {
    pub(crate) fn new(number: u64, stream: UnixStream, now_ns: u64) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            number,
            stream,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            paid_ns: now_ns,
            has_asked: false,
            moved_ns: now_ns,
            awaits_answer: false,
            last: false,
        })
    }

    pub(crate) fn waits(&self) -> Waits {
        if self.awaits_answer {
            Waits::Answer
        } else if !self.output.is_empty() {
            Waits::Output { until_ns: self.moved_ns.saturating_add(PATIENCE_NS) }
        } else if self.line_end().is_some() {
            Waits::Turn { at_ns: self.may_ask_at_ns() }
        } else {
            Waits::Input
        }
    }

    /// Goes on as far as it can without waiting, by one request at most. False: it has ended.
    pub(crate) fn turn(&mut self, now_ns: u64, answer: &mut dyn FnMut(u64, &[u8]) -> Answer) -> bool {
        if self.awaits_answer {
            return true;
        }
        if self.output.is_empty() && self.line_end().is_none() && !self.read(now_ns) {
            return false;
        }
        if self.output.is_empty()
            && let Some(end) = self.line_end()
            && now_ns >= self.may_ask_at_ns()
        {
            self.paid_ns = self.paid_ns.max(now_ns.saturating_sub(BURST_MAX * NS_PER_REQUEST)) + NS_PER_REQUEST;
            let line: Vec<u8> = self.input.drain(..=end).collect();
            self.has_asked = true;
            match answer(self.number, &line[..end]) {
                Answer::Now(said) => self.answered(said, now_ns),
                Answer::Later => {
                    self.awaits_answer = true;
                    return true;
                }
            }
        } else if self.output.is_empty() && self.input.len() >= REQUEST_BYTES_MAX && self.line_end().is_none() {
            let words = format!("EMSGSIZE: a request has at most {REQUEST_BYTES_MAX} bytes");
            self.say(Refused::plain(words).line(), now_ns);
            self.last = true;
        }
        self.write(now_ns)
    }

    /// Takes the answer to its last request.
    pub(crate) fn answered(&mut self, Said { line, spent }: Said, now_ns: u64) {
        let bytes_ns = (line.len() / BYTES_PER_REQUEST) as u64 * NS_PER_REQUEST;
        // A short answer may have been long to look for.
        let spent_ns = u64::try_from((spent * CPU_PARTS).as_nanos()).unwrap_or(u64::MAX);
        self.paid_ns = self.paid_ns.saturating_add(bytes_ns.max(spent_ns));
        self.awaits_answer = false;
        self.say(line, now_ns);
    }

    fn say(&mut self, line: String, now_ns: u64) {
        self.output = line.into_bytes();
        self.output.push(b'\n');
        self.written = 0;
        self.moved_ns = now_ns;
    }

    fn line_end(&self) -> Option<usize> {
        self.input.iter().position(|byte| *byte == b'\n')
    }

    /// A request is paid for by time; unused time is kept for a burst.
    fn may_ask_at_ns(&self) -> u64 {
        self.paid_ns
    }

    fn read(&mut self, now_ns: u64) -> bool {
        let mut room = [0; 4096];
        let wanted = room.len().min(REQUEST_BYTES_MAX - self.input.len());
        match self.stream.read(&mut room[..wanted]) {
            Ok(0) => false,
            Ok(length) => {
                self.input.extend(&room[..length]);
                self.moved_ns = now_ns;
                true
            }
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }

    fn write(&mut self, now_ns: u64) -> bool {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => return false,
                Ok(length) => {
                    self.written += length;
                    self.moved_ns = now_ns;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return now_ns < self.moved_ns.saturating_add(PATIENCE_NS);
                }
                Err(_) => return false,
            }
        }
        self.output = Vec::new();
        !self.last
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
