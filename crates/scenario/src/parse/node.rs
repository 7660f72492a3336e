//! TOML values with their place in the file, and conversions that say what they expected.

use std::fmt::Display;
use std::ops::RangeInclusive;

use napier_core::time::{Instant, Span};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::words::{one_of, quote, shorten, unknown};
use super::{ParseError, duration};
use crate::Range;

/// Latest moment of a timeline, and longest time that a step or a cost may take.
const TIME_MAX: Span = Span::from_secs(3600);

/// A file: its name, and where its lines begin.
pub(super) struct Source<'a> {
    file: &'a str,
    line_starts: Vec<usize>,
}

impl<'a> Source<'a> {
    /// A file by its text and its name.
    pub(super) fn new(text: &str, file: &'a str) -> Self {
        let after_newline = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at + 1);
        Self { file, line_starts: std::iter::once(0).chain(after_newline).collect() }
    }

    fn line(&self, offset: usize) -> u32 {
        u32::try_from(self.line_starts.partition_point(|start| *start <= offset)).unwrap_or(u32::MAX)
    }

    /// An error at this place.
    pub(super) fn error(&self, offset: usize, path: &str, message: impl Display) -> ParseError {
        let colon = if path.is_empty() { "" } else { ": " };
        ParseError { file: self.file.to_owned(), line: self.line(offset), message: format!("{path}{colon}{message}") }
    }
}

/// A value, where it stands, and what it is called in errors.
pub struct Node<'a> {
    source: &'a Source<'a>,
    path: String,
    offset: usize,
    value: &'a DeValue<'a>,
}

type Result<T> = std::result::Result<T, ParseError>;

impl<'a> Node<'a> {
    fn new(source: &'a Source<'a>, path: String, value: &'a Spanned<DeValue<'a>>) -> Self {
        Self { source, path, offset: value.span().start, value: value.get_ref() }
    }

    /// An error at this place.
    pub fn error(&self, message: impl Display) -> ParseError {
        self.source.error(self.offset, &self.path, message)
    }

    /// The error that says what stands here and what should.
    pub(super) fn wrong(&self, expected: impl Display) -> ParseError {
        self.error(format!("found {}; expected {expected}", describe(self.value)))
    }

    /// A string.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn text(&self, expected: &str) -> Result<&'a str> {
        self.value.as_str().ok_or_else(|| self.wrong(expected))
    }

    pub(super) fn is_text(&self) -> bool {
        self.value.is_str()
    }

    pub(super) fn is_array(&self) -> bool {
        self.value.is_array()
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.is_table()
    }

    pub(super) fn is_integer(&self) -> bool {
        self.value.is_integer()
    }

    /// True or false.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn flag(&self) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    /// True or false, or 1 or 0 as options of sockets are spelled.
    pub(super) fn zero_or_one(&self) -> Result<bool> {
        match (self.value.as_bool(), integer(self.value)) {
            (Some(flag), _) => Ok(flag),
            (None, Some(number @ (0 | 1))) => Ok(number == 1),
            _ => Err(self.wrong("0 or 1")),
        }
    }

    /// A whole number in a range that the type holds.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn number<T: TryFrom<i128>>(&self, range: RangeInclusive<i128>) -> Result<T> {
        match integer(self.value) {
            Some(number) if range.contains(&number) => {
                Ok(T::try_from(number).ok().expect("the range is one that the type holds"))
            }
            _ => Err(self.wrong(format_args!("a whole number from {} to {}", range.start(), range.end()))),
        }
    }

    /// A number, or `[least, most]`.
    pub(super) fn range(&self, least: i64) -> Result<Range> {
        let bounds = i128::from(least)..=i128::from(i64::MAX);
        let expected = "a whole number or [least, most]";
        if self.value.is_integer() {
            return Ok(Range::exactly(self.number(bounds)?));
        }
        let ends = self.list(expected)?;
        let [min, max] = &ends[..] else { return Err(self.wrong(expected)) };
        let range = Range { min: min.number(bounds.clone())?, max: max.number(bounds)? };
        if range.min > range.max {
            return Err(
                self.error(format!("from {} to {} is no range; the smaller number goes first", range.min, range.max))
            );
        }
        Ok(range)
    }

    /// A time of any length.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn span(&self) -> Result<Span> {
        let expected = "a time such as \"20us\", \"1.5ms\" or \"2s\" (ns, us, ms, s), or 0";
        match (self.value, integer(self.value)) {
            (_, Some(0)) => Ok(Span::ZERO),
            (DeValue::String(text), _) => duration::parse(text).map(Span::from_ns).ok_or_else(|| self.wrong(expected)),
            _ => Err(self.wrong(expected)),
        }
    }

    /// A time that a run can last.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn short_span(&self) -> Result<Span> {
        let span = self.span()?;
        if span > TIME_MAX { Err(self.wrong("at most an hour")) } else { Ok(span) }
    }

    pub(super) fn instant(&self) -> Result<Instant> {
        Ok(Instant::ZERO + self.short_span()?)
    }

    /// A time, or `"forever"` as `None`.
    pub(super) fn timeout(&self) -> Result<Option<Span>> {
        if self.value.as_str() == Some("forever") { Ok(None) } else { self.span().map(Some) }
    }

    /// The items of an array.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn list(&self, expected: &str) -> Result<Vec<Node<'a>>> {
        let items = self.value.as_array().ok_or_else(|| self.wrong(expected))?;
        let item = |(at, item)| Self::new(self.source, format!("{}[{at}]", self.path), item);
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// A list of words.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn texts(&self, expected: &str) -> Result<Vec<String>> {
        self.list(expected)?.iter().map(|item| item.text("a string").map(str::to_owned)).collect()
    }

    /// One of some words, by a function that knows them.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn word<T>(&self, find: impl Fn(&str) -> Option<T>, words: &[&str]) -> Result<T> {
        let word = self.text(&one_of(words))?;
        find(word).ok_or_else(|| self.error(unknown("name", word, words)))
    }

    /// A table.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn table(&self, expected: &str) -> Result<Table<'a>> {
        let entries = self.value.as_table().ok_or_else(|| self.wrong(expected))?;
        Ok(Table { source: self.source, path: self.path.clone(), offset: self.offset, entries, known: &[] })
    }
}

/// A table; the keys that it may have are given before they are asked for.
pub struct Table<'a> {
    source: &'a Source<'a>,
    path: String,
    offset: usize,
    entries: &'a DeTable<'a>,
    known: &'static [&'static str],
}

impl<'a> Table<'a> {
    /// The whole file.
    pub(super) fn whole(source: &'a Source<'a>, entries: &'a DeTable<'a>) -> Self {
        Self { source, path: String::new(), offset: 0, entries, known: &[] }
    }

    /// Refuses keys other than these.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn only(mut self, known: &'static [&'static str]) -> Result<Self> {
        self.known = known;
        let strange = self.entries.keys().filter(|key| !known.contains(&key.get_ref().as_ref()));
        match strange.min_by_key(|key| key.span().start) {
            Some(key) => Err(self.source.error(key.span().start, &self.path, unknown("key", key.get_ref(), known))),
            None => Ok(self),
        }
    }

    /// Its keys are called as if they were at the top: the table that steps are in need not be named.
    pub(super) fn nameless(mut self) -> Self {
        self.path.clear();
        self
    }

    /// An error at this place.
    pub fn error(&self, message: impl Display) -> ParseError {
        self.source.error(self.offset, &self.path, message)
    }

    pub(super) fn line(&self) -> u32 {
        self.source.line(self.offset)
    }

    /// Whether a key is there.
    pub fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// All keys and values in the order of the file.
    pub fn in_order(&self) -> Vec<(&'a str, Node<'a>)> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries.into_iter().map(|(key, value)| (key.get_ref().as_ref(), self.node(key.get_ref(), value))).collect()
    }

    fn node(&self, key: &str, value: &'a Spanned<DeValue<'a>>) -> Node<'a> {
        let dot = if self.path.is_empty() { "" } else { "." };
        Node::new(self.source, format!("{}{dot}{key}", self.path), value)
    }

    /// The value of a key.
    pub fn get(&self, key: &'static str) -> Option<Node<'a>> {
        assert!(self.known.contains(&key), "{key} is missing in the list of keys {:?}", self.known);
        self.entries.get(key).map(|value| self.node(key, value))
    }

    /// The value of a key that has to be there.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn need(&self, key: &'static str) -> Result<Node<'a>> {
        self.get(key).ok_or_else(|| self.error(format!("missing key {key:?}")))
    }

    /// What a function makes of a key that may be missing.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn map<T>(&self, key: &'static str, read: impl FnOnce(&Node<'a>) -> Result<T>) -> Result<Option<T>> {
        self.get(key).as_ref().map(read).transpose()
    }

    /// A whole number of a key, or its default.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn number<T: TryFrom<i128>>(&self, key: &'static str, range: RangeInclusive<i128>, default: T) -> Result<T> {
        Ok(self.map(key, |node| node.number(range))?.unwrap_or(default))
    }

    /// True or false.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn flag(&self, key: &'static str, default: bool) -> Result<bool> {
        Ok(self.map(key, Node::flag)?.unwrap_or(default))
    }

    /// A time of a key, or its default.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn span(&self, key: &'static str, default: Span) -> Result<Span> {
        Ok(self.map(key, Node::span)?.unwrap_or(default))
    }

    /// A time of a key that a run can last, or its default.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn short_span(&self, key: &'static str, default: Span) -> Result<Span> {
        Ok(self.map(key, Node::short_span)?.unwrap_or(default))
    }

    /// The items of an array; none if the key is missing.
    ///
    /// # Errors
    /// The place, what was found and what was expected.
    pub fn list(&self, key: &'static str, count_max: usize, expected: &str) -> Result<Vec<Node<'a>>> {
        let Some(node) = self.get(key) else { return Ok(Vec::new()) };
        let list = node.list(expected)?;
        if list.len() > count_max {
            return Err(node.error(format!("{} entries; at most {count_max} are allowed", list.len())));
        }
        Ok(list)
    }
}

fn integer(value: &DeValue<'_>) -> Option<i128> {
    let number = value.as_integer()?;
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the string {}", quote(text)),
        DeValue::Integer(number) => format!("the number {}", shorten(&number.to_string())),
        DeValue::Float(number) => format!("the number {}", shorten(number.as_str())),
        DeValue::Boolean(flag) => format!("{flag}"),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(items) => format!("an array of {}", items.len()),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
