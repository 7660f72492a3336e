//! `napier run` by the name of a unit, a container, a pod or a control group: of control groups that are there, with programs that tell their
//! names as systemctl, docker and crictl do.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use napier_testkit::eventually;

use super::bench::{Bench, end, stderr};
use super::common::{NAPIER, Running};
use super::{SUSPEND20, WAITS, epoll_of};

pub(super) const ID: &str = "4b0c1f6ad02a0a3d8b7a3c8f4f0cf6c1b1a26f8a6e6f4a59d3f5d5f3c2b1a099";
pub(super) const UID: &str = "2f6a1b3c-4d5e-46f7-8a9b-0c1d2e3f4a5b";

/// A folder of control groups, which is removed with what is below it.
pub(super) struct Groups(PathBuf);

impl Groups {
    /// `None`, said aloud, where none can be made.
    pub(super) fn new(test: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let point = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"));
        let point = point.and_then(|line| line.split(' ').nth(1)).unwrap_or("/sys/fs/cgroup");
        let folder = Path::new(point).join(format!("napier-{test}-{}", std::process::id()));
        match std::fs::create_dir(&folder) {
            Ok(()) => Some(Self(folder)),
            Err(error) => {
                napier_testkit::skip!(test, "no control group: {error}");
                None
            }
        }
    }

    /// Puts a process into one.
    pub(super) fn put(&self, path: &str, pid: u32) -> PathBuf {
        let folder = self.0.join(path);
        std::fs::create_dir_all(&folder).expect("made");
        std::fs::write(folder.join("cgroup.procs"), pid.to_string()).expect("moved");
        folder
    }

    /// Its path as `/proc/PID/cgroup` has it.
    pub(super) fn path(&self, path: &str) -> String {
        format!("/{}/{path}", self.0.file_name().expect("a name").to_string_lossy())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        fn remove(folder: &Path) {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    remove(&entry.path());
                }
            }
            // A process that was killed a moment ago may be in it still.
            for _ in 0..200 {
                if std::fs::remove_dir(folder).is_ok() || !folder.exists() {
                    return;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
        remove(&self.0);
    }
}

/// A run of the command in a mode.
fn napier(bench: &Bench, tools: &[(&str, String)], args: &[&str]) -> std::process::Command {
    let mut command = tooled(bench, tools);
    command.args(["run", "--dev", "server", "--mode", "suspend20"]).args(args).stderr(Stdio::piped());
    command
}

/// The command, with programs of these names that print what is given.
pub(super) fn tooled(bench: &Bench, tools: &[(&str, String)]) -> std::process::Command {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = PathBuf::from(bench.folder.file("tools"));
    std::fs::create_dir_all(&folder).expect("made");
    for name in ["systemctl", "docker", "podman", "nerdctl", "crictl"] {
        let told = tools.iter().find(|(known, _)| *known == name);
        let script = told.map_or("#!/bin/sh\nexit 1\n".to_owned(), |(_, told)| format!("#!/bin/sh\necho '{told}'\n"));
        std::fs::write(folder.join(name), script).expect("written");
        std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(0o755)).expect("ours");
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = bench.command(NAPIER);
    command.env("PATH", format!("{}:{path}", folder.display()));
    command
}

#[test]
fn a_program_is_named_as_people_name_it() {
    let test = "a_program_is_named_as_people_name_it";
    let Some(bench) = Bench::new(test) else { return };
    let Some(groups) = Groups::new("named") else { return };
    let at_first = bench.napis();
    let (unit, container, pod) = (
        "system.slice/named-web.service".to_owned(),
        format!("docker-{ID}.scope"),
        format!("kubepods/besteffort/pod{UID}/{ID}"),
    );
    let told = format!("ControlGroup={}\nLoadState=loaded", groups.path(&unit));
    let crictl = format!("{{\"items\": [{{\"metadata\": {{\"uid\": \"{UID}\"}}}}]}}");
    let folder = groups.0.join(&unit).display().to_string();
    /// Where the program is, what tools say, and how it is named.
    type NamedBy<'a> = (&'a str, &'a [(&'a str, String)], [&'a str; 2]);
    let rows: [NamedBy<'_>; 8] = [
        (&unit, &[], ["--cgroup", &folder]),
        (&unit, &[("systemctl", told)], ["--unit", "www"]),
        (&unit, &[], ["--unit", "named-web"]),
        (&container, &[], ["--container", &ID[..12]]),
        (&container, &[("docker", format!("{ID} 1"))], ["--container", "web"]),
        (&container, &[("podman", format!("{ID} 1"))], ["--container", "web"]),
        (&pod, &[], ["--pod", UID]),
        (&pod, &[("crictl", crictl)], ["--pod", "shop/web-0"]),
    ];
    for (path, tools, args) in rows {
        let (first, pid) = bench.script(WAITS);
        groups.put(path, pid);
        let running = Running(bench.spawn(&mut napier(&bench, tools, &args)));
        eventually(&format!("{args:?}"), || epoll_of(&bench, pid) == [SUSPEND20]);
        // One that gets there later, and whose parent is none of the program's.
        let (second, later) = bench.script(WAITS);
        assert_eq!(epoll_of(&bench, later), [[0, 0, 0]]);
        groups.put(path, later);
        eventually("the second one", || epoll_of(&bench, later) == [SUSPEND20]);
        let (status, said) = end(running, "-INT");
        assert_eq!(status, Some(0), "{args:?}: {said}");
        for pid in [pid, later] {
            assert_eq!(epoll_of(&bench, pid), [[0, 0, 0]], "{args:?}");
        }
        assert_eq!(bench.napis(), at_first);
        assert!(bench.is_clean());
        drop((first, second));
    }
}

#[test]
fn it_ends_with_the_control_group_and_not_before() {
    let test = "it_ends_with_the_control_group_and_not_before";
    let Some(bench) = Bench::new(test) else { return };
    let Some(groups) = Groups::new("ended") else { return };
    let (first, pid) = bench.script(WAITS);
    let folder = groups.put("ended-web.service", pid);
    let mut running = Running(bench.spawn(&mut napier(&bench, &[], &["--cgroup", &folder.display().to_string()])));
    eventually("it is set", || epoll_of(&bench, pid) == [SUSPEND20]);
    drop(first);
    // A unit that is started anew in the same control group.
    let (second, pid) = bench.script(WAITS);
    groups.put("ended-web.service", pid);
    eventually("it is set again", || epoll_of(&bench, pid) == [SUSPEND20]);
    drop(second);
    drop(groups);
    assert_eq!(running.0.wait().expect("it ends").code(), Some(0));
    let said = super::said(&mut running);
    assert!(said.contains("control group ") && said.contains("ended-web.service has ended"), "{said}");
    assert!(bench.is_clean());
}

#[test]
fn what_is_not_found_says_what_to_type_instead() {
    let test = "what_is_not_found_says_what_to_type_instead";
    let Some(bench) = Bench::new(test) else { return };
    for (args, status, words) in [
        (["--unit", "nosuch"], 2, "systemctl status shows"),
        (["--container", "nosuch"], 2, "Give its id"),
        (["--pod", "shop/nosuch-0"], 2, "kubectl get pod -n shop nosuch-0"),
        (["--pod", "nosuch"], 2, "NAMESPACE/NAME"),
        (["--cgroup", "/nosuch"], 2, "no such control group"),
    ] {
        let refused = bench.output(&mut napier(&bench, &[], &args));
        assert_eq!(refused.status.code(), Some(status), "{args:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(words), "{args:?}: {}", stderr(&refused));
    }
    let both = bench.output(&mut napier(&bench, &[], &["--unit", "a", "--pod", "b"]));
    assert_eq!(both.status.code(), Some(2));
    assert!(stderr(&both).contains("cannot be used with"), "{}", stderr(&both));
    assert!(bench.is_clean());
}
