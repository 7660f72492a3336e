//! What a configuration leaves to the interface: how many queues, and how long a chunk has to be.

use napier_ring::xsk::HEADROOM_BYTES;
use napier_sys::netdev::{self, Channels};

use crate::config::{LINK_BYTES, QUEUES_MAX, XskConfig};
use crate::error::XskError;
use crate::namespace::in_namespace;

/// The receive queues of an interface.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceQueues {
    /// How many there are; 0: not known.
    pub count: u16,
    /// Each sends as well.
    pub combined: bool,
}

impl InterfaceQueues {
    /// What `ethtool -L` calls them.
    #[must_use]
    pub fn word(self) -> &'static str {
        if self.combined { "combined" } else { "rx" }
    }
}

/// The configuration with what the interface decides, and the queues of the interface.
///
/// # Errors
///
/// A field that cannot be; no such interface, or fewer queues.
pub fn fit(config: &XskConfig) -> Result<(XskConfig, InterfaceQueues), XskError> {
    config.check()?;
    let ask = || {
        let asking = XskError::refused("asking about an interface", "CAP_NET_ADMIN");
        let query = netdev::query_socket().map_err(&asking)?;
        let interface = netdev::netdev(&query, &config.interface).map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV) => XskError::NoSuchInterface { interface: config.interface.clone() },
            _ => asking(error),
        })?;
        Ok((interface.mtu, netdev::channels(&query, &config.interface)))
    };
    let (mtu, channels) = in_namespace(config, ask)?;
    let queues = match channels {
        Some(Channels { receive, combined }) => {
            InterfaceQueues { count: u16::try_from(receive + combined).unwrap_or(u16::MAX), combined: combined > 0 }
        }
        None => InterfaceQueues::default(),
    };
    let mut config = config.clone();
    if config.queues == 0 {
        // Where the driver does not say there is mostly one.
        let left = queues.count.max(1).saturating_sub(config.first_queue);
        if left == 0 {
            return Err(XskError::NoSuchQueue { interface: config.interface, queue: config.first_queue });
        }
        config.queues = left.min(QUEUES_MAX);
    }
    if config.chunk_bytes == 0 {
        config.chunk_bytes = if mtu <= 2048 - HEADROOM_BYTES - LINK_BYTES { 2048 } else { 4096 };
    }
    config.check()?;
    Ok((config, queues))
}
