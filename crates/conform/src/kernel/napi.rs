//! Instances by their ids, asked of the kernel in the namespace of the calling thread.

use std::io;

use super::netlink::{self, Attributes, NAPI_ATTRIBUTES, Reply};

pub(super) const IFINDEX: u16 = 1;
pub(super) const ID: u16 = 2;
pub(super) const THREADED: u16 = 8;

pub(super) fn number(reply: &Reply, kind: u16) -> Option<u64> {
    reply.iter().find(|(known, _)| *known == kind).map(|(_, value)| *value)
}

/// The instances of an interface by their ids, as the kernel shows them now.
///
/// # Errors
/// As the kernel says it.
pub(super) fn ids_of(ifindex: u32) -> io::Result<Vec<u64>> {
    let request = Attributes::default().number(IFINDEX, ifindex.into());
    let replies = netlink::ask(netlink::NAPI_GET, true, &request)?;
    let mut ids: Vec<_> = replies.iter().filter_map(|reply| number(reply, ID)).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// Sets an attribute of an instance.
///
/// # Errors
/// As the kernel says it.
pub(super) fn set_napi(id: u64, name: &str, value: u64) -> io::Result<()> {
    let kind = NAPI_ATTRIBUTES.iter().find(|(known, _)| *known == name).map_or(netlink::NO_SUCH_ATTRIBUTE, |(_, k)| *k);
    netlink::ask(netlink::NAPI_SET, false, &Attributes::default().number(ID, id).number(kind, value)).map(drop)
}

/// The thread of an instance, if it has one; nothing for an instance that is not there.
///
/// # Errors
/// As the kernel says it.
pub(super) fn thread_of(id: u64) -> io::Result<Option<u64>> {
    match netlink::ask(netlink::NAPI_GET, false, &Attributes::default().number(ID, id)) {
        Ok(replies) => Ok(replies.first().and_then(|reply| number(reply, 4))),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOENT.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}
