//! What the last column says of a mode.

use napier_verdict::Metric;

use crate::loads::{Load, floored_pct};
use crate::report::Row;
use crate::report::columns::times;
use crate::report::verdict::{Block, ModeEntry, Stands};

/// What the column is.
pub(in crate::report) const SAYS: &str = "what the rounds decide: x is of the figure of base, `as base` says that both are alike within a bound, and undecided is what \
                                          is not known so far; lowest and least are against all others that keep up";

/// The verdict on a row of a block.
pub(super) fn of(block: &Block<'_>, row: &Row) -> String {
    let Some(entry) = block.all.iter().find(|entry| entry.subject == row.subject) else { return String::new() };
    let in_time = entry.figures.median.in_time_pct;
    let in_time = in_time.map_or_else(String::new, |pct| format!(" ({} in time)", floored_pct(pct)));
    match entry.keeps_up {
        Some(false) => return format!("behind{in_time}"),
        None => return format!("may not keep up{in_time}"),
        Some(true) => {}
    }
    if block.doubt().is_some() {
        return String::new();
    }
    let metrics: &[(Metric, &str)] = match block.load {
        Load::Rps(_) => &[(Metric::P99, "p99"), (Metric::Cpu, "CPU")],
        Load::Max => &[(Metric::Throughput, "rate"), (Metric::Cpu, "CPU")],
    };
    let kept_up = block.that_keep_up(Some(true));
    let base = Block::base(&kept_up).filter(|base| base.subject != entry.subject);
    said(block, entry, base.as_ref(), metrics)
}

/// The best first, each with how it stands to base.
fn said(block: &Block<'_>, entry: &ModeEntry<'_>, base: Option<&ModeEntry<'_>>, metrics: &[(Metric, &str)]) -> String {
    let stands: Vec<Stands> =
        base.iter().flat_map(|base| metrics.iter().map(|(metric, _)| block.stands(entry, base, *metric))).collect();
    let is_all = |which: Stands| !stands.is_empty() && stands.iter().all(|stands| *stands == which);
    let best = |metric| block.best(metric).is_some_and(|best| best.subject == entry.subject);
    let mut parts: Vec<(bool, String)> = Vec::new();
    for (i, (metric, name)) in metrics.iter().enumerate() {
        let is_best = best(*metric) && !(block.load == Load::Max && *metric == Metric::Cpu);
        let head = match metric {
            Metric::Throughput if is_best => "answers most",
            Metric::Cpu if is_best => "least CPU",
            _ if is_best => "lowest p99",
            _ => name,
        };
        let times = base.and_then(|base| block.ratio(entry, base, *metric)).map(|ratio| times(ratio.value));
        match (stands.get(i), times) {
            (Some(Stands::Better | Stands::Worse), Some(times)) => parts.push((is_best, format!("{head} {times}"))),
            (Some(Stands::Same), _) => parts.push((is_best, format!("{head} as base"))),
            (Some(Stands::Open), _) => parts.push((is_best, format!("{head} undecided"))),
            _ if is_best => parts.push((is_best, head.to_owned())),
            _ => {}
        }
    }
    if !parts.iter().any(|(is_best, _)| *is_best) {
        if is_all(Stands::Same) {
            return "no different from base".to_owned();
        } else if is_all(Stands::Open) {
            return "undecided".to_owned();
        }
    }
    parts.sort_by_key(|(is_best, _)| !is_best);
    parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join(", ")
}
