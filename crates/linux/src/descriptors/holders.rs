//! Who has a socket: also a process that is none of the program's, which it came from or went to.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::{Kind, Process, kind_of};
use crate::setting::KeyError;

/// A list that is older is made anew: it is a look at every descriptor of this machine.
const AGE_MAX: Duration = Duration::from_millis(200);

/// A descriptor of a process.
type Place = (u32, i32);

/// When it was made, and the places of each inode.
type List = (Instant, BTreeMap<u64, Vec<Place>>);

/// Processes that have the socket with this inode, and its number there.
pub(crate) fn of(inode: u64) -> Vec<(Process, i32)> {
    let places = with_list(|list| list.get(&inode).cloned().unwrap_or_default());
    places.into_iter().filter_map(|(pid, fd)| Some((Process::open(pid).ok()?, fd))).collect()
}

/// Whether a process has it, for many questions at once.
pub(crate) fn is_open(inode: u64) -> bool {
    with_list(|list| list.contains_key(&inode))
}

/// Calls `act` with a holder until one has the socket.
pub(crate) fn with<R>(inode: u64, act: impl Fn(&Process, i32) -> Result<R, KeyError>) -> Result<R, KeyError> {
    let mut last = KeyError::Gone("the socket is closed".to_owned());
    for (process, fd) in of(inode) {
        match act(&process, fd) {
            Err(error) => last = error,
            done => return done,
        }
    }
    Err(last)
}

fn with_list<R>(act: impl FnOnce(&BTreeMap<u64, Vec<Place>>) -> R) -> R {
    static LIST: OnceLock<Mutex<Option<List>>> = OnceLock::new();
    let mut list = LIST.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let fresh = list.take().filter(|(made, _)| made.elapsed() < AGE_MAX).unwrap_or_else(|| (Instant::now(), all()));
    act(&list.insert(fresh).1)
}

fn all() -> BTreeMap<u64, Vec<Place>> {
    let mut found: BTreeMap<u64, Vec<Place>> = BTreeMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        for entry in fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
            let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Ok(link) = fs::read_link(entry.path()) else { continue };
            if let Some(Kind::Socket(inode)) = link.to_str().and_then(|link| kind_of(link, || 0)) {
                found.entry(inode).or_default().push((pid, fd));
            }
        }
    }
    found
}
