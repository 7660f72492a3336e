//! The engine: packet delivery in user space by the rules of Linux NAPI.
//!
//! # Layers
//!
//! | module | what it is |
//! |---|---|
//! | [`engine`] | the threads that stand for softirq CPUs, and what they serve; everything else begins with an [`Engine`] |
//! | [`device`] | links in shared memory, memif interfaces, AF_XDP interfaces; a NAPI instance per receive queue |
//! | [`group`] | groups of CPUs whose threads poll the queues that they are given, and what a policy does with them |
//! | [`tx`] | queueing disciplines and transmit queues |
//! | [`raw`] | the frames of one queue in place, as an AF_XDP program has them |
//! | [`socket`] | UDP and TCP sockets in name spaces, over the devices |
//! | [`event`] | event contexts with epoll's semantics: many sockets in one wait |
//! | [`control`] | how packets are delivered, set per instance while traffic flows, in the kernel's vocabulary (`napi-set`) |
//! | [`capture`] | what a device receives and transmits, as a pcapng file |
//! | [`metric`] | every counter of an engine, with name, unit and labels |
//! | [`journal`] | every rule that was applied, in order |
//!
//! A packet goes up: a ring of the device, the NAPI instance that some thread polls, then a raw port, or a socket and the
//! event contexts that watch it. Which thread polls, and when, is the mode: by default a softirq CPU on an interrupt; an
//! application that busy polls, a thread of the instance or a pool of workers if they are set.
//!
//! # Example
//!
//! A link between two name spaces, its receiving end with suspended interrupts (`suspend20`), and a server that waits in
//! an event context:
//!
//! ```
//! use napier_runtime::prelude::*;
//!
//! fn end(name: &str, netns: &NetNs, n: u8) -> EndConfig {
//!     let address = IfAddr { addr: [10, 0, 0, n].into(), prefix_len: 24 };
//!     EndConfig { mac: [2, 0, 0, 0, 0, n], ..EndConfig::new(name, netns.clone(), &[address]) }
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let engine = Engine::builder().start()?;
//!     let (here, there) = (engine.namespace(), engine.namespace());
//!     let (device, _) = engine.add_link(&LinkConfig::default(), end("a0", &here, 1), end("b0", &there, 2))?;
//!     engine.set_mode(&device, "suspend20".parse()?)?;
//!
//!     let context = EventContext::new(&engine);
//!     context.set_mode("suspend20".parse()?)?;
//!     let server = UdpSocket::bind(&here, "10.0.0.1:7")?;
//!     context.add(&server, Interest::IN, 1)?;
//!
//!     UdpSocket::bind(&there, "10.0.0.2:0")?.send_to(b"hello", "10.0.0.1:7".parse()?)?;
//!     let ready = context.wait(&mut [Event::default(); 16], Timeout::Never)?;
//!     let (bytes, from) = server.recv_from(&mut [0; 1500])?;
//!     println!("{ready} event, {bytes} bytes from {from}");
//!     Ok(())
//! }
//! ```
//!
//! # Features
//!
//! All are on by default; without one the engine has less and is built sooner: `memif` (`Engine::add_memif`), `xdp`
//! (`Engine::add_xdp`), `capture` (module `capture`). Links in memory and the sockets are always there.
//!
//! Errors are one small enum per operation, with the kernel's numbers where it has them; their messages say what to do.
//! `crates/runtime/examples` has an echo server, a forwarder of raw frames and a round trip.

#![forbid(unsafe_code)]
// What only a kind of device or the capture uses is of no use without it, and where links are the only kind a match needs no other arm.
#![cfg_attr(
    not(all(feature = "capture", feature = "memif", feature = "xdp")),
    allow(dead_code, unreachable_patterns, irrefutable_let_patterns)
)]

mod bounds;
#[cfg(feature = "capture")]
pub mod capture;
mod deliver;
pub mod engine;
#[cfg(test)]
mod hold;
mod io_error;
pub mod journal;
mod napi;
mod netdev;
mod port;
pub mod raw;
#[cfg(test)]
mod test_link;
mod threads;
pub mod tx;

pub use napier_core::control;
pub use napier_stack::event;

/// Devices: links in shared memory, memif interfaces and AF_XDP interfaces, with a NAPI instance per receive queue.
pub mod device {
    #[doc(inline)]
    pub use crate::engine::{
        AddLinkError, AffinityError, DeviceHandle, DeviceStats, LinkState, RemoveDeviceError, RssError,
    };
    pub use crate::napi::NapiStats;
    pub use crate::port::link::{LinkConfig, LinkError};
    #[cfg(feature = "memif")]
    pub use crate::port::memif::{AddMemifError, MemifAccess, MemifConfig, MemifRole, MemifSocketError};
    #[cfg(feature = "xdp")]
    pub use crate::port::xsk::{AddXdpError, XdpBusyPoll, XdpConfig, XdpFilter, XdpInfo, XdpMode, XdpStats};
    pub use crate::port::{AddDeviceError, EndConfig, SenderSpaceError};
    pub use napier_core::context::{PerContext, PollContext};
    pub use napier_core::memif::Secret as MemifSecret;
    pub use napier_core::moderation::{Coalesce, CoalesceError};
    #[cfg(feature = "memif")]
    pub use napier_memif::AddInterfaceError;
    pub use napier_stack::device::{IfAddr, ParseIfAddrError};
    #[cfg(feature = "xdp")]
    pub use napier_xsk::XskError;

    #[cfg(feature = "xdp")]
    #[doc(hidden)]
    pub use crate::port::xsk::{BareReceiver, BareSender, BareXdp};
}

/// What a program with sockets on a device begins with.
///
/// ```
/// use napier_runtime::prelude::*;
///
/// let engine = Engine::builder().start()?;
/// let end = |name, mac, ip: &str| Ok::<_, ParseIfAddrError>(EndConfig { mac, ..EndConfig::new(name, engine.namespace(), &[ip.parse()?]) });
/// let (left, right) = engine.add_link(
///     &LinkConfig::default(),
///     end("left", [2, 0, 0, 0, 0, 1], "10.0.0.1/24")?,
///     end("right", [2, 0, 0, 0, 0, 2], "10.0.0.2/24")?,
/// )?;
/// engine.set_mode(&left, "suspend20".parse::<Mode>()?)?;
/// let [asks, answers] = [UdpSocket::bind(right.netns(), "10.0.0.2:0")?, UdpSocket::bind(left.netns(), "10.0.0.1:7")?];
/// asks.send_to(b"hello", answers.local_addr()?)?;
/// assert_eq!(answers.recv(&mut [0; 16])?, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod prelude {
    pub use crate::control::mode::Mode;
    #[cfg(feature = "memif")]
    pub use crate::device::MemifConfig;
    #[cfg(feature = "xdp")]
    pub use crate::device::XdpConfig;
    pub use crate::device::{DeviceHandle, EndConfig, IfAddr, LinkConfig, ParseIfAddrError};
    pub use crate::engine::Engine;
    pub use crate::event::{Event, EventContext, Interest, Timeout};
    pub use crate::socket::{NetNs, TcpListener, TcpStream, UdpSocket};
}

/// Groups of CPUs: threads that poll the queues which they are given, and share them by a policy.
///
/// [`Engine::group_new`] makes a group, [`Engine::group_attach`] gives it a queue by its NAPI id, [`Engine::groups`] shows
/// what all do.
///
/// ```
/// # use napier_runtime::doc_link;
/// use napier_runtime::group::GroupSettings;
///
/// let (engine, device, _) = doc_link()?;
/// engine.group_new("polling", &napier_runtime::available_cpus()[..1], GroupSettings::default())?;
/// engine.group_attach("polling", device.napi_id(0))?;
/// assert_eq!(engine.groups()[0].name, "polling");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod group {
    #[doc(inline)]
    pub use crate::engine::{
        Doing, GroupChangeError, GroupClass, GroupInfo, GroupMemberInfo, GroupOfNapi, GroupSettings, Policy, PollerInfo,
    };
}

/// The figures of an engine with their names: [`Engine::metrics`] hands them to a [`metric::Sink`].
pub mod metric {
    pub use crate::engine::metrics::metrics;
    pub use napier_core::metric::{Kind, Metric, Sink, Unit};
}

/// UDP and TCP sockets, and the name spaces that they are in.
pub mod socket {
    /// Runs `call`, in which this thread receives, sends and accepts without waiting, whatever [`UdpSocket::set_nonblocking`] and its like say:
    /// `MSG_DONTWAIT` of one call. Other threads' calls on the same socket wait as before. Costs nothing where a call has no reason to wait.
    ///
    /// ```
    /// # use napier_runtime::doc_link;
    /// use napier_runtime::socket::{UdpSocket, without_waiting};
    ///
    /// let (_engine, device, _) = doc_link()?;
    /// let socket = UdpSocket::bind(device.netns(), "10.77.0.1:7")?;
    /// let nothing = without_waiting(|| socket.recv(&mut [0; 16])).unwrap_err();
    /// assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub use napier_sys::current::without_waiting;

    #[doc(hidden)]
    pub use napier_stack::no_address;
    pub use napier_stack::{
        CongestionControl, DeviceError, GatewayError, MemoryLimits, MemoryLimitsError, MergedDatagram, MtuDiscovery,
        NeighbourError, NetNs, OptionError, RecvMeta, ReusePort, SendMeta, SentError, SocketOption, StackCounters,
        TcpInfo, TcpListener, TcpListenerBuilder, TcpStream, TcpStreamBuilder, TimeWaitReuse, UdpSocket,
        UdpSocketBuilder, UnknownOption,
    };
}

pub use napier_sys::heap::give_back_free_memory;
pub use napier_sys::real_time::RealTime;
pub use napier_sys::sched::available_cpus;

use device::{DeviceHandle, EndConfig, IfAddr, LinkConfig};
use engine::Engine;

/// A link between two name spaces for the examples in this documentation: `tested` is 10.77.0.1, `peer` 10.77.0.2.
#[doc(hidden)]
pub fn doc_link() -> Result<(Engine, DeviceHandle, DeviceHandle), Box<dyn std::error::Error>> {
    let cpu = available_cpus()[0];
    let engine = Engine::builder().softirq_cpus(&[cpu]).start()?;
    let (tested, peer) =
        engine.add_link(&LinkConfig::default(), doc_end(&engine, "tested", 1), doc_end(&engine, "peer", 2))?;
    Ok((engine, tested, peer))
}

/// One end of a link for the examples in this documentation: 10.77.0.`last`.
#[doc(hidden)]
#[must_use]
pub fn doc_end(engine: &Engine, name: &str, last: u8) -> EndConfig {
    let address = IfAddr { addr: std::net::Ipv4Addr::new(10, 77, 0, last).into(), prefix_len: 24 };
    EndConfig { mac: [2, 0, 0, 0x77, 0, last], ..EndConfig::new(name, engine.namespace(), &[address]) }
}
