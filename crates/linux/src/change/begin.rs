//! A journal begun: what a run has left that was killed is put back first.

use std::path::Path;

use super::header::{JournalHeader, Keep, Scope, boot_id};
use super::journal::{Journal, JournalError};
use super::machine::{LockedBy, MachineLock};
use super::places::{self, state_dir};
use super::read::{holder, lock, lock_soon, parse, read, set_aside};
use super::recover::{Recovered, put_back};

impl Journal {
    /// Begins the journal of a run that will change at most `lines` values. What a run has left that was killed is put back
    /// first, and told to `told`.
    ///
    /// # Errors
    /// [`JournalError`]; nothing is changed then.
    pub fn begin(
        scope: &Scope,
        keep: Keep,
        lines: usize,
        told: &mut dyn FnMut(&Recovered),
    ) -> Result<Self, JournalError> {
        Self::begin_in(&state_dir(), scope, keep, lines, told)
    }

    /// The same with the journal in another folder than [`state_dir`].
    ///
    /// # Errors
    /// As [`Journal::begin`].
    pub fn begin_in(
        folder: &Path,
        scope: &Scope,
        keep: Keep,
        lines: usize,
        told: &mut dyn FnMut(&Recovered),
    ) -> Result<Self, JournalError> {
        let refused = |error| JournalError::Folder { folder: folder.to_owned(), error };
        places::make(folder).map_err(refused)?;
        let name = scope.name().to_owned();
        if keep == Keep::UntilUndone
            && let Some(pid) = holder(&folder.join(scope.file_name(Keep::Run)))
        {
            return Err(JournalError::Busy { name, pid });
        }
        let path = folder.join(scope.file_name(keep));
        let busy = || JournalError::Busy { name: name.clone(), pid: read(&path).map_or(0, |found| found.pid()) };
        let mut file = lock_soon(&path).map_err(refused)?.ok_or_else(busy)?;
        let held = MachineLock::take(scope).map_err(|LockedBy { pid }| JournalError::Busy { name: name.clone(), pid });
        let machine = held.inspect_err(|_| {
            // It was made here, and nothing is in it.
            if file.metadata().is_ok_and(|found| found.len() == 0) {
                let _ = std::fs::remove_file(&path);
            }
        })?;
        let there = parse(&mut file).map_err(refused)?;
        if there.header.as_ref().is_some_and(|header| header.keep == Keep::UntilUndone && header.boot == boot_id()) {
            return Err(JournalError::Kept { name });
        }
        let mut recovered = put_back(&there, true);
        if recovered.undone.is_refused {
            told(&recovered);
            return Err(JournalError::Left { name, left: recovered.undone.left });
        }
        if recovered.damaged > 0 {
            recovered.aside = set_aside(&path);
            file = lock(&path, true).map_err(refused)?.ok_or_else(busy)?;
        }
        told(&recovered);
        let carried = recovered.undone.remaining;
        Self::open(file, path, JournalHeader::new(keep, scope.clone()), machine, carried, lines)
    }
}
