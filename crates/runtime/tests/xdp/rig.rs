//! A pair of veth interfaces with devices on them.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use napier_runtime::device::{AddXdpError, DeviceHandle, EndConfig, IfAddr, XdpConfig, XskError};
use napier_runtime::engine::Engine;
use napier_runtime::socket::{NetNs, UdpSocket};
pub(crate) use napier_testkit::{PATIENCE, eventually};
pub(crate) use napier_testnet::ip;
use napier_testnet::{self as net, EndConfig as VethEndConfig, Veth, VethConfig, VethEnd};

pub(crate) const LEFT_MAC: [u8; 6] = [2, 0, 0, 0x55, 0, 1];
pub(crate) const RIGHT_MAC: [u8; 6] = [2, 0, 0, 0x55, 0, 2];
/// The kernel's addresses.
pub(crate) const LEFT_KERNEL: &str = "10.55.0.1";
pub(crate) const RIGHT_KERNEL: &str = "10.55.0.2";
pub(crate) const RIGHT_KERNEL_V6: &str = "fd55::2";
/// The devices' addresses.
pub(crate) const LEFT: &str = "10.55.0.11";
pub(crate) const RIGHT: &str = "10.55.0.12";
pub(crate) const LEFT_V6: &str = "fd55::11";
pub(crate) const RIGHT_V6: &str = "fd55::12";

pub(crate) fn at(text: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip(text), port)
}

/// Two interfaces that are wired to each other, which the tests are to run on instead of veth: two names with a comma.
const PAIR: &str = "NAPIER_TEST_XDP_PAIR";

/// Those interfaces, if they are given.
pub(crate) fn wired_names() -> Option<[String; 2]> {
    let names = std::env::var(PAIR).ok()?;
    let (left, right) = names.split_once(',').unwrap_or_else(|| panic!("{PAIR} is LEFT,RIGHT, not {names:?}"));
    Some([left.to_owned(), right.to_owned()])
}

fn queues_of(interface: &str) -> usize {
    let path = format!("/sys/class/net/{interface}/queues");
    // It comes back a while after the namespace that it was in has ended.
    eventually("the interface is there", || std::path::Path::new(&path).exists());
    let queues = std::fs::read_dir(path).expect("it has queues");
    queues.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-")).count()
}

/// Whether the tests run on veth; says so if what a test needs is there alone.
pub(crate) fn only_on_veth(test: &str, what: &str) -> bool {
    let wired = wired_names().is_some();
    if wired {
        napier_testkit::skip!(test, "{what}");
    }
    !wired
}

/// A pair whose senders compute checksums, or a line that says why the test does not run.
pub(crate) fn veth(test: &str, queues: u16) -> Option<Veth> {
    let left = VethEndConfig::new("left", LEFT_MAC).address(ip(LEFT_KERNEL), 24).address(ip("fd55::1"), 64);
    let right = VethEndConfig::new("right", RIGHT_MAC).address(ip(RIGHT_KERNEL), 24).address(ip(RIGHT_KERNEL_V6), 64);
    let config = VethConfig { queues, tx_checksum: false, tso: false, ..VethConfig::new(left, right) };
    let made = match wired_names() {
        None => Veth::new(&config),
        Some([left, right]) => {
            if queues_of(&left).min(queues_of(&right)) < usize::from(queues) {
                napier_testkit::skip!(test, "{left} and {right} have fewer than {queues} queues (ethtool -L)");
                return None;
            }
            Veth::wired(&config, [&left, &right])
        }
    };
    net::or_skip(test, made)
}

/// What `config` gives on an end of a pair.
pub(crate) fn on(end: &VethEnd, config: XdpConfig) -> XdpConfig {
    use std::os::fd::AsFd;
    let netns = end.netns().as_fd().try_clone_to_owned().expect("a descriptor");
    XdpConfig { interface: end.name().to_owned(), netns: Some(netns.into()), ..config }
}

pub(crate) fn small() -> XdpConfig {
    XdpConfig { ring_size: 64, ..XdpConfig::on("") }
}

/// An end with the interface's Ethernet address.
pub(crate) fn end_in(netns: &NetNs, name: &str, addresses: &[&str]) -> EndConfig {
    let addresses = addresses.iter().map(|text| {
        let addr = ip(text);
        IfAddr { addr, prefix_len: if addr.is_ipv4() { 24 } else { 64 } }
    });
    let (name, netns, addresses) = (name.to_owned(), netns.clone(), addresses.collect());
    EndConfig { name, netns, mac: [0; 6], addresses, irq_cpus: Vec::new() }
}

/// So long at least a device waits for a queue that is busy.
const BUSY_MIN: Duration = Duration::from_secs(1);

/// A device on one end. At the end of its life every frame must be back where it belongs.
pub(crate) struct Xdp {
    pub(crate) engine: Engine,
    pub(crate) device: DeviceHandle,
    pub(crate) ns: NetNs,
}

impl Xdp {
    /// A device in an engine of its own, or why not.
    pub(crate) fn try_new(end: &VethEnd, config: XdpConfig, addresses: &[&str]) -> Result<Self, AddXdpError> {
        Self::in_engine(&Engine::builder().start().expect("an engine"), end, config, addresses)
    }

    pub(crate) fn in_engine(
        engine: &Engine,
        end: &VethEnd,
        config: XdpConfig,
        addresses: &[&str],
    ) -> Result<Self, AddXdpError> {
        let ns = engine.namespace();
        let device = engine.add_xdp(&on(end, config), end_in(&ns, &format!("x{}", end.name()), addresses))?;
        Ok(Self { engine: engine.clone(), device, ns })
    }

    /// A device, or a line that says why the test does not run.
    pub(crate) fn new(test: &str, end: &VethEnd, config: XdpConfig, addresses: &[&str]) -> Option<Self> {
        let begun = Instant::now();
        loop {
            let tried = Instant::now();
            let error = match Self::try_new(end, config.clone(), addresses) {
                Ok(device) => return Some(device),
                Err(error) => error,
            };
            if error.is_privilege() {
                napier_testkit::skip!(test, "{error}");
                return None;
            }
            // It was waited for, but the kernel has the queue until it gets the lock of all interfaces, for which other tests wait too.
            let is_busy = matches!(error, AddXdpError::Interface(XskError::QueueBusy { .. }));
            assert!(is_busy && tried.elapsed() > BUSY_MIN && begun.elapsed() < PATIENCE, "{error}");
        }
    }

    /// A socket of the device's that does not wait for ever.
    pub(crate) fn bound(&self, address: &str, port: u16) -> UdpSocket {
        let socket = UdpSocket::bind(&self.ns, at(address, port)).expect("bound");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        socket
    }

    /// Waits until all frames are back.
    pub(crate) fn check(&self) {
        eventually("all frames are back", || self.device.frames_out() == 0);
    }
}

impl Drop for Xdp {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check();
        }
    }
}

/// A kernel socket in the namespace of an end.
pub(crate) fn kernel_udp(end: &VethEnd, address: SocketAddr) -> std::net::UdpSocket {
    let bind = || -> io::Result<_> {
        let socket = std::net::UdpSocket::bind(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket)
    };
    end.netns().run(bind).expect("entered").expect("bound")
}
