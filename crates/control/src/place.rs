//! Where the sockets of engines are: one folder for each user, which is that user's alone.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Why there is no folder for sockets.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It is there, but others could have made what is in it.
    #[error("{} is not a folder of user {uid} alone (mode 0700): remove it, or set XDG_RUNTIME_DIR", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// The user.
        uid: u32,
    },
    /// The system refused.
    #[error("making the folder {} for control sockets: {source}", path.display())]
    System {
        /// The folder.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// The folders where a user's sockets may be, the best first: below `$XDG_RUNTIME_DIR` if `runtime` names it, and those that
/// every process of the user finds without it.
#[must_use]
pub fn folders(uid: u32, runtime: Option<PathBuf>) -> Vec<PathBuf> {
    let named = runtime.filter(|path| path.is_absolute()).map(|path| path.join("napier"));
    let others = [format!("/run/user/{uid}/napier"), format!("/run/napier-{uid}"), format!("/tmp/napier-{uid}")];
    let mut folders: Vec<PathBuf> = named.into_iter().collect();
    for other in others.map(PathBuf::from) {
        if !folders.contains(&other) {
            folders.push(other);
        }
    }
    folders
}

/// `$XDG_RUNTIME_DIR`.
#[must_use]
pub fn runtime_folder() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The user that this process acts as.
#[must_use]
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes the first of these folders that can be made, or finds it.
///
/// # Errors
/// [`PlaceError`], of the last one.
pub fn prepare(folders: &[PathBuf], uid: u32) -> Result<PathBuf, PlaceError> {
    let mut wrong = None;
    for folder in folders {
        match prepare_one(folder, uid) {
            Ok(()) => return Ok(folder.clone()),
            Err(error) => wrong = Some(error),
        }
    }
    let nowhere = || PlaceError::System { path: PathBuf::new(), source: io::ErrorKind::NotFound.into() };
    Err(wrong.unwrap_or_else(nowhere))
}

fn prepare_one(folder: &Path, uid: u32) -> Result<(), PlaceError> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(PlaceError::System { path: folder.to_owned(), source: error })
        }
        // Where names can be taken in advance, as in /tmp, another user may have made it.
        _ if is_alone(folder, uid) => Ok(()),
        _ => Err(PlaceError::NotOurs { path: folder.to_owned(), uid }),
    }
}

/// Whether it is a folder, no link to one, that this user alone can enter.
#[must_use]
pub fn is_alone(folder: &Path, uid: u32) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir() && found.uid() == uid && found.mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_once_and_are_whole_paths() {
        let named = folders(7, Some("/x/y".into()));
        assert_eq!(named[0], Path::new("/x/y/napier"));
        assert_eq!(named[1..], ["/run/user/7/napier", "/run/napier-7", "/tmp/napier-7"].map(PathBuf::from));
        assert_eq!(folders(7, Some("/run/user/7".into())).len(), 3);
        assert_eq!(folders(7, Some("x".into())).len(), 3);
    }

    #[test]
    fn a_folder_that_others_can_enter_or_that_is_a_link_is_not_taken() {
        use std::os::unix::fs::PermissionsExt as _;
        let base = std::env::temp_dir().join(format!("napier-place-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        fs::create_dir(&base).expect("made");
        let (good, open, link) = (base.join("good"), base.join("open"), base.join("link"));
        let uid = own_uid();
        prepare(std::slice::from_ref(&good), uid).expect("made");
        prepare(std::slice::from_ref(&good), uid).expect("found");
        assert_eq!(fs::metadata(&good).expect("there").mode() & 0o777, 0o700);
        fs::create_dir(&open).expect("made");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).expect("set");
        std::os::unix::fs::symlink(&good, &link).expect("made");
        for bad in [&open, &link] {
            assert!(matches!(prepare(std::slice::from_ref(bad), uid), Err(PlaceError::NotOurs { .. })), "{bad:?}");
        }
        assert_eq!(prepare(&[base.join("no/such"), open, good.clone()], uid).expect("the last"), good);
        assert!(!is_alone(&good, uid + 1));
        fs::remove_dir_all(&base).expect("removed");
    }
}
