//! A pair of interfaces for each device, sockets and event contexts, as a scenario has its machine at time zero.

use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use napier_linux::{Veth, VethEnd};
use napier_scenario::{CpuIx, Device, DeviceIx, NapiIx, Scenario};
use rustix::thread::{CpuSet, Pid};

use super::addresses::{addr, device_ix};
use super::knobs::Knobs;
use super::napi;
use super::sysfs::Sysfs;
use crate::Refused;
use crate::real::cpus::thread_cpu;
use crate::real::{failed, refused};

/// The port of the first socket; each further one has the next.
const FIRST_PORT: u16 = 4000;
/// Of NAPI threads: more than those of the run.
const NAPI_PRIORITY: i32 = 50;

/// What a scenario's calls act on.
pub(super) struct KernelRig<'s> {
    pub(super) scenario: &'s Scenario,
    /// The processors that stand for the scenario's CPUs.
    pub(super) cpus: Vec<usize>,
    pub(super) pairs: Vec<Veth>,
    pub(super) sysfs: Vec<Sysfs>,
    pub(super) ids: Vec<AtomicU64>,
    pub(super) sockets: Vec<Mutex<Option<Arc<UdpSocket>>>>,
    pub(super) epolls: Vec<Mutex<Option<Arc<OwnedFd>>>>,
    pub(super) knobs: Knobs,
}

impl KernelRig<'_> {
    /// The instances of a device have other ids after each time that it comes up.
    pub(super) fn learn_ids(&self, device: DeviceIx) -> Result<(), Refused> {
        let (end, queues) = (self.end(device), self.scenario.machine.devices[device.at()].queues);
        let ids =
            end.netns().run(|| napi::ids_of(end.ifindex())).map_err(|error| failed("entering a namespace", error))?;
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

    /// Moves the thread of an instance to its CPU, if it has one, and lets it run before programs unless it is busy without end.
    pub(super) fn place_thread(&self, position: DeviceIx, device: &Device, queue: u16, busy: bool) {
        let id = self.id(self.scenario.machine.napi(position, queue));
        let thread = self.end(position).netns().run(|| napi::thread_of(id)).ok().and_then(Result::ok).flatten();
        let pid = thread.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let cpu = self.cpu(thread_cpu(&self.scenario.machine, device, queue));
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
