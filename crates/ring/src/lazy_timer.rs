//! One kernel timer for many expiries, set as rarely as that is safe.

use crate::sync::{AtomicBool, AtomicU64, Ordering, Point, full_fence};

/// What is known of a kernel timer on which a thread sleeps, by those that arm expiries which it is to serve.
///
/// Who arms: write the expiry down, and unless the sleeper [will look](Self::sleeper_will_look) or the timer does not
/// [fire after](Self::fires_after) it, [set](Self::set) the timer. Who is about to sleep: [`sleeps`](Self::sleeps), then
/// [`before_look`](Self::before_look) and a look at all expiries, and set the timer to the earliest. The thread that set it to
/// the earliest looks once more, as before, until nothing earlier has come.
///
/// Those that set it do so one at a time. All times are nanoseconds of one clock.
pub struct LazyTimer {
    /// When the timer fires, [`NEVER_NS`](Self::NEVER_NS), or `SETTING_NS`.
    programmed_ns: AtomicU64,
    /// The sleeper runs, and looks at every expiry before it sleeps.
    awake: AtomicBool,
}

/// A thread is about to set the timer: no thread can rely on it, for that thread may have lost its processor. Later than all
/// that can be armed.
const SETTING_NS: u64 = LazyTimer::NEVER_NS - 1;

impl LazyTimer {
    /// The expiry of a timer that is not set.
    pub const NEVER_NS: u64 = u64::MAX;

    /// The timer is not set, and the sleeper runs.
    #[must_use]
    pub fn new() -> Self {
        Self { programmed_ns: AtomicU64::new(Self::NEVER_NS), awake: AtomicBool::new(true) }
    }

    /// Whether the sleeper runs and will see what the caller armed before it sleeps.
    #[must_use]
    #[inline]
    pub fn sleeper_will_look(&self) -> bool {
        // Pairs with the fence in `before_look`: either our expiry is seen there, or what was published before it (that
        // the thread goes to sleep, what is programmed) is seen here and in `fires_after`.
        full_fence(Point::TimerArm);
        self.awake.load(Ordering::SeqCst)
    }

    /// Whether the timer fires after `at_ns`, if it does at all.
    #[must_use]
    #[inline]
    pub fn fires_after(&self, at_ns: u64) -> bool {
        self.programmed_ns.load(Ordering::SeqCst) > at_ns
    }

    /// How far from `at_ns` the timer fires.
    #[must_use]
    #[inline]
    pub fn off_by_ns(&self, at_ns: u64) -> u64 {
        self.programmed_ns.load(Ordering::SeqCst).abs_diff(at_ns)
    }

    /// Before a look at all expiries. What was programmed, and whether the thread goes to sleep, is said before this.
    #[inline]
    pub fn before_look(&self) {
        // Pairs with the fence in `sleeper_will_look`.
        full_fence(Point::TimerLook);
    }

    /// The sleeper is about to sleep: it looks at all expiries after this.
    #[inline]
    pub fn sleeps(&self) {
        self.awake.store(false, Ordering::SeqCst);
    }

    /// The sleeper has woken up.
    #[inline]
    pub fn woken(&self) {
        self.awake.store(true, Ordering::SeqCst);
    }

    /// Sets the timer to `at_ns`, which `program` does.
    #[inline]
    pub fn set(&self, at_ns: u64, program: impl FnOnce()) {
        self.programmed_ns.store(SETTING_NS, Ordering::SeqCst);
        program();
        // Not if it has fired meanwhile.
        let _ = self.programmed_ns.compare_exchange(SETTING_NS, at_ns, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// The timer fired: it is set no longer.
    #[inline]
    pub fn fired(&self) {
        self.programmed_ns.store(Self::NEVER_NS, Ordering::SeqCst);
    }
}

impl Default for LazyTimer {
    fn default() -> Self {
        Self::new()
    }
}
