//! What can be wrong with a message, in words for both sides.

use core::fmt::{self, Write as _};

use super::message::{DecodeError, Message, Reason, VERSION};

/// Why a handshake was given up: the peer is told, and so is the user.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub enum Fault {
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
    /// A message that does not belong here.
    Unexpected {
        /// Its name.
        got: &'static str,
        /// What would belong here.
        wanted: &'static str,
    },
    /// Another version of memif.
    Version {
        /// Oldest offered.
        min: u16,
        /// Newest offered.
        max: u16,
    },
    /// No interface has this number here.
    NoSuchInterface {
        /// The number.
        id: u32,
    },
    /// The interface has a peer.
    InterfaceBusy {
        /// Its number.
        id: u32,
    },
    /// Not Ethernet.
    Mode {
        /// As asked for.
        mode: u8,
    },
    /// The interface has a secret and the client gave none.
    SecretRequired,
    /// The client gave another secret.
    SecretWrong,
    /// A region or ring without its file descriptor.
    NoDescriptor {
        /// Of which message.
        message: &'static str,
    },
    /// A region out of turn.
    RegionIndex {
        /// As announced.
        index: u16,
        /// The next number.
        wanted: u16,
    },
    /// One region more than agreed.
    TooManyRegions {
        /// As agreed.
        max: u16,
    },
    /// No bytes, or more than 4 GiB, or more than allowed together with those before.
    RegionBytes {
        /// As announced.
        bytes: u64,
    },
    /// A ring out of turn.
    RingIndex {
        /// As announced.
        index: u16,
        /// The next number of this direction.
        wanted: u16,
    },
    /// One ring more than agreed.
    TooManyRings {
        /// As agreed for this direction.
        max: u16,
    },
    /// A ring in a region that was not announced.
    RingRegion {
        /// As announced.
        region: u16,
    },
    /// A ring that does not start on a cache line.
    RingUnaligned {
        /// As announced.
        offset: u32,
    },
    /// A ring that ends after its region.
    RingOutside {
        /// As announced.
        offset: u32,
    },
    /// A ring of a size that is not allowed.
    RingSize {
        /// As announced.
        log2: u8,
    },
    /// Private bytes before each packet.
    PrivateHeader {
        /// As announced.
        bytes: u16,
    },
    /// No ring in one direction.
    NoRings,
    /// The server allows too little: no ring of at least two slots in each direction.
    Limits,
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Length { bytes } => Self::Length { bytes },
            DecodeError::Type { kind } => Self::Type { kind },
        }
    }
}

/// Of at most 95 bytes, so that a DISCONNECT carries it whole; a test holds that.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { bytes } => DecodeError::Length { bytes: *bytes }.fmt(f),
            Self::Type { kind } => DecodeError::Type { kind: *kind }.fmt(f),
            Self::Unexpected { got, wanted } => write!(f, "{got} where {wanted} belongs"),
            Self::Version { min, max } => write!(f, "versions {min:#06x} to {max:#06x} offered, {VERSION:#06x} wanted"),
            Self::NoSuchInterface { id } => write!(f, "no interface with id {id} on this socket"),
            Self::InterfaceBusy { id } => write!(f, "interface id {id} has a peer already"),
            Self::Mode { mode } => write!(f, "mode {mode} asked for, only mode 0 (Ethernet) is spoken"),
            Self::SecretRequired => f.write_str("secret required"),
            Self::SecretWrong => f.write_str("wrong secret"),
            Self::NoDescriptor { message } => write!(f, "{message} without a file descriptor"),
            Self::RegionIndex { index, wanted } => write!(f, "region {index} announced, region {wanted} is next"),
            Self::TooManyRegions { max } => write!(f, "more than {max} regions"),
            Self::RegionBytes { bytes } => write!(f, "a region of {bytes} bytes"),
            Self::RingIndex { index, wanted } => write!(f, "ring {index} announced, ring {wanted} is next"),
            Self::TooManyRings { max } => write!(f, "more than {max} rings in a direction"),
            Self::RingRegion { region } => write!(f, "a ring in region {region}, which was not announced"),
            Self::RingUnaligned { offset } => write!(f, "a ring at offset {offset}, not a multiple of 64"),
            Self::RingOutside { offset } => write!(f, "a ring at offset {offset} ends after its region"),
            Self::RingSize { log2 } => write!(f, "a ring of 2^{log2} slots"),
            Self::PrivateHeader { bytes } => write!(f, "a private header of {bytes} bytes, only 0 is supported"),
            Self::NoRings => f.write_str("no ring in one of the directions"),
            Self::Limits => f.write_str("the server allows no ring of two slots in each direction"),
        }
    }
}

impl core::error::Error for Fault {}

impl Fault {
    /// The message that ends the connection and tells the peer why.
    #[must_use]
    pub fn disconnect(&self) -> Message {
        let mut reason = Reason::new("");
        // Cut, never refused.
        let _ = write!(reason, "{self}");
        Message::Disconnect { code: 0, reason }
    }
}
