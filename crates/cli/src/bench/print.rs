//! How experiments are shown: the answer, tables of at most 100 columns, how to read them; as JSON and as a page. There is no other printer.

use std::io::Write;
use std::sync::OnceLock;

use napier_lab::bench::{BenchDecided, Compared, Metric, PublishedFlow, ranged};
use napier_lab::cpus::CpuLayout;
use napier_lab::html::{HtmlFile, WriteError, bench_page};
use napier_lab::report::{Host, table::WIDTH};
use napier_lab::sheet::{ColumnHead, Sheet, SheetAnswer, SheetTable, TableCell, text};
use napier_lab::subject::Backend;
use serde::Serialize;

use crate::page::plural;

/// Where the page goes, if one was asked for.
pub(super) static PAGE: OnceLock<Result<HtmlFile, WriteError>> = OnceLock::new();

/// One JSON object: what ran, where, what came of it, and its rows.
#[derive(Serialize)]
struct Output<'a, Row> {
    bench: &'a str,
    host: Host,
    commit: String,
    answer: Vec<String>,
    rows: &'a [Row],
    decided: &'a [BenchDecided],
}

/// Tables, and how to read them.
pub(super) struct BenchText {
    pub(super) tables: Vec<SheetTable>,
    pub(super) notes: Vec<String>,
}

/// Prints what an experiment found, as text or as JSON, and writes the page if one was asked for.
pub(super) fn show<Row: Serialize>(
    json: bool,
    bench: &str,
    found: &Compared<Row>,
    as_text: impl FnOnce() -> BenchText,
) -> anyhow::Result<()> {
    let said = answer(&found.decided);
    let page = PAGE.get().and_then(|checked| checked.as_ref().ok());
    if json || page.is_some() {
        let (host, commit) = napier_lab::host::host_and_commit();
        let (answer, rows, decided) = (said.clone(), &found.rows[..], &found.decided[..]);
        let output = serde_json::to_value(Output { bench, host, commit, answer, rows, decided })?;
        if json {
            let mut out = std::io::stdout().lock();
            serde_json::to_writer_pretty(&mut out, &output)?;
            writeln!(out)?;
        }
        if let Some(page) = page {
            page.write(&bench_page(&output))?;
        }
    }
    if !json {
        let BenchText { tables, notes } = as_text();
        let answer = SheetAnswer { said, ..SheetAnswer::default() };
        crate::output::say(&text(&Sheet { answer, tables, notes }, WIDTH))?;
    }
    Ok(())
}

/// What was decided, what was left out, and what would decide the rest.
fn answer(decided: &[BenchDecided]) -> Vec<String> {
    let mut said: Vec<String> = decided.iter().flat_map(BenchDecided::answer).collect();
    let sum = |of: fn(&BenchDecided) -> usize| decided.iter().filter(|block| !block.taken).map(of).sum::<usize>();
    let left_out = sum(|block| block.left_out);
    if left_out > 0 {
        said.push(format!(
            "Left out, because the machine was taken away: {left_out} of {} slices.",
            sum(|block| block.of)
        ));
    }
    if let Some(rounds) = decided.iter().filter_map(BenchDecided::rounds_to_decide).max() {
        said.push(format!("--runs {rounds} would decide the rest, as it looks."));
    }
    said
}

/// A table whose cells are figures, but for those of columns of words.
pub(super) fn table(title: &str, heads: Vec<ColumnHead>, rows: Vec<Vec<String>>) -> SheetTable {
    let cells = |row: Vec<String>| {
        let cell = |(text, head): (String, &ColumnHead)| {
            if head.is_text { TableCell::Name(text) } else { TableCell::Figure(text) }
        };
        row.into_iter().zip(&heads).map(cell).collect()
    };
    SheetTable { title: title.to_owned(), rows: rows.into_iter().map(cells).collect(), heads }
}

/// A column of words.
pub(super) fn words(name: &str) -> ColumnHead {
    ColumnHead::text(name, name)
}

/// A column of figures.
pub(super) fn figure(name: &str) -> ColumnHead {
    ColumnHead::figure(name, name)
}

/// The name of a row and why it has no figures.
pub(super) fn without_figures(name: String, why: &str, columns: usize) -> Vec<TableCell> {
    vec![TableCell::Name(name), TableCell::Words(why.to_owned(), columns)]
}

/// A figure of a row with its interval, times `scale`.
pub(super) fn cell(decided: &BenchDecided, row: usize, metric: Metric, scale: f64) -> String {
    decided.figure(row, metric).map_or_else(|| "-".to_owned(), |figure| ranged(figure, scale))
}

/// p50 and p99 in us, each with how it stands to that of the first row.
pub(super) fn latency_heads() -> Vec<ColumnHead> {
    vec![figure("p50 us"), words("of the first"), figure("p99 us"), words("of the first").goes(1)]
}

/// Cells under [`latency_heads`].
pub(super) fn latency_cells(decided: &BenchDecided, row: usize) -> Vec<String> {
    let of = |metric| [cell(decided, row, metric, 1e-3), decided.beside_first(row, metric)];
    of(Metric::P50).into_iter().chain(of(Metric::P99)).collect()
}

/// How slices were measured.
pub(super) fn measured(rounds: u32, what: &str) -> String {
    format!(
        "{} of each row, {what}, in random order; in brackets the 95 % interval over rounds. of the first: beside the first row; better, worse and within X % \
         are decided, undecided is not known.",
        plural(rounds, "slice")
    )
}

/// Nanoseconds of a row of a published table.
pub(super) fn published_times(row: &PublishedFlow) -> [String; 4] {
    let times = [Some(row.p50_ns), row.p90_ns.or(row.p95_ns), Some(row.p99_ns), Some(row.p999_ns)];
    #[expect(clippy::cast_precision_loss, reason = "figures of a table")]
    times.map(|ns| ns.map_or_else(|| "-".to_owned(), |ns| time(ns as f64)))
}

/// A count a second in three digits or four: `2.75M`, `572.6K`.
pub(super) fn rate(per_s: f64) -> String {
    match per_s {
        small if small < 1e3 => format!("{per_s:.0}"),
        thousands if thousands < 999_950.0 => format!("{:.1}K", per_s / 1e3),
        _ => format!("{:.2}M", per_s / 1e6),
    }
}

/// A time as the published tables write it: `337us`, `1.04ms`.
pub(super) fn time(ns: f64) -> String {
    let us = ns / 1e3;
    match us {
        short if short < 99.95 => format!("{us:.1}us"),
        short if short < 999.5 => format!("{us:.0}us"),
        middling if middling < 99_995.0 => format!("{:.2}ms", us / 1e3),
        long if long < 999_500.0 => format!("{:.0}ms", us / 1e3),
        _ => format!("{:.2}s", us / 1e6),
    }
}

/// What is true of all rows of a server with many connections.
pub(super) fn notes_of_flows(backends: impl IntoIterator<Item = Backend>, cpus: Option<&CpuLayout>) -> Vec<String> {
    let cpus = cpus.map_or_else(String::new, |cpus| format!("CPUs: {cpus}. "));
    let mut notes = vec![format!(
        "{cpus}The mode is that of the server's end; the client's end takes interrupts. NAPI threads and workers of the pool run on the CPUs \
         of the server."
    )];
    if backends.into_iter().any(|backend| backend == Backend::Kernel) {
        notes.push(
            "kernel: over a veth pair. In modes without a thread a veth receives for the server in softirq on the CPU that sends, here the client's: work \
             that the interrupt of a NIC would put on the server's CPU."
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_as_the_published_ones() {
        assert_eq!([2.75e6, 572_600.0, 11_000.0, 412.0].map(rate), ["2.75M", "572.6K", "11.0K", "412"]);
        assert_eq!(
            [337e3, 1.04e6, 79e6, 306e6, 12_345.0, 2.5e9].map(time),
            ["337us", "1.04ms", "79.00ms", "306ms", "12.3us", "2.50s"]
        );
    }
}
