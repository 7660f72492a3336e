//! An answer as Python's `pprint` prints it, which is what `ynl` uses: keys sorted, 80 columns. Source: CPython
//! `Lib/pprint.py PrettyPrinter._format`.
//!
//! A list within a record is a set of flags there. Python prints a short one in an order that changes from run to run; here it is
//! sorted, as Python sorts a long one.

use serde_json::Value;

const WIDTH: usize = 80;

/// The text, without the last line's end.
pub(super) fn pretty(value: &Value) -> String {
    let mut text = String::new();
    format(value, At { indent: 0, after: 0, inner: false }, &mut text);
    text
}

/// Where a value stands.
#[derive(Copy, Clone)]
struct At {
    /// Column.
    indent: usize,
    /// Columns that what follows on the last line takes.
    after: usize,
    /// Within a record.
    inner: bool,
}

fn format(value: &Value, at: At, text: &mut String) {
    if !is_long(value) {
        let short = repr(value, at.inner);
        if short.len() <= WIDTH.saturating_sub(at.indent + at.after) {
            text.push_str(&short);
            return;
        }
    }
    match value {
        Value::Array(items) => {
            let (open, close) = if at.inner { ('{', '}') } else { ('[', ']') };
            let items = if at.inner { sorted(items) } else { items.iter().collect() };
            text.push(open);
            let count = items.len();
            for (nth, item) in items.into_iter().enumerate() {
                next_line(nth, at.indent + 1, text);
                let after = if nth + 1 == count { at.after + 1 } else { 1 };
                format(item, At { indent: at.indent + 1, after, ..at }, text);
            }
            text.push(close);
        }
        Value::Object(record) => {
            text.push('{');
            for (nth, (key, value)) in record.iter().enumerate() {
                next_line(nth, at.indent + 1, text);
                let key = quoted(key);
                text.push_str(&key);
                text.push_str(": ");
                let after = if nth + 1 == record.len() { at.after + 1 } else { 1 };
                format(value, At { indent: at.indent + 1 + key.len() + 2, after, inner: true }, text);
            }
            text.push('}');
        }
        _ => text.push_str(&repr(value, at.inner)),
    }
}

/// Whether it has too many items for one line, each with a comma and a blank.
fn is_long(value: &Value) -> bool {
    let items = match value {
        Value::Array(items) => items.len(),
        Value::Object(record) => record.len(),
        _ => 0,
    };
    items > WIDTH / 2
}

fn next_line(nth: usize, indent: usize, text: &mut String) {
    if nth > 0 {
        text.push_str(",\n");
        text.extend(std::iter::repeat_n(' ', indent));
    }
}

fn sorted(items: &[Value]) -> Vec<&Value> {
    let mut items: Vec<&Value> = items.iter().collect();
    items.sort_by_key(|item| item.as_str());
    items
}

/// What a terminal would take for a command is escaped, as Python escapes it.
fn quoted(text: &str) -> String {
    let escape = |letter: char| match letter {
        '\\' | '\'' => format!("\\{letter}"),
        letter if letter.is_control() => format!("\\x{:02x}", u32::from(letter)),
        letter => letter.to_string(),
    };
    if text.contains(|letter: char| matches!(letter, '\\' | '\'') || letter.is_control()) {
        return format!("'{}'", text.chars().map(escape).collect::<String>());
    }
    format!("'{text}'")
}

/// In one line.
fn repr(value: &Value, inner: bool) -> String {
    let list = |items: Vec<&Value>| items.into_iter().map(|item| repr(item, inner)).collect::<Vec<_>>().join(", ");
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(items) if !inner => format!("[{}]", list(items.iter().collect())),
        Value::Array(items) if items.is_empty() => "set()".to_owned(),
        Value::Array(items) => format!("{{{}}}", list(sorted(items))),
        Value::Object(record) => {
            // serde_json's own order is the sorted one.
            let pairs = record.iter().map(|(key, value)| format!("{}: {}", quoted(key), repr(value, true)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Right side: printed by CPython 3.11 for the same values.
    #[test]
    fn it_is_what_python_prints() {
        let napi = |id: u32| {
            json!({"id": id, "ifindex": 2, "defer-hard-irqs": 0, "gro-flush-timeout": 5_000_000_000_u64,
                   "irq-suspend-timeout": 0, "threaded": "disabled"})
        };
        let rows = [
            (json!(null), "None".to_owned()),
            (json!([]), "[]".to_owned()),
            (json!("a\u{1b}\\'"), r"'a\x1b\\\''".to_owned()),
            (json!({"id": 3, "type": "rx", "xsk": {}}), "{'id': 3, 'type': 'rx', 'xsk': {}}".to_owned()),
            (json!([{"ifindex": 1, "xsk-features": []}]), "[{'ifindex': 1, 'xsk-features': set()}]".to_owned()),
            (
                json!([napi(8), napi(7)]),
                [
                    "[{'defer-hard-irqs': 0,",
                    "  'gro-flush-timeout': 5000000000,",
                    "  'id': 8,",
                    "  'ifindex': 2,",
                    "  'irq-suspend-timeout': 0,",
                    "  'threaded': 'disabled'},",
                    " {'defer-hard-irqs': 0,",
                    "  'gro-flush-timeout': 5000000000,",
                    "  'id': 7,",
                    "  'ifindex': 2,",
                    "  'irq-suspend-timeout': 0,",
                    "  'threaded': 'disabled'}]",
                ]
                .join("\n"),
            ),
            (
                json!({"ifindex": 2, "xdp-features": ["basic", "redirect", "ndo-xmit", "xsk-zerocopy", "hw-offload", "rx-sg",
                                                      "ndo-xmit-sg"]}),
                [
                    "{'ifindex': 2,",
                    " 'xdp-features': {'basic',",
                    "                  'hw-offload',",
                    "                  'ndo-xmit',",
                    "                  'ndo-xmit-sg',",
                    "                  'redirect',",
                    "                  'rx-sg',",
                    "                  'xsk-zerocopy'}}",
                ]
                .join("\n"),
            ),
        ];
        for (value, want) in rows {
            assert_eq!(pretty(&value), want);
        }
    }
}
