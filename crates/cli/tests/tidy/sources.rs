//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::reader::code;

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
    static READ: LazyLock<Vec<(String, String)>> = LazyLock::new(read_rust_files);
    READ.clone()
}

/// What stands below `src` of the crates and is not for tests: paths with the code alone.
pub(crate) fn product() -> &'static [(String, String)] {
    static READ: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
        let files = rust_files().into_iter().filter(|(path, _)| !is_test(path) && path.contains("/src/"));
        let files: Vec<_> = files.map(|(path, text)| (path, code(&text), text)).collect();
        let tests: Vec<String> = files.iter().flat_map(|(path, code, text)| test_modules(path, code, text)).collect();
        let kept = files.into_iter().filter(|(path, ..)| {
            let module = path.trim_end_matches(".rs").trim_end_matches("/mod");
            tests.iter().all(|test| module != test && !module.starts_with(&format!("{test}/")))
        });
        kept.map(|(path, code, _)| (path, code)).collect()
    });
    &READ
}

/// The modules that a source declares for tests alone, as paths without an ending: its text has them and its code not.
fn test_modules(path: &str, code: &str, text: &str) -> Vec<String> {
    let folder = ["/lib.rs", "/main.rs", "/mod.rs"].into_iter().find_map(|end| path.strip_suffix(end));
    let folder = folder.unwrap_or_else(|| path.trim_end_matches(".rs"));
    let declared = text.lines().filter_map(|line| line.trim_start().strip_suffix(';')?.split_once("mod "));
    let names = declared.map(|(_, name)| name).filter(|name| !code.contains(&format!("mod {name};")));
    names.map(|name| format!("{folder}/{name}")).collect()
}

fn read_rust_files() -> Vec<(String, String)> {
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
    ["tests", "examples", "benches", "loom_tests", "walk_tests"].into_iter().any(folder)
        || ["tests.rs", "testing.rs", "hold.rs", "test_link.rs"].contains(&name)
        || name.ends_with("_tests.rs")
}

#[test]
fn a_module_for_tests_is_known_by_its_declaration() {
    let text = "mod a;\n#[cfg(test)]\nmod b;\npub(crate) mod c;\n#[cfg(all(test, loom))]\npub(super) mod d;\n";
    assert_eq!(test_modules("x/src/lib.rs", &code(text), text), ["x/src/b", "x/src/d"]);
    assert_eq!(test_modules("x/src/y.rs", &code(text), text), ["x/src/y/b", "x/src/y/d"]);
}
