//! A pair of interfaces for each device, sockets and event contexts, as a scenario has its machine at time zero.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use napier_core::control::{DevAttribute, ThreadedSetting};
use napier_core::sockopt::BusyOption;
use napier_linux::{EndConfig, Netns, Veth, VethConfig, VethEnd};
use napier_scenario::{CpuIx, Device, DeviceIx, NapiIx, Scenario, Socket};
use rustix::event::epoll;
use rustix::thread::{CpuSet, Pid};

use super::control::Sysfs;
use super::knobs::Knobs;
use super::wire::Wire;
use super::{Refused, control, refuse, refused};

/// The port of the first socket; each further one has the next.
const FIRST_PORT: u16 = 4000;
/// Of NAPI threads: more than those of the run.
const NAPI_PRIORITY: i32 = 50;

/// What a scenario's calls act on.
pub(super) struct Rig<'s> {
    pub(super) scenario: &'s Scenario,
    /// The processors that stand for the scenario's CPUs.
    pub(super) cpus: Vec<usize>,
    pairs: Vec<Veth>,
    sysfs: Vec<Sysfs>,
    ids: Vec<AtomicU64>,
    sockets: Vec<Mutex<Option<Arc<UdpSocket>>>>,
    epolls: Vec<Mutex<Option<Arc<OwnedFd>>>>,
    knobs: Knobs,
}

/// What failed, as a reason not to run.
pub(super) fn failed(what: &str, error: impl std::fmt::Display) -> Refused {
    refused(format!("{what} failed: {error}"))
}

/// The address of the device's end (1) or of the other one (2).
pub(super) fn addr(device: usize, end: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, u8::try_from(device).expect("at most 256 devices, which was checked"), end)
}

fn mac(device: usize, end: u8) -> [u8; 6] {
    [2, 0, 0, 0x78, u8::try_from(device).expect("at most 256 devices, which was checked"), end]
}

impl<'s> Rig<'s> {
    /// Builds it; at its return everything is quiet and set as the scenario says. `names` are those of the interfaces.
    pub(super) fn build(scenario: &'s Scenario, cpus: Vec<usize>, names: &[String]) -> Result<(Self, Wire), Refused> {
        let machine = &scenario.machine;
        let home = Netns::current().map_err(|error| failed("naming a namespace", error))?;
        let mut rig = Self {
            scenario,
            cpus,
            pairs: Vec::new(),
            sysfs: Vec::new(),
            ids: (0..machine.napis()).map(|_| AtomicU64::new(0)).collect(),
            sockets: machine.sockets.iter().map(|_| Mutex::new(None)).collect(),
            epolls: machine.epolls.iter().map(|_| Mutex::new(None)).collect(),
            knobs: Knobs::begin(scenario, home)?,
        };
        for (position, device) in machine.devices.iter().enumerate() {
            rig.add_device(position, device, &names[position])?;
        }
        for device in (0..machine.devices.len()).map(device_ix) {
            rig.learn_ids(device)?;
        }
        let wire = Wire::build(&rig)?;
        for (position, socket) in machine.sockets.iter().enumerate() {
            if socket.open {
                rig.open_socket(position)?;
                if socket.primed {
                    wire.prime(&rig, position)?;
                }
                if socket.connected {
                    rig.connect(position, &wire)?;
                }
                rig.set_options(position, socket)?;
            }
        }
        for (position, device) in machine.devices.iter().enumerate() {
            rig.set_device(device_ix(position), device)?;
        }
        rig.make_contexts()?;
        Ok((rig, wire))
    }

    fn add_device(&mut self, position: usize, device: &Device, name: &str) -> Result<(), Refused> {
        let end = |name: &str, end| EndConfig::new(name, mac(position, end)).address(addr(position, end).into(), 24);
        let config = VethConfig {
            queues: device.queues,
            gro: true,
            tso: false,
            ..VethConfig::new(end(&format!("{name}p"), 2), end(name, 1))
        };
        let pair = Veth::new(&config).map_err(|error| failed("making a pair of interfaces", error))?;
        let known = pair
            .left()
            .add_neighbour(addr(position, 1).into(), mac(position, 1))
            .and_then(|()| pair.right().add_neighbour(addr(position, 2).into(), mac(position, 2)));
        known.map_err(|error| failed("adding a neighbour", error))?;
        let sysfs =
            pair.right().netns().run(|| Sysfs::of(name)).map_err(|error| failed("entering a namespace", error))?;
        self.sysfs.push(sysfs.map_err(|error| failed("showing the files of an interface", error))?);
        self.pairs.push(pair);
        Ok(())
    }

    /// The instances of a device have other ids after each time that it comes up.
    pub(super) fn learn_ids(&self, device: DeviceIx) -> Result<(), Refused> {
        let (end, queues) = (self.end(device), self.scenario.machine.devices[device.at()].queues);
        let ids = end
            .netns()
            .run(|| control::ids_of(end.ifindex()))
            .map_err(|error| failed("entering a namespace", error))?;
        let ids = ids.map_err(|error| failed("listing NAPI instances (netdev netlink, since Linux 6.8)", error))?;
        if ids.len() != usize::from(queues) {
            return Err(refused(format!("the kernel shows {} instances for {queues} queues of a veth", ids.len())));
        }
        // They are made and enabled queue by queue: drivers/net/veth.c __veth_napi_enable_range.
        for (queue, id) in (0..queues).zip(ids) {
            self.ids[self.scenario.machine.napi(device, queue).at()].store(id, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The end of a pair that is the scenario's device.
    pub(super) fn end(&self, device: DeviceIx) -> &VethEnd {
        self.pairs[device.at()].right()
    }

    /// The end that packets are sent from.
    pub(super) fn other_end(&self, device: DeviceIx) -> &VethEnd {
        self.pairs[device.at()].left()
    }

    pub(super) fn sysfs(&self, device: DeviceIx) -> &Sysfs {
        &self.sysfs[device.at()]
    }

    pub(super) fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    /// The id that an instance has, or had last.
    pub(super) fn id(&self, napi: NapiIx) -> u64 {
        self.ids[napi.at()].load(Ordering::Relaxed)
    }

    /// The name of the instance with this id.
    pub(super) fn name_of_id(&self, id: u64) -> Option<String> {
        let mut napis = (0..self.scenario.machine.napis()).map(NapiIx);
        napis.find(|napi| self.id(*napi) == id).map(|napi| self.scenario.machine.napi_name(napi))
    }

    /// The scenario's device with this number.
    pub(super) fn device_with(&self, ifindex: u64) -> Option<DeviceIx> {
        (0..self.pairs.len()).map(device_ix).find(|device| u64::from(self.end(*device).ifindex()) == ifindex)
    }

    /// The address of a socket.
    pub(super) fn addr_of(&self, position: usize) -> SocketAddrV4 {
        let (device, _) = self.scenario.machine.queue_of(self.scenario.machine.sockets[position].napi);
        let port = FIRST_PORT + u16::try_from(position).expect("a position in a scenario has 16 bits") % 60_000;
        SocketAddrV4::new(addr(device.at(), 1), port)
    }

    /// Opens a socket; its options are those of a new one.
    pub(super) fn open_socket(&self, position: usize) -> Result<(), Refused> {
        let described = &self.scenario.machine.sockets[position];
        let (device, _) = self.scenario.machine.queue_of(described.napi);
        let address = self.addr_of(position);
        let made = self.end(device).netns().run(|| UdpSocket::bind(address));
        let socket = made.map_err(|error| failed("entering a namespace", error))?;
        let socket = socket.map_err(|error| failed("binding a socket", error))?;
        *self.sockets[position].lock().expect("no panic while held") = Some(Arc::new(socket));
        Ok(())
    }

    fn connect(&self, position: usize, wire: &Wire) -> Result<(), Refused> {
        let socket = self.socket(position).expect("it was opened a moment ago");
        let connected = wire.source_of(position).and_then(|source| socket.connect(source));
        connected.map_err(|error| failed("connecting a socket", error))
    }

    fn set_options(&self, position: usize, described: &Socket) -> Result<(), Refused> {
        let Some(socket) = self.socket(position) else { return Ok(()) };
        let options = [
            (BusyOption::BusyPoll, i32::try_from(described.busy.busy_poll_usecs).unwrap_or(i32::MAX)),
            (BusyOption::PreferBusyPoll, described.busy.prefer.into()),
            (BusyOption::BusyPollBudget, described.busy.budget.into()),
        ];
        for (option, value) in options {
            let set = napier_linux::socket::set(socket.as_fd(), option, value);
            set.map_err(|error| failed("setting an option", error))?;
        }
        Ok(())
    }

    fn set_device(&self, position: DeviceIx, device: &Device) -> Result<(), Refused> {
        let tunables = device.tunables;
        let write = |file: DevAttribute, value: u64| {
            let written = if value == 0 { Ok(()) } else { self.sysfs(position).write(file, &value.to_string()) };
            written.map_err(|error| failed(&format!("setting {}", file.file_name()), error))
        };
        write(DevAttribute::NapiDeferHardIrqs, tunables.defer_hard_irqs.into())?;
        write(DevAttribute::GroFlushTimeout, tunables.gro_flush_timeout.ns)?;
        let threaded = matches!(device.threaded, ThreadedSetting::Enabled | ThreadedSetting::BusyPoll);
        write(DevAttribute::Threaded, threaded.into())?;
        let set = |id, name: &str, value| {
            let set = self.end(position).netns().run(|| control::set_napi(id, name, value));
            let set = set.map_err(|error| failed("entering a namespace", error))?;
            set.map_err(|error| failed(&format!("setting {name} of an instance"), error))
        };
        for queue in 0..device.queues {
            let id = self.id(self.scenario.machine.napi(position, queue));
            if !tunables.irq_suspend_timeout.is_zero() {
                set(id, "irq-suspend-timeout", tunables.irq_suspend_timeout.ns)?;
            }
            if device.threaded == ThreadedSetting::BusyPoll {
                set(id, "threaded", 2)?;
            }
            self.place_thread(position, device, queue, device.threaded == ThreadedSetting::BusyPoll);
        }
        Ok(())
    }

    /// Moves the thread of an instance to its CPU, if it has one, and lets it run before programs unless it is busy without end.
    pub(super) fn place_thread(&self, position: DeviceIx, device: &Device, queue: u16, busy: bool) {
        let id = self.id(self.scenario.machine.napi(position, queue));
        let thread = self.end(position).netns().run(|| control::thread_of(id)).ok().and_then(Result::ok).flatten();
        let pid = thread.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let cpu = self.cpu(refuse::thread_cpu(&self.scenario.machine, device, queue));
        if let (Some(pid), Some(cpu)) = (pid, cpu) {
            let mut set = CpuSet::new();
            set.set(cpu);
            // A thread that stays where it is polls all the same; what a file says of CPUs is compared.
            let _ = rustix::thread::sched_setaffinity(Some(pid), &set);
        }
        // As softirqs run before programs. A thread that never sleeps would leave nothing to others.
        if let Some(pid) = pid.filter(|_| !busy) {
            let _ = napier_linux::set_fifo(pid.as_raw_pid().cast_unsigned(), NAPI_PRIORITY);
        }
    }

    fn make_contexts(&self) -> Result<(), Refused> {
        for (position, described) in self.scenario.machine.epolls.iter().enumerate() {
            let made = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| failed("making an epoll", error))?;
            napier_linux::epoll::set_params(&made, described.params)
                .map_err(|error| failed("setting the parameters of an epoll", error))?;
            for member in &described.members {
                let socket = self.socket(member.at()).ok_or_else(|| refused("an event context has a closed member"))?;
                let data = epoll::EventData::new_u64(member.0.into());
                epoll::add(&made, &*socket, data, epoll::EventFlags::IN)
                    .map_err(|error| failed("adding to an epoll", error))?;
            }
            *self.epolls[position].lock().expect("no panic while held") = Some(Arc::new(made));
        }
        Ok(())
    }

    /// An open socket.
    pub(super) fn socket(&self, position: usize) -> Option<Arc<UdpSocket>> {
        self.sockets[position].lock().expect("no panic while held").clone()
    }

    /// An event context that was not closed.
    pub(super) fn epoll(&self, position: usize) -> Option<Arc<OwnedFd>> {
        self.epolls[position].lock().expect("no panic while held").clone()
    }

    /// Takes an event context away; it ends with the last call that uses it.
    pub(super) fn close_epoll(&self, position: usize) -> Option<Arc<OwnedFd>> {
        self.epolls[position].lock().expect("no panic while held").take()
    }

    /// The processor that stands for a CPU, if the machine has so many.
    pub(super) fn cpu(&self, cpu: CpuIx) -> Option<usize> {
        self.cpus.get(cpu.at()).copied()
    }

    /// The CPU of the scenario that a processor stands for.
    pub(super) fn cpu_ix(&self, processor: u32) -> CpuIx {
        let found = self.cpus.iter().position(|cpu| *cpu == processor as usize);
        CpuIx(found.and_then(|position| u16::try_from(position).ok()).unwrap_or(u16::MAX))
    }
}

pub(super) fn device_ix(position: usize) -> DeviceIx {
    DeviceIx(u16::try_from(position).expect("at most 256 devices, which was checked"))
}

/// Pins the calling thread.
pub(super) fn pin(cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        let mut set = CpuSet::new();
        set.set(cpu);
        // Where it is not allowed the scheduler chooses; what a file says of CPUs is compared.
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}
