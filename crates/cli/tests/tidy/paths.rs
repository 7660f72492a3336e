//! The paths that the documentation names exist.

use crate::sources::{root, tree};

/// Folders of the repository that begin a path without an ending.
const BEGIN: [&str; 4] = ["crates/", "docs/", "conformance/", ".ci/"];

/// Whether a word in code font is a path of this repository: a file that we write, or a folder.
fn is_path(word: &str) -> bool {
    let plain =
        word.chars().all(|c| c.is_alphanumeric() || "/._-{},".contains(c)) && !word.starts_with(['/', '.', '-']);
    let ends =
        [".rs", ".md", ".toml", ".sh", ".svg"].into_iter().any(|end| word.len() > end.len() && word.ends_with(end));
    let folder = word.ends_with('/') || word.contains("/src/") || BEGIN.iter().any(|begin| word.starts_with(begin));
    plain && (ends || folder)
}

/// `a/{b,c}.rs` is `a/b.rs` and `a/c.rs`.
fn expand(word: &str) -> Vec<String> {
    match word.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        Some((before, (names, after))) => names.split(',').map(|name| format!("{before}{name}{after}")).collect(),
        None => vec![word.to_owned()],
    }
}

/// The paths that a page names and that end no path of the repository.
fn missing(page: &str, tree: &[String]) -> Vec<String> {
    let spans = page.split('`').skip(1).step_by(2);
    let words = spans.filter_map(|span| span.split([' ', ':', '\n']).next()).filter(|word| is_path(word));
    let paths = words.flat_map(expand).map(|path| path.trim_end_matches('/').to_owned());
    let exists = |path: &String| tree.iter().any(|file| file == path || file.ends_with(&format!("/{path}")));
    paths.filter(|path| !exists(path)).collect()
}

/// ARCHITECTURE, CONTRIBUTING, and the decisions, by their list.
fn pages() -> Vec<String> {
    let list = std::fs::read_to_string(root().join("docs/decisions/README.md")).expect("the list of decisions");
    let rows = list.lines().filter(|line| line.starts_with("| [0"));
    let files = rows.filter_map(|line| Some(line.split_once("](")?.1.split_once(')')?.0));
    let mut pages: Vec<String> = files.map(|file| format!("docs/decisions/{file}")).collect();
    assert!(pages.len() > 20, "decisions are in force");
    pages.extend(["ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_owned));
    pages
}

#[test]
fn every_path_that_is_named_exists() {
    let tree = tree();
    let mut wrong = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(root().join(&page)).expect("a page");
        wrong.extend(missing(&text, &tree).into_iter().map(|path| format!("{page}: {path}")));
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_path_that_is_gone_would_be_found() {
    let tree = ["crates/a/src/b.rs", "crates/a/src", "crates/a", "crates"].map(str::to_owned);
    let page =
        "`b.rs f`, `src/b.rs:3`, `a/src/`, `c.rs`, `src/{b,d}.rs`, `crates/e`, `/proc/x/`, `net/core/dev.c`, `1/2`";
    assert_eq!(missing(page, &tree), ["c.rs", "src/d.rs", "crates/e"]);
}
