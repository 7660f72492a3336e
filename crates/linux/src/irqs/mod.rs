//! The interrupts of an interface, by one rule for all who ask: findings, tuning, figures, and `napi-get --everywhere`.
//!
//! Numbers come first: what an instance says (netlink), and what the device's folder has (`msi_irqs`). Names are asked only where
//! no folder lists them, for a driver may call its interrupts anything, and go on calling them after an interface's old
//! name.
//!
//! Source: `kernel/irq/proc.c show_interrupts`, `drivers/pci/msi/msi.c`, `Documentation/ABI/testing/sysfs-bus-pci`.

mod role;
mod table;
#[cfg(test)]
mod tests;

use serde::Serialize;

use role::Named;
pub use role::Role;
pub(crate) use table::{IrqRow, IrqTable};

use crate::drivers::{self, Numbers};
use crate::root::Root;

/// An interrupt of an interface's device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Irq {
    /// Its number.
    pub number: u32,
    /// What `/proc/interrupts` calls it, all words of it.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// The queue of that number, where the name or the kernel tells it.
    pub queue: Option<u32>,
    /// Where it may be raised; `None` where that cannot be read.
    pub affinity: Option<Vec<u32>>,
    /// Where it is raised; `None` where that cannot be read.
    pub effective: Option<Vec<u32>>,
}

impl Irq {
    /// The only CPU that it is raised on, if there is one, as far as the kernel tells.
    #[must_use]
    pub fn only_cpu(&self) -> Option<u32> {
        let known = self.effective.as_ref().filter(|cpus| !cpus.is_empty()).or(self.affinity.as_ref())?;
        match known[..] {
            [cpu] => Some(cpu),
            _ => None,
        }
    }

    /// Whether it is for packets.
    #[must_use]
    pub const fn receives(&self) -> bool {
        matches!(self.role, Role::Receive | Role::Both)
    }
}

/// An interface, as far as its interrupts are found by it.
pub(crate) struct IrqOwner<'a> {
    pub(crate) interface: &'a str,
    pub(crate) ifindex: u32,
    /// Numbers that its instances name.
    pub(crate) told: &'a [u32],
}

/// One of the table, before its CPUs are read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found<'t> {
    pub(crate) number: u32,
    pub(crate) name: &'t str,
    pub(crate) role: Role,
    pub(crate) queue: Option<u32>,
}

/// Those of an interface, with their CPUs.
pub(crate) fn of(root: &Root, owner: &IrqOwner<'_>) -> Vec<Irq> {
    let text = root.table("/proc/interrupts").unwrap_or_default();
    let found = find(root, &IrqTable::parse(&text), owner).into_iter();
    let whole = |Found { number, name, role, queue }: Found<'_>| {
        let list = |file: &str| root.cpus(&format!("/proc/irq/{number}/{file}"));
        let (affinity, effective) = (list("smp_affinity_list"), list("effective_affinity_list"));
        Irq { number, name: name.to_owned(), role, queue, affinity, effective }
    };
    found.map(whole).collect()
}

/// Those of an interface in a table, in the table's order.
pub(crate) fn find<'t>(root: &Root, table: &IrqTable<'t>, owner: &IrqOwner<'_>) -> Vec<Found<'t>> {
    let mut device = IrqDevice::of(root, owner);
    // Where the folder lists none that is in use, names are all there is.
    device.numbers.retain(|number| table.rows().any(|row| row.number == *number));
    let rows: Vec<&IrqRow<'t>> = table.rows().filter(|row| device.has(row, owner)).collect();
    let strip: Vec<&str> = [Some(owner.interface), device.name.as_deref(), device.short.as_deref()]
        .into_iter()
        .flatten()
        .filter(|name| !name.is_empty())
        .collect();
    let named: Vec<Named> = rows.iter().map(|row| Named::of(part(row.name, &strip), &strip)).collect();
    let of = |(row, (role, queue)): (&IrqRow<'t>, _)| Found { number: row.number, name: row.name, role, queue };
    rows.into_iter().zip(role::roles(&named, device.numbers_are)).map(of).collect()
}

/// Of the names of a shared interrupt the one that is meant.
fn part<'t>(names: &'t str, wanted: &[&str]) -> &'t str {
    let is_meant = |name: &&str| wanted.iter().any(|wanted| table::has_apart(name, wanted));
    names.split(", ").find(is_meant).unwrap_or(names)
}

/// What the file system says of the interface's device.
#[derive(Default)]
struct IrqDevice {
    /// `0000:81:00.0`, `virtio2`; `None` for an interface without hardware, or of another namespace.
    name: Option<String>,
    /// What a frontend of Xen (`vif-0`) calls itself in the names of its interrupts: `vif0`. Source: `drivers/net/xen-netfront.c
    /// xennet_init_queue`.
    short: Option<String>,
    /// Its message-signalled interrupts.
    numbers: Vec<u32>,
    /// Other interfaces of the machine: two ports may be one device.
    others: Vec<String>,
    /// What the numbers in its driver's names are.
    numbers_are: Numbers,
}

impl IrqDevice {
    fn of(root: &Root, owner: &IrqOwner<'_>) -> Self {
        let folder = format!("/sys/class/net/{}", owner.interface);
        // The file system may show another namespace's interface by that name, with interrupts of its own.
        let is_shown = root.number(&format!("{folder}/ifindex")) == Some(owner.ifindex.into());
        let name = root.link_end(&format!("{folder}/device")).filter(|_| is_shown);
        let Some(name) = name else { return Self::default() };
        let listed = |place: &str| -> Vec<u32> {
            let names = root.names(&format!("{folder}/device/{place}msi_irqs"), "");
            names.iter().filter_map(|number| number.parse().ok()).collect()
        };
        let mut numbers = listed("");
        if numbers.is_empty() && name.starts_with("virtio") {
            // A device on the bus `virtio` is a part of the one that has the interrupts.
            numbers = listed("../");
        }
        let mut others = root.names("/sys/class/net", "");
        others.retain(|other| other != owner.interface);
        let uevent = root.text(&format!("{folder}/device/uevent")).unwrap_or_default();
        let driver = uevent.lines().find_map(|line| line.strip_prefix("DRIVER=")).and_then(drivers::of);
        let short = name.strip_prefix("vif-").map(|number| format!("vif{number}"));
        let numbers_are = driver.map_or(Numbers::Queue, |facts| facts.numbers);
        Self { name: Some(name), short, numbers, others, numbers_are }
    }

    fn has(&self, row: &IrqRow<'_>, owner: &IrqOwner<'_>) -> bool {
        if owner.told.contains(&row.number) {
            return true;
        }
        // One without a name has no handler: a vector that is kept for a queue that is not there now.
        if row.name.is_empty() {
            return false;
        }
        let Some(device) = &self.name else { return false };
        let is_own = row.bears(owner.interface) || self.short.as_deref().is_some_and(|short| row.bears(short));
        if self.numbers.is_empty() {
            let names_device = is_address(device) && (row.bears(device) || row.is_of_chip(device));
            return is_own || names_device || device.starts_with("virtio") && row.bears(device);
        }
        self.numbers.contains(&row.number) && (is_own || !self.others.iter().any(|other| row.bears(other)))
    }
}

/// Whether a device's name is a place on a bus (`0000:81:00.0`), which no other device has.
fn is_address(name: &str) -> bool {
    name.split(':').count() == 3
}
