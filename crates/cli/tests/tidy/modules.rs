//! The modules of a crate, and which uses which: paths are followed through what a module re-exports.

use std::collections::{BTreeMap, BTreeSet};

use crate::reader::{bracketed, defined, names};

/// A module by its path below the root of its crate, which is empty.
pub(crate) type Path = Vec<String>;

/// What a module says of others.
#[derive(Default)]
struct Module {
    /// Paths in its code, from the root of the crate.
    paths: Vec<Path>,
    /// Names that it has by `use`, and what they are.
    has: BTreeMap<String, Path>,
    /// Modules of which it takes all.
    globs: Vec<Path>,
    defines: BTreeSet<String>,
}

/// The modules of one crate.
pub(crate) struct Modules(BTreeMap<Path, Module>);

/// Module -> modules that it uses.
pub(crate) type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The module that a file below `src` is.
fn module_of(file: &str) -> Path {
    let mut path: Path = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if ["mod", "lib", "main"].contains(&path.last().expect("a name").as_str()) {
        path.pop();
    }
    path
}

/// The paths of a `use`: `a::{b, c as d}` is `a::b` by the name `b`, and `a::c` by the name `d`.
fn use_tree(tree: &str, before: &Path, found: &mut Vec<(String, Path)>) {
    let tree = tree.trim();
    if let Some(group) = tree.strip_prefix('{') {
        let mut rest = group.strip_suffix('}').unwrap_or(group);
        while !rest.trim().is_empty() {
            let mut at = 0;
            while let Some(c) = rest[at..].chars().next().filter(|c| *c != ',') {
                at += if c == '{' { bracketed(&rest[at..]) } else { c.len_utf8() };
            }
            use_tree(&rest[..at], before, found);
            rest = rest.get(at + 1..).unwrap_or("");
        }
        return;
    }
    let mut path = before.clone();
    if let Some((first, rest)) = tree.split_once("::") {
        path.push(first.trim().to_owned());
        return use_tree(rest, &path, found);
    }
    let (name, by) = tree.split_once(" as ").unwrap_or((tree, tree));
    if name.trim() != "self" {
        path.push(name.trim().to_owned());
    }
    let by = if by.trim() == "self" { path.last().cloned().unwrap_or_default() } else { by.trim().to_owned() };
    found.push((by, path));
}

/// A path from the root of the crate, if it leads into the crate.
fn absolute(from: &Path, path: &[String], known: &BTreeSet<Path>) -> Option<Path> {
    let join = |base: &[String], rest: &[String]| [base, rest].concat();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some(join(from, &path[1..])),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            Some(join(&from[..from.len().checked_sub(ups)?], &path[ups..]))
        }
        _ => known.contains(&join(from, &path[..1])).then(|| join(from, path)),
    }
}

/// The chains `a::b::c` in code.
fn chains(code: &str) -> Vec<Path> {
    let mut chains: Vec<Path> = Vec::new();
    let mut end = 0;
    for (at, name) in names(code) {
        match &code[end..at] {
            "::" if !chains.is_empty() => chains.last_mut().expect("one").push(name.to_owned()),
            _ => chains.push(vec![name.to_owned()]),
        }
        end = at + name.len();
    }
    chains.retain(|chain| chain.len() > 1);
    chains
}

/// Where the next `use` of paths begins; that of a type's lifetimes has a bracket.
fn use_in(code: &str) -> Option<usize> {
    let spaced = |at: usize| code[at + 3..].starts_with(char::is_whitespace);
    names(code).find(|(at, name)| *name == "use" && spaced(*at)).map(|(at, _)| at)
}

impl Module {
    fn read(at: &Path, code: &str, known: &BTreeSet<Path>) -> Module {
        let mut code = code.to_owned();
        let mut module = Module::default();
        let mut begin = 0;
        while let Some(here) = use_in(&code[begin..]) {
            let here = begin + here;
            let Some(end) = code[here..].find(';').map(|length| here + length) else { break };
            let mut found = Vec::new();
            use_tree(&code[here + 3..end], &Vec::new(), &mut found);
            for (name, path) in found {
                let Some(path) = absolute(at, &path, known) else { continue };
                match name.as_str() {
                    "*" => module.globs.push(path[..path.len() - 1].to_vec()),
                    _ => drop(module.has.insert(name, path.clone())),
                }
                module.paths.push(path);
            }
            code.replace_range(here..end, "");
            begin = here;
        }
        module.paths.extend(chains(&code).iter().filter_map(|chain| absolute(at, chain, known)));
        let keywords = ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "macro_rules"];
        module.defines = defined(&code, &keywords).into_iter().map(str::to_owned).collect();
        module
    }
}

impl Modules {
    /// The modules of files, which are paths below the folder of sources with their code.
    pub(crate) fn of(files: &[(String, String)]) -> Modules {
        let known: BTreeSet<Path> = files.iter().map(|(file, _)| module_of(file)).collect();
        let read = |(file, code): &(String, String)| {
            let path = module_of(file);
            let module = Module::read(&path, code, &known);
            (path, module)
        };
        Modules(files.iter().map(read).collect())
    }

    /// The module that a path leads to, by way of what modules on it re-export.
    fn resolve(&self, path: &[String], hops: usize) -> Path {
        let length = (0..=path.len()).rev().find(|length| self.0.contains_key(&path[..*length])).unwrap_or(0);
        let (at, rest) = path.split_at(length);
        let (Some(module), Some(name)) = (self.0.get(at), rest.first()) else { return at.to_vec() };
        if hops == 0 || module.defines.contains(name) {
            return at.to_vec();
        }
        if let Some(what) = module.has.get(name) {
            return self.resolve(&[what.as_slice(), &rest[1..]].concat(), hops - 1);
        }
        let defines = |glob: &&Path| self.0.get(*glob).is_some_and(|module| module.defines.contains(name));
        module.globs.iter().find(defines).cloned().unwrap_or_else(|| at.to_vec())
    }

    /// The folders, which are modules that have others in them; the root first.
    pub(crate) fn folders(&self) -> BTreeSet<Path> {
        self.0.keys().filter(|path| !path.is_empty()).map(|path| path[..path.len() - 1].to_vec()).collect()
    }

    /// The arrows between the modules right below a folder: what is deeper counts as the one that it is in.
    pub(crate) fn arrows(&self, folder: &Path) -> Arrows {
        let child = |path: &Path| path.strip_prefix(folder.as_slice()).and_then(|rest| rest.first().cloned());
        let mut arrows = Arrows::new();
        for (from, module) in &self.0 {
            let Some(child_from) = child(from) else { continue };
            let used = module.paths.iter().map(|path| self.resolve(path, 8)).filter_map(|to| child(&to));
            let used: Vec<String> = used.filter(|to| *to != child_from).collect();
            arrows.entry(child_from).or_default().extend(used);
        }
        arrows
    }
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

/// The modules that use themselves by way of others, each with the number of modules in its circle.
pub(crate) fn in_circles(arrows: &Arrows) -> BTreeMap<String, usize> {
    let circle = |module: &String| {
        let back = |other: &&&str| reached(arrows, other).contains(module.as_str());
        reached(arrows, module).iter().filter(back).count()
    };
    arrows.keys().map(|module| (module.clone(), circle(module))).filter(|(_, size)| *size > 1).collect()
}
