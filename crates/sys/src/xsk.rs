//! AF_XDP sockets: their options, their rings and their kicks.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use napier_ring::Mapping;
use napier_ring::xsk::{FillWake, KernelRing, RingKind, RingPlaces, TxWake, XskRingError};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::sockopt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XdpOptionsFlags, XdpRingOffset, XdpStatistics,
    XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with};

/// Where each ring is mapped from. Source: `include/uapi/linux/if_xdp.h` `XDP_PGOFF_*`.
const PLACE_RX: u64 = 0;
const PLACE_TX: u64 = 0x8000_0000;
const PLACE_FILL: u64 = 0x1_0000_0000;
const PLACE_COMPLETION: u64 = 0x1_8000_0000;
/// Same file; since Linux 6.18.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// How the sockets of a device are polled below: `SO_PREFER_BUSY_POLL` and its companions.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct XdpBusyPoll {
    /// `SO_BUSY_POLL`: how long the kernel polls in a call that waits, us.
    pub usecs: u32,
    /// `SO_BUSY_POLL_BUDGET`: packets of one poll of the kernel's, 1 to 65535.
    pub budget: u16,
}

/// Whether the kernel copies packets between the driver's memory and ours.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum CopyMode {
    /// It does.
    Always,
    /// Only if the driver cannot use our memory itself.
    IfNeeded,
    /// It does not, or binding is refused.
    Never,
}

/// An AF_XDP socket.
pub struct XskSocket {
    fd: OwnedFd,
}

/// Slots of the rings of one socket, each a power of two.
#[derive(Copy, Clone)]
pub struct RingSizes {
    /// Frames for the kernel to receive into.
    pub fill: u32,
    /// Packets received.
    pub rx: u32,
    /// Packets to send.
    pub tx: u32,
    /// Frames of packets that were sent.
    pub completion: u32,
}

/// The rings of a socket.
pub struct Rings {
    /// Frames for the kernel to receive into.
    pub fill: KernelRing,
    /// Packets received.
    pub rx: KernelRing,
    /// Packets to send.
    pub tx: KernelRing,
    /// Frames of packets that were sent.
    pub completion: KernelRing,
}

/// What a kick did.
pub enum Kicked {
    /// The kernel has looked at the whole ring.
    Done,
    /// It has not: kick again. The queue below is full, or this was all that one call sends.
    Again(TxWake),
    /// The interface is down or gone; what waits stays where it is.
    Unreachable(TxWake),
}

impl XskSocket {
    /// Makes a socket, in the namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// `EPERM` without `CAP_NET_RAW`, `EAFNOSUPPORT` if the kernel has no AF_XDP.
    pub fn new() -> io::Result<Self> {
        let fd = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        Ok(Self { fd })
    }

    /// Lends the kernel the memory, in chunks. It stays mapped as long as `memory` lives, which must be longer than the
    /// socket: the kernel keeps its pages, so what is unmapped earlier is only lost to us.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if the memory that may be locked is used up (`ulimit -l`).
    pub fn lend_memory(&self, memory: &Mapping, chunk_bytes: u32) -> io::Result<()> {
        let memory = XdpUmemReg {
            addr: memory.address() as u64,
            len: memory.len() as u64,
            chunk_size: chunk_bytes,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        Ok(sockopt::set_xdp_umem_reg(&self.fd, memory)?)
    }

    /// Makes the four rings and maps them.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the kernel says about its own rings cannot be.
    pub fn make_rings(&self, sizes: RingSizes) -> io::Result<Rings> {
        sockopt::set_xdp_umem_fill_ring_size(&self.fd, sizes.fill)?;
        sockopt::set_xdp_umem_completion_ring_size(&self.fd, sizes.completion)?;
        sockopt::set_xdp_rx_ring_size(&self.fd, sizes.rx)?;
        sockopt::set_xdp_tx_ring_size(&self.fd, sizes.tx)?;
        let offsets = sockopt::xdp_mmap_offsets(&self.fd)?;
        let ring = |offsets: XdpRingOffset, place, kind, slots| self.map_ring(offsets, place, kind, slots);
        Ok(Rings {
            fill: ring(offsets.fr, PLACE_FILL, RingKind::Addresses, sizes.fill)?,
            rx: ring(offsets.rx, PLACE_RX, RingKind::Packets, sizes.rx)?,
            tx: ring(offsets.tx, PLACE_TX, RingKind::Packets, sizes.tx)?,
            completion: ring(offsets.cr, PLACE_COMPLETION, RingKind::Addresses, sizes.completion)?,
        })
    }

    fn map_ring(&self, offsets: XdpRingOffset, place: u64, kind: RingKind, slots: u32) -> io::Result<KernelRing> {
        let slot_bytes = match kind {
            RingKind::Addresses => 8,
            RingKind::Packets => 16,
        };
        let len = usize::try_from(offsets.desc).ok().and_then(|desc| desc.checked_add(slots as usize * slot_bytes));
        let len = len.ok_or(io::ErrorKind::InvalidData)?;
        let pages = RingPages::map(&self.fd, len, place)?;
        let base = pages.base;
        // SAFETY: `pages` keeps `len` readable and writable bytes mapped until it is dropped; the kernel initialised
        // them; only this function knows their address, and `KernelRing` touches them with atomics only.
        let mapping = unsafe { Mapping::from_raw(base, len, Box::new(pages)) };
        // Kernels before 5.4 have no flags: no need for a wake-up can be told, and binding with it is refused.
        let flags = offsets.flags.ok_or(io::ErrorKind::Unsupported)?;
        let places =
            RingPlaces { producer: offsets.producer, consumer: offsets.consumer, flags, descriptors: offsets.desc };
        KernelRing::new(&Arc::new(mapping), places, kind, slots)
            .map_err(|error: XskRingError| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Binds the socket to a queue, with the memory that it has lent.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the queue has a socket, `EINVAL` if there is no such queue, `ENODEV`, `EOPNOTSUPP` if the kernel
    /// must never copy and the driver has no zero copy, `ENETDOWN`.
    pub fn bind(&self, ifindex: u32, queue: u32, copy: CopyMode) -> io::Result<()> {
        let flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP
            | match copy {
                CopyMode::Always => SocketAddrXdpFlags::XDP_COPY,
                CopyMode::IfNeeded => SocketAddrXdpFlags::empty(),
                CopyMode::Never => SocketAddrXdpFlags::XDP_ZEROCOPY,
            };
        Ok(rustix::net::bind(&self.fd, &SocketAddrXdp::new(flags, ifindex, queue))?)
    }

    /// Binds the socket to a queue, with the memory that another socket has lent, and the same way of copying.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub fn bind_shared(&self, ifindex: u32, queue: u32, lender: &Self) -> io::Result<()> {
        let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, ifindex, queue);
        let shared = SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: lender.fd.as_fd() };
        Ok(rustix::net::bind(&self.fd, &shared)?)
    }

    /// Lets polls of the socket drive the kernel's NAPI.
    ///
    /// # Errors
    ///
    /// `EPERM` without `CAP_NET_ADMIN`, `ENOPROTOOPT` before Linux 5.11.
    pub fn busy_poll(&self, busy: XdpBusyPoll) -> io::Result<()> {
        set(&self.fd, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, 1)?;
        set(&self.fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, i32::try_from(busy.usecs).unwrap_or(i32::MAX))?;
        set(&self.fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET, i32::from(busy.budget.max(1)))
    }

    /// The kernel's NAPI instance that the socket hears from; 0 if the kernel does not know it.
    pub fn napi_id(&self) -> u32 {
        let mut id: libc::c_uint = 0;
        let mut size = size_of::<libc::c_uint>() as libc::socklen_t;
        let (fd, at) = (self.fd.as_raw_fd(), (&raw mut id).cast::<c_void>());
        // SAFETY: `id` has the size that is announced, and lives through the call.
        let failed = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID, at, &raw mut size) };
        if failed == 0 { id } else { 0 }
    }

    /// Packets that one kick sends, where the kernel lets this be set.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT` before Linux 6.18.
    pub fn set_kick_budget(&self, packets: u32) -> io::Result<()> {
        set(&self.fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, i32::try_from(packets).unwrap_or(i32::MAX))
    }

    /// Whether the driver reads and writes our memory itself.
    pub fn is_zero_copy(&self) -> bool {
        sockopt::xdp_options(&self.fd).is_ok_and(|flags| flags.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    /// What the kernel counts of the socket.
    pub fn statistics(&self) -> io::Result<XdpStatistics> {
        Ok(sockopt::xdp_statistics(&self.fd)?)
    }

    /// Tells the kernel that packets wait.
    pub fn kick(&self, wake: TxWake) -> Kicked {
        match rustix::net::send(&self.fd, &[], SendFlags::DONTWAIT) {
            Ok(_) => Kicked::Done,
            Err(rustix::io::Errno::NETDOWN | rustix::io::Errno::NXIO | rustix::io::Errno::NODEV) => {
                Kicked::Unreachable(wake)
            }
            // AGAIN: one call's worth, or no room below. BUSY: a packet was dropped there. NOBUFS: no memory now.
            Err(_) => Kicked::Again(wake),
        }
    }

    /// Tells the kernel that there are frames to fill.
    pub fn wake_fill(&self, wake: FillWake) {
        drop(wake);
        self.poll_kernel();
    }

    /// Polls the kernel's NAPI once, if the socket is set to.
    pub fn poll_kernel(&self) {
        // Whatever it says, the ring is looked at next.
        let _ = rustix::net::recv(&self.fd, &mut [0_u8; 0], RecvFlags::DONTWAIT);
    }
}

fn set(socket: &impl AsFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let at = (&raw const value).cast::<c_void>();
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` has the size that is announced, and lives through the call.
    let failed = unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, at, size) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl AsFd for XskSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A mapped ring. It keeps the socket alive in the kernel, so it has to go for the queue to become free.
struct RingPages {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: `RingPages` only unmaps; it never reads or writes the bytes.
unsafe impl Send for RingPages {}
// SAFETY: as above.
unsafe impl Sync for RingPages {}

impl RingPages {
    fn map(socket: &OwnedFd, len: usize, place: u64) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else is touched.
        let base = unsafe { rustix::mm::mmap(null_mut(), len, access, flags, socket, place) }?;
        let base = NonNull::new(base.cast::<u8>()).expect("mmap does not return the null page");
        Ok(Self { base, len })
    }
}

impl Drop for RingPages {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, unmapped once, and the owner of the bytes is gone.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast::<c_void>(), self.len) };
        assert!(unmapped.is_ok(), "munmap of our own mapping failed");
    }
}
