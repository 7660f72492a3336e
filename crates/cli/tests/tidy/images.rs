//! The container files copy what is there, and what their build makes.

use std::fs;

use crate::sources::{root, tree};

/// What cargo makes of a package below `target/dist`.
fn made_by(package: &str) -> &'static [&'static str] {
    match package {
        "napier" => &["napier"],
        _ => &[],
    }
}

/// The value of a line `key = "value"` of the workspace's manifest.
fn workspace(key: &str) -> String {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let value = manifest.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'));
    value.expect("a value").to_owned()
}

/// What a container file asks for that is not there. `rust` is the version to build with, `ignored` what is not sent along.
fn missing(file: &str, tree: &[String], ignored: &[&str], rust: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut made: Vec<String> = Vec::new();
    for line in file.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["FROM", image, ..] if image.starts_with("rust:") && !image.starts_with(&format!("rust:{rust}-")) => {
                wrong.push((*image).to_owned());
            }
            ["RUN", rest @ ..] => {
                let packages = rest.windows(2).filter(|pair| pair[0] == "-p").flat_map(|pair| made_by(pair[1]));
                // A package is built to be kept, so by the profile that takes its time.
                let profile = rest.windows(2).find(|pair| pair[0] == "--profile").map_or("release", |pair| pair[1]);
                made.extend(packages.map(|name| format!("/napier/target/{profile}/{name}")));
            }
            ["COPY", "--from=build", sources @ .., _] => {
                let gone = sources.iter().filter(|source| !made.iter().any(|name| name == *source));
                wrong.extend(gone.map(|source| (*source).to_owned()));
            }
            ["COPY", sources @ .., _] => {
                let sent = |source: &str| source == "." || tree.iter().any(|path| path == source);
                let gone = sources.iter().filter(|source| !sent(source) || ignored.contains(source));
                wrong.extend(gone.map(|source| (*source).to_owned()));
            }
            _ => {}
        }
    }
    wrong
}

#[test]
fn images_copy_what_is_there() {
    let tree = tree();
    let ignore = fs::read_to_string(root().join(".dockerignore")).expect("what is not sent along");
    let ignored: Vec<&str> = ignore.lines().collect();
    let (rust, version) = (workspace("rust-version"), workspace("version"));
    let files: Vec<&String> = tree.iter().filter(|path| path.ends_with("/Containerfile")).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    let mut wrong = Vec::new();
    for path in files {
        let text = fs::read_to_string(root().join(path)).expect("a container file");
        wrong.extend(missing(&text, &tree, &ignored, &rust).into_iter().map(|what| format!("{path}: {what}")));
        if !text.contains(&format!("podman build -t napier:{version} ")) {
            wrong.push(format!("{path}: the name of the image is not of version {version}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn an_image_that_copies_what_is_not_there_would_be_found() {
    let tree = ["LICENSE-MIT", "crates", "notes"].map(str::to_owned);
    let file = "FROM rust:1.94-slim AS build\nCOPY . .\nRUN A=1 cargo build --profile dist --locked -p napier\n\
        COPY --from=build /napier/target/dist/napier /napier/target/release/napier /usr/bin/\n\
        COPY LICENSE-MIT LICENSE notes /usr/share/doc/\n";
    let wrong = missing(file, &tree, &["notes"], "1.95");
    assert_eq!(wrong, ["rust:1.94-slim", "/napier/target/release/napier", "LICENSE", "notes"]);
}
