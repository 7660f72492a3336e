//! What a run has changed: on its interface, and at the other end of a pair of veth interfaces, which is in another namespace as a rule.

use napier_core::control::plan::Plan;
use napier_linux::Netns;
use napier_linux::change::{ApplyError, Entry, Ledger, Line, Queues, Scope, Undone};
use napier_linux::wiring::OtherEnd;

use super::{Changes, lines_for};

/// The journal of the interface, and that of the other end.
pub(crate) struct Ledgers {
    /// Away while the program runs.
    own: Option<Ledger>,
    other: Option<(OtherEnd, Ledger)>,
}

impl Ledgers {
    /// Begins them, each in the namespace of its interface. What killed runs have left is put back before.
    pub(crate) fn begin(changes: &Changes) -> anyhow::Result<Self> {
        let begin = |scope: &Scope, lines: usize| -> anyhow::Result<Ledger> {
            Ok(Ledger::begin(scope, lines, &mut |found| crate::say::say(&found.lines()))?)
        };
        let lines = changes.lines.len().max(ROOM) + changes.pair.own.len();
        let own = begin(&changes.scope, lines)?;
        let other = match &changes.pair.other {
            None => Ok(None),
            Some((end, lines)) => at(end, || begin(&Scope::device(end.device.clone())?, lines.len()))
                .map(|ledger| Some((end.clone(), ledger))),
        };
        match other {
            Ok(other) => Ok(Self { own: Some(own), other }),
            Err(error) => {
                let _ = own.put_back();
                Err(error)
            }
        }
    }

    /// Applies what the pair needs, then the mode's lines, which it gives.
    pub(crate) fn apply(
        &mut self,
        changes: &Changes,
        plan: &Plan,
        queues: Option<&Queues>,
    ) -> anyhow::Result<Vec<Line>> {
        if let (Some((end, ledger)), Some((_, lines))) = (&mut self.other, &changes.pair.other) {
            at(end, || ledger.apply(lines).map_err(anyhow::Error::from))?;
        }
        let own = self.own.as_mut().expect("it was begun");
        own.apply(&changes.pair.own)?;
        let mut lines = match changes.pair.own.as_slice() {
            [] => Vec::new(),
            _ => lines_for(plan, &changes.device, queues).map_err(|error| anyhow::anyhow!("{error}"))?,
        };
        lines.extend(changes.lines.iter().cloned());
        own.apply(&lines).map_err(|error: ApplyError| anyhow::Error::from(error))?;
        Ok(lines)
    }

    /// That of the interface, for as long as the program runs.
    pub(crate) fn take(&mut self) -> Ledger {
        self.own.take().expect("it is taken once")
    }

    pub(crate) fn give_back(&mut self, own: Ledger) {
        self.own = Some(own);
    }

    /// What was changed.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let other = self.other.iter().map(|(_, ledger)| ledger);
        other.chain(&self.own).flat_map(|ledger| ledger.entries().to_vec()).collect()
    }

    /// Puts everything back, the other end last: it was changed first.
    pub(crate) fn put_back(self) -> Undone {
        let mut undone = self.own.map(Ledger::put_back).unwrap_or_default();
        // There, for no other process may be in that namespace.
        let there = |(end, ledger): (OtherEnd, Ledger)| at(&end, || Ok(ledger.put_back()));
        match self.other.map(there) {
            None => {}
            Some(Ok(other)) => {
                undone.put_back.extend(other.put_back);
                undone.left.extend(other.left);
                undone.gone.extend(other.gone);
                undone.away += other.away;
                undone.is_refused |= other.is_refused;
            }
            Some(Err(error)) => {
                undone.left.push(format!("the other end of the pair is not put back: {error}"));
                undone.is_refused = true;
            }
        }
        undone
    }
}

impl Changes {
    /// What is changed at the other end of a pair, in words.
    pub(crate) fn other_end(&self) -> Option<String> {
        let (end, _) = self.pair.other.as_ref()?;
        let there = if end.netns.is_some() { ", in another network namespace," } else { "" };
        Some(format!(
            "{}{there} is the other end of {}: it sends without segmentation offload meanwhile, so that packets go through instances",
            end.device.name, self.device.name
        ))
    }
}

/// Room for an interface whose instances are not there yet.
const ROOM: usize = 64;

/// Acts in the namespace of an end.
pub(crate) fn at<R: Send>(end: &OtherEnd, act: impl FnOnce() -> anyhow::Result<R> + Send) -> anyhow::Result<R> {
    match &end.netns {
        None => act(),
        Some(netns) => Netns::run(netns, act)?,
    }
}
