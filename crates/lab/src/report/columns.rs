//! The columns of a comparison: what each shows, and how.

use super::Row;
use crate::stats::Figures;

/// Shows a figure, given the lowest of its column.
type Show = fn(f64, f64) -> String;

/// One figure of each row.
#[derive(Debug)]
pub(crate) struct Column {
    /// Left out where no row has the figure.
    pub(crate) optional: bool,
    pub(crate) head: &'static str,
    /// Its name in the JSON, within a row.
    pub(crate) key: &'static str,
    pub(crate) figure: fn(&Figures) -> Option<f64>,
    pub(crate) show: Show,
    /// What it is, for `--explain`.
    pub(crate) says: &'static str,
}

/// All of them, in order.
pub(crate) const COLUMNS: &[Column] = &[
    column("qps", "achieved_rps", |f| Some(f.achieved_rps), whole).says("requests per second that were answered"),
    column("avglat", "latency_us.mean", |f| Some(f.latency_us.mean), us)
        .says("mean latency in us, from the intended send to the reply"),
    column("50%lat", "latency_us.p50", |f| Some(f.latency_us.p50), us)
        .says("half of the requests were answered within so many us"),
    column("95%lat", "latency_us.p95", |f| Some(f.latency_us.p95), us)
        .says("95 % of the requests were answered within so many us"),
    column("99%lat", "latency_us.p99", |f| Some(f.latency_us.p99), us)
        .says("99 % of the requests were answered within so many us"),
    column("99.9%lat", "latency_us.p999", |f| Some(f.latency_us.p999), us)
        .says("99.9 % of the requests were answered within so many us"),
    column("cpu", "cpu.total_pct", |f| Some(f.cpu.total_pct), whole)
        .says("CPU time of all the server's threads, in % of the server's CPUs"),
    column("useful", "cpu.useful_pct", |f| f.cpu.useful_pct, whole)
        .says("the part of cpu that was not spent in polls that found nothing"),
    column("spin", "cpu.spin_pct", |f| f.cpu.spin_pct, whole)
        .says("the part of cpu that was: time in polls that found nothing"),
    column("cpu0+1", "cores.busy_pct", |f| Some(f.cores?.busy_pct), whole)
        .optional()
        .says("over AF_XDP: how busy the CPUs of client and server are together, by /proc/stat, in % of one CPU"),
    column("proc", "cores.process_pct", |f| Some(f.cores?.process_pct), whole)
        .optional()
        .says("over AF_XDP: CPU time of this process, in % of one CPU"),
    column("cl-si", "cores.client_softirq_pct", |f| f.cores?.client_softirq_pct, whole)
        .optional()
        .says("over AF_XDP: % of the client's CPU that is spent in softirqs"),
    column("cpq", "cycles_per_request", |f| f.cycles_per_request, whole)
        .says("reference cycles of the server per reply"),
    column("irq/s", "interrupts_per_s", |f| f.interrupts_per_s, whole).says("interrupts per second, of all queues"),
    column("polls/s", "polls_per_s", |f| f.polls_per_s, whole).says("NAPI polls per second, of all queues"),
    column("empty", "empty_polls_pct", |f| f.empty_polls_pct, whole).says("% of polls that found nothing"),
    column("work/poll", "work_per_poll", |f| f.work_per_poll, hundredths).says("packets per poll, empty polls counted"),
    column("ev/wait", "events_per_wait", |f| f.events_per_wait, hundredths).says("events per wait that returned any"),
];

const fn column(head: &'static str, key: &'static str, figure: fn(&Figures) -> Option<f64>, show: Show) -> Column {
    Column { optional: false, head, key, figure, show, says: "" }
}

impl Column {
    const fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    const fn says(self, says: &'static str) -> Self {
        Self { says, ..self }
    }

    /// The figure of a row as a table has it; `-` where there is none.
    pub(crate) fn shown(&self, figure: Option<f64>, lowest: f64) -> String {
        figure.map_or_else(|| "-".to_owned(), |figure| (self.show)(figure, lowest))
    }

    /// Whether any of the rows has it.
    pub(crate) fn is_in<'a>(&self, rows: impl IntoIterator<Item = &'a Row>) -> bool {
        rows.into_iter().any(|row| row.figures().is_some_and(|m| (self.figure)(&m.median).is_some()))
    }
}

/// No such column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// The name is none.
    #[error("`{name}` is no column; give some of {}, or their JSON names (--explain)", heads())]
    Unknown {
        /// As given.
        name: String,
    },
    /// The list names one twice.
    #[error("the column `{name}` is given twice")]
    Twice {
        /// As given.
        name: String,
    },
}

fn heads() -> String {
    COLUMNS.iter().map(|column| column.head).collect::<Vec<_>>().join(", ")
}

/// Columns that were chosen, in that order.
#[derive(Clone, Debug)]
pub struct Chosen(pub(super) Vec<&'static Column>);

/// Reads a list such as `qps,99%lat,cpu`: heads, or names of the JSON.
///
/// # Errors
/// [`ColumnError`].
pub fn parse_columns(list: &str) -> Result<Chosen, ColumnError> {
    let mut chosen: Vec<&Column> = Vec::new();
    for name in list.split(',').map(str::trim) {
        let found = COLUMNS.iter().find(|column| column.head == name || column.key == name);
        let column = found.ok_or_else(|| ColumnError::Unknown { name: name.to_owned() })?;
        if chosen.iter().any(|other| other.head == column.head) {
            return Err(ColumnError::Twice { name: name.to_owned() });
        }
        chosen.push(column);
    }
    Ok(Chosen(chosen))
}

/// The lowest figure of a column, by which it is told how fine all of it is shown.
pub(crate) fn lowest(column: &Column, rows: &[&Row]) -> f64 {
    rows.iter().filter_map(|row| (column.figure)(&row.figures()?.median)).fold(f64::INFINITY, f64::min)
}

fn whole(number: f64, _lowest: f64) -> String {
    format!("{number:.0}")
}

fn hundredths(number: f64, _lowest: f64) -> String {
    format!("{number:.2}")
}

/// With a decimal if anything in the column is below 100 us, so that 8 us can be told from 9; the points stand in line.
pub(crate) fn us(us: f64, lowest: f64) -> String {
    if lowest < 99.95 { format!("{us:.1}") } else { format!("{us:.0}") }
}

/// A ratio with as many digits as it deserves.
pub(crate) fn times(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.2}x") } else { format!("{ratio:.0}x") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json;
    use crate::report::samples::beside_the_kernel;

    #[test]
    fn columns_are_chosen_by_head_or_by_their_name_in_the_json() {
        let chosen = parse_columns("cpu, latency_us.p99,qps").unwrap();
        assert_eq!(chosen.0.iter().map(|column| column.head).collect::<Vec<_>>(), ["cpu", "99%lat", "qps"]);
        assert!(parse_columns("cpu,speed").unwrap_err().to_string().contains("`speed` is no column; give some of qps"));
        assert!(parse_columns("cpu,cpu.total_pct").unwrap_err().to_string().ends_with("is given twice"));
    }

    #[test]
    fn every_column_has_the_figure_of_its_name_in_the_json() {
        let report = beside_the_kernel();
        let value: serde_json::Value = serde_json::from_str(&json::render(&report)).unwrap();
        let mut seen = 0;
        for (row, written) in report.rows.iter().zip(value["rows"].as_array().unwrap()) {
            let Some(figures) = row.figures() else { continue };
            for column in COLUMNS {
                let at = format!("/{}", column.key.replace('.', "/"));
                assert_eq!((column.figure)(&figures.median), written.pointer(&at).and_then(serde_json::Value::as_f64));
                assert!(!column.says.is_empty(), "{}", column.head);
                seen += 1;
            }
        }
        assert_eq!(seen, 3 * COLUMNS.len());
    }
}
