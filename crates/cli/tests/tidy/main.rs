//! What review would forget: the sizes of files and functions, circles among modules, types that are spread or share a
//! name or have no page, thread-locals, who reads a clock, words that readers shall not meet, whether the paths that the
//! documentation names exist, the index of decisions, what a package says of itself, whether the container files copy
//! what is there, and how long pages say that something takes.
//!
//! What is there today and should not be stands in the lists of `tests/tidy/lists/`. A list may only shrink: what is
//! not on it, or larger than there, fails, and so does an entry that is not needed any more. After a move, or when something
//! was mended, write them anew, and look at the difference:
//!
//! ```sh
//! NAPIER_TIDY=write cargo test -p napier --test tidy
//! ```

mod arrows;
mod claims;
mod clocks;
mod images;
mod locals;
mod modules;
mod packages;
mod paths;
mod reader;
mod sizes;
mod sources;
mod types;
mod words;

use std::collections::BTreeMap;

use sources::root;

/// What a list names, and how much of it there is: lines, or 1.
type Found = BTreeMap<String, usize>;

/// What of `found` is not on the list or larger there, and what of the list is gone.
fn differences(listed: &Found, found: &Found) -> Vec<String> {
    let mut wrong = Vec::new();
    for (what, size) in found {
        match listed.get(what) {
            None => wrong.push(format!("new: {what} {size}")),
            Some(listed) if size > listed => wrong.push(format!("larger: {what} {size}, was {listed}")),
            Some(_) => {}
        }
    }
    let gone = listed.keys().filter(|what| !found.contains_key(*what));
    wrong.extend(gone.map(|what| format!("gone, write the list anew: {what}")));
    wrong
}

/// One entry a line, the number at the end; `#` begins a comment.
fn parse(list: &str) -> Found {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (what, size) = line.rsplit_once(' ').expect("an entry and a number");
            (what.to_owned(), size.parse().expect("a number"))
        })
        .collect()
}

/// Fails if `found` is not what the list says, or writes the list.
fn check(name: &str, head: &str, found: &Found) {
    let path = root().join("crates/cli/tests/tidy/lists").join(name);
    if std::env::var_os("NAPIER_TIDY").is_some_and(|how| how == "write") {
        let entries = found.iter().map(|(what, size)| format!("{what} {size}\n"));
        std::fs::write(&path, format!("# {head}\n{}", entries.collect::<String>())).expect("the list is written");
        return;
    }
    let list = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let wrong = differences(&parse(&list), found);
    assert!(wrong.is_empty(), "{}: {head}\n{}", path.display(), wrong.join("\n"));
}

#[test]
fn a_list_only_shrinks() {
    let listed = parse("# head\na b 3\nc 5\nd 1\n");
    let found = parse("a b 4\nc 4\ne 1\n");
    let wrong = ["larger: a b 4, was 3", "new: e 1", "gone, write the list anew: d"];
    assert_eq!(differences(&listed, &found), wrong);
    assert_eq!(differences(&listed, &listed), Vec::<String>::new());
}
