//! Groups of CPUs over the socket: operations that the kernel has no words for.
//!
//! | operation | attributes |
//! |---|---|
//! | `group-new` | `name`, `cpus` (a list), `class`, and of the settings any |
//! | `group-set` | `name`, `class`, and of the settings any |
//! | `group-del` | `name` |
//! | `group-attach`, `group-detach` | `name`, and one of `cpu`, `queue` (`"DEVICE/QUEUE"`), `id` (of an instance) |
//! | `group-get` | none: all groups |
//!
//! Settings: `policy` (`delay`, `static`, `compact`), `delay-target` in ns, `min-active`. `class` is `auto`, `other` or `fifo`.

use napier_core::control::{Errno, QueueGet, QueueKind};
use napier_core::time::Span;
use napier_runtime::engine::{Doing, Engine, GroupChangeError, GroupClass, GroupInfo, GroupSettings, Policy};
use serde_json::{Map, Value, json};

use crate::refused::{Refused, ifindex, invalid};

/// The operation that only looks.
pub(crate) const GET: &str = "group-get";
/// The operations.
pub const OPERATIONS: [&str; 6] = ["group-new", "group-set", "group-del", "group-attach", "group-detach", GET];

const SETTINGS: [&str; 4] = ["policy", "delay-target", "min-active", "class"];

impl From<GroupChangeError> for Refused {
    fn from(error: GroupChangeError) -> Self {
        let errno = match &error {
            GroupChangeError::NoSuchNapi { .. } => Errno::ENOENT,
            GroupChangeError::Journal => Errno::EOPNOTSUPP,
            GroupChangeError::ClassNotGranted { .. } => Errno::EPERM,
            GroupChangeError::Refused(_)
            | GroupChangeError::ThreadNotCreated { .. }
            | GroupChangeError::NoCpuLeft
            | GroupChangeError::Closing => Errno::EINVAL,
        };
        Self::because(errno, error.to_string())
    }
}

/// Carries an operation of [`OPERATIONS`] out.
pub(crate) fn carry_out(engine: &Engine, op: &str, attributes: &Map<String, Value>) -> Result<Value, Refused> {
    let accepted: Vec<&str> = match op {
        "group-new" => ["name", "cpus"].into_iter().chain(SETTINGS).collect(),
        "group-set" => ["name"].into_iter().chain(SETTINGS).collect(),
        "group-del" => vec!["name"],
        GET => Vec::new(),
        _ => vec!["name", "cpu", "queue", "id"],
    };
    if let Some(unknown) = attributes.keys().find(|key| !accepted.contains(&key.as_str())) {
        let takes = if accepted.is_empty() { "no attributes".to_owned() } else { accepted.join(", ") };
        return Err(invalid(format!("{op} does not accept {unknown}: it takes {takes}")));
    }
    if op == GET {
        return Ok(engine.groups().iter().map(record).collect());
    }
    let name = attributes.get("name").and_then(Value::as_str).ok_or_else(|| invalid("name must be a text"))?;
    match op {
        "group-new" => new(engine, name, attributes)?,
        "group-set" => set(engine, name, attributes)?,
        "group-del" => engine.group_del(name)?,
        _ => {
            let is_attach = op == "group-attach";
            match what(engine, attributes)? {
                What::Cpu(cpu) if is_attach => engine.group_attach_cpu(name, cpu)?,
                What::Cpu(cpu) => engine.group_detach_cpu(name, cpu)?,
                What::Instance(id) if is_attach => engine.group_attach(name, id)?,
                What::Instance(id) => engine.group_detach(name, id)?,
            }
        }
    }
    Ok(Value::Null)
}

fn new(engine: &Engine, name: &str, attributes: &Map<String, Value>) -> Result<(), Refused> {
    let (cpus, class) = (cpus(attributes)?, class(attributes)?);
    engine.group_new(name, &cpus, settings(attributes, GroupSettings::default())?)?;
    if let Some(class) = class
        && let Err(refused) = engine.group_set_class(name, class)
    {
        engine.group_del(name)?;
        return Err(refused.into());
    }
    Ok(())
}

fn set(engine: &Engine, name: &str, attributes: &Map<String, Value>) -> Result<(), Refused> {
    let now = engine.groups().into_iter().find(|group| group.name == name);
    let (before, class_before) = now.map_or_else(Default::default, |now| (now.settings, now.class));
    let (wanted, class) = (settings(attributes, before)?, class(attributes)?);
    engine.group_set_class(name, class.unwrap_or(class_before))?;
    if let Err(refused) = engine.group_set(name, wanted) {
        engine.group_set_class(name, class_before)?;
        return Err(refused.into());
    }
    Ok(())
}

fn class(attributes: &Map<String, Value>) -> Result<Option<GroupClass>, Refused> {
    let Some(value) = attributes.get("class") else { return Ok(None) };
    let words = GroupClass::ALL.map(GroupClass::name).join(", ");
    let known = value.as_str().and_then(GroupClass::from_name);
    known.map(Some).ok_or_else(|| invalid(format!("class must be one of {words}, not {value}")))
}

enum What {
    Cpu(usize),
    Instance(u32),
}

/// What comes to a group or leaves it.
fn what(engine: &Engine, attributes: &Map<String, Value>) -> Result<What, Refused> {
    let one = || invalid("one of cpu, queue and id is wanted");
    let given: Vec<_> = ["cpu", "queue", "id"].into_iter().filter(|key| attributes.contains_key(*key)).collect();
    let [key] = given[..] else { return Err(one()) };
    let value = &attributes[key];
    let number = value.as_u64().ok_or_else(|| invalid(format!("{key} must be a whole number, not {value}")));
    match key {
        "cpu" => Ok(What::Cpu(usize::try_from(number?).unwrap_or(usize::MAX))),
        "id" => Ok(What::Instance(u32::try_from(number?).unwrap_or(u32::MAX))),
        _ => {
            let wanted = || invalid(format!("queue must be DEVICE/QUEUE, not {value}"));
            let (device, queue) = value.as_str().and_then(|text| text.rsplit_once('/')).ok_or_else(wanted)?;
            let id: u64 = queue.parse().map_err(|_| wanted())?;
            let ifindex = Some(ifindex(engine, device)?.into());
            let found = engine.queue_get(QueueGet { id: Some(id), kind: Some(QueueKind::Rx as u64), ifindex })?;
            let none = || invalid(format!("the queue {device}/{queue} has no instance: is the device up?"));
            found.napi_id.filter(|id| *id != 0).map(What::Instance).ok_or_else(none)
        }
    }
}

fn cpus(attributes: &Map<String, Value>) -> Result<Vec<usize>, Refused> {
    let wanted = || invalid("cpus must be a list of CPU numbers, such as [2, 3]");
    let list = attributes.get("cpus").and_then(Value::as_array).ok_or_else(wanted)?;
    let number = |value: &Value| value.as_u64().and_then(|cpu| usize::try_from(cpu).ok()).ok_or_else(wanted);
    list.iter().map(number).collect()
}

fn settings(attributes: &Map<String, Value>, mut settings: GroupSettings) -> Result<GroupSettings, Refused> {
    let number = |key: &str| match attributes.get(key) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| invalid(format!("{key} must be a whole number"))),
    };
    if let Some(value) = attributes.get("policy") {
        let words = Policy::ALL.map(Policy::name).join(", ");
        let known = value.as_str().and_then(Policy::from_name);
        settings.policy = known.ok_or_else(|| invalid(format!("policy must be one of {words}, not {value}")))?;
    }
    if let Some(ns) = number("delay-target")? {
        settings.delay_target = Span::from_ns(ns);
    }
    if let Some(most) = number("min-active")? {
        settings.min_active = u16::try_from(most).unwrap_or(u16::MAX);
    }
    Ok(settings)
}

fn record(group: &GroupInfo) -> Value {
    let doing = |doing: Doing| match doing {
        Doing::Off => "off",
        Doing::Active => "polling",
        Doing::Announced => "about to sleep",
        Doing::Asleep => "asleep",
    };
    let cpus: Vec<Value> = group
        .cpus
        .iter()
        .map(|cpu| {
            json!({
                "cpu": cpu.cpu, "pid": cpu.pid, "class": if cpu.fifo { "fifo" } else { "other" }, "isolated": cpu.isolated,
                "doing": doing(cpu.doing), "parks": cpu.parks, "vain-parks": cpu.vain_parks
            })
        })
        .collect();
    let members: Vec<Value> = group
        .members
        .iter()
        .map(|member| {
            json!({
                "napi-id": member.napi_id, "device": member.device, "queue": member.queue, "cpu": member.cpu,
                "armed": member.armed, "moves": member.moves
            })
        })
        .collect();
    json!({
        "name": group.name, "policy": group.settings.policy.name(), "delay-target": group.settings.delay_target.ns,
        "min-active": group.settings.min_active, "class": group.class.name(), "cpus": cpus, "members": members
    })
}
