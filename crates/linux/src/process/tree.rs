//! Which processes a program has become.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::descriptors::Process;
use crate::procfs::Stat;

/// Processes of one program that are looked at; more are not.
const PROCESSES_MAX: usize = 1 << 16;

/// The processes that this one has started, and theirs, as far as they still are its descendants. Source:
/// `fs/proc/array.c children_seq_show`.
#[must_use]
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = BTreeSet::new();
    let mut open = vec![pid];
    // Read once, and only where the kernel shows no children.
    let mut parents = None;
    while let Some(pid) = open.pop() {
        let children = children(pid).unwrap_or_else(|| {
            let parents: &BTreeMap<u32, Vec<u32>> = parents.get_or_insert_with(by_parent);
            parents.get(&pid).cloned().unwrap_or_default()
        });
        for child in children {
            if found.len() < PROCESSES_MAX && found.insert(child) {
                open.push(child);
            }
        }
    }
    found.into_iter().collect()
}

/// Processes of a list, held. A number may be another process's when it is opened, so those that are not listed once more are left
/// out.
pub(super) fn hold(listed: &BTreeSet<u32>, again: impl FnOnce() -> BTreeSet<u32>) -> Vec<Process> {
    let held: Vec<Process> = listed.iter().filter_map(|pid| Process::open(*pid).ok()).collect();
    if held.is_empty() {
        return held;
    }
    let again = again();
    held.into_iter().filter(|process| again.contains(&process.who().pid) && !process.has_ended()).collect()
}

/// Of all threads of a process; `None` where the kernel has no such file (`CONFIG_PROC_CHILDREN`).
fn children(pid: u32) -> Option<Vec<u32>> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Some(Vec::new()) };
    let mut found = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => found.extend(list.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok())),
            // The thread has ended, or no kernel of this kind has the file.
            Err(_) if thread.path().join("stat").exists() => return None,
            Err(_) => {}
        }
    }
    Some(found)
}

fn by_parent() -> BTreeMap<u32, Vec<u32>> {
    let mut found: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Ok(stat) = Stat::of(pid) {
            found.entry(stat.parent).or_default().push(pid);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_either_way() {
        let mut child = std::process::Command::new("sleep").arg("20").spawn().expect("sleep is there");
        let own = std::process::id();
        // A list that is read while a thread of another test ends may lack one.
        napier_testkit::eventually("it is found", || descendants(own).contains(&child.id()));
        let by_parent = || by_parent().get(&own).is_some_and(|children| children.contains(&child.id()));
        napier_testkit::eventually("it is found by its parent", by_parent);
        child.kill().and_then(|()| child.wait()).expect("it ends");
    }
}
