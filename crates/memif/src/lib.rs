//! memif 2.0 in Rust: packets by shared memory between two processes, one of which may be DPDK, VPP or anything else that speaks memif.
//!
//! A [`Memif`] has interfaces, each a server that listens on a Unix socket or a client that connects. It is one descriptor for an
//! event loop (`AsFd`), and one call, [`Memif::poll`], that shakes hands and tells what became of each peer. A peer is a receiver
//! and a sender per queue, which a program uses as it likes, each on a thread of its own if need be: bursts of packets, and a
//! descriptor per queue to wait for the peer's interrupt.
//!
//! ```
//! use napier_memif::{InterfaceConfig, Memif, MemifEvent, MemifReceiver, MemifSender, MemifPackets};
//!
//! fn peer(memif: &mut Memif) -> (MemifReceiver, MemifSender) {
//!     loop {
//!         match memif.poll(None) {
//!             Some(MemifEvent::Connected { mut receivers, mut senders, .. }) => return (receivers.remove(0), senders.remove(0)),
//!             Some(MemifEvent::Disconnected { why, .. }) => eprintln!("{why}"),
//!             _ => {}
//!         }
//!     }
//! }
//!
//! let socket = format!("@napier-memif-doc-{}", std::process::id()); // an abstract name; a path does as well
//! let mut server = Memif::new()?;
//! server.add("server", InterfaceConfig::server(&socket))?;
//! // As if in another process.
//! let (to, client) = (socket.clone(), std::sync::mpsc::channel());
//! let sends = std::thread::spawn(move || {
//!     let mut memif = Memif::new().expect("descriptors");
//!     memif.add("client", InterfaceConfig::client(&to)).expect("a socket");
//!     let (_, mut sender) = peer(&mut memif);
//!     let sent = sender.send([&b"hello"[..], b"world"]);
//!     client.1.recv().expect("until the server has it");
//!     sent.packets
//! });
//! let (mut receiver, _sender) = peer(&mut server);
//! let mut packets = MemifPackets::new(32, 2048);
//! let mut got = Vec::new();
//! while got.len() < 2 {
//!     receiver.receive(&mut packets);
//!     got.extend(packets.iter().map(<[u8]>::to_vec));
//! }
//! assert_eq!(got, [b"hello", b"world"]);
//! client.0.send(())?;
//! assert_eq!(sends.join().expect("no panic"), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a peer can do
//! A peer is another process, so nothing of it is believed. Packets are copied once on each side, in neither role is a reference
//! made to memory that the peer can write, descriptors are checked, files have to be sealed so that no access to them can fail,
//! and a sender that the peer makes wait is freed. A client of DPDK with `zero-copy=yes` is refused for that.
//!
//! # With threads and queues of one's own
//! [`drive`] is the layer below, for a program that has threads, frames and queues already, as the engine in `napier-runtime` has.
//!
//! Source: memif 2.0, DPDK v22.11 `drivers/net/memif`; `napier_core::memif` has the messages and the rules of both sides.

mod access;
mod attachment;
mod bell;
mod channel;
mod client;
mod config;
mod disconnect;
mod guard;
mod handler;
mod kick;
mod memif;
mod poll;
mod port;
mod queue;
mod server;
mod socket;
mod state;

pub use access::MemifAccess;
pub use config::{AddInterfaceError, InterfaceConfig, MemifRole};
pub use disconnect::Disconnect;
pub use memif::{InterfaceId, Memif, MemifEvent};
pub use napier_core::memif::Secret;
pub use napier_ring::memif::remote::Sent;
pub use queue::{MemifPackets, MemifReceiver, MemifSender, ReceiverCounters, SenderCounters};
pub use socket::MemifSocketError;

/// The control channel for a program that has threads and queues of its own.
///
/// One thread drives a [`Channel`](drive::Channel) by [`Peers::turn`](drive::Peers::turn), another [guards](drive::Channel::guard)
/// it; any thread adds interfaces, each with a [`PeerHandler`](drive::PeerHandler) that is handed the ends of rings
/// (`napier_ring::memif::remote`) and told when to give them up.
pub mod drive {
    pub use crate::channel::{AddedInterface, Channel, Reservation};
    pub use crate::config::GAP_BYTES;
    pub use crate::handler::{Connection, PeerHandler, QueueEnds};
    pub use crate::kick::{Kick, drain, new_eventfd};
    pub use crate::state::Peers;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
