//! Epoll instances of a program.

use napier_preload::marks::OWN_PARAMS;

use super::{Answers, Epoll, Scan, Watcher, note};
use crate::change::Entry;
use crate::descriptors::copies::Asked;
use crate::descriptors::{DescriptorSetting, EpollValue, Kind};
use crate::process::look;

impl Watcher {
    /// An epoll instance looks like any other, so each is asked anew: a closed one's number may be another's now.
    pub(super) fn ask_epolls(&mut self, asked: Vec<Asked>, scan: &mut Scan) -> Answers<EpollValue> {
        let Some(wanted) = self.settings.epoll else { return Answers::default() };
        let answers = look::epolls(&asked);
        let (mut own, mut to_set) = (Vec::new(), Vec::new());
        for (one, answer) in asked.into_iter().zip(answers) {
            match answer {
                // The library in the program polls with it: it is not the program's.
                Ok(found) if (found.busy_poll_usecs, found.busy_poll_budget) == OWN_PARAMS => {}
                Ok(found) if found == wanted => own.extend(self.epoll_equal(&one, &wanted.to_string())),
                Ok(found) if found == EpollValue::default() => {
                    // The program's own instance is closed, and this one has its number.
                    if self.epoll_of(&one).is_some_and(|epoll| epoll.is_own) {
                        own.push(note(&one, DescriptorSetting::Epoll, &found.to_string(), &wanted.to_string()));
                    }
                    to_set.push((one, found));
                }
                Ok(found) if self.is_changed_by_program(&one, &found.to_string(), scan) => {}
                Ok(found) => {
                    own.push(note(&one, DescriptorSetting::Epoll, &found.to_string(), &wanted.to_string()));
                    to_set.push((one, found));
                }
                Err(error) => self.refused(&one, error, scan),
            }
        }
        Answers { own, to_set }
    }

    pub(super) fn set_epolls(&mut self, to_set: Vec<(Asked, EpollValue)>, scan: &mut Scan) {
        let Some(wanted) = self.settings.epoll else { return };
        let answers = look::set_epolls(&to_set, wanted);
        for ((one, _), answer) in to_set.into_iter().zip(answers) {
            match answer {
                Ok(()) => {
                    scan.set += 1;
                    self.epolls_set += 1;
                    if let Some(watched) = self.watched.get_mut(&one.process.who().pid) {
                        watched.epolls.insert(one.fd, Epoll::default());
                    }
                }
                Err(error) => self.refused(&one, error, scan),
            }
        }
    }

    /// Makes an instance what it was before the mode, and asks it no more while it is there. What the program had itself stays.
    pub fn leave(&mut self, pid: u32, fd: i32) {
        let (Some(wanted), Some(watched)) = (self.settings.epoll, self.watched.get_mut(&pid)) else { return };
        watched.refused.insert((fd, Kind::Epoll));
        if watched.epolls.remove(&fd).is_some_and(|epoll| !epoll.is_own) {
            let one = Asked { process: watched.process.clone(), fd, kind: Kind::Epoll };
            // It fails for one that is closed, or was changed: then there is nothing to take back.
            let _ = look::set_epolls(&[(one, wanted)], EpollValue::default());
        }
    }

    fn epoll_of(&self, one: &Asked) -> Option<Epoll> {
        self.watched.get(&one.process.who().pid)?.epolls.get(&one.fd).copied()
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
