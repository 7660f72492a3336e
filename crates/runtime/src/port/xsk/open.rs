//! Makes the ports of a device on sockets of an interface.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use napier_ring::FrameTable;
use napier_ring::xsk::{HEADROOM_BYTES, XskRx, XskTx};
use napier_xsk::drive::{AttachedProgram, InterfaceQueues, OpenedInterface, cut};
use napier_xsk::{XdpMode, XskConfig, XskError};

use super::Sockets;
use super::config::XdpConfig;
use super::error::AddXdpError;
use super::line::XskLine;
use super::rx::XskRxEnd;
use super::tx::{Kicks, LateKicks, XskTxEnd};
use crate::port::{EndConfig, IrqLine, Ports, QueuePair, RxEnd, RxQueue, SenderSpace, TxEnd, TxQueue};
use napier_sys::netdev::Netdev;

/// An interface that was opened.
pub(super) struct Opened {
    pub(super) interface: Netdev,
    pub(super) ports: Ports,
    pub(super) kept: Kept,
}

/// What is kept beside the queues.
pub(super) struct Kept {
    pub(super) name: String,
    pub(super) ifindex: u32,
    pub(super) mode: XdpMode,
    pub(super) sockets: Sockets,
    pub(super) lines: Vec<Arc<XskLine>>,
    pub(super) program: AttachedProgram,
    pub(super) late: Arc<LateKicks>,
    /// To ask about the interface, and to hear that it has changed, in its namespace.
    pub(super) query: OwnedFd,
    pub(super) changes: OwnedFd,
    /// What goes on to the kernel and is heard as well.
    pub(super) beside: Vec<OwnedFd>,
    /// The device has the interface's Ethernet address, whichever that is.
    pub(super) own_mac: bool,
    pub(super) queues: InterfaceQueues,
}

/// Opens the interface and makes the ports of a device on it.
pub(super) fn open(config: &XdpConfig, end: &EndConfig, table: &Arc<FrameTable>) -> Result<Opened, AddXdpError> {
    let addresses: Vec<IpAddr> = end.addresses.iter().map(|address| address.addr).collect();
    if !config.filter.takes_something(&addresses) {
        let what = "the filter names no address: give the device one, or let it take everything".to_owned();
        return Err(XskError::Config { what }.into());
    }
    let late = LateKicks::new().map_err(XskError::refused("making an eventfd", "nothing"))?;
    let sockets = config.sockets();
    let opened = napier_xsk::drive::open(&sockets, &addresses)?;
    // Last, for the table does not take an arena back.
    make_ports(config, &sockets, opened, table, Arc::new(late))
}

fn make_ports(
    config: &XdpConfig,
    shape: &XskConfig,
    opened: OpenedInterface,
    table: &Arc<FrameTable>,
    late: Arc<LateKicks>,
) -> Result<Opened, AddXdpError> {
    let (arena, frame_bytes) = cut(shape, &opened.memory);
    let (arena, pools) = table.add_arena_with_gaps(arena, frame_bytes)?;
    let senders_at = shape.queue_frames() as usize * shape.chunk_bytes as usize + HEADROOM_BYTES as usize;
    let mut pools = pools.into_iter();
    let mut pool = || pools.next().expect("an arena has the homes that were asked for");
    let (mut queues, mut sockets, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for (queue, (socket, rings)) in (0..).zip(opened.sockets) {
        let socket = Arc::new(socket);
        let rx = XskRx::new(rings.fill, rings.rx, table, arena);
        let tx = XskTx::new(rings.tx, rings.completion, table, arena);
        let look = Arc::new(rx.look());
        let line = Arc::new(XskLine::new(&socket, &look));
        let busy = config.busy_poll.is_some();
        let rx = XskRxEnd::new(rx, socket.clone(), look, line.clone(), config.ring_size, busy);
        let irq = IrqLine::Xsk(line.clone());
        let rx = RxQueue::new(RxEnd::Xsk(Box::new(rx)), pool(), irq.clone());
        let tx = XskTxEnd::new(tx, pool(), Kicks::new(socket.clone(), queue, late.clone()));
        let tx = TxQueue::new(TxEnd::Xsk(Box::new(tx)), table.clone(), frame_bytes as u32);
        queues.push(QueuePair { rx, tx, irq });
        sockets.push(socket);
        lines.push(line);
    }
    let senders =
        SenderSpace::new(config.senders, config.sender_frames, shape.chunk_bytes, Some((opened.memory, senders_at)))
            .with_gap(HEADROOM_BYTES);
    let kept = Kept {
        name: config.interface.clone(),
        ifindex: opened.interface.ifindex,
        mode: opened.mode,
        sockets: sockets.into(),
        lines,
        program: opened.program,
        late,
        query: opened.query,
        changes: opened.changes,
        beside: opened.beside,
        own_mac: false,
        queues: InterfaceQueues::default(),
    };
    Ok(Opened { interface: opened.interface, ports: Ports { queues, senders }, kept })
}
