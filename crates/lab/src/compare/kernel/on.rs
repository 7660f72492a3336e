//! An interface of this machine under test: where its packets, interrupts and addresses are.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context as _, ensure};
use napier_linux::Netns;
use napier_linux::change::{DeviceRef, Ledger, Scope};
use napier_linux::netdev::{self, places};

/// An interface in the namespace of this command.
#[derive(Clone, Debug)]
pub(crate) struct OnInterface {
    pub(crate) device: DeviceRef,
    pub(crate) netns: Netns,
    /// Where the server is reached.
    pub(crate) address: Ipv4Addr,
    /// Interrupts of the interface; none on a virtual one.
    irqs: Vec<u32>,
}

/// What an interface has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) packets: u64,
    /// `None` if it has no interrupts.
    pub(crate) interrupts: Option<u64>,
}

impl OnInterface {
    /// Finds the interface, and the address under which a client reaches it.
    ///
    /// # Errors
    /// There is no such interface, it has no IPv4 address or no NAPI instance, or another run has it.
    pub(crate) fn new(name: &str, client: SocketAddr) -> anyhow::Result<Self> {
        let device = DeviceRef::named(name).map_err(|error| {
            anyhow::anyhow!("there is no interface {name} in this network namespace ({error}): `ip link` lists them")
        })?;
        let addresses = netdev::addresses(device.ifindex).with_context(|| format!("the addresses of {name}"))?;
        let address = address_towards(&addresses, client.ip()).with_context(|| {
            format!("{name} has no IPv4 address, at which the client would reach the server: ip addr add")
        })?;
        let places = places::of(name).map_err(|told| anyhow::anyhow!("{name}: {told}"))?;
        ensure!(!places.instances.is_empty(), "{}", netdev::why_no_instance(name));
        let of_instances = places.instances.iter().filter_map(|instance| instance.irq.as_ref());
        let mut irqs: Vec<u32> =
            of_instances.chain(places.interrupts.iter().map(|named| &named.irq)).map(|irq| irq.number).collect();
        irqs.sort_unstable();
        irqs.dedup();
        let scope = Scope::device(device.clone())?;
        // Whether another run has it shows now, not in each row. Nothing is noted, so nothing is left.
        let _ = Ledger::begin(&scope, 0, &mut |_| ())?.put_back();
        Ok(Self { device, netns: Netns::current()?, address, irqs })
    }

    /// Packets and interrupts so far, for a thread in its namespace.
    pub(crate) fn arrived(&self) -> anyhow::Result<Arrived> {
        let read = |path: &str| std::fs::read_to_string(path).with_context(|| format!("reading {path}"));
        let name = self.device.name_now()?;
        let packets = packets_in(&read("/proc/thread-self/net/dev")?, &name)
            .with_context(|| format!("/proc/net/dev does not have {name}"))?;
        let interrupts = match self.irqs[..] {
            [] => None,
            _ => Some(interrupts_in(&read("/proc/interrupts")?, &self.irqs)),
        };
        Ok(Arrived { packets, interrupts })
    }
}

impl Arrived {
    pub(crate) fn since(self, earlier: Self) -> Self {
        let interrupts = self.interrupts.zip(earlier.interrupts).map(|(now, then)| now.saturating_sub(then));
        Self { packets: self.packets.saturating_sub(earlier.packets), interrupts }
    }

    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        let interrupts = self.interrupts.zip(other.interrupts).map(|(one, other)| one + other);
        Self { packets: self.packets + other.packets, interrupts }
    }
}

/// The address in the client's network, else the first.
fn address_towards(addresses: &[(IpAddr, u8)], client: IpAddr) -> Option<Ipv4Addr> {
    let own = addresses.iter().filter_map(|(address, bits)| match address {
        IpAddr::V4(address) => Some((*address, *bits)),
        IpAddr::V6(_) => None,
    });
    let network =
        |address: Ipv4Addr, bits: u8| address.to_bits().checked_shr(32 - u32::from(bits.min(32))).unwrap_or(0);
    let is_near = |(address, bits): &(Ipv4Addr, u8)| matches!(client, IpAddr::V4(client) if network(client, *bits) == network(*address, *bits));
    own.clone().find(is_near).or(own.clone().next()).map(|(address, _)| address)
}

/// Packets that an interface has received (`proc_pid_net(5)`, `dev`: bytes, packets, ...).
fn packets_in(table: &str, name: &str) -> Option<u64> {
    let (_, counts) = table.lines().filter_map(|line| line.split_once(':')).find(|(of, _)| of.trim() == name)?;
    counts.split_whitespace().nth(1)?.parse().ok()
}

/// How often these interrupts came, on all CPUs together (`proc_interrupts(5)`).
fn interrupts_in(table: &str, irqs: &[u32]) -> u64 {
    let of = |line: &str| -> u64 {
        let Some((number, counts)) = line.split_once(':') else { return 0 };
        if !number.trim().parse().is_ok_and(|number| irqs.contains(&number)) {
            return 0;
        }
        counts.split_whitespace().map_while(|count| count.parse::<u64>().ok()).sum()
    };
    table.lines().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_in_the_clients_network_is_taken() {
        let addresses = [("fe80::1", 64), ("192.0.2.1", 24), ("10.1.2.3", 8)]
            .map(|(address, bits)| (address.parse::<IpAddr>().unwrap(), bits));
        let towards = |client: &str| address_towards(&addresses, client.parse().unwrap()).map(|a| a.to_string());
        assert_eq!(towards("10.200.0.1").as_deref(), Some("10.1.2.3"));
        assert_eq!(towards("198.51.100.1").as_deref(), Some("192.0.2.1"));
        assert_eq!(towards("::1").as_deref(), Some("192.0.2.1"));
        assert_eq!(address_towards(&addresses[..1], "10.0.0.1".parse().unwrap()), None);
    }

    #[test]
    fn packets_and_interrupts_are_read() {
        let table = "Inter-|   Receive\n face |bytes    packets errs\n  eth0: 900 7 0 0\n eth00:1 5 0\n";
        assert_eq!((packets_in(table, "eth0"), packets_in(table, "eth00")), (Some(7), Some(5)));
        assert_eq!(packets_in(table, "eth1"), None);
        let table = "      CPU0  CPU1\n 38:  1  9 PCI-MSIX 1-edge virtio2-input.0\n 39: 5 5 x\nLOC: 7 7 Local\n";
        assert_eq!((interrupts_in(table, &[38]), interrupts_in(table, &[38, 39])), (10, 20));
    }
}
