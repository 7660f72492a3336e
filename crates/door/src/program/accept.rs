//! Listeners: connections that wait, and calls that wait for connections.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use napier_linux::process::{Given, HeldSocketCall, SocketCall};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::net::sockopt::Timeout;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::ServedProgram;
use super::calls::{About, BACKLOG_MAX};
use super::connect::WATCHED;
use super::socket::{Backlogged, Behind, Listening, ProgramSocket, pair};
use super::twin::listen_at;
use crate::limits::{self, WAITING_MAX, WAITING_OF_ONE};
use crate::relay::Far;
use crate::rules::{AskedOfSocket, Verdict, verdict};

/// What became of a connection that was given to a call.
enum Delivered {
    /// The call has its answer.
    Yes,
    /// The call does not wait any more: the connection is another's.
    No(Backlogged),
}

/// Flags that a connection is asked for with.
fn flags_of(held: &HeldSocketCall) -> i32 {
    if held.what == Some(SocketCall::Accept4) { held.int(3) } else { 0 }
}

impl Listening {
    /// Writes a byte for each connection that waits, as far as the pair has room: it is readable while one waits. If the program has closed that
    /// half it hears of none.
    fn announce_to(&mut self, own: impl AsFd) {
        while self.announced < self.waiting.len() && send(&own, b"c", SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
        {
            self.announced += 1;
        }
    }
}

impl ServedProgram {
    pub(super) fn accept(&mut self, about: About) {
        let (token, held, blocks, span) = (about.token, about.held, about.blocks(), about.span(Timeout::Recv));
        let stage = self.sockets.get(token).expect("it was found").stage();
        match verdict(stage, AskedOfSocket::Accept) {
            Verdict::Act => {}
            Verdict::Refuse(error) => return self.answer(held, Err(error)),
            Verdict::Done | Verdict::Wait | Verdict::HandOver => return self.answer(held, Err(libc::EINVAL)),
        }
        self.take_connections(token);
        let Some(listening) = self.listening(token) else { return self.answer(held, Err(libc::EINVAL)) };
        if let Some((stream, peer)) = listening.waiting.pop_front() {
            if listening.announced > listening.waiting.len() {
                listening.announced -= 1;
                // Before the call returns: what the program looks at then is not readable for the sake of this one.
                let _ = recv(&about.copy, &mut [0_u8; 1], RecvFlags::DONTWAIT);
            }
            self.waiting -= 1;
            drop(about.copy);
            if let Delivered::No(stream) = self.deliver(token, held, stream, peer) {
                self.put_back(token, stream, peer);
            }
            self.take_connections(token);
            return self.show(token);
        }
        drop(about.copy);
        let mut held = held;
        // Calls that signals have ended leave nothing behind.
        let before = self.listening(token).map(|listening| std::mem::take(&mut listening.accepts)).unwrap_or_default();
        let before = self.still_waiting(before);
        if let Some(listening) = self.listening(token) {
            listening.accepts = before;
        }
        if !blocks || !self.notifier.keep(&mut held) {
            if blocks {
                self.shown.note(|counts| counts.over_limit(limits::HELD));
            }
            // Source: `accept(2)`.
            return self.answer(held, Err(if blocks { libc::ENOBUFS } else { libc::EAGAIN }));
        }
        match self.listening(token) {
            Some(listening) => listening.accepts.push_back(held),
            None => return self.answer(held, Err(libc::EINVAL)),
        }
        self.bound(token, held, span);
    }

    fn listening(&mut self, token: u64) -> Option<&mut Listening> {
        match &mut self.sockets.get(token)?.behind {
            Behind::Listener(listening) => Some(listening),
            Behind::Nothing
            | Behind::Place { .. }
            | Behind::Handshake { .. }
            | Behind::Connection(_)
            | Behind::Datagrams(_) => None,
        }
    }

    /// Takes connections from now on, as many as may wait, or another number of them.
    pub(super) fn begin_to_listen(&mut self, token: u64, wanted: usize) -> Result<(), i32> {
        let socket = self.sockets.get(token).ok_or(libc::EBADF)?;
        match std::mem::replace(&mut socket.behind, Behind::Nothing) {
            Behind::Place { listener, twin, .. } => {
                let watched = self.context.add(&listener, WATCHED, token);
                let of_twin = twin.as_ref().map_or(Ok(()), |twin| listen_at(&self.epoll, twin, token, wanted));
                let only_v6 = socket.is_v6 && socket.options.only_v6();
                let address = listener.local_addr().map_err(|_| libc::EINVAL)?;
                let listening = Listening {
                    near: self.offer.near.listen(address, only_v6, token, &self.bell),
                    listener,
                    twin,
                    backlog: wanted,
                    waiting: Default::default(),
                    announced: 0,
                    accepts: Default::default(),
                };
                socket.behind = Behind::Listener(Box::new(listening));
                watched.map_err(|_| libc::ENOBUFS).and(of_twin)
            }
            Behind::Listener(mut listening) => {
                listening.backlog = wanted;
                if let Some(twin) = &listening.twin {
                    // Another backlog at best.
                    let _ = rustix::net::listen(twin, i32::try_from(wanted).unwrap_or(BACKLOG_MAX));
                }
                socket.behind = Behind::Listener(listening);
                Ok(())
            }
            other => {
                socket.behind = other;
                Err(libc::EINVAL)
            }
        }
    }

    /// Takes connections from the engine, as many as may wait, and gives them to calls that wait or announces them.
    pub(super) fn take_connections(&mut self, token: u64) {
        // Each turn takes one connection, and at most a backlog of them may wait.
        loop {
            let all = self.waiting;
            let Some(listening) = self.listening(token) else { return };
            if listening.waiting.len() >= listening.backlog {
                return;
            }
            // A program that does not accept from one listener has room at the others; what waits longer waits in the engine, within its backlog.
            let is_over = all >= WAITING_MAX && listening.waiting.len() >= WAITING_OF_ONE;
            if is_over {
                return self.shown.note(|counts| counts.over_limit(limits::WAITING));
            }
            let Some((arrived, peer)) = listening.next() else { return };
            if matches!(&arrived, Backlogged::Engine(Far::Wire(stream)) if stream.set_nonblocking(true).is_err()) {
                continue;
            }
            self.announce(token, arrived, peer);
        }
    }

    /// A connection that none has yet: for the oldest call that still waits, or to be seen in the pair.
    fn announce(&mut self, token: u64, mut stream: Backlogged, peer: SocketAddr) {
        while let Some(held) = self.listening(token).and_then(|listening| listening.accepts.pop_front()) {
            match self.deliver(token, held, stream, peer) {
                Delivered::Yes => return,
                Delivered::No(back) => stream = back,
            }
        }
        let Some(socket) = self.sockets.get(token) else { return };
        let Behind::Listener(listening) = &mut socket.behind else { return };
        listening.waiting.push_back((stream, peer));
        self.waiting += 1;
        listening.announce_to(&socket.own);
        self.show(token);
    }

    fn put_back(&mut self, token: u64, stream: Backlogged, peer: SocketAddr) {
        let Some(socket) = self.sockets.get(token) else { return };
        let Behind::Listener(listening) = &mut socket.behind else { return };
        listening.waiting.push_front((stream, peer));
        self.waiting += 1;
        listening.announce_to(&socket.own);
    }

    /// Gives a connection to a call.
    fn deliver(&mut self, listener: u64, held: HeldSocketCall, arrived: Backlogged, peer: SocketAddr) -> Delivered {
        if !self.notifier.is_waiting(&held) {
            // It gives its place back, and is not heard.
            self.answer(held, Err(libc::EINTR));
            return Delivered::No(arrived);
        }
        let Some(socket) = self.sockets.get(listener) else {
            self.answer(held, Err(libc::EINVAL));
            return Delivered::Yes;
        };
        let (is_v6, options) = (socket.is_v6, socket.options.clone());
        let far = match arrived {
            Backlogged::Engine(far) => far,
            Backlogged::Kernel(fd) => return self.deliver_of_kernel(held, fd, peer, is_v6),
        };
        if self.sockets.is_full() {
            self.shown.note(|counts| counts.over_limit(limits::SOCKETS));
            self.answer(held, Err(libc::ENFILE));
            return Delivered::No(Backlogged::Engine(far));
        }
        let (theirs, own, inode) = match pair() {
            Ok(made) => made,
            Err(error) => {
                self.answer(held, Err(error.raw_os_error().unwrap_or(libc::ENFILE)));
                return Delivered::No(Backlogged::Engine(far));
            }
        };
        options.apply_to(&far);
        options.apply_to_pair(&theirs);
        options.apply_to_own(&own);
        if let Err(error) = self.write_address(&held, peer, is_v6) {
            self.answer(held, Err(error));
            return if error == libc::EINTR { Delivered::No(Backlogged::Engine(far)) } else { Delivered::Yes };
        }
        let token = self.sockets.insert(ProgramSocket::new(own, inode, is_v6, options, held.tid()));
        if !self.hand(held, token, theirs, flags_of(&held)) {
            self.remove(token);
            return Delivered::No(Backlogged::Engine(far));
        }
        self.shown.note(|counts| counts.accepted += 1);
        if !self.carry(token, far) {
            self.shown.note(|counts| counts.over_limit(limits::WATCHED));
            self.fail(token, libc::ECONNABORTED);
            return Delivered::Yes;
        }
        self.show(token);
        self.pump(token);
        Delivered::Yes
    }

    /// Gives a connection of the kernel to a call: it is none of the engine's from then on.
    fn deliver_of_kernel(&mut self, held: HeldSocketCall, fd: OwnedFd, peer: SocketAddr, is_v6: bool) -> Delivered {
        if let Err(error) = self.write_address(&held, peer, is_v6) {
            self.answer(held, Err(error));
            return if error == libc::EINTR { Delivered::No(Backlogged::Kernel(fd)) } else { Delivered::Yes };
        }
        let flags = flags_of(&held);
        let is_set = flags & libc::SOCK_NONBLOCK == 0 || fcntl_setfl(&fd, OFlags::NONBLOCK).is_ok();
        if !is_set {
            self.answer(held, Err(libc::ENFILE));
            return Delivered::No(Backlogged::Kernel(fd));
        }
        match self.notifier.give(held, &fd, flags & libc::SOCK_CLOEXEC != 0) {
            Ok(Given::Heard(_)) => {
                self.shown.note(|counts| counts.left_to_kernel("accepted over the kernel's interfaces"));
                Delivered::Yes
            }
            given => {
                self.shown.note(|counts| counts.unheard += u64::from(matches!(given, Ok(Given::Gone))));
                Delivered::No(Backlogged::Kernel(fd))
            }
        }
    }
}
