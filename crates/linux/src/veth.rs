//! A pair of veth interfaces.

use std::ffi::CStr;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use napier_core::control::NapiInfo;

use crate::link::{self, Change};
use crate::{LinuxError, Netns, ethtool, netdev};

/// One end of a pair.
#[derive(Clone, Debug)]
pub struct EndConfig {
    name: String,
    mac: [u8; 6],
    addresses: Vec<(IpAddr, u8)>,
}

impl EndConfig {
    /// An interface called `name` (1 to 15 bytes) without addresses.
    #[must_use]
    pub fn new(name: &str, mac: [u8; 6]) -> Self {
        Self { name: name.to_owned(), mac, addresses: Vec::new() }
    }

    /// With one more address and its prefix length in bits. It is usable at once.
    #[must_use]
    pub fn address(mut self, address: IpAddr, prefix: u8) -> Self {
        self.addresses.push((address, prefix));
        self
    }
}

/// What a pair is made of.
#[derive(Clone, Debug)]
pub struct VethConfig {
    /// Receive and transmit queues of each end, 1 to 4096. What one end sends on a queue the other receives on the same.
    pub queues: u16,
    /// Bytes of the largest IP packet.
    pub mtu: u32,
    /// Generic receive offload. With it, and with `tso` off, packets go through a NAPI instance of the receiver, so busy
    /// polling has something to poll.
    pub gro: bool,
    /// TCP segmentation offload.
    pub tso: bool,
    /// Transmit checksum offload. A packet that leaves a kernel socket with it carries no whole checksum on a veth, which
    /// a receiver by AF_XDP sees as a bad one.
    pub tx_checksum: bool,
    /// The two ends.
    pub ends: [EndConfig; 2],
}

impl VethConfig {
    /// One queue, MTU 1500, the kernel's own offloads: GRO off, TSO and checksums on.
    #[must_use]
    pub fn new(left: EndConfig, right: EndConfig) -> Self {
        Self { queues: 1, mtu: 1500, gro: false, tso: true, tx_checksum: true, ends: [left, right] }
    }
}

/// A pair of veth interfaces, each in a namespace of its own, both up.
#[derive(Debug)]
pub struct Veth {
    ends: [VethEnd; 2],
}

/// One interface of a pair.
#[derive(Clone, Debug)]
pub struct VethEnd {
    netns: Netns,
    name: String,
    ifindex: u32,
    mac: [u8; 6],
    addresses: Vec<(IpAddr, u8)>,
}

impl Veth {
    /// Makes two namespaces and the pair between them. Where an end has no IPv6 address the kernel's IPv6 is silent.
    ///
    /// # Errors
    /// See [`LinuxError`]; nothing is left then.
    pub fn new(config: &VethConfig) -> Result<Self, LinuxError> {
        let namespaces = [Netns::new()?, Netns::new()?];
        let [left, right] = &config.ends;
        let (left_index, right_index) = namespaces[0].run(|| {
            link::add_pair(&left.name, config.queues)
                .and_then(|()| link::indices(&left.name))
                .map_err(LinuxError::refused("making a veth pair (it needs CAP_NET_ADMIN and the veth module)"))
        })??;
        namespaces[0].run(|| {
            let change = Change { name: Some(&right.name), netns: Some(namespaces[1].as_fd()), ..Change::default() };
            link::change(right_index, &change)
                .map_err(LinuxError::refused(format!("moving {} into its namespace", right.name)))
        })??;
        // The kernel keeps the number if it is free there; ask rather than rely on it.
        let right_index = namespaces[1]
            .run(|| link::indices(&right.name).map_err(LinuxError::refused(format!("looking up {}", right.name))))??
            .0;
        let [first, second] = namespaces;
        let end = |netns, config: &EndConfig, ifindex| VethEnd {
            netns,
            name: config.name.clone(),
            ifindex,
            mac: config.mac,
            addresses: config.addresses.clone(),
        };
        let pair = Self { ends: [end(first, left, left_index), end(second, right, right_index)] };
        for end in &pair.ends {
            end.configure(config, &Err)?;
        }
        for end in &pair.ends {
            end.wait_until_operational()?;
        }
        Ok(pair)
    }

    /// Takes two interfaces of the calling thread's namespace that are wired to each other, each into a namespace of its own,
    /// from where the kernel gives them back when it ends. They keep their names; offloads that they do not have are left
    /// alone. For tests on interfaces whose drivers do what veth does not.
    ///
    /// # Errors
    /// See [`LinuxError`]; interfaces that were taken come back.
    pub fn wired(config: &VethConfig, names: [&str; 2]) -> Result<Self, LinuxError> {
        let take = |config: &EndConfig, name: &str| -> Result<VethEnd, LinuxError> {
            let netns = Netns::new()?;
            let looking = LinuxError::refused(format!("looking up {name}"));
            let ifindex = wait_for_interface(name).map_err(looking)?;
            let change = Change { netns: Some(netns.as_fd()), ..Change::default() };
            link::change(ifindex, &change).map_err(LinuxError::refused(format!("moving {name} into a namespace")))?;
            let (mac, addresses) = (config.mac, config.addresses.clone());
            Ok(VethEnd { netns, name: name.to_owned(), ifindex, mac, addresses })
        };
        let [left, right] = &config.ends;
        let mut pair = Self { ends: [take(left, names[0])?, take(right, names[1])?] };
        for end in &mut pair.ends {
            end.ifindex = end.in_netns("looking up an interface", || link::index(&end.name))?;
            end.configure(config, &|_| Ok(()))?;
        }
        for end in &pair.ends {
            end.wait_until_operational()?;
        }
        Ok(pair)
    }

    /// The first end.
    #[must_use]
    pub fn left(&self) -> &VethEnd {
        &self.ends[0]
    }

    /// The second end.
    #[must_use]
    pub fn right(&self) -> &VethEnd {
        &self.ends[1]
    }
}

/// The number of an interface, which may be on its way back from a namespace that has just ended.
fn wait_for_interface(name: &str) -> io::Result<u32> {
    let begun = Instant::now();
    loop {
        match link::index(name) {
            Err(_) if begun.elapsed() < OPERATIONAL_MAX => std::thread::sleep(Duration::from_millis(20)),
            other => return other,
        }
    }
}

/// How long an interface may take to pass packets after both ends came up. It takes up to a second.
const OPERATIONAL_MAX: Duration = Duration::from_secs(20);

impl VethEnd {
    /// Waits until packets pass; both ends have to be up.
    ///
    /// # Errors
    /// The interface is gone, or one end is down.
    pub fn wait_until_operational(&self) -> Result<(), LinuxError> {
        self.in_netns(&format!("waiting for {} to come up", self.name), || {
            let begun = Instant::now();
            while !link::is_operational(&self.name)? {
                if begun.elapsed() > OPERATIONAL_MAX {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        })
    }

    /// Sets what `config` says; `or` says what becomes of offloads that the interface does not have.
    fn configure(
        &self,
        config: &VethConfig,
        or: &(dyn Fn(io::Error) -> io::Result<()> + Sync),
    ) -> Result<(), LinuxError> {
        self.in_netns(&format!("configuring {}", self.name), || {
            if self.addresses.iter().all(|(address, _)| address.is_ipv4()) {
                // Absent where the kernel has no IPv6.
                let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", self.name), "1");
            }
            let change = Change { mac: Some(self.mac), mtu: Some(config.mtu), ..Change::default() };
            link::change(self.ifindex, &change)?;
            self.addresses.iter().try_for_each(|&(address, bits)| link::add_address(self.ifindex, address, bits))?;
            // Both names of generic receive offload exist: `rx-gro` is the one of `ethtool -K gro`.
            ethtool::set(self.ifindex, &[(c"rx-gro", config.gro)]).or_else(or)?;
            let segmentation: &[&CStr] = &[
                c"tx-tcp-segmentation",
                c"tx-tcp-ecn-segmentation",
                c"tx-tcp-mangleid-segmentation",
                c"tx-tcp6-segmentation",
            ];
            ethtool::set(self.ifindex, &[(c"tx-checksum-ip-generic", config.tx_checksum)]).or_else(or)?;
            let segmentation: Vec<_> = segmentation.iter().map(|name| (*name, config.tso)).collect();
            ethtool::set(self.ifindex, &segmentation).or_else(or)?;
            link::change(self.ifindex, &Change { up: Some(true), ..Change::default() })?;
            // Traffic of the namespace with itself.
            link::change(1, &Change { up: Some(true), ..Change::default() })
        })
    }

    /// The namespace that the interface is in.
    #[must_use]
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of the interface in its namespace.
    #[must_use]
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Ethernet address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Addresses with their prefix lengths.
    #[must_use]
    pub fn addresses(&self) -> &[(IpAddr, u8)] {
        &self.addresses
    }

    /// Takes the interface down or brings it up (`ip link set up`).
    ///
    /// # Errors
    /// The interface is gone, or the capability missing.
    pub fn set_up(&self, up: bool) -> Result<(), LinuxError> {
        let what = format!("taking {} {}", self.name, if up { "up" } else { "down" });
        self.in_netns(&what, || link::change(self.ifindex, &Change { up: Some(up), ..Change::default() }))
    }

    /// Changes the MTU, bytes.
    ///
    /// # Errors
    /// The interface is gone, the capability missing, or an XDP program forbids it.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), LinuxError> {
        let what = format!("setting the MTU of {} to {mtu}", self.name);
        self.in_netns(&what, || link::change(self.ifindex, &Change { mtu: Some(mtu), ..Change::default() }))
    }

    /// Removes the interface, and its peer with it.
    ///
    /// # Errors
    /// It is gone already, or the capability missing.
    pub fn delete(&self) -> Result<(), LinuxError> {
        self.in_netns(&format!("removing {}", self.name), || link::delete(self.ifindex))
    }

    /// Tells the kernel the Ethernet address of a neighbour, for good.
    ///
    /// # Errors
    /// The interface is gone, or the capability missing.
    pub fn add_neighbour(&self, address: IpAddr, mac: [u8; 6]) -> Result<(), LinuxError> {
        let what = format!("adding the neighbour {address} to {}", self.name);
        self.in_netns(&what, || link::add_neighbour(self.ifindex, address, mac))
    }

    /// Switches an offload by its name in the kernel (`ethtool -k`, e.g. `rx-gro`).
    ///
    /// # Errors
    /// The interface is gone, the capability missing, or there is no such offload.
    pub fn set_feature(&self, name: &CStr, on: bool) -> Result<(), LinuxError> {
        let what = format!("switching {} of {}", name.to_string_lossy(), self.name);
        self.in_netns(&what, || ethtool::set(self.ifindex, &[(name, on)]))
    }

    /// Whether an XDP program is attached, in whatever mode.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn has_xdp(&self) -> Result<bool, LinuxError> {
        self.in_netns(&format!("asking about {}", self.name), || link::has_xdp(&self.name))
    }

    /// The NAPI instances of the interface, by their ids. None without GRO and without an XDP program.
    ///
    /// # Errors
    /// The interface is gone, or the kernel has no `netdev` netlink (before 6.8).
    pub fn napis(&self) -> Result<Vec<NapiInfo>, LinuxError> {
        self.in_netns(&format!("listing the NAPI instances of {}", self.name), || {
            let mut napis = netdev::napi_dump(Some(self.ifindex))?;
            napis.sort_by_key(|napi| napi.id);
            Ok(napis)
        })
    }

    fn in_netns<R: Send>(&self, what: &str, act: impl FnOnce() -> io::Result<R> + Send) -> Result<R, LinuxError> {
        self.netns.run(act)?.map_err(LinuxError::refused(what))
    }
}
