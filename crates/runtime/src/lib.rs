//! The engine: packet delivery in user space by the rules of Linux NAPI.
//!
//! An [`Engine`] owns devices ([`LinkConfig`] makes a pair of them over shared memory), a NAPI instance
//! per receive queue, and the threads that poll them. Programs use UDP sockets ([`UdpSocket`]), event
//! contexts ([`EventContext`]) with epoll's semantics, or raw ports ([`RawPort`]). Which way packets are
//! delivered is set per instance while traffic flows, in the kernel's vocabulary.

#![forbid(unsafe_code)]

mod bounds;
mod capture;
mod deliver;
mod engine;
#[cfg(test)]
mod hold;
pub mod journal;
mod napi;
mod netdev;
mod port;
mod raw;
#[cfg(test)]
mod test_link;
mod threads;
mod tx;

use napier_stack::{self as stack, park, put_off};
use napier_sys::{self as sys, clock, give_way, nowait};

pub use capture::{Capture, CaptureConfig, CaptureError, CaptureStats};
pub use deliver::SysctlError;
pub use deliver::softirq::SoftirqStats;
pub use engine::{
    AddLinkError, AffinityError, CountedThread, DeviceHandle, DeviceStats, Engine, EngineBuilder, LinkState, RssError,
    StartError,
};
pub use napi::NapiStats;
pub use napier_core::context::{PerContext, PollContext};
pub use napier_core::control;
pub use napier_core::memif::Secret as MemifSecret;
pub use napier_core::moderation::{Coalesce, CoalesceError};
pub use napier_stack::event::{
    AddError, DeleteError, EpollParams, EpollParamsError, EpollParamsRequest, Event, EventContext, EventStats,
    Interest, ModifyError, Pollable, Timeout, UserEvent, WaitError,
};
pub use napier_stack::seams::IfAddr;
pub use napier_stack::{
    CongestionControl, DeviceError, GatewayError, MergedDatagram, NeighbourError, NetNs, OptionError, ReusePort,
    SocketOption, StackCounters, TcpListener, TcpListenerBuilder, TcpStream, TcpStreamBuilder, UdpSocket,
    UdpSocketBuilder, UnknownOption,
};

pub use napier_core::tx::DropReason;
pub use napier_core::tx::qdisc::FqConfig;
pub use napier_sys::heap::give_back_free_memory;
pub use napier_sys::kernel_sockets::{bind_kernel_socket_to, set_kernel_busy_poll, set_kernel_epoll_params};
pub use napier_sys::real_time::RealTime;
pub use napier_sys::sched::available_cpus;
pub use napier_sys::tsc::{ticks, ticks_after};
pub use napier_sys::usage::{ThreadUsage, thread_usage};
pub use port::link::{LinkConfig, LinkError};
pub use port::memif::{AddMemifError, MemifAccess, MemifConfig, MemifRole, MemifSocketError};
#[doc(hidden)]
pub use port::xsk::BareXdp;
pub use port::xsk::{AddXdpError, XdpBusyPoll, XdpConfig, XdpFilter, XdpInfo, XdpMode, XdpStats};
pub use port::{AddDeviceError, EndConfig, SenderSpaceError};
pub use raw::{BindRawError, RawBusyPoll, RawFrame, RawPoller, RawPort, RawSendError, RawSender, TxRingFull};
pub use threads::{ThreadRole, ThreadTime};
pub use tx::{ByteLimits, QdiscConfig, TxQueueStats, TxSelect, TxSetupError, TxVariant, XmitBucket, XmitTimes};

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
    EndConfig {
        name: name.to_owned(),
        netns: engine.namespace(),
        mac: [2, 0, 0, 0x77, 0, last],
        addresses: vec![IfAddr { addr: std::net::Ipv4Addr::new(10, 77, 0, last).into(), prefix_len: 24 }],
        irq_cpus: Vec::new(),
    }
}
