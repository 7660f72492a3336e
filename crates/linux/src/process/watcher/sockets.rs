//! Sockets of a program.

use std::collections::BTreeSet;

use super::{Answers, Scan, Watcher, inode, note};
use crate::change::{Entry, Ledger};
use crate::descriptors::DescriptorSetting;
use crate::descriptors::copies::{self, Asked};
use crate::descriptors::steer;
use crate::descriptors::values::initial;
use crate::process::look::{self, SocketSeen};

/// Sockets that are noted by themselves in a run. Of more of them, those of living processes are put back all the same.
const NOTED_MAX: usize = 1 << 14;

impl Watcher {
    pub(super) fn ask_sockets(&mut self, mut asked: Vec<Asked>, scan: &mut Scan) -> Answers<SocketSeen> {
        if self.settings.sockets.is_empty() {
            return Answers::default();
        }
        asked.retain(|one| !self.sockets.contains(&inode(one)));
        let inodes: Vec<u64> = asked.iter().map(inode).collect();
        let have_it = self.accepted.of(&inodes, &self.sockets);
        self.sockets.extend(&have_it);
        asked.retain(|one| !have_it.contains(&inode(one)));
        let answers = look::sockets(&asked, &self.settings.sockets);
        let (mut own, mut to_set) = (Vec::new(), Vec::new());
        for (one, answer) in asked.into_iter().zip(answers) {
            match answer {
                Ok(None) => {
                    self.sockets.insert(inode(&one));
                }
                Ok(Some(seen)) => {
                    own.extend(self.entries_of(&one, &seen));
                    to_set.push((one, seen));
                }
                Err(error) => self.refused(&one, error, scan),
            }
        }
        Answers { own, to_set }
    }

    pub(super) fn set_sockets(&mut self, to_set: Vec<(Asked, SocketSeen)>, scan: &mut Scan) {
        let answers = look::set_sockets(&to_set);
        let mut new = BTreeSet::new();
        for ((one, _), answer) in to_set.into_iter().zip(answers) {
            match answer {
                Ok(is_changed) => {
                    scan.set += usize::from(is_changed);
                    self.sockets_set += usize::from(is_changed);
                    self.sockets.insert(inode(&one));
                    new.extend(is_changed.then_some(inode(&one)));
                }
                Err(error) => self.refused(&one, error, scan),
            }
        }
        if !new.is_empty() {
            self.accepted.were_set(&new);
        }
    }

    /// What is noted of a socket by itself: that it had settings of its own, and what another process may have after the program.
    fn entries_of(&mut self, one: &Asked, seen: &SocketSeen) -> Vec<Entry> {
        let may_outlive = !seen.is_connected || self.inherited.contains(&inode(one));
        let mut entries = Vec::new();
        for (wanted, before) in &seen.options {
            let Some(before) = *before else { continue };
            let is_initial = before == initial(*wanted);
            let is_own = !is_initial && (before != wanted.value || !self.are_made_set);
            let is_noted = is_own || (before != wanted.value && may_outlive && self.noted < NOTED_MAX);
            if is_noted {
                let setting =
                    DescriptorSetting::Socket { inode: inode(one), cookie: seen.cookie, option: wanted.option };
                entries.push(note(one, setting, &before.to_string(), &wanted.value.to_string()));
            }
        }
        self.noted += entries.len();
        entries
    }

    pub(super) fn steer(&mut self, asked: &[Asked], ledger: &mut Ledger, scan: &mut Scan) {
        if asked.iter().all(|one| self.steering.is_settled(inode(one))) && self.steering.changed().is_empty() {
            return;
        }
        let receivers = self.accepted.receivers();
        let may_be = |one: &&Asked| {
            !self.steering.is_settled(inode(one)) && receivers.as_ref().is_none_or(|all| all.contains(&inode(one)))
        };
        let new: Vec<Asked> = asked.iter().filter(may_be).cloned().collect();
        let answers = copies::each(new.clone(), |_, fd| steer::what(fd));
        for (one, answer) in new.iter().zip(answers) {
            if let Ok(what) = answer {
                self.steering.learn(inode(one), what);
            }
        }
        for (group, member, count) in self.steering.changed() {
            let Some(one) = asked.iter().find(|one| inode(one) == member) else { continue };
            let cookie = copies::one(&one.process, one.fd, one.kind, |fd| Ok(look::cookie(fd))).ok().flatten();
            let setting = DescriptorSetting::Steering { inode: member, cookie };
            let entry = note(one, setting, "none", "by receive queue");
            if !self.note(vec![entry], ledger, scan) {
                return;
            }
            let done = copies::one(&one.process, one.fd, one.kind, move |fd| steer::steer(fd, count));
            match done {
                Ok(()) => {
                    self.steering.is_steered(group, count);
                    scan.set += 1;
                }
                Err(error) => self.refused(one, error, scan),
            }
        }
    }
}
