//! The other ends of a scenario's pairs: one socket for each target, which sends on the queue that the target's packets come on.

use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::time::Duration;

use napier_linux::Netns;
use napier_scenario::{NapiIx, Target};

use super::addresses::{addr, pin};
use super::rig::KernelRig;
use crate::Refused;
use crate::real::cpus::irq_cpu;
use crate::real::{failed, refused};

/// A port that no socket is bound to: discard.
const DISCARD_PORT: u16 = 9;
/// Where packets come from; further ports are tried until one goes to the queue that is wanted.
const PEER_PORT: u16 = 20_000;
/// Ports that are tried: with 32 queues one of them is missed in one of 3000 machines.
const PORTS_MAX: u16 = 512;
/// Bytes of a packet to no socket. One for the socket at position `n` has `PAYLOAD + 1 + n`, so that its length says whose it is.
const PAYLOAD: usize = 16;
/// Bytes of the headers of IP and UDP.
pub(super) const HEADERS: usize = 28;
/// Longest time that a packet takes before time zero; only a stall takes that long.
const PATIENCE: Duration = Duration::from_secs(5);
/// `SO_INCOMING_NAPI_ID`.
const INCOMING_NAPI_ID: i32 = 56;

/// Sockets that send.
pub(super) struct VethWire {
    to_sockets: Vec<UdpSocket>,
    to_no_socket: Vec<UdpSocket>,
}

/// The socket whose packets have this length of IP, headers included.
pub(super) fn socket_of(ip_bytes: usize) -> Option<usize> {
    ip_bytes.checked_sub(HEADERS + PAYLOAD + 1)
}

impl VethWire {
    /// Finds a source for each target. Each instance has polled at its return.
    pub(super) fn build(rig: &KernelRig<'_>) -> Result<Self, Refused> {
        let machine = &rig.scenario.machine;
        let mut wire = Self { to_sockets: Vec::new(), to_no_socket: Vec::new() };
        for napi in (0..machine.napis()).map(NapiIx) {
            let (device, _) = machine.queue_of(napi);
            let sender = sender_to(rig, napi, SocketAddrV4::new(addr(device.at(), 1), DISCARD_PORT))?;
            wire.to_no_socket.push(sender);
        }
        for (position, socket) in machine.sockets.iter().enumerate() {
            wire.to_sockets.push(sender_to(rig, socket.napi, rig.addr_of(position))?);
        }
        Ok(wire)
    }

    /// Sends a packet to a socket and reads it: the socket has recorded the id of its queue's instance. A socket that is to be
    /// connected is so afterwards.
    pub(super) fn prime(&self, rig: &KernelRig<'_>, position: usize) -> Result<(), Refused> {
        let socket = rig.socket(position).expect("it was opened a moment ago");
        self.to_sockets[position].send(&[0; PAYLOAD]).map_err(|error| failed("sending before time zero", error))?;
        let received = socket.set_read_timeout(Some(PATIENCE)).and_then(|()| socket.recv(&mut [0; 64]));
        received.map_err(|error| failed("the packet before time zero", error))?;
        Ok(())
    }

    /// Where the packets of a socket come from.
    pub(super) fn source_of(&self, position: usize) -> io::Result<std::net::SocketAddr> {
        self.to_sockets[position].local_addr()
    }

    /// Sends packets, on the processor that stands for the one that takes the interrupts of the queue.
    pub(super) fn send(&self, rig: &KernelRig<'_>, target: Target, count: u32) -> Result<(), Refused> {
        let machine = &rig.scenario.machine;
        let (napi, sender, bytes) = match target {
            Target::Socket(socket) => {
                (machine.sockets[socket.at()].napi, &self.to_sockets[socket.at()], PAYLOAD + 1 + socket.at())
            }
            Target::Napi(napi) => (napi, &self.to_no_socket[napi.at()], PAYLOAD),
        };
        let (device, queue) = machine.queue_of(napi);
        pin(rig.cpu(irq_cpu(machine, &machine.devices[device.at()], queue)));
        let packet = vec![0; bytes];
        for _ in 0..count {
            match sender.send(&packet) {
                Ok(_) => {}
                // What came back about an earlier packet to no socket, or to a device that is down.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    sender.send(&packet).map_err(|error| failed("sending", error))?;
                }
                Err(error) => return Err(failed("sending", error)),
            }
        }
        Ok(())
    }

    /// Sends packets to a socket over the loopback device of its namespace.
    pub(super) fn send_local(rig: &KernelRig<'_>, position: usize, count: u32) -> Result<(), Refused> {
        let (device, _) = rig.scenario.machine.queue_of(rig.scenario.machine.sockets[position].napi);
        let address = rig.addr_of(position);
        let sent = rig.end(device).netns().run(|| {
            let sender = UdpSocket::bind(SocketAddrV4::new(*address.ip(), 0))?;
            (0..count).try_for_each(|_| sender.send_to(&[0; PAYLOAD], address).map(drop))
        });
        sent.map_err(|error| failed("entering a namespace", error))?
            .map_err(|error| failed("sending over loopback", error))
    }
}

/// A socket whose packets to `to` come on the queue of an instance: which queue a flow takes is the kernel's choice
/// (`net/core/dev.c netdev_pick_tx`, by a hash that only it knows), so sources are tried.
fn sender_to(rig: &KernelRig<'_>, napi: NapiIx, to: SocketAddrV4) -> Result<UdpSocket, Refused> {
    let (device, _) = rig.scenario.machine.queue_of(napi);
    let (own, other) = (rig.end(device).netns(), rig.other_end(device).netns());
    let receiver = bound(own, to)?;
    receiver.set_read_timeout(Some(PATIENCE)).map_err(|error| failed("setting a time-out", error))?;
    for port in 0..PORTS_MAX {
        let from = SocketAddrV4::new(addr(device.at(), 2), PEER_PORT + port);
        // A source that another target has is not free.
        let Ok(sender) = bound(other, from) else { continue };
        // A connected socket records the instance of each packet: include/net/busy_poll.h sk_mark_napi_id.
        let sent = receiver.connect(from).and_then(|()| sender.connect(to)).and_then(|()| sender.send(&[0; PAYLOAD]));
        sent.map_err(|error| failed("sending before time zero", error))?;
        let found = receiver.recv(&mut [0; 64]);
        let id = found.and_then(|_| napier_linux::socket::get_number(&receiver, INCOMING_NAPI_ID));
        let id = id.map_err(|error| failed("the packet before time zero", error))?;
        if u64::from(id.unsigned_abs()) == rig.id(napi) {
            return Ok(sender);
        }
    }
    Err(refused("the kernel sends no flow to one of the queues; run it again"))
}

fn bound(netns: &Netns, address: SocketAddrV4) -> Result<UdpSocket, Refused> {
    let socket = netns.run(|| UdpSocket::bind(address)).map_err(|error| failed("entering a namespace", error))?;
    socket.map_err(|error| failed("binding a socket", error))
}
