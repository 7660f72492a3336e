//! From a scenario to an engine that is at rest, as its machine is at time zero.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use napier_core::control::{DevAttribute, DevSet, NapiSet, ThreadedSetting};
use napier_core::event::{EpollParams, EpollParamsRequest};
use napier_runtime::device::{Coalesce, EndConfig, IfAddr, LinkConfig};
use napier_runtime::engine::Engine;
use napier_runtime::event::{EventContext, Interest};
use napier_runtime::raw::RawPort;
use napier_runtime::socket::{NetNs, SocketOption};
use napier_scenario::{Device, Scenario, Socket, SocketIx, Sysctl, Target};

use super::addresses::{addr, mac};
use super::flows::Transmits;
use super::log::{NapiKnown, states};
use super::rig::EngineRig;
use super::wire::{LinkWire, Sending};
use crate::Refused;
use crate::real::cpus::{irq_cpu, thread_cpu};
use crate::real::{failed, refused};

/// Records that the journal has room for.
const JOURNAL_RECORDS: usize = 4_000_000;
/// Frames that wait in sockets, beside those of the ring.
const FRAMES_IN_SOCKETS: u32 = 1024 + 64;
/// Longest time that a packet takes before time zero; only a stall takes that long.
const PATIENCE: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_micros(200);

impl<'s> EngineRig<'s> {
    /// Builds it; at its return everything is quiet and set as the scenario says.
    pub(super) fn build(scenario: &'s Scenario, cpus: Vec<usize>) -> Result<(Self, LinkWire), Refused> {
        let machine = &scenario.machine;
        let softirq = &cpus[..cpus.len().min(machine.cpus.into())];
        let engine = Engine::builder().softirq_cpus(softirq).journal(JOURNAL_RECORDS).start();
        let engine = engine.map_err(|error| failed("starting an engine", error))?;
        let namespaces: Vec<NetNs> = machine.devices.iter().map(|_| engine.namespace()).collect();
        let sockets = machine.sockets.iter().map(|_| Mutex::new(None)).collect();
        let taken = machine.sockets.iter().map(|_| AtomicU64::new(0)).collect();
        let epolls = machine.epolls.iter().map(|_| Mutex::new(None)).collect();
        let capability = Mutex::new(());
        let (devices, transmits) = (Vec::new(), Transmits::none());
        let mut rig =
            EngineRig { scenario, engine, cpus, devices, namespaces, sockets, taken, epolls, capability, transmits };
        let mut wire = LinkWire::default();
        for (position, device) in machine.devices.iter().enumerate() {
            rig.add_device(position, device, &mut wire)?;
        }
        for (position, socket) in machine.sockets.iter().enumerate() {
            if socket.open {
                rig.open_socket(position)?;
                rig.prime(position, socket, &wire)?;
            }
        }
        rig.wait_until_quiet()?;
        rig.set_sysctls(&machine.sysctl, machine.hz)?;
        for (position, socket) in machine.sockets.iter().enumerate() {
            rig.set_options(position, socket)?;
        }
        for (position, device) in machine.devices.iter().enumerate() {
            rig.set_device(position, device).map_err(|error| failed("setting a device", error))?;
        }
        rig.make_contexts()?;
        rig.transmits = Transmits::build(scenario, &rig.devices, &rig.namespaces)?;
        Ok((rig, wire))
    }

    fn add_device(&mut self, position: usize, device: &Device, wire: &mut LinkWire) -> Result<(), Refused> {
        let machine = &self.scenario.machine;
        if position > 255 {
            return Err(refused("it has more than 256 devices"));
        }
        let config = LinkConfig {
            queues: device.queues,
            ring_size: device.ring,
            frames_per_queue: device.ring + FRAMES_IN_SOCKETS,
            ..LinkConfig::default()
        };
        let irq_cpus = (0..device.queues).map(|queue| self.cpus[irq_cpu(machine, device, queue).at()]).collect();
        let end = |name: String, netns: NetNs, end: u8, irq_cpus: Vec<usize>| EndConfig {
            name,
            netns,
            mac: mac(position, end),
            addresses: vec![IfAddr { addr: addr(position, end).into(), prefix_len: 24 }],
            irq_cpus,
        };
        let tested = end(device.name.clone(), self.namespaces[position].clone(), 1, irq_cpus);
        let peer = end(format!("{}-p", device.name), self.engine.namespace(), 2, Vec::new());
        let link = self.engine.add_link(&config, tested, peer);
        let (tested, peer) = link.map_err(|error| failed("adding a link", error))?;
        for queue in 0..device.queues {
            wire.ports.push(RawPort::bind(&peer, queue).map_err(|error| failed("binding a port", error))?);
            let coalesce = Coalesce::new(device.rx_usecs, device.rx_frames.max(u32::from(device.rx_usecs == 0)));
            tested.set_coalesce(queue, coalesce.map_err(|error| failed("coalescing", error))?);
        }
        self.devices.push(tested);
        Ok(())
    }

    /// A packet comes and is read: the socket has recorded the id of its queue's instance.
    fn prime(&self, position: usize, described: &Socket, wire: &LinkWire) -> Result<(), Refused> {
        let (device, _) = self.scenario.machine.queue_of(described.napi);
        if !described.primed || !self.scenario.machine.devices[device.at()].up {
            return Ok(());
        }
        let socket = self.socket(position).expect("it was opened a moment ago");
        let index = SocketIx(u16::try_from(position).expect("a position in a scenario has 16 bits"));
        assert_eq!(
            wire.send(self, Target::Socket(index), 1, Sending::default()),
            1,
            "the ring of a new device has room"
        );
        let received = socket.set_read_timeout(Some(PATIENCE)).and_then(|()| socket.recv(&mut [0; 64]));
        received.map_err(|error| failed("the packet before time zero", error))?;
        self.took(index, 1);
        Ok(())
    }

    fn wait_until_quiet(&self) -> Result<(), Refused> {
        let begun = std::time::Instant::now();
        loop {
            let records = self.engine.journal().records;
            if states(self, &records, u64::MAX).iter().all(NapiKnown::quiet) {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(refused("the engine does not come to rest before time zero"));
            }
            std::thread::sleep(STEP);
        }
    }

    fn set_sysctls(&self, sysctl: &Sysctl, hz: u32) -> Result<(), Refused> {
        self.engine.set_sysctl_netdev_budget(sysctl.netdev_budget);
        if sysctl.netdev_budget_usecs != Sysctl::defaults(hz).netdev_budget_usecs {
            let set = self.engine.set_sysctl_netdev_budget_usecs(sysctl.netdev_budget_usecs.into());
            set.map_err(|error| failed("setting netdev_budget_usecs", error))?;
        }
        self.engine.set_sysctl_busy_read(sysctl.busy_read);
        self.engine.set_sysctl_busy_poll(sysctl.busy_poll);
        Ok(())
    }

    fn set_options(&self, position: usize, described: &Socket) -> Result<(), Refused> {
        let Some(socket) = self.socket(position) else { return Ok(()) };
        let options = [
            (SocketOption::BusyPoll, i32::try_from(described.busy.busy_poll_usecs).unwrap_or(i32::MAX)),
            (SocketOption::PreferBusyPoll, described.busy.prefer.into()),
            (SocketOption::BusyPollBudget, described.busy.budget.into()),
        ];
        for (option, value) in options {
            socket.setsockopt(option, value).map_err(|error| failed("setting an option", error))?;
        }
        Ok(())
    }

    fn set_device(&self, position: usize, device: &Device) -> Result<(), Box<dyn std::error::Error>> {
        let handle = &self.devices[position];
        let tunables = device.tunables;
        handle.set_gro(device.gro);
        let write = |attribute, value| handle.set(DevSet { attribute, value });
        write(DevAttribute::NapiDeferHardIrqs, tunables.defer_hard_irqs.into())?;
        write(DevAttribute::GroFlushTimeout, tunables.gro_flush_timeout.ns)?;
        for queue in 0..device.queues {
            let cpu = thread_cpu(&self.scenario.machine, device, queue);
            if let Some(cpu) = self.thread_cpu(cpu) {
                self.engine.set_thread_affinity(handle.napi_id(queue), cpu)?;
            }
        }
        if matches!(device.threaded, ThreadedSetting::Enabled | ThreadedSetting::BusyPoll) {
            write(DevAttribute::Threaded, 1)?;
        }
        for queue in 0..device.queues {
            let threaded = (device.threaded == ThreadedSetting::BusyPoll).then_some(2);
            let workqueue = device.threaded == ThreadedSetting::Workqueue;
            let id = Some(handle.napi_id(queue).into());
            let irq_suspend_timeout = Some(tunables.irq_suspend_timeout.ns);
            self.engine.napi_set(NapiSet { id, irq_suspend_timeout, threaded, workqueue, ..NapiSet::default() })?;
        }
        if !device.up {
            handle.set_down();
        }
        Ok(())
    }

    fn make_contexts(&self) -> Result<(), Refused> {
        for (position, described) in self.scenario.machine.epolls.iter().enumerate() {
            let context = EventContext::new(&self.engine);
            let EpollParams { busy_poll_usecs, busy_poll_budget, prefer_busy_poll } = described.params;
            let prefer_busy_poll = prefer_busy_poll.into();
            let params = EpollParamsRequest { busy_poll_usecs, busy_poll_budget, prefer_busy_poll, pad: 0 };
            context.set_params(params).map_err(|error| failed("setting an event context", error))?;
            for member in &described.members {
                let socket = self.socket(member.at()).expect("members are open, which was checked");
                let added = context.add(&*socket, Interest::IN, u64::from(member.0));
                added.map_err(|error| failed("adding to an event context", error))?;
            }
            *self.epolls[position].lock().expect("no panic while held") = Some(context);
        }
        Ok(())
    }
}
