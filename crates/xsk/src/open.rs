//! Opening an interface: sockets, memory and program, in an order in which whatever fails leaves nothing behind.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use napier_ring::xsk::HEADROOM_BYTES;
use napier_ring::{ArenaConfig, Mapping};

use crate::config::{LINK_BYTES, XdpMode, XskConfig};
use crate::error::XskError;
use crate::namespace::in_namespace;
use crate::offload::HadLro;
use crate::program::XdpVerdict;
use crate::{attached, beside};
use napier_sys::bpf;
use napier_sys::mmap::private_memory;
use napier_sys::netdev::{self, Netdev};
use napier_sys::xsk::{CopyMode, RingSizes, Rings, XskSocket};

/// How long a queue may stay busy because the kernel has not finished with its last socket: it does so in a work item that
/// waits for the lock of all interfaces.
const BUSY_MAX: Duration = Duration::from_secs(2);

/// The program of an interface: on it as long as this is there.
#[derive(Debug)]
pub struct AttachedProgram {
    _link: OwnedFd,
    /// Behind the link, for fields are dropped in this order.
    _had_lro: Option<HadLro>,
}

/// An interface that was opened: bound sockets whose rings have not been used, for a program that has frames of its own.
pub struct OpenedInterface {
    /// As it was then.
    pub interface: Netdev,
    /// To ask about the interface, in its namespace.
    pub query: OwnedFd,
    /// Readable when an interface there has changed.
    pub changes: OwnedFd,
    /// Packet sockets: what goes on to the kernel and is worth hearing.
    pub beside: Vec<OwnedFd>,
    /// Where the kernel calls the program.
    pub mode: XdpMode,
    /// Dropped before the sockets are.
    pub program: AttachedProgram,
    /// By queue.
    pub sockets: Vec<(XskSocket, Rings)>,
    /// The memory that all sockets share: `[receive and send frames of queue 0][of queue 1]..[spare frames]`.
    pub memory: Arc<Mapping>,
}

/// Opens an interface. `own` are the addresses that [`XdpFilter::OwnAddresses`](crate::XdpFilter) stands for.
///
/// # Errors
///
/// See [`XskError`]; nothing is left on the interface then.
pub fn open(config: &XskConfig, own: &[IpAddr]) -> Result<OpenedInterface, XskError> {
    let memory = make_memory(config)?;
    in_namespace(config, || open_inside(config, own, memory))
}

/// How the frames of the queues are cut out of the memory: two homes for each, and the bytes of a frame.
#[must_use]
pub fn cut(config: &XskConfig, memory: &Arc<Mapping>) -> (ArenaConfig, usize) {
    let arena = ArenaConfig {
        mapping: memory.clone(),
        offset: HEADROOM_BYTES as usize,
        stride: config.chunk_bytes as usize,
        frames_per_home: config.frames_per_home(),
        homes: 2 * config.queues,
    };
    (arena, (config.chunk_bytes - HEADROOM_BYTES) as usize)
}

fn make_memory(config: &XskConfig) -> Result<Arc<Mapping>, XskError> {
    let bytes = config.memory_bytes();
    let memory = usize::try_from(bytes).map_err(io::Error::other).and_then(private_memory);
    Ok(Arc::new(memory.map_err(|source| XskError::Memory { bytes, source })?))
}

fn open_inside(config: &XskConfig, addresses: &[IpAddr], memory: Arc<Mapping>) -> Result<OpenedInterface, XskError> {
    let name = &config.interface;
    let asking = XskError::refused("asking about an interface", "CAP_NET_ADMIN");
    let query = netdev::query_socket().map_err(&asking)?;
    let changes = netdev::change_socket().map_err(&asking)?;
    let interface = netdev::netdev(&query, name).map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV) => XskError::NoSuchInterface { interface: name.clone() },
        _ => asking(error),
    })?;
    let most = config.chunk_bytes - HEADROOM_BYTES - LINK_BYTES;
    if interface.mtu > most {
        let larger =
            if config.chunk_bytes < 4096 && interface.mtu <= most + 2048 { "chunks of 4096 bytes, or " } else { "" };
        return Err(XskError::MtuTooLarge { interface: name.clone(), mtu: interface.mtu, most, larger });
    }
    let queues = u32::from(config.first_queue + config.queues);
    let loading = XskError::refused("loading an XDP program", "CAP_BPF and CAP_NET_ADMIN");
    // The socket first: it needs the most common capability of all, and says so.
    let sockets: Result<Vec<_>, _> = (0..config.queues).map(|_| XskSocket::new()).collect();
    let sockets = sockets.map_err(XskError::refused("an AF_XDP socket", "CAP_NET_RAW"))?;
    let map = bpf::XskMap::new(queues).map_err(&loading)?;
    let program = config.filter.compile(addresses, XdpVerdict::Redirect(map.as_fd()));
    let program = bpf::load_xdp(&program).map_err(&loading)?;
    let veth = netdev::driver(&query, name).is_some_and(|driver| driver == "veth");
    // It hands packets of its queues to the stack by the wrong number, so this is for the first alone.
    let prefer_generic = veth && queues == 1;
    // Before the link, so that it is dropped after it.
    let had_lro = HadLro::of(&query, name, &interface);
    let (link, mode) = attach(config, &program, interface, prefer_generic)?;
    let sockets = bind_all(config, interface.ifindex, sockets, &memory, mode)?;
    for (queue, (socket, _)) in (u32::from(config.first_queue)..).zip(&sockets) {
        map.put_socket(queue, socket.as_fd()).map_err(&loading)?;
    }
    let hearing = XskError::refused("a packet socket", "CAP_NET_RAW");
    let beside = beside::listen(interface.ifindex, &config.filter, addresses).map_err(hearing)?;
    let program = AttachedProgram { _link: link, _had_lro: had_lro };
    Ok(OpenedInterface { interface, query, changes, beside, mode, program, sockets, memory })
}

/// Attaches the program as the configuration wants it.
fn attach(
    config: &XskConfig,
    program: &OwnedFd,
    Netdev { ifindex, mtu, .. }: Netdev,
    prefer_generic: bool,
) -> Result<(OwnedFd, XdpMode), XskError> {
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
            XskError::ProgramAttached { interface: interface(), mend: attached::mend(&interface(), ifindex) }
        }
        Some(libc::ENODEV) => XskError::NoSuchInterface { interface: interface() },
        Some(libc::EOPNOTSUPP | libc::ERANGE | libc::EINVAL) if config.mode != XdpMode::Auto => {
            XskError::NoNative { interface: interface(), mtu, source }
        }
        _ => XskError::refused("attaching an XDP program", "CAP_NET_ADMIN")(source),
    })
}

/// Binds a socket to each queue. The first lends the memory, and the others share it.
fn bind_all(
    config: &XskConfig,
    ifindex: u32,
    sockets: Vec<XskSocket>,
    memory: &Mapping,
    mode: XdpMode,
) -> Result<Vec<(XskSocket, Rings)>, XskError> {
    let opening = XskError::refused("opening an AF_XDP socket", "CAP_NET_RAW");
    let lending = |source| XskError::Memory { bytes: memory.len() as u64, source };
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
            socket.busy_poll(busy).map_err(XskError::refused("busy polling (SO_PREFER_BUSY_POLL)", "CAP_NET_ADMIN"))?;
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
            Some(libc::EBUSY) => XskError::QueueBusy { interface: config.interface.clone(), queue },
            Some(libc::EINVAL) => XskError::NoSuchQueue { interface: config.interface.clone(), queue },
            Some(libc::EOPNOTSUPP) if way == CopyMode::Never => {
                XskError::NoZeroCopy { interface: config.interface.clone(), queue, source: error }
            }
            _ => XskError::refused("binding an AF_XDP socket", "CAP_NET_RAW")(error),
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
