//! Tells the reports, and `--version`, from which commit the binary was built.
//!
//! `NAPIER_COMMIT` says it where a package is built from an archive. Else git does, but only of this repository: a package of
//! sources that lies in a repository of something else has no commit of that. Else what cargo wrote into the package.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=NAPIER_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let given = std::env::var("NAPIER_COMMIT").ok().filter(|commit| !commit.is_empty());
    if let Some(commit) = given.or_else(|| of_git(&root.join("../.."))).or_else(|| of_package(root)) {
        println!("cargo::rustc-env=NAPIER_COMMIT={commit}");
    }
}

/// What is checked out, with `-dirty` if files differ from it.
fn of_git(repository: &Path) -> Option<String> {
    if !repository.join(".git").exists() {
        return None;
    }
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(repository).args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // What changes when another commit is checked out, or made. A file that is not there would be built for each time.
    for name in ["HEAD", "logs/HEAD"] {
        let file = git(&["rev-parse", "--git-path", name]).map(|file| repository.join(file));
        if let Some(file) = file.filter(|file| file.is_file()) {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let is_dirty = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changes| !changes.is_empty());
    Some(format!("{commit}{}", if is_dirty { "-dirty" } else { "" }))
}

/// What `cargo package` noted.
fn of_package(root: &Path) -> Option<String> {
    let file: PathBuf = root.join(".cargo_vcs_info.json");
    let text = std::fs::read_to_string(&file).ok()?;
    println!("cargo::rerun-if-changed={}", file.display());
    let (_, rest) = text.split_once("\"sha1\"")?;
    let commit = rest.split('"').nth(1)?;
    commit.get(..12).map(str::to_owned)
}
