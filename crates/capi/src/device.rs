//! Devices as C describes them.

use std::ffi::c_char;
use std::hash::{BuildHasher as _, RandomState};

use napier_runtime::device::{
    AddDeviceError, AddInterfaceError, AddLinkError, AddMemifError, AddXdpError, EndConfig, IfAddr, LinkConfig,
    LinkError, MemifAccess, MemifConfig, MemifRole, MemifSecret, MemifSocketError, ParseIfAddrError, XdpConfig,
    XdpFilter, XdpMode, XskError,
};
use napier_runtime::socket::NetNs;

use crate::error::Failure;
use crate::memory::{self, Options};

/// What every device has. Zero is the default of each member but the first two.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct NapierDeviceOptions {
    /// sizeof(struct napier_device_options).
    pub size: usize,
    /// 1 to 15 bytes.
    pub name: *const c_char,
    /// Own addresses, each with the length of its prefix, with commas between them: "192.0.2.10/24,2001:db8::10/64".
    pub addresses: *const c_char,
    /// A name space of the engine (napier_netns); 0: the engine's first.
    pub netns: i32,
    /// Queues each way; 0: one, of an interface all that it has.
    pub queues: u32,
    /// Slots of each ring, a power of two; 0: 1024.
    pub ring_size: u32,
    /// Bytes of a frame, of AF_XDP those of a chunk; 0: 2048, of AF_XDP 4096 if the MTU needs it.
    pub frame_bytes: u32,
    /// Ethernet address; all zero: one is made up, of an interface its own.
    pub mac: [u8; 6],
    /// Zero.
    pub reserved: [u8; 2],
}

// SAFETY: numbers and pointers, the size first.
unsafe impl Options for NapierDeviceOptions {}

/// A memif device, whose peer is another process.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct NapierMemifOptions {
    /// sizeof(struct napier_memif_options).
    pub size: usize,
    /// Path of the control socket, or `@` and an abstract name.
    pub socket: *const c_char,
    /// NAPIER_MEMIF_SERVER listens, NAPIER_MEMIF_CLIENT connects and owns the memory.
    pub role: u32,
    /// Number of the interface on the socket, the same on both sides.
    pub id: u32,
    /// What a client must know and says, 1 to 24 bytes; NULL: nothing.
    pub secret: *const c_char,
    /// Of a server: who may connect, as permission bits of a file; 0: 0600, this user.
    pub access: u32,
    /// Not 0: TCP connections stay when the peer goes.
    pub keep_connections: u32,
}

// SAFETY: numbers and pointers, the size first.
unsafe impl Options for NapierMemifOptions {}

/// A device on a network interface of the kernel. It needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct NapierXdpOptions {
    /// sizeof(struct napier_xdp_options).
    pub size: usize,
    /// Name of the interface, in the network namespace of the calling thread.
    pub interface: *const c_char,
    /// First queue that is used.
    pub first_queue: u32,
    /// NAPIER_XDP_AUTO, NAPIER_XDP_ZERO_COPY, NAPIER_XDP_NATIVE or NAPIER_XDP_GENERIC.
    pub mode: u32,
    /// Not 0: the driver copies, although it may be able to do without.
    pub copy: u32,
    /// Not 0: every packet of the queues is the device's, and the kernel hears nothing on them; 0: those to its own addresses.
    pub everything: u32,
}

// SAFETY: numbers and a pointer, the size first.
unsafe impl Options for NapierXdpOptions {}

/// A memif that listens.
pub const NAPIER_MEMIF_SERVER: u32 = 0;
/// A memif that connects.
pub const NAPIER_MEMIF_CLIENT: u32 = 1;
/// Without a copy where the driver can, else whichever is faster.
pub const NAPIER_XDP_AUTO: u32 = 0;
/// Without a copy, or not at all.
pub const NAPIER_XDP_ZERO_COPY: u32 = 1;
/// In the driver.
pub const NAPIER_XDP_NATIVE: u32 = 2;
/// In the kernel's stack, with every driver.
pub const NAPIER_XDP_GENERIC: u32 = 3;

/// Addresses of a device, most.
const ADDRESSES_MAX: usize = 64;

/// Options that were read.
pub(crate) struct Described {
    pub(crate) end: EndConfig,
    queues: u16,
    ring_size: u32,
    frame_bytes: u32,
}

impl Described {
    /// The end of a device in `netns`.
    ///
    /// # Safety
    /// The texts of the options are NULL or end with a NUL.
    pub(crate) unsafe fn read(options: &NapierDeviceOptions, netns: &NetNs) -> Result<Self, Failure> {
        if options.reserved != [0; 2] {
            return Err(Failure::invalid("what is reserved is not zero"));
        }
        // SAFETY: as the caller says.
        let name = unsafe { memory::needed_text(options.name, "the name of the device") }?;
        // SAFETY: as the caller says.
        let addresses = unsafe { memory::text(options.addresses, "addresses") }?.unwrap_or("");
        let queues = u16::try_from(options.queues).map_err(|_| Failure::invalid("a device has at most 64 queues"))?;
        let addresses = addresses_of(addresses)?;
        let end = EndConfig { mac: options.mac, ..EndConfig::new(name, netns.clone(), &addresses) };
        Ok(Self { end, queues, ring_size: options.ring_size, frame_bytes: options.frame_bytes })
    }

    /// With an Ethernet address of its own.
    pub(crate) fn with_mac(mut self) -> Self {
        if self.end.mac == [0; 6] {
            // Administered locally, of one station.
            let [a, b, c, d, e, ..] = RandomState::new().hash_one(&self.end.name).to_ne_bytes();
            self.end.mac = [2, a, b, c, d, e];
        }
        self
    }

    /// The shape of a link whose first end this is.
    pub(crate) fn link(&self) -> LinkConfig {
        let default = LinkConfig::default();
        LinkConfig {
            queues: if self.queues == 0 { default.queues } else { self.queues },
            ring_size: if self.ring_size == 0 { default.ring_size } else { self.ring_size },
            frame_bytes: if self.frame_bytes == 0 { default.frame_bytes } else { self.frame_bytes },
            ..default
        }
    }

    /// A memif.
    ///
    /// # Safety
    /// The texts of the options are NULL or end with a NUL.
    pub(crate) unsafe fn memif(&self, options: &NapierMemifOptions) -> Result<MemifConfig, Failure> {
        // SAFETY: as the caller says.
        let socket = unsafe { memory::needed_text(options.socket, "the socket of the memif") }?;
        // SAFETY: as the caller says.
        let secret = unsafe { memory::text(options.secret, "the secret") }?;
        let secret = secret.map(|secret| {
            MemifSecret::new(secret.as_bytes()).ok_or_else(|| Failure::invalid("a secret has 1 to 24 bytes"))
        });
        let role = match options.role {
            NAPIER_MEMIF_SERVER => MemifRole::Server,
            NAPIER_MEMIF_CLIENT => MemifRole::Client,
            other => return Err(Failure::invalid(format!("role {other}: NAPIER_MEMIF_SERVER or NAPIER_MEMIF_CLIENT"))),
        };
        let LinkConfig { queues, ring_size, frame_bytes, .. } = self.link();
        let mut config = MemifConfig { queues, ring_size, frame_bytes, ..MemifConfig::new(role, socket) };
        config.id = options.id;
        config.secret = secret.transpose()?;
        if options.access != 0 {
            config.access = MemifAccess { mode: options.access, group: None };
        }
        config.keep_connections = options.keep_connections != 0;
        Ok(config)
    }

    /// A device on an interface.
    ///
    /// # Safety
    /// The texts of the options are NULL or end with a NUL.
    pub(crate) unsafe fn xdp(&self, options: &NapierXdpOptions) -> Result<XdpConfig, Failure> {
        // SAFETY: as the caller says.
        let interface = unsafe { memory::needed_text(options.interface, "the name of the interface") }?;
        let first = u16::try_from(options.first_queue);
        let mut config = XdpConfig::on(interface);
        config.first_queue = first.map_err(|_| Failure::invalid("first_queue is no queue"))?;
        config.queues = self.queues;
        config.ring_size = if self.ring_size == 0 { config.ring_size } else { self.ring_size };
        config.chunk_bytes = self.frame_bytes;
        config.mode = match options.mode {
            NAPIER_XDP_AUTO => XdpMode::Auto,
            NAPIER_XDP_ZERO_COPY => XdpMode::ZeroCopy,
            NAPIER_XDP_NATIVE => XdpMode::Native,
            NAPIER_XDP_GENERIC => XdpMode::Generic,
            other => return Err(Failure::invalid(format!("mode {other} is none of NAPIER_XDP_*"))),
        };
        config.zero_copy = options.copy == 0;
        config.filter = if options.everything == 0 { XdpFilter::OwnAddresses } else { XdpFilter::Everything };
        Ok(config)
    }
}

/// Addresses with prefixes, with commas between them.
fn addresses_of(text: &str) -> Result<Vec<IfAddr>, Failure> {
    let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.len() > ADDRESSES_MAX {
        return Err(Failure::invalid(format!("a device has at most {ADDRESSES_MAX} addresses")));
    }
    parts
        .iter()
        .map(|part| part.parse().map_err(|error: ParseIfAddrError| Failure::invalid(error.to_string())))
        .collect()
}

fn of_device(error: &AddDeviceError) -> i32 {
    match error {
        AddDeviceError::NameTaken { .. } => libc::EEXIST,
        AddDeviceError::TooManyInstances => libc::ENOSPC,
        AddDeviceError::System(errno) => errno.raw_os_error(),
        _ => libc::EINVAL,
    }
}

fn of_shape(error: &LinkError) -> i32 {
    match error {
        LinkError::Memory { .. } | LinkError::Arena(_) => libc::ENOMEM,
        LinkError::Irq(source) => source.raw_os_error().unwrap_or(libc::EMFILE),
        _ => libc::EINVAL,
    }
}

impl From<AddLinkError> for Failure {
    fn from(error: AddLinkError) -> Self {
        let errno = match &error {
            AddLinkError::Device(error) => of_device(error),
            AddLinkError::Link(error) => of_shape(error),
        };
        Self::new(errno, error.to_string())
    }
}

fn of_interface(error: &AddInterfaceError) -> i32 {
    match error {
        AddInterfaceError::Socket(MemifSocketError::Taken { .. }) | AddInterfaceError::IdTaken { .. } => {
            libc::EADDRINUSE
        }
        AddInterfaceError::Socket(
            MemifSocketError::System { source, .. } | MemifSocketError::Access { source, .. },
        ) => source.raw_os_error().unwrap_or(libc::EINVAL),
        AddInterfaceError::System(source) => source.raw_os_error().unwrap_or(libc::EMFILE),
        _ => libc::EINVAL,
    }
}

fn of_xsk(error: &XskError) -> i32 {
    match error {
        XskError::NoSuchInterface { .. } => libc::ENODEV,
        XskError::NeedsCapability { .. } => libc::EPERM,
        XskError::QueueBusy { .. } | XskError::ProgramAttached { .. } => libc::EBUSY,
        XskError::NoNative { .. } | XskError::NoZeroCopy { .. } => libc::EOPNOTSUPP,
        XskError::Memory { .. } => libc::ENOMEM,
        XskError::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        _ => libc::EINVAL,
    }
}

impl From<AddMemifError> for Failure {
    fn from(error: AddMemifError) -> Self {
        let errno = match &error {
            AddMemifError::Device(error) => of_device(error),
            AddMemifError::Shape(error) => of_shape(error),
            AddMemifError::Interface(error) => of_interface(error),
            AddMemifError::Memory { .. } | AddMemifError::Arena(_) => libc::ENOMEM,
            AddMemifError::System(source) => source.raw_os_error().unwrap_or(libc::EMFILE),
        };
        Self::new(errno, error.to_string())
    }
}

impl From<AddXdpError> for Failure {
    fn from(error: AddXdpError) -> Self {
        let errno = match &error {
            AddXdpError::Device(error) => of_device(error),
            AddXdpError::Interface(error) => of_xsk(error),
            AddXdpError::Arena(_) => libc::ENOMEM,
        };
        Self::new(errno, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let read = |text| addresses_of(text).map(|all| all.len()).map_err(|failure| failure.number());
        for (text, found) in [
            ("", Ok(0)),
            ("10.0.0.1/24", Ok(1)),
            (" 10.0.0.1/24 , fd00::1/64", Ok(2)),
            ("10.0.0.1", Ok(1)),
            ("10.0.0.1/33", Err(libc::EINVAL)),
            ("10.0.0.1/x", Err(libc::EINVAL)),
            ("10.0.0/24", Err(libc::EINVAL)),
        ] {
            assert_eq!(read(text), found, "{text:?}");
        }
        assert_eq!(read(&"10.0.0.1/24,".repeat(ADDRESSES_MAX + 1)), Err(libc::EINVAL));
    }
}
