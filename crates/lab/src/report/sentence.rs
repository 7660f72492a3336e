//! The sentence below each load: which mode buys what, from the figures alone.
//!
//! At a fixed load a mode is worth its place if no other has both a lower p99 and a lower CPU time: these are the
//! frontier, and all of them are named, from the cheapest to the fastest. One is called the best only by a verdict that may be given
//! ([`super::verdict`]). Modes that do not sustain the load are named as such and not compared: their latency is the length of their queue.
//!
//! `%` is of the CPU throughout; how two figures stand to each other is an `x`.

use super::verdict::{Best, Block, CPU, Candidate, Doubt, Given, P99, RPS, Sustaining, Verdict, and, names};
use super::{Report, Row};
use crate::loads::Load;
use crate::subject::Backend;

/// What is said of a load, of each backend by itself, and of the engine beside the kernel.
pub(crate) fn sentences(load: Load, rows: &[&Row], report: &Report) -> Vec<String> {
    let among = report.among_backends();
    let mut said: Vec<String> = Block::all_of(report, load)
        .iter()
        .map(|block| match block.backend {
            _ if !among => sentence(block),
            Backend::Engine | Backend::Kernel => format!("In the {}: {}", block.backend, sentence(block)),
            Backend::Sim => format!("Predicted: {}", sentence(block)),
        })
        .collect();
    said.push(super::beside::sentence(load, rows, report.taken_at(load)));
    said.retain(|words| !words.is_empty());
    said
}

/// The sentence for the rows of one load and one backend.
pub(crate) fn sentence(block: &Block<'_>) -> String {
    if let [only] = block.all.as_slice() {
        let did = if block.backend == Backend::Sim { "predicted" } else { "measured" };
        return format!("Only {} was {did}: nothing to compare it with.", only.name());
    }
    let parts = match block.load {
        Load::Max => closed_loop(block),
        Load::Rps(_) => open_loop(block),
    };
    let said = parts.join("; ") + ".";
    // Names of figures stay as they are.
    let is_word = said.starts_with("none ") || said.starts_with("what ");
    if is_word { said[..1].to_uppercase() + &said[1..] } else { said }
}

fn open_loop(block: &Block<'_>) -> Vec<String> {
    let failing = block.fell_behind();
    let sustaining = match block.sustaining() {
        Verdict::Given(sustaining) => sustaining,
        Verdict::Withheld(doubt) => return undecided(block, &doubt),
    };
    let mut parts = match sustaining.get() {
        Sustaining::None => return vec!["No mode sustains this load, so every latency is that of a queue".to_owned()],
        Sustaining::Only(only) => {
            vec![format!("Only {} sustains this load: p99 and CPU {}", only.name(), figures(only))]
        }
        Sustaining::Several => {
            let mut parts = match block.frontier() {
                Verdict::Given(frontier) => along(frontier.get(), block),
                Verdict::Withheld(doubt) => return undecided(block, &doubt),
            };
            parts.push(match block.lowest_p99() {
                Verdict::Given(best) => lowest_p99(&best),
                Verdict::Withheld(Doubt::Overlap(rivals)) => {
                    format!("the lowest p99 is not decided between {} (runs overlap)", and(&names(&rivals)))
                }
                Verdict::Withheld(doubt) => doubt.none_is_best(),
            });
            parts
        }
    };
    if !failing.is_empty() {
        parts.push(format!("{} not sustain this load", does(&failing, "does", "do")));
    }
    parts
}

/// What was seen, where nothing is decided by it.
fn undecided(block: &Block<'_>, doubt: &Doubt) -> Vec<String> {
    let shown: Vec<String> = block.kept_up().iter().map(figures).collect();
    let mut parts = Vec::new();
    if !shown.is_empty() {
        parts.push(format!("p99 and CPU by their medians: {}", shown.join(", ")));
    }
    parts.push(match doubt {
        Doubt::Sometimes(subjects) => {
            format!("what sustains this load is not decided: {} kept up in some runs only", and(&names(subjects)))
        }
        doubt => doubt.none_is_best(),
    });
    let failing = block.fell_behind();
    if !failing.is_empty() {
        parts.push(format!("{} fell behind meanwhile", candidates(&failing)));
    }
    parts
}

/// The modes that no other beats, from the cheapest to the fastest, and what base has if it is none of them.
fn along(frontier: &[Candidate<'_>], block: &Block<'_>) -> Vec<String> {
    let named: Vec<String> = frontier.iter().map(figures).collect();
    let mut parts = vec![format!("Frontier of p99 and CPU: {}", named.join(", "))];
    let base = block.kept_up().into_iter().find(|candidate| candidate.subject.is_base());
    if let Some(base) = base.filter(|base| frontier.iter().all(|other| other.subject != base.subject)) {
        parts.push(format!("beside it {}", figures(&base)));
    }
    parts
}

fn lowest_p99(given: &Given<Best<'_>>) -> String {
    let Best { best, next } = given.get();
    let factor = ratio(next.median(P99), best.median(P99));
    format!("{} has the lowest p99, and next is {} with {factor} of it", best.name(), next.name())
}

fn closed_loop(block: &Block<'_>) -> Vec<String> {
    let base = block.all.iter().find(|candidate| candidate.subject.is_base());
    let beside_base = |first: &Candidate<'_>| match base {
        Some(base) if base.subject != first.subject => {
            format!(", {} base's rate", ratio(first.median(RPS), base.median(RPS)))
        }
        _ => String::new(),
    };
    vec![match block.fastest() {
        Verdict::Given(given) => {
            let best = given.get().best;
            format!("In closed loop {} answers most{}", best.name(), beside_base(&best))
        }
        Verdict::Withheld(Doubt::Overlap(rivals)) => {
            format!("In closed loop the highest rate is not decided between {} (runs overlap)", and(&names(&rivals)))
        }
        Verdict::Withheld(doubt) => format!("In closed loop {}", doubt.none_is_best()),
    }]
}

fn figures(candidate: &Candidate<'_>) -> String {
    format!("{} {} us at {:.0} %", candidate.name(), us(candidate.median(P99)), candidate.median(CPU))
}

fn ratio(number: f64, of: f64) -> String {
    if of > 0.0 { format!("{:.2}x", number / of) } else { "?x".to_owned() }
}

fn us(us: f64) -> String {
    if us < 100.0 { format!("{us:.1}") } else { format!("{us:.0}") }
}

fn candidates(all: &[Candidate<'_>]) -> String {
    and(&all.iter().map(Candidate::name).collect::<Vec<_>>())
}

fn does(all: &[Candidate<'_>], one: &str, several: &str) -> String {
    format!("{} {}", candidates(all), if all.len() == 1 { one } else { several })
}

#[cfg(test)]
mod tests;
