//! Connections that a program opens.

use std::net::SocketAddr;

use napier_linux::process::HeldSocketCall;
use napier_runtime::event::Interest;
use napier_runtime::socket::TcpStream;

use super::ServedProgram;
use super::calls::About;
use super::socket::Behind;
use crate::address::WrittenAddress;
use crate::relay::Relay;
use crate::rules::reach::why_left;
use crate::rules::{AskedOfSocket, Verdict, verdict};

/// What sockets of the engine are watched for: news.
pub(super) const WATCHED: Interest = Interest::IN.with(Interest::OUT).with(Interest::RDHUP).with(Interest::EDGE);
/// Calls that may wait for one handshake.
const WAITS_MAX: usize = 16;

impl ServedProgram<'_> {
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
        match verdict(stage, asked) {
            Verdict::Act => self.open(about, peer),
            Verdict::Done => self.answer(held, Ok(0)),
            Verdict::Wait => self.wait_for_handshake(about.token, held),
            Verdict::HandOver => self.hand_over(about, why_left(peer.ip(), false)),
            Verdict::Refuse(error) => self.answer(held, Err(error)),
        }
    }

    /// Begins a handshake.
    fn open(&mut self, about: About, peer: SocketAddr) {
        let (token, held, blocks) = (about.token, about.held, about.blocks());
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
            self.shown.note(|counts| counts.over_limit("watched sockets"));
            return self.answer(held, Err(libc::ENOBUFS));
        }
        // What the program wrote before has no reader; what it cannot write now keeps it from being told that it could.
        Self::drain(&socket.own, usize::MAX, &mut self.scratch);
        // That holds for a call that waits, too: a signal may end it.
        let filled = Self::fill(&about.copy);
        socket.behind = Behind::Handshake { stream, filled, waits: Vec::new() };
        drop(about.copy);
        if blocks {
            self.wait_for_handshake(token, held);
        } else {
            self.answer_of(token, held, Err(libc::EINPROGRESS));
        }
        self.show(token);
        // It may be over already.
        self.handshake_event(token);
    }

    fn wait_for_handshake(&mut self, token: u64, mut held: HeldSocketCall) {
        let Some(waits) = self.waits(token).map(std::mem::take) else { return self.answer(held, Err(libc::EINVAL)) };
        // Calls that signals have ended leave nothing behind.
        let mut waits: Vec<HeldSocketCall> = self.still_waiting(waits);
        let is_kept = waits.len() < WAITS_MAX && self.notifier.keep(&mut held);
        if is_kept {
            waits.push(held);
        }
        *self.waits(token).expect("it was there") = waits;
        if !is_kept {
            self.shown.note(|counts| counts.over_limit("held calls"));
            self.answer(held, Err(libc::EALREADY));
        }
    }

    /// The calls that wait for a handshake.
    fn waits(&mut self, token: u64) -> Option<&mut Vec<HeldSocketCall>> {
        match &mut self.sockets.get(token)?.behind {
            Behind::Handshake { waits, .. } => Some(waits),
            Behind::Nothing | Behind::Place { .. } | Behind::Listener(_) | Behind::Connection(_) => None,
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
            socket.behind = Behind::Connection(Box::new(Relay::new(stream)));
            // From here on the program's end is writable.
            Self::drain(&socket.own, filled, &mut self.scratch);
            waits.into_iter().for_each(|held| self.answer_of(token, held, Ok(0)));
            self.show(token);
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
        }
        self.show(token);
    }
}
