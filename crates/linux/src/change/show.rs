//! What is changed on this machine now, and by whom.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::header::{Keep, Scope, boot_id, is_of_run};
use super::line::Entry;
use super::machine::held_here;
use super::places::{self, journals};
use super::queues::Queues;
use super::read::{holder, read};
use crate::link;

/// Why something is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeState {
    /// A command holds it, and puts it back when it ends.
    Running,
    /// It stays until it is asked back.
    Kept,
    /// Its command has ended and could not put it back: the next one tries.
    Left,
}

/// What one command has changed.
#[derive(Clone, Debug, Serialize)]
pub struct Changed {
    /// Interface, some queues of it, or the machine.
    pub name: String,
    /// Why it is changed now.
    pub state: ChangeState,
    /// The command, in words; empty if it was not noted.
    pub by: String,
    /// Its process; 0 if it is not to be seen from here.
    pub pid: u32,
    /// When it began, in seconds since 1970; 0 if it was not noted.
    pub since: u64,
    /// What was changed, the oldest first.
    pub entries: Vec<Entry>,
    /// Where that is noted.
    pub journal: PathBuf,
    /// What it is about.
    #[serde(skip)]
    pub scope: Option<Scope>,
    /// How long it shall stay.
    #[serde(skip)]
    pub keep: Keep,
}

/// What journals of this start of the kernel say, in the order in which it would be put back.
#[must_use]
pub fn found() -> Vec<Changed> {
    journals(&places::all()).iter().filter_map(|path| of(path)).collect()
}

fn of(path: &Path) -> Option<Changed> {
    let contents = read(path).ok()?;
    let header = contents.header?;
    if header.boot != boot_id() {
        return None;
    }
    let running = holder(path);
    let state = match (running, header.keep) {
        (Some(_), _) => ChangeState::Running,
        (None, Keep::UntilUndone) if !is_of_run(path) => ChangeState::Kept,
        _ => ChangeState::Left,
    };
    Some(Changed {
        name: header.scope.words(),
        state,
        by: header.by,
        pid: header.pid,
        since: header.since,
        entries: contents.entries,
        journal: path.to_owned(),
        scope: Some(header.scope),
        keep: header.keep,
    })
}

/// Interfaces of the calling thread's namespace, or queues of them, that another command holds, with its process, where the journal is
/// not among [`found`]: its folder is another one.
#[must_use]
pub fn unseen(found: &[Changed]) -> Vec<(String, u32)> {
    let is_found = |ifindex: u32, queue: Option<u32>| {
        found.iter().any(|changed| {
            let Some(Scope::Device { device, netns, queues, .. }) = &changed.scope else { return false };
            let has = match (queues, queue) {
                (Some(queues), Some(queue)) => queues.iter().any(|own| own == queue),
                (own, queue) => own.is_none() && queue.is_none(),
            };
            has && changed.state == ChangeState::Running && device.ifindex == ifindex && netns.is_current()
        })
    };
    let name = |ifindex| link::name(ifindex).unwrap_or_else(|_| format!("interface {ifindex}"));
    let mut all = Vec::new();
    let mut by_queue: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for (ifindex, queue, pid) in held_here().into_iter().filter(|(ifindex, queue, _)| !is_found(*ifindex, *queue)) {
        match queue {
            Some(queue) => by_queue.entry((ifindex, pid)).or_default().push(queue),
            None => all.push((name(ifindex), pid)),
        }
    }
    let of_queues = |((ifindex, pid), queues): ((u32, u32), Vec<u32>)| {
        let queues: Queues = queues.into_iter().collect();
        (format!("{} of {}", queues.words(), name(ifindex)), pid)
    };
    all.extend(by_queue.into_iter().map(of_queues));
    all
}
