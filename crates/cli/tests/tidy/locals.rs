//! Thread-locals of the product: each is on a list, with the reason why no parameter would do.

use std::collections::BTreeMap;

use crate::reader::{bracketed, defined};
use crate::sources::{product, root};

const LIST: &str = "crates/cli/tests/tidy/lists/locals.txt";
const HEAD: &str = "# Thread-locals, each with the reason why it is not a parameter. Written by hand; NAPIER_TIDY=write takes out what is gone.\n";

/// The thread-locals in a source.
fn locals(code: &str) -> Vec<String> {
    let blocks = code.match_indices("thread_local!").filter_map(|(at, _)| code[at..].find('{').map(|open| at + open));
    blocks.flat_map(|at| defined(&code[at..at + bracketed(&code[at..])], &["static"])).map(str::to_owned).collect()
}

/// What a list says: a path with a name, and the reason.
fn parse(list: &str) -> BTreeMap<String, String> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let split = |line: &str| line.split_once(": ").map(|(what, why)| (what.to_owned(), why.trim().to_owned()));
    lines.filter_map(split).filter(|(_, why)| !why.is_empty()).collect()
}

/// What is not on the list or has no reason there, and what of the list is gone.
fn differences(listed: &BTreeMap<String, String>, found: &[String]) -> Vec<String> {
    let new = found.iter().filter(|what| !listed.contains_key(*what)).map(|what| format!("no reason: {what}"));
    let gone = listed.keys().filter(|what| !found.contains(what)).map(|what| format!("gone: {what}"));
    new.chain(gone).collect()
}

#[test]
fn each_thread_local_has_a_reason() {
    let found: Vec<String> = product()
        .iter()
        .flat_map(|(path, code)| locals(code).into_iter().map(move |name| format!("{path} {name}")))
        .collect();
    let path = root().join(LIST);
    let mut listed = parse(&std::fs::read_to_string(&path).expect("the list"));
    if std::env::var_os("NAPIER_TIDY").is_some_and(|how| how == "write") {
        listed.retain(|what, _| found.contains(what));
        let lines = listed.iter().map(|(what, why)| format!("{what}: {why}\n"));
        std::fs::write(&path, HEAD.to_owned() + &lines.collect::<String>()).expect("the list is written");
    }
    assert_eq!(differences(&listed, &found), Vec::<String>::new(), "{}", path.display());
}

#[test]
fn a_thread_local_without_a_reason_would_be_found() {
    let text = "std::thread_local! {\n    /// Why.\n    static A: Cell<u8> = const { Cell::new(0) };\n    pub static B: u8 = 1;\n}\n\
        static NONE: u8 = 0;\n#[cfg(test)]\nmod tests {\n    thread_local! { static C: u8 = 0; }\n}";
    assert_eq!(locals(&crate::reader::code(text)), ["A", "B"]);
    let listed = parse("# head\nx.rs A: so that\nx.rs B: \nx.rs D: so that\n");
    let found = ["x.rs A", "x.rs B"].map(str::to_owned);
    assert_eq!(differences(&listed, &found), ["no reason: x.rs B", "gone: x.rs D"]);
}
