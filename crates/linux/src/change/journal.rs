//! What was there before, on disk before anything is written.
//!
//! One file for each thing that is changed (an interface, or the machine as a whole): lines of a sum and a JSON object, a
//! header first. It is locked as long as its run lives, so two runs on one interface refuse each other, and a file without a lock
//! is what a run left that was killed; runs with other folders see [`MachineLock`]. Its room is taken before the first write: a full
//! disk refuses the run, not its way back.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use serde::Serialize;

use super::header::{JournalHeader, Keep, Scope, VERSION};
use super::line::Entry;
use super::machine::MachineLock;
use super::read::{lock, sync_folder};
use super::sum::sum;

/// Bytes that are taken for each line before the first is written; no entry is longer.
const LINE_BYTES: u64 = 1024;

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another run has the interface, or a queue of it.
    #[error("another napier ({}) has {name}: end that one first{}", process_words(*pid), way_out(name))]
    Busy {
        /// The interface, or the queue.
        name: String,
        /// Whose; 0 if it is not to be seen from here.
        pid: u32,
    },
    /// There is what an earlier command keeps in force.
    #[error("{name} is tuned already: napier host undo puts it back")]
    Kept {
        /// What.
        name: String,
    },
    /// What a killed run has left could not be put back.
    #[error("{name} still has what an earlier run changed, and it cannot be put back: {}", left.join("; "))]
    Left {
        /// What.
        name: String,
        /// What is left.
        left: Vec<String>,
    },
    /// No room, no permission, no folder.
    #[error("no journal can be kept in {}, so nothing was changed: {error}; NAPIER_STATE_DIRECTORY names another folder", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// A process in a message.
pub(super) fn process_words(pid: u32) -> String {
    if pid == 0 { "whose process is not to be seen from here".to_owned() } else { format!("pid {pid}") }
}

/// Two runs go on side by side if neither wants what the other has.
fn way_out(name: &str) -> &'static str {
    if name == Scope::Host.name() {
        return "";
    }
    ", or let each run have queues of its own (napier run --queues; napier host show says whose they are)"
}

/// An open journal: what it has room for may be changed.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    end: u64,
    room: u64,
    header: JournalHeader,
    /// What an earlier run has changed and could not put back, for what it belongs to is away.
    carried: Vec<Entry>,
    /// Until the run is over.
    _lock: Option<MachineLock>,
}

impl Journal {
    /// Begins a file that is locked, with room for `lines` entries beside those that are carried over.
    pub(super) fn open(
        file: File,
        path: PathBuf,
        header: JournalHeader,
        machine: MachineLock,
        carried: Vec<Entry>,
        lines: usize,
    ) -> Result<Self, JournalError> {
        let mut journal = Self { file, path, end: 0, room: 0, header, carried: Vec::new(), _lock: Some(machine) };
        if carried.is_empty() {
            if let Err(error) = journal.begin_anew(lines).and_then(|()| sync_folder(journal.folder())) {
                let error = journal.refused(error);
                journal.close();
                return Err(error);
            }
            return Ok(journal);
        }
        // The old file stays until the new one is on disk.
        journal.rewrite(&carried, lines)?;
        journal.carried = carried;
        Ok(journal)
    }

    /// What was left of an earlier run, as [`Journal::begin`] found it: it is put back with what this one changes.
    #[must_use]
    pub fn carried(&self) -> &[Entry] {
        &self.carried
    }

    /// The file of a run that has ended, with what of it is to be put back later.
    /// What was asked back and is only away is no longer kept: the next command puts it back.
    pub(super) fn left(file: File, path: &Path, header: JournalHeader, is_refused: bool) -> Self {
        let keep = if is_refused { header.keep } else { Keep::Run };
        let header = JournalHeader { keep, version: VERSION, ..header };
        Self { file, path: path.to_owned(), end: 0, room: 0, header, carried: Vec::new(), _lock: None }
    }

    fn begin_anew(&mut self, lines: usize) -> io::Result<()> {
        self.file.set_len(0)?;
        // The header, and the entries.
        self.room = (lines as u64 + 1) * LINE_BYTES;
        self.header.room = self.room;
        self.take_room()?;
        self.write_header()
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether one more entry has room that was taken.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.has_room_for(1)
    }

    pub(super) fn has_room_for(&self, entries: usize) -> bool {
        self.end + entries as u64 * LINE_BYTES <= self.room
    }

    /// Writes it anew with these entries only, and room for `more` of them: the old file has its name until the new one is on
    /// disk.
    ///
    /// # Errors
    /// The disk is full: the old one stays as it is.
    pub fn rewrite(&mut self, entries: &[Entry], more: usize) -> Result<(), JournalError> {
        let path = self.path.with_extension("new");
        let room = (entries.len() + more + 1) as u64 * LINE_BYTES;
        let write = || {
            let file = lock(&path, true)?.ok_or(io::ErrorKind::WouldBlock)?;
            file.set_len(0)?;
            let header = JournalHeader { room, ..self.header.clone() };
            let mut new = Self { file, path: path.clone(), end: 0, room, header, carried: Vec::new(), _lock: None };
            new.take_room()?;
            new.write_header()?;
            new.write_all(entries)?;
            std::fs::rename(&path, &self.path)?;
            Ok(new)
        };
        let new = write().map_err(|error| {
            let _ = std::fs::remove_file(&path);
            self.refused(error)
        })?;
        // The new file is locked, and has the name.
        (self.file, self.end, self.room, self.header) = (new.file, new.end, new.room, new.header);
        sync_folder(self.folder()).map_err(|error| self.refused(error))
    }

    /// Takes room for more lines than it was begun with.
    ///
    /// # Errors
    /// The disk is full.
    pub fn reserve(&mut self, lines: usize) -> Result<(), JournalError> {
        self.room = self.room.max(self.end + lines as u64 * LINE_BYTES);
        self.take_room().map_err(|error| self.refused(error))
    }

    /// Notes what a write is going to change; it is on disk when this returns.
    ///
    /// # Errors
    /// It could not be written: the change must not be made.
    pub fn note(&mut self, entry: &Entry) -> Result<(), JournalError> {
        self.write(entry).map_err(|error| self.refused(error))
    }

    /// Notes several at once.
    ///
    /// # Errors
    /// As [`Journal::note`]: none of the changes must be made.
    pub fn note_all(&mut self, entries: &[Entry]) -> Result<(), JournalError> {
        self.write_all(entries).map_err(|error| self.refused(error))
    }

    /// Ends it: everything is back as it was, or shall not be put back.
    pub fn close(self) {
        // With the lock held, so that no command takes it for a dead run's.
        let _ = std::fs::remove_file(&self.path);
    }

    /// Leaves it, for what is to be put back later.
    pub fn keep(self) {
        drop(self);
    }

    fn refused(&self, error: io::Error) -> JournalError {
        JournalError::Folder { folder: self.folder().to_owned(), error }
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    fn take_room(&self) -> io::Result<()> {
        match fallocate(&self.file, FallocateFlags::empty(), 0, self.room) {
            Err(rustix::io::Errno::OPNOTSUPP) => {
                use std::os::unix::fs::FileExt as _;
                let zeros = vec![0; usize::try_from(self.room - self.end).unwrap_or(0)];
                self.file.write_all_at(&zeros, self.end)
            }
            done => done.map_err(Into::into),
        }
    }

    fn write_header(&mut self) -> io::Result<()> {
        let header = self.header.clone();
        self.write(&header)
    }

    fn write(&mut self, what: &impl Serialize) -> io::Result<()> {
        self.write_all(std::slice::from_ref(what))
    }

    fn write_all(&mut self, what: &[impl Serialize]) -> io::Result<()> {
        use std::os::unix::fs::FileExt as _;
        let mut lines = String::new();
        for one in what {
            let json = serde_json::to_string(one)?;
            lines += &format!("{:016x} {json}\n", sum(json.as_bytes()));
        }
        self.file.write_all_at(lines.as_bytes(), self.end)?;
        self.file.sync_data()?;
        self.end += lines.len() as u64;
        Ok(())
    }
}
