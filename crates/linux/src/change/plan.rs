//! A mode's plan as lines for one interface.

use napier_core::control::plan::{Plan, Write};
use napier_core::control::{NapiChange, NapiInfo, ThreadedSetting};
use napier_core::event::EpollParams;
use napier_core::sockopt::BusyOption;

use super::ethtool::EthtoolKey;
use super::instances::instances;
use super::key::Key;
use super::line::Line;
use super::napi::{NapiAttribute, NapiKey};
use super::queues::{Queues, ServedQueue, serving};
use crate::drivers::{LRO, lro_hides_instances};
use crate::ethtool::{self, Feature, Group};
use crate::root::Root;
use crate::setting::{DeviceRef, KeyError};

/// The plan's writes for an interface and its instances, in the plan's order: an attribute that this kernel does not set on
/// instances by themselves becomes the interface's file. What goes to sockets, contexts and waits is a program's, and not here.
///
/// # Errors
/// The interface or this kernel's list of instances is not there.
pub fn lines_of(plan: &Plan, device: &DeviceRef) -> Result<Vec<Line>, KeyError> {
    let infos = instances(device)?;
    if infos.is_empty() && plan.changes().next().is_some() {
        return Err(KeyError::NotHere(crate::netdev::why_no_instance(&device.name)));
    }
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let owned: Vec<Owned> =
        infos.into_iter().enumerate().map(|(at, info)| Owned { place: place(at), queue: None, info }).collect();
    let wide = |write: &Write, file, value| Ok(Some(Line::new(file_of(device, write, file)?, value)));
    let mut all = if sockets_need_ids(plan) { without_lro(device) } else { Vec::new() };
    all.extend(lines(plan, device, &owned, &wide)?);
    Ok(all)
}

/// The program polls, so its sockets have to know their instances.
fn sockets_need_ids(plan: &Plan) -> bool {
    let polls = |params: EpollParams| params.prefer_busy_poll || params.busy_poll_usecs > 0;
    plan.context().is_some_and(polls) || plan.option(BusyOption::BusyPoll).is_some_and(|usecs| usecs > 0)
}

/// What hides instances from sockets with some drivers, off.
fn without_lro(device: &DeviceRef) -> Vec<Line> {
    let driver = device.name_now().ok().and_then(|name| crate::device::driver(&name));
    if !driver.is_some_and(|driver| lro_hides_instances(&driver)) {
        return Vec::new();
    }
    lro_off(device, &ethtool::features(device.ifindex).unwrap_or_default())
}

fn lro_off(device: &DeviceRef, features: &[Feature]) -> Vec<Line> {
    let is_lro = |feature: &&Feature| feature.name == LRO && feature.changeable;
    let key = |feature: &Feature| {
        Key::Ethtool(EthtoolKey { device: device.clone(), group: Group::Features, name: feature.name.clone() })
    };
    features.iter().filter(is_lro).map(|feature| Line::new(key(feature), "off")).collect()
}

/// What has to be off on an interface before an XDP program comes to it, where it is on: such a program sees packets as they come, not merged.
/// With large receive offload on a driver refuses the program (ixgbe `ixgbe_xdp_setup`, mlx5 `mlx5e_xdp_allowed`), or switches the offload
/// off and leaves it off when the program is gone (vmxnet3 `vmxnet3_xdp_set`; for generic XDP `net/core/dev.c dev_disable_lro`).
#[must_use]
pub fn lines_for_xdp(device: &DeviceRef) -> Vec<Line> {
    lro_off_if_on(device, ethtool::features(device.ifindex).unwrap_or_default())
}

fn lro_off_if_on(device: &DeviceRef, mut features: Vec<Feature>) -> Vec<Line> {
    features.retain(|feature| feature.active);
    lro_off(device, &features)
}

/// The same for the instances of some receive queues alone.
///
/// # Errors
/// As [`lines_of`]; there is no such queue, or its instance serves another one too; the mode would change what this kernel has for
/// a whole interface alone.
pub fn lines_of_queues(plan: &Plan, device: &DeviceRef, queues: &Queues) -> Result<Vec<Line>, KeyError> {
    let of = |ServedQueue { queue, place, info }| Owned { place, queue: Some(queue), info };
    let owned: Vec<Owned> = serving(device, queues)?.into_iter().map(of).collect();
    // What the interface has already needs no write.
    let wide = |write: &Write, file, value: String| {
        let key = file_of(device, write, file)?;
        match key.read()? {
            Some(now) if key.same(&now, &value) => Ok(None),
            now => Err(KeyError::NotHere(shared(&key, now.as_deref().unwrap_or("not told"), &value, device))),
        }
    };
    lines(plan, device, &owned, &wide)
}

/// An instance that a mode is for.
#[derive(Clone, Copy)]
struct Owned {
    place: u32,
    queue: Option<u32>,
    info: NapiInfo,
}

/// What becomes of a write to a file of the interface.
type Wide<'a> = dyn Fn(&Write, Option<&'static str>, String) -> Result<Option<Line>, KeyError> + 'a;

fn lines(plan: &Plan, device: &DeviceRef, owned: &[Owned], wide: &Wide<'_>) -> Result<Vec<Line>, KeyError> {
    let sets = |wanted| plan.changes().any(|change| change == wanted);
    if sets(NapiChange::Threaded(ThreadedSetting::BusyPoll)) {
        not_too_many(device, owned.len())?;
    }
    let takes = |change: NapiChange| {
        let (attribute, _) = NapiAttribute::of(change);
        owned.iter().all(|one| attribute.value_of(&one.info).is_some())
    };
    let mut lines = Vec::new();
    for write in plan.device_wide(takes).writes() {
        match write {
            Write::Instance(change) => {
                let (attribute, value) = NapiAttribute::of(*change);
                lines.extend(owned.iter().map(|one| {
                    let Owned { place, queue, info } = one;
                    let key = NapiKey { device: device.clone(), id: info.id, place: *place, queue: *queue, attribute };
                    Line::new(Key::Napi(key), value.clone())
                }));
            }
            Write::Device(setting) => {
                let request = setting.request();
                let (file, value) = request
                    .map_or((None, String::new()), |set| (Some(set.attribute.file_name()), set.value.to_string()));
                lines.extend(wide(write, file, value)?);
            }
            Write::Socket(..) | Write::Context(_) | Write::Wait(_) => {}
        }
    }
    Ok(lines)
}

fn file_of(device: &DeviceRef, write: &Write, file: Option<&'static str>) -> Result<Key, KeyError> {
    file.map(|file| Key::device_file(device, file)).ok_or_else(|| {
        KeyError::NotHere(format!("no kernel has `{write}` for a whole interface, and this one not for instances"))
    })
}

/// Why a setting that queues would share is not changed for some of them.
fn shared(key: &Key, now: &str, wanted: &str, device: &DeviceRef) -> String {
    format!(
        "{key} is {now}, and the mode wants {wanted}: this kernel has that for the whole interface alone (for each NAPI instance since \
         Linux 6.13, `threaded` since 6.17), so queues of {} cannot differ in it: run without --queues, or take a mode that leaves it",
        device.name
    )
}

/// Threads that poll for ever are no more than CPUs: of two on one CPU each keeps the other, and the packets of its queue, from running.
fn not_too_many(device: &DeviceRef, threads: usize) -> Result<(), KeyError> {
    let cpus = Root::MACHINE.cpus("/sys/devices/system/cpu/online");
    match cpus.map(|cpus| cpus.len()).filter(|cpus| threads > *cpus) {
        Some(cpus) => Err(KeyError::Refused(format!(
            "{0} has {threads} NAPI instances and this machine {cpus} CPU{1}: threads that poll for ever would keep each other from \
             running. Take fewer queues (ethtool -L {0} combined N)",
            device.name,
            if cpus == 1 { "" } else { "s" },
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As on Linux 6.8 to 6.12, and with `threaded` 6.13 to 6.16: what instances do not show is the interface's.
    #[test]
    fn what_queues_share_is_refused_with_the_reason() {
        let device = DeviceRef { ifindex: 9, name: "eth9".to_owned() };
        let info = NapiInfo {
            ifindex: 9,
            id: 5,
            irq: None,
            pid: None,
            defer_hard_irqs: None,
            gro_flush_timeout: None,
            irq_suspend_timeout: None,
            threaded: None,
        };
        let owned = [Owned { place: 0, queue: Some(0), info }];
        let plan: Plan = [NapiChange::DeferHardIrqs(100)].map(Write::Instance).into_iter().collect();
        let asked = std::cell::Cell::new(None);
        let wide = |_: &Write, file, value: String| {
            asked.set(file);
            Err(KeyError::NotHere(shared(&Key::device_file(&device, "napi_defer_hard_irqs"), "0", &value, &device)))
        };
        let error = lines(&plan, &device, &owned, &wide).expect_err("the others would get it too").to_string();
        assert_eq!(asked.get(), Some("napi_defer_hard_irqs"));
        assert!(error.contains("is 0, and the mode wants 100") && error.contains("6.13"), "{error}");
        // Where instances have it, the interface is not asked.
        let own = [Owned { info: NapiInfo { defer_hard_irqs: Some(0), ..info }, ..owned[0] }];
        let found = lines(&plan, &device, &own, &wide).expect("its own");
        assert_eq!(found[0].to_string(), "defer-hard-irqs of NAPI instance 5 (queue 0) of eth9 = 100");
    }

    #[test]
    fn where_the_program_polls_its_sockets_learn_their_instances() {
        let device = DeviceRef { ifindex: 9, name: "eth9".to_owned() };
        let feature = |name: &str, changeable| Feature { name: name.to_owned(), active: true, changeable };
        let lines = lro_off(&device, &[feature("rx-gro", true), feature("rx-lro", true)]);
        assert_eq!(lines.iter().map(ToString::to_string).collect::<Vec<_>>(), ["rx-lro of the offloads of eth9 = off"]);
        // The driver decides it alone, or has none.
        assert_eq!(lro_off(&device, &[feature("rx-lro", false)]), []);
        assert_eq!(lro_off(&device, &[]), []);
        // For an XDP program only what is on has to go.
        let for_xdp = |active| lro_off_if_on(&device, vec![Feature { active, ..feature("rx-lro", true) }]).len();
        assert_eq!((for_xdp(true), for_xdp(false)), (1, 0));
        // Only for modes in which the program polls.
        let params =
            |usecs, prefer| EpollParams { busy_poll_usecs: usecs, busy_poll_budget: 8, prefer_busy_poll: prefer };
        let of = |writes: &[Write]| sockets_need_ids(&writes.iter().copied().collect());
        assert!(of(&[Write::Context(params(0, true))]) && of(&[Write::Context(params(50, false))]));
        assert!(of(&[Write::Socket(BusyOption::BusyPoll, 50)]) && !of(&[Write::Socket(BusyOption::BusyPoll, 0)]));
        assert!(!of(&[Write::Instance(NapiChange::DeferHardIrqs(100)), Write::Context(params(0, false))]));
    }

    #[test]
    fn threads_that_poll_for_ever_do_not_outnumber_the_cpus() {
        let device = DeviceRef { ifindex: 9, name: "eth9".to_owned() };
        assert!(not_too_many(&device, 1).is_ok());
        let error = not_too_many(&device, 100_000).expect_err("no machine has so many CPUs");
        assert!(error.to_string().contains("ethtool -L eth9 combined"), "{error}");
    }
}
