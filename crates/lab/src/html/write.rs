//! Files that a command writes at its end: whether they can be written is known before it begins, and a page that was
//! there before is replaced only by a whole one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}; give {option} a file in a directory that can be written", path = path.display())]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// The option that named it.
    pub option: &'static str,
    /// What the system said.
    pub source: io::Error,
}

/// A file that can be written.
#[derive(Debug)]
pub struct HtmlFile {
    path: PathBuf,
    option: &'static str,
    /// Written first, then renamed; `None` for what is no ordinary file, such as `/dev/stdout`, which is written to.
    beside: Option<PathBuf>,
}

impl HtmlFile {
    /// Finds out whether a file that `option` named can be written, and leaves what is there as it is.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn check(path: &Path, option: &'static str) -> Result<Self, WriteError> {
        let failed = |source| WriteError { path: path.to_owned(), option, source };
        let found = fs::metadata(path);
        match &found {
            Ok(found) if found.is_dir() => return Err(failed(io::ErrorKind::IsADirectory.into())),
            Ok(found) if !found.is_file() => {
                OpenOptions::new().write(true).open(path).map_err(failed)?;
                return Ok(Self { path: path.to_owned(), option, beside: None });
            }
            // One that may not be written is not replaced either.
            Ok(_) => drop(OpenOptions::new().append(true).open(path).map_err(failed)?),
            Err(_) => {}
        }
        // A link is written through.
        let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let name =
            whole.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?.to_string_lossy().into_owned();
        let beside = whole.with_file_name(format!(".{name}.{}", std::process::id()));
        drop(File::create(&beside).map_err(failed)?);
        fs::remove_file(&beside).map_err(failed)?;
        Ok(Self { path: whole, option, beside: Some(beside) })
    }

    /// Writes it.
    ///
    /// # Errors
    /// [`WriteError`]; what was there before is still there.
    pub fn write(&self, text: &str) -> Result<(), WriteError> {
        self.try_write(text).map_err(|source| {
            self.beside.as_ref().map(fs::remove_file);
            WriteError { path: self.path.clone(), option: self.option, source }
        })
    }

    fn try_write(&self, text: &str) -> io::Result<()> {
        let path = self.beside.as_ref().unwrap_or(&self.path);
        let mut file =
            if self.beside.is_some() { File::create(path)? } else { OpenOptions::new().write(true).open(path)? };
        file.write_all(text.as_bytes())?;
        match &self.beside {
            Some(beside) => fs::rename(beside, &self.path),
            None => Ok(()),
        }
    }
}
