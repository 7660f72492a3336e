//! Devices as a whole.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::metric::{Kind, Metric, Sink, Unit};

use super::{figures, metric};
use crate::engine::DeviceStats;
use crate::engine::devices::EngineDevices;
use crate::napi::Napi;
use crate::netdev::Device;
use crate::port::tap::Counters as CaptureCounters;
#[cfg(feature = "xdp")]
use crate::port::xsk::{Attachment, XdpStats};

/// A name alone may be that of several devices, in name spaces of their own.
const LABELS: &[&str] = &["device", "ifindex"];

figures! {
    DEVICE, fn device(DeviceStats), LABELS;
    rx_packets: Counter Count "napier_device_rx_packets" "Packets received";
    rx_bytes: Counter Bytes "napier_device_rx" "Bytes received, Ethernet headers included";
    rx_no_frame: Counter Count "napier_device_rx_no_frame" "Packets lost because sockets held all frames";
    rx_bad_descriptors: Counter Count "napier_device_rx_bad_descriptors" "Packets lost because the peer described them wrongly";
    rx_too_long: Counter Count "napier_device_rx_too_long" "Packets dropped because they are longer than a frame, in one piece or in several";
    rx_wrong_checksums: Counter Count "napier_device_rx_wrong_checksums" "Packets dropped because their checksum was wrong: on veth the sender has to compute them (ethtool -K PEER tx off)";
    rx_index_errors: Counter Count "napier_device_rx_index_errors" "Times that the index of the peer's transmit ring was impossible and nothing was read";
    tx_packets: Counter Count "napier_device_tx_packets" "Packets put into transmit rings";
    tx_bytes: Counter Bytes "napier_device_tx" "Bytes put into transmit rings, Ethernet headers included";
    tx_ring_full: Counter Count "napier_device_tx_ring_full" "Times that a full ring refused a packet; a sender that blocks tries again, so not each is a loss";
    tx_no_frame: Counter Count "napier_device_tx_no_frame" "Packets refused because no frame was free to send them in";
    tx_too_long: Counter Count "napier_device_tx_too_long" "Packets dropped because they exceed the buffers of a peer in another process";
    tx_down: Counter Count "napier_device_tx_down" "Packets refused because the device was down";
    tx_qdisc_drops: Counter Count "napier_device_tx_qdisc_drops" "Packets that queueing disciplines dropped or their defer lists refused, disciplines that were taken away since included";
    tx_qdisc_drops_told: Counter Count "napier_device_tx_qdisc_drops_told" "Packets among napier_device_tx_qdisc_drops whose sender was told";
    tx_bad_descriptors: Counter Count "napier_device_tx_bad_descriptors" "Buffers of the peer that could not be used";
    tx_index_errors: Counter Count "napier_device_tx_index_errors" "Times that the index of the peer's receive ring was impossible";
    tx_kicks: Counter Count "napier_device_tx_kicks" "Publications that rang the peer's doorbell or started its coalescing timer";
    interrupts: Counter Count "napier_device_interrupts" "Interrupts raised for the device";
    interrupts_suppressed: Counter Count "napier_device_interrupts_suppressed" "Publications by the peer that raised no interrupt: masked, latched or coalesced";
}

#[cfg(feature = "xdp")]
figures! {
    XDP, fn xdp(XdpStats), LABELS;
    rx_dropped: Counter Count "napier_xdp_rx_dropped" "Packets that the kernel dropped for other reasons than a full receive ring: longer than a frame, or no frame to fill";
    rx_invalid_descs: Counter Count "napier_xdp_rx_invalid_descs" "Frames to fill that the kernel did not accept";
    tx_invalid_descs: Counter Count "napier_xdp_tx_invalid_descs" "Packets to send that the kernel did not accept";
    rx_ring_full: Counter Count "napier_xdp_rx_ring_full" "Packets that the kernel dropped because the receive ring was full";
    rx_fill_ring_empty_descs: Counter Count "napier_xdp_rx_fill_ring_empty_descs" "Times that the kernel found no frame to fill";
    tx_ring_empty_descs: Counter Count "napier_xdp_tx_ring_empty_descs" "Times that the kernel found nothing to send";
    interrupts_put_away: Counter Count "napier_xdp_interrupts_put_away" "Times that a queue was polled for so long that no thread waits for its interrupt, until it is unmasked";
    .. rx_wrong_checksums;
}

figures! {
    CAPTURE, fn capture(CaptureCounters), LABELS;
    written: Counter Count "napier_capture_written" "Frames that the capture of the device has written";
    dropped: Counter Count "napier_capture_dropped" "Frames that the capture of the device has lost because its file was too slow";
    .. failed;
}

static LINK: [Metric; 2] = [
    metric(
        "napier_device_up",
        Kind::Gauge,
        Unit::Truth,
        LABELS,
        "Whether the device is up: it is wanted so and has carrier",
    ),
    metric(
        "napier_device_carrier_losses",
        Kind::Counter,
        Unit::Count,
        LABELS,
        "Times that the device's peer went away",
    ),
];

pub(super) fn metrics() -> impl Iterator<Item = &'static Metric> {
    #[cfg(feature = "xdp")]
    let of_kinds = XDP.iter();
    #[cfg(not(feature = "xdp"))]
    let of_kinds = [].iter();
    LINK.iter().chain(&DEVICE).chain(of_kinds).chain(&CAPTURE)
}

/// A device, as it was seen under the lock of devices.
pub(super) struct SeenDevice {
    pub(super) device: Arc<Device>,
    pub(super) napis: Vec<Arc<Napi>>,
    /// Its number, as a label.
    pub(super) ifindex: String,
    stats: DeviceStats,
    #[cfg(feature = "xdp")]
    xdp: Option<XdpStats>,
    carrier_losses: u64,
}

impl EngineDevices {
    /// All of them, with what is read under their lock.
    pub(super) fn seen(&self) -> Vec<SeenDevice> {
        let table = self.lock();
        let seen = table.entries.iter().map(|entry| SeenDevice {
            device: entry.device.clone(),
            napis: entry.napis.clone(),
            ifindex: entry.device.ifindex.to_string(),
            stats: entry.stats(),
            #[cfg(feature = "xdp")]
            xdp: entry.attachment.as_ref().and_then(|one| one.downcast_ref()).map(Attachment::stats),
            carrier_losses: entry.carrier.state().losses,
        });
        seen.collect()
    }
}

impl SeenDevice {
    pub(super) fn device_metrics(&self, sink: &mut dyn Sink) {
        let labels = [&*self.device.name, &*self.ifindex];
        sink.sample(&LINK[0], &labels, self.device.up.load(Ordering::Relaxed).into());
        sink.sample(&LINK[1], &labels, self.carrier_losses);
        device(&self.stats, &labels, sink);
        #[cfg(feature = "xdp")]
        if let Some(stats) = &self.xdp {
            xdp(stats, &labels, sink);
        }
        if let Some(counters) = self.device.taps.counters() {
            capture(&counters, &labels, sink);
        }
    }
}
