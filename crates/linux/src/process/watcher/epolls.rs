//! Epoll instances of a program.

use super::{Epoll, Scan, Watcher, is_over, note};
use crate::change::{Entry, Ledger};
use crate::process::copies::Asked;
use crate::process::look::{self, EpollSeen};
use crate::process::{DescriptorSetting, EpollValue};

impl Watcher {
    /// An epoll instance looks like any other, so each is asked anew: a closed one's number may be another's now.
    pub(super) fn look_at_epolls(&mut self, asked: Vec<Asked>, ledger: &mut Ledger, scan: &mut Scan) {
        let Some(wanted) = self.settings.epoll else { return };
        let answers = look::epolls(&asked, wanted);
        let mut differing = Vec::new();
        let mut equal = Vec::new();
        for (one, answer) in asked.into_iter().zip(answers) {
            match answer {
                Ok(EpollSeen::Set) => {
                    let was_own = self.epoll_set(&one, scan);
                    if was_own {
                        // The program's own instance is closed, and this one has its number.
                        differing.push((one, EpollValue::default()));
                    }
                }
                Ok(EpollSeen::Library) => {}
                Ok(EpollSeen::Equal) => equal.push(one),
                Ok(EpollSeen::Other(found)) => differing.push((one, found)),
                Err(error) => self.refused(&one, error, scan),
            }
        }
        // After those that were set: an instance may have several descriptors.
        let mut entries = Vec::new();
        for one in equal {
            if let Some(entry) = self.epoll_equal(&one, &wanted.to_string()) {
                entries.push(entry);
            }
        }
        let mut to_set = Vec::new();
        for (one, found) in differing {
            let is_new = found == EpollValue::default();
            if !is_new && self.is_changed_by_program(&one, &found.to_string(), scan) {
                continue;
            }
            entries.push(note(&one, DescriptorSetting::Epoll, &found.to_string(), &wanted.to_string()));
            if !is_new {
                to_set.push((one, found));
            }
        }
        if entries.is_empty() {
            return;
        }
        if let Err(error) = ledger.note_all(entries, is_over) {
            scan.said.push(format!("the mode is not in force on epoll descriptors that the program had set: {error}"));
            return;
        }
        let answers = look::set_epolls(&to_set, wanted);
        for ((one, _), answer) in to_set.into_iter().zip(answers) {
            match answer {
                Ok(()) => drop(self.epoll_set(&one, scan)),
                Err(error) => self.refused(&one, error, scan),
            }
        }
    }

    /// Takes note of one that was set; whether the one with its number before was the program's own.
    fn epoll_set(&mut self, one: &Asked, scan: &mut Scan) -> bool {
        scan.set += 1;
        self.epolls_set += 1;
        let before = self
            .watched
            .get_mut(&one.process.who().pid)
            .and_then(|watched| watched.epolls.insert(one.fd, Epoll::default()));
        before.is_some_and(|before| before.is_own)
    }

    /// One that has the settings already: by this process, by another descriptor, or because the program has set it. The latter is
    /// noted, and left so at the end.
    fn epoll_equal(&mut self, one: &Asked, wanted: &str) -> Option<Entry> {
        let pid = one.process.who().pid;
        if self.watched.get(&pid)?.epolls.contains_key(&one.fd) {
            return None;
        }
        let others = self.watched.values().flat_map(|watched| {
            let pid = watched.process.who().pid;
            watched.epolls.iter().map(move |(fd, epoll)| (pid, *fd, *epoll))
        });
        let same = look::same_instance((pid, one.fd), others.map(|(pid, fd, epoll)| ((pid, fd), epoll)));
        let is_own = same.map_or(!self.are_made_set, |epoll| epoll.is_own);
        self.watched.get_mut(&pid)?.epolls.insert(one.fd, Epoll { is_own, is_said: false });
        is_own.then(|| note(one, DescriptorSetting::Epoll, wanted, wanted))
    }

    fn is_changed_by_program(&mut self, one: &Asked, found: &str, scan: &mut Scan) -> bool {
        let who = one.process.who();
        let known = self.watched.get_mut(&who.pid).and_then(|watched| watched.epolls.get_mut(&one.fd));
        let Some(epoll) = known else { return false };
        if !std::mem::replace(&mut epoll.is_said, true) {
            scan.said
                .push(format!("{who} changed the parameters of epoll descriptor {} to {found}: they are left", one.fd));
        }
        true
    }
}
