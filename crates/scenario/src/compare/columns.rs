//! The two columns.

use std::fmt::Write;

use super::Difference;

/// Equal lines that are shown before and after a difference.
const CONTEXT_ROWS: usize = 3;
/// Lines of one side in a row that are shown.
const ONE_SIDED_ROWS_MAX: usize = 20;
/// Width of the times.
const AT_CHARS: usize = 9;
/// Least width of a column.
const COLUMN_CHARS_MIN: usize = 24;

/// What the line in the middle says.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Nothing: the event is as expected.
    Same,
    /// `|`: it is not.
    Differs,
    /// `<`: it did not happen.
    OnlyExpected,
    /// `>`: it was not expected.
    OnlySeen,
    /// The row is a remark.
    Note,
}

/// One line of one column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Its time.
    pub at: Option<String>,
    /// The event.
    pub text: String,
}

/// One line of both columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// How they compare.
    pub mark: Mark,
    /// Left.
    pub expected: Option<Cell>,
    /// Right.
    pub seen: Option<Cell>,
    /// Line of the expectation in the file, or 0.
    pub line: u32,
    /// What differs.
    pub why: Option<String>,
}

impl Row {
    pub(super) fn note(text: String) -> Self {
        Self { mark: Mark::Note, expected: Some(Cell { at: None, text }), seen: None, line: 0, why: None }
    }

    fn one_sided(&self) -> bool {
        matches!(self.mark, Mark::OnlyExpected | Mark::OnlySeen)
    }

    fn differs(&self) -> bool {
        !matches!(self.mark, Mark::Same | Mark::Note)
    }
}

impl Cell {
    /// The whole line.
    #[must_use]
    pub fn line(&self) -> String {
        match &self.at {
            Some(at) => format!("{at} {}", self.text),
            None => self.text.clone(),
        }
    }

    fn wrapped(&self, width: usize) -> Vec<String> {
        let mut lines = vec![format!("{:>AT_CHARS$} ", self.at.as_deref().unwrap_or(""))];
        let mut empty = true;
        for word in self.text.split(' ') {
            let mut word = word;
            loop {
                let line = lines.last_mut().expect("there is a line");
                let space = usize::from(!empty);
                let room = width.saturating_sub(line.chars().count() + space);
                if word.chars().count() <= room {
                    line.push_str(&" "[..space]);
                    line.push_str(word);
                    empty = false;
                    break;
                }
                if empty {
                    // A word that fits nowhere is broken.
                    let end = word.char_indices().nth(room.max(1)).map_or(word.len(), |(at, _)| at);
                    line.push_str(&word[..end]);
                    word = &word[end..];
                }
                lines.push(" ".repeat(AT_CHARS + 3));
                empty = true;
            }
        }
        lines
    }
}

impl Difference {
    /// The reason, and below it both columns with a mark between them; long equal parts are left out.
    #[must_use]
    pub fn render(&self, width: usize) -> String {
        let column = (width.saturating_sub(3) / 2).max(COLUMN_CHARS_MIN);
        let mut out = format!("{}\n", self.reason);
        let head = |text: &str| Some(Cell { at: None, text: text.to_owned() });
        let head = Row { mark: Mark::Same, expected: head("EXPECTED"), seen: head("SEEN"), line: 0, why: None };
        for row in std::iter::once(head).chain(shorten(&self.rows)) {
            if row.mark == Mark::Note {
                let text = row.expected.as_ref().map_or("", |cell| cell.text.as_str());
                writeln!(out, "{:AT_CHARS$} {text}", "").expect("a string takes everything");
                continue;
            }
            let mark = match row.mark {
                Mark::Differs => '|',
                Mark::OnlyExpected => '<',
                Mark::OnlySeen => '>',
                Mark::Same | Mark::Note => ' ',
            };
            let wrap = |cell: &Option<Cell>| cell.as_ref().map_or_else(Vec::new, |cell| cell.wrapped(column));
            let (left, right) = (wrap(&row.expected), wrap(&row.seen));
            for line in 0..left.len().max(right.len()) {
                let cell = |lines: &[String]| lines.get(line).cloned().unwrap_or_default();
                let text = format!("{:column$} {mark} {}", cell(&left), cell(&right));
                writeln!(out, "{}", text.trim_end()).expect("a string takes everything");
            }
        }
        out
    }
}

/// Leaves out what is equal, but for a few lines around each difference, and most of long one-sided parts.
fn shorten(rows: &[Row]) -> Vec<Row> {
    let mut short = Vec::new();
    for run in rows.chunk_by(|a, b| a.mark == b.mark) {
        let (before, after) = match run[0].mark {
            Mark::Same if short.is_empty() => (0, CONTEXT_ROWS),
            Mark::Same => (CONTEXT_ROWS, CONTEXT_ROWS),
            Mark::Note => (run.len(), 0),
            Mark::Differs | Mark::OnlyExpected | Mark::OnlySeen => (ONE_SIDED_ROWS_MAX, 0),
        };
        if run.len() <= before + after + 1 {
            short.extend_from_slice(run);
            continue;
        }
        short.extend_from_slice(&run[..before]);
        let left_out = run.len() - before - after;
        let what = match run[0].mark {
            Mark::Same => "equal",
            Mark::Differs => "that differ",
            Mark::OnlyExpected => "that did not happen",
            Mark::OnlySeen => "that was not expected",
            Mark::Note => "",
        };
        short.push(Row::note(format!("... {left_out} lines {what} ...")));
        short.extend_from_slice(&run[run.len() - after..]);
    }
    short
}

/// The first difference in one sentence.
pub(super) fn reason(rows: &[Row]) -> String {
    let Some(at) = rows.iter().position(Row::differs) else {
        return "the events can not be matched with the expectations in any way".to_owned();
    };
    let row = &rows[at];
    let line = |line: u32| if line == 0 { String::new() } else { format!("line {line}: ") };
    if let Some(why) = &row.why {
        return format!("{}{why}", line(row.line));
    }
    // What stands alone on one side may have been taken for what stands alone on the other.
    let other = |mark| rows[at..].iter().take_while(|row| row.one_sided()).find(|row| row.mark == mark);
    let (expected, seen) = match row.mark {
        Mark::OnlyExpected => (Some(row), other(Mark::OnlySeen)),
        _ => (other(Mark::OnlyExpected), Some(row)),
    };
    let text = |cell: &Option<Cell>| cell.as_ref().map_or_else(String::new, Cell::line);
    match (expected, seen) {
        (Some(expected), Some(seen)) => {
            format!("{}expected `{}`, but saw `{}`", line(expected.line), text(&expected.expected), text(&seen.seen))
        }
        (Some(expected), None) => {
            format!("{}`{}` did not happen", line(expected.line), text(&expected.expected))
        }
        (None, Some(seen)) => format!("`{}` was not expected", text(&seen.seen)),
        (None, None) => format!("{}something differs", line(row.line)),
    }
}
