//! A pair of veth interfaces, of which one end is a container's: what it needs before its instances take packets.
//!
//! A veth makes instances only with generic receive offload or an XDP program, and a frame goes to them only if the end that sends it has no
//! TCP segmentation offload; else it goes to the backlog of a CPU, and no mode acts. Source: `drivers/net/veth.c veth_napi_enable`,
//! `veth_skb_is_eligible_for_gro` (`NETIF_F_ALL_TSO`).

use std::os::fd::AsFd as _;

use serde::Serialize;

use crate::change::{EthtoolKey, Key, Line};
use crate::ethtool::{self, Feature, Group};
use crate::link::LinkRow;
use crate::setting::DeviceRef;
use crate::{Netns, link, netns};

/// The other end of a pair.
#[derive(Clone, Debug)]
pub struct OtherEnd {
    /// The interface, by its number and name there.
    pub device: DeviceRef,
    /// Its namespace, if it is not the calling thread's.
    pub netns: Option<Netns>,
}

/// What an interface leads to: the one below it, or the other end of its pair.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LeadsTo {
    /// Its number there.
    pub ifindex: u32,
    /// Its name; `None` if its namespace is not seen from here.
    pub name: Option<String>,
    /// It is in the same namespace.
    pub is_here: bool,
    /// Of the other end of a pair: it sends with TCP segmentation offload.
    pub segments: Option<bool>,
}

/// What a pair needs before packets that come to one end go through its instances.
#[derive(Clone, Default, Debug)]
pub struct PairLines {
    /// At that end.
    pub own: Vec<Line>,
    /// At the other one, in its namespace.
    pub other: Option<(OtherEnd, Vec<Line>)>,
}

/// The other end of a veth of the calling thread's namespace; `None` if it is none, or the other end's namespace is not seen from here: no process that
/// is seen is in it, and it has no name.
#[must_use]
pub fn other_end(device: &DeviceRef) -> Option<OtherEnd> {
    led_to(&row(device).filter(|row| row.kind.as_deref() == Some(VETH))?)
}

/// What an interface of the calling thread's namespace leads to.
#[must_use]
pub fn leads_to(device: &DeviceRef) -> Option<LeadsTo> {
    let row = row(device)?;
    let found = led_to(&row);
    let segments = found.as_ref().filter(|_| row.kind.as_deref() == Some(VETH)).and_then(OtherEnd::segments);
    let name = found.map(|end| end.device.name);
    Some(LeadsTo { ifindex: row.link?, name, is_here: row.link_nsid.is_none(), segments })
}

const VETH: &str = "veth";

fn row(device: &DeviceRef) -> Option<LinkRow> {
    link::rows().ok()?.into_iter().find(|row| row.ifindex == device.ifindex)
}

fn led_to(row: &LinkRow) -> Option<OtherEnd> {
    let ifindex = row.link?;
    let named = || Some(DeviceRef { ifindex, name: link::name(ifindex).ok()? });
    let Some(wanted) = row.link_nsid else {
        return Some(OtherEnd { device: named()?, netns: None });
    };
    let is_it = |netns: &Netns| link::nsid(netns.as_fd()).ok().flatten() == Some(wanted);
    let netns = netns::all().into_iter().find(is_it)?;
    let device = netns.run(named).ok()??;
    Some(OtherEnd { device, netns: Some(netns) })
}

impl OtherEnd {
    /// Acts in its namespace.
    fn there<R: Send>(&self, act: impl FnOnce() -> R + Send) -> Option<R> {
        match &self.netns {
            None => Some(act()),
            Some(netns) => netns.run(act).ok(),
        }
    }

    /// Whether it sends with segmentation offload; `None` if that is not told.
    fn segments(&self) -> Option<bool> {
        let all = self.there(|| ethtool::features(self.device.ifindex))?.ok()?;
        Some(all.iter().any(|feature| is_segmentation(&feature.name) && feature.active))
    }
}

/// What the pair of a veth of the calling thread's namespace needs; nothing for another interface, and for one whose other end is not seen from here.
#[must_use]
pub fn pair_lines(device: &DeviceRef) -> PairLines {
    let Some(other) = other_end(device) else { return PairLines::default() };
    let has_xdp = device.name_now().is_ok_and(|name| link::has_xdp(&name).unwrap_or(false));
    let is_off = |feature: &Feature| feature.name == GRO && !feature.active && feature.changeable && !has_xdp;
    let is_on = |feature: &Feature| is_segmentation(&feature.name) && feature.active && feature.changeable;
    let in_theirs = || lines(&other.device, is_on, "off");
    let theirs = other.there(in_theirs).unwrap_or_default();
    PairLines { own: lines(device, is_off, "on"), other: (!theirs.is_empty()).then_some((other, theirs)) }
}

/// Generic receive offload, as `ethtool -K` calls it too.
const GRO: &str = "rx-gro";

/// Whether an offload is one of those that `ethtool -K IF tso` switches.
pub(crate) fn is_segmentation(name: &str) -> bool {
    name.starts_with("tx-tcp") && name.ends_with("-segmentation")
}

fn lines(device: &DeviceRef, is_wanted: impl Fn(&Feature) -> bool, value: &str) -> Vec<Line> {
    let all = ethtool::features(device.ifindex).unwrap_or_default().into_iter().filter(is_wanted);
    let key = |name| Key::Ethtool(EthtoolKey { device: device.clone(), group: Group::Features, name });
    all.map(|feature| Line::new(key(feature.name), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offloads_of_segmentation_are_told_from_others() {
        let all =
            ["tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-accecn-segmentation"];
        assert!(all.into_iter().all(is_segmentation));
        assert!(!["tx-udp-segmentation", "tx-gre-segmentation", "rx-gro", "tx-tcp"].into_iter().any(is_segmentation));
    }
}
