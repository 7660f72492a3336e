//! The messages of the control channel: 128 bytes each, integers in little-endian order, fields packed.
//!
//! Layouts: memif 2.0, DPDK v22.11 `drivers/net/memif/memif.h`.

use super::text::Text;

/// Bytes of every message.
pub const MESSAGE_BYTES: usize = 128;
/// Protocol version, major in the high byte.
pub const VERSION: u16 = 0x0200;
/// Bytes of a secret, padded with NULs.
pub const SECRET_BYTES: usize = 24;

/// A name in a message.
pub type Name = Text<32>;
/// A reason in a message.
pub type Reason = Text<96>;
/// A secret: zero-padded bytes.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Secret(pub(super) [u8; SECRET_BYTES]);

impl Secret {
    /// The secret, or `None` if it is empty, has more than 24 bytes, or a NUL among them.
    #[must_use]
    pub fn new(secret: &[u8]) -> Option<Self> {
        let mut bytes = [0; SECRET_BYTES];
        bytes.get_mut(..secret.len())?.copy_from_slice(secret);
        (!secret.is_empty() && !secret.contains(&0)).then_some(Self(bytes))
    }

    /// Whether `offered` is this secret. Takes the same time whichever byte differs.
    #[must_use]
    pub fn matches(&self, offered: &[u8; SECRET_BYTES]) -> bool {
        self.0.iter().zip(offered).fold(0, |differ, (ours, theirs)| differ | (ours ^ theirs)) == 0
    }

    /// The bytes as a message carries them.
    #[must_use]
    pub fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What the server can do, first on every connection. The limits are highest indices, not counts.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Who listens.
    pub name: Name,
    /// Oldest version that it speaks.
    pub version_min: u16,
    /// Newest version that it speaks.
    pub version_max: u16,
    /// Highest region number.
    pub region_max: u16,
    /// Highest number of a server-to-client ring.
    pub s2c_ring_max: u16,
    /// Highest number of a client-to-server ring.
    pub c2s_ring_max: u16,
    /// Largest log2 of a ring's slots.
    pub log2_ring_size_max: u8,
}

/// Which interface the client wants.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Init {
    /// Version in force from here on.
    pub version: u16,
    /// Number of the interface, which tells several on one socket apart.
    pub id: u32,
    /// 0 = Ethernet, 1 = IP, 2 = punt/inject.
    pub mode: u8,
    /// Zero-padded; all zero where the client has none.
    pub secret: [u8; SECRET_BYTES],
    /// Who connects.
    pub name: Name,
}

impl core::fmt::Debug for Init {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { version, id, mode, name, .. } = self;
        write!(f, "Init {{ version: {version:#x}, id: {id}, mode: {mode}, name: {name:?} }}")
    }
}

/// A piece of shared memory; its file comes along.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct AddRegion {
    /// Number of the region.
    pub index: u16,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A ring in a region; its eventfd comes along.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct AddRing {
    /// Client to server; else server to client.
    pub c2s: bool,
    /// Number of the ring within its direction.
    pub index: u16,
    /// Region that it lies in.
    pub region: u16,
    /// Where in the region it starts, bytes.
    pub offset: u32,
    /// Log2 of its slots.
    pub log2_ring_size: u8,
    /// Bytes of private data before each packet: always 0.
    pub private_header_bytes: u16,
}

/// A message.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Server: go on.
    Ack,
    /// Server: what it can do.
    Hello(Hello),
    /// Client: which interface it wants.
    Init(Init),
    /// Client: a piece of memory.
    AddRegion(AddRegion),
    /// Client: a ring.
    AddRing(AddRing),
    /// Client: that was all; the name of its interface.
    Connect(Name),
    /// Server: packets may flow; the name of its interface.
    Connected(Name),
    /// Either: the end, with a number and a reason.
    Disconnect {
        /// A number without meaning in memif 2.0; 0 is usual.
        code: u32,
        /// For a person to read.
        reason: Reason,
    },
}

/// Bytes that are no message.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// Not 128 bytes.
    Length {
        /// As many as came.
        bytes: usize,
    },
    /// A type that memif 2.0 does not have.
    Type {
        /// As it came.
        kind: u16,
    },
}

impl core::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Length { bytes } => write!(f, "a message of {bytes} bytes instead of {MESSAGE_BYTES}"),
            Self::Type { kind } => write!(f, "a message of unknown type {kind}"),
        }
    }
}

impl core::error::Error for DecodeError {}

const ACK: u16 = 1;
const HELLO: u16 = 2;
const INIT: u16 = 3;
const ADD_REGION: u16 = 4;
const ADD_RING: u16 = 5;
const CONNECT: u16 = 6;
const CONNECTED: u16 = 7;
const DISCONNECT: u16 = 8;

/// Where the body starts, after the type.
const BODY: usize = 2;
/// Flag of ADD_RING: client to server.
const RING_C2S: u16 = 1;

/// Writes and reads fields at fixed places of the body.
struct Body([u8; MESSAGE_BYTES]);

impl Body {
    fn new(kind: u16) -> Self {
        let mut body = Self([0; MESSAGE_BYTES]);
        body.0[..BODY].copy_from_slice(&kind.to_le_bytes());
        body
    }

    fn put<const N: usize>(mut self, at: usize, bytes: &[u8; N]) -> Self {
        self.0[BODY + at..BODY + at + N].copy_from_slice(bytes);
        self
    }

    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[BODY + at..BODY + at + N]);
        bytes
    }

    fn u8(&self, at: usize) -> u8 {
        self.0[BODY + at]
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.get(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.get(at))
    }

    fn text<const N: usize>(&self, at: usize) -> Text<N> {
        Text::from_bytes(&self.get::<N>(at))
    }
}

impl Message {
    /// The 128 bytes of the message.
    #[must_use]
    pub fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let body = match self {
            Self::Ack => Body::new(ACK),
            Self::Hello(hello) => Body::new(HELLO)
                .put(0, hello.name.field())
                .put(32, &hello.version_min.to_le_bytes())
                .put(34, &hello.version_max.to_le_bytes())
                .put(36, &hello.region_max.to_le_bytes())
                .put(38, &hello.s2c_ring_max.to_le_bytes())
                .put(40, &hello.c2s_ring_max.to_le_bytes())
                .put(42, &[hello.log2_ring_size_max]),
            Self::Init(init) => Body::new(INIT)
                .put(0, &init.version.to_le_bytes())
                .put(2, &init.id.to_le_bytes())
                .put(6, &[init.mode])
                .put(7, &init.secret)
                .put(31, init.name.field()),
            Self::AddRegion(region) => {
                Body::new(ADD_REGION).put(0, &region.index.to_le_bytes()).put(2, &region.bytes.to_le_bytes())
            }
            Self::AddRing(ring) => Body::new(ADD_RING)
                .put(0, &(if ring.c2s { RING_C2S } else { 0 }).to_le_bytes())
                .put(2, &ring.index.to_le_bytes())
                .put(4, &ring.region.to_le_bytes())
                .put(6, &ring.offset.to_le_bytes())
                .put(10, &[ring.log2_ring_size])
                .put(11, &ring.private_header_bytes.to_le_bytes()),
            Self::Connect(name) => Body::new(CONNECT).put(0, name.field()),
            Self::Connected(name) => Body::new(CONNECTED).put(0, name.field()),
            Self::Disconnect { code, reason } => {
                Body::new(DISCONNECT).put(0, &code.to_le_bytes()).put(4, reason.field())
            }
        };
        body.0
    }

    /// What a peer's bytes say. Any 128 bytes of a known type are a message; what the fields say is for the
    /// handshake to judge.
    ///
    /// # Errors
    ///
    /// See [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let body = Body(bytes.try_into().map_err(|_| DecodeError::Length { bytes: bytes.len() })?);
        Ok(match u16::from_le_bytes([body.0[0], body.0[1]]) {
            ACK => Self::Ack,
            HELLO => Self::Hello(Hello {
                name: body.text(0),
                version_min: body.u16(32),
                version_max: body.u16(34),
                region_max: body.u16(36),
                s2c_ring_max: body.u16(38),
                c2s_ring_max: body.u16(40),
                log2_ring_size_max: body.u8(42),
            }),
            INIT => Self::Init(Init {
                version: body.u16(0),
                id: body.u32(2),
                mode: body.u8(6),
                secret: body.get(7),
                name: body.text(31),
            }),
            ADD_REGION => Self::AddRegion(AddRegion { index: body.u16(0), bytes: u64::from_le_bytes(body.get(2)) }),
            ADD_RING => Self::AddRing(AddRing {
                c2s: body.u16(0) & RING_C2S != 0,
                index: body.u16(2),
                region: body.u16(4),
                offset: body.u32(6),
                log2_ring_size: body.u8(10),
                private_header_bytes: body.u16(11),
            }),
            CONNECT => Self::Connect(body.text(0)),
            CONNECTED => Self::Connected(body.text(0)),
            DISCONNECT => Self::Disconnect { code: body.u32(0), reason: body.text(4) },
            kind => return Err(DecodeError::Type { kind }),
        })
    }

    /// The message's name in the protocol.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ack => "ACK",
            Self::Hello(_) => "HELLO",
            Self::Init(_) => "INIT",
            Self::AddRegion(_) => "ADD_REGION",
            Self::AddRing(_) => "ADD_RING",
            Self::Connect(_) => "CONNECT",
            Self::Connected(_) => "CONNECTED",
            Self::Disconnect { .. } => "DISCONNECT",
        }
    }
}
