//! Types: how far their methods are spread, how many share a name, and which have no page though the interface names them.

use std::collections::{BTreeMap, BTreeSet};

use crate::reader::{bracketed, defined, names};
use crate::sources::product;
use crate::{Found, check};

const FILES_MAX: usize = 6;
const OF_ONE_NAME_MAX: usize = 3;

/// Crate and code of each source that is not for tests.
fn sources() -> Vec<(String, String)> {
    let name = |path: &str| path.split('/').nth(1).expect("a crate").to_owned();
    product().iter().map(|(path, code)| (name(path), code.clone())).collect()
}

/// Skips what `<` opens at the head.
fn after_generics(code: &str) -> &str {
    let code = code.trim_start();
    if !code.starts_with('<') {
        return code;
    }
    let mut depth = 0_i32;
    for (at, c) in code.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if !code[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &code[at + 1..];
        }
    }
    ""
}

/// Where implementations begin, and the type if it is not one of a trait.
fn implementations(code: &str) -> Vec<(usize, &str, bool)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("impl") {
        let begins = at == 0 || code[..at].ends_with('\n') || code[..at].ends_with("    ");
        let head = after_generics(&code[at + 4..]);
        let head = head.split('{').next().unwrap_or("");
        if !begins || !code[at + 4..].starts_with([' ', '<']) {
            continue;
        }
        let (is_trait, of) = head.split_once(" for ").map_or((false, head), |(_, of)| (true, of));
        let path = of.split('<').next().unwrap_or("").trim().trim_start_matches('&');
        if let Some((_, name)) = names(path).last() {
            found.push((at, name, !is_trait));
        }
    }
    found
}

/// Crate and type -> number of files with methods of its own.
fn spread(sources: &[(String, String)]) -> Found {
    let mut found = Found::new();
    for (name, code) in sources {
        let own: BTreeSet<&str> =
            implementations(code).into_iter().filter(|(_, _, own)| *own).map(|(_, of, _)| of).collect();
        for of in own {
            *found.entry(format!("{name} {of}")).or_default() += 1;
        }
    }
    found.retain(|_, files| *files > FILES_MAX);
    found
}

/// Name -> number of types that have it.
fn of_one_name(sources: &[(String, String)]) -> Found {
    let mut found = Found::new();
    for (_, code) in sources {
        for name in defined(code, &["struct", "enum", "union", "trait"]) {
            *found.entry(name.to_owned()).or_default() += 1;
        }
    }
    found.retain(|_, types| *types > OF_ONE_NAME_MAX);
    found
}

const HIDDEN: &str = "#[doc(hidden)]";
/// A re-export that has a page whatever is hidden before.
const INLINE: &str = "#[doc(inline)]";

/// The types under an attribute, where a source defines or re-exports them.
fn under<'a>(code: &'a str, attribute: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(attribute) {
        let mut item = code[at + attribute.len()..].trim_start();
        while item.starts_with("#[") {
            item = item[1 + bracketed(&item[1..])..].trim_start();
        }
        let item = &item[..item.find(['{', ';']).map_or(item.len(), |end| end + bracketed(&item[end..]))];
        let words: Vec<&str> = names(item).map(|(_, name)| name).collect();
        match words.as_slice() {
            ["pub", "use", of @ ..] => {
                found.extend(of.iter().copied().filter(|name| name.starts_with(char::is_uppercase)));
            }
            ["pub", "struct" | "enum" | "union" | "trait", name, ..] => found.push(*name),
            _ => {}
        }
    }
    found
}

/// The types that public methods and public fields of a source name, but for those of the types `unseen`.
fn named<'a>(code: &'a str, unseen: &BTreeSet<&str>) -> BTreeSet<&'a str> {
    let mut owners: Vec<(usize, &str)> = implementations(code).into_iter().map(|(at, of, _)| (at, of)).collect();
    let words: Vec<(usize, &str)> = names(code).collect();
    owners.extend(words.windows(2).filter(|pair| pair[0].1 == "struct").map(|pair| pair[1]));
    owners.sort_unstable();
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("pub ") {
        let of = owners.iter().rfind(|(begin, _)| *begin < at).map_or("", |(_, of)| of);
        let attributes = code[..at].rsplit([';', '}', '{', ',']).next().unwrap_or("");
        if unseen.contains(of) || attributes.contains(HIDDEN) {
            continue;
        }
        let item = &code[at + 4..];
        let words: Vec<&str> = names(item).map(|(_, name)| name).take(3).collect();
        let end = match words.as_slice() {
            [.., "fn"] | ["fn", ..] | [_, "fn", ..] => item.find(['{', ';']),
            [field, ..] if item[field.len()..].starts_with(": ") => item.find([',', '\n']),
            _ => continue,
        };
        found.extend(names(&item[..end.unwrap_or(item.len())]).map(|(_, name)| name));
    }
    found
}

/// Crate and type of what is hidden and yet named by the interface.
fn without_page(sources: &[(String, String)]) -> Found {
    let mut by_crate: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, code) in sources {
        by_crate.entry(name).or_default().push(code);
    }
    let mut found = Found::new();
    for (name, codes) in by_crate {
        let under = |attribute| codes.iter().flat_map(move |code| under(code, attribute)).collect::<BTreeSet<&str>>();
        let hidden = &under(HIDDEN) - &under(INLINE);
        // What a hidden type names counts once that type is named itself.
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        loop {
            let named: BTreeSet<&str> = codes.iter().flat_map(|code| named(code, &(&hidden - &seen))).collect();
            let named = &named & &hidden;
            if named == seen {
                break;
            }
            seen = named;
        }
        found.extend(seen.into_iter().map(|of| (format!("{name} {of}"), 1)));
    }
    found
}

#[test]
fn methods_stand_together() {
    check("spread.txt", "Types whose methods stand in more than 6 files, and in how many.", &spread(&sources()));
}

#[test]
fn names_are_of_few_types() {
    check("names.txt", "Names that more than 3 types have, and how many have them.", &of_one_name(&sources()));
}

#[test]
fn what_the_interface_names_has_a_page() {
    check("hidden.txt", "Types that a public method or field names, and that are hidden.", &without_page(&sources()));
}

#[test]
fn a_type_that_is_spread_would_be_found() {
    let file = |text: &str| ("a".to_owned(), crate::reader::code(text));
    let mut files = vec![file("impl<T: Into<X>> Show for Wide<T> {}\nimpl Small {}\nimpl fmt::Debug for Small {}")];
    files.extend((0..6).map(|_| file("impl<'a, F: Fn() -> T> super::Wide<'a> {\n    fn f() -> impl Iterator {}\n}")));
    assert_eq!(spread(&files), Found::new());
    files.push(file("impl Wide<()> {}\nimpl Wide<u8> {}"));
    assert_eq!(spread(&files), crate::parse("a Wide 7"));
}

#[test]
fn a_name_of_many_types_would_be_found() {
    let files: Vec<_> =
        ["struct Place;", "pub enum Place { A }", "trait Place {}", "struct Placed;\nstruct Place(u8);"]
            .map(|text| ("a".to_owned(), crate::reader::code(text)))
            .into();
    assert_eq!((of_one_name(&files), of_one_name(&files[1..])), (crate::parse("Place 4"), Found::new()));
}

#[test]
fn a_type_without_a_page_would_be_found() {
    let hides = "#[doc(hidden)]\npub use inner::{Gone, Used, Field, Shown};\n#[doc(hidden)]\n#[derive(Debug)]\npub struct Bare {\n    \
        pub a: Gone,\n}\nimpl Bare {\n    pub fn of(x: Gone) {}\n}";
    let uses = "impl Engine {\n    #[doc(hidden)]\n    pub fn none(&self) -> Gone {}\n    pub const fn\n    f(&self) -> \
        Vec<Used> {}\n    fn own() -> Gone {}\n}\npub struct S {\n    pub it: Option<Field>,\n    gone: Gone,\n}";
    let shows = "pub mod page {\n    #[doc(inline)]\n    pub use crate::{Shown, B};\n}\nimpl B {\n    pub fn f(&self) -> Shown {}\n}";
    let files = [hides, uses, shows].map(|text| ("a".to_owned(), crate::reader::code(text)));
    assert_eq!(without_page(&files), crate::parse("a Field 1\na Used 1"));
}
