//! UDP/IP and TCP/IP: name spaces, sockets, ARP, neighbour discovery, echo; and event contexts to wait for sockets.
//!
//! Nothing here knows an engine or a device: [`device`] and [`host`] say what is asked of them. Programs find the public names in
//! `napier_runtime`.
//!
//! A [`NetNs`] holds devices, neighbours and sockets. The owner of a NAPI instance hands each received frame to it; a
//! UDP datagram goes from the frame straight into the queue of its [`UdpSocket`], without a copy, a lock or an
//! allocation. Everything else that the stack understands (ARP, neighbour discovery, ICMP echo) is rare and is taken
//! apart with `smoltcp::wire`.
//!
//! # What is not here
//! Multicast and broadcast datagrams, VLAN tags, routes but one default gateway for each family, ICMP redirects, a loopback
//! device; of ICMP errors about what others send all but port unreachable and the fragments whose rest does not come.
//!
//! # Folders
//! Each uses only those above it.
//!
//! | folder | what |
//! |---|---|
//! | [`device`], [`host`] | the ports: what the stack asks of a device and of an engine |
//! | `wire` | formats: addresses, headers, checksums, the parser |
//! | [`wait`] | sleeping and waking; work that a thread defers |
//! | [`event`] | event contexts |
//! | `tables` | what everybody in a name space reads: devices, routes, neighbours, ports. Knows no protocol |
//! | `udp`, `tcp` | the protocols, which do not know each other |
//! | `pass` | the receive path of a poll, from the frame to the protocols |
//! | `ns` | the name space: owns all of it |
//!
//! Beside them: `counters`, `errno`, and `options`, the socket options that protocols share.

mod counters;
pub mod device;
mod errno;
pub mod event;
pub mod host;
mod ns;
mod options;
mod pass;
mod tables;
mod tcp;
mod udp;
pub mod wait;
mod wire;

#[cfg(any(test, feature = "fuzzing"))]
mod fuzz;
#[cfg(any(test, feature = "fuzzing"))]
#[cfg_attr(not(test), allow(dead_code, reason = "the fuzzer uses a part of it"))]
mod testing;
#[cfg(test)]
mod tests;

pub use napier_core::fragments::MtuDiscovery;
pub use napier_core::tcp::memory::{MemoryLimits, MemoryLimitsError};
pub use napier_core::tcp::time_wait::Reuse as TimeWaitReuse;

pub use counters::{STACK_METRICS, StackCounters};
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzz::fuzz_frames;
#[doc(hidden)]
pub use ns::no_address;
pub use ns::{DeviceError, GatewayError, NeighbourError, NetNs};
pub use options::{OptionError, SocketOption, UnknownOption};
#[cfg(any(test, feature = "fuzzing"))]
pub use pass::injected;
pub use pass::{DryRun, RxPass, View, merge};
pub use tables::reuse::ReusePort;
pub use tcp::{CongestionControl, TcpInfo, TcpListener, TcpListenerBuilder, TcpStream, TcpStreamBuilder};
pub use udp::{
    MergedDatagram, OVERHEAD_BYTES, RecvMeta, SendBuffers, SendMeta, SentError, UdpSocket, UdpSocketBuilder,
};
pub use wait::{deferred, park};

/// The name that [`deferred`] had.
#[doc(hidden)]
#[deprecated(note = "it is `deferred`")]
pub mod put_off {
    pub use crate::wait::deferred::*;
}

/// The ports under the name that they had together.
#[doc(hidden)]
#[deprecated(note = "they are `device` and `host`")]
pub mod seams {
    pub use crate::device::{Egress, IfAddr, MTU, OnRoom, PacketClass, TxError};
    #[deprecated(note = "use `IrqHandOver`")]
    pub use crate::host::IrqHandOver as CpuOfSleeper;
    pub use crate::host::{Busy, ContextShown, Deliveries, Dependant, Host, HostSettings, IrqHandOver, Lifetime, Wait};
}
