//! Which files to run.

use std::path::{Path, PathBuf};

/// Deepest folder below one that is given.
const DEPTH_MAX: usize = 16;
/// The table of rules beside the scenarios, which is none of them.
pub(super) const RULES_FILE: &str = "rules.toml";

/// Why there is nothing to run.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A path cannot be read.
    #[error("{}: {error}; give scenario files, or folders that hold some", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A folder holds no scenario.
    #[error("{}: no scenario file (*.toml) in this folder or below it", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// Folders in folders without end.
    #[error("{}: folders more than {DEPTH_MAX} deep", path.display())]
    TooDeep {
        /// The folder.
        path: PathBuf,
    },
}

/// The files themselves, and all `*.toml` in folders and below them but for `rules.toml`, in the order of the paths given
/// and sorted within each; links to folders are not followed.
///
/// # Errors
/// If a path cannot be read, or a folder holds no scenario.
pub fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, FilesError> {
    let mut files = Vec::new();
    for path in paths {
        let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, error))?;
        if !metadata.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut found = Vec::new();
        walk(path, 0, &mut found)?;
        if found.is_empty() {
            return Err(FilesError::Empty { path: path.clone() });
        }
        found.sort();
        files.append(&mut found);
    }
    Ok(files)
}

fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), FilesError> {
    if depth > DEPTH_MAX {
        return Err(FilesError::TooDeep { path: folder.to_owned() });
    }
    for entry in std::fs::read_dir(folder).map_err(|error| unreadable(folder, error))? {
        let entry = entry.map_err(|error| unreadable(folder, error))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(|error| unreadable(&path, error))?;
        if kind.is_dir() {
            walk(&path, depth + 1, found)?;
        } else if path.extension().is_some_and(|end| end == "toml")
            && path.file_name().is_some_and(|name| name != RULES_FILE)
            && path.is_file()
        {
            found.push(path);
        }
    }
    Ok(())
}

fn unreadable(path: &Path, error: std::io::Error) -> FilesError {
    FilesError::Unreadable { path: path.to_owned(), error }
}
