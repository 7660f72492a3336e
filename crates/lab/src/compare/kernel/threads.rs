//! What threads have taken, as `/proc` tells: CPU time and context switches, of this process and of others.

use std::path::Path;
use std::time::Duration;

/// CPU time of all threads of a process that are there, in ns resolution (`/proc/PID/task/TID/schedstat`).
pub(crate) fn cpu_of(pid: u32) -> Duration {
    let time = |task: &Path| {
        let line = std::fs::read_to_string(task.join("schedstat")).ok()?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(tasks(pid).iter().filter_map(|task| time(task)).sum())
}

/// Context switches of the threads of a process whose name is wanted (`proc_pid_status(5)`), voluntary or not.
pub(crate) fn switches_of(pid: u32, wanted: &dyn Fn(&str) -> bool) -> u64 {
    let status = |task: &Path| std::fs::read_to_string(task.join("status")).unwrap_or_default();
    tasks(pid).iter().map(|task| switches_in(&status(task), wanted)).sum()
}

fn switches_in(status: &str, wanted: &dyn Fn(&str) -> bool) -> u64 {
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if !value("Name:").is_some_and(wanted) {
        return 0;
    }
    let count = |name| value(name).and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    count("voluntary_ctxt_switches:") + count("nonvoluntary_ctxt_switches:")
}

fn tasks(pid: u32) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_thread_is_read() {
        let status = "Name:\tkv/0\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(switches_in(status, &|name| name.starts_with("kv/")), 10);
        assert_eq!(switches_in(status, &|name| name == "client"), 0);
    }

    #[test]
    fn this_process_and_its_children_are_found() {
        let own = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep is there");
        // A list that is read while a thread of another test ends may lack one.
        napier_testkit::eventually("our own child is found", || {
            let found = napier_linux::process::descendants(own);
            assert!(!found.contains(&own), "{found:?}");
            found.contains(&child.id())
        });
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(cpu_of(own) > Duration::ZERO && switches_of(own, &|_| true) > 0);
    }
}
