//! Where files of the kernel are read: on this machine, or below a folder with those of another one.

use std::fs;
use std::path::{Path, PathBuf};

use napier_core::control::cpu_list;

/// The folder that `/proc`, `/sys` and `/dev` are in. What is not there, or may not be read, is `None` or empty.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Root(Option<PathBuf>);

impl Root {
    /// This machine's.
    pub(crate) const MACHINE: Self = Self(None);

    /// Another machine's files, in a folder.
    #[cfg(test)]
    pub(crate) fn folder(folder: &Path) -> Self {
        Self(Some(folder.to_owned()))
    }

    /// Where a file of the kernel is.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        match &self.0 {
            None => PathBuf::from(path),
            Some(folder) => folder.join(path.trim_start_matches('/')),
        }
    }

    /// A file, without blanks around it.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// A file as it is.
    pub(crate) fn table(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    /// A file of bytes, its first four.
    pub(crate) fn four_bytes(&self, path: &str) -> Option<[u8; 4]> {
        let mut bytes = [0; 4];
        let mut file = fs::File::open(self.path(path)).ok()?;
        std::io::Read::read_exact(&mut file, &mut bytes).ok()?;
        Some(bytes)
    }

    /// A file with one number.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// A file with a list of CPUs.
    pub(crate) fn cpus(&self, path: &str) -> Option<Vec<u32>> {
        self.text(path).as_deref().and_then(cpu_list)
    }

    /// What a folder has that begins so, in order: `cpu2` before `cpu10`.
    pub(crate) fn names(&self, folder: &str, begin: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten();
        let all = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut found: Vec<String> = all.filter(|name| name.starts_with(begin)).collect();
        found.sort_by_key(|name| (name.len(), name.clone()));
        found
    }

    /// The last part of what a link points to.
    pub(crate) fn link_end(&self, path: &str) -> Option<String> {
        fs::read_link(self.path(path)).ok()?.file_name()?.to_str().map(ToOwned::to_owned)
    }

    /// Whether there is such a file.
    pub(crate) fn is_file(&self, path: &str) -> bool {
        Path::is_file(&self.path(path))
    }
}
