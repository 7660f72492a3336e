//! `napier mode keep`, `enable`, `disable` and `list`: a mode that stays, whatever becomes of its interface and its program.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use napier_testkit::eventually;
use serde_json::{Value, json};

use super::bench::{Bench, end, kill, stderr};
use super::{SUSPEND20, SUSPENDED, WAITS, epoll_of};
use crate::common::{Folder, NAPIER, Running, has, text};

fn keep(bench: &Bench, more: &[&str]) -> Running {
    keep_and_say(bench, more, Stdio::piped())
}

/// What it says goes elsewhere than to the end of the test.
fn keep_and_say(bench: &Bench, more: &[&str], to: Stdio) -> Running {
    let mut command = bench.command(NAPIER);
    command.args(["mode", "keep", "--dev", "server", "--mode", "suspend20"]).args(more);
    Running(bench.spawn(command.stderr(to)))
}

#[test]
fn a_mode_is_kept_whatever_becomes_of_the_interface() {
    let test = "a_mode_is_kept_whatever_becomes_of_the_interface";
    if !has(test, "ethtool") {
        return;
    }
    let Some(bench) = Bench::with_queues(test, "server", 3, false) else { return };
    let at_first = bench.deferrals();
    let running = keep(&bench, &["--queues", "0-1"]);
    let is_kept = || bench.deferrals() == [SUSPENDED, SUSPENDED, [0, 0, 0]];
    eventually("it is in force", is_kept);
    for what in ["down and up", "fewer queues and more", "offload off and on", "a reset", "another's value"] {
        match what {
            "down and up" => {
                bench.run("ip", &["link", "set", "server", "down"]);
                bench.run("ip", &["link", "set", "server", "up"]);
            }
            "fewer queues and more" => {
                bench.run("ethtool", &["-L", "server", "rx", "1"]);
                eventually("the first has it", || bench.deferrals() == [SUSPENDED]);
                bench.run("ethtool", &["-L", "server", "rx", "3"]);
            }
            "offload off and on" => {
                bench.run("ethtool", &["-K", "server", "gro", "off"]);
                assert_eq!(bench.deferrals(), [[0; 3]; 0]);
                bench.run("ethtool", &["-K", "server", "gro", "on"]);
            }
            // A driver that is reset gives its instances what they were made with.
            what => {
                let value = if what == "a reset" { [0, 0, 0] } else { [1, 7777, 0] };
                let first = &bench.napis()[0]["id"];
                let change = json!({
                    "id": first, "defer-hard-irqs": value[0], "gro-flush-timeout": value[1], "irq-suspend-timeout": value[2],
                });
                assert!(bench.napier(&["napi-set", "--json", &change.to_string()]).status.success());
            }
        }
        eventually(what, is_kept);
    }
    let (status, said) = end(running, "-TERM");
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("suspend20 is in force on queues 0-1 of server"), "{said}");
    assert_eq!(bench.deferrals(), at_first, "{said}");
    assert!(bench.is_clean());
}

#[test]
fn an_interface_that_is_not_there_is_waited_for() {
    let test = "an_interface_that_is_not_there_is_waited_for";
    let Some(bench) = Bench::with_queues(test, "server", 2, false) else { return };
    bench.run("ip", &["link", "set", "server", "name", "other"]);
    let told = bench.folder.file("told");
    let running = keep_and_say(&bench, &[], std::fs::File::create(&told).expect("a file").into());
    let said = || std::fs::read_to_string(&told).expect("it is there");
    eventually("it waits", || said().contains("there is no interface server"));
    bench.run("ip", &["link", "set", "other", "name", "server"]);
    eventually("it is in force", || bench.deferrals() == [SUSPENDED; 2]);
    // It goes for good, and another one of its name comes.
    bench.run("ip", &["link", "delete", "server"]);
    bench.run("ip", &["link", "add", "server", "type", "veth", "peer", "name", "peer"]);
    bench.run("ethtool", &["-K", "server", "gro", "on"]);
    for name in ["server", "peer"] {
        bench.run("ip", &["link", "set", name, "up"]);
    }
    eventually("it is in force on the other one", || {
        let got = bench.napier(&["napi-get", "--dump", "--dev", "server", "--json"]);
        text(&got).contains("20000000")
    });
    let (status, _) = end(running, "-TERM");
    let said = said();
    assert_eq!(status, Some(0), "{said}");
    for words in ["server is gone from here", "suspend20 is in force on server"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(bench.is_clean());
}

#[test]
fn what_a_killed_keeper_left_is_put_back() {
    let Some(bench) = Bench::new("what_a_killed_keeper_left_is_put_back") else { return };
    let at_first = bench.deferrals();
    let (process, pid) = bench.script(WAITS);
    let before = epoll_of(&bench, pid);
    let running = keep(&bench, &["--attach", &pid.to_string()]);
    eventually("both halves are in force", || epoll_of(&bench, pid) != before && bench.deferrals() == [SUSPENDED; 2]);
    end(running, "-KILL");
    bench.undo(&["--stale"]);
    assert_eq!((epoll_of(&bench, pid), bench.deferrals()), (before.clone(), at_first.clone()));
    // It ends with its process.
    let mut running = keep(&bench, &["--attach", &pid.to_string()]);
    eventually("it is in force again", || epoll_of(&bench, pid) != before);
    drop(process);
    assert_eq!(running.0.wait().expect("it ends").code(), Some(0));
    assert_eq!(bench.deferrals(), at_first);
    assert!(bench.is_clean());
}

/// A control group of a test, as systemd has one for a service; it goes with the value.
struct Group(String);

impl Group {
    fn new(test: &str, unit: &str) -> Option<Self> {
        let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
            .into_iter()
            .find(|path| Path::new(path).join("cgroup.procs").exists());
        let path = format!("{}/{unit}", root.unwrap_or("/sys/fs/cgroup/systemd"));
        match std::fs::create_dir(&path) {
            Ok(()) if Path::new(&path).join("cgroup.procs").exists() => Some(Self(path)),
            made => {
                napier_testkit::skip!(test, "no control group can be made: {made:?}");
                None
            }
        }
    }

    fn start(&self, bench: &Bench) -> (Running, u32) {
        let script = format!("echo $$ > {}/cgroup.procs && exec python3 -uc \"$0\"", self.0);
        let (running, pid) = bench.begin(bench.command("sh").args(["-c", &script, WAITS]).stdout(Stdio::piped()));
        (running, pid.parse().expect("a number"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes may still be ending.
        let _ = (0..100).find(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::remove_dir(&self.0).is_ok()
        });
    }
}

#[test]
fn a_unit_that_is_started_anew_gets_its_mode_again() {
    let test = "a_unit_that_is_started_anew_gets_its_mode_again";
    let Some(bench) = Bench::new(test) else { return };
    let unit = format!("napier-test-{}.service", std::process::id());
    let Some(group) = Group::new(test, &unit) else { return };
    let running = keep(&bench, &["--unit", &unit]);
    eventually("the device's half is in force without the program", || bench.deferrals() == [SUSPENDED; 2]);
    for _ in 0..3 {
        let (program, pid) = group.start(&bench);
        eventually("the program's half is in force", || epoll_of(&bench, pid) == [SUSPEND20]);
        let listed = bench.napier(&["mode", "list", "--no-look", "--json"]);
        let listed: Value = serde_json::from_str(&text(&listed)).expect("JSON");
        let row = &listed["modes"][0];
        assert_eq!(
            (&row["for"], &row["mode"], &row["enabled"], &row["in_force"]),
            (&json!(unit), &json!("suspend20"), &json!(false), &json!(true)),
            "{listed}"
        );
        kill(pid, "-KILL");
        drop(program);
    }
    let (status, said) = end(running, "-TERM");
    assert_eq!(status, Some(0), "{said}");
    assert!(bench.is_clean());
}

/// A systemd that notes what it is told, says that all is active, and starts and ends the units that keep modes.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$*" >> "$FAKE/log"
case "$1" in
is-active) [ "$3" != stopped.service ] ;;
show) exit 1 ;;
esac
"#;

struct Machine {
    folder: Folder,
}

impl Machine {
    fn new(test: &str) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new(test);
        std::fs::create_dir(folder.file("bin")).expect("made");
        let fake = folder.file("bin/systemctl");
        std::fs::write(&fake, SYSTEMCTL).expect("written");
        std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).expect("ours");
        Self { folder }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(NAPIER);
        let path = format!("{}:{}", self.folder.file("bin"), std::env::var("PATH").unwrap_or_default());
        command
            .env("PATH", path)
            .env("FAKE", self.folder.file("."))
            .env("NAPIER_SYSTEMD_DIRECTORY", self.folder.file("units"));
        command.env("NAPIER_STATE_DIRECTORY", self.folder.file("state")).args(args);
        command
    }

    fn napier(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("it starts")
    }

    fn enable(&self, unit: &str, more: &[&str]) -> Output {
        self.napier(&[&["mode", "enable", "--unit", unit, "--dev", "eth77", "--mode", "suspend20"], more].concat())
    }

    fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.file("log")).unwrap_or_default();
        let _ = std::fs::remove_file(self.folder.file("log"));
        text.lines().map(ToOwned::to_owned).collect()
    }

    /// Files below the units' folder.
    fn files(&self) -> Vec<String> {
        let output =
            Command::new("find").args([&self.folder.file("units"), "-mindepth", "1", "-printf", "%P\\n"]).output();
        let mut found: Vec<String> = text(&output.expect("find is there")).lines().map(ToOwned::to_owned).collect();
        found.sort();
        found
    }
}

#[test]
fn a_mode_is_enabled_for_a_unit_and_leaves_no_file() {
    let machine = Machine::new("a_mode_is_enabled_for_a_unit_and_leaves_no_file");
    let output = machine.enable("web", &["--queues", "0-1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let files = ["napier-mode-web.service", "web.service.d", "web.service.d/50-napier.conf"];
    assert_eq!(machine.files(), files, "{}", text(&output));
    assert!(text(&output).contains("systemctl restart napier-mode-web.service"), "{}", text(&output));
    assert!(stderr(&output).contains("there is no interface eth77 now"), "{}", stderr(&output));
    assert_eq!(machine.log(), ["daemon-reload", "is-active --quiet web.service"]);
    let drop_in = std::fs::read_to_string(machine.folder.file("units/web.service.d/50-napier.conf")).expect("read");
    assert!(drop_in.contains("[Unit]\nWants=napier-mode-web.service\n"), "{drop_in}");
    // Another service has other queues, or none.
    let refused = machine.enable("db.service", &["--queues", "1-2"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("web.service has suspend20 of queues 0-1 of eth77 already"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(machine.files(), files);
    let output = machine.enable("db.service", &["--queues", "2", "--now"]);
    assert!(output.status.success() && text(&output).contains("is in force with db.service"), "{}", stderr(&output));
    assert!(machine.log().contains(&"restart napier-mode-db.service".to_owned()));
    let listed: Value = serde_json::from_str(&text(&machine.napier(&["mode", "list", "--json"]))).expect("JSON");
    let rows: Vec<Value> = listed["modes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| json!([row["for"], row["queues"], row["enabled"], row["in_force"]]))
        .collect();
    assert_eq!(rows, [json!(["db.service", [2], true, false]), json!(["web.service", [0, 1], true, false])]);
    let said = text(&machine.napier(&["mode", "list"]));
    assert!(
        said.contains("web.service: suspend20 on queues 0-1 of eth77") && said.contains("no: nothing keeps it now"),
        "{said}"
    );
    machine.log();
    for unit in ["web", "db.service"] {
        let output = machine.napier(&["mode", "disable", "--unit", unit]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert_eq!(
        machine.log()[..3],
        ["is-active --quiet napier-mode-web.service", "stop napier-mode-web.service", "daemon-reload"]
    );
    assert_eq!(machine.files(), [""; 0]);
    let again = machine.napier(&["mode", "disable", "--unit", "web"]);
    assert!(again.status.code() == Some(1) && stderr(&again).contains("no mode is enabled"), "{}", stderr(&again));
}

#[test]
fn what_cannot_be_enabled_is_said_and_writes_nothing() {
    let machine = Machine::new("what_cannot_be_enabled_is_said_and_writes_nothing");
    for (unit, mode, words) in [
        ("../x", "suspend20", "no name of a unit"),
        ("web.socket", "suspend20", "is no service"),
        ("web", "fullbusy", "napier run"),
        ("web", "group", "no groups"),
    ] {
        let output = machine.napier(&["mode", "enable", "--unit", unit, "--dev", "eth77", "--mode", mode]);
        assert_eq!(output.status.code(), Some(2), "{unit} {mode}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    assert_eq!((machine.files(), machine.log()), (vec![], vec![]));
    // An image's files are written without a systemd.
    let root = machine.folder.file("root");
    let output = machine.enable("web", &["--root", &root]);
    assert!(output.status.success() && machine.log().is_empty(), "{}", stderr(&output));
    assert!(Path::new(&root).join("etc/systemd/system/napier-mode-web.service").exists());
    assert!(machine.napier(&["mode", "disable", "--unit", "web", "--root", &root]).status.success());
    assert!(std::fs::read_dir(Path::new(&root).join("etc/systemd/system")).expect("there").next().is_none());
}

#[test]
fn systemd_accepts_the_units() {
    let test = "systemd_accepts_the_units";
    if !has(test, "systemd-analyze") {
        return;
    }
    let machine = Machine::new(test);
    assert!(machine.enable("web", &["--queues", "0,2"]).status.success());
    std::fs::write(machine.folder.file("units/web.service"), "[Service]\nExecStart=/bin/sleep 9\n").expect("written");
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--recursive-errors=no"]);
    let files = ["units/web.service", "units/napier-mode-web.service"].map(|name| machine.folder.file(name));
    let output = verify.args(files).env("SYSTEMD_UNIT_PATH", format!("{}:", machine.folder.file("units"))).output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stderr(&output).contains("napier-mode-web.service:"), "{}", stderr(&output));
}
