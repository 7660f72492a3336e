//! The paths of datagrams, with their headers, and those that a socket remembers.

use std::io;
use std::sync::Arc;

use napier_core::family::{SocketFamily, To};
use napier_core::fragments::PathUse;
use napier_core::neighbour::Nud;
use napier_core::time::Deadline;
use napier_sys::clock::Clock;

use crate::device::PacketClass;
use crate::errno::errno;
use crate::tables::bind::check_reach;
use crate::tables::neighbour::{HeldPacket, Key};
use crate::tables::path::{Destination, Way, route};
use crate::tables::{Interface, Snapshot, Tables};
use crate::udp::wishes::Wish;
use crate::wire::addr::End;
use crate::wire::template::{Marks, Template};
use crate::wire::{IPV4_LEN, IPV6_LEN, UDP_LEN};

/// Largest UDP payload over IPv4 and, without jumbograms, one that IPv6 holds too (RFC 768, RFC 791).
pub(super) const PAYLOAD_MAX: usize = 65_535 - IPV4_LEN - UDP_LEN;

/// Destinations that an unconnected socket remembers.
const SLOTS: usize = 16;

/// A way to one destination, ready to use.
pub(crate) struct UdpPath {
    pub(crate) target: Destination,
    pub(crate) interface: Arc<Interface>,
    pub(crate) template: Template,
    pub(crate) flow_hash: u32,
    /// The transmit queue, if the flow's hash does not choose it.
    pub(crate) tx_queue: Option<u16>,
    /// Bytes of a datagram that leaves as it is.
    pub(crate) payload_max: usize,
    /// The same, if longer ones are not cut into segments.
    pub(crate) packet_max: usize,
    /// Bytes of the datagrams that a longer buffer is cut into; 0: it is one.
    pub(crate) segment: usize,
    /// Bytes of the longest packet.
    pub(crate) mtu: usize,
    /// Longer ones are cut, else refused.
    pub(crate) cut: bool,
    /// Longer ones are tried again then, if a router's word bounds them.
    pub(crate) until: Deadline,
}

impl UdpPath {
    /// Whether it does for a payload of this length: a bound that a router has set is forgotten in time.
    #[inline]
    pub(crate) fn does_for(&self, len_max: usize) -> bool {
        len_max <= self.payload_max || !self.until.is_due(Clock.now())
    }
}

/// A path, and the neighbour that has to be asked for if it is not known: the template lacks its address then.
pub(crate) struct Resolved {
    pub(crate) path: UdpPath,
    pub(crate) unknown: Option<Key>,
    /// The neighbour, if it may have gone: [`Tables::used`](crate::tables::Tables::used) is to know.
    pub(crate) stale: Option<Key>,
}

/// The paths that a socket remembers.
#[derive(Default)]
pub(crate) struct PathCache {
    /// Generation of the name space and epoch of the socket's ends that all of them belong to.
    pub(super) made_at: (u64, u32),
    /// By destination; empty until the first datagram. One for a connected socket.
    slots: Vec<Option<UdpPath>>,
    /// The peer, if it has been asked for and there is one.
    pub(super) peer: Option<Destination>,
}

impl PathCache {
    pub(super) fn forget(&mut self, now: (u64, u32)) {
        self.made_at = now;
        self.peer = None;
        self.slots.clear();
    }

    #[inline]
    pub(super) fn find(&self, target: Destination) -> Option<&UdpPath> {
        let path = self.slots.get(slot(target, self.slots.len().max(1)))?.as_ref()?;
        (path.target == target).then_some(path)
    }

    pub(super) fn keep(&mut self, path: UdpPath) -> &UdpPath {
        if self.slots.is_empty() {
            let slots = if self.peer.is_some() { 1 } else { SLOTS };
            self.slots.resize_with(slots, || None);
        }
        let at = slot(path.target, self.slots.len());
        self.slots[at].insert(path)
    }
}

/// The path from a socket at `local` to `target`, for what the socket or one call wants.
///
/// # Errors
/// EAFNOSUPPORT and ENETUNREACH if the socket does not reach the family; EINVAL for a source that is not ours; those of
/// `route`.
pub(crate) fn resolve(
    snapshot: &Snapshot,
    (local, family): (End, SocketFamily),
    target: Destination,
    wish: &Wish,
) -> io::Result<Resolved> {
    let Destination { dst, .. } = target;
    // Mapped addresses and others are told apart where the program names them.
    check_reach(family, local.addr, if dst.addr.is_v4() { To::V4 } else { To::V6 })?;
    let Way { interface, own, next_hop } = route(snapshot, wish.by_its_interface(target))?;
    let addr = match wish.src {
        Some(src) if src.is_v4() != dst.addr.is_v4() || !snapshot.is_local(src) => return Err(errno(libc::EINVAL)),
        Some(src) => src,
        None if local.addr.is_any() => own,
        None => local.addr,
    };
    let src = End { addr, port: local.port };
    let neighbour = snapshot.neighbours.get(next_hop);
    let mac = neighbour.map_or([0; 6], |n| n.mac);
    let ip_len = if dst.addr.is_v4() { IPV4_LEN } else { IPV6_LEN };
    let (path_mtu, until) = snapshot.path_mtu(dst.addr, interface.mtu);
    let PathUse { mtu, dont_fragment, cut } = wish.discovery.sending(path_mtu, interface.mtu);
    let (tos, hops) = wish.marks(dst.addr.is_v4());
    let (packet_max, segment) = (mtu.saturating_sub(ip_len + UDP_LEN).min(PAYLOAD_MAX), wish.segment.into());
    let path = UdpPath {
        target,
        template: Template::new(interface.mac, mac, (src, dst), Marks { tos, hops, dont_fragment }),
        flow_hash: interface.egress.rss_hash(&src.socket_addr(0), &dst.socket_addr(0)),
        tx_queue: interface.egress.pick_queue(),
        payload_max: if segment == 0 { packet_max } else { packet_max.min(segment) },
        packet_max,
        segment,
        mtu,
        cut,
        until,
        interface: interface.clone(),
    };
    let stale = neighbour.filter(|n| n.nud == Nud::Stale).map(|_| next_hop);
    Ok(Resolved { path, unknown: neighbour.is_none().then_some(next_hop), stale })
}

/// Where the path to a destination stands among so many.
#[inline]
fn slot(target: Destination, slots: usize) -> usize {
    let (_, low) = target.dst.addr.words();
    let mixed = low ^ (low >> 16) ^ u64::from(target.dst.port);
    let mixed = mixed ^ mixed >> 4 ^ mixed >> 8;
    (mixed % SLOTS as u64) as usize % slots
}

/// The neighbour is unknown: keeps the datagram and asks, by the table in `neighbour/pending`.
#[cold]
pub(super) fn hold(
    tables: &Tables,
    class: PacketClass,
    key: Key,
    len_max: usize,
    fill: &mut dyn FnMut(&mut [u8]) -> usize,
) -> io::Result<()> {
    let mut frame = vec![0; len_max];
    let len = fill(&mut frame);
    frame.truncate(len);
    // Nobody comes again with it.
    let class = PacketClass { comes_again: false, charged_to: 0, ..class };
    let reachable = tables.hold_for(key, HeldPacket { frame, class });
    if reachable { Ok(()) } else { Err(errno(libc::EHOSTUNREACH)) }
}
