//! Whether a program can be started, and how it is said if not.

use std::ffi::OsStr;
use std::io;

use anyhow::bail;
use napier_linux::process::{find_program, is_setuid};

use super::RunArgs;
use crate::ExitWith;

/// As a shell ends if there is no such program.
pub(super) const NO_PROGRAM: u8 = 127;

/// Whether the program can be started as it is asked for, which a dry run says too.
pub(super) fn startable(args: &RunArgs) -> anyhow::Result<()> {
    let Some(program) = args.program.first() else { return Ok(()) };
    let Some(found) = find_program(program) else {
        crate::say::say(&[format!("{} cannot be started: there is no such program", program.display())]);
        return Err(ExitWith(NO_PROGRAM).into());
    };
    let holds = if args.engine.is_some() { "--engine" } else { "--strict" };
    if (args.strict || args.engine.is_some()) && !is_root() && is_setuid(&found) {
        bail!(
            "{} is setuid, which {holds} takes from it without CAP_SYS_ADMIN: run it as root, or without {holds}",
            program.display()
        );
    }
    Ok(())
}

/// Says why a program did not start; the status is that of a shell: not found, or found and no program.
pub(super) fn not_started(program: &OsStr, error: &io::Error) -> anyhow::Error {
    let status = match error.kind() {
        io::ErrorKind::NotFound => NO_PROGRAM,
        io::ErrorKind::PermissionDenied => 126,
        _ => 1,
    };
    crate::say::say(&[format!("{} cannot be started: {error}", program.to_string_lossy())]);
    ExitWith(status).into()
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
