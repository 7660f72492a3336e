//! Where snapshots come from.

use super::snapshot::Snapshot;

/// An engine, or the kernel.
pub(super) trait Source: Send {
    /// What it is, for the first line.
    fn title(&self) -> String;

    /// What has been counted until now.
    ///
    /// # Errors
    /// [`Ended`] if it is there no more, or what was looked at cannot be read.
    fn look(&mut self, at_ns: u64) -> anyhow::Result<Snapshot>;
}

/// What was looked at has ended.
#[derive(Debug)]
pub(super) struct Ended(pub(super) String);

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} has ended", self.0)
    }
}

impl std::error::Error for Ended {}
