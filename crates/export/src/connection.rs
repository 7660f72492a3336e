//! One client: a request in, an answer out, then the end; each within a time.
//!
//! ```text
//! reading --a whole head, or one that cannot be--> writing --all is out--> leaving --the peer has closed--> ended
//!    `--REQUEST_NS--> writing (408)                   `--ANSWER_NS--> ended   `--LEAVE_NS--> ended
//! ```
//!
//! Leaving: what a client still sends is read, for closing on unread bytes would throw the answer away on its way.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use crate::request::{self, Asked, HEAD_BYTES_MAX, Wrong};

/// For a request to come whole, ns.
pub(crate) const REQUEST_NS: u64 = 2_000_000_000;
/// For an answer to be taken, ns.
const ANSWER_NS: u64 = 5_000_000_000;
/// For the client to close, ns.
const LEAVE_NS: u64 = 500_000_000;
/// Reads while leaving at each turn.
const LEAVE_READS_MAX: u32 = 16;

enum State {
    Reading { head: Vec<u8> },
    Writing { answer: Vec<u8>, written: usize },
    Leaving,
}

pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    state: State,
    /// When the state must have been left.
    pub(crate) until_ns: u64,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, now_ns: u64) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, state: State::Reading { head: Vec::new() }, until_ns: now_ns.saturating_add(REQUEST_NS) })
    }

    /// Whether it waits for room for its answer, not for bytes.
    pub(crate) const fn is_writing(&self) -> bool {
        matches!(self.state, State::Writing { .. })
    }

    /// Goes on as far as it can without waiting. False: it has ended.
    pub(crate) fn turn(&mut self, now_ns: u64, page: &mut dyn FnMut(request::Format) -> String) -> bool {
        let is_late = now_ns >= self.until_ns;
        if let State::Reading { head } = &mut self.state {
            let asked = match receive(&mut self.stream, head) {
                Ok(asked) => asked,
                Err(_) => return false,
            };
            let answer = match asked {
                Asked::More if is_late => request::refusal(Wrong::TooSlow),
                Asked::More => return true,
                Asked::Metrics { format, is_head } => request::figures(format, is_head, &page(format)),
                Asked::Root { is_head } => request::root(is_head),
                Asked::Wrong(wrong) => request::refusal(wrong),
            };
            self.state = State::Writing { answer, written: 0 };
            self.until_ns = now_ns.saturating_add(ANSWER_NS);
        } else if is_late {
            return false;
        }
        if let State::Writing { answer, written } = &mut self.state {
            match send(&mut self.stream, answer, written) {
                Ok(true) if self.stream.shutdown(Shutdown::Write).is_ok() => {
                    self.state = State::Leaving;
                    self.until_ns = now_ns.saturating_add(LEAVE_NS);
                }
                Ok(false) => return true,
                Ok(true) | Err(_) => return false,
            }
        }
        is_still_sending(&mut self.stream)
    }
}

/// Reads until there is a whole head, or no more for now.
fn receive(stream: &mut TcpStream, head: &mut Vec<u8>) -> io::Result<Asked> {
    let mut bytes = [0; 1024];
    loop {
        let asked = request::read(head);
        if asked != Asked::More {
            return Ok(asked);
        }
        // Bounded: more than a head may have is an answer of its own.
        debug_assert!(head.len() < HEAD_BYTES_MAX);
        match stream.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => head.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Asked::More),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether all of it is out.
fn send(stream: &mut TcpStream, answer: &[u8], written: &mut usize) -> io::Result<bool> {
    while *written < answer.len() {
        match stream.write(&answer[*written..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => *written += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn is_still_sending(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 4096];
    for _ in 0..LEAVE_READS_MAX {
        match stream.read(&mut bytes) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}
