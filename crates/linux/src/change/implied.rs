//! What the write of one value changes beside it.

use napier_core::control::NapiInfo;

use super::device_file::DeviceFileKey;
use super::ethtool::EthtoolKey;
use super::instances::instances;
use super::key::Key;
use super::line::Entry;
use super::napi::{NapiAttribute, NapiKey};
use crate::ethtool::Group;
use crate::setting::KeyError;

const RX_FILES: [&str; 2] = ["rps_cpus", "rps_flow_cnt"];
const TX_FILES: [&str; 2] = ["xps_cpus", "xps_rxqs"];
/// Queues that are looked at: more than any driver has.
const QUEUES_MAX: u32 = 4096;

/// An entry for each instance that a file of its interface is written to, and for what is lost with queues that are switched off.
pub(super) fn implied(key: &Key, value: &str, before: Option<&str>) -> Result<Vec<Entry>, KeyError> {
    match key {
        Key::Ethtool(key) => Ok(lost_with_queues(key, value)),
        Key::DeviceFile(key) => of_instances(key, value, before),
        Key::Napi(_)
        | Key::Sysctl(_)
        | Key::Program(_)
        | Key::Descriptor(_)
        | Key::File(_)
        | Key::Thread(_)
        | Key::FlowRule(_) => Ok(Vec::new()),
    }
}

fn of_instances(key: &DeviceFileKey, value: &str, before: Option<&str>) -> Result<Vec<Entry>, KeyError> {
    let DeviceFileKey { device, file } = key;
    let attribute = match file.as_str() {
        "threaded" => NapiAttribute::Threaded,
        "napi_defer_hard_irqs" => NapiAttribute::DeferHardIrqs,
        "gro_flush_timeout" => NapiAttribute::GroFlushTimeout,
        _ => return Ok(Vec::new()),
    };
    // As napi-set spells it.
    let spelled = |value: &str| match (attribute, value) {
        (NapiAttribute::Threaded, "0") => "disabled".to_owned(),
        (NapiAttribute::Threaded, "1") => "enabled".to_owned(),
        _ => value.to_owned(),
    };
    let infos = instances(device)?;
    let entry = |(place, info): (usize, NapiInfo)| {
        let key =
            Key::Napi(NapiKey { device: device.clone(), id: info.id, place: place as u32, queue: None, attribute });
        let before_own = attribute.value_of(&info)?;
        let after = spelled(value);
        let file = before.map(spelled);
        // The way back writes what the file had to all of them.
        let is_lost = before_own != after || file.as_ref().is_some_and(|file| *file != before_own);
        is_lost.then_some(Entry { key, before: Some(before_own), after, or: file })
    };
    Ok(infos.into_iter().enumerate().filter_map(entry).collect())
}

/// What queues have that a write of their number switches off: their files come back empty. Source: `net/core/net-sysfs.c
/// net_rx_queue_update_kobjects`, `net/core/dev.c netif_reset_xps_queues_gt`.
fn lost_with_queues(key: &EthtoolKey, value: &str) -> Vec<Entry> {
    let kinds: &[(&str, &[&str])] = match (key.group, key.name.as_str()) {
        (Group::Channels, "combined") => &[("rx", &RX_FILES), ("tx", &TX_FILES)],
        (Group::Channels, "rx") => &[("rx", &RX_FILES)],
        (Group::Channels, "tx") => &[("tx", &TX_FILES)],
        _ => return Vec::new(),
    };
    let Ok(wanted) = value.parse::<u32>() else { return Vec::new() };
    let file = |file: String| Key::device_file(&key.device, file);
    let mut entries = Vec::new();
    for (kind, files) in kinds {
        let first = if *kind == "rx" { "rps_cpus" } else { "tx_timeout" };
        let is_there = |queue: &u32| file(format!("queues/{kind}-{queue}/{first}")).read().is_ok();
        for queue in (wanted..QUEUES_MAX).take_while(is_there) {
            entries.extend(files.iter().filter_map(|name| lost(file(format!("queues/{kind}-{queue}/{name}")))));
        }
    }
    entries
}

fn lost(key: Key) -> Option<Entry> {
    let before = key.read().ok()??;
    (!key.same(&before, "0")).then(|| Entry { key, before: Some(before), after: "0".to_owned(), or: None })
}
