//! The tables of a comparison.

use maud::{Markup, html};

use crate::html::shell::sheet_table;
use crate::report::Report;
use crate::report::table::{Which, sheet};
use crate::sheet::SheetTable;

/// The columns that decide, load by load, and what each mode keeps up to: as on a terminal.
pub(super) fn deciding(report: &Report) -> Markup {
    tables(&sheet(report, &Which::Fitting).tables)
}

/// The same with all columns, without what stands there already.
pub(super) fn all(report: &Report) -> Markup {
    let mut tables = sheet(report, &Which::All).tables;
    if !report.sustained.is_empty() {
        tables.pop();
    }
    html! {
        p.note { "Latencies in µs from when a request was due; cpu, useful, spin in % of the server's CPUs. A column's head says more, as does docs/compare.md." }
        (self::tables(&tables))
    }
}

fn tables(all: &[SheetTable]) -> Markup {
    html! { @for table in all { (sheet_table(table)) } }
}
