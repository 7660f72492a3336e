//! Who may connect to a server's socket, and who is let go first when too many do at once.

use std::collections::BTreeMap;

use napier_sys::peer::PeerCred;

/// Who may connect to the control socket of a server: for such a process memory is mapped, and it can send.
///
/// A path gets these permissions before any process can connect, whatever the umask. An abstract name has none in the system,
/// and every process in the network name space can connect: there the server checks its user, by the same bits, and
/// refuses (of a client's groups only the effective one is known to it). The superuser may always.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct MemifAccess {
    /// Permission bits, of which writing is the one that counts: `0o600` = this user alone, `0o660` = its group too,
    /// `0o666` = every user.
    pub mode: u32,
    /// The group; none = this process's.
    pub group: Option<u32>,
}

impl Default for MemifAccess {
    /// This user alone.
    fn default() -> Self {
        Self { mode: 0o600, group: None }
    }
}

impl MemifAccess {
    /// Whether a client may connect, as the permissions of a file say: those of the first class that it is in count.
    pub(crate) fn allows(&self, client: PeerCred, own_uid: u32, own_gid: u32) -> bool {
        let bit = if client.uid == 0 {
            return true;
        } else if client.uid == own_uid {
            0o200
        } else if client.gid == self.group.unwrap_or(own_gid) {
            0o020
        } else {
            0o002
        };
        self.mode & bit != 0
    }
}

/// Which of the clients that shake hands has to go, so that another can begin: the oldest of the process that has most of
/// them, of the user that has most of them. So a flood of connections is in its own way first.
pub(crate) fn first_to_go(clients: impl Iterator<Item = (u64, PeerCred)> + Clone) -> Option<u64> {
    let most = |of: &dyn Fn(PeerCred) -> Option<(u32, i32)>| {
        let mut counts = BTreeMap::new();
        clients.clone().filter_map(|(_, who)| of(who)).for_each(|key| *counts.entry(key).or_insert(0) += 1);
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(key, _)| key)
    };
    let (uid, _) = most(&|who| Some((who.uid, 0)))?;
    let (_, pid) = most(&|who| (who.uid == uid).then_some((uid, who.pid)))?;
    // Tokens are given in order.
    clients.filter(|(_, who)| (who.uid, who.pid) == (uid, pid)).map(|(token, _)| token).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(uid: u32, pid: i32) -> PeerCred {
        PeerCred { uid, gid: uid, pid }
    }

    #[test]
    fn classes_are_those_of_a_file() {
        let allows = |mode, group, client| MemifAccess { mode, group }.allows(client, 1000, 1000);
        for (mode, owner, group, others) in [
            (0o600, true, false, false),
            (0o660, true, true, false),
            (0o666, true, true, true),
            (0o060, false, true, false),
        ] {
            assert_eq!(allows(mode, None, PeerCred { uid: 1000, gid: 7, pid: 1 }), owner, "{mode:o}");
            assert_eq!(allows(mode, None, PeerCred { uid: 7, gid: 1000, pid: 1 }), group, "{mode:o}");
            assert_eq!(allows(mode, Some(8), PeerCred { uid: 7, gid: 8, pid: 1 }), group, "{mode:o}");
            assert_eq!(allows(mode, None, PeerCred { uid: 7, gid: 7, pid: 1 }), others, "{mode:o}");
            assert_eq!(allows(mode, Some(8), PeerCred { uid: 7, gid: 1000, pid: 1 }), others, "{mode:o}");
            assert!(allows(mode, None, PeerCred { uid: 0, gid: 0, pid: 1 }), "the superuser");
        }
    }

    #[test]
    fn who_floods_goes_first() {
        assert_eq!(first_to_go(std::iter::empty()), None);
        // One user, one process that floods.
        let clients = [(1, who(5, 1)), (2, who(5, 2)), (3, who(5, 2)), (4, who(5, 2)), (5, who(5, 3))];
        assert_eq!(first_to_go(clients.iter().copied()), Some(2));
        // A user that floods by many processes.
        let clients = [(1, who(5, 1)), (2, who(5, 1)), (3, who(6, 2)), (4, who(6, 3)), (5, who(6, 4))];
        assert!((3..=5).contains(&first_to_go(clients.iter().copied()).expect("one")));
    }
}
