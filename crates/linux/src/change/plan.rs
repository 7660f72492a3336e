//! A mode's plan as lines for one interface.

use napier_core::control::NapiChange;
use napier_core::control::plan::{Plan, Write};

use super::key::instances;
use super::{DeviceRef, Key, KeyError, Line, NapiAttribute};

/// The plan's writes for an interface and its instances, in the plan's order: an attribute that this kernel does not set on
/// instances by themselves becomes the interface's file. What goes to sockets, contexts and waits is a program's, and not here.
///
/// # Errors
/// The interface or this kernel's list of instances is not there.
pub fn lines_of(plan: &Plan, device: &DeviceRef) -> Result<Vec<Line>, KeyError> {
    let infos = instances(device)?;
    if infos.is_empty() && plan.changes().next().is_some() {
        return Err(KeyError::NotHere(format!(
            "{} has no NAPI instance: it is down, or a veth without generic receive offload (ethtool -K {} gro on)",
            device.name,
            super::quoted(&device.name)
        )));
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
                    let key = Key::Napi { device: device.clone(), id: info.id, place, attribute };
                    Line::new(key, value.clone())
                }));
            }
            Write::Device(setting) => {
                let request = setting.request().ok_or_else(|| {
                    KeyError::NotHere(format!(
                        "no kernel has `{write}` for a whole interface, and this one not for instances"
                    ))
                })?;
                let file = request.attribute.file_name().to_owned();
                lines.push(Line::new(Key::DeviceFile { device: device.clone(), file }, request.value.to_string()));
            }
            Write::Socket(..) | Write::Context(_) | Write::Wait(_) => {}
        }
    }
    Ok(lines)
}
