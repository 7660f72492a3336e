//! A simulated NIC and the way of a packet from its ring to a socket.

use napier_core::completion::Flush;
use napier_core::config::ConfigTable;
use napier_core::control::DevSettings;
use napier_core::gro::{GroPacket, Merged};
use napier_core::moderation::Moderation;
use napier_core::rss::{DEFAULT_KEY, FlowV4, IndirectionTable, toeplitz};
use napier_core::state::State;
use napier_core::time::Instant;

use super::Plant;
use super::vm::CtxId;
use super::world::World;
use napier_scenario::{DropReason, Event, Packets, Quirk, SocketIx, Target};

/// Reasons that [`DropReason`] knows.
pub(super) const DROP_REASONS: usize = 6;

/// One device.
pub(super) struct Dev {
    pub(super) name: String,
    pub(super) up: bool,
    /// Queues in use at present.
    pub(super) queues: u16,
    pub(super) first_napi: usize,
    pub(super) all_queues: u16,
    pub(super) ring: usize,
    pub(super) persistent: bool,
    pub(super) no_busy_poll: bool,
    pub(super) merges: bool,
    pub(super) settings: DevSettings,
    pub(super) config: ConfigTable,
    pub(super) moderation: Vec<(Moderation, u32)>,
    /// The device lock and who waits for it.
    pub(super) locked: bool,
    pub(super) lock_waiters: Vec<CtxId>,
}

/// A packet: which frame holds it and where it goes.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Packet {
    pub(super) frame: u32,
    pub(super) socket: Option<SocketIx>,
    pub(super) flow: u32,
    hash: u32,
    pub(super) segments: u32,
    mergeable: bool,
    pub(super) syn: Option<SocketIx>,
    pub(super) napi_id: u32,
    /// It acknowledges only: it goes to its connection and makes nothing ready.
    pub(super) is_ack: bool,
    /// When it came to the ring.
    pub(super) came: Instant,
}

impl GroPacket for Packet {
    type Memory = ();

    fn flow_hash(&self) -> u32 {
        self.hash
    }

    fn mergeable(&self) -> bool {
        self.mergeable
    }

    fn same_flow(&self, held: &Self) -> bool {
        self.flow == held.flow && self.socket == held.socket
    }

    fn merge(&mut self, next: Self, (): &()) -> Merged<Self> {
        self.segments += next.segments;
        Merged::Held
    }

    fn segments(&self) -> u32 {
        self.segments
    }
}

/// Where a frame is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum FrameAt {
    Free,
    Ring,
    Stack,
    Socket,
}

/// All frames of the machine; grows on demand.
#[derive(Default)]
pub(super) struct Frames {
    at: Vec<FrameAt>,
    free: Vec<u32>,
}

impl Frames {
    /// A frame out of the pool.
    pub(super) fn take(&mut self) -> u32 {
        let frame = self.free.pop().unwrap_or_else(|| {
            self.at.push(FrameAt::Free);
            self.at.len() as u32 - 1
        });
        assert!(self.at[frame as usize] == FrameAt::Free, "a frame in the pool is free");
        self.at[frame as usize] = FrameAt::Ring;
        frame
    }

    /// Moves a frame on; false if it was not where it should have been.
    pub(super) fn go(&mut self, frame: u32, from: FrameAt, to: FrameAt) -> bool {
        let at = &mut self.at[frame as usize];
        if *at != from {
            return false;
        }
        *at = to;
        if to == FrameAt::Free {
            self.free.push(frame);
        }
        true
    }

    /// Frames that are out.
    pub(super) fn out(&self) -> usize {
        self.at.len() - self.free.len()
    }
}

impl World {
    /// One packet comes from the wire or over loopback.
    pub(super) fn packet_arrives(&mut self, packets: &Packets, nth: u32) {
        self.arrived += 1;
        let flow = if packets.own_flow { packets.flow.wrapping_add(nth) } else { packets.flow };
        let (socket, napi) = match packets.to {
            Target::Socket(socket) => (Some(socket), self.socks[socket.at()].napi),
            Target::Napi(napi) => (None, napi.at()),
        };
        let napi = if packets.rss { self.spread(napi, packets, flow) } else { napi };
        let mut packet = Packet {
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
    fn go_round(&mut self, napi: usize, packet: Packet) {
        self.go(packet.frame, FrameAt::Ring, FrameAt::Stack);
        self.up.packets.push(packet);
        self.up.lists.push(1);
        self.go_up(napi, false);
    }

    /// Something else than a packet makes a socket ready.
    pub(super) fn make_readable(&mut self, socket: SocketIx) {
        self.arrived += 1;
        let (frame, flow) = (self.frames.take(), u32::from(socket.0));
        let napi = self.socks[socket.at()].napi;
        let socket = Some(socket);
        let (hash, came) = (flow, self.now);
        let packet = Packet {
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

    /// A frame of a connection is there; false: it is lost.
    pub(super) fn put_in_rx_ring(&mut self, napi: usize, socket: Option<SocketIx>, is_ack: bool) -> bool {
        self.put_segments(napi, socket, 1, is_ack)
    }

    /// So many frames of a message are there, which GRO makes one; false: they are lost.
    pub(super) fn put_segments(&mut self, napi: usize, socket: Option<SocketIx>, segments: u32, is_ack: bool) -> bool {
        self.arrived += u64::from(segments);
        let flow = socket.map_or(0, |socket| u32::from(socket.0));
        let frame = self.frames.take();
        let (hash, came) = (flow, self.now);
        let packet =
            Packet { frame, socket, flow, hash, segments, mergeable: false, syn: None, napi_id: 0, is_ack, came };
        self.enter_rx_ring(napi, packet)
    }

    /// False: it is lost.
    fn enter_rx_ring(&mut self, napi: usize, packet: Packet) -> bool {
        let n = &self.napis[napi];
        let dev = &self.devs[n.dev];
        let lost = if !dev.up {
            Some(DropReason::DeviceDown)
        } else if n.queue >= dev.queues || !n.present {
            Some(DropReason::NoQueue)
        } else if n.ring.len() >= dev.ring {
            Some(DropReason::RingFull)
        } else {
            None
        };
        if let Some(why) = lost {
            self.go(packet.frame, FrameAt::Ring, FrameAt::Free);
            self.lose(napi, why, packet.segments);
            return false;
        }
        self.napis[napi].ring.push_back(packet);
        self.touch(napi);
        if !self.napis[napi].masked {
            self.moderate(napi);
        }
        true
    }

    /// Receive-side scaling: the instance of the queue that the flow's hash falls on.
    fn spread(&self, napi: usize, packets: &Packets, flow: u32) -> usize {
        let place = match packets.to {
            Target::Socket(socket) => socket.0,
            Target::Napi(_) => 0,
        };
        let dev = &self.devs[self.napis[napi].dev];
        let flow = FlowV4 {
            src: [10, 0, 0, 1],
            dst: [10, 0, 0, 2],
            src_port: (flow as u16).wrapping_add(1024),
            dst_port: place.wrapping_add(4000),
        };
        let hash = packets.hash.unwrap_or_else(|| toeplitz(&DEFAULT_KEY, &flow.input()));
        dev.first_napi + usize::from(IndirectionTable::equal(dev.queues).queue(hash))
    }

    /// The poll takes `count` packets off the ring and hands them to the stack.
    pub(super) fn receive(&mut self, napi: usize, count: u32) {
        let (jiffy, batch) = (self.jiffy(), self.sysctl.gro_normal_batch);
        for _ in 0..count {
            let mut packet = self.napis[napi].ring.pop_front().expect("counted by the caller");
            self.go(packet.frame, FrameAt::Ring, FrameAt::Stack);
            if self.plant == Plant::UncountedLoss && self.napis[napi].packets.is_multiple_of(50) {
                self.go(packet.frame, FrameAt::Stack, FrameAt::Free);
                continue;
            }
            packet.napi_id = if self.napis[napi].id_visible { self.napis[napi].id } else { 0 };
            let merge = &mut self.napis[napi].merge;
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
    pub(super) fn flush(&mut self, napi: usize, which: Flush) {
        let jiffy = self.jiffy();
        let merge = &mut self.napis[napi].merge;
        if !merge.held() {
            return;
        }
        let up = &mut self.up;
        merge.gro.flush(which, jiffy, self.sysctl.gro_normal_batch, &mut |list| up.take(list));
        self.go_up(napi, true);
    }

    /// The pending list goes up the stack.
    pub(super) fn deliver(&mut self, napi: usize) {
        let up = &mut self.up;
        self.napis[napi].merge.gro.deliver(&mut |list| up.take(list));
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

    /// Counts lost packets.
    pub(super) fn lose(&mut self, napi: usize, why: DropReason, packets: u32) {
        self.drops[why as usize] += u64::from(packets);
        let index = self.napis[napi].index;
        self.note(Event::Drop { napi: index, why, packets });
    }

    /// Everything that waits in the instance is lost, and counted.
    pub(super) fn drop_all(&mut self, napi: usize) {
        let mut lost = 0;
        while let Some(packet) = self.napis[napi].ring.pop_front() {
            self.go(packet.frame, FrameAt::Ring, FrameAt::Free);
            lost += packet.segments;
        }
        let waiting: Vec<u32> = self.napis[napi].merge.frames().collect();
        for frame in waiting {
            self.go(frame, FrameAt::Stack, FrameAt::Free);
        }
        lost += self.napis[napi].merge.gro.drop_all();
        if lost > 0 {
            self.lose(napi, DropReason::Disabled, lost);
        }
    }

    /// Moves a frame; one that is not where it should be has been used twice.
    pub(super) fn go(&mut self, frame: u32, from: FrameAt, to: FrameAt) {
        if !self.frames.go(frame, from, to) {
            self.fail(format!("frame {frame} is not in {from:?}, where it should leave for {to:?}"));
        }
    }

    /// The driver's poll begins: by the owner alone, and never twice at once.
    pub(super) fn enter_poll(&mut self, napi: usize, me: CtxId) {
        let n = &mut self.napis[napi];
        let wrong = if let Some(other) = n.polling {
            Some(format!("polled by context {me} while {other} polls"))
        } else if !n.word.contains(State::SCHED) {
            Some("polled without an owner".to_owned())
        } else if n.word.contains(State::NPSVC) {
            Some("polled while disabled".to_owned())
        } else {
            None
        };
        n.polling = Some(me);
        if let Some(wrong) = wrong {
            let name = self.napi_name(napi);
            self.fail(format!("{name}: {wrong}"));
        }
    }

    /// The driver's poll ends.
    pub(super) fn leave_poll(&mut self, napi: usize, me: CtxId) {
        let n = &mut self.napis[napi];
        if n.polling.take() != Some(me) && n.quirk == Quirk::None {
            let name = self.napi_name(napi);
            self.fail(format!("{name}: a poll ended that had not begun"));
        }
    }

    /// The releasing context has armed or unmasked, or will do neither.
    pub(super) fn finished(&mut self, napi: usize) {
        self.napis[napi].finishing -= 1;
        self.touch(napi);
    }
}
