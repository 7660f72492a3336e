//! The commands in README and docs are commands: each is understood as it is written there.

use std::path::Path;
use std::process::{Command, Stdio};

const PAGES: [&str; 16] = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/advise.md",
    "docs/bench.md",
    "docs/compare.md",
    "docs/conformance-kernel.md",
    "docs/figures.md",
    "docs/host.md",
    "docs/json.md",
    "docs/mutants.md",
    "docs/plans.md",
    "docs/programs.md",
    "docs/run.md",
    "docs/scenarios.md",
    "docs/transmit.md",
    "docs/vocabulary.md",
];

/// Words of a line of a shell, without its comment; operators are words of their own.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.push(c),
            None if c == '\'' || c == '"' => (quote, begun) = (Some(c), true),
            None if c.is_whitespace() => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            None if c == '#' && !begun => break,
            None => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

/// The arguments of each call of `napier` on a line.
fn calls(line: &str) -> Vec<Vec<String>> {
    let words = words(line);
    let simple = words.split(|word| ["&&", "|", "&", ";"].contains(&word.as_str()));
    simple
        .filter_map(|command| {
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            let rest = match &command[..] {
                ["sudo", "napier", rest @ ..] | ["napier", rest @ ..] => rest,
                ["cargo", "run", "--release", "--", rest @ ..] => rest,
                _ => return None,
            };
            let end = rest.iter().position(|word| word.starts_with('>')).unwrap_or(rest.len());
            Some(rest[..end].iter().map(|word| (*word).to_owned()).collect())
        })
        .collect()
}

/// The calls in the blocks of shell commands and in the code of the running text.
fn calls_of_page(page: &str) -> Vec<Vec<String>> {
    let (mut found, mut fence) = (Vec::new(), None);
    for line in page.lines() {
        match (line.strip_prefix("```"), fence) {
            (Some(language), None) => fence = Some(language == "sh"),
            (Some(_), Some(_)) => fence = None,
            (None, Some(true)) => found.extend(calls(line)),
            (None, Some(false)) => {}
            (None, None) => found.extend(line.split('`').skip(1).step_by(2).flat_map(calls)),
        }
    }
    found
}

#[test]
fn every_command_of_the_pages_is_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for page in PAGES {
        let text = std::fs::read_to_string(root.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        for call in calls_of_page(&text) {
            // Names of groups of commands, and of families: `napier bench xdp-*`.
            if call.is_empty() || call.iter().any(|word| word.contains(['*', '…', '|'])) {
                continue;
            }
            count += 1;
            // With --help nothing is begun, but what stands before it has to be right.
            let mut command = Command::new(env!("CARGO_BIN_EXE_napier"));
            // What stands behind `--` is another program's.
            let (own, _) = call.split_at(call.iter().position(|word| word == "--").unwrap_or(call.len()));
            let output = command.args(own).arg("--help").stdin(Stdio::null()).output().expect("napier starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{page}: napier {}: {said}", call.join(" "));
        }
    }
    assert!(count > 30, "{count} commands were found");
}

#[test]
fn a_command_that_is_none_would_be_found() {
    let page = "a `napier bogus` and\n```sh\nsudo napier compare --modus 'a b' | jq .  # really\n```\n";
    assert_eq!(calls_of_page(page), [vec!["bogus"], vec!["compare", "--modus", "a b"]]);
    for wrong in
        [&["bogus", "--help"][..], &["compare", "--modus", "a b", "--help"], &["compare", "--runs", "x", "--help"]]
    {
        let status = Command::new(env!("CARGO_BIN_EXE_napier")).args(wrong).output().expect("napier starts").status;
        assert_eq!(status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn the_example_in_rust_is_that_of_the_library_which_is_compiled_and_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (readme, library) = (read("README.md"), read("crates/runtime/src/lib.rs"));
    let example = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let head: String = library
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .fold(String::new(), |text, line| text + line.strip_prefix(' ').unwrap_or(line) + "\n");
    assert!(head.contains(example), "the example of README is not that of crates/runtime/src/lib.rs");
}
