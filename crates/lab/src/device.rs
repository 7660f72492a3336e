//! Devices, as `--over` names them.

use napier_runtime::device::{XdpConfig, XdpMode};

/// What connects a program with its peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// A link in shared memory, both ends in the engine of this process.
    #[default]
    Link,
    /// The kernel's stack.
    Kernel {
        /// The one interface that sockets are bound to.
        interface: Option<String>,
    },
    /// A memif, the peer in another process.
    Memif {
        /// Path of the control socket, or `@` and an abstract name; `None`: one is made for the run.
        socket: Option<String>,
    },
    /// AF_XDP sockets of the engine on an interface of the kernel.
    Xdp {
        /// Its name; `None`: a veth pair is made for the run.
        interface: Option<String>,
    },
}

impl Device {
    /// Reads a kind, or a kind and where it is, such as `xdp:eth0`; `None` if there is no such device.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, at) = match text.split_once(':') {
            Some((_, "")) => return None,
            Some((kind, at)) => (kind, Some(at.to_owned())),
            None => (text, None),
        };
        Some(match kind {
            "link" if at.is_none() => Self::Link,
            "kernel" => Self::Kernel { interface: at },
            "memif" => Self::Memif { socket: at },
            "xdp" => Self::Xdp { interface: at },
            _ => return None,
        })
    }

    /// As [`parse`](Self::parse) reads it.
    pub fn name(&self) -> String {
        let (kind, at) = match self {
            Self::Link => ("link", None),
            Self::Kernel { interface } => ("kernel", interface.as_ref()),
            Self::Memif { socket } => ("memif", socket.as_ref()),
            Self::Xdp { interface } => ("xdp", interface.as_ref()),
        };
        at.map_or_else(|| kind.to_owned(), |at| format!("{kind}:{at}"))
    }
}

/// How the kernel hands packets to an AF_XDP device, as `--xdp` names it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum XdpWay {
    /// Zero copy where the driver has it, else what is fastest.
    #[default]
    Auto,
    /// The driver uses the device's memory; refused where it cannot.
    ZeroCopy,
    /// The driver copies.
    Copy,
    /// The kernel's stack copies; works with every driver.
    Generic,
}

impl XdpWay {
    /// All, with the words that name them.
    pub const NAMES: [(&str, Self); 4] =
        [("auto", Self::Auto), ("zerocopy", Self::ZeroCopy), ("copy", Self::Copy), ("generic", Self::Generic)];

    /// Puts it into a configuration.
    pub(crate) fn on(self, config: XdpConfig) -> XdpConfig {
        let (mode, zero_copy) = match self {
            Self::Auto => (XdpMode::Auto, true),
            Self::ZeroCopy => (XdpMode::ZeroCopy, true),
            Self::Copy => (XdpMode::Native, false),
            Self::Generic => (XdpMode::Generic, false),
        };
        XdpConfig { mode, zero_copy, ..config }
    }
}

impl std::str::FromStr for XdpWay {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::NAMES.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, way)| way).ok_or("no such way; give auto, zerocopy, copy or generic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_read_by_its_name() {
        for name in ["link", "kernel", "kernel:eth0", "memif", "memif:@a:b", "xdp", "xdp:eth0"] {
            assert_eq!(Device::parse(name).map(|device| device.name()), Some(name.to_owned()));
        }
        for name in ["", "link:x", "kernel:", "xdp:", "nic"] {
            assert_eq!(Device::parse(name), None, "{name}");
        }
    }
}
