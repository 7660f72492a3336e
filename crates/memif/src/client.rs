//! A connection that was made.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use napier_core::memif::{
    ClientConfig, ClientDecision, ClientHandshake, Descriptor, Fault, Message, Name, RegionLayout,
};
use napier_ring::Mapping;
use napier_ring::memif::remote::{C2sSender, Receiver, S2cReceiver, Sender, SlotBuffers};
use napier_ring::memif::{RingEnd, RingView};

use crate::attachment::{Attachment, PROGRAM, RingPair};
use crate::config::{GAP_BYTES, InterfaceConfig};
use crate::disconnect::Disconnect;
use crate::kick::new_eventfd;
use crate::socket::send;
use napier_sys::mmap::shared_memory;

/// What the connecting side knows of a connection.
pub(crate) struct ClientSide {
    handshake: ClientHandshake,
    region: Option<Region>,
}

/// Memory that was made for this connection alone.
struct Region {
    file: OwnedFd,
    mapping: Arc<Mapping>,
    /// Initialised, and the eventfd of each.
    c2s: Vec<(RingView, OwnedFd)>,
    s2c: Vec<(RingView, OwnedFd)>,
}

/// What came of a message.
pub(crate) enum ClientStep {
    /// Wait for the next.
    Wait,
    /// The server is ready: attach.
    Attach(Attachment),
}

impl ClientSide {
    /// A connection that was made; the server speaks first.
    pub(crate) fn new(config: &InterfaceConfig, layout: RegionLayout) -> Self {
        let client = ClientConfig { name: Name::new(PROGRAM), id: config.id, secret: config.secret, layout };
        Self { handshake: ClientHandshake::new(client), region: None }
    }

    /// A message came.
    pub(crate) fn on_message(&mut self, socket: &OwnedFd, message: &Message) -> Result<ClientStep, Disconnect> {
        match self.handshake.on_message(message) {
            ClientDecision::Send { message, descriptor } => {
                if descriptor == Some(Descriptor::Region) {
                    self.region = Some(Region::new(self.handshake.layout())?);
                }
                let descriptor = descriptor.map(|which| self.region.as_ref().expect("made first").descriptor(which));
                send(socket, &message, descriptor.map(AsFd::as_fd))?;
                Ok(ClientStep::Wait)
            }
            ClientDecision::Connected(_) => Ok(ClientStep::Attach(self.attachment()?)),
            ClientDecision::Refuse(fault) => Err(fault.into()),
            ClientDecision::Ended(reason) => Err(Disconnect::ByPeer(reason)),
        }
    }

    /// Bytes came that are no message.
    pub(crate) fn refuse(&mut self, fault: Fault) -> Disconnect {
        let _ = self.handshake.refuse(fault);
        fault.into()
    }

    fn attachment(&mut self) -> Result<Attachment, Disconnect> {
        let layout = *self.handshake.layout();
        let Region { mapping, c2s, s2c, .. } = self.region.take().expect("made before it was announced");
        let (stride, slots) = (layout.buffer_bytes(), 1 << layout.log2_ring_size());
        let buffers = |is_c2s, index| {
            SlotBuffers::new(&mapping, layout.buffers(is_c2s, index), stride, stride - GAP_BYTES, slots)
        };
        let (mut rx, mut tx) = (Vec::new(), Vec::new());
        for (index, (ring, eventfd)) in (0..).zip(s2c) {
            rx.push((Receiver::Client(S2cReceiver::new(ring, buffers(false, index)?)), eventfd));
        }
        for (index, (ring, eventfd)) in (0..).zip(c2s) {
            tx.push((Sender::Client(C2sSender::new(ring, buffers(true, index)?)), eventfd));
        }
        let queues = rx.len().max(tx.len());
        let rx = rx.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        let tx = tx.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        let pairs = rx.zip(tx).take(queues).map(|(rx, tx)| RingPair { rx, tx }).collect();
        Ok(Attachment { pairs, tx_rings: layout.c2s_rings(), peer: self.handshake.peer().to_string() })
    }
}

impl Region {
    fn new(layout: &RegionLayout) -> Result<Self, Disconnect> {
        let bytes = layout.len() as usize; // below 4 GiB
        let (file, mapping) = shared_memory(bytes)?;
        let mapping = Arc::new(mapping);
        let ring = |c2s, index| -> Result<_, Disconnect> {
            let offset = layout.ring(c2s, index) as usize;
            let view = RingView::new(&mapping, offset, layout.log2_ring_size(), RingEnd::Client)?;
            // Before the server knows of it, and never again.
            view.init();
            Ok((view, new_eventfd()?))
        };
        let c2s = (0..layout.c2s_rings()).map(|index| ring(true, index)).collect::<Result<_, _>>()?;
        let s2c = (0..layout.s2c_rings()).map(|index| ring(false, index)).collect::<Result<_, _>>()?;
        Ok(Self { file, c2s, s2c, mapping })
    }

    fn descriptor(&self, which: Descriptor) -> &OwnedFd {
        match which {
            Descriptor::Region => &self.file,
            Descriptor::Ring { c2s: true, index } => &self.c2s[usize::from(index)].1,
            Descriptor::Ring { c2s: false, index } => &self.s2c[usize::from(index)].1,
        }
    }
}
