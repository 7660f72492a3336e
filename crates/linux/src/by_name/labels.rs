//! What the path of a control group says of the program in it: which unit, container and pod it is. Who starts programs names the folders so:
//!
//! | by | path |
//! |---|---|
//! | systemd | `.../NAME.service`, `.../system-TEMPLATE.slice/TEMPLATE@INSTANCE.service` |
//! | docker | `/docker/ID`, `/system.slice/docker-ID.scope` |
//! | podman | `/libpod_parent/libpod-ID`, `.../libpod-ID.scope[/container]`; its monitor is in `libpod-conmon-ID` |
//! | containerd, nerdctl | `/NAMESPACE/ID`, `/system.slice/nerdctl-ID.scope` |
//! | kubelet, driver `cgroupfs` | `/kubepods/QOS/podUID/ID` |
//! | kubelet, driver `systemd` | `/kubepods.slice/kubepods-QOS.slice/kubepods-QOS-podUID.slice/cri-containerd-ID.scope`, `crio-ID.scope` |
//!
//! Source: `moby/daemon/oci_linux.go`, `containers/podman libpod/container_internal_linux.go`, `containerd/internal/cri`,
//! `cri-o/internal/config/cgmgr`, `kubernetes/pkg/kubelet/cm/cgroup_manager_linux.go`, `systemd.unit(5)`.

/// What a path says, with how much of the path each thing is.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Labels {
    /// The unit, the nearest one.
    pub(super) unit: Option<Label>,
    /// The container's id.
    pub(super) container: Option<Label>,
    /// The pod's uid, with hyphens as the kubelet's interface shows it.
    pub(super) pod: Option<Label>,
}

/// One of them, and the path of its own control group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Label {
    pub(super) name: String,
    pub(super) path: String,
}

/// Digits of a container's id.
const ID_LEN: usize = 64;
/// Digits of a pod's uid; one that is made from a file has no hyphens.
const UID_LEN: usize = 32;
/// What is before the id of a container in the name of its scope.
const PREFIXES: [&str; 6] = ["docker-", "libpod-", "nerdctl-", "cri-containerd-", "crio-", ""];

impl Labels {
    /// Of a path as `/proc/PID/cgroup` has it. The innermost of each kind counts: a container may hold containers.
    pub(super) fn of(path: &str) -> Self {
        let mut labels = Self::default();
        let mut so_far = String::new();
        for folder in path.split('/').filter(|folder| !folder.is_empty()) {
            so_far = format!("{so_far}/{folder}");
            let label = |name: String| Some(Label { name, path: so_far.clone() });
            // runc with the driver `cgroupfs` takes `SLICE:PREFIX:ID` for the name of one folder.
            for part in folder.split(':') {
                if let Some(uid) = uid(part) {
                    labels.pod = label(uid);
                }
                if let Some(id) = id(part) {
                    labels.container = label(id.to_owned());
                }
            }
            if folder.ends_with(".service") || folder.ends_with(".scope") {
                labels.unit = label(folder.to_owned());
            }
        }
        labels
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Whether a text can be a container's id, or the beginning of one.
pub(super) fn may_be_id(text: &str) -> bool {
    const SHORT: usize = 6;
    (SHORT..=ID_LEN).contains(&text.len()) && is_hex(text)
}

fn id(part: &str) -> Option<&str> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let of = |prefix: &&str| part.strip_prefix(*prefix).filter(|id| id.len() == ID_LEN && is_hex(id));
    PREFIXES.iter().find_map(of)
}

/// A pod's uid in the name of its folder.
fn uid(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    // The slice repeats those above it: `kubepods-burstable-podUID`, and a nested kubelet has `kubelet-kubepods-podUID`.
    let at = part.rfind("pod").filter(|at| *at == 0 || part[..*at].ends_with('-'))?;
    let text = part[at + "pod".len()..].replace('_', "-");
    is_uid(&text).then_some(text)
}

/// Whether it is a pod's uid.
pub(super) fn is_uid(text: &str) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    digits.len() == UID_LEN && is_hex(&digits) && [UID_LEN, UID_LEN + 4].contains(&text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4b0c1f6ad02a0a3d8b7a3c8f4f0cf6c1b1a26f8a6e6f4a59d3f5d5f3c2b1a099";
    const UID: &str = "2f6a1b3c-4d5e-46f7-8a9b-0c1d2e3f4a5b";
    const FILE: &str = "aafdc0d4b5e1b1b0a2b5dd5e1ba2bb53";

    #[test]
    fn units_are_known_by_their_paths() {
        for (path, unit) in [
            ("/", None),
            ("/system.slice/nginx.service", Some("nginx.service")),
            ("/system.slice/system-postgresql.slice/postgresql@16-main.service", Some("postgresql@16-main.service")),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice/app-web.service", Some("app-web.service")),
            ("/user.slice/user-0.slice/session-4.scope", Some("session-4.scope")),
            ("/system.slice/podman.service", Some("podman.service")),
            ("/tripod12/podcast", None),
        ] {
            let Labels { unit: found, container, pod } = Labels::of(path);
            assert_eq!((found.map(|found| found.name).as_deref(), container, pod), (unit, None, None), "{path}");
        }
    }

    #[test]
    fn each_engine_is_known_by_its_paths() {
        let under = UID.replace('-', "_");
        let burstable = format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{under}.slice");
        let podman = format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container");
        let in_crio = format!("{burstable}/crio-{ID}.scope/container");
        let kind = format!("/docker/{ID}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{FILE}.slice");
        let colons = format!("kubepods-besteffort-pod{under}.slice:cri-containerd:{ID}");
        for (path, has_id, pod) in [
            (format!("/docker/{ID}"), true, None),
            (format!("/docker/{ID}/init.scope"), true, None),
            (format!("/system.slice/docker-{ID}.scope"), true, None),
            (format!("/system.slice/nerdctl-{ID}.scope"), true, None),
            (format!("/default/{ID}"), true, None),
            (format!("/k8s.io/{ID}"), true, None),
            (podman.clone(), true, None),
            (format!("/libpod_parent/libpod-{ID}"), true, None),
            (format!("/libpod_parent/libpod-conmon-{ID}"), false, None),
            (format!("/machine.slice/libpod-conmon-{ID}.scope"), false, None),
            (format!("/kubepods/burstable/pod{UID}/{ID}"), true, Some(UID)),
            (format!("/kubepods/besteffort/pod{FILE}/{ID}"), true, Some(FILE)),
            (format!("/kubepods/pod{UID}"), false, Some(UID)),
            (format!("{burstable}/cri-containerd-{ID}.scope"), true, Some(UID)),
            (format!("{burstable}/crio-conmon-{ID}.scope"), false, Some(UID)),
            (in_crio.clone(), true, Some(UID)),
            (format!("/kubepods.slice/kubepods-pod{under}.slice/cri-containerd-{ID}.scope"), true, Some(UID)),
            (format!("{kind}/cri-containerd-{ID}.scope"), true, Some(FILE)),
            (format!("/system.slice/containerd.service/{colons}"), true, Some(UID)),
        ] {
            let found = Labels::of(&path);
            let name = |label: &Option<Label>| label.as_ref().map(|label| label.name.clone());
            assert_eq!(name(&found.container).as_deref(), has_id.then_some(ID), "{path}");
            assert_eq!(name(&found.pod).as_deref(), pod, "{path}");
            let paths = [&found.unit, &found.container, &found.pod].into_iter().flatten();
            paths.for_each(|label| assert!(path.starts_with(&label.path), "{path} {label:?}"));
        }
        // What a container has below its own control group is the container's.
        assert!(Labels::of(&podman).container.expect("there").path.ends_with(".scope"));
        assert!(Labels::of(&in_crio).pod.expect("there").path.ends_with(".slice"));
    }

    #[test]
    fn ids_and_uids_are_told_from_names() {
        assert!(may_be_id("4b0c1f6ad02a") && may_be_id(ID) && !may_be_id("web") && !may_be_id("memcached"));
        assert!(is_uid(UID) && is_uid(FILE) && !is_uid("web-0") && !is_uid(&UID[..35]));
    }
}
