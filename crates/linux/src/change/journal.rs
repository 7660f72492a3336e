//! What was there before, on disk before anything is written.
//!
//! One file for each thing that is changed (an interface, or the machine as a whole): lines of a sum and a JSON object, a
//! header first. It is locked as long as its run lives, so two runs on one interface refuse each other, and a file without a lock
//! is what a run left that was killed. Its room is taken before the first write: a full disk refuses the run, not its way back.

use std::fs::File;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use serde::{Deserialize, Serialize};

use super::read::{boot_id, current_netns, holder, lock, lock_soon, parse, read, set_aside};
use super::{DeviceRef, Entry, text};

/// What a journal is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "scope", rename_all = "kebab-case")]
pub enum Scope {
    /// An interface, in the namespace of the calling thread.
    Device {
        /// The interface.
        device: DeviceRef,
        /// Inode of the namespace.
        netns: u64,
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
        Ok(Self::Device { device, netns: current_netns()? })
    }

    /// What a run changes and what is kept have a file each: a run may come on top of what is kept.
    fn file_name(&self, keep: Keep) -> String {
        let end = match keep {
            Keep::Run => RUN_END,
            Keep::UntilUndone => KEPT_END,
        };
        match self {
            Self::Device { device, netns } => format!("device-{netns}-{}{end}", device.ifindex),
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
    pub(super) keep: Keep,
    #[serde(flatten)]
    pub(super) scope: Scope,
}

pub(super) const VERSION: u32 = 1;

/// Ends of the names of journals.
pub(super) const RUN_END: &str = "-run.journal";
pub(super) const KEPT_END: &str = "-kept.journal";

/// Bytes that are taken for each line before the first is written; no entry is longer.
const LINE_BYTES: u64 = 1024;

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another run has the interface.
    #[error("{name} is in the hands of another napier (pid {pid}): end that one first")]
    Busy {
        /// What.
        name: String,
        /// Whose.
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
    #[error("no journal can be kept in {}, so nothing was changed: {error}; STATE_DIRECTORY names another folder", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Where journals are: `$STATE_DIRECTORY`, `/var/lib/napier` for root, else `$XDG_STATE_HOME/napier` or `~/.local/state/napier`.
#[must_use]
pub fn state_dir() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = set("STATE_DIRECTORY") {
        return dir;
    }
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/napier");
    }
    match set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state"))) {
        Some(dir) => dir.join("napier"),
        // Never where others may write: a journal is believed.
        None => PathBuf::from("/var/lib/napier"),
    }
}

/// An open journal: what it has room for may be changed.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    end: u64,
    room: u64,
    header: Header,
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
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(refused)?;
        let name = scope.name().to_owned();
        if keep == Keep::UntilUndone
            && let Some(pid) = holder(&folder.join(scope.file_name(Keep::Run)))
        {
            return Err(JournalError::Busy { name, pid });
        }
        let path = folder.join(scope.file_name(keep));
        let busy = || JournalError::Busy { name: name.clone(), pid: read(&path).map_or(0, |found| found.pid()) };
        let mut file = lock_soon(&path).map_err(refused)?.ok_or_else(busy)?;
        let there = parse(&mut file).map_err(refused)?;
        if there.header.as_ref().is_some_and(|header| header.keep == Keep::UntilUndone && header.boot == boot_id()) {
            return Err(JournalError::Kept { name });
        }
        let mut recovered = super::recover::put_back(&there);
        if recovered.undone.is_refused {
            told(&recovered);
            return Err(JournalError::Left { name, left: recovered.undone.left });
        }
        if recovered.damaged > 0 {
            recovered.aside = set_aside(&path);
            file = lock(&path, true).map_err(refused)?.ok_or_else(busy)?;
        }
        told(&recovered);
        file.set_len(0).map_err(refused)?;
        let header = Header { version: VERSION, boot: boot_id(), pid: std::process::id(), keep, scope: scope.clone() };
        // The header, and the entries.
        let mut journal = Self { file, path, end: 0, room: (lines as u64 + 1) * LINE_BYTES, header };
        match journal.take_room().and_then(|()| journal.write_header()).and_then(|()| sync_folder(folder)) {
            Ok(()) => Ok(journal),
            Err(error) => {
                journal.close();
                Err(refused(error))
            }
        }
    }

    /// Whether one more entry has room that was taken.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.end + LINE_BYTES <= self.room
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
            let mut new = Self { file, path: path.clone(), end: 0, room, header: self.header.clone() };
            new.take_room()?;
            new.write_header()?;
            entries.iter().try_for_each(|entry| new.write(entry))?;
            std::fs::rename(&path, &self.path)?;
            Ok(new)
        };
        let new = write().map_err(|error| {
            let _ = std::fs::remove_file(&path);
            self.refused(error)
        })?;
        // The new file is locked, and has the name.
        (self.file, self.end, self.room) = (new.file, new.end, new.room);
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
        use std::os::unix::fs::FileExt as _;
        let json = serde_json::to_string(what)?;
        let line = format!("{:016x} {json}\n", text::sum(json.as_bytes()));
        self.file.write_all_at(line.as_bytes(), self.end)?;
        self.file.sync_data()?;
        self.end += line.len() as u64;
        Ok(())
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
