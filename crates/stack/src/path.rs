//! Where a datagram goes: device, source address, neighbour, headers.

use std::io;
use std::sync::Arc;

use napier_core::neighbour::Nud;
use napier_core::time::Deadline;
use napier_sys::clock::Clock;

use super::addr::{Addr, End};
use super::neighbour::Key;
use super::netns::{Interface, Snapshot};
use super::seams::errno;
use super::send::Target;
use super::template::Template;
use super::wire::{IPV4_LEN, IPV6_LEN, UDP_LEN};

/// Largest UDP payload over IPv4 and, without jumbograms, one that IPv6 holds too (RFC 768, RFC 791).
const PAYLOAD_MAX: usize = 65_535 - IPV4_LEN - UDP_LEN;

/// A way to one destination, ready to use.
pub(super) struct Path {
    pub(super) target: Target,
    pub(super) interface: Arc<Interface>,
    pub(super) template: Template,
    pub(super) flow_hash: u32,
    /// The transmit queue, if the flow's hash does not choose it.
    pub(super) tx_queue: Option<u16>,
    pub(super) payload_max: usize,
    /// Longer ones are tried again then, if a router's word bounds them.
    pub(super) until: Deadline,
}

impl Path {
    /// Whether it does for a payload of this length: a bound that a router has set is forgotten in time.
    #[inline]
    pub(super) fn does_for(&self, len_max: usize) -> bool {
        len_max <= self.payload_max || !self.until.is_due(Clock.now())
    }
}

/// A path, and the neighbour that has to be asked for if it is not known: the template lacks its address then.
pub(super) struct Resolved {
    pub(super) path: Path,
    pub(super) unknown: Option<Key>,
    /// The neighbour, if it may have gone: [`Inner::used`](super::netns::Inner::used) is to know.
    pub(super) stale: Option<Key>,
}

/// How a destination is reached.
pub(super) struct Way<'a> {
    pub(super) interface: &'a Arc<Interface>,
    /// The source unless the socket has one.
    pub(super) own: Addr,
    /// The neighbour that gets the packets: the destination or a gateway.
    pub(super) next_hop: Key,
}

/// The way to a destination: by the longest prefix that holds it, else by a gateway, among the devices that `scope` allows.
///
/// # Errors
/// EINVAL for port 0, EACCES for a broadcast address, ENETUNREACH if no device's prefix holds the destination and there is
/// no gateway; our own addresses count as such, as there is no loopback device, and so do multicast groups.
pub(super) fn route(snapshot: &Snapshot, target: Target) -> io::Result<Way<'_>> {
    let Target { dst, scope } = target;
    if dst.port == 0 {
        return Err(errno(libc::EINVAL));
    }
    let mut best: Option<(&Arc<Interface>, Addr, u8)> = None;
    for interface in snapshot.interfaces.iter().filter(|i| scope == 0 || i.ifindex == scope) {
        for &(own, prefix_len) in interface.addresses.iter().filter(|(own, len)| dst.addr.in_prefix(*own, *len)) {
            if best.is_none_or(|(_, _, len)| prefix_len > len) {
                best = Some((interface, own, prefix_len));
            }
        }
    }
    let limited_broadcast = Addr::v4([0xff; 4]);
    let directed = best.and_then(|(_, own, prefix_len)| own.subnet_broadcast(prefix_len));
    if dst.addr == limited_broadcast || directed == Some(dst.addr) {
        return Err(errno(libc::EACCES));
    }
    if dst.addr.is_group() || dst.addr.is_any() || snapshot.is_local(dst.addr) {
        return Err(errno(libc::ENETUNREACH));
    }
    if let Some((interface, own, _)) = best {
        return Ok(Way { interface, own, next_hop: Key { ifindex: interface.ifindex, addr: dst.addr } });
    }
    let by_gateway = snapshot.gateway(dst.addr, scope).and_then(|route| {
        let interface = snapshot.interface(route.ifindex)?;
        Some(Way { interface, own: route.own, next_hop: Key { ifindex: route.ifindex, addr: route.addr } })
    });
    by_gateway.ok_or_else(|| errno(libc::ENETUNREACH))
}

/// The path from a socket at `local` to `target`.
///
/// # Errors
/// EAFNOSUPPORT if they are of different families; those of `route`.
pub(super) fn resolve(snapshot: &Snapshot, local: End, target: Target) -> io::Result<Resolved> {
    let Target { dst, .. } = target;
    if local.addr.is_v4() != dst.addr.is_v4() {
        return Err(errno(libc::EAFNOSUPPORT));
    }
    let Way { interface, own, next_hop } = route(snapshot, target)?;
    let addr = if local.addr.is_any() { own } else { local.addr };
    let src = End { addr, port: local.port };
    let neighbour = snapshot.neighbours.get(next_hop);
    let mac = neighbour.map_or([0; 6], |n| n.mac);
    let ip_len = if dst.addr.is_v4() { IPV4_LEN } else { IPV6_LEN };
    let (mtu, until) = snapshot.path_mtu(dst.addr, interface.mtu);
    let path = Path {
        target,
        template: Template::new(interface.mac, mac, src, dst),
        flow_hash: interface.egress.rss_hash(&src.socket_addr(0), &dst.socket_addr(0)),
        tx_queue: interface.egress.pick_queue(),
        payload_max: mtu.saturating_sub(ip_len + UDP_LEN).min(PAYLOAD_MAX),
        until,
        interface: interface.clone(),
    };
    let stale = neighbour.filter(|n| n.nud == Nud::Stale).map(|_| next_hop);
    Ok(Resolved { path, unknown: neighbour.is_none().then_some(next_hop), stale })
}
