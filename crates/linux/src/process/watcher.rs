//! Finds the descriptors of a program as they appear, and sets them.
//!
//! A socket is set once: what the program sets afterwards is its own. It is looked at when it is there for the second time, so that one that
//! is closed at once is never copied; and one that was accepted not at all, for it has what its listener has ([`Accepted`]).

mod epolls;
mod rings;
mod sockets;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

pub use rings::MissedRing;
use rings::Rings;

use super::Roots;
use super::accepted::Accepted;
use super::tree::{descendants, hold};
use crate::Netns;
use crate::change::{AS_MADE, Entry, IN_FORCE, Key, KeyError, Ledger};
use crate::descriptors::copies::Asked;
use crate::descriptors::ring::are_alone;
use crate::descriptors::steer::Steering;
use crate::descriptors::{DescriptorKey, DescriptorSetting, Kind, Process, ProgramKey, ProgramSettings};

/// Between two looks at a program that is young, or made a descriptor a moment ago.
const SOON: Duration = Duration::from_millis(5);
/// Between two looks at one that is settled.
const LATER: Duration = Duration::from_millis(100);
/// How long a program counts as young.
const YOUNG: Duration = Duration::from_secs(1);
/// A look takes at most this part of the time from one to the next: a program may have very many descriptors.
const REST: u32 = 20;
/// The same where the program is settled, for as long as it runs; but what it makes waits no longer than [`LATEST`].
const SETTLED_REST: u32 = 200;
const LATEST: Duration = Duration::from_secs(2);

/// What one look found.
#[derive(Debug, Default)]
pub struct Scan {
    /// Descriptors that were set now.
    pub set: usize,
    /// Processes that were not known before.
    pub processes: usize,
    /// Sockets that are looked at the next time.
    pub waiting: usize,
    /// What a person should know: refused, or changed by the program. Each is said once.
    pub said: Vec<String>,
    /// Likewise of rings that the mode does not reach: they may be for files alone.
    pub missed: Vec<String>,
}

/// Watches a program, and applies settings to its descriptors.
#[derive(Debug)]
pub struct Watcher {
    settings: ProgramSettings,
    roots: Roots,
    watched: BTreeMap<u32, WatchedProcess>,
    /// Processes that are to be noted before something is set.
    unnoted: Vec<Entry>,
    /// Inodes of sockets that were looked at: a socket may have many descriptors.
    sockets: BTreeSet<u64>,
    /// Those that were there for the first time.
    young: BTreeSet<u64>,
    /// Those that this process has too, from the one that started it: they outlive the program.
    inherited: BTreeSet<u64>,
    accepted: Accepted,
    steering: Steering,
    rings: Rings,
    /// Instances are made with the settings.
    are_made_set: bool,
    is_first: bool,
    noted: usize,
    young_until: Instant,
    /// What the last look took.
    took: Duration,
    epolls_set: usize,
    sockets_set: usize,
}

#[derive(Debug)]
struct WatchedProcess {
    process: Process,
    epolls: BTreeMap<i32, Epoll>,
    /// Descriptors that cannot be set, which was said.
    refused: BTreeSet<(i32, Kind)>,
    /// It cannot be looked into, which was said.
    is_refused: bool,
}

/// An epoll descriptor that has the settings, or had them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Epoll {
    /// The program had them itself.
    is_own: bool,
    /// It was said that the program changed it.
    is_said: bool,
}

impl WatchedProcess {
    fn new(process: Process) -> Self {
        Self { process, epolls: BTreeMap::new(), refused: BTreeSet::new(), is_refused: false }
    }
}

/// What descriptors of one kind have said.
struct Answers<T> {
    /// Notes of what programs had themselves. Those of all kinds come before the first of a process, and before anything is set.
    own: Vec<Entry>,
    /// What is to be set, and what it has.
    to_set: Vec<(Asked, T)>,
}

impl<T> Default for Answers<T> {
    fn default() -> Self {
        Self { own: Vec::new(), to_set: Vec::new() }
    }
}

/// Descriptors of one look that are asked what they have.
#[derive(Default)]
struct Found {
    epolls: Vec<Asked>,
    sockets: Vec<Asked>,
    rings: Vec<Asked>,
}

impl Watcher {
    /// A watcher that has not looked yet.
    #[must_use]
    pub fn new(settings: ProgramSettings, roots: Roots, now: Instant) -> Self {
        let is_first = !matches!(roots, Roots::Children);
        let own = Process::open(std::process::id()).and_then(|own| own.descriptors()).unwrap_or_default();
        Self {
            settings,
            roots,
            watched: BTreeMap::new(),
            unnoted: Vec::new(),
            sockets: BTreeSet::new(),
            young: BTreeSet::new(),
            inherited: own.into_iter().filter_map(|(_, kind)| inode_of(kind)).collect(),
            accepted: Accepted::default(),
            steering: Steering::default(),
            rings: Rings::default(),
            are_made_set: false,
            is_first,
            noted: 0,
            young_until: now + YOUNG,
            took: Duration::ZERO,
            epolls_set: 0,
            sockets_set: 0,
        }
    }

    /// Tells it that the program is in another network namespace than the calling thread.
    pub fn enter(&mut self, netns: Netns) {
        self.accepted.enter(netns);
    }

    /// Tells it that descriptors are made with the settings: one that has them has them of this process.
    pub fn expect_made_set(&mut self) {
        self.are_made_set = true;
    }

    /// Looks at all processes once. Each is noted in the ledger before its descriptors are set.
    pub fn scan(&mut self, ledger: &mut Ledger, now: Instant) -> Scan {
        let mut scan = Scan::default();
        if self.settings.is_empty() {
            return scan;
        }
        self.find_processes(&mut scan);
        if std::mem::take(&mut self.is_first) {
            self.wait_for_a_second_look();
        }
        let mut seen = BTreeSet::new();
        let found = self.find_descriptors(&mut seen, &mut scan);
        // Those that were closed; their numbers may come again.
        self.sockets.retain(|inode| seen.contains(inode));
        self.steering.retain(&seen);
        self.young = seen;
        let steered = if self.settings.steer { found.sockets.clone() } else { Vec::new() };
        let epolls = self.ask_epolls(found.epolls, &mut scan);
        let rings = self.ask_rings(found.rings, &mut scan, now >= self.young_until);
        let sockets = self.ask_sockets(found.sockets, &mut scan);
        let own = epolls.own.into_iter().chain(rings.own).chain(sockets.own).collect();
        if self.note(own, ledger, &mut scan) {
            self.set_epolls(epolls.to_set, &mut scan);
            self.set_rings(rings.to_set, &mut scan);
            self.steer(&steered, ledger, &mut scan);
            self.set_sockets(sockets.to_set, &mut scan);
        }
        if scan.set > 0 || scan.processes > 0 || scan.waiting > 0 {
            self.young_until = now + YOUNG;
        }
        scan
    }

    /// What a program has that runs already is set by the first look.
    fn wait_for_a_second_look(&mut self) {
        let listed = self.watched.values().filter_map(|watched| watched.process.descriptors().ok()).flatten();
        self.young = listed.filter_map(|(_, kind)| inode_of(kind)).collect();
        std::thread::sleep(SOON);
    }

    /// Tells how long the look that began at `begun` took.
    pub fn took(&mut self, span: Duration) {
        self.took = span;
    }

    /// Time until the next look.
    #[must_use]
    pub fn pause(&self, now: Instant) -> Duration {
        if now < self.young_until {
            return SOON.max(self.took * REST);
        }
        LATER.max((self.took * SETTLED_REST).min(LATEST)).max(self.took * REST)
    }

    /// Descriptors that were set so far: of epoll, and sockets.
    #[must_use]
    pub const fn counts(&self) -> (usize, usize) {
        (self.epolls_set, self.sockets_set)
    }

    /// Epoll descriptors that are there, whichever process set them.
    #[must_use]
    pub fn epolls(&self) -> usize {
        self.watched.values().map(|watched| watched.epolls.len()).sum()
    }

    /// The processes that were found and live.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.watched.values().map(|watched| &watched.process)
    }

    /// Whether a process was found, and noted.
    #[must_use]
    pub fn knows(&self, pid: u32) -> bool {
        self.watched.contains_key(&pid)
    }

    fn list(&self) -> BTreeSet<u32> {
        // A process stays the program's after its parent has ended.
        let known: Vec<u32> = self.watched.keys().copied().collect();
        let theirs = match self.roots {
            // What they start is in it too.
            Roots::Cgroup(_) => Vec::new(),
            Roots::Process(_) | Roots::Children => known,
        };
        self.roots.pids().into_iter().chain(theirs.into_iter().flat_map(descendants)).collect()
    }

    fn find_processes(&mut self, scan: &mut Scan) {
        self.watched.retain(|_, watched| !watched.process.has_ended());
        let new: BTreeSet<u32> = self.list().into_iter().filter(|pid| !self.watched.contains_key(pid)).collect();
        let held = hold(&new, || self.list());
        let entry = |process: &Process| {
            let key = Key::Program(ProgramKey { process: process.who().clone(), settings: self.settings.clone() });
            Entry { key, before: Some(AS_MADE.to_owned()), after: IN_FORCE.to_owned(), or: None }
        };
        scan.processes += held.len();
        for process in held {
            self.unnoted.push(entry(&process));
            self.watched.insert(process.who().pid, WatchedProcess::new(process));
        }
    }

    /// Notes what programs have of their own, and behind that processes that were found: an entry of a process alone would make all
    /// of it ours that is as ours. Whether something may be set.
    fn note(&mut self, own: Vec<Entry>, ledger: &mut Ledger, scan: &mut Scan) -> bool {
        let entries: Vec<Entry> = own.into_iter().chain(std::mem::take(&mut self.unnoted)).collect();
        if entries.is_empty() {
            return true;
        }
        let Err(error) = ledger.note_all(entries.clone(), is_over) else { return true };
        for entry in &entries {
            let (Key::Program(ProgramKey { process, .. }) | Key::Descriptor(DescriptorKey { process, .. })) =
                &entry.key
            else {
                continue;
            };
            if let Some(watched) = self.watched.get_mut(&process.pid) {
                refuse(watched, &KeyError::Refused(error.to_string()), scan);
            }
        }
        false
    }

    /// Lists the descriptors of all processes, and chooses those that are to be asked.
    fn find_descriptors(&mut self, seen: &mut BTreeSet<u64>, scan: &mut Scan) -> Found {
        let mut found = Found::default();
        let mut asked = BTreeSet::new();
        let wants_sockets = !self.settings.sockets.is_empty();
        for watched in self.watched.values_mut().filter(|watched| !watched.is_refused) {
            let listed = match watched.process.descriptors() {
                Ok(listed) => listed,
                Err(KeyError::Gone(_)) => continue,
                Err(error) => {
                    refuse(watched, &error, scan);
                    continue;
                }
            };
            let there: BTreeSet<(i32, Kind)> = listed.iter().copied().collect();
            let wants_rings = self.settings.ring.is_some()
                || (self.settings.leaves_rings() && are_alone(there.iter().map(|(_, kind)| kind)));
            watched.epolls.retain(|fd, _| there.contains(&(*fd, Kind::Epoll)));
            watched.refused.retain(|descriptor| there.contains(descriptor));
            for (fd, kind) in listed {
                if let Kind::Socket(inode) = kind {
                    seen.insert(inode);
                }
                if watched.refused.contains(&(fd, kind)) {
                    continue;
                }
                let one = Asked { process: watched.process.clone(), fd, kind };
                match kind {
                    Kind::Epoll if self.settings.epoll.is_some() => found.epolls.push(one),
                    Kind::Ring(_) if wants_rings => found.rings.push(one),
                    Kind::Socket(inode)
                        if wants_sockets && !self.sockets.contains(&inode)
                            || self.settings.steer && !self.steering.is_other(inode) =>
                    {
                        if !self.young.contains(&inode) {
                            scan.waiting += usize::from(!self.sockets.contains(&inode));
                        } else if asked.insert(inode) {
                            found.sockets.push(one);
                        }
                    }
                    _ => {}
                }
            }
        }
        found
    }

    fn refused(&mut self, one: &Asked, error: KeyError, scan: &mut Scan) {
        let who = one.process.who();
        let Some(watched) = self.watched.get_mut(&who.pid) else { return };
        match error {
            // Closed since, or to be tried again.
            KeyError::Gone(_) | KeyError::Away(_) => {}
            error @ KeyError::Denied(_) => refuse(watched, &error, scan),
            // The others are set all the same.
            error => {
                scan.said.push(format!("the mode is not in force on descriptor {} of {who}: {error}", one.fd));
                watched.refused.insert((one.fd, one.kind));
            }
        }
    }
}

/// A process that cannot be looked into.
fn refuse(watched: &mut WatchedProcess, error: &KeyError, scan: &mut Scan) {
    if !std::mem::replace(&mut watched.is_refused, true) {
        scan.said.push(format!("the mode is not in force on descriptors of {}: {error}", watched.process.who()));
    }
}

const fn inode_of(kind: Kind) -> Option<u64> {
    match kind {
        Kind::Socket(inode) => Some(inode),
        Kind::Epoll | Kind::Ring(_) => None,
    }
}

fn inode(one: &Asked) -> u64 {
    inode_of(one.kind).unwrap_or(0)
}

/// A descriptor that is noted by itself.
fn note(one: &Asked, setting: DescriptorSetting, before: &str, after: &str) -> Entry {
    let key = Key::Descriptor(DescriptorKey { process: one.process.who().clone(), fd: one.fd, setting });
    Entry { key, before: Some(before.to_owned()), after: after.to_owned(), or: None }
}

/// Whether nothing is left that an entry is about.
fn is_over(entry: &Entry) -> bool {
    match &entry.key {
        Key::Program(key) => Process::again(&key.process).is_err(),
        Key::Descriptor(key) => key.setting.is_over(&key.process),
        _ => false,
    }
}
