//! Interfaces.

use std::collections::BTreeMap;
use std::fs;

use napier_core::control::{NapiInfo, QueueKind, ThreadedSetting};

use super::machine::{names, text};
use super::{Device, DeviceFiles, Facts, FactsError, Instance, Irq, RxQueue, Thread};
use crate::change::DeviceRef;
use crate::change::text::{cpu_list, cpu_mask};
use crate::ethtool::{self, Group};
use crate::netdev::{self as napi, Netdev};
use crate::{device, link};

/// More queues than any device has: a bound of the loop that asks for one after the other.
const QUEUES_MAX: u32 = 4096;

pub(super) fn read(facts: &mut Facts, wanted: Option<&str>) -> Result<(), FactsError> {
    let all = link::all().map_err(FactsError::List)?;
    if let Some(name) = wanted
        && !all.iter().any(|(_, found, _)| found == name)
    {
        let there = all.iter().map(|(_, name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(FactsError::NoDevice { name: name.to_owned(), there });
    }
    facts.napi_ids = napi::napi_dump(None).unwrap_or_default().iter().map(|info| info.id).collect();
    for (ifindex, name, kind) in all {
        let is_asked = wanted == Some(name.as_str());
        let device = DeviceRef { ifindex, name };
        if wanted.is_some_and(|_| !is_asked) || (wanted.is_none() && device.name == "lo") {
            continue;
        }
        let found = one(device, kind, is_asked, &mut facts.unseen);
        if is_asked || found.is_up {
            facts.devices.push(found);
        }
    }
    Ok(())
}

/// A file of an interface; what is not permitted is noted.
struct Files<'a> {
    name: &'a str,
    unseen: &'a mut Vec<String>,
}

impl Files<'_> {
    fn text(&mut self, file: &str) -> Option<String> {
        match device::read_file(self.name, file) {
            Ok(text) => Some(text),
            Err(error) if error.errno() == Some(napier_core::control::Errno::EPERM) => {
                let what = format!("files of {} in another namespace's sysfs: needs CAP_SYS_ADMIN", self.name);
                if !self.unseen.contains(&what) {
                    self.unseen.push(what);
                }
                None
            }
            Err(_) => None,
        }
    }

    fn number(&mut self, file: &str) -> Option<u64> {
        self.text(file)?.parse().ok()
    }
}

fn one(device: DeviceRef, kind: Option<String>, is_asked: bool, unseen: &mut Vec<String>) -> Device {
    let ifindex = device.ifindex;
    let instances = napi::napi_dump(Some(ifindex)).ok().map(|mut infos| {
        infos.sort_unstable_by_key(|info| info.id);
        infos.iter().zip(0..).map(|(info, place)| instance(info, place)).collect::<Vec<_>>()
    });
    let name = device.name.clone();
    let mut files = Files { name: &name, unseen };
    let flags = files.text("flags").and_then(|flags| u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok());
    // `include/uapi/linux/if.h IFF_UP`; what may not be read is told by the kernel's list of instances.
    let is_up = flags.map_or_else(|| instances.as_ref().is_some_and(|found| !found.is_empty()), |flags| flags & 1 != 0);
    let driver = files
        .text("device/uevent")
        .and_then(|uevent| uevent.lines().find_map(|line| line.strip_prefix("DRIVER=")).map(ToOwned::to_owned));
    let numa_node = files.text("device/numa_node").and_then(|node| node.parse().ok());
    let own_files = DeviceFiles {
        gro_flush_timeout: files.number("gro_flush_timeout"),
        napi_defer_hard_irqs: files.number("napi_defer_hard_irqs"),
        threaded: files.number("threaded"),
    };
    let rx_queues = rx_queues(ifindex, &mut files);
    let of = |group| ethtool::get(ifindex, group).unwrap_or_default();
    let features = of(Group::Features);
    Device {
        is_asked,
        is_up,
        irqs: irqs(&name, instances.as_deref().unwrap_or_default(), driver.is_some()),
        driver: driver.or(kind),
        numa_node,
        has_xdp: link::has_xdp(&name).unwrap_or(false),
        rx_queues,
        instances,
        files: own_files,
        channels: of(Group::Channels),
        rings: of(Group::Rings),
        coalesce: of(Group::Coalesce),
        gro: features.get("rx-gro").map(|value| value == "on"),
        device,
    }
}

fn instance(info: &NapiInfo, place: u32) -> Instance {
    Instance {
        id: info.id,
        place,
        irq: info.irq,
        thread: info.pid.and_then(|pid| Thread::of(pid).ok()),
        defer_hard_irqs: info.defer_hard_irqs,
        gro_flush_timeout_ns: info.gro_flush_timeout.map(|span| span.ns),
        irq_suspend_timeout_ns: info.irq_suspend_timeout.map(|span| span.ns),
        threaded: info.threaded.map(|setting: ThreadedSetting| setting.name().to_owned()),
    }
}

fn rx_queues(ifindex: u32, files: &mut Files<'_>) -> Vec<RxQueue> {
    let ids = queue_instances(ifindex);
    let queue = |index| {
        // Without RPS in the kernel a queue has no such file; then the queues are those that queue-get knows.
        let rps_cpus = files.text(&format!("queues/rx-{index}/rps_cpus"));
        if rps_cpus.is_none() && !ids.contains_key(&index) {
            return None;
        }
        let flows = files.number(&format!("queues/rx-{index}/rps_flow_cnt"));
        Some(RxQueue {
            index,
            rps_cpus: rps_cpus.as_deref().and_then(cpu_mask).unwrap_or_default(),
            rps_flow_cnt: flows.and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
            napi_id: ids.get(&index).copied().flatten(),
        })
    };
    (0..QUEUES_MAX).map_while(queue).collect()
}

/// The instance of each receive queue, as queue-get says (since Linux 6.8).
fn queue_instances(ifindex: u32) -> BTreeMap<u32, Option<u32>> {
    let queues = Netdev::open().and_then(|mut netdev| netdev.queue_dump(Some(ifindex.into()))).unwrap_or_default();
    let queues = queues.into_iter().map(|queue| queue.info);
    queues.filter(|info| info.kind == QueueKind::Rx).map(|info| (info.id, info.napi_id)).collect()
}

/// Interrupts that an instance names, that are the interface's in the folder of its device, or that bear its name.
/// Only one with hardware has any; `/sys` may be another namespace's, where a virtual one has that name.
fn irqs(name: &str, instances: &[Instance], has_hardware: bool) -> Vec<Irq> {
    if !has_hardware {
        return Vec::new();
    }
    let folder = format!("/sys/class/net/{name}/device");
    // A device on the bus `virtio` has its interrupts at the device that it is a part of.
    let bus_name = fs::read_link(&folder).ok().and_then(|path| path.file_name()?.to_str().map(ToOwned::to_owned));
    let own: Vec<u32> =
        names(&format!("{folder}/msi_irqs"), "").iter().filter_map(|number| number.parse().ok()).collect();
    let is_ours = |number: u32, action: &str| {
        let bears = |name: &str| {
            let rest = action.find(name).map(|at| (&action[..at], &action[at + name.len()..]));
            let apart = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
            rest.is_some_and(|(front, back)| apart(front.chars().last()) && apart(back.chars().next()))
        };
        instances.iter().any(|instance| instance.irq == Some(number))
            || own.contains(&number)
            || bears(name)
            || bus_name.as_deref().is_some_and(|bus| bus.starts_with("virtio") && bears(bus))
    };
    let interrupts = fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let line = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let number: u32 = number.trim().parse().ok()?;
        let action = rest.split_whitespace().next_back()?;
        // A change of the configuration is not a queue's.
        if action.ends_with("-config") || !is_ours(number, action) {
            return None;
        }
        let list = |file: &str| text(&format!("/proc/irq/{number}/{file}")).as_deref().and_then(cpu_list);
        let affinity = list("smp_affinity_list").unwrap_or_default();
        let effective = list("effective_affinity_list").unwrap_or_default();
        Some(Irq { number, name: action.to_owned(), affinity, effective })
    };
    interrupts.lines().filter_map(line).collect()
}
