//! The only place that names atomics and `UnsafeCell`: std in a normal build, loom under `--cfg loom`.
//!
//! Words that live in mapped memory cannot be loom's, so they have names of their own ([`MappedU16`] and so on) and
//! the ring protocol is generic over where its words live.
//!
//! Each fence and each ordering that a proof leans on is named by a `Point`. In a normal build that costs nothing;
//! under loom a test can weaken one point and must then see the model fail.

pub(crate) use core::sync::atomic::AtomicU32 as StaticU32;
pub use core::sync::atomic::{AtomicU16 as MappedU16, AtomicU32 as MappedU32, AtomicU64 as MappedU64};

#[cfg(not(loom))]
use core::sync::atomic::fence;
#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
pub use loom::cell::{MutPtr, UnsafeCell};
#[cfg(loom)]
use loom::sync::atomic::fence;
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// A fence or an ordering that a loom model can weaken.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Point {
    StateUpdate,
    ExclusiveLeave,
    FlagTake,
    FlagPass,
    DoorbellArm,
    DoorbellRing,
    ListPush,
    ListTake,
    SpscPublish,
    RingPublishFence,
    RingUnmaskFence,
    RingHeadStore,
    RingTailStore,
    SectionEnter,
    SectionWait,
    FlushLook,
    WakeLook,
    CombiningNote,
    CombiningRead,
    CombiningLeave,
    InboxPush,
    InboxTake,
    TableInsert,
    TableClose,
    XskPublish,
    XskRelease,
    XskWakeLook,
    PublishedRead,
    PublishedReplace,
    PublishedEnd,
    PublishedDebt,
    KickEnd,
    KickLook,
    SleeperAnnounce,
    HandOnLook,
    LineMove,
    HoldClose,
    HoldEnd,
    IrqCount,
    IrqTimer,
    IrqRule,
    DemandChange,
    DemandNews,
    OnceWant,
    ReadyRelease,
    TimerArm,
    TimerLook,
    AlarmAsk,
    AlarmBegin,
    AlarmLook,
    RemainderBegin,
    RemainderLook,
    RemainderSettle,
    OutboxHead,
    OutboxLook,
    OutboxTail,
    OutboxTailStore,
    OutboxTell,
    OutboxSleep,
}

/// A full fence, unless a loom test weakened `point`.
#[inline(always)]
pub(crate) fn full_fence(point: Point) {
    fence_of(point, Ordering::SeqCst);
}

/// A fence with `ordering`, unless a loom test weakened `point`.
#[inline(always)]
#[expect(clippy::disallowed_methods, reason = "the one place for fences: all have a point")]
pub(crate) fn fence_of(point: Point, ordering: Ordering) {
    if !weakened(point) {
        fence(ordering);
    }
}

/// `ordering`, unless a loom test weakened `point`: then `Relaxed`.
#[inline(always)]
pub(crate) fn order(point: Point, ordering: Ordering) -> Ordering {
    if weakened(point) { Ordering::Relaxed } else { ordering }
}

/// The newest value of `word`, with Acquire; a load may return an older one, and does if a loom test weakened `point`.
#[inline(always)]
pub(crate) fn newest(word: &AtomicU32, point: Point) -> u32 {
    if weakened(point) { word.load(Ordering::Relaxed) } else { word.fetch_or(0, Ordering::Acquire) }
}

/// Puts `new` in the place of what `word` is, which is the answer: one step, Relaxed, but two if a loom test weakened `point`.
#[inline(always)]
pub(crate) fn replace(word: &AtomicU32, new: u32, point: Point) -> u32 {
    if !weakened(point) {
        return word.swap(new, Ordering::Relaxed);
    }
    let old = word.load(Ordering::Relaxed);
    word.store(new, Ordering::Relaxed);
    old
}

/// As [`replace`] for a long word, AcqRel.
#[inline(always)]
pub(crate) fn replace_long(word: &AtomicU64, new: u64, point: Point) -> u64 {
    if !weakened(point) {
        return word.swap(new, Ordering::AcqRel);
    }
    let old = word.load(Ordering::Acquire);
    word.store(new, Ordering::Release);
    old
}

#[cfg(not(loom))]
#[inline(always)]
const fn weakened(_point: Point) -> bool {
    false
}

// All threads of a loom model run on the thread that started it, so a thread-local reaches exactly one model.
#[cfg(loom)]
std::thread_local! {
    static WEAKENED: core::cell::Cell<Option<Point>> = const { core::cell::Cell::new(None) };
}

#[cfg(loom)]
fn weakened(point: Point) -> bool {
    WEAKENED.with(|weak| weak.get() == Some(point))
}

/// Weakens one point for the models that this thread runs from now on.
#[cfg(all(test, loom))]
pub(crate) fn weaken(point: Option<Point>) {
    WEAKENED.with(|weak| weak.set(point));
}

/// A value on cache lines of its own: what one side writes does not slow the other side's reads.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct CacheLine<T>(pub(crate) T);

#[cfg(not(loom))]
mod cell {
    /// `core::cell::UnsafeCell` with the shape of loom's.
    pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// Wraps a value.
        pub const fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }

        /// A pointer to the value; loom checks that nothing else is alive beside it.
        pub const fn get_mut(&self) -> MutPtr<T> {
            MutPtr(self.0.get())
        }

        /// Unwraps the value.
        pub fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }

    /// A pointer to the inside of an [`UnsafeCell`].
    pub struct MutPtr<T>(*mut T);

    impl<T> MutPtr<T> {
        /// The value.
        ///
        /// # Safety
        ///
        /// The cell must outlive the reference, and no other reference to the value may be alive meanwhile.
        #[expect(clippy::mut_from_ref, reason = "loom's signature; the contract forbids a second reference")]
        pub const unsafe fn deref(&self) -> &mut T {
            // SAFETY: the pointer comes from a live cell and is unique: this function's contract.
            unsafe { &mut *self.0 }
        }
    }
}
#[cfg(not(loom))]
pub use cell::{MutPtr, UnsafeCell};
