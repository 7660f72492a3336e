//! Gateways: where packets go whose destination lies in no device's prefix. One for each family, as the default routes of
//! `ip route replace default via ADDRESS dev DEVICE`.

use std::net::IpAddr;

use thiserror::Error;

use super::addr::Addr;
use super::netns::{Interface, NetNs, Snapshot};

/// A default route.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Gateway {
    pub(super) ifindex: u32,
    pub(super) addr: Addr,
    /// What packets by it carry as their source unless their socket says otherwise.
    pub(super) own: Addr,
}

/// Why a gateway was not set or removed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// There is no such device.
    #[error("no interface {ifindex} in this name space")]
    NoDevice {
        /// The number.
        ifindex: u32,
    },
    /// There is no device to ask for its Ethernet address.
    #[error(
        "the gateway {gateway} is not on the link of interface {ifindex}: give one that lies in the prefix of an address \
         of the interface, or give the interface an address with a prefix that holds it"
    )]
    NotOnLink {
        /// The gateway.
        gateway: IpAddr,
        /// The number of the interface.
        ifindex: u32,
    },
    /// Not the address of another station.
    #[error("{gateway} cannot be a gateway: use the unicast address of another station")]
    NotAnother {
        /// The gateway.
        gateway: IpAddr,
    },
    /// No host beyond the gateway could answer.
    #[error("interface {ifindex} has only link-local addresses, which no gateway forwards: give it one that is not")]
    NoSource {
        /// The number of the interface.
        ifindex: u32,
    },
    /// There is none.
    #[error("there is no gateway {gateway}")]
    NotFound {
        /// The gateway.
        gateway: IpAddr,
    },
}

impl NetNs {
    /// Sends what no device's prefix holds to `gateway` by an interface, over IPv4 or IPv6 as the address is. The gateway
    /// before it, if there is one, is replaced.
    ///
    /// # Errors
    /// No such device; an address that is not on its link, or is not that of another station; a link-local gateway where
    /// the device has no other address that could be a source.
    pub fn gateway_set(&self, ifindex: u32, gateway: IpAddr) -> Result<(), GatewayError> {
        let addr = Addr::from_ip(gateway);
        let writer = self.0.lock();
        let snapshot = self.0.snapshot.load();
        let Some(interface) = snapshot.interface(ifindex) else { return Err(GatewayError::NoDevice { ifindex }) };
        if addr.is_group() || addr.is_any() || gateway.is_loopback() || snapshot.is_local(addr) {
            return Err(GatewayError::NotAnother { gateway });
        }
        let route = Gateway { ifindex, addr, own: source(interface, gateway)? };
        drop(snapshot);
        self.0.edit_routes(&writer, |s| {
            let others = s.gateways.iter().filter(|other| other.addr.is_v4() != addr.is_v4());
            s.gateways = others.copied().chain([route]).collect();
        });
        Ok(())
    }

    /// Removes a gateway. It also goes with its device.
    ///
    /// # Errors
    /// If it is not one.
    pub fn gateway_del(&self, gateway: IpAddr) -> Result<(), GatewayError> {
        let addr = Addr::from_ip(gateway);
        let writer = self.0.lock();
        if !self.0.snapshot.load().gateways.iter().any(|route| route.addr == addr) {
            return Err(GatewayError::NotFound { gateway });
        }
        self.0.edit_routes(&writer, |s| {
            s.gateways = s.gateways.iter().filter(|route| route.addr != addr).copied().collect();
        });
        Ok(())
    }
}

/// The interface's own address for packets that a gateway forwards: the one whose prefix holds the gateway, but none that
/// is link-local.
fn source(interface: &Interface, gateway: IpAddr) -> Result<Addr, GatewayError> {
    let addr = Addr::from_ip(gateway);
    let ifindex = interface.ifindex;
    let near = interface.addresses.iter().filter(|(own, len)| addr.in_prefix(*own, *len)).max_by_key(|(_, len)| *len);
    let Some((own, prefix_len)) = near else { return Err(GatewayError::NotOnLink { gateway, ifindex }) };
    if own.subnet_broadcast(*prefix_len) == Some(addr) {
        return Err(GatewayError::NotAnother { gateway });
    }
    if !own.is_link_local_v6() {
        return Ok(*own);
    }
    let global = |own: &Addr| !own.is_v4() && !own.is_link_local_v6();
    let mut all = interface.addresses.iter().map(|(own, _)| *own);
    all.find(global).ok_or(GatewayError::NoSource { ifindex })
}

impl Snapshot {
    /// The gateway for a destination that no prefix holds, on the interface `scope` if that is not 0.
    pub(super) fn gateway(&self, dst: Addr, scope: u32) -> Option<&Gateway> {
        // Link-local addresses are never forwarded (RFC 4291 section 2.5.6).
        let fits = |route: &&Gateway| route.addr.is_v4() == dst.is_v4() && (scope == 0 || route.ifindex == scope);
        self.gateways.iter().find(fits).filter(|_| !dst.is_link_local_v6())
    }
}
