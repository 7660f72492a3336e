//! Lines previewed and applied.

use super::implied::implied;
use super::journal::{Journal, JournalError};
use super::line::{Entry, Line};
use super::undo::undo;
use crate::setting::KeyError;

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
        match line.key.setting().refusal(&line.value).filter(|_| preview.now.is_ok() && preview.is_change()) {
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

/// What could not be put back, behind a message.
fn beside(left: &[String]) -> String {
    if left.is_empty() { String::new() } else { format!("; not put back: {}", left.join("; ")) }
}

/// Why lines are not in force. All that was changed is put back, but for what `left` names.
#[derive(Debug, thiserror::Error)]
#[error("{}{}", why, beside(left))]
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

/// Applies lines in order, each noted first. What is there already is not written again.
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
pub(super) type Note<'a> = dyn FnMut(&Entry) -> Result<(), JournalError> + 'a;

/// Applies one line, noted first; what it changed is added to `entries`, also if it is refused then. Where the interface
/// has a new instance in place of one that was changed, what the old one had is what is put back.
///
/// # Errors
/// It is refused, or reads as something else afterwards, or cannot be noted.
pub(super) fn apply_line(line: &Line, note: &mut Note<'_>, entries: &mut Vec<Entry>) -> Result<(), ApplyError> {
    let refused = |error| ApplyError::Refused { line: Box::new(line.clone()), error };
    let before = line.key.read().map_err(refused)?;
    // A file of an interface is written to all instances even if it has the value itself.
    let implied = implied(&line.key, &line.value, before.as_deref()).map_err(refused)?;
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
            // A driver that rounds: neither what was there nor what was wanted, so it would not be put back later.
            let own = entries.last().and_then(|entry| entry.before.as_deref());
            let _ = own.map(|before| line.key.write(before));
            Err(refused(KeyError::ReadsAs { found }))
        }
        _ => Ok(()),
    }
}
