//! Where facts come from: files below a root, and what the kernel answers. Those of another machine can take the place of both.

use std::collections::BTreeMap;
use std::io;

use napier_core::control::{NapiInfo, QueueKind};
use rustix::thread::CapabilitySet;

use super::{LeadsTo, Lost, Thread};
use crate::device::{self, DeviceError};
use crate::ethtool::{self, Group};
use crate::netdev::{self as napi, KernelQueue, Netdev};
use crate::root::Root;
use crate::{change, link, wiring};

/// `include/uapi/linux/netdev.h NETDEV_XDP_ACT_XSK_ZEROCOPY`.
const ZERO_COPY: u64 = 1 << 3;

/// A queue: its number, and the instance that queue-get names.
pub(super) type Queue = (QueueKind, u32, Option<u32>);

/// What is asked of the kernel that is in no file of `/proc` or `/sys` below the root.
pub(super) trait Answers {
    /// Interfaces: number, name, and of a virtual one what it is.
    fn links(&self) -> io::Result<Vec<(u32, String, Option<String>)>>;
    /// All instances; `None` where the kernel lists none.
    fn napis(&self) -> Option<Vec<NapiInfo>>;
    /// Queues of an interface.
    fn queues(&self, ifindex: u32) -> Vec<Queue>;
    /// Receive queues that AF_XDP sockets have, and whether the driver has zero copy; nothing where that is not asked.
    fn xsk(&self, ifindex: u32) -> (Vec<u32>, Option<bool>);
    /// A group of `ethtool`'s settings.
    fn ethtool(&self, ifindex: u32, group: Group) -> BTreeMap<String, String>;
    /// Whether an XDP program is attached.
    fn has_xdp(&self, interface: &str) -> bool;
    /// What an interface leads to.
    fn leads_to(&self, _device: &change::DeviceRef) -> Option<LeadsTo> {
        None
    }
    /// A file below the interface's folder in this namespace's `sysfs`.
    fn file(&self, interface: &str, file: &str) -> Result<String, DeviceError>;
    /// A thread, if it lives.
    fn thread(&self, tid: u32) -> Option<Thread>;
    /// What each interface missed.
    fn missed(&self) -> Vec<Lost>;
    /// Numbers of interfaces of this namespace that a running napier holds.
    fn held(&self) -> Vec<u32>;
    /// Capabilities of who asks that napier needs for something and that are missing.
    fn missing_capabilities(&self) -> Vec<&'static str>;
}

/// A machine that is read.
pub(super) struct Source<'a> {
    pub(super) root: Root,
    pub(super) kernel: &'a dyn Answers,
}

/// This machine, in the namespace of the calling thread.
pub(super) struct Here;

impl Answers for Here {
    fn links(&self) -> io::Result<Vec<(u32, String, Option<String>)>> {
        link::all()
    }

    fn napis(&self) -> Option<Vec<NapiInfo>> {
        napi::napi_dump(None).ok()
    }

    fn queues(&self, ifindex: u32) -> Vec<Queue> {
        let queues = Netdev::open().and_then(|mut netdev| netdev.queue_dump(Some(ifindex.into()))).unwrap_or_default();
        queues.into_iter().map(|queue| (queue.info.kind, queue.info.id, queue.info.napi_id)).collect()
    }

    fn xsk(&self, ifindex: u32) -> (Vec<u32>, Option<bool>) {
        let ask = |ifindex: u64| Netdev::open().and_then(|mut netdev| netdev.queue_dump(Some(ifindex)));
        let all = ask(ifindex.into()).unwrap_or_default();
        let own = |queue: &&KernelQueue| queue.xsk && queue.info.kind == QueueKind::Rx;
        let queues: Vec<u32> = all.iter().filter(own).map(|queue| queue.info.id).collect();
        // Asked only where there is something to say of it.
        let features = || Netdev::open().and_then(|mut netdev| netdev.dev_get(Some(ifindex.into()))).ok()?.xdp_features;
        let told = if queues.is_empty() { None } else { features() };
        (queues, told.map(|bits| bits & ZERO_COPY != 0))
    }

    fn ethtool(&self, ifindex: u32, group: Group) -> BTreeMap<String, String> {
        ethtool::get(ifindex, group).unwrap_or_default()
    }

    fn has_xdp(&self, interface: &str) -> bool {
        link::has_xdp(interface).unwrap_or(false)
    }

    fn leads_to(&self, device: &change::DeviceRef) -> Option<LeadsTo> {
        wiring::leads_to(device)
    }

    fn file(&self, interface: &str, file: &str) -> Result<String, DeviceError> {
        device::read_file(interface, file)
    }

    fn thread(&self, tid: u32) -> Option<Thread> {
        Thread::of(tid).ok()
    }

    fn missed(&self) -> Vec<Lost> {
        let lost = |(_, name, _, counters): (u32, String, bool, link::Counters)| Lost {
            who: name,
            of: counters.rx_packets,
            lost: counters.rx_missed_errors,
        };
        link::counters().unwrap_or_default().into_iter().map(lost).collect()
    }

    fn held(&self) -> Vec<u32> {
        let is_here = |scope: &change::Scope, device: &change::DeviceRef| {
            change::Scope::device(device.clone()).is_ok_and(|own| own == scope.whole())
        };
        let of = |(scope, keep)| match &scope {
            change::Scope::Device { device, .. } if keep == change::Keep::Run && is_here(&scope, device) => {
                Some(device.ifindex)
            }
            _ => None,
        };
        change::pending().into_iter().filter_map(of).collect()
    }

    fn missing_capabilities(&self) -> Vec<&'static str> {
        let own = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
        let is_missing = |(capability, _): &(CapabilitySet, _)| !own.contains(*capability);
        NEEDED.into_iter().filter(is_missing).map(|(_, name)| name).collect()
    }
}

/// What napier needs capabilities for.
pub(super) const NEEDED: [(CapabilitySet, &str); 4] = [
    (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
    (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    (CapabilitySet::SYS_NICE, "CAP_SYS_NICE"),
    (CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE"),
];
