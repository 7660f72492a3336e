//! The engine: packet delivery in user space by the rules of Linux NAPI.
//!
//! An [`Engine`] owns devices ([`LinkConfig`] makes a pair of them over shared memory), a NAPI instance
//! per receive queue, and the threads that poll them. Programs use UDP sockets ([`UdpSocket`]), event
//! contexts ([`EventContext`]) with epoll's semantics, or raw ports ([`RawPort`]). Which way packets are
//! delivered is set per instance while traffic flows, in the kernel's vocabulary.

mod capture;
mod clock;
mod engine;
mod event;
mod give_way;
#[cfg(test)]
mod hold;
pub mod journal;
mod kthread;
mod link;
mod memif;
mod napi;
mod netdev;
mod nowait;
mod park;
mod port;
mod raw;
mod real_time;
mod softirq;
mod stack;
mod sys;
#[cfg(test)]
mod test_link;
mod tx;
mod workqueue;
mod xdp;

pub use capture::{Capture, CaptureConfig, CaptureError, CaptureStats};
pub use engine::{
    AddDeviceError, AddLinkError, AffinityError, CountedThread, DeviceHandle, DeviceStats, EndConfig, Engine,
    EngineBuilder, LinkState, RssError, StartError, SysctlError, ThreadRole, ThreadTime,
};
pub use event::{
    AddError, DeleteError, EpollParams, EpollParamsError, EpollParamsRequest, Event, EventContext, EventStats,
    Interest, ModifyError, Pollable, Timeout, UserEvent, WaitError,
};
pub use link::{LinkConfig, LinkError};
pub use memif::{AddMemifError, MemifAccess, MemifConfig, MemifRole, MemifSocketError};
pub use napi::{NapiStats, PollContext};
pub use napier_core::control;
pub use napier_core::memif::Secret as MemifSecret;
pub use napier_core::moderation::{Coalesce, CoalesceError};
pub use port::SenderSpaceError;
pub use raw::{BindRawError, RawBusyPoll, RawFrame, RawPoller, RawPort, RawSendError, RawSender, TxRingFull};
pub use real_time::RealTime;
pub use softirq::SoftirqStats;
pub use stack::seams::IfAddr;
pub use stack::{
    CongestionControl, DeviceError, GatewayError, MergedDatagram, NeighbourError, NetNs, OptionError, ReusePort,
    SocketOption, StackCounters, TcpListener, TcpListenerBuilder, TcpStream, TcpStreamBuilder, UdpSocket,
    UdpSocketBuilder, UnknownOption,
};
pub use sys::heap::give_back_free_memory;
pub use sys::kernel_sockets::{bind_kernel_socket_to, set_kernel_busy_poll, set_kernel_epoll_params};
pub use sys::tsc::{ticks, ticks_after};
pub use sys::usage::{ThreadUsage, thread_usage};

pub use napier_core::tx::DropReason;
pub use napier_core::tx::qdisc::FqConfig;
pub use tx::{ByteLimits, QdiscConfig, TxQueueStats, TxSelect, TxSetupError, TxVariant, XmitBucket, XmitTimes};
#[doc(hidden)]
pub use xdp::BareXdp;
pub use xdp::{AddXdpError, XdpBusyPoll, XdpConfig, XdpFilter, XdpInfo, XdpMode, XdpStats};

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub use stack::fuzz::fuzz_frames;

/// Processors that this process may use.
#[must_use]
pub fn available_cpus() -> Vec<usize> {
    rustix::thread::sched_getaffinity(None)
        .map_or_else(|_| vec![0], |set| (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

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
