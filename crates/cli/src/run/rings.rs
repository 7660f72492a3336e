//! Rings of io_uring of a program: what is refused for them, and what is said of those that a mode does not reach.

use anyhow::bail;
use napier_lab::modes::Mode;
use napier_linux::process::{MissedRing, ONLY_EPOLL, Process, ProgramSettings};

/// Refuses suspension for a process that could only wait for its sockets in rings: deferral alone would be left of it, which makes packets later.
pub(super) fn refuse_suspension(process: &Process, mode: Mode, settings: &ProgramSettings) -> anyhow::Result<()> {
    // What may not be looked into is said by whatever looks next.
    if settings.leaves_rings() && process.has_rings_alone().unwrap_or(false) {
        bail!(
            "{} has rings of io_uring and no epoll instance: {mode} would do nothing for it but defer interrupts, for {ONLY_EPOLL}; \
             take napibusy, which rings have too, or threaded",
            process.who()
        );
    }
    Ok(())
}

/// What is said at the end of rings that were not reached.
pub(super) fn at_the_end(missed: &[MissedRing]) -> Option<String> {
    match missed {
        [] => None,
        [one] => Some(format!("not reached: the ring of io_uring at descriptor {} of {}", one.fd, one.process)),
        [one, ..] => {
            Some(format!("not reached: {} rings of io_uring, the first of them of {}", missed.len(), one.process))
        }
    }
}
