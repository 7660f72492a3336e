//! A machine for the commands of the pages: namespaces with the interfaces that they name and another machine behind them, the
//! real programs, files of the names that they read, and a user without privileges for what is not behind `sudo`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use napier_testkit::{PATIENCE, eventually};
use rustix::process::{Pid, Signal, kill_process_group};

use super::lines::{How, PageLine};

/// What a command that is no server may take.
const LONGEST: &str = "300";
/// What those may take that stand beside all commands of all pages: they end with the test, which may be killed.
const BESIDE: &str = "7200";
/// How long a server is left alone before it is interrupted.
const SERVED: Duration = Duration::from_secs(2);
/// Who has no privileges.
const NOBODY: &str = "65534";
/// Words by which a command wants root, beside `sudo`: pages for administrators omit that.
const OF_ROOT: [&str; 7] = ["sudo ", "ethtool", "/sys/", "napi-set", "ip netns", "napier run", "nsenter"];

/// Stands before the program: what only takes time is cut short.
const SHORT: &str = r#"#!/usr/bin/env bash
case ${1:-} in
compare)
  shift
  args=(compare --seconds 0.1 --runs 1) load=(--load 2k) modes=(--modes base,suspend20) own=()
  while [ $# -gt 0 ]; do
    case $1 in
      --seconds | --runs | --load) shift 2 ;;
      --modes) modes=() && args+=("$1" "$2") && shift 2 ;;
      --quick) modes=() load=() && args+=("$1") && shift ;;
      --) own=("$@") && break ;;
      *) args+=("$1") && shift ;;
    esac
  done
  exec "$REAL" "${args[@]}" "${modes[@]}" "${load[@]}" "${own[@]}" ;;
advise)
  # What would change the advice is looked for much longer than the advice.
  case " $* " in *" --quick "*) ;; *) set -- "$@" --quick ;; esac ;;
load)
  case " $* " in *" --seconds "* | *" --agent "*) ;; *) set -- "$@" --seconds 1 ;; esac ;;
esac
exec "$REAL" "$@"
"#;

/// Interfaces of the names that the pages use, with their other ends on a machine of its own, whose packets come one by one as an
/// instance wants them.
const MAKE: &str = r#"
ip netns add "$NS"
ip netns add "$PEER"
ip -n "$NS" link set lo up
for dev in eth0 eth1 eth7; do
  ip link add "$dev" netns "$NS" type veth peer name "$dev" netns "$PEER"
  ip -n "$NS" link set "$dev" up
  ip -n "$PEER" link set "$dev" up
  ip netns exec "$NS" ethtool -K "$dev" gro on
  ip netns exec "$PEER" ethtool -K "$dev" tso off
done
ip -n "$NS" address add 10.0.0.1/24 dev eth0
ip -n "$PEER" address add 10.0.0.2/24 dev eth0
ip -n "$NS" address add 192.0.2.10/32 dev lo
(umask 077 && head -c 32 /dev/urandom | base64 >napier.secret)
"#;

/// Files that commands read, by what makes them.
const FILES: &str = "
napier compare --json > mine.json
for name in before after monday tuesday result mine-6us; do cp mine.json $name.json; done
";

pub(crate) struct Machine {
    folder: PathBuf,
    ns: String,
    peer: String,
    memcached: Option<Child>,
    engine: Option<Child>,
}

impl Machine {
    /// `napier`: the program.
    pub(crate) fn new(napier: &Path) -> Self {
        let own = std::process::id();
        let folder = std::env::temp_dir().join(format!("napier-machine-{own}"));
        for name in [
            "bin",
            "share/bash-completion/completions",
            "share/zsh/vendor-completions",
            "share/fish/vendor_completions.d",
        ] {
            std::fs::create_dir_all(folder.join(name)).expect("a folder");
        }
        let write = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).expect("it is written");
            std::fs::set_permissions(folder.join(name), Permissions::from_mode(0o755)).expect("it is ours");
        };
        // Where others may look: the repository may lie where they may not.
        std::fs::copy(napier, folder.join("napier")).expect("a copy");
        write("bin/napier", &SHORT.replace("$REAL", &folder.join("napier").display().to_string()));
        write("bin/sudo", "#!/bin/sh\nexec \"$@\"\n");
        for name in ["conformance", "plans", "scenarios"] {
            let copied = Command::new("cp").arg("-r").arg(super::blocks::root().join(name)).arg(&folder).status();
            assert!(copied.is_ok_and(|status| status.success()));
        }
        std::fs::copy(folder.join("plans/tcp-rr.toml"), folder.join("my-plan.toml")).expect("a plan");
        let machine = Self {
            ns: format!("napier-machine-{own}"),
            peer: format!("napier-client-{own}"),
            folder,
            memcached: None,
            engine: None,
        };
        let mut make = Command::new("bash");
        make.args(["-euo", "pipefail", "-c", MAKE]).current_dir(&machine.folder);
        let made = make.env("NS", &machine.ns).env("PEER", &machine.peer).output().expect("bash starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let given = Command::new("chown").args(["-R", NOBODY]).arg(&machine.folder).status();
        assert!(given.is_ok_and(|status| status.success()));
        machine
    }

    /// A shell there, as root or not.
    fn shell(&self, ns: &str, as_root: bool, text: &str) -> Command {
        self.shell_for(LONGEST, ns, as_root, text)
    }

    /// `limit`: after how many seconds it is ended.
    fn shell_for(&self, limit: &str, ns: &str, as_root: bool, text: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", ns]);
        if !as_root {
            command.args([
                "setpriv",
                "--reuid",
                NOBODY,
                "--regid",
                NOBODY,
                "--clear-groups",
                "--inh-caps=-all",
                "--bounding-set=-all",
            ]);
        }
        let path = std::env::var("PATH").unwrap_or_default();
        command.args(["timeout", "--foreground", "--kill-after=5", limit, "bash", "-euo", "pipefail", "-c", text]);
        command.env("PATH", format!("{}:{path}", self.folder.join("bin").display())).env("HOME", &self.folder);
        command.env("NAPIER_STATE_DIRECTORY", self.folder.join("state")).env("XDG_RUNTIME_DIR", &self.folder);
        command.env("TERM", "xterm").current_dir(&self.folder).stdin(Stdio::null());
        command.process_group(0);
        command
    }

    fn start(&self, ns: &str, as_root: bool, text: &str) -> Child {
        let mut command = self.shell_for(BESIDE, ns, as_root, text);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
    }

    /// Files, and a program of others to look at.
    pub(crate) fn furnish(&mut self) {
        let output = self.shell(&self.ns, false, FILES).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.with_memcached();
    }

    /// The program of others. Begun anew if a command ended it.
    fn with_memcached(&mut self) -> u32 {
        let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if self.memcached.as_mut().is_none_or(ended) {
            self.memcached = Some(self.start(&self.ns, true, "exec memcached -u nobody -p 11300"));
        }
        let shell = self.memcached.as_ref().map_or(0, Child::id);
        eventually("memcached runs", || descendant(shell, "memcached") != 0);
        descendant(shell, "memcached")
    }

    /// The engine that commands look at, with a client on its device. Begun anew if a command ended it.
    fn with_engine(&mut self, more: &str) -> u32 {
        if let Some(engine) = self.engine.as_mut()
            && matches!(engine.try_wait(), Ok(None))
        {
            return descendant(engine.id(), "napier");
        }
        let text = format!("exec napier serve kv --over memif:@napier --ip 10.0.0.1/24 {more}");
        let engine = self.start(&self.ns, false, &text);
        let shell = engine.id();
        self.engine = Some(engine);
        eventually("the engine answers", || {
            let asked = format!("napier queue-get --engine {}", descendant(shell, "napier"));
            self.shell(&self.ns, false, &asked).output().is_ok_and(|output| output.status.success())
        });
        descendant(shell, "napier")
    }

    fn without_engine(&mut self) {
        if let Some(engine) = self.engine.take() {
            interrupted(engine);
        }
    }

    /// What the page leaves to the reader: numbers of processes and instances, names, and where completions lie.
    fn filled_in(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        if text.contains("--engine") || text.contains("$!") {
            let engine = self.with_engine("").to_string();
            for name in ["PID", "4711", "$!"] {
                text = text.replace(&format!("--engine {name}"), &format!("--engine {engine}"));
            }
        }
        let memcached = self.with_memcached().to_string();
        for name in ["$(pidof memcached)", "$(pgrep -n memcached)", "4711", "PID"] {
            text = text.replace(name, &memcached);
        }
        if text.contains("8193") || text.contains("--id 8") || text.contains("\"id\": 8") {
            let asked =
                self.shell(&self.ns, false, "napier napi-get --dump --dev eth0 --json").output().expect("it starts");
            let asked: serde_json::Value = serde_json::from_slice(&asked.stdout).expect("instances");
            let id = asked[0]["id"].to_string();
            text = text
                .replace("8193", &id)
                .replace("--id 8 ", &format!("--id {id} "))
                .replace("\"id\": 8", &format!("\"id\": {id}"));
        }
        if std::thread::available_parallelism().map_or(1, usize::from) < 4 {
            text = text.replace("--cpus 2,3", "--cpus 0,1").replace("--cpus 2-3", "--cpus 0-1");
        }
        // The engine has a device of another name; what is written for the whole system stays in the folder.
        text = text.replace("--queue eth0/0", "--queue napier0/0").replace("/usr/share/", "share/");
        text.replace("--netns NAME", &format!("--netns {}", self.ns))
            .replace("netns exec blue", &format!("netns exec {}", self.ns))
            .replace("netns exec srv", &format!("netns exec {}", self.ns))
    }

    /// Runs a command, and says what is wrong with what came of it.
    pub(crate) fn wrong(&mut self, line: &PageLine) -> Option<String> {
        if line.text.contains("serve kv --over memif") || line.text.contains("load kv --over memif") {
            self.without_engine();
        }
        let mut beside = Vec::new();
        if line.text.contains("load kv --over memif") {
            self.with_engine(if line.text.contains("--secret") { "--secret 'open sesame'" } else { "" });
        } else if line.text.contains("napier top") && !line.text.contains("--dev") {
            self.with_engine("");
        } else if line.text.contains("group attach") {
            self.with_engine("");
            let load =
                "exec napier load kv --over memif:@napier --ip 10.0.0.2/24 --server 10.0.0.1 --rate 1k --seconds 60";
            beside.push(self.start(&self.ns, false, load));
        } else if line.text.contains("load kv --server") || line.text.contains("redis-benchmark") {
            let ip = if line.text.contains("127.0.0.1") { "127.0.0.1" } else { "192.0.2.10" };
            let server = format!("exec napier serve kv --over kernel --ip {ip} --resp-port 6379");
            beside.push(self.start(&self.ns, false, &server));
        } else if line.text.contains("--client 10.0.0.2:7000") {
            let agent = "exec napier load kv --agent 10.0.0.2:7000 --secret-file napier.secret";
            beside.push(self.start(&self.peer, true, agent));
        }
        if !beside.is_empty() {
            std::thread::sleep(SERVED);
        }
        let text = self.filled_in(&line.text);
        let as_root = OF_ROOT.iter().any(|word| text.contains(word));
        let ns = if text.contains("--agent") { &self.peer } else { &self.ns };
        let text = match line.how {
            How::Shows => format!("(sleep 3; printf q) | script -qec '{text}' /dev/null > screen.txt"),
            _ => text,
        };
        let wrong = match line.how {
            How::Not(_) => None,
            How::Ends | How::Shows => ended(self.shell(ns, as_root, &text), &[0]),
            How::Judges => ended(self.shell(ns, as_root, &text), &[0, 1]),
            How::Serves => served(self.shell(ns, as_root, &text), text.contains("redis-server")),
        };
        beside.into_iter().for_each(|child| drop(interrupted(child)));
        wrong
    }

    /// What commands keep in force is put back.
    pub(crate) fn put_back(&self) {
        let _ = self.shell(&self.ns, true, "napier host undo").output();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.without_engine();
        if let Some(memcached) = self.memcached.take() {
            interrupted(memcached);
        }
        for ns in [&self.ns, &self.peer] {
            let _ = Command::new("ip").args(["netns", "delete", ns]).status();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn ended(mut command: Command, statuses: &[i32]) -> Option<String> {
    let output = command.output().expect("it starts");
    let fine = output.status.code().is_some_and(|code| statuses.contains(&code));
    (!fine).then(|| format!("{}: {}", output.status, said(&output)))
}

/// A server: it is there until it is interrupted, and ends in order then.
fn served(mut command: Command, is_redis: bool) -> Option<String> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let begun = Instant::now();
    while begun.elapsed() < SERVED {
        if child.try_wait().expect("it is ours").is_some() {
            let output = child.wait_with_output().expect("it has ended");
            return Some(format!("it ended by itself, {}: {}", output.status, said(&output)));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = interrupted(child);
    // A program that has not got as far as to catch it is ended by the signal.
    // Redis is told more than once, and ends with 1 then.
    let code = output.status.code();
    let fine = matches!(code, Some(0 | 130))
        || is_redis && code == Some(1)
        || output.status.signal() == Some(Signal::INT.as_raw());
    (!fine).then(|| format!("interrupted, {}: {}", output.status, said(&output)))
}

/// As Ctrl-C does it: all of the group.
fn interrupted(mut child: Child) -> Output {
    let group = Pid::from_child(&child);
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE && child.try_wait().expect("it is ours").is_none() {
        let _ = kill_process_group(group, Signal::INT);
        std::thread::sleep(Duration::from_millis(200));
    }
    let _ = kill_process_group(group, Signal::KILL);
    child.wait_with_output().expect("it ends")
}

fn said(output: &Output) -> String {
    let all = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let tail: Vec<&str> = all.trim().lines().rev().take(6).collect();
    tail.into_iter().rev().collect::<Vec<_>>().join(" | ")
}

/// The process of that name that a shell has become, or started; 0 if there is none yet.
fn descendant(of: u32, name: &str) -> u32 {
    let is = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name);
    let mut all = napier_linux::process::descendants(of);
    all.insert(0, of);
    all.into_iter().find(is).unwrap_or(0)
}
