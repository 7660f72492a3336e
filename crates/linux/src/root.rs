//! Where files of the kernel are read: on this machine, below a folder with those of another one, or in a picture of one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use napier_core::control::cpu_list;
use serde::{Deserialize, Serialize};

/// The folder that `/proc`, `/sys` and `/dev` are in. What is not there, or may not be read, is `None` or empty.
#[derive(Clone, Debug)]
pub(crate) struct Root(Base);

#[derive(Clone, Debug)]
enum Base {
    Machine,
    #[cfg(test)]
    Folder(PathBuf),
    /// This machine's, and what is read is kept.
    Recorded(Rc<RefCell<Files>>),
    Picture(Rc<Files>),
}

/// What files said that were read, by path; those that were not there, or could not be read, are `None`.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Files {
    texts: BTreeMap<String, Option<String>>,
    /// Of files of bytes, the first four.
    bytes: BTreeMap<String, Option<[u8; 4]>>,
    /// Names in folders.
    folders: BTreeMap<String, Vec<String>>,
    /// The last part of what links point to.
    links: BTreeMap<String, Option<String>>,
    /// Whether there is such a file.
    present: BTreeMap<String, bool>,
}

impl Files {
    /// How many were read.
    pub(crate) fn count(&self) -> usize {
        self.texts.len() + self.bytes.len() + self.folders.len() + self.links.len() + self.present.len()
    }

    /// Forgets all processes but those whose files `keep` wants, by the name that they have.
    pub(crate) fn keep_processes(&mut self, keep: impl Fn(&str) -> bool) {
        let pid_of = |path: &str| path.strip_prefix("/proc/")?.split('/').next()?.parse::<u32>().ok();
        let comm = |pid: u32| self.texts.get(&format!("/proc/{pid}/comm")).cloned().flatten();
        let pids = self.folders.get("/proc").into_iter().flatten().filter_map(|name| name.parse().ok());
        let kept: Vec<u32> = pids.filter(|pid| comm(*pid).is_some_and(|name| keep(name.trim()))).collect();
        let is_kept = |path: &str| pid_of(path).is_none_or(|pid| kept.contains(&pid));
        self.texts.retain(|path, _| is_kept(path));
        if let Some(names) = self.folders.get_mut("/proc") {
            names.retain(|name| name.parse().is_ok_and(|pid| kept.contains(&pid)));
        }
    }
}

impl Root {
    /// This machine's.
    pub(crate) const MACHINE: Self = Self(Base::Machine);

    /// Another machine's files, in a folder.
    #[cfg(test)]
    pub(crate) fn folder(folder: &Path) -> Self {
        Self(Base::Folder(folder.to_owned()))
    }

    /// This machine's, of which all that is read is noted.
    pub(crate) fn recorded(files: &Rc<RefCell<Files>>) -> Self {
        Self(Base::Recorded(Rc::clone(files)))
    }

    /// What was noted of a machine.
    pub(crate) fn picture(files: Files) -> Self {
        Self(Base::Picture(Rc::new(files)))
    }

    /// Where a file of the kernel is, for what does more with it than to read it; no picture has that.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        match &self.0 {
            #[cfg(test)]
            Base::Folder(folder) => folder.join(path.trim_start_matches('/')),
            Base::Machine | Base::Recorded(_) | Base::Picture(_) => PathBuf::from(path),
        }
    }

    /// One kind of reading: on the machine, or as it was noted.
    fn of<T: Clone + Default>(
        &self,
        path: &str,
        noted: impl Fn(&Files) -> &BTreeMap<String, T>,
        note: impl Fn(&mut Files) -> &mut BTreeMap<String, T>,
        read: impl Fn(&Path) -> T,
    ) -> T {
        match &self.0 {
            Base::Machine => read(Path::new(path)),
            #[cfg(test)]
            Base::Folder(folder) => read(&folder.join(path.trim_start_matches('/'))),
            Base::Recorded(files) => {
                let found = read(Path::new(path));
                note(&mut files.borrow_mut()).insert(path.to_owned(), found.clone());
                found
            }
            Base::Picture(files) => noted(files).get(path).cloned().unwrap_or_default(),
        }
    }

    /// A file, without blanks around it.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.table(path).map(|text| text.trim().to_owned())
    }

    /// A file as it is.
    pub(crate) fn table(&self, path: &str) -> Option<String> {
        self.of(path, |files| &files.texts, |files| &mut files.texts, |path| fs::read_to_string(path).ok())
    }

    /// A file of bytes, its first four.
    pub(crate) fn four_bytes(&self, path: &str) -> Option<[u8; 4]> {
        let read = |path: &Path| {
            let mut bytes = [0; 4];
            let mut file = fs::File::open(path).ok()?;
            std::io::Read::read_exact(&mut file, &mut bytes).ok()?;
            Some(bytes)
        };
        self.of(path, |files| &files.bytes, |files| &mut files.bytes, read)
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
        let read = |path: &Path| {
            let entries = fs::read_dir(path).into_iter().flatten();
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
        };
        let mut found: Vec<String> = self.of(folder, |files| &files.folders, |files| &mut files.folders, read);
        found.retain(|name| name.starts_with(begin));
        found.sort_by_key(|name| (name.len(), name.clone()));
        found
    }

    /// The last part of what a link points to.
    pub(crate) fn link_end(&self, path: &str) -> Option<String> {
        let read = |path: &Path| fs::read_link(path).ok()?.file_name()?.to_str().map(ToOwned::to_owned);
        self.of(path, |files| &files.links, |files| &mut files.links, read)
    }

    /// Whether there is such a file.
    pub(crate) fn is_file(&self, path: &str) -> bool {
        self.of(path, |files| &files.present, |files| &mut files.present, Path::is_file)
    }
}
