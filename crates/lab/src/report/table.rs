//! The table, in the manner of a kernel cover letter: one block per load, figures flush right, one line per mode.

use super::beside;
use super::sentence::sentence;
use super::{Outcome, Report, Row};
use crate::loads::Load;
use crate::stats::Figures;
use crate::subject::Backend;

/// Widest line, in columns; a reason or a sentence that is longer is broken.
pub const WIDTH_MAX: usize = 160;

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// Writes the report as text. With `bold`, the best of each column within a load is set in bold by terminal codes;
/// without, the text has no codes at all.
pub fn render(report: &Report, bold: bool) -> String {
    let mut text = String::new();
    let backends = report.among_backends();
    let name_width = report.rows.iter().map(|row| row.subject.name(backends).len()).max().unwrap_or(0).max(10);
    let has = |column: &&Column| {
        !column.optional
            || report.rows.iter().any(|row| row.measured().is_some_and(|m| (column.figure)(&m.median).is_some()))
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(has).collect();
    let shape = Shape { columns, name_width, backends, bold };
    let (begun, not_begun): (Vec<_>, Vec<_>) =
        report.by_load().into_iter().partition(|(_, rows)| !rows.iter().all(|row| row.was_not_run()));
    for (load, rows) in begun {
        if !text.is_empty() {
            text.push('\n');
        }
        block(&mut text, load, &rows, &shape);
    }
    text.push('\n');
    incomplete(&mut text, report, not_begun.into_iter().map(|(load, _)| load));
    text + &legend(report)
}

/// Which value of a column is best.
#[derive(Clone, Copy, PartialEq)]
enum Best {
    Lowest,
    Highest,
}

/// Shows a figure, given the lowest of its column.
type Show = fn(f64, f64) -> String;

/// What all blocks have in common.
struct Shape<'a> {
    columns: Vec<&'a Column>,
    name_width: usize,
    backends: bool,
    bold: bool,
}

struct Column {
    /// Left out where no row has the figure.
    optional: bool,
    head: &'static str,
    width: usize,
    best: Best,
    figure: fn(&Figures) -> Option<f64>,
    show: Show,
}

const COLUMNS: &[Column] = &[
    column("qps", 8, Best::Highest, |f| Some(f.achieved_rps), whole),
    column("avglat", 7, Best::Lowest, |f| Some(f.latency_us.mean), us),
    column("50%lat", 7, Best::Lowest, |f| Some(f.latency_us.p50), us),
    column("95%lat", 7, Best::Lowest, |f| Some(f.latency_us.p95), us),
    column("99%lat", 7, Best::Lowest, |f| Some(f.latency_us.p99), us),
    column("99.9%lat", 8, Best::Lowest, |f| Some(f.latency_us.p999), us),
    column("cpu", 5, Best::Lowest, |f| Some(f.cpu.total_pct), whole),
    column("useful", 6, Best::Lowest, |f| f.cpu.useful_pct, whole),
    column("spin", 5, Best::Lowest, |f| f.cpu.spin_pct, whole),
    optional(column("cpu0+1", 6, Best::Lowest, |f| Some(f.cores?.busy_pct), whole)),
    optional(column("proc", 4, Best::Lowest, |f| Some(f.cores?.process_pct), whole)),
    optional(column("cl-si", 5, Best::Lowest, |f| Some(f.cores?.client_softirq_pct), whole)),
    column("cpq", 7, Best::Lowest, |f| f.cycles_per_request, whole),
    column("irq/s", 7, Best::Lowest, |f| f.interrupts_per_s, whole),
    column("polls/s", 8, Best::Lowest, |f| f.polls_per_s, whole),
    column("empty", 5, Best::Lowest, |f| f.empty_polls_pct, whole),
    column("work/poll", 9, Best::Highest, |f| f.work_per_poll, hundredths),
    column("ev/wait", 7, Best::Highest, |f| f.events_per_wait, hundredths),
];

const fn column(
    head: &'static str,
    width: usize,
    best: Best,
    figure: fn(&Figures) -> Option<f64>,
    show: Show,
) -> Column {
    Column { optional: false, head, width, best, figure, show }
}

const fn optional(column: Column) -> Column {
    Column { optional: true, ..column }
}

fn block(text: &mut String, load: Load, rows: &[&Row], shape: &Shape<'_>) {
    let name_width = shape.name_width;
    let mut head = format!("{:>name_width$}{:>7}", "testcase", "load");
    for column in &shape.columns {
        head += &format!(" {:>1$}", column.head, column.width);
    }
    line(text, &head);
    let ranges: Vec<Range> = shape.columns.iter().map(|column| Range::of(column, rows)).collect();
    for row in rows {
        let mut start = format!("{:>name_width$}{:>7}", row.subject.name(shape.backends), load);
        match &row.outcome {
            Outcome::Refused(reason) => broken(text, &start, &format!("refused: {reason}")),
            Outcome::Nothing => {
                let why = row.lost.as_ref().map_or("", |lost| lost.why.as_str());
                broken(
                    text,
                    &start,
                    &format!("no figures: of {} runs {why}", row.lost.as_ref().map_or(0, |lost| lost.of)),
                );
            }
            Outcome::Measured(measured) => {
                for (column, range) in shape.columns.iter().zip(&ranges) {
                    start += &cell(column, range, (column.figure)(&measured.median), shape.bold);
                }
                line(text, &start);
            }
        }
    }
    if shape.backends {
        for backend in [Backend::Engine, Backend::Kernel] {
            let of_this: Vec<&Row> = rows.iter().copied().filter(|row| row.subject.backend == backend).collect();
            let said = sentence(load, &of_this);
            if !said.is_empty() {
                broken(text, "", &format!("In the {backend}: {said}"));
            }
        }
        broken(text, "", &beside::sentence(load, rows));
    } else {
        broken(text, "", &sentence(load, rows));
    }
    broken(text, "", &spread(rows, shape.backends));
    for row in rows.iter().filter(|row| row.measured().is_some()) {
        if let Some(lost) = &row.lost {
            let name = row.subject.name(shape.backends);
            broken(
                text,
                "",
                &format!("{name}: not in its figures are {} of {} runs: {}.", lost.runs, lost.of, lost.why),
            );
        }
    }
}

/// Says above the legend what the table lacks, and why.
fn incomplete(text: &mut String, report: &Report, not_begun: impl Iterator<Item = Load>) {
    let Some(why) = &report.ended else { return };
    let loads: Vec<String> = not_begun.map(|load| load.to_string()).collect();
    let loads = if loads.is_empty() { String::new() } else { format!(" Not begun: {}.", loads.join(", ")) };
    broken(text, "", &format!("INCOMPLETE: {why}.{loads}"));
}

fn cell(column: &Column, range: &Range, figure: Option<f64>, bold: bool) -> String {
    let shown = figure.map_or_else(|| "-".to_owned(), |figure| (column.show)(figure, range.lowest));
    // The codes take no room on the screen, so the padding is counted without them.
    let padding = " ".repeat(1 + column.width.saturating_sub(shown.len()));
    let is_best = figure.zip(range.best).is_some_and(|(figure, best)| range.alike(column, figure, best));
    if bold && is_best { format!("{padding}{BOLD}{shown}{PLAIN}") } else { padding + &shown }
}

/// What a column holds within a load.
struct Range {
    lowest: f64,
    /// `None` if there is nothing to choose: one row, or all alike.
    best: Option<f64>,
}

impl Range {
    fn of(column: &Column, rows: &[&Row]) -> Self {
        let figures: Vec<f64> = rows.iter().filter_map(|row| (column.figure)(&row.measured()?.median)).collect();
        let lowest = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let range = Self { lowest, best: None };
        if figures.len() < 2 || range.alike(column, lowest, highest) {
            return range;
        }
        Self { best: Some(if column.best == Best::Lowest { lowest } else { highest }), ..range }
    }

    /// Whether two figures are equally good: rows that look alike are bold alike, and rates within 1 % of each other
    /// are the same rate with noise.
    fn alike(&self, column: &Column, a: f64, b: f64) -> bool {
        let noise = column.head == "qps" && (a - b).abs() <= 0.01 * a.max(b);
        noise || (column.show)(a, self.lowest) == (column.show)(b, self.lowest)
    }
}

/// The lowest and the highest p99 of each mode's runs; nothing if there is only one run.
fn spread(rows: &[&Row], backends: bool) -> String {
    let several =
        rows.iter().filter_map(|row| Some((row.subject.name(backends), row.measured().filter(|m| m.runs > 1)?)));
    let each: Vec<String> = several
        .map(|(name, measured)| {
            let (min, max) = (measured.spread.min.latency_us.p99, measured.spread.max.latency_us.p99);
            format!("{name} {}-{}", us(min, min), us(max, min))
        })
        .collect();
    if each.is_empty() { String::new() } else { format!("99%lat, lowest and highest run: {}.", each.join(", ")) }
}

fn legend(report: &Report) -> String {
    let workload = &report.workload;
    let runs = report.rows.iter().filter_map(|row| Some(row.measured()?.runs)).max().unwrap_or(0);
    let mut text = String::new();
    let figures = format!(
        "Median of {runs} run{} of {} s. Latency in us from the intended send. cpu, useful, spin: % of the server's {} \
         CPU{}; spin is time in polls that found nothing. cpq: reference cycles per query. empty: % of polls that found \
         nothing. -: not applicable or not to be had here.",
        if runs == 1 { "" } else { "s" },
        workload.seconds,
        workload.server_cpus,
        if workload.server_cpus == 1 { "" } else { "s" },
    );
    broken(&mut text, "", &figures);
    if report.rows.iter().any(|row| row.measured().is_some_and(|measured| measured.median.cores.is_some())) {
        let cores = "cpu0+1: how busy the CPUs of client and server are together, in % of one CPU, by /proc/stat, for \
                     all programs; the client polls and takes 100. proc: the same of this process alone. cl-si: % of the client's CPU spent in softirqs: \
                     over veth the kernel does much of the server's receive work on the CPU that sends. A kernel row \
                     counts no polls.";
        broken(&mut text, "", cores);
    }
    let way = match workload.device.as_str() {
        "link" => String::new(),
        device => format!(" over {device}, {}", workload.proto),
    };
    let setup = format!(
        "{} on the {}{way}: {} flows, {} queue{}, {} records, {} % sets, keys {}, values {}, {}; service {}; seed {}. {}, {} CPUs, \
         Linux {}; commit {}.",
        workload.name,
        workload.backend,
        workload.flows,
        workload.queues,
        if workload.queues == 1 { "" } else { "s" },
        workload.records,
        workload.set_pct,
        workload.key_sizes,
        workload.value_sizes,
        workload.popularity,
        workload.service.as_deref().unwrap_or("none added"),
        workload.seed,
        report.host.cpu_model,
        report.host.cpus,
        report.host.kernel,
        report.commit,
    );
    broken(&mut text, "", &setup);
    if let Some(memory) = &report.memory {
        let mib = |kib: u64| kib.div_ceil(1024);
        let (first, end, peak) = (mib(memory.after_first_run_kib), mib(memory.at_end_kib), mib(memory.peak_kib));
        let words = format!(
            "memory: {first} MiB resident in this process after the first run, {end} at the end, {peak} at most"
        );
        broken(&mut text, "", &words);
    }
    for (name, note) in &report.host.notes {
        broken(&mut text, "", &format!("{name}: {note}"));
    }
    text
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Writes words after `start`, broken so that no line is wider than [`WIDTH_MAX`]; further lines are indented alike.
fn broken(text: &mut String, start: &str, words: &str) {
    let indent = start.chars().count();
    let mut current = start.to_owned();
    let mut width = indent;
    for word in printable(words).split_whitespace() {
        let word_width = word.chars().count();
        if width > indent && width + 2 + word_width > WIDTH_MAX {
            line(text, &current);
            current = " ".repeat(indent);
            width = indent;
        }
        let gap = if width == indent { "  " } else { " " };
        current += gap;
        current += word;
        width += gap.len() + word_width;
    }
    if width > indent {
        line(text, &current);
    }
}

/// Text from outside (a CPU's name, an error of the system) without control characters, which a terminal would obey.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn whole(number: f64, _lowest: f64) -> String {
    format!("{number:.0}")
}

fn hundredths(number: f64, _lowest: f64) -> String {
    format!("{number:.2}")
}

/// With a decimal if anything in the column is below 100 us, so that 8 us can be told from 9; the points stand in line.
fn us(us: f64, lowest: f64) -> String {
    if lowest < 99.95 { format!("{us:.1}") } else { format!("{us:.0}") }
}

#[cfg(test)]
mod tests;
