//! Control calls that must be refused: each returns its documented error and changes nothing.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context as _, ensure};
use napier_runtime::control::{DevAttribute, DevSet, DevSettings, Errno, NapiGet, NapiInfo, NapiSet, QueueGet};
use napier_runtime::device::{
    AddDeviceError, AddLinkError, AffinityError, Coalesce, CoalesceError, DeviceHandle, EndConfig, LinkConfig,
};
use napier_runtime::engine::SysctlError;
use napier_runtime::event::{EpollParams, EpollParamsRequest, EventContext, Interest, WaitError};
use napier_runtime::raw::{BindRawError, RawPort};
use napier_runtime::socket::{NeighbourError, OptionError, ReusePort, SocketOption, UdpSocket};

use napier_lab::compare::parts::{PEER_IP, Pair, TESTED_IP};

/// Instances live in a table of this size, by id: an id this much larger falls on the same place and is still unknown.
const SAME_PLACE: u64 = 4096;
/// A processor that no set of processors has room for.
const NO_CPU: usize = 1 << 20;
/// One that a set has room for and no machine of ours has.
const ABSENT_CPU: usize = 1000;

/// All that a control call could change.
#[derive(PartialEq, Debug)]
struct Settings {
    napis: Vec<NapiInfo>,
    devices: [DevSettings; 2],
    tables: [[u16; 128]; 2],
    irq_cpus: Vec<Option<usize>>,
    contexts: Vec<EpollParams>,
}

/// What the calls are made on.
pub(crate) struct Controls<'a> {
    pub(crate) pair: &'a Pair,
    pub(crate) contexts: &'a [EventContext],
}

fn refused<T: Debug, E: Debug>(call: &str, got: Result<T, E>, right: impl FnOnce(&E) -> bool) -> anyhow::Result<u64> {
    ensure!(matches!(&got, Err(error) if right(error)), "{call} gave {got:?}");
    Ok(1)
}

fn errno<T: Debug>(call: &str, got: io::Result<T>, wanted: Errno) -> anyhow::Result<u64> {
    refused(call, got, |error| error.raw_os_error() == Some(wanted.number()))
}

impl Controls<'_> {
    /// How many kinds of calls there are.
    pub(crate) const KINDS: u32 = 6;

    /// Makes all wrong calls of one kind; returns how many they were.
    pub(crate) fn wrong_calls(&self, kind: u32) -> anyhow::Result<u64> {
        let before = self.settings()?;
        let made = match kind {
            0 => self.napi_set(),
            1 => self.device_set(),
            2 => self.queries(),
            3 => self.shape(),
            4 => self.sockets(),
            _ => self.events(),
        }?;
        let unprivileged = self.without_privilege()?;
        let after = self.settings()?;
        ensure!(before == after, "refused calls of kind {kind} changed something: {before:?} became {after:?}");
        Ok(made + unprivileged)
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let devices = self.devices();
        let irq_cpus = devices.iter().flat_map(|device| (0..device.queues()).map(|queue| device.irq_cpu(queue)));
        Ok(Settings {
            napis: self.pair.engine.napi_dump(None)?,
            devices: devices.map(DeviceHandle::settings),
            tables: devices.map(DeviceHandle::indirection),
            irq_cpus: irq_cpus.collect(),
            contexts: self.contexts.iter().map(EventContext::params).collect(),
        })
    }

    fn devices(&self) -> [&DeviceHandle; 2] {
        [&self.pair.tested, &self.pair.peer]
    }

    fn id(&self) -> u64 {
        u64::from(self.pair.tested.napi_id(0))
    }

    fn napi_set(&self) -> anyhow::Result<u64> {
        let good = NapiSet { id: Some(self.id()), ..NapiSet::default() };
        let calls = [
            (NapiSet { defer_hard_irqs: Some(1 << 31), ..good }, Errno::ERANGE),
            (NapiSet { defer_hard_irqs: Some(u64::MAX), gro_flush_timeout: Some(7), ..good }, Errno::ERANGE),
            (NapiSet { defer_hard_irqs: Some(77), threaded: Some(3), ..good }, Errno::ERANGE),
            (NapiSet { irq_suspend_timeout: Some(9), threaded: Some(1), workqueue: true, ..good }, Errno::EINVAL),
            (NapiSet { id: None, defer_hard_irqs: Some(1), ..good }, Errno::EINVAL),
            (NapiSet { id: Some(0), threaded: Some(1), ..good }, Errno::ENOENT),
            (NapiSet { id: Some(self.id() + SAME_PLACE), defer_hard_irqs: Some(5), ..good }, Errno::ENOENT),
            (NapiSet { id: Some(u64::from(u32::MAX)), ..good }, Errno::ENOENT),
            (NapiSet { id: Some(self.id() + (1 << 32)), defer_hard_irqs: Some(5), ..good }, Errno::ENOENT),
        ];
        let mut made = 0;
        for (call, wanted) in calls {
            made += refused(&format!("{call:?}"), self.pair.engine.napi_set(call), |error| error.errno() == wanted)?;
        }
        let mut unknown = good;
        made += refused("attribute pid", unknown.attribute("pid", 1), |error| error.errno() == Errno::EINVAL)?;
        Ok(made)
    }

    fn device_set(&self) -> anyhow::Result<u64> {
        let mut made = 0;
        for device in self.devices() {
            for (attribute, value, wanted) in [
                (DevAttribute::NapiDeferHardIrqs, 1 << 31, Errno::ERANGE),
                (DevAttribute::NapiDeferHardIrqs, u64::MAX, Errno::ERANGE),
                (DevAttribute::Threaded, 2, Errno::EOPNOTSUPP),
                (DevAttribute::Threaded, u64::MAX, Errno::EOPNOTSUPP),
            ] {
                let got = device.set(DevSet { attribute, value });
                made += refused(attribute.name(), got, |error| error.errno() == wanted)?;
            }
        }
        Ok(made)
    }

    fn queries(&self) -> anyhow::Result<u64> {
        let engine = &self.pair.engine;
        let mut made = 0;
        for (id, wanted) in [(None, Errno::EINVAL), (Some(1), Errno::ENOENT), (Some(1 << 40), Errno::ENOENT)] {
            made += refused("napi_get", engine.napi_get(NapiGet { id }), |error| error.errno() == wanted)?;
        }
        for (ifindex, wanted) in [(0, Errno::ERANGE), (77, Errno::ENODEV), (1 << 33, Errno::ENODEV)] {
            made += refused("napi_dump", engine.napi_dump(Some(ifindex)), |error| error.errno() == wanted)?;
        }
        let peer = u64::from(self.pair.peer.ifindex());
        for (id, kind, ifindex, wanted) in [
            (None, Some(0), Some(peer), &[Errno::EINVAL][..]),
            (Some(0), Some(2), Some(peer), &[Errno::ERANGE]),
            (Some(0), Some(0), Some(0), &[Errno::ERANGE]),
            (Some(0), Some(0), Some(77), &[Errno::ENODEV]),
            // The second while the device is down.
            (Some(64), Some(1), Some(peer), &[Errno::EINVAL, Errno::ENOENT]),
        ] {
            let got = engine.queue_get(QueueGet { id, kind, ifindex });
            made += refused("queue_get", got, |error| wanted.contains(&error.errno()))?;
        }
        Ok(made)
    }

    /// Interrupts, receive-side scaling, links, raw ports, neighbours.
    fn shape(&self) -> anyhow::Result<u64> {
        let Pair { engine, tested, peer, peer_ns, .. } = self.pair;
        let id = tested.napi_id(0);
        let mut made = refused("coalescing for ever", Coalesce::new(0, 2), |error| *error == CoalesceError)?;
        let coalesce = Coalesce::new(5, 5).expect("it can be");
        ensure!(!tested.set_coalesce(tested.queues(), coalesce), "a queue that is not there was coalesced");
        let mut entries = peer.indirection();
        entries[127] = peer.queues();
        made += 1 + refused("set_indirection", peer.set_indirection(entries), |_| true)?;
        let no_cpu = |error: &AffinityError| matches!(error, AffinityError::NoSuchSoftirqCpu { .. });
        let no_napi = |error: &AffinityError| matches!(error, AffinityError::NoSuchNapi { .. });
        // An instance of a device that is down is not there.
        let either = |error: &AffinityError| matches!(error, AffinityError::Refused { .. }) || no_napi(error);
        let cpu = tested.irq_cpu(0).context("every queue has an interrupt")?;
        made += refused("set_irq_affinity", engine.set_irq_affinity(id, NO_CPU), no_cpu)?;
        made += refused("set_irq_affinity", engine.set_irq_affinity(1, cpu), no_napi)?;
        made += refused("set_thread_affinity", engine.set_thread_affinity(id + 4096, cpu), no_napi)?;
        made += refused("set_thread_affinity", engine.set_thread_affinity(id, NO_CPU), either)?;
        if engine.napi_get(NapiGet { id: Some(u64::from(id)) }).is_ok_and(|info| info.pid.is_some()) {
            // Without a thread this is a wish for a later one.
            made += refused("set_thread_affinity", engine.set_thread_affinity(id, ABSENT_CPU), either)?;
        }
        let usecs = engine.set_sysctl_netdev_budget_usecs(1);
        made += refused("netdev_budget_usecs", usecs, |error| matches!(error, SysctlError::BudgetTooShort { .. }))?;
        let bound = RawPort::bind(peer, 0).map(drop);
        made += refused("RawPort::bind", bound, |error| matches!(error, BindRawError::QueueBusy { .. }))?;
        let bound = RawPort::bind(peer, peer.queues()).map(drop);
        made += refused("RawPort::bind", bound, |error| matches!(error, BindRawError::NoSuchQueue { .. }))?;
        let group = peer_ns.neighbour_add(peer.ifindex(), TESTED_IP.into(), [1; 6]);
        made += refused("neighbour_add", group, |error| matches!(error, NeighbourError::NotUnicast { .. }))?;
        let unknown = peer_ns.neighbour_del(peer.ifindex(), PEER_IP.into());
        made += refused("neighbour_del", unknown, |error| matches!(error, NeighbourError::NotFound { .. }))?;
        Ok(made + self.links()?)
    }

    fn links(&self) -> anyhow::Result<u64> {
        let end = |name: &str, irq_cpus: &[usize]| EndConfig {
            name: name.to_owned(),
            netns: self.pair.tested_ns.clone(),
            mac: [2, 0, 0, 0, 9, 9],
            addresses: Vec::new(),
            irq_cpus: irq_cpus.to_vec(),
        };
        let shape = LinkConfig::default();
        let engine = &self.pair.engine;
        let add = |shape: &LinkConfig, a, b| engine.add_link(shape, a, b).map(|_| ());
        let taken = |error: &AddLinkError| matches!(error, AddLinkError::Device(AddDeviceError::NameTaken { .. }));
        let mut made = refused("a name twice", add(&shape, end("tested", &[]), end("new", &[])), taken)?;
        made += refused("equal names", add(&shape, end("new", &[]), end("new", &[])), taken)?;
        let bad_name = |error: &AddLinkError| matches!(error, AddLinkError::Device(AddDeviceError::BadName { .. }));
        made += refused("a long name", add(&shape, end("sixteen bytes ..", &[]), end("new", &[])), bad_name)?;
        let no_cpu =
            |error: &AddLinkError| matches!(error, AddLinkError::Device(AddDeviceError::NoSuchSoftirqCpu { .. }));
        made += refused("no such CPU", add(&shape, end("a", &[NO_CPU]), end("b", &[])), no_cpu)?;
        for wrong in [
            LinkConfig { queues: 0, ..shape.clone() },
            LinkConfig { queues: 65, ..shape.clone() },
            LinkConfig { ring_size: 100, ..shape.clone() },
            LinkConfig { frame_bytes: 100, ..shape.clone() },
            LinkConfig { frames_per_queue: 1, ..shape.clone() },
        ] {
            let link = |error: &AddLinkError| matches!(error, AddLinkError::Link(_));
            made += refused(&format!("{wrong:?}"), add(&wrong, end("a", &[]), end("b", &[])), link)?;
        }
        Ok(made)
    }

    fn sockets(&self) -> anyhow::Result<u64> {
        let address = SocketAddr::from((TESTED_IP, 9));
        let socket = UdpSocket::builder().nonblocking(true).bind(&self.pair.tested_ns, address)?;
        let readable = SocketOption::ALL.into_iter().filter(|option| *option != SocketOption::BusyPollBudget);
        let values =
            || -> Result<Vec<i32>, OptionError> { readable.clone().map(|option| socket.getsockopt(option)).collect() };
        let before = values()?;
        let mut made = 0;
        for (option, value, wanted) in [
            (SocketOption::BusyPoll, -1, Errno::EINVAL),
            (SocketOption::BusyPollBudget, 65_536, Errno::EINVAL),
            (SocketOption::BusyPollBudget, -1, Errno::EINVAL),
            (SocketOption::IncomingNapiId, 9000, Errno::ENOPROTOOPT),
            (SocketOption::ReusePort, 1, Errno::ENOPROTOOPT),
        ] {
            made += errno(option.name(), socket.setsockopt(option, value).map_err(Into::into), wanted)?;
        }
        let budget = socket.getsockopt(SocketOption::BusyPollBudget).map_err(Into::into);
        made += errno("SO_BUSY_POLL_BUDGET", budget, Errno::ENOPROTOOPT)?;
        made += errno("no timeout", socket.set_read_timeout(Some(std::time::Duration::ZERO)), Errno::EINVAL)?;
        made += errno("nothing to read", socket.recv(&mut [0; 8]), Errno::EAGAIN)?;
        let again = |reuse| UdpSocket::builder().reuse_port(reuse).bind(&self.pair.tested_ns, address);
        made += refused("bind", again(ReusePort::No), |error| error.kind() == io::ErrorKind::AddrInUse)?;
        made += refused("bind", again(ReusePort::Hash), |error| error.raw_os_error().is_some())?;
        let foreign = UdpSocket::bind(&self.pair.tested_ns, (Ipv4Addr::new(192, 0, 2, 1), 9));
        made += refused("bind", foreign, |error| error.kind() == io::ErrorKind::AddrNotAvailable)?;
        let nowhere = SocketAddr::from((IpAddr::from([192, 0, 2, 1]), 9));
        made += refused("connect", socket.connect(nowhere), |error| error.kind() == io::ErrorKind::NetworkUnreachable)?;
        made += errno("send_to port 0", socket.send_to(&[0], (PEER_IP, 0).into()), Errno::EINVAL)?;
        ensure!(values()? == before, "refused socket options changed something: {before:?} became {:?}", values()?);
        Ok(made)
    }

    fn events(&self) -> anyhow::Result<u64> {
        let socket = UdpSocket::bind(&self.pair.tested_ns, (TESTED_IP, 9))?;
        let own = EventContext::new(&self.pair.engine);
        let good = EpollParamsRequest { busy_poll_usecs: 7, busy_poll_budget: 7, prefer_busy_poll: 1, pad: 0 };
        let mut made = 0;
        for context in self.contexts.iter().chain([&own]) {
            for wrong in [
                EpollParamsRequest { pad: 1, ..good },
                EpollParamsRequest { prefer_busy_poll: 2, ..good },
                EpollParamsRequest { busy_poll_usecs: 1 << 31, ..good },
            ] {
                let got = context.set_params(wrong);
                made += refused(&format!("{wrong:?}"), got, |error| error.errno() == Errno::EINVAL)?;
            }
            made += errno("modify", context.modify(&socket, Interest::IN, 1).map_err(Into::into), Errno::ENOENT)?;
            made += errno("delete", context.delete(&socket).map_err(Into::into), Errno::ENOENT)?;
        }
        ensure!(own.params() == EpollParams::default(), "refused parameters were stored: {:?}", own.params());
        let unsupported = own.add(&socket, Interest::from_bits(1 << 20), 1);
        made += errno("add", unsupported.map_err(Into::into), Errno::EINVAL)?;
        own.add(&socket, Interest::IN, 1)?;
        made += errno("add", own.add(&socket, Interest::IN, 2).map_err(Into::into), Errno::EEXIST)?;
        let no_room = own.wait(&mut [], napier_runtime::event::Timeout::Now);
        made += refused("wait", no_room, |error| *error == WaitError::NoRoom)?;
        Ok(made)
    }

    /// What needs CAP_NET_ADMIN, without it.
    fn without_privilege(&self) -> anyhow::Result<u64> {
        let Pair { engine, tested, tested_ns, .. } = self.pair;
        let socket = UdpSocket::bind(tested_ns, (TESTED_IP, 10))?;
        engine.set_cap_net_admin(false);
        let napi = engine.napi_set(NapiSet { id: Some(self.id()), defer_hard_irqs: Some(3), ..NapiSet::default() });
        let device = tested.set(DevSet { attribute: DevAttribute::GroFlushTimeout, value: 3 });
        let pool = engine.napi_set(NapiSet { id: Some(self.id()), workqueue: true, ..NapiSet::default() });
        let prefer = socket.setsockopt(SocketOption::PreferBusyPoll, 1);
        let budget = socket.setsockopt(SocketOption::BusyPollBudget, 9000);
        let context = EventContext::new(engine);
        let params = context.set_params(EpollParamsRequest { busy_poll_budget: 65, ..EpollParamsRequest::default() });
        engine.set_cap_net_admin(true);
        let mut made = refused("napi_set", napi, |error| error.errno() == Errno::EPERM)?;
        made += refused("device set", device, |error| error.errno() == Errno::EPERM)?;
        made += refused("workqueue", pool, |error| error.errno() == Errno::EPERM)?;
        made += errno("SO_PREFER_BUSY_POLL", prefer.map_err(Into::into), Errno::EPERM)?;
        made += errno("SO_BUSY_POLL_BUDGET", budget.map_err(Into::into), Errno::EPERM)?;
        made += refused("set_params", params, |error| error.errno() == Errno::EPERM)?;
        let prefers = socket.getsockopt(SocketOption::PreferBusyPoll)?;
        ensure!(prefers == 0 && context.params() == EpollParams::default(), "a refused call changed something");
        Ok(made)
    }
}
