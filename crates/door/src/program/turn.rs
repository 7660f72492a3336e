//! What the threads of a program do at events of its calls, its pairs and its connections.

use std::io;
use std::time::{Duration, Instant};

use napier_linux::process::HeldSocketCall;
use napier_runtime::event::Interest;
use rustix::event::epoll::{self, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::carrier::{self, SocketNews};
use super::socket::{Behind, inode};
use super::token::{OF_NEAR, OF_TWIN, without_marks};
use super::{DatagramCalls, ServedProgram};
use crate::limits;
use crate::near::locked;
use crate::relay::{CHUNK_BYTES, Flow, Relay};
use crate::view::ShownProgram;

/// How long a peer may take nothing of what a program wrote before its end, then the connection is reset. Source: `ip-sysctl`,
/// `tcp_orphan_retries`: eight retries, of about 100 s at the shortest.
const ORPHAN_PATIENCE: Duration = Duration::from_secs(100);
/// How often it is looked for such peers.
const ORPHAN_LOOK: Duration = Duration::from_secs(1);
/// Calls that are answered before the rest has its turn.
const CALLS_MAX: usize = 16;

/// Counts why a library has left its ring, if it has; whether it has, told once.
pub(super) fn note_left(shown: &ShownProgram, relay: &mut Relay) -> bool {
    let why = relay.has_left();
    why.into_iter().for_each(|why| shown.note(|counts| counts.demoted(why)));
    why.is_some()
}

impl ServedProgram {
    /// Calls wait, or no process of the program is left.
    pub(super) fn calls_event(&mut self) -> io::Result<()> {
        if self.take_calls()? {
            return Ok(());
        }
        self.is_over = true;
        // It would be ready for ever.
        epoll::delete(&*self.epoll, &self.notifier)?;
        // No process is left that could make a call on them, whoever has their other ends.
        for token in self.sockets.unconnected() {
            DatagramCalls(self).drain(token);
            self.remove(token);
        }
        Ok(())
    }

    /// Goes on with what has more to do, and ends what has waited too long; whether there is more to do.
    pub(super) fn go_on(&mut self) -> bool {
        let mut news = Vec::new();
        locked(&self.rings).take_news(&mut news);
        news.into_iter().for_each(|token| self.found(token, SocketNews::default()));
        for _ in 0..self.again.len() {
            let token = self.again.pop_front().expect("it was counted");
            self.found(token, SocketNews::default());
        }
        for (token, error) in std::mem::take(&mut self.failed) {
            self.fail(token, error);
        }
        self.end_waits();
        if self.is_over {
            self.reset_stuck();
        }
        !self.again.is_empty()
    }

    /// Shows that a library has left its ring, if it has.
    pub(super) fn show_left(&mut self, token: u64) {
        let Some(Behind::Connection(relay)) = self.sockets.get(token).map(|socket| &mut socket.behind) else { return };
        if note_left(&self.shown, relay) {
            self.show(token);
        }
    }

    /// Resets the connections whose peers have taken nothing for too long, after the program's end. Each has a time of its own.
    fn reset_stuck(&mut self) {
        let now = Instant::now();
        for token in self.sockets.stuck() {
            let Some(Behind::Connection(relay)) = self.sockets.get(token).map(|socket| &mut socket.behind) else {
                continue;
            };
            if relay.stuck_for(now) >= ORPHAN_PATIENCE {
                relay.reset_on_close();
                self.remove(token);
            }
        }
    }

    /// Notes how long a call that is kept may wait, if the program has said so.
    pub(super) fn bound(&mut self, token: u64, held: HeldSocketCall, span: Option<Duration>) {
        if let Some(span) = span {
            let notifier = &self.notifier;
            self.timed.put((Instant::now(), span), token, held, |held| notifier.is_waiting(held));
        }
    }

    /// Answers the calls that have waited as long as their program wants.
    fn end_waits(&mut self) {
        for (token, held) in self.timed.due(Instant::now()) {
            // It may have been answered before.
            if let Some(error) = self.sockets.get(token).and_then(|socket| socket.take_waiting(&held)) {
                self.answer(held, Err(error));
            }
        }
    }

    /// How long the next wait may be.
    pub(super) fn until(&self, has_more: bool) -> Option<Timespec> {
        let look = self.is_over.then_some(ORPHAN_LOOK);
        let timed = self.timed.next().map(|next| next.saturating_duration_since(Instant::now()));
        let span = if has_more { Some(Duration::ZERO) } else { look.into_iter().chain(timed).min() };
        span.and_then(|span| Timespec::try_from(span).ok())
    }

    /// Answers what waits, a few at once; false: no process of the program is left.
    fn take_calls(&mut self) -> io::Result<bool> {
        for _ in 0..CALLS_MAX {
            match self.notifier.receive() {
                Ok(Some(held)) => self.take(held),
                Ok(None) => break,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Notes what was found of a socket, for the next turn.
    pub(super) fn put_off(&mut self, token: u64, found: SocketNews) {
        let of = without_marks(token);
        let Some(socket) = self.sockets.get(of) else { return };
        match &mut socket.behind {
            Behind::Connection(relay) if token & OF_NEAR != 0 => {
                relay.net_says(Interest::from_bits(found.of_pair.map_or(0, |events| events.bits())));
            }
            Behind::Connection(relay) => {
                relay.net_says(found.of_net);
                relay.pair_says(found.of_pair.unwrap_or(EventFlags::empty()));
            }
            Behind::Datagrams(datagrams) if token & OF_TWIN == 0 => {
                datagrams.pair_says(found.of_pair.unwrap_or(EventFlags::empty()));
            }
            Behind::Datagrams(_)
            | Behind::Nothing
            | Behind::Place { .. }
            | Behind::Listener(_)
            | Behind::Handshake { .. } => {}
        }
        if !self.again.contains(&of) {
            self.again.push_back(of);
        }
    }

    /// Whether going on with a socket may wait for the program: its memory is read for calls that wait for room.
    pub(super) fn may_wait(&mut self, token: u64) -> bool {
        let token = without_marks(token);
        self.sockets.get(token).is_some_and(|socket| !socket.is_carried() || !socket.sends.0.is_empty())
    }

    /// Goes on with a socket.
    pub(super) fn found(&mut self, token: u64, found: SocketNews) {
        if !found.of_net.is_empty() {
            self.net_event(token, found.of_net);
        }
        if let Some(events) = found.of_pair {
            self.pair_event(token, events);
        }
        if found.of_net.is_empty() && found.of_pair.is_none() {
            self.pump(token);
            DatagramCalls(self).pump(token);
            self.show_left(token);
        }
    }

    /// The connection or the listener of a socket has something.
    pub(super) fn net_event(&mut self, token: u64, events: Interest) {
        let Some(socket) = self.sockets.get(token) else { return };
        match &mut socket.behind {
            Behind::Listener(_) => self.take_connections(token),
            Behind::Handshake { .. } => self.handshake_event(token),
            Behind::Connection(relay) => {
                relay.net_says(events);
                self.pump(token);
            }
            Behind::Datagrams(_) => DatagramCalls(self).pump(token),
            Behind::Nothing | Behind::Place { .. } => {}
        }
    }

    /// The engine's end of a pair has something, or a listener of the kernel.
    pub(super) fn pair_event(&mut self, token: u64, events: EventFlags) {
        if token & OF_TWIN != 0 {
            DatagramCalls(self).pump(token & !OF_TWIN);
            return self.take_connections(token & !OF_TWIN);
        }
        if token & OF_NEAR != 0 {
            return self.net_event(token & !OF_NEAR, Interest::from_bits(events.bits()));
        }
        let Some(socket) = self.sockets.get(token) else { return };
        match &mut socket.behind {
            Behind::Connection(relay) => {
                relay.pair_says(events);
                self.pump(token);
            }
            Behind::Datagrams(datagrams) => {
                datagrams.pair_says(events);
                DatagramCalls(self).pump(token);
            }
            // A half that has ended before there is a connection is found when there is one.
            Behind::Nothing | Behind::Place { .. } | Behind::Listener(_) | Behind::Handshake { .. } => {
                if events.contains(EventFlags::HUP) {
                    self.remove(token);
                }
            }
        }
    }

    pub(super) fn pump(&mut self, token: u64) {
        let Some(socket) = self.sockets.get(token) else { return };
        let Behind::Connection(relay) = &mut socket.behind else { return };
        if self.failed.contains_key(&token) {
            return;
        }
        let flow = relay.pump(rustix::fd::AsFd::as_fd(&socket.own), &mut self.scratch, &mut self.room);
        self.shown.came(self.room.take_counted());
        self.share.spend(self.room.take_chunks());
        if self.room.was_short() {
            self.shown.note(|counts| counts.over_limit(limits::BYTES));
        }
        match flow {
            Flow::Idle => {}
            Flow::More => {
                if !self.again.contains(&token) {
                    self.again.push_back(token);
                }
            }
            Flow::Closed => return self.remove(token),
            Flow::Failed(error) => {
                self.failed.insert(token, error);
                return carrier::ring(&self.to_thread);
            }
        }
        self.send_again(token);
    }

    /// A connection has ended with an error, which the program is to see: a pair whose other end is closed with bytes unread gives ECONNRESET
    /// (`net/unix/af_unix.c` `unix_release_sock`), and its own question gives the error itself.
    /// It may wait for the program, so its own thread does it: the number may be a file's by now that does not answer, and an `execve` that does not
    /// get on keeps all from having copies (`kernel/pid.c __pidfd_fget`).
    pub(super) fn fail(&mut self, token: u64, error: i32) {
        let Some(socket) = self.sockets.get(token) else { return };
        let (seen, of) = (socket.seen, socket.inode);
        self.errors.put(of, error);
        // A byte as if by the program, unless there is one. It may have the socket under another number now: then it sees the end of the file.
        if let Ok(copy) = self.notifier.copy_of(seen.0, seen.1)
            && inode(&copy).is_ok_and(|found| found == of)
        {
            let _ = send(&copy, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
        self.remove(token);
    }

    /// Lets the program's end not be writable while the handshake goes on, whatever watches it; how many bytes that took.
    pub(super) fn fill(theirs: impl rustix::fd::AsFd) -> usize {
        /// The pair has 208 KiB by default (`net.core.wmem_default`), and is writable while a quarter is free (`unix_writable`).
        const FILLS_MAX: usize = 64;
        let (zeros, mut filled) = ([0; CHUNK_BYTES / 2], 0);
        for _ in 0..FILLS_MAX {
            let mut asked = [PollFd::new(&theirs, PollFlags::OUT)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let is_writable = poll(&mut asked, Some(&now)).is_ok_and(|_| asked[0].revents().contains(PollFlags::OUT));
            if !is_writable {
                break;
            }
            match send(&theirs, &zeros, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => filled += count,
                Err(_) => break,
            }
        }
        filled
    }

    /// Takes bytes out of the engine's end, at most so many; it is writable for the program then.
    pub(super) fn drain(own: impl rustix::fd::AsFd, bytes: usize, scratch: &mut [u8; CHUNK_BYTES]) {
        let mut left = bytes;
        while left > 0 {
            let room = left.min(CHUNK_BYTES);
            match recv(&own, &mut scratch[..room], RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(_) => break,
                Ok((count, _)) => left -= count,
            }
        }
    }

    /// Whether the program has closed a socket, heard of or not.
    pub(super) fn is_closed(own: impl rustix::fd::AsFd) -> bool {
        let mut asked = [PollFd::new(&own, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut asked, Some(&now)).is_ok_and(|_| asked[0].revents().contains(PollFlags::HUP))
    }

    /// Lets go what the program has closed and this thread has not heard of, before an address is said to be in use, or connected to.
    pub(super) fn look_for_closed(&mut self, among: Vec<u64>) {
        for token in among {
            if self.sockets.get(token).is_some_and(|socket| Self::is_closed(&socket.own)) {
                DatagramCalls(self).drain(token);
                self.remove(token);
            }
        }
    }
}
