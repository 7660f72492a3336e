//! The kernel's vocabulary (`netdev` netlink), in the namespace of the calling thread: napi-get, napi-set, queue-get, dev-get,
//! qstats-get. Source: `net/core/netdev-genl.c`.
//!
//! An instance has an id while it is enabled; it gets another one when it is made anew, as by switching GRO or by taking the
//! interface down and up.
//!
//! [`Netdev`] is the door with all that the kernel says of a refusal; [`napi_get`] and its like are for one question.

pub(crate) mod absent;
pub mod places;
mod shown;
mod socket;
mod told;
mod wire;

use std::io;

use napier_core::control::{
    self, CheckedNapiSet, DevInfo, Errno, NapiGet, NapiInfo, NapiSet, NapiSetError as SetRefusal, QStats, QueryError,
    QueueGet,
};

use crate::error::KernelError;
use crate::link;
pub use absent::why_no_instance;
pub use shown::{IoUring, KernelQueue, Lease};
use socket::{NetlinkRefusal, Socket, Trouble};
pub use told::Told;
use told::{Operation, told};
pub(crate) use wire::attributes;

/// Why the kernel did not show instances.
pub type NapiGetError = KernelError<QueryError>;
/// Why the kernel did not set an instance. Nothing was changed, unless a thread could not be created.
pub type NapiSetError = KernelError<SetRefusal>;

/// `NETDEV_CMD_*` of `include/uapi/linux/netdev.h`.
const DEV_GET: u8 = 1;
const QUEUE_GET: u8 = 10;
const NAPI_GET: u8 = 11;
const QSTATS_GET: u8 = 12;
const NAPI_SET: u8 = 14;

/// `NETDEV_A_*_IFINDEX` where it is not the first attribute, and the others that requests have.
const QUEUE_ID: u16 = 1;
const QUEUE_IFINDEX: u16 = 2;
const QUEUE_TYPE: u16 = 3;
const IFINDEX: u16 = 1;
const QSTATS_SCOPE: u16 = 4;

/// One instance. No capability is needed.
///
/// # Errors
/// [`QueryError::NoSuchNapi`] where no enabled instance of this namespace has the id; [`KernelError::NotHere`] before Linux
/// 6.8; [`KernelError::Other`] for an answer that cannot be read.
pub fn napi_get(id: u32) -> Result<NapiInfo, NapiGetError> {
    Netdev::open().map_err(Told::into_error)?.napi_get(NapiGet { id: Some(id.into()) }).map_err(Told::into_error)
}

/// All instances of an interface, or of all interfaces: devices by number, on each the latest instance first. A device
/// that is down has none. No capability is needed.
///
/// # Errors
/// [`QueryError::NoSuchDevice`]; [`QueryError::OutOfRange`] for 0; [`KernelError::NotHere`] before Linux 6.8;
/// [`KernelError::Other`] for an answer that cannot be read.
pub fn napi_dump(ifindex: Option<u32>) -> Result<Vec<NapiInfo>, NapiGetError> {
    Netdev::open().map_err(Told::into_error)?.napi_dump(ifindex.map(u64::from)).map_err(Told::into_error)
}

/// Sets what the request names of one instance; the rest stays.
///
/// # Errors
/// What the rules refuse, and what the kernel does: [`SetRefusal::NotPermitted`] without `CAP_NET_ADMIN` in the first user
/// namespace, [`SetRefusal::NoSuchNapi`], [`SetRefusal::OutOfRange`] with this kernel's own bound, as for `threaded`
/// 2 before Linux 6.19. [`KernelError::NotHere`] where the kernel has no napi-set (before 6.13), not this setting of it (`threaded`
/// before 6.17), or the pool of workers is asked for.
pub fn napi_set(request: &NapiSet) -> Result<(), NapiSetError> {
    Netdev::open().map_err(Told::into_error)?.napi_set(request).map_err(Told::into_error)
}

/// The family, of the namespace in which it was opened.
#[derive(Debug)]
pub struct Netdev {
    socket: Socket,
}

type Asked<T> = Result<T, Told<QueryError>>;

fn said_by_rules(error: QueryError) -> Told<QueryError> {
    Told::plain(KernelError::Refused(error))
}

impl Netdev {
    /// Opens it in the namespace of the calling thread.
    ///
    /// # Errors
    /// [`KernelError::NotHere`] where the kernel has no such family (before Linux 6.3), or no descriptor is left.
    pub fn open<R: crate::Refusal>() -> Result<Self, Told<R>> {
        let socket = Socket::open().map_err(|trouble| told(Operation::NapiGet, None, trouble, |_| None))?;
        Ok(Self { socket })
    }

    /// [`napi_get`].
    ///
    /// # Errors
    /// As there.
    pub fn napi_get(&mut self, request: NapiGet) -> Asked<NapiInfo> {
        let id = request.check().map_err(said_by_rules)?;
        let mut attributes = Vec::new();
        wire::push_id(&mut attributes, id);
        self.one(Operation::NapiGet, NAPI_GET, &attributes, wire::instance, |refused| match refused.number() {
            Some(Errno::ENOENT) => Some(QueryError::NoSuchNapi { id: id.into() }),
            _ => None,
        })
    }

    /// [`napi_dump`].
    ///
    /// # Errors
    /// As there.
    pub fn napi_dump(&mut self, ifindex: Option<u64>) -> Asked<Vec<NapiInfo>> {
        let mut found = self.dump(Operation::NapiGet, NAPI_GET, (ifindex, IFINDEX), &[], wire::instance)?;
        control::sort_dump(&mut found);
        Ok(found)
    }

    /// [`napi_set`].
    ///
    /// # Errors
    /// As there.
    pub fn napi_set(&mut self, request: &NapiSet) -> Result<(), Told<SetRefusal>> {
        let checked = request.check(true).map_err(|error| Told {
            hint: told::hint(Operation::NapiSet, attribute_of(&error), error.errno()),
            ..Told::plain(KernelError::Refused(error))
        })?;
        let mut attributes = Vec::new();
        wire::push_id(&mut attributes, checked.id());
        for change in checked.changes() {
            if !wire::push_change(&mut attributes, change) {
                let what = "the kernel has no pool of workers: it is an extension of the engine";
                return Err(Told::plain(NapiSetError::NotHere { what, errno: Errno::EOPNOTSUPP }));
            }
        }
        self.socket.exchange(NAPI_SET, false, &attributes, &mut |_| true).map_err(|trouble| {
            let attribute = match &trouble {
                Trouble::Refused(refused) => refused.attribute.and_then(wire::name),
                _ => None,
            };
            told(Operation::NapiSet, attribute, trouble, |refused| set_refused(refused, attribute, &checked))
        })
    }

    /// One queue. No capability is needed.
    ///
    /// # Errors
    /// [`QueryError`]: a missing attribute, a device or a queue that is not there, a device that is down.
    /// [`KernelError::NotHere`] before Linux 6.8.
    pub fn queue_get(&mut self, request: QueueGet) -> Asked<KernelQueue> {
        let checked = request.check().map_err(said_by_rules)?;
        // An index has 32 bits there; a larger one cannot be a queue of any device.
        let id = u32::try_from(checked.id()).unwrap_or(u32::MAX);
        let mut attributes = Vec::new();
        wire::push(&mut attributes, QUEUE_ID, &id.to_ne_bytes());
        wire::push(&mut attributes, QUEUE_TYPE, &(checked.kind as u32).to_ne_bytes());
        wire::push(&mut attributes, QUEUE_IFINDEX, &checked.ifindex.to_ne_bytes());
        let ifindex = u64::from(checked.ifindex);
        let asked = self.one(Operation::QueueGet, QUEUE_GET, &attributes, shown::queue, |refused| {
            match refused.number() {
                Some(Errno::ENODEV) => Some(QueryError::NoSuchDevice { ifindex }),
                Some(Errno::ENOENT) => Some(QueryError::DeviceDown { ifindex: checked.ifindex }),
                // How many there are is asked below.
                Some(Errno::EINVAL) => Some(QueryError::NoSuchQueue { id: checked.id(), queues: 0 }),
                _ => None,
            }
        });
        asked.map_err(|mut told| {
            if let KernelError::Refused(QueryError::NoSuchQueue { queues, .. }) = &mut told.error {
                let all = self.queue_dump(Some(ifindex)).unwrap_or_default();
                let there = all.iter().filter(|queue| queue.info.kind == checked.kind).count();
                *queues = u32::try_from(there).unwrap_or(u32::MAX);
            }
            told
        })
    }

    /// All queues in use of an interface, or of all interfaces, in the kernel's order. A device that is down has none.
    ///
    /// # Errors
    /// As [`napi_dump`].
    pub fn queue_dump(&mut self, ifindex: Option<u64>) -> Asked<Vec<KernelQueue>> {
        self.dump(Operation::QueueGet, QUEUE_GET, (ifindex, QUEUE_IFINDEX), &[], shown::queue)
    }

    /// One device. No capability is needed.
    ///
    /// # Errors
    /// [`QueryError::NoSuchDevice`], [`QueryError::OutOfRange`] for 0; [`KernelError::NotHere`] before Linux 6.3.
    pub fn dev_get(&mut self, ifindex: Option<u64>) -> Asked<DevInfo> {
        let ifindex = control::check_dump_filter(ifindex).map_err(said_by_rules)?;
        let ifindex = ifindex.ok_or(said_by_rules(QueryError::Missing("ifindex")))?;
        let mut attributes = Vec::new();
        wire::push(&mut attributes, IFINDEX, &ifindex.to_ne_bytes());
        self.one(Operation::DevGet, DEV_GET, &attributes, shown::device, |refused| match refused.number() {
            Some(Errno::ENODEV) => Some(QueryError::NoSuchDevice { ifindex: ifindex.into() }),
            _ => None,
        })
    }

    /// All devices, by their numbers.
    ///
    /// # Errors
    /// [`KernelError::NotHere`] before Linux 6.3; [`KernelError::Other`] for an answer that cannot be read.
    pub fn dev_dump(&mut self) -> Asked<Vec<DevInfo>> {
        self.dump(Operation::DevGet, DEV_GET, (None, IFINDEX), &[], shown::device)
    }

    /// Counters of an interface, or of all interfaces that have some; for each queue, or for each device as a whole.
    ///
    /// # Errors
    /// [`QueryError::NoSuchDevice`], [`QueryError::OutOfRange`] for interface 0; [`KernelError::NotHere`] before Linux 6.10,
    /// and where the driver of the interface that is named counts nothing (`EOPNOTSUPP`).
    pub fn qstats_dump(&mut self, ifindex: Option<u64>, by_queue: bool) -> Asked<Vec<QStats>> {
        let mut scope = Vec::new();
        if by_queue {
            wire::push_uint(&mut scope, QSTATS_SCOPE, 1);
        }
        let stats = self.dump(Operation::QstatsGet, QSTATS_GET, (ifindex, IFINDEX), &scope, shown::qstats);
        stats.map_err(|mut told| {
            // An operation that is not there is not there without a device either.
            if told.errno() == Some(Errno::EOPNOTSUPP) && ifindex.is_some() && self.qstats_dump(None, false).is_ok() {
                let what = "the driver of this device counts nothing for qstats-get: ip -s link shows its counters";
                told.error = KernelError::NotHere { what, errno: Errno::EOPNOTSUPP };
            }
            told
        })
    }

    fn one<T>(
        &mut self,
        operation: Operation,
        command: u8,
        attributes: &[u8],
        read: fn(&[u8]) -> Option<T>,
        words: impl FnOnce(&NetlinkRefusal) -> Option<QueryError>,
    ) -> Asked<T> {
        let mut found = None;
        let asked = self.socket.exchange(command, false, attributes, &mut |bytes| {
            found = read(bytes);
            found.is_some()
        });
        asked.map_err(|trouble| told(operation, None, trouble, |refused| words(refused).map(KernelError::Refused)))?;
        let nothing =
            || io::Error::new(io::ErrorKind::UnexpectedEof, "the kernel's answer over netdev netlink is empty");
        found.ok_or_else(|| Told::plain(nothing().into()))
    }

    /// `filter`: the interface, and the number of the attribute that names it.
    fn dump<T>(
        &mut self,
        operation: Operation,
        command: u8,
        filter: (Option<u64>, u16),
        more: &[u8],
        read: fn(&[u8]) -> Option<T>,
    ) -> Asked<Vec<T>> {
        let ifindex = control::check_dump_filter(filter.0).map_err(said_by_rules)?;
        let mut attributes = more.to_vec();
        if let Some(ifindex) = ifindex {
            wire::push(&mut attributes, filter.1, &ifindex.to_ne_bytes());
        }
        let mut found = Vec::new();
        let asked = self.socket.exchange(command, true, &attributes, &mut |bytes| {
            let one = read(bytes);
            let readable = one.is_some();
            found.extend(one);
            readable
        });
        asked.map_err(|trouble| {
            told(operation, None, trouble, |refused| match (refused.number(), ifindex) {
                (Some(Errno::ENODEV), Some(ifindex)) => {
                    Some(KernelError::Refused(QueryError::NoSuchDevice { ifindex: ifindex.into() }))
                }
                _ => None,
            })
        })?;
        Ok(found)
    }
}

/// Number of an interface of the namespace of the calling thread.
///
/// # Errors
/// It has none of that name.
pub fn ifindex(name: &str) -> io::Result<u32> {
    link::index(name)
}

/// Addresses of an interface of the calling thread's namespace, with the lengths of their prefixes.
///
/// # Errors
/// As the kernel says it.
pub fn addresses(ifindex: u32) -> io::Result<Vec<(std::net::IpAddr, u8)>> {
    crate::link::addresses(ifindex)
}

/// The attribute that a refusal is about.
fn attribute_of(error: &SetRefusal) -> Option<&str> {
    match error {
        SetRefusal::OutOfRange { attribute, .. } => Some(attribute),
        _ => None,
    }
}

fn set_refused(
    refused: &NetlinkRefusal,
    attribute: Option<&'static str>,
    checked: &CheckedNapiSet,
) -> Option<NapiSetError> {
    Some(match (refused.number()?, attribute) {
        (Errno::EPERM, _) => NapiSetError::Refused(SetRefusal::NotPermitted),
        (Errno::ENOENT, _) => NapiSetError::Refused(checked.no_such_napi()),
        (Errno::ERANGE, Some(attribute)) => {
            NapiSetError::Refused(SetRefusal::OutOfRange { attribute, max: refused.max? })
        }
        (errno @ Errno::EINVAL, Some("threaded")) => NapiSetError::NotHere {
            what: "this kernel makes instances threaded by their device only (threaded of napi-set is there since 6.17)",
            errno,
        },
        _ => return None,
    })
}
