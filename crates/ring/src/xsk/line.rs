//! The interrupt of a queue as one word, for a source that interrupts once per arming (`EPOLLONESHOT`).
//!
//! | state | the source | next |
//! |---|---|---|
//! | `ARMED` | says the next packet, or has said one that was not [heard](OnceLine::hear) | heard: `FIRED` |
//! | `FIRED` | is there and says nothing | [armed](OnceLine::arm): `ARMED` |
//! | `AWAY` | is not there | [armed](OnceLine::arm): `ARMED` |
//!
//! and from everywhere to `AWAY` where the source is [put away](OnceLine::put_away). Whether it is `AWAY` changes under the
//! lock alone, and so does what the source is told.

use std::sync::TryLockError;

use crate::sync::{AtomicU32, Mutex, MutexGuard, Ordering, Point, replace};

const ARMED: u32 = 0;
const FIRED: u32 = 1;
const AWAY: u32 = 2;

/// What the source has to be told so that it interrupts once more.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Rearm {
    /// It is there: say so again (`EPOLL_CTL_MOD`).
    Again,
    /// It is not there (`EPOLL_CTL_ADD`).
    Anew,
}

/// An interrupt line whose source is told of each arming. `W` is who waits for the interrupt.
///
/// The words of the line need no order of their own, because a queue has one owner at a time, by a word that does order
/// (`StateCell`). Who hears an interrupt hears it **before** it makes any thread the owner or leaves a mark on the one there
/// is; who arms does it **after** it has given the ownership up. So each of the two sees what the one before it did:
///
/// * an owner that polls for what was heard sees `FIRED` when it arms, and tells the source;
/// * an owner that saw `ARMED` although the interrupt was on its way is marked, or not the owner any more when it is heard;
/// * an owner that finds the line put away, did it itself or comes after the one that did.
pub struct OnceLine<W> {
    state: AtomicU32,
    watcher: Mutex<Option<W>>,
}

impl<W> Default for OnceLine<W> {
    fn default() -> Self {
        Self { state: AtomicU32::new(AWAY), watcher: Mutex::new(None) }
    }
}

impl<W> OnceLine<W> {
    /// The next packet interrupts, or an interrupt is on its way that no thread has heard yet.
    #[inline]
    pub fn is_armed(&self) -> bool {
        // Relaxed: see the type.
        self.state.load(Ordering::Relaxed) == ARMED
    }

    /// The source is not there.
    #[inline]
    pub fn is_away(&self) -> bool {
        // Relaxed: see the type.
        self.state.load(Ordering::Relaxed) == AWAY
    }

    /// One interrupt for what comes from now on, unless it is armed or no thread waits. The source looks at the queue once more
    /// when it is told. False: another thread, perhaps without a processor, tells it something at this moment. No thread waits
    /// for that: look at the queue again, and arm again.
    ///
    /// # Errors
    /// What `tell` says; the line is as it was before.
    pub fn arm<E>(&self, tell: impl FnOnce(&W, Rearm) -> Result<(), E>) -> Result<bool, E> {
        let Some(watcher) = self.try_watcher() else { return Ok(false) };
        let Some(watcher) = &*watcher else { return Ok(true) };
        // Relaxed: the lock orders it, but for `FIRED`, see the type.
        let before = self.state.load(Ordering::Relaxed);
        let rearm = match before {
            ARMED => return Ok(true),
            FIRED => Rearm::Again,
            _ => Rearm::Anew,
        };
        // Before the source is told, for the interrupt may be heard before we are back.
        self.state.store(ARMED, Ordering::Relaxed);
        tell(watcher, rearm).inspect_err(|_| self.state.store(before, Ordering::Relaxed))?;
        Ok(true)
    }

    /// The interrupt has come. To be called before any thread is scheduled for it. False: nothing is to be scheduled, for the
    /// line was not armed. It moved, and the other of its two sources was heard, or it was put away since. The thread that made it
    /// so polls the queue, or is about to be scheduled, and looks at it once more when it arms the line.
    #[inline]
    #[must_use]
    pub fn hear(&self) -> bool {
        // Relaxed: see the type. An interrupt from before the line moved, or came back, makes one `FIRED` that is armed,
        // which costs the next to arm it a call.
        self.state.compare_exchange(ARMED, FIRED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Takes the source away until the line is armed again, by the owner of the queue. False if no thread waits for the line, or
    /// another thread tells the source something at this moment.
    pub fn put_away(&self, leave: impl FnOnce(&W)) -> bool {
        let Some(watcher) = self.try_watcher() else { return false };
        watcher.as_ref().is_some_and(|watcher| {
            self.leave(watcher, leave);
            true
        })
    }

    /// A thread waits for the interrupt from now on, and the line is armed.
    ///
    /// # Errors
    /// What `tell` says; no thread waits then.
    pub fn watch<E>(&self, watcher: W, tell: impl FnOnce(&W) -> Result<(), E>) -> Result<(), E> {
        let mut place = self.watcher.lock().expect("no panic while held");
        assert!(place.is_none(), "one at a time waits for a line");
        self.state.store(ARMED, Ordering::Relaxed);
        tell(&watcher).inspect_err(|_| self.state.store(AWAY, Ordering::Relaxed))?;
        *place = Some(watcher);
        Ok(())
    }

    /// Another waits for the interrupt instead, and the line is armed. For a moment the source is there for both and may
    /// interrupt both: [`Self::hear`] tells who is the second.
    ///
    /// # Errors
    /// What `tell` says; who waited before waits still. An unmask in between may have relied on the line being armed: the
    /// queue is to be looked at once more.
    pub fn move_to<E>(
        &self,
        watcher: W,
        tell: impl FnOnce(&W) -> Result<(), E>,
        leave: impl FnOnce(&W),
    ) -> Result<(), E> {
        let mut place = self.watcher.lock().expect("no panic while held");
        // Before the source is told, for the interrupt may be heard before we are back. In one step: an interrupt that is
        // heard between two would be forgotten, and a line that failed to move would stay armed without its source.
        let before = replace(&self.state, ARMED, Point::LineMove);
        tell(&watcher).inspect_err(|_| {
            // One that was armed may be heard by now.
            if before != ARMED {
                self.state.store(before, Ordering::Relaxed);
            }
        })?;
        if let Some(old) = place.replace(watcher).filter(|_| before != AWAY) {
            leave(&old);
        }
        Ok(())
    }

    /// No thread does any more. False if no thread did.
    pub fn unwatch(&self, leave: impl FnOnce(&W)) -> bool {
        let mut place = self.watcher.lock().expect("no panic while held");
        let Some(watcher) = place.take() else { return false };
        self.leave(&watcher, leave);
        true
    }

    /// None if another thread has the lock.
    fn try_watcher(&self) -> Option<MutexGuard<'_, Option<W>>> {
        match self.watcher.try_lock() {
            Ok(watcher) => Some(watcher),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => panic!("no panic while held"),
        }
    }

    fn leave(&self, watcher: &W, leave: impl FnOnce(&W)) {
        // Swapped: an interrupt that is heard in between finds `AWAY` and leaves it.
        if self.state.swap(AWAY, Ordering::Relaxed) != AWAY {
            leave(watcher);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    type Told = std::cell::RefCell<Vec<&'static str>>;

    fn arm(line: &OnceLine<()>, told: &Told, works: bool) -> bool {
        let tell = |(): &(), rearm| {
            told.borrow_mut().push(if rearm == Rearm::Again { "again" } else { "anew" });
            if works { Ok(()) } else { Err(()) }
        };
        line.arm(tell) == Ok(true)
    }

    #[test]
    fn the_source_is_told_what_it_does_not_know() {
        let (line, told) = (OnceLine::default(), Told::default());
        assert!(arm(&line, &told, true) && line.is_away(), "no thread waits");
        let first = |(): &()| {
            told.borrow_mut().push("first");
            Ok::<_, ()>(())
        };
        assert_eq!(line.watch((), first), Ok(()));
        assert!(arm(&line, &told, true), "it is armed");
        assert!(line.hear() && !line.hear(), "one interrupt for one arming");
        assert!(!line.is_armed() && !arm(&line, &told, false), "the source refused");
        assert!(!line.is_armed() && !line.is_away());
        assert!(arm(&line, &told, true) && line.is_armed());
        let leave = |(): &()| told.borrow_mut().push("left");
        assert!(line.put_away(leave) && line.put_away(leave) && line.is_away());
        assert!(!line.hear() && line.is_away(), "an old interrupt");
        assert!(arm(&line, &told, true));
        assert!(line.unwatch(leave) && !line.unwatch(leave) && !line.put_away(leave));
        assert_eq!(*told.borrow(), ["first", "again", "again", "left", "anew", "left"]);
    }

    #[test]
    fn a_line_moves_as_a_whole_or_not_at_all() {
        let (line, left) = (OnceLine::default(), std::cell::RefCell::new(Vec::new()));
        let leave = |who: &&'static str| left.borrow_mut().push(*who);
        assert_eq!(line.watch("first", |_| Ok::<_, ()>(())), Ok(()));
        assert_eq!(line.move_to("second", |_| Err("no memory"), leave), Err("no memory"));
        assert!(line.is_armed());
        assert!(line.hear());
        assert_eq!(line.move_to("second", |_| Err("no memory"), leave), Err("no memory"));
        assert!(!line.is_armed() && !line.is_away(), "heard, and not armed since");
        assert_eq!(line.move_to("second", |_| Ok::<_, ()>(()), leave), Ok(()));
        assert!(line.is_armed() && line.put_away(leave));
        assert_eq!(line.move_to("third", |_| Err("no memory"), leave), Err("no memory"));
        assert!(line.is_away());
        assert_eq!(line.move_to("third", |_| Ok::<_, ()>(()), leave), Ok(()), "it has left already");
        assert!(line.is_armed() && line.unwatch(leave));
        assert_eq!(*left.borrow(), ["first", "second", "third"]);
    }

    #[test]
    fn no_thread_waits_for_one_that_tells_the_source() {
        let (line, told) = (OnceLine::default(), Told::default());
        assert_eq!(line.watch((), |()| Ok::<_, ()>(())), Ok(()));
        let meanwhile = |(): &()| {
            assert_eq!(line.arm(|(), _| Err(())), Ok(false), "the source is not told");
            assert!(!line.put_away(|()| panic!("the source is not taken away")));
        };
        assert!(line.put_away(meanwhile) && line.is_away());
        assert!(arm(&line, &told, true) && line.is_armed());
    }

    #[test]
    fn a_source_that_cannot_be_had_leaves_no_thread_waiting() {
        let line = OnceLine::default();
        assert_eq!(line.watch((), |()| Err("no memory")), Err("no memory"));
        assert!(line.is_away() && !line.unwatch(|()| ()));
    }
}
