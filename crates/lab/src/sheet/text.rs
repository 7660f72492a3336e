//! A sheet as text of a bounded width.

use super::{ColumnHead, Sheet, SheetTable, TableCell, printable};

/// Between two columns.
const GAP: usize = 2;

/// Words get at least so many columns behind what stands before them.
const WORDS_MIN: usize = 12;

/// The sheet in lines of at most `width` columns: the answer, what to type next, the tables, the notes. Where a table is wider, columns go, and
/// a note says which; one of which no column may go is as wide as it is.
#[must_use]
pub fn text(sheet: &Sheet, width: usize) -> String {
    let mut page = Page { text: String::new(), width };
    let answer = &sheet.answer;
    page.words("", &answer.asked);
    for line in &answer.said {
        page.words(if line.starts_with(' ') { "    " } else { "" }, line);
    }
    let widest = answer.next.iter().map(|(command, _)| chars(command)).max().unwrap_or(0);
    for (i, (command, what)) in answer.next.iter().enumerate() {
        let head = if i == 0 { "Next" } else { "" };
        page.words(&format!("{head:<6}{command:<widest$}"), what);
    }
    let mut hidden: Vec<&str> = Vec::new();
    for table in &sheet.tables {
        let alike: Vec<&SheetTable> = sheet.tables.iter().filter(|other| other.heads == table.heads).collect();
        let columns = Columns::fitting(&alike, width);
        hidden.extend(columns.gone.iter().copied().filter(|name| !hidden.contains(name)).collect::<Vec<_>>());
        page.table(table, &columns);
    }
    page.line("");
    for note in &sheet.notes {
        page.words("", note);
    }
    if !hidden.is_empty() {
        page.words("", &format!("Not shown at {width} columns: {}.", hidden.join(", ")));
    }
    page.text.trim_start_matches('\n').to_owned()
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// Which columns of tables that are alike are shown, and how wide they are.
struct Columns<'a> {
    /// Number and width.
    shown: Vec<(usize, usize)>,
    gone: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    fn fitting(tables: &[&'a SheetTable], width: usize) -> Self {
        let heads = &tables[0].heads;
        let cells = |i: usize| {
            let rows = tables.iter().flat_map(|table| &table.rows);
            rows.filter_map(move |row| row.get(i).filter(|cell| !matches!(cell, TableCell::Words(..))))
        };
        let wide = |i: usize| cells(i).map(|cell| chars(cell.content())).max().unwrap_or(0).max(chars(&heads[i].name));
        let mut all = Self { shown: (0..heads.len()).map(|i| (i, wide(i))).collect(), gone: Vec::new() };
        // Words at the end are broken, so they need not fit as they are.
        if let Some((i, last)) = all.shown.last_mut().filter(|(i, _)| heads[*i].is_text && *i > 0) {
            *last = (*last).min(chars(&heads[*i].name).max(WORDS_MIN));
        }
        let mut may_go: Vec<usize> = (0..heads.len()).filter(|i| heads[*i].goes > 0).collect();
        may_go.sort_by_key(|i| heads[*i].goes);
        for i in may_go {
            if all.width() <= width {
                break;
            }
            all.shown.retain(|(other, _)| *other != i);
            all.gone.push(&heads[i].name);
        }
        all
    }

    fn width(&self) -> usize {
        self.shown.iter().map(|(_, width)| width + GAP).sum::<usize>().saturating_sub(GAP)
    }
}

/// Text that is made line by line.
struct Page {
    text: String,
    /// Widest line, in columns.
    width: usize,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Words behind `start`, broken so that no line is too wide; further lines begin below the first word, if that leaves room for words, and
    /// without a start further in.
    fn words(&mut self, start: &str, words: &str) {
        let gap = if chars(start.trim()) > 0 { GAP } else { 0 };
        let from = chars(start) + gap;
        let indent = match from {
            0 => GAP,
            from if from + 2 * WORDS_MIN > self.width => self.width / 3,
            from => from,
        };
        let (mut current, mut at) = (format!("{start}{:gap$}", ""), from);
        let mut is_first = true;
        for word in printable(words).split_whitespace() {
            let length = chars(word);
            if !is_first && at + 1 + length > self.width {
                self.line(&current);
                (current, at, is_first) = (" ".repeat(indent), indent, true);
            }
            if !is_first {
                current.push(' ');
                at += 1;
            }
            current += word;
            at += length;
            is_first = false;
        }
        if !current.trim().is_empty() {
            self.line(&current);
        }
    }

    fn table(&mut self, table: &SheetTable, columns: &Columns<'_>) {
        self.line("");
        self.words("", &table.title);
        let heads: Vec<TableCell> = table.heads.iter().map(|head| TableCell::Name(head.name.clone())).collect();
        for row in std::iter::once(&heads).chain(&table.rows) {
            self.row(&table.heads, row, columns);
        }
    }

    /// Words at the end of a row; where no column may go there is room for them all the same.
    fn last(&mut self, line: &str, words: &str, least: usize) {
        if words.trim().is_empty() {
            return self.line(line);
        }
        let width = self.width;
        self.width = width.max(chars(line) + GAP + least.min(2 * WORDS_MIN));
        self.words(line, words);
        self.width = width;
    }

    fn row(&mut self, heads: &[ColumnHead], row: &[TableCell], columns: &Columns<'_>) {
        let mut line = String::new();
        for (at, (i, width)) in columns.shown.iter().enumerate() {
            let Some(cell) = row.get(*i) else { break };
            let content = printable(cell.content());
            let is_last = at + 1 == columns.shown.len() || matches!(cell, TableCell::Words(..));
            if is_last && heads[*i].is_text || matches!(cell, TableCell::Words(..)) {
                return self.last(&line, &content, *width);
            }
            let padding = " ".repeat(width.saturating_sub(chars(&content)));
            let gap = if at == 0 { "" } else { "  " };
            line += &if heads[*i].is_text {
                format!("{gap}{content}{padding}")
            } else {
                format!("{gap}{padding}{content}")
            };
        }
        self.line(&line);
    }
}
