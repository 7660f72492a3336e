//! The notices of tests that cannot run are seen.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use napier_testkit::skip;

/// What a notice begins with. In two parts, or this file would be found.
const BEGINS: &str = concat!("SKIP", "PED: ");

const CAPTURED: [&str; 4] = ["println!", "eprintln!", "print!", "eprint!"];

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

/// Lines with a notice that a print macro writes: the macro's name is the last one before it that ends in `!(`.
fn captured(source: &str) -> Vec<usize> {
    let of_macro = |at: usize| {
        let before = &source[..source[..at].rfind("!(").map_or(0, |bang| bang + 1)];
        CAPTURED.iter().any(|name| before.ends_with(name))
    };
    let found = source.match_indices(BEGINS).filter(|(at, _)| of_macro(*at));
    found.map(|(at, _)| source[..at].lines().count()).collect()
}

#[test]
fn no_notice_goes_through_a_macro_whose_output_is_kept() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of crates");
    let mut files = Vec::new();
    sources(crates, &mut files);
    assert!(files.len() > 100, "the sources are there");
    let wrong: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let lines = captured(&fs::read_to_string(file).expect("a source"));
            lines.into_iter().map(move |line| format!("{}:{line}: use napier_testkit::skip!", file.display()))
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn such_a_notice_would_be_found() {
    let source = |name: &str| format!("fn f() {{\n    {name}(\n        \"{BEGINS}{{test}}\"\n    );\n}}\n");
    for name in CAPTURED {
        assert_eq!(captured(&source(name)), [3], "{name}");
    }
    assert_eq!(captured(&source("skip!")), [0; 0]);
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
