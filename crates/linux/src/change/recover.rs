//! What a run left that was killed, put back by the next one.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::journal::{KEPT_END, Keep, RUN_END, Scope, state_dir};
use super::read::{Contents, boot_id, current_netns, holder, lock_left, parse, read, set_aside};
use super::{Undone, undo};
use crate::Netns;

/// What was found of one run, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Interface, or the machine.
    pub name: String,
    /// The process that left it.
    pub pid: u32,
    /// What was done.
    pub undone: Undone,
    /// Lines of the journal that could not be read: what they were about is not put back.
    pub damaged: usize,
    /// Where such a journal is now.
    pub aside: Option<PathBuf>,
}

impl Recovered {
    /// In lines for a person.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let Self { name, pid, undone, damaged, aside } = self;
        let mut lines = Vec::new();
        if !undone.put_back.is_empty() {
            let count = undone.put_back.len();
            lines.push(format!(
                "put back {count} of what the napier with pid {pid} had changed on {name}: {}",
                undone.put_back.join(", ")
            ));
        }
        lines.extend(undone.left.iter().map(|left| format!("left by the napier with pid {pid}: {left}")));
        lines.extend(undone.gone.iter().map(|gone| format!("nothing to put back: {gone}")));
        if *damaged > 0 {
            let place = aside.as_ref().map_or(String::new(), |path| format!("; it is kept as {}", path.display()));
            lines.push(format!(
                "{damaged} lines of the journal of {name} cannot be read: what they were about is not put back{place}"
            ));
        }
        lines
    }
}

/// Puts back what runs have left that no longer live. A journal of which everything is done is removed; one with values that were refused
/// stays, for a run that may. Those of runs that live, and what shall stay until it is asked back, are left alone.
#[must_use]
pub fn recover() -> Vec<Recovered> {
    journals().into_iter().filter_map(|path| recover_one(&path, |keep| keep == Keep::Run)).collect()
}

/// Puts back what commands keep in force until they are asked, beside what [`recover`] does.
#[must_use]
pub fn undo_kept() -> Vec<Recovered> {
    journals().into_iter().filter_map(|path| recover_one(&path, |_| true)).collect()
}

/// Interfaces (and the machine) that something of this start of the kernel is in force on, and whether it shall stay.
#[must_use]
pub fn pending() -> Vec<(Scope, Keep)> {
    let headers = journals().into_iter().filter_map(|path| read(&path).ok()?.header);
    headers.filter(|header| header.boot == boot_id()).map(|header| (header.scope, header.keep)).collect()
}

fn journals() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(state_dir()) else { return Vec::new() };
    let is_journal = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "journal");
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_journal).collect();
    // What a run changed on top of what is kept goes first: `run` is behind `kept`.
    paths.sort();
    paths.reverse();
    paths
}

fn recover_one(path: &Path, wanted: impl Fn(Keep) -> bool) -> Option<Recovered> {
    // A file that may not be opened is another user's.
    let mut file = lock_left(path).ok()??;
    let contents = parse(&mut file).ok()?;
    if contents.header.as_ref().is_some_and(|header| header.boot == boot_id() && !wanted(header.keep)) {
        return None;
    }
    let recovered = match run_on_top(path) {
        Some(pid) => refused_for(&contents, pid),
        None => put_back(&contents),
    };
    let mut recovered = Recovered { name: name_of(&recovered, path), ..recovered };
    if recovered.undone.is_refused {
        // It stays, for a run that may.
    } else if recovered.damaged > 0 {
        recovered.aside = set_aside(path);
    } else {
        let _ = std::fs::remove_file(path);
    }
    let quiet = recovered.lines().is_empty();
    (!quiet).then_some(recovered)
}

/// The process of a run that is on top of what a journal keeps: that one has to end first.
fn run_on_top(path: &Path) -> Option<u32> {
    let run = path.to_str()?.strip_suffix(KEPT_END)?.to_owned() + RUN_END;
    holder(Path::new(&run))
}

fn refused_for(contents: &Contents, pid: u32) -> Recovered {
    let left =
        vec![format!("nothing is put back while another napier (pid {pid}) runs a program there: end that one first")];
    let undone = Undone { left, is_refused: true, ..Undone::default() };
    let name = contents.header.as_ref().map_or(String::new(), |header| header.scope.name().to_owned());
    Recovered { name, pid: contents.pid(), undone, ..Recovered::default() }
}

/// A journal without a header is known by its file.
fn name_of(recovered: &Recovered, path: &Path) -> String {
    if !recovered.name.is_empty() {
        return recovered.name.clone();
    }
    path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned())
}

/// Puts back what a journal says, in the namespace that it was written in.
pub(super) fn put_back(contents: &Contents) -> Recovered {
    let mut recovered = Recovered { damaged: contents.damaged, ..Recovered::default() };
    let Some(header) = &contents.header else { return recovered };
    recovered.name = header.scope.name().to_owned();
    recovered.pid = header.pid;
    if header.boot != boot_id() {
        // That kernel has forgotten all of it.
        recovered.damaged = 0;
        return recovered;
    }
    let undone = match &header.scope {
        Scope::Host => undo(&contents.entries),
        Scope::Device { netns, .. } if current_netns().is_ok_and(|own| own == *netns) => undo(&contents.entries),
        Scope::Device { netns, device } => match find_netns(*netns) {
            Some(namespace) => namespace.run(|| undo(&contents.entries)).unwrap_or_else(|error| Undone {
                left: vec![format!("what was changed on {} is not put back: {error}", device.name)],
                is_refused: true,
                ..Undone::default()
            }),
            None => Undone { gone: vec![format!("the namespace of {}", device.name)], ..Undone::default() },
        },
    };
    recovered.undone = undone;
    recovered
}

/// The namespace with this inode, if a process or a name keeps it.
fn find_netns(inode: u64) -> Option<Netns> {
    let is_it = |path: &Path| std::fs::metadata(path).is_ok_and(|found| found.ino() == inode);
    let of_process = |entry: io::Result<std::fs::DirEntry>| Some(entry.ok()?.path().join("ns/net"));
    let processes = std::fs::read_dir("/proc").ok()?.filter_map(of_process);
    let names = std::fs::read_dir("/run/netns").into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let path = names.chain(processes).find(|path| is_it(path))?;
    Some(Netns::of(File::open(path).ok()?.into()))
}
