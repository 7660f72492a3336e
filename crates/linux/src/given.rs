//! Files that are given on the command line: hostile until they are read.
//!
//! What is read has an end and a bound. A regular file is read up to the bound. A pipe (`napier report <(ssh HOST napier compare
//! --json)`) is waited for until the process is told to end ([`heed`]). A device has no end, so it is refused.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// How often a wait for a pipe looks whether the process is to end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Set by the signals that end this process; one for all reads, as signals are.
static ENDS: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Lets reads of pipes end when this is set. The first call of a process counts.
pub fn heed(ends: Arc<AtomicBool>) {
    let _ = ENDS.set(ends);
}

/// Reads a file or pipe of at most `bytes_max` bytes.
///
/// # Errors
/// [`ErrorKind::FileTooLarge`] if it has more; [`ErrorKind::InvalidInput`] if it is a device or a folder;
/// [`ErrorKind::Interrupted`] if the process was told to end while a pipe was waited for; else what the system says.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // Without waiting: opening a pipe would wait for its writer, deaf to signals.
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    let is_pipe = kind.is_fifo();
    if !is_pipe && !kind.is_file() {
        let what = if kind.is_dir() { "a folder" } else { "a device" };
        return Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {what}: give a file or a pipe")));
    }
    // A length that is known before is no promise: it may grow.
    let mut left = file.take(bytes_max.saturating_add(1));
    let mut bytes = Vec::new();
    loop {
        if is_pipe {
            wait(left.get_ref())?;
        }
        match left.read_to_end(&mut bytes) {
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    if bytes.len() as u64 > bytes_max {
        let most = if bytes_max >> 20 > 0 { format!("{} MiB", bytes_max >> 20) } else { format!("{bytes_max} bytes") };
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {most}")));
    }
    Ok(bytes)
}

/// The same of text.
///
/// # Errors
/// As [`read`], and [`ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read(path, bytes_max)?).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is no UTF-8 text"))
}

/// Until a pipe has something, or its last writer is gone. One that never had a writer is waited for as well.
fn wait(pipe: &File) -> io::Result<()> {
    loop {
        if ENDS.get().is_some_and(|ends| ends.load(Ordering::Relaxed)) {
            return Err(io::Error::new(ErrorKind::Interrupted, "interrupted while waiting for the pipe"));
        }
        match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&LOOK)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
#[path = "given_tests.rs"]
mod tests;
