//! A connection that was accepted.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use napier_core::memif::{
    AddRing, Fault, Interface, Message, Name, ServerDecision, ServerHandshake, ServerLimits, Taken, ring_bytes,
};
use napier_ring::Mapping;
use napier_ring::memif::remote::{C2sReceiver, Receiver, Regions, S2cSender, Sender};
use napier_ring::memif::{RingEnd, RingError, RingView};

use crate::attachment::{Attachment, PROGRAM, RingPair};
use crate::disconnect::Disconnect;
use crate::kick::is_eventfd;
use crate::socket::send;
use napier_sys::mmap::foreign_memory;

/// Most regions of a client: as many as DPDK and VPP allow.
const REGIONS_MAX: u16 = 256;
/// Most bytes of a client's regions. They are mapped; what they occupy is the client's, but for holes.
const REGION_BYTES_MAX: u64 = 64 << 30;
/// Bytes without memory that a client's regions may always have: an end that was rounded to a huge page.
const HOLES_MIN: u64 = 2 << 20;
/// Bytes without memory for each slot that a client may announce at least, however small our frames are: its buffers may
/// be for jumbo frames.
const SLOT_HOLES_MIN: u64 = 16 << 10;
/// The same, in frames of ours.
const SLOT_HOLES_FRAMES: u64 = 4;

/// What the accepting side knows of a connection.
pub(crate) struct ServerSide {
    handshake: ServerHandshake,
    regions: Vec<OwnedFd>,
    /// Eventfds, in the order of the rings.
    c2s: Vec<OwnedFd>,
    s2c: Vec<OwnedFd>,
    /// Bytes of a frame of the interface, once it is known.
    frame_bytes: u32,
}

/// What came of a message.
pub(crate) enum ServerStep {
    /// Wait for the next.
    Wait,
    /// This interface of the list has a peer now.
    Admitted(usize),
    /// All is there: attach, then say CONNECTED.
    Attach(Attachment),
}

impl ServerSide {
    /// Greets a client that was accepted.
    pub(crate) fn greet(socket: &OwnedFd, log2_ring_size: u8, interfaces: &[Interface]) -> Result<Self, Disconnect> {
        let limits = ServerLimits { regions: REGIONS_MAX, bytes: REGION_BYTES_MAX, log2_ring_size };
        let (handshake, hello) = ServerHandshake::new(Name::new(PROGRAM), limits, interfaces);
        send(socket, &hello, None)?;
        Ok(Self { handshake, regions: Vec::new(), c2s: Vec::new(), s2c: Vec::new(), frame_bytes: 0 })
    }

    /// A message came.
    pub(crate) fn on_message(
        &mut self,
        socket: &OwnedFd,
        message: &Message,
        descriptor: Option<OwnedFd>,
        interfaces: &[Interface],
    ) -> Result<ServerStep, Disconnect> {
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
            ServerDecision::Ended(reason) => Err(Disconnect::ByPeer(reason)),
        }
    }

    /// The interface that the client was admitted to has frames of so many bytes.
    pub(crate) fn admitted(&mut self, frame_bytes: u32) {
        self.frame_bytes = frame_bytes;
    }

    /// Bytes came that are no message.
    pub(crate) fn refuse(&mut self, fault: Fault) -> Disconnect {
        let _ = self.handshake.refuse(fault);
        fault.into()
    }

    /// The interface has got what the attachment held.
    pub(crate) fn attached(&mut self, socket: &OwnedFd, interface_name: &str) -> Result<(), Disconnect> {
        Ok(send(socket, &self.handshake.mapped(Name::new(interface_name)), None)?)
    }

    fn keep(&mut self, taken: Taken, descriptor: OwnedFd) -> Result<(), Disconnect> {
        match taken {
            Taken::Region(_) => self.regions.push(descriptor),
            Taken::Ring(_) if !is_eventfd(&descriptor) => return Err(Disconnect::NoEventfd),
            Taken::Ring(ring) if ring.c2s => self.c2s.push(descriptor),
            Taken::Ring(_) => self.s2c.push(descriptor),
        }
        Ok(())
    }

    /// Most bytes of the regions that may have no memory yet. The thread that touches a hole first pays for it, and a client can
    /// make us touch all of them; rings and buffers of any use need no more than this.
    fn holes_max(&self) -> u64 {
        let slot = SLOT_HOLES_MIN.max(SLOT_HOLES_FRAMES * u64::from(self.frame_bytes));
        let rings = [true, false].into_iter().flat_map(|c2s| self.handshake.rings(c2s));
        HOLES_MIN + rings.map(|ring| ring_bytes(ring.log2_ring_size) + (slot << ring.log2_ring_size)).sum::<u64>()
    }

    /// Maps everything and opens the rings.
    fn attachment(&mut self) -> Result<Attachment, Disconnect> {
        let announced = self.handshake.regions().iter().zip(std::mem::take(&mut self.regions)).zip(0..);
        let mappings = announced.map(|((&bytes, file), region)| {
            let (mapping, holes) =
                foreign_memory(&file, bytes).map_err(|source| Disconnect::Region { region, source })?;
            Ok::<_, Disconnect>((Arc::new(mapping), holes))
        });
        let (mappings, holes): (Vec<Arc<Mapping>>, Vec<u64>) = mappings.collect::<Result<_, _>>()?;
        let (holes, max) = (holes.iter().sum(), self.holes_max());
        if holes > max {
            return Err(Disconnect::Sparse { holes, max });
        }
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
        let senders = senders.zip(self.s2c.drain(..)).map(Some).chain(std::iter::repeat_with(|| None));
        let queues = self.handshake.rings(true).len().max(self.handshake.rings(false).len());
        let pairs = receivers.zip(senders).take(queues).map(|(rx, tx)| RingPair { rx, tx });
        Ok(Attachment {
            pairs: pairs.collect(),
            tx_rings: self.handshake.rings(false).len() as u16, // at most 256
            peer: self.handshake.peer().to_string(),
        })
    }
}
