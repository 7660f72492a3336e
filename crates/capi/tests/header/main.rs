//! The header is made from the sources: functions, structs and constants with the comments that they have there, and it is compared with what
//! is in the tree. `NAPIER_UPDATE=1 cargo test -p napier-capi --test header` writes it anew.

mod compiled;
mod manual;
mod reader;

use std::path::{Path, PathBuf};

use reader::{Item, read};

/// The parts of the header: heading, page of the manual, sources in their order.
const PARTS: [(&str, &str, &[&str]); 5] = [
    ("Engines, modes, handles", "napier_engine", &["src/engine.rs", "src/calls/engine.rs"]),
    ("Devices and figures", "napier_device", &["src/device.rs", "src/calls/device.rs", "src/calls/stats.rs"]),
    ("Sockets", "napier_socket", &["src/calls/socket.rs", "src/calls/transfer.rs", "src/calls/message.rs"]),
    ("Event contexts", "napier_epoll", &["src/calls/epoll.rs"]),
    ("Raw ports", "napier_raw", &["src/port.rs", "src/calls/raw.rs"]),
];

const HEAD: &str = "\
/* napier.h: the engine for C. napier_engine(3), napier_device(3), napier_socket(3), napier_epoll(3), napier_raw(3).
 *
 * A call gives -1 where it fails, errno says why, and napier_last_error() says it as a sentence. A handle is a number that is none of a
 * descriptor; one that was closed is EBADF. ENOTRECOVERABLE on any call: the library has met a mistake of its own, and the handle can only
 * be closed. A struct of options begins with its size, and all zero stands for defaults.
 *
 * Made from the sources by tests/header. SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef NAPIER_H
#define NAPIER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern \"C\" {
#endif

struct epoll_event;
struct mmsghdr;
struct timespec;
";

const TAIL: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn header_path() -> PathBuf {
    root().join("include/napier.h")
}

/// What the sources of a part say.
fn items(sources: &[&str]) -> Vec<Item> {
    let text = |path: &&str| std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    sources.iter().flat_map(|path| read(&text(path))).collect()
}

fn header() -> String {
    let mut header = HEAD.to_owned();
    for (heading, page, sources) in PARTS {
        header += &format!("\n/* ---- {heading}: {page}(3) ---- */\n");
        items(sources).iter().for_each(|item| header += &item.declared());
    }
    header + TAIL
}

#[test]
fn the_header_is_what_the_sources_say() {
    let (made, path) = (header(), header_path());
    if std::env::var_os("NAPIER_UPDATE").is_some() {
        std::fs::write(&path, &made).expect("the header can be written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = there.lines().zip(made.lines()).find(|(there, made)| there != made);
    assert!(there == made, "the header differs from the sources: {differs:?}; NAPIER_UPDATE=1 writes it anew");
}

#[test]
fn every_function_of_the_sources_is_in_a_part() {
    let mut sources = Vec::new();
    for folder in ["src", "src/calls"] {
        let entries = std::fs::read_dir(root().join(folder)).expect("a folder").flatten();
        sources.extend(entries.map(|entry| format!("{folder}/{}", entry.file_name().to_string_lossy())));
    }
    for source in sources.iter().filter(|source| source.ends_with(".rs")) {
        let text = std::fs::read_to_string(root().join(source)).expect("a source");
        let exported = text.matches("#[unsafe(no_mangle)]").count();
        let functions = read(&text).iter().filter(|item| item.is_function()).count();
        assert_eq!(exported, functions, "{source}: functions that are exported, and those that were read");
        let listed = PARTS.iter().any(|(_, _, sources)| sources.contains(&source.as_str()));
        assert!(functions == 0 || listed, "{source} is in no part of the header");
    }
}

#[test]
fn every_function_says_which_threads_may_call_it() {
    for item in PARTS.iter().flat_map(|(_, _, sources)| items(sources)).filter(Item::is_function) {
        let text = item.declared();
        assert!(text.contains(" * Threads: "), "{}: no line of threads", item.name());
        let gives = text.contains(" * Gives ") || ["napier_version", "napier_last_error"].contains(&item.name());
        assert!(gives, "{}: not what it gives", item.name());
    }
}

/// cargo-c builds with a feature of this name, and refuses a crate that lacks it.
#[test]
fn the_manifest_has_what_cargo_c_asks_for() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let features = manifest.split("[features]").nth(1).expect("a table of features");
    assert!(features.lines().take_while(|line| !line.starts_with('[')).any(|line| line == "capi = []"), "{features}");
}
