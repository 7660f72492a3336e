//! A simulated NIC: its settings, and its receive rings.

use napier_core::config::ConfigTable;
use napier_core::control::DevSettings;
use napier_core::moderation::Moderation;
use napier_core::rss::{DEFAULT_KEY, FlowV4, IndirectionTable, toeplitz};

use crate::machine::dev::Devices;
use crate::machine::dev::frames::{FrameAt, RxPacket};
use crate::machine::sim::event::CtxId;
use napier_scenario::{DropReason, Event, Packets, SocketIx, Target};

/// One device.
pub(crate) struct Dev {
    pub(crate) name: String,
    pub(crate) up: bool,
    /// Queues in use at present.
    pub(crate) queues: u16,
    pub(crate) first_napi: usize,
    pub(crate) all_queues: u16,
    pub(crate) ring: usize,
    pub(crate) persistent: bool,
    pub(crate) no_busy_poll: bool,
    pub(crate) merges: bool,
    pub(crate) settings: DevSettings,
    pub(crate) config: ConfigTable,
    pub(crate) moderation: Vec<(Moderation, u32)>,
    /// The device lock and who waits for it.
    pub(crate) locked: bool,
    pub(crate) lock_waiters: Vec<CtxId>,
}

impl Devices {
    /// A frame of a connection is there; false: it is lost.
    pub(crate) fn put_in_rx_ring(&mut self, napi: usize, socket: Option<SocketIx>, is_ack: bool) -> bool {
        self.put_segments(napi, socket, 1, is_ack)
    }

    /// So many frames of a message are there, which GRO makes one; false: they are lost.
    pub(crate) fn put_segments(&mut self, napi: usize, socket: Option<SocketIx>, segments: u32, is_ack: bool) -> bool {
        self.arrived += u64::from(segments);
        let flow = socket.map_or(0, |socket| u32::from(socket.0));
        let frame = self.frames.take();
        let (hash, came) = (flow, self.now);
        let packet =
            RxPacket { frame, socket, flow, hash, segments, mergeable: false, syn: None, napi_id: 0, is_ack, came };
        self.enter_rx_ring(napi, packet)
    }

    /// False: it is lost.
    pub(crate) fn enter_rx_ring(&mut self, napi: usize, packet: RxPacket) -> bool {
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
    pub(crate) fn spread(&self, napi: usize, packets: &Packets, flow: u32) -> usize {
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

    /// Counts lost packets.
    pub(crate) fn lose(&mut self, napi: usize, why: DropReason, packets: u32) {
        self.drops[why as usize] += u64::from(packets);
        let index = self.napis[napi].index;
        self.note(Event::Drop { napi: index, why, packets });
    }

    /// Everything that waits in the instance is lost, and counted.
    pub(crate) fn drop_all(&mut self, napi: usize) {
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
    pub(crate) fn go(&mut self, frame: u32, from: FrameAt, to: FrameAt) {
        if !self.frames.go(frame, from, to) {
            self.fail(format!("frame {frame} is not in {from:?}, where it should leave for {to:?}"));
        }
    }
}
