//! Whether the library that a mode loads into programs meets their waits. One that is linked statically does not load it; one that asks the
//! kernel without the C library, as Go does, loads it and never calls it. Both look like any other from outside, so the process is read.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use napier_preload::marks::{COUNTS, COUNTS_LEN};

use crate::descriptors::{Kind, Process, ProcessRef};

/// What the library did in a process, by `napier_preload::marks::COUNTS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LibraryCounts {
    /// Not 0 once it has met a wait.
    pub met: u64,
    /// Busy loops of Linux that found nothing.
    pub loops: u64,
    /// Turns that were polled in waits without time.
    pub turns_of_none: u64,
    /// And in others.
    pub turns: u64,
}

/// The library in a process, as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Library {
    /// Not loaded.
    Absent,
    /// Loaded.
    Loaded(LibraryCounts),
}

/// Looks for a library's file in a process.
///
/// # Errors
/// The process has ended or cannot be looked into, or the file is not this library.
pub fn library_in(pid: u32, file: &Path) -> io::Result<Library> {
    let name = file.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let Some(first) = maps.lines().find(|line| line.ends_with(name)) else { return Ok(Library::Absent) };
    let base = first.split('-').next().and_then(|base| u64::from_str_radix(base, 16).ok());
    let place = symbol(&fs::read(file)?, COUNTS).zip(base).ok_or(io::ErrorKind::InvalidData)?;
    let mut bytes = [0; 8 * COUNTS_LEN];
    File::open(format!("/proc/{pid}/mem"))?.read_exact_at(&mut bytes, place.0.saturating_add(place.1))?;
    let mut counts = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
    let mut count = || counts.next().unwrap_or(0);
    Ok(Library::Loaded(LibraryCounts { met: count(), loops: count(), turns_of_none: count(), turns: count() }))
}

/// Where a shared object has a symbol, from its beginning. Source: `elf(5)`; for objects of 64 bits in the byte order of this machine.
fn symbol(object: &[u8], name: &str) -> Option<u64> {
    const SHT_DYNSYM: u32 = 11;
    let part = |at: u64, len: u64| {
        let at = usize::try_from(at).ok()?;
        object.get(at..at.checked_add(usize::try_from(len).ok()?)?)
    };
    let word = |at: u64| part(at, 8).map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("8 bytes")));
    let half = |at: u64| part(at, 4).map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("4 bytes")));
    let short = |at: u64| part(at, 2).map(|bytes| u64::from(u16::from_ne_bytes(bytes.try_into().expect("2 bytes"))));
    let after = |at: u64, bytes: u64| at.saturating_add(bytes);
    let (sections, size, count) = (word(40)?, short(58)?, short(60)?);
    let section = |nth: u64| after(sections, nth.saturating_mul(size));
    let symbols = (0..count).map(section).find(|at| half(after(*at, 4)) == Some(SHT_DYNSYM))?;
    let strings = word(after(section(u64::from(half(after(symbols, 40))?)), 24))?;
    // No more than there is room for.
    let (first, len) = (word(after(symbols, 24))?, word(after(symbols, 32))?.min(object.len() as u64));
    let wanted = [name.as_bytes(), b"\0"].concat();
    (0..len / 24).map(|nth| after(first, nth * 24)).find_map(|at| {
        let named = after(strings, u64::from(half(at)?));
        (part(named, wanted.len() as u64)? == wanted).then(|| word(after(at, 8))).flatten()
    })
}

/// Looks whether the processes of a program meet a library, and says of each once if it does not.
#[derive(Debug)]
pub struct Meeting {
    file: PathBuf,
    next: Instant,
    asked: BTreeMap<(u32, u64), u32>,
}

/// Between two looks. A program has that long to begin.
const PAUSE: Duration = Duration::from_secs(1);
/// Looks at one process at most: what has begun to wait by then has met the library, or is seen in a wait.
const LOOKS_MAX: u32 = 30;

impl Meeting {
    /// With the library's file.
    #[must_use]
    pub fn new(file: PathBuf, now: Instant) -> Self {
        Self { file, next: now + PAUSE, asked: BTreeMap::new() }
    }

    /// Looks, if it is time. What is to be said.
    pub fn look<'a>(&mut self, processes: impl Iterator<Item = &'a Process>, now: Instant) -> Vec<String> {
        if now < self.next {
            return Vec::new();
        }
        self.next = now + PAUSE;
        let mut seen = BTreeMap::new();
        let mut said = Vec::new();
        for process in processes {
            let ProcessRef { pid, start, .. } = process.who();
            let mut looks = self.asked.get(&(*pid, *start)).copied().unwrap_or(0);
            if looks < LOOKS_MAX {
                looks += 1;
                match self.judge(process) {
                    Meets::Settled => looks = LOOKS_MAX,
                    Meets::Open => {}
                    Meets::Unmet(why) => {
                        looks = LOOKS_MAX;
                        said.push(format!("the mode is not in force on the waits of {}: {why}", process.who()));
                    }
                }
            }
            seen.insert((*pid, *start), looks);
        }
        self.asked = seen;
        said
    }

    fn judge(&self, process: &Process) -> Meets {
        let has_epoll = process.descriptors().is_ok_and(|found| found.iter().any(|(_, kind)| *kind == Kind::Epoll));
        let pid = process.who().pid;
        match library_in(pid, &self.file) {
            // What it cannot be asked for is said by others; it may have ended.
            Err(_) => Meets::Open,
            Ok(Library::Loaded(counts)) if counts.met > 0 => Meets::Settled,
            Ok(_) if !has_epoll => Meets::Open,
            Ok(Library::Absent) => Meets::Unmet(
                "it has not loaded the library (it is linked statically, or was started without the environment)",
            ),
            Ok(Library::Loaded(_)) if waits_for_events(pid) => {
                Meets::Unmet("it asks the kernel itself and not the C library, as Go programs do")
            }
            Ok(Library::Loaded(_)) => Meets::Open,
        }
    }
}

enum Meets {
    /// It meets the library.
    Settled,
    /// Nothing is known yet.
    Open,
    /// It does not, and why.
    Unmet(&'static str),
}

/// Whether a thread of it is in `epoll_wait` or one of its kind. Source: `fs/proc/base.c proc_pid_syscall`.
fn waits_for_events(pid: u32) -> bool {
    #[cfg(target_arch = "x86_64")]
    const WAITS: [libc::c_long; 3] = [libc::SYS_epoll_wait, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];
    #[cfg(target_arch = "aarch64")]
    const WAITS: [libc::c_long; 2] = [libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| fs::read_to_string(thread.path().join("syscall")).ok()).any(|call| {
        call.split_whitespace()
            .next()
            .and_then(|number| number.parse().ok())
            .is_some_and(|number| WAITS.contains(&number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_in_the_library_and_in_nothing_else() {
        assert!(symbol(napier_preload::LIBRARY, COUNTS).is_some_and(|place| place > 0));
        assert_eq!(symbol(napier_preload::LIBRARY, "napier_modes_count"), None);
        for len in (0..napier_preload::LIBRARY.len()).step_by(997) {
            let _ = symbol(&napier_preload::LIBRARY[..len], COUNTS);
        }
        assert_eq!(symbol(&[0xff; 4096], COUNTS), None);
    }

    #[test]
    fn a_process_without_the_library_is_known() {
        let found = library_in(std::process::id(), Path::new("/nowhere/libnapier_modes.so")).expect("it can be read");
        assert_eq!(found, Library::Absent);
    }
}
