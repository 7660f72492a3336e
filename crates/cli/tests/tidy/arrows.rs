//! Which module of the engine uses which, and which of them form a circle.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{code, is_test, rust_files};
use crate::{Found, check};

const FOLDER: &str = "crates/runtime/src/";

/// Module -> modules that it uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The names that follow `prefix` in the code: the first part of a path, or all of a group in braces.
fn names_after(code: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let after = &code[at + prefix.len()..];
        let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        let Some(group) = after.strip_prefix('{') else {
            names.push(name(after));
            continue;
        };
        let (mut depth, mut begins) = (0, true);
        for (at, c) in group.char_indices() {
            match c {
                '}' if depth == 0 => break,
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                c if begins && !c.is_whitespace() => {
                    names.push(name(&group[at..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    names
}

/// The arrows of files, which are paths below the folder of sources with their text.
fn arrows(files: &[(String, String)]) -> Arrows {
    let top = |path: &str| path.split('/').next().expect("a part").trim_end_matches(".rs").to_owned();
    let modules: BTreeSet<String> = files.iter().map(|(path, _)| top(path)).collect();
    let mut arrows = Arrows::new();
    for (path, text) in files {
        let (from, code) = (top(path), code(text));
        // As many times `super` as the file is deep is the root of the crate; more would be a module within the file.
        let depth = path.trim_end_matches("/mod.rs").split('/').count();
        let climb = "super::".repeat(depth);
        let mut names = names_after(&code, "crate::");
        names.extend(names_after(&code, &climb));
        // What lib.rs names is its own business: it exports all.
        let used = names.into_iter().map(|name| if modules.contains(&name) { name } else { "lib".to_owned() });
        let used: BTreeSet<String> = used.filter(|to| *to != from).collect();
        if from != "lib" {
            arrows.entry(from).or_default().extend(used);
        }
    }
    arrows
}

/// What can be reached from a module, itself only by a circle.
fn reached<'a>(arrows: &'a Arrows, from: &'a str) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for to in arrows.get(module).into_iter().flatten() {
            if reached.insert(to.as_str()) {
                open.push(to);
            }
        }
    }
    reached
}

/// The modules that use themselves by way of others.
fn in_circles(arrows: &Arrows) -> Vec<String> {
    let modules = arrows.keys().filter(|module| reached(arrows, module).contains(module.as_str()));
    modules.cloned().collect()
}

#[test]
fn the_arrows_of_the_engine_are_those_of_the_list() {
    let below = |(path, text): (String, String)| path.strip_prefix(FOLDER).map(|path| (path.to_owned(), text));
    let files: Vec<_> = rust_files().into_iter().filter(|(path, _)| !is_test(path)).filter_map(below).collect();
    assert!(files.len() > 50, "the sources are there");
    let arrows = arrows(&files);
    let pairs = arrows.iter().flat_map(|(from, used)| used.iter().map(move |to| format!("{from} -> {to}")));
    let circle = in_circles(&arrows).into_iter().map(|module| format!("in a circle: {module}"));
    let found: Found = pairs.chain(circle).map(|line| (line, 1)).collect();
    check("arrows.txt", "Which module of runtime uses which, and which form a circle.", &found);
}

#[test]
fn arrows_and_circles_are_found() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let files = [
        file("a/mod.rs", "use crate::{\n    b::{X, c::Y},\n    Z,\n};"),
        file("a/deep.rs", "// crate::d\nfn f() { super::super::d::g() }"),
        file("b.rs", "pub(crate) use super::c::Y;"),
        file("c.rs", "fn f(x: &crate::a::X) {}\n#[cfg(test)]\nmod tests {\n    use crate::d::X;\n}"),
        file("d.rs", ""),
        file("lib.rs", "pub use d::X;"),
    ];
    let arrows = arrows(&files);
    let used = |from: &str| arrows[from].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!((used("a"), used("b"), used("c")), (vec!["b", "d", "lib"], vec!["c"], vec!["a"]));
    assert_eq!(in_circles(&arrows), ["a", "b", "c"]);
}
