//! Raw ports: the frames of one queue as they are, as an AF_XDP program would take them.
//!
//! A port is bound to one queue of a device and takes every frame that the queue's NAPI instance
//! receives; the name space of the device sees none of them while the port lives. Frames are read in
//! place and can be sent on without a copy.

mod beside;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use napier_core::busy::{BusyLimit, BusyParams};
use napier_core::time::{Deadline, Span};
use napier_ring::{Frame, PACKET_BURST_MAX, PacketReceiver, packet_queue};

use crate::engine::{DeviceHandle, EngineInner};
use crate::napi::{Napi, RawSink};
use crate::netdev::Device;
pub use beside::{RawPoller, RawSendError, RawSender};

/// Why a raw port was not bound.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BindRawError {
    /// The device has fewer queues.
    #[error("{device} has {queues} queues, queue {queue} is none of them (EINVAL)")]
    NoSuchQueue {
        /// Name of the device.
        device: String,
        /// The queue asked for.
        queue: u16,
        /// Queues that there are.
        queues: u16,
    },
    /// Another port has the queue.
    #[error("queue {queue} of {device} is bound already (EBUSY): drop the other port first")]
    QueueBusy {
        /// Name of the device.
        device: String,
        /// The queue.
        queue: u16,
    },
}

/// A raw port on one queue of a device. One thread uses it at a time.
///
/// ```
/// # use napier_runtime::doc_link;
/// # let (engine, a, b) = doc_link()?;
/// use napier_runtime::raw::RawPort;
/// let from = RawPort::bind(&a, 0)?;
/// let to = RawPort::bind(&b, 0)?;
/// from.build(64, |frame| { frame[..64].fill(7); 64 })?;
/// from.flush();
/// assert!(to.wait(Some(std::time::Duration::from_secs(1))));
/// assert_eq!(to.next().expect("one frame").data(), [7; 64]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RawPort {
    engine: Arc<EngineInner>,
    device: Arc<Device>,
    napi: Arc<Napi>,
    queue: u16,
    received: RefCell<PacketReceiver>,
    busy: Cell<RawBusyPoll>,
}

/// How [`RawPort::recv`] polls by itself: the busy-poll socket options of an AF_XDP socket.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub struct RawBusyPoll {
    /// `SO_BUSY_POLL` in us: 0 = `recv` never polls.
    pub usecs: u32,
    /// `SO_PREFER_BUSY_POLL`.
    pub prefer: bool,
    /// `SO_BUSY_POLL_BUDGET`: packets per iteration, 0 = 8.
    pub budget: u16,
}

/// The transmit ring has no room: wait until the peer has taken some, then try again.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the transmit ring is full: try again when the peer has taken frames (EAGAIN)")]
pub struct TxRingFull;

impl RawPort {
    /// Binds a port to queue `queue` of `device`.
    ///
    /// # Errors
    /// See [`BindRawError`].
    pub fn bind(device: &DeviceHandle, queue: u16) -> Result<Self, BindRawError> {
        let name = || device.name().to_owned();
        let is_there = !device.device.is_removed();
        let napi = device.napi(queue).filter(|_| is_there).ok_or_else(|| BindRawError::NoSuchQueue {
            device: name(),
            queue,
            queues: if is_there { device.queues() } else { 0 },
        })?;
        let engine = device.engine.clone();
        let received = engine.deliver.with_stopped(&napi, |owned| {
            if owned.raw.is_some() {
                return None;
            }
            let (sink, received) = packet_queue(owned.rx.frames_home());
            owned.raw = Some(RawSink::new(sink));
            Some(received)
        });
        let Some(received) = received else {
            return Err(BindRawError::QueueBusy { device: name(), queue });
        };
        Ok(Self {
            device: device.device.clone(),
            napi,
            queue,
            received: RefCell::new(received),
            busy: Cell::new(RawBusyPoll::default()),
            engine,
        })
    }

    /// Sets how [`Self::recv`] polls.
    pub fn set_busy_poll(&self, busy: RawBusyPoll) {
        self.busy.set(busy);
    }

    /// NAPI id of the bound queue (`SO_INCOMING_NAPI_ID`, set at bind).
    #[must_use]
    pub fn napi_id(&self) -> u32 {
        self.napi.id()
    }

    /// Makes received frames available to [`Self::next`]; true if there are any. With busy polling on
    /// it makes one iteration where none is there yet, as a non-blocking `recvfrom` on AF_XDP does.
    #[inline]
    pub fn recv(&self) -> bool {
        if self.has_frames() {
            return true;
        }
        let busy = self.busy.get();
        if busy.usecs == 0 {
            return false;
        }
        self.busy_loop(busy, BusyLimit::Once);
        self.has_frames()
    }

    /// Waits until frames are there, after busy polling for the set time; false at the timeout, and when the engine has
    /// stopped or the device was removed.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        if self.has_frames() {
            return true;
        }
        let busy = self.busy.get();
        if busy.usecs != 0 {
            self.busy_loop(busy, BusyLimit::For(busy.usecs));
            if self.has_frames() {
                return true;
            }
        }
        let deadline = timeout.map_or(Deadline::NEVER, |timeout| {
            Deadline::at(
                self.engine.deliver.clock.now() + Span { ns: u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX) },
            )
        });
        let has_news = || self.has_frames() || self.engine.deliver.is_closing() || self.device.is_removed();
        self.napi.raw_parker.wait_in(&*self.engine, has_news, deadline, &self.engine.deliver.clock);
        self.has_frames()
    }

    /// The next received frame; it is given back when dropped.
    #[inline]
    pub fn next(&self) -> Option<RawFrame<'_>> {
        let (frame, len) = self.received.borrow_mut().pop()?;
        Some(RawFrame { frame: Some(frame), len, port: self })
    }

    /// Hands at most `max` received frames to `each`, in place, and gives them back; returns how many. The cheapest way
    /// to receive what is not sent on.
    #[inline]
    pub fn drain(&self, max: usize, mut each: impl FnMut(&mut [u8])) -> usize {
        let mut received = self.received.borrow_mut();
        let mut drained = 0;
        while drained < max {
            // Frames go home in time for a poll by another thread.
            let more = received.drain((max - drained).min(PACKET_BURST_MAX) as u32, &mut each) as usize;
            if more == 0 {
                break;
            }
            drained += more;
        }
        drained
    }

    /// Sends at most `max` received frames on from this port's device, after `each` has seen or changed them, and shows
    /// them to the peer. Frames that find the transmit ring full are dropped and counted there
    /// ([`DeviceStats::tx_ring_full`](crate::device::DeviceStats::tx_ring_full)). Returns how many were received and how many of
    /// these sent. The cheapest way to forward.
    #[inline]
    pub fn forward_batch(&self, max: usize, mut each: impl FnMut(&mut [u8])) -> (usize, usize) {
        let mut received = self.received.borrow_mut();
        if received.is_empty() {
            return (0, 0);
        }
        let mut wire = self.device.claim_tx(usize::from(self.queue));
        let (mut taken, mut sent) = (0, 0);
        let clear = wire.is_clear();
        while taken < max {
            let mut burst = received.take_burst(max - taken);
            if burst.is_empty() {
                break;
            }
            burst.each_mut(&mut each);
            taken += burst.len();
            sent += if clear { wire.queue.give_burst(&mut burst) } else { wire.queue.refuse_many(burst.len()) };
        }
        wire.queue.flush();
        (taken, sent)
    }

    /// Builds a frame of at most `len_max` bytes in the transmit ring: `build` gets room for it and
    /// returns the length. [`Self::flush`] sends.
    ///
    /// # Errors
    /// The ring is full; `build` was not called.
    #[inline]
    pub fn build(&self, len_max: usize, build: impl FnOnce(&mut [u8]) -> usize) -> Result<(), TxRingFull> {
        let mut wire = self.device.claim_tx(usize::from(self.queue));
        let built =
            if wire.is_clear() { wire.queue.build(len_max, build).map_err(drop) } else { wire.queue.refuse(()) };
        built.map_err(|()| TxRingFull)
    }

    /// Builds at most `max` frames of at most `len_max` bytes each in the transmit ring, as [`Self::build`], until it is full or
    /// `build` returns 0; returns how many. The cheapest way to send.
    #[inline]
    pub fn build_batch(&self, max: usize, len_max: usize, build: impl FnMut(&mut [u8]) -> usize) -> usize {
        let mut wire = self.device.claim_tx(usize::from(self.queue));
        if wire.is_clear() { wire.queue.build_many(max, len_max, build) } else { wire.queue.refuse_many(1) }
    }

    /// Sends a received frame on as it is, from this port's device; without a copy where the rings share
    /// its memory. [`Self::flush`] sends.
    ///
    /// # Errors
    /// The ring is full; the frame comes back.
    pub fn forward<'a>(&self, mut frame: RawFrame<'a>) -> Result<(), RawFrame<'a>> {
        let (moved, len) = (frame.frame.take().expect("present until dropped"), frame.len);
        let mut wire = self.device.claim_tx(usize::from(self.queue));
        let given = if wire.is_clear() { wire.queue.give(moved, len) } else { wire.queue.refuse(moved) };
        given.map_err(|back| {
            frame.frame = Some(back);
            frame
        })
    }

    /// Publishes what was built and rings the peer's doorbell if it wants that.
    #[inline]
    pub fn flush(&self) {
        self.device.claim_tx(usize::from(self.queue)).queue.flush();
    }

    /// Bytes of the longest frame that can be sent.
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
        self.device.claim_tx(usize::from(self.queue)).queue.frame_bytes()
    }

    /// A second handle that only sends, for a thread beside the one that receives.
    #[must_use]
    pub fn sender(&self) -> RawSender {
        RawSender { device: self.device.clone(), queue: self.queue, flow_hash: 0 }
    }

    /// A second handle that only polls, for a thread that does nothing else.
    #[must_use]
    pub fn poller(&self) -> RawPoller {
        RawPoller { engine: self.engine.clone(), napi: self.napi.clone() }
    }

    fn busy_loop(&self, busy: RawBusyPoll, limit: BusyLimit) {
        let params = BusyParams { prefer: busy.prefer, budget_pkts: busy.budget, limit };
        self.engine.deliver.busy_loop(self.napi.id(), params, &mut || self.has_frames());
    }

    #[inline]
    fn has_frames(&self) -> bool {
        !self.received.borrow().is_empty()
    }
}

impl Drop for RawPort {
    fn drop(&mut self) {
        self.engine.deliver.with_stopped(&self.napi, |owned| {
            owned.collect_raw();
            owned.raw = None;
        });
        // What comes home from now on does not come by the queue: the next port has its own.
        let mut batch = self.engine.devices.frames.batch();
        let received = self.received.get_mut();
        while let Some((frame, _)) = received.pop() {
            batch.push(frame);
        }
    }
}

/// A received frame, in place.
#[must_use]
pub struct RawFrame<'a> {
    frame: Option<Frame>,
    len: u32,
    port: &'a RawPort,
}

impl RawFrame<'_> {
    /// The bytes, from the Ethernet header on.
    #[inline]
    #[must_use]
    pub fn data(&self) -> &[u8] {
        let frame = self.frame.as_ref().expect("present until dropped");
        self.port.engine.devices.frames.data(frame, self.len as usize)
    }

    /// The bytes, to be changed in place.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let frame = self.frame.as_mut().expect("present until dropped");
        &mut self.port.engine.devices.frames.data_mut(frame)[..self.len as usize]
    }
}

impl Drop for RawFrame<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(frame) = self.frame.take() {
            self.port.received.borrow_mut().give_back(frame);
        }
    }
}
