//! Entries put back.

use std::collections::HashSet;

use super::key::Key;
use super::line::Entry;
use crate::descriptors::{AS_MADE, OwnSettings, ProgramKey};
use crate::setting::KeyError;

/// What became of entries that were to be put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Put back.
    pub put_back: Vec<String>,
    /// Left as they are, and why: another program changed them meanwhile, they are refused, or what they belong to is away.
    pub left: Vec<String>,
    /// Some of those were refused: a command that may can still put them back.
    pub is_refused: bool,
    /// How many of those are away: they are put back when they are there again.
    pub away: usize,
    /// There is nothing left to put back to: the device is gone.
    pub gone: Vec<String>,
    /// Entries that are refused or away, in their order.
    pub remaining: Vec<Entry>,
}

impl Undone {
    /// What is worth saying: all but what was put back, in lines for a person.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let gone = self.gone.iter().map(|gone| format!("nothing to put back: {gone}"));
        self.left.iter().cloned().chain(gone).collect()
    }

    fn refuse(&mut self, entry: &Entry, before: &str, error: &KeyError) {
        self.left.push(format!("{} is not put back to {before}: {error}", entry.key));
        self.is_refused = true;
        self.remaining.push(entry.clone());
    }

    fn leave_away(&mut self, entry: &Entry, before: &str, what: &str) {
        self.left.push(format!("{} is put back to {before} when it is there again: {what}", entry.key));
        self.away += 1;
        self.remaining.push(entry.clone());
    }

    /// Looks at one entry.
    fn put_back(&mut self, entry: &Entry) {
        let Entry { key, before, after, or } = entry;
        let Some(before) = before else {
            self.left.push(format!("{key}: the kernel does not tell what was there before {after}"));
            return;
        };
        match key.read() {
            // A program that has ended has taken its descriptors along.
            Err(KeyError::Gone(_)) if key.is_of_program() => {}
            Ok(Some(now)) if key.same(&now, before) => {}
            Ok(Some(now)) if !key.same(&now, after) && !or.as_ref().is_some_and(|or| key.same(&now, or)) => {
                let why = "another program changed it meanwhile, so it is left";
                self.left.push(format!("{key} is {now}, not {after} as was written: {why}"));
            }
            Ok(_) => match key.write(before) {
                Ok(()) => self.put_back.push(format!("{key}: {before}")),
                error => self.failed(entry, before, error),
            },
            Err(error) => self.failed(entry, before, Err(error)),
        }
    }

    fn failed(&mut self, entry: &Entry, before: &str, error: Result<(), KeyError>) {
        let key = &entry.key;
        match error {
            Ok(()) => {}
            Err(KeyError::Gone(_)) if key.is_of_program() => {}
            Err(KeyError::Away(what)) => self.leave_away(entry, before, &what),
            Err(KeyError::Fixed(what)) => self.left.push(format!("{key}: {what}")),
            Err(KeyError::NotHere(_)) if key.setting().is_of_queue() => {
                self.leave_away(entry, before, "its queue is switched off")
            }
            // It was there when it was noted: an interface or an interrupt that is no more.
            Err(KeyError::Gone(what) | KeyError::NotHere(what)) => self.gone.push(format!("{key}: {what}")),
            Err(error) => self.refuse(entry, before, &error),
        }
    }

    /// Makes a program's descriptors as they were made, but for those that it had set itself.
    fn put_back_program(&mut self, entry: &Entry, key: &ProgramKey, own: &OwnSettings) {
        let before = entry.before.as_deref().unwrap_or(AS_MADE);
        match key.put_back(own) {
            Ok(()) => self.put_back.push(format!("{}: {before}", entry.key)),
            error => self.failed(entry, before, error),
        }
    }
}

/// Puts entries back, newest first. A value that is neither what was written nor what was there is another program's: it is left. What
/// programs have comes last: of descriptors that are noted by themselves more is known.
#[must_use]
pub fn undo(entries: &[Entry]) -> Undone {
    let mut undone = Undone::default();
    let mut own = OwnSettings::default();
    let mut programs = Vec::new();
    for entry in entries {
        match &entry.key {
            Key::Descriptor(key) => own.note(key, entry.before.as_deref()),
            Key::Program(key) => programs.push((entry, key)),
            _ => {}
        }
    }
    let mut seen = HashSet::new();
    for entry in entries.iter().rev() {
        match &entry.key {
            Key::Program(_) => {}
            // An older entry of a descriptor's number was about one that is closed.
            Key::Descriptor(_) if !seen.insert(&entry.key) => {}
            _ => undone.put_back(entry),
        }
    }
    for (entry, key) in programs.into_iter().rev() {
        undone.put_back_program(entry, key, &own);
    }
    undone.remaining.reverse();
    undone
}
