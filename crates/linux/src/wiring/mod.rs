//! Through which interface the packets of a program come that may be in another network namespace than the interface.
//!
//! | between the interface and the program | its packets come up in | known by |
//! |---|---|---|
//! | nothing: both are in one namespace | the poll of the interface | |
//! | macvlan, ipvlan (and VLANs and bonds between them and the interface) | the poll of the interface | where `IFLA_LINK` of the program's interface leads |
//! | netkit, or a veth that a BPF program redirects to (`bpf_redirect_peer`) | the poll of the interface | the instances that sockets have learned |
//! | a pair of veth interfaces that is routed or bridged to | the poll of the program's end, if the other end sends no segments; else the backlog | the pair |
//!
//! What sockets have learned (`SO_INCOMING_NAPI_ID`) comes first: it is what happens, and the rest is what the kernel is made to do. Source: receive
//! handlers of `drivers/net/macvlan.c` and `drivers/net/ipvlan`, `net/core/filter.c skb_do_redirect`, `drivers/net/veth.c veth_xmit`.

mod pair;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd as _;

use crate::descriptors::copies::{self, Asked};
use crate::descriptors::{Kind, Process, ProcessRef};
use crate::link::{self, LinkRow};
use crate::setting::{DeviceRef, KeyError};
use crate::socket::{self, BusyOption};
use crate::{LinuxError, Netns, netdev};
pub use pair::{LeadsTo, OtherEnd, PairLines, leads_to, other_end, pair_lines};

/// How packets get from an interface to a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Way {
    /// Both are in one namespace.
    Same,
    /// So many sockets of the program have learned an instance of the interface.
    Learned {
        /// How many.
        sockets: usize,
    },
    /// An interface of the program's namespace hands on what comes to the interface.
    Below {
        /// What it is.
        kind: String,
        /// Its name.
        name: String,
    },
    /// An interface of the program's namespace that a BPF program may redirect to; no socket has learned an instance yet.
    MayBe {
        /// What it is.
        kind: String,
        /// Its name.
        name: String,
    },
}

/// An interface, and where it is.
#[derive(Clone, Debug)]
pub struct Wired {
    /// The interface.
    pub device: DeviceRef,
    /// Its namespace, if it is not the calling thread's.
    pub netns: Option<Netns>,
    /// How packets get to the program.
    pub way: Way,
}

/// Why an interface and a program do not belong together.
#[derive(Debug, thiserror::Error)]
pub enum WiringError {
    /// There is no such interface.
    #[error("there is no interface {name} in this network namespace{}: `ip link` lists them ({error})", nor_of(who.as_ref()))]
    NoDevice {
        /// As asked.
        name: String,
        /// The program, if it is in another namespace.
        who: Option<ProcessRef>,
        /// As the kernel says it.
        error: io::Error,
    },
    /// The program may not be looked at.
    #[error("{who} cannot be looked into: {error}")]
    Denied {
        /// The program.
        who: ProcessRef,
        /// Why.
        error: KeyError,
    },
    /// Its packets do not come through the interface.
    #[error("{who} is in another network namespace, and its packets do not come up in the poll of {device}: {why}")]
    Apart {
        /// The program.
        who: ProcessRef,
        /// The interface.
        device: String,
        /// Why, and what to do.
        why: String,
    },
    /// A namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] LinuxError),
}

fn nor_of(who: Option<&ProcessRef>) -> String {
    who.map_or_else(String::new, |who| format!(", nor in that of {who}"))
}

/// Kinds of interfaces that hand a packet on within the poll that it came by. Source: `rx_handler` of each.
const HANDS_ON: [&str; 8] = ["macvlan", "macvtap", "ipvlan", "ipvtap", "vlan", "bond", "team", "bridge"];
/// More interfaces are not on top of each other. Source: `include/linux/netdevice.h MAX_NEST_DEV`.
const DEPTH_MAX: usize = 8;

/// The interface that a name means for programs: in the calling thread's namespace if their packets come through that one, else in theirs. Of a
/// pair of veth interfaces it is their end, also if the other one was named.
///
/// # Errors
/// [`WiringError`], which says what to give instead.
pub fn find(name: &str, programs: &[Process]) -> Result<Wired, WiringError> {
    let here = Netns::current()?;
    let inode = here.inode().map_err(LinuxError::Enter)?;
    let denied = |process: &Process, error| WiringError::Denied { who: process.who().clone(), error };
    let (mut apart, mut is_any_here) = (Vec::new(), false);
    for process in programs {
        match process.netns() {
            Ok(own) if own == inode => is_any_here = true,
            Ok(_) => apart.push(process),
            Err(KeyError::Gone(_)) => {}
            Err(error) => return Err(denied(process, error)),
        }
    }
    let local = DeviceRef::named(name);
    let Some(first) = apart.first().filter(|_| !is_any_here || local.is_err()) else {
        let no_device = |error| WiringError::NoDevice { name: name.to_owned(), who: None, error };
        return Ok(Wired { device: local.map_err(no_device)?, netns: None, way: Way::Same });
    };
    let theirs = Netns::open(&first.who().pid.to_string())?;
    let why = match &local {
        Ok(device) => match through(device, &here, &theirs, &apart)? {
            Ok(wired) => return Ok(wired),
            Err(why) => Some(why),
        },
        Err(_) => None,
    };
    // The same name may mean another interface there.
    if let Ok(device) = theirs.run(|| DeviceRef::named(name))? {
        let has_none = theirs.run(|| netdev::napi_dump(Some(device.ifindex)).is_ok_and(|found| found.is_empty()))?;
        // One without instances, of which it is known whose it uses.
        if let Some(carrier) =
            has_none.then(|| carriers(first)).filter(|all| all.len() == 1).and_then(|mut all| all.pop())
            && let Ok(wired) = through(&carrier, &here, &theirs, &apart)?
        {
            return Ok(wired);
        }
        return Ok(Wired { device, netns: Some(theirs), way: Way::Same });
    }
    let who = first.who().clone();
    Err(match (local, why) {
        (Err(error), _) => WiringError::NoDevice { name: name.to_owned(), who: Some(who), error },
        (Ok(device), why) => WiringError::Apart { who, device: device.name, why: why.unwrap_or_default() },
    })
}

/// Whether packets of these programs, which are in another namespace, come through an interface of this one; why not, and what to do.
fn through(
    device: &DeviceRef,
    here: &Netns,
    theirs: &Netns,
    programs: &[&Process],
) -> Result<Result<Wired, String>, WiringError> {
    let wired = |way| Ok(Ok(Wired { device: device.clone(), netns: None, way }));
    let ids: Vec<u32> =
        netdev::napi_dump(Some(device.ifindex)).unwrap_or_default().into_iter().map(|info| info.id).collect();
    let learned = learned(programs);
    let sockets = learned.iter().filter(|(id, _)| ids.contains(id)).map(|(_, count)| count).sum();
    if sockets > 0 {
        return wired(Way::Learned { sockets });
    }
    let rows = link::rows().unwrap_or_default();
    if let Some(other) = learned.keys().find_map(|id| netdev::napi_get(*id).ok()) {
        let other = name_of(&rows, other.ifindex).unwrap_or_default();
        return Ok(Err(format!("its sockets receive from instances of {other}: give --dev {other}")));
    }
    let (their_rows, nsid) =
        theirs.run(|| (link::rows().unwrap_or_default(), link::nsid(here.as_fd()).ok().flatten()))?;
    let leads_here = |row: &&LinkRow| row.link.is_some() && row.link_nsid.is_some() && row.link_nsid == nsid;
    let mut pairs = Vec::new();
    let mut redirected = None;
    for row in their_rows.iter().filter(leads_here) {
        let (kind, name) = (row.kind.clone().unwrap_or_default(), row.name.clone());
        let link = row.link.unwrap_or(0);
        match kind.as_str() {
            "veth" if link == device.ifindex => {
                let device = DeviceRef { ifindex: row.ifindex, name };
                return Ok(Ok(Wired { device, netns: Some(theirs.clone()), way: Way::Same }));
            }
            "veth" => pairs.push((name, link)),
            "netkit" => redirected = Some(Way::MayBe { kind, name }),
            _ if HANDS_ON.contains(&kind.as_str()) && is_over(&rows, link, device.ifindex, DEPTH_MAX) => {
                return wired(Way::Below { kind, name });
            }
            _ => {}
        }
    }
    // Its own end of a pair has no instance.
    match redirected.filter(|_| !ids.is_empty() && learned.is_empty()) {
        Some(way) => wired(way),
        None => Ok(Err(why_not(&pairs, &rows, &their_rows, programs[0].who().pid))),
    }
}

/// Interfaces of the calling thread's namespace in whose poll the packets of a program of another namespace come up, as far as that is known: by the
/// instances that its sockets have learned, and by what its interfaces are on top of.
#[must_use]
pub fn carriers(program: &Process) -> Vec<DeviceRef> {
    let rows = link::rows().unwrap_or_default();
    let infos = netdev::napi_dump(None).unwrap_or_default();
    let learned = learned(&[program]);
    let mut found: BTreeSet<u32> =
        infos.iter().filter(|info| learned.contains_key(&info.id)).map(|info| info.ifindex).collect();
    if let (Some(theirs), Ok(here)) = (program.netns_apart(), Netns::current()) {
        let read = || (link::rows().unwrap_or_default(), link::nsid(here.as_fd()).ok().flatten());
        let (their_rows, nsid) = theirs.run(read).unwrap_or_default();
        let hands_on = |row: &&LinkRow| row.kind.as_deref().is_some_and(|kind| HANDS_ON.contains(&kind));
        for row in their_rows.iter().filter(hands_on).filter(|row| row.link_nsid.is_some() && row.link_nsid == nsid) {
            let below = |ifindex: &u32| row.link.is_some_and(|link| is_over(&rows, link, *ifindex, DEPTH_MAX));
            found.extend(infos.iter().map(|info| info.ifindex).filter(below));
        }
    }
    let named = |ifindex| Some(DeviceRef { ifindex, name: name_of(&rows, ifindex)? });
    found.into_iter().filter_map(named).take(CARRIERS_MAX).collect()
}

/// More interfaces are not looked at for one program.
const CARRIERS_MAX: usize = 4;

/// Whether an interface is another one, or on top of it.
fn is_over(rows: &[LinkRow], upper: u32, lower: u32, depth: usize) -> bool {
    if upper == lower {
        return true;
    }
    let is_below = |row: &&LinkRow| {
        let own = rows.iter().find(|own| own.ifindex == upper);
        row.master == Some(upper) || own.is_some_and(|own| own.link_nsid.is_none() && own.link == Some(row.ifindex))
    };
    depth > 0 && rows.iter().filter(is_below).any(|row| is_over(rows, row.ifindex, lower, depth - 1))
}

fn name_of(rows: &[LinkRow], ifindex: u32) -> Option<String> {
    rows.iter().find(|row| row.ifindex == ifindex).map(|row| row.name.clone())
}

fn why_not(pairs: &[(String, u32)], rows: &[LinkRow], theirs: &[LinkRow], pid: u32) -> String {
    if let Some((own, other)) = pairs.iter().find_map(|(own, link)| Some((own, name_of(rows, *link)?))) {
        return format!(
            "its {own} is one end of a pair of veth interfaces, the other end here is {other}, and none of its sockets has received from an \
             instance of another interface. Give --dev {other}"
        );
    }
    let all: Vec<String> = theirs
        .iter()
        .filter(|row| row.name != "lo")
        .map(|row| row.kind.as_ref().map_or_else(|| row.name.clone(), |kind| format!("{} ({kind})", row.name)))
        .collect();
    let there = if all.is_empty() { "has none but loopback".to_owned() } else { format!("has {}", all.join(", ")) };
    format!(
        "its namespace {there}, and none of its sockets has received from an instance here. `nsenter --net --target {pid} napier run ...` \
         runs this command there"
    )
}

/// Instances that sockets of programs have learned, and how many have each.
fn learned(programs: &[&Process]) -> BTreeMap<u32, usize> {
    let of = |process: &&Process| {
        let found = process.descriptors().unwrap_or_default().into_iter();
        let sockets = found.filter(|(_, kind)| matches!(kind, Kind::Socket(_)));
        sockets.map(|(fd, kind)| Asked { process: (*process).clone(), fd, kind }).collect::<Vec<_>>()
    };
    let asked: Vec<Asked> = programs.iter().flat_map(of).collect();
    let answers = copies::each(asked, |_, fd| socket::get(fd, BusyOption::IncomingNapiId).unwrap_or(0));
    let mut found = BTreeMap::new();
    for id in answers.into_iter().flatten().filter_map(|id| u32::try_from(id).ok()).filter(|id| *id != 0) {
        *found.entry(id).or_default() += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ifindex: u32, link: Option<u32>, link_nsid: Option<i32>, master: Option<u32>) -> LinkRow {
        LinkRow { ifindex, name: format!("if{ifindex}"), kind: None, link, link_nsid, master }
    }

    #[test]
    fn what_is_on_top_of_an_interface_is_followed_down() {
        // A VLAN 5 on a bond 4 of the cards 2 and 3; a veth 6 whose other end is in another namespace, and 7 on top of it.
        let rows = [
            row(2, None, None, Some(4)),
            row(3, None, None, Some(4)),
            row(4, None, None, None),
            row(5, Some(4), None, None),
            row(6, Some(2), Some(0), None),
            row(7, Some(6), None, None),
        ];
        let over = |upper, lower| is_over(&rows, upper, lower, DEPTH_MAX);
        assert!(over(2, 2) && over(4, 3) && over(5, 2) && over(5, 3) && over(7, 6));
        assert!(!over(2, 3) && !over(6, 2) && !over(7, 2) && !over(2, 4) && !over(9, 2));
        // Two that lead to each other, as the ends of a pair do.
        let pair = [row(8, Some(9), None, None), row(9, Some(8), None, None)];
        assert!(!is_over(&pair, 8, 2, DEPTH_MAX) && is_over(&pair, 8, 9, DEPTH_MAX));
    }

    #[test]
    fn the_reason_names_what_to_give() {
        let rows = [LinkRow { kind: Some("tun".to_owned()), ..row(3, None, None, None) }];
        let said = why_not(&[("eth0".to_owned(), 3)], &rows, &[], 7);
        assert!(said.ends_with("Give --dev if3") && said.contains("its eth0"), "{said}");
        let said = why_not(&[], &[], &rows, 7);
        assert!(said.contains("has if3 (tun)") && said.contains("nsenter --net --target 7"), "{said}");
        assert!(why_not(&[], &[], &[], 7).contains("none but loopback"));
    }
}
