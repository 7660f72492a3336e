//! Who polls an instance, and counters by who did.

use core::fmt;
use core::ops::{Index, IndexMut};

/// Who polls, or runs a queueing discipline.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum PollContext {
    /// A softirq: at the end of an interrupt, where bottom halves are enabled again, or in a program's thread that raised it.
    Softirq,
    /// A softirq in the CPU's thread at normal priority, `ksoftirqd`.
    Ksoftirqd,
    /// The instance's own thread, or a worker of the pool.
    Kthread,
    /// The instance's own thread in busy-poll mode.
    KthreadBusy,
    /// A thread of a group of CPUs.
    Group,
    /// An application thread: it busy polls, in its loop or at its stop, or it sends.
    User,
}

impl PollContext {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Softirq, Self::Ksoftirqd, Self::Kthread, Self::KthreadBusy, Self::Group, Self::User];

    /// The word for it in files and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Softirq => "softirq",
            Self::Ksoftirqd => "ksoftirqd",
            Self::Kthread => "kthread",
            Self::KthreadBusy => "kthread-busy",
            Self::Group => "group",
            Self::User => "user",
        }
    }
}

/// One value for each [`PollContext`].
#[derive(Copy, Clone, PartialEq, Eq, Default)]
pub struct PerContext<T>([T; PollContext::ALL.len()]);

impl<T> PerContext<T> {
    /// Of what `value` says of each.
    pub fn from_fn(value: impl FnMut(PollContext) -> T) -> Self {
        Self(PollContext::ALL.map(value))
    }
}

/// With the names of the contexts.
impl<T: fmt::Debug> fmt::Debug for PerContext<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(PollContext::ALL.into_iter().map(PollContext::name).zip(&self.0)).finish()
    }
}

impl PerContext<u64> {
    /// Of all together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl<T> Index<PollContext> for PerContext<T> {
    type Output = T;

    #[inline]
    fn index(&self, context: PollContext) -> &T {
        &self.0[context as usize]
    }
}

impl<T> IndexMut<PollContext> for PerContext<T> {
    #[inline]
    fn index_mut(&mut self, context: PollContext) -> &mut T {
        &mut self.0[context as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_place_of_its_own() {
        let mut calls = PerContext::<u64>::default();
        PollContext::ALL.into_iter().for_each(|context| calls[context] = context.name().len() as u64);
        assert_eq!((calls[PollContext::User], calls[PollContext::KthreadBusy], calls.total()), (4, 12, 44));
        assert_eq!(PerContext::from_fn(|context| context.name().len() as u64), calls);
    }

    #[test]
    fn counts_are_shown_by_name() {
        let shown = alloc::format!("{:?}", PerContext::<u64>::default());
        assert!(PollContext::ALL.into_iter().all(|context| shown.contains(context.name())), "{shown}");
    }
}
