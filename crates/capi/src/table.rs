//! Handles: numbers that C holds, and what they stand for.
//!
//! A number is a place and a generation, so that one of something that was closed is refused (`EBADF`) and nothing is reached that is gone;
//! a place is used again late, after [`REST`] others were closed. No number of the system's descriptors is one, nor the other way round.
//!
//! A call looks up its handle without a lock, and what it stands for lives until the call ends, whichever thread closes it meanwhile.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::{ArcSwapOption, Guard};
use napier_runtime::event::{EventContext, UserEvent};
use napier_runtime::socket::NetNs;

use crate::engine::{DeviceObject, EngineObject, NetnsObject, SocketOptions};
use crate::error::{CallResult, Failure, enter, of_panic};
use crate::port::Port;
use crate::socket::PosixSocket;

/// Bits of a place. The first number is beyond all descriptors that a process usually has.
const PLACE_BITS: u32 = 17;
/// Handles begin above what descriptors can be unless `fs.nr_open` was raised.
const GENERATION_MIN: u32 = 1 << 4;
const GENERATION_MAX: u32 = (1 << (31 - PLACE_BITS)) - 1;
/// HandlePlaces that are made at one time, and how often.
const CHUNK: usize = 1024;
const CHUNKS: usize = (1 << PLACE_BITS) / CHUNK;
/// Closed places that wait before the first of them is used again.
const REST: usize = 1024;

/// What a handle stands for.
pub(crate) enum Object {
    Engine(EngineObject),
    Netns(NetnsObject),
    Device(DeviceObject),
    Socket(PosixSocket),
    Context(Arc<EventContext>),
    Event(UserEvent),
    Port(Port),
}

impl Object {
    fn name(&self) -> &'static str {
        match self {
            Self::Engine(_) => "an engine",
            Self::Netns(_) => "a name space",
            Self::Device(_) => "a device",
            Self::Socket(_) => "a socket",
            Self::Context(_) => "an event context",
            Self::Event(_) => "a user event",
            Self::Port(_) => "a raw port",
        }
    }
}

/// `fn $name`: what the handle stands for, or an error if it is something else.
macro_rules! parts {
    ($($name:ident $variant:ident $type:ty, $errno:ident;)*) => {
        impl Object {
            $(
                #[inline]
                pub(crate) fn $name(&self) -> Result<&$type, Failure> {
                    match self {
                        Self::$variant(it) => Ok(it),
                        other => Err(Failure::new(libc::$errno, format!("the handle is that of {}", other.name()))),
                    }
                }
            )*
        }
    };
}

parts! {
    engine Engine EngineObject, EINVAL;
    device Device DeviceObject, EINVAL;
    socket Socket PosixSocket, ENOTSOCK;
    context Context Arc<EventContext>, EINVAL;
    event Event UserEvent, EINVAL;
    port Port Port, EINVAL;
}

impl Object {
    /// Where sockets are made, and what goes with each.
    pub(crate) fn place(&self) -> Result<(NetNs, SocketOptions), Failure> {
        match self {
            Self::Engine(engine) => Ok((engine.netns.clone(), engine.socket_options())),
            Self::Netns(netns) => Ok((netns.netns.clone(), netns.socket_options())),
            Self::Device(_) | Self::Socket(_) | Self::Context(_) | Self::Event(_) | Self::Port(_) => Err(
                Failure::invalid(format!("{} is no place for sockets: give an engine or a name space", self.name())),
            ),
        }
    }
}

/// An object under its number.
pub(crate) struct HandleEntry {
    number: c_int,
    poisoned: AtomicBool,
    object: Object,
}

/// The places of a process.
pub(crate) struct HandleTable {
    chunks: [OnceLock<Box<[ArcSwapOption<HandleEntry>]>>; CHUNKS],
    places: Mutex<HandlePlaces>,
}

struct HandlePlaces {
    /// Those below were used.
    used: u32,
    /// Those that were closed, oldest first, with the generation that comes next.
    closed: VecDeque<(u32, u32)>,
}

/// An object that a call works on.
pub(crate) struct FoundHandle(Guard<Option<Arc<HandleEntry>>>);

impl Deref for FoundHandle {
    type Target = HandleEntry;

    #[inline]
    fn deref(&self) -> &HandleEntry {
        self.0.as_deref().expect("looked at when it was found")
    }
}

/// The handles of this process.
pub(crate) static HANDLES: HandleTable = HandleTable::new();

fn unknown(number: c_int) -> Failure {
    Failure::new(libc::EBADF, format!("{number} is no handle, or one that was closed"))
}

impl HandleTable {
    const fn new() -> Self {
        let places = HandlePlaces { used: 0, closed: VecDeque::new() };
        Self { chunks: [const { OnceLock::new() }; CHUNKS], places: Mutex::new(places) }
    }

    /// Gives an object a number.
    pub(crate) fn add(&self, object: Object) -> Result<c_int, Failure> {
        Ok(self.reserve()?.fill(object))
    }

    /// Sets a number aside, for an object that is not to be made in vain.
    pub(crate) fn reserve(&self) -> Result<ReservedHandle<'_>, Failure> {
        let (place, generation) = self
            .places()
            .next()
            .ok_or_else(|| Failure::new(libc::EMFILE, "the process has as many handles as there can be: close some"))?;
        Ok(ReservedHandle { table: self, number: (generation << PLACE_BITS | place).cast_signed(), is_filled: false })
    }

    #[inline]
    fn slot(&self, number: c_int) -> Option<&ArcSwapOption<HandleEntry>> {
        let number = u32::try_from(number).ok()?;
        let place = number as usize & ((1 << PLACE_BITS) - 1);
        Some(&self.chunks[place / CHUNK].get()?[place % CHUNK])
    }

    /// What a number stands for, whatever has become of it.
    #[inline]
    fn find(&self, number: c_int) -> Result<FoundHandle, Failure> {
        let guard = self
            .slot(number)
            .map(ArcSwapOption::load)
            .filter(|guard| guard.as_deref().is_some_and(|entry| entry.number == number));
        guard.map(FoundHandle).ok_or_else(|| unknown(number))
    }

    /// What a call learns of another handle than its own.
    pub(crate) fn with<R>(&self, number: c_int, ask: impl FnOnce(&Object) -> Result<R, Failure>) -> Result<R, Failure> {
        let found = self.find(number)?;
        found.check()?;
        ask(&found.object)
    }

    /// Takes an engine's number back, poisoned or not.
    pub(crate) fn remove_engine(&self, number: c_int) -> Result<(), Failure> {
        self.find(number)?.object.engine()?;
        self.remove(number)
    }

    /// Takes a number back; what it stands for goes when the last call on it ends.
    pub(crate) fn remove(&self, number: c_int) -> Result<(), Failure> {
        let slot = self.slot(number).ok_or_else(|| unknown(number))?;
        // Writers take turns: what is stored here under this number is what is taken out.
        let mut places = self.places();
        let is_it = slot.load().as_deref().is_some_and(|entry| entry.number == number);
        let taken = if is_it { slot.swap(None) } else { None };
        if let Some(entry) = &taken {
            places.give_back(entry.number.cast_unsigned());
        }
        // It may take long to go, and may close others.
        drop(places);
        taken.map(drop).ok_or_else(|| unknown(number))
    }

    fn places(&self) -> MutexGuard<'_, HandlePlaces> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number without an object; what it is not filled with takes it back.
pub(crate) struct ReservedHandle<'a> {
    table: &'a HandleTable,
    number: c_int,
    is_filled: bool,
}

impl ReservedHandle<'_> {
    /// The number is this object's.
    pub(crate) fn fill(mut self, object: Object) -> c_int {
        let place = self.number.cast_unsigned() as usize & ((1 << PLACE_BITS) - 1);
        let new = || (0..CHUNK).map(|_| ArcSwapOption::empty()).collect();
        let chunk = self.table.chunks[place / CHUNK].get_or_init(new);
        let entry = HandleEntry { number: self.number, poisoned: AtomicBool::new(false), object };
        chunk[place % CHUNK].store(Some(Arc::new(entry)));
        self.is_filled = true;
        self.number
    }
}

impl Drop for ReservedHandle<'_> {
    fn drop(&mut self) {
        if !self.is_filled {
            self.table.places().give_back(self.number.cast_unsigned());
        }
    }
}

impl HandlePlaces {
    fn next(&mut self) -> Option<(u32, u32)> {
        if self.used < 1 << PLACE_BITS && self.closed.len() <= REST {
            self.used += 1;
            return Some((self.used - 1, GENERATION_MIN));
        }
        self.closed.pop_front()
    }

    fn give_back(&mut self, number: u32) {
        let (place, generation) = (number & ((1 << PLACE_BITS) - 1), number >> PLACE_BITS);
        self.closed.push_back((place, if generation == GENERATION_MAX { GENERATION_MIN } else { generation + 1 }));
    }
}

/// Carries out a call on a handle. A panic in it poisons the handle.
#[inline]
pub(crate) fn on<A: CallResult>(number: c_int, call: impl FnOnce(&Object) -> Result<A, Failure>) -> A {
    enter(|| {
        let found = HANDLES.find(number)?;
        found.call(call)
    })
}

impl HandleEntry {
    #[inline]
    fn check(&self) -> Result<(), Failure> {
        // Relaxed: a call that began before may not see it, as one that ended before.
        if self.poisoned.load(Ordering::Relaxed) {
            return Err(Failure::new(
                libc::ENOTRECOVERABLE,
                "a call on this handle has met a mistake of the library: close the handle, and report it",
            ));
        }
        Ok(())
    }

    #[inline]
    fn call<A>(&self, call: impl FnOnce(&Object) -> Result<A, Failure>) -> Result<A, Failure> {
        self.check()?;
        catch_unwind(AssertUnwindSafe(|| call(&self.object))).unwrap_or_else(|panic| {
            self.poisoned.store(true, Ordering::Relaxed);
            Err(of_panic(panic))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number_of(result: Result<impl Sized, Failure>) -> Option<c_int> {
        result.err().map(|failure| failure.number())
    }

    #[test]
    fn a_number_that_was_closed_is_refused_whatever_came_after() {
        let table = HandleTable::new();
        let mut closed = Vec::new();
        for _ in 0..4 * REST {
            let number = table.add(Object::Event(UserEvent::new())).expect("a number");
            assert!(number >= 1 << PLACE_BITS && !closed.contains(&number));
            assert!(table.find(number).is_ok());
            table.remove(number).expect("it is there");
            closed.push(number);
        }
        // HandlePlaces were used again: there are fewer of them than numbers.
        assert!(table.places().used as usize <= REST + 2);
        for number in closed {
            assert_eq!(number_of(table.find(number)), Some(libc::EBADF));
            assert_eq!(number_of(table.remove(number)), Some(libc::EBADF));
        }
        for number in [-1, 0, 3, 1 << PLACE_BITS, c_int::MAX] {
            assert_eq!(number_of(table.find(number)), Some(libc::EBADF), "{number}");
        }
    }

    #[test]
    fn generations_begin_anew() {
        let mut places = HandlePlaces { used: 1, closed: VecDeque::new() };
        places.give_back(GENERATION_MAX << PLACE_BITS | 5);
        places.give_back(7 << PLACE_BITS | 6);
        assert_eq!(places.closed, [(5, GENERATION_MIN), (6, 8)]);
    }

    #[test]
    fn there_is_a_last_number() {
        let mut places = HandlePlaces { used: (1 << PLACE_BITS) - 1, closed: VecDeque::new() };
        assert_eq!(places.next(), Some(((1 << PLACE_BITS) - 1, GENERATION_MIN)));
        assert_eq!(places.next(), None);
        places.give_back(GENERATION_MIN << PLACE_BITS);
        assert_eq!(places.next(), Some((0, GENERATION_MIN + 1)));
    }

    #[test]
    fn what_was_closed_lives_until_the_call_ends() {
        let table = HandleTable::new();
        let event = UserEvent::new();
        let number = table.add(Object::Event(event.clone())).expect("a number");
        let found = table.find(number).expect("it is there");
        table.remove(number).expect("it is there");
        found.object.event().expect("an event").trigger();
        assert!(event.is_triggered());
    }

    #[test]
    fn one_close_of_many_takes_it() {
        let table = HandleTable::new();
        for _ in 0..100 {
            let number = table.add(Object::Event(UserEvent::new())).expect("a number");
            let took: usize = std::thread::scope(|scope| {
                let all = [(); 3].map(|()| scope.spawn(|| usize::from(table.remove(number).is_ok())));
                all.into_iter().map(|thread| thread.join().expect("no panic")).sum()
            });
            assert_eq!(took, 1);
        }
    }

    #[test]
    fn a_panic_poisons_the_handle_alone() {
        let [one, other] = [(); 2].map(|()| HANDLES.add(Object::Event(UserEvent::new())).expect("a number"));
        assert_eq!(on::<c_int>(one, |_| panic!("a mistake")), -1);
        assert_eq!(on(one, |_| Ok(1)), -1);
        let errno = std::io::Error::last_os_error().raw_os_error();
        assert_eq!(errno, Some(libc::ENOTRECOVERABLE));
        assert_eq!(number_of(HANDLES.with(one, |_| Ok(()))), Some(libc::ENOTRECOVERABLE));
        assert_eq!(on(other, |_| Ok(1)), 1);
        HANDLES.remove(one).expect("a poisoned one can be closed");
        HANDLES.remove(other).expect("it is there");
    }

    #[test]
    fn a_handle_of_another_kind_is_told() {
        let event = Object::Event(UserEvent::new());
        assert_eq!(number_of(event.socket()), Some(libc::ENOTSOCK));
        assert_eq!(number_of(event.context()), Some(libc::EINVAL));
        assert!(event.event().is_ok());
    }
}
