//! Connections that need not be asked what they have: a socket that is accepted has the options of its listener
//! (`net/core/sock.c sk_clone`), and the kernel's list says through which port it came.

use std::collections::BTreeSet;

use crate::Netns;
use crate::descriptors::sockets::{self, SocketRow, Wanted};

/// Which connections were there before their listener was set.
#[derive(Debug, Default)]
pub(super) struct Accepted {
    /// Their cookies.
    early: BTreeSet<u64>,
    /// The namespace of the program, if it is not the calling thread's.
    netns: Option<Netns>,
}

impl Accepted {
    /// The program is in another namespace.
    pub(super) fn enter(&mut self, netns: Netns) {
        self.netns = Some(netns);
    }

    /// Inodes of sockets that receive for an address; `None` where the kernel does not list them.
    pub(super) fn receivers(&self) -> Option<BTreeSet<u64>> {
        let rows = sockets::list_in(self.netns.as_ref(), Wanted::Receivers).ok()?;
        Some(rows.into_iter().map(|row| row.inode).collect())
    }

    /// Of these sockets, by their inodes, those that were accepted from a listener that is among `done`. Those of another namespace than
    /// the program's, and of kernels that do not list sockets, are not told apart.
    pub(super) fn of(&mut self, asked: &[u64], done: &BTreeSet<u64>) -> BTreeSet<u64> {
        if asked.is_empty() || done.is_empty() {
            return BTreeSet::new();
        }
        let Ok(rows) = sockets::list_in(self.netns.as_ref(), Wanted::Tcp) else { return BTreeSet::new() };
        let asked: BTreeSet<u64> = asked.iter().copied().collect();
        self.among(&rows, &asked, done)
    }

    fn among(&mut self, rows: &[SocketRow], asked: &BTreeSet<u64>, done: &BTreeSet<u64>) -> BTreeSet<u64> {
        if !self.early.is_empty() {
            let there: BTreeSet<u64> = rows.iter().map(|row| row.cookie).collect();
            self.early.retain(|cookie| there.contains(cookie));
        }
        let mut ports = ports(rows, |inode| done.contains(&inode));
        // One more listener of the same port, which was not set yet.
        for row in rows.iter().filter(|row| row.is_listening && !done.contains(&row.inode)) {
            ports.remove(&row.port);
        }
        let is_accepted = |row: &&SocketRow| {
            !row.is_listening
                && ports.contains(&row.port)
                && asked.contains(&row.inode)
                && !self.early.contains(&row.cookie)
        };
        rows.iter().filter(is_accepted).map(|row| row.inode).collect()
    }

    /// Takes note that these were set just now: what some of them had accepted before has nothing of it.
    pub(super) fn were_set(&mut self, new: &BTreeSet<u64>) {
        let Ok(rows) = sockets::list_in(self.netns.as_ref(), Wanted::Tcp) else { return };
        let ports = ports(&rows, |inode| new.contains(&inode));
        let early = rows.iter().filter(|row| !row.is_listening && ports.contains(&row.port));
        self.early.extend(early.map(|row| row.cookie));
    }
}

fn ports(rows: &[SocketRow], is_wanted: impl Fn(u64) -> bool) -> BTreeSet<u16> {
    rows.iter().filter(|row| row.is_listening && is_wanted(row.inode)).map(|row| row.port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(inode: u64, port: u16, is_listening: bool) -> SocketRow {
        SocketRow { inode, cookie: inode + 100, port, is_listening }
    }

    #[test]
    fn what_a_set_listener_accepts_later_has_what_it_has() {
        let mut accepted = Accepted { early: BTreeSet::from([105]), netns: None };
        let rows = [row(1, 80, true), row(2, 80, false), row(3, 81, false), row(5, 80, false), row(6, 80, false)];
        let asked = BTreeSet::from([2, 3, 4, 5]);
        assert_eq!(accepted.among(&rows, &asked, &BTreeSet::from([1])), BTreeSet::from([2]));
        assert_eq!(accepted.among(&rows, &asked, &BTreeSet::from([9])), BTreeSet::new(), "its listener is not set");
        let second = [&rows[..], &[row(7, 80, true)]].concat();
        assert_eq!(accepted.among(&second, &asked, &BTreeSet::from([1])), BTreeSet::new(), "one of two is not set");
        accepted.among(&rows[..2], &asked, &BTreeSet::from([1]));
        assert!(accepted.early.is_empty(), "what is closed is forgotten");
    }
}
