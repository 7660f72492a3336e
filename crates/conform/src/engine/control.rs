//! The control plane: netlink requests, device files, knobs, up and down.

use napier_core::control::{DevAttribute, DevSet, Errno, NapiGet, NapiInfo, NapiSet, QueueGet, parse_number};
use napier_scenario::{Answer, Call, DeviceIx, NapiRef};

use super::rig::EngineRig;
use crate::Refused;
use crate::real::answers::{FIRST_IFINDEX, errno};
use crate::real::refused;

/// Makes a call of the control plane.
pub(super) fn make(rig: &EngineRig<'_>, call: &Call, capable: bool) -> Result<Answer, Refused> {
    Ok(match call {
        Call::NapiSet { napi, attributes } => napi_set(rig, *napi, attributes).into(),
        Call::NapiGet { napi } => napi_get(rig, *napi),
        Call::NapiDump { device, ifindex } => return napi_dump(rig, *device, *ifindex),
        Call::QueueGet { device, ifindex, queue, kind } => {
            return queue_get(rig, QueueGet { id: *queue, kind: *kind, ifindex: own_ifindex(rig, *device, *ifindex)? });
        }
        Call::Write { device, file, value } => write(rig, *device, *file, value, capable).into(),
        Call::Read { device, file } => Answer::Text(read(rig, *device, *file)),
        Call::Sysctl { name, value } => sysctl(rig, name, *value),
        Call::Up { device } => match rig.devices[device.at()].set_up() {
            Ok(()) => Answer::Number(0),
            Err(error) => Answer::Error(errno(&error)?),
        },
        Call::Down { device } => {
            rig.devices[device.at()].set_down();
            Answer::Number(0)
        }
        call => return Err(refused(format!("the engine has no call {}", call.name()))),
    })
}

fn id_of(rig: &EngineRig<'_>, napi: NapiRef) -> Option<u64> {
    match napi {
        NapiRef::Napi(napi) => Some(rig.napi_id(napi).into()),
        NapiRef::Id(id) => Some(id),
        NapiRef::Missing => None,
    }
}

fn napi_set(rig: &EngineRig<'_>, napi: NapiRef, attributes: &[(String, u64)]) -> Result<(), Errno> {
    let mut request = NapiSet { id: id_of(rig, napi), ..NapiSet::default() };
    for (name, value) in attributes {
        request.attribute(name, *value).map_err(|error| error.errno())?;
    }
    rig.engine.napi_set(request).map_err(|error| error.errno())
}

fn napi_get(rig: &EngineRig<'_>, napi: NapiRef) -> Answer {
    let info = match rig.engine.napi_get(NapiGet { id: id_of(rig, napi) }) {
        Ok(info) => info,
        Err(error) => return Answer::Error(error.errno()),
    };
    let ifindex = position(rig, info.ifindex).map_or(0, |position| FIRST_IFINDEX + position as u64);
    let attributes = info.attributes().map(|(name, value)| {
        let text = match (name, info.threaded) {
            ("threaded", Some(threaded)) => threaded.name().to_owned(),
            ("ifindex", _) => ifindex.to_string(),
            _ => value.to_string(),
        };
        (name.to_owned(), text)
    });
    Answer::Attributes(attributes.collect())
}

fn position(rig: &EngineRig<'_>, ifindex: u32) -> Option<usize> {
    rig.devices.iter().position(|device| device.ifindex() == ifindex)
}

/// The engine's number of a device that a scenario names or numbers.
fn own_ifindex(rig: &EngineRig<'_>, device: Option<DeviceIx>, ifindex: Option<u64>) -> Result<Option<u64>, Refused> {
    let own = |position: usize| u64::from(rig.devices[position].ifindex());
    let Some(number) = ifindex else { return Ok(device.map(|device| own(device.at()))) };
    let named = number.checked_sub(FIRST_IFINDEX).and_then(|position| usize::try_from(position).ok());
    if let Some(position) = named.filter(|position| *position < rig.devices.len()) {
        return Ok(Some(own(position)));
    }
    // The engine numbers the other ends of the links too.
    if (1..=2 * rig.devices.len() as u64).contains(&number) {
        return Err(refused(format!("interface {number} is the other end of a link here")));
    }
    Ok(Some(number))
}

fn napi_dump(rig: &EngineRig<'_>, device: Option<DeviceIx>, ifindex: Option<u64>) -> Result<Answer, Refused> {
    let infos = match rig.engine.napi_dump(own_ifindex(rig, device, ifindex)?) {
        Ok(infos) => infos,
        Err(error) => return Ok(Answer::Error(error.errno())),
    };
    // The other ends of the links are no part of the scenario.
    let own = |info: &&NapiInfo| position(rig, info.ifindex).is_some();
    let names = infos.iter().filter(own).filter_map(|info| rig.name_of_id(info.id));
    Ok(Answer::Names(names.collect()))
}

fn queue_get(rig: &EngineRig<'_>, request: QueueGet) -> Result<Answer, Refused> {
    let info = match rig.engine.queue_get(request) {
        Ok(info) => info,
        Err(error) => return Ok(Answer::Error(error.errno())),
    };
    let position = position(rig, info.ifindex).ok_or_else(|| refused("a queue of the other end of a link"))?;
    let mut attributes = vec![
        ("id".to_owned(), info.id.to_string()),
        ("ifindex".to_owned(), (FIRST_IFINDEX + position as u64).to_string()),
        ("type".to_owned(), info.kind.name().to_owned()),
    ];
    if let Some(name) = info.napi_id.and_then(|id| rig.name_of_id(id)) {
        attributes.push(("napi-id".to_owned(), name));
    }
    Ok(Answer::Attributes(attributes))
}

fn write(
    rig: &EngineRig<'_>,
    device: DeviceIx,
    attribute: DevAttribute,
    value: &str,
    capable: bool,
) -> Result<(), Errno> {
    // The kernel asks for the capability before it parses.
    let value = if capable { parse_number(value).map_err(|error| error.errno())? } else { 0 };
    rig.devices[device.at()].set(DevSet { attribute, value }).map_err(|error| error.errno())
}

fn read(rig: &EngineRig<'_>, device: DeviceIx, attribute: DevAttribute) -> String {
    let settings = rig.devices[device.at()].settings();
    match attribute {
        DevAttribute::GroFlushTimeout => settings.gro_flush_timeout.ns.to_string(),
        DevAttribute::NapiDeferHardIrqs => settings.defer_hard_irqs.to_string(),
        DevAttribute::Threaded => settings.threaded.number().map_or_else(String::new, |number| number.to_string()),
    }
}

fn sysctl(rig: &EngineRig<'_>, name: &str, value: i64) -> Answer {
    let engine = &rig.engine;
    let natural = || u32::try_from(value).expect("checked before the start");
    match name {
        "netdev_budget" => engine.set_sysctl_netdev_budget(i32::try_from(value).expect("checked before the start")),
        "busy_read" => engine.set_sysctl_busy_read(natural()),
        "busy_poll" => engine.set_sysctl_busy_poll(natural()),
        "netdev_budget_usecs" if engine.set_sysctl_netdev_budget_usecs(natural().into()).is_err() => {
            return Answer::Error(Errno::EINVAL);
        }
        "netdev_budget_usecs" => {}
        _ => unreachable!("checked before the start"),
    }
    Answer::Number(0)
}
