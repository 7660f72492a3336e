//! One client: a request in, an answer out, then the end, or if the client asks for that the next request; each within a time.
//!
//! ```text
//! reading --a whole head, or one that cannot be--> writing --all is out--> leaving --the peer has closed--> ended
//!    `--REQUEST_NS--> writing (408)                   `--ANSWER_NS--> ended   `--LEAVE_NS--> ended
//!
//! writing --all is out, and it is kept--> reading --a byte--> reading, within REQUEST_NS
//!                                            `--KEPT_NS--> ended
//! writing --all is out, and the request was whole--> ended
//! ```
//!
//! Leaving: what a client still sends is read, for closing on unread bytes would throw the answer away on its way. Behind a request
//! that was whole nothing comes, so its connection is closed, in the packet that has the end of the answer.

use std::io::{self, IoSlice, Read as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use napier_sys::clock::Clock;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::request::{self, Asked, HEAD_BYTES_MAX, Then, Wrong};

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

enum ReplyState {
    /// `is_kept`: it has had an answer, and nothing has come since.
    Reading {
        head: Vec<u8>,
        is_kept: bool,
    },
    Writing(Response),
    Leaving,
}

/// What is sent: bytes of its own, then a page that others may be sent as well.
struct Response {
    own: Vec<u8>,
    page: Option<Arc<String>>,
    written: usize,
    then: Then,
}

impl From<Vec<u8>> for Response {
    fn from(own: Vec<u8>) -> Self {
        Self { own, page: None, written: 0, then: Then::Leave }
    }
}

pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    state: ReplyState,
    /// When the state must have been left.
    pub(crate) until_ns: u64,
}

impl Connection {
    /// `stream` does not block.
    pub(crate) fn new(stream: TcpStream, now_ns: u64) -> Self {
        let state = ReplyState::Reading { head: Vec::new(), is_kept: false };
        Self { stream, state, until_ns: now_ns.saturating_add(REQUEST_NS) }
    }

    /// Whether it waits for room for its answer, not for bytes.
    pub(crate) const fn is_writing(&self) -> bool {
        matches!(self.state, ReplyState::Writing(_))
    }

    /// The page that it takes so slowly.
    pub(crate) fn page(&self) -> Option<&Arc<String>> {
        match &self.state {
            ReplyState::Writing(answer) => answer.page.as_ref(),
            ReplyState::Reading { .. } | ReplyState::Leaving => None,
        }
    }

    /// Goes on as far as it can without waiting. False: it has ended.
    pub(crate) fn turn(&mut self, now_ns: u64, page: &mut dyn FnMut(request::Format) -> Arc<String>) -> bool {
        let is_late = now_ns >= self.until_ns;
        if let ReplyState::Reading { head, is_kept } = &mut self.state {
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
                Asked::Metrics { format, is_head, then } => {
                    let page = page(format);
                    let own = request::figures(format, page.len(), then);
                    Response { own, page: (!is_head).then_some(page), written: 0, then }
                }
                Asked::Root { is_head } => request::root(is_head).into(),
                Asked::Wrong(wrong) => request::refusal(wrong).into(),
            };
            self.state = ReplyState::Writing(answer);
            // A page may have taken long.
            self.until_ns = Clock.now().ns.saturating_add(ANSWER_NS);
        } else if is_late {
            return false;
        }
        if let ReplyState::Writing(answer) = &mut self.state {
            match send(&self.stream, answer) {
                Ok(true) => {}
                Ok(false) => return true,
                Err(_) => return false,
            }
            match answer.then {
                Then::Keep => {
                    self.state = ReplyState::Reading { head: Vec::new(), is_kept: true };
                    self.until_ns = Clock.now().ns.saturating_add(KEPT_NS);
                    return true;
                }
                Then::Close => return false,
                Then::Leave if self.stream.shutdown(Shutdown::Write).is_err() => return false,
                Then::Leave => {
                    self.state = ReplyState::Leaving;
                    self.until_ns = Clock.now().ns.saturating_add(LEAVE_NS);
                }
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

/// Whether all of it is out. The last packet of what is closed then waits for that.
fn send(stream: &TcpStream, answer: &mut Response) -> io::Result<bool> {
    let page = answer.page.as_ref().map(|page| page.as_bytes()).unwrap_or_default();
    let length = answer.own.len() + page.len();
    let more = match answer.then {
        Then::Keep => SendFlags::empty(),
        Then::Close | Then::Leave => SendFlags::MORE,
    };
    while answer.written < length {
        let own = &answer.own[answer.written.min(answer.own.len())..];
        let page = &page[answer.written.saturating_sub(answer.own.len())..];
        let parts = [IoSlice::new(own), IoSlice::new(page)];
        match sendmsg(stream, &parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL | more) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => answer.written += count,
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
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
    use std::io::Write as _;
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
        stream.set_nonblocking(true).expect("open");
        let mut one = Connection::new(stream, begun_ns);
        let page = Arc::new("x".repeat(64 << 20));
        while !one.is_writing() {
            assert!(one.turn(begun_ns, &mut |_| page.clone()), "its answer is on its way");
        }
        assert!(one.page().is_some_and(|held| Arc::ptr_eq(held, &page)));
        let now_ns = Clock.now().ns;
        assert!(one.until_ns > now_ns, "it has all of its time");
        assert!(one.turn(now_ns, &mut |_| unreachable!("there is one")));
    }

    #[test]
    fn behind_a_whole_request_nothing_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let addr = listener.local_addr().expect("bound");
        for (request, goes_on) in [
            ("GET /metrics HTTP/1.1\r\n\r\n", false),
            ("GET /metrics HTTP/1.1\r\n\r\nGET", true),
            ("GET /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\n", true),
            ("GET /metrics HTTP/1.1\r\nConnection: keep-alive\r\n\r\n", true),
        ] {
            let mut client = TcpStream::connect(addr).expect("it listens");
            client.write_all(request.as_bytes()).expect("taken");
            let (stream, _) = listener.accept().expect("it has connected");
            // One look is all that it gets: the request, one segment, may still be on its way.
            assert_eq!(stream.peek(&mut [0]).expect("open"), 1);
            let now_ns = Clock.now().ns;
            let mut one = Connection::new(stream, now_ns);
            one.stream.set_nonblocking(true).expect("open");
            let page = Arc::new("a page\n".to_owned());
            assert_eq!(one.turn(now_ns, &mut |_| page.clone()), goes_on, "{request:?}");
            drop(one);
            let mut answer = String::new();
            // Of bytes that were not read, a reset.
            let ended = client.read_to_string(&mut answer);
            assert!(goes_on || (ended.is_ok() && answer.ends_with("\r\n\r\na page\n")), "{ended:?} {answer}");
        }
    }
}
