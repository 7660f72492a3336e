//! What the kernel counts of sockets.

use std::sync::Arc;

use napier_sys::xsk::XskSocket;

/// What the kernel counts (`XDP_STATISTICS`), summed over sockets.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct XskStats {
    /// Packets dropped for other reasons than a full receive ring: longer than a frame, or no frame to fill.
    pub rx_dropped: u64,
    /// Frames to fill that the kernel did not accept.
    pub rx_invalid_descs: u64,
    /// Packets to send that the kernel did not accept.
    pub tx_invalid_descs: u64,
    /// Packets dropped because the receive ring was full: the poller is too slow.
    pub rx_ring_full: u64,
    /// Times that the kernel found no frame to fill.
    pub rx_fill_ring_empty_descs: u64,
    /// Times that the kernel found nothing to send.
    pub tx_ring_empty_descs: u64,
}

napier_core::shown!(XskStats {
    rx_dropped,
    rx_invalid_descs,
    tx_invalid_descs,
    rx_ring_full,
    rx_fill_ring_empty_descs,
    tx_ring_empty_descs
});

/// The sum over these sockets, as far as the kernel tells.
#[must_use]
pub fn statistics(sockets: &[Arc<XskSocket>]) -> XskStats {
    let all = sockets.iter().filter_map(|socket| socket.statistics().ok());
    all.fold(XskStats::default(), |sum, one| XskStats {
        rx_dropped: sum.rx_dropped + one.rx_dropped,
        rx_invalid_descs: sum.rx_invalid_descs + one.rx_invalid_descs,
        tx_invalid_descs: sum.tx_invalid_descs + one.tx_invalid_descs,
        rx_ring_full: sum.rx_ring_full + one.rx_ring_full.unwrap_or(0),
        rx_fill_ring_empty_descs: sum.rx_fill_ring_empty_descs + one.rx_fill_ring_empty_descs.unwrap_or(0),
        tx_ring_empty_descs: sum.tx_ring_empty_descs + one.tx_ring_empty_descs.unwrap_or(0),
    })
}
