//! What a server is to be, and what of that can be checked before it starts.

use std::net::SocketAddr;

use anyhow::ensure;
use napier_core::control::plan::Plan;
use napier_kv::serve::worker::Addresses;
use napier_kv::service::Service;

use super::device::DeviceConfig;
use super::limits::Limits;
use crate::modes::Mode;
use crate::shown::Shown;

/// What a server is to be.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Where its sockets are, and the address that it is reached at.
    pub device: DeviceConfig,
    /// Port of memcached's protocols, over TCP and UDP.
    pub port: u16,
    /// Port of RESP2.
    pub resp_port: Option<u16>,
    /// Port of sockperf's messages, over TCP and UDP.
    pub sockperf_port: Option<u16>,
    /// How packets are delivered; `None` leaves it as it is.
    pub mode: Option<Mode>,
    /// Threads that serve.
    pub workers: usize,
    /// Bounds on what clients can take.
    pub limits: Limits,
    /// Time that each request takes its worker beside, and the seed from which it is drawn.
    pub service: Option<(Service, u64)>,
    /// Whether an engine answers at a control socket.
    pub control: bool,
    /// Where an engine is shown.
    pub shown: Shown,
}

impl ServeConfig {
    /// Checks what can be checked before anything is started.
    ///
    /// # Errors
    /// The first field that cannot be; the message says what it may be.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!((1..=256).contains(&self.workers), "--workers must be 1 to 256");
        self.limits.check()?;
        ensure!(self.port != 0, "--port must be 1 to 65535");
        let more = [("--resp-port", self.resp_port), ("--sockperf-port", self.sockperf_port)];
        for (name, port) in more {
            ensure!(port != Some(0), "{name} must be 1 to 65535");
            ensure!(port != Some(self.port), "{name} must be another than --port");
            ensure!(
                port.is_none() || self.mode != Some(Mode::BusyRead),
                "in mode busy-read each worker blocks in a receive on its UDP socket, so there is no {name}"
            );
        }
        ensure!(
            self.resp_port.is_none() || self.resp_port != self.sockperf_port,
            "--sockperf-port must be another than --resp-port"
        );
        Ok(())
    }

    pub(super) fn addresses(&self) -> Addresses {
        let at = |port| SocketAddr::new(self.device.ip, port);
        Addresses {
            memcached: Some(at(self.port)),
            udp: Some(at(self.port)),
            redis: self.resp_port.map(at),
            sockperf: self.sockperf_port.map(at),
        }
    }

    /// What the mode sets; nothing without one.
    pub(super) fn plan(&self) -> Plan {
        self.mode.map(Mode::plan).unwrap_or_default()
    }
}
