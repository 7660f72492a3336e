//! Lines that each stand for themselves: one that is refused leaves the others in force. For what stays until it is asked back.

use super::apply::{ApplyError, apply_line};
use super::header::{Keep, Scope};
use super::implied::implied;
use super::instances::instances;
use super::journal::{Journal, JournalError};
use super::key::Key;
use super::line::{Entry, Line};
use super::recover::Recovered;
use crate::setting::DeviceRef;

/// What became of lines.
#[derive(Debug, Default)]
pub struct Each {
    /// In force now.
    pub done: Vec<Line>,
    /// In force before.
    pub already: Vec<Line>,
    /// Refused, and why.
    pub refused: Vec<(Line, String)>,
}

/// Applies lines one by one, each in the journal of what it is about, where it stays until `napier host undo`. A journal in
/// which nothing was noted is removed again.
///
/// # Errors
/// A journal cannot be begun: what it is about is another run's, or tuned already. Nothing is changed then.
pub fn apply_each(lines: &[Line], told: &mut dyn FnMut(&Recovered)) -> Result<Each, JournalError> {
    let mut each = Each::default();
    let mut journals = Journals::begin(lines.to_vec(), told)?;
    let done = lines.iter().try_for_each(|line| journals.apply(line, &mut each, told));
    journals.end();
    done.map(|()| each)
}

/// One journal for each thing that is changed.
#[derive(Debug)]
pub struct Journals {
    /// What they take room for.
    expected: Vec<Line>,
    open: Vec<(Option<DeviceRef>, Journal, Vec<Entry>)>,
}

impl Journals {
    /// Begins those that these lines need.
    ///
    /// # Errors
    /// One of them cannot be begun; then none is left.
    pub fn begin(expected: Vec<Line>, told: &mut dyn FnMut(&Recovered)) -> Result<Self, JournalError> {
        let mut journals = Self { expected: Vec::new(), open: Vec::new() };
        for line in &expected {
            if journals.place(line).is_none()
                && let Err(error) = journals.open(device_of(line).cloned(), &expected, told)
            {
                journals.end();
                return Err(error);
            }
        }
        journals.expected = expected;
        Ok(journals)
    }

    /// Files of those that are begun.
    #[must_use]
    pub fn paths(&self) -> Vec<std::path::PathBuf> {
        self.open.iter().map(|(_, journal, _)| journal.path().to_owned()).collect()
    }

    /// More lines will be applied.
    pub fn expect(&mut self, more: Vec<Line>) {
        self.expected.extend(more);
        for (device, journal, _) in &mut self.open {
            // Where there is no room, the note that does not fit refuses its line.
            let _ = journal.reserve(room(&self.expected, device.as_ref()));
        }
    }

    /// Applies one line.
    ///
    /// # Errors
    /// Its journal was not begun and cannot be. That the line is refused is no error: it is in `each`.
    pub fn apply(
        &mut self,
        line: &Line,
        each: &mut Each,
        told: &mut dyn FnMut(&Recovered),
    ) -> Result<(), JournalError> {
        let at = match self.place(line) {
            Some(at) => at,
            None => self.open(device_of(line).cloned(), std::slice::from_ref(line), told)?,
        };
        let (_, journal, entries) = &mut self.open[at];
        let before = entries.len();
        match apply_line(line, &mut |entry| journal.note(entry), entries) {
            Ok(()) if entries.len() == before => each.already.push(line.clone()),
            Ok(()) => each.done.push(line.clone()),
            Err(error) => {
                // What was noted and did not come to be is nothing that is kept.
                let tried = entries.split_off(before);
                entries.extend(tried.into_iter().filter(is_other_now));
                let why = match error {
                    ApplyError::Refused { error, .. } => line.key.setting().why(&error),
                    ApplyError::Journal(error) => error.to_string(),
                };
                each.refused.push((line.clone(), why));
            }
        }
        Ok(())
    }

    fn place(&self, line: &Line) -> Option<usize> {
        self.open.iter().position(|(device, ..)| device.as_ref() == device_of(line))
    }

    fn open(
        &mut self,
        device: Option<DeviceRef>,
        lines: &[Line],
        told: &mut dyn FnMut(&Recovered),
    ) -> Result<usize, JournalError> {
        let folder = |error| JournalError::Folder { folder: "/proc".into(), error };
        let scope = device.clone().map_or(Ok(Scope::Host), Scope::device).map_err(folder)?;
        let journal = Journal::begin(&scope, Keep::UntilUndone, room(lines, device.as_ref()), told)?;
        self.open.push((device, journal, Vec::new()));
        Ok(self.open.len() - 1)
    }

    /// Leaves what was changed in force.
    pub fn end(self) {
        for (_, journal, entries) in self.open {
            // What an earlier run left away stays noted.
            let entries = [journal.carried(), &entries].concat();
            if entries.is_empty() {
                journal.close();
            } else {
                journal.keep();
            }
        }
    }
}

/// Whether a value is another one than it was noted with.
fn is_other_now(entry: &Entry) -> bool {
    match (entry.key.read(), &entry.before) {
        (Ok(Some(now)), Some(before)) => !entry.key.same(&now, before),
        // What cannot be read now may be.
        _ => true,
    }
}

/// The interface whose journal has the line; the others are in the machine's.
fn device_of(line: &Line) -> Option<&DeviceRef> {
    line.key.setting().device()
}

/// Entries that the lines about one interface, or about the machine, may make.
fn room(lines: &[Line], device: Option<&DeviceRef>) -> usize {
    lines.iter().filter(|line| device_of(line) == device).map(entries_max).sum()
}

/// Most entries that a line makes: a file of an interface is written to its instances too.
fn entries_max(line: &Line) -> usize {
    match &line.key {
        Key::DeviceFile(key) => 1 + instances(&key.device).map_or(0, |infos| infos.len()),
        key => 1 + implied(key, &line.value, None).map_or(0, |entries| entries.len()),
    }
}
