//! Inbox, and the value that contexts leave messages for.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::{model, without};
use crate::sync::Point;
use crate::{Inbox, Owned, Owner, Release};

/// Two threads push, one of them takes meanwhile; each message comes once.
fn an_inbox_hands_messages_over() {
    model(|| {
        let inbox = Arc::new(Inbox::new());
        let other = inbox.clone();
        let thread = thread::spawn(move || {
            other.push(Box::new(1_u32));
        });
        inbox.push(Box::new(2));
        let mut sum: u32 = inbox.take().map(|message| *message).sum();
        thread.join().unwrap();
        sum += inbox.take().map(|message| *message).sum::<u32>();
        assert_eq!(sum, 3, "each message once");
    });
}

#[test]
fn inbox() {
    an_inbox_hands_messages_over();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn inbox_needs_the_ordering_of_the_push() {
    without(Point::InboxPush, an_inbox_hands_messages_over);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn inbox_needs_the_ordering_of_the_take() {
    without(Point::InboxTake, an_inbox_hands_messages_over);
}

/// A listener closes while a connection is pushed: the thread that closes takes it, or the thread that pushed sees that it is closed.
fn a_taker_publishes_what_it_did() {
    model(|| {
        let shared = Arc::new((Inbox::new(), AtomicU32::new(0)));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.0.push(());
            other.1.load(Ordering::Relaxed) == 1
        });
        shared.1.store(1, Ordering::Relaxed);
        let taken = shared.0.take().count();
        let saw = thread.join().unwrap();
        assert!(taken == 1 || saw, "nobody cares for it");
    });
}

#[test]
fn inbox_taker() {
    a_taker_publishes_what_it_did();
}

#[test]
#[should_panic(expected = "nobody cares")]
fn inbox_taker_needs_the_ordering_of_the_take() {
    without(Point::InboxTake, a_taker_publishes_what_it_did);
}

#[test]
#[should_panic(expected = "nobody cares")]
fn inbox_taker_needs_the_ordering_of_the_push() {
    without(Point::InboxPush, a_taker_publishes_what_it_did);
}

/// Works off messages until no thread leaves any more; true if a waiter has to be woken.
fn work_off(mut owner: Owner<'_, u32, u32>) -> bool {
    loop {
        for message in owner.messages() {
            *owner += message;
        }
        match owner.release(0) {
            Release::Noted(again) => owner = again,
            Release::Freed { wake } => return wake,
        }
    }
}

/// A program owns the value while a softirq has a message: it is worked off by one of the two.
fn no_message_is_stranded() {
    model(|| {
        let owned = Arc::new(Owned::new(0));
        let other = owned.clone();
        let softirq = thread::spawn(move || {
            if let Some(owner) = other.post(1) {
                work_off(owner);
            }
        });
        if let Some(mut owner) = owned.try_own() {
            *owner += 10;
            work_off(owner);
        }
        softirq.join().unwrap();
        let owner = owned.try_own().expect("both have let go");
        assert!(*owner == 1 || *owner == 11, "a message is stranded");
    });
}

#[test]
fn owned() {
    no_message_is_stranded();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn owned_needs_the_ordering_of_the_leave() {
    without(Point::CombiningLeave, no_message_is_stranded);
}

#[test]
#[should_panic(expected = "stranded")]
fn owned_needs_the_ordering_of_the_note() {
    without(Point::CombiningNote, no_message_is_stranded);
}

#[test]
#[should_panic(expected = "stranded")]
fn owned_needs_the_ordering_of_its_reader() {
    without(Point::CombiningRead, no_message_is_stranded);
}

/// A program that finds the value owned and goes to sleep is named to the thread that lets go.
fn no_sleeper_is_forgotten() {
    model(|| {
        let owned = Arc::new(Owned::<u32, u32>::new(0));
        let woken = Arc::new(AtomicU32::new(0));
        let (other, rung) = (owned.clone(), woken.clone());
        let owner = owned.try_own().expect("free");
        let program = thread::spawn(move || {
            other.wait_begins();
            match other.own_or_note() {
                Some(owner) => {
                    other.wait_ends();
                    work_off(owner);
                    false
                }
                None => true,
            }
        });
        if work_off(owner) {
            rung.store(1, Ordering::Relaxed);
        }
        let asleep = program.join().unwrap();
        assert!(!asleep || woken.load(Ordering::Relaxed) == 1, "asleep for ever");
    });
}

#[test]
fn sleeper() {
    no_sleeper_is_forgotten();
}

#[test]
#[should_panic(expected = "asleep for ever")]
fn sleeper_needs_the_ordering_of_the_note() {
    without(Point::CombiningNote, no_sleeper_is_forgotten);
}

#[test]
#[should_panic(expected = "asleep for ever")]
fn sleeper_needs_the_ordering_of_its_reader() {
    without(Point::CombiningRead, no_sleeper_is_forgotten);
}
