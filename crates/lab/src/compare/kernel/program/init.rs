//! The first process of a program's own process namespace. It waits for the program and for what that leaves behind, and
//! the kernel ends all of them with it: so no server outlives a comparison, however that ends.

use std::process::{Command, ExitCode};

use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, WaitStatus};

/// The hidden subcommand that runs it.
pub const SUBCOMMAND: &str = "internal-init";

/// Status of a program that could not be started, as shells have it.
const NOT_STARTED: u8 = 127;

/// Runs a program until it and all that it started has ended; the status is the program's, 128 and the number of a signal that
/// ended it.
#[must_use]
pub fn run(command: &[String]) -> ExitCode {
    // The parent is a thread that lives as long as the program shall.
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("cannot be bound to its parent: {error}");
        return ExitCode::from(NOT_STARTED);
    }
    let Some((program, arguments)) = command.split_first() else { return ExitCode::from(NOT_STARTED) };
    let child = match Command::new(program).args(arguments).spawn() {
        Ok(child) => child.id(),
        Err(error) => {
            eprintln!("cannot be started: {error}");
            return ExitCode::from(NOT_STARTED);
        }
    };
    let mut status = ExitCode::SUCCESS;
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, how))) if pid.as_raw_nonzero().get().cast_unsigned() == child => {
                status = code_of(how);
            }
            Ok(_) | Err(Errno::INTR) => {}
            // No child is left.
            Err(_) => return status,
        }
    }
}

fn code_of(how: WaitStatus) -> ExitCode {
    let code = how.exit_status().unwrap_or_else(|| 128 + how.terminating_signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
