//! Network interfaces of the kernel, by AF_XDP.
//!
//! A device has one socket per queue of the interface. A small program on the interface redirects the device's packets to
//! the sockets ([`XdpFilter`]); the kernel's own stack gets all others, and those of queues without a socket. The
//! program is tied to a descriptor, so it goes when the process does, however it ends.
//!
//! All sockets of a device share one memory: `[receive and send frames of queue 0][of queue 1]..[frames of senders]`, in
//! chunks of equal size. A received packet stays where the kernel put it until its socket's reader is done, and a packet
//! that is sent is built in place.
//!
//! The stack here checks what it receives. A packet from a kernel socket on the same machine, over veth, carries no whole
//! checksum unless the sending interface computes it: `ethtool -K PEER tx off`.
//!
//! | file | what is in it |
//! |---|---|
//! | `filter`, `program` | which packets are the device's; the program as instructions |
//! | `open` | what can be wrong with an interface; sockets, program, memory |
//! | `rx`, `tx`, `line` | the ends of a queue and its interrupt, for `port` |
//! | `bare` | a queue without a device, for benchmarks |
//! | `keeper` | a thread that follows the interface: down, up, gone; and kicks that failed |

mod bare;
mod config;
mod error;
mod filter;
mod keeper;
mod line;
mod open;
mod program;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

use std::sync::Arc;

#[doc(hidden)]
pub use bare::BareXdp;
pub use config::{XdpConfig, XdpMode};
pub use error::AddXdpError;
pub use filter::XdpFilter;
pub(crate) use keeper::Attachment;
use keeper::KeeperThread;
pub(crate) use line::XskLine;
pub(crate) use rx::XskRxEnd;
pub(crate) use tx::XskTxEnd;

pub use crate::sys::xsk::XdpBusyPoll;

use crate::engine::{Carrier, DeviceHandle, EndConfig, Engine, NewDevice, new_rss};
use crate::stack::seams::MTU;

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
}

/// What is counted of a device's sockets, summed over the queues; all but the last by the kernel (`XDP_STATISTICS`).
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
}

impl Engine {
    /// Adds a device on a network interface of the kernel. It is up if the interface is.
    ///
    /// `end.mac` of all zeroes stands for the interface's own address.
    ///
    /// # Errors
    /// See [`AddXdpError`]; nothing is changed on the interface then, nor here.
    ///
    /// ```no_run
    /// # use napier_runtime::{EndConfig, Engine, IfAddr, XdpConfig};
    /// let engine = Engine::builder().start()?;
    /// let end = EndConfig {
    ///     name: "xdp0".to_owned(),
    ///     netns: engine.namespace(),
    ///     mac: [0; 6],
    ///     addresses: vec![IfAddr { addr: "192.0.2.10".parse()?, prefix_len: 24 }],
    ///     irq_cpus: vec![],
    /// };
    /// let device = engine.add_xdp(&XdpConfig::on("eth0"), end)?;
    /// println!("{:?}", device.xdp_info());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_xdp(&self, config: &XdpConfig, mut end: EndConfig) -> Result<DeviceHandle, AddXdpError> {
        config.check()?;
        let inner = &self.inner;
        let mut devices = inner.devices.lock().expect("no panic while held");
        // Before anything is made: what the frame table has given it does not take back.
        inner.check_device(&devices, &end, (config.queues, MTU))?;
        let keeper = KeeperThread::start(&end.name)?;
        let opened = open::open(config, &end, &inner.frames)?;
        if end.mac == [0; 6] {
            end.mac = opened.interface.mac;
        }
        let state = opened.interface.state(&config.interface);
        let (rss, peer_rss) = (new_rss(config.queues), new_rss(config.queues));
        let carrier = Carrier::new(state);
        let mtu = opened.interface.mtu.min(MTU);
        let new = NewDevice { config: end, ports: opened.ports, rss, peer_rss, carrier, mtu, in_process: false };
        let device = inner.add_device(&mut devices, new)?;
        let attachment = Attachment::new(inner, &device, opened.kept, keeper);
        devices.entry_mut(&device).xdp = Some(attachment);
        drop(devices);
        Ok(DeviceHandle { engine: inner.clone(), device })
    }
}

impl DeviceHandle {
    /// What is in force on the interface; `None` if the device is not an interface of the kernel.
    #[must_use]
    pub fn xdp_info(&self) -> Option<XdpInfo> {
        self.with_attachment(Attachment::info)
    }

    /// What the kernel counts of the device's sockets; `None` if the device is not an interface of the kernel.
    #[must_use]
    pub fn xdp_stats(&self) -> Option<XdpStats> {
        self.with_attachment(Attachment::stats)
    }

    fn with_attachment<R>(&self, f: impl FnOnce(&Attachment) -> R) -> Option<R> {
        let devices = self.engine.devices.lock().expect("no panic while held");
        devices.entry(&self.device).xdp.as_ref().map(f)
    }
}

/// The sockets of a device, by queue.
type Sockets = Arc<[Arc<crate::sys::xsk::XskSocket>]>;
