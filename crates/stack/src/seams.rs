//! What the stack needs from outside: a way out (a device) and a host (the engine).
//!
//! Both are called through a pointer: at most once per packet sent, on the receive side per event context that is told, and
//! when a socket found nothing to read.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use napier_core::busy::BusyParams;
use napier_core::time::{Deadline, Instant};
use napier_core::tx::qdisc::RATE_UNLIMITED;
use rustix::fd::OwnedFd;

use super::netns::NetNs;
use crate::event::EventStats;

/// An address of a device with the prefix that is reached through it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct IfAddr {
    /// The address.
    pub addr: IpAddr,
    /// Bits of the on-link prefix: 0..=32 for IPv4, 0..=128 for IPv6.
    pub prefix_len: u8,
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
    /// Whether its peer is in this process, with nobody in between.
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
    /// Calls `waiter`, from any thread, when the transmit queue of this class has room, until it is served; false: nobody
    /// will.
    fn await_room(&self, class: &PacketClass, waiter: Arc<dyn OnRoom>) -> bool {
        let _ = (class, waiter);
        false
    }
    /// The transmit queue for what the calling thread sends to a new destination; `None`: by the flow's hash.
    fn pick_queue(&self) -> Option<u16> {
        None
    }
}

/// Somebody whose packets a full transmit queue has refused.
pub trait OnRoom: Send + Sync {
    /// The device has looked after what was sent, and there is room now. False: the sender waits for more of that, and wants
    /// to be called again. Must not wait.
    fn on_room(self: Arc<Self>, ns: &NetNs) -> bool;
}

/// The engine, as far as sockets and event contexts know it.
pub trait Host: Send + Sync {
    /// `net.core.busy_read` in µs: the busy time of new sockets.
    fn sysctl_busy_read(&self) -> u32;
    /// `net.core.busy_poll` in µs: the busy time of event contexts without one of their own; 0 = off.
    fn sysctl_busy_poll(&self) -> u32;
    /// The smallest number that names a NAPI instance (`include/net/busy_poll.h` `napi_id_valid`).
    fn first_napi_id(&self) -> u32;
    /// Whether the process may do what needs `CAP_NET_ADMIN`.
    fn cap_net_admin(&self) -> bool;
    /// Tells `dependant` when the engine ends.
    fn add_dependant(&self, dependant: Weak<dyn Dependant>) {
        let _ = dependant;
    }
    /// The calling thread begins to work for the engine, under this name.
    fn thread_begins(&self, name: &str) {
        let _ = name;
    }
    /// The calling thread has woken up or is about to sleep, and may do what somebody else is kept from doing.
    fn oversee(&self, now: Instant) {
        let _ = now;
    }
    /// The calling thread, which holds nothing, has come for packets: what was held back comes now if it is time.
    fn comes_by(&self) {}
    /// The calling thread, which holds nothing, is about to sleep unless `ready`: what was held back so that it is not
    /// interrupted comes now, and may be for it.
    fn about_to_sleep(&self, ready: &dyn Fn() -> bool) {
        let _ = ready;
    }
    /// The CPU for which the calling thread may work while it sleeps; the caller [ends](CpuOfSleeper::end) that.
    fn stand_in(&self) -> Option<Arc<dyn CpuOfSleeper>> {
        None
    }
    /// Polls the instance until `ready` says true or the limit has passed (`net/core/dev.c` `napi_busy_loop`); returns at
    /// once if there is none with this id.
    fn busy_loop(&self, napi_id: u32, params: BusyParams, ready: &mut dyn FnMut() -> bool);
    /// Arms the instance's timer with its suspend time-out (`net/core/dev.c` `napi_suspend_irqs`).
    fn suspend_irqs(&self, napi_id: u32);
    /// Schedules the instance if it has a suspend time-out (`net/core/dev.c` `napi_resume_irqs`).
    fn resume_irqs(&self, napi_id: u32);
}

/// A CPU whose interrupts and timers a sleeping thread takes, instead of the CPU's own thread. One thread has it at a time.
pub trait CpuOfSleeper: Send + Sync {
    /// The event counter (`eventfd(2)`) that ends a [`sleep`](Self::sleep).
    fn bell(&self) -> &Arc<OwnedFd>;
    /// Sleeps until the CPU has something to do, somebody rings the bell or the deadline passes. Then calls `awake`, once, does
    /// what there is to do, and returns. May return early.
    fn sleep(&self, deadline: Deadline, awake: &mut dyn FnMut());
    /// The caller sleeps no more: the CPU's own thread takes what comes.
    fn end(&self);
}

/// Who writes down what sockets got.
pub trait Deliveries {
    /// The socket that is bound to `to` got `packets` datagrams from instance `napi_id`.
    fn delivered(&self, napi_id: u32, to: SocketAddr, packets: u32);
}

/// What can be seen of an event context from outside.
#[derive(Copy, Clone, Debug)]
pub struct ContextShown {
    /// 1 is the first context that the process made.
    pub number: u64,
    /// The instance that a wait would busy poll now, or 0.
    pub napi_id: u32,
    /// Its counters.
    pub stats: EventStats,
}

/// Somebody with threads that wait for what only the engine can bring about.
pub trait Dependant: Send + Sync {
    /// No packet will come and nothing will be sent any more: waits that begin after this end at once.
    fn engine_stops(&self);
    /// Ends those that have begun. Comes when all dependants know, so that each wait ends for this reason.
    fn end_waits(&self);
    /// What can be seen of it, if it is an event context.
    fn event_context(&self) -> Option<ContextShown> {
        None
    }
}

/// An error with the number that the kernel would give.
pub(crate) fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}
