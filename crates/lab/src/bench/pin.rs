//! Where the threads of an experiment run.

/// The CPUs of the two ends of an experiment.
#[derive(Clone, Copy)]
pub(super) struct EndCpus {
    pub(super) client: usize,
    pub(super) server: usize,
}

impl EndCpus {
    /// Both.
    pub(super) fn both(self) -> [usize; 2] {
        [self.client, self.server]
    }
}
