//! ICMP errors: which protocol has sent the packet that a message is about.
//!
//! A message counts only if it proves to be about a packet that was sent: a TCP segment's number has to be one that is under
//! way (RFC 5927 section 4.1), a datagram's ports those of a socket. What that leads to is in [`napier_core::icmp`].

use crate::tables::{Snapshot, Tables};
use crate::wire::addr::Addr;
use crate::wire::quote::{About, Quoted};

/// Takes a message about the packet that `quote` begins with. `said`: who says so, and the type and code. False: no socket of
/// ours has sent it.
pub(super) fn receive(tables: &Tables, snapshot: &Snapshot, said: (Addr, u8, u8), about: About, quote: &[u8]) -> bool {
    let quoted = if said.0.is_v4() { Quoted::parse_v4(quote) } else { Quoted::parse_v6(quote) };
    let quoted = quoted.map(|quoted| Quoted { said: Some(said), ..quoted });
    let Some(quoted) = quoted.filter(|quoted| snapshot.is_local(quoted.from.addr)) else { return false };
    tables.hear(snapshot, about, &quoted)
}
