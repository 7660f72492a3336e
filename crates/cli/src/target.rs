//! A program by the name that people have for it, as options of several commands.

use std::path::PathBuf;

use napier_linux::by_name::{ProgramTarget, TargetError, TargetName};
use napier_linux::change::quoted;
use napier_linux::process::Process;
use napier_linux::wiring::{self, Way, Wired, WiringError};

use crate::Usage;

/// Options that name a program which runs already, by more than the number of a process.
#[derive(clap::Args, Default)]
#[group(id = "target", multiple = false)]
pub(crate) struct TargetArgs {
    /// A unit of systemd: all processes of its control group
    #[arg(long, value_name = "NAME")]
    unit: Option<String>,

    /// A container of docker, podman or containerd, by its name, its id or the beginning of it
    #[arg(long, value_name = "NAME|ID")]
    container: Option<String>,

    /// A pod, by its namespace and name, or by its uid
    #[arg(long, value_name = "NS/NAME|UID")]
    pod: Option<String>,

    /// A control group: its folder, or its path as /proc/PID/cgroup has it
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
}

impl TargetArgs {
    /// What is named; `pid` is the option of the same command that names a process.
    pub(crate) fn name(&self, pid: Option<u32>) -> Option<TargetName> {
        let Self { unit, container, pod, cgroup } = self;
        let by_name = unit.clone().map(TargetName::Unit).or_else(|| container.clone().map(TargetName::Container));
        let by_name = by_name.or_else(|| pod.clone().map(TargetName::Pod));
        by_name.or_else(|| cgroup.clone().map(TargetName::Cgroup)).or_else(|| pid.map(TargetName::Process))
    }

    /// The same as it is typed, for a command that is to be typed again.
    pub(crate) fn option(&self, pid: Option<u32>) -> Option<String> {
        Some(match self.name(pid)? {
            TargetName::Process(pid) => format!("--pid {pid}"),
            TargetName::Unit(name) => format!("--unit {}", quoted(&name)),
            TargetName::Container(name) => format!("--container {}", quoted(&name)),
            TargetName::Pod(name) => format!("--pod {}", quoted(&name)),
            TargetName::Cgroup(path) => format!("--cgroup {}", quoted(&path.to_string_lossy())),
        })
    }

    /// The program that is named; none if nothing is.
    pub(crate) fn find(&self, pid: Option<u32>) -> anyhow::Result<Option<ProgramTarget>> {
        let Some(name) = self.name(pid) else { return Ok(None) };
        match ProgramTarget::find(&name) {
            Ok(target) => Ok(Some(target)),
            // It is there, and does not run.
            Err(error @ TargetError::Empty { .. }) => Err(error.into()),
            Err(error) => Err(Usage(error.into()).into()),
        }
    }
}

/// The interface that a name means for a program.
pub(crate) fn wired(name: &str, programs: &[Process]) -> anyhow::Result<Wired> {
    wiring::find(name, programs).map_err(|error| match error {
        WiringError::NoDevice { .. } => Usage(error.into()).into(),
        error => error.into(),
    })
}

/// How a program in another namespace than the command is reached, for a person; nothing where both are in one.
pub(crate) fn how(wired: &Wired, target: &ProgramTarget) -> Option<String> {
    let (device, name) = (&wired.device.name, &target.name);
    match (&wired.way, &wired.netns) {
        (Way::Same, None) => None,
        (Way::Same, Some(_)) => Some(format!("{device} is in the network namespace of {name}")),
        (Way::Learned { sockets: 1 }, _) => Some(format!(
            "{name} is in another network namespace: one of its sockets receives from an instance of {device}"
        )),
        (Way::Learned { sockets }, _) => Some(format!(
            "{name} is in another network namespace: {sockets} of its sockets receive from instances of {device}"
        )),
        (Way::Below { kind, name: own }, _) => {
            Some(format!("{name} is in another network namespace: its {own} ({kind}) hands on what comes to {device}"))
        }
        (Way::MayBe { kind, name: own }, _) => Some(format!(
            "{name} is in another network namespace, and none of its sockets has received yet: whether its {own} ({kind}) gets its packets in the \
             poll of {device} is seen with the first ones"
        )),
    }
}
