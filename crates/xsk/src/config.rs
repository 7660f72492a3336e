//! What the sockets of an interface are made of.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::error::XskError;
use crate::filter::{FILTER_ENTRIES_MAX, XdpFilter};
use napier_sys::xsk::XdpBusyPoll;

/// What a packet has beyond its IP packet: an Ethernet header and a VLAN tag.
pub(crate) const LINK_BYTES: u32 = 18;
/// Most queues with one memory.
pub(crate) const QUEUES_MAX: u16 = 64;
/// Fewest and most slots of a ring.
const RING_SIZE: std::ops::RangeInclusive<u32> = 16..=4096;
/// Most frames of a home.
const FRAMES_MAX: u32 = 1 << 17;
/// Most frames beside those of the queues.
const SPARE_FRAMES_MAX: u32 = 1 << 20;

/// Where the kernel calls the program.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, without a copy, if it can; else in the driver or in the stack, whichever is faster. On veth, whose driver copies every packet for it,
    /// the stack is faster, but knows one queue only.
    #[default]
    Auto,
    /// In the driver, which reads and writes the sockets' memory itself; refused where it cannot.
    ZeroCopy,
    /// In the driver.
    Native,
    /// In the stack, which works with every driver.
    Generic,
}

/// The queues of an interface, with one memory for all of them.
///
/// ```
/// use napier_xsk::{XdpFilter, XskConfig};
///
/// // The first queue, and of its packets those to one address; the kernel has the rest.
/// let filter = XdpFilter::Addresses(vec!["192.0.2.10".parse()?]);
/// let config = XskConfig { queues: 1, filter, ..XskConfig::on("eth0") };
/// config.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct XskConfig {
    /// Name of the interface.
    pub interface: String,
    /// The network namespace that it is in: an open `/run/netns/NAME` or `/proc/PID/ns/net`. `None` = that of the
    /// calling thread.
    pub netns: Option<Arc<OwnedFd>>,
    /// First queue of the interface that is used.
    pub first_queue: u16,
    /// Queues that are used: 1 to 64; 0 = from the first on all that the interface has, 64 at most. Packets of other queues go
    /// to the kernel, also those that the filter takes: [`XskInfo::interface_queues`](crate::XskInfo::interface_queues) says how many
    /// there are.
    pub queues: u16,
    /// Slots of each ring: a power of two, 16 to 4096. As many frames are with the kernel to be filled.
    pub ring_size: u32,
    /// Bytes of a chunk of memory, 2048 or 4096; 0 = 4096 if the MTU of the interface needs it. A packet, link-layer header
    /// included, has 256 bytes less.
    pub chunk_bytes: u32,
    /// Frames of each home (a queue's receive side, a queue's send side). 0 = twice `ring_size`. At least `ring_size`
    /// and one; what exceeds the ring can be in the program's hands.
    pub frames_per_queue: u32,
    /// Where the kernel calls the program.
    pub mode: XdpMode,
    /// Lets the driver read and write the memory itself where it can; [`XskInfo::zero_copy`](crate::XskInfo::zero_copy)
    /// says whether it does.
    pub zero_copy: bool,
    /// Lets polls of the sockets drive the kernel's NAPI below it.
    pub busy_poll: Option<XdpBusyPoll>,
    /// Which packets are taken.
    pub filter: XdpFilter,
    /// Frames of the memory behind those of the queues, which no queue has: at most 2^20.
    pub spare_frames: u32,
}

impl XskConfig {
    /// All queues of `interface` in the calling thread's namespace, and every packet of them.
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
            filter: XdpFilter::Everything,
            spare_frames: 0,
        }
    }

    /// Checks every field by itself.
    ///
    /// # Errors
    /// [`XskError::Config`].
    pub fn check(&self) -> Result<(), XskError> {
        let refuse = |what: String| Err(XskError::Config { what });
        if self.queues > QUEUES_MAX || self.first_queue.checked_add(self.queues).is_none() {
            return refuse(format!(
                "a device has 1 to {QUEUES_MAX} queues (0: all that there are), not {}",
                self.queues
            ));
        }
        if !RING_SIZE.contains(&self.ring_size) || !self.ring_size.is_power_of_two() {
            return refuse(format!("a ring has 16 to 4096 slots, a power of two, not {}", self.ring_size));
        }
        if ![0, 2048, 4096].contains(&self.chunk_bytes) {
            return refuse(format!("a chunk has 2048 or 4096 bytes, not {}", self.chunk_bytes));
        }
        let frames = self.frames_per_home();
        if !(self.ring_size + 1..=FRAMES_MAX).contains(&frames) {
            let least = self.ring_size + 1;
            return refuse(format!("a queue of this ring size needs {least} to {FRAMES_MAX} frames, not {frames}"));
        }
        if self.spare_frames > SPARE_FRAMES_MAX {
            return refuse(format!("at most {SPARE_FRAMES_MAX} spare frames, not {}", self.spare_frames));
        }
        if !self.filter.is_reasonable() {
            return refuse(format!(
                "a filter names at most {FILTER_ENTRIES_MAX} addresses and ranges of ports of a protocol, and some port"
            ));
        }
        if self.memory_bytes() > u64::from(u32::MAX) {
            return refuse("the device's memory exceeds 4 GiB: use fewer queues or frames".to_owned());
        }
        Ok(())
    }

    /// Frames of a queue's receive side, and of its send side.
    #[must_use]
    pub fn frames_per_home(&self) -> u32 {
        if self.frames_per_queue == 0 { 2 * self.ring_size } else { self.frames_per_queue }
    }

    /// Frames of all queues.
    #[must_use]
    pub fn queue_frames(&self) -> u32 {
        2 * u32::from(self.queues) * self.frames_per_home()
    }

    /// Bytes of the memory that the sockets share, whole pages.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let frames = u64::from(self.queue_frames()) + u64::from(self.spare_frames);
        (frames * u64::from(self.chunk_bytes)).next_multiple_of(4096)
    }
}
