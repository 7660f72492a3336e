//! Sockets and event contexts.

use std::collections::VecDeque;

use napier_core::event::EpollParams;
use napier_core::sockopt::{SocketBusy, record_napi_id};

use crate::machine::dev::frames::{FrameAt, RxPacket};
use crate::machine::net::Network;
use crate::machine::sim::event::CtxId;
use napier_scenario::{DropReason, SocketIx, SocketKind};

/// One socket.
pub(crate) struct Sock {
    pub(crate) name: String,
    pub(crate) kind: SocketKind,
    pub(crate) connected: bool,
    pub(crate) napi: usize,
    pub(crate) depth: usize,
    pub(crate) open: bool,
    pub(crate) busy: SocketBusy,
    /// Frame and segments of each packet that waits.
    pub(crate) queue: VecDeque<(u32, u32)>,
    /// Packets that ever came in, so that a reader can tell whether something changed.
    pub(crate) arrivals: u64,
    pub(crate) delivered: u64,
    pub(crate) taken: u64,
    pub(crate) waiters: Vec<CtxId>,
    /// Event contexts that it is a member of.
    pub(crate) watchers: Vec<u16>,
    /// `IP_RECVERR`.
    pub(crate) recverr: bool,
}

/// One event context.
pub(crate) struct Ep {
    pub(crate) open: bool,
    pub(crate) params: EpollParams,
    pub(crate) slot: u32,
    pub(crate) members: Vec<SocketIx>,
    pub(crate) ready: VecDeque<SocketIx>,
    pub(crate) waiters: Vec<CtxId>,
}

impl Network {
    /// A packet reaches its socket's queue; `None` if it is lost.
    pub(crate) fn enqueue(&mut self, napi: usize, packet: RxPacket) -> Option<SocketIx> {
        let lost = |w: &mut Self, why| {
            w.go(packet.frame, FrameAt::Stack, FrameAt::Free);
            w.lose(napi, why, packet.segments);
            None
        };
        if packet.is_ack {
            self.take_ack(packet.frame);
            return None;
        }
        let Some(socket) = packet.socket.filter(|socket| self.socks[socket.at()].open) else {
            return lost(self, DropReason::NoSocket);
        };
        if let Some(child) = packet.syn {
            // The listener itself records nothing; the stream that it makes does.
            let child = &mut self.socks[child.at()];
            child.open = true;
            child.busy.napi_id = record_napi_id(child.busy.napi_id, packet.napi_id, true);
        }
        let sock = &mut self.socks[socket.at()];
        if sock.queue.len() >= sock.depth {
            return lost(self, DropReason::SocketFull);
        }
        if sock.kind != SocketKind::TcpListener {
            let connected = sock.connected || sock.kind == SocketKind::Tcp;
            sock.busy.napi_id = record_napi_id(sock.busy.napi_id, packet.napi_id, connected);
        }
        sock.queue.push_back((packet.frame, packet.segments));
        sock.arrivals += 1;
        sock.delivered += u64::from(packet.segments);
        self.go(packet.frame, FrameAt::Stack, FrameAt::Socket);
        Some(socket)
    }

    /// A socket has news: sleepers and event contexts are notified.
    pub(crate) fn socket_ready(&mut self, socket: usize) {
        let waiters = std::mem::take(&mut self.socks[socket].waiters);
        for ctx in waiters {
            self.wake(ctx);
        }
        for at in 0..self.socks[socket].watchers.len() {
            let ep = usize::from(self.socks[socket].watchers[at]);
            self.epoll_callback(ep, socket);
        }
    }

    /// Takes a packet out of a socket's queue.
    pub(crate) fn take_packet(&mut self, socket: usize) -> bool {
        self.take_segments(socket).is_some()
    }

    /// The same; as how many segments it came from the wire.
    pub(crate) fn take_segments(&mut self, socket: usize) -> Option<u32> {
        let (frame, segments) = self.socks[socket].queue.pop_front()?;
        self.socks[socket].taken += u64::from(segments);
        self.go(frame, FrameAt::Socket, FrameAt::Free);
        Some(segments)
    }
}
