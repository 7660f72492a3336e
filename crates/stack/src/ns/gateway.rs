//! Gateways: where packets go whose destination lies in no device's prefix. One for each family, as the default routes of
//! `ip route replace default via ADDRESS dev DEVICE`.

use std::io;
use std::net::IpAddr;

use thiserror::Error;

use crate::ns::NetNs;
use crate::tables::Interface;
use crate::tables::path::Gateway;
use crate::wire::addr::Addr;

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

impl From<GatewayError> for io::Error {
    fn from(error: GatewayError) -> Self {
        let kind = match &error {
            GatewayError::NoDevice { .. } | GatewayError::NotFound { .. } => io::ErrorKind::NotFound,
            GatewayError::NotOnLink { .. } | GatewayError::NotAnother { .. } | GatewayError::NoSource { .. } => {
                io::ErrorKind::InvalidInput
            }
        };
        Self::new(kind, error)
    }
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
        let writer = self.0.tables.lock();
        let snapshot = self.0.tables.snapshot.load();
        let Some(interface) = snapshot.interface(ifindex) else { return Err(GatewayError::NoDevice { ifindex }) };
        if addr.is_group() || addr.is_any() || gateway.is_loopback() || snapshot.is_local(addr) {
            return Err(GatewayError::NotAnother { gateway });
        }
        let route = Gateway { ifindex, addr, own: source(interface, gateway)? };
        drop(snapshot);
        self.0.tables.edit_routes(&writer, |s| {
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
        let writer = self.0.tables.lock();
        if !self.0.tables.snapshot.load().gateways.iter().any(|route| route.addr == addr) {
            return Err(GatewayError::NotFound { gateway });
        }
        self.0.tables.edit_routes(&writer, |s| {
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
