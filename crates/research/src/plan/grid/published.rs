//! What documents printed, as rows of named figures.

use napier_scenario::ParseError;
use napier_scenario::read::Node;

use super::{GridKind, Offer};
use crate::transmit::{Path, published};

/// The tables that the program brings along: kind, text.
const TABLES: &[(GridKind, &str)] = &[
    (GridKind::XskRr, include_str!("../../../plans/published/xsk-rr.csv")),
    (GridKind::BusyRead, include_str!("../../../plans/published/busy-read.csv")),
    (GridKind::TcpRr, include_str!("../../../plans/published/tcp-rr.csv")),
    (GridKind::RemoteSsd, include_str!("../../../plans/published/remote-ssd.csv")),
];

/// Rows of a table: mode, load, figures in the order of [`columns`].
#[derive(Clone, PartialEq, Debug, Default)]
pub(in crate::plan) struct Rows(Vec<(String, String, Vec<f64>)>);

impl Rows {
    /// The figures of a cell, if the table has them.
    pub(super) fn row(&self, mode: &str, load: Offer) -> Option<&[f64]> {
        let load = load.to_string();
        self.0.iter().find(|(of, at, _)| of == mode && *at == load).map(|(.., figures)| figures.as_slice())
    }

    /// Nothing was published.
    pub(in crate::plan) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Rows that there are.
    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(mode, load, _)| (mode.as_str(), load.as_str())).collect()
    }
}

/// The figures that documents print of a kind, with the unit at the end.
pub(super) const fn columns(kind: GridKind) -> &'static [&'static str] {
    match kind {
        GridKind::XskRr => &["p5_ns", "p50_ns", "p95_ns", "p99_ns"],
        GridKind::BusyRead => &["transactions_per_s"],
        GridKind::UdpStream => &["mpps", "cpu_pct"],
        GridKind::TcpRr => &["qps", "p50_us", "p90_us", "p99_us", "p999_us"],
        GridKind::Groups => &["qps", "p50_us", "p99_us", "p999_us", "cpus_polling", "cpus_busy"],
        GridKind::RemoteSsd => &["qps", "p50_us", "p95_us", "p99_us", "p999_us"],
    }
}

/// The table of this name, which is that of its kind.
pub(super) fn named(kind: GridKind, node: &Node<'_>) -> Result<Rows, ParseError> {
    let name = node.text("the name of a published table")?;
    let found = TABLES.iter().find(|(of, _)| *of == kind && name == kind.name());
    let (_, text) = found.ok_or_else(|| {
        node.error(format!("there is no published table {name:?} of this kind; expected {}", kind.name()))
    })?;
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let head = lines.next().expect("a table of ours");
    assert_eq!(head.split(',').skip(2).collect::<Vec<_>>(), columns(kind), "the columns are those of the kind");
    Ok(Rows(lines.map(|line| row(line).expect("a table of ours")).collect()))
}

fn row(line: &str) -> Option<(String, String, Vec<f64>)> {
    let mut fields = line.split(',');
    let (mode, load) = (fields.next()?.to_owned(), fields.next()?.to_owned());
    Some((mode, load, fields.map(|field| field.parse().ok()).collect::<Option<_>>()?))
}

/// What was published on sending; nothing for other senders or queues.
pub(super) fn of_transmit(senders: u16, queues: u16) -> Rows {
    if (senders, queues) != (published::SENDERS, published::QUEUES) {
        return Rows::default();
    }
    let row = |path: Path| {
        let row = published::published(path);
        (path.name().to_owned(), Offer::Flood.to_string(), vec![row.mpps, row.cpu_pct])
    };
    Rows(Path::ALL.into_iter().map(row).collect())
}
