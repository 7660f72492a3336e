//! What may be said of each load, for programs: the same verdicts as those of the sentences.

use serde::{Deserialize, Serialize};

use super::JsonLoad;
use crate::loads::Load;
use crate::report::Report;
use crate::report::sentence::sentence;
use crate::report::verdict::{Best, Block, Doubt, Verdict};
use crate::subject::{Backend, Subject};

/// One load and backend. What is null is not decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonVerdict {
    pub load_rps: JsonLoad,
    pub backend: Backend,
    pub sustain: Option<Vec<String>>,
    pub frontier: Option<Vec<String>>,
    pub lowest_p99: Option<String>,
    pub fastest: Option<String>,
    pub doubt: Option<String>,
    pub said: String,
}

/// In the order of the loads.
pub(super) fn of(report: &Report) -> Vec<JsonVerdict> {
    let loads = report.by_load().into_iter().map(|(load, _)| load);
    loads.flat_map(|load| Block::all_of(report, load).iter().map(one).collect::<Vec<_>>()).collect()
}

fn one(block: &Block<'_>) -> JsonVerdict {
    let name = |subject: Subject| subject.name(false);
    let is_open = block.load != Load::Max;
    let open = |names: Option<Vec<String>>| names.filter(|_| is_open);
    let best = |verdict: Verdict<Best<'_>>| match verdict {
        Verdict::Given(given) => Some(name(given.get().best.subject)),
        Verdict::Withheld(_) => None,
    };
    JsonVerdict {
        load_rps: block.load.into(),
        backend: block.backend,
        sustain: open(match block.sustaining() {
            Verdict::Given(_) => Some(block.kept_up().iter().map(|one| name(one.subject)).collect()),
            Verdict::Withheld(_) => None,
        }),
        frontier: open(match block.frontier() {
            Verdict::Given(frontier) => Some(frontier.get().iter().map(|one| name(one.subject)).collect()),
            Verdict::Withheld(_) => None,
        }),
        lowest_p99: best(block.lowest_p99()).filter(|_| is_open),
        fastest: best(block.fastest()).filter(|_| !is_open),
        doubt: block.doubt().map(Doubt::none_is_best),
        said: sentence(block),
    }
}
