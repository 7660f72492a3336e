//! What a run has changed so far, and its journal.

use std::path::Path;

use super::apply::{ApplyError, apply_line};
use super::header::{Keep, Scope};
use super::journal::{Journal, JournalError};
use super::line::{Entry, Line};
use super::places::state_dir;
use super::recover::{Recovered, undo_in};
use super::undo::{Undone, undo};
use crate::setting::KeyError;

/// A run's journal with its entries in memory: what is noted is put back by [`Ledger::put_back`], or, if the run is killed, by
/// the next one.
#[derive(Debug)]
pub struct Ledger {
    scope: Option<Scope>,
    /// None where nothing that is changed outlives the run.
    journal: Option<Journal>,
    entries: Vec<Entry>,
}

impl Ledger {
    /// Begins the journal of a run that will change `lines` values at first. What a killed run has left is put back before,
    /// and told to `told`.
    ///
    /// # Errors
    /// [`JournalError`]; nothing is changed then.
    pub fn begin(scope: &Scope, lines: usize, told: &mut dyn FnMut(&Recovered)) -> Result<Self, JournalError> {
        Self::begin_in(&state_dir(), scope, lines, told)
    }

    /// The same with the journal in another folder than [`state_dir`].
    ///
    /// # Errors
    /// As [`Ledger::begin`].
    pub fn begin_in(
        folder: &Path,
        scope: &Scope,
        lines: usize,
        told: &mut dyn FnMut(&Recovered),
    ) -> Result<Self, JournalError> {
        // Beside each line those of the instances that a file of the interface is written to, and the first processes.
        let journal = Journal::begin_in(folder, scope, Keep::Run, 2 * lines + ROOM, told)?;
        // What an earlier run could not put back is under what this one changes.
        let entries = journal.carried().to_vec();
        Ok(Self { scope: Some(scope.clone()), journal: Some(journal), entries })
    }

    /// A ledger without a journal, for changes of what ends with the run however that ends: a program of its own.
    #[must_use]
    pub const fn in_memory() -> Self {
        Self { scope: None, journal: None, entries: Vec::new() }
    }

    /// Applies lines in order. Instances that an interface has got anew take the place of those that it had.
    ///
    /// # Errors
    /// The first that is refused. What was changed stays until [`Ledger::put_back`].
    pub fn apply(&mut self, lines: &[Line]) -> Result<(), ApplyError> {
        let Self { journal, entries, .. } = self;
        for line in lines {
            if let Some(journal) = journal.as_mut().filter(|journal| !journal.has_room()) {
                *entries = without_renewed(entries);
                journal.rewrite(entries, 2 * lines.len() + ROOM)?;
            }
            let note = &mut |entry: &Entry| journal.as_mut().map_or(Ok(()), |journal| journal.note(entry));
            apply_line(line, note, entries)?;
        }
        Ok(())
    }

    /// Applies lines once more. What this ledger has changed already and is another value now is written again, and what is noted of it
    /// stays as it is: what was there at first is what is put back. How many were written again.
    ///
    /// # Errors
    /// As [`Ledger::apply`].
    pub fn apply_again(&mut self, lines: &[Line]) -> Result<usize, ApplyError> {
        let mut again = 0;
        for line in lines {
            if !self.entries.iter().any(|entry| entry.key == line.key) {
                self.apply(std::slice::from_ref(line))?;
                continue;
            }
            let refused = |error| ApplyError::Refused { line: Box::new(line.clone()), error };
            let is_there = |now: Option<String>| now.is_some_and(|now| line.key.same(&now, &line.value));
            if !is_there(line.key.read().map_err(refused)?) {
                line.key.write(&line.value).map_err(refused)?;
                again += 1;
            }
        }
        Ok(again)
    }

    /// Applies lines in place of others: what this ledger has changed already gets another value, and what was there at first is what is put back. All
    /// of them are noted at once: an interface may have very many instances, and each time on disk takes milliseconds.
    ///
    /// # Errors
    /// The first that is refused, or is another value than this ledger wrote. What was changed stays until [`Ledger::put_back`].
    pub fn exchange(&mut self, lines: &[Line]) -> Result<(), ApplyError> {
        let mut exchanged = Vec::new();
        for line in lines {
            match self.entries.iter().position(|entry| entry.key == line.key) {
                None => self.apply(std::slice::from_ref(line))?,
                Some(at) => exchanged.extend(self.exchanged(at, line)?.map(|new| (at, line, new))),
            }
        }
        if let Some(journal) = self.journal.as_mut().filter(|_| !exchanged.is_empty()) {
            if !journal.has_room_for(exchanged.len()) {
                journal.rewrite(&self.entries, ROOM + 2 * exchanged.len())?;
            }
            let new: Vec<Entry> = exchanged.iter().map(|(.., new)| new.clone()).collect();
            journal.note_all(&new)?;
        }
        for (at, line, new) in exchanged {
            let refused = |error| ApplyError::Refused { line: Box::new(line.clone()), error };
            self.entries[at] = new;
            line.key.write(&line.value).map_err(refused)?;
            match line.key.read().map_err(refused)? {
                Some(found) if !line.key.same(&found, &line.value) => {
                    return Err(refused(KeyError::ReadsAs { found }));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What is to be noted of a value that gets another one; `None` if it has that.
    fn exchanged(&self, at: usize, line: &Line) -> Result<Option<Entry>, ApplyError> {
        let refused = |error| ApplyError::Refused { line: Box::new(line.clone()), error };
        let old = &self.entries[at];
        let now = line.key.read().map_err(refused)?;
        let is = |wanted: &str| now.as_ref().is_some_and(|now| line.key.same(now, wanted));
        if !is(&old.after) && !old.before.as_ref().is_some_and(|before| is(before)) {
            let now = now.as_deref().unwrap_or("not told");
            return Err(refused(KeyError::Refused(format!("it is {now}: another program changed it meanwhile"))));
        }
        // Until it is written what is there now is ours too.
        let is_there = is(&line.value) && is(&old.after);
        Ok((!is_there).then(|| Entry { after: line.value.clone(), or: now, ..old.clone() }))
    }

    /// Notes what is going to be changed: it is on disk when this returns. Entries that `is_over` are dropped where the journal
    /// has no more room.
    ///
    /// # Errors
    /// The disk is full: the change must not be made.
    pub fn note(&mut self, entry: Entry, is_over: impl Fn(&Entry) -> bool) -> Result<(), JournalError> {
        self.note_all(vec![entry], is_over)
    }

    /// The same for several at once.
    ///
    /// # Errors
    /// As [`Ledger::note`]: none of the changes must be made.
    pub fn note_all(&mut self, entries: Vec<Entry>, is_over: impl Fn(&Entry) -> bool) -> Result<(), JournalError> {
        match &mut self.journal {
            Some(journal) => {
                if !journal.has_room_for(entries.len()) {
                    self.entries.retain(|entry| !is_over(entry));
                    journal.rewrite(&self.entries, ROOM + 2 * entries.len())?;
                }
                journal.note_all(&entries)?;
            }
            None if self.entries.len() % ROOM == ROOM - 1 => self.entries.retain(|entry| !is_over(entry)),
            None => {}
        }
        self.entries.extend(entries);
        Ok(())
    }

    /// What was changed, in order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Puts everything back, newest first. The journal ends; what was refused, or is away, stays in it, for a run that may or finds
    /// it there again.
    #[must_use]
    pub fn put_back(self) -> Undone {
        let undone = match &self.scope {
            Some(scope) => undo_in(scope, &self.entries),
            None => undo(&self.entries),
        };
        match self.journal {
            Some(mut journal) if !undone.remaining.is_empty() => {
                // Where there is no room for a new file the old one says more than is left, and nothing less.
                let _ = journal.rewrite(&undone.remaining, 0);
                journal.keep();
            }
            Some(journal) if undone.is_refused => journal.keep(),
            Some(journal) => journal.close(),
            None => {}
        }
        undone
    }
}

/// Without those of instances that went, where the one in their place has an entry: that one says what is put back.
fn without_renewed(entries: &[Entry]) -> Vec<Entry> {
    let newer = |at: usize| &entries[at + 1..];
    let counts = |at: usize| !newer(at).iter().any(|newer| entries[at].key.is_before(&newer.key));
    (0..entries.len()).filter(|at| counts(*at)).map(|at| entries[at].clone()).collect()
}

/// Entries that room is taken for beside those of lines.
const ROOM: usize = 64;
