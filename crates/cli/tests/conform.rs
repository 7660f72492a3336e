//! `napier conform`: exit status and output.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use napier_testkit::Folder;
use serde_json::Value;

fn conform(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_napier")).arg("conform").args(args).output().expect("the program under test runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// A folder with these files.
fn folder(name: &str, files: &[(&str, &str)]) -> Folder {
    let folder = Folder::new(&format!("conform-{name}"));
    for (file, text) in files {
        std::fs::write(folder.join(file), text).expect("a file can be written");
    }
    folder
}

fn path(folder: &Folder) -> &str {
    folder.to_str().expect("the folder for temporary files has a plain name")
}

/// One packet makes one interrupt, one poll and one delivery.
const GOOD: &str = r#"
title = "A packet is masked, polled, delivered and unmasked"
rules = ["1"]
[[socket]]
name = "rx"
[timeline]
steps = [{ at = "1ms", packets = 1, to = "rx" }]
[expect]
watch = ["mask", "poll", "deliver", "unmask"]
events = [
  { at = "1ms", mask = "eth0/0" },
  { at = "1ms", poll = "eth0/0", in = "softirq", work = 1, budget = 64 },
  { deliver = "rx", packets = 1 },
  { unmask = "eth0/0" },
]
[expect.counters]
"eth0/0.polls" = 1
"#;

/// The path of a file of the repository.
fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn a_good_file_passes() {
    let folder = folder("good", &[("good.toml", GOOD)]);
    let output = conform(&[path(&folder)]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    let expected =
        format!("pass     {}/good.toml\n1 file, executor sim: 1 passed, 0 failed, 0 refused\n", path(&folder));
    assert_eq!(shown, expected);
}

#[test]
fn a_wrong_file_fails_with_a_difference() {
    let wrong = GOOD.replace("work = 1", "work = 2");
    let folder = folder("wrong", &[("a.toml", GOOD), ("b.toml", &wrong), ("c.toml", "titel = 1")]);
    let output = conform(&[path(&folder)]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("line 12: work is 1, expected 2"), "{shown}");
    assert!(shown.contains("c.toml:1: unknown key \"titel\""), "{shown}");
    assert!(shown.ends_with("3 files, executor sim: 1 passed, 2 failed, 0 refused\n"), "{shown}");
    assert_eq!(text(&output.stderr), "napier: 2 of 3 scenario files failed\n");

    let output = conform(&["--json", path(&folder)]);
    assert_eq!(output.status.code(), Some(1));
    let object: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(object["totals"]["fail"], 2);
    assert_eq!(object["results"][0]["result"], "pass");
    assert_eq!(object["results"][0]["expected"], Value::Null);
    assert_eq!(object["results"][1]["executor"], "sim");
    assert_eq!(object["results"][1]["reason"], "line 12: work is 1, expected 2");
    assert_eq!(object["results"][1]["seen"].as_array().map(Vec::len), Some(4));
}

#[test]
fn bad_usage() {
    let empty = folder("empty", &[]);
    let folder = folder("usage", &[("good.toml", GOOD)]);
    for (args, message) in [
        (vec![], "required"),
        (vec!["/nonexistent"], "/nonexistent: No such file"),
        (vec![path(&empty)], "no scenario file"),
        (vec!["--executor", "x", path(&folder)], "unknown executor \"x\""),
        (vec!["--json", "--coverage", path(&folder)], "cannot be used with"),
    ] {
        let output = conform(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(message), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn coverage_is_printed_and_unknown_rules_fail() {
    let rules = "[[rule]]\nid = \"1\"\ntext = \"t\"\nsource = \"s\"\n";
    let folder = folder("coverage", &[("rules.toml", rules), ("good.toml", GOOD)]);
    let output = conform(&["--coverage", path(&folder)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("| 1 | t | s | [good]"), "{}", text(&output.stdout));
    std::fs::write(folder.join("bad.toml"), GOOD.replace("\"1\"", "\"2\"")).expect("a file can be written");
    let output = conform(&["--coverage", path(&folder)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("bad.toml: rule \"2\" is not in rules.toml"), "{}", text(&output.stderr));
}

#[test]
fn the_scenarios_of_the_repository_pass() {
    let folder = in_repository("conformance");
    if !folder.exists() {
        napier_testkit::skip!("the_scenarios_of_the_repository_pass", "there is no folder conformance/");
        return;
    }
    let output = conform(&[folder.to_str().expect("a plain name")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[test]
fn the_page_of_rules_is_current() {
    let folder = in_repository("conformance");
    if !folder.exists() {
        napier_testkit::skip!("the_page_of_rules_is_current", "there is no folder conformance/");
        return;
    }
    let folder = folder.canonicalize().expect("it exists");
    let made = conform(&["--coverage", folder.to_str().expect("a plain name")]);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let page = std::fs::read_to_string(in_repository("docs/conformance.md")).unwrap_or_default();
    assert!(
        page == text(&made.stdout),
        "docs/conformance.md is old; run: napier conform --coverage conformance > docs/conformance.md"
    );
}

/// Every example of the page is a scenario. Those that say what they expect hold too.
#[test]
fn the_examples_of_the_page_hold() {
    let page = std::fs::read_to_string(in_repository("docs/scenarios.md")).expect("docs/scenarios.md");
    let blocks: Vec<&str> = page
        .split("\n```toml\n")
        .skip(1)
        .map(|rest| rest.split("\n```").next().expect("a split has a first part"))
        .collect();
    assert!(blocks.len() >= 5, "the page has {} examples", blocks.len());
    let named: Vec<_> = (0..blocks.len()).map(|at| format!("{at:02}.toml")).collect();
    let files: Vec<_> = named.iter().zip(&blocks).map(|(name, block)| (name.as_str(), *block)).collect();
    let folder = folder("page", &files);
    let output = conform(&[path(&folder)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

/// An expectation that every kernel meets, one that none does, and one that none shows.
#[test]
fn a_live_kernel_is_asked_if_it_may_be() {
    let asked = format!("{GOOD}\n[kernel]\nrun = true\n");
    let wrong = asked.replace("packets = 1 },\n  { unmask", "packets = 2 },\n  { unmask");
    let folder = folder("kernel", &[("a.toml", GOOD), ("b.toml", &asked), ("c.toml", &wrong)]);
    let output = conform(&["--executor", "kernel", "--order-only", path(&folder)]);
    let shown = text(&output.stdout);
    assert!(
        shown.contains("a.toml: not runnable here: the file does not say that a kernel can carry it out"),
        "{shown}"
    );
    if shown.contains("3 refused") {
        napier_testkit::skip!("a_live_kernel_is_asked_if_it_may_be", "{shown}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("b.toml (not looked at: 2 events)"), "{shown}");
    assert!(shown.contains("packets is 1, expected 2"), "{shown}");
    assert!(
        shown.ends_with(
            "3 files, executor kernel: 1 passed, 1 failed, 1 refused; 4 expectations not looked at; order and counts alone in 2\n"
        ),
        "{shown}"
    );
    let output = conform(&["--executor", "kernel", "--order-only", "--json", path(&folder)]);
    let object: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(object["totals"]["not_looked_at"], 4);
    assert_eq!(object["totals"]["without_times"], 2);
    assert_eq!(object["results"][1]["times"], false);
    assert!(object["results"][1]["stretch"].as_u64().is_some_and(|stretch| stretch >= 1), "{object}");
    assert_eq!(object["results"][0]["stretch"], Value::Null, "what is refused has no pace");
    assert_eq!(object["results"][1]["not_looked_at"]["events"], 2);
    assert_eq!(object["results"][0]["not_looked_at"]["events"], 0, "what is refused is not half looked at");
}

#[test]
fn order_only_is_for_kernels() {
    let folder = folder("order", &[("good.toml", GOOD)]);
    let output = conform(&["--order-only", path(&folder)]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--order-only is for --executor kernel"), "{}", text(&output.stderr));
}

/// The repository's files that ask for a kernel, order and counts; at least 50 where a kernel may be asked.
#[test]
fn the_scenarios_of_the_repository_hold_on_this_kernel() {
    let folder = in_repository("conformance");
    if !folder.exists() {
        napier_testkit::skip!("the_scenarios_of_the_repository_hold_on_this_kernel", "there is no folder conformance/");
        return;
    }
    let output = conform(&["--executor", "kernel", "--order-only", "--json", folder.to_str().expect("a plain name")]);
    let object: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let results = object["results"].as_array().expect("results");
    let failed: Vec<&Value> = results.iter().filter(|result| result["result"] == "fail").collect();
    let passed = object["totals"]["pass"].as_u64().unwrap_or(0);
    assert!(failed.is_empty(), "{failed:#?}");
    if passed == 0 {
        let why = results.iter().filter_map(|result| result["reason"].as_str()).find(|why| why.contains("CAP_"));
        let why = why.unwrap_or("no file could be carried out");
        napier_testkit::skip!("the_scenarios_of_the_repository_hold_on_this_kernel", "{why}");
        return;
    }
    assert!(passed >= 50, "{passed} files passed");
}
