//! Machines in folders: what is found by which name, with and without the programs that know names.

use std::fs;

use napier_testkit::Folder;

use super::tools::Tools;
use super::{Finder, ProgramTarget, TargetError, TargetName};
use crate::process::Roots;
use crate::root::Root;

const V2: &str = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
const V1: &str = "33 25 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                  34 25 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";
const ID: &str = "4b0c1f6ad02a0a3d8b7a3c8f4f0cf6c1b1a26f8a6e6f4a59d3f5d5f3c2b1a099";
const OTHER: &str = "4b0c1f6ad02affffffffffffffffffffb1a26f8a6e6f4a59d3f5d5f3c2b1a099";
const UID: &str = "2f6a1b3c-4d5e-46f7-8a9b-0c1d2e3f4a5b";

/// A machine with these processes, each in a control group.
struct Machine {
    folder: Folder,
    is_v2: bool,
}

impl Machine {
    fn new(test: &str, is_v2: bool, processes: &[(u32, &str)]) -> Self {
        let machine = Self { folder: Folder::new(test), is_v2 };
        machine.write("proc/self/mountinfo", if is_v2 { V2 } else { V1 });
        for (pid, path) in processes {
            let lines =
                if is_v2 { format!("0::{path}\n") } else { format!("4:memory:{path}\n1:name=systemd:{path}\n") };
            machine.write(&format!("proc/{pid}/cgroup"), &lines);
            for hierarchy in if is_v2 { &[""][..] } else { &["/memory", "/systemd"] } {
                let mut at = format!("sys/fs/cgroup{hierarchy}{path}");
                machine.write(&format!("{at}/cgroup.procs"), &format!("{pid}\n"));
                // Those above it have none of their own.
                while let Some((above, _)) = at.rsplit_once('/').filter(|(above, _)| above.contains("cgroup")) {
                    let (above, file) = (above.to_owned(), format!("{above}/cgroup.procs"));
                    if !machine.folder.join(&file).is_file() {
                        machine.write(&file, "");
                    }
                    at = above;
                }
            }
        }
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn find(&self, tools: &[(&str, &str)], name: &TargetName) -> Result<ProgramTarget, TargetError> {
        let root = Root::folder(&self.folder);
        Finder { root, tools: &Answers(tools) }.find(name)
    }

    /// The path of what is found, and its processes.
    fn found(&self, tools: &[(&str, &str)], name: &TargetName) -> (String, Vec<u32>) {
        let target = self.find(tools, name).unwrap_or_else(|error| panic!("v2 {}: {error}", self.is_v2));
        match &target.roots {
            Roots::Cgroup(group) => (group.path().to_owned(), group.pids().into_iter().collect()),
            roots => panic!("{roots:?}"),
        }
    }

    fn refused(&self, tools: &[(&str, &str)], name: &TargetName) -> String {
        self.find(tools, name).expect_err("it is refused").to_string()
    }
}

/// What each program prints.
struct Answers<'a>(&'a [(&'a str, &'a str)]);

impl Tools for Answers<'_> {
    fn ask(&self, program: &str, _args: &[&str]) -> Option<String> {
        self.0.iter().find(|(known, _)| *known == program).map(|(_, text)| (*text).to_owned())
    }
}

fn unit(name: &str) -> TargetName {
    TargetName::Unit(name.to_owned())
}

fn container(name: &str) -> TargetName {
    TargetName::Container(name.to_owned())
}

fn pod(name: &str) -> TargetName {
    TargetName::Pod(name.to_owned())
}

#[test]
fn units_are_found_with_and_without_systemctl() {
    let template = "/system.slice/system-postgresql.slice/postgresql@16-main.service";
    let processes = [
        (11, "/system.slice/nginx.service"),
        (12, template),
        (13, "/user.slice/user-1000.slice/user@1000.service/app.slice/web.service"),
        (14, "/user.slice/user-1001.slice/user@1001.service/app.slice/web.service"),
    ];
    for is_v2 in [true, false] {
        let machine = Machine::new("target-units", is_v2, &processes);
        assert_eq!(machine.found(&[], &unit("nginx")), ("/system.slice/nginx.service".to_owned(), vec![11]));
        assert_eq!(machine.found(&[], &unit("postgresql@16-main.service")), (template.to_owned(), vec![12]));
        // A slice has what is below it.
        assert_eq!(machine.found(&[], &unit("system.slice")).1, [11, 12]);
        let alias = [("systemctl", "ControlGroup=/system.slice/nginx.service\nLoadState=loaded\n")];
        assert_eq!(machine.found(&alias, &unit("www")).1, [11]);
        let said = machine.refused(&[], &unit("web"));
        assert!(said.contains("--cgroup: /user.slice/") && said.contains("user@1001"), "{said}");
        let stopped = [("systemctl", "ControlGroup=\nLoadState=loaded\n")];
        assert!(machine.refused(&stopped, &unit("redis")).contains("systemctl start redis.service"));
        assert!(machine.refused(&[], &unit("redis")).contains("systemctl status"));
    }
}

#[test]
fn containers_are_found_by_id_without_any_program_and_by_name_with_one() {
    for path in [
        format!("/docker/{ID}"),
        format!("/system.slice/docker-{ID}.scope"),
        format!("/machine.slice/libpod-{ID}.scope/container"),
        format!("/kubepods.slice/kubepods-pod{}.slice/crio-{ID}.scope", UID.replace('-', "_")),
        format!("/default/{ID}"),
    ] {
        for is_v2 in [true, false] {
            let machine = Machine::new("target-containers", is_v2, &[(21, path.as_str()), (22, "/init.scope")]);
            let (found, pids) = machine.found(&[], &container(&ID[..12]));
            assert!(path.starts_with(&found) && pids == [21], "{path}: {found} {pids:?}");
            for engine in ["docker", "podman", "nerdctl"] {
                assert_eq!(machine.found(&[(engine, &format!("{ID} 21\n"))], &container("web")).0, found);
            }
            assert_eq!(machine.found(&[("crictl", &format!("{ID}\n"))], &container("web")).0, found);
            let said = machine.refused(&[], &container("web"));
            assert!(said.contains(&ID[..12]), "{said}");
            let said = machine.refused(&[("podman", "0123 0")], &container("web"));
            assert!(said.contains("podman start web"), "{said}");
        }
    }
    // In a control group of a name of its own.
    let machine = Machine::new("target-parent", true, &[(23, "/mine.slice/web")]);
    assert_eq!(machine.found(&[("docker", "0123 23")], &container("web")), ("/mine.slice/web".to_owned(), vec![23]));
    let paths = [format!("/docker/{ID}"), format!("/docker/{OTHER}")];
    let machine = Machine::new("target-two", true, &[(24, &paths[0]), (25, &paths[1])]);
    assert!(machine.refused(&[], &container(&ID[..12])).contains("several control groups"));
    assert_eq!(machine.found(&[], &container(&ID[..16])).1, [24]);
}

#[test]
fn pods_are_found_by_uid_and_by_name() {
    let under = UID.replace('-', "_");
    for path in [
        format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{under}.slice/cri-containerd-{ID}.scope"
        ),
        format!("/kubepods.slice/kubepods-pod{under}.slice/crio-{ID}.scope/container"),
        format!("/kubepods/besteffort/pod{UID}/{ID}"),
    ] {
        for is_v2 in [true, false] {
            let machine = Machine::new("target-pods", is_v2, &[(31, path.as_str())]);
            let (found, pids) = machine.found(&[], &pod(UID));
            assert!(path.starts_with(&found) && !found.contains(ID) && pids == [31], "{path}: {found}");
            let said = machine.refused(&[], &pod("shop/web-0"));
            assert!(said.contains("kubectl get pod -n shop web-0 -o jsonpath={.metadata.uid}"), "{said}");
            assert!(machine.refused(&[], &pod("web-0")).contains("NAMESPACE/NAME"));
            let told = format!("{{\"items\": [{{\"metadata\": {{\"uid\": \"{UID}\"}}}}]}}");
            assert_eq!(machine.found(&[("crictl", &told)], &pod("shop/web-0")).0, found);
            machine.write(&format!("var/log/pods/shop_web-0_{UID}/web/0.log"), "");
            assert_eq!(machine.found(&[], &pod("shop/web-0")).0, found);
            machine.write("var/log/pods/shop_web-1_aafdc0d4b5e1b1b0a2b5dd5e1ba2bb53/web/0.log", "");
            assert!(machine.refused(&[], &pod("shop/web-1")).contains("runs on another node"));
        }
    }
}

#[test]
fn control_groups_are_named_by_folder_or_path() {
    let machine = Machine::new("target-cgroups", true, &[(41, "/mine/web")]);
    let named = |path: &str| machine.found(&[], &TargetName::Cgroup(path.into())).1;
    assert_eq!(named("/mine/web"), [41]);
    assert_eq!(named("/sys/fs/cgroup/mine"), [41]);
    machine.write("sys/fs/cgroup/empty/cgroup.procs", "");
    assert!(machine.refused(&[], &TargetName::Cgroup("/empty".into())).contains("has no process"));
    assert!(machine.refused(&[], &TargetName::Cgroup("/none".into())).contains("no such control group"));
}
