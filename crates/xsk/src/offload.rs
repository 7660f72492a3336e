//! What an XDP program takes from an interface beside packets. A driver that cannot merge packets beside one switches large receive offload off, and does
//! not switch it on when the program goes (`drivers/net/vmxnet3 vmxnet3_xdp_set`; for generic XDP `net/core/dev.c dev_disable_lro`).

use std::os::fd::OwnedFd;

use napier_sys::netdev::{self, Netdev};

/// An interface that had it on. Dropped after the program is off, it is switched on again.
#[derive(Debug)]
pub(crate) struct HadLro {
    /// A socket of the interface's namespace.
    query: OwnedFd,
    ifindex: u32,
}

impl HadLro {
    /// To be asked before a program is attached; `None` where it is off.
    pub(crate) fn of(query: &OwnedFd, name: &str, interface: &Netdev) -> Option<Self> {
        let is_on = netdev::lro(query, name).unwrap_or(false);
        let query = query.try_clone().ok().filter(|_| is_on)?;
        Some(Self { query, ifindex: interface.ifindex })
    }
}

impl Drop for HadLro {
    fn drop(&mut self) {
        // It may be gone, or have another name.
        let Ok(name) = netdev::name_of(&self.query, self.ifindex) else { return };
        if netdev::lro(&self.query, &name).is_ok_and(|is_on| !is_on) {
            // Refused where another program is on the interface by now; that one had it off.
            let _ = netdev::switch_lro_on(&self.query, &name);
        }
    }
}
