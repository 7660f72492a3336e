//! Rings of io_uring of a program: each is set once, as a socket is, for its inode tells it from any other.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Answers, Scan, Watcher, note, refuse};
use crate::change::KeyError;
use crate::descriptors::copies::Asked;
use crate::descriptors::ring::RingState;
use crate::descriptors::{DescriptorSetting, Kind, ONLY_EPOLL, ProcessRef};
use crate::process::look;

/// Descriptors that a line names; the rest is counted.
const NAMED_MAX: usize = 4;
/// Rings that are remembered as missed: a program may make new ones for ever.
const MISSED_MAX: usize = 1024;

/// What is known of a program's rings.
#[derive(Debug, Default)]
pub(super) struct Rings {
    /// Inodes of those that are not asked any more: set, or not to be reached.
    settled: BTreeSet<u64>,
    set: usize,
    missed: Vec<MissedRing>,
}

/// A ring of io_uring that a mode does not reach.
#[derive(Clone, Debug, Serialize)]
pub struct MissedRing {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessRef,
    /// Its descriptor there.
    pub fd: i32,
    /// Why.
    pub why: String,
}

fn inode(one: &Asked) -> u64 {
    if let Kind::Ring(inode) = one.kind { inode } else { 0 }
}

impl Watcher {
    /// Rings that were registered so far.
    #[must_use]
    pub const fn rings_set(&self) -> usize {
        self.rings.set
    }

    /// Rings that the mode did not reach, those too that are closed by now.
    #[must_use]
    pub fn rings_missed(&self) -> &[MissedRing] {
        &self.rings.missed
    }

    /// Asks rings that were not there before. Of a mode that has nothing for rings it is said, once the program `is_settled`: it may be
    /// about to make an epoll instance.
    pub(super) fn ask_rings(&mut self, asked: Vec<Asked>, scan: &mut Scan, is_settled: bool) -> Answers<RingState> {
        let there: BTreeSet<u64> = asked.iter().map(inode).collect();
        self.rings.settled.retain(|inode| there.contains(inode));
        let mut new = BTreeSet::new();
        let asked: Vec<Asked> = asked
            .into_iter()
            .filter(|one| !self.rings.settled.contains(&inode(one)) && new.insert(inode(one)))
            .collect();
        let Some(wanted) = self.settings.ring.map(RingState::Polls) else {
            if is_settled {
                let why = format!("{ONLY_EPOLL}: take napibusy or threaded for what it receives by that ring");
                self.miss(asked.into_iter().map(|one| (one, why.clone())).collect(), scan);
            }
            return Answers::default();
        };
        let (mut own, mut to_set, mut missed) = (Vec::new(), Vec::new(), Vec::new());
        for (one, answer) in asked.iter().zip(look::rings(&asked)) {
            let setting = DescriptorSetting::Ring { inode: inode(one) };
            match answer {
                Ok(found @ RingState::Off) => to_set.push((one.clone(), found)),
                // What it has named is lost with another registration.
                Ok(RingState::Named(_)) => missed.push((one.clone(), NAMED.to_owned())),
                Ok(found) => {
                    own.push(note(one, setting, &found.to_string(), &wanted.to_string()));
                    if found == wanted {
                        self.rings.settled.insert(inode(one));
                    } else {
                        to_set.push((one.clone(), found));
                    }
                }
                Err(error) => missed.extend(self.ring_refused(one, error, scan)),
            }
        }
        self.miss(missed, scan);
        Answers { own, to_set }
    }

    pub(super) fn set_rings(&mut self, to_set: Vec<(Asked, RingState)>, scan: &mut Scan) {
        let Some(wanted) = self.settings.ring.map(RingState::Polls) else { return };
        let mut missed = Vec::new();
        for ((one, _), answer) in to_set.iter().zip(look::set_rings(&to_set, wanted)) {
            match answer {
                Ok(()) => {
                    scan.set += 1;
                    self.rings.set += 1;
                    self.rings.settled.insert(inode(one));
                }
                Err(error) => missed.extend(self.ring_refused(one, error, scan)),
            }
        }
        self.miss(missed, scan);
    }

    /// A ring that could not be asked or set, if that is to be said of it.
    fn ring_refused(&mut self, one: &Asked, error: KeyError, scan: &mut Scan) -> Option<(Asked, String)> {
        match error {
            // Closed since, or to be tried again.
            KeyError::Gone(_) | KeyError::Away(_) => None,
            // No socket is in it, or no ring of this kernel polls, which the first look at packets says.
            KeyError::NotHere(_) => {
                self.rings.settled.insert(inode(one));
                None
            }
            error @ KeyError::Denied(_) => {
                let watched = self.watched.get_mut(&one.process.who().pid)?;
                refuse(watched, &error, scan);
                None
            }
            error => Some((one.clone(), error.to_string())),
        }
    }

    /// Takes note of rings that are not reached, and says so: a line for each process and reason.
    fn miss(&mut self, missed: Vec<(Asked, String)>, scan: &mut Scan) {
        let mut by_reason: BTreeMap<(u32, String), Vec<Asked>> = BTreeMap::new();
        for (one, why) in missed {
            self.rings.settled.insert(inode(&one));
            if self.rings.missed.len() < MISSED_MAX {
                self.rings.missed.push(MissedRing { process: one.process.who().clone(), fd: one.fd, why: why.clone() });
            }
            by_reason.entry((one.process.who().pid, why)).or_default().push(one);
        }
        for ((_, why), rings) in by_reason {
            let named: Vec<String> = rings.iter().take(NAMED_MAX).map(|one| one.fd.to_string()).collect();
            let more = match rings.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let word = if rings.len() == 1 {
                "the ring of io_uring at descriptor"
            } else {
                "rings of io_uring at descriptors"
            };
            let who = rings[0].process.who();
            scan.missed.push(format!("the mode does not reach {word} {}{more} of {who}: {why}", named.join(", ")));
        }
    }
}

/// Source: `io_uring/napi.c`, `IO_URING_NAPI_TRACKING_STATIC`.
const NAMED: &str = "its program has registered it itself, for NAPI instances that it has named: it is left";
