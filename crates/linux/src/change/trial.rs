//! Changes that may cut a machine off from who made them: kept only if they are confirmed, and put back by another process else.
//!
//! ```text
//! Trial::begin --> on trial --confirm_all--> kept, until it is asked back
//!                     |  its process says that time is over, or is gone
//!                     v
//!                 put back, by the journals that the changes were noted in
//! ```
//!
//! A file in the folder of journals is the trial. Who takes it away decides: it is removed to confirm, and renamed before anything is put
//! back, so there is no moment in which both happen, and a process that is killed while it puts back is followed by the next command.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::places::{self, state_dir};
use super::recover::{Recovered, recover, recover_one};
use crate::descriptors::{Process, ProcessRef};
use crate::procfs::Stat;

/// What a file of a trial says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Terms {
    /// Journals of what is kept.
    journals: Vec<PathBuf>,
    /// A run, which puts back by itself when it is told to end.
    run: Option<ProcessRef>,
}

/// Changes on trial.
#[derive(Debug)]
pub struct Trial {
    path: PathBuf,
    journals: Vec<PathBuf>,
    /// Locked, with others who wait, as long as this lives.
    _lock: File,
}

/// What a trial came to.
#[derive(Debug)]
pub enum TrialEnd {
    /// It was confirmed, or undone, before.
    Decided,
    /// Put back, as far as each journal says.
    PutBack(Vec<Recovered>),
    /// Another command changes the same things just now: try again.
    Busy,
}

/// Ends of the names of files: on trial, and being put back.
const ON_TRIAL: &str = "trial";
const OVER: &str = "over";
/// `SIGTERM`, by which a run puts back and ends.
const SIGTERM: i32 = 15;

impl Trial {
    /// Puts on trial what these journals note from now on. Before the first change.
    ///
    /// # Errors
    /// The file cannot be written: nothing should be changed then.
    pub fn of_journals(journals: Vec<PathBuf>) -> io::Result<Self> {
        Self::begin(Terms { journals, run: None })
    }

    /// Puts on trial what this process changes as long as it runs.
    ///
    /// # Errors
    /// As [`Trial::of_journals`].
    pub fn of_this_run() -> io::Result<Self> {
        let run = Some(ProcessRef::of(std::process::id())?);
        Self::begin(Terms { journals: Vec::new(), run })
    }

    fn begin(terms: Terms) -> io::Result<Self> {
        let folder = state_dir();
        places::make(&folder)?;
        let path = folder.join(format!("{}.{ON_TRIAL}", std::process::id()));
        let lock = write(&path, &terms)?;
        Ok(Self { path, journals: terms.journals, _lock: lock })
    }

    /// The trial in a file, for the process that waits.
    ///
    /// # Errors
    /// It is decided, or cannot be read.
    pub fn wait_for(path: &Path) -> io::Result<Self> {
        let lock = File::open(path)?;
        flock(&lock, FlockOperation::LockShared)?;
        Ok(Self { path: path.to_owned(), journals: read(path)?.journals, _lock: lock })
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is not decided yet.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.path.exists()
    }

    /// Whether it is being put back.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.path.with_extension(OVER).exists()
    }

    /// Once it is decided: whether what was on trial is still noted, to be asked back.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.journals.iter().any(|path| path.exists())
    }

    /// What is on trial stays. `false`: it is decided already.
    #[must_use]
    pub fn confirm(&self) -> bool {
        std::fs::remove_file(&self.path).is_ok()
    }

    /// Puts back what is on trial.
    #[must_use]
    pub fn put_back(&self) -> TrialEnd {
        put_back(&self.path)
    }
}

/// Confirms all that is on trial here; how many there were.
#[must_use]
pub fn confirm_all() -> usize {
    files(ON_TRIAL).into_iter().filter(|path| std::fs::remove_file(path).is_ok()).count()
}

/// Puts back what is on trial although no process waits for its end any more.
#[must_use]
pub fn overdue() -> Vec<Recovered> {
    let is_left = |path: &PathBuf| {
        File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
    };
    let mut recovered = Vec::new();
    for path in files(ON_TRIAL).into_iter().chain(files(OVER)).filter(is_left) {
        if let TrialEnd::PutBack(found) = put_back(&path) {
            recovered.extend(found);
        }
    }
    recovered
}

/// Takes the decision, and puts back.
fn put_back(path: &Path) -> TrialEnd {
    let over = path.with_extension(OVER);
    let is_first = path != over && std::fs::rename(path, &over).is_ok();
    let Ok(terms) = read(&over) else { return TrialEnd::Decided };
    if let Some(run) = &terms.run
        && let Ok(process) = Process::again(run)
        && !process.has_ended()
    {
        // It puts back by itself. Told twice, it would end its program by force.
        if is_first {
            let _ = process.signal(SIGTERM);
        }
        return TrialEnd::Busy;
    }
    let mut all = Vec::new();
    for path in &terms.journals {
        match recover_one(path, |_| true) {
            // Another command has changed the same interface, or its own still writes.
            Some(recovered) if recovered.undone.is_refused && path.exists() => return TrialEnd::Busy,
            Some(recovered) => all.push(recovered),
            None if path.exists() => return TrialEnd::Busy,
            None => {}
        }
    }
    if terms.run.is_some() {
        all.extend(recover());
    }
    let _ = std::fs::remove_file(over);
    TrialEnd::PutBack(all)
}

fn files(end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state_dir()).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|found| found == end)).collect()
}

fn read(path: &Path) -> io::Result<Terms> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

/// Whole or not at all, on disk, and locked.
fn write(path: &Path, terms: &Terms) -> io::Result<File> {
    let new = path.with_extension(format!("new{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&serde_json::to_vec(terms)?)?;
    file.sync_all()?;
    flock(&file, FlockOperation::LockShared)?;
    std::fs::rename(&new, path)?;
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()?;
    Ok(file)
}

/// Whether this command was started from another machine: SSH says so in the environment, which `sudo` takes away, and is among
/// the processes that this one descends from.
#[must_use]
pub fn is_remote() -> bool {
    /// More than any tree has.
    const STEPS_MAX: usize = 64;
    const NAMES: [&str; 4] = ["sshd", "dropbear", "mosh-server", "telnetd"];
    if ["SSH_CONNECTION", "SSH_TTY"].iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty())) {
        return true;
    }
    let mut pid = std::process::id();
    for _ in 0..STEPS_MAX {
        let Ok(stat) = Stat::of(pid) else { return false };
        if NAMES.iter().any(|name| stat.name.starts_with(name)) {
            return true;
        }
        if stat.parent == 0 {
            return false;
        }
        pid = stat.parent;
    }
    false
}
