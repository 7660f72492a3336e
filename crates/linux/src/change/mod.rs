//! What is changed on a live machine, as one list: shown, noted, written, read back, and put back.
//!
//! ```text
//! Line (what shall be) --apply--> read, note in the journal and sync, write, read again --> Entry (what was there)
//! Entry --undo, newest first--> is it still what was written? put back : leave it and say so
//! ```
//!
//! A [`Key`] names one value of this machine: an attribute of a NAPI instance, a file of an interface, a sysctl. Every value
//! is text, as the tool that people set it with shows it. The journal ([`Journal`]) is on disk before the first write, so
//! that the next run of any command can put back what one that was killed has left ([`recover`]).

mod each;
mod ethtool;
mod file;
mod journal;
mod key;
mod ledger;
mod machine;
mod napi;
mod places;
mod plan;
mod probe;
mod read;
mod recover;
mod show;
pub(crate) mod text;
pub(crate) mod thread;
mod trial;
mod undo;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use each::{Each, Journals, apply_each};
pub use ethtool::EthtoolKey;
pub use journal::{Journal, JournalError, Keep, Scope, called};
pub use key::{AS_MADE, DeviceRef, IN_FORCE, Key, KeyError};
pub use ledger::Ledger;
pub use napi::NapiAttribute;
pub use napier_core::control::cpu_list;
pub use places::{STATE_VARIABLE, state_dir};
pub use plan::lines_of;
pub use recover::{Recovered, pending, recover, undo_kept};
pub use show::{Changed, State, found, unseen};
pub use text::{quoted, shown};
pub use thread::{ThreadKey, ThreadSetting};
pub use trial::{Outcome, Trial, confirm_all, is_remote, overdue};
pub use undo::{Undone, undo};

/// What shall be in force at one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Line {
    /// Where.
    pub key: Key,
    /// What shall be there.
    pub value: String,
}

impl Line {
    /// The setting `value` at `key`.
    pub fn new(key: Key, value: impl Into<String>) -> Self {
        Self { key, value: value.into() }
    }

    /// The command by which a person would do the same, where there is one.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        self.key.command(&self.value)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.key, self.value)
    }
}

/// What was there before a line was written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Where.
    pub key: Key,
    /// What was there; `None` where the kernel does not tell.
    pub before: Option<String>,
    /// What was written.
    pub after: String,
    /// What it may have been made by undoing a later entry: a file of an interface is written to each instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub or: Option<String>,
}

impl Entry {
    fn with_device(&self, now: &DeviceRef) -> Self {
        Self { key: self.key.with_device(now), ..self.clone() }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.before.as_deref().unwrap_or("(not told)");
        write!(f, "{}: {before} -> {}", self.key, self.after)
    }
}

/// A line as it would be carried out now.
#[derive(Debug)]
pub struct Preview {
    /// What shall be.
    pub line: Line,
    /// What is there; or why the line would be refused, as far as that is known without writing it.
    pub now: Result<Option<String>, KeyError>,
}

impl Preview {
    fn of(line: &Line) -> Self {
        let preview = Self { line: line.clone(), now: line.key.read() };
        match probe::refusal(line).filter(|_| preview.now.is_ok() && preview.is_change()) {
            Some(error) => Self { now: Err(error), ..preview },
            None => preview,
        }
    }

    /// Whether it would change anything.
    #[must_use]
    pub fn is_change(&self) -> bool {
        !matches!(&self.now, Ok(Some(now)) if self.line.key.same(now, &self.line.value))
    }
}

/// What lines would change, without changing it.
#[must_use]
pub fn preview(lines: &[Line]) -> Vec<Preview> {
    lines.iter().map(Preview::of).collect()
}

/// Why lines are not in force. All that was changed is put back, but for what `left` names.
#[derive(Debug, thiserror::Error)]
#[error("{}{}", why, text::beside(left))]
pub struct NotApplied {
    /// What ended it.
    pub why: ApplyError,
    /// What could not be put back, and why.
    pub left: Vec<String>,
}

/// What ended the writing of lines.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A value was refused.
    #[error("{line}: {error}")]
    Refused {
        /// The line.
        line: Box<Line>,
        /// Why.
        error: KeyError,
    },
    /// Nothing is changed that is not noted.
    #[error("{0}")]
    Journal(#[from] JournalError),
}

/// Puts lines into force, in order, each noted first. What is there already is not written again.
///
/// # Errors
/// The first line that is refused, or reads as something else afterwards; what was changed until then is put back.
pub fn apply(lines: &[Line], journal: &mut Journal) -> Result<Vec<Entry>, NotApplied> {
    let mut entries = Vec::new();
    for line in lines {
        if let Err(why) = apply_line(line, &mut |entry| journal.note(entry), &mut entries) {
            let left = undo(&entries).left;
            return Err(NotApplied { why, left });
        }
    }
    Ok(entries)
}

/// What notes an entry before its change is made.
type Note<'a> = dyn FnMut(&Entry) -> Result<(), JournalError> + 'a;

/// Puts one line into force, noted first; what it changed is added to `entries`, also if it is refused then. Where the interface
/// has a new instance in place of one that was changed, what the old one had is what is put back.
///
/// # Errors
/// It is refused, or reads as something else afterwards, or cannot be noted.
fn apply_line(line: &Line, note: &mut Note<'_>, entries: &mut Vec<Entry>) -> Result<(), ApplyError> {
    let refused = |error| ApplyError::Refused { line: Box::new(line.clone()), error };
    let before = line.key.read().map_err(refused)?;
    // A file of an interface is written to all instances even if it has the value itself.
    let implied = line.key.implied(&line.value, before.as_deref()).map_err(refused)?;
    let is_kept = |entry: &Entry| entry.before.as_ref() == Some(&entry.after);
    if implied.iter().all(is_kept) && before.as_deref().is_some_and(|before| line.key.same(before, &line.value)) {
        return Ok(());
    }
    let own = match entries.iter().find(|entry| entry.key.is_before(&line.key)) {
        Some(old) => Entry { key: line.key.clone(), before: old.before.clone(), after: line.value.clone(), or: before },
        None => Entry { key: line.key.clone(), before, after: line.value.clone(), or: None },
    };
    for entry in implied.into_iter().chain([own]) {
        note(&entry)?;
        entries.push(entry);
    }
    line.key.write(&line.value).map_err(refused)?;
    match line.key.read().map_err(refused)? {
        Some(found) if !line.key.same(&found, &line.value) => {
            // A driver that rounds: neither what was there nor what was wanted, so nobody would put it back later.
            let own = entries.last().and_then(|entry| entry.before.as_deref());
            let _ = own.map(|before| line.key.write(before));
            Err(refused(KeyError::ReadsAs { found }))
        }
        _ => Ok(()),
    }
}
