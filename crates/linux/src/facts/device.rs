//! Interfaces.

use std::collections::BTreeMap;

use napier_core::control::{Errno, NapiInfo, QueueKind, ThreadedSetting};

use super::source::{Answers, Queue, Source};
use super::{DeviceFacts, DeviceFiles, Facts, FactsError, Instance, RxQueue};
use crate::change::DeviceRef;
use crate::device::driver_in;
use crate::drivers::LRO;
use crate::ethtool::Group;
use crate::irqs::{self, Irq, IrqOwner};
use crate::setting::text::cpu_mask;

/// More queues than any device has: a bound of the loop that asks for one after the other.
const QUEUES_MAX: u32 = 4096;

/// With more interfaces it is not looked where each leads to: that is a look at all processes.
const FEW: usize = 8;

pub(super) fn read(source: &Source<'_>, facts: &mut Facts, wanted: Option<&str>) -> Result<(), FactsError> {
    let all = source.kernel.links().map_err(FactsError::List)?;
    if let Some(name) = wanted
        && !all.iter().any(|(_, found, _)| found == name)
    {
        let there = all.iter().map(|(_, name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(FactsError::NoDevice { name: name.to_owned(), there });
    }
    let napis = source.kernel.napis();
    facts.napi_ids = napis.iter().flatten().map(|info| info.id).collect();
    let held = source.kernel.held();
    let is_few = all.len() <= FEW;
    for (ifindex, name, kind) in all {
        let is_asked = wanted == Some(name.as_str());
        let device = DeviceRef { ifindex, name };
        if wanted.is_some_and(|_| !is_asked) || (wanted.is_none() && device.name == "lo") {
            continue;
        }
        let own = napis.as_ref().map(|all| all.iter().filter(|info| info.ifindex == ifindex).copied().collect());
        let mut found = one(source, device, kind, own, &mut facts.unseen);
        (found.is_asked, found.is_held) = (is_asked, held.contains(&ifindex));
        if is_asked || is_few {
            found.leads_to = source.kernel.leads_to(&found.device);
        }
        if is_asked || found.is_up {
            facts.devices.push(found);
        }
    }
    Ok(())
}

/// A file of an interface; what is not permitted is noted.
struct Files<'a> {
    name: &'a str,
    kernel: &'a dyn Answers,
    unseen: &'a mut Vec<String>,
}

impl Files<'_> {
    fn text(&mut self, file: &str) -> Option<String> {
        match self.kernel.file(self.name, file) {
            Ok(text) => Some(text),
            Err(error) if error.errno() == Some(Errno::EPERM) => {
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

fn one(
    source: &Source<'_>,
    device: DeviceRef,
    kind: Option<String>,
    infos: Option<Vec<NapiInfo>>,
    unseen: &mut Vec<String>,
) -> DeviceFacts {
    let (ifindex, kernel) = (device.ifindex, source.kernel);
    let instances = infos.map(|mut infos| {
        infos.sort_unstable_by_key(|info| info.id);
        infos.iter().zip(0..).map(|(info, place)| instance(kernel, info, place)).collect::<Vec<_>>()
    });
    let name = device.name.clone();
    let mut files = Files { name: &name, kernel, unseen };
    let flags = files.text("flags").and_then(|flags| u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok());
    // `include/uapi/linux/if.h IFF_UP`; what may not be read is told by the kernel's list of instances.
    let is_up = flags.map_or_else(|| instances.as_ref().is_some_and(|found| !found.is_empty()), |flags| flags & 1 != 0);
    let driver = files.text("device/uevent").and_then(|uevent| driver_in(&uevent).map(ToOwned::to_owned));
    let numa_node = files.text("device/numa_node").and_then(|node| node.parse().ok());
    let own_files = DeviceFiles {
        gro_flush_timeout: files.number("gro_flush_timeout"),
        napi_defer_hard_irqs: files.number("napi_defer_hard_irqs"),
        threaded: files.number("threaded"),
    };
    let queues = kernel.queues(ifindex);
    let rx_queues = rx_queues(&queues, &mut files);
    let told: Vec<u32> = instances.iter().flatten().filter_map(|instance| instance.irq).collect();
    let mut irqs = irqs::of(&source.root, &IrqOwner { interface: &name, ifindex, told: &told });
    number_queues(&mut irqs, instances.as_deref().unwrap_or_default(), &queues);
    let (xsk_queues, xsk_zero_copy) = kernel.xsk(ifindex);
    let offloads = kernel.ethtool(ifindex, Group::Features);
    let is_on = |name: &str| offloads.get(name).map(|value| value == "on");
    DeviceFacts {
        is_asked: false,
        is_held: false,
        is_up,
        irqs,
        driver: driver.or(kind),
        numa_node,
        has_xdp: kernel.has_xdp(&name),
        xsk_queues,
        xsk_zero_copy,
        rx_queues,
        instances,
        files: own_files,
        channels: kernel.ethtool(ifindex, Group::Channels),
        rings: kernel.ethtool(ifindex, Group::Rings),
        coalesce: kernel.ethtool(ifindex, Group::Coalesce),
        leads_to: None,
        gro: is_on("rx-gro"),
        lro: is_on(LRO),
        device,
    }
}

fn instance(kernel: &dyn Answers, info: &NapiInfo, place: u32) -> Instance {
    Instance {
        id: info.id,
        place,
        irq: info.irq,
        thread: info.pid.and_then(|pid| kernel.thread(pid)),
        defer_hard_irqs: info.defer_hard_irqs,
        gro_flush_timeout_ns: info.gro_flush_timeout.map(|span| span.ns),
        irq_suspend_timeout_ns: info.irq_suspend_timeout.map(|span| span.ns),
        threaded: info.threaded.map(|setting: ThreadedSetting| setting.name().to_owned()),
    }
}

fn rx_queues(queues: &[Queue], files: &mut Files<'_>) -> Vec<RxQueue> {
    let ids: BTreeMap<u32, Option<u32>> =
        queues.iter().filter(|(kind, ..)| *kind == QueueKind::Rx).map(|(_, index, id)| (*index, *id)).collect();
    let queue = |index: u32| {
        // Without RPS in the kernel a queue has no such file; then the queues are those that queue-get knows.
        let rps_cpus = files.text(&format!("queues/rx-{index}/rps_cpus"));
        if rps_cpus.is_none() && !ids.contains_key(&index) {
            return None;
        }
        let flows = files.number(&format!("queues/rx-{index}/rps_flow_cnt"));
        Some(RxQueue {
            index,
            rps_cpus: rps_cpus.as_deref().and_then(cpu_mask),
            rps_flow_cnt: flows.and_then(|count| u32::try_from(count).ok()),
            napi_id: ids.get(&index).copied().flatten(),
        })
    };
    (0..QUEUES_MAX).map_while(queue).collect()
}

/// Where the kernel tells which queue an interrupt's instance serves, that is its queue, whatever its name is.
fn number_queues(irqs: &mut [Irq], instances: &[Instance], queues: &[Queue]) {
    for irq in irqs {
        let own = instances.iter().filter(|instance| instance.irq == Some(irq.number));
        let ids: Vec<u32> = own.map(|instance| instance.id).collect();
        let of = |wanted: QueueKind| {
            let is_own = |(kind, _, id): &&Queue| *kind == wanted && id.is_some_and(|id| ids.contains(&id));
            queues.iter().find(is_own).map(|(_, index, _)| *index)
        };
        irq.queue = of(QueueKind::Rx).or_else(|| of(QueueKind::Tx)).or(irq.queue);
    }
}
