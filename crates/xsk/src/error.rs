//! What can go wrong when sockets are opened on an interface.

use std::io;

/// Why no sockets were opened on an interface.
#[derive(Debug, thiserror::Error)]
pub enum XskError {
    /// A field of the configuration.
    #[error("{what}")]
    Config {
        /// Which, and what it can be.
        what: String,
    },
    /// There is no such interface in the namespace.
    #[error("no interface {interface:?} in this network namespace: see ip link")]
    NoSuchInterface {
        /// As asked for.
        interface: String,
    },
    /// A capability is missing.
    #[error("{what} needs {capability}: run as root, or give the program the capability")]
    NeedsCapability {
        /// What was tried.
        what: &'static str,
        /// What it takes.
        capability: &'static str,
    },
    /// A queue has a socket already.
    #[error(
        "queue {queue} of {interface} has an AF_XDP socket already: stop the program that uses it, or take another"
    )]
    QueueBusy {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u16,
    },
    /// The interface has fewer queues.
    #[error("{interface} has no queue {queue}: see ethtool -l {interface}")]
    NoSuchQueue {
        /// The interface.
        interface: String,
        /// The queue asked for.
        queue: u16,
    },
    /// Another program is on the interface.
    #[error("another XDP program is attached to {interface}: {mend}")]
    ProgramAttached {
        /// The interface.
        interface: String,
        /// How it is taken off.
        mend: String,
    },
    /// Packets may be longer than a frame.
    #[error(
        "the MTU of {interface} is {mtu}, and a frame of AF_XDP takes {most}: use {larger}a lower MTU \
         (ip link set {interface} mtu {most})"
    )]
    MtuTooLarge {
        /// The interface.
        interface: String,
        /// Its MTU in bytes.
        mtu: u32,
        /// The largest that a frame takes.
        most: u32,
        /// What else there is to do.
        larger: &'static str,
    },
    /// The driver cannot do what was asked for.
    #[error(
        "{interface} has no native XDP here ({source}): use the generic mode (XdpMode::Generic), or a lower MTU than {mtu} at both \
         ends if the driver has native XDP"
    )]
    NoNative {
        /// The interface.
        interface: String,
        /// Its MTU in bytes.
        mtu: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// The driver copies.
    #[error("the driver of {interface} has no zero copy for queue {queue} here ({source}): allow it to copy")]
    NoZeroCopy {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u16,
        /// What the kernel said.
        source: io::Error,
    },
    /// The frames of the queues.
    #[error("the frames cannot be registered: {0}")]
    Arena(#[from] napier_ring::ArenaError),
    /// Memory.
    #[error(
        "{bytes} bytes of memory for AF_XDP: {source}; raise the limit on locked memory (ulimit -l) or use fewer frames"
    )]
    Memory {
        /// As needed.
        bytes: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// Anything else that the kernel refused.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl XskError {
    /// Whether a capability or a part of the kernel is missing, rather than something being wrong.
    #[must_use]
    pub fn is_privilege(&self) -> bool {
        match self {
            Self::NeedsCapability { .. } => true,
            Self::System { source, .. } => {
                source.kind() == io::ErrorKind::Unsupported
                    || matches!(source.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::ENOSYS | libc::ENOPROTOOPT))
            }
            _ => false,
        }
    }

    /// What kind of error of the system this is.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::NoSuchInterface { .. } | Self::NoSuchQueue { .. } => io::ErrorKind::NotFound,
            Self::NeedsCapability { .. } => io::ErrorKind::PermissionDenied,
            Self::QueueBusy { .. } | Self::ProgramAttached { .. } => io::ErrorKind::ResourceBusy,
            Self::Config { .. } | Self::MtuTooLarge { .. } => io::ErrorKind::InvalidInput,
            Self::NoNative { .. } | Self::NoZeroCopy { .. } => io::ErrorKind::Unsupported,
            Self::Arena(_) | Self::Memory { .. } => io::ErrorKind::OutOfMemory,
            Self::System { source, .. } => source.kind(),
        }
    }

    /// What was refused, and the capability that it takes.
    #[doc(hidden)]
    pub fn refused(what: &'static str, capability: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NeedsCapability { what, capability },
            _ => Self::System { what, source },
        }
    }
}

/// Of its [kind](XskError::kind), with the error inside for what it says.
impl From<XskError> for io::Error {
    fn from(error: XskError) -> Self {
        Self::new(error.kind(), error)
    }
}
