//! Handles for threads beside the one that receives from a port.

use std::sync::Arc;

use napier_core::busy::{BusyLimit, BusyParams};
use napier_stack::device::{PacketClass, TxError};

use super::RawBusyPoll;
use crate::engine::EngineInner;
use crate::napi::Napi;
use crate::netdev::Device;

/// Sends on the queue of a [`RawPort`](super::RawPort) from another thread, by way of the queue's discipline if it has one, as a packet
/// socket does; what the port itself sends goes straight to the ring, as from an AF_XDP socket.
///
/// ```
/// # use napier_runtime::doc_link;
/// use napier_runtime::raw::RawPort;
///
/// let (_engine, device, peer) = doc_link()?;
/// let (port, receives) = (RawPort::bind(&device, 0)?, RawPort::bind(&peer, 0)?);
/// let sender = port.sender();
/// let sends = std::thread::spawn(move || sender.send(64, |frame| { frame[..64].fill(7); 64 }));
/// sends.join().expect("no panic")?;
/// assert!(receives.wait(None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RawSender {
    pub(super) device: Arc<Device>,
    pub(super) queue: u16,
    pub(super) flow_hash: u32,
}

impl RawSender {
    /// A handle whose packets are flow `flow_hash` to the discipline (default 0).
    #[must_use]
    pub fn with_flow(mut self, flow_hash: u32) -> Self {
        self.flow_hash = flow_hash;
        self
    }

    /// Builds a frame of at most `len_max` bytes and sends it at once.
    ///
    /// # Errors
    /// See [`RawSendError`]; `build` was called only if the discipline dropped the packet.
    pub fn send(&self, len_max: usize, build: impl FnOnce(&mut [u8]) -> usize) -> Result<(), RawSendError> {
        let mut build = Some(build);
        let mut build = |frame: &mut [u8]| build.take().expect("a frame is built once")(frame);
        let class = PacketClass::of_flow(self.flow_hash);
        self.device.transmit_on(usize::from(self.queue), &class, len_max, &mut build).map_err(|error| match error {
            TxError::Full | TxError::Busy => RawSendError::Full,
            TxError::Down => RawSendError::Down,
            TxError::Dropped => RawSendError::Dropped,
        })
    }
}

/// Why a [`RawSender`] did not send.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RawSendError {
    /// The ring has no room, or the sender has as many packets on the way as it may.
    #[error("the transmit queue is full: try again when the peer has taken frames (EAGAIN)")]
    Full,
    /// The device is down.
    #[error("the device is down: bring it up first (ENETDOWN)")]
    Down,
    /// The queueing discipline dropped the packet; it is counted there.
    #[error("the queueing discipline dropped the packet: send more slowly or raise its limit (ENOBUFS)")]
    Dropped,
}

/// Polls the NAPI instance of a [`RawPort`](super::RawPort) from another thread: busy reading in a thread of its own.
pub struct RawPoller {
    pub(super) engine: Arc<EngineInner>,
    pub(super) napi: Arc<Napi>,
}

impl RawPoller {
    /// One iteration, as a non-blocking `recvfrom` with `SO_BUSY_POLL` makes it; the port gets the frames.
    pub fn poll(&self, busy: RawBusyPoll) {
        let params = BusyParams { prefer: busy.prefer, budget_pkts: busy.budget, limit: BusyLimit::Once };
        self.engine.deliver.busy_loop(self.napi.id(), params, &mut || false);
    }
}
