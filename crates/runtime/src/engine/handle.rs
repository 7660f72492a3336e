//! What the holder of a device can ask of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::table::DeviceEntry;
use super::{EngineInner, LinkState};
use crate::napi::{Napi, NapiStats};
use crate::netdev::Device;
use crate::port::{FrameAccount, RxCounters, TxCounters};
use napier_stack::NetNs;

/// Counters of a device since it was added. Whatever is lost on it is counted here.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub struct DeviceStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes of them, Ethernet headers included.
    pub rx_bytes: u64,
    /// Packets lost because sockets held all frames.
    pub rx_no_frame: u64,
    /// Packets lost because the peer described them wrongly.
    pub rx_bad_descriptors: u64,
    /// Times that the peer's ring index was impossible; nothing was read then.
    pub rx_index_errors: u64,
    /// Packets dropped because they are longer than a frame. Of an interface of the kernel the kernel counts them
    /// ([`XdpStats::rx_dropped`](crate::device::XdpStats::rx_dropped)).
    pub rx_too_long: u64,
    /// Packets dropped because their checksum was wrong; the name space counts them by protocol.
    pub rx_wrong_checksums: u64,
    /// Packets put into rings.
    pub tx_packets: u64,
    /// Bytes of them.
    pub tx_bytes: u64,
    /// Times that a full ring refused a packet; a blocking sender tries again, so not each is a loss.
    pub tx_ring_full: u64,
    /// Packets refused because no frame was free.
    pub tx_no_frame: u64,
    /// Packets dropped because they exceed the buffers of a peer in another process.
    pub tx_too_long: u64,
    /// Packets refused because the device was down.
    pub tx_down: u64,
    /// Packets that queueing disciplines dropped, those that were taken away since included, or their defer lists refused.
    pub tx_qdisc_drops: u64,
    /// Of these, packets whose sender was told; sockets count them as SndbufErrors.
    pub tx_qdisc_drops_told: u64,
    /// Buffers of the peer that could not be used.
    pub tx_bad_descriptors: u64,
    /// Times that the peer's ring index was impossible.
    pub tx_index_errors: u64,
    /// Publications that rang the peer's doorbell or started its coalescing timer.
    pub tx_kicks: u64,
    /// Interrupts raised for this device.
    pub interrupts: u64,
    /// Publications by the peer that raised none: masked, latched or coalesced.
    pub interrupts_suppressed: u64,
}

napier_core::shown!(DeviceStats {
    rx_packets,
    rx_bytes,
    rx_no_frame,
    rx_bad_descriptors,
    rx_index_errors,
    rx_too_long,
    rx_wrong_checksums,
    tx_packets,
    tx_bytes,
    tx_ring_full,
    tx_no_frame,
    tx_too_long,
    tx_down,
    tx_qdisc_drops,
    tx_qdisc_drops_told,
    tx_bad_descriptors,
    tx_index_errors,
    tx_kicks,
    interrupts,
    interrupts_suppressed
});

/// How long [`DeviceHandle::wait_link`] goes without a look.
const LOOK: Duration = Duration::from_millis(1);

/// A device of an engine.
#[derive(Clone)]
pub struct DeviceHandle {
    pub(crate) engine: Arc<EngineInner>,
    pub(crate) device: Arc<Device>,
}

impl DeviceHandle {
    /// Name of the device.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.name
    }

    /// Number of the interface.
    #[must_use]
    pub fn ifindex(&self) -> u32 {
        self.device.ifindex
    }

    /// The name space that the device is in.
    #[must_use]
    pub fn netns(&self) -> &NetNs {
        &self.device.netns
    }

    /// Ethernet address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.device.mac()
    }

    /// Receive queues, each with a NAPI instance.
    #[must_use]
    pub fn queues(&self) -> u16 {
        u16::try_from(self.device.tx.len()).expect("a link has at most 64 queues")
    }

    /// NAPI id of a queue, 0 if the queue does not exist, or the device no more.
    #[must_use]
    pub fn napi_id(&self, queue: u16) -> u32 {
        let napi = self.napi(queue).filter(|_| !self.device.is_removed());
        napi.map_or(0, |napi| napi.id())
    }

    pub(crate) fn napi(&self, queue: u16) -> Option<Arc<Napi>> {
        let devices = self.engine.devices.lock();
        devices.entry(&self.device).napis.get(usize::from(queue)).cloned()
    }

    /// Processor that takes the interrupts of a queue.
    #[must_use]
    pub fn irq_cpu(&self, queue: u16) -> Option<usize> {
        self.napi(queue).map(|napi| self.engine.deliver.softirq[napi.irq_cpu() as usize].cpu)
    }

    /// The queue that receives datagrams with these ends, by receive-side scaling.
    #[must_use]
    pub fn rx_queue_of(&self, src: SocketAddr, dst: SocketAddr) -> u16 {
        self.device.rss.indirection.load().queue(self.device.rss.hash(&src, &dst))
    }

    /// Counters of a queue's instance.
    #[must_use]
    pub fn napi_stats(&self, queue: u16) -> NapiStats {
        self.napi(queue).map_or_else(NapiStats::default, |napi| napi.stats())
    }

    /// Whether packets of a flow are merged where a socket takes merged ones (`ethtool -K gro`, default yes), from the next
    /// poll of each instance on. What is held then goes up at the next flush.
    pub fn set_gro(&self, on: bool) {
        self.device.merges.store(on, Ordering::Relaxed);
    }

    /// Whether packets of a flow are merged.
    #[must_use]
    pub fn gro(&self) -> bool {
        self.device.merges.load(Ordering::Relaxed)
    }

    /// Counters of the device, over all queues (`ip -s -s link`).
    #[must_use]
    pub fn stats(&self) -> DeviceStats {
        let devices = self.engine.devices.lock();
        devices.entry(&self.device).stats()
    }
}

impl DeviceEntry {
    /// Counters of the device; no lock of a sender or a poller is taken.
    pub(super) fn stats(&self) -> DeviceStats {
        let rx = |of: fn(&RxCounters) -> u64| self.rx_counters.iter().map(|counters| of(counters)).sum();
        let tx = |of: fn(&TxCounters) -> u64| self.tx_counters.iter().map(|counters| of(counters)).sum();
        let (drops, told): (Vec<u64>, Vec<u64>) = self.device.tx.iter().map(|path| path.drops()).unzip();
        DeviceStats {
            rx_packets: rx(|c| c.packets.get()),
            rx_bytes: rx(|c| c.bytes.get()),
            rx_no_frame: rx(|c| c.no_frame_drops.get()),
            rx_bad_descriptors: rx(|c| c.bad_descriptors.get()),
            rx_index_errors: rx(|c| c.index_errors.get()),
            rx_too_long: rx(|c| c.too_long.get()),
            rx_wrong_checksums: self.device.wrong_checksums.load(Ordering::Relaxed),
            tx_packets: tx(|c| c.packets.get()),
            tx_bytes: tx(|c| c.bytes.get()),
            tx_ring_full: tx(|c| c.tx_full_drops.get()),
            tx_no_frame: tx(|c| c.no_frame_drops.get()),
            tx_too_long: tx(|c| c.too_long_drops.get()),
            tx_down: self.device.tx_down.load(Ordering::Relaxed),
            tx_qdisc_drops: drops.iter().sum(),
            tx_qdisc_drops_told: told.iter().sum(),
            tx_bad_descriptors: tx(|c| c.bad_descriptors.get()),
            tx_index_errors: tx(|c| c.index_errors.get()),
            tx_kicks: tx(|c| c.kicks.get()),
            interrupts: self.napis.iter().map(|napi| napi.irq.interrupts()).sum(),
            interrupts_suppressed: self.napis.iter().map(|napi| napi.irq.suppressed()).sum(),
        }
    }
}

impl DeviceHandle {
    /// Frames of the device that are in no pool and in no ring: in sockets, in a program's hands, or
    /// lost. 0 at rest. Stops each instance for a moment.
    #[must_use]
    pub fn frames_out(&self) -> i64 {
        let queues = 0..self.queues();
        let received = queues.clone().filter_map(|queue| self.napi(queue));
        let received = received.map(|napi| self.engine.deliver.with_stopped(&napi, |owned| owned.account()));
        let received = received.sum::<FrameAccount>();
        // No thread sends meanwhile: a frame on its way would be counted twice or not at all.
        let senders = self.device.tx_shared.hold_senders();
        let mut wires: Vec<_> = queues.map(|queue| self.device.claim_tx(usize::from(queue))).collect();
        let sent = wires.iter_mut().map(|wire| {
            wire.queue.reclaim();
            wire.queue.account()
        });
        let sent = sent.sum::<FrameAccount>();
        let pools = senders.into_iter().map(|mut sender| FrameAccount::pooled(&mut sender.pool));
        (received + sent + pools.sum()).out()
    }

    /// Whether the device has a peer, and who it is.
    #[must_use]
    pub fn link_state(&self) -> LinkState {
        self.engine.devices.lock().entry(&self.device).carrier.state().clone()
    }

    /// Waits until the device has a peer; false if it has none after `at_most` (`None`: for ever), or never will ([`LinkState::gone`]).
    #[must_use]
    pub fn wait_link(&self, at_most: impl Into<Option<Duration>>) -> bool {
        // A time that the clock does not reach is for ever.
        let until = at_most.into().and_then(|at_most| Instant::now().checked_add(at_most));
        loop {
            let LinkState { carrier, gone, .. } = self.link_state();
            if carrier || gone {
                return carrier;
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Takes the device down (`ip link set down`): its instances are disabled and nothing is sent.
    pub fn set_down(&self) {
        let mut devices = self.engine.devices.lock();
        let entry = devices.entry_mut(&self.device);
        entry.admin_up = false;
        self.engine.devices.follow_carrier(entry).expect("nothing is watched on the way down");
    }

    /// Brings the device up again, now or as soon as there is carrier.
    ///
    /// # Errors
    /// The system refused to watch a doorbell; `ESHUTDOWN` if the engine has stopped; `ENODEV` if the device was removed. It stays down then.
    pub fn set_up(&self) -> std::io::Result<()> {
        if self.engine.deliver.is_closing() {
            return Err(rustix::io::Errno::SHUTDOWN.into());
        }
        let mut devices = self.engine.devices.lock();
        let Some(entry) = devices.find_mut(&self.device) else { return Err(rustix::io::Errno::NODEV.into()) };
        entry.admin_up = true;
        Ok(self.engine.devices.follow_carrier(entry).inspect_err(|_| entry.admin_up = false)?)
    }
}
