//! The server's side of the handshake.
//!
//! | state | message | next | decision |
//! |---|---|---|---|
//! | new | | `AwaitInit` | send HELLO |
//! | `AwaitInit` | INIT, good | `Collecting` | send ACK |
//! | `Collecting` | ADD_REGION, good | `Collecting` | keep the file, send ACK |
//! | `Collecting` | ADD_RING, good | `Collecting` | keep the eventfd, send ACK |
//! | `Collecting` | CONNECT, a ring each way | `Mapping` | map, look for cookies, then [`mapped`](ServerHandshake::mapped) |
//! | `Mapping` | mapped | `Connected` | send CONNECTED |
//! | any | DISCONNECT | `Closed` | the peer ended it |
//! | any | anything else | `Closed` | send DISCONNECT, close |
//!
//! Rings of a direction come in order of their numbers, from 0; the two directions may mix, and a region need only be
//! there before a ring in it.

use alloc::vec::Vec;

use super::message::{AddRegion, AddRing, Hello, Init, Message, Name, Reason, Secret, VERSION};
use super::{Fault, LOG2_RING_SIZE_MAX, MODE_ETHERNET, RING_ALIGN, RINGS_MAX, ring_bytes};

/// What the server allows.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ServerLimits {
    /// Most regions, 1 to 256.
    pub regions: u16,
    /// Most bytes of all regions together.
    pub bytes: u64,
    /// Largest log2 of a ring's slots, 1 to 14.
    pub log2_ring_size: u8,
}

/// An interface that clients can ask for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its number on the socket.
    pub id: u32,
    /// Its name.
    pub name: Name,
    /// What a client must know, if anything.
    pub secret: Option<Secret>,
    /// It has a peer.
    pub busy: bool,
    /// Most rings of a client in each direction, 1 to 256.
    pub rings: u16,
}

/// What to keep of a message that brought a file descriptor.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// The descriptor is the file of the next region.
    Region(AddRegion),
    /// The descriptor is the eventfd of this ring.
    Ring(AddRing),
}

/// The one thing to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum ServerDecision {
    /// INIT was good: `interface` is the position of the interface in the list, which has a peer from now on. Send `reply`.
    Admit {
        /// Position in the list that was given.
        interface: usize,
        /// To be sent.
        reply: Message,
    },
    /// Keep the descriptor that came along. Send `reply`.
    Take {
        /// As what.
        taken: Taken,
        /// To be sent.
        reply: Message,
    },
    /// Map all regions, look for each ring's cookie, then call [`ServerHandshake::mapped`].
    Map,
    /// Send the fault's DISCONNECT and close.
    Refuse(Fault),
    /// The peer ended it: close.
    Ended(Reason),
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
enum State {
    AwaitInit,
    Collecting,
    Mapping,
    Connected,
    Closed,
}

/// One connection, from the server's side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerHandshake {
    limits: ServerLimits,
    state: State,
    /// Most rings in each direction: what HELLO said until INIT chose the interface.
    rings_max: u16,
    peer: Name,
    regions: Vec<u64>,
    c2s: Vec<AddRing>,
    s2c: Vec<AddRing>,
}

impl ServerHandshake {
    /// A connection that was accepted, and its HELLO. The limits of rings are those of the interface with most.
    ///
    /// # Panics
    ///
    /// If a limit is not in its range, or there is no interface.
    #[must_use]
    pub fn new(name: Name, limits: ServerLimits, interfaces: &[Interface]) -> (Self, Message) {
        assert!((1..=256).contains(&limits.regions), "1 to 256 regions");
        assert!((1..=LOG2_RING_SIZE_MAX).contains(&limits.log2_ring_size), "rings of 2^1 to 2^14 slots");
        let rings_max = interfaces.iter().map(|interface| interface.rings).max().unwrap_or(1);
        assert!((1..=RINGS_MAX).contains(&rings_max), "1 to 256 rings");
        let hello = Message::Hello(Hello {
            name,
            version_min: VERSION,
            version_max: VERSION,
            region_max: limits.regions - 1,
            s2c_ring_max: rings_max - 1,
            c2s_ring_max: rings_max - 1,
            log2_ring_size_max: limits.log2_ring_size,
        });
        let (regions, c2s, s2c) = (Vec::new(), Vec::new(), Vec::new());
        (Self { limits, state: State::AwaitInit, rings_max, peer: Name::new(""), regions, c2s, s2c }, hello)
    }

    /// A message came, with a file descriptor or without. `interfaces` is the list as it is now.
    ///
    /// A descriptor that no [`Taken`] asks for is to be closed.
    ///
    /// # Panics
    ///
    /// After `Refuse` or `Ended`, and while `Map` is not answered.
    pub fn on_message(&mut self, message: &Message, descriptor: bool, interfaces: &[Interface]) -> ServerDecision {
        assert!(!matches!(self.state, State::Closed | State::Mapping), "a message in state {:?}", self.state);
        if let Message::Disconnect { reason, .. } = message {
            self.state = State::Closed;
            return ServerDecision::Ended(*reason);
        }
        let decision = match (self.state, message) {
            (State::AwaitInit, Message::Init(init)) => self.on_init(init, interfaces),
            (State::AwaitInit, other) => unexpected(other, "INIT"),
            (State::Collecting, Message::AddRegion(region)) => self.on_region(*region, descriptor),
            (State::Collecting, Message::AddRing(ring)) => self.on_ring(*ring, descriptor),
            (State::Collecting, Message::Connect(_)) => self.on_connect(),
            (State::Collecting, other) => unexpected(other, "ADD_REGION, ADD_RING or CONNECT"),
            (State::Connected, other) => unexpected(other, "DISCONNECT"),
            (State::Mapping | State::Closed, _) => unreachable!("asserted above"),
        };
        decision.unwrap_or_else(|fault| self.refuse(fault))
    }

    /// Bytes came that are no message, or the caller found a fault of its own.
    pub fn refuse(&mut self, fault: Fault) -> ServerDecision {
        self.state = State::Closed;
        ServerDecision::Refuse(fault)
    }

    /// The regions are mapped and every cookie is there: returns the message that opens the link.
    ///
    /// # Panics
    ///
    /// If it was not asked for.
    #[must_use]
    pub fn mapped(&mut self, interface_name: Name) -> Message {
        assert_eq!(self.state, State::Mapping, "mapped without being asked");
        self.state = State::Connected;
        Message::Connected(interface_name)
    }

    /// Whether packets may flow.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    /// Whom the client says it is; empty before INIT.
    #[must_use]
    pub fn peer(&self) -> &Name {
        &self.peer
    }

    /// Bytes of each region, as announced and checked.
    #[must_use]
    pub fn regions(&self) -> &[u64] {
        &self.regions
    }

    /// Rings of a direction, in the order of their numbers.
    #[must_use]
    pub fn rings(&self, c2s: bool) -> &[AddRing] {
        if c2s { &self.c2s } else { &self.s2c }
    }

    fn on_init(&mut self, init: &Init, interfaces: &[Interface]) -> Result<ServerDecision, Fault> {
        if init.version != VERSION {
            return Err(Fault::Version { min: init.version, max: init.version });
        }
        if init.mode != MODE_ETHERNET {
            return Err(Fault::Mode { mode: init.mode });
        }
        let found = interfaces.iter().enumerate().find(|(_, interface)| interface.id == init.id);
        let (position, interface) = found.ok_or(Fault::NoSuchInterface { id: init.id })?;
        // The secret first: who does not know it learns nothing about the interface.
        if let Some(secret) = &interface.secret {
            if init.secret.iter().all(|&byte| byte == 0) {
                return Err(Fault::SecretRequired);
            }
            if !secret.matches(&init.secret) {
                return Err(Fault::SecretWrong);
            }
        }
        if interface.busy {
            return Err(Fault::InterfaceBusy { id: init.id });
        }
        self.state = State::Collecting;
        self.rings_max = interface.rings;
        self.peer = init.name;
        Ok(ServerDecision::Admit { interface: position, reply: Message::Ack })
    }

    fn on_region(&mut self, region: AddRegion, descriptor: bool) -> Result<ServerDecision, Fault> {
        if !descriptor {
            return Err(Fault::NoDescriptor { message: "ADD_REGION" });
        }
        let wanted = self.regions.len() as u16; // at most 256
        if wanted == self.limits.regions {
            return Err(Fault::TooManyRegions { max: self.limits.regions });
        }
        if region.index != wanted {
            return Err(Fault::RegionIndex { index: region.index, wanted });
        }
        // A descriptor's offset is 32 bits, so nothing beyond 4 GiB could be used.
        let together = self.regions.iter().sum::<u64>().checked_add(region.bytes);
        let fits = together.is_some_and(|bytes| bytes <= self.limits.bytes);
        if region.bytes == 0 || region.bytes > 1 << 32 || !fits {
            return Err(Fault::RegionBytes { bytes: region.bytes });
        }
        self.regions.push(region.bytes);
        Ok(ServerDecision::Take { taken: Taken::Region(region), reply: Message::Ack })
    }

    fn on_ring(&mut self, ring: AddRing, descriptor: bool) -> Result<ServerDecision, Fault> {
        if !descriptor {
            return Err(Fault::NoDescriptor { message: "ADD_RING" });
        }
        let wanted = self.rings(ring.c2s).len() as u16; // at most 256
        if wanted == self.rings_max {
            return Err(Fault::TooManyRings { max: self.rings_max });
        }
        if ring.index != wanted {
            return Err(Fault::RingIndex { index: ring.index, wanted });
        }
        if !(1..=self.limits.log2_ring_size).contains(&ring.log2_ring_size) {
            return Err(Fault::RingSize { log2: ring.log2_ring_size });
        }
        if ring.private_header_bytes != 0 {
            return Err(Fault::PrivateHeader { bytes: ring.private_header_bytes });
        }
        let region_bytes = self.regions.get(usize::from(ring.region));
        let region_bytes = *region_bytes.ok_or(Fault::RingRegion { region: ring.region })?;
        if !u64::from(ring.offset).is_multiple_of(RING_ALIGN) {
            return Err(Fault::RingUnaligned { offset: ring.offset });
        }
        if u64::from(ring.offset) + ring_bytes(ring.log2_ring_size) > region_bytes {
            return Err(Fault::RingOutside { offset: ring.offset });
        }
        if ring.c2s {
            self.c2s.push(ring)
        } else {
            self.s2c.push(ring)
        }
        Ok(ServerDecision::Take { taken: Taken::Ring(ring), reply: Message::Ack })
    }

    fn on_connect(&mut self) -> Result<ServerDecision, Fault> {
        if self.c2s.is_empty() || self.s2c.is_empty() {
            return Err(Fault::NoRings);
        }
        self.state = State::Mapping;
        Ok(ServerDecision::Map)
    }
}

fn unexpected(message: &Message, wanted: &'static str) -> Result<ServerDecision, Fault> {
    Err(Fault::Unexpected { got: message.name(), wanted })
}
