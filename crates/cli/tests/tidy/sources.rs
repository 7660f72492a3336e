//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Files and folders below `root`, relative to it and in order; not what is hidden or built.
pub(crate) fn tree() -> Vec<String> {
    let (root, mut found) = (root(), Vec::new());
    visit(&root, &root, &mut found);
    found.sort();
    found
}

fn visit(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        found.push(path.strip_prefix(root).expect("below the root").to_str().expect("a plain name").to_owned());
        if path.is_dir() {
            visit(root, &path, found);
        }
    }
}

/// Rust files of the crates with their text.
pub(crate) fn rust_files() -> Vec<(String, String)> {
    let paths = tree().into_iter().filter(|path| path.starts_with("crates/") && path.ends_with(".rs"));
    let read = |path: String| {
        let text = fs::read_to_string(root().join(&path)).expect("a source");
        (path, text)
    };
    paths.map(read).collect()
}

/// Whether a file is for tests only.
pub(crate) fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().expect("a name");
    let folder = |folder: &str| path.contains(&format!("/{folder}/"));
    ["tests", "examples", "loom_tests"].into_iter().any(folder)
        || ["tests.rs", "hold.rs", "test_link.rs"].contains(&name)
        || name.ends_with("_tests.rs")
}

/// The code without comments and without the module of tests at the file's end.
pub(crate) fn code(text: &str) -> String {
    let end = text.find("\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines().map(|line| line.find("//").map_or(line, |at| &line[..at]));
    lines.collect::<Vec<_>>().join("\n")
}
