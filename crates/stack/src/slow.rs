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

pub(crate) mod errors;
mod neighbours;

use std::net::{IpAddr, Ipv6Addr};

use smoltcp::phy::{Checksum, ChecksumCapabilities};
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4Message, Icmpv4Packet, Icmpv4Repr,
    Icmpv6Message, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, NdiscRepr,
};

use super::addr::Addr;
use super::counters::Counter;
use super::netns::{Inner, Interface, NetNs, Snapshot};
use super::pass::RxPass;
use super::seams::{MTU, PacketClass};
use super::template::TTL;
use super::wire::{self, ETH_LEN, Packet};
pub(super) use neighbours::{probe, probe_at};

/// RFC 4861 section 7.1: anything else has passed a router and is not about this link.
const ND_HOP_LIMIT: u8 = 255;

/// Who listens.
#[derive(Copy, Clone)]
struct Ears<'a> {
    ns: &'a Inner,
    snapshot: &'a Snapshot,
    interface: &'a Interface,
    /// What is heard beside the kernel, the kernel answers and counts.
    beside: bool,
}

impl Ears<'_> {
    fn count(&self, counter: Counter) {
        if !self.beside {
            self.ns.counters.count(counter);
        }
    }
}

/// Handles a packet that is not UDP. `frame` is the whole frame.
#[cold]
pub(super) fn receive(pass: &RxPass<'_>, frame: &[u8], packet: &Packet) {
    #[cfg(any(test, feature = "fuzzing"))]
    super::in_hand::injected::fault(frame);
    take(Ears { ns: pass.ns, snapshot: pass.snapshot, interface: pass.interface, beside: false }, frame, packet);
}

impl NetNs {
    /// Takes a frame that is another's, as that of the kernel is which shares the interface, for what can be learnt of it:
    /// where neighbours are, and what routers and hosts say of our packets. Nothing is answered or counted.
    #[doc(hidden)]
    #[cold]
    pub fn hear(&self, ifindex: u32, frame: &[u8]) {
        let snapshot = self.0.snapshot.load();
        let Some(interface) = snapshot.interface(ifindex) else { return };
        let ears = Ears { ns: &self.0, snapshot: &snapshot, interface, beside: true };
        // Whoever it is for: the kernel's Ethernet address may be another.
        let Some(to) = frame.first_chunk::<6>() else { return };
        if let Ok(packet @ (Packet::Arp | Packet::Icmp { .. } | Packet::Icmpv6 { .. })) = wire::parse(frame, *to) {
            take(ears, frame, &packet);
        }
    }
}

fn take(ears: Ears<'_>, frame: &[u8], packet: &Packet) {
    match *packet {
        Packet::Udp(_) | Packet::Tcp(_) => unreachable!("both have a path of their own"),
        Packet::Arp => neighbours::arp(ears, frame),
        Packet::Icmp { src, dst, at, end } => {
            ears.count(Counter::IpInReceives);
            if !ears.snapshot.is_local(dst) {
                return ears.count(Counter::IpInAddrErrors);
            }
            ears.count(Counter::IpInDelivers);
            icmp(ears, frame, src, dst, &frame[at..end]);
        }
        Packet::Icmpv6 { src, dst, hop_limit, at, end } => {
            ears.count(Counter::Ip6InReceives);
            if !ears.snapshot.is_local(dst) && !neighbours::is_our_group(ears.snapshot, dst) {
                return ears.count(Counter::Ip6InAddrErrors);
            }
            ears.count(Counter::Ip6InDelivers);
            icmpv6(ears, frame, Message { src, dst, hop_limit }, &frame[at..end]);
        }
    }
}

fn icmp(ears: Ears<'_>, frame: &[u8], src: Addr, dst: Addr, body: &[u8]) {
    ears.count(Counter::IcmpInMsgs);
    let Ok(packet) = Icmpv4Packet::new_checked(body) else { return ears.count(Counter::IcmpInErrors) };
    if !packet.verify_checksum() {
        ears.count(Counter::IcmpInErrors);
        return ears.count(Counter::IcmpInCsumErrors);
    }
    ears.count(match packet.msg_type() {
        Icmpv4Message::EchoRequest => Counter::IcmpInEchos,
        Icmpv4Message::EchoReply => Counter::IcmpInEchoReps,
        Icmpv4Message::DstUnreachable => Counter::IcmpInDestUnreachs,
        Icmpv4Message::TimeExceeded => Counter::IcmpInTimeExcds,
        Icmpv4Message::ParamProblem => Counter::IcmpInParmProbs,
        Icmpv4Message::Redirect => Counter::IcmpInRedirects,
        _ => Counter::IcmpInOthers,
    });
    if packet.msg_type() == Icmpv4Message::EchoRequest {
        if !ears.beside {
            echo(ears, frame, (src, dst), &packet);
        }
        return;
    }
    // An error is about a packet that begins behind eight bytes.
    let Some((&[kind, code, _, _, r0, r1, r2, r3], quote)) = body.split_first_chunk::<8>() else { return };
    if let Some(about) = errors::about_v4(kind, code, [r0, r1, r2, r3])
        && !errors::receive(ears.ns, ears.snapshot, true, about, quote)
    {
        ears.count(Counter::IcmpInErrors);
    }
}

fn echo(ears: Ears<'_>, frame: &[u8], (src, dst): (Addr, Addr), packet: &Icmpv4Packet<&[u8]>) {
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
    if emit(ears.ns, ears.interface, sender(frame), EthernetProtocol::Ipv4, len, |body| {
        let mut packet = Ipv4Packet::new_unchecked(body);
        header.emit(&mut packet, &computed());
        answer.emit(&mut Icmpv4Packet::new_unchecked(packet.payload_mut()), &computed());
    }) {
        ears.ns.counters.count(Counter::IcmpOutEchoReps);
    }
}

/// The IPv6 header around an ICMPv6 message.
struct Message {
    src: Addr,
    dst: Addr,
    hop_limit: u8,
}

fn icmpv6(ears: Ears<'_>, frame: &[u8], message: Message, body: &[u8]) {
    ears.count(Counter::Icmp6InMsgs);
    let (IpAddr::V6(src), IpAddr::V6(dst)) = (message.src.ip(), message.dst.ip()) else { return };
    // smoltcp takes types that it does not know for malformed; they have a counter of their own here.
    let Some((&[kind, code, _, _, r0, r1, r2, r3], quote)) = body.split_first_chunk::<8>() else {
        return ears.count(Counter::Icmp6InErrors);
    };
    let packet = Icmpv6Packet::new_unchecked(body);
    if !packet.verify_checksum(&src, &dst) {
        ears.count(Counter::Icmp6InErrors);
        return ears.count(Counter::Icmp6InCsumErrors);
    }
    ears.count(match packet.msg_type() {
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
    if let Some(about) = errors::about_v6(kind, code, [r0, r1, r2, r3]) {
        // "Too big" may come of what went to a group, but none is sent here.
        let is_ours = ears.snapshot.is_local(message.dst);
        if !is_ours || !errors::receive(ears.ns, ears.snapshot, false, about, quote) {
            ears.count(Counter::Icmp6InErrors);
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
        return ears.count(Counter::Icmp6InErrors);
    };
    match repr {
        // RFC 4443 section 4.2 would have us answer a group too; nobody needs it on a link of two.
        Icmpv6Repr::EchoRequest { ident, seq_no, data }
            if !ears.beside && ears.snapshot.is_local(message.dst) && !message.src.is_any() =>
        {
            let answer = Icmpv6Repr::EchoReply { ident, seq_no, data };
            if emit_v6(ears.ns, ears.interface, sender(frame), (dst, src, TTL), &answer) {
                ears.ns.counters.count(Counter::Icmp6OutEchoReplies);
            }
        }
        Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr, lladdr }) => {
            neighbours::solicited(ears, frame, src, target_addr, lladdr);
        }
        Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { flags, target_addr, lladdr }) => {
            neighbours::advertised(ears, flags, message.dst, target_addr, lladdr);
        }
        Icmpv6Repr::Ndisc(NdiscRepr::RouterAdvert { lladdr, .. }) => neighbours::of_router(ears, src, lladdr),
        _ => {}
    }
}

fn emit_v6(
    ns: &Inner,
    interface: &Interface,
    to: EthernetAddress,
    (src, dst, hop_limit): (Ipv6Addr, Ipv6Addr, u8),
    message: &Icmpv6Repr<'_>,
) -> bool {
    let header = Ipv6Repr {
        src_addr: src,
        dst_addr: dst,
        next_header: IpProtocol::Icmpv6,
        payload_len: message.buffer_len(),
        hop_limit,
    };
    let len = header.buffer_len() + message.buffer_len();
    emit(ns, interface, to, EthernetProtocol::Ipv6, len, |body| {
        let mut packet = Ipv6Packet::new_unchecked(body);
        header.emit(&mut packet);
        message.emit(&src, &dst, &mut Icmpv6Packet::new_unchecked(packet.payload_mut()), &computed());
    })
}

/// Builds and transmits one frame; true if it went out. `body` gets exactly `len` zeroed bytes.
fn emit(
    ns: &Inner,
    interface: &Interface,
    to: EthernetAddress,
    ethertype: EthernetProtocol,
    len: usize,
    body: impl Fn(&mut [u8]),
) -> bool {
    if len > interface.mtu.min(MTU as usize) {
        ns.counters.count(Counter::ReplyTxDrops);
        return false;
    }
    let header = EthernetRepr { src_addr: EthernetAddress(interface.mac), dst_addr: to, ethertype };
    // Built before a slot is claimed: should it panic, no slot is lost.
    let mut frame = [0; ETH_LEN + MTU as usize];
    let frame = &mut frame[..ETH_LEN + len];
    header.emit(&mut EthernetFrame::new_unchecked(&mut *frame));
    body(&mut frame[ETH_LEN..]);
    let sent = interface.egress.transmit(&PacketClass::of_flow(0), frame.len(), &mut |slot| {
        slot[..frame.len()].copy_from_slice(frame);
        frame.len()
    });
    if sent.is_err() {
        ns.counters.count(Counter::ReplyTxDrops);
    }
    sent.is_ok()
}

/// The station that sent a frame.
fn sender(frame: &[u8]) -> EthernetAddress {
    EthernetAddress::from_bytes(&frame[6..12])
}

/// Checksums are verified here (with a counter of their own) and computed by smoltcp.
fn computed() -> ChecksumCapabilities {
    let mut caps = ChecksumCapabilities::default();
    caps.icmpv4 = Checksum::Both;
    caps
}
