//! The fast door: the rings of a program's processes (`napier_ring::outbox`).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use napier_linux::process::Notifier;
use napier_ring::outbox::OUTBOXES;
use napier_ring::{Outboxes, SharedOutbox};

use super::socket::{Behind, Sockets};
use crate::limits::RINGS_MAX;

/// How long a carrier looks at rings before it sleeps, after something happened: a program that answers meanwhile makes no system call.
const AWAKE: Duration = Duration::from_micros(30);
/// After so many times that nothing came meanwhile, it sleeps at once so often.
const VAIN_MAX: u32 = 16;
const REST: u32 = 512;

/// The rings of one process.
struct OfProcess {
    process: u32,
    memory: Arc<Outboxes>,
    /// By ring, the connection that got it last.
    tokens: Vec<Option<u64>>,
}

/// The rings of all processes of a program.
#[derive(Default)]
pub(super) struct ProgramRings {
    all: Vec<OfProcess>,
    next: u32,
}

/// How long a carrier looks at the rings of its programs.
#[derive(Default)]
pub(super) struct Awake {
    /// Until when it does not sleep.
    until: Option<Instant>,
    /// Times that it was awake and nothing came; beyond [`VAIN_MAX`], those that it slept at once.
    vain: u32,
}

impl ProgramRings {
    /// Memory for a process that has none, or another program now.
    pub(super) fn make(&mut self, process: u32) -> io::Result<OwnedFd> {
        self.all.retain(|one| {
            let lives = one.process != process && Notifier::process_of(one.process).is_some();
            lives || Arc::strong_count(&one.memory) > 1
        });
        if self.all.len() >= RINGS_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let (file, mapping) = napier_sys::mmap::shared_memory_by_need(Outboxes::BYTES)?;
        let memory = Arc::new(Outboxes::new(mapping, self.next));
        // Until the carrier looks at it. There is no news.
        let _ = memory.may_sleep();
        self.next = self.next.wrapping_add(1);
        self.all.push(OfProcess { process, memory, tokens: vec![None; OUTBOXES] });
        Ok(file)
    }

    /// Gives a ring, by the numbers of its memory and of itself, to a connection; or an error of `errno(3)`.
    pub(super) fn give(&mut self, (number, ring): (u64, u64), token: u64, sockets: &mut Sockets) -> Result<(), i32> {
        let of_number = |one: &&mut OfProcess| u64::from(one.memory.number()) == number;
        let rings = self.all.iter_mut().find(of_number).ok_or(libc::ENOENT)?;
        let ring = usize::try_from(ring).map_err(|_| libc::EINVAL)?;
        let place = rings.tokens.get_mut(ring).ok_or(libc::EINVAL)?;
        // One that has ended may have had it.
        let has_it = |before: u64| {
            let before = sockets.get(before).map(|socket| &socket.behind);
            matches!(before, Some(Behind::Connection(relay)) if relay.has_ring())
        };
        if place.is_some_and(has_it) {
            return Err(libc::EBUSY);
        }
        let socket = sockets.get(token).ok_or(libc::EBADF)?;
        let Behind::Connection(relay) = &mut socket.behind else { return Err(libc::ENOTCONN) };
        if relay.has_ring() {
            return Err(libc::EBUSY);
        }
        let unread = rustix::io::ioctl_fionread(&socket.own).map_err(rustix::io::Errno::raw_os_error)?;
        let unread = u32::try_from(unread).map_err(|_| libc::ENOBUFS)?;
        *place = Some(token);
        relay.use_ring(SharedOutbox::new(&rings.memory, ring, unread));
        Ok(())
    }

    /// Says that the carrier is about to sleep; false: a ring has news.
    pub(super) fn may_sleep(&self) -> bool {
        self.all.iter().all(|one| one.memory.may_sleep())
    }

    /// It is awake.
    pub(super) fn are_awake(&self) {
        self.all.iter().for_each(|one| one.memory.is_awake());
    }

    /// The connections whose rings have news.
    pub(super) fn take_news(&self, into: &mut Vec<u64>) {
        for one in &self.all {
            one.memory.take_news(|ring| into.extend(one.tokens.get(ring).copied().flatten()));
        }
    }
}

impl Awake {
    /// Whether it looks once more before it sleeps. Since it was asked last, something has happened, or rings had news.
    pub(super) fn looks_again(&mut self, now: Instant, has_happened: bool, had_news: bool) -> bool {
        if had_news && self.vain < VAIN_MAX {
            self.vain = 0;
        }
        if has_happened || had_news {
            self.until = now.checked_add(AWAKE);
        }
        let looks = self.vain < VAIN_MAX && self.until.is_some_and(|until| now < until);
        if !looks && self.until.take().is_some() {
            self.vain = if self.vain >= VAIN_MAX + REST { 0 } else { self.vain + 1 };
        }
        looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_as_long_as_that_pays() {
        // Each time something happens, and nothing comes to a ring while it looks.
        let mut now = Instant::now();
        let mut round = |awake: &mut Awake, had_news: bool| {
            now += AWAKE * 3;
            let looked = awake.looks_again(now, true, had_news);
            now += AWAKE * 2;
            assert!(!awake.looks_again(now, false, false), "it has looked long enough");
            looked
        };
        let mut awake = Awake::default();
        let looks: Vec<bool> = (0..600).map(|_| round(&mut awake, false)).collect();
        let turns: Vec<usize> = looks.chunk_by(|one, next| one == next).map(<[bool]>::len).collect();
        assert_eq!((looks[0], turns[0], turns[1]), (true, VAIN_MAX as usize, REST as usize + 1), "{turns:?}");
        let mut awake = Awake::default();
        assert!((0..60).all(|_| round(&mut awake, true)), "it pays");
    }

    #[test]
    fn a_process_has_one_memory_and_a_program_a_few() {
        let mut rings = ProgramRings::default();
        let own = std::process::id();
        for _ in 0..3 {
            drop(rings.make(own).expect("memory"));
            assert_eq!(rings.all.len(), 1);
        }
        // Those that connections use stay.
        let make = |_| {
            drop(rings.make(own).expect("memory"));
            rings.all.last().expect("it was made").memory.clone()
        };
        let used: Vec<_> = (0..RINGS_MAX).map(make).collect();
        assert_eq!(rings.make(own).expect_err("there is no more").kind(), io::ErrorKind::QuotaExceeded);
        drop(used);
        drop(rings.make(own).expect("memory"));
        assert_eq!(rings.all.len(), 1);
    }
}
