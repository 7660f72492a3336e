//! Journals read, locked and put aside.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::header::{JournalHeader, VERSIONS};
use super::line::Entry;
use super::sum::sum;
use crate::descriptors::Process;

/// What a journal says.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) header: Option<JournalHeader>,
    pub(super) entries: Vec<Entry>,
    /// Lines that cannot be read, but for one at the end that was not written whole: its change was not made. A file that was cut
    /// counts as one, for it is not known what was in the rest.
    pub(super) damaged: usize,
}

impl Contents {
    pub(super) fn pid(&self) -> u32 {
        self.header.as_ref().map_or(0, |header| header.pid)
    }
}

pub(super) fn read(path: &Path) -> io::Result<Contents> {
    parse(&mut open(path, OpenOptions::new().read(true))?)
}

pub(super) fn parse(file: &mut File) -> io::Result<Contents> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    // What was taken and not written to.
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut contents = Contents::default();
    let lines: Vec<&[u8]> = bytes[..used].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    for (at, line) in lines.iter().enumerate() {
        let whole = std::str::from_utf8(line)
            .ok()
            .and_then(|line| line.split_once(' '))
            .filter(|(noted, json)| u64::from_str_radix(noted, 16).is_ok_and(|noted| noted == sum(json.as_bytes())));
        let is_known = whole.is_some_and(|(_, json)| {
            if at == 0 {
                contents.header =
                    serde_json::from_str(json).ok().filter(|header: &JournalHeader| VERSIONS.contains(&header.version));
                return contents.header.is_some();
            }
            serde_json::from_str(json).map(|entry| contents.entries.push(entry)).is_ok()
        });
        let is_whole = at + 1 < lines.len() || bytes[used - 1] == b'\n';
        if !is_known && (is_whole || at == 0) {
            contents.damaged += 1;
        }
    }
    let is_cut = contents.header.as_ref().is_some_and(|header| (bytes.len() as u64) < header.room);
    contents.damaged += usize::from(is_cut);
    Ok(contents)
}

/// Opens, or makes, and locks a journal, also if another command looks into it just now; `None` if a run holds it.
pub(super) fn lock_soon(path: &Path) -> io::Result<Option<File>> {
    for _ in 0..TRIES {
        if let Some(file) = lock(path, true)? {
            return Ok(Some(file));
        }
        match lock_left(path) {
            // Put back and removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
    }
    lock(path, true)
}

/// Opens and locks a journal that a run has left; `None` if its run lives. Between fork and exec the program of a killed run still has the
/// lock: it is waited for.
pub(super) fn lock_left(path: &Path) -> io::Result<Option<File>> {
    for _ in 0..TRIES_OF_LEFT {
        if let Some(file) = lock(path, false)? {
            return Ok(Some(file));
        }
        let pid = read(path).map_or(0, |found| found.pid());
        if Process::open(pid).is_ok_and(|process| !process.has_ended()) {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
    lock(path, false)
}

/// 2 s: only a machine that is taken away from its programs takes that long.
const TRIES_OF_LEFT: u32 = 200;
/// A journal that is made and removed so often is not waited for.
const TRIES: u32 = 20;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// Opens and locks a journal; `None` if a run holds it. The file that is locked is the one that has the name.
pub(super) fn lock(path: &Path, create: bool) -> io::Result<Option<File>> {
    loop {
        let file = open(path, OpenOptions::new().read(true).write(true).create(create).truncate(false).mode(0o600))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // It may have been removed between opening and locking.
        if std::fs::metadata(path).is_ok_and(|now| file.metadata().is_ok_and(|own| own.ino() == now.ino())) {
            return Ok(Some(file));
        }
    }
}

/// A journal is believed, so it is this user's, or root's, and a file: not a pipe, which would be waited for.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    let owners = [0, rustix::process::geteuid().as_raw()];
    if found.is_file() && owners.contains(&found.uid()) {
        Ok(file)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// The process that holds a journal; 0 if it does not say.
pub(super) fn holder(path: &Path) -> Option<u32> {
    let file = open(path, OpenOptions::new().read(true)).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => Some(read(path).map_or(0, |found| found.pid())),
        _ => None,
    }
}

/// Gives a journal that cannot be read wholly another name, for a person to look at.
pub(super) fn set_aside(path: &Path) -> Option<PathBuf> {
    let aside = path.with_extension("damaged");
    std::fs::rename(path, &aside).ok().map(|()| aside)
}

pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
