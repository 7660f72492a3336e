//! A simple reader of Rust: comments, documentation, texts and code apart, and the words of the code.

/// What a piece of a source is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Code,
    Comment,
    /// `///` and `//!`, what follows them.
    Doc,
    /// The inside of a string literal.
    Text,
}

/// What begins at the head of `rest` and is not code: its kind, where its inside is, and its length.
fn special(rest: &str, before: Option<char>) -> Option<(Kind, std::ops::Range<usize>, usize)> {
    let line = || rest.find('\n').unwrap_or(rest.len());
    if rest.starts_with("//!") || rest.starts_with("///") && !rest.starts_with("////") {
        return Some((Kind::Doc, 3..line(), line()));
    }
    if rest.starts_with("//") {
        return Some((Kind::Comment, 2..line(), line()));
    }
    if rest.starts_with("/*") {
        let end = rest.find("*/").map_or(rest.len(), |at| at + 2);
        return Some((Kind::Comment, 2..end, end));
    }
    if let Some(quoted) = rest.strip_prefix('\'') {
        // A letter, or else a lifetime.
        let end = match quoted.strip_prefix('\\') {
            Some(escaped) => 3 + escaped.char_indices().skip(1).find(|(_, c)| *c == '\'')?.0,
            None => {
                let letter = quoted.chars().next()?.len_utf8();
                quoted[letter..].starts_with('\'').then_some(2 + letter)?
            }
        };
        return Some((Kind::Code, 0..0, end));
    }
    let name = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let prefix = rest.find(|c| !['b', 'c', 'r', '#'].contains(&c))?;
    let (head, text) = rest.split_at(prefix);
    if name && prefix > 0 || !text.starts_with('"') {
        return None;
    }
    let begin = prefix + 1;
    let end = if head.contains('r') {
        let close = format!("\"{}", head.trim_start_matches(['b', 'c', 'r']));
        let at = rest[begin..].find(&close)?;
        return Some((Kind::Text, begin..begin + at, begin + at + close.len()));
    } else {
        let (mut escaped, bytes) = (false, rest.as_bytes());
        let mut at = begin;
        while at < bytes.len() && (escaped || bytes[at] != b'"') {
            escaped = !escaped && bytes[at] == b'\\';
            at += 1;
        }
        at
    };
    Some((Kind::Text, begin..end, (end + 1).min(rest.len())))
}

/// A source from its head to its end. Letters in quotes are left out.
pub(crate) fn pieces(source: &str) -> Vec<(Kind, &str)> {
    let (mut pieces, mut from, mut at) = (Vec::new(), 0, 0);
    let mut before = None;
    while let Some(c) = source[at..].chars().next() {
        let begun = ['/', '\'', '"', 'b', 'c', 'r'].contains(&c).then(|| special(&source[at..], before)).flatten();
        let Some((kind, inside, length)) = begun else {
            (before, at) = (Some(c), at + c.len_utf8());
            continue;
        };
        pieces.push((Kind::Code, &source[from..at]));
        if kind != Kind::Code {
            pieces.push((kind, &source[at..][inside]));
        }
        (before, at, from) = (None, at + length, at + length);
    }
    pieces.push((Kind::Code, &source[from..]));
    pieces
}

/// The length of what a bracket at the head opens, with both brackets.
pub(crate) fn bracketed(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// What introduces an item that ends with `;` or a block; anything else under an attribute ends with a comma.
const ITEMS: [&str; 16] = [
    "pub",
    "mod",
    "use",
    "fn",
    "impl",
    "struct",
    "enum",
    "const",
    "static",
    "trait",
    "type",
    "let",
    "unsafe",
    "extern",
    "thread_local",
    "macro_rules",
];

/// The length of the item at the head of `code`, from its attributes on.
fn item(code: &str) -> usize {
    let mut at = 0;
    loop {
        at += code[at..].len() - code[at..].trim_start().len();
        if !code[at..].starts_with("#[") {
            break;
        }
        at += 1 + bracketed(&code[at + 1..]);
    }
    let is_item = names(&code[at..]).next().is_some_and(|(_, name)| ITEMS.contains(&name));
    while let Some(c) = code[at..].chars().next() {
        match c {
            ';' => return at + 1,
            '{' => return at + bracketed(&code[at..]),
            '(' | '[' => at += bracketed(&code[at..]),
            ',' if !is_item => return at + 1,
            '}' | ')' => return at,
            _ => at += c.len_utf8(),
        }
    }
    code.len()
}

/// Conditions under which an item is for tests alone.
const FOR_TESTS: [&str; 6] =
    ["#[cfg(test)]", "#[cfg(all(test", "#[cfg(any(test", "#[cfg(loom)]", "#[cfg(all(loom", "#[cfg(any(loom"];

/// The code without comments, without what texts say, and without what is for tests alone.
pub(crate) fn code(source: &str) -> String {
    let mut code = String::new();
    for (kind, piece) in pieces(source) {
        match kind {
            Kind::Code => code.push_str(piece),
            Kind::Text => code.push_str("\"\""),
            Kind::Comment | Kind::Doc => {}
        }
    }
    for condition in FOR_TESTS {
        while let Some(at) = code.find(condition) {
            let end = at + item(&code[at..]);
            code.replace_range(at..end, "");
        }
    }
    code
}

/// The names in code, keywords too, each with where it begins.
pub(crate) fn names(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        at += code[at..].find(is_name)?;
        let length = code[at..].find(|c| !is_name(c)).unwrap_or(code.len() - at);
        let name = (at, &code[at..at + length]);
        at += length;
        Some(name)
    })
}

/// The name that follows each of `keywords`: what a source defines.
pub(crate) fn defined<'a>(code: &'a str, keywords: &[&str]) -> Vec<&'a str> {
    let names: Vec<&str> = names(code).map(|(_, name)| name).collect();
    names.windows(2).filter(|pair| keywords.contains(&pair[0])).map(|pair| pair[1]).collect()
}

#[test]
fn a_source_is_taken_apart() {
    let source = "//! Head\nfn f<'a>(x: &'a str) { g('\"', r#\"te\"xt\"#, \"a\\\"b\"); /* no */ } // why\n/// Doc";
    let text = |wanted| pieces(source).into_iter().filter(move |(kind, _)| *kind == wanted).map(|(_, piece)| piece);
    assert_eq!(text(Kind::Doc).collect::<Vec<_>>(), [" Head", " Doc"]);
    assert_eq!(text(Kind::Text).collect::<Vec<_>>(), ["te\"xt", "a\\\"b"]);
    assert_eq!(text(Kind::Comment).collect::<Vec<_>>(), [" no */", " why"]);
    assert_eq!(text(Kind::Code).collect::<String>(), "\nfn f<'a>(x: &'a str) { g(, , );  } \n");
}

#[test]
fn what_is_for_tests_alone_is_left_out() {
    let source = "struct A {\n    #[cfg(test)]\n    b: X<Y>,\n    c: Z,\n}\n#[cfg(test)]\n#[path = \"p\"]\nmod t;\n\
        #[cfg(all(test, not(loom)))]\nmod tests { fn f() {} }\n#[cfg(not(test))]\nfn g<A, B>() {}";
    let code = code(source);
    let words: Vec<&str> = names(&code).map(|(_, name)| name).collect();
    assert_eq!(words, ["struct", "A", "c", "Z", "cfg", "not", "test", "fn", "g", "A", "B"]);
    assert_eq!(defined(&code, &["struct", "fn"]), ["A", "g"]);
}
