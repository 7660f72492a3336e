//! In which context a thread runs, as softirqs count it (`in_serving_softirq()` and `smp_processor_id()` in the kernel).
//!
//! A context is a value: what decides by it takes it as a parameter, the first one. Two things have it from the calling thread
//! ([`Context::current`]), for a program's thread calls without one: the functions that sockets, event contexts and handles call,
//! and those that a transmit path calls in the midst of whatever sends.
//!
//! | | set by | until |
//! |---|---|---|
//! | thread of a CPU | the softirq CPU's thread, as it begins | the thread ends |
//! | kicks only | a thread of the engine with another duty, as it begins; who holds a lock ([`Context::kick_only`]) | the thread or the scope ends |
//! | serves a CPU | a program's thread that sleeps as its CPU's softirq; a group's thread that runs what is due | the scope ends |
//! | handles a CPU | who runs the poll list, or polls one instance, as of that CPU | the scope ends |
//! | the flags | see [`Context`] | the scope ends |

use std::marker::PhantomData;
use std::ops::Deref;

use napier_sys::current;

/// A context, in one word. A program's thread that is in no softirq begins with none of it.
///
/// | bits | |
/// |---|---|
/// | 0..16 | 1 + the softirq CPU whose thread this is |
/// | 16..32 | 1 + the softirq CPU that this thread serves while it sleeps, or between its own work |
/// | 32..48 | 1 + the softirq CPU whose poll list, or an instance as of that CPU, this thread is running now |
/// | 48.. | flags |
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct Context(u64);

const THREAD: u32 = 0;
const SERVES: u32 = 16;
const HANDLES: u32 = 32;
const CPU_BITS: u64 = 0xffff;

/// The thread works off what the softirq left over.
const KSOFTIRQD: u64 = 1 << 48;
/// The thread does of a softirq what it raised itself (`deliver/softirq/inline.rs`), and runs no list.
const INLINE: u64 = 1 << 49;
/// The thread leaves what it raises to others.
const KICKS_ONLY: u64 = 1 << 50;
/// Interrupts that this thread takes are not followed by moderation: it is about to sleep.
const UNMODERATED: u64 = 1 << 51;
/// The thread came for packets that moderation held back: it polls as long as one softirq run may.
const POLLS_ON: u64 = 1 << 52;

impl Context {
    /// Of a program's thread that is in no softirq.
    pub(crate) const PROGRAM: Self = Self(0);

    /// That of the calling thread.
    #[inline]
    pub(crate) fn current() -> Self {
        Self(current::context())
    }

    /// Of the thread of softirq CPU `cpu`.
    pub(crate) const fn of_thread(cpu: u32) -> Self {
        Self::PROGRAM.with_cpu(THREAD, Some(cpu))
    }

    /// The calling thread runs in this context, for as long as it lives or until it begins another one.
    pub(crate) fn begin(self) {
        current::set_context(self.0);
    }

    /// The calling thread raises softirqs for others to run, for as long as it lives: one of the engine's with a duty of its own.
    pub(crate) fn begin_duty() {
        Self(Self::current().0 | KICKS_ONLY).begin();
    }

    #[inline]
    const fn cpu(self, of: u32) -> Option<u32> {
        ((self.0 >> of & CPU_BITS) as u32).checked_sub(1)
    }

    const fn with_cpu(self, of: u32, cpu: Option<u32>) -> Self {
        let bits = match cpu {
            Some(cpu) => {
                assert!((cpu as u64) < CPU_BITS, "softirq CPU number does not fit a context");
                cpu as u64 + 1
            }
            None => 0,
        };
        Self(self.0 & !(CPU_BITS << of) | bits << of)
    }

    /// The softirq CPU whose thread this is.
    #[inline]
    pub(crate) const fn thread_of(self) -> Option<u32> {
        self.cpu(THREAD)
    }

    /// The softirq CPU whose poll list, or an instance as of that CPU, is being run.
    #[inline]
    pub(crate) const fn handles(self) -> Option<u32> {
        self.cpu(HANDLES)
    }

    /// The softirq CPU that the thread counts as being on, if the processor that it runs on says nothing of that.
    #[inline]
    pub(crate) fn softirq_cpu(self) -> Option<u32> {
        self.handles().or(self.thread_of()).or(self.cpu(SERVES))
    }

    /// Whether this thread looks at what is raised and armed on softirq CPU `index` before it sleeps.
    #[inline]
    pub(crate) fn looks_after(self, index: u32) -> bool {
        self.thread_of() == Some(index) || self.cpu(SERVES) == Some(index)
    }

    /// Whether the thread serves a CPU other than by being its thread.
    #[inline]
    pub(crate) const fn serves(self) -> bool {
        self.cpu(SERVES).is_some()
    }

    /// Whether the thread works off what the softirq left over.
    #[inline]
    pub(crate) const fn is_ksoftirqd(self) -> bool {
        self.0 & KSOFTIRQD != 0
    }

    /// Whether the thread does of a softirq what it raised itself.
    #[inline]
    pub(crate) const fn is_inline(self) -> bool {
        self.0 & INLINE != 0
    }

    /// Whether the thread leaves what it raises to others.
    #[inline]
    pub(crate) const fn kicks_only(self) -> bool {
        self.0 & KICKS_ONLY != 0
    }

    /// Whether interrupts are taken without moderation.
    #[inline]
    pub(crate) const fn is_unmoderated(self) -> bool {
        self.0 & UNMODERATED != 0
    }

    /// Whether the thread polls as long as one softirq run may.
    #[inline]
    pub(crate) const fn polls_on(self) -> bool {
        self.0 & POLLS_ON != 0
    }

    /// Whether the thread is in the midst of a softirq.
    #[inline]
    pub(crate) const fn in_softirq(self) -> bool {
        self.0 & (CPU_BITS << HANDLES | INLINE) != 0
    }

    /// Whether the thread polls what it raises: a program's, that is not in a softirq already.
    #[inline]
    pub(crate) const fn may_run_inline(self) -> bool {
        self.0 & (CPU_BITS << THREAD | CPU_BITS << HANDLES | INLINE | KICKS_ONLY) == 0
    }

    /// The poll list of `cpu` is run.
    #[inline]
    pub(crate) fn handle(self, cpu: u32) -> Scope {
        self.change(self.with_cpu(HANDLES, Some(cpu)))
    }

    /// One instance is polled as of `cpu`, by the thread that raised it.
    #[inline]
    pub(crate) fn inline_on(self, cpu: u32) -> Scope {
        self.change(Self(self.with_cpu(HANDLES, Some(cpu)).0 | INLINE))
    }

    /// What the thread raised itself is done, without a poll.
    #[inline]
    pub(crate) fn inline(self) -> Scope {
        self.change(Self(self.0 | INLINE))
    }

    /// What waits for another thread is done here: raised as of `other`, or polled right here if there is none.
    pub(crate) fn take_over(self, other: Option<u32>) -> Scope {
        let flags = if other.is_some() { self.0 | INLINE } else { self.0 & !INLINE };
        self.change(Self(flags & !KICKS_ONLY).with_cpu(HANDLES, other))
    }

    /// `cpu` is served.
    #[inline]
    pub(crate) fn serve(self, cpu: u32) -> Scope {
        self.change(self.with_cpu(SERVES, Some(cpu)))
    }

    /// What the softirq left over is worked off.
    pub(crate) fn as_ksoftirqd(self) -> Scope {
        self.change(Self(self.0 | KSOFTIRQD))
    }

    /// What is raised is left to others: the thread holds a lock, or is not to be kept.
    pub(crate) fn kick_only(self) -> Scope {
        self.change(Self(self.0 | KICKS_ONLY))
    }

    /// Interrupts are not followed by moderation.
    #[inline]
    pub(crate) fn unmoderated(self) -> Scope {
        self.change(Self(self.0 | UNMODERATED))
    }

    /// The thread polls as long as one softirq run may.
    #[inline]
    pub(crate) fn poll_on(self) -> Scope {
        self.change(Self(self.0 | POLLS_ON))
    }

    #[inline]
    fn change(self, now: Self) -> Scope {
        debug_assert!(self == Self::current(), "a context that is not the thread's");
        now.begin();
        Scope { now, before: self, here_only: PhantomData }
    }
}

/// While it lives the calling thread runs in another context; then, also after a panic, in the one before.
#[must_use]
pub(crate) struct Scope {
    now: Context,
    before: Context,
    /// Ends on the thread where it began.
    here_only: PhantomData<*const ()>,
}

impl Deref for Scope {
    type Target = Context;

    #[inline]
    fn deref(&self) -> &Context {
        &self.now
    }
}

impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        self.before.begin();
    }
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
