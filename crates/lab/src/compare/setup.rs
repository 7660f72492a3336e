//! What a comparison needs before its first run, and how the report describes it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::bail;
use napier_kv::load::codec::Format;
use napier_kv::profile::{Profile, ProfileConfig};

use super::config::CompareConfig;
use super::kernel::counters::InstanceCounters;
use super::kernel::program::{ProgramConfig, ServerProgram, Setting};
use super::place::Testbed;
use super::server;
use super::workload::Workload as CaseWorkload;
use crate::device::Device;
use crate::pair::TESTED_IP;
use crate::report::Workload;
use crate::subject::Backend;

/// Makes the place, the records, and starts the program if there is one.
pub(super) fn workload(
    config: &CompareConfig,
    available: &[usize],
    interrupted: &AtomicBool,
) -> anyhow::Result<CaseWorkload> {
    let profile = Profile::new(ProfileConfig::default(), config.seed)?;
    let place = match &config.device {
        Device::Kernel { interface: Some(_) } if let Some(on) = &config.on => Testbed::on(on, interrupted)?,
        Device::Link => Testbed::Link,
        Device::Xdp { interface: None } => Testbed::veth(config.queues)?,
        Device::Memif { socket: None } => Testbed::Memif,
        other => bail!("{} is not made for a run: give link, xdp or memif", other.name()),
    };
    let (mut program, mut counters, mut untraced) = (None, None, None);
    let reached = match &place {
        Testbed::Veth(veth) => Some((veth.left().netns().clone(), veth.left().name(), TESTED_IP)),
        Testbed::On(on) => Some((on.interface.netns.clone(), &on.interface.device.name[..], on.interface.address)),
        Testbed::Link | Testbed::Memif => None,
    };
    if let Some((netns, name, address)) = reached
        && config.has_kernel()
    {
        if let Some(wanted) = &config.program {
            let cpus = config.layout(available, false)?.of_server();
            let setting = Setting { netns, address, cpus, proto: config.proto, profile: profile.clone() };
            program = Some(Arc::new(ServerProgram::start(wanted, setting, interrupted)?));
        }
        if config.trace {
            match InstanceCounters::new(name) {
                Ok(ready) => counters = Some(Arc::new(Mutex::new(ready))),
                Err(error) => untraced = Some(format!("polls and timers of the kernel are not counted: {error}")),
            }
        }
    }
    let service = config.service.as_ref().map(|service| (service, config.seed));
    let server = Arc::new(server::filled(&profile, usize::from(config.queues), service));
    Ok(CaseWorkload {
        profile,
        proto: config.proto,
        server,
        place: Arc::new(place),
        program,
        counters,
        untraced,
        flows: config.flows as usize,
        queues: config.queues,
        ring_size: config.ring_size,
        seed: config.seed,
        arrivals: config.seed,
        coalesce: config.coalesce,
        xdp: config.xdp,
        shown: config.shown.clone(),
    })
}

/// What was run, for the report.
pub(super) fn describe(
    config: &CompareConfig,
    workload: &CaseWorkload,
    run_length: Duration,
    request_cost_us: Option<f64>,
) -> Workload {
    let format = workload.program.as_ref().map_or(Format::Ascii, |program| program.format());
    Workload {
        format: format.to_string(),
        request_cost_us,
        seconds: Some((run_length.as_secs_f64() * 1000.0).round() / 1000.0),
        ..asked(config, workload.profile.config(), config.device.name())
    }
}

/// The same if nothing is measured.
pub(super) fn predicted(config: &CompareConfig) -> Workload {
    asked(config, &ProfileConfig::default(), Backend::Sim.to_string())
}

/// What was asked for.
fn asked(config: &CompareConfig, profile: &ProfileConfig, device: String) -> Workload {
    Workload {
        name: "kv".to_owned(),
        backend: config.backends.iter().map(Backend::to_string).collect::<Vec<_>>().join(" and "),
        device,
        proto: config.proto.to_string(),
        format: Format::Ascii.to_string(),
        program: config.program.as_ref().map(ProgramConfig::line),
        seed: config.seed,
        flows: config.flows,
        queues: u32::from(config.queues),
        server_cpus: u32::from(config.queues),
        records: profile.records,
        set_pct: profile.set_share * 100.0,
        key_sizes: profile.key_sizes.name(),
        value_sizes: profile.value_sizes.name(),
        popularity: profile.popularity.to_string(),
        service: config.service.as_ref().map(ToString::to_string),
        request_cost_us: None,
        seconds: None,
    }
}
