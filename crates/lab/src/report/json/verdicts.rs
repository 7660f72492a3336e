//! What may be said of each load, for programs: the same as the answer says.

use napier_verdict::Metric;
use serde::Serialize;

use crate::loads::Load;
use crate::report::Report;
use crate::report::answer;
use crate::report::take::choose;
use crate::report::verdict::{Block, ModeEntry};
use crate::subject::Backend;

/// One load and backend. What is null is not decided.
#[derive(Serialize)]
pub(super) struct JsonVerdict {
    load_rps: Load,
    backend: Backend,
    take: Option<String>,
    cheaper: Option<String>,
    faster: Option<String>,
    sustain: Option<Vec<String>>,
    frontier: Option<Vec<String>>,
    lowest_p99: Option<String>,
    fastest: Option<String>,
    doubt: Option<String>,
    said: String,
}

/// In the order of the loads.
pub(super) fn of(report: &Report) -> Vec<JsonVerdict> {
    let loads = report.by_load().into_iter().map(|(load, _)| load);
    loads.flat_map(|load| Block::all_of(report, load).iter().map(one).collect::<Vec<_>>()).collect()
}

fn one(block: &Block<'_>) -> JsonVerdict {
    let is_open = block.load != Load::Max;
    let names = |entries: Vec<ModeEntry<'_>>| entries.iter().map(ModeEntry::name).collect::<Vec<_>>();
    let choice = choose(block).filter(|_| is_open);
    let may_say = is_open && block.doubt().is_none();
    JsonVerdict {
        load_rps: block.load,
        backend: block.backend,
        take: choice.as_ref().map(|choice| choice.take.name()),
        cheaper: choice.as_ref().and_then(|choice| Some(choice.cheaper?.name())),
        faster: choice.as_ref().and_then(|choice| Some(choice.faster?.name())),
        sustain: may_say.then(|| names(block.that_keep_up(Some(true)))),
        frontier: block.frontier().filter(|_| is_open).map(names),
        lowest_p99: block.best(Metric::P99).filter(|_| is_open).map(|best| best.name()),
        fastest: block.best(Metric::Throughput).filter(|_| !is_open).map(|best| best.name()),
        doubt: block.doubt().map(|_| answer::of_block(block)),
        said: answer::of_block(block),
    }
}
