//! Files of at most 400 lines, functions of at most 70.

use crate::sources::rust_files;
use crate::{Found, check};

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;

/// The name of the function that begins on this line.
fn begins(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let name = loop {
        match words.next()? {
            "fn" => break words.next()?,
            "pub" | "pub(crate)" | "pub(super)" | "const" | "async" | "unsafe" | "extern" | "\"C\"" => {}
            _ => return None,
        }
    };
    name.split(['(', '<']).next()
}

/// Functions that are too long, as the formatter sets them: to the brace below their first letter.
fn long_functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = begins(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        let closes = |line: &&str| {
            line.starts_with(indent) && (**line == end || line[indent.len()..].starts_with(')') && line.ends_with(';'))
        };
        if line.ends_with([';', '}']) {
            continue;
        }
        let length = lines[at..].iter().position(closes).map_or(1, |last| last + 1);
        if length > FUNCTION_LINES_MAX {
            found.push((name.to_owned(), length));
        }
    }
    found
}

#[test]
fn no_file_is_too_long() {
    let sizes = rust_files().into_iter().map(|(path, text)| (path, text.lines().count()));
    let found: Found = sizes.filter(|(_, lines)| *lines > FILE_LINES_MAX).collect();
    check("files.txt", "Files of more than 400 lines, and how many they have.", &found);
}

#[test]
fn no_function_is_too_long() {
    let mut found = Found::new();
    for (path, text) in rust_files() {
        for (name, lines) in long_functions(&text) {
            let most = found.entry(format!("{path} {name}")).or_default();
            *most = lines.max(*most);
        }
    }
    check("functions.txt", "Functions of more than 70 lines, and how many they have.", &found);
}

#[test]
fn a_long_function_would_be_found() {
    let body = |lines: usize| "        let x = {\n        };\n".repeat(lines / 2);
    let function =
        |lines| format!("impl X {{\n    pub(crate) fn f<T>(\n        &self,\n    ) {{\n{}    }}\n}}\n", body(lines));
    assert_eq!(long_functions(&function(66)), []);
    assert_eq!(long_functions(&function(68)), [("f".to_owned(), 72)]);
    let declared = format!("trait X {{\n    fn f(&self);\n    fn g(\n        &self,\n    );\n}}\n{}", function(66));
    assert_eq!(long_functions(&declared), []);
}
