//! The control plane: netlink requests, files of an interface, knobs, up and down. What a file asks for is asked of the kernel
//! as it stands there, valid or not.

use napier_core::control::{QueueKind, ThreadedSetting};
use napier_scenario::{Answer, Call, DeviceIx, NapiIx, NapiRef};

use super::napi::{ID, IFINDEX, THREADED, number};
use super::netlink::{self, Attributes, NAPI_ATTRIBUTES, QUEUE_ATTRIBUTES, Reply};
use super::rig::KernelRig;
use crate::Refused;
use crate::real::answers::{FIRST_IFINDEX, answer, errno};
use crate::real::refused;

/// Makes a call of the control plane, in the namespace of the calling thread.
pub(super) fn make(rig: &KernelRig<'_>, call: &Call) -> Result<Answer, Refused> {
    match call {
        Call::NapiSet { napi, attributes } => {
            let mut request = id_attribute(rig, *napi);
            for (name, value) in attributes {
                let known = NAPI_ATTRIBUTES.iter().find(|(known, _)| known == name);
                request = request.number(known.map_or(netlink::NO_SUCH_ATTRIBUTE, |(_, kind)| *kind), *value);
            }
            answer(netlink::ask(netlink::NAPI_SET, false, &request).map(drop))
        }
        Call::NapiGet { napi } => match netlink::ask(netlink::NAPI_GET, false, &id_attribute(rig, *napi)) {
            Ok(replies) => Ok(Answer::Attributes(napi_attributes(rig, replies.first().unwrap_or(&Vec::new())))),
            Err(error) => errno(&error).map(Answer::Error),
        },
        Call::NapiDump { device, ifindex } => {
            let filter = own_ifindex(rig, *device, *ifindex);
            let request = filter.map_or_else(Attributes::default, |n| Attributes::default().number(IFINDEX, n));
            match netlink::ask(netlink::NAPI_GET, true, &request) {
                Ok(replies) => {
                    let names = replies.iter().filter_map(|reply| rig.name_of_id(number(reply, ID)?));
                    Ok(Answer::Names(names.collect()))
                }
                Err(error) => errno(&error).map(Answer::Error),
            }
        }
        Call::QueueGet { device, ifindex, queue, kind } => queue_get(rig, (*device, *ifindex), *queue, *kind),
        Call::Write { device, file, value } => answer(rig.sysfs(*device).write(*file, value)),
        Call::Read { device, file } => match rig.sysfs(*device).read(*file) {
            Ok(text) => Ok(Answer::Text(text)),
            Err(error) => errno(&error).map(Answer::Error),
        },
        Call::Sysctl { name, value } => answer(rig.knobs().set(name, *value)?),
        Call::Up { device } => set_up(rig, *device, true),
        Call::Down { device } => set_up(rig, *device, false),
        call => Err(refused(format!("no program makes the call {}", call.name()))),
    }
}

fn set_up(rig: &KernelRig<'_>, device: DeviceIx, up: bool) -> Result<Answer, Refused> {
    rig.end(device).set_up(up).map_err(|error| refused(error.to_string()))?;
    if up {
        rig.learn_ids(device)?;
    }
    Ok(Answer::Number(0))
}

fn id_attribute(rig: &KernelRig<'_>, napi: NapiRef) -> Attributes {
    match napi {
        NapiRef::Napi(napi) => Attributes::default().number(ID, rig.id(napi)),
        NapiRef::Id(id) => Attributes::default().number(ID, id),
        NapiRef::Missing => Attributes::default(),
    }
}

/// As `ynl` shows them, with the scenario's number of the device.
fn napi_attributes(rig: &KernelRig<'_>, reply: &Reply) -> Vec<(String, String)> {
    let attributes = NAPI_ATTRIBUTES.iter().filter_map(|(name, kind)| {
        let value = number(reply, *kind)?;
        let text = match *kind {
            IFINDEX => shown_ifindex(rig, value),
            THREADED => ThreadedSetting::from_number(value).map_or_else(|| value.to_string(), |t| t.name().to_owned()),
            _ => value.to_string(),
        };
        Some(((*name).to_owned(), text))
    });
    attributes.collect()
}

fn shown_ifindex(rig: &KernelRig<'_>, ifindex: u64) -> String {
    let position = rig.device_with(ifindex);
    position.map_or_else(|| ifindex.to_string(), |position| (FIRST_IFINDEX + u64::from(position.0)).to_string())
}

/// The kernel's number of a device that a scenario names or numbers.
fn own_ifindex(rig: &KernelRig<'_>, device: Option<DeviceIx>, ifindex: Option<u64>) -> Option<u64> {
    let named = ifindex.and_then(|number| {
        let position = u16::try_from(number.checked_sub(FIRST_IFINDEX)?).ok()?;
        (usize::from(position) < rig.scenario.machine.devices.len()).then_some(DeviceIx(position))
    });
    match device.or(named) {
        Some(device) => Some(rig.end(device).ifindex().into()),
        None => ifindex,
    }
}

fn queue_get(
    rig: &KernelRig<'_>,
    (device, ifindex): (Option<DeviceIx>, Option<u64>),
    queue: Option<u64>,
    kind: Option<u64>,
) -> Result<Answer, Refused> {
    let given = [(1, queue), (2, own_ifindex(rig, device, ifindex)), (3, kind)];
    let request = given.into_iter().fold(Attributes::default(), |request, (kind, value)| match value {
        Some(value) => request.number(kind, value),
        None => request,
    });
    let reply = match netlink::ask(netlink::QUEUE_GET, false, &request) {
        Ok(replies) => replies.into_iter().next().unwrap_or_default(),
        Err(error) => return errno(&error).map(Answer::Error),
    };
    let attributes = QUEUE_ATTRIBUTES.iter().filter_map(|(name, kind)| {
        let value = number(&reply, *kind)?;
        let text = match *name {
            "ifindex" => shown_ifindex(rig, value),
            "type" => [QueueKind::Rx, QueueKind::Tx][usize::from(value != 0)].name().to_owned(),
            "napi-id" => rig.name_of_id(value).unwrap_or_else(|| value.to_string()),
            _ => value.to_string(),
        };
        Some(((*name).to_owned(), text))
    });
    Ok(Answer::Attributes(attributes.collect()))
}

/// The instance that a call is about, if it names one.
pub(super) fn napi_of(call: &Call) -> Option<NapiIx> {
    match call {
        Call::NapiSet { napi: NapiRef::Napi(napi), .. } | Call::NapiGet { napi: NapiRef::Napi(napi) } => Some(*napi),
        _ => None,
    }
}

/// The device that a call is about, if it names one.
pub(super) fn device_of(rig: &KernelRig<'_>, call: &Call) -> Option<DeviceIx> {
    match call {
        Call::NapiDump { device, .. } | Call::QueueGet { device, .. } => *device,
        Call::Write { device, .. } | Call::Read { device, .. } | Call::Up { device } | Call::Down { device } => {
            Some(*device)
        }
        call => napi_of(call).map(|napi| rig.scenario.machine.queue_of(napi).0),
    }
}
