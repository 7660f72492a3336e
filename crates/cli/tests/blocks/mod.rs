//! Blocks of commands in the pages for readers, and what becomes of each.

use std::path::{Path, PathBuf};

/// What becomes of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It is run as it is written: `<!-- run -->` stands above it.
    Run,
    /// It is not, and `<!-- not run: REASON -->` stands above it.
    NotRun,
    /// Nothing is said.
    Unmarked,
}

/// A block of commands.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) page: String,
    /// Line of its fence, from 1.
    pub(crate) line: usize,
    pub(crate) fate: Fate,
    pub(crate) text: String,
}

/// Blocks without a mark of their own, by page and a word in them, and why they are not run.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", "cargo test --workspace", "minutes; .ci/run does both"),
    ("README.md", "apt-get install", "installs on this machine"),
    ("README.md", "sudo napier doctor", "needs root, an interface and a program"),
    ("README.md", "sudo napier trial", "needs root, an interface and a program"),
    ("README.md", "sudo napier run", "needs root, an interface and a program"),
    ("CONTRIBUTING.md", "cargo build --release", "minutes; .ci/run does it"),
    ("CONTRIBUTING.md", "cargo +nightly miri", "minutes; .ci/run does it"),
    ("docs/compare.md", "compare --backend sim", "needs root and a machine file"),
    ("docs/compare.md", "compare --over memif", "minutes, and root"),
    ("docs/compare.md", "redis-server", "minutes, and root"),
    ("docs/compare.md", "napier.secret", "needs root and a second machine"),
    ("docs/compare.md", "napier report", "minutes"),
    ("docs/metrics-kernel.md", "napier export", "a server that ends when it is told to"),
    ("docs/top.md", "napier top", "a live view, until it is told to end"),
    ("docs/groups.md", "group new fast", "needs a peer and CPUs 2 and 3; docs/howto/polling-group.md is run"),
    ("docs/json.md", "jq -r", "minutes"),
    ("deploy/plans.md", "deploy/", "needs other machines; crates/cli/tests/deploy.rs makes some"),
    ("deploy/prometheus/README.md", "prometheus", "servers that end when they are told to"),
    ("deploy/ansible/README.md", "ansible-playbook", "needs other machines; scripts/ansible-test makes some"),
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project's folder")
}

/// All pages for readers that may hold commands, and their texts.
pub(crate) fn pages() -> Vec<(String, String)> {
    let mut names = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    let mut folders = vec!["docs".to_owned(), "deploy".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).expect("a folder").map(|entry| entry.expect("an entry")) {
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            // Decisions tell what was done once.
            if entry.path().is_dir() && name != "docs/decisions" {
                folders.push(name);
            } else if name.ends_with(".md") {
                names.push(name);
            }
        }
    }
    names.sort();
    let read = |name: String| (name.clone(), std::fs::read_to_string(root().join(&name)).expect("a page"));
    names.into_iter().map(read).collect()
}

/// The blocks of shell commands of a page.
pub(crate) fn blocks_of(page: &str, text: &str) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().collect();
    let starts = lines.iter().enumerate().filter(|(_, line)| line.trim_start() == "```sh").map(|(at, _)| at);
    let block = |at: usize| {
        let body: Vec<&str> =
            lines[at + 1..].iter().take_while(|line| !line.trim_start().starts_with("```")).copied().collect();
        let body = body.join("\n");
        let above = if at == 0 { "" } else { lines[at - 1].trim() };
        let why = above.strip_prefix("<!-- not run: ").and_then(|rest| rest.strip_suffix("-->"));
        let listed = NOT_RUN.iter().any(|(where_, word, _)| *where_ == page && body.contains(word));
        let fate = match (above, why) {
            ("<!-- run -->", _) => Fate::Run,
            (_, Some(why)) if !why.trim().is_empty() => Fate::NotRun,
            _ if listed => Fate::NotRun,
            _ => Fate::Unmarked,
        };
        Block { page: page.to_owned(), line: at + 1, fate, text: body }
    };
    starts.map(block).collect()
}

#[test]
fn marks_are_understood() {
    let page = "<!-- run -->\n```sh\na\n```\n<!-- not run: root -->\n```sh\nb\n```\n<!-- not run: -->\n```sh\nc\n```\n\n```sh\nd\n```\n";
    let fates: Vec<Fate> = blocks_of("docs/x.md", page).into_iter().map(|block| block.fate).collect();
    assert_eq!(fates, [Fate::Run, Fate::NotRun, Fate::Unmarked, Fate::Unmarked]);
}

#[test]
fn what_is_listed_is_there() {
    let pages = pages();
    for (page, word, _) in NOT_RUN {
        let text = pages.iter().find(|(name, _)| name == page).map(|(_, text)| text.as_str()).unwrap_or_default();
        let found = blocks_of(page, text).iter().any(|block| block.text.contains(word));
        assert!(found, "{page} has no block with {word:?}: take it off the list");
    }
}
