//! The way of a packet from a ring to a socket.

use napier_core::completion::Flush;

use crate::machine::dev::frames::{FrameAt, RxPacket};
use crate::machine::net::Network;
use crate::machine::sim::plant::Plant;
use napier_scenario::{Event, Packets, SocketIx, Target};

impl Network {
    /// A frame without data has reached its connection.
    pub(crate) fn take_ack(&mut self, frame: u32) {
        self.acks += 1;
        self.go(frame, FrameAt::Stack, FrameAt::Free);
    }

    /// One packet comes from the wire or over loopback.
    pub(crate) fn packet_arrives(&mut self, packets: &Packets, nth: u32) {
        self.arrived += 1;
        let flow = if packets.own_flow { packets.flow.wrapping_add(nth) } else { packets.flow };
        let (socket, napi) = match packets.to {
            Target::Socket(socket) => (Some(socket), self.socks[socket.at()].napi),
            Target::Napi(napi) => (None, napi.at()),
        };
        let napi = if packets.rss { self.spread(napi, packets, flow) } else { napi };
        let mut packet = RxPacket {
            frame: self.frames.take(),
            socket,
            flow,
            hash: packets.hash.unwrap_or(flow),
            segments: 1,
            mergeable: packets.mergeable && self.devs[self.napis[napi].dev].merges,
            syn: packets.syn,
            napi_id: 0,
            is_ack: false,
            came: self.now,
        };
        if packets.loopback {
            // No NAPI instance marks it; the field holds the sender's CPU, counted from 1.
            packet.napi_id = 1;
            self.go_round(napi, packet);
            return;
        }
        self.enter_rx_ring(napi, packet);
    }

    /// A packet reaches its socket without a ring.
    fn go_round(&mut self, napi: usize, packet: RxPacket) {
        self.go(packet.frame, FrameAt::Ring, FrameAt::Stack);
        self.up.packets.push(packet);
        self.up.lists.push(1);
        self.go_up(napi, false);
    }

    /// Something else than a packet makes a socket ready.
    pub(crate) fn make_readable(&mut self, socket: SocketIx) {
        self.arrived += 1;
        let (frame, flow) = (self.frames.take(), u32::from(socket.0));
        let napi = self.socks[socket.at()].napi;
        let socket = Some(socket);
        let (hash, came) = (flow, self.now);
        let packet = RxPacket {
            frame,
            socket,
            flow,
            hash,
            segments: 1,
            mergeable: false,
            syn: None,
            napi_id: 0,
            is_ack: false,
            came,
        };
        self.go_round(napi, packet);
    }

    /// The poll takes `count` packets off the ring and hands them to the stack.
    pub(crate) fn receive(&mut self, napi: usize, count: u32) {
        let (jiffy, batch) = (self.jiffy(), self.sysctl.gro_normal_batch);
        for _ in 0..count {
            let mut packet = self.napis[napi].ring.pop_front().expect("counted by the caller");
            self.go(packet.frame, FrameAt::Ring, FrameAt::Stack);
            if self.plant == Plant::UncountedLoss && self.napis[napi].packets.is_multiple_of(50) {
                self.go(packet.frame, FrameAt::Stack, FrameAt::Free);
                continue;
            }
            packet.napi_id = if self.napis[napi].id_visible { self.napis[napi].id } else { 0 };
            let merge = &mut self.below.napis[napi].merge;
            let up = &mut self.up;
            let before = if packet.mergeable { merge.packets() + up.packets.len() } else { 0 };
            merge.gro.receive(packet, &(), jiffy, batch, &mut |list| up.take(list));
            if packet.mergeable && merge.packets() + up.packets.len() == before {
                // It joined another packet: its own frame is empty now.
                self.go(packet.frame, FrameAt::Stack, FrameAt::Free);
            }
            self.go_up(napi, true);
        }
    }

    /// Completes held packets.
    pub(crate) fn flush(&mut self, napi: usize, which: Flush) {
        let jiffy = self.jiffy();
        let merge = &mut self.below.napis[napi].merge;
        if !merge.held() {
            return;
        }
        let up = &mut self.up;
        merge.gro.flush(which, jiffy, self.sysctl.gro_normal_batch, &mut |list| up.take(list));
        self.go_up(napi, true);
    }

    /// The pending list goes up the stack.
    pub(crate) fn deliver(&mut self, napi: usize) {
        let up = &mut self.up;
        self.below.napis[napi].merge.gro.deliver(&mut |list| up.take(list));
        self.go_up(napi, true);
    }

    /// Lists that left the instance reach the sockets.
    fn go_up(&mut self, napi: usize, log_list: bool) {
        if self.up.lists.is_empty() {
            return;
        }
        let mut up = std::mem::take(&mut self.up);
        let mut packets = up.packets.drain(..);
        for len in up.lists.drain(..) {
            if log_list {
                let index = self.napis[napi].index;
                self.note(Event::List { napi: index, packets: len as u32 });
            }
            let mut run: Option<(SocketIx, u32)> = None;
            for packet in packets.by_ref().take(len) {
                let to = self.enqueue(napi, packet);
                match (&mut run, to) {
                    (Some((socket, count)), Some(to)) if *socket == to => *count += packet.segments,
                    (_, to) => {
                        self.note_delivered(run.take());
                        run = to.map(|socket| (socket, packet.segments));
                    }
                }
            }
            self.note_delivered(run);
        }
        drop(packets);
        self.up = up;
    }

    fn note_delivered(&mut self, run: Option<(SocketIx, u32)>) {
        if let Some((socket, packets)) = run {
            self.note(Event::Deliver { socket, packets });
            self.socket_ready(socket.at());
        }
    }
}
