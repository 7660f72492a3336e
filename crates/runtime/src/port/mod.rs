//! Ports: one receive and one transmit queue of a device, as the engine drives them.
//!
//! What is alike for every kind of device is here: frames, counters, when slots are given back, and the interrupt as
//! something that is masked and unmasked. What differs is an *end* ([`RxRing`], [`TxRing`]) and a [`InterruptLine`], which a kind
//! has in its folder; here it is one row of `kinds!`.
//!
//! | kind | ends | interrupt |
//! |---|---|---|
//! | link (`link`) | memif rings, both ends in this process | a latch, an eventfd and a timer for coalescing (`link_line`) |
//! | memif (`memif`) | memif rings, the other end in another process | the peer's eventfd |
//! | AF_XDP (`xsk`) | the rings of a socket, the kernel at the other end | the socket is readable, waited for once per unmask |
//!
//! A queue whose peer is gone is [`RxEnd::Detached`] and [`TxEnd::Detached`]: its device has no carrier, so its instance
//! is disabled meanwhile and nothing is sent.

/// The ends of queues and the interrupt lines, of every kind. In brackets: where a kind is there.
macro_rules! kinds {
    ($d:tt $($(#[$doc:meta])* $kind:ident $([$($cfg:tt)*])?: $rx:ty, $tx:ty, $line:ty;)*) => {
        /// Where packets come from.
        pub(crate) enum RxEnd {
            $($(#[cfg($($cfg)*)])? $(#[$doc])* $kind($rx),)*
            /// Nowhere: the peer is not there.
            Detached,
        }

        /// Where packets go.
        pub(crate) enum TxEnd {
            $($(#[cfg($($cfg)*)])? $(#[$doc])* $kind($tx),)*
            /// Nowhere: the peer is not there. Packets are refused as by a full ring.
            Detached,
        }

        /// The interrupt of one receive queue. Clones are the same line.
        ///
        /// A softirq CPU watches its descriptors while the instance is enabled; the owner masks it when it begins to poll
        /// and the thread that completes unmasks it.
        #[derive(Clone)]
        pub(crate) enum IrqLine {
            $($(#[cfg($($cfg)*)])? $(#[$doc])* $kind(std::sync::Arc<$line>),)*
        }

        /// Does `$act` with the end that `$it` is.
        macro_rules! on_end {
            ($d of:ident, $d it:expr, $d end:ident => $d act:expr) => {
                match $d it {
                    $($(#[cfg($($cfg)*)])? $d of::$kind($d end) => $d act,)*
                    $d of::Detached => {
                        let $d end = &mut $d crate::port::Detached;
                        $d act
                    }
                }
            };
        }

        /// Does `$act` with the line that `$it` is.
        macro_rules! on_line {
            ($d it:expr, $d line:ident => $d act:expr) => {
                match $d it {
                    $($(#[cfg($($cfg)*)])? IrqLine::$kind($d line) => $d act,)*
                }
            };
        }
    };
}

kinds! { $
    /// The client of a link, whose memory it is.
    LinkClient: S2cConsumer, link::ClientTx, LinkLine;
    /// The server of a link, which copies.
    LinkServer: C2sConsumer, link::ServerTx, LinkLine;
    /// A memif peer in another process.
    Memif [feature = "memif"]: memif::MemifRx, memif::MemifTx, memif::MemifLine;
    /// An AF_XDP socket.
    Xsk [feature = "xdp"]: Box<xsk::XskRxEnd>, Box<xsk::XskTxEnd>, xsk::XskLine;
}

/// An end that leads nowhere.
pub(crate) struct Detached;

mod bell;
mod counters;
mod irq;
mod kind;
pub(crate) mod link;
mod link_line;
mod lock;
#[cfg(feature = "memif")]
pub(crate) mod memif;
mod moved;
mod rx;
pub(crate) mod tap;
mod tx;
mod tx_completion;
#[cfg(feature = "xdp")]
pub(crate) mod xsk;

pub(crate) use bell::Bell;
pub(crate) use counters::{Counter, FrameAccount, RxCounters, TxCounters};
pub(crate) use irq::{EDGES, InterruptLine, IrqCpu, Tokens};
pub use kind::{AddDeviceError, EndConfig};
pub(crate) use kind::{AddedDevice, Made, PortKind, Service, ServiceHost};
pub(crate) use link_line::LinkLine;
pub(crate) use lock::{lock, lock_root, wait_for};
pub(crate) use moved::{MovedTx, Tell};
pub(crate) use rx::{RxHome, RxQueue, RxRing, take_copied};
pub(crate) use tap::{Tap, Taps};
pub(crate) use tx::{TxFull, TxHome, TxQueue, TxRing};
pub(crate) use tx_completion::{Charges, ToTell};

use std::io;
use std::sync::Arc;

use napier_ring::memif::{C2sConsumer, S2cConsumer};
use napier_ring::{ArenaConfig, FramePool, FrameTable, Mapping};

use napier_sys::mmap::private_memory;

/// One queue of a device.
pub(crate) struct QueuePair {
    /// Packets that come in.
    pub(crate) rx: RxQueue,
    /// Packets that go out.
    pub(crate) tx: TxQueue,
    /// The interrupt that this end receives for `rx`.
    pub(crate) irq: IrqLine,
}

/// What a device is made of, whatever its kind.
pub(crate) struct Ports {
    pub(crate) queues: Vec<QueuePair>,
    pub(crate) senders: SenderSpace,
}

/// Where a device's senders will have their frames. They are made when the first queue gets a discipline.
#[derive(Clone)]
pub(crate) struct SenderSpace {
    /// Shared memory and where in it, if the peer reads frames where they are; else memory of its own is made.
    place: Option<(Arc<Mapping>, usize)>,
    senders: u16,
    frames: u32,
    stride: u32,
    /// Bytes between two frames that belong to neither.
    gap: u32,
}

/// The frames of senders could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SenderSpaceError {
    /// The engine's frame table.
    #[error("frames for senders cannot be registered: {0}")]
    Arena(#[from] napier_ring::ArenaError),
    /// The kernel gave no memory.
    #[error("{bytes} bytes of memory for senders: {source}; use fewer senders or fewer frames for each")]
    Memory {
        /// As asked for.
        bytes: usize,
        /// What the kernel said.
        source: io::Error,
    },
}

impl SenderSpace {
    /// `senders` with `frames` each, `stride` bytes apart.
    pub(crate) fn new(senders: u16, frames: u32, stride: u32, place: Option<(Arc<Mapping>, usize)>) -> Self {
        Self { place, senders, frames, stride, gap: 0 }
    }

    /// With `gap` bytes between two frames that belong to neither: they are no part of the stride's frame.
    pub(crate) fn with_gap(self, gap: u32) -> Self {
        Self { gap, ..self }
    }

    /// Bytes that a frame takes.
    pub(crate) fn frame_bytes(&self) -> u32 {
        self.stride
    }

    /// Makes the frames: one pool per sender. Once per device.
    ///
    /// # Errors
    ///
    /// No memory, or no room in the engine's frame table.
    pub(crate) fn open(&self, table: &Arc<FrameTable>) -> Result<Vec<FramePool>, SenderSpaceError> {
        let bytes = usize::from(self.senders) * self.frames as usize * self.stride as usize;
        let (mapping, offset) = match &self.place {
            Some((region, offset)) => (region.clone(), *offset),
            None => {
                let private = private_memory(bytes).map_err(|source| SenderSpaceError::Memory { bytes, source })?;
                (Arc::new(private), 0)
            }
        };
        let (stride, frames_per_home, homes) = (self.stride as usize, self.frames, self.senders);
        let config = ArenaConfig { mapping, offset, stride, frames_per_home, homes };
        let (_, pools) = table.add_arena_with_gaps(config, stride - self.gap as usize)?;
        Ok(pools)
    }
}
