//! A program that runs already, and the interface that its packets come through.

use anyhow::anyhow;
use napier_lab::modes::Mode;
use napier_linux::by_name::{ProgramTarget, TargetName};
use napier_linux::change::DeviceRef;
use napier_linux::process::{Process, ProgramSettings};
use napier_linux::wiring::{PairLines, Wired, pair_lines};

use crate::target::TargetArgs;
use crate::{Usage, target};

/// What is asked for of such a program.
pub(crate) struct AttachTo<'a> {
    pub(crate) dev: &'a str,
    pub(crate) attach: Option<u32>,
    pub(crate) target: &'a TargetArgs,
    pub(crate) mode: Mode,
    /// How it is reached is not said.
    pub(crate) is_quiet: bool,
}

/// Such a program.
pub(crate) struct Attached {
    pub(crate) target: ProgramTarget,
    /// The process, if it is one.
    pub(crate) process: Option<Process>,
    pub(crate) wired: Wired,
    /// What a pair of veth interfaces needs before.
    pub(crate) pair: PairLines,
    /// The program is in another namespace than the interface, which this process is in from here on.
    pub(crate) apart: Option<napier_linux::Netns>,
}

impl Attached {
    /// Finds it, and looks whether a mode can be applied to it: before anything is changed. This thread is in the interface's namespace afterwards, and
    /// with it all that is begun from here on.
    pub(crate) fn find(asked: &AttachTo<'_>, settings: &ProgramSettings) -> anyhow::Result<Option<Self>> {
        let Some(target) = asked.target.find(asked.attach)? else { return Ok(None) };
        let processes = match target.name {
            TargetName::Process(pid) if pid == std::process::id() => {
                return Err(Usage(anyhow!("{pid} is this command itself")).into());
            }
            // Its descendants are looked at as they are found.
            TargetName::Process(pid) => {
                vec![Process::open(pid).map_err(|error| Usage(anyhow!("--attach {pid}: {error}")))?]
            }
            _ => target.processes(),
        };
        if !settings.is_empty() {
            processes.iter().try_for_each(can_be_set)?;
        }
        let wired = target::wired(asked.dev, &processes)?;
        if !asked.is_quiet {
            crate::say::say(target::how(&wired, &target).as_slice());
        }
        // The other end is looked for from here: no process but this one may be in its namespace.
        let pair = match &wired.netns {
            None => pair_of(asked.mode, &wired.device),
            Some(netns) => {
                let pair = netns.run(|| pair_of(asked.mode, &wired.device))?;
                netns.enter()?;
                pair
            }
        };
        let apart = processes.iter().find_map(Process::netns_apart);
        let process = matches!(target.name, TargetName::Process(_)).then(|| processes.into_iter().next()).flatten();
        Ok(Some(Self { target, process, wired, pair, apart }))
    }
}

/// What a pair of veth interfaces needs before a mode acts; `base` needs no instance that takes packets.
pub(crate) fn pair_of(mode: Mode, device: &DeviceRef) -> PairLines {
    if mode == Mode::Base { PairLines::default() } else { pair_lines(device) }
}

/// Whether its descriptors can be set.
fn can_be_set(process: &Process) -> anyhow::Result<()> {
    let of = |error| anyhow!("{} cannot be looked into: {error}", process.who());
    if let Some((fd, kind)) = process.descriptors().map_err(of)?.first() {
        process.try_descriptor(*fd, *kind).map_err(of)?;
    }
    Ok(())
}
