//! A program in a container whose image was not changed, on an engine's sockets by its seccomp profile alone (docs/engine-containers.md).

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use napier_testkit::{Folder, eventually, python};
use serde_json::{Value, json};

use crate::common::{Running, has};
use crate::peer::echoes;
use crate::{Stand, numbers_of};

const PROFILE: &str = include_str!("../../../../deploy/kubernetes/engine-seccomp.json");
/// Has a listener of the kernel's and one of the engine's, and echoes one connection after the other.
const PROGRAM: &str = "
import socket
own = socket.socket(); own.bind(('127.0.0.1', 7100)); own.listen()
s = socket.socket(); s.bind(('10.79.0.9', 7001)); s.listen()
with open('/proc/net/tcp') as file:
    print('ready', ':1BBC ' in file.read(), flush=True)
while True:
    c, peer = s.accept()
    while data := c.recv(65536):
        c.sendall(data)
    c.close()
";

/// What it is when its engine ends while it waits for a connection.
const GOES_ON: &str = "
import signal, socket
s = socket.socket(); s.bind(('10.79.0.9', 7001)); s.listen()
print('ready', flush=True)
try:
    s.accept()
except OSError as error:
    print('ended', flush=True)
own = socket.socket(); own.bind(('127.0.0.1', 7100)); own.listen()
with open('/proc/net/tcp') as file:
    print(':1BBC ' in file.read(), flush=True)
signal.pause()
";

/// Does what a runtime does: it hands the held calls of this process to a socket, and becomes a program.
const RUNTIME: &str = "
import array, ctypes, json, os, platform, socket, struct, sys
arm = platform.machine() == 'aarch64'
held = [198, 200, 201, 202, 203, 204, 205, 208, 209, 242] if arm else [41, 42, 43, 49, 50, 51, 52, 54, 55, 288]
engine = socket.socket(socket.AF_UNIX)
engine.connect(sys.argv[1])
# Each number leads to SECCOMP_RET_USER_NOTIF, the others to SECCOMP_RET_ALLOW.
lines = [(0x20, 0, 0, 0)] + [(0x15, len(held) - at, 0, number) for at, number in enumerate(held)] + [(6, 0, 0, 0x7fff0000), (6, 0, 0, 0x7fc00000)]
text = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *line) for line in lines))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', len(lines), ctypes.addressof(text)))
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
listener = libc.syscall(277 if arm else 317, 1, 8, program)
assert listener >= 0, listener
state = {'ociVersion': '1.0.2', 'fds': ['seccompFd'], 'pid': os.getpid(), 'state': {'id': 'by-hand', 'annotations': {'long': 'x' * 100000}}}
text = json.dumps(state).encode()
sent = engine.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [listener]))])
engine.sendall(text[sent:])
engine.close()
os.close(listener)
os.execv(sys.executable, [sys.executable, '-u', '-c', sys.argv[2]])
";

/// Becomes `crun` where the cgroups are of version 2 alone: it runs nothing where both versions are mounted, whoever manages them.
const CRUN: &str = "mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null; exec crun \"$@\"";

/// A container, which ends with this, its processes first.
struct Container {
    runtime: Command,
    running: Running,
}

impl Container {
    /// `crun` with mounts of its own, whose state is in the folder.
    fn command(folder: &Folder) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--", "sh", "-c", CRUN, "crun"]);
        command.args(["--root", &folder.file("state"), "--cgroup-manager=disabled"]);
        command
    }

    /// Runs a bundle in the stand's namespace; what it says comes with it.
    fn run(stand: &Stand, folder: &Folder) -> (Self, BufReader<std::process::ChildStdout>) {
        let mut command = Self::command(folder);
        command.args(["run", "--bundle", &folder.file(""), "web"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child: Child = stand.inside(|| command.spawn()).expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("it is piped"));
        (Self { runtime: Self::command(folder), running: Running(child) }, said)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.runtime.args(["delete", "--force", "web"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let _ = self.running.0.wait();
    }
}

/// What is mounted: all that this machine's root has, so that the program that is run is there.
fn bundle(folder: &Folder, listener: &str) -> Value {
    let root = folder.join("rootfs");
    std::fs::create_dir_all(&root).expect("a folder");
    let mut mounts = vec![
        json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
        json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs" }),
    ];
    for entry in std::fs::read_dir("/").expect("it is there").flatten() {
        let (name, kind) = (entry.file_name(), entry.file_type().expect("a kind"));
        let name = name.to_str().expect("a plain name");
        if kind.is_symlink() {
            let target = std::fs::read_link(entry.path()).expect("a target");
            std::os::unix::fs::symlink(target, root.join(name)).expect("a link");
        } else if kind.is_dir() && !["proc", "dev", "sys"].contains(&name) {
            let at = format!("/{name}");
            mounts.push(json!({ "destination": at, "type": "none", "source": at, "options": ["rbind", "ro"] }));
        }
    }
    let mut profile: Value = serde_json::from_str(PROFILE).expect("JSON");
    profile["listenerPath"] = json!(listener);
    profile["listenerMetadata"] = json!("web-of-a-test");
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false, "user": { "uid": 0, "gid": 0 }, "cwd": "/", "noNewPrivileges": true,
            "args": [python(), "-u", "-c", PROGRAM], "env": [format!("PATH={}", std::env::var("PATH").unwrap_or_default())],
        },
        "root": { "path": "rootfs" },
        "mounts": mounts,
        "linux": {
            "namespaces": [{ "type": "pid" }, { "type": "mount" }, { "type": "ipc" }, { "type": "uts" }, { "type": "network" }],
            "seccomp": profile,
        },
    })
}

/// An engine that listens for runtimes, and where; with the folder of that.
fn listening(test: &str, name: &str) -> Option<(Folder, String, Stand)> {
    let folder = Folder::new(name);
    let listener = folder.file("engine.sock");
    let stand = Stand::new(test, &["--containers", &listener])?;
    Some((folder, listener, stand))
}

/// The program has one listener of the engine's, which answers, and one of the kernel's; what the engine shows then.
fn answers(stand: &Stand, name: &str) -> Value {
    for bytes in [1, 300_000] {
        echoes(stand.connect(7001).expect("connected"), bytes);
    }
    let shown = stand.sockets();
    assert_eq!(shown["programs"][0]["program"], name, "{shown}");
    assert_eq!((&shown["counts"]["accepted"], &shown["counts"]["left_to_kernel"]), (&json!(2), &json!(1)), "{shown}");
    shown
}

/// The program has ended, and the engine ends.
fn leaves_nothing(mut stand: Stand, listener: &str) {
    eventually("nothing is left", || stand.sockets()["programs"].as_array().is_some_and(Vec::is_empty));
    stand.end();
    assert!(!std::path::Path::new(listener).exists(), "its socket is gone with the engine");
}

/// Whether `crun` can run a container here that asks for nothing; if not, that is said.
fn runs_here(test: &str) -> bool {
    if !has(test, "crun") || !has(test, "unshare") {
        return false;
    }
    let folder = Folder::new("plain-container");
    let mut config = bundle(&folder, "");
    config["linux"].as_object_mut().expect("a table").remove("seccomp");
    config["process"]["args"] = json!([python(), "-c", ""]);
    std::fs::write(folder.file("config.json"), config.to_string()).expect("written");
    let output =
        Container::command(&folder).args(["run", "--bundle", &folder.file(""), "plain"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        napier_testkit::skip!(test, "crun runs no container here: {}", said.lines().next().unwrap_or_default());
    }
    output.status.success()
}

#[test]
fn a_container_has_its_sockets_from_the_engine_by_its_profile_alone() {
    let test = "a_container_has_its_sockets_from_the_engine_by_its_profile_alone";
    if !runs_here(test) {
        return;
    }
    let Some((folder, listener, stand)) = listening(test, "container") else { return };
    let config = bundle(&folder, &listener).to_string();
    std::fs::write(folder.file("config.json"), config).expect("written");
    let (container, mut said) = Container::run(&stand, &folder);
    let mut line = String::new();
    said.read_line(&mut line).expect("it speaks");
    assert_eq!(line, "ready True\n", "its loopback is the kernel's in its own namespace");
    let shown = answers(&stand, "web-of-a-test");
    let pid = shown["sockets"][0]["pid"].as_u64().expect("a number");
    assert_eq!(numbers_of(pid, "NSpid:"), 2, "it is in a pid namespace of its own, and seen from outside");
    drop(container);
    leaves_nothing(stand, &listener);
}

/// A program in a network namespace of its own, as a runtime would start it, and the lines that it says.
fn by_hand(stand: &Stand, listener: &str, program: &str) -> (Running, impl Iterator<Item = String> + use<>) {
    let mut command = Command::new("unshare");
    command.args(["--net", python(), "-c", RUNTIME, listener, program]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = stand.inside(|| command.spawn()).expect("it starts");
    let said = BufReader::new(child.stdout.take().expect("it is piped"));
    (Running(child), said.lines().map(|line| line.expect("it speaks")))
}

#[test]
fn a_program_that_a_runtime_brings_has_its_own_loopback_and_the_engines_sockets() {
    let test = "a_program_that_a_runtime_brings_has_its_own_loopback_and_the_engines_sockets";
    let Some((_folder, listener, stand)) = listening(test, "runtime") else { return };
    if !has(test, "unshare") {
        return;
    }
    let (program, mut lines) = by_hand(&stand, &listener, PROGRAM);
    assert_eq!(lines.next().as_deref(), Some("ready True"), "its loopback is the kernel's in its own namespace");
    answers(&stand, "by-hand");
    drop(program);
    leaves_nothing(stand, &listener);
}

#[test]
fn a_program_that_a_runtime_brought_goes_on_with_the_kernel_when_its_engine_is_killed() {
    let test = "a_program_that_a_runtime_brought_goes_on_with_the_kernel_when_its_engine_is_killed";
    let Some((_folder, listener, mut stand)) = listening(test, "runtime") else { return };
    if !has(test, "unshare") {
        return;
    }
    let (_program, mut lines) = by_hand(&stand, &listener, GOES_ON);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    eventually("it waits for a connection", || stand.sockets()["counts"]["calls"]["accept4"] == 1);
    stand.engine.0.kill().expect("it runs");
    stand.engine.0.wait().expect("its status");
    assert_eq!(lines.by_ref().take(2).collect::<Vec<_>>(), ["ended", "True"]);
    // The program lives, and what keeps its calls; yet the interface is free.
    let again = ["engine", "start", "--dev", "xdp:server", "--ip", "10.79.0.9/24", "--containers", &listener];
    stand.engine = stand.inside(|| crate::common::start(&again));
}
