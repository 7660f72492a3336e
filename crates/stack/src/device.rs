//! The port to a device: the transmit side, and what a sender says of a packet.
//!
//! It is called through a pointer, at most once per packet sent.

use std::fmt;
use std::net::{AddrParseError, IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use napier_core::time::Instant;
use napier_core::tx::qdisc::RATE_UNLIMITED;

/// An address of a device with the prefix that is reached through it; as text `192.0.2.10/24`, `2001:db8::10/64`.
///
/// ```
/// use napier_stack::device::IfAddr;
///
/// let given: IfAddr = "192.0.2.10/24".parse().unwrap();
/// assert_eq!((given.prefix_len, given.to_string().as_str()), (24, "192.0.2.10/24"));
/// // Without a length it is a prefix of its own.
/// assert_eq!("2001:db8::10".parse::<IfAddr>().unwrap().prefix_len, 128);
/// assert!("192.0.2.10/33".parse::<IfAddr>().is_err());
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct IfAddr {
    /// The address.
    pub addr: IpAddr,
    /// Bits of the on-link prefix: 0..=32 for IPv4, 0..=128 for IPv6.
    pub prefix_len: u8,
}

/// A text that is no [`IfAddr`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseIfAddrError {
    /// No address before the `/`.
    #[error("`{0}` is no address; give one such as 10.0.0.1/24")]
    Addr(String, #[source] AddrParseError),
    /// No length behind the `/`, or one that the family has not.
    #[error("`/{0}` is no length of a prefix; give 0 to {1}")]
    Length(String, u8),
}

impl From<ParseIfAddrError> for std::io::Error {
    fn from(error: ParseIfAddrError) -> Self {
        Self::new(std::io::ErrorKind::InvalidInput, error)
    }
}

impl FromStr for IfAddr {
    type Err = ParseIfAddrError;

    fn from_str(text: &str) -> Result<Self, ParseIfAddrError> {
        let (addr, length) = text.split_once('/').map_or((text, None), |(addr, length)| (addr, Some(length)));
        let addr: IpAddr = addr.parse().map_err(|why| ParseIfAddrError::Addr(addr.to_owned(), why))?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let prefix_len = match length {
            None => most,
            Some(length) => {
                let given = length.parse().ok().filter(|given| *given <= most);
                given.ok_or_else(|| ParseIfAddrError::Length(length.to_owned(), most))?
            }
        };
        Ok(Self { addr, prefix_len })
    }
}

impl fmt::Display for IfAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix_len)
    }
}

/// Bytes of the largest IP packet of a device, unless it has to be less.
pub const MTU: u32 = 1500;

/// What a sender says of a packet besides its bytes.
#[derive(Copy, Clone, Debug)]
pub struct PacketClass {
    /// Hash of the flow.
    pub flow_hash: u32,
    /// `SO_PRIORITY`.
    pub priority: u32,
    /// `SO_MAX_PACING_RATE` in bytes per second.
    pub pacing_rate: u64,
    /// `SCM_TXTIME`.
    pub departs: Option<Instant>,
    /// The transmit queue, if the flow's hash does not choose it.
    pub queue: Option<u16>,
    /// Number of the send buffer that it is charged to while a discipline has it; 0: to none.
    pub charged_to: u32,
    /// The sender comes again when there is room: it is told [`TxError::Busy`] where it would lose the packet.
    pub comes_again: bool,
}

impl PacketClass {
    /// A packet of this flow without any wish.
    pub const fn of_flow(flow_hash: u32) -> Self {
        Self {
            flow_hash,
            priority: 0,
            pacing_rate: RATE_UNLIMITED,
            departs: None,
            queue: None,
            charged_to: 0,
            comes_again: false,
        }
    }

    /// Whether it leaves at a time of its own.
    #[inline]
    pub fn is_paced(&self) -> bool {
        self.departs.is_some() || self.pacing_rate != RATE_UNLIMITED
    }
}

/// Why a frame was not taken for transmission.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TxError {
    /// The transmit ring has no free slot now.
    Full,
    /// The queueing discipline takes no packet of this sender now: too much of it is on its way, or too much waits for the
    /// thread that enqueues. [`Egress::await_room`] says when to come again.
    Busy,
    /// The device is down or its peer is gone.
    Down,
    /// The queueing discipline dropped the packet.
    Dropped,
}

/// The transmit side of a device.
pub trait Egress: Send + Sync {
    /// The interface number, not 0, unique within a name space.
    fn ifindex(&self) -> u32;
    /// The Ethernet address.
    fn mac(&self) -> [u8; 6];
    /// Largest IP packet in bytes (the Ethernet header is not counted).
    fn mtu(&self) -> u32;
    /// Whether its peer is in this process, with no station in between.
    fn is_in_process(&self) -> bool {
        false
    }
    /// The addresses, read once when the device joins a name space.
    fn addresses(&self) -> Vec<IfAddr>;
    /// The receive-side-scaling hash that the peer computes for a datagram with these ends.
    fn rss_hash(&self, src: &SocketAddr, dst: &SocketAddr) -> u32;
    /// Claims a slot of at least `len_max` bytes, calls `build` exactly once with it and transmits the number of bytes
    /// that `build` returns; with 0 the slot is given up. On an error but `Dropped`, `build` was not called.
    fn transmit(
        &self,
        class: &PacketClass,
        len_max: usize,
        build: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> Result<(), TxError>;
    /// Looks now whether packets of this class have been read, so that their senders get credit.
    fn look_for_room(&self, class: &PacketClass) {
        let _ = class;
    }
    /// Looks now at every transmit queue for packets that have been read, so that their senders get credit.
    fn look_for_credit(&self) {}
    /// A packet that came in by it had a wrong checksum, and was dropped.
    fn note_wrong_checksum(&self) {}
    /// Calls `waiter`, from any thread, when the transmit queue of this class has room, until it is served; false: it will
    /// not be.
    fn await_room(&self, class: &PacketClass, waiter: Arc<dyn OnRoom>) -> bool {
        let _ = (class, waiter);
        false
    }
    /// The transmit queue for what the calling thread sends to a new destination; `None`: by the flow's hash.
    fn pick_queue(&self) -> Option<u16> {
        None
    }
}

/// A sender whose packets a full transmit queue has refused.
pub trait OnRoom: Send + Sync {
    /// The device has looked after what was sent, and there is room now. False: the sender waits for more of that, and wants
    /// to be called again. Must not wait.
    fn on_room(self: Arc<Self>) -> bool;
}
