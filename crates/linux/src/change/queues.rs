//! Some of an interface's receive queues, and the instances that serve them: what a run owns that is not alone on a card.
//!
//! Source: `net/core/netdev-genl.c netdev_nl_queue_fill_one`; of veth `drivers/net/veth.c __veth_napi_enable_range`.

use std::fmt;
use std::str::FromStr;

use napier_core::control::{NapiInfo, QueueKind, cpu_list};
use serde::{Deserialize, Serialize};

use super::instances::instances;
use super::sum::sum;
use crate::link;
use crate::netdev::{KernelQueue, Netdev, why_no_instance};
use crate::setting::text::cpu_list_text;
use crate::setting::{DeviceRef, KeyError};

/// Receive queues by their numbers, in order.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Queues(Vec<u32>);

/// A name has 255 bytes, and others want some.
const LIST_BYTES_MAX: usize = 100;

/// It is no list of queues.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no list of receive queues: give numbers and ranges, such as 0-3,6")]
pub struct NoQueues(String);

/// The instance that serves a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ServedQueue {
    pub(super) queue: u32,
    /// Among the interface's instances.
    pub(super) place: u32,
    pub(super) info: NapiInfo,
}

impl Queues {
    /// Their numbers.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// How many there are, which is one at least.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether both have a queue.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.iter().any(|queue| other.0.contains(&queue))
    }

    /// As a part of a file's name, which is of these queues alone.
    pub(super) fn file_name(&self) -> String {
        let list = self.to_string();
        if list.len() <= LIST_BYTES_MAX { list } else { format!("{}-{:016x}", self.0[0], sum(list.as_bytes())) }
    }

    /// In a sentence: `queue 3`, `queues 0-2,6`.
    #[must_use]
    pub fn words(&self) -> String {
        if self.count() == 1 { format!("queue {self}") } else { format!("queues {self}") }
    }
}

impl FromStr for Queues {
    type Err = NoQueues;

    fn from_str(text: &str) -> Result<Self, NoQueues> {
        let found = cpu_list(text).filter(|found| !found.is_empty());
        found.map(Self).ok_or_else(|| NoQueues(text.to_owned()))
    }
}

impl FromIterator<u32> for Queues {
    /// # Panics
    /// There is none.
    fn from_iter<I: IntoIterator<Item = u32>>(queues: I) -> Self {
        let mut queues: Vec<u32> = queues.into_iter().collect();
        queues.sort_unstable();
        queues.dedup();
        assert!(!queues.is_empty(), "a run owns one queue at least");
        Self(queues)
    }
}

impl fmt::Display for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&cpu_list_text(&self.0))
    }
}

/// The instances of these queues, each of which serves no other receive queue.
///
/// # Errors
/// The interface has no such queue, the kernel does not tell which instance serves it, or the instance serves another one too.
pub(super) fn serving(device: &DeviceRef, queues: &Queues) -> Result<Vec<ServedQueue>, KeyError> {
    let all = served(device)?;
    chosen(&device.name, &all, queues)
}

/// The instance of a queue, if there is one now.
pub(super) fn serving_one(device: &DeviceRef, queue: u32) -> Result<Option<NapiInfo>, KeyError> {
    Ok(served(device)?.into_iter().find(|found| found.queue == queue).map(|found| found.info))
}

/// Receive queues with the instances that serve them.
fn served(device: &DeviceRef) -> Result<Vec<ServedQueue>, KeyError> {
    let infos = instances(device)?;
    if infos.is_empty() {
        return Err(KeyError::NotHere(why_no_instance(&device.name)));
    }
    let asked = Netdev::open().and_then(|mut netdev| netdev.queue_dump(Some(device.ifindex.into())));
    let queues = asked.map_err(|told| KeyError::of(told.into_error()))?;
    let queues: Vec<KernelQueue> = queues.into_iter().filter(|queue| queue.info.kind == QueueKind::Rx).collect();
    matched(&queues, &infos, || is_veth(device)).ok_or_else(|| {
        KeyError::NotHere(format!(
            "the driver of {0} does not tell which NAPI instance serves which queue (napier queue-get --dump --dev {0} shows none), \
             so a mode cannot be set on some of its queues alone: run without --queues",
            device.name
        ))
    })
}

/// As queue-get says it; of a veth, which does not say, by order: it makes one for each receive queue, the first first.
fn matched(queues: &[KernelQueue], infos: &[NapiInfo], is_veth: impl FnOnce() -> bool) -> Option<Vec<ServedQueue>> {
    let place = |id: u32| infos.iter().position(|info| info.id == id);
    let of = |queue: u32, place: usize| ServedQueue {
        queue,
        place: u32::try_from(place).unwrap_or(u32::MAX),
        info: infos[place],
    };
    let told: Vec<ServedQueue> =
        queues.iter().filter_map(|queue| Some(of(queue.info.id, place(queue.info.napi_id?)?))).collect();
    if !told.is_empty() {
        return Some(told);
    }
    (queues.len() == infos.len() && is_veth())
        .then(|| queues.iter().enumerate().map(|(at, queue)| of(queue.info.id, at)).collect())
}

fn is_veth(device: &DeviceRef) -> bool {
    let is_it = |(ifindex, _, kind): &(u32, String, Option<String>)| {
        *ifindex == device.ifindex && kind.as_deref() == Some("veth")
    };
    link::all().is_ok_and(|all| all.iter().any(is_it))
}

fn chosen(device: &str, all: &[ServedQueue], queues: &Queues) -> Result<Vec<ServedQueue>, KeyError> {
    let there: Queues = all.iter().map(|served| served.queue).collect();
    let mut found: Vec<ServedQueue> = Vec::new();
    for queue in queues.iter() {
        let served = all.iter().find(|served| served.queue == queue).ok_or_else(|| {
            KeyError::NotHere(format!(
                "{device} has no receive queue {queue} with a NAPI instance: it has {there} (ethtool -L changes how many)"
            ))
        })?;
        let is_other = |other: &&ServedQueue| other.info.id == served.info.id && !queues.0.contains(&other.queue);
        if let Some(other) = all.iter().find(is_other) {
            return Err(KeyError::Refused(format!(
                "queues {queue} and {} of {device} are served by one NAPI instance ({}), which has one mode: give both to --queues, or \
                 neither",
                other.queue, served.info.id
            )));
        }
        if !found.iter().any(|found| found.info.id == served.info.id) {
            found.push(*served);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use napier_core::control::QueueInfo;

    fn info(id: u32) -> NapiInfo {
        NapiInfo {
            ifindex: 2,
            id,
            irq: None,
            pid: None,
            defer_hard_irqs: Some(0),
            gro_flush_timeout: None,
            irq_suspend_timeout: None,
            threaded: None,
        }
    }

    fn queue(id: u32, napi_id: Option<u32>) -> KernelQueue {
        let info = QueueInfo { id, ifindex: 2, kind: QueueKind::Rx, napi_id };
        KernelQueue { info, dmabuf: None, io_uring: None, xsk: false, lease: None }
    }

    #[test]
    fn a_list_is_read_and_said_as_people_write_it() {
        let queues: Queues = "6, 0-2,1".parse().expect("a list");
        assert_eq!((queues.to_string().as_str(), queues.words().as_str()), ("0-2,6", "queues 0-2,6"));
        assert_eq!("3".parse::<Queues>().expect("a list").words(), "queue 3");
        assert!(["", "x", "2-1", "-1", ","].iter().all(|text| text.parse::<Queues>().is_err()));
        assert!(queues.overlaps(&[2, 9].into_iter().collect()) && !queues.overlaps(&[3].into_iter().collect()));
        assert_eq!(serde_json::to_string(&queues).expect("written"), "[0,1,2,6]");
    }

    #[test]
    fn a_queue_has_the_instance_that_the_kernel_says() {
        // Transmit instances lie between.
        let infos = [info(5), info(6), info(7), info(8)];
        let found = matched(&[queue(0, Some(5)), queue(1, Some(7)), queue(2, None)], &infos, || false).expect("told");
        let found: Vec<_> = found.iter().map(|served| (served.queue, served.place, served.info.id)).collect();
        assert_eq!(found, [(0, 0, 5), (1, 2, 7)]);
        // Not told: by order on a veth that has one for each queue, and else not at all.
        let silent = [queue(0, None), queue(1, None)];
        assert_eq!(matched(&silent, &infos[..2], || false), None);
        assert_eq!(matched(&silent, &infos[..3], || true), None);
        assert_eq!(matched(&silent, &infos[..2], || true).map(|found| found[1].info.id), Some(6));
    }

    #[test]
    fn an_instance_that_serves_another_queue_too_is_refused() {
        let infos = [info(5), info(6)];
        let queues = [queue(0, Some(5)), queue(1, Some(5)), queue(2, Some(6))];
        let all = matched(&queues, &infos, || false).expect("told");
        let of = |list: &str| chosen("eth0", &all, &list.parse().expect("a list"));
        let refused = of("0,2").expect_err("queue 1 would get the mode too").to_string();
        assert!(refused.contains("queues 0 and 1 of eth0 are served by one NAPI instance (5)"), "{refused}");
        assert_eq!(of("0-1").expect("both").len(), 1);
        assert_eq!(of("2").expect("its own")[0].place, 1);
        let refused = of("2-3").expect_err("there is none").to_string();
        assert!(refused.contains("no receive queue 3") && refused.contains("it has 0-2"), "{refused}");
    }
}
