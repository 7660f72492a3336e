//! Tells the reports from which commit the binary was built.

use std::path::Path;
use std::process::Command;

fn main() {
    let git = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.git");
    if git.exists() {
        println!("cargo::rerun-if-changed={}", git.join("HEAD").display());
        println!("cargo::rerun-if-changed={}", git.join("logs/HEAD").display());
    }
    let run = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    if let Some(commit) = run(&["rev-parse", "--short=12", "HEAD"]) {
        let dirty = run(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changes| !changes.is_empty());
        println!("cargo::rustc-env=NAPIER_COMMIT={commit}{}", if dirty { "-dirty" } else { "" });
    }
}
