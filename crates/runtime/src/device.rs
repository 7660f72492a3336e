//! A device as the engine knows it: its transmit queues, its addresses, its settings.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use napier_core::rss::{FlowV4, FlowV6, IndirectionTable, ToeplitzTable};
use napier_ring::{Entered, Exclusive};

use crate::link::TxQueue;
use crate::stack::NetNs;
use crate::stack::seams::{Egress, IfAddr, TxError};

/// Spins for a transmit queue that somebody else is filling before the processor is offered to others.
const CLAIM_SPINS: u32 = 128;

/// Receive-side scaling of one device: whoever sends to it asks for the queue.
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
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: u32,
    pub(crate) addresses: Vec<IfAddr>,
    pub(crate) netns: NetNs,
    pub(crate) tx: Vec<Exclusive<TxQueue>>,
    pub(crate) rss: Arc<Rss>,
    /// The device at the other end: its table decides which of our queues leads where.
    pub(crate) peer_rss: Arc<Rss>,
    pub(crate) up: AtomicBool,
    /// Packets refused because the device was down.
    pub(crate) tx_down: AtomicU64,
}

impl Device {
    /// Claims transmit queue `queue`. The claim lasts for one frame or one batch, never over a wait.
    #[inline]
    pub(crate) fn claim_tx(&self, queue: usize) -> Entered<'_, TxQueue> {
        let mut spins = 0;
        loop {
            if let Some(claimed) = self.tx[queue].try_enter() {
                return claimed;
            }
            spins += 1;
            if spins % CLAIM_SPINS == 0 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
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
        self.mac
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }

    fn addresses(&self) -> Vec<IfAddr> {
        self.addresses.clone()
    }

    fn rss_hash(&self, src: &SocketAddr, dst: &SocketAddr) -> u32 {
        self.peer_rss.hash(src, dst)
    }

    fn transmit(
        &self,
        flow_hash: u32,
        len_max: usize,
        build: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> Result<(), TxError> {
        if !self.up.load(Ordering::Relaxed) {
            self.tx_down.fetch_add(1, Ordering::Relaxed);
            return Err(TxError::Down);
        }
        let mut queue = self.claim_tx(self.tx_queue_of(flow_hash));
        if queue.build(len_max, |slot| build(slot)).is_err() {
            return Err(TxError::Full);
        }
        queue.flush();
        Ok(())
    }
}
