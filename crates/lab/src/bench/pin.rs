//! Where the threads of an experiment without an engine run.

use rustix::thread::{CpuSet, sched_setaffinity};

/// Keeps the calling thread on one processor; where the system refuses, it runs where it may.
pub(super) fn pin_to(cpu: usize) {
    assert!(cpu < CpuSet::MAX_CPU, "the number comes from the system");
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}
