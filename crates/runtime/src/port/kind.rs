//! What the engine and the kinds of devices ask of each other. All of it is control: no packet comes this way.
//!
//! A kind is a folder beside this file. It makes the queues of a device ([`PortKind`]) and looks after the peer
//! ([`AddedDevice`]), device by device or by one [`Service`] for all.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use napier_ring::FrameTable;

use super::{Ports, RxEnd, TxEnd};
use crate::bounds::NAPI_MAX;
use crate::threads::ThreadRole;
use napier_stack::device::IfAddr;
use napier_stack::{DeviceError, NetNs};

/// A device, as the program wants it.
#[derive(Clone)]
pub struct EndConfig {
    /// Name of the device, unique in the engine, 1..=15 bytes as the kernel's.
    pub name: String,
    /// The name space that gets the device.
    pub netns: NetNs,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// Addresses with their prefixes.
    pub addresses: Vec<IfAddr>,
    /// Processor that takes the interrupts of each queue; shorter lists repeat, an empty one spreads the
    /// queues over all softirq CPUs.
    pub irq_cpus: Vec<usize>,
}

impl EndConfig {
    /// A device of this name in `netns`, with these addresses; its interrupts are spread over all softirq CPUs.
    ///
    /// Its Ethernet address is that of the interface (AF_XDP). What has no interface needs one: set [`mac`](Self::mac).
    ///
    /// ```
    /// # use napier_runtime::device::EndConfig;
    /// # use napier_runtime::engine::Engine;
    /// let engine = Engine::builder().start()?;
    /// let end = EndConfig::new("xdp0", engine.namespace(), &["192.0.2.10/24".parse()?]);
    /// assert_eq!(end.addresses.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(name: &str, netns: NetNs, addresses: &[IfAddr]) -> Self {
        Self { name: name.to_owned(), netns, mac: [0; 6], addresses: addresses.to_vec(), irq_cpus: Vec::new() }
    }
}

/// Why a device was not added.
#[derive(Debug, thiserror::Error)]
pub enum AddDeviceError {
    /// The name is taken.
    #[error("a device named {name:?} exists already: choose another name")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The name is empty or too long, or has a NUL in it.
    #[error("device name {name:?} must have 1 to 15 bytes and no NUL")]
    BadName {
        /// The name.
        name: String,
    },
    /// A processor without softirqs.
    #[error("CPU {cpu} runs no softirqs in this engine: name one of {available:?}")]
    NoSuchSoftirqCpu {
        /// The processor asked for.
        cpu: usize,
        /// Softirq CPUs of the engine.
        available: Vec<usize>,
    },
    /// The engine has made as many instances as it can.
    #[error("an engine makes at most {NAPI_MAX} NAPI instances in its life: start a new engine")]
    TooManyInstances,
    /// An address that no device can have.
    #[error(transparent)]
    Address(#[from] DeviceError),
    /// Frames that are too small for the packets of an address family.
    #[error(
        "{addr} needs IP packets of {least} bytes, and {mtu} fit into a frame: use frames of {frame_bytes} bytes or more"
    )]
    MtuTooSmall {
        /// Bytes of the largest packet that fits.
        mtu: u32,
        /// The address.
        addr: std::net::IpAddr,
        /// Bytes of the least MTU of its family.
        least: u32,
        /// Bytes of a frame that will do.
        frame_bytes: u32,
    },
    /// The name space was made by another engine.
    #[error("the name space belongs to another engine: make one with this engine's `namespace`")]
    ForeignNamespace,
    /// The system refused a descriptor.
    #[error("watching a doorbell failed: {0}; check the limit on open files")]
    System(#[from] rustix::io::Errno),
}

/// What a kind of device brings along.
pub(crate) struct Made {
    pub(crate) ports: Ports,
    /// Bytes of the largest IP packet that is sent.
    pub(crate) mtu: u32,
    /// Why there is no peer yet; `None` if there is one.
    pub(crate) unusable: Option<String>,
}

/// A device that is about to be added.
pub(crate) trait PortKind {
    /// Why it cannot be.
    type Error: From<AddDeviceError>;

    /// Queues, and bytes of the largest IP packet.
    fn shape(&self) -> (u16, u32);

    /// Makes the queues of a device of which is known that it can be added: what the frame table has given it does not take
    /// back.
    ///
    /// # Errors
    /// Nothing is left behind then.
    fn make(&mut self, end: &mut EndConfig, frames: &Arc<FrameTable>) -> Result<Made, Self::Error>;

    /// The device is there. What is returned goes when the engine stops, before its devices do.
    fn added(self, device: Arc<dyn AddedDevice>) -> Option<Box<dyn Any + Send>>;
}

/// A device of the engine, as its peer's keeper sees it. Once the engine is gone nothing happens.
pub(crate) trait AddedDevice: Send + Sync {
    fn name(&self) -> &str;
    fn queues(&self) -> usize;
    fn is_up(&self) -> bool;

    /// There is a peer, and these are the ends of the queues that lead to it, in their order, the first `tx_queues` of which
    /// send. Queues beyond them stay without an end. Frames that the old ends hold must have gone home already.
    ///
    /// # Errors
    /// The system refused to watch a doorbell; the device stays down.
    fn carrier_on(&self, peer: String, ends: Vec<(RxEnd, TxEnd)>, tx_queues: u16) -> rustix::io::Result<()>;

    /// The peer is gone. Returns the ends that led to it, with the frames that they hold; none if there was no peer.
    fn carrier_off(&self, reason: String) -> Vec<(RxEnd, TxEnd)>;

    /// The peer of a device that keeps its ends is there, or is not for this reason, for good if it is `gone`.
    ///
    /// # Errors
    /// As [`Self::carrier_on`].
    fn set_carrier(&self, unusable: Option<String>, gone: bool) -> rustix::io::Result<()>;

    /// The device has another Ethernet address (`None`: the same) or takes IP packets of this length now; nothing is done if
    /// both are as they were. False: packets of some of its addresses need longer ones, and all stays as it was.
    fn set_facts(&self, mac: Option<[u8; 6]>, mtu: u32) -> bool;

    /// A frame that is another's, for what can be learnt of it.
    fn hear(&self, frame: &[u8]);

    /// Packets dropped because their checksum was wrong.
    fn wrong_checksums(&self) -> u64;

    /// Ends the TCP connections through the device: the peer that comes next knows nothing of them.
    fn drop_connections(&self);

    /// As an interrupt of this queue; the CPU's thread polls, not the caller.
    fn interrupt(&self, queue: usize);

    /// Kicks the peer of a queue again if a kick could not move what waits there. Whether packets wait still; also if a
    /// program has the transmit lock, which need not have a processor.
    fn kick_again(&self, queue: usize) -> bool;
}

/// What a kind keeps for all its devices in an engine.
pub(crate) trait Service: Any + Send + Sync {
    /// The engine is going away.
    fn stop(&self);
}

/// The engine, as far as a [`Service`] knows it.
pub(crate) trait ServiceHost {
    /// Starts a thread with a duty of its own: what it raises others run.
    ///
    /// # Errors
    /// The system refused a thread.
    fn spawn(&self, name: &str, role: ThreadRole, work: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;

    /// Whether softirq threads run as `SCHED_FIFO`.
    fn has_fifo(&self) -> bool;
}
