//! Sockets and event contexts.

use std::collections::VecDeque;

use napier_core::event::{EpollParams, attach};
use napier_core::sockopt::{SocketBusy, record_napi_id};

use super::device::{FrameAt, Packet};
use super::vm::CtxId;
use super::world::World;
use napier_scenario::{DropReason, SocketIx, SocketKind};

/// One socket.
pub(super) struct Sock {
    pub(super) name: String,
    pub(super) kind: SocketKind,
    pub(super) connected: bool,
    pub(super) napi: usize,
    pub(super) depth: usize,
    pub(super) open: bool,
    pub(super) busy: SocketBusy,
    /// Frame and segments of each packet that waits.
    pub(super) queue: VecDeque<(u32, u32)>,
    /// Packets that ever came in, so that a reader can tell whether something changed.
    pub(super) arrivals: u64,
    pub(super) delivered: u64,
    pub(super) taken: u64,
    pub(super) waiters: Vec<CtxId>,
    /// Event contexts that it is a member of.
    pub(super) watchers: Vec<u16>,
    /// `IP_RECVERR`.
    pub(super) recverr: bool,
}

/// One event context.
pub(super) struct Ep {
    pub(super) open: bool,
    pub(super) params: EpollParams,
    pub(super) slot: u32,
    pub(super) members: Vec<SocketIx>,
    pub(super) ready: VecDeque<SocketIx>,
    pub(super) waiters: Vec<CtxId>,
}

impl World {
    /// A packet reaches its socket's queue; `None` if it is lost.
    pub(super) fn enqueue(&mut self, napi: usize, packet: Packet) -> Option<SocketIx> {
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

    /// A socket has news: sleepers and event contexts are told.
    pub(super) fn socket_ready(&mut self, socket: usize) {
        let waiters = std::mem::take(&mut self.socks[socket].waiters);
        for ctx in waiters {
            self.wake(ctx);
        }
        for at in 0..self.socks[socket].watchers.len() {
            let ep = usize::from(self.socks[socket].watchers[at]);
            self.epoll_callback(ep, socket);
        }
    }

    /// `ep_poll_callback`.
    pub(super) fn epoll_callback(&mut self, ep: usize, socket: usize) {
        self.epoll_attach(ep, socket);
        let index = SocketIx(socket as u16);
        if !self.epolls[ep].ready.contains(&index) {
            self.epolls[ep].ready.push_back(index);
        }
        if !self.epolls[ep].waiters.is_empty() {
            let ctx = self.epolls[ep].waiters.remove(0);
            self.wake(ctx);
        }
    }

    /// `ep_set_busy_poll_napi_id`.
    pub(super) fn epoll_attach(&mut self, ep: usize, socket: usize) {
        let (id, first) = (self.socks[socket].busy.napi_id, self.ids.first());
        let ep = &mut self.epolls[ep];
        ep.slot = attach(ep.slot, &ep.params, self.sysctl.busy_poll, id, first);
    }

    /// Takes a packet out of a socket's queue.
    pub(super) fn take_packet(&mut self, socket: usize) -> bool {
        self.take_segments(socket).is_some()
    }

    /// The same; as how many segments it came from the wire.
    pub(super) fn take_segments(&mut self, socket: usize) -> Option<u32> {
        let (frame, segments) = self.socks[socket].queue.pop_front()?;
        self.socks[socket].taken += u64::from(segments);
        self.go(frame, FrameAt::Socket, FrameAt::Free);
        Some(segments)
    }

    /// An event context closes: its members have one watcher less.
    pub(super) fn leave_members(&mut self, ep: usize) {
        for member in std::mem::take(&mut self.epolls[ep].members) {
            self.socks[member.at()].watchers.retain(|watcher| usize::from(*watcher) != ep);
        }
    }
}
