//! `deploy/parallel/sweep.sh` over two ssh servers, of which one dies and the other loses the end of a file.

use std::io::Read as _;
use std::process::{Command, Stdio};

use napier_testkit::eventually;

use crate::common::{NAPIER, has};
use crate::hosts::{Hosts, program};
use crate::{deploy, output, said, small_plan};

/// Stands for Napier on the hosts. The first part on the left host is cut; the first on the right one says that it runs, and does
/// not end.
const UNRELIABLE: &str = r#"#!/bin/sh
case "$PWD" in
*/home-left/*) if [ "$2" = plan ] && mkdir FOLDER/cut 2>/dev/null; then
    NAPIER "$@"
    while [ "$1" != --out ]; do shift; done
    head -c 3000 "$2" >"$2.cut" && exec mv "$2.cut" "$2"
  fi ;;
*/home-right/*) if [ "$2" = plan ] && mkdir FOLDER/runs 2>/dev/null; then
    sleep 600
  fi ;;
esac
exec NAPIER "$@"
"#;

#[test]
fn a_sweep_over_ssh_survives_a_host_that_dies_and_a_file_that_is_cut() {
    let test = "a_sweep_over_ssh_survives_a_host_that_dies_and_a_file_that_is_cut";
    if !has_gnu_parallel(test) {
        return;
    }
    let (folder, whole) = small_plan(test);
    let Some(mut hosts) = Hosts::new(test, &folder) else { return };
    let text = UNRELIABLE.replace("NAPIER", NAPIER).replace("FOLDER", folder.file("").trim_end_matches('/'));
    let remote = program(&folder, "unreliable", &text);
    let ssh = format!("ssh -F {}", folder.file("ssh-config"));
    let mut command = Command::new(deploy("parallel/sweep.sh"));
    command.args([
        "--hosts",
        "left,right",
        "--shards",
        "3",
        "--out",
        "result.json",
        "--json",
        "--file",
        "machine.toml",
    ]);
    command.args(["--napier", NAPIER, "--remote-napier", &remote, "--ssh", &ssh, "plan.toml"]);
    command.current_dir(folder.file("")).env("TMPDIR", folder.file("")).stderr(Stdio::piped());
    let mut sweep = hosts.spawn(&mut command);
    eventually("a part runs on the right host", || std::path::Path::new(&folder.file("runs")).exists());
    hosts.kill(1);
    let mut told = String::new();
    sweep.0.stderr.take().expect("it is piped").read_to_string(&mut told).expect("text");
    assert!(sweep.0.wait().expect("it ends").success(), "{told}");
    assert!(std::fs::read(folder.file("result.json")).expect("written") == whole, "{told}");
    assert!(
        told.contains("sweep: lost: --shard=") && told.contains("sweep: asking again for 2 cells by name"),
        "{told}"
    );
    assert!(told.contains("sweep: right does not answer: "), "{told}");
    // What was sent there is gone from the host that lives.
    assert_eq!(std::fs::read_dir(folder.file("home-left")).expect("a home").count(), 0, "{told}");
}

#[test]
fn a_sweep_says_in_a_line_why_it_does_not_begin() {
    let test = "a_sweep_says_in_a_line_why_it_does_not_begin";
    if !has_gnu_parallel(test) {
        return;
    }
    let (folder, _) = small_plan(test);
    let other = program(&folder, "other", "#!/bin/sh\necho napier 99.0\n");
    let sweep = |args: &[&str]| {
        let mut command = Command::new(deploy("parallel/sweep.sh"));
        command.args(["--out", "result", "--napier", NAPIER]).args(args).current_dir(folder.file(""));
        output(command.env("TMPDIR", folder.file("")))
    };
    // Programs that stand for ssh: a host that is away, and one that runs what it is told here.
    let away = program(&folder, "away", "#!/bin/sh\necho no route >&2\nexit 255\n");
    let here = program(&folder, "here", "#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n");
    for (args, status, expected) in [
        (&["plan.toml"][..], 2, "a plan, --hosts and --out are needed"),
        (&["--hosts", "a", "--shards", "0", "plan.toml"], 2, "--shards and --rounds are numbers from 1"),
        (&["--hosts", "a", "--file", "/etc/hostname", "plan.toml"], 2, "/etc/hostname: give a file below this folder"),
        (&["--hosts", "a", "--bogus", "1", "plan.toml"], 2, "unknown option --bogus"),
        (&["--hosts", "a", "--ssh", &away, "plan.toml"], 1, "a does not answer: no route\nsweep: no host answers"),
        (
            &["--hosts", "a", "--ssh", &here, "--remote-napier", &other, "plan.toml"],
            1,
            "a is left out: it has napier 99.0",
        ),
    ] {
        let output = sweep(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{args:?}: {}", said(&output));
    }
    assert!(!std::path::Path::new(&folder.file("result")).exists());
}

/// Another program has the same name.
fn has_gnu_parallel(test: &str) -> bool {
    if !has(test, "parallel") {
        return false;
    }
    let version = output(Command::new("parallel").arg("--version"));
    let is_gnu = String::from_utf8_lossy(&version.stdout).contains("GNU parallel");
    if !is_gnu {
        napier_testkit::skip!(test, "GNU parallel is not installed");
    }
    is_gnu
}
