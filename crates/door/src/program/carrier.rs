//! The threads that carry bytes: those of connections and datagrams of all programs, so that requests of several of them find one thread awake.
//! What a program's calls ask for, and whatever may wait for the program, is done by a thread of its own (`turn.rs`).
//!
//! ```text
//! calls, listeners, handshakes --> the program's thread --lock--> ServedProgram <--try_lock-- carrier <-- pairs, connections, datagrams, rings
//!                                          ^------- what it found while that thread had the lock ------'
//! ```
//!
//! A carrier waits for no lock that is held while memory of a program is read: a program that stalls its own thread stalls itself. Locks are taken in
//! this order: a program, the carrier's table, rings; the carrier, which has its table first, only tries the program's.

mod turns;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

use napier_linux::process::Notifier;
use napier_runtime::control::mode::Mode;
use napier_runtime::engine::Engine;
use napier_runtime::event::{EventContext, Interest};
use rustix::event::epoll::{self, EventData, EventFlags};

use super::ServedProgram;
use super::rings::{Awake, ProgramRings};
use crate::limits::{PROGRAMS_MAX, SOCKETS_MAX};
use crate::near::locked;
use turns::CarrierTurns;

/// Tokens that are no socket's: their generation is beyond all.
const CONTEXT: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
/// What a program may spend in a turn, but for its last socket: about a millisecond.
const SHARE_MAX: u32 = 64;

/// A thread that carries bytes, as the threads of programs see it.
pub(crate) struct Carrier {
    pub(super) epoll: OwnedFd,
    pub(super) context: EventContext,
    table: Mutex<CarrierTable>,
}

/// One, and its thread.
type StartedCarrier = (Arc<Carrier>, JoinHandle<()>);

#[derive(Default)]
struct CarrierTable {
    programs: HashMap<u16, Arc<CarriedProgram>>,
    /// Of those that have some.
    rings: Vec<(u16, Arc<Mutex<ProgramRings>>)>,
    next: u16,
}

/// What was found of a socket, until it is done.
#[derive(Copy, Clone, Default)]
pub(super) struct SocketNews {
    pub(super) of_net: Interest,
    pub(super) of_pair: Option<EventFlags>,
}

/// A program as its carrier and its own thread have it.
pub(super) struct CarriedProgram {
    program: Mutex<ServedProgram>,
    /// Its own thread waits for the lock: the carrier, which is awake and would always be first, leaves it that.
    is_wanted: AtomicBool,
    number: u16,
    /// What its own thread is to do, by token; no more than the program has sockets.
    left: Mutex<HashMap<u64, SocketNews>>,
    /// Readable when that has something.
    bell: Arc<OwnedFd>,
}

impl Carrier {
    /// Starts as many as the engine has receive queues, within the processors: more would find no packets of their own. They end when `stop` can
    /// be read.
    pub(crate) fn start_all(
        engine: &Engine,
        mode: Option<Mode>,
        stop: &Arc<OwnedFd>,
    ) -> io::Result<Vec<StartedCarrier>> {
        let queues = engine.napi_dump(None).map_or(1, |all| all.len());
        let count = queues.clamp(1, std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
        let started: io::Result<Vec<_>> = (0..count).map(|_| Self::start(engine, mode, stop)).collect();
        // Those that were started end.
        started.inspect_err(|_| ring(stop))
    }

    /// Starts one.
    fn start(engine: &Engine, mode: Option<Mode>, stop: &Arc<OwnedFd>) -> io::Result<StartedCarrier> {
        let context = EventContext::with_members_max(engine, (PROGRAMS_MAX * SOCKETS_MAX) as u32);
        if let Some(mode) = mode {
            context.set_mode(mode).map_err(io::Error::other)?;
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, context.descriptor()?, EventData::new_u64(CONTEXT), EventFlags::IN)?;
        epoll::add(&epoll, stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let carrier = Arc::new(Self { epoll, context, table: Mutex::default() });
        let (here, engine, stop) = (carrier.clone(), engine.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("napier-carrier".to_owned()).spawn(move || {
            let _counted = engine.count_thread("door", None);
            CarrierTurns {
                carrier: &here,
                awake: Awake::default(),
                more: VecDeque::new(),
                number: 0,
                news: Vec::new(),
            }
            .run();
            drop(stop);
        })?;
        Ok((carrier, thread))
    }

    /// How many programs it has.
    pub(crate) fn load(&self) -> usize {
        locked(&self.table).programs.len()
    }

    /// Takes a program that is made with a number, and whose own thread hears this bell.
    pub(super) fn take(&self, bell: &Arc<OwnedFd>, make: impl FnOnce(u16) -> ServedProgram) -> Arc<CarriedProgram> {
        let mut table = locked(&self.table);
        while table.programs.contains_key(&table.next) {
            table.next = table.next.wrapping_add(1);
        }
        let number = table.next;
        // It comes again after all others: events of one that has ended reach no other.
        table.next = number.wrapping_add(1);
        let program = Mutex::new(make(number));
        let (left, bell, is_wanted) = (Mutex::default(), bell.clone(), AtomicBool::new(false));
        let carried = Arc::new(CarriedProgram { program, is_wanted, number, left, bell });
        table.programs.insert(number, carried.clone());
        carried
    }

    /// Ends a program: all connections of it. Its calls are to be answered by the caller from here on.
    pub(super) fn end(&self, carried: Arc<CarriedProgram>) -> Notifier {
        let mut table = locked(&self.table);
        drop(table.programs.remove(&carried.number));
        table.rings.retain(|(number, _)| *number != carried.number);
        drop(table);
        let program = Arc::into_inner(carried).expect("the carrier had the only other one");
        let program = program.program.into_inner();
        let ServedProgram { notifier, .. } = program.unwrap_or_else(PoisonError::into_inner);
        notifier
    }

    /// A program has rings from now on.
    pub(super) fn look_at(&self, number: u16, rings: &Arc<Mutex<ProgramRings>>) {
        let mut table = locked(&self.table);
        if table.programs.contains_key(&number) && table.rings.iter().all(|(other, _)| *other != number) {
            table.rings.push((number, rings.clone()));
        }
    }
}

impl CarriedProgram {
    /// For the program's own thread, once the carrier has done what it is at.
    ///
    /// # Errors
    /// One of the two has panicked there.
    pub(super) fn lock(&self) -> io::Result<MutexGuard<'_, ServedProgram>> {
        // Relaxed: the carrier sees it soon; the lock orders the rest.
        self.is_wanted.store(true, Ordering::Relaxed);
        let locked = self.program.lock();
        self.is_wanted.store(false, Ordering::Relaxed);
        locked.map_err(|_| io::Error::other("serving it has failed"))
    }

    pub(super) fn take_left(&self) -> HashMap<u64, SocketNews> {
        // Before: what is left meanwhile is heard of again.
        let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
        std::mem::take(&mut *locked(&self.left))
    }

    fn leave(&self, token: u64, found: SocketNews) {
        {
            let mut left = locked(&self.left);
            let before = left.entry(token).or_default();
            before.of_net = before.of_net.with(found.of_net);
            before.of_pair = before.of_pair.into_iter().chain(found.of_pair).reduce(|one, other| one | other);
        }
        ring(&self.bell);
    }

    /// Does what was found of a socket, in the carrier's turn of this number; whether the program has more to do then.
    fn find(&self, token: u64, found: SocketNews, turn: u64) -> bool {
        let does = |program: &mut ServedProgram| {
            if program.may_wait(token) {
                return false;
            }
            if program.share.is_left_in(turn) {
                program.found(token, found)
            } else {
                program.put_off(token, found)
            }
            true
        };
        self.try_to(|program| does(program).then_some(!program.again.is_empty())).unwrap_or_else(|| {
            self.leave(token, found);
            false
        })
    }

    /// Goes on with what has more to do, each once at most; whether the program has more to do then. If its own thread has it, that one goes on.
    fn go_on(&self, turn: u64) -> bool {
        let goes_on = |program: &mut ServedProgram| {
            for _ in 0..program.again.len() {
                if !program.share.is_left_in(turn) {
                    break;
                }
                let token = program.again.pop_front().expect("it was counted");
                if program.may_wait(token) {
                    self.leave(token, SocketNews::default());
                } else {
                    program.found(token, SocketNews::default());
                }
            }
            Some(!program.again.is_empty())
        };
        self.try_to(goes_on).unwrap_or_else(|| {
            ring(&self.bell);
            false
        })
    }

    /// Does something with the program, unless its own thread has it, or waits for it.
    fn try_to(&self, does: impl FnOnce(&mut ServedProgram) -> Option<bool>) -> Option<bool> {
        if self.is_wanted.load(Ordering::Relaxed) {
            return None;
        }
        let done = catch_unwind(AssertUnwindSafe(|| match self.program.try_lock() {
            Ok(mut program) => does(&mut program),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => Some(false),
        }));
        done.unwrap_or_else(|_| {
            // Its own thread sees it, and ends.
            ring(&self.bell);
            Some(false)
        })
    }
}

/// What a program has had of its carrier's turn.
#[derive(Default)]
pub(super) struct Share {
    turn: u64,
    /// Chunks and datagrams that were moved, and sockets that were looked at.
    spent: u32,
}

impl Share {
    /// Whether a socket of it may be looked at yet in the turn of this number: others wait for theirs.
    fn is_left_in(&mut self, turn: u64) -> bool {
        if self.turn != turn {
            *self = Self { turn, spent: 0 };
        }
        self.spend(1);
        self.spent <= SHARE_MAX
    }

    pub(super) fn spend(&mut self, count: u32) {
        self.spent = self.spent.saturating_add(count);
    }
}

/// It has room: each read empties it.
pub(super) fn ring(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_a_share_of_each_turn() {
        let mut share = Share::default();
        let mut looks = |turn, spends| {
            let looks = (0..1000).take_while(|_| share.is_left_in(turn).then(|| share.spend(spends)).is_some());
            looks.count()
        };
        assert_eq!((looks(1, 0), looks(1, 0)), (SHARE_MAX as usize, 0), "no more in the same turn");
        assert_eq!((looks(2, 15), looks(3, 1000), looks(4, u32::MAX)), (SHARE_MAX as usize / 16, 1, 1));
    }
}
