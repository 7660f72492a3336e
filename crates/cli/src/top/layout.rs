//! A table as text: which columns there is room for, how wide they are, in which order the rows come. Pure.

use serde_json::{Map, Value, json};

use super::rows::{Cell, Column, FigureKind, TopTable};

/// Letters of a number.
const NUMBER_WIDTH: usize = 5;
/// A word is not made shorter than this.
const TEXT_WIDTH_MIN: usize = 4;
/// Between two columns.
const GAP: usize = 1;

/// A column that is shown.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct ColumnPlace {
    /// Which of the table's columns.
    pub(super) column: usize,
    /// Letters.
    pub(super) width: usize,
}

/// A number in at most five letters: three digits, and k, M or G.
pub(super) fn short(number: f64) -> String {
    let (mut value, mut unit) = (number, "");
    for next in ["k", "M", "G", "T"] {
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1000.0, next);
    }
    match value {
        value if number == 0.0 || value >= 99.95 || (unit.is_empty() && value.fract() == 0.0) => {
            format!("{value:.0}{unit}")
        }
        value if value >= 9.995 => format!("{value:.1}{unit}"),
        value => format!("{value:.2}{unit}"),
    }
}

/// A cell as it is shown.
pub(super) fn shown(cell: &Cell, kind: FigureKind) -> String {
    match (cell, kind) {
        (Cell::Text(text), _) => text.clone(),
        (Cell::Number(None), _) => "-".to_owned(),
        (Cell::Number(Some(percent)), FigureKind::Percent) => format!("{percent:.1}"),
        (Cell::Number(Some(number)), _) => short(*number),
    }
}

/// As much of a text as there is room for, and where it was cut.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['~']).collect()
}

/// The columns that fit into `width` letters; `None`: all of them, as wide as they want to be.
pub(super) fn layout(table: &TopTable, width: Option<usize>) -> Vec<ColumnPlace> {
    let natural = |column: usize| match table.columns[column].kind {
        FigureKind::Text => {
            let longest = table.rows.iter().map(|row| shown(&row[column], FigureKind::Text).chars().count()).max();
            table.columns[column].head.len().max(longest.unwrap_or(0))
        }
        _ => table.columns[column].head.len().max(NUMBER_WIDTH),
    };
    let known = (0..table.columns.len()).filter(|column| table.known(*column));
    let mut places: Vec<ColumnPlace> = known.map(|column| ColumnPlace { column, width: natural(column) }).collect();
    let Some(width) = width else { return places };
    let taken =
        |places: &[ColumnPlace]| places.iter().map(|place| place.width + GAP).sum::<usize>().saturating_sub(GAP);
    // Words are made shorter before a column is left out that belongs to the table, and after one that does not.
    while taken(&places) > width {
        let rank = |place: &ColumnPlace| table.columns[place.column].rank;
        let least = places.iter().map(rank).max().filter(|rank| *rank > 0);
        if let Some(least) = least {
            places.retain(|place| rank(place) != least);
            continue;
        }
        let texts = places.iter_mut().filter(|place| table.columns[place.column].kind == FigureKind::Text);
        if let Some(widest) = texts.filter(|place| place.width > TEXT_WIDTH_MIN).max_by_key(|place| place.width) {
            widest.width -= 1;
        } else if places.len() > 1 {
            places.pop();
        } else {
            break;
        }
    }
    places
}

/// The heads of columns, as wide as they are placed.
pub(super) fn heads(columns: &[Column], places: &[ColumnPlace]) -> Vec<String> {
    places.iter().map(|place| pad(columns[place.column].head, columns[place.column].kind, place.width)).collect()
}

/// The cells of a row, likewise.
pub(super) fn cells(columns: &[Column], row: &[Cell], places: &[ColumnPlace]) -> Vec<String> {
    let cell = |place: &ColumnPlace| {
        let kind = columns[place.column].kind;
        pad(&shown(&row[place.column], kind), kind, place.width)
    };
    places.iter().map(cell).collect()
}

fn pad(text: &str, kind: FigureKind, width: usize) -> String {
    let text = cut(text, width);
    match kind {
        FigureKind::Text => format!("{text:<width$}"),
        _ => format!("{text:>width$}"),
    }
}

/// In which order the rows come.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Order {
    /// By this column; `None`: as they are.
    pub(super) column: Option<usize>,
    /// The other way round: the largest number is first otherwise.
    pub(super) reverse: bool,
}

/// The rows that hold `filter` in one of their words, in order.
pub(super) fn arranged<'a>(table: &'a TopTable, order: Order, filter: &str) -> Vec<&'a Vec<Cell>> {
    let filter = filter.to_lowercase();
    let holds = |cell: &Cell| matches!(cell, Cell::Text(text) if text.to_lowercase().contains(&filter));
    let mut rows: Vec<_> = table.rows.iter().filter(|row| filter.is_empty() || row.iter().any(holds)).collect();
    if let Some(column) = order.column.filter(|column| *column < table.columns.len()) {
        rows.sort_by(|a, b| compared(&a[column], &b[column]));
    }
    if order.reverse {
        rows.reverse();
    }
    rows
}

/// Words and the numbers in them as a reader orders them; numbers from the largest, those that are not known last.
fn compared(a: &Cell, b: &Cell) -> std::cmp::Ordering {
    match (a, b) {
        (Cell::Number(a), Cell::Number(b)) => b.unwrap_or(-1.0).total_cmp(&a.unwrap_or(-1.0)),
        (Cell::Text(a), Cell::Text(b)) => match (a.parse::<u64>(), b.parse::<u64>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            _ => a.cmp(b),
        },
        (Cell::Text(_), Cell::Number(_)) => std::cmp::Ordering::Less,
        (Cell::Number(_), Cell::Text(_)) => std::cmp::Ordering::Greater,
    }
}

/// The tables that have rows, one below the other.
pub(super) fn text(tables: &[TopTable], width: Option<usize>) -> String {
    let line = |cells: Vec<String>| format!("{}\n", cells.join(" ").trim_end());
    let part = |table: &TopTable| {
        let places = layout(table, width);
        let rows = table.rows.iter().map(|row| line(cells(&table.columns, row, &places)));
        format!("{}:\n{}{}", table.tab.name(), line(heads(&table.columns, &places)), rows.collect::<String>())
    };
    tables.iter().filter(|table| !table.rows.is_empty()).map(part).collect::<Vec<_>>().join("\n")
}

/// The tables as JSON: an array for each, of objects with the keys of the columns. What is not known is null.
pub(super) fn as_json(tables: &[TopTable]) -> Map<String, Value> {
    let value = |cell: &Cell| match cell {
        Cell::Text(text) => json!(text),
        Cell::Number(number) => json!(number.map(|number| (number * 1e6).round() / 1e6)),
    };
    let object = |table: &TopTable, row: &Vec<Cell>| -> Value {
        let pairs = table.columns.iter().zip(row).map(|(column, cell)| (column.key.to_owned(), value(cell)));
        Value::Object(pairs.collect())
    };
    let array = |table: &TopTable| table.rows.iter().map(|row| object(table, row)).collect::<Value>();
    tables.iter().map(|table| (table.tab.name().to_owned(), array(table))).collect()
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
