//! A mode's plan as lines for one interface.

use napier_core::control::plan::{Plan, Write};
use napier_core::control::{NapiChange, ThreadedSetting};

use super::key::Key;
use super::line::Line;
use super::napi::{NapiAttribute, NapiKey, instances};
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
    let sets = |wanted| plan.changes().any(|change| change == wanted);
    if sets(NapiChange::Threaded(ThreadedSetting::BusyPoll)) {
        not_too_many(device, infos.len())?;
    }
    let takes = |change: NapiChange| {
        let (attribute, _) = NapiAttribute::of(change);
        infos.iter().all(|info| attribute.value_of(info).is_some())
    };
    let mut lines = Vec::new();
    for write in plan.device_wide(takes).writes() {
        match write {
            Write::Instance(change) => {
                let (attribute, value) = NapiAttribute::of(*change);
                lines.extend(infos.iter().enumerate().map(|(place, info)| {
                    let place = u32::try_from(place).unwrap_or(u32::MAX);
                    let key = NapiKey { device: device.clone(), id: info.id, place, attribute };
                    Line::new(Key::Napi(key), value.clone())
                }));
            }
            Write::Device(setting) => {
                let request = setting.request().ok_or_else(|| {
                    KeyError::NotHere(format!(
                        "no kernel has `{write}` for a whole interface, and this one not for instances"
                    ))
                })?;
                let file = request.attribute.file_name();
                lines.push(Line::new(Key::device_file(device, file), request.value.to_string()));
            }
            Write::Socket(..) | Write::Context(_) | Write::Wait(_) => {}
        }
    }
    Ok(lines)
}

/// Threads that poll for ever are no more than CPUs: of two on one CPU each keeps the other, and the packets of its queue, from running.
fn not_too_many(device: &DeviceRef, threads: usize) -> Result<(), KeyError> {
    let cpus = Root::MACHINE.cpus("/sys/devices/system/cpu/online");
    match cpus.map(|cpus| cpus.len()).filter(|cpus| threads > *cpus) {
        Some(cpus) => Err(KeyError::Refused(format!(
            "{0} has {threads} NAPI instances and this machine {cpus} CPUs: threads that poll for ever would keep each other from \
             running. Take fewer queues (ethtool -L {0} combined N)",
            device.name
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_poll_for_ever_do_not_outnumber_the_cpus() {
        let device = DeviceRef { ifindex: 9, name: "eth9".to_owned() };
        assert!(not_too_many(&device, 1).is_ok());
        let error = not_too_many(&device, 100_000).expect_err("no machine has so many CPUs");
        assert!(error.to_string().contains("ethtool -L eth9 combined"), "{error}");
    }
}
