//! Where a packet goes: device, source address, neighbour.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::errno::errno;
use crate::tables::neighbour::Key;
use crate::tables::{Interface, Snapshot};
use crate::wire::addr::{Addr, End};

/// Where a packet is to go: the far end, and for a link-local one the interface (0: any).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) dst: End,
    pub(crate) scope: u32,
}

impl Destination {
    #[inline]
    pub(crate) fn new(addr: &SocketAddr) -> Self {
        let dst = End::from_socket_addr(addr);
        let scope = match addr {
            SocketAddr::V6(v6) if dst.addr.is_link_local_v6() => v6.scope_id(),
            _ => 0,
        };
        Self { dst, scope }
    }
}

impl Destination {
    /// Whether packets to it go over an interface.
    pub(crate) fn leads_over(self, snapshot: &Snapshot, ifindex: u32) -> bool {
        route(snapshot, self).is_ok_and(|way| way.interface.ifindex == ifindex)
    }

    /// Whether it is at the other end of a link within this process.
    pub(crate) fn is_in_process(self, snapshot: &Snapshot) -> bool {
        route(snapshot, self).is_ok_and(|way| way.interface.egress.is_in_process())
    }
}

/// A default route.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gateway {
    pub(crate) ifindex: u32,
    pub(crate) addr: Addr,
    /// What packets by it carry as their source unless their socket says otherwise.
    pub(crate) own: Addr,
}

/// How a destination is reached.
pub(crate) struct Way<'a> {
    pub(crate) interface: &'a Arc<Interface>,
    /// The source unless the socket has one.
    pub(crate) own: Addr,
    /// The neighbour that gets the packets: the destination or a gateway.
    pub(crate) next_hop: Key,
}

/// The way to a destination: by the longest prefix that holds it, else by a gateway, among the devices that `scope` allows.
///
/// # Errors
/// EINVAL for port 0, EACCES for a broadcast address, ENETUNREACH if no device's prefix holds the destination and there is
/// no gateway; our own addresses count as such, as there is no loopback device, and so do multicast groups.
pub(crate) fn route(snapshot: &Snapshot, target: Destination) -> io::Result<Way<'_>> {
    let Destination { dst, scope } = target;
    if dst.port == 0 {
        return Err(errno(libc::EINVAL));
    }
    let mut best: Option<(&Arc<Interface>, Addr, u8)> = None;
    for interface in snapshot.devices.iter().filter(|i| scope == 0 || i.ifindex == scope) {
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

impl Snapshot {
    /// The gateway for a destination that no prefix holds, on the interface `scope` if that is not 0.
    pub(crate) fn gateway(&self, dst: Addr, scope: u32) -> Option<&Gateway> {
        // Link-local addresses are never forwarded (RFC 4291 section 2.5.6).
        let fits = |route: &&Gateway| route.addr.is_v4() == dst.is_v4() && (scope == 0 || route.ifindex == scope);
        self.gateways.iter().find(fits).filter(|_| !dst.is_link_local_v6())
    }
}
