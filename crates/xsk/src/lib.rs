//! AF_XDP sockets in Rust: the queues of a network interface with frames in place, without a C library and without a loader.
//!
//! [`Xsk::open`] opens queues of an interface: a socket for each, one memory for all, and a small program on the interface that
//! redirects the packets of a [filter](XdpFilter) to them; the kernel's own stack gets all others. The program is made of
//! instructions in this crate and tied to a descriptor, so it goes when the process does, however it ends.
//!
//! ```no_run
//! use napier_xsk::{Xsk, XskConfig};
//! use rustix::event::{PollFd, PollFlags, poll};
//!
//! let (xsk, mut queues) = Xsk::open(&XskConfig { queues: 1, ..XskConfig::on("eth0") })?;
//! println!("{:?}", xsk.info()); // native or generic, zero copy or not
//! loop {
//!     // Sends every packet back from where it is, with its Ethernet addresses exchanged.
//!     let taken = queues[0].reflect(|packet| {
//!         let (to, from) = packet[..12].split_at_mut(6);
//!         to.swap_with_slice(from);
//!         true
//!     });
//!     if taken == 0 {
//!         poll(&mut [PollFd::new(&queues[0], PollFlags::IN)], None)?;
//!     }
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A queue has a [receiver](XskReceiver) and a [sender](XskSender), for one thread or for two ([`XskQueue::split`]). The kernel is
//! woken only if it sleeps (`XDP_USE_NEED_WAKEUP`). A packet that one queue has received can be sent by any queue of the interface,
//! from where it is ([`XskReceiver::take`], [`XskSender::push`]).
//!
//! # Rights
//! `CAP_NET_RAW` for the sockets, `CAP_NET_ADMIN` and `CAP_BPF` for the program; errors name what is missing. Linux 5.11 or later
//! (5.9 with fewer comforts).
//!
//! # Checksums on veth
//! A packet from a socket of the same machine has no whole checksum over veth, for the sending side leaves it to hardware that is not
//! there. `ethtool -K PEER tx off` makes it compute them.
//!
//! # With frames of one's own
//! [`drive`] is the layer below: bound sockets and rings for a program that has frames already, as the engine in `napier-runtime`
//! has.

mod attached;
mod beside;
mod config;
mod error;
mod filter;
#[cfg(test)]
mod filter_tests;
mod namespace;
mod offload;
mod open;
mod program;
mod queue;
mod queues;
mod stats;

pub use config::{XdpMode, XskConfig};
pub use error::XskError;
pub use filter::XdpFilter;
pub use napier_ring::{Frame, FrameTable};
pub use napier_sys::xsk::XdpBusyPoll;
pub use queue::{Xsk, XskInfo, XskQueue, XskReceiver, XskSender};
pub use stats::XskStats;

/// Bound sockets for a program that has frames of its own.
pub mod drive {
    pub use crate::open::{AttachedProgram, OpenedInterface, cut, open};
    pub use crate::queues::{InterfaceQueues, fit};
    pub use crate::stats::statistics;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
