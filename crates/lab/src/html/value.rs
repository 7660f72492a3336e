//! Tables and figures of rows as JSON has them: what all experiments have in common.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::plot::ranges::{RangeMark, RangeRow, ranges};
use super::plot::{Axis, HALF, Said, Scale, SeriesStyle};
use super::shell::{TableCell, figure, table};

/// A figure over several runs, or of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranged {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// What a column of rows holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ValueEntry {
    Text(String),
    Number(f64),
    Ranged(Ranged),
    Nothing,
}

/// Rows with the same columns.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// What they are, such as `costs`; empty for those of the whole.
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<ValueEntry>>,
}

/// All arrays of objects, each as rows; an array within a row is rows of its own.
pub(super) fn rows_of(name: &str, items: &[Value]) -> Vec<Rows> {
    let objects: Vec<&Map<String, Value>> = items.iter().filter_map(Value::as_object).collect();
    let mut found = Rows { name: name.to_owned(), columns: Vec::new(), rows: Vec::new() };
    let mut inner = Vec::new();
    for object in &objects {
        let mut row = Vec::new();
        flatten("", object, &mut row, &mut inner);
        for (column, _) in &row {
            if !found.columns.contains(column) {
                found.columns.push(column.clone());
            }
        }
        let entry = |column: &String| {
            row.iter().find(|(name, _)| name == column).map_or(ValueEntry::Nothing, |(_, entry)| entry.clone())
        };
        found.rows.push(found.columns.iter().map(entry).collect());
    }
    // What later rows have more than the first ones.
    let width = found.columns.len();
    found.rows.iter_mut().for_each(|row| row.resize(width, ValueEntry::Nothing));
    found.without_empty();
    found.names_first();
    let mut all = if found.columns.is_empty() { Vec::new() } else { vec![found] };
    for (name, items) in inner {
        all.extend(rows_of(&name, items));
    }
    all
}

fn flatten<'a>(
    prefix: &str,
    object: &'a Map<String, Value>,
    row: &mut Vec<(String, ValueEntry)>,
    inner: &mut Vec<(String, &'a [Value])>,
) {
    for (key, value) in object {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        let entry = match value {
            Value::Object(object) => match ranged(object) {
                Some(ranged) => ValueEntry::Ranged(ranged),
                None => {
                    flatten(&name, object, row, inner);
                    continue;
                }
            },
            Value::Array(items) if items.iter().any(Value::is_object) => {
                inner.push((name, items));
                continue;
            }
            Value::Array(items) => ValueEntry::Text(items.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")),
            Value::Number(number) => number.as_f64().map_or(ValueEntry::Nothing, ValueEntry::Number),
            Value::String(text) => ValueEntry::Text(text.clone()),
            Value::Bool(is_so) => ValueEntry::Text(if *is_so { "yes" } else { "no" }.to_owned()),
            Value::Null => ValueEntry::Nothing,
        };
        row.push((name, entry));
    }
}

/// `median`, `min` and `max`, and nothing else.
fn ranged(object: &Map<String, Value>) -> Option<Ranged> {
    let figure = |key: &str| object.get(key).and_then(Value::as_f64);
    (object.len() == 3).then_some(())?;
    Some(Ranged { median: figure("median")?, low: figure("min")?, high: figure("max")? })
}

impl Rows {
    /// Leaves out columns in which no row has anything.
    fn without_empty(&mut self) {
        let is_used = |i: &usize| self.rows.iter().any(|row| row[*i] != ValueEntry::Nothing);
        let used: Vec<usize> = (0..self.columns.len()).filter(is_used).collect();
        self.keep(&used);
    }

    /// Keeps these columns, in this order.
    fn keep(&mut self, order: &[usize]) {
        self.columns = order.iter().map(|i| self.columns[*i].clone()).collect();
        self.rows.iter_mut().for_each(|row| *row = order.iter().map(|i| row[*i].clone()).collect());
    }

    /// Puts columns of text before those of figures.
    fn names_first(&mut self) {
        let is_text = |i: usize| self.rows.iter().any(|row| matches!(row[i], ValueEntry::Text(_)));
        let (texts, others): (Vec<usize>, Vec<usize>) = (0..self.columns.len()).partition(|i| is_text(*i));
        self.keep(&[texts, others].concat());
    }

    /// What tells a row from the others: its texts, and numbers that are no measurements but settings, for they are whole and differ.
    pub(super) fn row_name(&self, row: usize) -> String {
        let differs = |i: usize| self.rows.iter().any(|other| other[i] != self.rows[0][i]);
        let of = |i: usize| match &self.rows[row][i] {
            ValueEntry::Text(text) if i == 0 || differs(i) => Some(text.clone()),
            ValueEntry::Number(number) if differs(i) && is_setting(&self.columns[i]) => {
                Some(format!("{} {number}", self.columns[i].replace('_', " ")))
            }
            ValueEntry::Text(_) | ValueEntry::Number(_) | ValueEntry::Ranged(_) | ValueEntry::Nothing => None,
        };
        (0..self.columns.len()).filter_map(of).collect::<Vec<_>>().join(", ")
    }

    /// The table.
    pub(super) fn table(&self, caption: &str) -> Markup {
        let heads: Vec<(String, String)> =
            self.columns.iter().map(|name| (name.replace('_', " "), String::new())).collect();
        let cell = |entry: &ValueEntry| match entry {
            ValueEntry::Text(text) => TableCell::Name(text.clone()),
            ValueEntry::Number(number) => TableCell::Figure(shown(*number)),
            ValueEntry::Ranged(Ranged { median, low, high }) => {
                TableCell::Figure(format!("{} [{}\u{2013}{}]", shown(*median), shown(*low), shown(*high)))
            }
            ValueEntry::Nothing => TableCell::Figure("-".to_owned()),
        };
        let rows: Vec<Vec<TableCell>> = self.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
        table(caption, &heads, &rows)
    }

    /// Columns that are worth a figure: those over several runs, and medians of distributions with their 99th percentile.
    pub(super) fn figures(&self) -> Vec<(String, Vec<Option<Ranged>>)> {
        let mut all = Vec::new();
        for (i, name) in self.columns.iter().enumerate() {
            let over_runs = self.rows.iter().any(|row| matches!(row[i], ValueEntry::Ranged(_)));
            let tail = name.rsplit_once("p50").map(|(before, after)| format!("{before}p99{after}"));
            let tail = tail.and_then(|tail| self.columns.iter().position(|other| *other == tail));
            let of = |row: &Vec<ValueEntry>| match (&row[i], tail.map(|tail| &row[tail])) {
                (ValueEntry::Ranged(ranged), _) => Some(*ranged),
                (ValueEntry::Number(median), Some(ValueEntry::Number(high))) => {
                    Some(Ranged { median: *median, low: *median, high: *high })
                }
                (ValueEntry::Number(_) | ValueEntry::Text(_) | ValueEntry::Nothing, _) => None,
            };
            if self.rows.len() > 1 && (over_runs || tail.is_some()) {
                all.push((name.clone(), self.rows.iter().map(of).collect()));
            }
        }
        all
    }

    /// Draws such a column.
    pub(super) fn draw(&self, name: &str, values: &[Option<Ranged>]) -> Markup {
        let (what, shown) = quantity(name);
        let over_runs = self.columns.iter().position(|other| other == name);
        let over_runs = over_runs.is_some_and(|i| self.rows.iter().any(|row| matches!(row[i], ValueEntry::Ranged(_))));
        let says = if over_runs { "median, lowest and highest run" } else { "median, and to the 99th percentile" };
        let row = |(i, value): (usize, &Option<Ranged>)| {
            let Ranged { median, low, high } = (*value)?;
            let name = self.row_name(i);
            let title = format!("{name}: {} ({} to {})", shown(median), shown(low), shown(high));
            let mark = RangeMark { look: SeriesStyle::nth(0), median, range: (low, high), title };
            Some(RangeRow { name: cut(&name), marks: vec![mark] })
        };
        let rows: Vec<RangeRow> = values.iter().enumerate().filter_map(row).collect();
        let all: Vec<f64> =
            rows.iter().flat_map(|row| &row.marks).flat_map(|mark| [mark.range.0, mark.range.1]).collect();
        let text =
            rows.iter().flat_map(|row| &row.marks).map(|mark| mark.title.as_str()).collect::<Vec<_>>().join("; ");
        figure(html! { b { (what) } span.soft { ": " (says) } }, HALF, |size| {
            let axis = Axis { scale: Scale::log(all.iter().copied(), shown), name: format!("{what}, log scale") };
            ranges(size.width, &Said { title: &what, text: &text }, axis, &rows)
        })
    }
}

/// What a column is in words, and how its figures are written: times in the unit that they deserve.
pub(super) fn quantity(column: &str) -> (String, fn(f64) -> String) {
    let words = |name: &str| name.replace(['_', '.'], " ");
    match (column.strip_suffix("_ns"), column.strip_suffix("_us")) {
        (Some(name), _) => (words(name), |ns| super::compare::span(ns / 1e3)),
        (None, Some(name)) => (words(name), super::compare::span),
        (None, None) => (words(column), shown),
    }
}

/// A number that was set: of things, not of time or per second.
fn is_setting(column: &str) -> bool {
    let settings = [
        "batch",
        "senders",
        "queues",
        "connections",
        "in_flight",
        "flows",
        "bytes",
        "size_bytes",
        "frame_bytes",
        "depth",
        "rate_pps",
    ];
    settings.contains(&column)
        || column.ends_with("gap_ns")
        || column.ends_with("period_ns")
        || column.ends_with("processing_ns")
}

/// So long that it still leaves room for the figure.
fn cut(name: &str) -> String {
    const MOST: usize = 26;
    if name.chars().count() <= MOST { name.to_owned() } else { name.chars().take(MOST - 1).chain(['…']).collect() }
}

/// A number with as many digits as it deserves.
pub(super) fn shown(number: f64) -> String {
    let digits = match number.abs() {
        large if large >= 1000.0 || large.fract() == 0.0 => 0,
        large if large >= 100.0 => 1,
        large if large >= 1.0 => 2,
        _ => 4,
    };
    let text = format!("{number:.digits$}");
    let whole = text.split('.').next().unwrap_or_default();
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |rest| ("-", rest));
    if whole.len() < 5 {
        return text;
    }
    // A thin space between thousands.
    let groups: Vec<String> =
        whole.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned()).collect();
    format!("{sign}{}", groups.join("\u{202f}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_are_flattened_and_ranges_stay_together() {
        let items = json!([
            {"mode": "a", "p50_ns": {"median": 2.0, "min": 1.0, "max": 3.0}, "latency": {"p50_ns": 5, "p99_ns": 9}, "runs": 3},
            {"mode": "b", "p50_ns": null, "latency": {"p50_ns": 6, "p99_ns": 8}, "runs": 3, "more": true, "inner": [{"x": 1}]},
        ]);
        let all = rows_of("", items.as_array().unwrap());
        assert_eq!(all.iter().map(|rows| rows.name.as_str()).collect::<Vec<_>>(), ["", "inner"]);
        let rows = &all[0];
        assert_eq!(rows.columns, ["mode", "more", "latency.p50_ns", "latency.p99_ns", "p50_ns", "runs"]);
        assert!(rows.rows.iter().all(|row| row.len() == rows.columns.len()), "{rows:?}");
        let figures = rows.figures();
        let names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["latency.p50_ns", "p50_ns"]);
        assert_eq!(figures[0].1[1], Some(Ranged { median: 6.0, low: 6.0, high: 8.0 }));
        assert_eq!(figures[1].1, [Some(Ranged { median: 2.0, low: 1.0, high: 3.0 }), None]);
    }

    #[test]
    fn numbers_have_the_digits_that_they_deserve() {
        let shown: Vec<String> = [0.1234, 3.456, 123.45, 9999.9, 1_234_567.0, 12.0, -54_321.0].map(shown).into();
        assert_eq!(
            shown,
            ["0.1234", "3.46", "123.5", "10\u{202f}000", "1\u{202f}234\u{202f}567", "12", "-54\u{202f}321"]
        );
    }
}
