//! Reads what C sees from sources in the form that rustfmt gives them.

/// What a source declares for C.
pub(crate) struct Item {
    doc: Vec<String>,
    what: What,
}

enum What {
    /// A name and a value.
    Constant(String, String),
    /// A name, and members with their comments.
    Struct(String, Vec<(Vec<String>, String)>),
    /// As C writes it.
    Type(String),
    /// Its name, and its declaration.
    Function(String, String),
}

impl Item {
    pub(crate) fn name(&self) -> &str {
        match &self.what {
            What::Constant(name, _) | What::Struct(name, _) | What::Type(name) | What::Function(name, _) => name,
        }
    }

    pub(crate) fn is_function(&self) -> bool {
        matches!(self.what, What::Function(..))
    }

    /// The members of a struct.
    pub(crate) fn members(&self) -> Option<Vec<String>> {
        let What::Struct(_, members) = &self.what else { return None };
        let name = |declared: &String| {
            let declared = declared.split('[').next().unwrap_or("").trim_end_matches(';');
            declared.rsplit([' ', '*']).next().unwrap_or("").to_owned()
        };
        Some(members.iter().map(|(_, declared)| name(declared)).collect())
    }

    /// As it stands in the header.
    pub(crate) fn declared(&self) -> String {
        let doc = comment(&self.doc, "");
        match &self.what {
            What::Constant(name, value) => format!("\n{doc}#define {name} {value}\n"),
            What::Struct(name, members) => {
                let members: String =
                    members.iter().map(|(doc, member)| format!("{}\t{member}\n", comment(doc, "\t"))).collect();
                format!("\n{doc}struct {name} {{\n{members}}};\n")
            }
            What::Type(declared) | What::Function(_, declared) => format!("\n{doc}{declared}\n"),
        }
    }
}

/// A comment of C, without the marks of links and code.
fn comment(doc: &[String], indent: &str) -> String {
    let lines: Vec<String> = doc.iter().map(|line| line.replace('`', "")).collect();
    match lines.as_slice() {
        [] => String::new(),
        [one] => format!("{indent}/* {one} */\n"),
        [first, rest @ ..] => {
            let line = |line: &String| format!("\n{indent} * {line}").trim_end().to_owned();
            let rest: String = rest.iter().map(line).collect();
            format!("{indent}/* {first}{rest} */\n")
        }
    }
}

/// All that a source declares for C, in its order.
pub(crate) fn read(source: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let (mut doc, mut exported, mut plain) = (Vec::new(), false, false);
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("#[cfg(test)]") {
            break;
        }
        if let Some(text) = line.strip_prefix("///") {
            doc.push(text.trim().to_owned());
            continue;
        }
        if line.starts_with("#[") {
            exported |= line == "#[unsafe(no_mangle)]";
            plain |= line == "#[repr(C)]";
            continue;
        }
        let found = if exported && line.contains("extern \"C\" fn ") {
            Some(function(line, &mut lines))
        } else if let Some(name) = line.strip_prefix("pub struct ").filter(|_| plain) {
            Some(record(name.trim_end_matches(" {"), &mut lines))
        } else if let Some(constant) = line.strip_prefix("pub const NAPIER_") {
            Some(value(constant))
        } else {
            line.strip_prefix("pub type Napier").map(|_| alias(&mut doc))
        };
        if let Some(what) = found {
            items.push(Item { doc: std::mem::take(&mut doc), what });
        }
        (exported, plain) = (false, false);
        doc.clear();
    }
    items
}

/// `NAME: TYPE = VALUE;`
fn value(constant: &str) -> What {
    let (name, rest) = constant.split_once(':').expect("a constant has a type");
    let value = rest.split_once(" = ").expect("a constant has a value").1.trim_end_matches(';');
    let value = match value {
        "i32::MIN" => "(-2147483647 - 1)",
        number => {
            assert!(number.parse::<u64>().is_ok(), "{name}: {number} is no number that is written for C");
            number
        }
    };
    What::Constant(format!("NAPIER_{name}"), value.to_owned())
}

/// A type that the comment writes for C.
fn alias(doc: &mut Vec<String>) -> What {
    let at = doc.iter().position(|line| line.starts_with("C: ")).expect("a type says how C writes it");
    let written = doc.remove(at)[3..].to_owned();
    if doc.get(at).is_some_and(String::is_empty) {
        doc.remove(at);
    }
    What::Type(written)
}

fn record<'a>(name: &str, lines: &mut impl Iterator<Item = &'a str>) -> What {
    let (mut members, mut doc) = (Vec::new(), Vec::new());
    for line in lines.map(str::trim).take_while(|line| *line != "}") {
        if let Some(text) = line.strip_prefix("///") {
            doc.push(text.trim().to_owned());
            continue;
        }
        let (member, kind) = line.strip_prefix("pub ").and_then(|line| line.split_once(": ")).expect("a member");
        members.push((std::mem::take(&mut doc), format!("{};", declare(kind.trim_end_matches(','), member))));
    }
    What::Struct(snake(name), members)
}

fn function<'a>(first: &str, lines: &mut impl Iterator<Item = &'a str>) -> What {
    let mut head = first.to_owned();
    while !head.ends_with('{') {
        head.push_str(lines.next().expect("a function has a body").trim());
    }
    let head = head.split_once("extern \"C\" fn ").expect("looked at before").1.trim_end_matches(" {");
    let (name, rest) = head.split_once('(').expect("arguments");
    let (arguments, gives) = rest.rsplit_once(") -> ").expect("a function gives something");
    let arguments: Vec<String> = arguments
        .split(',')
        .filter_map(|argument| argument.trim().split_once(": "))
        .map(|(name, kind)| declare(kind, name.trim_end_matches('_')))
        .collect();
    let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
    What::Function(name.to_owned(), format!("{}({arguments});", declare(gives, name)))
}

/// `name` with a type, as C writes both.
fn declare(kind: &str, name: &str) -> String {
    if let Some(inner) = kind.strip_prefix("*const ") {
        return format!("const {}", declare(inner, &format!("*{name}")));
    }
    if let Some(inner) = kind.strip_prefix("*mut ") {
        return declare(inner, &format!("*{name}"));
    }
    if let Some((inner, count)) = kind.strip_prefix('[').and_then(|array| array.trim_end_matches(']').split_once("; "))
    {
        return declare(inner, &format!("{name}[{count}]"));
    }
    let written = match kind {
        "c_int" | "i32" => "int".to_owned(),
        "c_char" => "char".to_owned(),
        "c_void" => "void".to_owned(),
        "usize" => "size_t".to_owned(),
        "isize" => "ssize_t".to_owned(),
        "socklen_t" => kind.to_owned(),
        "u8" | "u16" | "u32" | "u64" => format!("uint{}_t", &kind[1..]),
        "sockaddr" | "msghdr" | "mmsghdr" | "epoll_event" | "timespec" => format!("struct {kind}"),
        "NapierBuild" => "napier_build".to_owned(),
        ours if ours.starts_with("Napier") => format!("struct {}", snake(ours)),
        other => panic!("{other} is no type that C knows here"),
    };
    format!("{written} {name}")
}

/// `NapierMemifOptions` as `napier_memif_options`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[test]
fn what_a_source_declares_is_written_for_c() {
    let source = "\
/// A struct.
#[repr(C)]
#[derive(Copy)]
pub struct NapierTwoWords {
    /// One.
    pub one: *const c_char,
    pub many: [u8; 6],
}

/// Not for C.
pub(crate) struct Other;

/// Does it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern \"C\" fn napier_do(
    where_: c_int,
    two: *mut NapierTwoWords,
) -> isize {
}

#[unsafe(no_mangle)]
pub extern \"C\" fn napier_no() -> *const c_char {
}
/// C: typedef int (*napier_f)(void);
///
/// Called.
pub type NapierF = Option<fn()>;
pub const NAPIER_LEAST: i32 = i32::MIN;
";
    let declared: String = read(source).iter().map(Item::declared).collect();
    let expected = "
/* A struct. */
struct napier_two_words {
\t/* One. */
\tconst char *one;
\tuint8_t many[6];
};

/* Does it.
 *
 * Threads: any. */
ssize_t napier_do(int where, struct napier_two_words *two);

const char *napier_no(void);

/* Called. */
typedef int (*napier_f)(void);

#define NAPIER_LEAST (-2147483647 - 1)
";
    assert_eq!(declared, expected);
    assert_eq!(read(source)[0].members().expect("a struct"), ["one", "many"]);
}
