//! What is rare: ARP (RFC 826), neighbour discovery (RFC 4861 section 7), echo and errors (RFC 792, RFC 4443), taken apart and
//! put together with `smoltcp::wire`.
//!
//! Answers go back to the Ethernet address that asked. No answer is sent to a group, and none about a group.
//!
//! | message | what happens |
//! |---|---|
//! | echo request | answered |
//! | destination unreachable, packet too big, time exceeded, parameter problem | goes to the socket whose packet it is about (`errors`) |
//! | neighbour solicitation and advertisement, ARP | `neighbours` |
//! | router advertisement | tells where the router is, if it is known; routes are what the program says (`accept_ra` = 0) |
//! | redirect | counted: the program has said which gateway it wants (`accept_redirects` = 0) |
//! | echo reply, and all others | counted |

mod errors;
mod neighbours;

use std::net::IpAddr;

use smoltcp::wire::{
    EthernetAddress, EthernetProtocol, Icmpv4Message, Icmpv4Packet, Icmpv4Repr, Icmpv6Message, Icmpv6Packet,
    Icmpv6Repr, IpProtocol, Ipv4Packet, Ipv4Repr, NdiscRepr,
};

use crate::counters::Counter;
use crate::tables::ask::{ND_HOP_LIMIT, computed, emit, emit_v6};
use crate::tables::{Ingress, Interface, Snapshot, Tables};
use crate::wire::addr::Addr;
use crate::wire::template::TTL;
use crate::wire::{self, Packet, quote};

/// A message that has come, and what it may be of interest to.
#[derive(Copy, Clone)]
struct Incoming<'a> {
    tables: &'a Tables,
    snapshot: &'a Snapshot,
    interface: &'a Interface,
    /// The frame belongs to the kernel, which shares the interface: it answers and counts.
    beside: bool,
}

impl Incoming<'_> {
    fn count(&self, counter: Counter) {
        if !self.beside {
            self.tables.counters.count(counter);
        }
    }
}

/// Handles a packet that is neither UDP nor TCP. `frame` is the whole frame.
#[cold]
pub(super) fn receive(at: &Ingress<'_>, frame: &[u8], packet: &Packet) {
    #[cfg(any(test, feature = "fuzzing"))]
    super::in_hand::injected::fault(frame);
    let Ingress { tables, interface, .. } = *at;
    let snapshot = tables.snapshot.load();
    take(Incoming { tables, snapshot: &snapshot, interface, beside: false }, frame, packet);
}

/// Takes a frame that is another's for what can be learnt of it; nothing is answered or counted.
#[cold]
pub(super) fn hear(at: &Ingress<'_>, frame: &[u8]) {
    // Whoever it is for: the kernel's Ethernet address may be another.
    let Some(to) = frame.first_chunk::<6>() else { return };
    if let Ok(packet @ (Packet::Arp | Packet::Icmp { .. } | Packet::Icmpv6 { .. })) = wire::parse(frame, *to) {
        let Ingress { tables, interface, .. } = *at;
        let snapshot = tables.snapshot.load();
        take(Incoming { tables, snapshot: &snapshot, interface, beside: true }, frame, &packet);
    }
}

fn take(msg: Incoming<'_>, frame: &[u8], packet: &Packet) {
    match *packet {
        Packet::Udp(_) | Packet::Tcp(_) | Packet::Fragment { .. } => unreachable!("these have paths of their own"),
        Packet::Arp => neighbours::arp(msg, frame),
        Packet::Icmp { src, dst, at, end } => {
            msg.count(Counter::IpInReceives);
            if !msg.snapshot.is_local(dst) {
                return msg.count(Counter::IpInAddrErrors);
            }
            msg.count(Counter::IpInDelivers);
            icmp(msg, frame, src, dst, &frame[at..end]);
        }
        Packet::Icmpv6 { src, dst, hop_limit, at, end } => {
            msg.count(Counter::Ip6InReceives);
            if !msg.snapshot.is_local(dst) && !neighbours::is_our_group(msg.snapshot, dst) {
                return msg.count(Counter::Ip6InAddrErrors);
            }
            msg.count(Counter::Ip6InDelivers);
            icmpv6(msg, frame, Message { src, dst, hop_limit }, &frame[at..end]);
        }
    }
}

fn icmp(msg: Incoming<'_>, frame: &[u8], src: Addr, dst: Addr, body: &[u8]) {
    msg.count(Counter::IcmpInMsgs);
    let Ok(packet) = Icmpv4Packet::new_checked(body) else { return msg.count(Counter::IcmpInErrors) };
    if !packet.verify_checksum() {
        msg.count(Counter::IcmpInErrors);
        return msg.count(Counter::IcmpInCsumErrors);
    }
    msg.count(match packet.msg_type() {
        Icmpv4Message::EchoRequest => Counter::IcmpInEchos,
        Icmpv4Message::EchoReply => Counter::IcmpInEchoReps,
        Icmpv4Message::DstUnreachable => Counter::IcmpInDestUnreachs,
        Icmpv4Message::TimeExceeded => Counter::IcmpInTimeExcds,
        Icmpv4Message::ParamProblem => Counter::IcmpInParmProbs,
        Icmpv4Message::Redirect => Counter::IcmpInRedirects,
        _ => Counter::IcmpInOthers,
    });
    if packet.msg_type() == Icmpv4Message::EchoRequest {
        if !msg.beside {
            echo(msg, frame, (src, dst), &packet);
        }
        return;
    }
    // An error is about a packet that begins behind eight bytes.
    let Some((&[kind, code, _, _, r0, r1, r2, r3], rest)) = body.split_first_chunk::<8>() else { return };
    if let Some(about) = quote::about_v4(kind, code, [r0, r1, r2, r3])
        && !errors::receive(msg.tables, msg.snapshot, (src, kind, code), about, rest)
    {
        msg.count(Counter::IcmpInErrors);
    }
}

fn echo(msg: Incoming<'_>, frame: &[u8], (src, dst): (Addr, Addr), packet: &Icmpv4Packet<&[u8]>) {
    let Ok(Icmpv4Repr::EchoRequest { ident, seq_no, data }) = Icmpv4Repr::parse(packet, &computed()) else { return };
    let (Some(us), Some(them)) = (dst.as_v4(), src.as_v4()) else { return };
    if src.is_group() || src.is_any() {
        return;
    }
    let answer = Icmpv4Repr::EchoReply { ident, seq_no, data };
    let header = Ipv4Repr {
        src_addr: us,
        dst_addr: them,
        next_header: IpProtocol::Icmp,
        payload_len: answer.buffer_len(),
        hop_limit: TTL,
    };
    let len = header.buffer_len() + answer.buffer_len();
    if emit(msg.tables, msg.interface, sender(frame), EthernetProtocol::Ipv4, len, |body| {
        let mut packet = Ipv4Packet::new_unchecked(body);
        header.emit(&mut packet, &computed());
        answer.emit(&mut Icmpv4Packet::new_unchecked(packet.payload_mut()), &computed());
    }) {
        msg.tables.counters.count(Counter::IcmpOutEchoReps);
    }
}

/// The IPv6 header around an ICMPv6 message.
struct Message {
    src: Addr,
    dst: Addr,
    hop_limit: u8,
}

fn icmpv6(msg: Incoming<'_>, frame: &[u8], message: Message, body: &[u8]) {
    msg.count(Counter::Icmp6InMsgs);
    let (IpAddr::V6(src), IpAddr::V6(dst)) = (message.src.ip(), message.dst.ip()) else { return };
    // smoltcp takes types that it does not know for malformed; they have a counter of their own here.
    let Some((&[kind, code, _, _, r0, r1, r2, r3], rest)) = body.split_first_chunk::<8>() else {
        return msg.count(Counter::Icmp6InErrors);
    };
    let packet = Icmpv6Packet::new_unchecked(body);
    if !packet.verify_checksum(&src, &dst) {
        msg.count(Counter::Icmp6InErrors);
        return msg.count(Counter::Icmp6InCsumErrors);
    }
    msg.count(match packet.msg_type() {
        Icmpv6Message::EchoRequest => Counter::Icmp6InEchos,
        Icmpv6Message::EchoReply => Counter::Icmp6InEchoReplies,
        Icmpv6Message::DstUnreachable => Counter::Icmp6InDestUnreachs,
        Icmpv6Message::PktTooBig => Counter::Icmp6InPktTooBigs,
        Icmpv6Message::TimeExceeded => Counter::Icmp6InTimeExcds,
        Icmpv6Message::ParamProblem => Counter::Icmp6InParmProblems,
        Icmpv6Message::NeighborSolicit => Counter::Icmp6InNeighborSolicits,
        Icmpv6Message::NeighborAdvert => Counter::Icmp6InNeighborAdverts,
        Icmpv6Message::RouterAdvert => Counter::Icmp6InRouterAdverts,
        Icmpv6Message::Redirect => Counter::Icmp6InRedirects,
        _ => Counter::Icmp6InOthers,
    });
    if let Some(about) = quote::about_v6(kind, code, [r0, r1, r2, r3]) {
        // "Too big" may come of what went to a group, but none is sent here.
        let is_ours = msg.snapshot.is_local(message.dst);
        if !is_ours || !errors::receive(msg.tables, msg.snapshot, (message.src, kind, code), about, rest) {
            msg.count(Counter::Icmp6InErrors);
        }
        return;
    }
    let discovery = matches!(
        packet.msg_type(),
        Icmpv6Message::NeighborSolicit | Icmpv6Message::NeighborAdvert | Icmpv6Message::RouterAdvert
    );
    if !discovery && packet.msg_type() != Icmpv6Message::EchoRequest {
        return;
    }
    let valid = packet.check_len().is_ok() && (!discovery || message.hop_limit == ND_HOP_LIMIT && code == 0);
    let Some(repr) = valid.then(|| Icmpv6Repr::parse(&src, &dst, &packet, &computed()).ok()).flatten() else {
        return msg.count(Counter::Icmp6InErrors);
    };
    match repr {
        // RFC 4443 section 4.2 would have us answer a group too; nobody needs it on a link of two.
        Icmpv6Repr::EchoRequest { ident, seq_no, data }
            if !msg.beside && msg.snapshot.is_local(message.dst) && !message.src.is_any() =>
        {
            let answer = Icmpv6Repr::EchoReply { ident, seq_no, data };
            if emit_v6(msg.tables, msg.interface, sender(frame), (dst, src, TTL), &answer) {
                msg.tables.counters.count(Counter::Icmp6OutEchoReplies);
            }
        }
        Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr, lladdr }) => {
            neighbours::solicited(msg, frame, src, target_addr, lladdr);
        }
        Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { flags, target_addr, lladdr }) => {
            neighbours::advertised(msg, flags, message.dst, target_addr, lladdr);
        }
        Icmpv6Repr::Ndisc(NdiscRepr::RouterAdvert { lladdr, .. }) => neighbours::of_router(msg, src, lladdr),
        _ => {}
    }
}

/// The station that sent a frame.
fn sender(frame: &[u8]) -> EthernetAddress {
    EthernetAddress::from_bytes(&frame[6..12])
}
