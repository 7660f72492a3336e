//! A sheet: an answer, tables and notes, from which text, Markdown, CSV and pages are written.
//!
//! What is to be shown says what there is, and nothing of how wide a page is, what a form has to escape, or which column goes first where there
//! is no room. Each form is written here once.

mod markdown;
mod text;

pub(crate) use markdown::{escaped, markdown};
pub use text::text;

/// What is said first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SheetAnswer {
    /// What was asked.
    pub asked: String,
    /// What came of it, the most important first; a line that begins with a space belongs to the one before.
    pub said: Vec<String>,
    /// Commands that go on from here, each with what it is for.
    pub next: Vec<(String, String)>,
}

impl SheetAnswer {
    /// A paragraph each, the most important first.
    pub(crate) fn paragraphs(&self) -> Vec<String> {
        let all = self.said.iter().chain([&self.asked]).map(|line| line.trim().to_owned());
        all.filter(|paragraph| !paragraph.is_empty()).collect()
    }
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// What is said before the tables.
    pub answer: SheetAnswer,
    /// In order.
    pub tables: Vec<SheetTable>,
    /// How to read it, a paragraph each.
    pub notes: Vec<String>,
}

/// A table of it.
#[derive(Clone, Debug)]
pub struct SheetTable {
    /// What stands above it.
    pub title: String,
    /// Its columns.
    pub heads: Vec<ColumnHead>,
    /// A cell for each column, or words over several.
    pub rows: Vec<Vec<TableCell>>,
}

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnHead {
    /// What stands at its top.
    pub name: String,
    /// What the column is.
    pub says: String,
    /// Words stand flush left, figures flush right.
    pub is_text: bool,
    /// Where there is no room, columns go in this order; those of 0 stay.
    pub goes: usize,
}

impl ColumnHead {
    /// A column of words.
    #[must_use]
    pub fn text(name: &str, says: &str) -> Self {
        Self { name: name.to_owned(), says: says.to_owned(), is_text: true, goes: 0 }
    }

    /// A column of figures.
    #[must_use]
    pub fn figure(name: &str, says: &str) -> Self {
        Self { is_text: false, ..Self::text(name, says) }
    }

    /// The same, which may go where there is no room.
    #[must_use]
    pub fn goes(self, goes: usize) -> Self {
        Self { goes, ..self }
    }
}

/// One cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableCell {
    /// Words, flush left; in the first column the name of the row.
    Name(String),
    /// A figure, flush right.
    Figure(String),
    /// The best figure of its column.
    Best(String),
    /// A figure that differs from the other by more than the runs do.
    Differs(String),
    /// Words over so many columns; no cell is behind them.
    Words(String, usize),
}

impl TableCell {
    pub(crate) fn content(&self) -> &str {
        match self {
            Self::Name(text) | Self::Figure(text) | Self::Best(text) | Self::Differs(text) | Self::Words(text, _) => {
                text
            }
        }
    }
}

/// A line of names and a line per row, as RFC 4180 has it.
pub(crate) fn csv(table: &SheetTable) -> String {
    let line = |fields: Vec<&str>| fields.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
    let heads = line(table.heads.iter().map(|head| head.name.as_str()).collect());
    table.rows.iter().fold(heads, |text, row| text + &line(row.iter().map(TableCell::content).collect()))
}

/// A field of CSV.
pub(crate) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Text from outside (a CPU's name, an error of the system) without control characters, which a terminal would obey and no page may have.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests;
