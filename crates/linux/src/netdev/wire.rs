//! Attributes of a NAPI instance as bytes: pure.
//!
//! By hand, because the bindings of 0.3.5 take `uint` for 32 bits: such an attribute has 4 or 8 bytes, as its value needs, and a
//! time-out of more than 4.29 s would be cut off when it is set and missing when it is read. Source:
//! `Documentation/netlink/specs/netdev.yaml`, `include/uapi/linux/netdev.h`, `include/net/netlink.h nla_put_uint`.

use napier_core::control::{NapiChange, NapiInfo, ThreadedSetting};
use napier_core::time::Span;

/// `NETDEV_A_NAPI_*`.
const IFINDEX: u16 = 1;
const ID: u16 = 2;
const IRQ: u16 = 3;
const PID: u16 = 4;
const DEFER_HARD_IRQS: u16 = 5;
const GRO_FLUSH_TIMEOUT: u16 = 6;
const IRQ_SUSPEND_TIMEOUT: u16 = 7;
const THREADED: u16 = 8;

/// Bytes before an attribute's value: its length with them, and its type.
const HEAD: usize = 4;
/// An attribute begins at a multiple of this.
const ALIGN: usize = 4;
/// The bits of a type that are none of it: nested, byte order. `include/uapi/linux/netlink.h NLA_TYPE_MASK`.
const TYPE_MASK: u16 = 0x3fff;

/// The name of an attribute that napi-set takes.
pub(super) fn name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        ID => "id",
        DEFER_HARD_IRQS => "defer-hard-irqs",
        GRO_FLUSH_TIMEOUT => "gro-flush-timeout",
        IRQ_SUSPEND_TIMEOUT => "irq-suspend-timeout",
        THREADED => "threaded",
        _ => return None,
    })
}

/// Type of the attribute that begins at `offset`.
pub(super) fn kind_at(bytes: &[u8], offset: usize) -> Option<u16> {
    let head = bytes.get(offset..)?.first_chunk::<HEAD>()?;
    Some(u16::from_ne_bytes([head[2], head[3]]) & TYPE_MASK)
}

pub(super) fn push_id(bytes: &mut Vec<u8>, id: u32) {
    push(bytes, ID, &id.to_ne_bytes());
}

/// False, and nothing pushed, for the pool of workers, which no kernel has.
#[must_use]
pub(super) fn push_change(bytes: &mut Vec<u8>, change: NapiChange) -> bool {
    match change {
        NapiChange::Threaded(setting) => match setting.number() {
            Some(number) => push(bytes, THREADED, &number.to_ne_bytes()),
            None => return false,
        },
        NapiChange::DeferHardIrqs(count) => push(bytes, DEFER_HARD_IRQS, &count.to_ne_bytes()),
        NapiChange::IrqSuspendTimeout(span) => push_uint(bytes, IRQ_SUSPEND_TIMEOUT, span.ns),
        NapiChange::GroFlushTimeout(span) => push_uint(bytes, GRO_FLUSH_TIMEOUT, span.ns),
    }
    true
}

pub(super) fn push_uint(bytes: &mut Vec<u8>, kind: u16, value: u64) {
    match u32::try_from(value) {
        Ok(value) => push(bytes, kind, &value.to_ne_bytes()),
        Err(_) => push(bytes, kind, &value.to_ne_bytes()),
    }
}

pub(super) fn push(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = u16::try_from(HEAD + value.len()).expect("a few bytes");
    bytes.extend(len.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
}

/// An instance out of an answer's attributes. `None` without an id or the device's number, or where an attribute has
/// a length that it cannot have. What is not known here is passed over.
pub(super) fn instance(bytes: &[u8]) -> Option<NapiInfo> {
    let (mut ifindex, mut id) = (None, None);
    let mut info = NapiInfo {
        ifindex: 0,
        id: 0,
        irq: None,
        pid: None,
        defer_hard_irqs: None,
        gro_flush_timeout: None,
        irq_suspend_timeout: None,
        threaded: None,
    };
    for attribute in attributes(bytes) {
        let (kind, value) = attribute?;
        match kind {
            IFINDEX => ifindex = Some(u32_of(value)?),
            ID => id = Some(u32_of(value)?),
            IRQ => info.irq = Some(u32_of(value)?),
            PID => info.pid = Some(u32_of(value)?),
            DEFER_HARD_IRQS => info.defer_hard_irqs = Some(u32_of(value)?),
            GRO_FLUSH_TIMEOUT => info.gro_flush_timeout = Some(Span::from_ns(uint_of(value)?)),
            IRQ_SUSPEND_TIMEOUT => info.irq_suspend_timeout = Some(Span::from_ns(uint_of(value)?)),
            THREADED => info.threaded = Some(ThreadedSetting::from_number(u32_of(value)?.into())?),
            _ => {}
        }
    }
    Some(NapiInfo { ifindex: ifindex?, id: id?, ..info })
}

/// Types and values; `None`, and no more after it, for one that is longer than what there is or shorter than its head.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = Option<(u16, &[u8])>> {
    std::iter::from_fn(move || {
        let head = bytes.first_chunk::<HEAD>()?;
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let (kind, value) = (kind_at(bytes, 0), bytes.get(HEAD..len));
        bytes = bytes.get(len.next_multiple_of(ALIGN)..).filter(|_| value.is_some()).unwrap_or_default();
        Some(kind.zip(value))
    })
}

pub(super) fn u32_of(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

pub(super) fn uint_of(value: &[u8]) -> Option<u64> {
    match value.len() {
        4 => u32_of(value).map(u64::from),
        _ => value.try_into().ok().map(u64::from_ne_bytes),
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
