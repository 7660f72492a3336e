//! Whether modes acted, block by block, and who polled.

use napier_lab::html::{PASSED_BY, WHO_POLLED};
use napier_lab::modes::Mode;
use napier_lab::stats::median;
use napier_linux::observe::{Acts, Observation};
use napier_trial::Measured;
use serde_json::{Value, json};

use super::TrialPlan;
use crate::page::plural;
use crate::run::RunOutcome;

/// A mode's blocks.
pub(super) struct Acted {
    /// Blocks that were measured.
    blocks: usize,
    /// Of these, those that were looked at.
    looked: usize,
    /// Of these, those in which it was seen to act, and not to.
    yes: usize,
    no: usize,
    /// Medians of blocks, by who polled.
    polls: Option<[f64; 4]>,
    /// The part of packets that no instance took.
    passed_by: Option<f64>,
    /// The first turn, in words and for programs.
    first: Option<(Option<String>, Value)>,
}

/// Of each mode.
pub(super) fn of_modes(
    plan: &TrialPlan,
    measured: &[Measured],
    first: &[(usize, RunOutcome)],
    device: &str,
) -> Vec<Acted> {
    let first_of = |(candidate, mode): (usize, &String)| {
        let own = first.iter().find(|(one, _)| *one == candidate);
        // What there is without a mode has nothing to act by, under whatever name.
        let is_base = plan.kinds[candidate] == Mode::Base;
        let words = |seen: &RunOutcome| (!is_base).then(|| seen.answer(mode, device, false)).flatten();
        let first = own.map(|(_, seen)| (words(seen), seen.json()));
        Acted { first, ..Acted::of(measured.iter().filter(|one| one.block.candidate == candidate)) }
    };
    plan.modes.iter().enumerate().map(first_of).collect()
}

/// Shares of a window, in the order of [`WHO_POLLED`].
fn shares(seen: &Observation) -> Option<[f64; 4]> {
    let polls = seen.polls.as_ref().filter(|polls| polls.total() > 0)?;
    let of = |count: u64| count as f64 / polls.total() as f64;
    Some([of(polls.program), of(polls.napi_threads), of(polls.softirq), of(polls.others)])
}

fn passed_by(seen: &Observation) -> Option<f64> {
    let packets = seen.packets.filter(|packets| *packets > 0)?;
    // A window may begin between a packet's count and its poll.
    Some((1.0 - seen.taken? as f64 / packets as f64).max(0.0))
}

fn median_of(mut all: Vec<f64>) -> Option<f64> {
    (!all.is_empty()).then(|| median(&mut all))
}

impl Acted {
    fn of<'a>(blocks: impl Iterator<Item = &'a Measured>) -> Self {
        let all: Vec<Option<&Observation>> = blocks.map(|one| one.seen.as_ref()).collect();
        let seen = || all.iter().flatten();
        let count = |acts| seen().filter(|seen| seen.acts == acts).count();
        let shares: Vec<[f64; 4]> = seen().filter_map(|seen| shares(seen)).collect();
        let of = |at: usize| median_of(shares.iter().map(|own| own[at]).collect()).unwrap_or(0.0);
        Self {
            blocks: all.len(),
            looked: seen().count(),
            yes: count(Acts::Yes),
            no: count(Acts::No),
            polls: (!shares.is_empty()).then(|| [of(0), of(1), of(2), of(3)]),
            passed_by: median_of(seen().filter_map(|seen| passed_by(seen)).collect()),
            first: None,
        }
    }

    /// Whether it acted, in words; nothing where nothing was seen.
    pub(super) fn words(&self, mode: &str, is_reference: bool) -> Vec<String> {
        let first = self.first.iter().find_map(|(words, _)| words.clone());
        let blocks = |count: usize| plural(u32::try_from(count).unwrap_or(u32::MAX), "block");
        let missed = (self.no > 0 && !is_reference).then(|| {
            format!(
                "{mode} did not act in {} of {} that were looked at: what did not act does not count for it",
                self.no,
                blocks(self.looked)
            )
        });
        first.map(|words| format!("first turn: {words}")).into_iter().chain(missed).collect()
    }

    /// Whether it never acted, as far as it was looked at.
    pub(super) fn is_idle(&self) -> bool {
        self.no > 0 && self.no == self.looked
    }

    pub(super) fn json(&self) -> [(&'static str, Value); 4] {
        let polls = self.polls.map(|shares| WHO_POLLED.iter().zip(shares).map(|((key, _), share)| (*key, share)));
        let polls = polls.map(|polls| polls.map(|(key, share)| (key.to_owned(), json!(share))).collect::<Value>());
        [
            ("acted", json!({ "yes": self.yes, "no": self.no, "unknown": self.blocks - self.yes - self.no })),
            ("polls", json!(polls)),
            ("passed_by", json!(self.passed_by)),
            ("seen", json!(self.first.as_ref().map(|(_, seen)| seen))),
        ]
    }
}

/// What was seen of a block, for programs.
pub(super) fn of_block(one: &Measured) -> Value {
    let of = |seen: &Observation| {
        json!({
            "acts": seen.acts, "seconds": seen.seconds, "packets": seen.packets, "taken": seen.taken, "polls": seen.polls,
        })
    };
    json!(one.seen.as_ref().map(of))
}

/// Rows of the table: who polled under each mode. Those that are nothing everywhere are left out.
pub(super) fn rows(acts: &[Acted]) -> Vec<Vec<String>> {
    let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0));
    let row = |name: &str, of: &dyn Fn(&Acted) -> Option<f64>| {
        let all: Vec<Option<f64>> = acts.iter().map(of).collect();
        let is_any = all.iter().flatten().any(|share| *share >= 0.005);
        is_any.then(|| std::iter::once(name.to_owned()).chain(all.into_iter().map(percent)).collect())
    };
    let polls = WHO_POLLED.iter().enumerate();
    let mut rows: Vec<Vec<String>> =
        polls.filter_map(|(at, (_, name))| row(name, &|acted| Some(acted.polls?[at]))).collect();
    rows.extend(row(PASSED_BY, &|acted| acted.passed_by));
    rows
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use napier_linux::observe::Shares;
    use napier_linux::observe::parts::Through;
    use napier_trial::Block;

    use super::*;

    fn block(acts: Option<Acts>, [program, softirq]: [u64; 2], taken: u64) -> Measured {
        let seen = acts.map(|acts| Observation {
            acts,
            seconds: 0.2,
            packets: Some(100),
            taken: Some(taken),
            polls: Some(Shares { program, softirq, ..Shares::default() }),
            polls_unknown: None,
            connections: Through::default(),
            unreached: Vec::new(),
            lines: Vec::new(),
        });
        Measured { block: Block { round: 0, candidate: 1 }, at: Duration::ZERO, halves: [Vec::new(), Vec::new()], seen }
    }

    #[test]
    fn blocks_are_counted_and_shares_are_medians() {
        let blocks = [
            block(Some(Acts::Yes), [90, 10], 100),
            block(Some(Acts::Yes), [80, 20], 100),
            block(Some(Acts::No), [0, 100], 40),
            block(None, [0, 0], 0),
        ];
        let acted = Acted::of(blocks.iter());
        assert_eq!((acted.blocks, acted.yes, acted.no, acted.is_idle()), (4, 2, 1, false));
        assert_eq!(acted.polls, Some([0.8, 0.0, 0.2, 0.0]));
        assert_eq!(acted.passed_by, Some(0.0));
        let said = acted.words("suspend20", false);
        assert_eq!(
            said,
            ["suspend20 did not act in 1 of 3 blocks that were looked at: what did not act does not count for it"]
        );
        assert!(acted.words("base", true).is_empty());
        let rows = rows(&[acted, Acted::of(blocks[2..3].iter())]);
        assert_eq!(rows[0], ["polls: program", "80 %", "0 %"]);
        assert_eq!(rows[1], ["polls: softirq", "20 %", "100 %"]);
        assert_eq!(rows[2], ["packets passed by", "0 %", "60 %"]);
    }

    #[test]
    fn what_was_not_looked_at_is_not_told() {
        let acted = Acted::of([block(None, [0, 0], 0)].iter());
        assert!(acted.words("suspend20", false).is_empty() && !acted.is_idle());
        assert!(rows(&[acted]).is_empty());
    }
}
