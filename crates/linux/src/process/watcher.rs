//! Finds the descriptors of a program as they appear, and sets them.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::settings::{DescriptorSetting, EpollValue, ProgramSettings, epoll_value, set_epoll};
use super::settings::{initial, is_internet, read_option, write_option};
use super::steer::Steering;
use super::{Kind, Process, descendants};
use crate::change::{AS_MADE, Entry, IN_FORCE, Key, KeyError, Ledger};

/// Between two looks at a program that is young, or made a descriptor a moment ago.
const SOON: Duration = Duration::from_millis(5);
/// Between two looks at one that is settled.
const LATER: Duration = Duration::from_millis(100);
/// How long a program counts as young.
const YOUNG: Duration = Duration::from_secs(1);
/// A look takes at most this part of the time from one to the next: a program may have very many descriptors.
const REST: u32 = 20;

/// Which processes are a program's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Roots {
    /// This process and its descendants.
    Process(u32),
    /// The descendants of the calling process: all that it has started, and, where it is a subreaper
    /// (`PR_SET_CHILD_SUBREAPER`), those whose parents have ended.
    Children,
}

/// What one look found.
#[derive(Debug, Default)]
pub struct Scan {
    /// Descriptors that were set now.
    pub set: usize,
    /// Processes that were not known before.
    pub processes: usize,
    /// What a person should know: refused, or changed by the program. Each is said once.
    pub said: Vec<String>,
}

/// Watches a program, and applies settings to its descriptors.
#[derive(Debug)]
pub struct Watcher {
    settings: ProgramSettings,
    roots: Roots,
    watched: BTreeMap<u32, Watched>,
    /// Inodes of sockets that were looked at: a socket may have many descriptors.
    sockets: BTreeSet<u64>,
    steering: Steering,
    young_until: Instant,
    rest: Duration,
    epolls_set: usize,
    sockets_set: usize,
}

#[derive(Debug)]
struct Watched {
    process: Process,
    /// Epoll descriptors that were set, and whether it was said that the program changed one.
    epolls: BTreeMap<i32, bool>,
    /// Descriptors that cannot be set, which was said.
    refused: BTreeSet<(i32, Kind)>,
    /// It cannot be looked into, which was said.
    is_refused: bool,
}

impl Watched {
    fn new(process: Process, is_refused: bool) -> Self {
        Self { process, epolls: BTreeMap::new(), refused: BTreeSet::new(), is_refused }
    }
}

impl Watcher {
    /// A watcher that has not looked yet.
    #[must_use]
    pub fn new(settings: ProgramSettings, roots: Roots, now: Instant) -> Self {
        Self {
            settings,
            roots,
            watched: BTreeMap::new(),
            sockets: BTreeSet::new(),
            steering: Steering::default(),
            young_until: now + YOUNG,
            rest: Duration::ZERO,
            epolls_set: 0,
            sockets_set: 0,
        }
    }

    /// Looks at all processes once. Each is noted in the ledger before its descriptors are set.
    pub fn scan(&mut self, ledger: &mut Ledger, now: Instant) -> Scan {
        let mut scan = Scan::default();
        if self.settings.is_empty() {
            return scan;
        }
        self.find_processes(ledger, &mut scan);
        let mut seen = BTreeSet::new();
        let mut watched = std::mem::take(&mut self.watched);
        for process in watched.values_mut().filter(|process| !process.is_refused) {
            match self.scan_process(process, ledger, &mut seen, &mut scan) {
                Ok(()) | Err(KeyError::Gone(_)) => {}
                Err(error) => {
                    process.is_refused = true;
                    let who = process.process.who();
                    scan.said.push(format!("the mode is not in force on descriptors of {who}: {error}"));
                }
            }
        }
        self.watched = watched;
        // Those that were closed; their numbers may come again.
        self.sockets.retain(|inode| seen.contains(inode));
        self.steering.retain(&seen);
        if scan.set > 0 || scan.processes > 0 {
            self.young_until = now + YOUNG;
        }
        scan
    }

    /// Tells how long the look that began at `begun` took.
    pub fn took(&mut self, span: Duration) {
        self.rest = span * REST;
    }

    /// Time until the next look.
    #[must_use]
    pub fn pause(&self, now: Instant) -> Duration {
        let wanted = if now < self.young_until { SOON } else { LATER };
        wanted.max(self.rest)
    }

    /// Descriptors that were set so far: of epoll, and sockets.
    #[must_use]
    pub const fn counts(&self) -> (usize, usize) {
        (self.epolls_set, self.sockets_set)
    }

    /// Epoll descriptors that are there, whoever set them.
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

    fn find_processes(&mut self, ledger: &mut Ledger, scan: &mut Scan) {
        self.watched.retain(|_, watched| !watched.process.has_ended());
        // A process stays the program's after its parent has ended.
        let known: Vec<u32> = self.watched.keys().copied().collect();
        let (own, root) = match self.roots {
            Roots::Process(pid) => (pid, Some(pid)),
            Roots::Children => (std::process::id(), None),
        };
        let found: BTreeSet<u32> =
            root.into_iter().chain(known.into_iter().chain([own]).flat_map(descendants)).collect();
        for pid in found {
            if self.watched.contains_key(&pid) {
                continue;
            }
            // It may have ended meanwhile.
            let Some(process) = Process::open(pid).ok().filter(|process| !process.has_ended()) else { continue };
            scan.processes += 1;
            let key = Key::Program { process: process.who().clone(), settings: self.settings.clone() };
            let entry = Entry { key, before: Some(AS_MADE.to_owned()), after: IN_FORCE.to_owned(), or: None };
            match ledger.note(entry, has_ended) {
                Ok(()) => {
                    self.watched.insert(pid, Watched::new(process, false));
                }
                Err(error) => {
                    scan.said.push(format!("the mode is not in force on descriptors of {}: {error}", process.who()));
                    self.watched.insert(pid, Watched::new(process, true));
                }
            }
        }
    }

    fn scan_process(
        &mut self,
        watched: &mut Watched,
        ledger: &mut Ledger,
        seen: &mut BTreeSet<u64>,
        scan: &mut Scan,
    ) -> Result<(), KeyError> {
        let found = watched.process.descriptors()?;
        watched.epolls.retain(|fd, _| found.contains(&(*fd, Kind::Epoll)));
        watched.refused.retain(|descriptor| found.contains(descriptor));
        for (fd, kind) in found {
            if watched.refused.contains(&(fd, kind)) {
                continue;
            }
            let done = match kind {
                Kind::Epoll => self.epoll(watched, fd, ledger, scan),
                Kind::Socket(inode) => {
                    seen.insert(inode);
                    self.socket(watched, fd, inode, ledger, scan).and_then(|()| self.steer(watched, fd, inode, scan))
                }
            };
            match done {
                // Closed since.
                Ok(()) | Err(KeyError::Gone(_)) => {}
                Err(error @ KeyError::Denied(_)) => return Err(error),
                // The others are set all the same.
                Err(error) => {
                    let who = watched.process.who();
                    scan.said.push(format!("the mode is not in force on descriptor {fd} of {who}: {error}"));
                    watched.refused.insert((fd, kind));
                }
            }
        }
        Ok(())
    }

    /// An epoll instance looks like any other, so each is asked anew: a closed one's number may be another's now.
    fn epoll(&mut self, watched: &mut Watched, fd: i32, ledger: &mut Ledger, scan: &mut Scan) -> Result<(), KeyError> {
        let Some(wanted) = self.settings.epoll else { return Ok(()) };
        let copy = watched.process.duplicate_of(fd, Kind::Epoll)?;
        let before = epoll_value(copy.as_fd())?;
        // The one that the library in the program polls with.
        if (before.busy_poll_usecs, before.busy_poll_budget) == napier_preload::marks::OWN_PARAMS {
            return Ok(());
        }
        if before == wanted {
            watched.epolls.entry(fd).or_default();
            return Ok(());
        }
        let as_made = before == EpollValue::default();
        if let (false, Some(is_said)) = (as_made, watched.epolls.get_mut(&fd)) {
            if !std::mem::replace(is_said, true) {
                let who = watched.process.who();
                scan.said
                    .push(format!("{who} changed the parameters of epoll descriptor {fd} to {before}: they are left"));
            }
            return Ok(());
        }
        if !as_made {
            note_own(watched, fd, DescriptorSetting::Epoll, &before.to_string(), &wanted.to_string(), ledger)?;
        }
        set_epoll(copy.as_fd(), wanted)?;
        let found = epoll_value(copy.as_fd())?;
        if found != wanted {
            return Err(KeyError::ReadsAs { found: found.to_string() });
        }
        watched.epolls.insert(fd, false);
        scan.set += 1;
        self.epolls_set += 1;
        Ok(())
    }

    /// A socket is set once: what the program sets afterwards is its own.
    fn socket(
        &mut self,
        watched: &Watched,
        fd: i32,
        inode: u64,
        ledger: &mut Ledger,
        scan: &mut Scan,
    ) -> Result<(), KeyError> {
        if self.settings.sockets.is_empty() || self.sockets.contains(&inode) {
            return Ok(());
        }
        let copy = watched.process.duplicate_of(fd, Kind::Socket(inode))?;
        if is_internet(copy.as_fd()) {
            let mut is_changed = false;
            for wanted in self.settings.sockets.clone() {
                let before = read_option(copy.as_fd(), wanted)?;
                if before == Some(wanted.value) {
                    continue;
                }
                if let Some(before) = before.filter(|before| *before != initial(wanted)) {
                    let setting = DescriptorSetting::Socket { inode, option: wanted.option };
                    note_own(watched, fd, setting, &before.to_string(), &wanted.value.to_string(), ledger)?;
                }
                write_option(copy.as_fd(), wanted)?;
                match read_option(copy.as_fd(), wanted)? {
                    Some(found) if found != wanted.value => return Err(KeyError::ReadsAs { found: found.to_string() }),
                    _ => is_changed = true,
                }
            }
            scan.set += usize::from(is_changed);
            self.sockets_set += usize::from(is_changed);
        }
        self.sockets.insert(inode);
        Ok(())
    }
}

impl Watcher {
    fn steer(&mut self, watched: &Watched, fd: i32, inode: u64, scan: &mut Scan) -> Result<(), KeyError> {
        if self.settings.steer && !self.steering.is_settled(inode) {
            let copy = watched.process.duplicate(fd)?;
            scan.set += usize::from(self.steering.look(copy.as_fd(), inode)?);
        }
        Ok(())
    }
}

/// Notes a descriptor that is not as it was made.
fn note_own(
    watched: &Watched,
    fd: i32,
    setting: DescriptorSetting,
    before: &str,
    after: &str,
    ledger: &mut Ledger,
) -> Result<(), KeyError> {
    let key = Key::Descriptor { process: watched.process.who().clone(), fd, setting };
    let entry = Entry { key, before: Some(before.to_owned()), after: after.to_owned(), or: None };
    ledger.note(entry, has_ended).map_err(|error| KeyError::Refused(error.to_string()))
}

fn has_ended(entry: &Entry) -> bool {
    entry.key.is_of_program() && matches!(entry.key.read(), Err(KeyError::Gone(_)))
}
