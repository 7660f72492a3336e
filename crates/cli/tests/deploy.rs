//! The examples of `deploy/`: a plan in parts on several machines, joined to the same bytes as in one run.

mod common;
#[path = "deploy/hosts.rs"]
mod hosts;
#[path = "deploy/kubernetes.rs"]
mod kubernetes;
#[path = "deploy/parallel.rs"]
mod parallel;
#[path = "deploy/slurm.rs"]
mod slurm;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{Folder, NAPIER, said};

/// A small plan on a machine file, so that both have to be where a part runs.
const PLAN: &str = r#"title = "small"
machine = "machine.toml"
queues = 8
connections = 64
modes = ["base", "suspend20", "fullbusy"]
loads = [200000, 400000]
warm-up = "1ms"
measured = "5ms"
seeds = 1
"#;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn deploy(file: &str) -> String {
    repository().join("deploy").join(file).to_str().expect("a plain path").to_owned()
}

/// A folder with the plan and its machine, and what one run of it prints as JSON.
fn small_plan(test: &str) -> (Folder, Vec<u8>) {
    let folder = Folder::new(test);
    std::fs::write(folder.file("plan.toml"), PLAN).expect("written");
    let machine = repository().join("lab/machines/epyc-7662-cx5.toml");
    std::fs::copy(machine, folder.file("machine.toml")).expect("copied");
    let whole = output(Command::new(NAPIER).args(["sim", "plan", "plan.toml", "--json"]).current_dir(folder.file("")));
    assert!(whole.status.success(), "{}", said(&whole));
    (folder, whole.stdout)
}

fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().expect("it starts")
}
