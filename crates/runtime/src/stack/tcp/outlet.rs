//! The way out of a connection: where its packets go, and what becomes of those that cannot leave at once.
//!
//! | the device says | the packet | then |
//! |---|---|---|
//! | taken, or dropped by its discipline | gone | an acknowledgement or the retransmission timer |
//! | ring full | kept, in order; nothing else is built meanwhile | tried again with the next packet or tick |
//! | down, or no device leads there | lost and counted | the retransmission timer |
//! | neighbour unknown | held as a datagram would be (see `neighbour`) | its answer, or the retransmission timer |

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::addr::End;
use super::super::checksum::Sum;
use super::super::counters::Counter;
use super::super::neighbour::{Held, Hold, Key};
use super::super::netns::{Inner, Interface};
use super::super::path;
use super::super::seams::TxError;
use super::super::send::Target;
use super::super::slow;
use super::super::wire::{ETH_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, PROTO_TCP, flag};
use super::workspace::Sink;
use crate::tx::PacketClass;

/// MTU while no device leads to the peer. Source: RFC 8200 section 5, the least that IPv6 has.
const MTU_UNKNOWN: usize = 1280;

/// Where the packets of a flow go.
pub(super) struct Route {
    local: End,
    target: Target,
    /// Generation of the name space that the rest belongs to.
    made_at: u64,
    interface: Option<Arc<Interface>>,
    /// None: has to be asked for.
    mac: Option<[u8; 6]>,
    pub(super) class: PacketClass,
}

impl Route {
    pub(super) fn new(ns: &Inner, local: End, target: Target) -> Self {
        let class = PacketClass::of_flow(0);
        let mut route = Self { local, target, made_at: 0, interface: None, mac: None, class };
        route.resolve(ns);
        route
    }

    #[inline]
    pub(super) fn refresh(&mut self, ns: &Inner) {
        // Acquire: pairs with the Release in `edit_routes`.
        if self.made_at != ns.generation.load(Ordering::Acquire) {
            self.resolve(ns);
        }
    }

    #[cold]
    fn resolve(&mut self, ns: &Inner) {
        self.made_at = ns.generation.load(Ordering::Acquire);
        let snapshot = ns.snapshot.load();
        self.interface = path::route(&snapshot, self.target).ok().map(|(interface, _)| interface.clone());
        self.mac = None;
        let Some(interface) = &self.interface else { return };
        let dst = self.target.dst;
        self.mac = snapshot.neighbours.get(Key { ifindex: interface.ifindex, addr: dst.addr }).map(|n| n.mac);
        self.class.flow_hash = interface.egress.rss_hash(&self.local.socket_addr(0), &dst.socket_addr(0));
        self.class.queue = interface.egress.pick_queue();
    }

    pub(super) fn scope(&self) -> u32 {
        self.target.scope
    }

    pub(super) fn mtu(&self) -> usize {
        self.interface.as_ref().map_or(MTU_UNKNOWN, |interface| interface.mtu)
    }
}

/// What was seen of the packets that left.
pub(super) struct Outlet {
    pub(super) route: Route,
    /// Whole frames that the ring had no room for.
    unsent: VecDeque<Box<[u8]>>,
    /// End of the sequence space that was sent so far.
    sent_to: Option<u32>,
    /// The last packet carried data, and not the last there was.
    more: bool,
    /// It was shorter than a packet may be.
    short: bool,
    /// Something was sent since this was cleared.
    pub(super) sent: bool,
    /// Nobody answers for the peer's address.
    pub(super) unreachable: bool,
}

impl Outlet {
    pub(super) fn new(route: Route) -> Self {
        let unsent = VecDeque::new();
        Self { route, unsent, sent_to: None, more: false, short: false, sent: false, unreachable: false }
    }

    /// Whether frames wait for room in the ring.
    pub(super) fn is_stuck(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Tries again to send what waits.
    #[inline]
    pub(super) fn flush(&mut self, ns: &Inner) {
        while let Some(frame) = self.unsent.front() {
            let Some(interface) = &self.route.interface else {
                self.unsent.clear();
                return;
            };
            let sent = interface.egress.transmit(&self.route.class, frame.len(), &mut |slot| {
                slot[..frame.len()].copy_from_slice(frame);
                frame.len()
            });
            match sent {
                Err(TxError::Full) => return,
                Err(TxError::Down) => ns.counters.count(Counter::TcpTxDrops),
                Ok(()) | Err(TxError::Dropped) => {}
            }
            self.unsent.pop_front();
        }
    }

    /// Whether the last packet ended before the data did, with room left in it.
    #[inline]
    pub(super) fn cut_short(&mut self) -> bool {
        std::mem::take(&mut self.short)
    }

    pub(super) fn sink<'a>(&'a mut self, ns: &'a Inner) -> Departures<'a> {
        Departures { ns, outlet: self }
    }

    fn note(&mut self, ns: &Inner, head: Head) {
        self.sent = true;
        self.more = head.payload > 0 && head.flags & (flag::PSH | flag::FIN) == 0;
        self.short = self.more && head.len < self.route.mtu();
        let occupied = u32::from(head.flags & (flag::SYN | flag::FIN) != 0);
        let end = head.seq.wrapping_add(u32::try_from(head.payload).expect("at most 64 KiB") + occupied);
        if head.flags & flag::RST != 0 {
            ns.counters.count(Counter::TcpOutRsts);
        }
        let before = self.sent_to.is_some_and(|to| head.seq.wrapping_sub(to).cast_signed() < 0);
        if before && end != head.seq && head.flags & flag::RST == 0 {
            return ns.counters.count(Counter::TcpRetransSegs);
        }
        ns.counters.count(Counter::TcpOutSegs);
        if self.sent_to.is_none_or(|to| end.wrapping_sub(to).cast_signed() > 0) {
            self.sent_to = Some(end);
        }
    }
}

/// What the header of a segment says.
struct Head {
    seq: u32,
    flags: u8,
    payload: usize,
    /// Length of the whole IP packet.
    len: usize,
}

/// Sends the packets of one connection.
pub(super) struct Departures<'a> {
    ns: &'a Inner,
    outlet: &'a mut Outlet,
}

impl Sink for Departures<'_> {
    fn is_open(&self) -> bool {
        self.outlet.unsent.is_empty()
    }

    fn wants_more(&self) -> bool {
        self.outlet.more
    }

    fn send(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) {
        let Self { ns, outlet } = self;
        outlet.route.refresh(ns);
        let total = ETH_LEN + len;
        let Some(interface) = outlet.route.interface.clone() else {
            ns.counters.count(Counter::IpOutNoRoutes);
            return drop(in_memory(total, &mut |frame| fill(&mut frame[ETH_LEN..])));
        };
        let Some(mac) = outlet.route.mac else {
            let mut head = None;
            let frame = in_memory(total, &mut |frame| head = Some(build(frame, interface.mac, [0; 6], fill)));
            outlet.note(ns, head.expect("built"));
            return outlet.hold(ns, &interface, frame);
        };
        let mut head = None;
        let mut whole = |slot: &mut [u8]| {
            head = Some(build(&mut slot[..total], interface.mac, mac, fill));
            total
        };
        let result = if outlet.unsent.is_empty() {
            interface.egress.transmit(&outlet.route.class, total, &mut whole)
        } else {
            Err(TxError::Full)
        };
        match result {
            Ok(()) | Err(TxError::Dropped) => {}
            Err(TxError::Down) => {
                ns.counters.count(Counter::TcpTxDrops);
                drop(in_memory(total, &mut |frame| _ = whole(frame)));
            }
            Err(TxError::Full) => {
                ns.counters.count(Counter::TcpTxWaits);
                outlet.unsent.push_back(in_memory(total, &mut |frame| _ = whole(frame)));
            }
        }
        outlet.note(ns, head.expect("a device that takes a packet has it built"));
    }
}

impl Outlet {
    #[cold]
    fn hold(&mut self, ns: &Inner, interface: &Interface, frame: Box<[u8]>) {
        let key = Key { ifindex: interface.ifindex, addr: self.route.target.dst.addr };
        let held = Held { frame: frame.into_vec(), flow_hash: self.route.class.flow_hash };
        let mut writer = ns.lock();
        let learnt = ns.snapshot.load().neighbours.get(key);
        if let Some(neighbour) = learnt {
            drop(writer);
            return ns.send_held(key, neighbour.mac, Some(held));
        }
        let verdict = writer.pending.hold(key, ns.host.clock().now(), held);
        drop(writer);
        let dropped = match verdict {
            Hold::Held { probe, dropped } => {
                if probe {
                    slow::probe(ns, interface, key.addr);
                }
                u64::from(dropped)
            }
            Hold::Unreachable { dropped } => {
                self.unreachable = true;
                u64::from(dropped) + 1
            }
        };
        ns.counters.add(Counter::NeighUnresolvedDiscards, dropped);
    }
}

/// Builds a frame outside of a ring.
#[cold]
fn in_memory(len: usize, build: &mut dyn FnMut(&mut [u8])) -> Box<[u8]> {
    let mut frame = vec![0; len].into_boxed_slice();
    build(&mut frame);
    frame
}

/// Completes a frame around the IP packet that `fill` writes.
#[inline]
fn build(frame: &mut [u8], from: [u8; 6], to: [u8; 6], fill: &mut dyn FnMut(&mut [u8])) -> Head {
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    let (eth, packet) = frame.split_at_mut(ETH_LEN);
    fill(packet);
    let v4 = packet[0] >> 4 == 4;
    eth[12..].copy_from_slice(if v4 { &ETHERTYPE_IPV4 } else { &ETHERTYPE_IPV6 });
    finish(packet, v4)
}

/// Writes the checksums that smoltcp left out.
///
/// # Panics
/// If smoltcp made something else than a TCP segment, which it has no reason to.
#[inline]
fn finish(packet: &mut [u8], v4: bool) -> Head {
    let (at, addresses) = if v4 { (IPV4_LEN, 12..20) } else { (IPV6_LEN, 8..40) };
    let protocol = if v4 { packet[9] } else { packet[6] };
    assert_eq!(protocol, PROTO_TCP, "only TCP leaves by here");
    if v4 {
        packet[10..12].fill(0);
        let header = packet.first_chunk::<IPV4_LEN>().expect("a whole header");
        let sum = Sum::ZERO.ipv4_header(header).field();
        packet[10..12].copy_from_slice(&sum);
    }
    let len = u16::try_from(packet.len() - at).expect("the MTU bounds a packet");
    packet[at + 16..at + 18].fill(0);
    let pseudo = Sum::ZERO.bytes(&packet[addresses]).number(u16::from(PROTO_TCP)).number(len);
    let sum = pseudo.bytes(&packet[at..]).field();
    let tcp = &mut packet[at..];
    tcp[16..18].copy_from_slice(&sum);
    let header_len = usize::from(tcp[12] >> 4) * 4;
    Head {
        seq: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
        flags: tcp[13],
        payload: usize::from(len) - header_len,
        len: at + usize::from(len),
    }
}

/// Answers to segments that no connection or listener wants: resets, back to the station that sent the segment.
pub(super) struct ResetSink<'a> {
    pub(super) ns: &'a Inner,
    pub(super) interface: &'a Interface,
    pub(super) mac: [u8; 6],
    pub(super) class: PacketClass,
}

impl Sink for ResetSink<'_> {
    fn is_open(&self) -> bool {
        true
    }

    fn wants_more(&self) -> bool {
        false
    }

    fn send(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) {
        let total = ETH_LEN + len;
        let mut built = false;
        let sent = self.interface.egress.transmit(&self.class, total, &mut |slot| {
            build(&mut slot[..total], self.interface.mac, self.mac, fill);
            built = true;
            total
        });
        if !built {
            drop(in_memory(total, &mut |frame| fill(&mut frame[ETH_LEN..])));
        }
        match sent {
            Ok(()) => {
                self.ns.counters.count(Counter::TcpOutSegs);
                self.ns.counters.count(Counter::TcpOutRsts);
            }
            Err(_) => self.ns.counters.count(Counter::ReplyTxDrops),
        }
    }
}
