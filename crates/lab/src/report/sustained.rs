//! The rate up to which each mode keeps up.

use super::Report;
use super::Sustained;
use super::answer::rate;
use crate::sheet::{ColumnHead, SheetTable, TableCell};

/// Named in a sentence, beside base.
const NAMED: usize = 3;

/// The rates of the first and of base, in a line; none is called the best, for that the intervals are there.
pub(super) fn said(report: &Report) -> Option<String> {
    let mut known: Vec<&Sustained> = report.sustained.iter().filter(|one| one.rps > 0).collect();
    if known.len() < 2 {
        return None;
    }
    known.sort_by_key(|one| std::cmp::Reverse(one.rps));
    let base = known.iter().skip(NAMED).find(|one| one.subject.is_base()).copied();
    let backends = report.among_backends();
    let named: Vec<String> = known
        .iter()
        .take(NAMED)
        .copied()
        .chain(base)
        .map(|one| format!("{} {}/s{}", one.subject.name(backends), shown(one.rps), between(one)))
        .collect();
    Some(format!("Keeps up to: {}.", named.join(", ")))
}

fn between(one: &Sustained) -> String {
    one.interval_rps().map_or_else(String::new, |(low, high)| format!(" ({} to {})", shown(low), shown(high)))
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn shown(rps: u64) -> String {
    rate(rps as f64)
}

/// All of them; `None` if there are none.
pub(crate) fn table(report: &Report) -> Option<SheetTable> {
    let backends = report.among_backends();
    let title = match report.sustained.as_slice() {
        [] => return None,
        [only] => format!(
            "The rate up to which {} keeps up, from which the loads were chosen. Of the others it was not asked (--load sustained).",
            only.subject.name(backends)
        ),
        _ => "The rate up to which each mode keeps up: answers 99 % of what is due in time, in open loop.".to_owned(),
    };
    let heads = vec![
        ColumnHead::text("mode", "the mode"),
        ColumnHead::figure("keeps up to", "sustained_rps: requests per second"),
        ColumnHead::figure("95 % interval", "low_rps, high_rps: the interval of that"),
        ColumnHead::figure("kept up at", "kept_up_at_most: the highest rate at which it was seen to keep up"),
        ColumnHead::figure(
            "behind at",
            "fell_behind_at_least: the lowest rate above that at which it was seen to fall behind",
        ),
        ColumnHead::figure("p99 us", "p99_us: 99th percentile there").goes(2),
        ColumnHead::figure("CPU %", "cpu_pct: CPU time there").goes(1),
        ColumnHead::text("", "what speaks against it"),
    ];
    let none = || "-".to_owned();
    let maybe = |rps: Option<u64>| rps.map_or_else(none, shown);
    let rows = report.sustained.iter().map(|one| {
        let why = [&one.why, &one.taken].into_iter().flatten().filter(|why| !why.is_empty()).cloned();
        vec![
            TableCell::Name(one.subject.name(backends)),
            TableCell::Figure(maybe(Some(one.rps).filter(|rps| *rps > 0))),
            TableCell::Figure(
                one.interval_rps().map_or_else(none, |(low, high)| format!("{}-{}", shown(low), shown(high))),
            ),
            TableCell::Figure(maybe(one.kept_up_at_most.or(Some(one.rps).filter(|rps| *rps > 0)))),
            TableCell::Figure(maybe(one.fell_behind_at_least.or(one.failed_rps))),
            TableCell::Figure(one.p99_us.map_or_else(none, super::answer::us)),
            TableCell::Figure(one.cpu_pct.map_or_else(none, |pct| format!("{pct:.0}"))),
            TableCell::Name(why.collect::<Vec<_>>().join("; ")),
        ]
    });
    Some(SheetTable { title, heads, rows: rows.collect() })
}
