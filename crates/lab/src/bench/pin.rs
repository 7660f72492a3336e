//! Where the threads of an experiment run.

use rustix::thread::{CpuSet, sched_setaffinity};

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

/// Keeps the calling thread on one processor; where the system refuses, it runs where it may.
pub(super) fn pin_to(cpu: usize) {
    assert!(cpu < CpuSet::MAX_CPU, "the number comes from the system");
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}
