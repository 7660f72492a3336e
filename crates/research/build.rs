//! Takes along what lies in `plans`: a plan or a published table that is put there needs no line of Rust.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
    println!("cargo::rerun-if-changed={}", plans.display());
    println!("cargo::rerun-if-changed={}", plans.join("published").display());
    let mut text = list("PLANS", with(&plans, "toml"));
    text += &list("TABLES", with(&plans.join("published"), "csv"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where")).join("brought.rs");
    fs::write(out, text).expect("the folder is for that");
}

/// The files of a folder with this ending, in the order of their names; a plan may say another place.
fn with(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).expect("it is part of the package").map(|file| file.expect("a file").path());
    let mut files: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|of| of == ending)).collect();
    files.sort_by_cached_key(|file| {
        let text = fs::read_to_string(file).expect("text");
        let place = text.lines().find_map(|line| line.strip_prefix("place = ")?.trim().parse::<u32>().ok());
        (place.unwrap_or(u32::MAX), file.clone())
    });
    files
}

fn list(name: &str, files: Vec<PathBuf>) -> String {
    let mut text = format!("pub(super) const {name}: &[(&str, &str)] = &[\n");
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let stem = file.file_stem().expect("a name").to_string_lossy().into_owned();
        writeln!(text, "    ({stem:?}, include_str!({:?})),", file.display().to_string()).expect("it is a text");
    }
    text + "];\n"
}
