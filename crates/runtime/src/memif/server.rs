//! A connection that was accepted.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use napier_core::memif::{
    AddRing, Fault, Interface, Message, Name, ServerDecision, ServerHandshake, ServerLimits, Taken,
};
use napier_ring::Mapping;
use napier_ring::memif::remote::{C2sReceiver, Receiver, Regions, S2cSender, Sender};
use napier_ring::memif::{RingEnd, RingError, RingView};

use super::control::{Attachment, PROGRAM, RingPair};
use super::down::Down;
use super::line::{Kick, is_eventfd};
use super::socket::send;
use crate::sys::mmap::foreign_memory;

/// Most regions of a client: as many as DPDK and VPP allow.
const REGIONS_MAX: u16 = 256;
/// Most bytes of a client's regions. They are mapped, not occupied.
const REGION_BYTES_MAX: u64 = 64 << 30;

/// What the accepting side knows of a connection.
pub(super) struct ServerSide {
    handshake: ServerHandshake,
    regions: Vec<OwnedFd>,
    /// Eventfds, in the order of the rings.
    c2s: Vec<OwnedFd>,
    s2c: Vec<OwnedFd>,
}

/// What came of a message.
pub(super) enum ServerStep {
    /// Wait for the next.
    Wait,
    /// This interface of the list has a peer now.
    Admitted(usize),
    /// All is there: attach, then say CONNECTED.
    Attach(Attachment),
}

impl ServerSide {
    /// Greets a client that was accepted.
    pub(super) fn greet(socket: &OwnedFd, log2_ring_size: u8, interfaces: &[Interface]) -> Result<Self, Down> {
        let limits = ServerLimits { regions: REGIONS_MAX, bytes: REGION_BYTES_MAX, log2_ring_size };
        let (handshake, hello) = ServerHandshake::new(Name::new(PROGRAM), limits, interfaces);
        send(socket, &hello, None)?;
        Ok(Self { handshake, regions: Vec::new(), c2s: Vec::new(), s2c: Vec::new() })
    }

    /// A message came.
    pub(super) fn on_message(
        &mut self,
        socket: &OwnedFd,
        message: &Message,
        descriptor: Option<OwnedFd>,
        interfaces: &[Interface],
    ) -> Result<ServerStep, Down> {
        match self.handshake.on_message(message, descriptor.is_some(), interfaces) {
            ServerDecision::Admit { interface, reply } => {
                send(socket, &reply, None)?;
                Ok(ServerStep::Admitted(interface))
            }
            ServerDecision::Take { taken, reply } => {
                let descriptor = descriptor.expect("asked for only if it came");
                self.keep(taken, descriptor)?;
                send(socket, &reply, None)?;
                Ok(ServerStep::Wait)
            }
            ServerDecision::Map => Ok(ServerStep::Attach(self.attachment()?)),
            ServerDecision::Refuse(fault) => Err(fault.into()),
            ServerDecision::Ended(reason) => Err(Down::ByPeer(reason)),
        }
    }

    /// Bytes came that are no message.
    pub(super) fn refuse(&mut self, fault: Fault) -> Down {
        let _ = self.handshake.refuse(fault);
        fault.into()
    }

    /// The device has got what the attachment held.
    pub(super) fn attached(&mut self, socket: &OwnedFd, interface_name: &str) -> Result<(), Down> {
        Ok(send(socket, &self.handshake.mapped(Name::new(interface_name)), None)?)
    }

    fn keep(&mut self, taken: Taken, descriptor: OwnedFd) -> Result<(), Down> {
        match taken {
            Taken::Region(_) => self.regions.push(descriptor),
            Taken::Ring(_) if !is_eventfd(&descriptor) => return Err(Down::NoEventfd),
            Taken::Ring(ring) if ring.c2s => self.c2s.push(descriptor),
            Taken::Ring(_) => self.s2c.push(descriptor),
        }
        Ok(())
    }

    /// Maps everything and opens the rings.
    fn attachment(&mut self) -> Result<Attachment, Down> {
        let announced = self.handshake.regions().iter().zip(std::mem::take(&mut self.regions)).zip(0..);
        let mappings = announced.map(|((&bytes, file), region)| {
            foreign_memory(&file, bytes).map(Arc::new).map_err(|source| Down::Region { region, source })
        });
        let mappings: Vec<Arc<Mapping>> = mappings.collect::<Result<_, _>>()?;
        // All views first: they tell which bytes are rings.
        let open = |ring: &AddRing| {
            let mapping = &mappings[usize::from(ring.region)];
            let view = RingView::new(mapping, ring.offset as usize, ring.log2_ring_size, RingEnd::Server)?;
            view.check_cookie()?;
            Ok(view)
        };
        let views = |c2s| self.handshake.rings(c2s).iter().map(open).collect::<Result<Vec<_>, RingError>>();
        let (c2s, s2c) = (views(true)?, views(false)?);
        let regions = Arc::new(Regions::new(mappings));
        let receivers = c2s.into_iter().map(|ring| Receiver::Server(C2sReceiver::new(ring, regions.clone())));
        let senders = s2c.into_iter().map(|ring| Sender::Server(S2cSender::new(ring, regions.clone())));
        let receivers = receivers.zip(self.c2s.drain(..)).map(Some).chain(std::iter::repeat_with(|| None));
        let senders = senders.zip(self.s2c.drain(..)).map(|(ring, eventfd)| Some((ring, Kick::new(eventfd))));
        let senders = senders.chain(std::iter::repeat_with(|| None));
        let queues = self.handshake.rings(true).len().max(self.handshake.rings(false).len());
        let pairs = receivers.zip(senders).take(queues).map(|(rx, tx)| RingPair { rx, tx });
        Ok(Attachment {
            pairs: pairs.collect(),
            tx_rings: self.handshake.rings(false).len() as u16, // at most 256
            peer: self.handshake.peer().to_string(),
        })
    }
}
