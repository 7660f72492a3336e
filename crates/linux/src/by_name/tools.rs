//! Programs that know names which the kernel does not: of units, containers and pods. None of them has to be there.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What asks such a program; a test answers itself.
pub(super) trait Tools {
    /// What a program printed; `None` if it is not there, failed, or did not end in time.
    fn ask(&self, program: &str, args: &[&str]) -> Option<String>;
}

/// Those of this machine.
pub(super) struct Installed;

/// A daemon that hangs is not waited for: so many looks, 5 s.
const LOOKS_MAX: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);

impl Tools for Installed {
    fn ask(&self, program: &str, args: &[&str]) -> Option<String> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let mut out = child.stdout.take()?;
        let reader = std::thread::Builder::new().name("tool".to_owned()).spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).map(|_| text)
        });
        for _ in 0..LOOKS_MAX {
            match child.try_wait() {
                Ok(Some(status)) => {
                    let text = reader.ok()?.join().ok()?.ok()?;
                    return status.success().then_some(text);
                }
                Ok(None) => std::thread::sleep(PAUSE),
                Err(_) => break,
            }
        }
        let _ = child.kill().and_then(|()| child.wait());
        None
    }
}
