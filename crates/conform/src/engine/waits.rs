//! How long threads waited for a processor, as the operating system counts it: what explains a run that came out wrong
//! on a machine that does other things.

use std::collections::HashMap;
use std::fs::{read_dir, read_to_string};

use napier_core::time::Span;

/// Waiting time of each thread of the process, by its number; nothing where the system does not count it.
pub(super) struct Waits(HashMap<String, u64>);

impl Waits {
    pub(super) fn now() -> Self {
        let Ok(tasks) = read_dir("/proc/self/task") else { return Self(HashMap::new()) };
        let names = tasks.flatten().map(|task| task.file_name().to_string_lossy().into_owned());
        Self(names.filter_map(|task| waited_ns(&task).map(|ns| (task, ns))).collect())
    }

    /// The thread that has waited longest since then, by name.
    pub(super) fn longest_since(&self) -> Option<(String, Span)> {
        let now = Self::now().0.into_iter();
        let since = now.map(|(task, ns)| {
            let ns = ns - self.0.get(&task).copied().unwrap_or(0).min(ns);
            (task, ns)
        });
        let (task, ns) = since.max_by_key(|(_, ns)| *ns)?;
        let name = read_to_string(format!("/proc/self/task/{task}/comm")).unwrap_or(task);
        Some((name.trim_end().to_owned(), Span::from_ns(ns)))
    }
}

/// The second number of a thread's `schedstat`. Source: `Documentation/scheduler/sched-stats.rst`.
fn waited_ns(task: &str) -> Option<u64> {
    let text = read_to_string(format!("/proc/self/task/{task}/schedstat")).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// How long the calling thread has waited since it began.
pub(super) fn own_wait() -> Span {
    let text = read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = text.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok());
    Span::from_ns(waited.unwrap_or(0))
}
