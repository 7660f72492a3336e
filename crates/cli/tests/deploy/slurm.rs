//! `deploy/slurm/`: by hand, as Slurm would call it, and by a Slurm of one node.

use std::path::Path;
use std::process::{Command, Stdio};

use napier_testkit::eventually;

use crate::common::{NAPIER, Running, has, line, pair};
use crate::hosts::program;
use crate::{deploy, output, said, small_plan};

#[test]
fn tasks_of_an_array_by_hand_give_the_bytes_of_one_run() {
    let (folder, whole) = small_plan("slurm-by-hand");
    for script in ["shards.sbatch", "merge.sbatch", "submit.sh"] {
        let read = output(Command::new("bash").args(["-n", &deploy(&format!("slurm/{script}"))]));
        assert!(read.status.success(), "{}", said(&read));
    }
    let run = |script: &str, task: &str, args: &[&str]| {
        let mut command = Command::new("bash");
        command.arg(deploy(&format!("slurm/{script}"))).args(args).current_dir(folder.file(""));
        output(command.env("NAPIER", NAPIER).env("SLURM_ARRAY_TASK_ID", task))
    };
    for task in ["1", "3"] {
        let done = run("shards.sbatch", task, &["plan.toml", "3", "parts"]);
        assert!(done.status.success(), "{}", said(&done));
    }
    let merge = ["parts", "result.json", "--json"];
    let missing = run("merge.sbatch", "", &merge);
    assert!(!missing.status.success() && said(&missing).contains("2 of 6 cells are missing"), "{}", said(&missing));
    assert!(!Path::new(&folder.file("result.json")).exists());
    for (script, args) in [("shards.sbatch", ["plan.toml", "3", "parts"]), ("merge.sbatch", merge)] {
        let done = run(script, "2", &args);
        assert!(done.status.success(), "{}", said(&done));
    }
    assert!(std::fs::read(folder.file("result.json")).expect("written") == whole);
}

/// Stands for Napier on the node. The second part is killed the first time.
const UNRELIABLE: &str = r#"#!/bin/sh
case "$*" in *"--shard 2/3"*) mkdir FOLDER/killed 2>/dev/null && kill -KILL $$ ;; esac
exec NAPIER "$@"
"#;

#[test]
fn an_array_of_slurm_survives_a_task_that_is_killed() {
    let test = "an_array_of_slurm_survives_a_task_that_is_killed";
    let daemons = ["munged", "slurmctld", "slurmd"].into_iter();
    let lacks = daemons.filter(|daemon| !Path::new("/usr/sbin").join(daemon).exists()).collect::<Vec<_>>();
    if !lacks.is_empty() {
        napier_testkit::skip!(test, "{} is not installed", lacks[0]);
        return;
    }
    if !["sbatch", "sinfo", "unshare"].into_iter().all(|program| has(test, program)) {
        return;
    }
    let Some(pair) = pair(test) else { return };
    let node = pair.left();
    let (folder, whole) = small_plan(test);
    let one_node = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/deploy/one-node.sh");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", one_node, &folder.file("slurm")]);
    command.arg(node.addresses()[0].0.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut slurm = Running(node.netns().run(|| command.spawn()).expect("entered").expect("it starts"));
    assert_eq!(line(slurm.0.stdout.take()), "idle\n");

    let text = UNRELIABLE.replace("NAPIER", NAPIER).replace("FOLDER", folder.file("").trim_end_matches('/'));
    let napier = program(&folder, "unreliable", &text);
    let submit = || {
        let mut command = Command::new(deploy("slurm/submit.sh"));
        command.args(["plan.toml", "3", "parts", "result.json", "--json"]).current_dir(folder.file(""));
        command.env("NAPIER", &napier).env("SLURM_CONF", folder.file("slurm/slurm.conf"));
        let submitted = node.netns().run(|| output(&mut command)).expect("entered");
        assert!(submitted.status.success(), "{}", said(&submitted));
        let said = String::from_utf8_lossy(&submitted.stdout).trim().to_owned();
        said.rsplit(' ').next().expect("a number").to_owned()
    };
    let log = folder.file(&format!("napier-merge-{}.log", submit()));
    eventually("cells are missing", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("2 of 6 cells are missing"))
    });
    assert!(!Path::new(&folder.file("result.json")).exists());
    submit();
    eventually("the second merge ends", || Path::new(&folder.file("result.json")).exists());
    assert!(std::fs::read(folder.file("result.json")).expect("written") == whole);
}
