//! An engine with one device, for programs whose peer is elsewhere.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
pub use napier_runtime::MemifRole;
use napier_runtime::control::NapiSet;
use napier_runtime::{
    Capture, CaptureConfig, DeviceHandle, EndConfig, Engine, IfAddr, MemifConfig, MemifSecret, NetNs,
};

use crate::modes::{ModeParams, PollContext};

/// What is on the other side of an engine's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port {
    /// A memif peer in another process.
    Memif {
        /// Path of the control socket, or `@` and an abstract name.
        socket: String,
        /// Which side this is.
        role: MemifRole,
        /// What a client must know, or says.
        secret: Option<String>,
    },
}

/// A device and the engine that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// What is on the other side.
    pub port: Port,
    /// Receive queues, each with a NAPI instance.
    pub queues: u16,
    /// Own address.
    pub ip: IpAddr,
    /// Length of the network's prefix, in bits.
    pub prefix_len: u8,
    /// Neighbours that are not asked for.
    pub neighbours: Vec<(IpAddr, [u8; 6])>,
    /// File that all frames are recorded in.
    pub pcapng: Option<PathBuf>,
}

/// An engine with one device.
pub struct OneDevice {
    /// The engine.
    pub engine: Engine,
    /// The name space that the device is in.
    pub netns: NetNs,
    /// The device.
    pub device: DeviceHandle,
    capture: Option<(Capture, PathBuf)>,
}

/// The Ethernet address that goes with an address, so that two ends on a wire differ without being told.
pub fn mac_of(ip: IpAddr) -> [u8; 6] {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            [2, 0, a, b, c, d]
        }
        IpAddr::V6(ip) => {
            let octets = ip.octets();
            [2, 6, octets[12], octets[13], octets[14], octets[15]]
        }
    }
}

impl OneDevice {
    /// Starts the engine and adds the device.
    ///
    /// # Errors
    /// The engine does not start, or the device cannot be; the message says what to change.
    pub fn start(config: &EngineConfig) -> anyhow::Result<Self> {
        let engine = Engine::builder().start()?;
        let netns = engine.namespace();
        let end = EndConfig {
            name: "napier0".to_owned(),
            netns: netns.clone(),
            mac: mac_of(config.ip),
            addresses: vec![IfAddr { addr: config.ip, prefix_len: config.prefix_len }],
            irq_cpus: Vec::new(),
        };
        let device = match &config.port {
            Port::Memif { socket, role, secret } => {
                let secret = match secret {
                    None => None,
                    Some(text) => {
                        let secret = MemifSecret::new(text.as_bytes());
                        Some(secret.context("--secret must have 1 to 24 bytes and no NUL")?)
                    }
                };
                let memif = MemifConfig { queues: config.queues, secret, ..MemifConfig::new(*role, socket) };
                engine.add_memif(memif, end).with_context(|| format!("adding the memif device at {socket}"))?
            }
        };
        for &(ip, mac) in &config.neighbours {
            netns.neighbour_add(device.ifindex(), ip, mac).with_context(|| format!("adding the neighbour {ip}"))?;
        }
        let capture = config.pcapng.as_deref().map(|path| start_capture(&device, path)).transpose()?;
        Ok(Self { engine, netns, device, capture })
    }

    /// Puts a mode into force on every queue, by the calls that a user would make.
    ///
    /// # Errors
    /// The engine refuses a setting.
    pub fn configure(&self, mode: &ModeParams) -> anyhow::Result<()> {
        if mode.threaded == PollContext::Workqueue {
            self.device.set_workqueue()?;
        }
        for queue in 0..self.device.queues() {
            self.engine.napi_set(NapiSet {
                id: Some(u64::from(self.device.napi_id(queue))),
                defer_hard_irqs: Some(u64::from(mode.defer_hard_irqs)),
                gro_flush_timeout: Some(mode.gro_flush_timeout_ns),
                irq_suspend_timeout: Some(mode.irq_suspend_timeout_ns),
                threaded: match mode.threaded {
                    PollContext::Softirq | PollContext::Workqueue => None,
                    PollContext::Thread => Some(1),
                    PollContext::BusyPollThread => Some(2),
                },
                ..NapiSet::default()
            })?;
        }
        Ok(())
    }

    /// Interrupts of the device since it was added.
    pub fn interrupts(&self) -> u64 {
        (0..self.device.queues()).map(|queue| self.device.napi_stats(queue).interrupts).sum()
    }

    /// Ends the recording, if there is one.
    ///
    /// # Errors
    /// The file does not hold all frames.
    pub fn finish_capture(&mut self) -> anyhow::Result<()> {
        let Some((capture, path)) = self.capture.take() else { return Ok(()) };
        let stats = capture.finish().with_context(|| format!("recording into {}", path.display()))?;
        ensure!(
            stats.dropped == 0,
            "{} frames are missing from {}: too many came at once",
            stats.dropped,
            path.display()
        );
        Ok(())
    }
}

fn start_capture(device: &DeviceHandle, path: &Path) -> anyhow::Result<(Capture, PathBuf)> {
    let capture = device.capture(&CaptureConfig::new(path));
    Ok((capture.with_context(|| format!("recording into {}", path.display()))?, path.to_owned()))
}
