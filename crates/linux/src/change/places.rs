//! Where journals are.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Names the folder of journals, for all napier commands that shall find each other's.
pub const STATE_VARIABLE: &str = "NAPIER_STATE_DIRECTORY";

/// Where journals are: `$NAPIER_STATE_DIRECTORY`, `/var/lib/napier` for root, else `$XDG_STATE_HOME/napier` or `~/.local/state/napier`.
///
/// A service's own `$STATE_DIRECTORY` is not asked: two services on one interface have two, and would not find what the other left.
#[must_use]
pub fn state_dir() -> PathBuf {
    if let Some(dir) = set(STATE_VARIABLE) {
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

fn set(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Makes the folder if it is not there.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    is_own(folder)
}

/// A journal is believed, so only this user and root may put one into its folder.
pub(super) fn is_own(folder: &Path) -> io::Result<()> {
    let found = std::fs::metadata(folder)?;
    let owners = [0, rustix::process::geteuid().as_raw()];
    let groups = [0, rustix::process::getegid().as_raw()];
    let others_write = found.mode() & 0o002 != 0 || (found.mode() & 0o020 != 0 && !groups.contains(&found.gid()));
    if owners.contains(&found.uid()) && !others_write {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user may write there (chown and chmod 700 mend it)"))
}

/// Where there may be journals that this process did not begin: its own folder, and the one that versions before kept them in.
pub(super) fn known() -> Vec<PathBuf> {
    let mut found = vec![state_dir()];
    if let Some(old) = set("STATE_DIRECTORY") {
        let text = old.to_string_lossy().into_owned();
        found.extend(text.split(':').map(PathBuf::from));
        // Which took a list for one name.
        found.push(old);
    }
    without_foreign(found)
}

/// The same with the folders that services have of systemd, which versions before took for their own.
pub(super) fn all() -> Vec<PathBuf> {
    let mut found = known();
    if rustix::process::geteuid().is_root() && set(STATE_VARIABLE).is_none() {
        let services = std::fs::read_dir("/var/lib").into_iter().flatten().flatten();
        found.extend(services.map(|entry| entry.path()).filter(|path| path.is_dir()));
    }
    without_foreign(found)
}

/// Journals in folders, in the order in which they are put back.
pub(super) fn journals(folders: &[PathBuf]) -> Vec<PathBuf> {
    let is_journal = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.ends_with(".journal") && (name.starts_with("device-") || name.starts_with("host-"))
    };
    let mut paths = Vec::new();
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_journal).collect();
        // What a run changed on top of what is kept goes first: `run` is behind `kept`.
        found.sort();
        paths.extend(found.into_iter().rev());
    }
    paths
}

fn without_foreign(folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in folders {
        if is_own(&folder).is_ok() && !found.contains(&folder) {
            found.push(folder);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_folder_that_others_write_to_is_not_believed() {
        let folder = napier_testkit::Folder::new("places");
        make(&folder).expect("made");
        let with_mode = |mode| {
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).expect("ours");
            is_own(&folder).is_ok()
        };
        assert!(with_mode(0o700) && with_mode(0o755));
        assert!(!with_mode(0o777) && !with_mode(0o1777), "a journal of another user's would be believed");
    }
}
