//! What was there before, on disk before anything is written.
//!
//! One file for each thing that is changed (an interface, or the machine as a whole): lines of a sum and a JSON object, a
//! header first. It is locked as long as its run lives, so two runs on one interface refuse each other, and a file without a lock
//! is what a run left that was killed; runs with other folders see [`MachineLock`]. Its room is taken before the first write: a full
//! disk refuses the run, not its way back.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FallocateFlags, fallocate};
use serde::{Deserialize, Serialize};

use super::machine::{Held, MachineLock};
use super::places::{self, state_dir};
use super::read::{boot_id, holder, lock, lock_soon, parse, read, set_aside, sync_folder};
use super::{DeviceRef, Entry, text};
use crate::{NetnsId, device};

/// What a journal is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "scope", rename_all = "kebab-case")]
pub enum Scope {
    /// An interface, in the namespace of the calling thread.
    Device {
        /// The interface.
        device: DeviceRef,
        /// The namespace.
        netns: NetnsId,
        /// What tells it from one that has its number later.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<u64>,
    },
    /// The machine: sysctls, interrupts, processors.
    Host,
}

impl Scope {
    /// An interface of the calling thread's namespace.
    ///
    /// # Errors
    /// `/proc` is not there.
    pub fn device(device: DeviceRef) -> io::Result<Self> {
        let node = device.name_now().ok().and_then(|name| device::node(&name));
        Ok(Self::Device { device, netns: NetnsId::current()?, node })
    }

    /// What a run changes and what is kept have a file each: a run may come on top of what is kept.
    fn file_name(&self, keep: Keep) -> String {
        let end = match keep {
            Keep::Run => RUN_END,
            Keep::UntilUndone => KEPT_END,
        };
        match self {
            Self::Device { device, netns, .. } => format!("device-{netns}-{}{end}", device.ifindex),
            Self::Host => format!("host{end}"),
        }
    }

    /// For messages.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Device { device, .. } => &device.name,
            Self::Host => "this machine",
        }
    }
}

/// How long what is changed shall stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// As long as the run: the next one puts it back if this one cannot.
    Run,
    /// Until it is asked back, or the machine starts anew.
    UntilUndone,
}

/// The first line of a journal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Header {
    /// Of this format.
    pub(super) version: u32,
    /// `/proc/sys/kernel/random/boot_id`: a kernel that started since has forgotten all of it.
    pub(super) boot: String,
    pub(super) pid: u32,
    /// The command, in words.
    #[serde(default)]
    pub(super) by: String,
    /// When it began, in seconds since 1970.
    #[serde(default)]
    pub(super) since: u64,
    /// Bytes that were taken for it: a file that is shorter was cut.
    #[serde(default)]
    pub(super) room: u64,
    pub(super) keep: Keep,
    #[serde(flatten)]
    pub(super) scope: Scope,
}

/// The first named namespaces by their inodes.
pub(super) const VERSIONS: [u32; 2] = [1, 2];
const VERSION: u32 = VERSIONS[1];

/// Says once what command this process is, such as `host tune`: it is shown where something is changed.
pub fn called(by: &str) {
    let _ = CALLED.set(by.to_owned());
}

static CALLED: OnceLock<String> = OnceLock::new();

/// Ends of the names of journals.
pub(super) const RUN_END: &str = "-run.journal";
pub(super) const KEPT_END: &str = "-kept.journal";

/// Bytes that are taken for each line before the first is written; no entry is longer.
const LINE_BYTES: u64 = 1024;

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another run has the interface.
    #[error("{name} is in the hands of another napier ({}): end that one first", process_words(*pid))]
    Busy {
        /// What.
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

/// An open journal: what it has room for may be changed.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    end: u64,
    room: u64,
    header: Header,
    /// What an earlier run has changed and could not put back, for what it belongs to is away.
    carried: Vec<Entry>,
    /// Until the run is over.
    _lock: Option<MachineLock>,
}

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
        told: &mut dyn FnMut(&super::Recovered),
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
        told: &mut dyn FnMut(&super::Recovered),
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
        let held = MachineLock::take(scope).map_err(|Held { pid }| JournalError::Busy { name: name.clone(), pid });
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
        let mut recovered = super::recover::put_back(&there, true);
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
        let header = Header::new(keep, scope.clone());
        let mut journal = Self { file, path, end: 0, room: 0, header, carried: Vec::new(), _lock: Some(machine) };
        if carried.is_empty() {
            let begun = journal.begin_anew(lines).and_then(|()| sync_folder(folder));
            return match begun {
                Ok(()) => Ok(journal),
                Err(error) => {
                    journal.close();
                    Err(refused(error))
                }
            };
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
    pub(super) fn left(file: File, path: &Path, header: Header, is_refused: bool) -> Self {
        let keep = if is_refused { header.keep } else { Keep::Run };
        let header = Header { keep, version: VERSION, ..header };
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
    pub(super) fn path(&self) -> &Path {
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
            let header = Header { room, ..self.header.clone() };
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
        sync_folder(self.path.parent().unwrap_or(Path::new("/"))).map_err(|error| self.refused(error))
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
        // With the lock held, so that nobody takes it for a dead run's.
        let _ = std::fs::remove_file(&self.path);
    }

    /// Leaves it, for what is to be put back later.
    pub fn keep(self) {
        drop(self);
    }

    fn refused(&self, error: io::Error) -> JournalError {
        JournalError::Folder { folder: self.path.parent().unwrap_or(Path::new("/")).to_owned(), error }
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
            lines += &format!("{:016x} {json}\n", text::sum(json.as_bytes()));
        }
        self.file.write_all_at(lines.as_bytes(), self.end)?;
        self.file.sync_data()?;
        self.end += lines.len() as u64;
        Ok(())
    }
}

impl Header {
    fn new(keep: Keep, scope: Scope) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs());
        let by = CALLED.get().cloned().unwrap_or_default();
        Self { version: VERSION, boot: boot_id(), pid: std::process::id(), by, since, room: 0, keep, scope }
    }
}
