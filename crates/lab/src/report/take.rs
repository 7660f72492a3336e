//! Which mode to take at a load, by a rule that is fixed before looking.
//!
//! Only modes that keep up count. *Take* is the one with the least p99 x CPU, for a percent of p99 counts as much as a percent of CPU; but it
//! replaces `base` only if it is better by a verdict in one of the two, and if what it costs in the other is less also where the intervals are
//! at their worst for it. *Cheaper* is the least CPU of those whose p99 is not worse than that of `base`, *faster* the lowest p99 of all; each
//! is named only if a verdict says that it is better in that than what is taken.

use napier_verdict::Metric;

use super::decided::Estimated;
use super::verdict::{Block, ModeEntry, Stands};
use crate::subject::Subject;

/// What is to be taken at a load.
#[derive(Clone, Debug)]
pub(crate) struct Choice<'a> {
    /// This.
    pub(crate) take: ModeEntry<'a>,
    /// They are no different from it in p99 and in CPU.
    pub(crate) or: Vec<ModeEntry<'a>>,
    /// For less CPU, with a p99 not worse than that of `base`.
    pub(crate) cheaper: Option<ModeEntry<'a>>,
    /// For a lower p99.
    pub(crate) faster: Option<ModeEntry<'a>>,
    /// What all is held against, if it keeps up.
    pub(crate) base: Option<ModeEntry<'a>>,
    /// No other keeps up, for sure or perhaps.
    pub(crate) is_only: bool,
    /// What might be taken in place of it, if more were known.
    pub(crate) open: Vec<Subject>,
}

impl Choice<'_> {
    /// The same names, so that loads can be told together.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let names = |choice: &Choice<'_>| {
            let each = [Some(choice.take), choice.cheaper, choice.faster, choice.base];
            (each.map(|entry| entry.map(|entry| entry.subject)), choice.is_only)
        };
        names(self) == names(other)
    }

    /// `base` is as good as it gets.
    pub(crate) fn is_base(&self) -> bool {
        self.base.is_some_and(|base| base.subject == self.take.subject)
    }
}

/// What to take of a block in open loop; `None` if nothing may be said, or nothing keeps up for sure.
pub(crate) fn choose<'a>(block: &Block<'a>) -> Option<Choice<'a>> {
    if block.doubt().is_some() {
        return None;
    }
    let kept_up = block.that_keep_up(Some(true));
    let base = Block::base(&kept_up);
    let mut by_cost = kept_up.clone();
    by_cost.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let is_worth = |one: &ModeEntry<'_>| match base {
        None => true,
        Some(base) => one.subject == base.subject || replaces(block, one, &base),
    };
    let take = by_cost.into_iter().find(is_worth)?;
    let others: Vec<ModeEntry<'_>> = kept_up.iter().copied().filter(|one| one.subject != take.subject).collect();
    let same =
        |one: &ModeEntry<'_>| [Metric::P99, Metric::Cpu].iter().all(|m| block.stands(one, &take, *m) == Stands::Same);
    let not_worse = |one: &ModeEntry<'_>| match base {
        // That base is cheaper is said by what all is held against it.
        Some(base) => {
            base.subject != one.subject
                && matches!(block.stands(one, &base, Metric::P99), Stands::Better | Stands::Same)
        }
        None => false,
    };
    let least = |metric: Metric, may: &dyn Fn(&ModeEntry<'_>) -> bool| {
        let better = |one: &&ModeEntry<'_>| may(one) && block.stands(one, &take, metric) == Stands::Better;
        others.iter().filter(better).min_by(|a, b| a.value(metric).total_cmp(&b.value(metric))).copied()
    };
    let (cheaper, faster) = (least(Metric::Cpu, &not_worse), least(Metric::P99, &|_| true));
    let may_keep_up = block.that_keep_up(None);
    Some(Choice {
        or: others.iter().copied().filter(same).collect(),
        cheaper,
        faster,
        base,
        is_only: others.is_empty() && may_keep_up.is_empty() && block.all.len() > 1,
        open: open(block, &take, &others, base.as_ref())
            .into_iter()
            .chain(may_keep_up.iter().map(|one| one.subject))
            .collect(),
        take,
    })
}

fn cost(one: &ModeEntry<'_>) -> f64 {
    one.value(Metric::P99) * one.value(Metric::Cpu)
}

/// Whether one gives more than it costs, beside `base`.
fn replaces(block: &Block<'_>, one: &ModeEntry<'_>, base: &ModeEntry<'_>) -> bool {
    let is_better = [Metric::P99, Metric::Cpu].iter().any(|metric| block.stands(one, base, *metric) == Stands::Better);
    is_better && worst(block, one, base).is_some_and(|cost| cost < 1.0)
}

/// p99 x CPU of one over that of another, with both intervals at their worst for it.
fn worst(block: &Block<'_>, one: &ModeEntry<'_>, other: &ModeEntry<'_>) -> Option<f64> {
    let high = |metric| block.ratio(one, other, metric).map(|Estimated { value, high, .. }| high.unwrap_or(value));
    Some(high(Metric::P99)? * high(Metric::Cpu)?)
}

/// Those that would cost less than what is taken, by their figures, had a verdict not been missing.
fn open(
    block: &Block<'_>,
    take: &ModeEntry<'_>,
    others: &[ModeEntry<'_>],
    base: Option<&ModeEntry<'_>>,
) -> Vec<Subject> {
    let is_open = |one: &&ModeEntry<'_>| {
        let open_beside = |other: &ModeEntry<'_>| {
            [Metric::P99, Metric::Cpu].iter().any(|metric| block.stands(one, other, *metric) == Stands::Open)
        };
        let beside_base = base.is_some_and(|base| base.subject != one.subject && open_beside(base));
        cost(one) < cost(take) || (cost(one) < 1.1 * cost(take) && (open_beside(take) || beside_base))
    };
    others.iter().filter(is_open).map(|one| one.subject).collect()
}

#[cfg(test)]
mod tests;
