//! ICMP errors about what others have sent, by the rules of [`napier_core::icmp::answers`].
//!
//! They go back to the Ethernet address that the packet came from, as every answer of the stack does, so that none waits for a neighbour. One thread
//! at a time looks how many there were; another that has one meanwhile does not send it, and counts it as one too many.

use napier_core::icmp::answers::{AnswerLimits, Offence, Permit, Trouble, may_be_error};
use napier_core::time::Instant;
use napier_ring::Owned;
use smoltcp::wire::{EthernetAddress, EthernetProtocol};

use super::ask::emit;
use super::demux::flow_hash;
use super::{Devices, Interface, Tables};
use crate::counters::Counter;
use crate::wire::addr::{Addr, End, is_station};
use crate::wire::fragment::protocol_of;
use crate::wire::told::{ends_of, error_len, write_error};
use crate::wire::{ETH_LEN, PROTO_ICMP, PROTO_ICMPV6};

/// How many errors there were in a name space.
pub(crate) struct ErrorAnswers(Owned<Spoken, ()>);

#[derive(Default)]
struct Spoken {
    limits: AnswerLimits,
    /// Numbers drawn so far.
    drawn: u64,
}

impl ErrorAnswers {
    pub(super) fn new() -> Self {
        Self(Owned::new(Spoken::default()))
    }

    fn take(&self, seed: u64, to: Addr, now: Instant) -> Permit {
        let Some(mut spoken) = self.0.try_own() else { return Permit::TooMany };
        spoken.drawn += 1;
        let end = End { addr: to, port: 0 };
        let place = flow_hash(seed, end, end).into();
        // As hard to guess as the seed. Source: G. Steele et al., "Fast splittable pseudorandom number generators", its mixer.
        let mixed = (seed ^ spoken.drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let (high, low) = to.words();
        spoken.limits.take(u128::from(high) << 64 | u128::from(low), (place, mixed >> 33), now)
    }
}

/// Tells the sender of a frame what is wrong with the packet in it, if that may be told. `frame`: from the Ethernet header on; the packet may be cut behind
/// its beginning.
#[cold]
pub(crate) fn tell_sender(
    tables: &Tables,
    (devices, interface): (&Devices, &Interface),
    frame: &[u8],
    trouble: Trouble,
    now: Instant,
) {
    let Some((ethernet, about)) = frame.split_first_chunk::<ETH_LEN>() else { return };
    let Some((src, dst)) = ends_of(about) else { return };
    let (v4, mac) = (src.is_v4(), EthernetAddress::from_bytes(&ethernet[6..12]));
    let is_broadcast = |own: Addr, len: u8| src.in_prefix(own, len) && own.subnet_broadcast(len) == Some(src);
    let all = || devices.iter().flat_map(|interface| interface.addresses.iter());
    let offence = Offence {
        to_station: ethernet[0] & 1 == 0,
        to_us: devices.is_local(dst),
        from_station: is_station(mac.0)
            && is_host(src)
            && !devices.is_local(src)
            && !all().any(|(own, len)| is_broadcast(*own, *len)),
        begins: true,
        is_error: match protocol_of(about) {
            Some((PROTO_ICMP | PROTO_ICMPV6, rest)) => rest.first().is_none_or(|kind| may_be_error(v4, *kind)),
            Some(_) => false,
            None => true,
        },
    };
    if !offence.is_answered() || tables.is_stopped() {
        return;
    }
    match tables.answers.take(tables.seed, src, now) {
        Permit::Send => {}
        Permit::TooMany => return tables.counters.count(Counter::IcmpOutLimitGlobal),
        Permit::TooManyToHost => return tables.counters.count(Counter::IcmpOutLimitHost),
    }
    let ethertype = if v4 { EthernetProtocol::Ipv4 } else { EthernetProtocol::Ipv6 };
    let sent = emit(tables, interface, mac, ethertype, error_len(about), |packet| {
        write_error(packet, trouble.message(v4), about);
    });
    if sent {
        tables.counters.count(match (trouble, v4) {
            (Trouble::NoPort, true) => Counter::IcmpOutDestUnreachs,
            (Trouble::NoPort, false) => Counter::Icmp6OutDestUnreachs,
            (Trouble::NotWhole, true) => Counter::IcmpOutTimeExcds,
            (Trouble::NotWhole, false) => Counter::Icmp6OutTimeExcds,
        });
    }
}

/// Whether a source may be one host's: of the classes D and E, `0.0.0.0/8` and loopback none is (RFC 1122 section 3.2.1.3).
fn is_host(addr: Addr) -> bool {
    match addr.as_v4().map(|v4| v4.octets()[0]) {
        Some(first) => !matches!(first, 0 | 127 | 224..),
        None => !addr.is_group() && !addr.is_any(),
    }
}
