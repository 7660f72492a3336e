//! Frees threads that ring a peer and are made to wait for it.
//!
//! A peer has the open file of the eventfd that we ring: it can fill it and take its non-blocking flag away, and the next
//! write waits in the kernel, with whatever the ringer holds. So a thread that waits for no thread looks at the rings while
//! there are any. A counter at its end is proof of intent (an honest one gets there after 2^64 rings): the guard retires
//! the kick, takes the count away until the ringer is back, and the control thread closes the peer. A ringer that is only
//! slow, because another thread has its processor, is left alone.
//!
//! It sleeps while no thread rings: the first ring after that wakes it, and it looks for some time after the last one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use napier_core::memif::times::{GuardPace, GuardStep};
use napier_ring::memif::KickLook;

use crate::bell::GuardBell;
use crate::kick::Kick;

/// What is watched over. One thread is the guard.
pub(crate) struct Guard {
    kicks: Mutex<Vec<WatchedRings>>,
    bell: Arc<GuardBell>,
    stopping: AtomicBool,
}

struct WatchedRings {
    kick: Arc<Kick>,
    seen: KickLook,
}

/// What a look came to.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
struct RingsSeen {
    /// A thread has rung since the last look, or does now.
    rings: bool,
    /// A ringer waits still.
    stuck: bool,
    /// A peer was found out.
    news: bool,
}

impl Guard {
    pub(crate) fn new() -> Self {
        Self { kicks: Mutex::default(), bell: Arc::default(), stopping: AtomicBool::new(false) }
    }

    /// What a ringer rings once it has begun.
    pub(crate) fn bell(&self) -> &Arc<GuardBell> {
        &self.bell
    }

    /// Watches over the rings of `kick` from now on; to be called before any thread rings.
    pub(crate) fn watch(&self, kick: &Arc<Kick>) {
        self.lock().push(WatchedRings { kick: kick.clone(), seen: KickLook::default() });
    }

    /// Forgets those that are retired and of which none is under way: none ever will be.
    pub(crate) fn forget_retired(&self) {
        self.lock().retain(|watched| !watched.is_over());
    }

    /// Lets the guard look at once: what was retired may be under way.
    pub(crate) fn look_now(&self) {
        self.bell.ring();
    }

    /// Ends [`run`](Self::run) as soon as no thread waits for a peer: no thread begins to ring from now on.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release); // Acquire in `is_stopping`
        self.lock().iter().for_each(|watched| watched.kick.retire());
        self.bell.ring();
    }

    /// Guards until [`stop`](Self::stop); tells of each peer that is to be closed.
    pub(crate) fn run(&self, tell: impl Fn()) {
        let mut pace = GuardPace::default();
        while !self.is_stopping() || !self.lock().is_empty() {
            let RingsSeen { rings, stuck, news } = self.look();
            if news {
                tell();
            }
            match pace.looked(rings, stuck) {
                GuardStep::LookAfter(span) => std::thread::sleep(Duration::from_nanos(span.ns)),
                GuardStep::AwaitRing => {
                    self.bell.sleep(|| self.is_stopping() || self.has_rung());
                }
            }
        }
    }

    fn look(&self) -> RingsSeen {
        let mut watched = self.lock();
        let seen = watched.iter_mut().fold(RingsSeen::default(), |seen, watched| seen.and(watched.look()));
        // Who closed the peer may not have waited for the last ringer.
        watched.retain(|watched| !watched.is_over());
        seen
    }

    fn has_rung(&self) -> bool {
        self.lock().iter().any(|watched| watched.kick.look() != watched.seen || watched.seen.is_under_way())
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire) // Release in `stop`
    }

    // Held for a look only; no thread waits with it held.
    fn lock(&self) -> MutexGuard<'_, Vec<WatchedRings>> {
        self.kicks.lock().expect("no panic while held")
    }
}

impl RingsSeen {
    fn and(self, other: Self) -> Self {
        Self { rings: self.rings | other.rings, stuck: self.stuck | other.stuck, news: self.news | other.news }
    }
}

impl WatchedRings {
    /// No thread rings it, nor ever will.
    fn is_over(&self) -> bool {
        let look = self.kick.look();
        look.is_retired() && !look.is_under_way()
    }

    fn look(&mut self) -> RingsSeen {
        let before = std::mem::replace(&mut self.seen, self.kick.look());
        let under_way = self.seen.is_under_way();
        let mut seen = RingsSeen { rings: under_way || self.seen != before, ..RingsSeen::default() };
        if under_way && !self.seen.is_retired() && self.seen == before && self.kick.is_full() {
            self.kick.refuse();
            self.seen = self.kick.look();
            seen.news = true;
        }
        if self.seen.is_under_way() && self.seen.is_retired() {
            self.kick.free();
            seen.stuck = true;
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use napier_core::memif::times::{LOOKS_IDLE, RINGING};

    use super::*;
    use crate::kick::new_eventfd;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A guard at work, who tells by a channel; it stops when this is dropped.
    struct OnDuty {
        guard: Arc<Guard>,
        thread: Option<std::thread::JoinHandle<()>>,
        told: mpsc::Receiver<()>,
    }

    impl OnDuty {
        fn new() -> Self {
            let guard = Arc::new(Guard::new());
            let (tell, told) = mpsc::channel();
            let thread = std::thread::spawn({
                let guard = guard.clone();
                move || {
                    guard.run(|| {
                        let _ = tell.send(());
                    });
                }
            });
            Self { guard, thread: Some(thread), told }
        }
    }

    impl Drop for OnDuty {
        fn drop(&mut self) {
            self.guard.stop();
            self.thread.take().expect("joined once").join().expect("no panic");
        }
    }

    fn ring_in_a_thread(kick: &Arc<Kick>) -> mpsc::Receiver<()> {
        let (done, is_done) = mpsc::channel();
        let kick = kick.clone();
        std::thread::spawn(move || {
            kick.ring();
            let _ = done.send(());
        });
        is_done
    }

    /// The peer fills the eventfd and clears its non-blocking flag, which both sides share.
    #[test]
    fn a_thread_that_is_made_to_wait_is_freed_and_the_peer_is_told_of() {
        let ours = new_eventfd().expect("eventfd");
        let theirs = rustix::io::dup(&ours).expect("descriptors");
        let duty = OnDuty::new();
        let kick = Arc::new(Kick::new(ours, duty.guard.bell().clone()));
        duty.guard.watch(&kick);
        // The guard may sleep by now, or not.
        std::thread::sleep(Duration::from_nanos(RINGING.ns) * (LOOKS_IDLE + 20));
        rustix::io::ioctl_fionbio(&theirs, false).expect("an eventfd");
        rustix::io::write(&theirs, &(u64::MAX - 1).to_ne_bytes()).expect("room");
        ring_in_a_thread(&kick).recv_timeout(PATIENCE).expect("the ringer is back");
        duty.told.recv_timeout(PATIENCE).expect("the peer is found out");
        assert!(kick.is_refused());
        // No thread waits for it again.
        rustix::io::ioctl_fionbio(&theirs, true).expect("an eventfd");
        let _ = rustix::io::write(&theirs, &(u64::MAX - 1).to_ne_bytes());
        rustix::io::ioctl_fionbio(&theirs, false).expect("an eventfd");
        kick.ring();
    }

    /// As when the peer closes its socket while a thread waits: the control thread retires the kicks and waits for them.
    #[test]
    fn a_ringer_of_a_retired_kick_is_freed_while_the_peer_fills_it_again_and_again() {
        let ours = new_eventfd().expect("eventfd");
        let theirs = Arc::new(rustix::io::dup(&ours).expect("descriptors"));
        let duty = OnDuty::new();
        let kick = Arc::new(Kick::new(ours, duty.guard.bell().clone()));
        duty.guard.watch(&kick);
        rustix::io::ioctl_fionbio(&*theirs, false).expect("an eventfd");
        rustix::io::write(&*theirs, &(u64::MAX - 1).to_ne_bytes()).expect("room");
        let over = Arc::new(AtomicBool::new(false));
        let fillers: Vec<_> = (0..4)
            .map(|_| {
                let (theirs, over) = (theirs.clone(), over.clone());
                std::thread::spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        let _ = rustix::io::write(&*theirs, &(u64::MAX - 1).to_ne_bytes());
                    }
                })
            })
            .collect();
        let done = ring_in_a_thread(&kick);
        // On a loaded machine the guard may free the ringer before any thread sees it wait.
        let mut back = false;
        while !kick.look().is_under_way() && !back {
            std::thread::yield_now();
            back = done.try_recv().is_ok();
        }
        kick.retire();
        duty.guard.look_now();
        if !back {
            done.recv_timeout(PATIENCE).expect("the ringer is back");
        }
        assert!(!kick.look().is_under_way() && kick.look().is_retired());
        // The fillers wait for each other by now.
        over.store(true, Ordering::Relaxed);
        while fillers.iter().any(|filler| !filler.is_finished()) {
            kick.free();
            std::thread::yield_now();
        }
        duty.guard.forget_retired();
        assert!(duty.guard.lock().is_empty(), "it is over");
    }

    #[test]
    fn a_slow_ringer_is_left_alone() {
        let duty = OnDuty::new();
        let kick = Arc::new(Kick::new(new_eventfd().expect("eventfd"), duty.guard.bell().clone()));
        duty.guard.watch(&kick);
        let _ = kick.word().begin();
        duty.guard.look_now();
        std::thread::sleep(Duration::from_nanos(RINGING.ns) * 20);
        kick.word().end();
        assert!(!kick.is_refused() && duty.told.try_recv().is_err());
    }
}
