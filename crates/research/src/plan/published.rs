//! What documents printed.

use std::str::FromStr;

use super::load::Load;

/// The tables that the program brings along: name, text.
const TABLES: &[(&str, &str)] = &[("irq-suspension", include_str!("../../plans/published/irq-suspension.csv"))];

/// One row of a document.
#[derive(Clone, Copy, PartialEq, Debug)]
#[expect(missing_docs, reason = "the unit stands last in the name")]
pub struct PublishedRow {
    pub qps: f64,
    pub avg_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub cpu_pct: f64,
    pub cycles_per_query_corrected: f64,
    pub instructions_per_query_corrected: f64,
}

/// Rows by mode and load.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Published(Vec<(String, Load, PublishedRow)>);

impl Published {
    /// The table of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (_, text) = TABLES.iter().find(|(known, _)| *known == name)?;
        let lines = text.lines().filter(|line| !line.starts_with('#')).skip(1);
        Some(Self(lines.map(|line| row(line).expect("a table of ours")).collect()))
    }

    /// The row of a cell, if the table has it.
    #[must_use]
    pub fn row(&self, mode: &str, load: Load) -> Option<PublishedRow> {
        self.0.iter().find(|(of, at, _)| of == mode && *at == load).map(|(_, _, row)| *row)
    }
}

fn row(line: &str) -> Option<(String, Load, PublishedRow)> {
    let mut fields = line.split(',');
    let mode = fields.next()?.to_owned();
    let load = match fields.next()? {
        "MAX" => Load::Max,
        rate => Load::Rate(rate.strip_suffix('K')?.parse::<u64>().ok()? * 1000),
    };
    let mut number = || f64::from_str(fields.next()?).ok();
    let row = PublishedRow {
        qps: number()?,
        avg_us: number()?,
        p95_us: number()?,
        p99_us: number()?,
        cpu_pct: number()?,
        cycles_per_query_corrected: number()?,
        instructions_per_query_corrected: number()?,
    };
    Some((mode, load, row))
}
