//! What an interrupt is for, by what drivers call it.

use serde::Serialize;

use super::table::apart;
use crate::drivers::Numbers;

/// What an interrupt is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Packets that come.
    Receive,
    /// Packets that have gone.
    Transmit,
    /// Both of a queue.
    Both,
    /// No packets: events of the device, its commands, changes of its configuration.
    Control,
}

/// Words of interrupts that are for no packets, and drivers that use them: mlx5 `mlx5_async0` (once `mlx5_cmd_eq` and
/// `mlx5_page_fault_eq`), mlx4 `mlx4-async`, ice and i40e `:misc`, ice `:ll_ts`, ena `ena-mgmnt`, gve `gve-mgmnt`, mana `mana_hwc`, virtio
/// `-config` and `-control`, iavf `:mbx`, idpf `Mailbox`, octeontx2 `Mbox`, cxgb4 `FWeventq`, bnx2x `-sp-`, vmxnet3 `-event`, enic `-err` and
/// `-notify`, nfp `-lsc` and `-exn`, ixgbe `fdir`, nicvf `rbdr` (it asks for buffers), igb `-unused`.
const CONTROL: [&str; 33] = [
    "async", "misc", "mgmnt", "mgmt", "config", "control", "ctrl", "mbx", "mailbox", "mbox", "hwc", "fweventq", "sp",
    "event", "err", "error", "notify", "lsc", "exn", "cmd", "pages", "adminq", "admin", "slowpath", "link", "fdir",
    "ptp", "other", "sriov", "fault", "rbdr", "ts", "unused",
];

/// A name, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Named {
    is_control: bool,
    receives: bool,
    transmits: bool,
    /// The queue's number.
    number: Option<u32>,
    /// Nothing is left of it beside the name of an interface.
    is_bare: bool,
    /// A block of notifications of gve (`gve-ntfy-blk0`, once `eth%d-ntfy-block.0`): transmit queues have the first half of them,
    /// receive queues the others.
    is_half: bool,
}

impl Named {
    /// `strip`: names of the interface and of its device, which are not the queue's.
    pub(super) fn of(name: &str, strip: &[&str]) -> Self {
        let own = name.split_once("@pci:").map_or(name, |(own, _)| own);
        let mut own = own.to_owned();
        for wanted in strip {
            let places: Vec<usize> = apart(&own, wanted).collect();
            for at in places.into_iter().rev() {
                own.replace_range(at..at + wanted.len(), " ");
            }
        }
        let words = words(&own);
        let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(&word.as_str()));
        let is_old_name = matches!(&words[..], [kind, number] if kind == "eth" && number.parse::<u32>().is_ok());
        let is_bare = words.is_empty() || is_old_name;
        let both = has(&["txrx", "rxtx"]);
        Self {
            is_control: has(&CONTROL),
            receives: both || has(&["rx", "input"]),
            transmits: both || has(&["tx", "output"]),
            number: number(&words).filter(|_| !is_bare),
            is_bare,
            is_half: has(&["ntfy"]) && has(&["blk", "block"]),
        }
    }

    const fn role(&self) -> Role {
        match (self.receives, self.transmits) {
            (true, false) => Role::Receive,
            (false, true) => Role::Transmit,
            _ => Role::Both,
        }
    }
}

/// The number at the end, the first one of several queues (`TxRx-2-3`), or the one behind a `q`: `eth0-q3-tx`.
fn number(words: &[String]) -> Option<u32> {
    if let [.., kind, first, second] = words
        && matches!(kind.as_str(), "txrx" | "rx" | "tx")
        && second.parse::<u32>().is_ok()
        && let Ok(first) = first.parse()
    {
        return Some(first);
    }
    let last = words.last().and_then(|word| word.parse().ok());
    last.or_else(|| words.windows(2).find(|pair| pair[0] == "q").and_then(|pair| pair[1].parse().ok()))
}

/// Runs of letters, in small ones, and of digits.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = None;
    for c in text.chars() {
        let kind = if c.is_ascii_digit() { Some(true) } else { c.is_alphabetic().then_some(false) };
        if kind.is_some() {
            if kind != before {
                words.push(String::new());
            }
            words.last_mut().expect("one was begun").extend(c.to_lowercase());
        }
        before = kind;
    }
    words
}

/// Roles and queues of all interrupts of one device, which tell more than each by itself.
pub(super) fn roles(all: &[Named], numbers: Numbers) -> Vec<(Role, Option<u32>)> {
    // Beside interrupts of queues, one with nothing but the interface's name is for the rest (igb, ixgbe).
    let has_queues = all.iter().any(|named| !named.is_bare && !named.is_control);
    let halves = u32::try_from(all.iter().filter(|named| named.is_half).count() / 2).unwrap_or(u32::MAX);
    let one = |named: &Named| match named.number {
        _ if named.is_control || (named.is_bare && has_queues) => (Role::Control, None),
        Some(number) if named.is_half && number < halves => (Role::Transmit, Some(number)),
        Some(number) if named.is_half => (Role::Receive, Some(number - halves)),
        number => (named.role(), number),
    };
    let mut found: Vec<(Role, Option<u32>)> = all.iter().map(one).collect();
    if numbers == Numbers::OneMore {
        for (role, number) in &mut found {
            *number = number.map(|number| if *role == Role::Transmit { number } else { number.saturating_sub(1) });
        }
    }
    if !are_queues(&found, numbers) {
        found.iter_mut().for_each(|(_, number)| *number = None);
    }
    // Two of one number: names that were cut off (bnxt before Linux 6.12), or a second device's.
    let twice: Vec<_> =
        found.iter().filter(|own| found.iter().filter(|other| other == own).count() > 1).copied().collect();
    found.iter_mut().filter(|own| twice.contains(own)).for_each(|(_, number)| *number = None);
    found
}

/// Whether numbers in names are those of queues.
fn are_queues(all: &[(Role, Option<u32>)], numbers: Numbers) -> bool {
    if numbers != Numbers::Vector {
        return true;
    }
    let mut own: Vec<u32> =
        all.iter().filter(|(role, _)| *role != Role::Control).filter_map(|(_, number)| *number).collect();
    own.sort_unstable();
    own.iter().zip(0..).all(|(number, place)| *number == place)
}
