//! What the page of a package shows, the examples of its documentation, and the index of decisions.

use std::collections::BTreeMap;
use std::fs;

use crate::sources::{root, tree};
use crate::{Found, check};

/// What each published manifest says of where its package comes from and is described.
const KEYS: [&str; 3] = ["repository", "documentation", "homepage"];

/// The keys that a published manifest lacks.
fn lacks(manifest: &str) -> Vec<&'static str> {
    let package = manifest.split("\n[").find(|table| table.trim_start_matches('[').starts_with("package]"));
    let package = package.unwrap_or("");
    let has =
        |key: &str| package.lines().any(|line| line.split(['=', '.']).next().is_some_and(|name| name.trim() == key));
    if !package.lines().any(|line| line.replace(' ', "") == "publish=true") {
        return Vec::new();
    }
    KEYS.into_iter().filter(|key| !has(key)).collect()
}

#[test]
fn published_manifests_say_where_to_look() {
    let mut found = Found::new();
    for path in tree().into_iter().filter(|path| path.starts_with("crates/") && path.ends_with("/Cargo.toml")) {
        let manifest = fs::read_to_string(root().join(&path)).expect("a manifest");
        found.extend(lacks(&manifest).into_iter().map(|key| (format!("{path} {key}"), 1)));
    }
    check("manifests.txt", "Keys that manifests of published crates lack.", &found);
}

/// What is wrong with an index of decisions: a page that it does not link, a link to none, a number that two have.
fn wrong_in_index(index: &str, pages: &[String]) -> Vec<String> {
    let links: Vec<&str> = index.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let mut wrong: Vec<String> = Vec::new();
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for page in pages {
        *numbers.entry(page.split('-').next().expect("a number")).or_default() += 1;
        if !links.iter().any(|link| link.rsplit('/').next() == Some(page)) {
            wrong.push(format!("not linked: {page}"));
        }
    }
    let is_decision = |name: &&str| name.len() > 5 && name.as_bytes()[..4].iter().all(u8::is_ascii_digit);
    let gone = links.iter().filter_map(|link| link.rsplit('/').next()).filter(is_decision);
    wrong.extend(gone.filter(|name| !pages.iter().any(|page| page == name)).map(|name| format!("no page: {name}")));
    wrong.extend(numbers.into_iter().filter(|(_, count)| *count > 1).map(|(number, _)| format!("twice: {number}")));
    wrong
}

#[test]
fn the_indexes_have_every_decision() {
    let folder = "docs/decisions/";
    let pages: Vec<String> = tree().iter().filter_map(|path| path.strip_prefix(folder)).map(str::to_owned).collect();
    let pages: Vec<String> = pages.into_iter().filter(|page| page.ends_with(".md") && page != "README.md").collect();
    assert!(pages.len() > 50, "the decisions are there");
    for index in ["docs/decisions/README.md", "docs/SUMMARY.md"] {
        let text = fs::read_to_string(root().join(index)).expect("an index");
        assert_eq!(wrong_in_index(&text, &pages), Vec::<String>::new(), "{index}");
    }
}

#[test]
fn a_manifest_that_lacks_something_would_be_found() {
    let manifest =
        "[package]\nname = \"x\"\nhomepage.workspace = true\npublish = true\n\n[dependencies]\nrepository = \"1\"\n";
    assert_eq!(lacks(manifest), ["repository", "documentation"]);
    assert_eq!(lacks(&manifest.replace("true\n\n", "false\n\n")), Vec::<&str>::new());
}

#[test]
fn a_decision_that_an_index_lacks_would_be_found() {
    let pages = ["0001-a.md", "0002-b.md", "0002-c.md"].map(str::to_owned);
    let index = "| [0001](0001-a.md) | x |\n- [c](decisions/0002-c.md)\n- [d](0003-d.md) [e](../e.md)";
    assert_eq!(wrong_in_index(index, &pages), ["not linked: 0002-b.md", "no page: 0003-d.md", "twice: 0002"]);
}

/// The lines on which an example begins that rustdoc would run.
fn examples(source: &str) -> Vec<usize> {
    let mut within = false;
    let mut found = Vec::new();
    for (at, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let Some(text) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            within = false;
            continue;
        };
        let Some(words) = text.trim_start().strip_prefix("```") else { continue };
        let is_rust = words.split(',').map(str::trim).all(|word| {
            matches!(word, "" | "rust" | "no_run" | "should_panic" | "compile_fail") || word.starts_with("edition")
        });
        if !within && is_rust {
            found.push(at + 1);
        }
        within = !within;
    }
    found
}

/// `cargo test` asks rustdoc of each crate for its examples, which takes seconds also where there are none.
#[test]
fn crates_whose_examples_are_not_run_have_none() {
    let files = tree();
    let manifests = files.iter().filter_map(|path| path.strip_suffix("/Cargo.toml"));
    let without = manifests.filter(|folder| {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("a manifest");
        manifest.lines().any(|line| line == "doctest = false")
    });
    let without: Vec<String> = without.map(|folder| format!("{folder}/src/")).collect();
    assert!(without.len() > 10, "manifests say so: {without:?}");
    let sources = files.iter().filter(|path| path.ends_with(".rs") && without.iter().any(|src| path.starts_with(src)));
    for path in sources {
        let source = fs::read_to_string(root().join(path)).expect("a source");
        assert_eq!(examples(&source), Vec::<usize>::new(), "{path}: take `doctest = false` out of its manifest");
    }
}

#[test]
fn an_example_that_is_not_run_would_be_found() {
    let source =
        "//! ```text\n//! x\n//! ```\n/// ```\n/// x();\n/// ```\nfn x() {}\n  /// ```no_run, rust\n/// ```\n// ```\n";
    assert_eq!(examples(source), [4, 8]);
}
