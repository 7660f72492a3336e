//! `napier mode show`.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::Context as _;
use napier_linux::change::{ChangeState, Changed, DeviceRef, found, shown};
use napier_linux::metrics::mode::name_of;
use napier_linux::netdev;
use serde::Serialize;
use serde_json::json;

use super::is_of;
use crate::run::device;

/// Options of `napier mode show`.
#[derive(clap::Args)]
pub(crate) struct ModeShowArgs {
    /// The interface; without it all that have NAPI instances
    #[arg(long, value_name = "IF")]
    dev: Option<String>,

    /// Print one JSON object (docs/mode.md)
    #[arg(long)]
    json: bool,
}

/// The modes of one interface.
#[derive(Serialize)]
struct DeviceModes {
    dev: String,
    /// Ids of instances, by the mode that they have.
    modes: BTreeMap<String, Vec<u32>>,
    /// What has changed them.
    changed_by: Vec<ChangedBy>,
}

#[derive(Serialize)]
struct ChangedBy {
    by: String,
    state: ChangeState,
    pid: u32,
}

/// Prints which mode the instances of each interface have.
pub(crate) fn run(args: &ModeShowArgs) -> anyhow::Result<()> {
    let wanted = args.dev.as_deref().map(device).transpose()?;
    let infos = netdev::napi_dump(wanted.as_ref().map(|device| device.ifindex))
        .map_err(anyhow::Error::from)
        .context("NAPI instances")?;
    let mut devices: BTreeMap<u32, BTreeMap<String, Vec<u32>>> = BTreeMap::new();
    for info in infos {
        devices.entry(info.ifindex).or_default().entry(name_of(&info)).or_default().push(info.id);
    }
    let changed = found();
    let all: Vec<DeviceModes> = devices.into_iter().map(|(ifindex, modes)| of(ifindex, modes, &changed)).collect();
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json!({ "devices": all }))?;
        return Ok(());
    }
    for one in &all {
        writeln!(out, "{}", shown(&line(one)))?;
    }
    if let Some(device) = wanted.filter(|_| all.is_empty()) {
        writeln!(out, "{}", shown(&netdev::why_no_instance(&device.name)))?;
    }
    Ok(())
}

fn of(ifindex: u32, mut modes: BTreeMap<String, Vec<u32>>, changed: &[Changed]) -> DeviceModes {
    modes.values_mut().for_each(|ids| ids.sort_unstable());
    let device = DeviceRef { ifindex, name: String::new() };
    let dev = device.name_now().unwrap_or_else(|_| format!("interface {ifindex}"));
    let by = |one: &Changed| ChangedBy { by: one.by.clone(), state: one.state, pid: one.pid };
    let changed_by = changed.iter().filter(|one| is_of(one, &device)).map(by).collect();
    DeviceModes { dev, modes, changed_by }
}

/// `eth0: suspend20; kept by napier mode set`.
fn line(one: &DeviceModes) -> String {
    let ids = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let mut modes: Vec<String> = one.modes.iter().map(|(mode, of)| format!("{mode} on {}", ids(of))).collect();
    if let [(mode, _)] = one.modes.iter().collect::<Vec<_>>()[..] {
        modes = vec![mode.clone()];
    }
    let by = one.changed_by.iter().map(|by| {
        let name = if by.by.is_empty() { String::new() } else { format!(" {}", by.by) };
        match by.state {
            ChangeState::Kept => format!("; kept by napier{name}"),
            ChangeState::Running => format!("; while napier{name} runs (pid {})", by.pid),
            ChangeState::Left => format!("; left by napier{name}, which the next command puts back"),
        }
    });
    format!("{}: {}{}", one.dev, modes.join(", "), by.collect::<String>())
}
