//! The client's side of the handshake.
//!
//! | state | message | next | decision |
//! |---|---|---|---|
//! | new | | `AwaitHello` | wait |
//! | `AwaitHello` | HELLO, version and limits good | `AwaitInitAck` | send INIT |
//! | `AwaitInitAck` | ACK | `AwaitRegionAck` | make the region and its rings, send ADD_REGION and the file |
//! | `AwaitRegionAck` | ACK | `AwaitRingAck` of the first ring | send ADD_RING and its eventfd |
//! | `AwaitRingAck` | ACK, rings left | `AwaitRingAck` of the next ring | send ADD_RING and its eventfd |
//! | `AwaitRingAck` | ACK, no ring left | `AwaitConnected` | send CONNECT |
//! | `AwaitConnected` | CONNECTED | `Connected` | packets may flow |
//! | any | DISCONNECT | `Closed` | the peer ended it |
//! | any | anything else | `Closed` | send DISCONNECT, close |

use super::message::{AddRegion, AddRing, Hello, Init, Message, Name, Reason, SECRET_BYTES, Secret, VERSION};
use super::{Fault, MODE_ETHERNET, RegionLayout, RegionLayoutError};

/// What a client asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientConfig {
    /// Name of its interface.
    pub name: Name,
    /// Number of the server's interface.
    pub id: u32,
    /// The interface's secret, if it has one.
    pub secret: Option<Secret>,
    /// Rings and buffers that it would like; the server's limits may cut rings and their sizes.
    pub layout: RegionLayout,
}

/// The file descriptor that goes with a message.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Descriptor {
    /// The file of the one region, whose rings are ready: [`ClientHandshake::layout`] is final.
    Region,
    /// The eventfd of a ring.
    Ring {
        /// Client to server.
        c2s: bool,
        /// Number within its direction.
        index: u16,
    },
}

/// The one thing to do next.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum ClientDecision {
    /// Send `message`, with `descriptor` if there is one, and wait for the answer.
    Send {
        /// To be sent.
        message: Message,
        /// To go with it.
        descriptor: Option<Descriptor>,
    },
    /// Packets may flow.
    Connected(Name),
    /// Send the fault's DISCONNECT and close.
    Refuse(Fault),
    /// The peer ended it: close.
    Ended(Reason),
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum State {
    AwaitHello,
    AwaitInitAck,
    AwaitRegionAck,
    AwaitRingAck { c2s: bool, index: u16 },
    AwaitConnected,
    Connected,
    Closed,
}

/// One connection, from the client's side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientHandshake {
    config: ClientConfig,
    layout: RegionLayout,
    state: State,
    peer: Name,
}

impl ClientHandshake {
    /// A connection that was made.
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        let layout = config.layout;
        Self { config, layout, state: State::AwaitHello, peer: Name::new("") }
    }

    /// A message came. Its descriptor, if it has one, is to be closed: no message of a server has one.
    ///
    /// # Panics
    ///
    /// After `Refuse` or `Ended`.
    pub fn on_message(&mut self, message: &Message) -> ClientDecision {
        assert_ne!(self.state, State::Closed, "a message after the end");
        if let Message::Disconnect { reason, .. } = message {
            self.state = State::Closed;
            return ClientDecision::Ended(*reason);
        }
        let decision = match (self.state, message) {
            (State::AwaitHello, Message::Hello(hello)) => self.on_hello(hello),
            (State::AwaitHello, other) => unexpected(other, "HELLO"),
            (State::AwaitInitAck, Message::Ack) => {
                let region = AddRegion { index: 0, bytes: self.layout.len() };
                Ok(self.send(State::AwaitRegionAck, Message::AddRegion(region), Some(Descriptor::Region)))
            }
            (State::AwaitRegionAck, Message::Ack) => Ok(self.send_ring(true, 0)),
            (State::AwaitRingAck { c2s, index }, Message::Ack) => Ok(self.after_ring(c2s, index)),
            (State::AwaitConnected, Message::Connected(name)) => {
                self.state = State::Connected;
                Ok(ClientDecision::Connected(*name))
            }
            (State::AwaitInitAck | State::AwaitRegionAck | State::AwaitRingAck { .. }, other) => {
                unexpected(other, "ACK")
            }
            (State::AwaitConnected, other) => unexpected(other, "CONNECTED"),
            (State::Connected, other) => unexpected(other, "DISCONNECT"),
            (State::Closed, _) => unreachable!("asserted above"),
        };
        decision.unwrap_or_else(|fault| self.refuse(fault))
    }

    /// Bytes came that are no message, or the caller found a fault of its own.
    pub fn refuse(&mut self, fault: Fault) -> ClientDecision {
        self.state = State::Closed;
        ClientDecision::Refuse(fault)
    }

    /// What the region holds: as asked for, until HELLO came with the server's limits.
    #[must_use]
    pub fn layout(&self) -> &RegionLayout {
        &self.layout
    }

    /// Whether packets may flow.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    /// Whom the server says it is; empty before HELLO.
    #[must_use]
    pub fn peer(&self) -> &Name {
        &self.peer
    }

    fn on_hello(&mut self, hello: &Hello) -> Result<ClientDecision, Fault> {
        let &Hello { version_min, version_max, s2c_ring_max, c2s_ring_max, log2_ring_size_max, .. } = hello;
        if !(version_min..=version_max).contains(&VERSION) {
            return Err(Fault::Version { min: version_min, max: version_max });
        }
        let wanted = self.config.layout;
        // The limits are highest numbers; one ring each way is always allowed, a ring of two slots may not be.
        let rings = |wanted: u16, highest: u16| wanted.min(highest.saturating_add(1));
        let fitted = RegionLayout::new(
            rings(wanted.c2s_rings(), c2s_ring_max),
            rings(wanted.s2c_rings(), s2c_ring_max),
            wanted.log2_ring_size().min(log2_ring_size_max),
            wanted.buffer_bytes(),
        );
        self.layout = fitted.map_err(|_: RegionLayoutError| Fault::Limits)?;
        self.peer = hello.name;
        let secret = self.config.secret.as_ref().map_or([0; SECRET_BYTES], |secret| *secret.bytes());
        let Self { config: ClientConfig { id, name, .. }, .. } = &*self;
        let init = Init { version: VERSION, id: *id, mode: MODE_ETHERNET, secret, name: *name };
        Ok(self.send(State::AwaitInitAck, Message::Init(init), None))
    }

    fn after_ring(&mut self, c2s: bool, index: u16) -> ClientDecision {
        let rings = if c2s { self.layout.c2s_rings() } else { self.layout.s2c_rings() };
        match (c2s, index + 1 < rings) {
            (_, true) => self.send_ring(c2s, index + 1),
            (true, false) => self.send_ring(false, 0),
            (false, false) => self.send(State::AwaitConnected, Message::Connect(self.config.name), None),
        }
    }

    fn send_ring(&mut self, c2s: bool, index: u16) -> ClientDecision {
        let ring = AddRing {
            c2s,
            index,
            region: 0,
            offset: self.layout.ring(c2s, index),
            log2_ring_size: self.layout.log2_ring_size(),
            private_header_bytes: 0,
        };
        let descriptor = Descriptor::Ring { c2s, index };
        self.send(State::AwaitRingAck { c2s, index }, Message::AddRing(ring), Some(descriptor))
    }

    fn send(&mut self, next: State, message: Message, descriptor: Option<Descriptor>) -> ClientDecision {
        self.state = next;
        ClientDecision::Send { message, descriptor }
    }
}

fn unexpected(message: &Message, wanted: &'static str) -> Result<ClientDecision, Fault> {
    Err(Fault::Unexpected { got: message.name(), wanted })
}
