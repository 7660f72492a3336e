//! What documents printed, as rows of named figures: a table of mode, load and figures, with the names in its first line.

use napier_scenario::ParseError;
use napier_scenario::read::Node;

use super::figures::{NAMES, name_of};
use super::files::table_text;

/// The rows of a table.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Published {
    /// Names of the figures.
    pub columns: Vec<&'static str>,
    /// Mode, load, figures.
    pub rows: Vec<(String, String, Vec<f64>)>,
}

impl Published {
    /// Reads what a plan names: a table that comes along, or a file.
    pub(super) fn read(node: &Node<'_>) -> Result<Self, ParseError> {
        let name = node.text("the name of a published table, or its file")?;
        let text = table_text(name).ok_or_else(|| node.error(format!("there is no published table {name:?}")))?;
        Self::parse(&text).map_err(|why| node.error(format!("{name}: {why}")))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let head = lines.next().ok_or("it has no line of names")?;
        let mut names = head.split(',').map(str::trim);
        if (names.next(), names.next()) != (Some("mode"), Some("load")) {
            return Err("its first line is mode,load, and the names of figures".to_owned());
        }
        let known =
            |name: &str| name_of(name).ok_or_else(|| format!("{name} is no figure; they are {}", NAMES.join(", ")));
        let columns: Vec<&'static str> = names.map(known).collect::<Result<_, _>>()?;
        let row = |line: &str| {
            let mut fields = line.split(',').map(str::trim);
            let (mode, load) = (fields.next()?.to_owned(), fields.next()?.to_owned());
            let figures: Vec<f64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
            (figures.len() == columns.len()).then_some((mode, load, figures))
        };
        let rows = lines.map(|line| row(line).ok_or_else(|| format!("{line:?} is no row of {head}")));
        let rows = rows.collect::<Result<_, _>>()?;
        Ok(Self { columns, rows })
    }

    /// The figures of a cell, if the table has them.
    #[must_use]
    pub fn row(&self, mode: &str, load: &str) -> Option<&[f64]> {
        self.rows.iter().find(|(of, at, _)| of == mode && at == load).map(|(.., figures)| figures.as_slice())
    }
}
