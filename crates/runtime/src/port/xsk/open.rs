//! Opening an interface: sockets, memory and program, in an order in which whatever fails leaves nothing behind.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use napier_ring::xsk::{HEADROOM_BYTES, XskRx, XskTx};
use napier_ring::{ArenaConfig, FrameTable, Mapping};

use super::config::{LINK_BYTES, XdpConfig, XdpMode};
use super::error::AddXdpError;
use super::line::XskLine;
use super::namespace::in_namespace;
use super::offload::HadLro;
use super::program::XdpVerdict;
use super::queues::Queues;
use super::rx::XskRxEnd;
use super::tx::{Kicks, LateKicks, XskTxEnd};
use super::{Sockets, attached, beside};
use crate::port::{EndConfig, IrqLine, Ports, QueuePair, RxEnd, RxQueue, SenderSpace, TxEnd, TxQueue};
use napier_sys::bpf;
use napier_sys::mmap::private_memory;
use napier_sys::netdev::{self, Netdev};
use napier_sys::xsk::{CopyMode, RingSizes, Rings, XskSocket};

/// How long a queue may stay busy because the kernel has not finished with its last socket: it does so in a work item that
/// waits for the lock of all interfaces.
const BUSY_MAX: Duration = Duration::from_secs(2);

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
    /// The program is on the interface as long as this is open.
    pub(super) link: OwnedFd,
    pub(super) had_lro: Option<HadLro>,
    pub(super) late: Arc<LateKicks>,
    /// To ask about the interface, and to hear that it has changed, in its namespace.
    pub(super) query: OwnedFd,
    pub(super) changes: OwnedFd,
    /// What goes on to the kernel and is heard as well.
    pub(super) beside: Vec<OwnedFd>,
    /// The device has the interface's Ethernet address, whichever that is.
    pub(super) own_mac: bool,
    pub(super) queues: Queues,
}

/// What is opened in the interface's namespace.
pub(super) struct Inside {
    interface: Netdev,
    query: OwnedFd,
    changes: OwnedFd,
    beside: Vec<OwnedFd>,
    mode: XdpMode,
    link: OwnedFd,
    /// Behind the link, for fields are dropped in this order.
    had_lro: Option<HadLro>,
    pub(super) sockets: Vec<(XskSocket, Rings)>,
}

/// Opens the interface and makes the ports of a device on it.
pub(super) fn open(config: &XdpConfig, end: &EndConfig, table: &Arc<FrameTable>) -> Result<Opened, AddXdpError> {
    let memory = make_memory(config)?;
    let addresses: Vec<IpAddr> = end.addresses.iter().map(|address| address.addr).collect();
    if !config.filter.takes_something(&addresses) {
        let what = "the filter names no address: give the device one, or let it take everything".to_owned();
        return Err(AddXdpError::Config { what });
    }
    let late = LateKicks::new().map_err(AddXdpError::refused("making an eventfd", "nothing"))?;
    let inside = in_namespace(config, || open_inside(config, &addresses, &memory))?;
    // Last, for the table does not take an arena back.
    make_ports(config, inside, memory, table, Arc::new(late))
}

/// Opens the interface for a program that makes no device of it; the configuration is one of [`queues::fit`].
pub(super) fn open_bare(config: &XdpConfig) -> Result<(Inside, Arc<Mapping>), AddXdpError> {
    let memory = make_memory(config)?;
    Ok((in_namespace(config, || open_inside(config, &[], &memory))?, memory))
}

fn make_memory(config: &XdpConfig) -> Result<Arc<Mapping>, AddXdpError> {
    let bytes = config.memory_bytes();
    let memory = usize::try_from(bytes).map_err(io::Error::other).and_then(private_memory);
    Ok(Arc::new(memory.map_err(|source| AddXdpError::Memory { bytes, source })?))
}

fn open_inside(config: &XdpConfig, addresses: &[IpAddr], memory: &Mapping) -> Result<Inside, AddXdpError> {
    let name = &config.interface;
    let asking = AddXdpError::refused("asking about an interface", "CAP_NET_ADMIN");
    let query = netdev::query_socket().map_err(&asking)?;
    let changes = netdev::change_socket().map_err(&asking)?;
    let interface = netdev::netdev(&query, name).map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV) => AddXdpError::NoSuchInterface { interface: name.clone() },
        _ => asking(error),
    })?;
    let most = config.chunk_bytes - HEADROOM_BYTES - LINK_BYTES;
    if interface.mtu > most {
        let larger =
            if config.chunk_bytes < 4096 && interface.mtu <= most + 2048 { "chunks of 4096 bytes, or " } else { "" };
        return Err(AddXdpError::MtuTooLarge { interface: name.clone(), mtu: interface.mtu, most, larger });
    }
    let queues = u32::from(config.first_queue + config.queues);
    let loading = AddXdpError::refused("loading an XDP program", "CAP_BPF and CAP_NET_ADMIN");
    // The socket first: it needs the most common capability of all, and says so.
    let sockets: Result<Vec<_>, _> = (0..config.queues).map(|_| XskSocket::new()).collect();
    let sockets = sockets.map_err(AddXdpError::refused("an AF_XDP socket", "CAP_NET_RAW"))?;
    let map = bpf::XskMap::new(queues).map_err(&loading)?;
    let program = config.filter.compile(addresses, XdpVerdict::Redirect(map.as_fd()));
    let program = bpf::load_xdp(&program).map_err(&loading)?;
    let veth = netdev::driver(&query, name).is_some_and(|driver| driver == "veth");
    // It hands packets of its queues to the stack by the wrong number, so this is for the first alone.
    let prefer_generic = veth && queues == 1;
    // Before the link, so that it is dropped after it.
    let had_lro = HadLro::of(&query, name, &interface);
    let (link, mode) = attach(config, &program, interface, prefer_generic)?;
    let sockets = bind_all(config, interface.ifindex, sockets, memory, mode)?;
    for (queue, (socket, _)) in (u32::from(config.first_queue)..).zip(&sockets) {
        map.put_socket(queue, socket.as_fd()).map_err(&loading)?;
    }
    let hearing = AddXdpError::refused("a packet socket", "CAP_NET_RAW");
    let beside = beside::listen(interface.ifindex, &config.filter, addresses).map_err(hearing)?;
    Ok(Inside { interface, query, changes, beside, mode, link, had_lro, sockets })
}

/// Attaches the program as the configuration wants it.
fn attach(
    config: &XdpConfig,
    program: &OwnedFd,
    Netdev { ifindex, mtu, .. }: Netdev,
    prefer_generic: bool,
) -> Result<(OwnedFd, XdpMode), AddXdpError> {
    let interface = || config.interface.clone();
    let generic = || bpf::attach_xdp(program, ifindex, bpf::Mode::Generic).map(|link| (link, XdpMode::Generic));
    let native = || bpf::attach_xdp(program, ifindex, bpf::Mode::Native).map(|link| (link, XdpMode::Native));
    let attached = match config.mode {
        XdpMode::Generic => generic(),
        XdpMode::Auto if prefer_generic => generic(),
        XdpMode::Native | XdpMode::ZeroCopy => native(),
        XdpMode::Auto => native().or_else(|error| match error.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST | libc::EPERM) => Err(error),
            _ => generic(),
        }),
    };
    attached.map_err(|source| match source.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => {
            AddXdpError::ProgramAttached { interface: interface(), mend: attached::mend(&interface(), ifindex) }
        }
        Some(libc::ENODEV) => AddXdpError::NoSuchInterface { interface: interface() },
        Some(libc::EOPNOTSUPP | libc::ERANGE | libc::EINVAL) if config.mode != XdpMode::Auto => {
            AddXdpError::NoNative { interface: interface(), mtu, source }
        }
        _ => AddXdpError::refused("attaching an XDP program", "CAP_NET_ADMIN")(source),
    })
}

/// Binds a socket to each queue. The first lends the memory, and the others share it.
fn bind_all(
    config: &XdpConfig,
    ifindex: u32,
    sockets: Vec<XskSocket>,
    memory: &Mapping,
    mode: XdpMode,
) -> Result<Vec<(XskSocket, Rings)>, AddXdpError> {
    let opening = AddXdpError::refused("opening an AF_XDP socket", "CAP_NET_RAW");
    let lending = |source| AddXdpError::Memory { bytes: memory.len() as u64, source };
    let sizes = RingSizes {
        // Room for what the kernel has taken and not said so yet.
        fill: 2 * config.ring_size,
        rx: config.ring_size,
        tx: config.ring_size,
        completion: config.ring_size,
    };
    let way = match (config.mode, mode) {
        (XdpMode::ZeroCopy, _) => CopyMode::Never,
        (_, XdpMode::Generic) => CopyMode::Always,
        _ if config.zero_copy => CopyMode::IfNeeded,
        _ => CopyMode::Always,
    };
    let mut bound: Vec<(XskSocket, Rings)> = Vec::new();
    for (queue, socket) in (config.first_queue..).zip(sockets) {
        if let Some(busy) = config.busy_poll {
            socket
                .busy_poll(busy)
                .map_err(AddXdpError::refused("busy polling (SO_PREFER_BUSY_POLL)", "CAP_NET_ADMIN"))?;
        }
        if bound.is_empty() {
            socket.lend_memory(memory, config.chunk_bytes).map_err(lending)?;
        }
        let rings = socket.make_rings(sizes).map_err(&opening)?;
        // More than 32 packets a call where the kernel can.
        let _ = socket.set_kick_budget(sizes.tx);
        retry_busy(|| match bound.first() {
            None => socket.bind(ifindex, u32::from(queue), way),
            Some((first, _)) => socket.bind_shared(ifindex, u32::from(queue), first),
        })
        .map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => AddXdpError::QueueBusy { interface: config.interface.clone(), queue },
            Some(libc::EINVAL) => AddXdpError::NoSuchQueue { interface: config.interface.clone(), queue },
            Some(libc::EOPNOTSUPP) if way == CopyMode::Never => {
                AddXdpError::NoZeroCopy { interface: config.interface.clone(), queue, source: error }
            }
            _ => AddXdpError::refused("binding an AF_XDP socket", "CAP_NET_RAW")(error),
        })?;
        bound.push((socket, rings));
    }
    Ok(bound)
}

/// A socket that was closed a moment ago may still have its queue: the kernel finishes with it later.
fn retry_busy(mut bind: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match bind() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && begun.elapsed() < BUSY_MAX => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

fn make_ports(
    config: &XdpConfig,
    inside: Inside,
    memory: Arc<Mapping>,
    table: &Arc<FrameTable>,
    late: Arc<LateKicks>,
) -> Result<Opened, AddXdpError> {
    let chunk = config.chunk_bytes as usize;
    let frame_bytes = config.chunk_bytes - HEADROOM_BYTES;
    let cut = ArenaConfig {
        mapping: memory.clone(),
        offset: HEADROOM_BYTES as usize,
        stride: chunk,
        frames_per_home: config.frames_per_home(),
        homes: 2 * config.queues,
    };
    let (arena, pools) = table.add_arena_with_gaps(cut, frame_bytes as usize)?;
    let mut pools = pools.into_iter();
    let mut pool = || pools.next().expect("an arena has the homes that were asked for");
    let (mut queues, mut sockets, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for (queue, (socket, rings)) in (0..).zip(inside.sockets) {
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
        let tx = TxQueue::new(TxEnd::Xsk(Box::new(tx)), table.clone(), frame_bytes);
        queues.push(QueuePair { rx, tx, irq });
        sockets.push(socket);
        lines.push(line);
    }
    let senders_at = config.queue_frames() as usize * chunk + HEADROOM_BYTES as usize;
    let senders =
        SenderSpace::new(config.senders, config.sender_frames, config.chunk_bytes, Some((memory, senders_at)))
            .with_gap(HEADROOM_BYTES);
    let kept = Kept {
        name: config.interface.clone(),
        ifindex: inside.interface.ifindex,
        mode: inside.mode,
        sockets: sockets.into(),
        lines,
        link: inside.link,
        had_lro: inside.had_lro,
        late,
        query: inside.query,
        changes: inside.changes,
        beside: inside.beside,
        own_mac: false,
        queues: Queues::default(),
    };
    Ok(Opened { interface: inside.interface, ports: Ports { queues, senders }, kept })
}
