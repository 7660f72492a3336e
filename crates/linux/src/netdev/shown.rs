//! Queues, devices and their counters out of the kernel's answers: pure. Source: `Documentation/netlink/specs/netdev.yaml`,
//! `include/uapi/linux/netdev.h`, `net/core/netdev-genl.c netdev_nl_queue_fill_one`, `netdev_nl_dev_fill`,
//! `netdev_nl_stats_write_rx`, `netdev_nl_stats_write_tx`.

use napier_core::control::{DevInfo, QSTATS_FIRST, QStats, QueueInfo, QueueKind};

use super::wire::{attributes, u32_of, uint_of};

/// One queue as the kernel's queue-get shows it: what an engine's has too, and what only a kernel's can have.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct KernelQueue {
    /// `id`, `ifindex`, `type`, `napi-id`.
    pub info: QueueInfo,
    /// `dmabuf`: id of the buffer that the queue receives into.
    pub dmabuf: Option<u32>,
    /// `io-uring`: memory of io_uring that the queue receives into.
    pub io_uring: Option<IoUring>,
    /// `xsk`: the queue belongs to an AF_XDP socket.
    pub xsk: bool,
    /// `lease`: the queue of another device that this one stands for.
    pub lease: Option<Lease>,
}

/// Memory of io_uring at a queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct IoUring {
    /// `rx-buf-len`, bytes.
    pub rx_buf_len: Option<u64>,
}

/// A queue that is leased to a virtual device.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Lease {
    /// `ifindex` of the device that it is of.
    pub ifindex: Option<u32>,
    /// `queue`: its `id` and its `type`.
    pub queue: Option<(u32, QueueKind)>,
    /// `netns-id` of that device's namespace.
    pub netns_id: Option<i32>,
}

fn kind_of(value: &[u8]) -> Option<QueueKind> {
    match u32_of(value)? {
        0 => Some(QueueKind::Rx),
        1 => Some(QueueKind::Tx),
        _ => None,
    }
}

/// `None` without an id, a device or a type, or where an attribute has a length that it cannot have.
pub(super) fn queue(bytes: &[u8]) -> Option<KernelQueue> {
    let (mut id, mut ifindex, mut kind, mut napi_id) = (None, None, None, None);
    let (mut dmabuf, mut io_uring, mut xsk, mut leased) = (None, None, false, None);
    for attribute in attributes(bytes) {
        let (number, value) = attribute?;
        match number {
            1 => id = Some(u32_of(value)?),
            2 => ifindex = Some(u32_of(value)?),
            3 => kind = Some(kind_of(value)?),
            4 => napi_id = Some(u32_of(value)?),
            5 => dmabuf = Some(u32_of(value)?),
            6 => io_uring = Some(memory(value)?),
            7 => xsk = true,
            8 => leased = Some(lease(value)?),
            _ => {}
        }
    }
    let info = QueueInfo { id: id?, ifindex: ifindex?, kind: kind?, napi_id };
    Some(KernelQueue { info, dmabuf, io_uring, xsk, lease: leased })
}

fn memory(bytes: &[u8]) -> Option<IoUring> {
    let mut memory = IoUring::default();
    for attribute in attributes(bytes) {
        if let (1, value) = attribute? {
            memory.rx_buf_len = Some(uint_of(value)?);
        }
    }
    Some(memory)
}

fn lease(bytes: &[u8]) -> Option<Lease> {
    let mut lease = Lease::default();
    for attribute in attributes(bytes) {
        match attribute? {
            (1, value) => lease.ifindex = Some(u32_of(value)?),
            (2, value) => {
                let (mut id, mut kind) = (None, None);
                for attribute in attributes(value) {
                    match attribute? {
                        (1, value) => id = Some(u32_of(value)?),
                        (3, value) => kind = Some(kind_of(value)?),
                        _ => {}
                    }
                }
                lease.queue = id.zip(kind);
            }
            (3, value) => lease.netns_id = Some(u32_of(value)?.cast_signed()),
            _ => {}
        }
    }
    Some(lease)
}

/// `None` without a number, or where an attribute has a length that it cannot have.
pub(super) fn device(bytes: &[u8]) -> Option<DevInfo> {
    let mut info = DevInfo::default();
    for attribute in attributes(bytes) {
        match attribute? {
            (1, value) => info.ifindex = u32_of(value)?,
            (3, value) => info.xdp_features = Some(uint_of(value)?),
            (4, value) => info.xdp_zc_max_segs = Some(u32_of(value)?),
            (5, value) => info.xdp_rx_metadata_features = Some(uint_of(value)?),
            (6, value) => info.xsk_features = Some(uint_of(value)?),
            _ => {}
        }
    }
    (info.ifindex != 0).then_some(info)
}

/// `None` without a device, or where an attribute has a length that it cannot have.
pub(super) fn qstats(bytes: &[u8]) -> Option<QStats> {
    let (mut stats, mut kind, mut id) = (QStats::new(0, None), None, None);
    for attribute in attributes(bytes) {
        let (number, value) = attribute?;
        let counter = number.checked_sub(QSTATS_FIRST).and_then(|at| stats.counters.get_mut(usize::from(at)));
        match (number, counter) {
            (1, _) => stats.ifindex = u32_of(value)?,
            (2, _) => kind = Some(kind_of(value)?),
            (3, _) => id = Some(u32_of(value)?),
            (_, Some(counter)) => *counter = Some(uint_of(value)?),
            _ => {}
        }
    }
    stats.queue = kind.zip(id);
    (stats.ifindex != 0).then_some(stats)
}

#[cfg(test)]
#[path = "shown_tests.rs"]
mod tests;
