//! `napier run --engine`: a program whose TCP sockets are an engine's, and by the fast door its UDP sockets.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, anyhow, bail};
use napier_door::EngineAt;
use napier_linux::process::{HeldSends, PreloadError, Program, Signals, ld_preload, sockets_preload_for};

use super::live::pass_on;
use super::{ProgramDoor, RunArgs, not_started, startable};
use crate::engine::explained;
use crate::{ExitWith, Usage};

/// Runs it, and ends as it does.
pub(super) fn run(args: &RunArgs, name: Option<&str>, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let Some((program, rest)) = args.program.split_first() else {
        return Err(Usage(anyhow!("nothing to run: give a program and its arguments behind --")).into());
    };
    startable(args)?;
    let engine = EngineAt::find(name)?;
    if engine.pid() == 0 {
        let name = engine.name();
        bail!(
            "the engine {name} is in another pid namespace, so it sees none of this program: start both in one, or the engine in an outer one"
        );
    }
    let signals = Signals::take().context("taking signals")?;
    if interrupted.load(Ordering::Relaxed) {
        bail!("interrupted"); // from here on signals come through `signals`
    }
    let mut command = Command::new(program);
    command.args(rest);
    if args.door == Some(ProgramDoor::Fast) {
        match sockets_preload_for(program) {
            Ok(library) => _ = command.env("LD_PRELOAD", ld_preload(&library)),
            // It goes on by the slow door.
            Err(why @ PreloadError::NotLoadable { .. }) => crate::say::say(&[format!("slow door: {why}")]),
            Err(why) => return Err(anyhow!("the fast door needs a library in the program: {why}")),
        }
    }
    let sends = if args.hold_sendto { HeldSends::Addressed } else { HeldSends::None };
    let page = engine.begin()?;
    let (mut running, held) = match Program::start_held(&mut command, &signals, (engine.pid(), &page), sends) {
        Ok(started) => started,
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => {
            bail!("another supervisor holds calls of this command already: run it outside of that")
        }
        Err(error) => return Err(not_started(program, &error)),
    };
    let served = engine.serve(&program.to_string_lossy(), &held);
    // The engine has them, and the keeper.
    drop((held, page));
    let served = match served {
        Ok(served) => served,
        Err(error) => {
            running.signal(signal_hook::consts::SIGKILL);
            return Err(error.into());
        }
    };
    let ended = pass_on(&signals, &mut running, "the engine serves it")?;
    if args.explain {
        let lines = served.explain().map(|view| explained(&view));
        crate::say::say(&lines.unwrap_or_else(|why| vec![format!("nothing is known of the program's calls: {why}")]));
    }
    match ended.status() {
        0 => Ok(()),
        status => Err(ExitWith(status).into()),
    }
}
