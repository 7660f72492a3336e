//! The engine as a scenario has its machine at time zero.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use napier_runtime::device::DeviceHandle;
use napier_runtime::engine::Engine;
use napier_runtime::event::EventContext;
use napier_runtime::socket::{NetNs, SocketOption, StackCounters, UdpSocket};
use napier_scenario::{CpuIx, NapiIx, Scenario, SocketIx, Target};

use super::addresses::{PEER_PORT, addr};
use super::flows::Transmits;
use crate::Refused;
use crate::real::failed;

/// Asked for, and doubled: room for all frames of a queue.
const RCVBUF_BYTES: i32 = 4 << 20;
const FIRST_PORT: u16 = 4000;

/// What a scenario's calls act on.
pub(super) struct EngineRig<'s> {
    pub(super) scenario: &'s Scenario,
    pub(super) engine: Engine,
    /// The processors that stand for the scenario's CPUs.
    pub(super) cpus: Vec<usize>,
    pub(super) devices: Vec<DeviceHandle>,
    pub(super) namespaces: Vec<NetNs>,
    pub(super) sockets: Vec<Mutex<Option<Arc<UdpSocket>>>>,
    /// Packets read from each socket.
    pub(super) taken: Vec<AtomicU64>,
    pub(super) epolls: Vec<Mutex<Option<EventContext>>>,
    /// Held while the engine is as capable as one thread is.
    pub(super) capability: Mutex<()>,
    /// What is sent by way of transmit queues.
    pub(super) transmits: Transmits,
}

impl EngineRig<'_> {
    /// The processor of an application thread, unless the machine has too few for one that only gives orders.
    pub(super) fn thread_cpu(&self, cpu: CpuIx) -> Option<usize> {
        self.cpus.get(cpu.at()).copied()
    }

    /// Opens a socket; its options are those of a new one.
    pub(super) fn open_socket(&self, position: usize) -> Result<(), Refused> {
        let described = &self.scenario.machine.sockets[position];
        let (device, _) = self.scenario.machine.queue_of(described.napi);
        let socket = UdpSocket::builder().rcvbuf(RCVBUF_BYTES).bind(&self.namespaces[device.at()], self.addr(position));
        let socket = socket.map_err(|error| failed("binding a socket", error))?;
        if self.scenario.machine.devices[device.at()].gro {
            socket.setsockopt(SocketOption::UdpGro, 1).map_err(|error| failed("setting an option", error))?;
        }
        if described.connected {
            let peer = SocketAddrV4::new(addr(device.at(), 2), PEER_PORT);
            socket.connect(peer).map_err(|error| failed("connecting a socket", error))?;
        }
        *self.sockets[position].lock().expect("no panic while held") = Some(Arc::new(socket));
        Ok(())
    }

    /// The address of a socket.
    pub(super) fn addr(&self, position: usize) -> SocketAddr {
        let (device, _) = self.scenario.machine.queue_of(self.scenario.machine.sockets[position].napi);
        let port = FIRST_PORT + u16::try_from(position).expect("a position in a scenario has 16 bits") % 60_000;
        SocketAddrV4::new(addr(device.at(), 1), port).into()
    }

    /// An open socket.
    pub(super) fn socket(&self, position: usize) -> Option<Arc<UdpSocket>> {
        self.sockets[position].lock().expect("no panic while held").clone()
    }

    /// Packets were read from a socket: one, or several that had become one.
    pub(super) fn took(&self, socket: SocketIx, packets: u32) {
        self.taken[socket.at()].fetch_add(packets.into(), Ordering::Relaxed);
    }

    /// Packets read from a socket.
    pub(super) fn taken(&self, socket: SocketIx) -> u64 {
        self.taken[socket.at()].load(Ordering::Relaxed)
    }

    /// Counters of the stack, one reading for each device.
    pub(super) fn stack_counters(&self) -> Vec<StackCounters> {
        self.namespaces.iter().map(NetNs::counters).collect()
    }

    /// An event context that was not closed.
    pub(super) fn epoll(&self, position: usize) -> Option<EventContext> {
        self.epolls[position].lock().expect("no panic while held").clone()
    }

    /// Takes an event context away; it ends with the last call that uses it.
    pub(super) fn close_epoll(&self, position: usize) -> Option<EventContext> {
        self.epolls[position].lock().expect("no panic while held").take()
    }

    /// The engine is as capable as a thread is while this lives.
    pub(super) fn capable(&self, capable: bool) -> Capable<'_> {
        let held = self.capability.lock().expect("no panic while held");
        self.engine.set_cap_net_admin(capable);
        Capable { engine: &self.engine, _held: held }
    }

    /// The scenario's instance on a queue; none if the device is not the scenario's.
    pub(super) fn napi_of(&self, ifindex: u32, queue: u16) -> Option<NapiIx> {
        let device = self.devices.iter().position(|device| device.ifindex() == ifindex)?;
        let device = napier_scenario::DeviceIx(u16::try_from(device).expect("256 devices at most"));
        Some(self.scenario.machine.napi(device, queue))
    }

    /// The socket with this address.
    pub(super) fn socket_at(&self, addr: SocketAddr) -> Option<SocketIx> {
        let position = (0..self.sockets.len()).find(|position| self.addr(*position) == addr)?;
        u16::try_from(position).ok().map(SocketIx)
    }

    /// The id that an instance has, or had last.
    pub(super) fn napi_id(&self, napi: NapiIx) -> u32 {
        let (device, queue) = self.scenario.machine.queue_of(napi);
        self.devices[device.at()].napi_id(queue)
    }

    /// The name of the instance with this id.
    pub(super) fn name_of_id(&self, id: u32) -> Option<String> {
        let napis = (0..self.scenario.machine.napis()).map(NapiIx);
        napis.into_iter().find(|napi| self.napi_id(*napi) == id).map(|napi| self.napi_name(napi.at()))
    }

    /// The name of an instance.
    pub(super) fn napi_name(&self, napi: usize) -> String {
        self.scenario.machine.napi_name(NapiIx(u16::try_from(napi).expect("instances have 16 bits")))
    }

    /// The instance whose queue gets what is sent to a target.
    pub(super) fn napi_to(&self, target: Target) -> NapiIx {
        match target {
            Target::Socket(socket) => self.scenario.machine.sockets[socket.at()].napi,
            Target::Napi(napi) => napi,
        }
    }
}

/// See [`EngineRig::capable`].
pub(super) struct Capable<'r> {
    engine: &'r Engine,
    _held: MutexGuard<'r, ()>,
}

impl Drop for Capable<'_> {
    fn drop(&mut self) {
        self.engine.set_cap_net_admin(true);
    }
}
