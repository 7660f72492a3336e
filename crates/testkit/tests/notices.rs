//! The notices of tests that cannot run are seen.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use napier_testkit::skip;

/// What a notice begins with. In two parts, or this file would be found.
const BEGINS: &str = concat!("SKIP", "PED: ");

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Lines on which a notice is written by other means than `skip!`, which adds the word itself.
fn by_hand(source: &str) -> Vec<usize> {
    source.lines().enumerate().filter(|(_, line)| line.contains(BEGINS)).map(|(at, _)| at + 1).collect()
}

#[test]
fn every_notice_goes_through_the_macro() {
    let this = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(this.parent().expect("the folder of crates"), &mut files);
    assert!(files.len() > 100, "the sources are there");
    let others = files.iter().filter(|file| !file.starts_with(this));
    let wrong: Vec<String> = others
        .flat_map(|file| {
            let lines = by_hand(&fs::read_to_string(file).expect("a source"));
            lines.into_iter().map(move |line| format!("{}:{line}: use napier_testkit::skip!", file.display()))
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_notice_by_hand_would_be_found() {
    let source = format!("fn f() {{\n    println!(\n        \"{BEGINS}{{test}}\"\n    );\n}}\n");
    assert_eq!(by_hand(&source), [3]);
    assert_eq!(by_hand("skip!(\"a_test\", \"no privilege\");"), [0; 0]);
}

/// The test below, which passes, run by the harness as `cargo test` runs it.
#[test]
fn a_notice_is_seen_although_its_test_passes() {
    let this = std::env::current_exe().expect("this program");
    let mut command = Command::new(this);
    command.args(["--exact", "says_that_it_is_skipped", "--ignored"]).stdin(Stdio::null());
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    let expected = format!("{BEGINS}says_that_it_is_skipped: for want of 1 thing");
    assert!(said.lines().any(|line| line == expected), "{said:?}");
}

#[test]
#[ignore = "run by a_notice_is_seen_although_its_test_passes"]
fn says_that_it_is_skipped() {
    let wanted = 1;
    skip!("says_that_it_is_skipped", "for want of {wanted} thing");
}
