//! What `deploy/prometheus` and `deploy/grafana` have: that each figure exists, that alerts fire and are quiet when they are to,
//! and, where Prometheus is installed, that a real one scrapes us and the board shows something.

#[path = "prometheus/board.rs"]
mod board;
mod common;
#[path = "prometheus/live.rs"]
mod live;
#[path = "prometheus/names.rs"]
mod names;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{has, run, text};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn path_of(path: &str) -> String {
    repository().join(path).to_str().expect("a plain path").to_owned()
}

#[test]
fn alerts_fire_and_are_quiet_when_they_are_to() {
    if !has("alerts_fire_and_are_quiet_when_they_are_to", "promtool") {
        return;
    }
    let rules = path_of("deploy/prometheus/napier.rules.yml");
    assert!(text(&run("promtool", &["check", "rules", &rules])).contains("SUCCESS"));
    run("promtool", &["check", "config", &path_of("deploy/prometheus/prometheus.yml")]);
    run("promtool", &["test", "rules", &path_of("deploy/prometheus/napier.test.yml")]);
    // Each alert has a story in which it fires, and one in which it does not.
    let (stories, page) = (read("deploy/prometheus/napier.test.yml"), read("deploy/prometheus/README.md"));
    for alert in names::alerts() {
        for how in ["fires", "is quiet"] {
            assert!(stories.contains(&format!("- name: {alert}, {how}\n")), "{alert} has no story in which it {how}");
        }
        assert!(page.contains(&alert), "README.md does not name {alert}");
    }
}

#[test]
fn grafanas_linter_finds_nothing() {
    if !has("grafanas_linter_finds_nothing", "dashboard-linter") {
        return;
    }
    let board = path_of("deploy/grafana/napier.json");
    let output = Command::new("dashboard-linter").args(["lint", "--strict", &board]).output().expect("it starts");
    assert!(output.status.success(), "{}{}", text(&output), String::from_utf8_lossy(&output.stderr));
}
