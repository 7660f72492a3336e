//! What a device on an interface is made of.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use napier_xsk::{XdpBusyPoll, XdpFilter, XdpMode, XskConfig, XskError};

use super::error::AddXdpError;

/// Most senders.
const SENDERS_MAX: u16 = 1024;

/// What a device on an interface is made of, for [`Engine::add_xdp`](crate::engine::Engine::add_xdp).
///
/// ```
/// use napier_runtime::device::{XdpConfig, XdpMode};
///
/// // The second and third queue, by the driver or not at all.
/// let config = XdpConfig { first_queue: 1, queues: 2, mode: XdpMode::Native, ..XdpConfig::on("eth0") };
/// config.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct XdpConfig {
    /// Name of the interface.
    pub interface: String,
    /// The network namespace that it is in: an open `/run/netns/NAME` or `/proc/PID/ns/net`. `None` = that of the
    /// calling thread.
    pub netns: Option<Arc<OwnedFd>>,
    /// First queue of the interface that is used.
    pub first_queue: u16,
    /// Queues that are used: 1 to 64; 0 = from the first on all that the interface has, 64 at most. Packets of other queues go
    /// to the kernel, also those for the device: [`XdpInfo::interface_queues`](super::XdpInfo::interface_queues) says how many
    /// there are.
    pub queues: u16,
    /// Slots of each ring: a power of two, 16 to 4096. As many frames are with the kernel to be filled.
    pub ring_size: u32,
    /// Bytes of a chunk of memory, 2048 or 4096; 0 = 4096 if the MTU of the interface needs it. A packet, link-layer header
    /// included, has 256 bytes less.
    pub chunk_bytes: u32,
    /// Frames of each home (a queue's receive side, a queue's send side). 0 = twice `ring_size`. At least `ring_size`
    /// and one; what exceeds the ring can wait in sockets.
    pub frames_per_queue: u32,
    /// Where the kernel calls the program.
    pub mode: XdpMode,
    /// Lets the driver read and write the memory itself where it can; [`XdpInfo::zero_copy`](super::XdpInfo::zero_copy)
    /// says whether it does.
    pub zero_copy: bool,
    /// Lets polls of the device drive the kernel's NAPI below it.
    pub busy_poll: Option<XdpBusyPoll>,
    /// Which packets are the device's.
    pub filter: XdpFilter,
    /// Senders that can build packets at the same time, where the device has a queueing discipline: 1 to 1024.
    pub senders: u16,
    /// Frames of each sender: 1 to 1024.
    pub sender_frames: u32,
}

impl XdpConfig {
    /// All queues of `interface` in the calling thread's namespace, for the device's own addresses.
    #[must_use]
    pub fn on(interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            netns: None,
            first_queue: 0,
            queues: 0,
            ring_size: 1024,
            chunk_bytes: 0,
            frames_per_queue: 0,
            mode: XdpMode::Auto,
            zero_copy: true,
            busy_poll: None,
            filter: XdpFilter::OwnAddresses,
            senders: 16,
            sender_frames: 64,
        }
    }

    /// Checks every field by itself.
    ///
    /// # Errors
    /// [`XskError::Config`].
    pub fn check(&self) -> Result<(), AddXdpError> {
        let per_sender = 1..=u32::from(SENDERS_MAX);
        if !(1..=SENDERS_MAX).contains(&self.senders) || !per_sender.contains(&self.sender_frames) {
            let what = "a device has 1 to 1024 senders with 1 to 1024 frames each".to_owned();
            return Err(XskError::Config { what }.into());
        }
        Ok(self.sockets().check()?)
    }

    /// What the sockets of the device are made of. The frames of the senders come behind those of the queues.
    pub(super) fn sockets(&self) -> XskConfig {
        let Self { interface, netns, filter, .. } = self.clone();
        let &Self { first_queue, queues, ring_size, chunk_bytes, frames_per_queue, mode, zero_copy, busy_poll, .. } =
            self;
        let spare_frames = u32::from(self.senders).saturating_mul(self.sender_frames);
        XskConfig {
            interface,
            netns,
            first_queue,
            queues,
            ring_size,
            chunk_bytes,
            frames_per_queue,
            mode,
            zero_copy,
            busy_poll,
            filter,
            spare_frames,
        }
    }
}
