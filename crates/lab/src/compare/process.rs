//! What this process takes of the machine: memory and descriptors.

use crate::report::Memory;

/// Memory that is resident now, in KiB; `None` where it is not known.
pub(super) fn resident_kib() -> Option<u64> {
    kib(&std::fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// What a comparison took: resident after its first run, now, and the most so far.
pub(super) fn memory(after_first_run_kib: Option<u64>) -> Option<Memory> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    Some(Memory {
        after_first_run_kib: after_first_run_kib?,
        at_end_kib: kib(&status, "VmRSS:")?,
        peak_kib: kib(&status, "VmHWM:")?,
    })
}

/// A line of `proc_pid_status(5)`.
fn kib(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// What to do if no more descriptors were to be had; empty if that is not what went wrong.
pub(super) fn descriptor_advice(error: &anyhow::Error) -> String {
    // EMFILE, which is 24 on all that Linux runs on.
    let full = |cause: &(dyn std::error::Error + 'static)| cause.to_string().contains("(os error 24)");
    if !error.chain().any(full) {
        return String::new();
    }
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let limit = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limit.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    let limit = limit.unwrap_or("an unknown number");
    format!(
        "; between runs this process has {open} of the {limit} files open that it may have: a run needs more than are \
         left, so raise the limit (ulimit -n) or ask for fewer queues"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_process_is_read() {
        assert_eq!(kib("Name:\tx\nVmHWM:\t   5120 kB\nVmRSS:\t    4096 kB\n", "VmRSS:"), Some(4096));
        assert_eq!(kib("VmRSS:\tmuch\n", "VmRSS:"), None);
        let memory = memory(resident_kib()).expect("this process has some");
        assert!(memory.peak_kib >= memory.at_end_kib && memory.after_first_run_kib > 0, "{memory:?}");
    }

    #[test]
    fn advice_on_descriptors_is_given_only_where_they_ran_out() {
        let full = anyhow::Error::from(std::io::Error::from_raw_os_error(24)).context("starting");
        assert!(descriptor_advice(&full).contains("files open"), "{}", descriptor_advice(&full));
        assert_eq!(descriptor_advice(&anyhow::Error::from(std::io::Error::from_raw_os_error(13))), "");
    }
}
