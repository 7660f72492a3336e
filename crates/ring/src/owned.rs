//! A value that programs own for as long as they need, and that no engine thread ever waits for.
//!
//! As a socket in the kernel (`include/net/sock.h` `lock_sock`, `sk_add_backlog`, `release_sock`): a program owns it; a
//! context that may not wait (a softirq, a timer) works on it if it is free, and else leaves a message, which the owner
//! works off before it lets go. In the kernel such a context spins for the word, because the thread that holds that has a
//! processor. A thread may lose its processor anywhere, so here contexts that find each other leave messages as well.
//!
//! | who | finds it free | finds it owned |
//! |---|---|---|
//! | [`Owned::post`] | owns it, and works off what was left | leaves the message, goes on |
//! | [`Owned::try_own`] | owns it | goes on |
//! | [`Owned::own_or_note`] | owns it | sleeps until the owner tells that it is free ([`Release::Freed`]) |
//!
//! Nothing is stranded: a message is pushed *before* the note to the owner, and the owner takes messages *after* it has
//! taken the note ([`CombiningLock`]).

use core::ops::{Deref, DerefMut};

use crate::combining_lock::{CombiningLock, Inside};
use crate::inbox::{Inbox, Letters};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A value with one owner at a time, and messages to the owner.
#[repr(C)]
pub struct Owned<T, M> {
    inbox: Inbox<M>,
    /// What the messages weigh that were left and not yet forgotten.
    weight: AtomicU64,
    /// Threads that sleep, or are about to, until it is free.
    waiting: AtomicU32,
    /// The last: what its value begins with lies beside the words of the owners.
    lock: CombiningLock<T>,
}

/// The message was not left: together with those before it it would weigh too much.
#[derive(Debug, PartialEq, Eq)]
pub struct TooMuch<M>(pub M);

impl<T, M> Owned<T, M> {
    /// Bytes from the beginning of this to the value.
    pub const VALUE_OFFSET: usize = core::mem::offset_of!(Self, lock) + CombiningLock::<T>::VALUE_OFFSET;

    /// A value that no thread owns.
    pub fn new(value: T) -> Self {
        Self {
            lock: CombiningLock::new(value),
            inbox: Inbox::new(),
            weight: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
        }
    }

    /// Owns the value if it is free.
    #[inline]
    pub fn try_own(&self) -> Option<Owner<'_, T, M>> {
        self.lock.try_enter().map(|inside| self.owner(inside))
    }

    /// Leaves a message to the owner; `Some` = there is none, so the caller is it, and works off the messages.
    pub fn post(&self, message: M) -> Option<Owner<'_, T, M>> {
        self.inbox.push(message);
        self.lock.enter_or_note().map(|inside| self.owner(inside))
    }

    /// As [`post`](Self::post) for a message of some weight, if it and those that were left before weigh at most `max`.
    /// An owner forgets weights when it has let go, so what it works off in one go has a bound.
    ///
    /// # Errors
    /// The message, if it is too much.
    pub fn post_weighed(&self, message: M, weight: u64, max: u64) -> Result<Option<Owner<'_, T, M>>, TooMuch<M>> {
        if self.reserve(weight, max) { Ok(self.post(message)) } else { Err(TooMuch(message)) }
    }

    /// Counts a message of some weight as left, before it is made: [`post`](Self::post) it then, or
    /// [`unreserve`](Self::unreserve). False if it is too much, and nothing is counted.
    #[must_use = "false means that there is no room for the message"]
    pub fn reserve(&self, weight: u64, max: u64) -> bool {
        // Relaxed: a limit, not a hand-over.
        let before = self.weight.fetch_add(weight, Ordering::Relaxed);
        let fits = before + weight <= max;
        if !fits {
            self.unreserve(weight);
        }
        fits
    }

    /// Forgets the weight of a message that was not left after all.
    pub fn unreserve(&self, weight: u64) {
        self.weight.fetch_sub(weight, Ordering::Relaxed);
    }

    /// Owns the value, or leaves a note: the owner will see what was done before, and is given [`Release::Noted`]. Between
    /// [`wait_begins`](Self::wait_begins) and [`wait_ends`](Self::wait_ends) it says that a thread waits: the owner will be
    /// given [`Release::Freed`] with `wake`.
    pub fn own_or_note(&self) -> Option<Owner<'_, T, M>> {
        self.lock.enter_or_note().map(|inside| self.owner(inside))
    }

    /// The calling thread will wait.
    pub fn wait_begins(&self) {
        // Relaxed: the note that follows publishes it.
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// The calling thread waits no more.
    pub fn wait_ends(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a thread owns it, as a hint.
    #[inline]
    pub fn is_owned(&self) -> bool {
        self.lock.is_entered()
    }

    fn owner<'a>(&'a self, inside: Inside<'a, T>) -> Owner<'a, T, M> {
        Owner { owned: self, inside }
    }
}

/// The value in hand. A plain drop lets go without a look at the messages: they lie there, with their weights, until the
/// next one is left. So the thread that is left messages lets go with [`release`](Self::release) when it panics, too.
#[must_use = "let go with `release`, which tells of messages that others have left"]
pub struct Owner<'a, T, M> {
    owned: &'a Owned<T, M>,
    inside: Inside<'a, T>,
}

/// What came of letting go.
#[must_use]
pub enum Release<'a, T, M> {
    /// Not yet: messages may have been left, which are visible now.
    Noted(Owner<'a, T, M>),
    /// The value is free. With `wake` a thread sleeps until it is, and has to be woken.
    Freed {
        /// A thread waits.
        wake: bool,
    },
}

impl<'a, T, M> Owner<'a, T, M> {
    /// The messages that were left, oldest first.
    #[inline]
    pub fn messages(&self) -> Letters<M> {
        self.owned.inbox.take_any()
    }

    /// Lets go, unless there is a note. `weight`: of the messages that this owner has worked off.
    #[inline]
    pub fn release(self, weight: u64) -> Release<'a, T, M> {
        let Self { owned, inside } = self;
        // Relaxed: who began to wait before the last note was read is visible; who begins later leaves a new note.
        let wake = owned.waiting.load(Ordering::Relaxed) > 0;
        if let Some(inside) = inside.leave() {
            return Release::Noted(Owner { owned, inside });
        }
        if weight > 0 {
            owned.weight.fetch_sub(weight, Ordering::Relaxed);
        }
        Release::Freed { wake }
    }
}

impl<T: Extend<M>, M> Owner<'_, T, M> {
    /// For a line that others leave new members to: takes in who came, has it tidied up, and lets go when no thread has come
    /// meanwhile. No thread may wait for it ([`Owned::own_or_note`]).
    pub fn line_up(mut self, mut tidy: impl FnMut(&mut T)) {
        loop {
            let new = self.messages();
            self.extend(new);
            tidy(&mut self);
            match self.release(0) {
                Release::Noted(again) => self = again,
                Release::Freed { .. } => return,
            }
        }
    }
}

impl<T, M> Deref for Owner<'_, T, M> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inside
    }
}

impl<T, M> DerefMut for Owner<'_, T, M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inside
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn freed<T, M>(release: Release<'_, T, M>) -> bool {
        match release {
            Release::Freed { wake } => wake,
            Release::Noted(_) => panic!("there is a note"),
        }
    }

    #[test]
    fn a_message_is_worked_off_before_the_owner_lets_go() {
        let owned = Owned::new(0);
        let owner = owned.try_own().expect("free");
        assert!(owned.try_own().is_none() && owned.is_owned());
        assert!(owned.post(5).is_none() && owned.post(6).is_none());
        let Release::Noted(mut owner) = owner.release(0) else { panic!("it was left a message") };
        for message in owner.messages() {
            *owner += message;
        }
        assert_eq!(*owner, 11);
        assert!(!freed(owner.release(0)));
        let owner = owned.post(7).expect("free again: who posts owns it");
        assert_eq!(owner.messages().collect::<Vec<_>>(), [7]);
        assert!(!freed(owner.release(0)));
    }

    #[test]
    fn weights_are_forgotten_when_the_owner_has_let_go() {
        let owned = Owned::new(());
        let owner = owned.try_own().expect("free");
        assert!(owned.post_weighed(1, 60, 100).is_ok());
        let Err(TooMuch(refused)) = owned.post_weighed(2, 41, 100) else { panic!("101 is too much") };
        assert_eq!(refused, 2);
        assert!(owned.post_weighed(3, 40, 100).is_ok(), "a refusal weighs nothing");
        let Release::Noted(owner) = owner.release(0) else { panic!("it was left messages") };
        assert_eq!(owner.messages().collect::<Vec<_>>(), [1, 3]);
        assert!(owned.post_weighed(4, 1, 100).is_err(), "taken is not forgotten");
        assert!(!freed(owner.release(100)));
        assert!(owned.post_weighed(5, 100, 100).is_ok_and(|owner| owner.is_some()));
    }

    #[test]
    fn room_is_reserved_before_a_message_is_made() {
        let owned = Owned::new(());
        assert!(owned.reserve(100, 100) && !owned.reserve(1, 100));
        owned.unreserve(1);
        assert!(owned.reserve(1, 100) && !owned.reserve(1, 100), "what was refused counts no more");
        let owner = owned.post(1).expect("it is free");
        assert_eq!(owner.messages().collect::<Vec<_>>(), [1]);
        assert!(!freed(owner.release(100)));
        assert!(owned.reserve(100, 100));
    }

    #[test]
    fn a_line_takes_in_those_who_came_meanwhile() {
        let owned = Owned::new(vec![1]);
        let owner = owned.try_own().expect("free");
        assert!(owned.post(2).is_none());
        let mut seen = Vec::new();
        owner.line_up(|line| {
            seen.push(line.clone());
            if line.len() == 2 {
                assert!(owned.post(3).is_none(), "it is owned while it is tidied up");
            }
        });
        assert_eq!(seen, [vec![1, 2], vec![1, 2, 3]]);
        assert!(!owned.is_owned());
    }

    #[test]
    fn a_waiter_is_named() {
        let owned = Owned::<_, ()>::new(());
        let owner = owned.try_own().expect("free");
        owned.wait_begins();
        assert!(owned.own_or_note().is_none());
        let Release::Noted(owner) = owner.release(0) else { panic!("a thread waits") };
        assert!(freed(owner.release(0)));
        let owner = owned.own_or_note().expect("free");
        owned.wait_ends();
        assert!(!freed(owner.release(0)));
    }
}
