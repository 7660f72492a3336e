//! A file that grows: numbers of the lines that are added to it, or the histograms of an HdrHistogram log.
//!
//! | what happens | what is done |
//! |---|---|
//! | it is cut | it is read from its begin |
//! | another file has its name | the old one is read to its end, then the new one from its begin |
//! | it is gone | the old one is read on, until there is one again |
//! | more is added than can be read | what is beyond is passed over |

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use napier_verdict::Histogram;

use super::beside::{Beside, Going, Looker};
use super::{Better, Judge, JudgeError, JudgedFigure, Reading, Unit};
use crate::units::{self, Bare};

const PAUSE: Duration = Duration::from_millis(150);
/// Bytes of a look.
const READ_MAX: usize = 4 << 20;
/// Bytes of a line; one that is longer is passed over.
const LINE_MAX: usize = 1 << 20;
/// A program that writes seldom is not silent: this is how seldom it may, before it is known how often it does.
const GAP_FIRST: Duration = Duration::from_secs(10);
const GAP_MIN: Duration = Duration::from_millis(250);
/// What looks are late by on a busy machine.
const LATE: Duration = Duration::from_millis(100);
/// Values are kept as multiples of a billionth.
const SCALE: f64 = 1e9;

/// The judge.
///
/// # Errors
/// There is no such file, or it is none that grows.
pub(super) fn file(given: &str, text: &str, better: Better) -> Result<Box<dyn Judge>, JudgeError> {
    let wrong = |why| JudgeError { judge: given.to_owned(), why };
    let which = Which::parse(text);
    let mut tail = Tail::open(&which.path).map_err(wrong)?;
    let has_times = which.unit.is_some()
        || tail.last_lines().lines().rev().find_map(|line| which.number(line)).is_some_and(|found| found.is_time);
    let unit = if has_times { Unit::Seconds } else { Unit::Plain };
    let source = Lines { tail, which, all: Values::default(), gap: GAP_FIRST, last: None, begun: Instant::now() };
    let figure = |name: &str, unit, better| JudgedFigure { name: name.to_owned(), unit, better };
    let figures =
        vec![figure("p99", unit, better), figure("p50", unit, better), figure("lines", Unit::PerSecond, Better::More)];
    Ok(Box::new(Beside::start(given, figures, source)?))
}

/// Which numbers.
#[derive(Debug)]
struct Which {
    path: PathBuf,
    /// Counted from 1, of words; none: the last word that is a number.
    column: Option<usize>,
    /// What a number without a unit is; none: no time.
    unit: Option<Bare>,
}

impl Which {
    /// `PATH`, and behind it a column or a unit or both, unless a file has all of it for its name.
    fn parse(text: &str) -> Self {
        let (mut path, mut column, mut unit) = (text, None, None);
        while !Path::new(path).exists()
            && let Some((before, last)) = path.rsplit_once(':')
        {
            match (last.parse(), bare(last)) {
                (Ok(number), _) if number > 0 => column = Some(number),
                (_, Some(found)) => unit = Some(found),
                _ => break,
            }
            path = before;
        }
        Self { path: path.into(), column, unit }
    }

    /// The number of a line.
    fn number(&self, line: &str) -> Option<Number> {
        let words = |c: char| c.is_whitespace() || ",;|=\"".contains(c);
        let mut found = line.split(words).filter(|word| !word.is_empty());
        let of = |word: &str| {
            let word = word.trim_matches(|c: char| "()[]{}<>':".contains(c));
            // Words such as `inf` are numbers for the parser.
            let plain =
                || word.parse().ok().filter(|value: &f64| value.is_finite() && !word.starts_with(char::is_alphabetic));
            if self.unit.is_none()
                && let Some(value) = plain()
            {
                return Some(Number { value, is_time: false });
            }
            let bare = self.unit.unwrap_or(Bare::Seconds);
            units::time(word, bare).ok().map(|value| Number { value: value * seconds(bare), is_time: true })
        };
        match self.column {
            Some(column) => of(found.nth(column - 1)?),
            None => found.filter_map(of).next_back(),
        }
    }
}

/// A number of a line, in seconds if it is a time.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Number {
    value: f64,
    is_time: bool,
}

const fn seconds(of: Bare) -> f64 {
    match of {
        Bare::Nanoseconds => 1e-9,
        Bare::Microseconds => 1e-6,
        Bare::Milliseconds => 1e-3,
        Bare::Seconds => 1.0,
        Bare::Minutes => 60.0,
    }
}

fn bare(name: &str) -> Option<Bare> {
    Some(match name {
        "ns" => Bare::Nanoseconds,
        "us" => Bare::Microseconds,
        "ms" => Bare::Milliseconds,
        "s" => Bare::Seconds,
        _ => return None,
    })
}

struct Lines {
    tail: Tail,
    which: Which,
    all: Values,
    /// The longest time between two additions, of late.
    gap: Duration,
    last: Option<Instant>,
    begun: Instant,
}

/// Numbers that were added.
#[derive(Default)]
struct Values {
    histogram: Histogram,
    lines: u64,
}

impl Values {
    fn add(&mut self, line: &str, which: &Which) -> Result<(), String> {
        if line.contains("HISTF") {
            let unit = which.unit.map_or(1.0, seconds);
            for (value, count) in histogram_of(line)? {
                self.histogram.record(scaled(value as f64 * unit), count);
            }
            self.lines += 1;
        } else if let Some(found) = which.number(line).filter(|found| found.value >= 0.0) {
            self.histogram.record(scaled(found.value), 1);
            self.lines += 1;
        }
        Ok(())
    }

    fn values(&self, span: Duration) -> Vec<Option<f64>> {
        let quantile = |q| self.histogram.quantile(q).map(|value| value as f64 / SCALE);
        let seconds = span.as_secs_f64();
        vec![quantile(0.99), quantile(0.5), (seconds > 0.0).then(|| self.lines as f64 / seconds)]
    }

    fn join(&mut self, other: &Self) {
        self.histogram.extend(other.histogram.iter());
        self.lines += other.lines;
    }
}

fn scaled(value: f64) -> u64 {
    (value * SCALE) as u64
}

/// Values of an HdrHistogram log's line, and how often each was.
fn histogram_of(line: &str) -> Result<Vec<(u64, u64)>, String> {
    let wrong = || "a line of it begins like an HdrHistogram log's and cannot be read".to_owned();
    let line = format!("{}\n", line.trim_end());
    let mut log = IntervalLogIterator::new(line.as_bytes());
    let Some(Ok(LogEntry::Interval(entry))) = log.next() else { return Err(wrong()) };
    let bytes = decoded(entry.encoded_histogram()).ok_or_else(wrong)?;
    let found: hdrhistogram::Histogram<u64> =
        Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|_| wrong())?;
    Ok(found.iter_recorded().map(|one| (one.value_iterated_to(), one.count_at_value())).collect())
}

/// Base64. Looker: RFC 4648, section 4.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| {
        Some(match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        })
    };
    let (mut bits, mut held, mut bytes) = (0_u32, 0, Vec::with_capacity(text.len() * 3 / 4));
    for byte in text.trim_end_matches('=').bytes() {
        bits = bits << 6 | u32::from(digit(byte)?);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    Some(bytes)
}

impl Looker for Lines {
    fn begin(&mut self, _: &Going) -> Result<(), String> {
        // What was added until now is of the block before.
        self.tail.read(&mut |_| Ok(()))?;
        (self.all, self.begun) = (Values::default(), Instant::now());
        Ok(())
    }

    fn look(&mut self, _: &Going) -> Result<Option<Reading>, String> {
        let (mut newest, which) = (Values::default(), &self.which);
        self.tail.read(&mut |line| newest.add(line, which))?;
        if newest.lines == 0 {
            return Ok(None);
        }
        let now = Instant::now();
        let since = self.last.replace(now).unwrap_or(self.begun);
        // It follows a program that writes more seldom at once, and one that writes more often within a few looks.
        self.gap = (now - since).max(self.gap.mul_f64(0.5)).max(GAP_MIN);
        self.all.join(&newest);
        Ok(Some(Reading { values: self.all.values(now - self.begun), newest: newest.values(now - since) }))
    }

    fn pause(&self) -> Duration {
        PAUSE
    }

    fn patience(&self) -> Duration {
        self.gap * 2 + LATE
    }
}

/// A file from where it ended on.
#[derive(Debug)]
struct Tail {
    path: PathBuf,
    file: File,
    which: (u64, u64),
    at: u64,
    /// The begin of a line that is not whole yet.
    rest: Vec<u8>,
    /// What comes until the next line's end is no whole line.
    is_within: bool,
}

impl Tail {
    fn open(path: &Path) -> Result<Self, String> {
        let (mut file, found) = open(path)?;
        let at = file.seek(SeekFrom::End(0)).map_err(|error| told(path, &error))?;
        let mut tail = Self {
            path: path.to_owned(),
            file,
            which: (found.dev(), found.ino()),
            at,
            rest: Vec::new(),
            is_within: false,
        };
        tail.is_within = tail.is_within_line();
        Ok(tail)
    }

    /// Whether the last byte is not the end of a line.
    fn is_within_line(&mut self) -> bool {
        let mut last = [0];
        let at = self.at.checked_sub(1);
        let read = at.map(|at| self.file.seek(SeekFrom::Start(at)).and_then(|_| self.file.read(&mut last)));
        matches!(read, Some(Ok(1))) && last[0] != b'\n'
    }

    /// The last lines that it has already, to see what they are like.
    fn last_lines(&mut self) -> String {
        const LOOKED_AT: u64 = 64 * 1024;
        let mut bytes = Vec::new();
        let begin = SeekFrom::Start(self.at.saturating_sub(LOOKED_AT));
        let _ = self.file.seek(begin).and_then(|_| (&mut self.file).take(LOOKED_AT).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Gives each line that was added, within a bound.
    fn read(&mut self, each: &mut dyn FnMut(&str) -> Result<(), String>) -> Result<(), String> {
        self.read_on(each)?;
        let Ok(now) = std::fs::metadata(&self.path) else { return Ok(()) };
        if (now.dev(), now.ino()) == self.which {
            return Ok(());
        }
        let (file, found) = open(&self.path)?;
        (self.file, self.which, self.at) = (file, (found.dev(), found.ino()), 0);
        (self.rest, self.is_within) = (Vec::new(), false);
        self.read_on(each)
    }

    fn read_on(&mut self, each: &mut dyn FnMut(&str) -> Result<(), String>) -> Result<(), String> {
        let added = self.added().map_err(|error| told(&self.path, &error))?;
        for part in added.split_inclusive(|byte| *byte == b'\n') {
            if !self.is_within {
                self.rest.extend(part);
            }
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.rest);
                if !std::mem::take(&mut self.is_within) && line.len() <= LINE_MAX {
                    each(&String::from_utf8_lossy(&line))?;
                }
            } else if self.rest.len() > LINE_MAX {
                (self.rest, self.is_within) = (Vec::new(), true);
            }
        }
        Ok(())
    }

    /// Bytes that were added, within the bound.
    fn added(&mut self) -> io::Result<Vec<u8>> {
        let length = self.file.metadata()?.len();
        if length < self.at {
            (self.at, self.is_within) = (0, false);
            self.rest.clear();
        }
        if length - self.at > READ_MAX as u64 {
            (self.at, self.is_within) = (length - READ_MAX as u64, true);
            self.rest.clear();
        }
        self.file.seek(SeekFrom::Start(self.at))?;
        let mut added = Vec::new();
        let count = (&mut self.file).take(READ_MAX as u64).read_to_end(&mut added)?;
        self.at += count as u64;
        Ok(added)
    }
}

/// Opens a file that can grow; nothing waits there for another program.
fn open(path: &Path) -> Result<(File, Metadata), String> {
    // `O_NONBLOCK`: a pipe without a writer.
    let options = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let found = std::fs::metadata(path).map_err(|error| told(path, &error))?;
    let is_file = |found: &Metadata| found.file_type().is_file();
    let not =
        || format!("{} is no file that grows: give 'cmd:COMMAND' for a pipe, a device or a folder", path.display());
    if !is_file(&found) {
        return Err(not());
    }
    let file = OpenOptions::new().read(true).custom_flags(options).open(path).map_err(|error| told(path, &error))?;
    let found = file.metadata().map_err(|error| told(path, &error))?;
    if is_file(&found) { Ok((file, found)) } else { Err(not()) }
}

fn told(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
