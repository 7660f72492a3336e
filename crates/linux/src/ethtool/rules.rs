//! Rules by which the packets of a port go to a queue (`ethtool -n`, `-N`), in the namespace of the calling thread. By the ioctl: the
//! netlink family of `ethtool` has no message for them. Source: `include/uapi/linux/ethtool.h struct ethtool_rx_flow_spec`.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use super::{EthtoolError, refused};
use crate::sys::rxnfc::{self, ask, number, put, room};

/// What a rule is about: packets to a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "they are the names of `ethtool -N`")]
pub enum FlowType {
    Tcp4,
    Udp4,
    Tcp6,
    Udp6,
}

/// Where a rule sends packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowTo {
    /// A receive queue.
    Queue(u32),
    /// Elsewhere: another function of the card, a context of several queues, or nowhere.
    Other,
}

/// Offsets in `struct ethtool_rxnfc` of the specification's parts: its kind, what it matches, what of that counts, queue, place.
const KIND: usize = 16;
const MATCH: usize = 20;
const MASK: usize = 92;
/// Of what counts, with its extension.
const MASK_BYTES: usize = 72;
const QUEUE: usize = 168;
const PLACE: usize = 176;
/// Where the table's size is, in an answer to a count, and the bit that says that the driver may choose places.
const TABLE: usize = 8;
const DRIVER_CHOOSES: u32 = 1 << 31;
const ANY_PLACE: u32 = u32::MAX;
/// Places that are tried: more than any table has.
const PLACES_MAX: u32 = 1 << 20;

impl FlowType {
    /// As `ethtool -N` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp4 => "tcp4",
            Self::Udp4 => "udp4",
            Self::Tcp6 => "tcp6",
            Self::Udp6 => "udp6",
        }
    }

    /// `TCP_V4_FLOW` and its like.
    const fn number(self) -> u32 {
        match self {
            Self::Tcp4 => 1,
            Self::Udp4 => 2,
            Self::Tcp6 => 5,
            Self::Udp6 => 6,
        }
    }

    /// Offset of the port that packets go to, in what is matched.
    const fn port_at(self) -> usize {
        match self {
            Self::Tcp4 | Self::Udp4 => 10,
            Self::Tcp6 | Self::Udp6 => 34,
        }
    }
}

impl fmt::Display for FlowType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The rule that is about just these packets: its place, and where they go.
///
/// # Errors
/// [`EthtoolError::NotHere`] where the driver has no rules.
pub fn find(interface: &str, flow: FlowType, port: u16) -> Result<Option<(u32, FlowTo)>, EthtoolError> {
    for place in places(interface)?.0 {
        let mut request = room(0);
        put(&mut request, 0, rxnfc::RULE);
        put(&mut request, PLACE, place);
        match ask(interface, &mut request) {
            Ok(()) => {}
            // Deleted meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
            Err(error) => return Err(of(&error)),
        }
        if let Some(to) = parse(&request, flow, port) {
            return Ok(Some((place, to)));
        }
    }
    Ok(None)
}

/// Sends these packets to a queue.
///
/// # Errors
/// As the driver says it.
pub fn insert(interface: &str, flow: FlowType, port: u16, queue: u32) -> Result<(), EthtoolError> {
    let (taken, table) = places(interface)?;
    let place = free_place(&taken, table)
        .ok_or_else(|| EthtoolError::Refused("its table of rules is full: ethtool -n shows them".to_owned()))?;
    ask(interface, &mut request(flow, port, queue, place)).map_err(|error| of(&error))
}

/// Removes the rule at a place.
///
/// # Errors
/// As the driver says it.
pub fn delete(interface: &str, place: u32) -> Result<(), EthtoolError> {
    let mut request = room(0);
    put(&mut request, 0, rxnfc::DELETE);
    put(&mut request, PLACE, place);
    ask(interface, &mut request).map_err(|error| of(&error))
}

fn of(error: &io::Error) -> EthtoolError {
    refused(error, error.to_string())
}

/// Places that have a rule, and what the driver says of its table.
fn places(interface: &str) -> Result<(Vec<u32>, u32), EthtoolError> {
    let mut counted = room(0);
    put(&mut counted, 0, rxnfc::RULE_COUNT);
    ask(interface, &mut counted).map_err(|error| of(&error))?;
    let mut listed = room(rxnfc::count(&counted));
    put(&mut listed, 0, rxnfc::RULES);
    ask(interface, &mut listed).map_err(|error| of(&error))?;
    // The size of the table is in the one or in the other.
    let table = number(&counted, TABLE) | number(&listed, TABLE);
    Ok((rxnfc::locations(&listed), table))
}

/// The last one that is free, as `ethtool -N` takes it: those before are for rules that count more.
fn free_place(taken: &[u32], table: u32) -> Option<u32> {
    if table & DRIVER_CHOOSES != 0 {
        return Some(ANY_PLACE);
    }
    (0..table.min(PLACES_MAX)).rev().find(|place| !taken.contains(place))
}

fn request(flow: FlowType, port: u16, queue: u32, place: u32) -> Vec<u8> {
    let mut bytes = room(0);
    put(&mut bytes, 0, rxnfc::INSERT);
    put(&mut bytes, KIND, flow.number());
    let at = flow.port_at();
    bytes[MATCH + at..MATCH + at + 2].copy_from_slice(&port.to_be_bytes());
    bytes[MASK + at..MASK + at + 2].copy_from_slice(&[0xff; 2]);
    bytes[QUEUE..QUEUE + 8].copy_from_slice(&u64::from(queue).to_ne_bytes());
    put(&mut bytes, PLACE, place);
    bytes
}

/// Where a rule sends packets, if it is about just these.
fn parse(answer: &[u8], flow: FlowType, port: u16) -> Option<FlowTo> {
    /// `FLOW_RSS`: to a context of several queues.
    const RSS: u32 = 0x2000_0000;
    let kind = number(answer, KIND);
    let whole = request(flow, port, 0, 0);
    let is_same = |from: usize, bytes: usize| answer.get(from..from + bytes) == whole.get(from..from + bytes);
    // What does not count may hold anything.
    let at = MATCH + flow.port_at();
    if kind & !RSS != flow.number() || !is_same(at, 2) || !is_same(MASK, MASK_BYTES) {
        return None;
    }
    let to = answer.get(QUEUE..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))?;
    let queue = u32::try_from(to).ok().filter(|_| kind & RSS == 0);
    Some(queue.map_or(FlowTo::Other, FlowTo::Queue))
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
