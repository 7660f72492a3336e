//! `napier engine start --containers SOCKET`: programs of containers, which a runtime brings (docs/engine-containers.md).

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use napier_door::ContainersConfig;
use napier_linux::process::{keep_for_parent, this_program};

/// The command that starts a keeper: held calls are its standard input, and the page of those without an answer is its standard output.
pub(crate) const KEEP: &str = "internal-keep";

/// Where runtimes bring containers.
pub(super) fn config(path: &Path) -> ContainersConfig {
    ContainersConfig {
        path: path.to_owned(),
        keep: Box::new(start_keeper),
        tell: Box::new(|line| eprintln!("napier: {}", napier_linux::change::shown(line))),
    }
}

/// Starts a keeper by a process that has nothing of this one mapped, and waits until it is there.
fn start_keeper(held: BorrowedFd<'_>, page: BorrowedFd<'_>) -> io::Result<()> {
    let mut command = Command::new(this_program());
    command.arg(KEEP).stdin(held.try_clone_to_owned()?).stdout(page.try_clone_to_owned()?);
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("`napier {KEEP}` ended with {status}"))) }
}

/// That process.
pub(crate) fn keep() -> anyhow::Result<()> {
    keep_for_parent(io::stdin().as_fd(), io::stdout().as_fd()).context("keeping held calls")
}
