//! A program by the name that people have for it: a process, a unit of systemd, a container, a pod, a control group.
//!
//! All of them but a process are a control group, in which the kernel keeps every process from its first moment on: so what a program starts later belongs
//! to it, whichever process is its parent. Names that are in no path are asked of the programs that know them (`by_name/tools.rs`); the rest is read in
//! `/proc/PID/cgroup`, and needs none of them.
//!
//! | target | found by |
//! |---|---|
//! | unit | `systemctl show`, else the folder of that name |
//! | container | its id in a path; else `docker`, `podman`, `nerdctl`, `crictl`, which tell the id of a name |
//! | pod | its uid in a path; of a name `crictl pods`, else `/var/log/pods`, where the kubelet has a folder for each pod |

mod labels;
#[cfg(test)]
mod tests;
mod tools;

use std::fmt;
use std::path::PathBuf;

use labels::{Label, Labels, is_uid, may_be_id};
use tools::{Installed, Tools};

use crate::cgroup::{Cgroup, Mounts, lines_of};
use crate::descriptors::Kind;
use crate::process::{Process, Roots};
use crate::root::Root;

/// What a program is called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TargetName {
    /// A process, and its descendants.
    Process(u32),
    /// A unit; `.service` may be omitted.
    Unit(String),
    /// A container, by its name, its id or the beginning of it.
    Container(String),
    /// A pod, as `NAMESPACE/NAME`, or by its uid.
    Pod(String),
    /// A control group: its folder, or its path as `/proc/PID/cgroup` has it.
    Cgroup(PathBuf),
}

/// A program that was found.
#[derive(Clone, Debug)]
pub struct ProgramTarget {
    /// What it was asked for by.
    pub name: TargetName,
    /// Its processes.
    pub roots: Roots,
}

/// Why there is no such program, and what to give instead.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// There is none.
    #[error("{name}: {why}")]
    NotFound {
        /// As asked.
        name: TargetName,
        /// Why, and what to do.
        why: String,
    },
    /// There are several.
    #[error("{name} is several control groups: give one of them with --cgroup: {}", paths.join(", "))]
    Several {
        /// As asked.
        name: TargetName,
        /// Their paths.
        paths: Vec<String>,
    },
    /// It has no process.
    #[error("{name} has no process: start it first")]
    Empty {
        /// As asked.
        name: TargetName,
    },
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::Unit(name) => write!(f, "unit {name}"),
            Self::Container(name) => write!(f, "container {name}"),
            Self::Pod(name) => write!(f, "pod {name}"),
            Self::Cgroup(path) => write!(f, "control group {}", path.display()),
        }
    }
}

impl ProgramTarget {
    /// Finds it on this machine.
    ///
    /// # Errors
    /// [`TargetError`], which says what to give instead.
    pub fn find(name: &TargetName) -> Result<Self, TargetError> {
        Finder { root: Root::MACHINE, tools: &Installed }.find(name)
    }

    /// Its processes, as held: those that have ended meanwhile, or may not be looked at, are left out.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        self.roots.pids().into_iter().filter_map(|pid| Process::open(pid).ok()).collect()
    }

    /// Processes without all of which it is gone: those that have a socket, so not the one that keeps a pod's namespaces; all of them if none
    /// has. One that is started anew has others.
    #[must_use]
    pub fn serving(&self) -> Vec<Process> {
        let all = match self.roots {
            Roots::Process(pid) => return Process::open(pid).into_iter().collect(),
            Roots::Children | Roots::Cgroup(_) => self.processes(),
        };
        let has_socket = |process: &&Process| {
            process.descriptors().is_ok_and(|found| found.iter().any(|(_, kind)| matches!(kind, Kind::Socket(_))))
        };
        let with: Vec<Process> = all.iter().filter(has_socket).cloned().collect();
        if with.is_empty() { all } else { with }
    }

    /// The process that serves, as far as that can be known: the one with most sockets, of those with as many the oldest.
    #[must_use]
    pub fn main(&self) -> Option<u32> {
        if let Roots::Process(pid) = self.roots {
            return Some(pid);
        }
        let sockets = |process: &Process| process.descriptors().map_or(0, |found| found.len());
        let all = self.processes().into_iter();
        let most = all.max_by_key(|process| (sockets(process), std::cmp::Reverse(process.who().start)))?;
        Some(most.who().pid)
    }
}

/// What is asked.
struct Finder<'a> {
    root: Root,
    tools: &'a dyn Tools,
}

impl Finder<'_> {
    fn find(&self, name: &TargetName) -> Result<ProgramTarget, TargetError> {
        let roots = match name {
            TargetName::Process(pid) => Roots::Process(*pid),
            TargetName::Unit(unit) => Roots::Cgroup(self.unit(name, unit)?),
            TargetName::Container(container) => Roots::Cgroup(self.container(name, container)?),
            TargetName::Pod(pod) => Roots::Cgroup(self.pod(name, pod)?),
            TargetName::Cgroup(path) => Roots::Cgroup(self.cgroup(name, &path.to_string_lossy())?),
        };
        match &roots {
            Roots::Cgroup(group) if group.pids().is_empty() => Err(TargetError::Empty { name: name.clone() }),
            _ => Ok(ProgramTarget { name: name.clone(), roots }),
        }
    }

    fn cgroup(&self, name: &TargetName, path: &str) -> Result<Cgroup, TargetError> {
        let why = "there is no such control group: give its folder below /sys/fs/cgroup, or its path as /proc/PID/cgroup has it";
        Mounts::read(&self.root).named(path).ok_or_else(|| not_found(name, why))
    }

    fn unit(&self, name: &TargetName, unit: &str) -> Result<Cgroup, TargetError> {
        let kinds = [".service", ".scope", ".slice"];
        let whole =
            if kinds.iter().any(|kind| unit.ends_with(kind)) { unit.to_owned() } else { format!("{unit}.service") };
        let mounts = Mounts::read(&self.root);
        // It knows aliases, and which of several units of one name is the system's.
        let told = self.tools.ask("systemctl", &["show", "-p", "ControlGroup,LoadState", "--", &whole]);
        let of = |key: &str| told.as_ref()?.lines().find_map(|line| line.strip_prefix(key)).map(ToOwned::to_owned);
        if let Some(path) = of("ControlGroup=").filter(|path| !path.is_empty())
            && let Some(found) = mounts.named(&path)
        {
            return Ok(found);
        }
        // A name that the kernel has for itself gets a line before it (`cg_escape` of systemd).
        let mut found = mounts.with_name(&[whole.clone(), format!("_{whole}")]);
        match (found.len(), of("LoadState=").as_deref()) {
            (1, _) => Ok(found.remove(0)),
            (0, Some("loaded")) => Err(not_found(name, &format!("it does not run: systemctl start {whole}"))),
            (0, _) => Err(not_found(
                name,
                "there is no such unit with a control group: systemctl status shows those that run",
            )),
            _ => Err(several(name, &found)),
        }
    }

    fn container(&self, name: &TargetName, container: &str) -> Result<Cgroup, TargetError> {
        let found = self.labelled(|labels| labels.container);
        if may_be_id(container) {
            let own: Vec<&FoundGroup> = found.iter().filter(|one| one.label.name.starts_with(container)).collect();
            match own.as_slice() {
                [] => {}
                [one] => return Ok(one.group.clone()),
                more => return Err(several(name, &more.iter().map(|one| one.group.clone()).collect::<Vec<_>>())),
            }
        }
        let mut said = None;
        for (program, id, pid) in self.engines(container) {
            let by_id = found.iter().find(|one| one.label.name == id).map(|one| one.group.clone());
            // One whose processes are in a control group that it was given by name.
            let by_pid = || pid.filter(|pid| *pid != 0).and_then(|pid| self.of_process(pid));
            if let Some(group) = by_id.or_else(by_pid) {
                return Ok(group);
            }
            said = Some(format!("{program} knows it, and it does not run: {program} start {container}"));
        }
        let ids: Vec<String> = found.iter().take(SHOWN).map(|one| one.label.name[..ID_SHOWN].to_owned()).collect();
        let there =
            if ids.is_empty() { "none runs here".to_owned() } else { format!("these run here: {}", ids.join(", ")) };
        let unknown =
            || format!("docker, podman, nerdctl and crictl do not know it, or are not here. Give its id: {there}");
        Err(not_found(name, &said.unwrap_or_else(unknown)))
    }

    /// Each program that knows the container, its id, and its first process.
    fn engines(&self, container: &str) -> Vec<(&'static str, String, Option<u32>)> {
        let mut known = Vec::new();
        for (program, format) in [
            ("docker", "{{.Id}} {{.State.Pid}}"),
            ("podman", "{{.Id}} {{.State.Pid}}"),
            ("nerdctl", "{{.ID}} {{.State.Pid}}"),
        ] {
            let told = self.tools.ask(program, &["container", "inspect", "--format", format, "--", container]);
            if let Some((id, pid)) = told.as_deref().and_then(|told| told.trim().split_once(' ')) {
                known.push((program, id.to_owned(), pid.parse().ok()));
            }
        }
        let exact = format!("^{container}$");
        let told = self.tools.ask("crictl", &["ps", "--quiet", "--no-trunc", "--name", &exact]);
        known.extend(told.iter().flat_map(|ids| ids.lines()).map(|id| ("crictl", id.trim().to_owned(), None)));
        known
    }

    fn pod(&self, name: &TargetName, pod: &str) -> Result<Cgroup, TargetError> {
        let uids = match pod.split_once('/') {
            None if is_uid(pod) => vec![pod.to_owned()],
            None => return Err(not_found(name, "give NAMESPACE/NAME, or its uid")),
            Some((namespace, pod)) => self.uids(namespace, pod),
        };
        let mut found = self.labelled(|labels| labels.pod);
        found.retain(|one| uids.contains(&one.label.name));
        match found.len() {
            1 => Ok(found.remove(0).group),
            0 => Err(not_found(name, &no_pod(pod, &uids))),
            _ => Err(several(name, &found.into_iter().map(|one| one.group).collect::<Vec<_>>())),
        }
    }

    /// Uids that a pod of this name has, or had: one that was made anew has another.
    fn uids(&self, namespace: &str, pod: &str) -> Vec<String> {
        let exact = format!("^{pod}$");
        let told = self.tools.ask("crictl", &["pods", "--namespace", namespace, "--name", &exact, "--output", "json"]);
        let told: Option<serde_json::Value> = told.and_then(|text| serde_json::from_str(&text).ok());
        let items = told.as_ref().and_then(|told| told["items"].as_array()).into_iter().flatten();
        let mut uids: Vec<String> =
            items.filter_map(|item| Some(item["metadata"]["uid"].as_str()?.to_owned())).collect();
        // `NAMESPACE_NAME_UID`: no name has such a line in it. Source: `pkg/kubelet/kuberuntime/helpers.go BuildPodLogsDirectory`.
        let begin = format!("{namespace}_{pod}_");
        uids.extend(self.root.names("/var/log/pods", &begin).iter().map(|folder| folder[begin.len()..].to_owned()));
        uids.sort_unstable();
        uids.dedup();
        uids
    }

    /// The control group of a process, up to where its container's begins.
    fn of_process(&self, pid: u32) -> Option<Cgroup> {
        let mounts = Mounts::read(&self.root);
        lines_of(&self.root, pid).iter().filter(|line| line.path != "/").find_map(|line| mounts.find(line))
    }

    /// All that processes of this machine are in of a kind, each once.
    fn labelled(&self, kind: fn(Labels) -> Option<Label>) -> Vec<FoundGroup> {
        let mounts = Mounts::read(&self.root);
        let mut found: Vec<FoundGroup> = Vec::new();
        for pid in self.root.names("/proc", "").iter().filter_map(|name| name.parse::<u32>().ok()) {
            for line in lines_of(&self.root, pid) {
                let Some(label) = kind(Labels::of(&line.path)) else { continue };
                if found.iter().any(|known| known.label.name == label.name) {
                    break;
                }
                let own = crate::cgroup::CgroupLine { path: label.path.clone(), ..line };
                if let Some(group) = mounts.find(&own) {
                    found.push(FoundGroup { label, group });
                    break;
                }
            }
        }
        found
    }
}

/// A thing that was found by the path of its control group.
struct FoundGroup {
    label: Label,
    group: Cgroup,
}

/// Ids that are shown, and how much of each.
const SHOWN: usize = 8;
const ID_SHOWN: usize = 12;

fn not_found(name: &TargetName, why: &str) -> TargetError {
    TargetError::NotFound { name: name.clone(), why: why.to_owned() }
}

fn several(name: &TargetName, found: &[Cgroup]) -> TargetError {
    TargetError::Several { name: name.clone(), paths: found.iter().map(|one| one.path().to_owned()).collect() }
}

fn no_pod(pod: &str, uids: &[String]) -> String {
    if !uids.is_empty() {
        return format!(
            "no process of this machine is in the control group of pod {}: it runs on another node, or not yet",
            uids.join(", ")
        );
    }
    let (namespace, name) = pod.split_once('/').unwrap_or(("NAMESPACE", pod));
    format!(
        "neither crictl nor /var/log/pods of this node knows it. Give its uid: kubectl get pod -n {namespace} {name} -o \
         jsonpath={{.metadata.uid}}"
    )
}
