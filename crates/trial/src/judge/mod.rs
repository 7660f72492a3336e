//! What judges: figures of a service, looked at while a candidate has its turn.
//!
//! ```text
//! begin --> look, look, look ... --> begin (the second half of a block, or the next block) --> ...
//! ```

mod beside;
mod command;
mod cpu_time;
mod file;
mod given;
mod prometheus;
mod sockets;

use std::fmt;
use std::time::Duration;

pub use given::{KINDS, Service, named, usual};

/// In what a figure is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// A share: 1 is one whole CPU.
    Share,
    /// So many in a second.
    PerSecond,
    /// Bytes in a second.
    BytesPerSecond,
    /// A number without a unit.
    Plain,
}

/// Whether less of a figure is better, or more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    /// As of latencies.
    Less,
    /// As of throughput.
    More,
}

/// A figure that a judge gives, such as `p99` in seconds, of which less is better.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JudgedFigure {
    /// Its name, by which bounds call it: `p99`, `cpu`.
    pub name: String,
    /// In what it is counted.
    pub unit: Unit,
    /// What is wished.
    pub better: Better,
}

/// What a judge saw, in the order of its [`Judge::figures`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reading {
    /// Of all that came since [`Judge::begin`]: what a block is compared by. `None`: not known.
    pub values: Vec<Option<f64>>,
    /// Of the newest that came alone, about the last second or less: what bounds are held against.
    pub newest: Vec<Option<f64>>,
}

/// What a look gave.
#[derive(Clone, PartialEq, Debug)]
pub enum Look {
    /// Something new has come.
    Seen(Reading),
    /// Nothing new since the last look: who asks counts how long.
    Nothing,
}

/// A judge cannot go on; the message says what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{judge}: {why}")]
pub struct JudgeError {
    /// Which, as it was given.
    pub judge: String,
    /// Why.
    pub why: String,
}

/// Between two looks of a judge whose figure has a limit, at most.
pub const GUARDED: Duration = Duration::from_millis(200);

/// What judges.
pub trait Judge: Send {
    /// What it gives.
    fn figures(&self) -> &[JudgedFigure];

    /// What comes from now on is a new block, or half of one.
    ///
    /// # Errors
    /// It cannot go on: the trial ends.
    fn begin(&mut self) -> Result<(), JudgeError>;

    /// What was seen since [`begin`](Self::begin). It returns within 50 ms: what takes longer (a command, a query) is in a thread of its own,
    /// with a limit.
    ///
    /// # Errors
    /// It cannot go on: the trial ends.
    fn look(&mut self) -> Result<Look, JudgeError>;

    /// A limit is held against a figure of it: from now on it is to look five times a second ([`GUARDED`]), whatever that costs within reason.
    fn guard(&mut self) {}

    /// How long it may have nothing new before it counts as silent: about three times as long as what it asks takes to answer.
    fn patience(&self) -> Duration {
        Duration::from_millis(700)
    }
}

impl Unit {
    /// A value for a person.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Seconds if value < 1e-3 => format!("{} us", digits(value * 1e6)),
            Self::Seconds if value < 1.0 => format!("{} ms", digits(value * 1e3)),
            Self::Seconds => format!("{} s", digits(value)),
            Self::Share => format!("{} %", digits(value * 100.0)),
            Self::PerSecond => format!("{}/s", large(value)),
            Self::BytesPerSecond => format!("{}B/s", large(value)),
            Self::Plain => digits(value),
        }
    }
}

/// Three digits that count.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn large(value: f64) -> String {
    match value.abs() {
        size if size >= 1e9 => format!("{} G", digits(value / 1e9)),
        size if size >= 1e6 => format!("{} M", digits(value / 1e6)),
        size if size >= 1e3 => format!("{} k", digits(value / 1e3)),
        _ => format!("{} ", digits(value)),
    }
}

impl fmt::Display for JudgedFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits_and_a_unit() {
        let shown = [
            (Unit::Seconds, 0.000_123_4, "123 us"),
            (Unit::Seconds, 0.0042, "4.20 ms"),
            (Unit::Share, 0.123, "12.3 %"),
            (Unit::PerSecond, 12_345.0, "12.3 k/s"),
            (Unit::PerSecond, 3.0, "3.00 /s"),
            (Unit::BytesPerSecond, 5e6, "5.00 MB/s"),
            (Unit::Plain, 7.0, "7.00"),
        ];
        for (unit, value, text) in shown {
            assert_eq!(unit.show(value), text);
        }
    }
}
