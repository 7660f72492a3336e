//! Control groups: in which a process is, and which processes are in one. Of the hierarchies of `cgroup` (version 1) one is enough, for
//! who starts programs makes the same folders in all of them. Source: `cgroups(7)`, `kernel/cgroup/cgroup.c proc_cgroup_show`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::root::Root;

/// Folders of one control group that are looked into.
const FOLDERS_MAX: usize = 4096;

/// The hierarchy of version 1 that systemd keeps, which has the name and no controller.
const OF_SYSTEMD: &str = "name=systemd";

/// A control group, by its folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cgroup {
    folder: PathBuf,
    path: String,
}

/// A line of `/proc/PID/cgroup`: its hierarchy, empty for version 2, and the path in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CgroupLine {
    pub(crate) hierarchy: String,
    pub(crate) path: String,
}

/// Where hierarchies are mounted.
#[derive(Clone, Debug)]
pub(crate) struct Mounts {
    all: Vec<Mount>,
    root: Root,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Mount {
    point: String,
    /// What of the hierarchy is mounted there.
    root: String,
    /// `None` for version 2.
    controllers: Option<Vec<String>>,
}

/// Lines of `/proc/PID/cgroup`.
pub(crate) fn lines(text: &str) -> Vec<CgroupLine> {
    let line = |line: &str| {
        // A path may have colons in it.
        let mut parts = line.splitn(3, ':').skip(1);
        Some(CgroupLine { hierarchy: parts.next()?.to_owned(), path: parts.next()?.to_owned() })
    };
    text.lines().filter_map(line).collect()
}

/// The same of a process; empty if there is none.
pub(crate) fn lines_of(root: &Root, pid: u32) -> Vec<CgroupLine> {
    root.table(&format!("/proc/{pid}/cgroup")).as_deref().map(lines).unwrap_or_default()
}

impl Mounts {
    /// Those of the calling process's mount namespace.
    pub(crate) fn read(root: &Root) -> Self {
        let text = root.table("/proc/self/mountinfo").unwrap_or_default();
        Self { all: text.lines().filter_map(mount).collect(), root: root.clone() }
    }

    /// The control group that a line names, if its folder can be seen.
    pub(crate) fn find(&self, line: &CgroupLine) -> Option<Cgroup> {
        let is_it = |mount: &&Mount| match &mount.controllers {
            None => line.hierarchy.is_empty(),
            Some(own) => line.hierarchy.split(',').any(|wanted| own.iter().any(|found| found == wanted)),
        };
        let below = |mount: &Mount| {
            let rest = line.path.strip_prefix(mount.root.trim_end_matches('/'))?;
            self.at(&format!("{}{rest}", mount.point), &line.path)
        };
        self.all.iter().filter(is_it).find_map(below)
    }

    /// The one with this path, in whichever hierarchy has it: as `/proc/PID/cgroup` spells it, or by its folder.
    pub(crate) fn named(&self, path: &str) -> Option<Cgroup> {
        let path = path.trim_end_matches('/');
        let is_below = |mount: &&Mount| Path::new(path).starts_with(&mount.point);
        if self.all.iter().any(|mount| is_below(&mount)) {
            return self.at(path, path);
        }
        self.by_worth().find_map(|mount| self.at(&format!("{}/{}", mount.point, path.trim_start_matches('/')), path))
    }

    /// All whose folder has one of these names.
    pub(crate) fn with_name(&self, names: &[String]) -> Vec<Cgroup> {
        for mount in self.by_worth() {
            let mut found = Vec::new();
            for folder in folders(&self.root.path(&mount.point)) {
                let is_it = folder.file_name().is_some_and(|name| names.iter().any(|wanted| name == wanted.as_str()));
                if let Some(path) = folder.strip_prefix(self.root.path(&mount.point)).ok().filter(|_| is_it) {
                    found.push(Cgroup { path: format!("/{}", path.display()), folder });
                }
            }
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// Those where who starts programs has its folders first.
    fn by_worth(&self) -> impl Iterator<Item = &Mount> {
        let mut all: Vec<&Mount> = self.all.iter().collect();
        all.sort_by_key(|mount| match &mount.controllers {
            None => 0,
            Some(own) if own.iter().any(|name| name == OF_SYSTEMD) => 1,
            Some(_) => 2,
        });
        all.into_iter()
    }

    fn at(&self, folder: &str, path: &str) -> Option<Cgroup> {
        let folder = self.root.path(folder);
        folder.join("cgroup.procs").is_file().then(|| Cgroup { folder, path: path.to_owned() })
    }
}

/// A line of `/proc/self/mountinfo`. Source: `proc_pid_mountinfo(5)`.
fn mount(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ').skip(3);
    let (root, point) = (front.next()?.to_owned(), front.next()?.to_owned());
    let mut back = back.split(' ');
    let controllers = match back.next()? {
        "cgroup2" => None,
        "cgroup" => Some(back.nth(1)?.split(',').map(ToOwned::to_owned).collect()),
        _ => return None,
    };
    Some(Mount { point, root, controllers })
}

/// A folder and those below it.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    let mut next = 0;
    while next < found.len() && found.len() < FOLDERS_MAX {
        let entries = fs::read_dir(&found[next]).into_iter().flatten().flatten();
        found.extend(
            entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()),
        );
        next += 1;
    }
    found
}

impl Cgroup {
    /// Its path, as `/proc/PID/cgroup` has it.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether it is no more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        !self.folder.is_dir()
    }

    /// CPU time of all that is and was in it and in those below, in ns; `None` where this hierarchy does not count it. Source:
    /// `kernel/cgroup/rstat.c cgroup_base_stat_cputime_show`, `kernel/sched/cpuacct.c`.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<u64> {
        let read = |name: &str| fs::read_to_string(self.folder.join(name)).ok();
        let usage = |text: String| text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse().ok());
        let version_2 = read("cpu.stat").and_then(usage).map(|us: u64| us * 1000);
        version_2.or_else(|| read("cpuacct.usage")?.trim().parse().ok())
    }

    /// Processes in it and in those below it, as far as they can be seen from here.
    #[must_use]
    pub fn pids(&self) -> BTreeSet<u32> {
        let of = |folder: PathBuf| fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        let all: Vec<String> = folders(&self.folder).into_iter().map(of).collect();
        // A process in a namespace that is not seen from here is a 0.
        let pids = all.iter().flat_map(|text| text.lines()).filter_map(|line| line.trim().parse().ok());
        pids.filter(|pid| *pid != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_versions_are_read() {
        let found = lines("4:memory:/docker/a:b\n1:name=systemd:/x\n0::/y\nnothing\n");
        let pairs: Vec<(&str, &str)> = found.iter().map(|line| (line.hierarchy.as_str(), line.path.as_str())).collect();
        assert_eq!(pairs, [("memory", "/docker/a:b"), ("name=systemd", "/x"), ("", "/y")]);
    }

    #[test]
    fn hierarchies_are_found_where_they_are_mounted() {
        let v2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!(
            mount(v2),
            Some(Mount { point: "/sys/fs/cgroup".to_owned(), root: "/".to_owned(), controllers: None })
        );
        let v1 = "33 25 0:29 /docker/x /sys/fs/cgroup/cpu,cpuacct ro shared:9 - cgroup cgroup rw,cpu,cpuacct";
        let found = mount(v1).expect("a mount");
        assert_eq!((found.root.as_str(), found.controllers.map(|all| all.len())), ("/docker/x", Some(3)));
        assert!(["", "1 2 3", "30 24 0:26 / / rw - ext4 /dev/vda rw"].iter().all(|line| mount(line).is_none()));
    }
}
