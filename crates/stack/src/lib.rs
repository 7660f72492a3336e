//! UDP/IP and TCP/IP: name spaces, sockets, ARP, neighbour discovery, echo; and event contexts to wait for sockets.
//!
//! Nothing here knows an engine or a device: [`seams`] names what is asked of them. Programs find the public names in
//! `napier_runtime`.
//!
//! A [`NetNs`] holds devices, neighbours and sockets. The owner of a NAPI instance hands each received frame to it; a
//! UDP datagram goes from the frame straight into the queue of its [`UdpSocket`], without a copy, a lock or an
//! allocation. Everything else that the stack understands (ARP, neighbour discovery, ICMP echo) is rare and is taken
//! apart with `smoltcp::wire`.
//!
//! # What is not here
//! IP fragments in either direction, ICMP errors about what others send (a datagram to a port that nobody has is dropped and
//! counted), multicast and broadcast datagrams, VLAN tags, routes but one default gateway for each family, ICMP redirects, a
//! loopback device, IPv4-mapped addresses on IPv6 sockets (every IPv6 socket behaves as with `IPV6_V6ONLY`).
//!
//! # Files
//! `pass` (receive, per poll) uses `wire` (parse), `merge` (receive offload), `demux` (tables) and `slow` (ARP, ND, ICMP and its errors); `socket` is the public
//! type for UDP, `builder` makes it, `queue` its receive side, `send` its transmit side, `sndbuf` what is on its way, `options` its options, `told` its errors; `netns` owns the snapshot that all
//! of them read; `tcp` has a map of its own; `path`, `gateway`, `neighbour` and `path_mtu` decide where a datagram goes and how long it may be, `ageing` how long neighbours are believed; `seams` names what the stack needs from outside.
//! `event` waits for sockets, `park` sleeps, `put_off` holds back what a thread does when it has let go or sleeps.

mod addr;
mod ageing;
mod builder;
mod checksum;
mod counters;
mod demux;
pub mod event;
mod gateway;
mod in_hand;
mod learn;
pub mod merge;
mod neighbour;
mod netns;
mod options;
pub mod park;
mod pass;
mod path;
mod path_mtu;
pub mod put_off;
mod queue;
mod registry;
pub mod seams;
mod send;
mod slow;
mod sndbuf;
mod socket;
mod stop;
mod tcp;
mod template;
mod told;
mod watch;
mod wire;
mod writer;

#[cfg(any(test, feature = "fuzzing"))]
mod fuzz;
#[cfg(any(test, feature = "fuzzing"))]
#[cfg_attr(not(test), allow(dead_code, reason = "the fuzzer uses a part of it"))]
mod testing;
#[cfg(test)]
mod tests;

pub use builder::{ReusePort, UdpSocketBuilder};
pub use counters::{STACK_METRICS, StackCounters};
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzz::fuzz_frames;
pub use gateway::GatewayError;
#[cfg(any(test, feature = "fuzzing"))]
pub use in_hand::injected;
pub use netns::{DeviceError, NeighbourError, NetNs};
pub use options::{OptionError, SocketOption, UnknownOption};
pub use pass::{DryRun, RxPass, View};
pub use sndbuf::{OVERHEAD_BYTES, SendBuffers};
pub use socket::{MergedDatagram, UdpSocket};
pub use tcp::{CongestionControl, TcpListener, TcpListenerBuilder, TcpStream, TcpStreamBuilder};
