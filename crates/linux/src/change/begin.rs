//! A journal begun: what a run has left that was killed is put back first.

use std::path::Path;

use super::header::{JournalHeader, Keep, Scope, boot_id};
use super::journal::{Journal, JournalError};
use super::machine::MachineLock;
use super::places::{self, journals, state_dir};
use super::read::{lock, lock_left, lock_soon, parse, read, set_aside};
use super::recover::{Recovered, put_back, recover_one};

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
        let name = scope.words();
        let path = folder.join(scope.file_name(keep));
        settle(folder, scope, keep, told)?;
        let busy = || JournalError::Busy { name: name.clone(), pid: read(&path).map_or(0, |found| found.pid()) };
        let mut file = lock_soon(&path).map_err(refused)?.ok_or_else(busy)?;
        let held =
            MachineLock::take(scope).map_err(|held| JournalError::Busy { name: held.words(scope), pid: held.pid });
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

/// Journals of runs under other names that are about the same queues: who holds one is said, and what a run has left that was killed is
/// put back, unless this one does not come on top of it.
fn settle(folder: &Path, scope: &Scope, keep: Keep, told: &mut dyn FnMut(&Recovered)) -> Result<(), JournalError> {
    let own = folder.join(scope.file_name(keep));
    for path in journals(&[folder.to_owned()]).into_iter().filter(|path| *path != own) {
        let Some(header) = read(&path).ok().and_then(|found| found.header) else { continue };
        if header.keep != Keep::Run || !header.scope.overlaps(scope) {
            continue;
        }
        match lock_left(&path) {
            Ok(None) => return Err(JournalError::Busy { name: header.scope.words(), pid: header.pid }),
            // Put back and removed meanwhile, or another user's.
            Err(_) => continue,
            Ok(Some(_)) => {}
        }
        let found = if keep == Keep::Run { recover_one(&path, |keep| keep == Keep::Run) } else { None };
        if let Some(recovered) = found {
            told(&recovered);
            if recovered.undone.is_refused {
                return Err(JournalError::Left { name: recovered.name, left: recovered.undone.left });
            }
        }
    }
    Ok(())
}
