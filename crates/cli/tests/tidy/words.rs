//! Words that no reader shall meet: those of the table in CONTRIBUTING, under "Words".

use std::fs;

use crate::reader::{Kind, pieces};
use crate::sources::{is_test, root, rust_files, tree};
use crate::{Found, check};

/// The words of the table's second column. What has a remark in brackets needs an eye that knows the meaning.
fn banned(contributing: &str) -> Vec<String> {
    let rows = contributing.lines().skip_while(|line| *line != "| write | not |").skip(2);
    let cells = rows.take_while(|line| line.starts_with('|')).filter_map(|line| line.split('|').nth(2));
    let words = cells.flat_map(|cell| cell.split(',')).filter(|word| !word.contains(['(', ')', '`']));
    words.map(|word| word.trim().to_lowercase()).collect()
}

/// How often the words stand in a text, as whole words, whatever line they are broken over. Names of files, and what is in
/// code font, are words of their own.
fn count(text: &str, banned: &[String]) -> usize {
    let letters =
        |c: char| if c.is_alphanumeric() || ['_', '-', '`'].contains(&c) { c.to_ascii_lowercase() } else { ' ' };
    // The user of that name, whom the system has.
    let text = text.replace("-u nobody", "");
    let plain: Vec<String> = text.chars().map(letters).collect::<String>().split(' ').map(str::to_owned).collect();
    let plain = plain.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let plain = format!(" {} ", plain.replace(' ', "  "));
    banned.iter().map(|word| plain.matches(&format!(" {} ", word.replace(' ', "  "))).count()).sum()
}

/// What a source says to readers: its documentation and its texts.
fn said(source: &str) -> String {
    let kinds = [Kind::Doc, Kind::Text];
    pieces(source).into_iter().filter(|(kind, _)| kinds.contains(kind)).map(|(_, text)| format!("{text}\n")).collect()
}

/// The part of the list of changes that is not released yet: what was said is said.
fn unreleased(changes: &str) -> &str {
    let begin = changes.find("\n## Unreleased").unwrap_or(changes.len());
    let end = changes[begin..].match_indices("\n## ").nth(1).map_or(changes.len(), |(at, _)| begin + at);
    &changes[begin..end]
}

/// Pages, and files that a user writes, reads and changes.
fn is_read(path: &str) -> bool {
    let page = path.ends_with(".md") && !path.starts_with("docs/decisions/") && path != "CONTRIBUTING.md";
    let folders = ["lab/", "plans/", "scenarios/", "conformance/", "deploy/"];
    page || path.ends_with(".toml") && folders.iter().any(|folder| path.starts_with(folder))
}

#[test]
fn readers_meet_plain_words() {
    let banned = banned(&fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING"));
    assert!(banned.len() > 10, "{banned:?}");
    let mut found = Found::new();
    for path in tree().into_iter().filter(|path| is_read(path)) {
        let text = fs::read_to_string(root().join(&path)).expect("a page");
        let text = if path == "CHANGELOG.md" { unreleased(&text) } else { &text };
        found.insert(path, count(text, &banned));
    }
    let sources = rust_files().into_iter().filter(|(path, _)| !is_test(path) && path.contains("/src/"));
    found.extend(sources.map(|(path, source)| (path, count(&said(&source), &banned))));
    found.retain(|_, count| *count > 0);
    check("words.txt", "Files that say words of CONTRIBUTING's table, and how often.", &found);
}

#[test]
fn a_word_of_the_table_would_be_found() {
    let table = "## Words\n\n| write | not |\n|---|---|\n| no thread | nobody, he (for threads) |\n| waits | comes by |\n\nnone, here\n";
    let banned = banned(table);
    assert_eq!(banned, ["nobody", "comes by"]);
    let source = "//! Nobody comes\n//! by: 13c-nobody, `nobody`.\nfn nobody() {} // nobody\nconst A: &str = \"nobody nobody -u nobody\";\n";
    assert_eq!(count(&said(source), &banned), 4);
    let changes = "# Changes\n\n## Unreleased\n\nNobody.\n\n## 0.1\n\nNobody.\n";
    assert_eq!(count(unreleased(changes), &banned), 1);
}
