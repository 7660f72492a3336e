//! A device as the engine knows it: its transmit queues, its addresses, its settings.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use napier_core::rss::{FlowV4, FlowV6, IndirectionTable, ToeplitzTable};
use napier_core::tx::XmitCode;

use crate::port::Taps;
use crate::tx::{Mode, OnWire, Queues, Transmitted, TxPath, TxShared};
use napier_stack::NetNs;
use napier_stack::device::{Egress, IfAddr, OnRoom, PacketClass, TxError};

/// Receive-side scaling of one device: the thread that sends to it asks for the queue.
pub(crate) struct Rss {
    pub(crate) toeplitz: ToeplitzTable,
    pub(crate) indirection: ArcSwap<IndirectionTable>,
}

impl Rss {
    /// The hash that receive-side scaling computes for a datagram with these ends.
    pub(crate) fn hash(&self, src: &SocketAddr, dst: &SocketAddr) -> u32 {
        let (src_port, dst_port) = (src.port(), dst.port());
        match (src.ip(), dst.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let flow = FlowV4 { src: src.octets(), dst: dst.octets(), src_port, dst_port };
                self.toeplitz.hash(&flow.input())
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let flow = FlowV6 { src: src.octets(), dst: dst.octets(), src_port, dst_port };
                self.toeplitz.hash(&flow.input())
            }
            // No packet has ends of both kinds.
            _ => 0,
        }
    }
}

/// One device.
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) ifindex: u32,
    pub(crate) facts: Facts,
    /// Packets that were received with a wrong checksum.
    pub(crate) wrong_checksums: AtomicU64,
    /// It is an end of a link.
    pub(crate) in_process: bool,
    pub(crate) addresses: Vec<IfAddr>,
    pub(crate) netns: NetNs,
    /// The transmit path of each queue.
    pub(crate) tx: Vec<Arc<TxPath>>,
    pub(crate) tx_shared: Arc<TxShared>,
    /// Sockets choose the transmit queue by the processor that they send on.
    pub(crate) tx_by_cpu: AtomicBool,
    pub(crate) rss: Arc<Rss>,
    /// The device at the other end: its table decides which of our queues leads where.
    pub(crate) peer_rss: Arc<Rss>,
    pub(crate) up: AtomicBool,
    /// It was taken out of its engine: handles show what it was, and change nothing.
    pub(crate) removed: AtomicBool,
    /// Held by the thread that changes `threaded` of its instances; before the control lock.
    pub(crate) threaded_changes: Mutex<()>,
    /// Packets refused because the device was down.
    pub(crate) tx_down: AtomicU64,
    /// Packets of a flow may be merged (`ethtool -K gro`).
    pub(crate) merges: AtomicBool,
    /// Where its frames can be captured.
    pub(crate) taps: Taps,
}

/// What can change of an interface that a device is on. The name space is told when it does.
pub(crate) struct Facts {
    mac: AtomicU64,
    mtu: AtomicU32,
}

impl Facts {
    pub(crate) fn new(mac: [u8; 6], mtu: u32) -> Self {
        Self { mac: AtomicU64::new(number(mac)), mtu: AtomicU32::new(mtu) }
    }
}

fn number([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

impl Device {
    /// Its Ethernet address.
    pub(crate) fn mac(&self) -> [u8; 6] {
        // Relaxed, here and below: each is a number by itself, and who works with it is told by the name space.
        let [_, _, a, b, c, d, e, f] = self.facts.mac.load(Ordering::Relaxed).to_be_bytes();
        [a, b, c, d, e, f]
    }

    /// Another Ethernet address, unless it stays, and another MTU; true if something has changed.
    pub(crate) fn set_facts(&self, mac: Option<[u8; 6]>, mtu: u32) -> bool {
        let mac = mac.map(number).filter(|mac| self.facts.mac.swap(*mac, Ordering::Relaxed) != *mac);
        self.facts.mtu.swap(mtu, Ordering::Relaxed) != mtu || mac.is_some()
    }

    /// Takes the transmit lock of queue `queue`, for one frame or one batch, never over a wait.
    #[inline]
    pub(crate) fn claim_tx(&self, queue: usize) -> OnWire<'_> {
        self.tx[queue].claim_wire()
    }

    /// Its transmit queues, to be changed; none of one that was removed.
    pub(crate) fn tx_queues(&self) -> Queues<'_> {
        let paths = if self.is_removed() { &[][..] } else { &self.tx };
        Queues { device: &self.name, paths, shared: &self.tx_shared }
    }

    /// Whether it was taken out of its engine.
    pub(crate) fn is_removed(&self) -> bool {
        // Pairs with the Release where it is removed.
        self.removed.load(Ordering::Acquire)
    }

    /// The transmit queue whose frames the peer receives for this hash.
    #[inline]
    pub(crate) fn tx_queue_of(&self, hash: u32) -> usize {
        if self.tx.len() == 1 { 0 } else { usize::from(self.peer_rss.indirection.load().queue(hash)) }
    }
}

impl Egress for Device {
    fn ifindex(&self) -> u32 {
        self.ifindex
    }

    fn mac(&self) -> [u8; 6] {
        Self::mac(self)
    }

    fn mtu(&self) -> u32 {
        self.facts.mtu.load(Ordering::Relaxed)
    }

    fn note_wrong_checksum(&self) {
        self.wrong_checksums.fetch_add(1, Ordering::Relaxed);
    }

    fn is_in_process(&self) -> bool {
        self.in_process
    }

    fn addresses(&self) -> Vec<IfAddr> {
        self.addresses.clone()
    }

    fn rss_hash(&self, src: &SocketAddr, dst: &SocketAddr) -> u32 {
        self.peer_rss.hash(src, dst)
    }

    fn pick_queue(&self) -> Option<u16> {
        let by_cpu = self.tx.len() > 1 && self.tx_by_cpu.load(Ordering::Relaxed);
        by_cpu.then(|| (rustix::thread::sched_getcpu() % self.tx.len()) as u16) // fewer than 2^16 queues
    }

    fn transmit(
        &self,
        class: &PacketClass,
        len_max: usize,
        build: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> Result<(), TxError> {
        self.transmit_on(self.queue_of(class), class, len_max, build)
    }

    fn look_for_room(&self, class: &PacketClass) {
        self.tx[self.queue_of(class)].look();
    }

    fn look_for_credit(&self) {
        self.tx.iter().for_each(|path| path.look_for_credit());
    }

    fn await_room(&self, class: &PacketClass, waiter: Arc<dyn OnRoom>) -> bool {
        self.tx[self.queue_of(class)].await_room(&waiter);
        true
    }
}

impl Device {
    fn queue_of(&self, class: &PacketClass) -> usize {
        class.queue.map_or_else(|| self.tx_queue_of(class.flow_hash), usize::from)
    }

    /// Transmits by way of the queue's discipline, if it has one.
    #[inline]
    pub(crate) fn transmit_on(
        &self,
        queue: usize,
        class: &PacketClass,
        len_max: usize,
        build: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> Result<(), TxError> {
        if !self.up.load(Ordering::Relaxed) {
            self.tx_down.fetch_add(1, Ordering::Relaxed);
            return Err(TxError::Down);
        }
        let path = &self.tx[queue];
        if path.mode() != Mode::Noqueue {
            match path.transmit(class, len_max, build) {
                Transmitted::Code(XmitCode::Success | XmitCode::Congested) => return Ok(()),
                Transmitted::Code(XmitCode::Drop | XmitCode::Error(_)) => return Err(TxError::Dropped),
                Transmitted::Exhausted if class.comes_again => return Err(TxError::Busy),
                Transmitted::Exhausted => return Err(TxError::Full),
                Transmitted::Direct => {}
            }
        }
        path.send_direct(len_max, build)
    }
}
