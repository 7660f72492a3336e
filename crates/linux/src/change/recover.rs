//! What a run left that was killed, put back by the next one.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::header::{JournalHeader, Keep, Scope, boot_id};
use super::journal::{Journal, process_words};
use super::line::Entry;
use super::machine::MachineLock;
use super::places::{self, journals};
use super::read::{Contents, lock_left, parse, set_aside};
use super::show::{self, Changed};
use super::undo::{Undone, undo};
use crate::setting::DeviceRef;
use crate::{Netns, NetnsId, device, netns};

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

    /// Whether something has become of it: what is away still is no news to each command.
    #[must_use]
    pub fn is_news(&self) -> bool {
        let Undone { put_back, left, gone, away, .. } = &self.undone;
        !put_back.is_empty() || !gone.is_empty() || self.damaged > 0 || left.len() > *away
    }
}

/// Puts back what runs have left that no longer live. A journal of which everything is done is removed; one with values that were refused
/// stays, for a run that may, and one of what is away, for when it is there again. Those of runs that live, and what shall stay
/// until it is asked back, are left alone.
#[must_use]
pub fn recover() -> Vec<Recovered> {
    let paths = journals(&places::known());
    paths.into_iter().filter_map(|path| recover_one(&path, |keep| keep == Keep::Run)).collect()
}

/// Puts back what commands keep in force until they are asked, beside what [`recover`] does.
#[must_use]
pub fn undo_kept() -> Vec<Recovered> {
    journals(&places::all()).into_iter().filter_map(|path| recover_one(&path, |_| true)).collect()
}

/// Puts back what one command keeps in force, as [`found`](super::found) has it; `None` if all of it is as it was before, or the command runs.
#[must_use]
pub fn undo_one(changed: &Changed) -> Option<Recovered> {
    recover_one(&changed.journal, |_| true)
}

/// Interfaces (and the machine) that something of this start of the kernel is in force on, and whether it shall stay.
#[must_use]
pub fn pending() -> Vec<(Scope, Keep)> {
    let found = show::found();
    found.into_iter().filter_map(|found| Some((found.scope?, found.keep))).collect()
}

pub(super) fn recover_one(path: &Path, wanted: impl Fn(Keep) -> bool) -> Option<Recovered> {
    // A file that may not be opened is another user's.
    let mut file = lock_left(path).ok()??;
    let contents = parse(&mut file).ok()?;
    if contents.header.as_ref().is_some_and(|header| header.boot == boot_id() && !wanted(header.keep)) {
        return None;
    }
    let recovered = put_back(&contents, false);
    let mut recovered = Recovered { name: name_of(&recovered, path), ..recovered };
    if !recovered.undone.remaining.is_empty() {
        // It stays, with what is left of it, for a run that may.
        keep(file, path, contents.header, &recovered.undone);
    } else if recovered.undone.is_refused {
        // Nothing was tried.
    } else if recovered.damaged > 0 {
        recovered.aside = set_aside(path);
    } else {
        let _ = std::fs::remove_file(path);
    }
    let quiet = recovered.lines().is_empty();
    (!quiet).then_some(recovered)
}

fn keep(file: File, path: &Path, header: Option<JournalHeader>, undone: &Undone) {
    let Some(header) = header else { return };
    let mut journal = Journal::left(file, path, header, undone.is_refused);
    // Where there is no room for a new file the old one says more than is left, and nothing less.
    let _ = journal.rewrite(&undone.remaining, 0);
    journal.keep();
}

/// A journal without a header is known by its file.
fn name_of(recovered: &Recovered, path: &Path) -> String {
    if !recovered.name.is_empty() {
        return recovered.name.clone();
    }
    path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned())
}

/// Puts back what a journal says, in the namespace that it was written in. Unless its caller has the machine's lock it is taken for
/// that: while another command has changed the same interface, its values are no longer what this journal says.
pub(super) fn put_back(contents: &Contents, is_locked: bool) -> Recovered {
    let mut recovered = Recovered { damaged: contents.damaged, ..Recovered::default() };
    let Some(header) = &contents.header else { return recovered };
    recovered.name = header.scope.words();
    recovered.pid = header.pid;
    if header.boot != boot_id() {
        // That kernel has forgotten all of it.
        recovered.damaged = 0;
        return recovered;
    }
    recovered.undone = inside(&header.scope, &contents.entries, &|entries| {
        let lock = if is_locked { None } else { Some(MachineLock::take(&header.scope)) };
        match lock {
            Some(Err(held)) => refused(vec![format!(
                "nothing is put back on {} while another napier ({}) has {}: end that one first",
                header.scope.words(),
                process_words(held.pid),
                held.words(&header.scope)
            )]),
            _ => undo(entries),
        }
    });
    recovered
}

/// Puts entries back where their interface is now.
pub(super) fn undo_in(scope: &Scope, entries: &[Entry]) -> Undone {
    inside(scope, entries, &|entries| undo(entries))
}

fn inside(scope: &Scope, entries: &[Entry], act: &(dyn Fn(&[Entry]) -> Undone + Sync)) -> Undone {
    let Scope::Device { device, netns, node, .. } = scope else { return act(entries) };
    let (is_here, namespace) = if netns.is_current() { (true, None) } else { (false, find(*netns)) };
    let in_its_own = || match &namespace {
        None if is_here => is_there(device, *node),
        None => false,
        Some(namespace) => namespace.run(|| is_there(device, *node)).unwrap_or(false),
    };
    if let Some(node) = node
        && !in_its_own()
    {
        // It may have another namespace by now: that of a container goes, and its interface comes home.
        if let Some((namespace, moved)) = elsewhere(*node) {
            let entries: Vec<Entry> = entries.iter().map(|entry| entry.with_device(&moved)).collect();
            let said = namespace.run(|| act(&entries));
            return said.unwrap_or_else(|error| not_entered(device, &error));
        }
        // Another one may have its number.
        let rest: Vec<Entry> = entries.iter().filter(|entry| entry.key.setting().device().is_none()).cloned().collect();
        let mut undone = act(&rest);
        let has_ended = !is_here && namespace.is_none();
        undone.gone.push(if has_ended { ended(device) } else { format!("{} is gone", device.name) });
        return undone;
    }
    match namespace {
        _ if is_here => act(entries),
        Some(namespace) => namespace.run(|| act(entries)).unwrap_or_else(|error| not_entered(device, &error)),
        None => Undone { gone: vec![ended(device)], ..Undone::default() },
    }
}

fn ended(device: &DeviceRef) -> String {
    format!("the network namespace of {} has ended", device.name)
}

fn not_entered(device: &DeviceRef, error: &crate::LinuxError) -> Undone {
    refused(vec![format!("what was changed on {} is not put back: {error}", device.name)])
}

/// Nothing was tried: the journal stays as it is.
fn refused(left: Vec<String>) -> Undone {
    Undone { left, is_refused: true, ..Undone::default() }
}

/// Whether the calling thread's namespace has the interface, and not another one with its number.
fn is_there(device: &DeviceRef, wanted: Option<u64>) -> bool {
    let Ok(name) = device.name_now() else { return false };
    match (wanted, device::node(&name)) {
        (Some(wanted), Some(found)) => wanted == found,
        _ => true,
    }
}

/// The namespace with this identity, if a process or a name keeps it.
fn find(wanted: NetnsId) -> Option<Netns> {
    if let NetnsId::Inode(inode) = wanted {
        return netns::all().into_iter().find(|found| found.inode().is_ok_and(|found| found == inode));
    }
    netns::all().into_iter().find(|found| found.run(|| wanted.is_current()).unwrap_or(false))
}

/// Where an interface is now, and how it is named there.
fn elsewhere(node: u64) -> Option<(Netns, DeviceRef)> {
    netns::all().into_iter().find_map(|namespace| {
        let found = namespace.run(|| device::with_node(node)).ok()??;
        let device = namespace.run(|| DeviceRef::named(&found)).ok()?.ok()?;
        Some((namespace, device))
    })
}
