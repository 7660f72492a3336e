//! The libraries for programs as files: they are part of this command, and are written where a program, its descendants and other users that they
//! become can read them.

use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use napier_preload::{LIBRARY, SOCKETS};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::geteuid;

/// The folder that is made for it. Another than that of control sockets, which others may not enter.
const FOLDER: &str = "napier-modes";

/// Which library.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum OwnLibrary {
    /// Waits for events that poll.
    Modes,
    /// Bytes past sockets.
    Sockets,
}

impl OwnLibrary {
    pub(super) const fn bytes(self) -> &'static [u8] {
        match self {
            Self::Modes => LIBRARY,
            Self::Sockets => SOCKETS,
        }
    }

    const fn stem(self) -> &'static str {
        match self {
            Self::Modes => "libnapier_modes",
            Self::Sockets => "libnapier_sockets",
        }
    }
}

/// A library's file, written if it is not there. Files of other versions stay for programs that have them.
///
/// # Errors
/// No place can have it: each with the reason, in words.
pub(super) fn library(own: OwnLibrary) -> Result<PathBuf, String> {
    let mut reasons = String::new();
    for folder in folders() {
        match write_into(&folder, (own.stem(), own.bytes())) {
            Ok(file) => return Ok(file),
            Err(error) => {
                let _ = write!(reasons, "{}{}: {error}", if reasons.is_empty() { "" } else { "; " }, folder.display());
            }
        }
    }
    Err(reasons)
}

/// Where it is first tried to be.
pub(super) fn first_place(own: OwnLibrary) -> PathBuf {
    folders().into_iter().next().unwrap_or_default().join(name_of((own.stem(), own.bytes())))
}

/// Where it may be. Root's environment is another user's where `sudo` keeps it, so it is not asked.
fn folders() -> Vec<PathBuf> {
    if geteuid().is_root() {
        return ["/run", "/var/cache", "/tmp"].into_iter().map(|place| Path::new(place).join(FOLDER)).collect();
    }
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")));
    let own = std::env::temp_dir().join(format!("{FOLDER}-{}", geteuid().as_raw()));
    let places = named("XDG_RUNTIME_DIR").into_iter().chain(caches);
    places.map(|place| place.join(FOLDER)).chain([own]).collect()
}

fn write_into(folder: &Path, (stem, bytes): (&str, &[u8])) -> io::Result<PathBuf> {
    let refused = |why: &str| Err(io::Error::other(why.to_owned()));
    match fs::create_dir(folder) {
        Ok(()) => fs::set_permissions(folder, Permissions::from_mode(0o755))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    // What is loaded runs as the program does: no other user may have put it there, nor put it there later.
    let is_ours = |found: &fs::Metadata| found.uid() == geteuid().as_raw() && found.mode() & 0o022 == 0;
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || !is_ours(&found) {
        return refused("it is another user's, or others may write to it");
    }
    if statvfs(folder)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return refused("nothing can be run from there (noexec)");
    }
    let file = folder.join(name_of((stem, bytes)));
    let is_there = fs::symlink_metadata(&file).is_ok_and(|found| found.is_file() && is_ours(&found))
        && fs::read(&file).is_ok_and(|found| found == bytes);
    if !is_there {
        // Whole or not at all: another command may begin a program meanwhile.
        let new = folder.join(format!(".{}", std::process::id()));
        let _ = fs::remove_file(&new);
        let mut out = File::options().write(true).create_new(true).mode(0o755).open(&new)?;
        let written = out.set_permissions(Permissions::from_mode(0o755)).and_then(|()| out.write_all(bytes));
        written.and_then(|()| fs::rename(&new, &file)).inspect_err(|_| {
            let _ = fs::remove_file(&new);
        })?;
    }
    Ok(file)
}

/// With a hash (FNV-1a), which tells versions apart.
fn name_of((stem, bytes): (&str, &[u8])) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{stem}-{:016x}.so", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_another_has_changed_is_not_taken() {
        let place = napier_testkit::Folder::new("library");
        let folder = place.join(FOLDER);
        let file = write_into(&folder, ("lib", b"one")).expect("written");
        assert_eq!(
            (fs::read(&file).expect("read"), file.metadata().expect("there").mode() & 0o777),
            (b"one".into(), 0o755)
        );
        let before = file.metadata().expect("there").ino();
        assert_eq!(write_into(&folder, ("lib", b"one")).expect("it is there").metadata().expect("there").ino(), before);
        fs::write(&file, b"two").expect("written");
        assert_eq!(fs::read(write_into(&folder, ("lib", b"one")).expect("written")).expect("read"), b"one");
        // A link to what is right may be to what is wrong later.
        fs::rename(&file, place.join("elsewhere")).expect("renamed");
        std::os::unix::fs::symlink(place.join("elsewhere"), &file).expect("linked");
        let again = write_into(&folder, ("lib", b"one")).expect("written");
        assert!(fs::symlink_metadata(again).expect("there").is_file());
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("set");
        assert!(write_into(&folder, ("lib", b"one")).is_err());
    }
}
