//! One client: a request in, an answer out, then the end, or if the client asks for that the next request; each within a time.
//!
//! ```text
//! reading --a whole head, or one that cannot be--> writing --all is out--> leaving --the peer has closed--> ended
//!    `--REQUEST_NS--> writing (408)                   `--ANSWER_NS--> ended   `--LEAVE_NS--> ended
//!
//! writing --all is out, and it is kept--> reading --a byte--> reading, within REQUEST_NS
//!                                            `--KEPT_NS--> ended
//! ```
//!
//! Leaving: what a client still sends is read, for closing on unread bytes would throw the answer away on its way.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use napier_sys::clock::Clock;

use crate::request::{self, Asked, HEAD_BYTES_MAX, Wrong};

/// For a request to come whole, ns.
pub(crate) const REQUEST_NS: u64 = 2_000_000_000;
/// For an answer to be taken, ns.
const ANSWER_NS: u64 = 5_000_000_000;
/// For the next request of one that is kept to begin, ns: scrapers ask every 15 s, or more often.
const KEPT_NS: u64 = 20_000_000_000;
/// For the client to close, ns.
const LEAVE_NS: u64 = 500_000_000;
/// Reads while leaving at each turn.
const LEAVE_READS_MAX: u32 = 16;

enum State {
    /// `is_kept`: it has had an answer, and nothing has come since.
    Reading {
        head: Vec<u8>,
        is_kept: bool,
    },
    Writing(Answer),
    Leaving,
}

/// What is sent: bytes of its own, then a page that others may be sent as well.
struct Answer {
    own: Vec<u8>,
    page: Option<Arc<str>>,
    written: usize,
    is_kept: bool,
}

impl From<Vec<u8>> for Answer {
    fn from(own: Vec<u8>) -> Self {
        Self { own, page: None, written: 0, is_kept: false }
    }
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
        let state = State::Reading { head: Vec::new(), is_kept: false };
        Ok(Self { stream, state, until_ns: now_ns.saturating_add(REQUEST_NS) })
    }

    /// Whether it waits for room for its answer, not for bytes.
    pub(crate) const fn is_writing(&self) -> bool {
        matches!(self.state, State::Writing(_))
    }

    /// The page that it takes so slowly.
    pub(crate) fn page(&self) -> Option<&Arc<str>> {
        match &self.state {
            State::Writing(answer) => answer.page.as_ref(),
            State::Reading { .. } | State::Leaving => None,
        }
    }

    /// Goes on as far as it can without waiting. False: it has ended.
    pub(crate) fn turn(&mut self, now_ns: u64, page: &mut dyn FnMut(request::Format) -> Arc<str>) -> bool {
        let is_late = now_ns >= self.until_ns;
        if let State::Reading { head, is_kept } = &mut self.state {
            let asked = match receive(&mut self.stream, head) {
                Ok(asked) => asked,
                Err(_) => return false,
            };
            let answer = match asked {
                Asked::More if *is_kept => {
                    if head.is_empty() {
                        return !is_late;
                    }
                    *is_kept = false;
                    self.until_ns = now_ns.saturating_add(REQUEST_NS);
                    return true;
                }
                Asked::More if is_late => request::refusal(Wrong::TooSlow).into(),
                Asked::More => return true,
                Asked::Metrics { format, is_head, is_kept } => {
                    let page = page(format);
                    let own = request::figures(format, page.len(), is_kept);
                    Answer { own, page: (!is_head).then_some(page), written: 0, is_kept }
                }
                Asked::Root { is_head } => request::root(is_head).into(),
                Asked::Wrong(wrong) => request::refusal(wrong).into(),
            };
            self.state = State::Writing(answer);
            // A page may have taken long.
            self.until_ns = Clock.now().ns.saturating_add(ANSWER_NS);
        } else if is_late {
            return false;
        }
        if let State::Writing(answer) = &mut self.state {
            match send(&mut self.stream, answer) {
                Ok(true) if answer.is_kept => {
                    self.state = State::Reading { head: Vec::new(), is_kept: true };
                    self.until_ns = Clock.now().ns.saturating_add(KEPT_NS);
                    return true;
                }
                Ok(true) if self.stream.shutdown(Shutdown::Write).is_ok() => {
                    self.state = State::Leaving;
                    self.until_ns = Clock.now().ns.saturating_add(LEAVE_NS);
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
    let mut seen = head.len();
    loop {
        let asked = request::read(head, seen);
        seen = head.len();
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
fn send(stream: &mut TcpStream, answer: &mut Answer) -> io::Result<bool> {
    let page = answer.page.as_deref().unwrap_or_default().as_bytes();
    let length = answer.own.len() + page.len();
    while answer.written < length {
        let own = &answer.own[answer.written.min(answer.own.len())..];
        let page = &page[answer.written.saturating_sub(answer.own.len())..];
        match stream.write_vectored(&[IoSlice::new(own), IoSlice::new(page)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => answer.written += count,
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_time_of_a_page_is_not_the_clients() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("taken");
        let (stream, _) = listener.accept().expect("it has connected");
        // As if the page had taken ten seconds: more than the buffers of both ends hold.
        let begun_ns = Clock.now().ns.saturating_sub(2 * ANSWER_NS);
        let mut one = Connection::new(stream, begun_ns).expect("a connection");
        let page: Arc<str> = "x".repeat(64 << 20).into();
        while !one.is_writing() {
            assert!(one.turn(begun_ns, &mut |_| page.clone()), "its answer is on its way");
        }
        assert!(one.page().is_some_and(|held| Arc::ptr_eq(held, &page)));
        let now_ns = Clock.now().ns;
        assert!(one.until_ns > now_ns, "it has all of its time");
        assert!(one.turn(now_ns, &mut |_| unreachable!("there is one")));
    }
}
