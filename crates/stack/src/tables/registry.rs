//! Who has which port: the rules of `bind`, asked under the name space's lock.

use std::collections::HashMap;
use std::io;

use napier_core::family::meet;

use crate::errno::errno;
use crate::tables::reuse::ReusePort;
use crate::wire::addr::End;

/// Ports for sockets that asked for none. Source: `net/ipv4/af_inet.c inet_init_net ip_local_ports`.
pub(crate) const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;

/// All claims on ports.
#[derive(Default)]
pub(crate) struct Registry {
    claims: HashMap<u16, Vec<Claim>>,
    /// How many ports were handed out; where the next search starts.
    searches: u16,
}

#[derive(Copy, Clone, PartialEq, Eq)]
struct Claim {
    local: End,
    reuse: ReusePort,
}

/// Why a port cannot be had.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// EADDRINUSE.
    InUse,
    /// EINVAL: the group at this address chooses its members in another way.
    OtherReuse,
}

impl From<Denied> for io::Error {
    fn from(denied: Denied) -> Self {
        errno(match denied {
            Denied::InUse => libc::EADDRINUSE,
            Denied::OtherReuse => libc::EINVAL,
        })
    }
}

impl Registry {
    /// Claims `local`; port 0 stands for any free port of the ephemeral range. Gives the end with its port.
    ///
    /// Two sockets may have one port if they would not hear the same ([`meet`]), or if both asked for SO_REUSEPORT
    /// (`net/ipv4/udp.c udp_lib_lport_inuse`, `net/ipv4/inet_connection_sock.c inet_csk_bind_conflict`).
    pub(crate) fn claim(&mut self, local: End, reuse: ReusePort) -> Result<End, Denied> {
        let local = if local.port == 0 { self.free_port(local).ok_or(Denied::InUse)? } else { local };
        for other in self.overlapping(local) {
            if reuse == ReusePort::No || other.reuse == ReusePort::No {
                return Err(Denied::InUse);
            }
            if other.local == local && other.reuse != reuse {
                return Err(Denied::OtherReuse);
            }
        }
        self.claims.entry(local.port).or_default().push(Claim { local, reuse });
        Ok(local)
    }

    /// # Panics
    /// If there is no such claim: that is our own mistake.
    pub(crate) fn release(&mut self, local: End, reuse: ReusePort) {
        let claims = self.claims.get_mut(&local.port).expect("a bound port is claimed");
        let at = claims.iter().position(|c| *c == Claim { local, reuse }).expect("a bound socket has a claim");
        claims.swap_remove(at);
        if claims.is_empty() {
            self.claims.remove(&local.port);
        }
    }

    /// A socket got another local address by `connect`. Its port stays its own, so nothing is asked.
    pub(crate) fn relocate(&mut self, from: End, to: End, reuse: ReusePort) {
        self.release(from, reuse);
        self.claims.entry(to.port).or_default().push(Claim { local: to, reuse });
    }

    /// Whether a socket has claimed a place that overlaps this one.
    pub(crate) fn is_taken(&self, local: End) -> bool {
        self.overlapping(local).next().is_some()
    }

    fn overlapping(&self, local: End) -> impl Iterator<Item = &Claim> {
        self.claims.get(&local.port).into_iter().flatten().filter(move |other| {
            let (a, b) = (local.addr, other.local.addr);
            meet(a.bound(), b.bound(), a == b)
        })
    }

    fn free_port(&mut self, local: End) -> Option<End> {
        let count = EPHEMERAL.end() - EPHEMERAL.start() + 1;
        for _ in 0..count {
            let port = EPHEMERAL.start() + self.searches % count;
            self.searches = (self.searches + 1) % count;
            let end = End { port, ..local };
            if self.overlapping(end).next().is_none() {
                return Some(end);
            }
        }
        None
    }
}
