//! `deploy/kubernetes/`: the commands of its manifests, run by hand as Kubernetes would.

use std::process::Command;

use yaml_rust2::{Yaml, YamlLoader};

use crate::common::{Folder, NAPIER};
use crate::hosts::program;
use crate::{deploy, output, said, small_plan};

fn manifest(name: &str) -> Yaml {
    let text = std::fs::read_to_string(deploy(&format!("kubernetes/{name}"))).expect("a manifest");
    let mut documents = YamlLoader::load_from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(documents.len(), 1, "{name}");
    documents.remove(0)
}

/// The only container of a job.
fn container(job: &Yaml) -> &Yaml {
    let containers = job["spec"]["template"]["spec"]["containers"].as_vec().expect("containers");
    assert_eq!(containers.len(), 1);
    &containers[0]
}

fn env<'a>(container: &'a Yaml, name: &str) -> &'a str {
    let mut all = container["env"].as_vec().expect("variables").iter();
    let found = all.find(|one| one["name"].as_str() == Some(name)).unwrap_or_else(|| panic!("{name} is not set"));
    found["value"].as_str().unwrap_or_else(|| panic!("{name} is no text"))
}

/// The container's command, with napier in its path, in the folder of the plan, and the parts in a folder of its own.
fn command(folder: &Folder, container: &Yaml) -> Command {
    let words = |key: &str| -> Vec<String> {
        let words = container[key].as_vec().expect("words").iter();
        words.map(|word| word.as_str().expect("a text").to_owned()).collect()
    };
    let line = [words("command"), words("args")].concat();
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]).current_dir(folder.file("")).env("PARTS", folder.file("parts"));
    let path = std::env::var("PATH").expect("a path");
    command.env("PATH", format!("{}:{path}", folder.file("bin")));
    command
}

#[test]
fn pods_by_hand_give_the_bytes_of_one_run() {
    let (folder, whole) = small_plan("kubernetes");
    for name in ["bin", "parts"] {
        std::fs::create_dir_all(folder.file(name)).expect("a folder");
    }
    program(&folder, "bin/napier", &format!("#!/bin/sh\nexec {NAPIER} \"$@\"\n"));
    let (sweep, merge) = (manifest("sweep.yaml"), manifest("merge.yaml"));
    let (shard, join) = (container(&sweep), container(&merge));
    assert_eq!(sweep["spec"]["completionMode"].as_str(), Some("Indexed"));
    assert!(sweep["spec"]["backoffLimitPerIndex"].as_i64() > Some(0));
    assert_eq!(sweep["spec"]["completions"].as_i64(), env(shard, "SHARDS").parse().ok(), "as many pods as parts");
    let pod = |index: usize, shards: &str| {
        let mut command = command(&folder, shard);
        command.env("JOB_COMPLETION_INDEX", index.to_string()).env("SHARDS", shards).env("PLAN", "plan.toml");
        output(&mut command)
    };
    for index in [0, 2] {
        let done = pod(index, "3");
        assert!(done.status.success(), "{}", said(&done));
        assert!(std::path::Path::new(&folder.file(&format!("parts/part-{}-of-3.json", index + 1))).exists());
    }
    let merge = || output(&mut command(&folder, join));
    let missing = merge();
    assert!(!missing.status.success() && said(&missing).contains("2 of 6 cells are missing"), "{}", said(&missing));
    assert!(!std::path::Path::new(&folder.file("parts/result.json")).exists());
    assert!(pod(1, "3").status.success());
    let done = merge();
    assert!(done.status.success(), "{}", said(&done));
    assert!(std::fs::read(folder.file("parts/result.json")).expect("written") == whole);
    assert!(!pod(3, "3").status.success(), "there are three parts");
}

#[test]
fn manifests_belong_together() {
    let (sweep, merge, claim) = (manifest("sweep.yaml"), manifest("merge.yaml"), manifest("parts.yaml"));
    let image = container(&sweep)["image"].clone();
    let name = claim["metadata"]["name"].as_str().expect("a name");
    for job in [&sweep, &merge] {
        let (pod, container) = (&job["spec"]["template"]["spec"], container(job));
        let mounts = container["volumeMounts"].as_vec().expect("mounts");
        let volumes = pod["volumes"].as_vec().expect("volumes");
        for mount in mounts {
            assert!(volumes.iter().any(|volume| volume["name"] == mount["name"]), "{mount:?}");
        }
        assert!(mounts.iter().any(|mount| mount["mountPath"].as_str() == Some(env(container, "PARTS"))));
        assert!(volumes.iter().any(|volume| volume["persistentVolumeClaim"]["claimName"].as_str() == Some(name)));
        assert_eq!(container["image"], image);
    }
}
