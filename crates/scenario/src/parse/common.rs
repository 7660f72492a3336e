//! What several parts of a file have: times of steps, knobs, scheduling classes, what a call returned.

use napier_core::control::Errno;
use napier_core::time::Instant;

use super::ParseError;
use super::node::{Node, Table};
use super::words::unknown;
use crate::{Pattern, Policy};

type Result<T> = std::result::Result<T, ParseError>;

pub(super) const U32_MAX: i128 = u32::MAX as i128;

/// The thread that is always there.
pub(super) const CTL: &str = "ctl";

/// The knobs that a scenario can turn.
pub(super) const SYSCTLS: &[&str] = &[
    "netdev_budget",
    "netdev_budget_usecs",
    "busy_read",
    "busy_poll",
    "gro_normal_batch",
    "dev_weight",
    "qdisc_max_burst",
];

pub(super) fn at(table: &Table<'_>) -> Result<Instant> {
    table.need("at")?.instant()
}

pub(super) fn policy(node: &Node<'_>) -> Result<Policy> {
    node.word(Policy::from_name, &["fair", "fifo"])
}

/// What a call returned.
pub(super) fn value(node: &Node<'_>) -> Result<Pattern> {
    if node.is_text() {
        let text = node.text("a text")?;
        let like_error = text.len() > 1 && text.starts_with('E') && text.bytes().all(|b| b.is_ascii_uppercase());
        let errors: Vec<_> = (0..200).filter_map(Errno::from_number).map(Errno::name).collect();
        if like_error && !errors.contains(&text) {
            return Err(node.error(unknown("error", text, &errors)));
        }
        return Ok(Pattern::Text(text.to_owned()));
    }
    if node.is_table() {
        let attribute = |(name, node): &(&str, Node<'_>)| {
            let value = if node.is_integer() {
                node.number::<i128>(i128::from(i64::MIN)..=i128::from(u64::MAX))?.to_string()
            } else {
                node.text("a number or a string")?.to_owned()
            };
            Ok(((*name).to_owned(), value))
        };
        return node.table("a table")?.in_order().iter().map(attribute).collect::<Result<_>>().map(Pattern::Attributes);
    }
    let expected = "a number, [least, most], an error, a text, an array of names or a table of attributes";
    if node.is_array() {
        let items = node.list(expected)?;
        if items.iter().all(Node::is_text) {
            return node.texts(expected).map(Pattern::Names);
        }
        return node.range(i64::MIN).map(Pattern::Number);
    }
    if node.is_integer() { node.range(i64::MIN).map(Pattern::Number) } else { Err(node.wrong(expected)) }
}
