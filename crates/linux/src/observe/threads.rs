//! Threads by what they belong to.

use std::collections::BTreeSet;

/// Processes that are looked at to find threads of the kernel.
const PROCESSES_MAX: usize = 100_000;

/// Threads of the kernel whose names begin so, with the rest of their names: `ksoftirqd/` of each CPU, `napi/` of each instance.
#[must_use]
pub fn kernel_threads(prefix: &str) -> Vec<(String, u32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().take(PROCESSES_MAX).flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((name_of(pid)?.strip_prefix(prefix)?.to_owned(), pid))).collect()
}

/// The name of a thread; `None` if it has gone.
pub(super) fn name_of(tid: u32) -> Option<String> {
    let comm = std::fs::read_to_string(format!("/proc/{tid}/comm")).ok()?;
    Some(comm.trim_end().to_owned())
}

/// Threads of processes, for [`Polls::by`](super::Polls::by).
#[must_use]
pub fn threads_of(pids: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
    let of = |pid| std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    pids.into_iter().flat_map(of).filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
