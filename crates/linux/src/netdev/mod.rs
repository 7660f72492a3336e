//! napi-get and napi-set of the kernel (`netdev` netlink), in the namespace of the calling thread. Source:
//! `net/core/netdev-genl.c`.
//!
//! An instance has an id while it is enabled; it gets another one when it is made anew, as by switching GRO or by taking the
//! interface down and up.

mod wire;

use std::io;

use napier_core::control::{
    self, CheckedNapiSet, Errno, NapiGet, NapiInfo, NapiSet, NapiSetError as SetRefusal, QueryError,
};
use netlink_bindings::netdev::Request;
use netlink_bindings::traits::{NetlinkRequest, Pusher as _};
use netlink_socket2::{NetlinkSocket, ReplyError};

use crate::error::{KernelError, Refusal, errno_of};
use crate::link::{self, plain};

/// Why the kernel did not show instances.
pub type NapiGetError = KernelError<QueryError>;
/// Why the kernel did not set an instance. Nothing was changed, unless a thread could not be created.
pub type NapiSetError = KernelError<SetRefusal>;

/// One instance. No capability is needed.
///
/// # Errors
/// [`QueryError::NoSuchNapi`] where no enabled instance of this namespace has the id; [`KernelError::NotHere`] before Linux
/// 6.8; [`KernelError::Other`] for an answer that cannot be read.
pub fn napi_get(id: u32) -> Result<NapiInfo, NapiGetError> {
    let id = NapiGet { id: Some(id.into()) }.check().map_err(NapiGetError::Refused)?;
    let mut request = Request::new().op_napi_get_do();
    wire::push_id(request.encode().as_vec_mut(), id);
    let mut socket = NetlinkSocket::new();
    let mut replies = socket.request(&request).map_err(|error| missing(errno_of(&error), error, FAMILY))?;
    let reply = replies.recv_one().map_err(|error| match errno(&error) {
        Some(Errno::ENOENT) => NapiGetError::Refused(QueryError::NoSuchNapi { id: id.into() }),
        errno => missing(errno, plain(error), FAMILY),
    })?;
    instance(reply.get_buf())
}

/// All instances of an interface, or of all interfaces: devices by number, on each the latest instance first. A device
/// that is down has none. No capability is needed.
///
/// # Errors
/// [`QueryError::NoSuchDevice`]; [`QueryError::OutOfRange`] for 0; [`KernelError::NotHere`] before Linux 6.8;
/// [`KernelError::Other`] for an answer that cannot be read.
pub fn napi_dump(ifindex: Option<u32>) -> Result<Vec<NapiInfo>, NapiGetError> {
    let ifindex = control::check_dump_filter(ifindex.map(u64::from)).map_err(NapiGetError::Refused)?;
    let mut request = Request::new().op_napi_get_dump();
    if let Some(ifindex) = ifindex {
        wire::push_ifindex(request.encode().as_vec_mut(), ifindex);
    }
    let mut socket = NetlinkSocket::new();
    let mut replies = socket.request(&request).map_err(|error| missing(errno_of(&error), error, FAMILY))?;
    let mut found = Vec::new();
    while let Some(reply) = replies.recv() {
        let reply = reply.map_err(|error| match (errno(&error), ifindex) {
            // `netlink-socket2` 0.3.5 loses the number of an error that ends a dump.
            (None | Some(Errno::ENODEV), Some(ifindex)) if !link::exists(ifindex) => {
                NapiGetError::Refused(QueryError::NoSuchDevice { ifindex: ifindex.into() })
            }
            (errno, _) => missing(errno, plain(error), FAMILY),
        })?;
        found.push(instance(reply.get_buf())?);
    }
    control::sort_dump(&mut found);
    Ok(found)
}

/// Sets what the request names of one instance; the rest stays.
///
/// # Errors
/// What the rules refuse, and what the kernel does: [`SetRefusal::NotPermitted`] without `CAP_NET_ADMIN` in the first user
/// namespace, [`SetRefusal::NoSuchNapi`], [`SetRefusal::OutOfRange`] with this kernel's own bound, as for `threaded`
/// 2 before Linux 6.19. [`KernelError::NotHere`] where the kernel has no napi-set (before 6.13), not this setting of it (`threaded`
/// before 6.17), or the pool of workers is asked for.
pub fn napi_set(request: &NapiSet) -> Result<(), NapiSetError> {
    let checked = request.check(true).map_err(NapiSetError::Refused)?;
    let mut message = Request::new().op_napi_set_do();
    let mut encoder = message.encode();
    let bytes = encoder.as_vec_mut();
    wire::push_id(bytes, checked.id());
    for change in checked.changes() {
        if !wire::push_change(bytes, change) {
            let what = "the kernel has no pool of workers: it is an extension of the engine";
            return Err(NapiSetError::NotHere { what, errno: Errno::EOPNOTSUPP });
        }
    }
    drop(encoder);
    let mut socket = NetlinkSocket::new();
    let mut replies = socket.request(&message).map_err(|error| missing(errno_of(&error), error, NAPI_SET))?;
    replies.recv_ack().map_err(|error| refused(error, message.payload(), &checked))
}

const FAMILY: &str = "this kernel does not show NAPI instances (since Linux 6.8)";
const NAPI_SET: &str = "this kernel sets NAPI instances by their device only (napi-set is there since Linux 6.13)";

fn instance(bytes: &[u8]) -> Result<NapiInfo, NapiGetError> {
    let unreadable = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer to napi-get cannot be read");
    wire::instance(bytes).ok_or_else(|| unreadable().into())
}

/// No such family is `ENOENT` when its number is asked for, no such operation `EOPNOTSUPP`.
fn missing<R: Refusal>(errno: Option<Errno>, error: io::Error, what: &'static str) -> KernelError<R> {
    match errno {
        Some(errno @ (Errno::ENOENT | Errno::EOPNOTSUPP)) => KernelError::NotHere { what, errno },
        _ => KernelError::Other(error),
    }
}

fn errno(error: &ReplyError) -> Option<Errno> {
    errno_of(error.as_io_error())
}

fn refused(error: ReplyError, request: &[u8], checked: &CheckedNapiSet) -> NapiSetError {
    // The kernel says where in the request, header included, the attribute is that it does not take.
    const HEADER: usize = 16;
    let place = error.ext_ack().and_then(|ack| ack.get_offset().ok());
    let attribute =
        place.and_then(|offset| wire::kind_at(request, (offset as usize).checked_sub(HEADER)?)).and_then(wire::name);
    let bound = error.ext_ack().and_then(|ack| ack.get_policy().ok()?.get_max_value_u().ok());
    match (errno(&error), attribute) {
        (Some(Errno::EPERM), _) => NapiSetError::Refused(SetRefusal::NotPermitted),
        (Some(Errno::ENOENT), _) => NapiSetError::Refused(checked.no_such_napi()),
        (Some(Errno::ERANGE), Some(attribute)) if bound.is_some() => {
            NapiSetError::Refused(SetRefusal::OutOfRange { attribute, max: bound.unwrap_or_default() })
        }
        (Some(errno @ Errno::EINVAL), Some("threaded")) => NapiSetError::NotHere {
            what: "this kernel makes instances threaded by their device only (threaded of napi-set is there since 6.17)",
            errno,
        },
        (errno, _) => missing(errno, plain(error), NAPI_SET),
    }
}
