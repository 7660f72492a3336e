//! Instances of our own: made, locked while their owner lives, removed when it does not.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::{TraceError, of};

const PREFIX: &str = "napier-trace-";
const PREFIX_BEFORE: &str = "napier-";

/// tracefs: where it is mounted, else mounted for us without a place in the file system.
pub(super) fn root() -> Result<OwnedFd, TraceError> {
    let mounted = Path::new("/sys/kernel/tracing/instances");
    if mounted.is_dir() {
        let opened = rustix::fs::open("/sys/kernel/tracing", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        return opened.map_err(|error| of(error.into(), "tracefs"));
    }
    let mount = || {
        let context = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_create(&context)?;
        rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
    };
    mount().map_err(|error: Errno| of(error.into(), "tracefs"))
}

/// A folder that is locked: another process may remove it before it is.
pub(super) fn made(root: &OwnedFd) -> Result<(String, OwnedFd), TraceError> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    const TRIES: u32 = 10;
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..TRIES {
        // A process has this number in its namespace only, so there may be such a folder.
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("instances/{PREFIX}{}-{number}", std::process::id());
        match rustix::fs::mkdirat(root, name.as_str(), Mode::RWXU) {
            Err(Errno::EXIST) => continue,
            done => done.map_err(|error| of(error.into(), "tracing instances"))?,
        }
        let is_there = || rustix::fs::statat(root, name.as_str(), AtFlags::empty()).is_ok();
        match locked(root, &name) {
            Ok(Some(lock)) if is_there() => return Ok((name, lock)),
            Ok(_) => {}
            Err(error) => last = error.into(),
        }
    }
    Err(TraceError::Io(last))
}

/// The folder with its lock; `None` if its owner lives. `tracefs` is the same in all namespaces, so its locks are too.
fn locked(root: &OwnedFd, name: &str) -> rustix::io::Result<Option<OwnedFd>> {
    let folder = rustix::fs::openat(root, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    match rustix::fs::flock(&folder, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(folder)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes what killed commands have left; how many instances.
#[must_use]
pub fn remove_left() -> usize {
    root().map_or(0, |root| remove_orphans(&root))
}

/// Removes instances whose owners are gone. Those of versions before have no lock, and the number of a process in their name.
pub(super) fn remove_orphans(root: &OwnedFd) -> usize {
    let opened =
        rustix::fs::openat(root, "instances", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let Ok(dir) = opened.and_then(Dir::new) else { return 0 };
    let mut removed = 0;
    for entry in dir.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let of_before = name.strip_prefix(PREFIX_BEFORE).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        let may_be_left = match of_before {
            Some(pid) => !Path::new(&format!("/proc/{pid}")).exists(),
            None => name.starts_with(PREFIX),
        };
        let name = format!("instances/{name}");
        // The lock is let go by what removes it.
        if may_be_left && let Ok(Some(_lock)) = locked(root, &name) {
            removed += usize::from(rustix::fs::unlinkat(root, name, AtFlags::REMOVEDIR).is_ok());
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_removed_when_nothing_holds_it_and_not_before() {
        let test = "an_instance_is_removed_when_nothing_holds_it_and_not_before";
        let skipped = |error: TraceError| {
            assert!(error.is_privilege(), "{error}");
            napier_testkit::skip!(test, "{error}");
        };
        let (root, (name, lock)) = match root().and_then(|root| made(&root).map(|made| (root, made))) {
            Ok(found) => found,
            Err(error) => return skipped(error),
        };
        let is_there = || rustix::fs::statat(&root, name.as_str(), AtFlags::empty()).is_ok();
        // Its name says nothing of who has it: a process of another namespace may have any number.
        remove_orphans(&root);
        assert!(is_there());
        drop(lock);
        // Another process of these tests may do it as well; and what another test starts has the lock until it is another program.
        napier_testkit::eventually("it is removed", || {
            remove_orphans(&root);
            !is_there()
        });
    }
}
