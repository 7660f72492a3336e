//! Reads and writes scenario files. `docs/scenarios.md` describes them.
//!
//! The file is a stranger's: whatever it says, the answer is a scenario or an error with a line, never a panic.

mod call;
mod common;
pub(crate) mod duration;
mod expect;
mod group;
mod lookup;
mod machine;
pub(crate) mod node;
mod part;
mod step;
pub(crate) mod transmit;
mod words;
mod write;

use std::fmt;

use toml::de::DeTable;

use super::Scenario;
use node::{Source, Table};

/// What is wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// The name that the caller gave it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// What was found, and what was expected.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

impl std::error::Error for ParseError {}

/// Reads a file of any kind; `file` is its name in errors.
///
/// # Errors
/// It is not TOML, or what `read` says.
pub fn read_file<T>(
    text: &str,
    file: &str,
    read: impl FnOnce(Table<'_>) -> Result<T, ParseError>,
) -> Result<T, ParseError> {
    let source = Source::new(text, file);
    let entries = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        source.error(offset, "", format_args!("not TOML: {}", error.message()))
    })?;
    read(Table::whole(&source, entries.get_ref()))
}

impl Scenario {
    /// Reads a scenario; `file` is its name in errors.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(text: &str, file: &str) -> Result<Self, ParseError> {
        read_file(text, file, Self::read)
    }

    fn read(whole: Table<'_>) -> Result<Self, ParseError> {
        let whole = whole.only(&[
            "title", "rules", "machine", "device", "thread", "socket", "epoll", "group", "timeline", "expect",
            "engine", "kernel",
        ])?;
        let title = whole.need("title")?;
        let words = title.text("a sentence that says what holds")?.to_owned();
        if words.trim().is_empty() {
            return Err(title.wrong("a sentence that says what holds"));
        }
        let rules = whole.map("rules", |node| node.texts("an array of rule ids such as [\"1.7-4\"]"))?;
        let machine = machine::read(&whole)?;
        let timeline = step::read(&whole, &machine)?;
        let expect = expect::read(&whole, &machine)?;
        let engine = part::engine(&whole, &expect)?;
        let kernel = part::kernel(&whole, &expect)?;
        Ok(Self { title: words, rules: rules.unwrap_or_default(), machine, timeline, expect, engine, kernel })
    }
}

#[cfg(test)]
mod tests;
