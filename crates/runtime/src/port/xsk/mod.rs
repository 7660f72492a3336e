//! Network interfaces of the kernel, by AF_XDP.
//!
//! A device has one socket per queue of the interface. How these are opened, the program that brings packets to them and the memory that
//! they share are of [`napier_xsk`]; behind the frames of its queues the memory has those of the device's senders.
//!
//! The stack here checks what it receives. A packet from a kernel socket on the same machine, over veth, carries no whole
//! checksum unless the sending interface computes it: `ethtool -K PEER tx off`.
//!
//! | file | what is in it |
//! |---|---|
//! | `open` | the ports of a device on opened sockets |
//! | `rx`, `tx`, `line` | the ends of a queue and its interrupt, for `port` |
//! | `bare` | a queue without a device, for benchmarks |
//! | `keeper` | a thread that follows the interface: down, up, gone; and kicks that failed |

mod bare;
mod config;
mod error;
mod keeper;
mod line;
mod open;
mod rx;
mod tx;

use std::any::Any;
use std::sync::Arc;

use napier_ring::FrameTable;

#[doc(hidden)]
pub use bare::{BareReceiver, BareSender, BareXdp};
pub use config::XdpConfig;
pub use error::AddXdpError;
pub(crate) use keeper::Attachment;
use keeper::KeeperThread;
pub(crate) use line::XskLine;
pub(crate) use rx::XskRxEnd;
pub(crate) use tx::XskTxEnd;

use napier_xsk::drive::InterfaceQueues;
pub use napier_xsk::{XdpBusyPoll, XdpFilter, XdpMode};

use crate::port::{AddedDevice, EndConfig, Made, PortKind};
use napier_stack::device::MTU;

/// What is in force on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpInfo {
    /// Name of the interface.
    pub interface: String,
    /// Its number in its namespace.
    pub ifindex: u32,
    /// Where the kernel calls the program: [`XdpMode::Native`] or [`XdpMode::Generic`].
    pub mode: XdpMode,
    /// Whether the driver reads and writes the device's memory itself; else the kernel copies.
    pub zero_copy: bool,
    /// The kernel's NAPI instance of each queue, 0 where it does not tell. Polls of an empty queue drive it if busy
    /// polling is asked for.
    pub kernel_napi_ids: Vec<u32>,
    /// Receive queues that the interface had when the device was added; 0: its driver does not say. Packets that come in by
    /// queues that the device has not go to the kernel, also those for the device.
    pub interface_queues: u16,
    /// What `ethtool -L` calls them: `combined`, or `rx`.
    pub queues_word: &'static str,
}

/// What is counted of a device's sockets, summed over the queues; all but the last two by the kernel (`XDP_STATISTICS`).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct XdpStats {
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
    /// Times that a queue was polled for so long that no thread waits for its interrupt, until it is unmasked.
    pub interrupts_put_away: u64,
    /// Packets dropped because their checksum was wrong, counted here. A sender on the same machine leaves checksums out unless
    /// `ethtool -K PEER tx off`.
    pub rx_wrong_checksums: u64,
}

napier_core::shown!(XdpStats {
    rx_dropped,
    rx_invalid_descs,
    tx_invalid_descs,
    rx_ring_full,
    rx_fill_ring_empty_descs,
    tx_ring_empty_descs,
    interrupts_put_away,
    rx_wrong_checksums
});

/// A device that is about to be added on an interface.
pub(crate) struct NewXdp {
    config: XdpConfig,
    queues: InterfaceQueues,
    begun: Option<(open::Kept, KeeperThread)>,
}

impl NewXdp {
    /// # Errors
    /// A field of the configuration cannot be, or there is no such interface.
    pub(crate) fn check(config: &XdpConfig) -> Result<Self, AddXdpError> {
        config.check()?;
        let (sockets, queues) = napier_xsk::drive::fit(&config.sockets())?;
        let config = XdpConfig { queues: sockets.queues, chunk_bytes: sockets.chunk_bytes, ..config.clone() };
        Ok(Self { config, queues, begun: None })
    }
}

impl PortKind for NewXdp {
    type Error = AddXdpError;

    fn shape(&self) -> (u16, u32) {
        (self.config.queues, MTU)
    }

    fn make(&mut self, end: &mut EndConfig, frames: &Arc<FrameTable>) -> Result<Made, AddXdpError> {
        let keeper = KeeperThread::start(&end.name)?;
        let open::Opened { interface, ports, mut kept } = open::open(&self.config, end, frames)?;
        kept.own_mac = end.mac == [0; 6];
        if kept.own_mac {
            end.mac = interface.mac;
        }
        kept.queues = self.queues;
        self.begun = Some((kept, keeper));
        Ok(Made { ports, mtu: interface.mtu.min(MTU), unusable: interface.state(&self.config.interface) })
    }

    fn added(self, device: Arc<dyn AddedDevice>) -> Option<Box<dyn Any + Send>> {
        let (kept, keeper) = self.begun?;
        Some(Box::new(Attachment::new(device, kept, keeper)))
    }
}

/// The sockets of a device, by queue.
type Sockets = Arc<[Arc<napier_sys::xsk::XskSocket>]>;
