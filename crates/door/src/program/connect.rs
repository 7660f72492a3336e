//! Connections that a program opens.

use std::net::SocketAddr;
use std::time::Duration;

use napier_linux::process::HeldSocketCall;
use napier_runtime::event::Interest;
use napier_runtime::socket::TcpStream;
use rustix::net::sockopt::Timeout;

use super::ServedProgram;
use super::calls::About;
use super::send::{self, Sends, send_for};
use super::socket::Behind;
use crate::address::WrittenAddress;
use crate::limits;
use crate::relay::Far;
use crate::rules::{AskedOfSocket, Verdict, verdict};

/// What sockets of the engine are watched for: news.
pub(super) const WATCHED: Interest = Interest::IN.with(Interest::OUT).with(Interest::RDHUP).with(Interest::EDGE);
/// Calls that may wait for one handshake.
const WAITS_MAX: usize = 16;

impl ServedProgram {
    pub(super) fn connect(&mut self, about: About) {
        let held = about.held;
        let socket = self.sockets.get(about.token).expect("it was found");
        let (stage, is_v6) = (socket.stage(), socket.is_v6);
        let written = self.address(&held, is_v6);
        if !self.notifier.is_waiting(&held) {
            return;
        }
        let (asked, peer) = match written {
            Ok(WrittenAddress::Address(peer)) => (AskedOfSocket::Connect(self.side_of(peer), about.blocks()), peer),
            Ok(WrittenAddress::Unspecified) => (AskedOfSocket::Dissolve, SocketAddr::from(([0; 4], 0))),
            Err(error) => return self.answer(held, Err(error)),
        };
        // What it has just closed does not take its connection.
        self.look_for_closed(self.sockets.listening_at(peer.port()));
        match verdict(stage, asked) {
            Verdict::Act if self.offer.reach.is_own(peer.ip()) => self.open_near(about, peer),
            Verdict::Act => self.open(about, peer),
            Verdict::Done => self.answer(held, Ok(0)),
            Verdict::Wait => {
                let span = about.span(Timeout::Send);
                drop(about.copy);
                self.wait_for_handshake(about.token, held, span);
            }
            Verdict::HandOver => {
                let why = self.offer.reach.why_left_peer(peer.ip());
                self.hand_over(about, why);
            }
            Verdict::Refuse(error) => self.answer(held, Err(error)),
        }
    }

    /// A connection to a program on this engine, which is there at once: only the answer is what it is for a handshake (`net/ipv4/af_inet.c`
    /// `__inet_stream_connect`).
    fn open_near(&mut self, about: About, peer: SocketAddr) {
        let (token, held, blocks) = (about.token, about.held, about.blocks());
        let socket = self.sockets.get(token).expect("it was found");
        let bound = if matches!(socket.behind, Behind::Place { .. }) { socket.local() } else { None };
        let end = match self.offer.near.connect(bound, peer) {
            Ok(end) => end,
            Err(error) => return self.answer(held, Err(error)),
        };
        // What the program wrote before has no reader.
        Self::drain(&socket.own, usize::MAX, &mut self.scratch);
        // It keeps its port.
        let place = match std::mem::replace(&mut socket.behind, Behind::Nothing) {
            Behind::Place { listener, .. } => Some(listener),
            Behind::Nothing
            | Behind::Listener(_)
            | Behind::Handshake { .. }
            | Behind::Connection(_)
            | Behind::Datagrams(_) => None,
        };
        let far = Far::Near(end, place);
        socket.options.apply_to(&far);
        let is_watched = self.connected_by(token, far);
        drop(about.copy);
        if !is_watched {
            self.shown.note(|counts| counts.over_limit(limits::WATCHED));
            self.answer(held, Err(libc::ENOBUFS));
            return self.fail(token, libc::ENOBUFS);
        }
        self.shown.note(|counts| counts.connected += 1);
        self.answer_of(token, held, if blocks { Ok(0) } else { Err(libc::EINPROGRESS) });
        self.show(token);
        self.pump(token);
    }

    /// Begins a handshake.
    fn open(&mut self, about: About, peer: SocketAddr) {
        let (token, held, blocks, span) = (about.token, about.held, about.blocks(), about.span(Timeout::Send));
        let socket = self.sockets.get(token).expect("it was found");
        let local = match std::mem::replace(&mut socket.behind, Behind::Nothing) {
            // The port is free for a moment; only the engine's own choice of ports could take it.
            Behind::Place { listener, .. } => listener.local_addr().ok(),
            other => {
                socket.behind = other;
                None
            }
        };
        let mut builder = TcpStream::builder().nonblocking(true).nodelay(socket.options.nodelay());
        if let Some(local) = local {
            builder = builder.local(local);
        }
        let opened = builder.connect(&self.offer.netns, peer).inspect(|stream| socket.options.apply(stream));
        let stream = match opened {
            Ok(stream) => stream,
            Err(error) => return self.answer(held, Err(error.raw_os_error().unwrap_or(libc::ENETUNREACH))),
        };
        if self.context.add(&stream, WATCHED, token).is_err() {
            self.shown.note(|counts| counts.over_limit(limits::WATCHED));
            return self.answer(held, Err(libc::ENOBUFS));
        }
        // What the program wrote before has no reader; what it cannot write now keeps it from being told that it could.
        Self::drain(&socket.own, usize::MAX, &mut self.scratch);
        // That holds for a call that waits, too: a signal may end it.
        let filled = Self::fill(&about.copy);
        socket.behind = Behind::Handshake { stream, filled, waits: Vec::new() };
        drop(about.copy);
        if blocks {
            self.wait_for_handshake(token, held, span);
        } else {
            self.answer_of(token, held, Err(libc::EINPROGRESS));
        }
        self.show(token);
        // It may be over already.
        self.handshake_event(token);
    }

    fn wait_for_handshake(&mut self, token: u64, mut held: HeldSocketCall, span: Option<Duration>) {
        let Some(waits) = self.waits(token).map(std::mem::take) else { return self.answer(held, Err(libc::EINVAL)) };
        // Calls that signals have ended leave nothing behind.
        let mut waits: Vec<HeldSocketCall> = self.still_waiting(waits);
        let is_kept = waits.len() < WAITS_MAX && self.notifier.keep(&mut held);
        if is_kept {
            waits.push(held);
        }
        *self.waits(token).expect("it was there") = waits;
        if is_kept {
            return self.bound(token, held, span);
        }
        self.shown.note(|counts| counts.over_limit(limits::HELD));
        self.answer(held, Err(libc::ENOBUFS));
    }

    /// The calls that wait for a handshake.
    fn waits(&mut self, token: u64) -> Option<&mut Vec<HeldSocketCall>> {
        match &mut self.sockets.get(token)?.behind {
            Behind::Handshake { waits, .. } => Some(waits),
            Behind::Nothing
            | Behind::Place { .. }
            | Behind::Listener(_)
            | Behind::Connection(_)
            | Behind::Datagrams(_) => None,
        }
    }

    /// `sendto` with an address.
    pub(super) fn send_to(&mut self, about: About) {
        let (token, held) = (about.token, about.held);
        if let Some(flag) = send::refused(held.int(3)) {
            self.shown.note(|counts| counts.refused(flag.into()));
            return self.answer(held, Err(libc::EOPNOTSUPP));
        }
        let socket = self.sockets.get(token).expect("it was found");
        let result = match verdict(socket.stage(), AskedOfSocket::SendTo) {
            // Those that wait are before it.
            Verdict::Act if socket.sends.0.is_empty() => {
                send_for(&self.notifier, &held, &about.copy, &mut self.scratch)
            }
            Verdict::Act | Verdict::Wait => Err(libc::EAGAIN),
            Verdict::Refuse(error) => Err(error),
            Verdict::Done | Verdict::HandOver => unreachable!("no row of the table says so"),
        };
        let waits = result == Err(libc::EAGAIN) && held.int(3) & libc::MSG_DONTWAIT == 0 && about.blocks();
        let span = about.span(Timeout::Send);
        drop(about.copy);
        if waits { self.wait_to_send(token, held, span) } else { self.answer_of(token, held, result) }
    }

    fn wait_to_send(&mut self, token: u64, mut held: HeldSocketCall, span: Option<Duration>) {
        let before = self.sockets.get(token).map(|socket| std::mem::take(&mut socket.sends.0)).unwrap_or_default();
        // Calls that signals have ended leave nothing behind.
        let mut sends = Sends(self.still_waiting(before));
        let is_kept = !sends.is_full() && self.notifier.keep(&mut held);
        if is_kept {
            sends.0.push(held);
        }
        self.sockets.get(token).expect("it was found").sends = sends;
        if is_kept {
            return self.bound(token, held, span);
        }
        self.shown.note(|counts| counts.over_limit(limits::HELD));
        self.answer(held, Err(libc::ENOBUFS));
    }

    /// Goes on with the calls that wait for room in a connection, the oldest first.
    pub(super) fn send_again(&mut self, token: u64) {
        let Some(socket) = self.sockets.get(token) else { return };
        if socket.sends.0.is_empty() {
            return;
        }
        let (of, waiting) = (socket.inode, std::mem::take(&mut socket.sends.0));
        let waiting: Vec<HeldSocketCall> = self.still_waiting(waiting);
        let mut left = Vec::new();
        for held in waiting {
            if !left.is_empty() {
                left.push(held);
                continue;
            }
            let copy = send::copy_of(&self.notifier, &held, of);
            // Another thread of the program has closed the number.
            let result =
                copy.map_or(Err(libc::EBADF), |copy| send_for(&self.notifier, &held, &copy, &mut self.scratch));
            match result {
                Err(libc::EAGAIN) => left.push(held),
                result => self.answer_of(token, held, result),
            }
        }
        if let Some(socket) = self.sockets.get(token) {
            socket.sends.0 = left;
        }
    }

    /// Looks whether a handshake is over.
    pub(super) fn handshake_event(&mut self, token: u64) {
        let Some(socket) = self.sockets.get(token) else { return };
        let Behind::Handshake { stream, .. } = &socket.behind else { return };
        let error = stream.take_error().ok().flatten();
        if error.is_none() && stream.peer_addr().is_err() {
            return;
        }
        let Behind::Handshake { stream, filled, waits } = std::mem::replace(&mut socket.behind, Behind::Nothing) else {
            unreachable!("it was one")
        };
        let Some(error) = error else {
            self.shown.note(|counts| counts.connected += 1);
            // From here on the program's end is writable.
            Self::drain(&socket.own, filled, &mut self.scratch);
            let _ = self.context.delete(&stream);
            let is_watched = self.connected_by(token, Far::Wire(stream));
            waits.into_iter().for_each(|held| self.answer_of(token, held, Ok(0)));
            self.show(token);
            if !is_watched {
                self.shown.note(|counts| counts.over_limit(limits::WATCHED));
                return self.fail(token, libc::ENOBUFS);
            }
            return self.pump(token);
        };
        let error = error.raw_os_error().unwrap_or(libc::ECONNREFUSED);
        drop(stream);
        let mut is_told = false;
        for held in waits {
            is_told |= self.is_heard(held, Err(error));
        }
        if !is_told {
            return self.fail(token, error);
        }
        // The socket is as good as new.
        if let Some(socket) = self.sockets.get(token) {
            Self::drain(&socket.own, filled, &mut self.scratch);
            let sends = std::mem::take(&mut socket.sends.0);
            sends.into_iter().for_each(|held| self.answer(held, Err(libc::EPIPE)));
        }
        self.show(token);
    }
}
