//! An engine with one device, for programs whose peer is elsewhere.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use napier_runtime::capture::{Capture, CaptureConfig};
use napier_runtime::device::{Coalesce, DeviceHandle, EndConfig, MemifConfig, MemifSecret, XdpConfig};
pub use napier_runtime::device::{IfAddr, MemifRole};
use napier_runtime::engine::Engine;
use napier_runtime::socket::NetNs;

use super::noted::NotedOff;
use crate::applied::{self, Applied};
use crate::device::{Device, XdpWay};

/// Most queues of a device.
const QUEUES_MAX: u16 = 64;
/// How often it is looked why there is no peer yet.
const PEER_LOOK: Duration = Duration::from_millis(20);

/// A device whose peer is elsewhere. All but `device` and `ip` are for devices of the engine.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Which one.
    pub device: Device,
    /// Which side of a memif this is.
    pub role: MemifRole,
    /// What a client of a memif must know, or says.
    pub secret: Option<String>,
    /// The network namespace of an interface; `None` = that of the calling thread.
    pub netns: Option<Arc<OwnedFd>>,
    /// How the kernel hands packets to an AF_XDP device.
    pub xdp: XdpWay,
    /// Interrupt coalescing.
    pub coalesce: Coalesce,
    /// Receive queues, each with a NAPI instance; 0: all that an interface has, and one of a memif.
    pub queues: u16,
    /// Own address.
    pub ip: IpAddr,
    /// Length of the network's prefix, in bits.
    pub prefix_len: u8,
    /// Where packets go whose destination is not on the link.
    pub gateway: Option<IpAddr>,
    /// Neighbours that are not asked for.
    pub neighbours: Vec<(IpAddr, [u8; 6])>,
    /// File that all frames are recorded in.
    pub pcapng: Option<PathBuf>,
    /// Processors that deliver packets, one per queue; all that the process may use if empty.
    pub cpus: Vec<usize>,
}

impl DeviceConfig {
    /// A device with one queue that knows nothing but its address; of a memif, the client.
    pub fn new(device: Device, ip: IpAddr, prefix_len: u8) -> Self {
        Self {
            device,
            role: MemifRole::Client,
            secret: None,
            netns: None,
            xdp: XdpWay::Auto,
            coalesce: Coalesce::adaptive(),
            queues: 1,
            ip,
            prefix_len,
            gateway: None,
            neighbours: Vec::new(),
            pcapng: None,
            cpus: Vec::new(),
        }
    }
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
    /// Behind the device, for fields are dropped in this order.
    _noted: Option<NotedOff>,
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

/// What became of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Frames that are not in the file, because too many came at once, or it took no more.
    pub missing: u64,
    /// Why it took no more.
    pub failure: Option<String>,
}

impl OneDevice {
    /// Starts the engine and adds the device. What an XDP program would take from an interface is noted first, and put back with the device, or by
    /// the next command if this process is killed.
    ///
    /// # Errors
    /// The engine does not start, or the device cannot be; the message says what to change.
    pub fn start(config: &DeviceConfig) -> anyhow::Result<Self> {
        // Before the engine, so that it is dropped after it.
        let mut noted = None;
        let engine = Engine::builder().softirq_cpus(&config.cpus).worker_cpus(&config.cpus).start()?;
        let netns = engine.namespace();
        let end = EndConfig {
            name: "napier0".to_owned(),
            netns: netns.clone(),
            // Of an interface: its own.
            mac: if matches!(config.device, Device::Xdp { .. }) { [0; 6] } else { mac_of(config.ip) },
            addresses: vec![IfAddr { addr: config.ip, prefix_len: config.prefix_len }],
            irq_cpus: config.cpus.clone(),
        };
        let device = match &config.device {
            Device::Memif { socket: Some(socket) } => {
                let secret = match &config.secret {
                    None => None,
                    Some(text) => {
                        let secret = MemifSecret::new(text.as_bytes());
                        Some(secret.context("--secret must have 1 to 24 bytes and no NUL")?)
                    }
                };
                let memif =
                    MemifConfig { queues: config.queues.max(1), secret, ..MemifConfig::new(config.role, socket) };
                engine.add_memif(memif, end).with_context(|| format!("adding the memif device at {socket}"))?
            }
            Device::Xdp { interface: Some(interface) } => {
                noted = NotedOff::before_xdp(interface, config.netns.as_ref())?;
                let xdp = XdpConfig { netns: config.netns.clone(), queues: config.queues, ..XdpConfig::on(interface) };
                engine.add_xdp(&config.xdp.on(xdp), end).with_context(|| format!("adding the device on {interface}"))?
            }
            other => anyhow::bail!("{} is no device of an engine whose peer is elsewhere", other.name()),
        };
        applied::coalesce(&device, config.coalesce)?;
        if let Some(gateway) = config.gateway {
            netns.gateway_set(device.ifindex(), gateway).context("setting the gateway")?;
        }
        for &(ip, mac) in &config.neighbours {
            netns.neighbour_add(device.ifindex(), ip, mac).with_context(|| format!("adding the neighbour {ip}"))?;
        }
        let capture = config.pcapng.as_deref().map(|path| start_capture(&device, path)).transpose()?;
        Ok(Self { engine, netns, device, capture, _noted: noted })
    }

    /// Times that a peer went away, and whether there is one now: differs whenever another peer has come.
    pub fn peers(&self) -> (u64, bool) {
        let state = self.device.link_state();
        (state.losses, state.carrier)
    }

    /// Whether the device can still have a peer.
    ///
    /// # Errors
    /// Never again: the interface that it is on was removed.
    pub fn check(&self) -> anyhow::Result<()> {
        let state = self.device.link_state();
        let name = self.device.name();
        anyhow::ensure!(!state.gone, "{}", state.reason.as_deref().unwrap_or(name));
        Ok(())
    }

    /// What is to be known of an interface whose queues are not all the device's; `None`: they are, or its driver does not say
    /// how many there are.
    pub fn left_to_kernel(&self) -> Option<String> {
        let info = self.device.xdp_info()?;
        let (all, own, name) = (info.interface_queues, self.device.queues(), &info.interface);
        let (first, last) = (own, all.checked_sub(1)?);
        if first > last {
            return None;
        }
        let left = if first == last {
            format!("queue {last} of {name} goes")
        } else {
            format!("queues {first} to {last} of {name} go")
        };
        let word = info.queues_word;
        Some(format!(
            "{left} to the kernel, and clients whose packets come in there get no answer from here: take all queues (omit \
             --queues; {QUEUES_MAX} at most), or give the interface fewer: ethtool -L {name} {word} {own}"
        ))
    }

    /// What is in force on the device.
    pub fn in_force(&self) -> Applied {
        applied::of(&self.device)
    }

    /// Interrupts of the device since it was added.
    pub fn interrupts(&self) -> u64 {
        (0..self.device.queues()).map(|queue| self.device.napi_stats(queue).interrupts).sum()
    }

    /// Why the file of the recording takes no more; `None` while it does, and without a recording.
    pub fn recording_failure(&self) -> Option<String> {
        let (capture, path) = self.capture.as_ref()?;
        capture.failure().map(|why| format!("recording into {}: {why}", path.display()))
    }

    /// Ends the recording, if there is one.
    pub fn finish_capture(&mut self) -> Option<Recorded> {
        let (capture, path) = self.capture.take()?;
        let dropped = capture.stats().dropped;
        Some(match capture.finish() {
            Ok(stats) => Recorded { missing: stats.dropped, failure: None },
            Err(error) => {
                let failure = Some(format!("recording into {}: {error}", path.display()));
                Recorded { missing: dropped, failure }
            }
        })
    }
}

fn start_capture(device: &DeviceHandle, path: &Path) -> anyhow::Result<(Capture, PathBuf)> {
    let capture = device.capture(&CaptureConfig::new(path));
    Ok((capture.with_context(|| format!("recording into {}", path.display()))?, path.to_owned()))
}

/// Why the other end of a memif device will not have this side, with what to do; `None` if it may yet. What a peer says is
/// its own words, and all that we know of have this one in them.
#[must_use]
pub fn turned_away(device: &DeviceHandle) -> Option<String> {
    let reason = device.link_state().reason?;
    let said = reason.strip_prefix("the peer disconnected: ")?;
    let is_secret = said.to_ascii_lowercase().contains("secret");
    is_secret.then(|| format!("the other end turned this side away ({said}): give the --secret that it has"))
}

/// Waits until a device has a peer.
///
/// # Errors
/// There is none after `at_most`, or there is one that will not have this side, which is said at once.
pub fn wait_for_peer(device: &DeviceHandle, name: &str, at_most: Duration) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !device.wait_link(PEER_LOOK) {
        if let Some(why) = turned_away(device) {
            anyhow::bail!("{name}: {why}");
        }
        anyhow::ensure!(
            begun.elapsed() < at_most,
            "there is no peer at the other end of {name} after {} s: {}",
            at_most.as_secs(),
            device.link_state().reason.unwrap_or_default()
        );
    }
    Ok(())
}
