//! What an XDP program takes from an interface beside packets: switched off before the program comes, noted in a journal first, and put back when it is
//! gone; by the next command if this process is killed.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use napier_linux::Netns;
use napier_linux::change::{DeviceRef, Ledger, Line, Recovered, Scope, lines_for_xdp, state_dir};
use napier_sys::netdev::attached_xdp;

/// How often it is looked whether the program is gone: 2 s at most. What is not put back then stays in the journal.
const LOOKS_MAX: u32 = 200;
const LOOK: Duration = Duration::from_millis(10);

/// What was switched off for an XDP program. Dropped after the program, it is on again.
pub(super) struct NotedOff {
    device: DeviceRef,
    /// The interface's; `None`: that of the thread that has begun it, and drops it.
    netns: Option<Netns>,
    /// `None`: it was put back.
    ledger: Option<Ledger>,
}

impl NotedOff {
    /// Before a program comes to `interface` in `netns`, or in the namespace of the calling thread; `None` where it takes nothing.
    ///
    /// # Errors
    /// Another command has the interface, or nothing can be noted. Nothing is changed then.
    pub(super) fn before_xdp(interface: &str, netns: Option<&Arc<OwnedFd>>) -> anyhow::Result<Option<Self>> {
        let netns = netns.map(|fd| Netns::from(fd.clone()));
        let lines = || {
            // The one that opens it says that there is none.
            let device = DeviceRef::named(interface).ok()?;
            let lines = lines_for_xdp(&device);
            (!lines.is_empty()).then_some((device, lines))
        };
        let Some((device, lines)) = inside(netns.as_ref(), lines)? else { return Ok(None) };
        let why = || format!("large receive offload of {interface} cannot be on beside an XDP program");
        Self::begin(&state_dir(), device, netns, &lines).with_context(why).map(Some)
    }

    /// Applies lines about `device`, with the journal in `folder`.
    fn begin(folder: &Path, device: DeviceRef, netns: Option<Netns>, lines: &[Line]) -> anyhow::Result<Self> {
        let apply = || -> anyhow::Result<Ledger> {
            let scope = Scope::device(device.clone())?;
            let told = &mut |found: &Recovered| say(&found.lines());
            let mut ledger = Ledger::begin_in(folder, &scope, lines.len(), told)?;
            match ledger.apply(lines) {
                Ok(()) => Ok(ledger),
                Err(why) => {
                    say(&ledger.put_back().lines());
                    Err(why.into())
                }
            }
        };
        let ledger = Some(inside(netns.as_ref(), apply)??);
        Ok(Self { device, netns, ledger })
    }
}

impl Drop for NotedOff {
    fn drop(&mut self) {
        let Some(ledger) = self.ledger.take() else { return };
        let ifindex = self.device.ifindex;
        let put_back = || {
            // It goes with the last thread that had it. Beside it what is asked for would stay off.
            for _ in 0..LOOKS_MAX {
                if !attached_xdp(ifindex).is_ok_and(|found| found.is_some()) {
                    break;
                }
                std::thread::sleep(LOOK);
            }
            ledger.put_back()
        };
        match inside(self.netns.as_ref(), put_back) {
            Ok(undone) => say(&undone.lines()),
            // The journal stays as it is, for the next command.
            Err(why) => say(&[format!("{} is not put back: {why:#}", self.device.name)]),
        }
    }
}

/// Calls `act` in a namespace, or where the calling thread is.
fn inside<R: Send>(netns: Option<&Netns>, act: impl FnOnce() -> R + Send) -> anyhow::Result<R> {
    match netns {
        Some(netns) => Ok(netns.run(act)?),
        None => Ok(act()),
    }
}

fn say(lines: &[String]) {
    lines.iter().for_each(|line| eprintln!("napier: {line}"));
}

#[cfg(test)]
#[path = "noted_tests.rs"]
mod tests;
