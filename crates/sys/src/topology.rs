//! Where processors are: which share a core or a memory node, and which the system keeps other threads from.
//! Source: `Documentation/admin-guide/cputopology.rst`, `Documentation/admin-guide/cgroup-v2.rst` (cpuset).

use std::fs;
use std::path::{Path, PathBuf};

use napier_core::control::cpu_list;

/// Where a processor is. What the system does not tell: a core of its own, on node 0.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The first processor of its core: processors with the same number are threads of one core.
    pub core: u16,
    /// Its memory node.
    pub node: u16,
}

/// Where this processor is.
#[must_use]
pub fn place_of(cpu: u16) -> Place {
    place_under(Path::new("/sys/devices/system/cpu"), cpu)
}

fn place_under(cpus: &Path, cpu: u16) -> Place {
    let folder = cpus.join(format!("cpu{cpu}"));
    let siblings = ["core_cpus_list", "thread_siblings_list"]
        .into_iter()
        .find_map(|file| list(folder.join("topology").join(file)))
        .unwrap_or_default();
    let core = siblings.first().and_then(|first| u16::try_from(*first).ok()).unwrap_or(cpu);
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let node_of = |name: &str| name.strip_prefix("node").and_then(|number| number.parse().ok());
    let node = entries.into_iter().find_map(|entry| node_of(&entry.file_name().to_string_lossy())).unwrap_or(0);
    Place { core, node }
}

/// Whether no thread comes to this processor by itself: `isolcpus=`, or an isolated partition of cpuset.
#[must_use]
pub fn is_isolated(cpu: u16) -> bool {
    ["/sys/devices/system/cpu/isolated", "/sys/fs/cgroup/cpuset.cpus.isolated"]
        .into_iter()
        .filter_map(|path| list(PathBuf::from(path)))
        .any(|isolated| isolated.contains(&u32::from(cpu)))
}

fn list(path: PathBuf) -> Option<Vec<u32>> {
    cpu_list(&fs::read_to_string(path).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_and_nodes_are_read_as_the_kernel_shows_them() {
        let root = std::env::temp_dir().join(format!("napier-topology-{}", std::process::id()));
        for (cpu, siblings, node) in [(0, "0,4\n", 0), (4, "0,4\n", 0), (5, "1,5\n", 1)] {
            let folder = root.join(format!("cpu{cpu}"));
            fs::create_dir_all(folder.join("topology")).unwrap();
            fs::create_dir_all(folder.join(format!("node{node}"))).unwrap();
            fs::write(folder.join("topology/core_cpus_list"), siblings).unwrap();
        }
        let place = |cpu| place_under(&root, cpu);
        assert_eq!((place(0), place(4)), (Place { core: 0, node: 0 }, Place { core: 0, node: 0 }));
        assert_eq!(place(5), Place { core: 1, node: 1 });
        assert_eq!(place(77), Place { core: 77, node: 0 }, "the system does not tell");
        fs::remove_dir_all(root).unwrap();
    }
}
