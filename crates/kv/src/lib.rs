//! The cache that is served and loaded.
//!
//! A server is made of a [`store`], which takes values of up to a megabyte and forgets, of [`session`]s, which speak
//! memcached's protocols and RESP2, and of workers on a network ([`serve`]). The client side ([`load`]) draws requests
//! from a [`profile::Profile`], sends them at their [`arrivals`], keeps what is out in [`flight::InFlight`] and checks
//! every reply, which is possible because a value is a function of its key and its length ([`value`]).
//!
//! Source of the formats: memcached `doc/protocol.txt`, sections "Storage commands", "Retrieval command" and "UDP
//! protocol".

pub mod arrivals;
mod decimal;
pub mod flight;
pub mod load;
pub mod profile;
pub mod recorder;
pub mod serve;
pub mod service;
pub mod session;
pub mod sizes;
pub mod store;
pub mod value;

/// Longest key, in bytes. Source: memcached `doc/protocol.txt`, "Keys".
pub const KEY_BYTES_MAX: usize = 250;

/// Longest datagram of the workload, in bytes. Source: memcached `UDP_MAX_PAYLOAD_SIZE`.
pub const DATAGRAM_BYTES_MAX: usize = 1400;

/// The frame header before each datagram, in bytes: request id, sequence number, number of datagrams, reserved; each
/// 16 bits, big endian. Source: memcached `doc/protocol.txt`, "UDP protocol".
pub const FRAME_HEADER_BYTES: usize = 8;

/// What a get's reply holds besides key and value, at most: header, `VALUE `, two spaces, flags of 10 digits, length
/// of 4 digits and its space, and the ends of three lines with `END`.
const REPLY_OVERHEAD_BYTES: usize = FRAME_HEADER_BYTES + 6 + 1 + 10 + 1 + 4 + 2 + 2 + 5;

/// Longest value, in bytes, with which the reply to a get of a key of `key_bytes` still fits one datagram.
pub const fn value_bytes_max(key_bytes: usize) -> usize {
    DATAGRAM_BYTES_MAX - REPLY_OVERHEAD_BYTES - key_bytes
}
