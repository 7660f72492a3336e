//! Which modules of a crate form a circle, and which of the engine's and of the stack's uses which.
//!
//! A circle is a list of modules each of which cannot be understood, tested or moved without all others. None is
//! allowed among the modules of a crate, and within a folder none of three or more.

use std::collections::BTreeMap;

use crate::modules::{Modules, in_circles};
use crate::reader::code;
use crate::sources::product;
use crate::{Found, check};

/// Crates whose arrows stand on a list: where a new one is a question for review.
const LISTED: [&str; 2] = ["runtime", "stack"];

/// Crate -> the code of its sources, by their paths below `src`.
fn crates() -> BTreeMap<String, Vec<(String, String)>> {
    let mut crates: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (path, code) in product() {
        let parts = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
        let Some((name, file)) = parts else { continue };
        crates.entry(name.to_owned()).or_default().push((file.to_owned(), code.clone()));
    }
    crates
}

/// The modules of a crate that are in circles, with the folder that they are in and the size of the circle.
fn circles(name: &str, modules: &Modules) -> Found {
    let mut found = Found::new();
    for folder in modules.folders() {
        let least = if folder.is_empty() { 2 } else { 3 };
        let circles = in_circles(&modules.arrows(&folder)).into_iter().filter(|(_, size)| *size >= least);
        let folder = [&[name.to_owned()], folder.as_slice()].concat().join("/");
        found.extend(circles.map(|(module, size)| (format!("{folder}: {module}"), size)));
    }
    found
}

#[test]
fn circles_are_those_of_the_list() {
    let crates = crates();
    assert!(crates.len() > 10 && crates["runtime"].len() > 50, "the sources are there");
    let mut found = Found::new();
    for (name, files) in &crates {
        found.extend(circles(name, &Modules::of(files)));
    }
    check("circles.txt", "Modules in circles by crate and folder, and how many are in the circle.", &found);
}

#[test]
fn arrows_are_those_of_the_list() {
    let crates = crates();
    let mut found = Found::new();
    for name in LISTED {
        let arrows = Modules::of(&crates[name]).arrows(&Vec::new());
        let pairs = arrows.iter().flat_map(|(from, used)| used.iter().map(move |to| format!("{name}: {from} -> {to}")));
        found.extend(pairs.map(|line| (line, 1)));
    }
    check("arrows.txt", "Which module of a crate uses which.", &found);
}

fn file(path: &str, text: &str) -> (String, String) {
    (path.to_owned(), code(text))
}

#[test]
fn arrows_and_circles_are_found() {
    let files = [
        file("a/mod.rs", "use crate::{\n    b::{X, c::Y},\n    Z,\n};\npub struct Own;"),
        file("a/deep.rs", "// crate::e\nfn f() { super::super::d::g(\"crate::e\") }"),
        file("b.rs", "pub(crate) use super::c::Y;"),
        file("c.rs", "fn f(x: &crate::Named) {}\n#[cfg(test)]\nmod tests {\n    use crate::d::X;\n}"),
        file("d.rs", "pub struct Z;"),
        file("e.rs", "use crate::b::Y;"),
        file("lib.rs", "pub use d::Z;\npub use a::Own as Named;"),
    ];
    let modules = Modules::of(&files);
    let arrows = modules.arrows(&Vec::new());
    let used = |from: &str| arrows[from].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!((used("a"), used("b"), used("c"), used("d")), (vec!["b", "d"], vec!["c"], vec!["a"], vec![]));
    // By way of `b`, which only hands it on.
    assert_eq!(used("e"), ["c"]);
    assert_eq!(circles("x", &modules), crate::parse("x: a 3\nx: b 3\nx: c 3"));
}

#[test]
fn a_circle_in_a_folder_would_be_found() {
    let folder = |last: &str| {
        [
            file("lib.rs", "mod f;"),
            file("f/mod.rs", "mod a;\nmod b;\nmod c;\nuse b::B;\npub use c::*;"),
            file("f/a.rs", "use super::B;"),
            file("f/b/mod.rs", "mod inner;\npub struct B;"),
            file("f/b/inner.rs", "use super::super::C;"),
            file("f/c.rs", last),
        ]
    };
    let circle = Modules::of(&folder("pub struct C(super::a::A);"));
    assert_eq!(circles("x", &circle), crate::parse("x/f: a 3\nx/f: b 3\nx/f: c 3"));
    let two = Modules::of(&folder("pub struct C(super::b::B);"));
    assert_eq!(circles("x", &two), Found::new());
}
